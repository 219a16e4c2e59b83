//! Patches as requests: what `aws dynamodb update-item --cli-input-json` and `transact-write-items` take.
//!
//! Names and values go through placeholders: names may be reserved words or hold dots. Numbers stay exact, binary is base64.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, Text, Value};

/// Longest expression in bytes, and most operators and functions in one, that DynamoDB takes.
const EXPRESSION_SIZE_MAX: usize = 4096;
const OPERATORS_MAX: usize = 300;

const TOO_LONG: &str = "the conditions are longer than DynamoDB takes";

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Request {
    UpdateItem(UpdateItem),
    TransactWriteItems(Box<TransactWriteItems>),
}

impl Request {
    /// The command of the AWS CLI that takes it.
    pub fn operation(&self) -> &'static str {
        match self {
            Request::UpdateItem(_) => "update-item",
            Request::TransactWriteItems(_) => "transact-write-items",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateItem {
    pub table_name: String,
    pub key: Item,
    pub update_expression: String,
    pub condition_expression: String,
    pub expression_attribute_names: BTreeMap<String, Text>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub expression_attribute_values: BTreeMap<String, Value>,
}

/// A put under the new key, then a delete under the old one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TransactWriteItems {
    pub transact_items: [TransactItem; 2],
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum TransactItem {
    Put(Put),
    Delete(Delete),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Put {
    pub table_name: String,
    pub item: Item,
    pub condition_expression: String,
    pub expression_attribute_names: BTreeMap<String, Text>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Delete {
    pub table_name: String,
    pub key: Item,
    pub condition_expression: String,
    pub expression_attribute_names: BTreeMap<String, Text>,
    pub expression_attribute_values: BTreeMap<String, Value>,
}

/// From the item as it was seen to the item as it should be, on condition that what changes and what that `rests_on` is as seen.
///
/// # Errors
/// The reason why it cannot be one request.
pub fn update(
    model: &Model,
    key: &TableKey,
    seen: &Item,
    mended: &Item,
    rests_on: &BTreeSet<Text>,
) -> Result<UpdateItem, &'static str> {
    let names = seen.0.keys().chain(mended.0.keys());
    let changed: BTreeSet<&Text> = names.filter(|name| seen.get(name) != mended.get(name)).collect();
    let mut places = Placeholders::default();
    let (mut sets, mut removes) = (Vec::new(), Vec::new());
    for name in &changed {
        match mended.get(name) {
            Some(value) => sets.push(format!("{} = {}", places.name(name), places.value(value))),
            None => removes.push(places.name(name)),
        }
    }
    let clauses = [("SET", sets), ("REMOVE", removes)];
    let clauses = clauses.iter().filter(|(_, parts)| !parts.is_empty());
    let update: Vec<String> = clauses.map(|(verb, parts)| format!("{verb} {}", parts.join(", "))).collect();
    let key = key.to_item(&model.table.key_names());
    let others = changed.into_iter().chain(rests_on).filter(|name| key.get(name).is_none());
    let condition = places.as_seen(model, seen, others.collect());
    let update_expression = update.join(" ");
    check(&[&update_expression, &condition], places.names.len() + places.values.len())?;
    Ok(UpdateItem {
        table_name: model.table.name.clone(),
        key,
        update_expression,
        condition_expression: condition,
        expression_attribute_names: places.names,
        expression_attribute_values: places.values,
    })
}

/// From the item as it was seen to the item under another key, on condition that all of its attributes are as seen, and that
/// nothing is under the new key.
///
/// # Errors
/// The reason why it cannot be one request.
pub fn move_item(
    model: &Model,
    (key, seen): (&TableKey, &Item),
    (_, mended): (&TableKey, &Item),
) -> Result<TransactWriteItems, &'static str> {
    let table_name = model.table.name.clone();
    let mut absent = Placeholders::default();
    let free = format!("attribute_not_exists({})", absent.name(&model.table.partition_key.name));
    let put = Put {
        table_name: table_name.clone(),
        item: mended.clone(),
        condition_expression: free,
        expression_attribute_names: absent.names,
    };
    let key = key.to_item(&model.table.key_names());
    let mut places = Placeholders::default();
    let condition = places.as_seen(model, seen, seen.0.keys().filter(|name| key.get(name).is_none()).collect());
    check(&[&condition], places.names.len() + places.values.len())?;
    let delete = Delete {
        table_name,
        key,
        condition_expression: condition,
        expression_attribute_names: places.names,
        expression_attribute_values: places.values,
    };
    Ok(TransactWriteItems { transact_items: [TransactItem::Put(put), TransactItem::Delete(delete)] })
}

fn check(expressions: &[&str], operators: usize) -> Result<(), &'static str> {
    let fits = expressions.iter().all(|text| text.len() <= EXPRESSION_SIZE_MAX) && operators <= OPERATORS_MAX;
    if fits { Ok(()) } else { Err(TOO_LONG) }
}

#[derive(Default)]
struct Placeholders {
    names: BTreeMap<String, Text>,
    values: BTreeMap<String, Value>,
}

impl Placeholders {
    fn name(&mut self, name: &str) -> String {
        if let Some((known, _)) = self.names.iter().find(|(_, other)| *other == name) {
            return known.clone();
        }
        let placeholder = format!("#a{}", self.names.len());
        self.names.insert(placeholder.clone(), name.into());
        placeholder
    }

    fn value(&mut self, value: &Value) -> String {
        let placeholder = format!(":v{}", self.values.len());
        self.values.insert(placeholder.clone(), value.clone());
        placeholder
    }

    /// The item is there, and its attributes of these names are as seen, or absent as seen.
    fn as_seen(&mut self, model: &Model, seen: &Item, names: BTreeSet<&Text>) -> String {
        // An update would make an item that was deleted meanwhile.
        let mut parts = vec![format!("attribute_exists({})", self.name(&model.table.partition_key.name))];
        for name in names {
            let placeholder = self.name(name);
            parts.push(match seen.get(name) {
                Some(value) => format!("{placeholder} = {}", self.value(value)),
                None => format!("attribute_not_exists({placeholder})"),
            });
        }
        parts.join(" AND ")
    }
}
