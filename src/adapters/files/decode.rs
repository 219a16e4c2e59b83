//! One line to one item.
//!
//! Objects are taken apart with their members' JSON kept as text, so that a number is parsed from the digits that stand in the
//! file. That re-reads a value once for each level of nesting, which [`NESTING_MAX`] bounds.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::model::decimal::Decimal;
use crate::model::value::{Item, Kind, Text, Value};

/// Deepest nesting of maps and lists that DynamoDB stores.
pub const NESTING_MAX: usize = 32;

/// Characters of a bad value that a message shows.
const EXCERPT_LENGTH_MAX: usize = 60;

/// Decodes one line; the error is a sentence with place, value and remedy.
pub fn parse_item(line: &str) -> Result<Item, String> {
    let line = line.trim();
    let members = match line.as_bytes().first() {
        Some(b'[') => {
            return Err(not_an_item(line, "an array", "write one item a line, for example with `jq -c '.[]'`"));
        }
        Some(b'{') => parse::<Members>(line)?,
        _ => return Err(not_an_item(line, "no JSON object", "write one item a line, as `{\"PK\": \"USER#1\"}`")),
    };
    if let [(name, inner)] = members.0.as_slice()
        && name == "Item"
        && let Some(typed) = export_item(inner)
    {
        return typed_item(&typed);
    }
    if is_answer(&members) {
        return Err("the output of a scan or query; write one item a line, with `jq -c '.Items[]'`".to_owned());
    }
    if is_incremental_export(&members) {
        return Err("a line of an incremental export, which holds changes and no items; use a full export".to_owned());
    }
    // An item whose every attribute is an object has no key, so this can only be DynamoDB JSON.
    if !members.0.is_empty() && members.0.iter().all(|(_, value)| type_descriptor(value).is_some()) {
        return typed_item(&members);
    }
    plain_members(members, "", 1).map(Item)
}

/// The members of `{"Item": ...}` if that is the export format: an item whose only attribute is a map has no key, so one
/// member that looks typed is enough to tell, and a malformed neighbour is then a fault of an export line.
fn export_item<'a>(inner: &'a RawValue) -> Option<Members<'a>> {
    let members: Members = serde_json::from_str(inner.get()).ok()?;
    members.0.iter().any(|(_, value)| type_descriptor(value).is_some()).then_some(members)
}

/// What `aws dynamodb scan` prints: the items, and how many there are.
fn is_answer(members: &Members) -> bool {
    let value = |wanted: &str| members.0.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.get());
    value("Items").is_some_and(|items| items.starts_with('[')) && value("ScannedCount").is_some()
}

fn is_incremental_export(members: &Members) -> bool {
    let has = |wanted: &str| {
        let value = members.0.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        value.is_some_and(|value| export_item(value).is_some())
    };
    has("Metadata") && has("Keys")
}

/// `Some((kind, content))` if the value is an object of one member that is named like one of DynamoDB's types.
fn type_descriptor(value: &RawValue) -> Option<(Kind, &RawValue)> {
    if !value.get().starts_with('{') {
        return None;
    }
    let members: Members = serde_json::from_str(value.get()).ok()?;
    match members.0.as_slice() {
        [(name, content)] => Some((Kind::parse(name)?, content)),
        _ => None,
    }
}

fn typed_item(members: &Members) -> Result<Item, String> {
    typed_members(members, "", 1).map(Item)
}

fn typed_members(members: &Members, path: &str, depth: usize) -> Result<BTreeMap<Text, Value>, String> {
    let decode = |(name, value): &(String, &RawValue)| {
        let path = join(path, name);
        Ok((name.as_str().into(), typed_value(value, &path, depth)?))
    };
    members.0.iter().map(decode).collect()
}

fn typed_value(value: &RawValue, path: &str, depth: usize) -> Result<Value, String> {
    if depth > NESTING_MAX {
        return Err(too_deep(path));
    }
    let Some((kind, content)) = type_descriptor(value) else {
        return Err(format!(
            "attribute `{path}`: `{}` is not a typed value; DynamoDB JSON has `{{\"S\": \"text\"}}`, `{{\"N\": \"1.5\"}}` and so on",
            excerpt(value.get())
        ));
    };
    match (kind, content.get().as_bytes().first()) {
        (Kind::M, Some(b'{')) => typed_members(&parse(content.get())?, path, depth + 1).map(Value::M),
        (Kind::L, Some(b'[')) => {
            let list: Vec<&RawValue> = parse(content.get())?;
            let decode = |(at, value): (usize, &&RawValue)| typed_value(value, &format!("{path}[{at}]"), depth + 1);
            list.iter().enumerate().map(decode).collect::<Result<_, _>>().map(Value::L)
        }
        _ => typed_scalar(value, kind, path),
    }
}

/// Everything that does not nest, by the same rules as stream images.
fn typed_scalar(value: &RawValue, kind: Kind, path: &str) -> Result<Value, String> {
    let fault = |reason: &str| {
        Err(format!(
            "attribute `{path}`: `{}` is not a value of type {}: {reason}; correct it at its source",
            excerpt(value.get()),
            kind.name()
        ))
    };
    match serde_json::from_str::<Value>(value.get()) {
        Ok(Value::Ss(set)) if set.is_empty() => fault("DynamoDB has no empty sets"),
        Ok(Value::Ns(set)) if set.is_empty() => fault("DynamoDB has no empty sets"),
        Ok(Value::Bs(set)) if set.is_empty() => fault("DynamoDB has no empty sets"),
        Ok(value) => Ok(value),
        Err(error) => fault(&reason(&error)),
    }
}

fn plain_members(members: Members, path: &str, depth: usize) -> Result<BTreeMap<Text, Value>, String> {
    let decode = |(name, value): (String, &RawValue)| {
        let path = join(path, &name);
        Ok((name.into(), plain_value(value.get(), &path, depth)?))
    };
    members.0.into_iter().map(decode).collect()
}

fn plain_value(json: &str, path: &str, depth: usize) -> Result<Value, String> {
    if depth > NESTING_MAX {
        return Err(too_deep(path));
    }
    match json.as_bytes().first() {
        Some(b'{') => plain_members(parse(json)?, path, depth + 1).map(Value::M),
        Some(b'[') => {
            let list: Vec<&RawValue> = parse(json)?;
            let decode =
                |(at, value): (usize, &&RawValue)| plain_value(value.get(), &format!("{path}[{at}]"), depth + 1);
            list.iter().enumerate().map(decode).collect::<Result<_, _>>().map(Value::L)
        }
        Some(b'"') => parse(json).map(Value::S),
        Some(b't' | b'f') => parse(json).map(Value::Bool),
        Some(b'n') => Ok(Value::Null(true)),
        _ => number(json, path),
    }
}

fn number(json: &str, path: &str) -> Result<Value, String> {
    json.parse::<Decimal>().map(Value::N).map_err(|error| {
        let shown = excerpt(json);
        format!("attribute `{path}`: DynamoDB refuses the number `{shown}`: {error}; round it, or write it as text")
    })
}

/// An object's members in their order, values as they stand in the file. A name that occurs twice is refused: which of
/// the two would count is anybody's guess.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'a>, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members: BTreeMap<String, &'de RawValue> = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if members.contains_key(&name) {
                        return Err(A::Error::custom(format!("`{}` stands twice in one object", excerpt(&name))));
                    }
                    members.insert(name, value);
                }
                Ok(Members(members.into_iter().collect()))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| {
        let what = reason(&error);
        let at = error.column();
        format!(
            "column {at} of `{}`: {what}; each line must be one whole JSON object (`jq -c .` brings a file into that form)",
            excerpt(json)
        )
    })
}

/// serde_json's message without its position, which counts within the part that was parsed.
fn reason(error: &serde_json::Error) -> String {
    let full = error.to_string();
    full.rsplit_once(" at line ").map_or(full.as_str(), |(message, _)| message).to_owned()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn too_deep(path: &str) -> String {
    let shown = excerpt(path);
    format!("attribute `{shown}`: nested deeper than DynamoDB's {NESTING_MAX} levels; flatten it")
}

fn not_an_item(line: &str, what: &str, remedy: &str) -> String {
    format!("`{}` is {what}; {remedy}", excerpt(line))
}

/// The beginning of a text, fit for one line of a message.
pub(super) fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(EXCERPT_LENGTH_MAX).flat_map(printable).collect();
    if text.chars().nth(EXCERPT_LENGTH_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

fn printable(c: char) -> Vec<char> {
    if c.is_control() { c.escape_default().collect() } else { vec![c] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::value::Bytes;

    fn fault(line: &str) -> String {
        parse_item(line).expect_err(line)
    }

    #[test]
    fn a_plain_line_keeps_every_digit_and_every_type() {
        let line = r#" {"N":12345678901234567890123456789012345678,"F":0.1,"E":1e2,"T":"ä\n","B":true,"Z":null,"M":{"a":[1,{"b":"c"}]}} "#;
        let item = parse_item(line).unwrap();
        assert_eq!(item.number("N").unwrap().to_string(), "12345678901234567890123456789012345678");
        assert_eq!(item.number("F").unwrap().to_string(), "0.1");
        assert_eq!(item.number("E").unwrap().to_string(), "100");
        assert_eq!(item.text("T"), Some("ä\n"));
        assert_eq!(item.get("B"), Some(&Value::Bool(true)));
        assert_eq!(item.get("Z"), Some(&Value::Null(true)));
        let inner = Value::M(BTreeMap::from([("b".into(), Value::text("c"))]));
        let list = Value::L(vec![Value::N(Decimal::from(1)), inner]);
        assert_eq!(item.get("M"), Some(&Value::M(BTreeMap::from([("a".into(), list)]))));
    }

    #[test]
    fn export_lines_with_and_without_the_wrapping_are_typed() {
        let typed = r#"{"PK":{"S":"a"},"n":{"N":"1.50"},"b":{"B":"AQI="},"m":{"M":{"l":{"L":[{"NULL":true},{"NS":["1","2"]}]}}}}"#;
        let bare = parse_item(typed).unwrap();
        assert_eq!(bare, parse_item(&format!("{{\"Item\": {typed}}}")).unwrap());
        assert_eq!(bare.number("n").unwrap().to_string(), "1.5");
        assert_eq!(bare.get("b"), Some(&Value::B(Bytes(vec![1, 2]))));
        assert!(
            matches!(bare.get("m"), Some(Value::M(map)) if matches!(map["l"], Value::L(ref list) if list.len() == 2))
        );
    }

    #[test]
    fn a_plain_attribute_named_item_is_no_export() {
        assert_eq!(parse_item(r#"{"Item":"x"}"#).unwrap().text("Item"), Some("x"));
        assert!(matches!(parse_item(r#"{"Item":{"Name":"x"}}"#).unwrap().get("Item"), Some(Value::M(_))));
        assert!(matches!(parse_item(r#"{"Item":{"S":"x"}}"#).unwrap().get("Item"), Some(Value::S(_))));
        let beside = parse_item(r#"{"PK":"a","Item":{"PK":{"S":"x"}}}"#).unwrap();
        assert!(matches!(beside.get("Item"), Some(Value::M(_))));
        assert_eq!(beside.text("PK"), Some("a"));
    }

    #[test]
    fn a_malformed_value_in_an_export_is_named_with_its_path() {
        let message = fault(r#"{"Item":{"PK":{"S":"a"},"drive":{"M":{"on":true}}}}"#);
        assert!(message.contains("`drive.on`") && message.contains("`true`"), "{message}");
        let message = fault(r#"{"Item":{"PK":{"S":"a"},"n":{"N":5}}}"#);
        assert!(message.contains("`n`") && message.contains("type N"), "{message}");
        assert!(fault(r#"{"Item":{"PK":{"S":"a"},"s":{"SS":[]}}}"#).contains("no empty sets"));
        assert!(fault(r#"{"Item":{"PK":{"S":"a"},"n":{"N":"x"}}}"#).contains("`x` is not a number"));
        assert!(fault(r#"{"Items":[{"PK":{"S":"a"}}],"Count":1,"ScannedCount":1}"#).contains("jq -c '.Items[]'"));
        assert!(fault(r#"{"Metadata":{"T":{"N":"1"}},"Keys":{"PK":{"S":"a"}}}"#).contains("incremental export"));
    }

    #[test]
    fn a_number_that_dynamodb_refuses_is_a_fault_with_its_path() {
        let digits = "1".repeat(39);
        let message = fault(&format!("{{\"PK\":\"a\",\"m\":{{\"n\":[{digits}]}}}}"));
        assert!(message.contains("`m.n[0]`") && message.contains("39 significant digits"), "{message}");
        assert!(fault(r#"{"n":1e126}"#).contains("magnitude"));
        assert!(fault(r#"{"n":1e-131}"#).contains("magnitude"));
        assert!(fault(&format!("{{\"n\":1{}}}", "0".repeat(400))).contains("refuses the number"));
    }

    #[test]
    fn what_is_no_item_says_what_to_do() {
        assert!(fault("[1]").contains("jq -c '.[]'"));
        assert!(fault("{").contains("jq -c ."));
        assert!(fault("\"text\"").contains("one item a line"));
        assert!(fault(r#"{"a":1} x"#).contains("trailing characters"));
        assert!(fault(r#"{"a":1,"b":{"c":1,"c":2}}"#).contains("`c` stands twice"));
        assert!(fault(r#"{"a":NaN}"#).contains("column 6"));
    }

    #[test]
    fn nesting_is_bounded_and_harmless() {
        let nested = |levels: usize| format!("{{\"a\":{}1{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse_item(&nested(NESTING_MAX - 1)).is_ok());
        assert!(fault(&nested(NESTING_MAX)).contains("32 levels"));
        assert!(fault(&nested(200_000)).contains("32 levels"));
        let typed =
            |levels: usize| format!("{{\"a\":{}{{\"N\":\"1\"}}{}}}", "{\"L\":[".repeat(levels), "]}".repeat(levels));
        assert!(parse_item(&typed(NESTING_MAX - 1)).is_ok());
        assert!(fault(&typed(100_000)).contains("32 levels"));
    }

    #[test]
    fn excerpts_are_short_and_printable() {
        assert_eq!(excerpt("a\tb\u{0}"), "a\\tb\\u{0}");
        assert_eq!(excerpt(&"é".repeat(100)).chars().count(), EXCERPT_LENGTH_MAX + 3);
    }
}
