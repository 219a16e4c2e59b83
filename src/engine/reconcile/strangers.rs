//! A table and a state table that do not belong together: one was lost, restored or made anew.

use std::collections::BTreeSet;

use super::{ReconcileError, counts};
use crate::engine::batch::Engine;
use crate::engine::ports::{Clock, Store, StoreError};
use crate::engine::scan::{self, get};
use crate::model::key::TableKey;
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
    let names = engine.model.table.key_names();
    if let Some(rows) = first_rows(engine).await? {
        return refuse_to_take_from_nothing(engine, &rows).await;
    }
    let mut pages = scan::Pages::new(TableRef::Source, (0, 1));
    while let Some(items) = pages.next(&engine.store, &engine.clock).await? {
        page();
        let counting = items.iter().filter(|item| counts(item)).find_map(|item| TableKey::of(item, &names));
        // Asked again, because a worker may have begun meanwhile.
        if let Some(key) = counting {
            return if has_ledger(engine).await? { Ok(()) } else { Err(ReconcileError::NoLedger { key }) };
        }
    }
    Ok(())
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
