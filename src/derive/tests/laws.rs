//! Laws that hold for every item: no panic, independence of order, keys that are never shared, limits that are kept.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;

use crate::derive::findings::FINDINGS_MAX;
use crate::derive::testing::{attribute, entity, item, key_of, listing, model, n};
use crate::derive::{Fold, derive, derive_poison, without_sums};
use crate::model::derived::{Derived, RowKind};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Bytes, ITEM_SIZE_MAX, Item, Kind, Value};

use super::quality::{quality, sample, technician, work_order};
use super::skills::{skills, user_skill};
use super::{catalogue, shipped};

/// Texts that look like parts of keys, and worse.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "",
            "#",
            "a",
            "a#b",
            "USER#a",
            "USER#b",
            "WO#1",
            "WorkOrder",
            "Technician",
            "Device",
            "User",
            "UserSkill",
            "N/A",
            "Active",
            "Pending",
            "2026-12-31",
            "2026-02-30",
            "USERSKILL#a#b",
            "USERSKILL#a#b#c",
            "METADATA#TOLERANCE",
            "TOLERANCE",
            "undefined",
            "<x>",
            "Expert",
            "P001",
            "PROJECT#P001",
            "DEVICE#1",
            "TECHNICIANS#a",
            "jose\u{301}",
            "USER#jose\u{301}",
            " a ",
            "a\t",
            "\u{feff}",
            "2026-03-01T10:00:00+02:00",
            "AT#2026-03-01T10:00:00.000Z",
            "AT#2026-02-30T10:00:00.000Z",
            "ORDER#000007",
            "owner#ANN",
        ])
        .prop_map(str::to_owned),
        "[aA#{}é0-9:-]{0,8}",
        "\\PC{0,6}",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let number = "-?[0-9]{1,20}(\\.[0-9]{1,18})?(E-?[0-9]{1,2})?".prop_filter_map("a number", |text| text.parse().ok());
    let leaf = prop_oneof![
        6 => text().prop_map(Value::text),
        2 => number.prop_map(Value::N),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => Just(Value::Null(true)),
        1 => vec(any::<u8>(), 0..4).prop_map(|bytes| Value::B(Bytes(bytes))),
        1 => btree_set(text(), 1..3).prop_map(Value::Ss),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::L),
            btree_map(text().prop_map_into(), inner, 0..3).prop_map(Value::M)
        ]
    })
}

/// The names that a model knows, so that arbitrary items reach its rules.
fn names(model: &Model) -> Vec<String> {
    let mut names = vec!["Type".to_owned(), "ttl".to_owned(), "other".to_owned()];
    for index in &model.table.indexes {
        names.extend(index.attributes().map(|key| key.name.clone()));
    }
    for entity in &model.entities {
        names.extend(entity.attributes.iter().flat_map(|a| a.aliases.iter().chain([&a.name]).cloned()));
    }
    names
}

fn arbitrary(model: Model) -> impl Strategy<Value = (Model, TableKey, Item)> {
    let key_value = || prop_oneof![8 => text().prop_map(Value::text), 1 => value()];
    let attributes = btree_map(select(names(&model)).prop_map_into(), value(), 0..10);
    (key_value(), prop::option::weighted(0.95, key_value()), attributes)
        .prop_map(move |(partition, sort, attributes)| (model.clone(), TableKey { partition, sort }, Item(attributes)))
}

/// Good items of both published tables, with one attribute or key changed.
fn nearly_good(model: Model, items: Vec<Item>) -> impl Strategy<Value = (Model, TableKey, Item)> {
    let mut names = names(&model);
    names.extend(["PK", "SK", "EntityType", "entity_id"].map(str::to_owned));
    (select(items), select(names), prop::option::of(value())).prop_map(move |(mut item, name, value)| {
        match value {
            Some(value) => item.insert(name, value),
            None => {
                item.0.remove(name.as_str());
            }
        }
        let key = TableKey::of(&item, &model.table.key_names()).unwrap_or_else(|| TableKey::text("USER#x", "USER#x"));
        (model.clone(), key, item)
    })
}

pub(in crate::derive) fn any_case() -> impl Strategy<Value = (Model, TableKey, Item)> {
    let mut broad = quality();
    broad.table.ttl = Some("ttl".into());
    let ((quality_model, quality_items), (skills_model, skills_items)) = (shipped::quality(), shipped::skills());
    prop_oneof![
        arbitrary(quality_model.clone()),
        nearly_good(quality_model, quality_items),
        nearly_good(skills_model, skills_items),
        arbitrary(broad),
        arbitrary(skills()),
        arbitrary(catalogue::model()),
        nearly_good(catalogue::model(), catalogue::good()),
        nearly_good(quality(), sample()),
        nearly_good(skills(), super::skills::sample()),
    ]
}

fn check_limits(model: &Model, derived: &Derived) -> Result<(), TestCaseError> {
    prop_assert!(derived.findings.len() <= FINDINGS_MAX);
    let finding_rows = derived.rows.iter().filter(|row| row.kind == RowKind::Finding).count();
    prop_assert_eq!(finding_rows, derived.findings.len());
    let mut keys = BTreeMap::new();
    let counts = derived.counts.iter().map(|count| (&count.aggregate, &count.key));
    for (name, key) in derived.rows.iter().map(|row| (&row.name, &row.key)).chain(counts) {
        prop_assert!(keys.insert(key, name).is_none(), "{key} twice");
        let size = |value: &Value| value.size();
        prop_assert!((1..=2048).contains(&size(&key.partition)));
        prop_assert!(key.sort.as_ref().is_some_and(|sort| (1..=1024).contains(&size(sort))));
    }
    for row in &derived.rows {
        prop_assert!(row.item.is_ours() && row.item.size() <= ITEM_SIZE_MAX);
        prop_assert_eq!(&TableKey::of(&row.item, &model.table.key_names()), &Some(row.key.clone()));
        let in_index = model
            .table
            .indexes
            .iter()
            .flat_map(|index| index.attributes())
            .any(|key| row.item.get(&key.name).is_some());
        prop_assert!(!in_index, "{:?}", row.item);
    }
    for count in &derived.counts {
        prop_assert!(count.measures.values().all(|number| !number.is_zero()));
        prop_assert!(count.measures.contains_key("Total"));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(700))]

    #[test]
    fn every_item_derives_within_the_limits((model, key, item) in any_case()) {
        let derived = derive(&model, &key, &item);
        check_limits(&model, &derived)?;
        prop_assert_eq!(&derived, &derive(&model, &key, &item));
        check_limits(&model, &without_sums(&model, &key, &derived, "full"))?;
        check_limits(&model, &derive_poison(&model, &key, "P902", "broken"))?;
    }

    /// Nothing that is in doubt is counted or listed.
    #[test]
    fn a_broken_primary_key_derives_findings_only((model, key, item) in any_case()) {
        let derived = derive(&model, &key, &item);
        if derived.findings.iter().any(|f| ["K101", "K102", "K103"].contains(&f.code.as_str())) {
            prop_assert!(derived.counts.iter().all(|count| count.aggregate == "findings"));
            prop_assert!(derived.rows.iter().all(|row| row.kind == RowKind::Finding));
        }
    }
}

/// Listing keys of every kind of loss: free text, a case rule, a literal that is not the delimiter, padded text.
fn listings() -> Model {
    let mut model = model("PK", "SK");
    let mut thing = entity("Thing", "T#{a}", "T#{b}");
    thing.attributes = vec![attribute("Name", Kind::S)];
    model.entities = vec![thing];
    model.listings = vec![
        listing("plain", "Thing", "L1#{a}", "{b}"),
        listing("swapped", "Thing", "L2", "{b}#{a}"),
        listing("dashed", "Thing", "L3", "{a}-{b}"),
        listing("cased", "Thing", "L4", "{a:lower}#{b:upper}"),
        listing("named", "Thing", "L5", "{Name}#{a}#{b}"),
        listing("padded", "Thing", "L6", "{Name:03}#{a}#{b}"),
    ];
    model
}

fn thing() -> impl Strategy<Value = Item> {
    let part = "[aA#-]{1,3}";
    (part, part, "[aA#07-]{0,3}")
        .prop_map(|(a, b, name)| item([("PK", &format!("T#{a}")), ("SK", &format!("T#{b}")), ("Name", &name)]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn rows_of_different_items_never_share_a_key(items in vec(thing(), 2..40)) {
        let model = listings();
        let by_key: BTreeMap<TableKey, Item> = items.into_iter().map(|item| (key_of(&model, &item), item)).collect();
        let mut owners: BTreeMap<TableKey, TableKey> = BTreeMap::new();
        for (source, item) in by_key {
            let derived = derive(&model, &source, &item);
            prop_assert!(derived.rows.len() >= 5);
            for row in derived.rows {
                let other = owners.insert(row.key.clone(), source.clone());
                prop_assert!(other.is_none(), "{} of {source} and {other:?}", row.key);
            }
        }
    }

    #[test]
    fn a_fold_does_not_depend_on_the_order(
        orders in vec((0u8..20, select(vec!["Pending", "Complete", "lost"]), 0u8..3), 0..12),
        years in vec("-?[1-9][0-9]{0,37}", 0..12),
        seed in any::<u64>(),
    ) {
        let (quality, skills) = (quality(), skills());
        let orders = orders.iter().map(|(id, status, project)| {
            work_order(&format!("WO{id}"), "tech001", status, &format!("P{project}"), "2026-01-01")
        });
        let mut derived: Vec<Derived> = orders.map(|order| super::derived(&quality, &order)).collect();
        derived.push(super::derived(&quality, &technician("tech001", "Active", "2026-12-31")));
        for (at, years) in years.iter().enumerate() {
            let item = user_skill(&format!("u{at}"), "go", "Go", "Backend", "Expert", "1").with("YearsOfExperience", n(years));
            derived.push(super::derived(&skills, &item));
        }
        let fold = |derived: &[Derived]| {
            let mut fold = Fold::new();
            derived.iter().for_each(|derived| fold.add(derived));
            fold
        };
        let straight = fold(&derived);
        // Any permutation: a shuffle by multiplicative steps.
        let mut state = seed | 1;
        for at in (1..derived.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            derived.swap(at, (state >> 33) as usize % (at + 1));
        }
        let shuffled = fold(&derived);
        for model in [&quality, &skills] {
            prop_assert_eq!(straight.aggregates(model), shuffled.aggregates(model));
        }
        prop_assert_eq!(straight.findings(), shuffled.findings());
        prop_assert!(straight.listings().eq(shuffled.listings()));
        prop_assert!(straight.expiries().eq(shuffled.expiries()));
        prop_assert_eq!(straight.checked(), shuffled.checked());
    }
}

#[test]
fn a_total_that_no_number_holds_is_an_error_value() {
    let model = skills();
    let mut fold = Fold::new();
    let big = "9".repeat(38);
    for (user, years) in [("a", big.as_str()), ("b", "0.5")] {
        fold.add(&super::derived(&model, &user_skill(user, "go", "Go", "Backend", "Expert", years)));
    }
    let all = fold.aggregates(&model);
    let totals = all.iter().find(|totals| totals.name == "levels").unwrap();
    assert!(totals.overflowed.contains_key("Sum_YearsOfExperience"));
    assert!(!totals.measures.contains_key("Sum_YearsOfExperience"));
    assert_eq!(totals.measures["Total"].to_string(), "2");
}
