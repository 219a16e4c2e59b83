//! Attribute values and items, free of any SDK's types.
//!
//! The serde form is DynamoDB JSON (`{"S": "text"}`, `{"N": "1.5"}`, binary as base64), the format of exports and of
//! Lambda events, so that files and events need no second set of types.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use smol_str::SmolStrBuilder;

use super::decimal::Decimal;

/// A text that is never changed: up to 23 bytes without an allocation, and cheap to clone at any length. Most texts of an item are
/// names and keys, and they are passed on from the record to the listing, the ledger and the transaction.
pub type Text = smol_str::SmolStr;

/// The parts one after the other.
pub fn joined(parts: &[&str]) -> Text {
    let mut text = SmolStrBuilder::new();
    parts.iter().for_each(|part| text.push_str(part));
    text.finish()
}

/// The attribute that marks an item as one of ours; its value is `<kind>/<name>`, for example `aggregate/wo_status`.
pub const MARKER: &str = "_keeper";

/// The attribute of listing entries, expiry entries and findings that holds the source item's key, a map under the table's key names.
pub const SOURCE: &str = "Source";
/// On findings, a map that says where they come from: `State`, and of those that a change introduced `Seq` and `At`. It is no part of
/// what is derived.
pub const ORIGIN: &str = "Origin";

/// Largest item that DynamoDB stores, in bytes as [`Item::size`] counts them.
pub const ITEM_SIZE_MAX: usize = 400 * 1024;

/// Raw bytes; base64 in the serde form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub Vec<u8>);

/// One attribute value, with exact numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Value {
    S(Text),
    N(Decimal),
    B(Bytes),
    #[serde(rename = "BOOL")]
    Bool(bool),
    #[serde(rename = "NULL")]
    Null(bool),
    M(#[serde(deserialize_with = "unique")] BTreeMap<Text, Value>),
    L(Vec<Value>),
    #[serde(rename = "SS")]
    Ss(BTreeSet<String>),
    #[serde(rename = "NS")]
    Ns(BTreeSet<Decimal>),
    #[serde(rename = "BS")]
    Bs(BTreeSet<Bytes>),
}

/// The type of a value, by DynamoDB's type descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    S,
    N,
    B,
    Bool,
    Null,
    M,
    L,
    Ss,
    Ns,
    Bs,
}

impl Kind {
    pub const ALL: [Kind; 10] =
        [Kind::S, Kind::N, Kind::B, Kind::Bool, Kind::Null, Kind::M, Kind::L, Kind::Ss, Kind::Ns, Kind::Bs];

    /// DynamoDB's descriptor: `S`, `N`, `BOOL`, …
    pub fn name(self) -> &'static str {
        match self {
            Kind::S => "S",
            Kind::N => "N",
            Kind::B => "B",
            Kind::Bool => "BOOL",
            Kind::Null => "NULL",
            Kind::M => "M",
            Kind::L => "L",
            Kind::Ss => "SS",
            Kind::Ns => "NS",
            Kind::Bs => "BS",
        }
    }

    pub fn parse(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Value {
    pub fn text(text: impl Into<Text>) -> Value {
        Value::S(text.into())
    }

    pub fn kind(&self) -> Kind {
        match self {
            Value::S(_) => Kind::S,
            Value::N(_) => Kind::N,
            Value::B(_) => Kind::B,
            Value::Bool(_) => Kind::Bool,
            Value::Null(_) => Kind::Null,
            Value::M(_) => Kind::M,
            Value::L(_) => Kind::L,
            Value::Ss(_) => Kind::Ss,
            Value::Ns(_) => Kind::Ns,
            Value::Bs(_) => Kind::Bs,
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::S(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_number(&self) -> Option<&Decimal> {
        match self {
            Value::N(number) => Some(number),
            _ => None,
        }
    }

    /// Bytes that DynamoDB counts for this value (its published sizing rules; numbers by significant digits).
    pub fn size(&self) -> usize {
        match self {
            Value::S(text) => text.len(),
            Value::N(number) => number_size(number),
            Value::B(bytes) => bytes.0.len(),
            Value::Bool(_) | Value::Null(_) => 1,
            Value::M(map) => 3 + map.iter().map(|(name, value)| name.len() + value.size() + 1).sum::<usize>(),
            Value::L(list) => 3 + list.iter().map(|value| value.size() + 1).sum::<usize>(),
            Value::Ss(set) => set.iter().map(String::len).sum(),
            Value::Ns(set) => set.iter().map(number_size).sum(),
            Value::Bs(set) => set.iter().map(|bytes| bytes.0.len()).sum(),
        }
    }

    /// A short form for messages: text in quotes, numbers plain, others by type; at most about 80 characters.
    pub fn shown(&self) -> String {
        let full = match self {
            Value::S(text) => format!("{text:?}"),
            Value::N(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Null(_) => "NULL".to_owned(),
            Value::B(bytes) => format!("binary of {} bytes", bytes.0.len()),
            other => format!("a value of type {}", other.kind().name()),
        };
        if full.chars().count() <= 80 { full } else { full.chars().take(77).chain("...".chars()).collect() }
    }
}

/// One byte for each two significant digits, one for the exponent, one for a negative sign.
fn number_size(number: &Decimal) -> usize {
    number.digits().div_ceil(2) + 1 + usize::from(number.is_negative())
}

/// A whole item: attribute name to value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Item(pub BTreeMap<Text, Value>);

impl Item {
    pub fn new() -> Item {
        Item::default()
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_text)
    }

    pub fn number(&self, name: &str) -> Option<&Decimal> {
        self.get(name).and_then(Value::as_number)
    }

    /// Adds or replaces an attribute, for building items in one expression.
    pub fn with(mut self, name: impl Into<Text>, value: Value) -> Item {
        self.0.insert(name.into(), value);
        self
    }

    pub fn insert(&mut self, name: impl Into<Text>, value: Value) {
        self.0.insert(name.into(), value);
    }

    /// Bytes that DynamoDB counts: names and values.
    pub fn size(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.size()).sum()
    }

    /// True for items that Tablekeeper wrote: they are never a source.
    pub fn is_ours(&self) -> bool {
        self.0.contains_key(MARKER)
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Item, D::Error> {
        unique(deserializer).map(Item)
    }
}

/// Attributes by name; a name that stands twice is refused, for which of the two would count is anybody's guess.
fn unique<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Text, Value>, D::Error> {
    deserializer.deserialize_map(Attributes)
}

/// Reads all attributes before it makes the map, which then is made in one go.
struct Attributes;

impl<'de> de::Visitor<'de> for Attributes {
    type Value = BTreeMap<Text, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<BTreeMap<Text, Value>, A::Error> {
        let mut attributes: Vec<(Text, Value)> = Vec::with_capacity(16);
        while let Some(attribute) = map.next_entry()? {
            attributes.push(attribute);
        }
        let all = attributes.len();
        let attributes: BTreeMap<Text, Value> = attributes.into_iter().collect();
        if attributes.len() < all {
            return Err(de::Error::custom("an attribute stands twice in one map"));
        }
        Ok(attributes)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64.decode(&text).map(Bytes).map_err(|e| de::Error::custom(format!("binary is not base64: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serde_form_is_dynamodb_json() {
        let json = r#"{"A":{"S":"x"},"B":{"N":"1.50"},"C":{"BOOL":false},"D":{"NULL":true},"E":{"B":"AQI="},"F":{"L":[{"N":"1"}]},"G":{"M":{"h":{"SS":["a","b"]}}}}"#;
        let item: Item = serde_json::from_str(json).unwrap();
        assert_eq!(item.number("B").unwrap().to_string(), "1.5");
        assert_eq!(item.get("E"), Some(&Value::B(Bytes(vec![1, 2]))));
        let back: Item = serde_json::from_str(&serde_json::to_string(&item).unwrap()).unwrap();
        assert_eq!(back, item);
    }

    #[test]
    fn a_name_that_stands_twice_is_refused_at_any_depth() {
        for json in [r#"{"A":{"S":"x"},"A":{"S":"y"}}"#, r#"{"M":{"M":{"a":{"S":"x"},"a":{"S":"y"}}}}"#] {
            let error = serde_json::from_str::<Item>(json).unwrap_err().to_string();
            assert!(error.contains("stands twice"), "{error}");
        }
    }

    #[test]
    fn size_counts_names_and_values() {
        let item = Item::new().with("PK", Value::text("abc")).with("N", Value::N("-123".parse().unwrap()));
        assert_eq!(item.size(), 2 + 3 + 1 + (2 + 1 + 1));
    }
}
