//! X502: a copied attribute is not what its master says.

use crate::derive::findings::{Details, Findings, cut};
use crate::derive::references::Held;
use crate::model::derived::Severity;
use crate::model::key::TableKey;
use crate::model::spec::Copy;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "X502",
    name: "copy-differs",
    severity: Severity::Warning,
    doc: "\
## What
An attribute that is copied from another item has another value than there. A copy that the item does not carry at all is
none; whether it must be there, `required` says. A declared \"none\" is the same as absent.

## Why it is bad
Readers of the copy see what is no longer so, and an index whose key is the copy lists the item in the old place.

## Example
`SkillName = \"Golang\"` of a user's skill, while the skill itself is called `Go` by now.

## Instead
Whoever changes the master writes its copies, best from the table's stream. To mend an item, write the master's value.
",
};

/// `at` is the spelling under which the item carries the copy.
pub fn found(
    copy: &Copy,
    at: &str,
    (own, master): (&Held, Option<&Held>),
    (entity, other): (&str, &TableKey),
    findings: &mut Findings<'_>,
) {
    let (actual, name, other) = (&own.shown, &copy.master, cut(&other.to_string()));
    let message = match master {
        Some(master) => {
            let expected = &master.shown;
            format!(
                "`{at}` is `{actual}`, but its master, `{name}` of the {entity} `{other}`, is `{expected}`; set `{at}` here to `{expected}`"
            )
        }
        None => {
            format!("`{at}` is `{actual}`, but its master, the {entity} `{other}`, has no `{name}`; remove `{at}` here")
        }
    };
    let expected = master.map(|master| master.shown.to_string());
    let (attribute, actual) = (Some(at.to_owned()), Some(actual.to_string()));
    findings.push(&RULE, Details { attribute, expected, actual, message });
}
