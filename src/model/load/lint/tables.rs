//! The table and its indexes: key types, and names that derived items would carry into an index.

use std::collections::BTreeMap;

use super::{Lint, rules};
use crate::model::spec::{Index, KeyAttribute};
use crate::model::value::Kind;

/// What derived items carry at their top level, a kind of item each: names and types, as in the code that writes them.
const CARRIED: [(&str, &[(&str, Kind)]); 4] = [
    ("aggregates", &[("Total", Kind::N), ("UpdatedAt", Kind::S), ("Group", Kind::M)]),
    ("listing entries", &[("Group", Kind::M), ("Copy", Kind::M), ("Source", Kind::M)]),
    (
        "expiries",
        &[
            ("Expiry", Kind::S),
            ("Entity", Kind::S),
            ("Subject", Kind::S),
            ("Source", Kind::M),
            ("Date", Kind::S),
            ("Due", Kind::S),
            ("Owner", Kind::S),
        ],
    ),
    (
        "findings",
        &[
            ("Code", Kind::S),
            ("Severity", Kind::S),
            ("Entity", Kind::S),
            ("Attribute", Kind::S),
            ("Expected", Kind::S),
            ("Actual", Kind::S),
            ("Message", Kind::S),
            ("Source", Kind::M),
            ("Origin", Kind::M),
        ],
    ),
];

/// Names of measures: `Count_<bucket>` and so on.
const MEASURES: [&str; 5] = ["Count_", "Sum_", "SumSq_", "Introduced_", "Resolved_"];

pub(super) fn check(lint: &mut Lint) {
    if lint.sink.is_broken(&["table"]) {
        return;
    }
    let model = lint.model;
    let table = &model.table;
    let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
    let keys = [("partition_key", Some(&table.partition_key)), ("sort_key", table.sort_key.as_ref())];
    for (place, key) in keys {
        let Some(key) = key else { continue };
        kinds.insert(&key.name, key.kind);
        let span = lint.sink.value_span(&["table", place]);
        if key.kind != Kind::S {
            check_text_key(lint, key, span.clone());
        }
        if let Some((what, _)) = carried(&key.name) {
            let message = format!("the table's key `{}` is also the name of an attribute of {what}", key.name);
            lint.fault(&rules::NAME_IN_INDEX, span, message, "no remedy but another name of the key");
        }
    }
    for index in &table.indexes {
        check_types(lint, index, &mut kinds);
        check_names(lint, index);
    }
}

/// Derived items have text keys: where they have no place, the model may only be audited.
fn check_text_key(lint: &mut Lint, key: &KeyAttribute, span: std::ops::Range<usize>) {
    let model = lint.model;
    let message = format!("the table's key `{}` is of type {}", key.name, key.kind.name());
    if model.aggregates.is_empty() && model.listings.is_empty() && model.expiries.is_empty() {
        let remedy = "expect findings from `audit` only, or keep a table whose keys are of type S";
        lint.fault(&rules::FINDINGS_UNSTORED, span, message, remedy);
    } else {
        let remedy = "drop the model's aggregates, listings and expiries, or keep a table whose keys are of type S";
        lint.fault(&rules::TEXT_KEYS, span, message, remedy);
    }
}

/// One attribute has one type wherever it is a key, and stands once in an index.
fn check_types<'m>(lint: &mut Lint<'m, '_, '_>, index: &'m Index, kinds: &mut BTreeMap<&'m str, Kind>) {
    let mut seen: Vec<&str> = Vec::new();
    for (part, list) in [("partition", &index.partition), ("sort", &index.sort)] {
        for key in list {
            let span = lint.sink.within(&["table", "index", &index.name, part], &key.name);
            if seen.contains(&key.name.as_str()) {
                let message = format!("index `{}` has the key attribute `{}` twice", index.name, key.name);
                lint.fault(&rules::DUPLICATE, span.clone(), message, "keep one");
            }
            seen.push(&key.name);
            let kind = *kinds.entry(&key.name).or_insert(key.kind);
            if kind != key.kind {
                let message = format!("`{}` is of type {} here, {} elsewhere", key.name, key.kind.name(), kind.name());
                lint.fault(&rules::KEY_TYPE, span, message, "give it one type, `{ name = \"…\", type = \"…\" }`");
            }
        }
    }
}

/// Derived items must stay out of the index, and must not be refused because of it.
fn check_names(lint: &mut Lint, index: &Index) {
    let table = &lint.model.table;
    let is_table_key = |key: &KeyAttribute| {
        key.name == table.partition_key.name || table.sort_key.as_ref().is_some_and(|sort| sort.name == key.name)
    };
    let own: Vec<&KeyAttribute> = index.attributes().filter(|key| !is_table_key(key)).collect();
    let refused = own.iter().find(|key| carried(&key.name).is_some_and(|(_, kind)| kind != key.kind)).copied();
    let inside = CARRIED.iter().find(|(what, names)| {
        !own.is_empty()
            && own.iter().all(|key| {
                names.iter().any(|(name, _)| *name == key.name) || *what == "aggregates" && is_measure(&key.name)
            })
    });
    let (key, what, why) = match (refused, inside, own.first()) {
        (Some(key), _, _) => (
            key,
            carried(&key.name).map_or("derived items", |(what, _)| what),
            "with another type, so that writes of them would be refused",
        ),
        (None, Some((what, _)), Some(key)) => (*key, *what, "so that they would appear in the index"),
        _ => return,
    };
    let message = format!("index `{}`: {what} carry `{}` too, {why}", index.name, key.name);
    let part = if index.partition.iter().any(|other| other.name == key.name) { "partition" } else { "sort" };
    let span = lint.sink.within(&["table", "index", &index.name, part], &key.name);
    lint.fault(&rules::NAME_IN_INDEX, span, message, "give the index a key attribute of its own, for example `GSI1PK`");
}

fn is_measure(name: &str) -> bool {
    MEASURES.iter().any(|prefix| name.starts_with(prefix))
}

/// Which derived items carry an attribute of that name, and of what type.
fn carried(name: &str) -> Option<(&'static str, Kind)> {
    if is_measure(name) {
        return Some(("aggregates", Kind::N));
    }
    CARRIED
        .iter()
        .find_map(|(what, names)| names.iter().find(|(carried, _)| *carried == name).map(|(_, kind)| (*what, *kind)))
}
