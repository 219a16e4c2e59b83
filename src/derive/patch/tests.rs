//! Patches applied as DynamoDB would, by the text of their expressions: what they mend, what they leave, when they are refused.

mod cases;
mod laws;

use std::collections::BTreeMap;

use super::request::{Request, TransactItem};
use super::{Patch, Suggestion, suggest};
use crate::derive::derive;
use crate::derive::testing::key_of;
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, Text, Value};

/// The placeholders of one request.
struct Places<'r>(&'r BTreeMap<String, Text>, &'r BTreeMap<String, Value>);

impl Places<'_> {
    fn name(&self, placeholder: &str) -> &str {
        &self.0[placeholder]
    }

    fn holds(&self, condition: &str, item: &Item) -> bool {
        condition.split(" AND ").all(|part| {
            let inner = |function: &str| part.strip_prefix(function).and_then(|rest| rest.strip_suffix(')'));
            match (inner("attribute_exists("), inner("attribute_not_exists(")) {
                (Some(name), _) => item.get(self.name(name)).is_some(),
                (_, Some(name)) => item.get(self.name(name)).is_none(),
                _ => {
                    let (name, value) = part.split_once(" = ").unwrap();
                    item.get(self.name(name)) == Some(&self.1[value])
                }
            }
        })
    }

    fn update(&self, expression: &str, item: &mut Item) {
        let (sets, removes) = expression.split_once("REMOVE ").unwrap_or((expression, ""));
        let parts =
            |clause: &str| clause.split(", ").filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        for part in parts(sets.trim_start_matches("SET ").trim_end()) {
            let (name, value) = part.split_once(" = ").unwrap();
            item.insert(self.name(name), self.1[value].clone());
        }
        for name in parts(removes) {
            assert!(item.0.remove(self.name(&name)).is_some(), "{name} was not there");
        }
    }
}

/// The item under its key after the request; `None` where a condition refuses it.
fn apply(model: &Model, item: &Item, patch: &Patch) -> Option<(TableKey, Item)> {
    let names = model.table.key_names();
    match &patch.request {
        Request::UpdateItem(request) => {
            assert_eq!(request.table_name, model.table.name);
            let places = Places(&request.expression_attribute_names, &request.expression_attribute_values);
            let mut item = item.clone();
            places.holds(&request.condition_expression, &item).then(|| {
                places.update(&request.update_expression, &mut item);
                (TableKey::of(&request.key, &names).unwrap(), item)
            })
        }
        Request::TransactWriteItems(request) => {
            let [TransactItem::Put(put), TransactItem::Delete(delete)] = &request.transact_items else {
                panic!("{request:?}")
            };
            assert_eq!(put.condition_expression, "attribute_not_exists(#a0)");
            let places = Places(&delete.expression_attribute_names, &delete.expression_attribute_values);
            places.holds(&delete.condition_expression, item).then(|| {
                let key = TableKey::of(&put.item, &names).unwrap();
                assert_ne!(TableKey::of(&delete.key, &names).unwrap(), key);
                (key, put.item.clone())
            })
        }
    }
}

/// Code and attribute of each finding.
fn found(model: &Model, key: &TableKey, item: &Item) -> Vec<(String, Option<String>)> {
    derive(model, key, item).findings.iter().map(super::place).collect()
}
