//! K101: the primary key is not what the entity's template gives.

use crate::derive::findings::{Details, Findings, cut, shown};
use crate::derive::render::RenderFault;
use crate::model::derived::Severity;
use crate::model::spec::Entity;
use crate::model::template::Template;
use crate::model::value::Value;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "K101",
    name: "key-breaks-template",
    severity: Severity::Error,
    doc: "\
## What
A part of the item's primary key differs from what the entity's key template gives for the item's attributes, or the
template cannot be written because an attribute is absent or does not fit its format.

## Why it is bad
Whoever builds the key from the attributes looks in another place: the item is there and cannot be found. Nothing else can
be derived from such an item, so it is not counted or listed.

## Example
`SK = \"PR#42\"` with `Number = 42` under the template `PR#{Number:010}`: expected `PR#0000000042`.

## Instead
Build keys in one place, from the attributes. To mend an item, put it under the right key and delete it under the wrong one
in one transaction; a primary key cannot be updated.
",
};

/// The key attribute `at` differs from its template; `expected` is known where all of the template's values are.
pub fn differs(
    entity: &Entity,
    at: &str,
    template: &Template,
    actual: &Value,
    expected: Option<&Value>,
    findings: &mut Findings<'_>,
) {
    let (name, actual) = (&entity.name, shown(actual));
    let template = cut(&template.source);
    let message = match expected.map(shown) {
        Some(expected) => {
            let case = if actual.to_lowercase() == expected.to_lowercase() { " (only the case differs)" } else { "" };
            format!(
                "`{at}` is `{actual}`, but the attributes of this {name} give `{expected}`{case} by the template `{template}`; \
                 find out which is right: put the item under `{expected}` and delete this one in one transaction, or mend the attributes"
            )
        }
        None => {
            format!(
                "`{at}` is `{actual}`, but this item is a {name} by what it holds, and keys of these are written `{template}`; \
                 put the item under such a key and delete this one in one transaction"
            )
        }
    };
    let expected = Some(expected.map_or(template, shown));
    findings.push(&RULE, Details { attribute: Some(at.to_owned()), expected, actual: Some(actual), message });
}

/// The template of the key attribute `at` cannot be written for this item.
pub fn unrendered(
    entity: &Entity,
    at: &str,
    template: &Template,
    actual: &Value,
    fault: &RenderFault,
    findings: &mut Findings<'_>,
) {
    let (name, template) = (&entity.name, cut(&template.source));
    let actual = shown(actual);
    let message = format!(
        "`{at}` is `{actual}` and cannot be checked against the template `{template}` of {name}: {fault}; \
         mend that value, the key is made of it"
    );
    let (expected, actual) = (Some(template), Some(actual));
    findings.push(&RULE, Details { attribute: Some(at.to_owned()), expected, actual, message });
}
