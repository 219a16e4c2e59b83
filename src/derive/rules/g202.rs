//! G202: some key attributes of an index are there, others are not.

use crate::derive::findings::{Details, Findings};
use crate::model::derived::Severity;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "G202",
    name: "index-key-incomplete",
    severity: Severity::Error,
    doc: "\
## What
The item has some of an index's key attributes, but not all.

## Why it is bad
DynamoDB leaves such an item out of the index without a word: every query on the index misses it.

## Example
`GSI1PK = \"SITE#1\"` and no `GSI1SK`.

## Instead
Write all of an index's key attributes, or none of them.
",
};

/// `absent` are the index's key attributes that the item lacks; `expected` is what the first of them should be.
pub fn found(index: &str, present: &[&str], absent: &[&str], expected: Option<String>, findings: &mut Findings<'_>) {
    let (have, lack) = (present.join("`, `"), absent.join("`, `"));
    let attribute = absent.first().map(|name| (*name).to_owned());
    let set = match (absent, &expected) {
        ([name], Some(expected)) => format!("set `{name}` to `{expected}`"),
        ([name, ..], Some(expected)) => format!("set `{lack}`, `{name}` to `{expected}`"),
        ([], _) | (_, None) => format!("set `{lack}`"),
    };
    let message = format!(
        "index {index} misses this item: it has `{have}` but not `{lack}`; {set} or, if the item is meant to stay out of the index, remove `{have}`"
    );
    findings.push(&RULE, Details { attribute, expected, actual: None, message });
}
