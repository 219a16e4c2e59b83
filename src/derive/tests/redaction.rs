//! What a model redacts is in nothing that findings put anywhere.
#![cfg(test)]

use proptest::prelude::*;

use crate::derive::{derive, derive_poison, without_sums};
use crate::model::key::TableKey;
use crate::model::load::load;
use crate::model::shipped::SHIPPED;
use crate::model::spec::{Disclosure, Model};
use crate::model::value::{Item, Value};

const SECRET: &str = "zqsecretqz";

/// The shipped models, with keys hashed and values redacted, or only the latter.
fn model(which: usize, hash_keys: bool) -> Model {
    let shipped = &SHIPPED[which % SHIPPED.len()];
    let mut model = load(shipped.source, "m").unwrap().model;
    model.findings = Disclosure { redact_values: true, hash_keys };
    model
}

/// Names that the model knows, so that its rules have something to say.
fn names(model: &Model) -> Vec<String> {
    let attributes =
        model.entities.iter().flat_map(|entity| &entity.attributes).map(|attribute| attribute.name.clone());
    let indexes = model.table.indexes.iter().flat_map(|index| index.partition.iter().chain(&index.sort));
    attributes.chain(indexes.map(|key| key.name.clone())).chain(model.table.ttl.clone()).collect()
}

/// Prefixes of the model's keys and of its values, each followed by the secret.
fn value(model: &Model, form: usize, number: usize) -> Value {
    let prefixes: Vec<&str> =
        model.entities.iter().map(|entity| entity.partition.source.split('{').next().unwrap()).collect();
    let prefix = prefixes[number % prefixes.len()];
    match form {
        0 => Value::text(SECRET),
        1 => Value::text(format!("{prefix}{SECRET}")),
        2 => Value::text(format!(" {SECRET}#{SECRET}\u{301}\t")),
        3 => Value::L(vec![Value::text(SECRET)]),
        4 => Value::text(format!("2026-02-30{SECRET}")),
        _ => Value::text(format!("{prefix}{prefix}{SECRET}#undefined")),
    }
}

proptest! {
    #[test]
    fn no_secret_is_told(
        which in 0..8usize,
        hash_keys: bool,
        entity in 0..20usize,
        forms in proptest::collection::vec((any::<prop::sample::Index>(), 0..6usize), 0..14),
        key in (1..6usize, 0..20usize, 0..6usize),
    ) {
        let model = model(which, hash_keys);
        let names = names(&model);
        let text = |form: usize, number: usize| match value(&model, form, number) { Value::S(text) => text, _ => SECRET.into() };
        let (key, item) = {
            let key = TableKey {
                partition: Value::S(text(key.0, key.1)),
                sort: model.table.sort_key.as_ref().map(|_| Value::S(text(key.2, key.1 + 1))),
            };
            let item = key.to_item(&model.table.key_names());
            let chosen = &model.entities[entity % model.entities.len()];
            let item = chosen.matches.iter().fold(item, |item, wanted| {
                item.with(wanted.attribute.as_str(), Value::text(wanted.values[0].as_str()))
            });
            let item = forms.iter().fold(item, |item: Item, (name, form)| {
                item.with(name.get(&names).as_str(), value(&model, *form, entity))
            });
            (key, item)
        };
        let whole = derive(&model, &key, &item);
        let poison = derive_poison(&model, &key, "P902", &format!("cannot read {SECRET}"));
        let without = without_sums(&model, &key, &whole, &format!("{SECRET} is too much"));
        prop_assert!(!whole.findings.is_empty());
        for derived in [whole, poison, without] {
            let rows = derived.rows.iter().filter(|row| row.kind == crate::model::derived::RowKind::Finding);
            for row in rows {
                let mut shown = Item::clone(&row.item);
                if !hash_keys {
                    shown.0.remove("Source");
                }
                let shown = format!("{shown:?} {:?}", row.key);
                prop_assert!(!shown.contains(SECRET), "{shown}");
            }
            for mut finding in derived.findings {
                if !hash_keys {
                    finding.key = TableKey::text("", "");
                }
                let shown = format!("{finding:?}");
                prop_assert!(!shown.contains(SECRET), "{shown}");
                let advice = format!("tablekeeper explain {}", finding.code);
                prop_assert!(finding.message.contains(&advice), "{finding:?}");
            }
        }
    }
}

#[test]
fn type_and_length_are_told() {
    let model = model(0, true);
    let key = TableKey::text("WO#1", "USER#bob");
    let item = key
        .to_item(&model.table.key_names())
        .with("Type", Value::text("WorkOrder"))
        .with("Status", Value::text("Lost"));
    let derived = derive(&model, &key, &item);
    let finding = derived.findings.iter().find(|finding| finding.code == "A303").unwrap();
    assert_eq!(finding.actual.as_deref(), Some("text of 4 characters"));
    assert!(finding.message.starts_with("`Status` (text of 4 characters) breaks A303 "), "{}", finding.message);
    assert_eq!(finding.key.to_string(), key.digest());
}
