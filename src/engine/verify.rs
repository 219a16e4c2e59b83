//! Verify: recompute everything from the table and say what differs from what is stored.
//!
//! Three things must agree: what the source items derive now, what the ledger says was applied, and the derived items
//! in the table. Verify reads both tables whole, page by page, and compares all three; it writes nothing. It keeps a
//! ledger row, the numbers of an aggregate or the digest of a row for each item read, and no item itself.
//!
//! How to read the answer:
//! - `ledger` and `ghost` say that a change of a source item has not been applied. The aggregates and rows that hang on it
//!   differ as well. Reconciling puts all of them right.
//! - `aggregate`, `marker`, `missing-row`, `unexpected-row` and `changed-row` without those say that somebody else wrote to
//!   the derived items. Reconciling trusts the ledger and does not look at them.
//! - The answer is exact on a quiet table. Beside a running writer the two tables are read at different moments, so
//!   changes that are on their way show as differences; those are gone the next time, real ones are not.
//!
//! An aggregate's name is written with each addition. Where a worker under a former model was the last to write one, `marker`
//! says so until the next.
//!
//! Two kinds of items are counted apart and are no differences, because a finding tells of them already. A quarantined item
//! (the database refused what it derives) is compared by what its ledger row says was applied. An item whose sums are left out
//! (one would not fit a number) is compared without them. Not compared are an aggregate's `Group` and `UpdatedAt`.

mod compare;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::ports::{Clock, Store, StoreError};
use super::scan;
use crate::derive;
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::Item;
use crate::plan::ledger::{Applied, LedgerFault, LedgerRow};
use crate::plan::state;
use crate::plan::write::TableRef;
use compare::{Expected, Stored};

/// What verify found.
#[derive(Debug, Default, Serialize)]
pub struct VerifyReport {
    pub source_items: u64,
    pub derived_items: u64,
    pub ledger_rows: u64,
    /// Items whose derived data the database refused.
    pub quarantined: u64,
    /// Items that count in everything but the sums, which would not fit a number with them.
    pub left_out: u64,
    /// Findings that should be in the table.
    pub findings: u64,
    /// By kind, key and what, ascending.
    pub differences: Vec<Difference>,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub kind: DifferenceKind,
    /// Key of the derived item; of the source item for `ledger` and `ghost`; of the state table's row for `unreadable-ledger`.
    pub key: String,
    /// For aggregates the name and the measure, for derived items the marker, else the entity.
    pub what: String,
    pub expected: String,
    pub stored: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// An aggregate's measure has another value than the items add up to.
    Aggregate,
    /// A derived item is marked as something that it is not, or as something that there is not.
    Marker,
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
            DifferenceKind::Marker => "marker",
            DifferenceKind::MissingRow => "missing-row",
            DifferenceKind::UnexpectedRow => "unexpected-row",
            DifferenceKind::ChangedRow => "changed-row",
            DifferenceKind::Ledger => "ledger",
            DifferenceKind::Ghost => "ghost",
            DifferenceKind::UnreadableLedger => "unreadable-ledger",
        }
    }

    /// True for what reconciling puts right.
    pub fn is_reconciled(self) -> bool {
        matches!(self, DifferenceKind::Ledger | DifferenceKind::Ghost)
    }
}

impl VerifyReport {
    /// What to do about the differences, in one or two sentences; `None` where there are none.
    pub fn advice(&self) -> Option<&'static str> {
        let any =
            |wanted: fn(DifferenceKind) -> bool| self.differences.iter().any(|difference| wanted(difference.kind));
        if any(|kind| kind == DifferenceKind::UnreadableLedger) {
            Some("Restore the unreadable ledger rows, or run the version that wrote them; then reconcile.")
        } else if any(DifferenceKind::is_reconciled) {
            Some(
                "Beside a running worker these may be changes on their way: verify again when it is idle. What stays of source items is put \
                 right by `tablekeeper reconcile`.",
            )
        } else if !self.differences.is_empty() {
            Some(
                "Every source item is applied, so either a worker was writing meanwhile (verify again when it is idle) or \
                 somebody else changed derived items.",
            )
        } else {
            None
        }
    }
}

/// Reads both tables and compares.
///
/// # Errors
/// Only where a table cannot be read.
pub async fn verify<S: Store, C: Clock>(model: &Model, store: &S, clock: &C) -> Result<VerifyReport, StoreError> {
    let mut report = VerifyReport::default();
    let mut ledger = Ledger::read(store, clock, &mut report).await?;
    let (mut expected, mut stored) = (Expected::default(), Stored::default());
    let names = model.table.key_names();
    let mut pages = scan::Pages::new(TableRef::Source, (0, 1));
    while let Some(items) = pages.next(store, clock).await? {
        for item in items {
            let Some(key) = TableKey::of(&item, &names) else { continue };
            if item.is_ours() {
                report.derived_items += 1;
                stored.insert(key, item, &names);
            } else {
                report.source_items += 1;
                let applied = check_item(model, &mut ledger, &key, &item, &mut report);
                expected.add(&applied, &mut report);
            }
        }
    }
    for row in ledger.rows.into_values() {
        check_left(&row, &mut report);
        // What the row accounts for is in the table still, and expected there: the row itself is the difference.
        expected.add(&row.applied, &mut report);
    }
    expected.compare(stored, &mut report);
    report.differences.sort_by(|a, b| (a.kind, &a.key, &a.what).cmp(&(b.kind, &b.key, &b.what)));
    Ok(report)
}

/// The ledger as it was read.
#[derive(Default)]
struct Ledger {
    rows: BTreeMap<TableKey, LedgerRow>,
    /// Partition keys of the rows that could not be read.
    unreadable: BTreeSet<String>,
}

impl Ledger {
    async fn read<S: Store, C: Clock>(store: &S, clock: &C, report: &mut VerifyReport) -> Result<Ledger, StoreError> {
        let mut ledger = Ledger::default();
        let mut pages = scan::Pages::new(TableRef::State, (0, 1));
        while let Some(items) = pages.next(store, clock).await? {
            for item in items.iter().filter(|item| LedgerRow::is_ledger(item)) {
                report.ledger_rows += 1;
                match LedgerRow::from_item(item) {
                    Ok(row) => {
                        ledger.rows.insert(row.source.clone(), row);
                    }
                    Err(fault) => {
                        report.differences.push(unreadable(item, &fault));
                        ledger.unreadable.extend(item.text(state::PARTITION).map(str::to_owned));
                    }
                }
            }
        }
        Ok(ledger)
    }

    fn is_unreadable(&self, source: &TableKey) -> bool {
        !self.unreadable.is_empty()
            && LedgerRow::key(source).partition.as_text().is_some_and(|key| self.unreadable.contains(key))
    }
}

fn unreadable(item: &Item, fault: &LedgerFault) -> Difference {
    Difference {
        kind: DifferenceKind::UnreadableLedger,
        key: item.text(state::PARTITION).unwrap_or_default().to_owned(),
        what: item.text("Entity").unwrap_or("item").to_owned(),
        expected: "a row that can be read".to_owned(),
        stored: format!("`{}`: {}", fault.attribute, fault.reason),
    }
}

/// Compares what an item derives now with what the ledger says was applied; returns what should be in the table.
fn check_item(model: &Model, ledger: &mut Ledger, key: &TableKey, item: &Item, report: &mut VerifyReport) -> Applied {
    let derived = derive::derive(model, key, item);
    let row = ledger.rows.remove(key);
    let left_out = row.as_ref().and_then(|row| row.left_out.as_deref());
    let now = match left_out {
        Some(reason) => Applied::of(&derive::without_sums(model, key, &derived, reason)),
        None => Applied::of(&derived),
    };
    let (expected, stored) = match &row {
        // Its own difference says so already.
        None if ledger.is_unreadable(key) => return now,
        None => ("applied".to_owned(), "never applied".to_owned()),
        Some(row) if row.deleted => ("applied".to_owned(), "deleted".to_owned()),
        Some(row) if row.quarantined.is_some() => {
            report.quarantined += 1;
            return row.applied.clone();
        }
        Some(row) if row.applied == now && row.entity == derived.entity => {
            report.left_out += u64::from(left_out.is_some());
            return now;
        }
        Some(row) if row.applied == now => (named(&derived.entity), named(&row.entity)),
        Some(row) => (compare::beyond(&now, &row.applied), compare::beyond(&row.applied, &now)),
    };
    report.differences.push(Difference {
        kind: DifferenceKind::Ledger,
        key: key.to_string(),
        what: derived.entity.unwrap_or_else(|| "item".to_owned()),
        expected,
        stored,
    });
    now
}

fn named(entity: &Option<String>) -> String {
    entity.as_ref().map_or_else(|| "no entity".to_owned(), |entity| format!("entity {entity}"))
}

/// Looks at a ledger row whose item is gone.
fn check_left(row: &LedgerRow, report: &mut VerifyReport) {
    if row.deleted && row.quarantined.is_some() {
        report.quarantined += 1;
    } else if !row.deleted || !row.applied.is_empty() {
        report.differences.push(Difference {
            kind: DifferenceKind::Ghost,
            key: row.source.to_string(),
            what: row.entity.clone().unwrap_or_else(|| "item".to_owned()),
            expected: "deleted".to_owned(),
            stored: compare::beyond(&row.applied, &Applied::default()),
        });
    }
}
