//! S403: a value in a key that is not in Unicode normal form NFC.

use unicode_normalization::UnicodeNormalization as _;

use crate::derive::findings::{Details, Findings, cut};
use crate::model::derived::Severity;

use super::{InKey, Rule};

pub const RULE: Rule = Rule {
    code: "S403",
    name: "not-nfc",
    severity: Severity::Warning,
    doc: "\
## What
A value that goes into a key is not in Unicode normal form NFC: a letter is written as a base letter and a combining accent where
one character for both exists.

## Why it is bad
Two texts that look alike on every screen are two keys for DynamoDB, which compares bytes. Who types the name on another system
does not find the item, and counts by it make two groups of one.

## Example
`SK = \"USER#jose\\u0301\"`: its NFC form `USER#jos\\u00e9` looks the same and is another key.

## Instead
Bring texts into NFC where they enter, before they go into an attribute or a key (`normalize('NFC')`, `unicodedata.normalize`).
",
};

/// The value's normal form, if it has another one.
fn normal_form(text: &str) -> Option<String> {
    // Below U+0300, whose UTF-8 begins with CC, every text is in NFC: all of Latin-1 and more.
    if text.bytes().all(|byte| byte < 0xcc) || unicode_normalization::is_nfc(text) {
        return None;
    }
    Some(text.nfc().collect())
}

pub fn check(value: InKey<'_>, findings: &mut Findings<'_>) {
    let Some(form) = normal_form(value.text) else { return };
    let (name, actual, expected) = (value.name, cut(value.whole), value.mended(&form));
    // Both forms look alike, so the message spells them out.
    let spelt = |text: &str| text.escape_default().to_string();
    let message = format!(
        "`{name}` is `{actual}` (`{}`): a value in a key that is not in Unicode normal form NFC; {}",
        cut(&spelt(value.whole)),
        value.remedy(&cut(&spelt(&expected)))
    );
    let (expected, actual) = (Some(expected), Some(actual));
    findings.push(&RULE, Details { attribute: Some(name.to_owned()), expected, actual, message });
}
