//! Entities: their keys, their indexes, and whether one key could belong to two of them.

use super::templates::{self, Use};
use super::{Lint, candidates, rules};
use crate::model::load::overlap::{can_meet, swallows};
use crate::model::spec::{Entity, EntityIndex};
use crate::model::template::Template;
use crate::model::value::Kind;

pub(super) fn check(lint: &mut Lint) {
    let model = lint.model;
    for entity in &model.entities {
        check_match(lint, entity);
        if lint.is_whole(entity) {
            check_key(lint, entity);
        }
        for index in &entity.indexes {
            check_index(lint, entity, index);
        }
    }
    for (first, second) in candidates::pairs(&model.entities) {
        check_pair(lint, &model.entities[first], &model.entities[second]);
    }
}

fn check_match<'m>(lint: &mut Lint<'m, '_, '_>, entity: &'m Entity) {
    lint.check_conditions(&["entity", &entity.name, "match"], &entity.matches, entity, &rules::UNREACHABLE);
}

fn check_key<'m>(lint: &mut Lint<'m, '_, '_>, entity: &'m Entity) {
    let table = &lint.model.table;
    let sort = table.sort_key.as_ref().zip(entity.sort.as_ref());
    for (key, template) in std::iter::once((&table.partition_key, &entity.partition)).chain(sort) {
        let path = ["entity", &entity.name, "key", &key.name];
        templates::check(lint, &path, template, entity, Use::Source);
        check_key_type(lint, &path, template, entity, key.kind);
        for variable in template.variables() {
            let optional = entity
                .attribute(&variable.name)
                .is_some_and(|attribute| !attribute.required && lint.knows(entity, attribute, "required"));
            if optional {
                let span = templates::place(lint, &path, variable);
                let message =
                    format!("the primary key of `{}` uses `{}`, which is optional", entity.name, variable.name);
                lint.fault(&rules::OPTIONAL_IN_KEY, span, message, "declare it with `required = true`");
            }
        }
    }
    let path = ["entity", &entity.name, "key", &table.partition_key.name];
    check_prefix(lint, &path, &entity.partition);
}

/// Keys under the reserved prefix are Tablekeeper's own.
pub(super) fn check_prefix(lint: &mut Lint, path: &[&str], partition: &Template) {
    let model = lint.model;
    let rest = partition.prefix().strip_prefix(model.prefix.as_str());
    let reserved = rest.is_some_and(|rest| rest.starts_with('#') || rest.starts_with(model.delimiter.as_str()));
    if reserved && !lint.sink.is_faulty(&["prefix"]) {
        let span = lint.sink.value_span(path);
        let message = format!("keys that begin with `{}#` hold findings and expiries", model.prefix);
        lint.fault(&rules::RESERVED, span, message, "use another key, or set `prefix` to another word");
    }
}

fn check_index<'m>(lint: &mut Lint<'m, '_, '_>, entity: &'m Entity, index: &'m EntityIndex) {
    for (key, template) in &index.keys {
        let path = ["entity", &entity.name, "index", &index.index, key];
        templates::check(lint, &path, template, entity, Use::Source);
        let kind =
            lint.model.table.index(&index.index).and_then(|declared| declared.attributes().find(|a| a.name == *key));
        check_key_type(lint, &path, template, entity, kind.map_or(Kind::S, |attribute| attribute.kind));
    }
    let path = ["entity", &entity.name, "index", &index.index, "when"];
    lint.check_conditions(&path, &index.when, entity, &rules::NEVER_TRUE);
}

/// A key attribute that is no text takes its value from one attribute of its own type, or gives it to a variable.
pub(super) fn check_key_type(lint: &mut Lint, path: &[&str], template: &Template, entity: &Entity, kind: Kind) {
    let fits = match template.bare_variable().map(|variable| entity.attribute(&variable.name)) {
        Some(Some(attribute)) => attribute.kind == kind || !lint.knows_type(entity, attribute),
        Some(None) => true,
        None => false,
    };
    if kind != Kind::S && !fits {
        let span = lint.sink.value_span(path);
        let message = format!("the key attribute is of type {}, which `{template}` does not give", kind.name());
        let remedy = format!("write one bare variable, of an attribute of type {}", kind.name());
        lint.fault(&rules::KEY_TYPE, span, message, remedy);
    }
}

fn check_pair(lint: &mut Lint, first: &Entity, second: &Entity) {
    let is_unclear = |entity: &Entity| lint.sink.is_faulty(&["entity", &entity.name, "match"]);
    if !lint.is_whole(first) || !lint.is_whole(second) || told_apart(first, second) {
        return;
    }
    // What they are told apart by may stand in what could not be read.
    if is_unclear(first) || is_unclear(second) || lint.sink.is_faulty(&["delimiter"]) {
        return;
    }
    let delimiter = lint.model.delimiter.as_str();
    let mixed = |a: &Template, b: &Template| {
        can_meet(a, b, delimiter) || swallows(a, b, delimiter) || swallows(b, a, delimiter)
    };
    let sorts = match (&first.sort, &second.sort) {
        (Some(a), Some(b)) => mixed(a, b),
        _ => true,
    };
    if mixed(&first.partition, &second.partition) && sorts {
        let span = lint.sink.value_span(&["entity", &second.name, "key"]);
        let message = format!("a key could be of `{}` and of `{}`", first.name, second.name);
        let remedy = "change a template, end its prefix with the delimiter, or give both a `match` on one attribute with other values";
        lint.fault(&rules::OVERLAP, span, message, remedy);
    }
}

/// True if some attribute must have one value in the one entity and another in the other.
fn told_apart(first: &Entity, second: &Entity) -> bool {
    first.matches.iter().any(|a| {
        let other = second.matches.iter().find(|b| b.attribute == a.attribute);
        other.is_some_and(|b| a.values.iter().all(|value| !b.values.contains(value)))
    })
}
