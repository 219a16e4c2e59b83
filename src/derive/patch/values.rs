//! Attributes whose right value follows from the wrong one, or from the model.

use std::collections::BTreeSet;

use super::{Draft, Edit, Place, spellings, times};
use crate::derive::a310;
use crate::derive::recognise::{Recognised, recognise};
use crate::derive::scope::condition_holds;
use crate::model::decimal::Decimal;
use crate::model::spec::{Attribute, Entity};
use crate::model::time::{TimeError, epoch_seconds};
use crate::model::value::{Item, Kind, Text, Value};

/// What would mend the finding, or why nothing does; `None` where it is no matter of one attribute's value.
pub fn candidate(draft: &Draft<'_>, (code, attribute): &Place) -> Option<Result<Edit, String>> {
    let code = code.as_str();
    if code == "K102" {
        return Some(entity_by_its_key(draft));
    }
    let name = attribute.as_deref()?;
    let actual = draft.item.get(name);
    let declared = draft.entity.and_then(|entity| Some((entity, declared(entity, name)?)));
    let mended = match (code, declared, actual) {
        ("A301", Some((entity, attribute)), None) => return Some(missing(entity, attribute, &draft.item)),
        ("A302", Some((_, attribute)), Some(actual)) => of_type(attribute, actual)?,
        ("A303", Some((_, attribute)), Some(actual)) => Some(one_of(attribute, actual)?),
        ("A304", Some((_, attribute)), Some(Value::S(text))) => {
            Some(Value::text(times::rewritten(text, attribute.format?)?))
        }
        ("A306", _, Some(actual)) => Some(seconds(actual)?),
        _ => return None,
    };
    Some(Ok(Edit::of(name, mended)))
}

/// Why findings of this code are left where nothing more is known.
pub fn why_not(code: &str) -> &'static str {
    match code {
        "A301" | "A303" | "A307" => "which value was meant is not known",
        "A302" => "the value in the declared type is not certain",
        "A304" | "A305" | "A306" => "which day or time was meant is not known",
        "A308" => "how many digits are kept is for the application to say",
        "K102" => "whether the key or an attribute is wrong, the item does not tell",
        "K103" => "the model has to tell its entities apart",
        "K104" => "which of its keys is right, the item does not tell",
        _ => "what would be right is not certain",
    }
}

fn declared<'e>(entity: &'e Entity, name: &str) -> Option<&'e Attribute> {
    entity.attributes.iter().find(|attribute| attribute.name == name || attribute.aliases.iter().any(|one| one == name))
}

/// A required attribute that can have one value only.
fn missing(entity: &Entity, attribute: &Attribute, item: &Item) -> Result<Edit, String> {
    match (attribute.one_of.as_slice(), attribute.kind) {
        ([only], Kind::S) => {
            let rests_on: BTreeSet<Text> = spellings(entity, &attribute.name, item).into_iter().collect();
            Ok(Edit { rests_on, ..Edit::of(&attribute.name, Some(Value::text(only))) })
        }
        _ => Err(why_not("A301").to_owned()),
    }
}

/// The value in the declared type: `Some(None)` removes a NULL that stands for "not there".
fn of_type(attribute: &Attribute, actual: &Value) -> Option<Option<Value>> {
    match (attribute.kind, actual) {
        (_, Value::Null(_)) if !attribute.required => Some(None),
        (Kind::N, Value::S(text)) => number(text.trim()).map(Some),
        (Kind::Bool, Value::S(text)) if text.trim().eq_ignore_ascii_case("true") => Some(Some(Value::Bool(true))),
        (Kind::Bool, Value::S(text)) if text.trim().eq_ignore_ascii_case("false") => Some(Some(Value::Bool(false))),
        _ => None,
    }
}

/// Digits, perhaps with a sign and decimals. Zeros in front are those of an identifier.
fn number(text: &str) -> Option<Value> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_plain = [integer, fraction].iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    let is_padded = integer.len() > 1 && integer.starts_with('0');
    if is_plain && !is_padded { text.parse().ok().map(Value::N) } else { None }
}

/// The one declared value that differs in case and outer blanks only.
fn one_of(attribute: &Attribute, actual: &Value) -> Option<Value> {
    let Value::S(text) = actual else { return None };
    let folded = text.trim().to_lowercase();
    let mut near = attribute.one_of.iter().filter(|one| one.to_lowercase() == folded);
    near.next().filter(|_| near.next().is_none()).map(Value::text)
}

/// Whole seconds for milliseconds, for a text with a time, or with nothing but digits, from 2000 to 2200: `20261231` is more likely a day.
fn seconds(actual: &Value) -> Option<Value> {
    if let Value::S(text) = actual
        && text.parse::<Decimal>().is_ok()
        && (text.starts_with('0') || !text.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return None;
    }
    let found = match epoch_seconds(actual) {
        Err(TimeError::NotSeconds { seconds, .. } | TimeError::NotANumber { seconds: Some(seconds), .. }) => {
            Some(seconds)
        }
        _ => None,
    };
    found.filter(|seconds| a310::SECONDS.contains(seconds)).map(|seconds| Value::N(seconds.into()))
}

/// An item under the key of exactly one entity, which one attribute contradicts: by its absence, or in case and blanks only.
fn entity_by_its_key(draft: &Draft<'_>) -> Result<Edit, String> {
    let unknown = || why_not("K102").to_owned();
    let Recognised::None { by_key, .. } = recognise(draft.model, &draft.key, &draft.item) else {
        return Err(unknown());
    };
    // A key without a literal is like any other.
    let [entity] = by_key[..] else { return Err(unknown()) };
    if entity.partition.prefix().is_empty() {
        return Err(unknown());
    }
    let failing = entity.matches.iter().filter(|condition| !condition_holds(entity, &draft.item, condition));
    let failing: Vec<_> = failing.collect();
    let [condition] = failing[..] else { return Err(unknown()) };
    let [value] = condition.values.as_slice() else { return Err(unknown()) };
    let names = spellings(entity, &condition.attribute, &draft.item);
    let carried = names.iter().find_map(|name| Some((name, draft.item.get(name)?)));
    let name = match carried {
        None => condition.attribute.as_str(),
        Some((name, Value::S(text))) if text.trim().to_lowercase() == value.to_lowercase() => name.as_str(),
        Some(_) => return Err(unknown()),
    };
    if declared(entity, name).is_some_and(|attribute| attribute.kind != Kind::S) {
        return Err(unknown());
    }
    Ok(Edit { rests_on: names.iter().cloned().collect(), ..Edit::of(name, Some(Value::text(value))) })
}
