//! The shipped models over their samples, through the tables: right answers by one read, and nothing left behind.
#![cfg(test)]

use super::*;
use crate::model::load::load;
use crate::model::value::Text;

/// An item of the sample files: plain JSON, numbers as numbers.
fn item(line: &str) -> Item {
    fn value(json: serde_json::Value) -> Value {
        match json {
            serde_json::Value::Null => Value::Null(true),
            serde_json::Value::Bool(flag) => Value::Bool(flag),
            serde_json::Value::Number(number) => Value::N(number.to_string().parse().unwrap()),
            serde_json::Value::String(text) => Value::S(text.into()),
            serde_json::Value::Array(list) => Value::L(list.into_iter().map(value).collect()),
            serde_json::Value::Object(map) => Value::M(map.into_iter().map(|(k, v)| (k.into(), value(v))).collect()),
        }
    }
    match value(serde_json::from_str(line).unwrap()) {
        Value::M(map) => Item(map),
        other => panic!("{other:?}"),
    }
}

/// A world with the model and its sample, applied in batches of five, each twice.
fn played(model: &str, name: &str, sample: &str) -> World {
    let mut world = World::with(load(model, name).unwrap().model);
    for line in sample.lines() {
        world.store.put(item(line)).unwrap();
    }
    let records = world.pending();
    for batch in records.chunks(5) {
        assert_eq!(world.apply(batch).quarantined, 0);
        assert_eq!(world.apply(batch).transactions, 0);
    }
    world.settle();
    world
}

fn numbers(world: &World, key: &TableKey) -> Vec<(Text, String)> {
    let item = world.store.item(TableRef::Source, key).unwrap();
    let numbers = item.0.iter().filter(|(name, _)| name.starts_with("Count_") || *name == "Total");
    numbers.filter_map(|(name, value)| Some((name.clone(), value.as_number()?.to_string()))).collect()
}

fn shown(pairs: &[(Text, String)]) -> String {
    pairs.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
}

/// Deletes all source items; afterwards the table holds aggregates at zero and nothing else.
fn check_that_nothing_is_left(mut world: World) {
    let table = world.store.table(TableRef::Source);
    for (key, _) in table.items().filter(|(_, item)| !item.is_ours()) {
        world.store.delete(key);
    }
    world.settle();
    for (key, item) in world.store.table(TableRef::Source).items() {
        let is_zero = |value: &Value| value.as_number().is_none_or(crate::model::decimal::Decimal::is_zero);
        let names = world.model.table.key_names();
        let is_key = |name: &Text| *name == names.partition || Some(name) == names.sort.as_ref();
        assert!(item.0.iter().all(|(name, value)| is_key(name) || is_zero(value)), "{key}: {item:?}");
        assert!(item.text("_keeper").unwrap().starts_with("aggregate/"), "{key}");
    }
}

#[test]
fn quality() {
    let world = played(
        include_str!("../../../models/quality.toml"),
        "quality",
        include_str!("../../../models/quality.items.jsonl"),
    );
    let project = TableKey::text("PROJECT#P001", "STATS#WO_STATUS");
    let expected = "Count_Cancelled 0, Count_Complete 0, Count_InProgress 1, Count_Pending 1, Total 2";
    assert_eq!(shown(&numbers(&world, &project)), expected);
    // Reassigning deletes one item and puts another, which is finished at once.
    let order = TableKey::text("WO#WO001", "USER#tech001");
    let mut moved = world.store.item(TableRef::Source, &order).unwrap();
    moved.insert("SK", Value::text("USER#tech002"));
    moved.insert("GSI3PK", Value::text("USER#tech002"));
    moved.insert("Status", Value::text("Complete"));
    let mut world = world;
    world.store.delete(&order);
    world.store.put(moved).unwrap();
    world.settle();
    let expected = "Count_Cancelled 0, Count_Complete 1, Count_InProgress 1, Count_Pending 0, Total 2";
    assert_eq!(shown(&numbers(&world, &project)), expected);
    check_that_nothing_is_left(world);
}

#[test]
fn inspection() {
    check_that_nothing_is_left(played(
        include_str!("../../../models/inspection.toml"),
        "inspection",
        include_str!("../../../models/inspection.items.jsonl"),
    ));
}

#[test]
fn skills() {
    let model = include_str!("../../../models/skills.toml");
    let world = played(model, "skills", include_str!("../../../models/skills.items.jsonl"));
    let python = TableKey::text("SkillStats", "SKILLSTATS#Programming#Python");
    let expected = "Count_Advanced 1, Count_Beginner 0, Count_Expert 1, Count_Intermediate 0, Total 2";
    assert_eq!(shown(&numbers(&world, &python)), expected);
    check_that_nothing_is_left(world);

    let world = played(model, "skills", include_str!("../../../models/skills.index-sample.jsonl"));
    let expected = "Count_Advanced 1, Count_Beginner 1, Count_Expert 2, Count_Intermediate 1, Total 5";
    assert_eq!(shown(&numbers(&world, &python)), expected);
    check_that_nothing_is_left(world);
}
