//! A309: a value that cannot be written into a derived or index key.

use std::fmt;

use crate::derive::findings::{Details, Findings, MESSAGE_SIZE_MAX};
use crate::model::derived::Severity;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "A309",
    name: "derived-key-impossible",
    severity: Severity::Error,
    doc: "\
## What
An aggregate, a listing entry, an expiry or an index key is made from a value that does not fit: a number too large for its
padding, a value outside the set that `ordinal` counts in, a map where text is wanted, a key that is empty or longer than
DynamoDB allows, an entry of more than 400 KB; in the key of a listing, a value of another type than declared.

## Why it is bad
The derived item cannot be stored, so this item is missing in it.

## Example
`Number = 12345` in a listing key `{Number:04}`.

## Instead
Mend the value, or widen the padding in the model (all entries are then written anew).
",
};

/// What an item is left out of: `listing by_years`.
#[derive(Clone, Copy)]
pub struct LeftOut<'a> {
    pub kind: &'static str,
    pub name: &'a str,
}

impl fmt::Display for LeftOut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// What is left out, the attribute that it is made of where there is one, and why.
pub fn found(
    what: LeftOut<'_>,
    attribute: Option<&str>,
    actual: Option<String>,
    reason: &str,
    findings: &mut Findings<'_>,
) {
    let why = format!(": {reason}; mend the value, or the key in the model");
    // One reason often keeps an item out of several: it is said once.
    if let Some(first) = findings.find(&RULE, attribute)
        && first.message.contains(&why)
    {
        let is_told = [",", ":"].iter().any(|end| first.message.contains(&format!(" {what}{end}")));
        if !is_told && first.message.len() < MESSAGE_SIZE_MAX {
            first.message = first.message.replacen(&why, &format!(", {what}{why}"), 1);
        }
        return;
    }
    let message = format!("this item is left out of {what}{why}");
    findings.push(&RULE, Details { attribute: attribute.map(str::to_owned), expected: None, actual, message });
}
