//! Table designs of AWS's DynamoDB MCP server (`schema.json`) as drafts of a model.
//!
//! The problem: such a schema declares entities, key templates, indexes and fields, which is most of a model, but nothing checks
//! that a table's items keep it. The contract: [`read`] takes the whole file or names ALL of its faults with their places
//! (`tables[0].entities.User.pk_template`) and remedies; what a model has no word for is kept as a comment. The usage data that
//! goes with a schema holds sample values; they tell how times are written.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value as Json};

use crate::derive::propose::{Draft, EntityDraft};
use crate::model::spec::{Attribute, Entity, EntityIndex, Format, Index, KeyAttribute, Table};
use crate::model::template::{Segment, Template};
use crate::model::time;
use crate::model::value::{Kind, Value};

/// Attributes of an index's partition key, and of its sort key.
const KEY_ATTRIBUTES_MAX: usize = 4;

/// One thing wrong with a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaFault {
    /// The way to it from the file's root.
    pub place: String,
    /// What is wrong, with the value and the remedy.
    pub message: String,
}

/// Why a schema cannot be brought over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("the {what} is not JSON: {error}; mend it there")]
    NotJson { what: &'static str, error: String },
    #[error("the schema has {}: {}", faults(.0.len()), told(.0))]
    Faults(Vec<SchemaFault>),
    #[error("the schema has several tables, a model has one: {0}; choose by --table NAME")]
    SeveralTables(String),
    #[error("the schema has no table `{name}`, it has {there}")]
    NoSuchTable { name: String, there: String },
}

impl fmt::Display for SchemaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

fn faults(number: usize) -> String {
    if number == 1 { "1 fault".to_owned() } else { format!("{number} faults") }
}

fn told(faults: &[SchemaFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
}

/// Reads one table of a schema; `usage` is the text of its usage data, `table` names the table where there are several.
///
/// # Errors
/// All faults of the file at once.
pub fn read(text: &str, usage: Option<&str>, table: Option<&str>) -> Result<Draft, SchemaError> {
    let parse = |what, text: &str| -> Result<Json, SchemaError> {
        serde_json::from_str(text).map_err(|error| SchemaError::NotJson { what, error: error.to_string() })
    };
    let schema = parse("schema", text)?;
    let usage = usage.map(|text| parse("usage data", text)).transpose()?;
    let mut reader = Reader { faults: Vec::new(), usage: usage.unwrap_or(Json::Null) };
    let mut drafts = reader.tables(&schema);
    if !reader.faults.is_empty() {
        return Err(SchemaError::Faults(reader.faults));
    }
    let there = || drafts.iter().map(|draft| format!("`{}`", draft.table.name)).collect::<Vec<_>>().join(", ");
    let at = match table {
        Some(name) => drafts.iter().position(|draft| draft.table.name == name),
        None if drafts.len() > 1 => return Err(SchemaError::SeveralTables(there())),
        None => Some(0),
    };
    match at.filter(|at| *at < drafts.len()) {
        Some(at) => Ok(drafts.swap_remove(at)),
        None => Err(SchemaError::NoSuchTable { name: table.unwrap_or_default().to_owned(), there: there() }),
    }
}

struct Reader {
    faults: Vec<SchemaFault>,
    usage: Json,
}

/// A JSON object and the way to it.
#[derive(Clone)]
struct Object<'j> {
    place: String,
    fields: &'j Map<String, Json>,
}

impl<'j> Object<'j> {
    fn at(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    /// What a reader of these keys has passed over.
    fn unread(&self, known: &[&str]) -> Vec<String> {
        let unknown = self.fields.iter().filter(|(key, _)| !known.contains(&key.as_str()));
        unknown.map(|(key, value)| format!("not brought over: {key} = {}", cut(&value.to_string()))).collect()
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= 100 { text.to_owned() } else { text.chars().take(97).chain("...".chars()).collect() }
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

impl Reader {
    fn fault(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.faults.push(SchemaFault { place: place.into(), message: message.into() });
    }

    fn object<'j>(&mut self, place: String, value: Option<&'j Json>, remedy: &str) -> Option<Object<'j>> {
        match value {
            Some(Json::Object(fields)) => Some(Object { place, fields }),
            Some(other) => {
                self.fault(place, format!("is {}, not an object; {remedy}", type_of(other)));
                None
            }
            None => {
                self.fault(place, format!("is missing; {remedy}"));
                None
            }
        }
    }

    fn text(&mut self, object: &Object<'_>, key: &str, remedy: &str) -> Option<String> {
        match object.fields.get(key) {
            Some(Json::String(text)) if !text.is_empty() => Some(text.clone()),
            Some(other) => {
                self.fault(object.at(key), format!("is {}, not a text; {remedy}", cut(&other.to_string())));
                None
            }
            None => {
                self.fault(object.at(key), format!("is missing; {remedy}"));
                None
            }
        }
    }

    /// A text, or a list of up to four; none if the key is absent.
    fn texts(&mut self, object: &Object<'_>, key: &str) -> Vec<String> {
        let values: Vec<&Json> = match object.fields.get(key) {
            None | Some(Json::Null) => return Vec::new(),
            Some(Json::Array(values)) => values.iter().collect(),
            Some(value) => vec![value],
        };
        if values.is_empty() || values.len() > KEY_ATTRIBUTES_MAX {
            self.fault(
                object.at(key),
                format!("lists {} attributes; an index takes 1 to {KEY_ATTRIBUTES_MAX}", values.len()),
            );
        }
        let texts: Vec<String> = values.iter().filter_map(|value| value.as_str()).map(str::to_owned).collect();
        if texts.len() < values.len() {
            self.fault(object.at(key), "is neither a text nor a list of texts; write for example \"status\"");
        }
        texts
    }

    fn list<'j>(&mut self, object: &Object<'j>, key: &str) -> Vec<(String, &'j Json)> {
        match object.fields.get(key) {
            Some(Json::Array(values)) => {
                values.iter().enumerate().map(|(at, value)| (format!("{}[{at}]", object.at(key)), value)).collect()
            }
            None | Some(Json::Null) => Vec::new(),
            Some(other) => {
                self.fault(object.at(key), format!("is {}, not a list; write [ ... ]", type_of(other)));
                Vec::new()
            }
        }
    }

    fn tables(&mut self, schema: &Json) -> Vec<Draft> {
        let Some(root) = self.object(String::new(), Some(schema), "begin with { \"tables\": [ ... ] }") else {
            return Vec::new();
        };
        let tables = self.list(&root, "tables");
        if tables.is_empty() && self.faults.is_empty() {
            self.fault("tables", "lists no table; add one with `table_config` and `entities`");
        }
        let mut drafts: Vec<Draft> = tables.into_iter().filter_map(|(place, table)| self.table(place, table)).collect();
        for draft in &mut drafts {
            draft.table_notes.extend(root.unread(&["tables"]));
        }
        drafts
    }

    fn table(&mut self, place: String, value: &Json) -> Option<Draft> {
        let object = self.object(place, Some(value), "write { \"table_config\": ..., \"entities\": ... }")?;
        let remedy = "add `table_name`, `partition_key` and, if there is one, `sort_key`";
        let config = self.object(object.at("table_config"), object.fields.get("table_config"), remedy)?;
        let name = self.text(&config, "table_name", "add the table's name at AWS")?;
        let partition = self.text(&config, "partition_key", "add the name of the key attribute")?;
        let sort = config
            .fields
            .contains_key("sort_key")
            .then(|| self.text(&config, "sort_key", "name the attribute, or drop it"));
        let sort = sort.flatten();
        let indexes = self.indexes(&object);
        let remedy = "add { \"User\": { ... } }";
        let entities = self.object(object.at("entities"), object.fields.get("entities"), remedy)?;
        let key = |name: &String| KeyAttribute { name: name.clone(), kind: Kind::S };
        let mut notes = config.unread(&["table_name", "partition_key", "sort_key"]);
        notes.extend(object.unread(&["table_config", "gsi_list", "entities"]));
        let mut draft = Draft {
            name: name.clone(),
            heading: vec![
                "What begins with `check:` is doubtful: have the items judge by `tablekeeper audit`.".to_owned(),
            ],
            delimiter: "#".to_owned(),
            table: Table {
                state_table: format!("{name}-keeper"),
                name,
                partition_key: key(&partition),
                sort_key: sort.as_ref().map(key),
                indexes,
                ttl: None,
            },
            table_notes: notes,
            index_notes: BTreeMap::new(),
            entities: Vec::new(),
        };
        for (name, entity) in entities.fields {
            let place = entities.at(name);
            let read = self.entity(name, place, entity, &draft);
            draft.entities.extend(read);
        }
        if entities.fields.is_empty() {
            self.fault(entities.place, format!("has no entity; {remedy}"));
        }
        settle_kinds(&mut draft);
        Some(draft)
    }

    fn indexes(&mut self, table: &Object<'_>) -> Vec<Index> {
        let mut indexes = Vec::new();
        for (place, value) in self.list(table, "gsi_list") {
            let remedy = "write { \"name\": ..., \"partition_key\": ... }";
            let Some(object) = self.object(place, Some(value), remedy) else { continue };
            let Some(name) = self.text(&object, "name", "add the index's name") else { continue };
            let partition = self.texts(&object, "partition_key");
            if partition.is_empty() && !object.fields.contains_key("partition_key") {
                self.fault(object.at("partition_key"), "is missing; add the name of the key attribute");
            }
            let key = |name: String| KeyAttribute { name, kind: Kind::S };
            let sort = self.texts(&object, "sort_key");
            indexes.push(Index {
                name,
                partition: partition.into_iter().map(key).collect(),
                sort: sort.into_iter().map(key).collect(),
            });
        }
        indexes
    }

    fn entity(&mut self, name: &str, place: String, value: &Json, draft: &Draft) -> Option<EntityDraft> {
        let object = self.object(place, Some(value), "write { \"pk_template\": ..., \"fields\": [ ... ] }")?;
        let partition = self.template(&object, "pk_template");
        let sort = match (&draft.table.sort_key, object.fields.contains_key("sk_template")) {
            (Some(_), _) => self.template(&object, "sk_template").map(Some),
            (None, false) => Some(None),
            (None, true) => {
                self.fault(
                    object.at("sk_template"),
                    "the table has no `sort_key`; add it to `table_config`, or drop this",
                );
                None
            }
        };
        let mut entity = EntityDraft::new(Entity {
            name: name.to_owned(),
            matches: Vec::new(),
            partition: partition?,
            sort: sort?,
            indexes: Vec::new(),
            attributes: Vec::new(),
            references: Vec::new(),
            severities: BTreeMap::new(),
        });
        if let Some(Json::String(named)) = object.fields.get("entity_type") {
            let note = format!(
                "check: entity_type `{named}`; if items carry it in an attribute, add match = {{ NAME = \"{named}\" }}"
            );
            entity.notes.push(note);
        }
        let patterns = self.list(&object, "access_patterns");
        for pattern in patterns.into_iter().filter_map(|(_, pattern)| pattern.as_object()) {
            let text = |key: &str| pattern.get(key).and_then(Json::as_str).unwrap_or_default();
            entity.notes.push(
                format!("{}: {} {}", text("operation"), text("description"), text("index_name")).trim_end().to_owned(),
            );
        }
        let known = ["entity_type", "pk_template", "sk_template", "gsi_mappings", "fields", "access_patterns"];
        entity.notes.extend(object.unread(&known));
        self.fields(&object, &mut entity);
        self.mappings(&object, draft, &mut entity);
        demand(&mut entity, draft);
        Some(entity)
    }

    fn template(&mut self, object: &Object<'_>, key: &str) -> Option<Template> {
        let text = self.text(object, key, "add a template such as \"USER#{user_id}\"")?;
        self.parsed(object.at(key), &text)
    }

    fn parsed(&mut self, place: String, text: &str) -> Option<Template> {
        match Template::parse(text) {
            Ok(template) => Some(template),
            Err(error) => {
                self.fault(place, format!("`{}` is no template: {error}; write fields as {{name}}", cut(text)));
                None
            }
        }
    }

    fn mappings(&mut self, object: &Object<'_>, draft: &Draft, entity: &mut EntityDraft) {
        for (place, value) in self.list(object, "gsi_mappings") {
            let Some(mapping) = self.object(place, Some(value), "write { \"name\": ..., \"pk_template\": ... }") else {
                continue;
            };
            let Some(name) = self.text(&mapping, "name", "name an index of `gsi_list`") else { continue };
            let Some(index) = draft.table.index(&name) else {
                self.fault(
                    mapping.at("name"),
                    format!("`gsi_list` has no index `{name}`; add it there, or mend the name"),
                );
                continue;
            };
            let mut keys = Vec::new();
            for (key, attributes) in [("pk_template", &index.partition), ("sk_template", &index.sort)] {
                let texts = self.texts(&mapping, key);
                if texts.len() != attributes.len() {
                    let (has, wants) = (texts.len(), attributes.len());
                    self.fault(
                        mapping.at(key),
                        format!("has {has} templates for {wants} attributes of `{name}`; write one for each"),
                    );
                }
                for (attribute, text) in attributes.iter().zip(texts) {
                    let template = self.parsed(mapping.at(key), &text);
                    keys.extend(template.map(|template| (attribute.name.clone(), template)));
                }
            }
            let notes = mapping.unread(&["name", "pk_template", "sk_template"]);
            entity.index_notes.insert(name.clone(), notes.join("; "));
            entity.entity.indexes.push(EntityIndex { index: name, keys, when: Vec::new() });
        }
    }

    fn fields(&mut self, object: &Object<'_>, entity: &mut EntityDraft) {
        let sample = self.usage["entities"][&entity.entity.name]["sample_data"].clone();
        for (place, value) in self.list(object, "fields") {
            let remedy = "write { \"name\": ..., \"type\": ..., \"required\": ... }";
            let Some(field) = self.object(place, Some(value), remedy) else { continue };
            let Some(name) = self.text(&field, "name", "add the field's name") else { continue };
            let Some(named) = self.text(&field, "type", "add a type such as \"string\"") else { continue };
            if entity.entity.attribute(&name).is_some() {
                self.fault(field.at("name"), format!("`{name}` is declared twice; keep one"));
                continue;
            }
            let mut notes = field.unread(&["name", "type", "required", "item_type"]);
            let kind = kind_of(&named, &mut notes);
            let mut attribute = Attribute::new(name.clone(), kind);
            attribute.required = match field.fields.get("required") {
                Some(Json::Bool(required)) => *required,
                None => false,
                Some(other) => {
                    self.fault(field.at("required"), format!("is {other}; write true or false"));
                    false
                }
            };
            if let Some(format) = format_of(&sample[&name], &name, kind) {
                attribute.format = Some(format);
                notes.push("check: written so in the usage data".to_owned());
            }
            entity.attribute_notes.insert(name, notes.join("; "));
            entity.entity.attributes.push(attribute);
        }
    }
}

/// DynamoDB's type of a field's type.
fn kind_of(named: &str, notes: &mut Vec<String>) -> Kind {
    match named {
        "string" | "uuid" => Kind::S,
        "integer" | "decimal" | "float" | "number" => Kind::N,
        "boolean" => Kind::Bool,
        "array" => Kind::L,
        "object" => Kind::M,
        other => {
            notes.push(format!("check: the schema's type is `{other}`"));
            Kind::S
        }
    }
}

/// How the sample value is written, if it is a time.
fn format_of(sample: &Json, name: &str, kind: Kind) -> Option<Format> {
    match sample {
        Json::String(text) if kind == Kind::S => {
            let value = Value::text(text.as_str());
            [Format::Date, Format::TimestampUtc, Format::Timestamp]
                .into_iter()
                .find(|format| time::check(&value, *format).is_ok())
        }
        Json::Number(number) if kind == Kind::N => {
            let is_time = ["_at", "date", "time", "ttl", "expir", "last_"].iter().any(|word| name.contains(word));
            // The years 2000 to 2100.
            let seconds = number.as_i64().is_some_and(|number| (946_684_800..=4_102_444_800).contains(&number));
            (is_time && seconds).then_some(Format::EpochSeconds)
        }
        _ => None,
    }
}

/// What a primary key is made of is required, and a variable that is no field is told.
fn demand(entity: &mut EntityDraft, draft: &Draft) {
    let keys: Vec<Template> = std::iter::once(&entity.entity.partition).chain(&entity.entity.sort).cloned().collect();
    for variable in keys.iter().flat_map(Template::variables) {
        match entity.entity.attributes.iter_mut().find(|attribute| attribute.name == variable.name) {
            Some(attribute) if !attribute.required => {
                attribute.required = true;
                let note = entity.attribute_notes.entry(variable.name.clone()).or_default();
                *note = format!("check: optional in the schema, but the key is made of it; {note}")
                    .trim_end_matches("; ")
                    .to_owned();
            }
            Some(_) => {}
            None => entity.notes.push(format!("check: `{}` in the key is no field", variable.name)),
        }
    }
    // A field that is an index's key attribute by itself is declared like any other.
    let indexed = draft.table.indexes.iter().flat_map(Index::attributes);
    for key in indexed {
        let is_bare = |template: &Template| matches!(template.segments.as_slice(), [Segment::Variable(one)] if one.name == key.name);
        let is_own = entity
            .entity
            .indexes
            .iter()
            .flat_map(|index| &index.keys)
            .any(|(name, template)| *name == key.name && is_bare(template));
        if is_own && entity.entity.attribute(&key.name).is_none() {
            entity.entity.attributes.push(Attribute::new(key.name.clone(), Kind::S));
        }
    }
}

/// A key attribute is a number if every entity writes one bare number field into it.
fn settle_kinds(draft: &mut Draft) {
    let entities: Vec<Entity> = draft.entities.iter().map(|entity| entity.entity.clone()).collect();
    let kind_of = |name: &str, templates: Vec<(&Entity, &Template)>| {
        let is_number = |(entity, template): &(&Entity, &Template)| {
            let variable = template.bare_variable();
            variable
                .and_then(|variable| entity.attribute(&variable.name))
                .is_some_and(|attribute| attribute.kind == Kind::N)
        };
        let own = entities.iter().filter_map(|entity| entity.attribute(name)).map(|attribute| attribute.kind).next();
        match !templates.is_empty() && templates.iter().all(is_number) {
            true => Kind::N,
            false => own.filter(|kind| *kind == Kind::N).unwrap_or(Kind::S),
        }
    };
    let table = &mut draft.table;
    table.partition_key.kind =
        kind_of(&table.partition_key.name, entities.iter().map(|entity| (entity, &entity.partition)).collect());
    if let Some(sort) = &mut table.sort_key {
        sort.kind =
            kind_of(&sort.name, entities.iter().filter_map(|entity| Some((entity, entity.sort.as_ref()?))).collect());
    }
    for index in &mut table.indexes {
        for key in index.partition.iter_mut().chain(&mut index.sort) {
            let filled = entities.iter().flat_map(|entity| entity.indexes.iter().map(move |index| (entity, index)));
            let filled = filled.filter(|(_, declared)| declared.index == index.name);
            let templates = filled.flat_map(|(entity, declared)| {
                declared.keys.iter().map(move |(name, template)| (entity, name, template))
            });
            let templates =
                templates.filter(|(_, name, _)| **name == key.name).map(|(entity, _, template)| (entity, template));
            key.kind = kind_of(&key.name, templates.collect());
        }
    }
}
