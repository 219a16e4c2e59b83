//! A310: a time to live that no item can have been given on purpose.

use crate::derive::findings::{Details, Findings, shown};
use crate::model::derived::Severity;
use crate::model::time;
use crate::model::value::Value;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "A310",
    name: "ttl-far-out",
    severity: Severity::Warning,
    doc: "\
## What
The table's time to live is a number of seconds, but one before 2000 or after 2200. 0 is taken for \"never\".

## Why it is bad
DynamoDB deletes nothing whose time lies more than five years back, so a day written as a number (`20261231` is August 1970), a
number of days, or a span instead of a time keeps the item for ever; a far future does the same.

## Example
`ttl = 20261231`; `ttl = 86400`, meant as one day from now.

## Instead
Write the seconds since 1970 at which the item ends. Leave the attribute out of items that never end, or declare your sign for that
as `none` of the attribute.
",
};

/// 2000-01-01 and 2200-01-01.
pub(in crate::derive) const SECONDS: std::ops::Range<i64> = 946_684_800..7_258_118_400;

/// A value of the table's time to live; what is no number of seconds is A304's and A306's.
pub fn check(name: &str, value: &Value, findings: &mut Findings<'_>) {
    let Ok(seconds) = time::epoch_seconds(value) else { return };
    if seconds == 0 || SECONDS.contains(&seconds) {
        return;
    }
    let actual = shown(value);
    let when = time::day_of_epoch(seconds).map_or_else(String::new, |day| format!(" ({day})"));
    let message = format!(
        "`{name}` is {actual}{when}, so DynamoDB never deletes the item; write the seconds since 1970 at which the item \
         ends, or leave `{name}` out"
    );
    let expected = Some("seconds since 1970 of a day from 2000 to 2200".to_owned());
    findings.push(&RULE, Details { attribute: Some(name.to_owned()), expected, actual: Some(actual), message });
}
