//! A302: an attribute of another type than declared.

use crate::derive::findings::{Details, Findings, shown};
use crate::derive::scope::Carried;
use crate::model::decimal::Decimal;
use crate::model::derived::Severity;
use crate::model::spec::{Attribute, Format};
use crate::model::value::{Kind, Value};

use super::Rule;

pub const RULE: Rule = Rule {
    code: "A302",
    name: "attribute-type",
    severity: Severity::Error,
    doc: "\
## What
An attribute has another type than the entity declares.

## Why it is bad
DynamoDB compares and sorts within one type only: a filter `> 5` never sees the text `\"7\"`, and a sum leaves it out.

## Example
`YearsOfExperience` is the text `\"7\"` where a number is declared; `ProjectID` is NULL where text is.

## Instead
Write the declared type; leave an optional attribute out instead of writing NULL.
",
};

pub fn check(attribute: &Attribute, (name, value): Carried<'_>, findings: &mut Findings<'_>) {
    // A time to live as text has a rule of its own, which names the number that was meant.
    let is_text_epoch = attribute.format == Some(Format::EpochSeconds) && matches!(value, Value::S(_));
    if value.kind() == attribute.kind || is_text_epoch {
        return;
    }
    let (is, declared, actual) = (value.kind().name(), attribute.kind.name(), shown(value));
    let remedy = match value {
        Value::Null(_) if !attribute.required => "leave it out where there is none".to_owned(),
        Value::S(text) if attribute.kind == Kind::N && text.parse::<Decimal>().is_ok() => {
            format!("write the number {actual}")
        }
        _ => format!("write it as {declared}"),
    };
    let message = format!("`{name}` is {actual} of type {is}, declared is {declared}; {remedy}");
    let expected = Some(format!("a value of type {declared}"));
    findings.push(&RULE, Details { attribute: Some(name.to_owned()), expected, actual: Some(actual), message });
}
