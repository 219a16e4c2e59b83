//! S402: a placeholder where a key should have a value.

use crate::derive::findings::{Details, Findings, cut};
use crate::model::derived::Severity;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "S402",
    name: "placeholder-in-key",
    severity: Severity::Error,
    doc: "\
## What
A part of a key is empty, or what programming languages write for \"nothing\": `undefined`, `None`, `null`, `NaN`,
`[object Object]`, `Invalid Date`, or a placeholder in brackets such as `<user>`, `{user}` or `${user}`. Values that the model declares are no placeholders.

## Why it is bad
The key was built from a value that was not there. All items with the same hole share a key and overwrite one another.

## Example
`SK = \"TASK#todo#None#t9\"`, `PK = \"USER#undefined\"`, `PK = \"A##B\"`.

## Instead
Check that all values are there before building a key.
",
};

/// What programming languages write for a value that is not there.
const PLACEHOLDERS: [&str; 6] = ["undefined", "None", "null", "NaN", "[object Object]", "Invalid Date"];

/// The first part of `text` that stands for nothing and is not declared to stand there.
pub fn placeholder<'t>(text: &'t str, delimiter: &str, declared: &[String]) -> Option<&'t str> {
    let stands_for_nothing = |part: &&str| {
        let is_nothing = part.is_empty()
            || PLACEHOLDERS.contains(part)
            || (part.len() > 2 && part.starts_with('<') && part.ends_with('>'))
            || (part.len() > 2 && part.starts_with('{') && part.ends_with('}'))
            || (part.len() > 3 && part.starts_with("${") && part.ends_with('}'));
        is_nothing && !declared.iter().any(|declared| declared == part)
    };
    let mut letters = delimiter.chars();
    match (letters.next(), letters.next()) {
        (None, _) => Some(text).filter(stands_for_nothing),
        // Looking for one letter is much faster than looking for a text.
        (Some(letter), None) => text.split(letter).find(stands_for_nothing),
        (Some(_), Some(_)) => text.split(delimiter).find(stands_for_nothing),
    }
}

/// The key attribute `at` has the placeholder `part` in it.
pub fn found(at: &str, key: &str, part: &str, findings: &mut Findings<'_>) {
    let actual = cut(key);
    let remedy = "write the key with the real value there or, if there is none, leave the key out (of an index, all of its attributes)";
    let message = match part {
        "" => format!("`{at}` is `{actual}`, which has an empty part; {remedy}"),
        _ => format!("`{at}` is `{actual}`, where `{}` is a placeholder; {remedy}", cut(part)),
    };
    let expected = Some("a value".to_owned());
    findings.push(&RULE, Details { attribute: Some(at.to_owned()), expected, actual: Some(actual), message });
}
