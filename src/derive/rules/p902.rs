//! P902: an item image that cannot be decoded.

use crate::model::derived::Severity;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "P902",
    name: "image-undecodable",
    severity: Severity::Error,
    doc: "\
## What
The keys and the sequence number of a stream record are good, but its new image cannot be decoded: an unknown type, a number
that is none, keys that contradict the record's.

## Why it is bad
What the item says now is not known, so what was derived from it before is taken back: nothing is counted by guess.

## Example
`{\"Amount\": {\"N\": \"12,5\"}}`

## Instead
Reconcile the item: it is read from the table itself. If it is unreadable there too, mend it.
",
};
