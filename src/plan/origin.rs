//! Where findings come from: a change brought them, or they were there before.
//!
//! The problem: who mends a table wants to know which change broke an item, and which faults are as old as the table. What is
//! derived cannot tell, for it is a function of the item as it is now. So it is noted beside it, where nothing is compared:
//! in the ledger row ([`LedgerRow::introduced`]), and as `Origin` in the finding's item, which its digest leaves out.
//!
//! The contract:
//! - A finding is **introduced** by the record whose old image does not have it and whose new image does. Where a record has no old
//!   image, the ledger row says what was before, if it was derived under the same model: then it may be a later one than the first.
//! - Every other one is **pre-existing**: found by a first start, a reconcile or a changed model, or there in the old image.
//! - It stays so for as long as the finding stands, whatever else of the item changes. What was found ahead of the stream is
//!   pre-existing, too, though the record that brought it may come later: nothing is blamed on a change that is not known to be its cause.
//! - What comes and goes is counted in the totals of the item's entity, as `Introduced_<code>` and `Resolved_<code>`, by the transaction
//!   that moves the ledger row on: a second delivery counts nothing, and how records are cut into batches does not matter. They count what happened, so they are no sums over the ledger rows, and
//!   nobody can compute them anew.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::model::change::SequenceNumber;
use crate::model::decimal::Decimal;
use crate::model::derived::{Derived, Measures, RowKind, TOTALS};
use crate::model::key::TableKey;
use crate::model::time::timestamp;
use crate::model::value::{Item, MARKER, ORIGIN, Text, Value, joined};
use crate::plan::delta::{Addition, Delta, RowPut, same};
use crate::plan::ledger::{Applied, LedgerRow, row_marker};

/// In front of a code, the count of its findings that changes brought.
pub const INTRODUCED_PREFIX: &str = "Introduced_";
/// In front of a code, the count of its findings that stand no more.
pub const RESOLVED_PREFIX: &str = "Resolved_";

/// A finding that a change brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduced {
    /// The finding's row.
    #[serde(rename = "k")]
    pub key: TableKey,
    /// The number of the change.
    #[serde(rename = "s")]
    pub sequence: SequenceNumber,
    /// When it was written, as its record says.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Text>,
}

/// Findings by their rows' keys.
pub type Marks = BTreeMap<TableKey, Mark>;

/// One finding, as far as it is counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    pub code: Text,
    /// Where it is counted; `None` in a table that can hold no derived items.
    totals: Option<Totals>,
}

#[derive(Debug, Clone, PartialEq)]
struct Totals {
    key: TableKey,
    /// The entity; `None` where only the ledger speaks, so that the totals are there already.
    group: Option<Item>,
}

/// One record on the way to the state that is applied, as far as findings go.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub sequence: SequenceNumber,
    /// When the change was written.
    pub at: Option<DateTime<Utc>>,
    /// Those of the item before the change; `None`: the record does not say.
    pub was: Option<Marks>,
    /// Those of the item after it; `None`: likewise.
    pub is: Option<Marks>,
    /// The item was not there before.
    pub inserts: bool,
}

impl Step {
    fn introduces(&self, key: &TableKey) -> Introduced {
        Introduced { key: key.clone(), sequence: self.sequence.clone(), at: self.at.map(|at| timestamp(at).into()) }
    }
}

/// Findings that come and go with one commit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turnover {
    /// Brought by a change.
    pub introduced: Vec<Mark>,
    /// They stand no more.
    pub resolved: Vec<Mark>,
}

/// The findings that are derived.
pub fn of_derived(derived: &Derived) -> Marks {
    let totals = derived.counts.iter().find(|count| count.aggregate == TOTALS);
    let totals = totals.map(|count| Totals { key: count.key.clone(), group: Some(count.group.clone()) });
    let findings = derived.rows.iter().filter(|row| row.kind == RowKind::Finding);
    findings.map(|row| (row.key.clone(), Mark { code: row.name.clone(), totals: totals.clone() })).collect()
}

/// The findings that are applied.
pub fn of_applied(applied: &Applied) -> Marks {
    let totals = applied.counts.iter().find(|count| count.aggregate == TOTALS);
    let totals = totals.map(|count| Totals { key: count.key.clone(), group: None });
    let findings = applied.rows.iter().filter(|row| row.kind == RowKind::Finding);
    findings.map(|row| (row.key.clone(), Mark { code: row.name.clone(), totals: totals.clone() })).collect()
}

/// True for counts of what happened, which are no sums over the ledger rows. No other measure is called so.
pub fn is_history(measure: &str) -> bool {
    [INTRODUCED_PREFIX, RESOLVED_PREFIX].iter().any(|prefix| measure.starts_with(prefix))
}

/// The findings of an item, followed from record to record.
struct Trail {
    /// What stands, and who brought it; `None`: nobody knows of.
    stands: BTreeMap<TableKey, (Mark, Option<Introduced>)>,
    turnover: Turnover,
}

impl Trail {
    /// What stands already was found before its record came, and stays what it is.
    fn bring(&mut self, key: &TableKey, mark: &Mark, step: &Step) {
        if let Entry::Vacant(place) = self.stands.entry(key.clone()) {
            place.insert((mark.clone(), Some(step.introduces(key))));
            self.turnover.introduced.push(mark.clone());
        }
    }

    fn take(&mut self, key: &TableKey) {
        if let Some((mark, _)) = self.stands.remove(key) {
            self.turnover.resolved.push(mark);
        }
    }

    /// Goes with the records. `now` is what stood before the first of them, if that is known.
    fn follow(&mut self, mut now: Option<Marks>, steps: &[Step], is_new: bool) {
        for (at, step) in steps.iter().enumerate() {
            now = step.was.clone().or(now);
            if let (Some(was), 0, true) = (&step.was, at, is_new) {
                // Nobody has looked at the item before: this is what it had.
                self.stands.extend(was.iter().map(|(key, mark)| (key.clone(), (mark.clone(), None))));
            }
            if let (Some(was), Some(is)) = (&now, &step.is) {
                was.keys().filter(|key| !is.contains_key(*key)).for_each(|key| self.take(key));
                let new = is.iter().filter(|(key, _)| !was.contains_key(*key));
                new.for_each(|(key, mark)| self.bring(key, mark, step));
            }
            now.clone_from(&step.is);
        }
    }
}

impl Delta {
    /// Notes where the findings come from, and counts those that come and go. `derived` is what this delta applies, `steps` are the
    /// records that are new to the ledger row `before`, in their order. `own`: of what they do not show, the last of them
    /// is the cause, as of what the database refuses.
    pub fn trace(&mut self, before: Option<&LedgerRow>, derived: Option<&Derived>, steps: &[Step], own: bool) {
        let stood = before.map(|row| of_applied(&row.applied)).unwrap_or_default();
        let stand = derived.map(of_derived).unwrap_or_default();
        let is_void = |marks: &Option<Marks>| marks.as_ref().is_none_or(Marks::is_empty);
        if stood.is_empty() && stand.is_empty() && steps.iter().all(|step| is_void(&step.was) && is_void(&step.is)) {
            return;
        }
        let known = |key: &TableKey| before?.introduced.iter().find(|known| known.key == *key).cloned();
        let stands = stood.iter().map(|(key, mark)| (key.clone(), (mark.clone(), known(key)))).collect();
        let mut trail = Trail { stands, turnover: Turnover::default() };
        let is_same_model = before.is_some_and(|row| row.model == self.after.model);
        // What was found under another model, or beside what the database refused, does not say what a change brings.
        let is_telling = is_same_model && before.is_some_and(|row| row.quarantined.is_none());
        trail.follow(is_telling.then(|| stood.clone()), steps, before.is_none());
        let is_known = is_same_model || (before.is_none() && steps.first().is_some_and(|step| step.inserts));
        let cause = steps.last().filter(|_| own && is_known);
        for (key, mark) in &stand {
            let is_shown = |step: &&Step| step.is.as_ref().is_some_and(|is| is.contains_key(key));
            match cause.filter(|step| !is_shown(step)) {
                _ if trail.stands.contains_key(key) => {}
                Some(step) => trail.bring(key, mark, step),
                None => _ = trail.stands.insert(key.clone(), (mark.clone(), known(key))),
            }
        }
        let gone: Vec<TableKey> = trail.stands.keys().filter(|key| !stand.contains_key(*key)).cloned().collect();
        gone.iter().for_each(|key| trail.take(key));
        let moved = |key: &TableKey, is: &Option<Introduced>| stood.contains_key(key) && known(key) != *is;
        let moved = trail.stands.iter().filter(|(key, (_, is))| moved(key, is)).map(|(key, _)| key.clone()).collect();
        self.after.introduced = trail.stands.into_values().filter_map(|(_, introduced)| introduced).collect();
        self.settled &= before.is_some_and(|row| same(row, &self.after));
        self.mark(derived, moved);
        self.count(INTRODUCED_PREFIX, &trail.turnover.introduced);
        self.count(RESOLVED_PREFIX, &trail.turnover.resolved);
        self.turnover = trail.turnover;
    }

    /// Writes into the findings' items where they come from. `moved` are those that are written for that alone.
    fn mark(&mut self, derived: Option<&Derived>, moved: Vec<TableKey>) {
        for row in derived.iter().flat_map(|derived| &derived.rows).filter(|row| moved.contains(&row.key)) {
            if !self.puts.iter().any(|put| put.key == row.key) {
                let marker = row_marker(row.kind, &row.name);
                self.puts.push(RowPut { key: row.key.clone(), item: row.item.clone(), marker });
            }
        }
        for put in self.puts.iter_mut().filter(|put| is_finding(&put.item)) {
            let introduced = self.after.introduced.iter().find(|introduced| introduced.key == put.key);
            put.item = Item::clone(&put.item).with(ORIGIN, origin(introduced)).into();
        }
    }

    /// Adds what comes or goes to the totals.
    fn count(&mut self, prefix: &str, marks: &[Mark]) {
        for Mark { code, totals } in marks {
            let Some(Totals { key, group }) = totals else { continue };
            let at = self.adds.iter().position(|addition| addition.key == *key).unwrap_or_else(|| {
                let (key, measures) = (key.clone(), Measures::new());
                self.adds.push(Addition {
                    aggregate: TOTALS.into(),
                    key,
                    group: group.clone(),
                    measures,
                    renamed: false,
                });
                self.adds.len() - 1
            });
            let count =
                marks.iter().filter(|mark| mark.code == *code && mark.totals.as_ref().is_some_and(|to| to.key == *key));
            self.adds[at].measures.insert(joined(&[prefix, code]), Decimal::from(count.count() as i64));
        }
    }
}

fn is_finding(item: &Item) -> bool {
    item.text(MARKER).is_some_and(|marker| marker.starts_with("finding/"))
}

/// The attribute `Origin` of a finding's item.
fn origin(introduced: Option<&Introduced>) -> Value {
    let mut origin = Item::new();
    match introduced {
        None => origin.insert("State", Value::text("pre-existing")),
        Some(Introduced { sequence, at, .. }) => {
            origin.insert("State", Value::text("introduced"));
            origin.insert("Seq", Value::text(sequence.padded()));
            if let Some(at) = at {
                origin.insert("At", Value::S(at.clone()));
            }
        }
    }
    Value::M(origin.0)
}

#[cfg(test)]
mod tests;
