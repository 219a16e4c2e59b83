//! K104: one variable has two values in one item's keys.

use crate::derive::findings::{Details, Findings, cut, shown};
use crate::model::derived::Severity;
use crate::model::spec::Entity;
use crate::model::value::Value;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "K104",
    name: "variable-has-two-values",
    severity: Severity::Error,
    doc: "\
## What
A variable of the key templates stands for one thing, yet two of the item's keys give it different values.

## Why it is bad
One of the keys is wrong and the item itself does not tell which: it is found under one name and shown under the other.

## Example
`PK = \"USER#ann\"`, `SK = \"USER#bob\"` under `USER#{username}` and `USER#{username}`.

## Instead
Write all keys of an item from the same values, in one place.
",
};

/// The variable is `known` from a key read before, and another value in the key attribute `at`.
pub fn found(
    entity: &Entity,
    at: &str,
    (variable, known, found): (&str, &str, &str),
    (actual, expected): (&Value, &Value),
    findings: &mut Findings<'_>,
) {
    let (name, expected, actual) = (&entity.name, shown(expected), shown(actual));
    let message = format!(
        "`{{{variable}}}` of this {name} is `{}` by another of its keys, but `{}` by `{at}`, which is `{actual}` and would be `{expected}`; \
         find out which is right, then write both keys from that value (a primary key: put the item anew and delete this one in one transaction)",
        cut(known),
        cut(found)
    );
    let (expected, actual) = (Some(expected), Some(actual));
    findings.push(&RULE, Details { attribute: Some(at.to_owned()), expected, actual, message });
}
