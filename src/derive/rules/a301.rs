//! A301: a required attribute is missing.

use crate::derive::findings::{Details, Findings};
use crate::derive::scope::{Carried, Scope};
use crate::model::derived::Severity;
use crate::model::spec::Attribute;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "A301",
    name: "attribute-missing",
    severity: Severity::Error,
    doc: "\
## What
An attribute that the entity requires is not there under any of its spellings. A declared \"none\" such as `\"N/A\"` is there.

## Why it is bad
Readers that rely on it fail, and counts by it put the item under `Other`.

## Example
A work order without `Status`.

## Instead
Write the attribute, or declare it optional.
",
};

pub fn check(scope: &Scope<'_>, attribute: &Attribute, carried: Option<Carried<'_>>, findings: &mut Findings<'_>) {
    if !attribute.required || carried.is_some() {
        return;
    }
    let (name, entity) = (&attribute.name, &scope.entity.name);
    let message = format!("this {entity} has no `{name}`, which is required; write it, or declare it optional");
    let expected = Some(format!("a value of type {}", attribute.kind.name()));
    findings.push(&RULE, Details { attribute: Some(name.clone()), expected, actual: None, message });
}
