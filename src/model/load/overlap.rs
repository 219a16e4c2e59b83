//! Can two templates give the same key?
//!
//! A value in a key holds no delimiter (one that does is a finding), so a variable stands for one or more characters
//! that are none. Under that reading both templates are regular expressions, and the question is whether their
//! languages meet: a walk over pairs of places, one in each template.

use std::collections::BTreeSet;

use crate::model::spec::Format;
use crate::model::template::{Segment, Template, Variable};

/// One step of a template, as far as the question needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Literal(char),
    /// The delimiter, however many characters it has.
    Delimiter,
    /// One character that is no delimiter.
    Any,
    /// One digit.
    Digit,
    /// More of the step before, or nothing.
    More,
}

/// True if some text can be written by both templates, with values that hold no delimiter.
pub(super) fn can_meet(a: &Template, b: &Template, delimiter: &str) -> bool {
    let (a, b) = (steps(a, delimiter), steps(b, delimiter));
    let mut seen = BTreeSet::new();
    let mut open = vec![(0, 0)];
    while let Some((i, j)) = open.pop() {
        if !seen.insert((i, j)) {
            continue;
        }
        if i == a.len() && j == b.len() {
            return true;
        }
        if a.get(i) == Some(&Step::More) {
            open.push((i + 1, j));
        }
        if b.get(j) == Some(&Step::More) {
            open.push((i, j + 1));
        }
        if let (Some((x, i_next)), Some((y, j_next))) = (take(&a, i), take(&b, j))
            && agree(x, y)
        {
            open.push((i_next, j_next));
        }
    }
    false
}

/// True if every key of `long` begins with the literal that keys of `short` begin with, and nothing ends that literal:
/// under `USER{x}` a reader takes `USERSKILL#1` for a user. A prefix that ends with the delimiter swallows nothing.
pub(super) fn swallows(short: &Template, long: &Template, delimiter: &str) -> bool {
    let (prefix, longer) = (short.prefix(), long.prefix());
    short.constant().is_none()
        && longer.len() > prefix.len()
        && longer.starts_with(prefix)
        && !prefix.ends_with(delimiter)
}

/// The character class at a place, and the place after one character of it.
fn take(steps: &[Step], at: usize) -> Option<(Step, usize)> {
    match steps.get(at)? {
        Step::More => Some((*steps.get(at.checked_sub(1)?)?, at)),
        step => Some((*step, at + 1)),
    }
}

fn agree(a: Step, b: Step) -> bool {
    match (a, b) {
        (Step::Delimiter, other) | (other, Step::Delimiter) => other == Step::Delimiter,
        (Step::Literal(a), Step::Literal(b)) => a == b,
        (Step::Literal(c), Step::Digit) | (Step::Digit, Step::Literal(c)) => c.is_ascii_digit(),
        _ => true,
    }
}

fn steps(template: &Template, delimiter: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for segment in &template.segments {
        match segment {
            Segment::Literal(text) => {
                for (i, piece) in text.split(delimiter).enumerate() {
                    if i > 0 {
                        steps.push(Step::Delimiter);
                    }
                    steps.extend(piece.chars().map(Step::Literal));
                }
            }
            Segment::Variable(variable) => variable_steps(variable, &mut steps),
        }
    }
    steps
}

fn variable_steps(variable: &Variable, steps: &mut Vec<Step>) {
    if let Some(format) = variable.time {
        let shape = if format == Format::Date { "0000-00-00" } else { "0000-00-00T00:00:00" };
        steps.extend(shape.chars().map(|c| if c == '0' { Step::Digit } else { Step::Literal(c) }));
        if let Format::TimestampUtcFixed(digits) = format {
            if digits > 0 {
                steps.push(Step::Literal('.'));
                steps.extend(std::iter::repeat_n(Step::Digit, usize::from(digits)));
            }
            steps.push(Step::Literal('Z'));
        }
        return;
    }
    match variable.pad {
        Some(pad) => {
            steps.extend(std::iter::repeat_n(Step::Digit, pad.integer));
            if pad.fraction > 0 {
                steps.push(Step::Literal('.'));
                steps.extend(std::iter::repeat_n(Step::Digit, pad.fraction));
            }
        }
        None if variable.ordinal => steps.extend([Step::Digit, Step::More]),
        None => steps.extend([Step::Any, Step::More]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meet(a: &str, b: &str) -> bool {
        let (a, b) = (Template::parse(a).unwrap(), Template::parse(b).unwrap());
        let answer = can_meet(&a, &b, "#");
        assert_eq!(answer, can_meet(&b, &a, "#"), "the order of the two decides");
        answer
    }

    #[test]
    fn templates_meet_where_a_key_fits_both() {
        for (a, b, expected) in [
            ("USER#{a}", "USER#{b}", true),
            ("USER#{a}", "USERSKILL#{b}", false),
            ("METADATA#{type}", "METADATA#TOLERANCE", true),
            ("TASK#{t}", "TASK#{t}#COMMENT#{c}", false),
            ("{a}", "STATS", true),
            ("{a}", "PROJECT#{p}", false),
            ("{a}#{b}", "PROJECT#{p}", true),
            ("A{x}", "{y}B", true),
            ("A{x}", "A", false),
            ("N#{n:03}", "N#12", false),
            ("N#{n:03}", "N#123", true),
            ("N#{n:02.1}", "N#12.5", true),
            ("L#{l:ordinal}", "L#x{y}", false),
            ("D#{d:date}", "D#LATEST", false),
            ("D#{d:date}", "D#2026-{m}", true),
            ("D#{t:timestamp-utc.3}", "D#{t:timestamp-utc}", false),
            ("D#{t:timestamp-utc.3}", "D#2026-01-01T00:00:00.000Z", true),
        ] {
            assert_eq!(meet(a, b), expected, "{a} and {b}");
        }
    }

    #[test]
    fn a_delimiter_of_several_characters_is_one_step() {
        let (a, b) = (Template::parse("A::{x}").unwrap(), Template::parse("A::{x}::{y}").unwrap());
        assert!(!can_meet(&a, &b, "::"));
        assert!(can_meet(&a, &b, "#"));
    }

    #[test]
    fn only_an_unended_prefix_swallows() {
        let swallowed = |a: &str, b: &str| swallows(&Template::parse(a).unwrap(), &Template::parse(b).unwrap(), "#");
        assert!(swallowed("USER{x}", "USERSKILL#{y}"));
        assert!(swallowed("{x}", "USERSKILL#{y}"));
        assert!(!swallowed("USER#{x}", "USERSKILL#{y}"));
        assert!(!swallowed("USER", "USERSKILL#{y}"));
    }

    proptest! {
        /// A key that is rendered from both, by chance or by design, must be found.
        #[test]
        fn a_template_meets_each_of_its_own_keys(parts in proptest::collection::vec("[A-C#]{0,3}|\\{[a-c]\\}", 1..6), values in proptest::collection::vec("[A-C]{1,3}", 6)) {
            let source = parts.concat();
            let Ok(template) = Template::parse(&source) else { return Ok(()) };
            let key: String = template.segments.iter().zip(values.iter().cycle()).map(|(segment, value)| match segment {
                Segment::Literal(text) => text.clone(),
                Segment::Variable(_) => value.clone(),
            }).collect();
            prop_assert!(can_meet(&template, &Template::parse(&key).unwrap(), "#"));
        }
    }
}
