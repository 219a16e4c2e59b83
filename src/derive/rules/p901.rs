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
It cannot be said which item changed, or in which order, so no finding in the table can tell of it: the record is put into quarantine, in
the state table, where `tablekeeper verify` lists it with its event id, sequence number and reason. It blocks nothing.

## Example
A record whose `Keys` lack the sort key, because the function is connected to another table's stream.

## Instead
Check that the stream belongs to the table of the model. After mending, reconcile: it derives every item afresh, so nothing is lost.
The quarantine row is a note and does no harm. It goes by itself 30 days after the record came last (`ExpiresAt`); to have it gone
earlier, delete it from the state table (`PK` is `QUARANTINE`, `SK` the place that `verify` names).
",
};
