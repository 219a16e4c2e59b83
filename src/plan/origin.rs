//! Where findings come from: a change brought them, or they were there before.
//!
//! The problem: who mends a table wants to know which change broke an item, and which faults are as old as the table. What is
//! derived cannot tell, for it is a function of the item as it is now. So it is noted beside it, where nothing is compared:
//! in the ledger row ([`LedgerRow::introduced`]), and as `Origin` in the finding's item, which its digest leaves out.
//!
//! The contract:
//! - A finding is **introduced** by the record whose old image does not have it and whose new image does. Where a record has no old
//!   image, the ledger row says what was before, if it was derived under the same model.
//! - Every other one is **pre-existing**: found by a first start, a reconcile or a changed model, or there in the old image.
//! - It stays so for as long as the finding stands, whatever else of the item changes. A pre-existing one becomes introduced only when
//!   the record that brought it is read after all: the item was read ahead of the stream.
//! - What comes and goes is counted in the totals of the item's entity, as `Introduced_<code>` and `Resolved_<code>`, by the transaction
//!   that moves the ledger row on: a second delivery counts nothing. They count what happened, so they are no sums over the ledger rows, and
//!   nobody can compute them anew.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::model::change::SequenceNumber;
use crate::model::decimal::Decimal;
use crate::model::derived::{Contribution, Derived, Measures, Row, RowKind, TOTALS};
use crate::model::key::TableKey;
use crate::model::time::timestamp;
use crate::model::value::{Item, MARKER, ORIGIN, Text, Value, joined};
use crate::plan::delta::{Addition, Delta, RowPut, same};
use crate::plan::ledger::{Applied, AppliedRow, LedgerRow, row_marker};

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

/// One record on the way to the state that is applied, as far as findings go. Their rows' keys stand for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub sequence: SequenceNumber,
    /// When the change was written.
    pub at: Option<DateTime<Utc>>,
    /// Those of the item before the change; `None`: the record does not say.
    pub was: Option<Vec<TableKey>>,
    /// Those of the item after it; `None`: likewise.
    pub is: Option<Vec<TableKey>>,
    /// The item was not there before.
    pub inserts: bool,
}

impl Step {
    fn introduces(&self, key: &TableKey) -> Introduced {
        Introduced { key: key.clone(), sequence: self.sequence.clone(), at: self.at.map(|at| timestamp(at).into()) }
    }
}

/// Codes of findings that come and go with one commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turnover {
    /// Brought by a change.
    pub introduced: Vec<Text>,
    /// They stand no more.
    pub resolved: Vec<Text>,
}

/// Keys of the findings' rows.
pub fn keys(rows: &[Row]) -> Vec<TableKey> {
    rows.iter().filter(|row| row.kind == RowKind::Finding).map(|row| row.key.clone()).collect()
}

/// Keys of the findings' rows that are applied.
pub fn applied_keys(applied: &Applied) -> Vec<TableKey> {
    findings(applied).map(|row| row.key.clone()).collect()
}

/// True for counts of what happened, which are no sums over the ledger rows.
pub fn is_history(marker: &str, measure: &str) -> bool {
    marker.strip_prefix("aggregate/") == Some(TOTALS)
        && [INTRODUCED_PREFIX, RESOLVED_PREFIX].iter().any(|prefix| measure.starts_with(prefix))
}

impl Delta {
    /// Notes where the findings come from, and counts those that come and go. `derived` is what this delta applies, `steps` are the
    /// records that are new to the ledger row `before`, in their order. `own`: of what they do not show, the last of them
    /// is the cause, as of what the database refuses.
    pub fn trace(&mut self, before: Option<&LedgerRow>, derived: Option<&Derived>, steps: &[Step], own: bool) {
        let nothing = Applied::default();
        let stood: Vec<&AppliedRow> = findings(before.map_or(&nothing, |row| &row.applied)).collect();
        let stand: Vec<AppliedRow> = findings(&self.after.applied).cloned().collect();
        if stood.is_empty() && stand.is_empty() {
            return;
        }
        let known: BTreeMap<&TableKey, &Introduced> =
            before.iter().flat_map(|row| &row.introduced).map(|known| (&known.key, known)).collect();
        let brought = if stand.is_empty() { BTreeMap::new() } else { self.brought(before, &stood, &stand, steps, own) };
        let of = |row: &AppliedRow| brought.get(&row.key).or_else(|| known.get(&row.key).copied());
        let mut turnover = Turnover::default();
        let mut moved = Vec::new();
        for row in &stand {
            let (was, is) = (known.get(&row.key).copied(), of(row));
            if was == is {
                continue;
            }
            turnover.introduced.push(row.name.clone());
            if was.is_some() {
                // It has gone and come again since.
                turnover.resolved.push(row.name.clone());
            }
            moved.push(row.key.clone());
        }
        let gone = stood.iter().filter(|row| !stand.iter().any(|stands| stands.key == row.key));
        turnover.resolved.extend(gone.map(|row| row.name.clone()));
        self.after.introduced = stand.iter().filter_map(of).cloned().collect();
        self.settled &= before.is_some_and(|row| same(row, &self.after));
        self.mark(derived, &moved);
        self.count(before, derived, turnover);
    }

    /// What the records brought of what stands now.
    fn brought(
        &self,
        before: Option<&LedgerRow>,
        stood: &[&AppliedRow],
        stand: &[AppliedRow],
        steps: &[Step],
        own: bool,
    ) -> BTreeMap<TableKey, Introduced> {
        let mut brought: BTreeMap<TableKey, Introduced> = BTreeMap::new();
        let stood: Vec<TableKey> = stood.iter().map(|row| row.key.clone()).collect();
        // What was found under another model, or beside what the database refused, does not say what a change brings.
        let is_telling = before.is_some_and(|row| row.model == self.after.model && row.quarantined.is_none());
        let mut now: Option<&[TableKey]> = is_telling.then_some(&stood);
        for step in steps {
            now = step.was.as_deref().or(now);
            let is = step.is.as_deref();
            if let (Some(was), Some(is)) = (now, is) {
                let new = is.iter().filter(|key| !was.contains(*key));
                brought.extend(new.map(|key| (key.clone(), step.introduces(key))));
            }
            if let Some(is) = is {
                brought.retain(|key, _| is.contains(key));
            }
            now = is;
        }
        let is_known = match before {
            Some(row) => row.model == self.after.model,
            None => steps.first().is_some_and(|step| step.inserts),
        };
        if let Some(last) = steps.last().filter(|_| own && is_known) {
            let is_shown = |key: &TableKey| last.is.as_ref().is_some_and(|is| is.contains(key));
            let unseen = stand.iter().filter(|row| !stood.contains(&row.key) && !is_shown(&row.key));
            brought.extend(unseen.map(|row| (row.key.clone(), last.introduces(&row.key))));
        }
        brought
    }

    /// Writes into the findings' items where they come from. `moved` are those that are written for that alone.
    fn mark(&mut self, derived: Option<&Derived>, moved: &[TableKey]) {
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

    /// Adds what comes and goes to the totals of the entities that it was and is counted for.
    fn count(&mut self, before: Option<&LedgerRow>, derived: Option<&Derived>, turnover: Turnover) {
        let is = derived.and_then(|derived| derived.counts.iter().find(|count| count.aggregate == TOTALS));
        let was = before.and_then(|row| row.applied.counts.iter().find(|count| count.aggregate == TOTALS));
        let (is_key, was_key) = (is.map(|count| count.key.clone()), was.map(|count| count.key.clone()));
        self.add(is_key, is, INTRODUCED_PREFIX, &turnover.introduced);
        self.add(was_key, is, RESOLVED_PREFIX, &turnover.resolved);
        self.turnover = turnover;
    }

    fn add(&mut self, key: Option<TableKey>, is: Option<&Contribution>, prefix: &str, codes: &[Text]) {
        let Some(key) = key.filter(|_| !codes.is_empty()) else { return };
        let at = self.adds.iter().position(|addition| addition.key == key).unwrap_or_else(|| {
            let group = is.filter(|count| count.key == key).map(|count| count.group.clone());
            let measures = Measures::new();
            self.adds.push(Addition { aggregate: TOTALS.into(), key, group, measures, renamed: false });
            self.adds.len() - 1
        });
        for code in codes {
            let number = codes.iter().filter(|other| *other == code).count();
            self.adds[at].measures.insert(joined(&[prefix, code]), Decimal::from(number as i64));
        }
    }
}

fn findings(applied: &Applied) -> impl Iterator<Item = &AppliedRow> {
    applied.rows.iter().filter(|row| row.kind == RowKind::Finding)
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
