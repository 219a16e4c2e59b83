//! Reconcile: bring what is derived in line with the source items, whatever the stream said.
//!
//! One operation serves the first start on a table with items, the repair after a gap and a changed model. It runs
//! beside the live stream, may be stopped at any moment and started again, and converges.
//!
//! What a scan read is only believed where it agrees with the ledger row. Where it does not, the ledger row is read
//! FIRST and the item after it (consistently), then derived, compared and committed on the condition that the ledger row
//! is still as it was read. The other order would be wrong: between the two reads the stream could apply a newer state,
//! which the older item would then undo for good. The ledger's sequence number stays as it is, so records still in the
//! stream apply as usual afterwards.
//!
//! After the items come the ledger rows: items that are gone are found from that side, and what is in quarantine is tried a
//! second time, because what stood in its way may have been moved by the first pass. What the ledger says is applied is
//! believed: derived items that somebody else changed are for `verify` to find. A ledger row that cannot be read stops nobody
//! but its own item, and is an error at the end.

use serde::Serialize;

use super::batch::{ApplyError, Engine};
use super::commit::CommitError;
use super::doubt;
use super::ports::{Clock, Store, StoreError};
use super::scan::{self, get};
use super::shards::Gap;
use super::telemetry::explain;
use super::worker::{Repair, Repaired};
use crate::model::key::TableKey;
use crate::model::value::{Item, MARKER, Value};
use crate::plan::ledger::{LedgerFault, LedgerRow};
use crate::plan::write::TableRef;

#[cfg(test)]
mod tests;

/// Items handled together: one batch read of their ledger rows, merged transactions.
const CHUNK: usize = 500;

/// What reconcile did.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct ReconcileReport {
    /// Source items scanned.
    pub items: u64,
    /// Ledger rows of items that are not known to be gone.
    pub ledger_rows: u64,
    /// Items whose derived data was wrong and has been written anew.
    pub reconciled: u64,
    /// Items whose derived data the database refuses, now or still; each has a row in quarantine that says why.
    pub quarantined: u64,
    pub transactions: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("an item cannot be reconciled: {0}")]
    Apply(#[source] ApplyError),
    /// All other items are reconciled.
    #[error("{rows} ledger rows cannot be read, so their items are not reconciled; the first: {first}")]
    Ledger { rows: usize, first: LedgerFault },
    /// Nothing has been written.
    #[error(
        "`{key}` counts items already, but the state table has no ledger: they would be counted twice; restore the state \
         table, or delete all items with the attribute `{MARKER}` from the table first"
    )]
    NoLedger { key: TableKey },
}

/// Reconciles every item and every ledger row; `progress` hears how many of both have been looked at.
pub async fn reconcile<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    progress: impl FnMut(&ReconcileReport) + Send,
) -> Result<ReconcileReport, ReconcileError> {
    let mut run = Run { engine, progress, report: ReconcileReport::default(), faults: Vec::new() };
    run.refuse_to_count_twice().await?;
    run.items().await?;
    run.ledger_rows().await?;
    match run.faults.first() {
        Some(first) => Err(ReconcileError::Ledger { rows: run.faults.len(), first: first.clone() }),
        None => Ok(run.report),
    }
}

/// Fails with [`ReconcileError::NoLedger`] where the table has aggregates and the state table knows nothing of them: it was
/// lost, or is another table's. Whoever applied records then would count what is counted already.
pub async fn refuse_to_count_twice<S: Store, C: Clock>(engine: &Engine<S, C>) -> Result<(), ReconcileError> {
    let run =
        Run { engine, progress: |_: &ReconcileReport| {}, report: ReconcileReport::default(), faults: Vec::new() };
    run.refuse_to_count_twice().await
}

/// An item as it was read, `None` where it was not there.
type Scanned = (TableKey, Option<Item>);

struct Run<'e, S, C, P> {
    engine: &'e Engine<S, C>,
    progress: P,
    report: ReconcileReport,
    /// Ledger rows that cannot be read, each once.
    faults: Vec<LedgerFault>,
}

impl<S: Store, C: Clock, P: FnMut(&ReconcileReport) + Send> Run<'_, S, C, P> {
    /// A table that was restored from a backup has its aggregates, and a new state table knows nothing of them.
    async fn refuse_to_count_twice(&self) -> Result<(), ReconcileError> {
        let engine = self.engine;
        let names = engine.model.table.key_names();
        if self.has_ledger().await? {
            return Ok(());
        }
        let mut pages = scan::Pages::new(TableRef::Source, (0, 1));
        while let Some(items) = pages.next(&engine.store, &engine.clock).await? {
            let counting = items.iter().filter(|item| counts(item)).find_map(|item| TableKey::of(item, &names));
            // Asked again, because a worker may have begun meanwhile.
            if let Some(key) = counting {
                return if self.has_ledger().await? { Ok(()) } else { Err(ReconcileError::NoLedger { key }) };
            }
        }
        Ok(())
    }

    async fn has_ledger(&self) -> Result<bool, StoreError> {
        let mut pages = scan::Pages::new(TableRef::State, (0, 1));
        while let Some(items) = pages.next(&self.engine.store, &self.engine.clock).await? {
            if items.iter().any(LedgerRow::is_ledger) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn items(&mut self) -> Result<(), ReconcileError> {
        let engine = self.engine;
        let names = engine.model.table.key_names();
        let mut pages = scan::Pages::new(TableRef::Source, (0, 1));
        while let Some(items) = pages.next(&engine.store, &engine.clock).await? {
            let scanned: Vec<Scanned> = items
                .into_iter()
                .filter(|item| !item.is_ours())
                .filter_map(|item| TableKey::of(&item, &names).map(|key| (key, Some(item))))
                .collect();
            self.report.items += scanned.len() as u64;
            self.report.quarantined += self.apply(&scanned).await?;
            (self.progress)(&self.report);
        }
        Ok(())
    }

    async fn ledger_rows(&mut self) -> Result<(), ReconcileError> {
        let engine = self.engine;
        // Those that the first pass counted are counted anew here.
        self.report.quarantined = 0;
        let mut pages = scan::Pages::new(TableRef::State, (0, 1));
        while let Some(items) = pages.next(&engine.store, &engine.clock).await? {
            let mut rows = Vec::new();
            for item in items.iter().filter(|item| LedgerRow::is_ledger(item)) {
                match LedgerRow::from_item(item) {
                    Ok(row) => rows.push(row),
                    Err(fault) => self.fault(fault),
                }
            }
            rows.retain(|row| !is_tombstone(row));
            self.report.ledger_rows += rows.len() as u64;
            let keys: Vec<TableKey> = rows.iter().map(|row| row.source.clone()).collect();
            let found = get(&engine.store, &engine.clock, TableRef::Source, &keys).await?;
            let open: Vec<Scanned> = rows
                .into_iter()
                // A derived item at the key of a source item: that one is gone.
                .zip(found.into_iter().map(|item| item.filter(|item| !item.is_ours())))
                .filter(|(row, item)| item.is_none() || row.quarantined.is_some())
                .map(|(row, item)| (row.source, item))
                .collect();
            self.report.quarantined += self.apply(&open).await?;
            (self.progress)(&self.report);
        }
        Ok(())
    }

    /// Applies the items and counts; the number of those that are in quarantine.
    async fn apply(&mut self, items: &[Scanned]) -> Result<u64, ReconcileError> {
        let mut quarantined = 0;
        let mut todo: Vec<&[Scanned]> = items.chunks(CHUNK).rev().collect();
        while let Some(chunk) = todo.pop() {
            match self.engine.apply_items(chunk).await {
                Ok(done) => {
                    self.report.reconciled += (done.applied + done.reconciled) as u64;
                    self.report.transactions += done.transactions as u64;
                    quarantined += done.quarantined as u64;
                }
                // A row that cannot be read is isolated by halving.
                Err(ApplyError { source: CommitError::Ledger(fault), report, .. }) => {
                    self.report.reconciled += (report.applied + report.reconciled) as u64;
                    self.report.transactions += report.transactions as u64;
                    let (one, other) = chunk.split_at(chunk.len() / 2);
                    match one {
                        [] => self.fault(fault),
                        _ => todo.extend([other, one]),
                    }
                }
                Err(error) => return Err(ReconcileError::Apply(error)),
            }
        }
        Ok(quarantined)
    }

    fn fault(&mut self, fault: LedgerFault) {
        if !self.faults.iter().any(|known| known.row == fault.row) {
            self.faults.push(fault);
        }
    }
}

/// An aggregate that is not at zero.
fn counts(item: &Item) -> bool {
    item.text(MARKER).is_some_and(|marker| marker.starts_with("aggregate/"))
        && item.0.values().filter_map(Value::as_number).any(|number| !number.is_zero())
}

/// Nothing is left of the item, so there is nothing to look for.
fn is_tombstone(row: &LedgerRow) -> bool {
    row.deleted && row.applied.is_empty() && row.quarantined.is_none()
}

/// A gap is closed by reconciling the whole table. Where records were lost that is done twice: see [`doubt`].
impl<S: Store, C: Clock> Repair for Engine<S, C> {
    async fn repair(&self, gap: &Gap) -> Result<Repaired, String> {
        let told = |error: ReconcileError| explain(&error, false);
        if gap.is_loss() {
            doubt::raise(&self.store, &self.clock).await.map_err(|error| explain(&error, false))?;
        }
        reconcile(self, |_| {}).await.map_err(told)?;
        if gap.is_loss() && self.settings.second_look {
            self.clock.sleep(doubt::SETTLED_AFTER).await;
            reconcile(self, |_| {}).await.map_err(told)?;
        }
        Ok(Repaired::Done)
    }
}
