//! S405: a character in a key that nobody sees.

use crate::derive::findings::{Details, Findings, cut};
use crate::model::derived::Severity;

use super::{InKey, Rule};

pub const RULE: Rule = Rule {
    code: "S405",
    name: "control-character",
    severity: Severity::Error,
    doc: "\
## What
A value that goes into a key has a control character (a tab, a line break, NUL), or one that is never seen: a zero-width space, a
byte order mark, a mark that turns the direction of writing. Joiners inside words and emoji are letters to their readers and fine.

## Why it is bad
The key looks right and is another: a query with the text that people see finds nothing. Line breaks also tear logs and CSV apart.

## Example
`SK = \"x\\t\"`; `Username = \"ann\\n\"`, read from a file with its line's end.

## Instead
Remove such characters where texts enter. Put the item under the right key and delete it under the wrong one in one transaction.
",
};

/// The first character of the text that nobody sees.
fn unseen(text: &str) -> Option<char> {
    text.chars().find(|c| is_unseen(*c))
}

fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

pub fn check(value: InKey<'_>, findings: &mut Findings<'_>) {
    let Some(first) = unseen(value.text) else { return };
    // Written as it is, it would not be seen in the finding either.
    let (name, actual) = (value.name, cut(&value.whole.escape_debug().to_string()));
    let form: String = value.text.chars().filter(|c| !is_unseen(*c)).collect();
    let (remedy, expected) = match form.trim() {
        "" => ("write a value there".to_owned(), "a value".to_owned()),
        form => {
            let expected = value.mended(form);
            (value.remedy(&expected), expected)
        }
    };
    let message = format!(
        "`{name}` is `{actual}`: a value in a key with the character U+{:04X}, which nobody sees; {remedy}",
        u32::from(first)
    );
    findings.push(
        &RULE,
        Details { attribute: Some(name.to_owned()), expected: Some(expected), actual: Some(actual), message },
    );
}
