//! K102: no entity of the model matches the item.

use crate::derive::findings::{Details, Findings, cut, shown};
use crate::derive::scope::condition_holds;
use crate::model::derived::Severity;
use crate::model::key::TableKey;
use crate::model::spec::{Condition, Entity, Model, Table};
use crate::model::template::Template;
use crate::model::value::{Item, Value};

use super::Rule;

pub const RULE: Rule = Rule {
    code: "K102",
    name: "no-entity-matches",
    severity: Severity::Error,
    doc: "\
## What
The item's key and attributes together are those of no entity in the model.

## Why it is bad
Either the item was written by mistake (a misspelt type, a key without its prefix) and no query of the application finds it,
or the model does not know an entity that the table has. Nothing can be derived from it.

## Example
`PK = \"WO#WO001\"`, `SK = \"USER#tech001\"`, `Type = \"Workorder\"`: the key is WorkOrder's, but `Type` is `Workorder`, not
`WorkOrder`.

## Instead
Mend the attribute or the key, or declare the entity in the model.
",
};

/// Nothing matches; `by_key` are the entities whose key templates the key fits, `by_partition` those of which at least the
/// partition key does.
pub fn found(
    Model { table, entities, .. }: &Model,
    key: &TableKey,
    item: &Item,
    by_key: &[&Entity],
    by_partition: &[&Entity],
    findings: &mut Findings<'_>,
) {
    if let Some(details) = other_type(table, key) {
        return findings.push(&RULE, details);
    }
    let failing: Vec<(&Entity, &Condition)> = by_key
        .iter()
        .filter_map(|entity| {
            let condition = entity.matches.iter().find(|condition| !condition_holds(entity, item, condition))?;
            Some((*entity, condition))
        })
        .collect();
    let shown_key = cut(&key.to_string());
    let details = match failing.first() {
        Some((_, condition)) => {
            let attribute = &condition.attribute;
            let same: Vec<_> = failing.iter().filter(|(_, other)| other.attribute == *attribute).collect();
            let names: Vec<&str> = same.iter().map(|(entity, _)| entity.name.as_str()).collect();
            let values: Vec<&str> = same.iter().flat_map(|(_, c)| &c.values).map(String::as_str).collect();
            let actual = item.get(attribute).map(shown);
            let is = actual.as_ref().map_or("absent".to_owned(), |actual| format!("`{actual}`"));
            let (names, values) = (cut(&names.join(" or ")), cut(&values.join("` or `")));
            let nearly = actual.as_ref().is_some_and(|actual| actual.trim().eq_ignore_ascii_case(&values));
            let remedy = match nearly {
                true => format!("set `{attribute}` to `{values}`"),
                false => format!(
                    "find out which is right: set `{attribute}` to that, or put the item under a key of its own kind and delete this one in one transaction"
                ),
            };
            let message = format!(
                "the key `{shown_key}` is one of the entity {names}, whose items have `{attribute}` = `{values}`, but `{attribute}` is {is} here; {remedy}"
            );
            let expected = Some(values.replace('`', ""));
            Details { attribute: Some(attribute.clone()), expected, actual, message }
        }
        None => Details {
            message: no_key(&shown_key, by_partition, cased(entities, key)),
            actual: Some(shown_key),
            ..Details::default()
        },
    };
    findings.push(&RULE, details);
}

/// A key attribute of another type than the table's: such an item is in no table with these keys.
fn other_type(table: &Table, key: &TableKey) -> Option<Details> {
    let parts = [(Some(&table.partition_key), Some(&key.partition)), (table.sort_key.as_ref(), key.sort.as_ref())];
    let (attribute, value) = parts
        .into_iter()
        .filter_map(|(attribute, value)| attribute.zip(value))
        .find(|(attribute, value)| attribute.kind != value.kind())?;
    let (name, actual, is, wanted) = (&attribute.name, shown(value), value.kind().name(), attribute.kind.name());
    let message = format!(
        "`{name}` is {actual} of type {is}, but the table's key has type {wanted}, so the table cannot hold this item; \
         write it as {wanted}"
    );
    let expected = Some(format!("a value of type {wanted}"));
    Some(Details { attribute: Some(name.clone()), expected, actual: Some(actual), message })
}

/// The first entity whose keys begin as this one does but for the case of the letters.
fn cased<'m>(entities: &'m [Entity], key: &TableKey) -> Option<&'m Entity> {
    let begins = |template: &Template, value: &Value| {
        let beginning = value.as_text().and_then(|text| text.get(..template.prefix().len()));
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(template.prefix()))
    };
    let sort_begins = |entity: &Entity| match (&entity.sort, &key.sort) {
        (Some(template), Some(value)) => begins(template, value),
        (None, None) => true,
        _ => false,
    };
    let named = |entity: &&Entity| !entity.partition.prefix().is_empty();
    entities.iter().filter(named).find(|entity| begins(&entity.partition, &key.partition) && sort_begins(entity))
}

fn no_key(shown_key: &str, by_partition: &[&Entity], cased: Option<&Entity>) -> String {
    let near: Vec<String> = by_partition
        .iter()
        .filter_map(|entity| Some(format!("`{}` ({})", entity.sort.as_ref()?.source, entity.name)))
        .collect();
    if let (true, Some(Entity { name, partition, sort, .. })) = (near.is_empty(), cased) {
        let sort = sort.as_ref().map_or_else(String::new, |sort| format!("` and `{sort}"));
        return format!(
            "no entity has keys like `{shown_key}`; those of {name} are written `{partition}{sort}`, where case counts: mend the key"
        );
    }
    if near.is_empty() {
        return format!(
            "no entity of the model has keys like `{shown_key}`; mend the key, or declare the entity in the model"
        );
    }
    let near = cut(&near.join(" or "));
    format!(
        "no entity has keys like `{shown_key}`: the partition key fits, the sort key should be {near}; mend the key"
    )
}
