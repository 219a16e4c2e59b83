//! S401: the delimiter inside a value that goes into a key.

use crate::derive::findings::{Details, Findings, cut};
use crate::model::derived::Severity;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "S401",
    name: "delimiter-in-value",
    severity: Severity::Warning,
    doc: "\
## What
A value that goes into a key contains the delimiter which separates the parts of keys.

## Why it is bad
The key reads as if it had more parts. A query by prefix for one value also returns the items of the other: all of
`bob#x` is found under `USERSKILL#bob#`. And two different sets of values may give one key.

## Example
`Username = \"bob#x\"` in `USERSKILL#{Username}#{SkillID}`.

## Instead
Refuse the delimiter where such values are entered, or escape it before it goes into a key.
",
};

/// The value of `name`, an attribute or a variable, contains the delimiter; `key` names the key it goes into.
pub fn found(name: &str, value: &str, delimiter: &str, key: &str, findings: &mut Findings<'_>) {
    let actual = cut(value);
    let message = format!(
        "`{name}` is `{actual}`, and `{delimiter}` is the delimiter of {key}, so that this key can be read in two ways; refuse `{delimiter}` in `{name}` where it is \
         entered, and put this item, and those that name it, under keys without it"
    );
    let expected = Some(format!("a value without `{delimiter}`"));
    findings.push(&RULE, Details { attribute: Some(name.to_owned()), expected, actual: Some(actual), message });
}
