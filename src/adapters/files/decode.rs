//! One line to one item.
//!
//! Objects are taken apart with their members' JSON kept as text, so that a number is parsed from the digits that stand in the
//! file. That re-reads a value once for each level of nesting, which [`NESTING_MAX`] bounds.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::model::decimal::Decimal;
use crate::model::value::{Item, Kind, Text, Value};

/// Deepest nesting of maps and lists that DynamoDB stores.
pub const NESTING_MAX: usize = 32;

/// Characters of a bad value that a message shows.
const EXCERPT_LENGTH_MAX: usize = 60;

#[cfg(test)]
mod tests;

/// Decodes one line as it stands in a file.
pub(super) fn parse_line(bytes: &[u8]) -> Result<Item, String> {
    parse_item(text(bytes)?)
}

/// The bytes as text, which all of our files are.
pub(super) fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| {
        let shown = excerpt(&String::from_utf8_lossy(bytes));
        let at = error.valid_up_to() + 1;
        format!("byte {at} of `{shown}` is not UTF-8; save the file as UTF-8")
    })
}

/// Decodes one line; the error is a sentence with place, value and remedy.
pub fn parse_item(line: &str) -> Result<Item, String> {
    let line = line.trim();
    if let Some(item) = sound_export_item(line) {
        return Ok(item);
    }
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
        return Err("a line of an incremental export, which holds changes and no items; give `audit` the export's folder, or use a full export".to_owned());
    }
    // An item whose every attribute is an object has no key, so this can only be DynamoDB JSON.
    if !members.0.is_empty() && members.0.iter().all(|(_, value)| type_descriptor(value).is_some()) {
        return typed_item(&members);
    }
    plain_members(members, "", 1).map(Item)
}

/// The item of an export's line that nothing is wrong with, as nearly all lines of large files are, in one go. What is anything
/// else is left to the longer way, which can say what is wrong.
fn sound_export_item(line: &str) -> Option<Item> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        #[serde(rename = "Item")]
        item: Item,
    }
    if !line.starts_with("{\"Item\"") {
        return None;
    }
    sound(serde_json::from_str::<Line>(line).ok()?.item)
}

/// An item in DynamoDB JSON, such as an image of an incremental export.
pub(super) fn parse_typed_item(json: &str) -> Result<Item, String> {
    match serde_json::from_str::<Item>(json).ok().and_then(sound) {
        Some(item) => Ok(item),
        None => typed_item(&parse(json)?),
    }
}

/// A value of the type, its content as JSON: `"1.5"` of N, `["a"]` of SS.
pub(super) fn parse_typed_value(kind: Kind, content: &str, path: &str) -> Result<Value, String> {
    let typed = format!("{{\"{}\":{content}}}", kind.name());
    let value: &RawValue = parse(&typed)?;
    typed_value(value, path, 1)
}

/// The item, if it has attributes and DynamoDB could have stored their values.
fn sound(item: Item) -> Option<Item> {
    (!item.0.is_empty() && item.0.values().all(|value| is_storable(value, 1))).then_some(item)
}

fn is_storable(value: &Value, depth: usize) -> bool {
    depth <= NESTING_MAX
        && match value {
            Value::M(map) => map.values().all(|value| is_storable(value, depth + 1)),
            Value::L(list) => list.iter().all(|value| is_storable(value, depth + 1)),
            Value::Ss(set) => !set.is_empty(),
            Value::Ns(set) => !set.is_empty(),
            Value::Bs(set) => !set.is_empty(),
            _ => true,
        }
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
