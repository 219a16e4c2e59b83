//! A sample: some source items, and all that the ledger and the table say of them.

use std::time::Duration;

use chrono::TimeDelta;

use super::compare::{Expected, Stored};
use super::settle::standing;
use super::{Ledger, Pass, VerifyOptions, VerifyReport, check_item, check_left};
use crate::engine::ports::{Clock, Store, StoreError};
use crate::engine::scan::{self, get};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::plan::ledger::LedgerRow;
use crate::plan::write::TableRef;

/// Items that are looked at together.
const CHUNK: usize = 100;

/// How much is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleOptions {
    /// Segments of the table, one of which is chosen by chance to begin with.
    pub segments: u32,
    /// No further items are looked at after it.
    pub time: Duration,
    /// Most source items.
    pub items_max: u64,
    /// How what differs is looked at again.
    pub settle: VerifyOptions,
}

/// Looks at source items from a segment chosen by chance on, until the time is up, enough are seen, or all are.
///
/// # Errors
/// Only where a table cannot be read.
pub async fn sample<S: Store, C: Clock>(
    model: &Model,
    store: &S,
    clock: &C,
    options: &SampleOptions,
) -> Result<VerifyReport, StoreError> {
    let end = clock.now() + TimeDelta::from_std(options.time).unwrap_or(TimeDelta::MAX);
    let names = model.table.key_names();
    let segments = options.segments.max(1);
    let first = (clock.jitter() * f64::from(segments)) as u32;
    let mut sum = VerifyReport::default();
    for segment in (first..segments).chain(0..first) {
        let mut pages = scan::Pages::new(TableRef::Source, (segment, segments));
        while let Some(items) = pages.next(store, clock).await? {
            let sources = items.iter().filter(|item| !item.is_ours());
            let keys: Vec<TableKey> = sources.filter_map(|item| TableKey::of(item, &names)).collect();
            for chunk in keys.chunks(CHUNK) {
                if clock.now() >= end || sum.source_items >= options.items_max {
                    return Ok(sum);
                }
                let look = || look(model, store, clock, chunk);
                let (report, found) = standing(clock, &options.settle, |_, _| {}, look).await?;
                add(&mut sum, report);
                sum.differences.extend(found.into_iter().map(|found| found.difference));
            }
        }
    }
    Ok(sum)
}

fn add(sum: &mut VerifyReport, report: VerifyReport) {
    sum.source_items += report.source_items;
    sum.derived_items += report.derived_items;
    sum.ledger_rows += report.ledger_rows;
    sum.quarantined += report.quarantined;
    sum.left_out += report.left_out;
    sum.findings += report.findings;
    sum.passes = sum.passes.max(report.passes);
    sum.unsettled += report.unsettled;
}

/// Ledger rows first and items after them, then the rows that they should have; like a whole pass, of these items only.
async fn look<S: Store, C: Clock>(model: &Model, store: &S, clock: &C, keys: &[TableKey]) -> Result<Pass, StoreError> {
    let mut pass = Pass::default();
    pass.report.passes = 1;
    let (mut ledger, mut expected, mut stored) = (Ledger::default(), Expected::default(), Stored::default());
    let rows: Vec<TableKey> = keys.iter().map(LedgerRow::key).collect();
    for row in get(store, clock, TableRef::State, &rows).await?.iter().flatten() {
        ledger.add(row, &mut pass);
    }
    let items = get(store, clock, TableRef::Source, keys).await?;
    for (key, item) in keys.iter().zip(&items) {
        let Some(item) = item.as_ref().filter(|item| !item.is_ours()) else { continue };
        pass.report.source_items += 1;
        let applied = check_item(model, &mut ledger, key, item, &mut pass);
        pass.report.findings += expected.add(key, &applied, &mut pass.found);
    }
    for row in ledger.rows.into_values() {
        check_left(&row, &mut pass);
        pass.report.findings += expected.add(&row.source, &row.applied, &mut pass.found);
    }
    let rows = expected.row_keys();
    let found = get(store, clock, TableRef::Source, &rows).await?;
    for (key, item) in rows.into_iter().zip(found) {
        // What stands there and is not ours is as good as missing.
        if let Some(item) = item.filter(|item| item.is_ours()) {
            pass.report.derived_items += 1;
            stored.insert(key, item, &model.table.key_names());
        }
    }
    expected.compare_rows(&mut stored, &mut pass.found);
    pass.sort();
    Ok(pass)
}
