//! A303: a value outside the declared set.

use std::borrow::Cow;

use crate::derive::findings::{Details, Findings, cut};
use crate::derive::render::plain;
use crate::derive::scope::Carried;
use crate::model::derived::Severity;
use crate::model::spec::Attribute;
use crate::model::value::Value;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "A303",
    name: "attribute-one-of",
    severity: Severity::Error,
    doc: "\
## What
An attribute's value is not one of those that the entity declares. Case and blanks count.

## Why it is bad
Counts by this attribute put the item under `Other`, and a query for the declared value misses it.

## Example
`Status = \"Completed\"` where `Pending`, `InProgress`, `Complete` and `Cancelled` are declared.

## Instead
Write a declared value, or declare the new one.
",
};

pub fn check(attribute: &Attribute, (name, value): Carried<'_>, findings: &mut Findings<'_>) {
    if attribute.one_of.is_empty() || value.kind() != attribute.kind {
        return;
    }
    let texts: Vec<Cow<'_, str>> = match value {
        Value::Ss(set) => set.iter().map(|text| Cow::Borrowed(text.as_str())).collect(),
        Value::Ns(set) => set.iter().map(|number| Cow::Owned(number.to_plain())).collect(),
        other => plain(other).into_iter().collect(),
    };
    let is_declared = |text: &Cow<'_, str>| attribute.one_of.iter().any(|one| one == text);
    let Some(actual) = texts.into_iter().find(|text| !is_declared(text)) else { return };
    let trimmed = actual.trim();
    let near = attribute.one_of.iter().find(|one| one.eq_ignore_ascii_case(trimmed));
    let (actual, all) = (cut(&actual), cut(&attribute.one_of.join(", ")));
    let message = match near {
        Some(near) => format!("`{name}` is `{actual}`, which is declared as `{near}`; write `{near}`"),
        None => format!("`{name}` is `{actual}`, not one of {all}; write one of these, or declare the new value"),
    };
    let expected = Some(near.cloned().unwrap_or(all));
    findings.push(&RULE, Details { attribute: Some(name.to_owned()), expected, actual: Some(actual), message });
}
