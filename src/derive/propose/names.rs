//! What names of attributes and words in keys tell.

use crate::model::spec::Format;
use crate::model::time::{self, TimeError};
use crate::model::value::Value;

/// Words that stand for "the item itself" as a whole part of a key.
const CONSTANTS: [&str; 16] = [
    "META", "METADATA", "PROFILE", "DETAILS", "DETAIL", "INFO", "SETTINGS", "CONFIG", "STATS", "SUMMARY", "HEADER",
    "ROOT", "CURRENT", "LATEST", "DATA", "SELF",
];

/// What an attribute that names an item's entity is called, most telling first; compared without case and signs.
const TYPE_NAMES: [&str; 10] =
    ["entitytype", "edbe", "et", "typename", "entity", "type", "itemtype", "recordtype", "objecttype", "discriminator"];

const PARTITION_WORDS: [&str; 3] = ["partitionkey", "hashkey", "pk"];
const SORT_WORDS: [&str; 3] = ["sortkey", "rangekey", "sk"];

/// Lower case, letters and digits only.
pub fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// How telling a name is for an attribute with the entity's name: less is more; `None` if it is none of them.
pub fn type_rank(name: &str) -> Option<usize> {
    let plain = plain(name);
    TYPE_NAMES.iter().position(|known| *known == plain)
}

/// Which key an attribute is by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Partition,
    Sort,
}

/// The role and the rest of a key attribute's name: `GSI1-PK` is `(Partition, "gsi1")`, `SK` is `(Sort, "")`.
pub fn role(name: &str) -> Option<(Role, String)> {
    let plain = plain(name);
    let words = PARTITION_WORDS.map(|word| (Role::Partition, word)).into_iter();
    let words = words.chain(SORT_WORDS.map(|word| (Role::Sort, word)));
    words
        .filter_map(|(role, word)| {
            let rest = plain.strip_suffix(word).or_else(|| plain.strip_prefix(word))?;
            Some((role, rest.to_owned()))
        })
        .min_by_key(|(_, rest)| rest.len())
}

/// True for what is left of the name of an index's key: `gsi1`, `lsi`, `2`.
pub fn is_index_rest(rest: &str) -> bool {
    let word = rest.trim_end_matches(|c: char| c.is_ascii_digit());
    !rest.is_empty() && ["gsi", "lsi", "index", "idx", "gs", "ls", ""].contains(&word)
}

/// True if the attribute is there for a key only: `PK`, `GSI2SK`; a name such as `Category` says something by itself.
pub fn is_made_for_keys(name: &str) -> bool {
    role(name).is_some_and(|(_, rest)| rest.is_empty() || is_index_rest(&rest))
}

/// True for a word that can be a literal of a key: letters and `_`, `-`, blanks; no digits, for those number things.
pub fn is_word(part: &str) -> bool {
    part.chars().any(char::is_alphabetic) && part.chars().all(|c| c.is_alphabetic() || "_- .".contains(c))
}

/// True for a word that programs write, not people: `WORK_ORDER`.
pub fn is_capitals(part: &str) -> bool {
    part.len() > 1 && is_word(part) && !part.chars().any(char::is_lowercase)
}

pub fn is_constant(part: &str) -> bool {
    part.is_empty() || CONSTANTS.iter().any(|word| word.eq_ignore_ascii_case(part))
}

/// `TEST_METHOD`, `test-method` and `testMethod` are `TestMethod`; empty if no letter is in it.
pub fn pascal(text: &str) -> String {
    let mut name = String::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let shout = !word.chars().any(|c| c.is_ascii_lowercase());
        let mut letters = word.chars();
        name.extend(letters.next().map(|c| c.to_ascii_uppercase()));
        name.extend(letters.map(|c| if shout { c.to_ascii_lowercase() } else { c }));
    }
    let name = name.trim_start_matches(|c: char| c.is_ascii_digit());
    name.chars().take(48).collect()
}

/// A variable's name from a literal: its last word, lower case; `None` if it has none.
pub fn variable(literal: &str) -> Option<String> {
    let word = literal.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).rfind(|word| !word.is_empty())?;
    let name = word.to_ascii_lowercase();
    name.starts_with(|c: char| c.is_ascii_alphabetic()).then(|| name.chars().take(40).collect())
}

/// True if the text begins like `2026-01-31T`.
pub fn begins_with_time(text: &str) -> bool {
    let head = text.as_bytes();
    head.len() > 10
        && head[..11].iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            10 => matches!(byte, b'T' | b't' | b' '),
            _ => byte.is_ascii_digit(),
        })
}

/// True if the value is written in this format, whether or not there is such a day.
pub fn is_written(value: &Value, format: Format) -> bool {
    matches!(time::check(value, format), Ok(()) | Err(TimeError::Impossible { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_attributes_are_known_by_their_names() {
        assert_eq!(role("GSI1-PK"), Some((Role::Partition, "gsi1".to_owned())));
        assert_eq!(role("SK2"), Some((Role::Sort, "2".to_owned())));
        assert_eq!(role("partition_key"), Some((Role::Partition, String::new())));
        assert_eq!(role("Status"), None);
        for name in ["PK", "sk", "GSI1PK", "gsi1_sk", "PK3", "LSI1SK"] {
            assert!(is_made_for_keys(name), "{name}");
        }
        for name in ["Category", "task", "risk_pk", "Spk", "Username"] {
            assert!(!is_made_for_keys(name), "{name}");
        }
    }

    #[test]
    fn words_become_names() {
        for (text, name) in [("TEST_METHOD", "TestMethod"), ("warehouseItem", "WarehouseItem"), ("3D", "d"), ("##", "")]
        {
            assert_eq!(pascal(text).to_lowercase(), name.to_lowercase());
        }
        assert_eq!(variable("TENANT#x#USER#").as_deref(), Some("user"));
        assert_eq!(variable("#"), None);
        assert!(
            begins_with_time("2026-01-31T10:00") && !begins_with_time("2026-01-31") && !begins_with_time("é026-01-31T")
        );
        assert!(
            is_word("in progress") && !is_word("tech001") && !is_word("<x>") && is_capitals("AB") && !is_capitals("A")
        );
        assert_eq!((type_rank("__edb_e__"), type_rank("_et"), type_rank("Model")), (Some(1), Some(2), None));
    }
}
