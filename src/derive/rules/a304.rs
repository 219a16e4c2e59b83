//! A304: a date or time in another format than declared.

use crate::derive::findings::{Details, Findings, cut, shown};
use crate::derive::scope::Carried;
use crate::model::derived::Severity;
use crate::model::spec::{Attribute, Format};
use crate::model::template::FormatError;
use crate::model::time::{self, TimeError};
use crate::model::value::{Kind, Value};

use super::{Rule, a305};

pub const RULE: Rule = Rule {
    code: "A304",
    name: "time-format",
    severity: Severity::Error,
    doc: "\
## What
A date or time is not written in the declared format: `date` is `YYYY-MM-DD`, `timestamp` is ISO 8601 with `Z` or an offset,
`timestamp-utc` is ISO 8601 with `Z`, `timestamp-utc.3` has exactly three fraction digits, `epoch-seconds` is a whole number. The
same where a key's template says so: `EV#{at:timestamp-utc.3}`.

## Why it is bad
Dates in several formats do not sort, nor do fractions of several widths (`29Z` stands behind `29.017Z`), and a date that cannot be read raises no alert when it passes. It is never guessed:
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
        found(name, value, Some(format), expected, findings);
    }
}

/// The attribute `name` is not written as `expected` says.
pub fn found(name: &str, value: &Value, format: Option<Format>, expected: &str, findings: &mut Findings<'_>) {
    let actual = shown(value);
    let same = value.as_text().zip(format).and_then(|(text, format)| time::rewritten(text, format));
    let remedy = same.map_or_else(
        || format!("write `{name}` so"),
        |same| format!("write `{same}`, the same instant, there and in every key that is made of it"),
    );
    let message = format!("`{name}` is `{actual}`, not {expected}; {remedy}");
    let expected = Some(expected.to_owned());
    findings.push(&RULE, Details { attribute: Some(name.to_owned()), expected, actual: Some(actual), message });
}

/// The key attribute `at`, of an index or of the primary key, has a time in it that does not fit its template. One that cannot be is
/// A305's.
pub fn in_key(index: Option<&str>, at: &str, actual: &Value, fault: &FormatError, findings: &mut Findings<'_>) {
    let FormatError::Time { value, format, error } = fault else { return };
    let of = index.map_or_else(String::new, |index| format!(" of index {index}"));
    let (rule, reason, expected) = match error {
        TimeError::Impossible { reason, .. } => (&a305::RULE, format!("cannot be: {reason}"), a305::EXPECTED),
        TimeError::Format { expected, .. } => (&RULE, format!("is not {expected}"), *expected),
        // Of numbers, which no time in a key is.
        TimeError::NotSeconds { .. } | TimeError::NotANumber { .. } => return,
    };
    let actual = shown(actual);
    let key = time::rewritten(value, *format).map(|same| cut(&actual.replacen(value, &same, 1)));
    let remedy = match (index, &key) {
        (Some(_), Some(key)) => format!("set it to `{key}`"),
        (Some(_), None) => "set it to a key with such a time".to_owned(),
        (None, Some(key)) => format!("put the item under `{key}` and delete this one in one transaction"),
        (None, None) => "put the item under a key with such a time and delete this one in one transaction".to_owned(),
    };
    let message = format!("`{at}`{of} is `{actual}`, where `{}` {reason}; {remedy}", cut(value));
    let expected = Some(key.unwrap_or_else(|| expected.to_owned()));
    findings.push(rule, Details { attribute: Some(at.to_owned()), expected, actual: Some(actual), message });
}
