//! S404: blanks around a value in a key.

use crate::derive::findings::{Details, Findings, cut};
use crate::model::derived::Severity;

use super::{InKey, Rule};

pub const RULE: Rule = Rule {
    code: "S404",
    name: "outer-blanks",
    severity: Severity::Warning,
    doc: "\
## What
A value that goes into a key begins or ends with a blank (a space, a no-break space), or is nothing but blanks.

## Why it is bad
Nobody sees the blank and no query without it finds the item. A blank in front also sorts before all letters.

## Example
`SK = \"USER# ann\"`; `Username = \"ann \"` in `USER#{Username}`.

## Instead
Trim such values where they enter. Free text that goes into no key may have any blanks.
",
};

/// Line breaks and tabs are control characters, which S405 is about.
fn is_blank(c: char) -> bool {
    c.is_whitespace() && !c.is_control()
}

pub fn check(value: InKey<'_>, findings: &mut Findings<'_>) {
    let form = value.text.trim_matches(is_blank);
    if form.len() == value.text.len() {
        return;
    }
    let (name, actual) = (value.name, cut(value.whole));
    let (what, remedy, expected) = match form {
        "" => ("nothing but blanks in it", "write a value there".to_owned(), "a value".to_owned()),
        form => {
            let expected = value.mended(form);
            ("blanks around it", value.remedy(&expected), expected)
        }
    };
    let message = format!("`{name}` is `{actual}`: a value in a key with {what}; {remedy}");
    findings.push(
        &RULE,
        Details { attribute: Some(name.to_owned()), expected: Some(expected), actual: Some(actual), message },
    );
}
