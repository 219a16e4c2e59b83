//! From what was applied for one source item and what should be, to the difference.
//!
//! The difference is exact: additions are decimals of what should be minus what was, row by row and measure by measure.
//! It does not ask whether the model still declares what was applied: an aggregate that is gone from the model is
//! subtracted like any other.

use std::collections::btree_map::Entry;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::change::SequenceNumber;
use crate::model::decimal::{Decimal, DecimalError};
use crate::model::derived::{Derived, Measures};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::time::timestamp;
use crate::model::value::{Item, Text, Value};
use crate::plan::ledger::{Applied, AppliedCount, AppliedRow, LedgerRow, REVISION, revision, row_marker};
use crate::plan::origin::Turnover;
use crate::plan::state;
use crate::plan::write::{Condition, Op, TableRef, Write};

#[cfg(test)]
mod tests;

const SECONDS_A_DAY: i64 = 86_400;

/// All that one commit changes for one source item.
#[derive(Debug, Clone, PartialEq)]
pub struct Delta {
    /// Revision of the ledger row as it was read; `None`: there was none.
    pub revision: Option<u64>,
    /// The ledger row as it will be; names the source item.
    pub after: LedgerRow,
    /// True if the ledger row says the same before and after, but for the revision and the model's hash.
    pub settled: bool,
    pub adds: Vec<Addition>,
    pub puts: Vec<RowPut>,
    pub deletes: Vec<RowDelete>,
    /// Rows of the state table to be written with it: quarantine rows.
    pub extra: Vec<Write>,
    /// What comes and goes with it, once it has been [traced](Delta::trace).
    pub turnover: Turnover,
}

/// What the commit adds to one aggregate item. No measure is zero; there is none where only the name changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Addition {
    pub aggregate: Text,
    pub key: TableKey,
    /// The group's values; `None` if the item no longer belongs there, so that this only takes away.
    pub group: Option<Item>,
    pub measures: Measures,
    /// The ledger knows the aggregate item under another name: its marker has to be written.
    pub renamed: bool,
}

/// A derived row to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct RowPut {
    pub key: TableKey,
    pub item: Arc<Item>,
    /// The marker of the row that may stand there now.
    pub marker: Text,
}

/// A derived row to be taken away.
#[derive(Debug, Clone, PartialEq)]
pub struct RowDelete {
    pub key: TableKey,
    pub marker: Text,
}

/// One addition cannot express the difference: the old and the new value lie so far apart that it needs more than 38 digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{measure}` of `{key}` cannot change by so much in one step: {source}")]
pub struct SumTooWide {
    pub key: String,
    pub measure: String,
    pub source: DecimalError,
}

impl Delta {
    /// Nothing but the ledger row changes.
    pub fn is_empty(&self) -> bool {
        self.adds.is_empty() && self.puts.is_empty() && self.deletes.is_empty() && self.extra.is_empty()
    }

    pub fn source(&self) -> &TableKey {
        &self.after.source
    }

    /// The ledger row's write; its condition is that the row is still as it was read.
    pub fn ledger_write(&self) -> Write {
        let key = LedgerRow::key(self.source());
        Write {
            table: TableRef::State,
            op: Op::Put(self.after.to_item_at(&key).into()),
            key,
            condition: match self.revision {
                None => Condition::Absent,
                Some(read) => Condition::Equals(REVISION.into(), revision(read)),
            },
        }
    }

    /// Marks the item as given up, with a quarantine row of the same transaction that says why.
    pub fn quarantine(mut self, before: Option<&LedgerRow>, code: &str, reason: &str, now: DateTime<Utc>) -> Delta {
        self.after.quarantined = Some(reason.to_owned());
        // Given up again under another model is news: the row is written, so that it is not tried a third time.
        self.settled = before.is_some_and(|row| same(row, &self.after) && row.model == self.after.model);
        let key = state::quarantine_key(self.source(), self.after.sequence.as_ref());
        let mut item = key
            .to_item(&state::key_names())
            .with("Code", Value::text(code))
            .with("Reason", Value::text(reason))
            .with("Source", Value::text(self.source().to_string()))
            .with("At", Value::text(timestamp(now)));
        if let Some(sequence) = &self.after.sequence {
            item.insert("Seq", Value::text(sequence.padded()));
        }
        let row = Write { table: TableRef::State, key, op: Op::Put(item.into()), condition: Condition::Always };
        let earlier = before.and_then(release).filter(|earlier| earlier.key != row.key);
        self.extra = std::iter::once(row).chain(earlier).collect();
        self
    }

    /// Marks the item as one whose sums are left out: whoever compares its row with the item must know.
    pub fn without_sums(mut self, before: Option<&LedgerRow>, reason: &str) -> Delta {
        self.after.left_out = Some(reason.to_owned());
        self.settled = before.is_some_and(|row| same(row, &self.after));
        self
    }
}

/// The difference between `before` and `derived` (`None`: the source item is gone). `sequence` is the change's number;
/// `None` keeps the ledger's. `now` dates tombstones.
///
/// Errors: [`SumTooWide`], only where a sum changes by more than a number can say.
pub fn diff(
    model: &Model,
    before: Option<&LedgerRow>,
    source: &TableKey,
    derived: Option<&Derived>,
    sequence: Option<&SequenceNumber>,
    now: DateTime<Utc>,
) -> Result<Delta, SumTooWide> {
    let nothing = Applied::default();
    let was = before.map_or(&nothing, |row| &row.applied);
    let applied = derived.map(Applied::of).unwrap_or_default();
    let (puts, deletes) = row_changes(was, derived, &applied);
    let adds = additions(was, derived)?;
    let after = next_row(model, before, source, derived, applied, sequence, now);
    Ok(Delta {
        revision: before.map(|row| row.revision),
        settled: before.is_some_and(|row| same(row, &after)),
        after,
        adds,
        puts,
        deletes,
        extra: before.and_then(release).into_iter().collect(),
        turnover: Turnover::default(),
    })
}

/// The delete of the quarantine row by which the item was given up: rows are there for what is in quarantine now.
fn release(before: &LedgerRow) -> Option<Write> {
    before.quarantined.as_ref()?;
    let key = state::quarantine_key(&before.source, before.sequence.as_ref());
    Some(Write { table: TableRef::State, key, op: Op::Delete, condition: Condition::Always })
}

/// The difference between all but the sums that `before` has applied, and `derived`, which must have none. Those sums
/// stay, in the aggregates and in the ledger: for an item whose sums the database will not take away just now. Give it a
/// reason by [`Delta::quarantine`].
pub fn diff_beside_sums(
    model: &Model,
    before: &LedgerRow,
    source: &TableKey,
    derived: Option<&Derived>,
    sequence: Option<&SequenceNumber>,
    now: DateTime<Utc>,
) -> Result<Delta, SumTooWide> {
    let mut rest = before.clone();
    let mut sums = before.applied.counts.clone();
    rest.applied.counts.iter_mut().for_each(|count| count.measures.retain(|measure, _| !is_sum(measure)));
    sums.iter_mut().for_each(|count| count.measures.retain(|measure, _| is_sum(measure)));
    sums.retain(|count| !count.measures.is_empty());
    let mut delta = diff(model, Some(&rest), source, derived, sequence, now)?;
    delta.after.applied.counts.extend(sums);
    delta.after.applied.counts.sort_by(|a, b| (&a.key, &a.aggregate).cmp(&(&b.key, &b.aggregate)));
    delta.after.expires_at = None;
    delta.settled = same(before, &delta.after);
    Ok(delta)
}

/// True for the measures that hold sums of values, which unlike counts can outgrow a number.
pub fn is_sum(measure: &str) -> bool {
    measure.starts_with("Sum_") || measure.starts_with("SumSq_")
}

/// A commit that leaves all derived data of the item as they are and only moves its ledger row on: for an item whose
/// change the database refuses in every form. Give it a reason by [`Delta::quarantine`].
pub fn hold(
    model: &Model,
    before: Option<&LedgerRow>,
    source: &TableKey,
    gone: bool,
    sequence: Option<&SequenceNumber>,
    now: DateTime<Utc>,
) -> Delta {
    let applied = before.map(|row| row.applied.clone()).unwrap_or_default();
    let mut after = next_row(model, before, source, None, applied, sequence, now);
    after.deleted = gone;
    after.entity = before.and_then(|row| row.entity.clone());
    // A row that still accounts for derived data must not expire, or nobody could ever take them back.
    after.expires_at = after.expires_at.filter(|_| gone && after.applied.is_empty());
    Delta {
        revision: before.map(|row| row.revision),
        settled: before.is_some_and(|row| same(row, &after)),
        after,
        adds: Vec::new(),
        puts: Vec::new(),
        deletes: Vec::new(),
        extra: Vec::new(),
        turnover: Turnover::default(),
    }
}

fn next_row(
    model: &Model,
    before: Option<&LedgerRow>,
    source: &TableKey,
    derived: Option<&Derived>,
    applied: Applied,
    sequence: Option<&SequenceNumber>,
    now: DateTime<Utc>,
) -> LedgerRow {
    let deleted = derived.is_none();
    let kept_seconds = i64::from(model.tombstone_days) * SECONDS_A_DAY;
    // A tombstone that nothing moves on keeps its day, else each second look at it would write it again.
    let expires_at = match before {
        Some(row) if row.deleted && row.expires_at.is_some() && sequence.is_none() => row.expires_at,
        _ => Some(now.timestamp() + kept_seconds),
    };
    LedgerRow {
        source: source.clone(),
        sequence: sequence.or_else(|| before?.sequence.as_ref()).cloned(),
        revision: before.map_or(0, |row| row.revision) + 1,
        entity: derived.and_then(|derived| derived.entity.clone()),
        applied,
        introduced: before.map(|row| row.introduced.clone()).unwrap_or_default(),
        model: model.hash.clone(),
        deleted,
        expires_at: expires_at.filter(|_| deleted),
        quarantined: None,
        left_out: None,
    }
}

pub(super) fn same(before: &LedgerRow, after: &LedgerRow) -> bool {
    // Taken apart, so that a field that is added must be thought of here.
    let LedgerRow {
        source,
        sequence,
        revision: _,
        entity,
        applied,
        introduced,
        model: _,
        deleted,
        expires_at,
        quarantined,
        left_out,
    } = after;
    before.source == *source
        && before.sequence == *sequence
        && before.entity == *entity
        && before.applied == *applied
        && before.introduced == *introduced
        && before.deleted == *deleted
        && before.expires_at == *expires_at
        && before.quarantined == *quarantined
        && before.left_out == *left_out
}

fn additions(was: &Applied, derived: Option<&Derived>) -> Result<Vec<Addition>, SumTooWide> {
    let mut net = Vec::new();
    for AppliedCount { aggregate, key, measures } in &was.counts {
        let addition = addition(&mut net, aggregate, key);
        for (measure, number) in measures {
            accumulate(&mut addition.measures, measure, &number.negated(), key)?;
        }
    }
    for count in derived.iter().flat_map(|derived| &derived.counts) {
        let addition = addition(&mut net, &count.aggregate, &count.key);
        addition.renamed |= addition.aggregate != count.aggregate;
        addition.aggregate.clone_from(&count.aggregate);
        addition.group = Some(count.group.clone());
        for (measure, number) in &count.measures {
            accumulate(&mut addition.measures, measure, number, &count.key)?;
        }
    }
    for addition in &mut net {
        addition.measures.retain(|_, number| !number.is_zero());
    }
    net.retain(|addition| !addition.measures.is_empty() || addition.renamed);
    Ok(net)
}

/// What is added at that key so far. By key and not by name: an aggregate that was renamed in place is the same item.
fn addition<'n>(net: &'n mut Vec<Addition>, aggregate: &Text, key: &TableKey) -> &'n mut Addition {
    let at = net.iter().position(|addition| addition.key == *key).unwrap_or_else(|| {
        let (aggregate, key) = (aggregate.clone(), key.clone());
        net.push(Addition { aggregate, key, group: None, measures: Measures::new(), renamed: false });
        net.len() - 1
    });
    &mut net[at]
}

/// Adds `number` to a measure, exactly.
pub(super) fn accumulate(
    measures: &mut Measures,
    measure: &Text,
    number: &Decimal,
    key: &TableKey,
) -> Result<(), SumTooWide> {
    match measures.entry(measure.clone()) {
        Entry::Vacant(place) => {
            place.insert(number.clone());
        }
        Entry::Occupied(mut sum) => {
            let wide = |source| SumTooWide { key: key.to_string(), measure: measure.to_string(), source };
            *sum.get_mut() = sum.get().checked_add(number).map_err(wide)?;
        }
    }
    Ok(())
}

/// `applied` is what `derived` will have applied. An item has few rows, so looking through them is the fastest way.
fn row_changes(was: &Applied, derived: Option<&Derived>, applied: &Applied) -> (Vec<RowPut>, Vec<RowDelete>) {
    let mut puts = Vec::new();
    for row in derived.iter().flat_map(|derived| &derived.rows) {
        let stands = was.rows.iter().find(|stands| stands.key == row.key);
        let will =
            applied.rows.iter().find(|will| will.key == row.key && will.kind == row.kind && will.name == row.name);
        if stands.is_some() && stands == will {
            continue;
        }
        // A row that takes the place of another one of the same item finds that one's marker there.
        let marker = stands.map_or_else(|| row_marker(row.kind, &row.name), AppliedRow::marker);
        puts.push(RowPut { key: row.key.clone(), item: row.item.clone(), marker });
    }
    let gone = was.rows.iter().filter(|row| !applied.rows.iter().any(|will| will.key == row.key));
    let deletes = gone.map(|row| RowDelete { key: row.key.clone(), marker: row.marker() }).collect();
    (puts, deletes)
}
