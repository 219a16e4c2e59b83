//! K103: the item matches more than one entity.

use crate::derive::findings::{Details, Findings, cut};
use crate::model::derived::Severity;
use crate::model::key::TableKey;
use crate::model::spec::Entity;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "K103",
    name: "several-entities-match",
    severity: Severity::Error,
    doc: "\
## What
The item's key and attributes are those of two or more entities of the model.

## Why it is bad
It cannot be said what the item is, so it is neither checked nor counted: counted as one of them, a number would be right by
luck only.

## Example
Entities `Order` with `ORDER#{id}` and `Draft` with `ORDER#{draft}` and no `match` to tell them apart.

## Instead
Give the entities different literals in their keys, or a `match` on an attribute that tells them apart.
",
};

/// The item is one of each of these.
pub fn found(key: &TableKey, entities: &[&Entity], findings: &mut Findings<'_>) {
    let names: Vec<&str> = entities.iter().map(|entity| entity.name.as_str()).collect();
    let (names, key) = (cut(&names.join(", ")), cut(&key.to_string()));
    let message =
        format!("the item `{key}` matches several entities: {names}; tell them apart by `match` in the model");
    findings.push(&RULE, Details { actual: Some(names), message, ..Details::default() });
}
