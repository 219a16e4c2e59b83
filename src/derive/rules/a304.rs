//! A304: a date or time in another format than declared.

use crate::derive::findings::{Details, Findings, shown};
use crate::derive::scope::Carried;
use crate::model::derived::Severity;
use crate::model::spec::{Attribute, Format};
use crate::model::time::{self, TimeError};
use crate::model::value::{Kind, Value};

use super::Rule;

pub const RULE: Rule = Rule {
    code: "A304",
    name: "time-format",
    severity: Severity::Error,
    doc: "\
## What
A date or time is not written in the declared format: `date` is `YYYY-MM-DD`, `timestamp` is ISO 8601 with `Z` or an offset,
`timestamp-utc` is ISO 8601 with `Z`, `epoch-seconds` is a whole number.

## Why it is bad
Dates in several formats do not sort, and a date that cannot be read raises no alert when it passes. It is never guessed:
`03/04/2026` is the third of April or the fourth of March.

## Example
`CertificateExp = \"31.12.2026\"`; `TakenAt = \"2026-03-01T10:00:00+02:00\"` where UTC is declared.

## Instead
Write ISO 8601; convert to UTC where the model says so. For \"no date\" leave the attribute out or use a declared \"none\".
",
};

pub fn check(attribute: &Attribute, (name, value): Carried<'_>, findings: &mut Findings<'_>) {
    let Some(format) = attribute.format else { return };
    let wanted = if format == Format::EpochSeconds { Kind::N } else { Kind::S };
    if value.kind() != wanted {
        return;
    }
    if let Err(TimeError::Format { expected, .. }) = time::check(value, format) {
        found(name, value, expected, findings);
    }
}

/// The attribute `name` is not written as `expected` says.
pub fn found(name: &str, value: &Value, expected: &str, findings: &mut Findings<'_>) {
    let actual = shown(value);
    let message = format!("`{name}` is `{actual}`, not {expected}; write it so");
    let expected = Some(expected.to_owned());
    findings.push(&RULE, Details { attribute: Some(name.to_owned()), expected, actual: Some(actual), message });
}
