//! Aggregates that still have the name of a former model.
//!
//! An aggregate's marker is written with what is added to it. Where the last commit only took something away, of an item that was applied
//! under the former name, the former name stays, and nobody would write it again: so a reconcile does.
//!
//! The first side of a run meets the names, the second one knows the right ones. What was met is kept in mind, up to a limit. Where it
//! is not, because there was too much of it or an earlier start of the run had met it, the aggregates of each page of ledger rows
//! are read for their names: slower, and right all the same.
//!
//! What is left at the end has the name of an aggregate that the model dropped. Nothing counts in it any more, unless the database
//! refused that, so it is at zero: it goes. To the ledger an item at zero and none at all are the same, so nobody is misled who
//! still counts by the former model, and finds nothing there.

use std::collections::BTreeMap;

use super::{CHUNK, ReconcileError};
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

/// Most measures that a removal's condition names: it has to fit an expression of 4 KB.
const MEASURES_MAX: usize = 50;

/// Aggregate items by key, each with a name or marker.
pub(super) type Names = BTreeMap<TableKey, Text>;

/// Aggregate items with a marker that no aggregate of the model has.
#[derive(Debug)]
pub(super) enum FormerNames {
    Noted(Names),
    /// There are some, and which is not known.
    Unknown,
}

impl Default for FormerNames {
    fn default() -> FormerNames {
        FormerNames::Noted(Names::new())
    }
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

/// Takes away those of the aggregates that are at zero and have a former name still; how many.
pub(super) async fn remove_noted<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    noted: Names,
) -> Result<u64, ReconcileError> {
    let keys: Vec<TableKey> = noted.into_keys().collect();
    let mut removed = 0;
    for keys in keys.chunks(CHUNK) {
        let items = get(&engine.store, &engine.clock, TableRef::Source, keys).await?;
        removed += remove(engine, items.into_iter().flatten()).await?;
    }
    Ok(removed)
}

/// The same for items as they were read.
pub(super) async fn remove<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    items: impl Iterator<Item = Item>,
) -> Result<u64, ReconcileError> {
    let writes: Vec<Write> = items.filter_map(|item| removal(&engine.model, &item)).collect();
    let done = write_each(&engine.store, &engine.clock, &writes).await.map_err(ReconcileError::Rename)?;
    Ok(done.into_iter().filter(|done| *done).count() as u64)
}

/// The delete of an aggregate at zero that has a former name, on condition that it is as it was read: each commit writes `UpdatedAt`.
/// An item with anything else in it is not ours alone, and stays.
fn removal(model: &Model, item: &Item) -> Option<Write> {
    former(model, item)?;
    let names = model.table.key_names();
    let key = TableKey::of(item, &names)?;
    let is_key = |name: &Text| *name == names.partition || Some(name) == names.sort.as_ref();
    let is_ours = |name: &Text| [MARKER, "UpdatedAt", "Group"].contains(&name.as_str());
    let mut guards = Vec::new();
    for (name, value) in item.0.iter().filter(|(name, _)| !is_key(name)) {
        let is_zero = value.as_number().is_some_and(|number| number.is_zero());
        let is_empty_measure = is_measure(name) && is_zero;
        if !is_ours(name) && !is_empty_measure {
            return None;
        }
        if name != "Group" {
            guards.push((name.clone(), Some(value.clone())));
        }
    }
    // The marker, `UpdatedAt` and the count of all come first.
    guards.sort_by_key(|(name, _)| (is_measure(name), name != "Total"));
    guards.truncate(MEASURES_MAX);
    item.get("Total")?;
    Some(Write { table: TableRef::Source, key, op: Op::Delete, condition: Condition::All(guards) })
}

fn is_measure(name: &str) -> bool {
    name == "Total" || ["Count_", "Sum_", "SumSq_"].iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::World;

    #[test]
    fn only_what_is_an_aggregate_at_zero_and_nothing_else_is_taken_away() {
        let world = World::new();
        let key = TableKey::text("PROJECT#1", "STATS#JOBS");
        let zero = || Value::N(0_i64.into());
        let with = |marker: &str| {
            let item = key.to_item(&world.model.table.key_names()).with(MARKER, Value::text(marker));
            item.with("Total", zero()).with("Count_Open", zero()).with("UpdatedAt", Value::text("t"))
        };
        let former = || with("aggregate/former").with("Group", Value::M(Item::new().0));
        let Some(Write { op: Op::Delete, condition: Condition::All(guards), .. }) = removal(&world.model, &former())
        else {
            panic!("it goes")
        };
        let names: Vec<&str> = guards.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["UpdatedAt", MARKER, "Total", "Count_Open"]);
        let mut without_total = former();
        without_total.0.remove("Total");
        let stay = [
            with("aggregate/by_project"),
            with("aggregate/findings"),
            with("listing/former"),
            without_total,
            former().with("Sum_Hours", Value::N(1_i64.into())),
            former().with("Count_Open", Value::text("0")),
            former().with("Note", Value::text("somebody's")),
            former().with("Size", zero()),
        ];
        for item in stay {
            assert_eq!(removal(&world.model, &item), None, "{item:?}");
        }
        let wide = (0..100).fold(former(), |item, n| item.with(format!("Count_{n}"), zero()));
        let Some(Write { condition: Condition::All(guards), .. }) = removal(&world.model, &wide) else {
            panic!("it goes")
        };
        assert_eq!((guards.len(), guards[2].0.as_str()), (MEASURES_MAX, "Total"));
    }

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
