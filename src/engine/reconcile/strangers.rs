//! A table and a state table that do not belong together: one was lost, restored or made anew.

use std::collections::BTreeSet;

use super::journal::{At, Place, Side};
use super::{ReconcileError, ReconcileReport, Run, counts};
use crate::engine::batch::Engine;
use crate::engine::ports::{Clock, Store, StoreError};
use crate::engine::scan::{self, get};
use crate::model::key::TableKey;
use crate::model::value::Item;
use crate::plan::ledger::LedgerRow;
use crate::plan::write::TableRef;

/// Aggregates that are looked for at most: those of the first ledger rows.
const LOOKED_FOR_MAX: usize = 100;

/// Fails where the table has aggregates and the state table knows nothing of them ([`ReconcileError::NoLedger`]): whoever
/// applied records then would count what is counted already. Likewise where the ledger counts in aggregates of which the table has
/// none ([`ReconcileError::NoAggregates`]): what is taken away would be taken from nothing.
///
/// Where there is no ledger yet the whole table is read. `page` hears of each page of it, so that whoever watches can tell a long
/// search from one that is stuck. It may be dropped at any moment: nothing is written.
///
/// # Errors
/// Those, or a table that cannot be read.
pub async fn refuse_strangers<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    mut page: impl FnMut() + Send,
) -> Result<(), ReconcileError> {
    if let Some(rows) = first_rows(engine).await? {
        return refuse_to_take_from_nothing(engine, &rows).await;
    }
    let mut pages = scan::Pages::new(TableRef::Source, (0, 1));
    while let Some(items) = pages.next(&engine.store, &engine.clock).await? {
        page();
        if let Some(key) = counting(engine, &items) {
            return refuse_without_ledger(engine, key).await;
        }
    }
    Ok(())
}

impl<S: Store, C: Clock, P: FnMut(&ReconcileReport) + Send> Run<'_, S, C, P> {
    /// The same, from where an earlier start of the run stopped: a table may be larger than what one start has time for.
    pub(super) async fn refuse_strangers(&self) -> Result<(), ReconcileError> {
        let Engine { store, clock, .. } = self.engine;
        if let Some(rows) = first_rows(self.engine).await? {
            return refuse_to_take_from_nothing(self.engine, &rows).await;
        }
        let side = Side::Strangers;
        let earlier = self.earlier.iter().find(|place| place.side == side);
        let mut place = earlier.cloned().unwrap_or_else(|| Place::start(side, 0));
        let mut pages = match &place.at {
            At::Start => scan::Pages::new(side.table(), (0, 1)),
            At::After(key) => scan::Pages::after(side.table(), (0, 1), key.clone()),
            At::End => return Ok(()),
        };
        while let Some(items) = pages.next(store, clock).await? {
            if let Some(key) = counting(self.engine, &items) {
                return refuse_without_ledger(self.engine, key).await;
            }
            place.at = pages.position().map_or(At::End, |key| At::After(key.clone()));
            self.keep(&place).await?;
        }
        Ok(())
    }
}

/// The first of the items that is an aggregate which counts something.
fn counting<S, C>(engine: &Engine<S, C>, items: &[Item]) -> Option<TableKey> {
    let names = engine.model.table.key_names();
    items.iter().filter(|item| counts(item)).find_map(|item| TableKey::of(item, &names))
}

/// Asks again, because a worker may have begun meanwhile.
async fn refuse_without_ledger<S: Store, C: Clock>(engine: &Engine<S, C>, key: TableKey) -> Result<(), ReconcileError> {
    if has_ledger(engine).await? { Ok(()) } else { Err(ReconcileError::NoLedger { key }) }
}

/// An aggregate that once counted something stays in the table, with zeros if need be.
async fn refuse_to_take_from_nothing<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    rows: &[LedgerRow],
) -> Result<(), ReconcileError> {
    let keys: BTreeSet<&TableKey> = rows.iter().flat_map(|row| &row.applied.counts).map(|count| &count.key).collect();
    let keys: Vec<TableKey> = keys.into_iter().take(LOOKED_FOR_MAX).cloned().collect();
    let found = get(&engine.store, &engine.clock, TableRef::Source, &keys).await?;
    match keys.into_iter().next() {
        Some(key) if found.iter().all(Option::is_none) => Err(ReconcileError::NoAggregates { key }),
        _ => Ok(()),
    }
}

/// True if anything was ever derived from the table's items.
///
/// # Errors
/// The state table cannot be read.
pub async fn has_ledger<S: Store, C: Clock>(engine: &Engine<S, C>) -> Result<bool, StoreError> {
    Ok(first_rows(engine).await?.is_some())
}

/// The ledger rows of the first page of the state table that has any; those that cannot be read are left out.
async fn first_rows<S: Store, C: Clock>(engine: &Engine<S, C>) -> Result<Option<Vec<LedgerRow>>, StoreError> {
    let mut pages = scan::Pages::new(TableRef::State, (0, 1));
    while let Some(items) = pages.next(&engine.store, &engine.clock).await? {
        let rows: Vec<_> = items.iter().filter(|item| LedgerRow::is_ledger(item)).collect();
        if !rows.is_empty() {
            return Ok(Some(rows.into_iter().filter_map(|item| LedgerRow::from_item(item).ok()).collect()));
        }
    }
    Ok(None)
}
