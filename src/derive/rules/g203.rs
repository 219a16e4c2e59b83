//! G203: the item has index key attributes that it should not have.

use crate::derive::findings::{Details, Findings, shown};
use crate::model::derived::Severity;
use crate::model::value::Value;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "G203",
    name: "index-key-should-be-absent",
    severity: Severity::Error,
    doc: "\
## What
The item carries key attributes of an index in which it does not belong: the condition of a sparse index does not hold, the
attribute that the key is made of is gone, or the item's entity does not have that index at all.

## Why it is bad
A sparse index is a list of what its condition says; the item is in that list though the condition is false.

## Example
`State = \"closed\"` with `GSI2PK = \"OPENTICKETS\"`, where the index holds open tickets.

## Instead
Remove the index's key attributes in the same update that makes the condition false.
",
};

/// The attributes that should not be there, of which the first gives the finding its name; `because` completes the sentence.
pub fn found(index: &str, unwanted: &[(&str, &Value)], because: &str, findings: &mut Findings<'_>) {
    let Some((at, actual)) = unwanted.first().map(|(at, actual)| (*at, shown(actual))) else { return };
    let are: Vec<String> = unwanted.iter().map(|(name, value)| format!("`{name}` is `{}`", shown(value))).collect();
    let names: Vec<String> = unwanted.iter().map(|(name, _)| format!("`{name}`")).collect();
    let (are, names) = (are.join(" and "), names.join(" and "));
    let attributes = if unwanted.len() == 1 { "the attribute" } else { "the attributes" };
    let message = format!(
        "{are}, but this item does not belong in index {index}: {because}; remove {attributes} {names}, and keep the item"
    );
    findings.push(&RULE, Details { attribute: Some(at.to_owned()), expected: None, actual: Some(actual), message });
}
