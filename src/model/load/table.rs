//! The head of the file, `[table]` and `[reports]`.

use super::severity::read_severities;
use super::{derived, entity, rules};
use crate::model::reader::{Field, Fields, Sink, path, suggest};
use crate::model::spec::{Disclosure, Index, KeyAttribute, Model, ReportDefaults, ReportName, Table};
use crate::model::value::{Kind, MARKER};
use crate::model::zone::Zone;

/// The version of the file's format that this release reads.
const VERSION: u32 = 1;
/// Most partition attributes, and most sort attributes, of an index.
const INDEX_ATTRIBUTES_MAX: usize = 4;
/// Most global secondary indexes that DynamoDB gives a table, unless AWS was asked for more.
const INDEXES_MAX: usize = 20;
/// Longest name of an attribute that is part of a key, in UTF-8 bytes.
const ATTRIBUTE_NAME_SIZE_MAX: usize = 255;
/// What DynamoDB allows as the length of a table's or index's name.
const TABLE_NAME_SIZES: std::ops::RangeInclusive<usize> = 3..=255;

const TOMBSTONE_DAYS_DEFAULT: u32 = 30;
const TOMBSTONE_DAYS_MAX: u32 = 3650;

/// Reads the whole file into a model, with stand-ins where a part is broken.
pub(super) fn read_model(sink: &mut Sink, mut root: Fields<'_>, name: &str, hash: String) -> Model {
    read_version(sink, &mut root);
    let name = take_name(sink, &mut root, "name").unwrap_or_else(|| name.to_owned());
    let zone = read_zone(sink, &mut root);
    let delimiter = read_separator(sink, &mut root, "delimiter", "#");
    let prefix = read_separator(sink, &mut root, "prefix", "KEEPER");
    if !delimiter.is_empty() && prefix.contains(&delimiter) {
        let message = format!("`prefix` contains the delimiter `{delimiter}`");
        sink.fault(&rules::SEPARATOR, sink.value_span(&["prefix"]), message, "use letters only, for example `KEEPER`");
    }
    let days = root.take(sink, "tombstone_days").and_then(|field| field.whole(sink, 0..=TOMBSTONE_DAYS_MAX));
    let table = read_table(sink, &mut root);
    let entities = entity::read_all(sink, &mut root, &table);
    let aggregates = derived::read_aggregates(sink, &mut root, &table, &entities);
    let listings = derived::read_listings(sink, &mut root, &table);
    let expiries = derived::read_expiries(sink, &mut root);
    let severities = read_severities(sink, &mut root);
    let findings = read_disclosure(sink, &mut root);
    let reports = read_reports(sink, &mut root);
    root.finish(sink);
    Model {
        name,
        table,
        entities,
        aggregates,
        listings,
        expiries,
        zone,
        delimiter,
        prefix,
        tombstone_days: days.unwrap_or(TOMBSTONE_DAYS_DEFAULT),
        severities,
        findings,
        reports,
        hash: hash.into(),
    }
}

fn read_version(sink: &mut Sink, root: &mut Fields<'_>) {
    let Some(field) = root.require(sink, "version", "begin the file with `version = 1`") else { return };
    if let Some(version) = field.whole(sink, 0..=u32::MAX)
        && version != VERSION
    {
        let message = format!("version {version} of the model file is not known to this release");
        sink.fault(&rules::VERSION, field.span(), message, format!("write `version = {VERSION}`"));
    }
}

fn read_zone(sink: &mut Sink, root: &mut Fields<'_>) -> Zone {
    let Some(field) = root.take(sink, "zone") else { return Zone::UTC };
    let Some(text) = field.text(sink) else { return Zone::UTC };
    Zone::named(&text).unwrap_or_else(|| {
        let names = Zone::names();
        let remedy = match suggest::nearest(&text, names.iter().map(String::as_str)) {
            Some(zone) => format!("did you mean `{zone}`?"),
            None => "use a name of the IANA database, for example `Europe/Berlin` or `UTC`".to_owned(),
        };
        sink.fault(&rules::UNKNOWN_ZONE, field.span(), format!("`{text}` is not a time zone"), remedy);
        Zone::UTC
    })
}

/// The delimiter or the prefix: some text without braces.
fn read_separator(sink: &mut Sink, root: &mut Fields<'_>, key: &'static str, default: &str) -> String {
    let Some(field) = root.take(sink, key) else { return default.to_owned() };
    let Some(text) = field.text(sink) else { return default.to_owned() };
    if text.is_empty() || text.contains(['{', '}']) || text.chars().any(char::is_control) {
        let message = format!("`{key}` is {text:?}; it cannot be empty nor hold braces or control characters");
        sink.fault(&rules::SEPARATOR, field.span(), message, format!("use for example `{default}`"));
        return default.to_owned();
    }
    text
}

fn read_table(sink: &mut Sink, root: &mut Fields<'_>) -> Table {
    let remedy = "add `[table]` with `name`, `partition_key` and, if there is one, `sort_key`";
    let fields = root.require(sink, "table", remedy).and_then(|field| field.fields(sink));
    let Some(mut fields) = fields else {
        sink.mark_broken(&path(&["table"]));
        return stand_in();
    };
    let name_field = fields.require(sink, "name", "add the table's name at AWS");
    let name = name_field.as_ref().and_then(|field| checked_aws_name(sink, field));
    let name_at = name_field.filter(|_| name.is_some()).map(|field| field.span());
    let name = name.unwrap_or_else(|| "table".to_owned());
    let partition_key = fields
        .require(sink, "partition_key", "add for example `partition_key = \"PK\"`")
        .and_then(|field| key_attribute(sink, &field));
    let sort_field = fields.take(sink, "sort_key");
    let sort_key = sort_field.as_ref().and_then(|field| key_attribute(sink, field));
    if partition_key.is_none() || sort_field.is_some() && sort_key.is_none() {
        sink.mark_broken(&path(&["table"]));
    }
    if let (Some(partition), Some(sort), Some(field)) = (&partition_key, &sort_key, &sort_field)
        && partition.name == sort.name
    {
        let message = format!("partition key and sort key are both `{}`", sort.name);
        sink.fault(&rules::DUPLICATE, field.span(), message, "name the table's two key attributes");
        sink.mark_broken(&path(&["table"]));
    }
    let ttl = fields.take(sink, "ttl").and_then(|field| checked_attribute_name(sink, &field));
    let state_table = read_state_table(sink, &mut fields, &name, name_at);
    let indexes = read_indexes(sink, &mut fields);
    fields.finish(sink);
    Table {
        name,
        partition_key: partition_key.unwrap_or_else(|| stand_in().partition_key),
        sort_key,
        indexes,
        ttl,
        state_table,
    }
}

/// What stands for a table that could not be read.
fn stand_in() -> Table {
    Table {
        name: "table".to_owned(),
        partition_key: KeyAttribute { name: "PK".to_owned(), kind: Kind::S },
        sort_key: None,
        indexes: Vec::new(),
        ttl: None,
        state_table: "table-keeper".to_owned(),
    }
}

/// `name_at` is where the table's name stands, if it is one.
fn read_state_table(
    sink: &mut Sink,
    fields: &mut Fields<'_>,
    table: &str,
    name_at: Option<std::ops::Range<usize>>,
) -> String {
    let default = format!("{table}-keeper");
    let Some(field) = fields.take(sink, "state_table") else {
        if let Some(at) = name_at.filter(|_| !TABLE_NAME_SIZES.contains(&default.len())) {
            let size = default.len();
            let message =
                format!("`-keeper` after this name makes the state table's, which is too long with {size} letters");
            sink.fault(&rules::NAME, at, message, "add a shorter `state_table`");
        }
        return default;
    };
    let Some(name) = checked_aws_name(sink, &field) else { return default };
    if name == table {
        let message = format!("`state_table` is the table `{table}` itself");
        sink.fault(&rules::DUPLICATE, field.span(), message, format!("use another table, for example `{default}`"));
    }
    name
}

fn read_indexes(sink: &mut Sink, fields: &mut Fields<'_>) -> Vec<Index> {
    let Some(mut indexes) = fields.take(sink, "index").and_then(|field| field.fields(sink)) else { return Vec::new() };
    let mut read = Vec::new();
    let all = indexes.take_all(sink);
    // At the first that is too many.
    if let Some((name, field)) = all.get(INDEXES_MAX) {
        let message = format!("the table has {} indexes, `{name}` is the {}st of them", all.len(), INDEXES_MAX + 1);
        let remedy = format!("DynamoDB gives a table {INDEXES_MAX}; leave out those that are not there");
        sink.fault(&rules::RANGE, field.key.clone(), message, remedy);
    }
    for (name, field) in all {
        check_aws_name(sink, &name, field.key.clone());
        let Some(mut fields) = field.fields(sink) else {
            sink.mark_broken(&field.path);
            continue;
        };
        let partition = fields
            .require(sink, "partition", "add for example `partition = [\"GSI1PK\"]`")
            .map(|list| index_attributes(sink, &list, 1))
            .unwrap_or_default();
        let sort = fields.take(sink, "sort").map(|list| index_attributes(sink, &list, 0)).unwrap_or_default();
        fields.finish(sink);
        read.push(Index { name, partition, sort });
    }
    read
}

fn index_attributes(sink: &mut Sink, list: &Field<'_>, least: usize) -> Vec<KeyAttribute> {
    let elements = list.elements(sink).unwrap_or_default();
    if list.is_array() && !(least..=INDEX_ATTRIBUTES_MAX).contains(&elements.len()) {
        let message = format!("`{}` has {} attributes", list.name(), elements.len());
        let remedy = format!("an index takes {least} to {INDEX_ATTRIBUTES_MAX} of them here");
        sink.fault(&rules::RANGE, list.span(), message, remedy);
    }
    elements.iter().filter_map(|element| key_attribute(sink, element)).collect()
}

/// `"PK"` or `{ name = "PK", type = "S" }`.
fn key_attribute(sink: &mut Sink, field: &Field<'_>) -> Option<KeyAttribute> {
    if !field.is_table() {
        return checked_attribute_name(sink, field).map(|name| KeyAttribute { name, kind: Kind::S });
    }
    let mut fields = field.fields(sink)?;
    let name = fields.require(sink, "name", "name the attribute")?;
    let name = checked_attribute_name(sink, &name)?;
    let kind = match fields.take(sink, "type") {
        Some(kind) => kind.one_of(sink, &["S", "N", "B"]).and_then(|text| Kind::parse(&text)),
        None => Some(Kind::S),
    };
    fields.finish(sink);
    kind.map(|kind| KeyAttribute { name, kind })
}

/// The name of an attribute in the table.
pub(super) fn checked_attribute_name(sink: &mut Sink, field: &Field<'_>) -> Option<String> {
    let name = field.text(sink)?;
    check_attribute_name(sink, &name, field.span()).then_some(name)
}

pub(super) fn check_attribute_name(sink: &mut Sink, name: &str, span: std::ops::Range<usize>) -> bool {
    if name == MARKER {
        let message = format!("the attribute `{MARKER}` marks Tablekeeper's own items");
        sink.fault(&rules::RESERVED, span, message, "use another name");
        return false;
    }
    let fine = !name.is_empty() && name.len() <= ATTRIBUTE_NAME_SIZE_MAX && !name.chars().any(char::is_control);
    if !fine {
        let message = format!("{:?} is not an attribute's name", name.chars().take(60).collect::<String>());
        let remedy = format!("use 1 to {ATTRIBUTE_NAME_SIZE_MAX} bytes without control characters");
        sink.fault(&rules::NAME, span, message, remedy);
    }
    fine
}

/// A name of our own (entity, aggregate, …), which goes into keys, markers and reports.
pub(super) fn check_own_name(sink: &mut Sink, name: &str, span: std::ops::Range<usize>) {
    let fine = name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if !fine {
        let message = format!("{:?} cannot be a name here", name.chars().take(60).collect::<String>());
        sink.fault(&rules::NAME, span, message, "begin with a letter, then letters, digits, `_`, `-`; at most 64");
    }
}

fn take_name(sink: &mut Sink, root: &mut Fields<'_>, key: &'static str) -> Option<String> {
    let field = root.take(sink, key)?;
    let name = field.text(sink)?;
    check_own_name(sink, &name, field.span());
    Some(name)
}

fn checked_aws_name(sink: &mut Sink, field: &Field<'_>) -> Option<String> {
    let name = field.text(sink)?;
    check_aws_name(sink, &name, field.span());
    Some(name)
}

fn check_aws_name(sink: &mut Sink, name: &str, span: std::ops::Range<usize>) {
    let fine =
        TABLE_NAME_SIZES.contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    if !fine {
        let message = format!("{:?} is no name of a table or index", name.chars().take(60).collect::<String>());
        sink.fault(&rules::NAME, span, message, "AWS takes 3 to 255 of letters, digits, `_`, `.`, `-`");
    }
}

fn read_disclosure(sink: &mut Sink, root: &mut Fields<'_>) -> Disclosure {
    let Some(mut fields) = root.take(sink, "findings").and_then(|field| field.fields(sink)) else {
        return Disclosure::default();
    };
    let mut word = |name: &'static str, words: &[&str]| fields.take(sink, name)?.one_of(sink, words);
    let (values, keys) = (word("values", &["show", "redact"]), word("keys", &["plain", "hash"]));
    fields.finish(sink);
    let hash_keys = keys.as_deref() == Some("hash");
    if hash_keys && values.as_deref() == Some("show") {
        let message =
            "`values = \"show\"` does not go with `keys = \"hash\"`: values and messages quote keys".to_owned();
        let span = sink.value_span(&["findings", "values"]);
        sink.fault(&rules::OPTION_MISPLACED, span, message, "write `values = \"redact\"`, or leave it out");
    }
    Disclosure { redact_values: hash_keys || values.as_deref() == Some("redact"), hash_keys }
}

/// What a report is called: its file's name without folder and ending.
fn report_stem(name: &str) -> &str {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    file.strip_suffix(".toml").unwrap_or(file)
}

fn read_reports(sink: &mut Sink, root: &mut Fields<'_>) -> ReportDefaults {
    let Some(mut fields) = root.take(sink, "reports").and_then(|field| field.fields(sink)) else {
        return ReportDefaults::default();
    };
    let names = fields.take(sink, "names").map(|field| field.placed_texts(sink)).unwrap_or_default();
    fields.finish(sink);
    for (at, (name, span)) in names.iter().enumerate() {
        if let Some((other, _)) = names[..at].iter().find(|(other, _)| report_stem(other) == report_stem(name)) {
            let message = format!(
                "`{other}` and `{name}` are one report: files of reports are told apart by their names without folder"
            );
            sink.fault(&rules::DUPLICATE, span.clone(), message, "give one of the files another name");
        }
    }
    ReportDefaults { names: names.into_iter().map(|(name, span)| ReportName { name, span }).collect() }
}
