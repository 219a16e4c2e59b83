//! The little that is known about SQL here: where its literals and comments end.
//!
//! That is enough to put a date in for `:as_of` without touching a text that happens to contain it, and to see that a query
//! orders or cuts its own rows, which would make a report differ from run to run.

use std::ops::Range;

use chrono::NaiveDate;

/// The parameters that SQL may use.
pub const PARAMETERS: [&str; 1] = ["as_of"];

/// A parameter of a query: its name and the bytes of `:name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    pub span: Range<usize>,
}

/// Every `:name` outside of literals, quoted names and comments; `::` is a cast.
pub fn parameters(sql: &str) -> Vec<Parameter> {
    let mut found = Vec::new();
    for code in code_ranges(sql) {
        let text = &sql[code.clone()];
        let mut at = 0;
        while let Some(colon) = text[at..].find(':').map(|offset| at + offset) {
            let rest = &text[colon + 1..];
            if rest.starts_with(':') {
                at = colon + 2;
                continue;
            }
            let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            at = colon + 1 + length;
            if length > 0 {
                let span = code.start + colon..code.start + at;
                found.push(Parameter { name: rest[..length].to_owned(), span });
            }
        }
    }
    found
}

/// The query with `:as_of` as a date literal; other parameters stay as they are.
pub fn bind(sql: &str, as_of: NaiveDate) -> String {
    let mut bound = String::with_capacity(sql.len() + 16);
    let mut at = 0;
    for parameter in parameters(sql).iter().filter(|parameter| parameter.name == PARAMETERS[0]) {
        bound.push_str(&sql[at..parameter.span.start]);
        bound.push_str(&format!("DATE('{}')", as_of.format("%Y-%m-%d")));
        at = parameter.span.end;
    }
    bound.push_str(&sql[at..]);
    bound
}

/// The first of `words` that stands outside of parentheses, literals and comments, in any case of letters.
pub fn outer_word<'w>(sql: &str, words: &[&'w str]) -> Option<(&'w str, usize)> {
    let mut depth = 0usize;
    for code in code_ranges(sql) {
        let text = &sql[code.clone()];
        let mut start = None;
        // One blank more, so that a word at the end is closed like the others.
        for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
            if c.is_alphanumeric() || c == '_' {
                start.get_or_insert(at);
                continue;
            }
            if let Some(begin) = start.take()
                && depth == 0
                && let Some(word) = words.iter().find(|word| text[begin..at].eq_ignore_ascii_case(word))
            {
                return Some((word, code.start + begin));
            }
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    None
}

/// The first word that is not in a comment; empty where the text begins with something else.
pub fn first_word(sql: &str) -> &str {
    let code = code_ranges(sql).into_iter().map(|range| sql[range].trim_start()).find(|text| !text.is_empty());
    let text = code.unwrap_or_default();
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// The stretches of the text that are neither literal, quoted name nor comment, in order.
fn code_ranges(sql: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while let Some(c) = sql[at..].chars().next() {
        let rest = &sql[at..];
        let end = match c {
            // A doubled quote inside ends one literal and begins the next: the same stretch in effect.
            '\'' | '"' | '`' => rest[1..].find(c).map_or(rest.len(), |offset| offset + 2),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |offset| offset + 2),
            _ => {
                at += c.len_utf8();
                continue;
            }
        };
        ranges.push(start..at);
        at += end;
        start = at;
    }
    ranges.push(start..sql.len());
    ranges.retain(|range| !range.is_empty());
    ranges
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn day() -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 11, 30).unwrap()
    }

    #[test]
    fn the_date_goes_in_for_the_parameter_only() {
        assert_eq!(bind("a < :as_of AND b", day()), "a < DATE('2026-11-30') AND b");
        for same in ["x = ':as_of'", "\":as_of\"", "-- :as_of", "/* :as_of */ 1", "x::as_of", "'it''s :as_of'"] {
            assert_eq!(bind(same, day()), same);
        }
        assert_eq!(bind(":as_offset", day()), ":as_offset");
        assert_eq!(parameters("SELECT :one, ':two', :drei")[1].name, "drei");
    }

    #[test]
    fn only_outer_words_are_seen() {
        let outer = |sql: &str| outer_word(sql, &["order", "limit"]).map(|(word, _)| word);
        assert_eq!(outer("SELECT a FROM b ORDER BY a"), Some("order"));
        assert_eq!(outer("SELECT a FROM b limit 3"), Some("limit"));
        assert_eq!(outer("SELECT SUM(a) OVER (ORDER BY a) FROM (SELECT a FROM b LIMIT 3) q"), None);
        assert_eq!(outer("SELECT 'order', \"limit\", my_order FROM b -- limit"), None);
    }

    #[test]
    fn the_first_word_is_behind_comments() {
        assert_eq!(first_word("-- what\n /* and */ Select 1"), "Select");
        assert_eq!(first_word("WITH a AS (SELECT 1)"), "WITH");
        assert_eq!(first_word("(SELECT 1)"), "");
        assert_eq!(first_word(""), "");
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(sql in ".*") {
            let bound = bind(&sql, day());
            prop_assert!(parameters(&bound).iter().all(|parameter| parameter.name != "as_of"));
            outer_word(&sql, &["order"]);
            first_word(&sql);
        }
    }
}
