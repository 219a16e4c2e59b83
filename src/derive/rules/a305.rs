//! A305: a date or time that cannot be.

use crate::derive::findings::{Details, Findings, shown};
use crate::derive::scope::Carried;
use crate::model::derived::Severity;
use crate::model::spec::{Attribute, Format};
use crate::model::time::{self, TimeError};
use crate::model::value::Value;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "A305",
    name: "time-impossible",
    severity: Severity::Error,
    doc: "\
## What
A date or time, in an attribute or in a key, is well written, but there is no such day or time; or a date that should expire is before 1970 or after 2200.

## Why it is bad
Every program that reads it takes it for another day. A year typed wrong (`2926` for `2026`) means an alert that never comes.

## Example
`CertificateExp = \"2026-02-30\"`.

## Instead
Write the day that was meant; leave the attribute out where there is none.
",
};

/// What should be there.
pub(super) const EXPECTED: &str = "a day and time that exist";

pub fn check(attribute: &Attribute, (name, value): Carried<'_>, findings: &mut Findings<'_>) {
    let Some(format) = attribute.format.filter(|format| *format != Format::EpochSeconds) else { return };
    if let Err(TimeError::Impossible { reason, .. }) = time::check(value, format) {
        found(name, value, reason, findings);
    }
}

/// The attribute `name` holds a time that cannot be, for the reason given.
pub fn found(name: &str, value: &Value, reason: &str, findings: &mut Findings<'_>) {
    let actual = shown(value);
    let message = format!("`{name}` is `{actual}`: {reason}; write the day that was meant");
    let expected = Some(EXPECTED.to_owned());
    findings.push(&RULE, Details { attribute: Some(name.to_owned()), expected, actual: Some(actual), message });
}
