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

/// The index's key attributes with their values, or with their templates where a variable is not known; `because` says by what
/// condition the item belongs there, if there is one.
pub fn found(index: &str, expected: &[(&str, String)], because: &str, findings: &mut Findings<'_>) {
    let Some((at, first)) = expected.first() else { return };
    let set: Vec<String> = expected.iter().map(|(name, value)| format!("`{name}` to `{value}`")).collect();
    let because = if because.is_empty() { String::new() } else { format!(" because {because}") };
    let message =
        format!("the item has no key attribute of index {index}, where it belongs{because}; set {}", set.join(" and "));
    let (attribute, expected) = (Some((*at).to_owned()), Some(first.clone()));
    findings.push(&RULE, Details { attribute, expected, actual: None, message });
}
