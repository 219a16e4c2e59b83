//! Items as plain JSON, for people and for other tools.
//!
//! Lossy where JSON has fewer types than DynamoDB: sets become arrays and binary becomes base64 text. Numbers stay exact:
//! they are written digit by digit as JSON numbers, so a reader that uses floats may round them, this writer does not.

use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::model::decimal::Decimal;
use crate::model::value::{Item, Value};

/// An item that serialises as a plain JSON object; for `serde_json` serialisers only, since numbers are raw JSON.
#[derive(Debug, Clone, Copy)]
pub struct PlainJson<'a>(pub &'a Item);

impl Serialize for PlainJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.0.iter().map(|(name, value)| (name, PlainValue(value))))
    }
}

struct PlainValue<'a>(&'a Value);

impl Serialize for PlainValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::S(text) => serializer.serialize_str(text),
            Value::N(number) => PlainNumber(number).serialize(serializer),
            Value::B(bytes) => bytes.serialize(serializer),
            Value::Bool(flag) => serializer.serialize_bool(*flag),
            Value::Null(_) => serializer.serialize_unit(),
            Value::M(map) => serializer.collect_map(map.iter().map(|(name, value)| (name, PlainValue(value)))),
            Value::L(list) => serializer.collect_seq(list.iter().map(PlainValue)),
            Value::Ss(set) => serializer.collect_seq(set),
            Value::Ns(set) => serializer.collect_seq(set.iter().map(PlainNumber)),
            Value::Bs(set) => serializer.collect_seq(set),
        }
    }
}

struct PlainNumber<'a>(&'a Decimal);

impl Serialize for PlainNumber<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.to_string()).map_err(S::Error::custom)?.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::decode;
    use super::*;
    use crate::model::value::Bytes;

    /// Values that plain JSON can tell apart.
    fn plain_value() -> impl Strategy<Value = Value> {
        let number = ("-?[1-9][0-9]{0,37}", -130i32..80)
            .prop_filter_map("within DynamoDB's limits", |(digits, exponent)| {
                format!("{digits}e{exponent}").parse::<Decimal>().ok()
            });
        let leaf = prop_oneof![
            any::<String>().prop_map(Value::text),
            number.prop_map(Value::N),
            any::<bool>().prop_map(Value::Bool),
            Just(Value::Null(true)),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::L),
                proptest::collection::btree_map(any::<String>().prop_map_into(), inner, 0..6).prop_map(Value::M),
            ]
        })
    }

    fn written(item: &Item) -> String {
        serde_json::to_string(&PlainJson(item)).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(map in proptest::collection::btree_map("[a-zA-Z]{1,8}".prop_map_into(), plain_value(), 0..6)) {
            // A key makes it an item; without one it might be read as DynamoDB JSON.
            let item = Item(map).with("PK", Value::text("x"));
            prop_assert_eq!(decode::parse_item(&written(&item)).unwrap(), item);
        }
    }

    #[test]
    fn limits_and_lossy_types_have_a_known_form() {
        let n = |text: &str| Value::N(text.parse().unwrap());
        let item = Item::new()
            .with("big", n("9.9999999999999999999999999999999999999E+125"))
            .with("bin", Value::B(Bytes(vec![1, 2])))
            .with("set", Value::Ss(["b".to_owned(), "a".to_owned()].into()))
            .with("small", n("-1E-130"));
        let json = written(&item);
        assert!(json.contains(r#""bin":"AQI=","set":["a","b"]"#), "{json}");
        let back = decode::parse_item(&json).unwrap();
        assert_eq!(back.get("big"), item.get("big"));
        assert_eq!(back.get("small"), item.get("small"));
    }
}
