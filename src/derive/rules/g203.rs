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

/// `at` is the first of the attributes that should not be there; `because` completes the sentence.
pub fn found(index: &str, (at, actual): (&str, &Value), because: &str, findings: &mut Findings<'_>) {
    let actual = shown(actual);
    let message = format!("`{at}` is `{actual}`, but this item does not belong in index {index}: {because}; remove it");
    findings.push(&RULE, Details { attribute: Some(at.to_owned()), expected: None, actual: Some(actual), message });
}
