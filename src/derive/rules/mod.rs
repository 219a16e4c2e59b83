//! The rules that an item can break: one file a rule, listed here.
//!
//! Codes are stable and never used again for something else. A rule file holds the rule's description and the function
//! that turns a violation into a finding; what the rule needs to know (the entity, the variables) is its caller's work.
//!
//! Families: K1 primary keys, G2 index keys, A3 attributes, S4 strings in keys, X5 across items, P9 what could not be
//! decoded or stored. Those of X5 are no part of [`super::derive`](fn@super::derive): it takes other items to judge them, and
//! `engine::cross` does.

use super::findings::cut;
pub use crate::model::rule::Rule;

pub(crate) mod a301;
pub(crate) mod a302;
pub(crate) mod a303;
pub(crate) mod a304;
pub(crate) mod a305;
pub(crate) mod a306;
pub(crate) mod a307;
pub(crate) mod a308;
pub(crate) mod a309;
pub(crate) mod a310;
pub(crate) mod g201;
pub(crate) mod g202;
pub(crate) mod g203;
pub(crate) mod g204;
pub(crate) mod g205;
pub(crate) mod k101;
pub(crate) mod k102;
pub(crate) mod k103;
pub(crate) mod k104;
pub(crate) mod p901;
pub(crate) mod p902;
pub(crate) mod p903;
pub(crate) mod s401;
pub(crate) mod s402;
pub(crate) mod s403;
pub(crate) mod s404;
pub(crate) mod s405;
pub(crate) mod s406;
pub(crate) mod x501;
pub(crate) mod x502;
pub(crate) mod x503;

/// Every rule, by code.
pub const RULES: [&Rule; 31] = [
    &a301::RULE,
    &a302::RULE,
    &a303::RULE,
    &a304::RULE,
    &a305::RULE,
    &a306::RULE,
    &a307::RULE,
    &a308::RULE,
    &a309::RULE,
    &a310::RULE,
    &g201::RULE,
    &g202::RULE,
    &g203::RULE,
    &g204::RULE,
    &g205::RULE,
    &k101::RULE,
    &k102::RULE,
    &k103::RULE,
    &k104::RULE,
    &p901::RULE,
    &p902::RULE,
    &p903::RULE,
    &s401::RULE,
    &s402::RULE,
    &s403::RULE,
    &s404::RULE,
    &s405::RULE,
    &s406::RULE,
    &x501::RULE,
    &x502::RULE,
    &x503::RULE,
];

/// A value that is in a key, as S403 to S405 look at it.
#[derive(Clone, Copy)]
pub(crate) struct InKey<'a> {
    /// The attribute to be mended: a declared one, or the key attribute where the value stands in no other.
    pub name: &'a str,
    /// All that this attribute holds.
    pub whole: &'a str,
    /// The value within it.
    pub text: &'a str,
    /// The attribute is one of the primary key, which no update changes.
    pub is_primary: bool,
}

impl InKey<'_> {
    /// What the attribute should hold if this should be the value.
    fn mended(&self, text: &str) -> String {
        cut(&self.whole.replacen(self.text, text, 1))
    }

    /// What is to be done so that the attribute holds it.
    fn remedy(&self, mended: &str) -> String {
        match self.is_primary {
            true => format!(
                "put the item under `{mended}`, with every key and attribute of that value so, and delete this one in one transaction"
            ),
            false => format!(
                "write `{mended}`, there and in every key that is made of it (a primary key: put the item anew and delete this one)"
            ),
        }
    }
}

/// The rule of that code.
pub fn rule(code: &str) -> Option<&'static Rule> {
    RULES.into_iter().find(|rule| rule.code == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_and_the_array_are_in_step() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/derive/rules");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "mod.rs")
            .map(|name| name.trim_end_matches(".rs").to_uppercase())
            .collect();
        files.sort();
        let codes: Vec<&str> = RULES.iter().map(|rule| rule.code).collect();
        assert_eq!(files, codes);
        // What a model's `[severity]` may name.
        assert_eq!(codes, crate::model::rule::ITEM_CODES);
    }

    #[test]
    fn every_rule_is_documented_in_full() {
        for rule in RULES {
            let mut rest = rule.doc;
            for heading in ["## What", "## Why it is bad", "## Example", "## Instead"] {
                let at = rest.find(heading).unwrap_or_else(|| panic!("{}: no `{heading}` in its place", rule.code));
                rest = &rest[at + heading.len()..];
                let body = rest.split("\n## ").next().unwrap_or_default();
                assert!(body.trim().len() > 20, "{}: nothing under `{heading}`", rule.code);
            }
            let valid_name = rule.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
            assert!(valid_name, "{}: {}", rule.code, rule.name);
        }
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }
}
