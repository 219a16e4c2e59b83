//! `[entity.X]`: keys, indexes and attributes.

use std::collections::BTreeMap;

use super::reference::{self, Draft};
use super::rules;
use super::severity::read_severities;
use super::table::{check_attribute_name, check_own_name, checked_attribute_name};
use crate::model::key::PARTITION_KEY_SIZE_MAX;
use crate::model::reader::{Field, Fields, Sink, suggest};
use crate::model::spec::{Attribute, Condition, Entity, EntityIndex, Format, Table};
use crate::model::template::Template;
use crate::model::time;
use crate::model::value::{Kind, Text};

pub(super) fn read_all(sink: &mut Sink, root: &mut Fields<'_>, table: &Table) -> Vec<Entity> {
    let remedy = "declare at least one, for example `[entity.User]`";
    let Some(mut fields) = root.require(sink, "entity", remedy).and_then(|field| field.fields(sink)) else {
        return Vec::new();
    };
    let declared = fields.take_all(sink);
    if declared.is_empty() {
        fields.missing(sink, "<name>", remedy);
    }
    let read = declared.into_iter().map(|(name, field)| read_entity(sink, name, &field, table));
    let (mut entities, drafts): (Vec<Entity>, Vec<Vec<Draft>>) = read.unzip();
    // The keys that a reference leaves to the other entity are known now.
    let references: Vec<_> = drafts.into_iter().map(|drafts| reference::resolve(sink, drafts, &entities)).collect();
    for (entity, references) in entities.iter_mut().zip(references) {
        entity.references = references;
    }
    entities
}

fn read_entity(sink: &mut Sink, name: String, field: &Field<'_>, table: &Table) -> (Entity, Vec<Draft>) {
    check_own_name(sink, &name, field.key.clone());
    let mut entity = Entity {
        name,
        severities: BTreeMap::new(),
        matches: Vec::new(),
        partition: stand_in(),
        sort: None,
        indexes: Vec::new(),
        attributes: Vec::new(),
        references: Vec::new(),
    };
    let Some(mut fields) = field.fields(sink) else {
        sink.mark_broken(&field.path);
        sink.mark_unread(&field.path, None);
        return (entity, Vec::new());
    };
    entity.matches = read_conditions(sink, &mut fields, "match");
    let keys = fields.peek("key");
    match read_key(sink, &mut fields, table) {
        Some((partition, sort)) => (entity.partition, entity.sort) = (partition, sort),
        None => {
            sink.mark_broken(&field.path);
            // A template that is missing might name anything, one that cannot be read still names its variables.
            let is_whole = |keys: &Field<'_>| key_names(table).all(|name| keys.has(name));
            sink.mark_unread(&field.path, keys.filter(|keys| keys.is_table() && is_whole(keys)).as_ref());
        }
    }
    entity.indexes = read_indexes(sink, &mut fields, table, &field.path);
    entity.attributes = read_attributes(sink, &mut fields);
    entity.severities = read_severities(sink, &mut fields);
    let references = reference::read_all(sink, &mut fields, table);
    fields.finish(sink);
    (entity, references)
}

fn key_names(table: &Table) -> impl Iterator<Item = &str> {
    [Some(&table.partition_key), table.sort_key.as_ref()].into_iter().flatten().map(|key| key.name.as_str())
}

/// What stands for a template that could not be read.
pub(super) fn stand_in() -> Template {
    Template { source: String::new(), segments: Vec::new() }
}

/// A key template.
pub(super) fn read_template(sink: &mut Sink, field: &Field<'_>) -> Option<Template> {
    let text = field.text(sink)?;
    if text.len() > PARTITION_KEY_SIZE_MAX {
        let message = format!("`{}` is a template of {} bytes", field.name(), text.len());
        let remedy = format!("DynamoDB's longest key has {PARTITION_KEY_SIZE_MAX} bytes");
        sink.fault(&rules::TEMPLATE, field.span(), message, remedy);
        return None;
    }
    match Template::parse(&text) {
        Ok(template) => Some(template),
        Err(error) => {
            let span = field.place_in_text(sink, &text, error.offset);
            let message = format!("`{}` is no key template: {error}", field.name());
            sink.fault(&rules::TEMPLATE, span, message, "write variables as `{name}`, for example `WO#{wo}`");
            None
        }
    }
}

/// `key = { PK = "...", SK = "..." }` by the table's key names; `None`, with faults, unless it is whole.
pub(super) fn read_key(
    sink: &mut Sink,
    fields: &mut Fields<'_>,
    table: &Table,
) -> Option<(Template, Option<Template>)> {
    let field = fields.require(sink, "key", "add a template for each of the table's key attributes");
    let mut keys = field?.fields(sink)?;
    if sink.is_broken(&["table"]) {
        return None;
    }
    let mut read = |name: &str| {
        let field = keys.take_named(sink, name);
        if field.is_none() {
            keys.missing(sink, name, "add a template for this key attribute of the table");
        }
        read_template(sink, &field?)
    };
    let partition = read(&table.partition_key.name);
    let sort = table.sort_key.as_ref().map(|key| read(&key.name));
    let mut known = vec![table.partition_key.name.as_str()];
    known.extend(table.sort_key.as_ref().map(|key| key.name.as_str()));
    keys.finish_among(sink, &known);
    match sort {
        Some(sort) => Some((partition?, Some(sort?))),
        None => Some((partition?, None)),
    }
}

/// `match = { Type = "WorkOrder" }`, `when = { Status = ["Active", "Away"] }`.
pub(super) fn read_conditions(sink: &mut Sink, fields: &mut Fields<'_>, key: &'static str) -> Vec<Condition> {
    let field = fields.take(sink, key);
    field.map(|field| conditions(sink, &field)).unwrap_or_default()
}

fn conditions(sink: &mut Sink, field: &Field<'_>) -> Vec<Condition> {
    let Some(mut fields) = field.fields(sink) else { return Vec::new() };
    let mut read = Vec::new();
    for (attribute, field) in fields.take_all(sink) {
        let values = field.scalars(sink);
        if values.is_empty() {
            let message = format!("`{}` lists no value, so it never holds", field.name());
            sink.fault(&rules::RANGE, field.span(), message, "give the values under which it holds, or drop it");
            continue;
        }
        read.push(Condition { attribute, values });
    }
    read
}

fn read_indexes(sink: &mut Sink, fields: &mut Fields<'_>, table: &Table, entity: &[Text]) -> Vec<EntityIndex> {
    let Some(field) = fields.take(sink, "index") else { return Vec::new() };
    let Some(mut fields) = field.fields(sink) else {
        sink.mark_broken(&field.path);
        sink.mark_unread(entity, None);
        return Vec::new();
    };
    let mut read = Vec::new();
    for (name, index) in fields.take_all(sink) {
        let filled = read_index(sink, &name, &index, table);
        if filled.is_none() {
            sink.mark_broken(&field.path);
            let is_whole = table
                .index(&name)
                .is_none_or(|declared| declared.attributes().all(|attribute| index.has(&attribute.name)));
            sink.mark_unread(entity, Some(&index).filter(|index| index.is_table() && is_whole));
        }
        read.extend(filled);
    }
    read
}

/// One index's templates; `None`, with faults unless the index itself has them, if not all could be read.
fn read_index(sink: &mut Sink, name: &str, field: &Field<'_>, table: &Table) -> Option<EntityIndex> {
    let Some(index) = table.index(name) else {
        if !sink.is_broken(&["table"]) && !sink.is_broken(&["table", "index", name]) {
            let message = format!("the table has no index `{name}`");
            let remedy = match table.indexes.is_empty() {
                true => format!("declare it as `[table.index.{name}]`"),
                false => suggest::remedy(name, table.indexes.iter().map(|index| index.name.as_str())),
            };
            sink.fault(&rules::UNKNOWN_INDEX, field.key.clone(), message, remedy);
        }
        return None;
    };
    let mut fields = field.fields(sink)?;
    let mut keys = Vec::new();
    for attribute in index.attributes() {
        let Some(template) = fields.take_named(sink, &attribute.name) else {
            fields.missing(sink, &attribute.name, "every key attribute of an index needs a template");
            continue;
        };
        keys.extend(read_template(sink, &template).map(|template| (attribute.name.clone(), template)));
    }
    let when = read_conditions(sink, &mut fields, "when");
    let mut known: Vec<&str> = index.attributes().map(|attribute| attribute.name.as_str()).collect();
    known.push("when");
    fields.finish_among(sink, &known);
    let whole = keys.len() == index.attributes().count();
    whole.then(|| EntityIndex { index: name.to_owned(), keys, when })
}

fn read_attributes(sink: &mut Sink, fields: &mut Fields<'_>) -> Vec<Attribute> {
    let Some(field) = fields.take(sink, "attribute") else { return Vec::new() };
    let Some(mut fields) = field.fields(sink) else {
        sink.mark_unread(&field.path[..field.path.len() - 1], None);
        return Vec::new();
    };
    let declared = fields.take_all(sink);
    declared.into_iter().map(|(name, field)| read_attribute(sink, name, &field)).collect()
}

/// `attribute.Name = "S"` or `attribute.Name = { type = "S", ... }`.
fn read_attribute(sink: &mut Sink, name: String, field: &Field<'_>) -> Attribute {
    check_attribute_name(sink, &name, field.key.clone());
    let mut attribute = Attribute::new(name, Kind::S);
    if !field.is_table() {
        attribute.kind = read_kind(sink, field);
        return attribute;
    }
    let Some(mut fields) = field.fields(sink) else { return attribute };
    if let Some(kind) = fields.take(sink, "type") {
        attribute.kind = read_kind(sink, &kind);
        if sink.is_broken(&kind.path.iter().map(Text::as_str).collect::<Vec<_>>()) {
            sink.mark_broken(&field.path);
        }
    }
    if let Some(aliases) = fields.take(sink, "aliases") {
        for alias in aliases.elements(sink).unwrap_or_default() {
            attribute.aliases.extend(checked_attribute_name(sink, &alias));
        }
    }
    attribute.required = fields.take(sink, "required").and_then(|field| field.boolean(sink)).unwrap_or(false);
    attribute.one_of = fields.take(sink, "one_of").map(|field| field.scalars(sink)).unwrap_or_default();
    attribute.none = fields.take(sink, "none").map(|field| field.scalars(sink)).unwrap_or_default();
    attribute.format = fields.take(sink, "format").and_then(|field| read_format(sink, &field));
    attribute.min = fields.take(sink, "min").and_then(|field| field.number(sink));
    attribute.max = fields.take(sink, "max").and_then(|field| field.number(sink));
    fields.finish(sink);
    attribute
}

fn read_kind(sink: &mut Sink, field: &Field<'_>) -> Kind {
    let names = Kind::ALL.map(Kind::name);
    let kind = field.one_of(sink, &names).and_then(|name| Kind::parse(&name));
    if kind.is_none() {
        sink.mark_broken(&field.path);
    }
    kind.unwrap_or(Kind::S)
}

fn read_format(sink: &mut Sink, field: &Field<'_>) -> Option<Format> {
    if let Some(fixed) = field.peek_text().and_then(time::fixed_format) {
        return Some(fixed);
    }
    match field.one_of(sink, &["date", "timestamp", "timestamp-utc", "epoch-seconds", "timestamp-utc.3"])?.as_str() {
        "date" => Some(Format::Date),
        "timestamp" => Some(Format::Timestamp),
        "timestamp-utc" => Some(Format::TimestampUtc),
        _ => Some(Format::EpochSeconds),
    }
}
