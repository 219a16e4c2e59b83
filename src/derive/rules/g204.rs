//! G204: the item should be in an index and has none of its key attributes.

use crate::derive::findings::{Details, Findings};
use crate::model::derived::Severity;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "G204",
    name: "index-key-should-be-present",
    severity: Severity::Error,
    doc: "\
## What
The item belongs in an index (its entity has the index, and the condition of a sparse index holds), but it has none of the
index's key attributes.

## Why it is bad
No query on that index finds the item.

## Example
A technician without `GSI1PK` and `GSI1SK`: the manager's list of technicians does not show them.

## Instead
Write the index's key attributes together with the item.
",
};

/// `at` is the first of the index's key attributes, `expected` its value, or its template where a variable is not known.
pub fn found(index: &str, at: &str, expected: String, findings: &mut Findings<'_>) {
    let message = format!(
        "the item has no key attribute of index {index}, where it belongs; set `{at}` to `{expected}` and the others"
    );
    findings.push(&RULE, Details { attribute: Some(at.to_owned()), expected: Some(expected), actual: None, message });
}
