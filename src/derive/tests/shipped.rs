//! The shipped models over their shipped sample items.

use crate::derive::Fold;
use crate::model::load::load;
use crate::model::spec::Model;
use crate::model::value::{Item, Value};

use super::derived;

macro_rules! shipped {
    ($model:literal, $items:literal) => {
        (
            load(include_str!(concat!("../../../models/", $model, ".toml")), $model).unwrap().model,
            items(include_str!(concat!("../../../models/", $items, ".jsonl"))),
        )
    };
}

pub fn quality() -> (Model, Vec<Item>) {
    shipped!("quality", "quality.items")
}

pub fn inspection() -> (Model, Vec<Item>) {
    shipped!("inspection", "inspection.items")
}

pub fn skills() -> (Model, Vec<Item>) {
    shipped!("skills", "skills.items")
}

/// Flat JSON lines; numbers by their text.
fn items(lines: &str) -> Vec<Item> {
    let value = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => Value::S(text.into()),
        serde_json::Value::Bool(flag) => Value::Bool(flag),
        serde_json::Value::Number(number) => Value::N(number.to_string().parse().unwrap()),
        serde_json::Value::Array(list) => Value::L(list.iter().map(|one| Value::text(one.as_str().unwrap())).collect()),
        other => panic!("{other}"),
    };
    let item = |line: &str| {
        let map: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        Item(map.into_iter().map(|(name, one)| (name.into(), value(one))).collect())
    };
    lines.lines().filter(|line| !line.trim().is_empty()).map(item).collect()
}

fn folded((model, items): &(Model, Vec<Item>)) -> Fold {
    let mut fold = Fold::new();
    items.iter().for_each(|item| fold.add(&derived(model, item)));
    fold
}

/// The measures of the aggregate item at a key, zeros included, sums left out.
fn at((model, _): &(Model, Vec<Item>), fold: &Fold, key: &str) -> String {
    let totals = fold.aggregates(model).into_iter().find(|totals| totals.key.to_string() == key).unwrap();
    let counts = totals.measures.iter().filter(|(name, _)| !name.starts_with("Sum"));
    counts
        .map(|(name, number)| format!("{} {number}", name.trim_start_matches("Count_")))
        .collect::<Vec<_>>()
        .join(", ")
}

#[test]
fn every_sample_item_is_recognised_and_clean() {
    let samples =
        [quality(), shipped!("inspection", "inspection.items"), skills(), shipped!("skills", "skills.index-sample")];
    for sample in &samples {
        let fold = folded(sample);
        assert_eq!(fold.findings(), Vec::<&crate::model::derived::Finding>::new(), "{}", sample.0.name);
        assert_eq!(fold.unrecognised(), 0);
        assert_eq!(fold.checked().values().sum::<u64>(), sample.1.len() as u64);
        assert!(fold.listings().count() > 0);
    }
}

#[test]
fn work_orders_are_counted_by_project_and_status() {
    for sample in [quality(), shipped!("inspection", "inspection.items")] {
        let fold = folded(&sample);
        let project = |id: &str| at(&sample, &fold, &format!("PROJECT#{id} / STATS#WO_STATUS"));
        assert_eq!(project("P001"), "Cancelled 0, Complete 0, InProgress 1, Pending 1, Total 2");
        assert_eq!(project("P002"), "Cancelled 0, Complete 1, InProgress 0, Pending 0, Total 1");
        assert_eq!(project("P003"), "Cancelled 0, Complete 0, InProgress 0, Pending 1, Total 1");
        assert_eq!(project("P004"), "Cancelled 1, Complete 0, InProgress 0, Pending 0, Total 1");
        let subjects: Vec<_> = fold.expiries().map(|entry| entry.item.text("Date").unwrap().to_owned()).collect();
        assert!(subjects.contains(&"2026-12-31".to_owned()), "{subjects:?}");
    }
}

#[test]
fn skills_are_counted_by_level() {
    let sample = skills();
    let fold = folded(&sample);
    let skill = |key: &str| at(&sample, &fold, &format!("SkillStats / SKILLSTATS#{key}"));
    assert_eq!(skill("Programming#Python"), "Advanced 1, Beginner 0, Expert 1, Intermediate 0, Total 2");
    assert_eq!(skill("Backend#Go"), "Advanced 0, Beginner 1, Expert 1, Intermediate 0, Total 2");
    assert_eq!(skill("Frontend#React"), "Advanced 0, Beginner 0, Expert 0, Intermediate 1, Total 1");
    let sample = shipped!("skills", "skills.index-sample");
    let fold = folded(&sample);
    let skill = |key: &str| at(&sample, &fold, &format!("SkillStats / SKILLSTATS#{key}"));
    assert_eq!(skill("Programming#Python"), "Advanced 1, Beginner 1, Expert 2, Intermediate 1, Total 5");
    assert_eq!(skill("Frontend#TypeScript"), "Advanced 1, Beginner 0, Expert 1, Intermediate 0, Total 2");
    assert_eq!(skill("Backend#Go"), "Advanced 0, Beginner 0, Expert 1, Intermediate 0, Total 1");
    assert_eq!(skill("Cloud#AWS"), "Advanced 0, Beginner 0, Expert 1, Intermediate 0, Total 1");
    assert_eq!(skill("DevOps#Docker"), "Advanced 0, Beginner 1, Expert 0, Intermediate 0, Total 1");
}
