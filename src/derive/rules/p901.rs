//! P901: a stream record that is malformed.

use crate::model::derived::Severity;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "P901",
    name: "record-malformed",
    severity: Severity::Error,
    doc: "\
## What
A stream record has no sequence number, no keys of the table, or an unknown event name.

## Why it is bad
It cannot be said which item changed, or in which order. The record is put into quarantine; it blocks nothing.

## Example
A record whose `Keys` lack the sort key, because the function is connected to another table's stream.

## Instead
Check that the stream belongs to the table of the model. After mending, reconcile: it derives every item afresh.
",
};
