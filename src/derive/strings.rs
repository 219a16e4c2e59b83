//! What values do inside keys: S401 (delimiters), S402 (placeholders), S403 to S405 (what nobody sees).
//!
//! Only texts that go into keys are looked at: free text may hold anything. Nearly every text is plain ASCII without a blank at
//! its ends, which [`is_plain`] tells in one pass over its bytes; only of others it is asked whether they go into a key.

use std::borrow::Cow;

use crate::model::key::TableKey;
use crate::model::template::{Template, Variable};
use crate::model::value::Value;

use super::findings::Findings;
use super::indexes::is_primary_key;
use super::render::plain;
use super::rules::{InKey, s401, s402, s403, s404, s405};
use super::scope::{Scope, key_text};

/// The keys of an item whose entity is known and whose primary key agrees: value by value.
pub fn check(scope: &Scope<'_>, key: &TableKey, findings: &mut Findings<'_>) {
    for (at, template, text) in keys(scope, key) {
        placeholders(scope, at, template, &text, findings);
        delimiters(scope, template, || format!("the key `{at}`"), findings);
    }
    unseen(scope, key, findings);
    let aggregates = scope.model.aggregates.iter().filter(|aggregate| aggregate.of == scope.entity.name);
    for aggregate in aggregates {
        for template in std::iter::once(&aggregate.partition).chain(&aggregate.sort) {
            // One value alone cannot be taken for two.
            if template.variables().count() > 1 {
                delimiters(scope, template, || format!("the key of aggregate {}", aggregate.name), findings);
            }
        }
    }
}

/// True for texts of printable ASCII without blanks at their ends: S403 to S405 have nothing to say about them.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first() != Some(&b' ') && bytes.last() != Some(&b' ') && bytes.iter().all(|byte| (0x20..0x7f).contains(byte))
}

/// What nobody sees in the texts that go into the item's own keys, and into those of what is derived from it: each text once,
/// under the attribute that holds it.
fn unseen(scope: &Scope<'_>, key: &TableKey, findings: &mut Findings<'_>) {
    for (attribute, carried) in scope.attributes() {
        if let Some((name, Value::S(text))) = carried
            && !is_plain(text)
            && !attribute.one_of.iter().any(|one| one == text)
            && templates(scope).flat_map(Template::variables).any(|variable| variable.name == attribute.name)
        {
            check_text(InKey { name, whole: text, text, is_primary: false }, findings);
        }
    }
    for (name, text) in scope.variables().filter_map(|(name, value)| Some((name, value.as_text()?))) {
        if !is_plain(text) {
            let mut keys = keys(scope, key).into_iter();
            let holds = |template: &Template| template.variables().any(|variable| variable.name == *name);
            if let Some((at, _, whole)) = keys.find(|(_, template, _)| holds(template)) {
                check_text(InKey { name: at, whole: &whole, text, is_primary: is_primary_key(scope, at) }, findings);
            }
        }
    }
}

/// Every template that the values of an item go through: of its own keys, its aggregates and its listings.
fn templates<'a>(scope: &Scope<'a>) -> impl Iterator<Item = &'a Template> {
    let (model, entity) = (scope.model, scope.entity);
    let own = std::iter::once(&entity.partition).chain(&entity.sort);
    let indexes = entity.indexes.iter().flat_map(|index| index.keys.iter().map(|(_, template)| template));
    let aggregates = model.aggregates.iter().filter(|aggregate| aggregate.of == entity.name);
    let aggregates = aggregates.flat_map(|aggregate| std::iter::once(&aggregate.partition).chain(&aggregate.sort));
    let listings = model.listings.iter().filter(|listing| listing.of == entity.name);
    let listings = listings.flat_map(|listing| std::iter::once(&listing.partition).chain(&listing.sort));
    own.chain(indexes).chain(aggregates).chain(listings)
}

fn check_text(value: InKey<'_>, findings: &mut Findings<'_>) {
    s403::check(value, findings);
    s404::check(value, findings);
    s405::check(value, findings);
}

/// The primary key of an item that is no entity's, or whose key is wrong: part by part.
pub fn check_raw(names: [Option<&str>; 2], key: &TableKey, delimiter: &str, findings: &mut Findings<'_>) {
    let values = [Some(&key.partition), key.sort.as_ref()];
    for (name, value) in names.into_iter().zip(values) {
        let (Some(name), Some(Value::S(text))) = (name, value) else { continue };
        if let Some(part) = s402::placeholder(text, delimiter, &[]) {
            s402::found(name, text, part, findings);
        }
        if !is_plain(text) {
            check_text(InKey { name, whole: text, text, is_primary: true }, findings);
        }
    }
}

/// The key as it is stored: what its attributes would give may be another, and that is G201's.
fn placeholders(scope: &Scope<'_>, at: &str, template: &Template, text: &str, findings: &mut Findings<'_>) {
    let delimiter = &scope.model.delimiter;
    // Where each value is a whole part of the key, the key's parts below say it all.
    let shared = template.variables().filter(|_| !template.has_whole_values(delimiter));
    for variable in shared {
        let Some(written) = scope.written(variable) else { continue };
        if let Some(part) = s402::placeholder(&written, delimiter, &[])
            && !part.is_empty()
            && text.contains(part)
            && !is_declared(scope, variable)
        {
            // A value that shares its part of the key with a literal, as in `{a}-{b}`.
            return s402::found(at, text, part, findings);
        }
    }
    // An empty key is G205's. Few keys have a part to be asked about.
    if text.is_empty() || s402::placeholder(text, delimiter, &[]).is_none() {
        return;
    }
    let values = template.variables().filter(|variable| is_declared(scope, variable));
    let values = values.filter_map(|variable| scope.written(variable));
    let mut declared: Vec<String> = values.map(Cow::into_owned).collect();
    declared.extend(template.literal_parts(delimiter));
    if let Some(part) = s402::placeholder(text, delimiter, &declared) {
        s402::found(at, text, part, findings);
    }
}

/// True if the model declares the variable's value.
fn is_declared(scope: &Scope<'_>, variable: &Variable) -> bool {
    let Some(attribute) = scope.entity.attribute(&variable.name) else { return false };
    let text = scope.value(&variable.name).ok().and_then(plain);
    text.is_some_and(|text| attribute.one_of.iter().any(|one| *one == text))
}

/// `key` names the key in a message.
fn delimiters(scope: &Scope<'_>, template: &Template, key: impl Fn() -> String, findings: &mut Findings<'_>) {
    let delimiter = scope.model.delimiter.as_str();
    // A key that is nothing but the value has no parts to be mistaken.
    if delimiter.is_empty() || template.bare_variable().is_some() {
        return;
    }
    for variable in template.variables() {
        if let Ok(Value::S(text)) = scope.value(&variable.name)
            && text.contains(delimiter)
        {
            s401::found(&variable.name, text, delimiter, &key(), findings);
        }
    }
}

/// The item's own keys that are there: attribute, template and text.
fn keys<'k, 'a: 'k>(scope: &Scope<'a>, key: &'k TableKey) -> Vec<(&'a str, &'a Template, Cow<'k, str>)> {
    let (table, entity) = (&scope.model.table, scope.entity);
    let mut keys = Vec::new();
    if let Some(text) = key_text(&key.partition) {
        keys.push((table.partition_key.name.as_str(), &entity.partition, text));
    }
    if let (Some(attribute), Some(template), Some(text)) =
        (&table.sort_key, &entity.sort, key.sort.as_ref().and_then(key_text))
    {
        keys.push((attribute.name.as_str(), template, text));
    }
    for declared in entity.indexes.iter().filter(|declared| scope.holds(&declared.when)) {
        for (name, template) in &declared.keys {
            if let Some(text) = scope.item.get(name).and_then(key_text) {
                keys.push((name.as_str(), template, text));
            }
        }
    }
    keys
}
