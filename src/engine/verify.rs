//! Verify: recompute everything from the table and say what differs from what is stored.
//!
//! Three things must agree: what the source items derive now, what the ledger says was applied, and the derived items
//! in the table. Verify reads both tables whole and compares all three; it writes nothing. The answer is exact on a
//! quiet table; beside a running writer, changes that are still in the stream show as differences.
//!
//! A quarantined item (the database refused what it derives) is compared by what its ledger row says was applied, and
//! counted apart: it is a finding, not a difference.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ports::{Clock, Store, StoreError};
use super::scan;
use crate::derive;
use crate::model::decimal::{Decimal, DecimalError};
use crate::model::derived::Measures;
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, MARKER, Value};
use crate::plan::ledger::{Applied, LedgerFault, LedgerRow, item_hash, row_marker};
use crate::plan::write::TableRef;

/// What verify found.
#[derive(Debug, Default, Serialize)]
pub struct VerifyReport {
    pub source_items: u64,
    pub derived_items: u64,
    pub ledger_rows: u64,
    /// Items whose derived data the database refused; each has a P9xx finding.
    pub quarantined: u64,
    pub findings: u64,
    pub differences: Vec<Difference>,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub kind: DifferenceKind,
    /// Key of the derived item, or of the source item for ledger differences.
    pub key: String,
    /// For aggregates the measure, else the marker or entity.
    pub what: String,
    pub expected: String,
    pub stored: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// An aggregate's measure has another value than the items add up to.
    Aggregate,
    /// A listing, expiry or finding is not in the table.
    MissingRow,
    /// A derived item that nothing derives.
    UnexpectedRow,
    /// A derived item with other content.
    ChangedRow,
    /// A source item that was never applied, or applied in another state.
    Ledger,
    /// A ledger row still counts an item that is gone.
    Ghost,
    /// A ledger row that cannot be read.
    UnreadableLedger,
}

impl DifferenceKind {
    pub fn name(self) -> &'static str {
        match self {
            DifferenceKind::Aggregate => "aggregate",
            DifferenceKind::MissingRow => "missing-row",
            DifferenceKind::UnexpectedRow => "unexpected-row",
            DifferenceKind::ChangedRow => "changed-row",
            DifferenceKind::Ledger => "ledger",
            DifferenceKind::Ghost => "ghost",
            DifferenceKind::UnreadableLedger => "unreadable-ledger",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the sum of `{measure}` over all items of {key} does not fit: {source}")]
    Sum { key: Box<TableKey>, measure: String, source: DecimalError },
}

/// Reads both tables and compares.
pub async fn verify<S: Store, C: Clock>(model: &Model, store: &S, clock: &C) -> Result<VerifyReport, VerifyError> {
    let mut report = VerifyReport::default();
    let mut ledger = read_ledger(store, clock, &mut report).await?;
    let mut expected = Expected::default();
    let mut stored: BTreeMap<TableKey, Item> = BTreeMap::new();
    let names = model.table.key_names();
    let mut pages = scan::Pages::new(TableRef::Source, (0, 1));
    while let Some(items) = pages.next(store, clock).await? {
        for item in items {
            let Some(key) = TableKey::of(&item, &names) else { continue };
            if item.is_ours() {
                report.derived_items += 1;
                stored.insert(key, item);
                continue;
            }
            report.source_items += 1;
            let row = ledger.remove(&key);
            let now = Applied::of(&derive::derive(model, &key, &item));
            expected.add(&check_ledger(&key, now, row, &mut report))?;
        }
    }
    for row in ledger.into_values().filter(|row| !row.deleted || row.applied != Applied::default()) {
        // The row's counts are in the aggregates still: they are expected there, the ghost itself is the difference.
        expected.add(&row.applied)?;
        report.differences.push(Difference {
            kind: DifferenceKind::Ghost,
            key: row.source.to_string(),
            what: row.entity.unwrap_or_else(|| "item".to_owned()),
            expected: "nothing, the item is gone".to_owned(),
            stored: "counts or rows".to_owned(),
        });
    }
    compare_aggregates(&expected, &mut stored, &mut report);
    compare_rows(&expected, stored, &mut report);
    report.differences.sort_by(|a, b| (a.kind, &a.key, &a.what).cmp(&(b.kind, &b.key, &b.what)));
    Ok(report)
}

/// Every ledger row by its source key.
async fn read_ledger<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    report: &mut VerifyReport,
) -> Result<BTreeMap<TableKey, LedgerRow>, VerifyError> {
    let mut ledger = BTreeMap::new();
    let mut pages = scan::Pages::new(TableRef::State, (0, 1));
    while let Some(items) = pages.next(store, clock).await? {
        for item in items.iter().filter(|item| LedgerRow::is_ledger(item)) {
            match LedgerRow::from_item(item) {
                Ok(row) => {
                    report.ledger_rows += 1;
                    ledger.insert(row.source.clone(), row);
                }
                Err(fault) => report.differences.push(unreadable(item, &fault)),
            }
        }
    }
    Ok(ledger)
}

fn unreadable(item: &Item, fault: &LedgerFault) -> Difference {
    Difference {
        kind: DifferenceKind::UnreadableLedger,
        key: item.text("PK").unwrap_or_default().to_owned(),
        what: "ledger row".to_owned(),
        expected: "a row that can be read".to_owned(),
        stored: fault.to_string(),
    }
}

/// Compares what an item derives now with what the ledger says was applied; returns what should be in the table.
fn check_ledger(key: &TableKey, now: Applied, row: Option<LedgerRow>, report: &mut VerifyReport) -> Applied {
    let (stored, quarantined) = match row {
        Some(row) => (Some(row.applied).filter(|_| !row.deleted), row.quarantined.is_some()),
        None => (None, false),
    };
    match stored {
        Some(applied) if quarantined => {
            report.quarantined += 1;
            applied
        }
        Some(applied) if applied == now => now,
        other => {
            report.differences.push(Difference {
                kind: DifferenceKind::Ledger,
                key: key.to_string(),
                what: "applied".to_owned(),
                expected: summary(&now),
                stored: other.as_ref().map_or_else(|| "never applied".to_owned(), summary),
            });
            now
        }
    }
}

fn summary(applied: &Applied) -> String {
    format!("{} counts, {} rows", applied.counts.len(), applied.rows.len())
}

/// What the table should hold.
#[derive(Default)]
struct Expected {
    /// By aggregate item: its name and measures.
    aggregates: BTreeMap<TableKey, (String, Measures)>,
    /// By row: marker and digest.
    rows: BTreeMap<TableKey, (String, String)>,
}

impl Expected {
    fn add(&mut self, applied: &Applied) -> Result<(), VerifyError> {
        for count in &applied.counts {
            let (_, sums) =
                self.aggregates.entry(count.key.clone()).or_insert_with(|| (count.aggregate.clone(), Measures::new()));
            for (measure, amount) in &count.measures {
                let sum = sums.entry(measure.clone()).or_insert_with(Decimal::zero);
                *sum = sum.checked_add(amount).map_err(|source| VerifyError::Sum {
                    key: Box::new(count.key.clone()),
                    measure: measure.clone(),
                    source,
                })?;
            }
        }
        for row in &applied.rows {
            let marker = row_marker(row.kind, &row.name);
            self.rows.insert(row.key.clone(), (marker, row.hash.clone()));
        }
        Ok(())
    }
}

/// Every number attribute of a stored aggregate is a measure; one that is missing counts as 0.
fn compare_aggregates(expected: &Expected, stored: &mut BTreeMap<TableKey, Item>, report: &mut VerifyReport) {
    let none = (String::new(), Measures::new());
    let is_aggregate = |item: &Item| item.text(MARKER).is_some_and(|marker| marker.starts_with("aggregate/"));
    let mut keys: Vec<TableKey> = expected.aggregates.keys().cloned().collect();
    keys.extend(
        stored
            .iter()
            .filter(|(key, item)| is_aggregate(item) && !expected.aggregates.contains_key(key))
            .map(|(key, _)| key.clone()),
    );
    for key in keys {
        let (name, sums) = expected.aggregates.get(&key).unwrap_or(&none);
        let item = stored.remove(&key).unwrap_or_default();
        let mut measures: Measures = sums.clone();
        for (attribute, value) in &item.0 {
            if let Value::N(_) = value {
                measures.entry(attribute.clone()).or_insert_with(Decimal::zero);
            }
        }
        for (measure, wanted) in measures {
            let found = item.number(&measure).cloned().unwrap_or_else(Decimal::zero);
            if found != wanted {
                report.differences.push(Difference {
                    kind: DifferenceKind::Aggregate,
                    key: key.to_string(),
                    what: format!("{name} {measure}").trim().to_owned(),
                    expected: wanted.to_string(),
                    stored: found.to_string(),
                });
            }
        }
    }
}

fn compare_rows(expected: &Expected, mut stored: BTreeMap<TableKey, Item>, report: &mut VerifyReport) {
    let difference = |kind, key: &TableKey, what: &str, expected: &str, stored: &str| Difference {
        kind,
        key: key.to_string(),
        what: what.to_owned(),
        expected: expected.to_owned(),
        stored: stored.to_owned(),
    };
    for (key, (marker, hash)) in &expected.rows {
        report.findings += u64::from(marker.starts_with("finding/"));
        match stored.remove(key) {
            None => report.differences.push(difference(DifferenceKind::MissingRow, key, marker, "a row", "none")),
            Some(item) if item_hash(&item) != *hash => {
                let found = item.text(MARKER).unwrap_or_default();
                report.differences.push(difference(
                    DifferenceKind::ChangedRow,
                    key,
                    marker,
                    "the derived content",
                    found,
                ));
            }
            Some(_) => {}
        }
    }
    for (key, item) in &stored {
        let marker = item.text(MARKER).unwrap_or_default();
        report.differences.push(difference(DifferenceKind::UnexpectedRow, key, marker, "no such row", "a row"));
    }
}
