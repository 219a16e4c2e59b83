//! What values do inside keys: S401 (delimiters) and S402 (placeholders).

use std::borrow::Cow;

use crate::model::key::TableKey;
use crate::model::template::{Template, Variable};
use crate::model::value::Value;

use super::findings::Findings;
use super::render::plain;
use super::rules::{s401, s402};
use super::scope::{Scope, key_text};

/// The keys of an item whose entity is known and whose primary key agrees: value by value.
pub fn check(scope: &Scope<'_>, key: &TableKey, findings: &mut Findings<'_>) {
    for (at, template, text) in keys(scope, key) {
        placeholders(scope, at, template, &text, findings);
        delimiters(scope, template, || format!("the key `{at}`"), findings);
    }
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

/// The primary key of an item that is no entity's, or whose key is wrong: part by part.
pub fn check_raw(names: [Option<&str>; 2], key: &TableKey, delimiter: &str, findings: &mut Findings<'_>) {
    let values = [Some(&key.partition), key.sort.as_ref()];
    for (name, value) in names.into_iter().zip(values) {
        if let (Some(name), Some(Value::S(text))) = (name, value)
            && let Some(part) = s402::placeholder(text, delimiter, &[])
        {
            s402::found(name, text, part, findings);
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
