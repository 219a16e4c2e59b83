//! Reconcile: bring what is derived in line with the table, whatever the ledger says.
//!
//! One operation serves the first start on a table with items, the repair after a gap and a changed model. It runs
//! beside the live stream, may be stopped at any moment and started again, and converges.
//!
//! What a scan read is only believed where it agrees with the ledger row. Where it does not, the ledger row is read
//! FIRST and the item after it (consistently), then derived, compared and committed on the condition that the ledger row
//! is still as it was read. The other order would be wrong: between the two reads the stream could apply a newer state,
//! which the older item would then undo for good. The ledger's sequence number stays as it is, so records still in the
//! stream apply as usual afterwards. Items that are gone are found from the ledger's side.

use serde::Serialize;

use super::batch::{ApplyError, Engine};
use super::ports::{Clock, Store, StoreError};
use super::scan::{self, get};
use super::shards::Gap;
use super::telemetry::explain;
use super::worker::{Repair, Repaired};
use crate::model::key::TableKey;
use crate::model::value::Item;
use crate::plan::ledger::LedgerRow;
use crate::plan::write::TableRef;

/// Items handled together: one batch read of their ledger rows, merged transactions.
const CHUNK: usize = 500;

/// What reconcile did.
#[derive(Debug, Default, Clone, Serialize)]
pub struct ReconcileReport {
    /// Source items scanned.
    pub items: u64,
    /// Ledger rows scanned.
    pub ledger_rows: u64,
    /// Items whose derived data was wrong and has been written anew.
    pub reconciled: u64,
    /// Items whose derived data the database refused; each has a finding.
    pub quarantined: u64,
    pub transactions: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("an item cannot be reconciled: {0}")]
    Apply(#[source] ApplyError),
}

/// Reconciles every item and every ledger row; `progress` hears how many of both have been looked at.
pub async fn reconcile<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    mut progress: impl FnMut(&ReconcileReport) + Send,
) -> Result<ReconcileReport, ReconcileError> {
    let mut report = ReconcileReport::default();
    let names = engine.model.table.key_names();
    let mut pages = scan::Pages::new(TableRef::Source, (0, 1));
    while let Some(items) = pages.next(&engine.store, &engine.clock).await? {
        let scanned: Vec<(TableKey, Option<Item>)> = items
            .into_iter()
            .filter(|item| !item.is_ours())
            .filter_map(|item| TableKey::of(&item, &names).map(|key| (key, Some(item))))
            .collect();
        report.items += scanned.len() as u64;
        apply(engine, &scanned, &mut report).await?;
        progress(&report);
    }
    let mut pages = scan::Pages::new(TableRef::State, (0, 1));
    while let Some(items) = pages.next(&engine.store, &engine.clock).await? {
        let keys: Vec<TableKey> = items
            .iter()
            .filter(|item| LedgerRow::is_ledger(item))
            .filter_map(|item| LedgerRow::from_item(item).ok())
            .filter(|row| !row.deleted)
            .map(|row| row.source)
            .collect();
        report.ledger_rows += keys.len() as u64;
        let found = get(&engine.store, &engine.clock, TableRef::Source, &keys).await?;
        let gone: Vec<(TableKey, Option<Item>)> =
            keys.into_iter().zip(found).filter(|(_, item)| item.is_none()).collect();
        apply(engine, &gone, &mut report).await?;
        progress(&report);
    }
    Ok(report)
}

async fn apply<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    items: &[(TableKey, Option<Item>)],
    report: &mut ReconcileReport,
) -> Result<(), ReconcileError> {
    for chunk in items.chunks(CHUNK) {
        let done = engine.apply_items(chunk).await.map_err(ReconcileError::Apply)?;
        report.reconciled += (done.applied + done.reconciled) as u64;
        report.quarantined += done.quarantined as u64;
        report.transactions += done.transactions as u64;
    }
    Ok(())
}

/// A gap is closed by reconciling the whole table.
impl<S: Store, C: Clock> Repair for Engine<S, C> {
    async fn repair(&self, _gap: &Gap) -> Result<Repaired, String> {
        match reconcile(self, |_| {}).await {
            Ok(_) => Ok(Repaired::Done),
            Err(error) => Err(explain(&error, false)),
        }
    }
}
