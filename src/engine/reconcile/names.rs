//! Aggregates that still have the name of a former model.
//!
//! An aggregate's marker is written with what is added to it. Where the last commit only took something away, of an item that was applied
//! under the former name, the former name stays, and nobody would write it again: so a reconcile does.
//!
//! The first side of a run meets the names, the second one knows the right ones. What was met is kept in mind, up to a limit. Where it
//! is not, because there was too much of it or an earlier start of the run had met it, the aggregates of each page of ledger rows
//! are read for their names: slower, and right all the same.

use std::collections::BTreeMap;

use crate::engine::batch::Engine;
use crate::engine::checkpoint::write_each;
use crate::engine::ports::{Clock, Store, StoreError, TransactError};
use crate::engine::scan::get;
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, MARKER, Text, Value};
use crate::plan::ledger::{LedgerRow, aggregate_marker};
use crate::plan::write::{Condition, Op, TableRef, Write};

/// Most aggregates that are kept in mind: some megabytes.
const NOTED_MAX: usize = 10_000;

/// Aggregate items by key, each with a name or marker.
pub(super) type Names = BTreeMap<TableKey, Text>;

/// Aggregate items with a marker that no aggregate of the model has.
#[derive(Debug)]
pub(super) enum FormerNames {
    Noted(Names),
    /// There are some, and which is not known.
    Unknown,
}

impl FormerNames {
    /// Takes note of a derived item; true if it has a former name.
    pub fn note<S, C>(&mut self, engine: &Engine<S, C>, item: &Item) -> bool {
        let Some(marker) = former(&engine.model, item) else { return false };
        let key = TableKey::of(item, &engine.model.table.key_names());
        match (&mut *self, key) {
            (FormerNames::Noted(noted), _) if noted.len() >= NOTED_MAX => *self = FormerNames::Unknown,
            (FormerNames::Noted(noted), Some(key)) => _ = noted.insert(key, marker.into()),
            (FormerNames::Noted(_), None) | (FormerNames::Unknown, _) => {}
        }
        true
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, FormerNames::Noted(noted) if noted.is_empty())
    }

    /// Gives away what was noted of these aggregates. `None`: look them up.
    pub fn take(&mut self, named: &Names) -> Option<Names> {
        let FormerNames::Noted(noted) = self else { return None };
        Some(named.keys().filter_map(|key| noted.remove_entry(key)).collect())
    }
}

/// The item's marker if it is that of an aggregate that the model does not have.
fn former<'i>(model: &Model, item: &'i Item) -> Option<&'i str> {
    let is_known = |name: &str| name == "findings" || model.aggregate(name).is_some();
    let marker = item.text(MARKER)?;
    marker.strip_prefix("aggregate/").is_some_and(|name| !is_known(name)).then_some(marker)
}

/// The aggregates in which these ledger rows count, with the names by which they do.
pub(super) fn named(model: &Model, rows: &[LedgerRow]) -> Names {
    let counts = rows.iter().flat_map(|row| &row.applied.counts);
    let current = counts.filter(|count| model.aggregate(&count.aggregate).is_some());
    current.map(|count| (count.key.clone(), count.aggregate.clone())).collect()
}

/// Those of the aggregates that have a former name, as they are now.
pub(super) async fn look_up<S: Store, C: Clock>(engine: &Engine<S, C>, named: &Names) -> Result<Names, StoreError> {
    let keys: Vec<TableKey> = named.keys().cloned().collect();
    let items = get(&engine.store, &engine.clock, TableRef::Source, &keys).await?;
    let marker = |item: Option<Item>| former(&engine.model, &item?).map(Text::from);
    Ok(keys.into_iter().zip(items).filter_map(|(key, item)| Some((key, marker(item)?))).collect())
}

/// Gives aggregates their names, each for itself: where somebody was faster, the name is written already.
pub(super) async fn correct<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    former: Names,
    named: &Names,
) -> Result<(), TransactError> {
    let write = |(key, former): (TableKey, Text)| {
        let set = Item::new().with(MARKER, Value::text(aggregate_marker(named.get(&key)?)));
        let condition = Condition::Equals(MARKER.into(), Value::S(former));
        Some(Write { table: TableRef::Source, key, op: Op::Update { add: BTreeMap::new(), set }, condition })
    };
    let writes: Vec<Write> = former.into_iter().filter_map(write).collect();
    match writes.as_slice() {
        [] => Ok(()),
        writes => write_each(&engine.store, &engine.clock, writes).await.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::World;

    #[test]
    fn what_is_noted_is_bounded() {
        let world = World::new();
        let aggregate = |n: usize, marker: &str| {
            let key = TableKey::text(format!("PROJECT#{n}"), "STATS#JOBS");
            key.to_item(&world.model.table.key_names()).with(MARKER, Value::text(marker))
        };
        let mut names = FormerNames::Noted(Names::new());
        for marker in ["aggregate/by_project", "aggregate/findings", "listing/former"] {
            assert!(!names.note(&world.engine, &aggregate(0, marker)) && names.is_empty(), "{marker}");
        }
        for n in 0..NOTED_MAX {
            assert!(names.note(&world.engine, &aggregate(n, "aggregate/former")));
        }
        let named = Names::from(
            [7, NOTED_MAX].map(|n| (TableKey::text(format!("PROJECT#{n}"), "STATS#JOBS"), "by_project".into())),
        );
        let taken = names.take(&named).unwrap();
        assert_eq!(taken.into_values().collect::<Vec<_>>(), ["aggregate/former"]);
        assert_eq!(names.take(&named), Some(Names::new()), "given away once");
        for n in [NOTED_MAX, NOTED_MAX + 1] {
            assert!(names.note(&world.engine, &aggregate(n, "aggregate/former")));
        }
        assert!(!names.is_empty() && names.take(&named).is_none(), "there are too many to say which");
    }
}
