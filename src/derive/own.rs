//! Keys and frames of the derived items that Tablekeeper puts into the user's table.
//!
//! Derived items have text keys. In a table whose key attributes are numbers or binary none can be stored, so none is made;
//! findings are still reported as values.

use smol_str::format_smolstr;

use crate::model::key::{PARTITION_KEY_SIZE_MAX, SORT_KEY_SIZE_MAX, TableKey};
use crate::model::spec::Model;
use crate::model::value::{Item, Kind, MARKER, Text, Value, joined};

/// Longest name inside one of our keys, in bytes; longer ones are shortened by a digest so that the key fits.
const NAME_SIZE_MAX: usize = 200;

/// Why there can be no derived item at a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    #[error("the table's keys are not text")]
    NotText,
    #[error("a key cannot be empty")]
    Empty,
    #[error("the key is {size} bytes long; DynamoDB allows {size_max}")]
    TooLong { size: usize, size_max: usize },
}

/// The key with these parts; without a sort key in the table they are joined by `#`.
pub fn key(model: &Model, partition: Text, sort: Option<Text>) -> Result<TableKey, KeyFault> {
    let table = &model.table;
    let is_text = table.partition_key.kind == Kind::S && table.sort_key.as_ref().is_none_or(|key| key.kind == Kind::S);
    if !is_text {
        return Err(KeyFault::NotText);
    }
    let (partition, sort) = match (&table.sort_key, sort) {
        (Some(_), sort) => (partition, Some(sort.unwrap_or_default())),
        (None, Some(sort)) => (format_smolstr!("{partition}#{sort}"), None),
        (None, None) => (partition, None),
    };
    fits(&partition, PARTITION_KEY_SIZE_MAX)?;
    if let Some(sort) = &sort {
        fits(sort, SORT_KEY_SIZE_MAX)?;
    }
    Ok(TableKey { partition: Value::S(partition), sort: sort.map(Value::S) })
}

fn fits(text: &str, size_max: usize) -> Result<(), KeyFault> {
    match text.len() {
        0 => Err(KeyFault::Empty),
        size if size > size_max => Err(KeyFault::TooLong { size, size_max }),
        _ => Ok(()),
    }
}

/// The beginning of a derived item: its key and its marker.
pub fn frame(model: &Model, key: &TableKey, kind: &str, name: &str) -> Item {
    key.to_item(&model.table.key_names()).with(MARKER, Value::S(joined(&[kind, "/", name])))
}

/// The source item's key as a map under the table's key names.
pub fn source(model: &Model, key: &TableKey) -> Value {
    Value::M(key.to_item(&model.table.key_names()).0)
}

/// A name as one part of a key: as it is, or a digest where it is very long; `-` for none.
pub fn name_part(name: Option<&str>) -> Text {
    match name {
        None => "-".into(),
        Some(name) if name.len() <= NAME_SIZE_MAX => name.into(),
        Some(name) => TableKey { partition: Value::text(name), sort: None }.digest(),
    }
}

/// True for keys in the partitions that are ours by name: findings, their totals, expiries.
pub fn is_own_key(model: &Model, key: &TableKey) -> bool {
    let Some(rest) = key.partition.as_text().and_then(|text| text.strip_prefix(model.prefix.as_str())) else {
        return false;
    };
    let joined = key.sort.is_none();
    let is = |name: &str| rest == name || (joined && rest.starts_with(&format!("{name}#")));
    is("#FINDINGS") || is("#FINDINGS_TOTALS") || rest.starts_with("#EXPIRY#")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::model;

    #[test]
    fn a_table_without_a_sort_key_joins_the_parts() {
        let mut model = model("id", "SK");
        model.table.sort_key = None;
        let key = key(&model, "KEEPER#FINDINGS".into(), Some("A301#x".into())).unwrap();
        assert_eq!(key, TableKey { partition: Value::text("KEEPER#FINDINGS#A301#x"), sort: None });
        assert!(is_own_key(&model, &key));
        assert!(!is_own_key(&model, &TableKey { partition: Value::text("KEEPER#OTHER"), sort: None }));
    }

    #[test]
    fn keys_that_dynamodb_refuses_are_faults() {
        let mut model = model("PK", "SK");
        assert_eq!(key(&model, String::new().into(), Some("x".into())), Err(KeyFault::Empty));
        assert_eq!(key(&model, "x".into(), None), Err(KeyFault::Empty));
        assert!(key(&model, "x".repeat(2048).into(), Some("x".repeat(1024).into())).is_ok());
        let too_long = KeyFault::TooLong { size: 1025, size_max: 1024 };
        assert_eq!(key(&model, "x".into(), Some("x".repeat(1025).into())), Err(too_long));
        model.table.partition_key.kind = Kind::N;
        assert_eq!(key(&model, "1".into(), Some("x".into())), Err(KeyFault::NotText));
    }
}
