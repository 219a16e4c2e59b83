//! What a group's attributes are: type, presence, a few values, dates, words for "none", other spellings.

use std::collections::{BTreeMap, BTreeSet};

use crate::derive::render;
use crate::model::spec::{Attribute, Format};
use crate::model::value::{Item, Kind, Value};

use super::names;
use super::share::Share;

/// So many items must have an attribute before its few values are called its only ones.
const SET_ITEMS_MIN: usize = 10;
const SET_VALUES_MAX: usize = 20;
/// Characters of a value in a declared set.
const SET_VALUE_LENGTH_MAX: usize = 40;
/// Words that stand for "there is none".
const SENTINELS: [&str; 8] = ["N/A", "n/a", "NA", "none", "None", "null", "-", "--"];
/// Names under which seconds since 1970 are kept.
const TIME_WORDS: [&str; 8] = ["ttl", "expir", "time", "date", "epoch", "created", "updated", "until"];
/// Seconds of the years 2000 to 2100.
const SECONDS: std::ops::RangeInclusive<i64> = 946_684_800..=4_102_444_800;

/// An attribute and what speaks for it.
pub struct Examined {
    pub attribute: Attribute,
    pub note: String,
    /// Its values are few: worth an aggregate.
    pub countable: bool,
}

/// The attributes of a group except `excluded`, spellings of one another taken together.
pub fn examine_all(items: &[&Item], excluded: &BTreeSet<&str>) -> Vec<Examined> {
    let universe: BTreeSet<&str> = items.iter().flat_map(|item| item.0.keys()).map(|name| name.as_str()).collect();
    let names: Vec<&str> =
        universe.into_iter().filter(|name| !excluded.contains(name) && is_declarable(name)).collect();
    let mut aliases: BTreeMap<&str, &str> = BTreeMap::new();
    let uses = |name: &str| items.iter().filter(|item| item.get(name).is_some()).count();
    let uses: BTreeMap<&str, usize> = names.iter().map(|name| (*name, uses(name))).collect();
    for (at, first) in names.iter().enumerate() {
        for second in &names[at + 1..] {
            let is_free = |name: &str| !aliases.contains_key(name) && !aliases.values().any(|main| *main == name);
            let all = uses[first] + uses[second] == items.len();
            if all && is_free(first) && is_free(second) && are_spellings(items, first, second) {
                let (main, alias) = if uses[second] > uses[first] { (*second, *first) } else { (*first, *second) };
                aliases.insert(alias, main);
            }
        }
    }
    let main = names.iter().filter(|name| !aliases.contains_key(*name));
    main.map(|name| {
        let others: Vec<&str> = aliases.iter().filter(|(_, main)| *main == name).map(|(alias, _)| *alias).collect();
        examine(items, name, &others)
    })
    .collect()
}

/// A name that the model file takes.
fn is_declarable(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && !name.chars().any(char::is_control)
}

/// Two names of one thing: each item has exactly one of them, of one type, and they are written alike.
fn are_spellings(items: &[&Item], first: &str, second: &str) -> bool {
    let has = |item: &&Item, name: &str| item.get(name).is_some();
    let exactly_one = items.iter().all(|item| has(item, first) != has(item, second));
    let both_used = items.iter().any(|item| has(item, first)) && items.iter().any(|item| has(item, second));
    let kinds: BTreeSet<Kind> =
        items.iter().flat_map(|item| [item.get(first), item.get(second)]).flatten().map(Value::kind).collect();
    let (a, b) = (names::plain(first), names::plain(second));
    let (short, long) = if a.len() <= b.len() { (&a, &b) } else { (&b, &a) };
    let alike = a == b || short.len() >= 5 && long.starts_with(short.as_str());
    exactly_one && both_used && kinds.len() == 1 && alike
}

fn examine(items: &[&Item], name: &str, aliases: &[&str]) -> Examined {
    let value_of = |item: &&'_ Item| -> Option<Value> {
        std::iter::once(&name).chain(aliases).find_map(|spelling| item.get(spelling)).cloned()
    };
    let carried: Vec<Option<Value>> = items.iter().map(value_of).collect();
    let values: Vec<&Value> = carried.iter().flatten().collect();
    let there = Share { agree: values.len(), of: items.len() };
    let mut remarks = vec![there.to_string()];
    let kind = kind_of(&values, &mut remarks);
    let mut attribute = Attribute::new(name, kind);
    attribute.aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
    if !aliases.is_empty() {
        remarks.push(format!(
            "guess: each item has one of {} spellings; check that they mean the same",
            aliases.len() + 1
        ));
    }
    attribute.required = there.is_whole() && items.len() > 1;
    if !there.is_whole() && there.holds() {
        remarks.push("check: required? a few lack it".to_owned());
    }
    let mut own: Vec<&Value> = values.iter().copied().filter(|value| value.kind() == kind).collect();
    attribute.none = sentinels(&own);
    own.retain(|value| !is_one_of(value, &attribute.none));
    attribute.format = format_of(name, &own, &mut remarks);
    let mut countable = false;
    if attribute.format.is_none() && matches!(kind, Kind::S) {
        attribute.one_of = declared_set(name, &own, &mut remarks);
        countable = !attribute.one_of.is_empty();
    }
    Examined { attribute, note: remarks.join("; "), countable }
}

fn is_one_of(value: &Value, texts: &[String]) -> bool {
    render::plain(value).is_some_and(|plain| texts.iter().any(|text| *text == plain))
}

/// The commonest type; NULL only if there is no other.
fn kind_of(values: &[&Value], remarks: &mut Vec<String>) -> Kind {
    let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
    values.iter().for_each(|value| *counts.entry(value.kind()).or_default() += 1);
    let commonest = counts.iter().max_by_key(|(kind, count)| (**kind != Kind::Null, **count));
    let kind = commonest.map_or(Kind::S, |(kind, _)| *kind);
    for (other, count) in counts.iter().filter(|(other, _)| **other != kind) {
        remarks.push(format!("check: {count} of type {}, which `audit` names", other.name()));
    }
    kind
}

/// The words for "none" among the values: beside dates any of them, else only those that are no words of a language.
fn sentinels(values: &[&Value]) -> Vec<String> {
    let texts: BTreeSet<&str> = values.iter().filter_map(|value| value.as_text()).collect();
    let found: Vec<&str> = SENTINELS.into_iter().filter(|word| texts.contains(word)).collect();
    let others: Vec<&Value> =
        values.iter().copied().filter(|value| !value.as_text().is_some_and(|text| found.contains(&text))).collect();
    let is_time = |value: &Value| names::is_written(value, Format::Date) || names::is_written(value, Format::Timestamp);
    let beside_dates = !others.is_empty() && others.iter().all(|value| is_time(value));
    found.into_iter().filter(|word| beside_dates || word.eq_ignore_ascii_case("n/a")).map(str::to_owned).collect()
}

fn format_of(name: &str, values: &[&Value], remarks: &mut Vec<String>) -> Option<Format> {
    if values.is_empty() {
        return None;
    }
    let share = |format: Format| Share::count(values.iter().map(|value| names::is_written(value, format)));
    for format in [Format::Date, Format::TimestampUtc, Format::Timestamp] {
        let share = share(format);
        if share.holds() {
            if !share.is_whole() {
                remarks.push(format!("check: {share} are written so, `audit` names the others"));
            }
            return Some(format);
        }
    }
    let plain = names::plain(name);
    let is_named = TIME_WORDS.iter().any(|word| plain.contains(word)) || name.ends_with("At") || name.ends_with("_at");
    let number =
        |value: &Value| value.as_number().filter(|n| n.is_integer()).and_then(|n| n.to_plain().parse::<i64>().ok());
    let all_in = |range: std::ops::RangeInclusive<i64>| {
        values.iter().all(|value| number(value).is_some_and(|number| range.contains(&number)))
    };
    if is_named && all_in(SECONDS) {
        return Some(Format::EpochSeconds);
    }
    if is_named && all_in(SECONDS.start() * 1000..=SECONDS.end() * 1000) {
        remarks.push("milliseconds: as a time to live they would never expire an item".to_owned());
    }
    let texts: Vec<&str> = values.iter().filter_map(|value| value.as_text()).collect();
    if texts.len() == values.len() && texts.iter().all(|text| is_number(text)) {
        remarks.push(match is_named {
            true => "check: a time as text; a time to live must be a number".to_owned(),
            false => "numbers as text: they sort as text, 10 before 9".to_owned(),
        });
    } else if texts.len() == values.len() && texts.iter().all(|text| names::begins_with_time(text)) {
        remarks.push("times without a zone: write Z or an offset, then declare a format".to_owned());
    }
    None
}

/// Digits as a program writes them: a telephone's number begins with a sign or a zero.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_plain && (digits == "0" || !digits.starts_with('0') || digits.starts_with("0.")) && text.parse::<f64>().is_ok()
}

/// The values, if they are few and come again.
fn declared_set(name: &str, values: &[&Value], remarks: &mut Vec<String>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    values.iter().filter_map(|value| value.as_text()).for_each(|text| *counts.entry(text).or_default() += 1);
    let is_short = counts.keys().all(|text| !text.trim().is_empty() && text.chars().count() <= SET_VALUE_LENGTH_MAX);
    let few = counts.len() <= SET_VALUES_MAX && counts.len() * 2 <= values.len();
    if !is_short || !few || names::plain(name).ends_with("id") || values.len() < 2 {
        return Vec::new();
    }
    let all: Vec<String> = counts.keys().map(|text| (*text).to_owned()).collect();
    if values.len() < SET_ITEMS_MIN
        || counts.len() * 3 > values.len()
        || all.iter().any(|text| text.chars().any(char::is_control))
    {
        if counts.len() > 1 {
            remarks.push("few values, too few items to say which: a `one_of`?".to_owned());
        }
        return Vec::new();
    }
    let confidence = Share { agree: values.len(), of: values.len() }.percent();
    remarks.push(format!("guess: {confidence} %: these are all values; put them in their order"));
    let rare: Vec<String> =
        counts.iter().filter(|(_, count)| **count == 1).map(|(text, _)| format!("`{text}`")).collect();
    if !rare.is_empty() {
        remarks.push(format!("check: seen once: {}", rare.join(", ")));
    }
    let lower: BTreeSet<String> = all.iter().map(|text| text.trim().to_lowercase()).collect();
    if lower.len() < all.len() {
        remarks.push("check: some differ in case or blanks only".to_owned());
    }
    all
}
