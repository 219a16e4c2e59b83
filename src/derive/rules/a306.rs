//! A306: a time to live that is no number of seconds.

use crate::derive::findings::{Details, Findings, shown};
use crate::derive::scope::Carried;
use crate::model::derived::Severity;
use crate::model::spec::{Attribute, Format};
use crate::model::time::{self, TimeError};
use crate::model::value::{Kind, Value};

use super::Rule;

pub const RULE: Rule = Rule {
    code: "A306",
    name: "ttl-not-seconds",
    severity: Severity::Error,
    doc: "\
## What
A time to live, or an attribute declared as `epoch-seconds`, holds milliseconds, microseconds or text.

## Why it is bad
DynamoDB reads seconds since 1970 and only from numbers. Milliseconds lie in a far future and text is ignored: the item is
never deleted, without any error.

## Example
`ttl = 1767225600000`: in seconds it is `1767225600`. `ttl = \"1767225600\"` is text.

## Instead
Write whole seconds as a number.
",
};

/// An attribute declared as seconds since 1970.
pub fn check(attribute: &Attribute, (name, value): Carried<'_>, findings: &mut Findings<'_>) {
    if attribute.format == Some(Format::EpochSeconds) {
        check_value(name, value, false, findings);
    }
}

/// A value that should be seconds since 1970; `is_ttl` where it is the table's time to live and nothing more is declared.
pub fn check_value(name: &str, value: &Value, is_ttl: bool, findings: &mut Findings<'_>) {
    let Err(error) = time::epoch_seconds(value) else { return };
    let seconds = match error {
        TimeError::NotSeconds { seconds, .. } => Some(seconds),
        TimeError::NotANumber { seconds, .. } => seconds,
        // A fraction; the format of a declared attribute is A304's.
        TimeError::Format { .. } if is_ttl && value.kind() == Kind::N => None,
        TimeError::Format { .. } | TimeError::Impossible { .. } => return,
    };
    let remedy = match seconds {
        Some(seconds) => format!("write the number {seconds}"),
        None => "write the seconds since 1970 as a number".to_owned(),
    };
    let message = format!("`{name}` does not expire the item: {error}; {remedy}");
    let expected = Some(seconds.map_or_else(|| time::EPOCH_FORM.to_owned(), |seconds| seconds.to_string()));
    findings.push(&RULE, Details { attribute: Some(name.to_owned()), expected, actual: Some(shown(value)), message });
}
