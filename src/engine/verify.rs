//! Verify: recompute everything from the table, say what differs from what is stored, and mend what can be mended.
//!
//! Three things must agree: what the source items derive now, what the ledger says was applied, and the derived items
//! in the table. Verify reads both tables whole, page by page, and compares the items with the ledger (I4), and the ledger with
//! the derived items (I1, I2). It keeps a ledger row, the numbers of an aggregate or the digest of a row for each item read, and
//! no item itself.
//!
//! How to read the answer:
//! - `ledger` and `ghost` say that a change of a source item has not been applied. Reconciling applies it.
//! - `aggregate`, `marker`, `missing-row`, `unexpected-row` and `changed-row` say that somebody else wrote to the derived items,
//!   or that a ledger row was lost. Reconciling trusts the ledger and does not look at them; [`repair()`] mends them.
//!
//! # What it proves
//!
//! On a quiet table one pass ([`verify()`]) is exact. Beside running workers the two tables are read at different moments, so [`settle()`]
//! reads again while anything differs, and reports what **stands**: what two passes in a row have found alike.
//!
//! - Of a derived item that means: its whole content was the same at both readings, `UpdatedAt` among it, which every commit
//!   writes. So no commit wrote it in between, and in between the ledger was read whole. The difference is therefore
//!   exact, with one exception: additions that cancel each other within a transaction leave an aggregate unwritten, and would
//!   have to fall into both passes alike.
//! - Of a source item it means: the change was not applied within a whole pass. A worker that is behind shows so, too.
//! - What was written between the passes proves nothing, neither way; it is counted as unsettled. Only workers write derived
//!   items, so an aggregate that is never at rest settles while they are stopped, though the application goes on.
//!
//! [`sample()`] is for those who cannot read or hold both tables whole: it looks at as many source items as there is time for. Of these it
//! proves the ledger rows, listings, expiries and findings; of aggregates nothing, for they are sums over all.
//!
//! An aggregate's name is written with each addition. Where a worker under a former model was the last to write one, `marker`
//! says so until the next.
//!
//! Two kinds of items are counted apart and are no differences, because a finding tells of them already. A quarantined item
//! (the database refused what it derives) is compared by what its ledger row says was applied. An item whose sums are left out
//! (one would not fit a number) is compared without them. Malformed records are listed: nothing else tells of them. Not compared are an aggregate's
//! `Group` and `UpdatedAt`, the counts of findings that came and went, which nothing in the tables can tell, and a finding's `Origin`.

mod compare;
mod repair;
mod sample;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::malformed::{self, Malformed};
use super::ports::{Clock, Store, StoreError};
use super::scan;
use crate::derive;
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, Text};
use crate::plan::ledger::{Applied, LedgerFault, LedgerRow};
use crate::plan::state;
use crate::plan::write::TableRef;
use compare::{Expected, Found, Stored};
pub use repair::{RepairError, RepairReport, repair};
pub use sample::{SampleOptions, sample};
pub use settle::{VerifyOptions, settle};

/// What verify found.
#[derive(Debug, Default, Serialize)]
pub struct VerifyReport {
    pub source_items: u64,
    pub derived_items: u64,
    pub ledger_rows: u64,
    /// Items whose derived data the database refused.
    pub quarantined: u64,
    /// Records that no item could be named for; by their places, ascending. Of a sample there are none.
    pub malformed: Vec<Malformed>,
    /// Items that count in everything but the sums, which would not fit a number with them.
    pub left_out: u64,
    /// Findings that should be in the table.
    pub findings: u64,
    /// How often both tables were read.
    pub passes: u32,
    /// Differences of the last pass that the one before did not have, or had otherwise: what they are about is being written.
    pub unsettled: u64,
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

    /// True for what [`repair()`] puts right, as far as it can be.
    pub fn is_repaired(self) -> bool {
        !self.is_reconciled() && self != DifferenceKind::UnreadableLedger
    }
}

impl VerifyReport {
    /// What to do about the differences, in one or two sentences; `None` where there are none.
    pub fn advice(&self) -> Option<&'static str> {
        let any =
            |wanted: fn(DifferenceKind) -> bool| self.differences.iter().any(|difference| wanted(difference.kind));
        if any(|kind| kind == DifferenceKind::UnreadableLedger) {
            return Some("Restore the unreadable ledger rows, or run the version that wrote them; then reconcile.");
        }
        if self.ledger_rows == 0 && self.derived_items > 0 && !self.differences.is_empty() {
            return Some(
                "The state table has no ledger, though there are derived items. Is it the right one (--state-table)? If it is lost, restore it, or \
                 delete all items with `_keeper` and start the worker.",
            );
        }
        Some(match (any(DifferenceKind::is_reconciled), any(DifferenceKind::is_repaired), self.unsettled) {
            (true, false, _) => {
                "Changes of source items are not applied. A worker that is behind catches up; what stays is put right by \
                 `tablekeeper reconcile`."
            }
            (true, true, _) => {
                "Changes of source items are not applied: `tablekeeper reconcile`. Derived items are not as the ledger says, so somebody \
                 else changed them: `tablekeeper verify --repair`."
            }
            (false, true, _) => {
                "Every source item is applied, so somebody else changed derived items: `tablekeeper verify --repair` puts them \
                 right. What it leaves may be an item of yours: take `_keeper` off it, or delete what stands where a derived item belongs."
            }
            (false, false, 0) => return None,
            (false, false, _) => {
                "What is unsettled is being written, which is no fault. To have it settled stop the workers, not the application, \
                 while verify reads; or give it more --passes."
            }
        })
    }
}

/// Reads both tables once and compares: exact on a quiet table, see [`settle()`] for others.
///
/// # Errors
/// Only where a table cannot be read.
pub async fn verify<S: Store, C: Clock>(model: &Model, store: &S, clock: &C) -> Result<VerifyReport, StoreError> {
    let Pass { mut report, found } = pass(model, store, clock).await?;
    report.differences = found.into_iter().map(|found| found.difference).collect();
    Ok(report)
}

/// What one reading of both tables came to.
#[derive(Default)]
struct Pass {
    /// Without the differences.
    report: VerifyReport,
    /// By kind, key and what, ascending.
    found: Vec<Found>,
}

async fn pass<S: Store, C: Clock>(model: &Model, store: &S, clock: &C) -> Result<Pass, StoreError> {
    let mut pass = Pass::default();
    pass.report.passes = 1;
    let mut ledger = Ledger::read(store, clock, &mut pass).await?;
    let (mut expected, mut stored) = (Expected::default(), Stored::default());
    let names = model.table.key_names();
    let mut pages = scan::Pages::new(TableRef::Source, (0, 1));
    while let Some(items) = pages.next(store, clock).await? {
        for item in items {
            let Some(key) = TableKey::of(&item, &names) else { continue };
            if item.is_ours() {
                pass.report.derived_items += 1;
                stored.insert(key, item, &names);
            } else {
                pass.report.source_items += 1;
                let applied = check_item(model, &mut ledger, &key, &item, &mut pass);
                pass.report.findings += expected.add(&key, &applied, &mut pass.found);
            }
        }
    }
    for row in ledger.rows.into_values() {
        check_left(&row, &mut pass);
        // What the row accounts for is in the table still, and expected there: the row itself is the difference.
        pass.report.findings += expected.add(&row.source, &row.applied, &mut pass.found);
    }
    expected.compare(stored, &mut pass.found);
    pass.sort();
    Ok(pass)
}

impl Pass {
    fn sort(&mut self) {
        let place = |found: &Found| {
            let Difference { kind, key, what, .. } = &found.difference;
            (*kind, key.clone(), what.clone())
        };
        self.found.sort_by_cached_key(place);
    }
}

/// The ledger as it was read.
#[derive(Default)]
struct Ledger {
    rows: BTreeMap<TableKey, LedgerRow>,
    /// Partition keys of the rows that could not be read.
    unreadable: BTreeSet<String>,
}

impl Ledger {
    async fn read<S: Store, C: Clock>(store: &S, clock: &C, pass: &mut Pass) -> Result<Ledger, StoreError> {
        let mut ledger = Ledger::default();
        let mut pages = scan::Pages::new(TableRef::State, (0, 1));
        while let Some(items) = pages.next(store, clock).await? {
            items.iter().filter(|item| LedgerRow::is_ledger(item)).for_each(|item| ledger.add(item, pass));
            pass.report.malformed.extend(items.iter().filter_map(|item| malformed::read(item, clock.now())));
        }
        pass.report.malformed.sort();
        Ok(ledger)
    }

    fn add(&mut self, item: &Item, pass: &mut Pass) {
        pass.report.ledger_rows += 1;
        match LedgerRow::from_item(item) {
            Ok(row) => {
                self.rows.insert(row.source.clone(), row);
            }
            Err(fault) => {
                pass.found.push(unreadable(item, &fault));
                self.unreadable.extend(item.text(state::PARTITION).map(str::to_owned));
            }
        }
    }

    fn is_unreadable(&self, source: &TableKey) -> bool {
        !self.unreadable.is_empty()
            && LedgerRow::key(source).partition.as_text().is_some_and(|key| self.unreadable.contains(key))
    }
}

fn unreadable(item: &Item, fault: &LedgerFault) -> Found {
    let sides = ("a row that can be read".to_owned(), format!("`{}`: {}", fault.attribute, fault.reason));
    let key = item.text(state::PARTITION).unwrap_or_default();
    let what = item.text("Entity").unwrap_or("item");
    Found::of(DifferenceKind::UnreadableLedger, key.to_owned(), what, sides)
}

/// Compares what an item derives now with what the ledger says was applied; returns the latter.
fn check_item(model: &Model, ledger: &mut Ledger, key: &TableKey, item: &Item, pass: &mut Pass) -> Applied {
    let derived = derive::derive(model, key, item);
    let row = ledger.rows.remove(key);
    let left_out = row.as_ref().and_then(|row| row.left_out.as_deref());
    let now = match left_out {
        Some(reason) => Applied::of(&derive::without_sums(model, key, &derived, reason)),
        None => Applied::of(&derived),
    };
    let (sides, applied) = match row {
        // Its own difference says so already. What was applied is not known; most probably what it derives.
        None if ledger.is_unreadable(key) => return now,
        None => (("applied".to_owned(), "never applied".to_owned()), Applied::default()),
        Some(row) if row.deleted => (("applied".to_owned(), "deleted".to_owned()), row.applied),
        Some(row) if row.quarantined.is_some() => {
            pass.report.quarantined += 1;
            return row.applied;
        }
        Some(row) if row.applied == now && row.entity == derived.entity => {
            pass.report.left_out += u64::from(row.left_out.is_some());
            return now;
        }
        Some(row) if row.applied == now => ((named(&derived.entity), named(&row.entity)), now),
        Some(row) => ((compare::beyond(&now, &row.applied), compare::beyond(&row.applied, &now)), row.applied),
    };
    let what = derived.entity.unwrap_or_else(|| "item".into());
    pass.found.push(Found::new(DifferenceKind::Ledger, key, what, sides));
    applied
}

fn named(entity: &Option<Text>) -> String {
    entity.as_ref().map_or_else(|| "no entity".to_owned(), |entity| format!("entity {entity}"))
}

/// Looks at a ledger row whose item is gone.
fn check_left(row: &LedgerRow, pass: &mut Pass) {
    if row.deleted && row.quarantined.is_some() {
        pass.report.quarantined += 1;
    } else if !row.deleted || !row.applied.is_empty() {
        let sides = ("deleted".to_owned(), compare::beyond(&row.applied, &Applied::default()));
        let what = row.entity.as_deref().unwrap_or("item");
        pass.found.push(Found::new(DifferenceKind::Ghost, &row.source, what, sides));
    }
}
