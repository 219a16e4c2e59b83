//! The SDK's attribute values to the model's and back.
//!
//! The SDK has one set of types for tables and another, equal one for streams. Numbers travel as text and stay exact: one that
//! DynamoDB could not hold is an error that names its attribute, never a rounded value.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::model::decimal::Decimal;
use crate::model::key::{KeyNames, TableKey};
use crate::model::value::{Item, Value};

/// An item as the SDK holds it.
pub(super) type Attributes = HashMap<String, AttributeValue>;

pub(super) fn encode_value(value: &Value) -> AttributeValue {
    match value {
        Value::S(text) => AttributeValue::S(text.to_string()),
        Value::N(number) => AttributeValue::N(number.to_string()),
        Value::B(bytes) => AttributeValue::B(Blob::new(bytes.0.clone())),
        Value::Bool(flag) => AttributeValue::Bool(*flag),
        Value::Null(flag) => AttributeValue::Null(*flag),
        Value::M(map) => {
            AttributeValue::M(map.iter().map(|(name, value)| (name.to_string(), encode_value(value))).collect())
        }
        Value::L(list) => AttributeValue::L(list.iter().map(encode_value).collect()),
        Value::Ss(set) => AttributeValue::Ss(set.iter().cloned().collect()),
        Value::Ns(set) => AttributeValue::Ns(set.iter().map(Decimal::to_string).collect()),
        Value::Bs(set) => AttributeValue::Bs(set.iter().map(|bytes| Blob::new(bytes.0.clone())).collect()),
    }
}

pub(super) fn encode_item(item: &Item) -> Attributes {
    item.0.iter().map(|(name, value)| (name.to_string(), encode_value(value))).collect()
}

pub(super) fn encode_key(key: &TableKey, names: &KeyNames) -> Attributes {
    encode_item(&key.to_item(names))
}

fn decode_number(text: &str) -> Result<Decimal, String> {
    text.parse().map_err(|error| format!("number {text:?}: {error}"))
}

/// The two crates' types are equal in shape and different in name, so their decoders are one text.
macro_rules! decoder {
    ($module:ident, $sdk:ident) => {
        pub(super) mod $module {
            use std::collections::HashMap;

            use $sdk::types::AttributeValue;

            use super::decode_number;
            use crate::model::value::{Bytes, Item, Value};

            /// Errors: the attribute's name and what is wrong with its value.
            pub(in crate::adapters::dynamodb) fn item(
                attributes: HashMap<String, AttributeValue>,
            ) -> Result<Item, String> {
                let decode = |(name, attribute): (String, _)| match value(attribute) {
                    Ok(value) => Ok((name.into(), value)),
                    Err(error) => Err(format!("attribute {name:?}: {error}")),
                };
                attributes.into_iter().map(decode).collect::<Result<_, String>>().map(Item)
            }

            fn value(attribute: AttributeValue) -> Result<Value, String> {
                Ok(match attribute {
                    AttributeValue::S(text) => Value::S(text.into()),
                    AttributeValue::N(text) => Value::N(decode_number(&text)?),
                    AttributeValue::B(blob) => Value::B(Bytes(blob.into_inner())),
                    AttributeValue::Bool(flag) => Value::Bool(flag),
                    AttributeValue::Null(flag) => Value::Null(flag),
                    AttributeValue::M(map) => Value::M(item(map)?.0),
                    AttributeValue::L(list) => Value::L(list.into_iter().map(value).collect::<Result<_, String>>()?),
                    AttributeValue::Ss(set) => Value::Ss(set.into_iter().collect()),
                    AttributeValue::Ns(set) => {
                        Value::Ns(set.iter().map(|text| decode_number(text)).collect::<Result<_, String>>()?)
                    }
                    AttributeValue::Bs(set) => {
                        Value::Bs(set.into_iter().map(|blob| Bytes(blob.into_inner())).collect())
                    }
                    _ => return Err("a type that this version does not know".to_owned()),
                })
            }
        }
    };
}

decoder!(table, aws_sdk_dynamodb);
decoder!(stream, aws_sdk_dynamodbstreams);

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::model::value::Bytes;

    fn number() -> impl Strategy<Value = Decimal> {
        ("-?[1-9][0-9]{0,37}", -120_i32..80)
            .prop_map(|(digits, exponent)| format!("{digits}E{exponent}").parse().unwrap())
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let bytes = || vec(any::<u8>(), 0..9).prop_map(Bytes);
        let leaf = prop_oneof![
            any::<String>().prop_map(Value::text),
            number().prop_map(Value::N),
            bytes().prop_map(Value::B),
            any::<bool>().prop_map(Value::Bool),
            Just(Value::Null(true)),
            btree_set(any::<String>(), 1..4).prop_map(Value::Ss),
            btree_set(number(), 1..4).prop_map(Value::Ns),
            btree_set(bytes(), 1..4).prop_map(Value::Bs),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::L),
                btree_map(any::<String>().prop_map_into(), inner, 0..4).prop_map(Value::M)
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_the_same(value in any_value()) {
            let item = Item::new().with("a", value);
            prop_assert_eq!(table::item(encode_item(&item)), Ok(item));
        }
    }

    #[test]
    fn a_number_beyond_dynamodb_names_its_attribute() {
        let long = "1".repeat(39);
        let attribute = AttributeValue::L(vec![AttributeValue::Ns(vec!["1".to_owned(), long.clone()])]);
        let error = table::item(HashMap::from([("Size".to_owned(), attribute)])).unwrap_err();
        assert!(error.contains("\"Size\"") && error.contains(&long), "{error}");
        let attribute = aws_sdk_dynamodbstreams::types::AttributeValue::N("NaN".to_owned());
        assert!(stream::item(HashMap::from([("Size".to_owned(), attribute)])).is_err());
    }

    #[test]
    fn numbers_keep_their_digits() {
        for text in ["99999999999999999999999999999999999999", "-0.1", "1E-130", "9.99E+125"] {
            let Ok(item) = table::item(HashMap::from([("N".to_owned(), AttributeValue::N(text.to_owned()))])) else {
                panic!("{text} is a number of DynamoDB's");
            };
            assert_eq!(item.number("N"), Some(&text.parse().unwrap()));
        }
    }
}
