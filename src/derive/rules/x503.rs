//! X503: the item that a reference names is of another entity.

use crate::derive::findings::{Details, Findings, cut};
use crate::model::derived::Severity;
use crate::model::key::TableKey;
use crate::model::spec::Reference;

use super::{Rule, x501};

pub const RULE: Rule = Rule {
    code: "X503",
    name: "reference-of-other-entity",
    severity: Severity::Error,
    doc: "\
## What
An item names another by its key, and the item with that key is of none of the entities that the reference allows.

## Why it is bad
Whoever follows the reference reads an item of another kind: attributes are missing, or mean something else.

## Example
A technician whose manager is the technician `tech001`, under keys that managers and technicians share.

## Instead
Name an item of the right kind, or allow the other entity in `to`. Where the other item is of no entity at all, it has a finding of its own
(K102): mend that first.
",
};

/// `entity` is what the other item is of, if it is of one.
pub fn found(
    reference: &Reference,
    at: Option<&str>,
    other: &TableKey,
    entity: Option<&str>,
    findings: &mut Findings<'_>,
) {
    let (what, to, other) = (x501::subject(reference, at), x501::to(reference), cut(&other.to_string()));
    let actual = entity.unwrap_or("no entity");
    let message =
        format!("{what} names `{other}` for {to}, but that item is of {actual}; name another, or mend that item");
    let attribute = at.map(str::to_owned);
    findings.push(&RULE, Details { attribute, expected: Some(to), actual: Some(actual.to_owned()), message });
}
