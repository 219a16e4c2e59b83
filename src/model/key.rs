//! Primary keys as typed values.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::value::{Item, Text, Value};

/// Longest partition key in UTF-8 bytes.
pub const PARTITION_KEY_SIZE_MAX: usize = 2048;
/// Longest sort key in UTF-8 bytes.
pub const SORT_KEY_SIZE_MAX: usize = 1024;

/// The names of a table's key attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyNames {
    pub partition: Text,
    pub sort: Option<Text>,
}

/// One item's primary key: typed values (S, N or B), without the attributes' names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableKey {
    #[serde(rename = "p")]
    pub partition: Value,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<Value>,
}

impl TableKey {
    /// A key of two texts.
    pub fn text(partition: impl Into<Text>, sort: impl Into<Text>) -> TableKey {
        TableKey { partition: Value::text(partition), sort: Some(Value::text(sort)) }
    }

    /// The key of `item` by the table's key names; `None` where an attribute is absent or not S, N or B.
    pub fn of(item: &Item, names: &KeyNames) -> Option<TableKey> {
        let part =
            |name: &str| item.get(name).filter(|v| matches!(v, Value::S(_) | Value::N(_) | Value::B(_))).cloned();
        let sort = match &names.sort {
            Some(name) => Some(part(name)?),
            None => None,
        };
        Some(TableKey { partition: part(&names.partition)?, sort })
    }

    /// The key's attributes under the table's names.
    pub fn to_item(&self, names: &KeyNames) -> Item {
        let mut item = Item::new().with(names.partition.clone(), self.partition.clone());
        if let (Some(name), Some(sort)) = (&names.sort, &self.sort) {
            item.insert(name.clone(), sort.clone());
        }
        item
    }

    /// 32 hexadecimal digits of a SHA-256 over the typed parts: a fixed-length name for a key of any length.
    pub fn digest(&self) -> Text {
        let mut hash = Sha256::new();
        for part in [Some(&self.partition), self.sort.as_ref()].into_iter().flatten() {
            let number;
            let (tag, bytes) = match part {
                Value::N(value) => {
                    number = value.to_string();
                    (b'N', number.as_bytes())
                }
                Value::B(bytes) => (b'B', bytes.0.as_slice()),
                other => (b'S', other.as_text().unwrap_or_default().as_bytes()),
            };
            hash.update([tag]);
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
        short_hex(&hash.finalize().into())
    }
}

/// `partition` or `partition / sort`, values as they are.
impl fmt::Display for TableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, value: &Value| match value {
            Value::S(text) => f.write_str(text),
            other => f.write_str(&other.shown()),
        };
        write(f, &self.partition)?;
        match &self.sort {
            Some(sort) => {
                f.write_str(" / ")?;
                write(f, sort)
            }
            None => Ok(()),
        }
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| digits(*byte)).map(char::from).collect()
}

/// 32 hexadecimal digits: the first half of a SHA-256.
pub fn short_hex(hash: &[u8; 32]) -> Text {
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(hash) {
        pair.copy_from_slice(&digits(*byte));
    }
    Text::new(std::str::from_utf8(&text).unwrap_or_default())
}

fn digits(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_tell_types_and_boundaries_apart() {
        let a = TableKey::text("ab", "c").digest();
        assert_ne!(a, TableKey::text("a", "bc").digest());
        let number = TableKey { partition: Value::N("5".parse().unwrap()), sort: None };
        let text = TableKey { partition: Value::text("5"), sort: None };
        assert_ne!(number.digest(), text.digest());
        assert_eq!(a.len(), 32);
    }
}
