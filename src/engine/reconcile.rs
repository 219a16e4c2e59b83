//! Reconcile: bring what is derived in line with the table, whatever the ledger says.
//!
//! One operation serves the first start on a table with items, the repair after a gap and a changed model. It runs
//! beside the live stream, may be stopped at any moment and started again, and converges.
//!
//! For each item the ledger row is read FIRST and the item after it (consistently), then derived, compared and
//! committed on the condition that the ledger row is still as it was read. The other order would be wrong: between
//! the two reads the stream could apply a newer state, which the older item would then undo for good. The ledger's
//! sequence number stays as it is, so records still in the stream apply as usual afterwards.
//!
//! A scanned item that derives just what its ledger row holds needs no second look: had it changed since, the change
//! is in the stream. Items that are gone are found from the ledger's side.

use serde::Serialize;

use super::batch::{ApplyError, BatchReport, Engine};
use super::ports::{Clock, Store, StoreError};
use super::scan;
use crate::derive;
use crate::model::key::TableKey;
use crate::model::value::Item;
use crate::plan::ledger::{Applied, LedgerRow};
use crate::plan::state;
use crate::plan::write::TableRef;

/// Keys looked at together: one batch read of the ledger, one of the items.
const CHUNK: usize = 100;

/// What reconcile did.
#[derive(Debug, Default, Serialize)]
pub struct ReconcileReport {
    /// Source items scanned.
    pub items: u64,
    /// Ledger rows scanned.
    pub ledger_rows: u64,
    /// Items and ledger rows that were looked at a second time because they differed.
    pub examined: u64,
    /// Items whose derived data was written anew.
    pub applied: u64,
    pub quarantined: u64,
    pub transactions: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
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
        let scanned: Vec<(TableKey, Item)> = items
            .into_iter()
            .filter(|item| !item.is_ours())
            .filter_map(|item| TableKey::of(&item, &names).map(|key| (key, item)))
            .collect();
        for chunk in scanned.chunks(CHUNK) {
            report.items += chunk.len() as u64;
            let differing = differing(engine, chunk).await?;
            examine(engine, &differing, &mut report).await?;
            progress(&report);
        }
    }
    let mut pages = scan::Pages::new(TableRef::State, (0, 1));
    while let Some(items) = pages.next(&engine.store, &engine.clock).await? {
        let keys: Vec<TableKey> = items
            .iter()
            .filter(|item| state::is_ledger(item))
            .filter_map(|item| LedgerRow::from_item(item).ok())
            .filter(|row| !row.deleted)
            .map(|row| row.source)
            .collect();
        report.ledger_rows += keys.len() as u64;
        for chunk in keys.chunks(CHUNK) {
            let found = engine.store.get(TableRef::Source, chunk).await?;
            let gone: Vec<TableKey> =
                chunk.iter().zip(found).filter(|(_, item)| item.is_none()).map(|(key, _)| key.clone()).collect();
            examine(engine, &gone, &mut report).await?;
            progress(&report);
        }
    }
    Ok(report)
}

/// The keys of scanned items that derive something else than their ledger rows hold.
async fn differing<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    scanned: &[(TableKey, Item)],
) -> Result<Vec<TableKey>, ReconcileError> {
    let keys: Vec<TableKey> = scanned.iter().map(|(key, _)| key.clone()).collect();
    let rows = engine.read_ledger(&keys).await?;
    let differs = |(key, item): &(TableKey, Item), row: &Option<LedgerRow>| {
        let applied = Applied::of(&derive::derive(&engine.model, key, item));
        !row.as_ref().is_some_and(|row| !row.deleted && row.applied == applied)
    };
    Ok(scanned.iter().zip(&rows).filter(|(pair, row)| differs(pair, row)).map(|((key, _), _)| key.clone()).collect())
}

async fn examine<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    keys: &[TableKey],
    report: &mut ReconcileReport,
) -> Result<(), ReconcileError> {
    if keys.is_empty() {
        return Ok(());
    }
    report.examined += keys.len() as u64;
    let done: BatchReport = engine.reconcile_keys(keys).await?;
    report.applied += done.applied;
    report.quarantined += done.quarantined;
    report.transactions += done.transactions;
    Ok(())
}
