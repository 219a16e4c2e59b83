//! X501: the item that a reference names is not there.

use crate::derive::findings::{Details, Findings, cut};
use crate::model::derived::Severity;
use crate::model::key::TableKey;
use crate::model::spec::Reference;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "X501",
    name: "reference-missing",
    severity: Severity::Error,
    doc: "\
## What
An item names another by its key, and there is no such item. Or it names none, and the reference is `required`.

## Why it is bad
Whoever follows the reference finds nothing: a work order of nobody is executed by nobody, and nobody is told.

## Example
`SK = \"USER#insp003\"` of a device, in a table without the user `insp003`.

## Instead
Put the missing item, or let this one name another. Write both in one transaction, with a condition that the other is there
(`ConditionCheck`). `tablekeeper audit` finds it, because it takes the whole table to know; where the other item was out of
sight (part of a table, an export of changes, lines that could not be read) it is counted as undecidable and is no finding. In a table
that is written to while it is read, look again before you mend.
",
};

/// The other item is not there. `at` is the attribute that names it.
pub fn found(reference: &Reference, at: Option<&str>, other: &TableKey, findings: &mut Findings<'_>) {
    let (what, to) = (subject(reference, at), to(reference));
    let other = cut(&other.to_string());
    let message = format!(
        "{what} names the {to} `{other}`, which is not there; put that item, or have this one name another that is there (where a key names it: put \
         this one anew and delete it here, in one transaction)"
    );
    push(at, Some(other), message, findings);
}

/// The item names nothing, though it must.
pub fn names_nothing(reference: &Reference, at: Option<&str>, findings: &mut Findings<'_>) {
    let to = to(reference);
    let message = format!("{} names no {to}, which is required; name one", subject(reference, at));
    push(at, Some(to), message, findings);
}

fn push(at: Option<&str>, expected: Option<String>, message: String, findings: &mut Findings<'_>) {
    findings.push(&RULE, Details { attribute: at.map(str::to_owned), expected, actual: None, message });
}

/// What messages begin with.
pub(super) fn subject(reference: &Reference, at: Option<&str>) -> String {
    match at {
        Some(at) if at == reference.name => format!("`{at}`"),
        Some(at) => format!("`{}` in `{at}`", reference.name),
        None => format!("`{}`", reference.name),
    }
}

/// `Technician or Manager`.
pub(super) fn to(reference: &Reference) -> String {
    reference.to.join(" or ")
}
