//! G201: an index key differs from what it is made of.

use crate::derive::findings::{Details, Findings, cut, shown};
use crate::model::derived::Severity;
use crate::model::template::Template;
use crate::model::value::Value;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "G201",
    name: "index-key-stale",
    severity: Severity::Error,
    doc: "\
## What
An index key attribute differs from what its template gives for the item's attributes and primary key.

## Why it is bad
The commonest fault of single tables: an update sets the attribute and forgets the key that is made of it. The index keeps
returning the item under its old value, and not under the new one.

## Example
`Status = \"SHIPPED\"` with `GSI1SK = \"OPEN#2026-01-02\"` under `{Status}#{Date}`: expected `SHIPPED#2026-01-02`.

## Instead
Set the attribute and every index key that is made of it in the same update.
",
};

/// `expected` is missing where the key has another shape and a variable is known from nowhere else.
pub fn found(
    index: &str,
    at: &str,
    template: &Template,
    actual: &Value,
    expected: Option<&Value>,
    findings: &mut Findings<'_>,
) {
    let actual = shown(actual);
    let template = cut(&template.source);
    let message = match expected.map(shown) {
        Some(expected) => format!(
            "`{at}` of index {index} is `{actual}`, but the item's values give `{expected}` by `{template}`; set `{at}` to `{expected}`, if these values are right"
        ),
        None => {
            format!("`{at}` of index {index} is `{actual}`, but it is written `{template}`; set `{at}` to such a key")
        }
    };
    let expected = Some(expected.map_or(template, shown));
    findings.push(&RULE, Details { attribute: Some(at.to_owned()), expected, actual: Some(actual), message });
}
