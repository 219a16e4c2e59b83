//! G205: an index key that DynamoDB cannot index.

use crate::derive::findings::{Details, Findings, shown};
use crate::model::derived::Severity;
use crate::model::key::{PARTITION_KEY_SIZE_MAX, SORT_KEY_SIZE_MAX};
use crate::model::spec::KeyAttribute;
use crate::model::value::{Kind, Value};

use super::Rule;

pub const RULE: Rule = Rule {
    code: "G205",
    name: "index-key-frozen",
    severity: Severity::Error,
    doc: "\
## What
An index key attribute has another type than the index declares, is empty, or is longer than a key may be (2,048 bytes for a
partition key, 1,024 for a sort key).

## Why it is bad
The item is outside the index, and DynamoDB refuses later writes to it that leave the attribute as it is.

## Example
`GSI1PK` is the number `5`, or NULL, where the index declares text; `GSI1SK = \"\"`.

## Instead
Write the declared type, or leave the attribute out.
",
};

/// The finding for a key attribute that cannot be indexed; true if there is one.
pub fn check(index: &str, key: &KeyAttribute, is_sort: bool, value: &Value, findings: &mut Findings<'_>) -> bool {
    let size_max = if is_sort { SORT_KEY_SIZE_MAX } else { PARTITION_KEY_SIZE_MAX };
    let size = value.size();
    let (expected, reason, remedy) = if value.kind() != key.kind {
        let (is, declared) = (value.kind().name(), key.kind.name());
        let reason = format!("it is of type {is} where the index declares {declared}");
        (format!("type {declared}"), reason, format!("write it as {declared}"))
    } else if size == 0 && key.kind != Kind::N {
        ("a value that is not empty".to_owned(), "it is empty".to_owned(), "write a value there".to_owned())
    } else if size > size_max {
        let reason = format!("it is {size} bytes long, {size_max} are allowed");
        (format!("at most {size_max} bytes"), reason, "write a shorter one".to_owned())
    } else {
        return false;
    };
    let (at, actual) = (&key.name, shown(value));
    let message = format!(
        "`{at}` is `{actual}` and keeps the item out of index {index}: {reason}; {remedy}, or remove the attribute"
    );
    let (attribute, actual) = (Some(at.clone()), Some(actual));
    findings.push(&RULE, Details { attribute, expected: Some(expected), actual, message });
    true
}
