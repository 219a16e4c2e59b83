//! P903: derived data that the database refuses.

use crate::model::derived::Severity;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "P903",
    name: "refused-by-database",
    severity: Severity::Error,
    doc: "\
## What
DynamoDB refused to store what was derived from the item.

## Why it is bad
The item is not counted and not listed until the cause is gone. The other items are not affected.

## Example
An item of the application sits at the key of a derived item; Tablekeeper never overwrites it. Or the item derives so many rows under
such long keys that its ledger row, which lists them all, would be larger than the 400 KB that DynamoDB stores.

## Instead
Read the reason in the finding, mend the cause, and reconcile.
",
};
