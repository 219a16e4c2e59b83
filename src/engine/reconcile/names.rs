//! Aggregates that still have the name of a former model.
//!
//! An aggregate's marker is written with what is added to it. Where the last commit only took something away, of an item that was applied
//! under the former name, the former name stays, and nobody would write it again: so a reconcile does.

use std::collections::BTreeMap;

use crate::engine::batch::Engine;
use crate::engine::checkpoint::write_each;
use crate::engine::ports::{Clock, Store, TransactError};
use crate::model::key::TableKey;
use crate::model::value::{Item, MARKER, Value};
use crate::plan::ledger::{LedgerRow, aggregate_marker};
use crate::plan::write::{Condition, Op, TableRef, Write};

/// Aggregate items by key, with the marker that no aggregate of the model has.
#[derive(Debug, Default)]
pub(super) struct FormerNames(BTreeMap<TableKey, String>);

impl FormerNames {
    /// Takes note of a derived item.
    pub fn note<S, C>(&mut self, engine: &Engine<S, C>, item: &Item) {
        let Some(marker) = item.text(MARKER) else { return };
        let is_known = |name: &str| name == "findings" || engine.model.aggregate(name).is_some();
        if marker.strip_prefix("aggregate/").is_some_and(|name| !is_known(name))
            && let Some(key) = TableKey::of(item, &engine.model.table.key_names())
        {
            self.0.insert(key, marker.to_owned());
        }
    }

    /// The writes that give aggregates the names by which these ledger rows count in them.
    pub fn corrections<'r, S, C>(
        &mut self,
        engine: &Engine<S, C>,
        rows: impl Iterator<Item = &'r LedgerRow>,
    ) -> Vec<Write> {
        let mut writes = Vec::new();
        if self.0.is_empty() {
            return writes;
        }
        for count in rows.flat_map(|row| &row.applied.counts) {
            if engine.model.aggregate(&count.aggregate).is_some()
                && let Some(former) = self.0.remove(&count.key)
            {
                let set = Item::new().with(MARKER, Value::text(aggregate_marker(&count.aggregate)));
                writes.push(Write {
                    table: TableRef::Source,
                    key: count.key.clone(),
                    op: Op::Update { add: BTreeMap::new(), set },
                    condition: Condition::Equals(MARKER.into(), Value::S(former.into())),
                });
            }
        }
        writes
    }
}

/// Sends them, each for itself: where somebody was faster, the name is written already.
pub(super) async fn send<S: Store, C: Clock>(engine: &Engine<S, C>, writes: &[Write]) -> Result<(), TransactError> {
    match writes {
        [] => Ok(()),
        _ => write_each(&engine.store, &engine.clock, writes).await.map(|_| ()),
    }
}
