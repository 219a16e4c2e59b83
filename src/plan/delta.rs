//! From what was applied for one source item and what should be, to the difference.
//!
//! The difference is exact: additions are decimals of what should be minus what was, row by row and measure by measure.
//! It does not ask whether the model still declares what was applied: an aggregate that is gone from the model is
//! subtracted like any other.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use crate::model::change::SequenceNumber;
use crate::model::decimal::{Decimal, DecimalError};
use crate::model::derived::{Derived, Measures};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, Value};
use crate::plan::ledger::{Applied, LedgerRow, REVISION, revision, row_marker};
use crate::plan::state;
use crate::plan::write::{Condition, Op, TableRef, Write};

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
}

/// What the commit adds to one aggregate item. No measure is zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Addition {
    pub aggregate: String,
    pub key: TableKey,
    /// The group's values; `None` if the item no longer belongs there, so that this only takes away.
    pub group: Option<Item>,
    pub measures: Measures,
}

/// A derived row to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct RowPut {
    pub key: TableKey,
    pub item: Item,
    /// The marker of the row that may stand there now.
    pub marker: String,
}

/// A derived row to be taken away.
#[derive(Debug, Clone, PartialEq)]
pub struct RowDelete {
    pub key: TableKey,
    pub marker: String,
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
        Write {
            table: TableRef::State,
            key: LedgerRow::key(self.source()),
            op: Op::Put(self.after.to_item()),
            condition: match self.revision {
                None => Condition::Absent,
                Some(read) => Condition::Equals(REVISION.to_owned(), revision(read)),
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
            .with("At", Value::text(instant(now)));
        if let Some(sequence) = &self.after.sequence {
            item.insert("Seq", Value::text(sequence.padded()));
        }
        self.extra = vec![Write { table: TableRef::State, key, op: Op::Put(item), condition: Condition::Always }];
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
    let (puts, deletes) = row_changes(was, derived);
    let adds = additions(was, derived)?;
    let after = next_row(model, before, source, derived, applied, sequence, now);
    Ok(Delta {
        revision: before.map(|row| row.revision),
        settled: before.is_some_and(|row| same(row, &after)),
        after,
        adds,
        puts,
        deletes,
        extra: Vec::new(),
    })
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
        model: model.hash.clone(),
        deleted,
        expires_at: expires_at.filter(|_| deleted),
        quarantined: None,
    }
}

fn same(before: &LedgerRow, after: &LedgerRow) -> bool {
    let after = LedgerRow { revision: before.revision, model: before.model.clone(), ..after.clone() };
    *before == after
}

fn additions(was: &Applied, derived: Option<&Derived>) -> Result<Vec<Addition>, SumTooWide> {
    // By key and not by name: an aggregate that was renamed in place is the same item.
    let mut net: BTreeMap<&TableKey, Addition> = BTreeMap::new();
    for count in &was.counts {
        let addition = net.entry(&count.key).or_insert_with(|| addition(&count.aggregate, &count.key));
        for (measure, number) in &count.measures {
            accumulate(&mut addition.measures, measure, &number.negated(), &count.key)?;
        }
    }
    for count in derived.iter().flat_map(|derived| &derived.counts) {
        let addition = net.entry(&count.key).or_insert_with(|| addition(&count.aggregate, &count.key));
        addition.aggregate.clone_from(&count.aggregate);
        addition.group = Some(count.group.clone());
        for (measure, number) in &count.measures {
            accumulate(&mut addition.measures, measure, number, &count.key)?;
        }
    }
    let changed = net.into_values().map(|mut addition| {
        addition.measures.retain(|_, number| !number.is_zero());
        addition
    });
    Ok(changed.filter(|addition| !addition.measures.is_empty()).collect())
}

fn addition(aggregate: &str, key: &TableKey) -> Addition {
    Addition { aggregate: aggregate.to_owned(), key: key.clone(), group: None, measures: Measures::new() }
}

/// Adds `number` to a measure, exactly.
pub(super) fn accumulate(
    measures: &mut Measures,
    measure: &str,
    number: &Decimal,
    key: &TableKey,
) -> Result<(), SumTooWide> {
    let sum = match measures.get(measure) {
        None => number.clone(),
        Some(sum) => sum.checked_add(number).map_err(|source| SumTooWide {
            key: key.to_string(),
            measure: measure.to_owned(),
            source,
        })?,
    };
    measures.insert(measure.to_owned(), sum);
    Ok(())
}

fn row_changes(was: &Applied, derived: Option<&Derived>) -> (Vec<RowPut>, Vec<RowDelete>) {
    let old: BTreeMap<&TableKey, _> = was.rows.iter().map(|row| (&row.key, row)).collect();
    let mut puts = Vec::new();
    let mut kept: BTreeSet<&TableKey> = BTreeSet::new();
    for row in derived.iter().flat_map(|derived| &derived.rows) {
        kept.insert(&row.key);
        let marker = row_marker(row.kind, &row.name);
        let stands = old.get(&row.key);
        let hash = crate::plan::ledger::item_hash(&row.item);
        if stands.is_some_and(|stands| stands.hash == hash && stands.marker() == marker) {
            continue;
        }
        // A row that takes the place of another one of the same item finds that one's marker there.
        let marker = stands.map_or(marker, |stands| stands.marker());
        puts.push(RowPut { key: row.key.clone(), item: row.item.clone(), marker });
    }
    let gone = was.rows.iter().filter(|row| !kept.contains(&row.key));
    let deletes = gone.map(|row| RowDelete { key: row.key.clone(), marker: row.marker() }).collect();
    (puts, deletes)
}

/// An instant as it is stored: RFC 3339 in UTC, milliseconds.
pub fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}
