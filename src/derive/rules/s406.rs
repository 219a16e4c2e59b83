//! S406: a key that breaks the case rule of its template.

use crate::derive::findings::{Details, Findings, cut, shown};
use crate::model::derived::Severity;
use crate::model::spec::Entity;
use crate::model::template::Template;
use crate::model::value::Value;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "S406",
    name: "key-case",
    severity: Severity::Error,
    doc: "\
## What
The template of a key says `lower` or `upper` (`USER#{Username:lower}`), and the key as it is stored differs from that in the case
of its letters alone. The attribute itself may keep its case. A difference in more than case is K101's or G201's.

## Why it is bad
DynamoDB compares bytes: `USER#Ann` and `USER#ann` are two items. Who builds the key by the rule does not find this one, and a
second one may be made beside it. An item whose primary key is so is not counted or listed.

## Example
`entity_id = \"USER#Ann\"` with `Username = \"Ann\"` under `USER#{Username:lower}`: expected `USER#ann`.

## Instead
Apply the case rule in the one place that builds keys. To mend an index key set it; to mend a primary key put the item under the
right key and delete it under the wrong one in one transaction.
",
};

/// True if the template has a case rule and the two differ by nothing else.
pub fn is_broken(template: &Template, actual: &Value, expected: &Value) -> bool {
    let (Value::S(actual), Value::S(expected)) = (actual, expected) else { return false };
    template.variables().any(|variable| variable.case.is_some()) && actual.to_lowercase() == expected.to_lowercase()
}

/// The key attribute `at`, of an index or of the primary key, is written in another case than its template says.
pub fn found(
    entity: &Entity,
    index: Option<&str>,
    at: &str,
    template: &Template,
    (actual, expected): (&Value, &Value),
    findings: &mut Findings<'_>,
) {
    let (name, template) = (&entity.name, cut(&template.source));
    let (actual, expected) = (shown(actual), shown(expected));
    let remedy = match index {
        Some(index) => format!("set it to `{expected}`, or index {index} finds the item under another name"),
        None => format!("put the item under `{expected}` and delete this one in one transaction"),
    };
    let message =
        format!("`{at}` of this {name} is `{actual}`; by the case rule of `{template}` it is `{expected}`; {remedy}");
    let (expected, actual) = (Some(expected), Some(actual));
    findings.push(&RULE, Details { attribute: Some(at.to_owned()), expected, actual, message });
}
