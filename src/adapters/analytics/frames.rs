//! The frames that queries may name, built from the model first and the items second.

use polars::prelude::DataFrame;

use super::ReportError;
use super::column::{Kind, frame, number};
use crate::model::derived::Severity;
use crate::model::spec::{Attribute, Entity, Format};
use crate::model::time;
use crate::model::value::{self, Item, Value};
use crate::report::dataset::Cell;
use crate::report::input::{ReportInput, SourceItem};

/// The column with the item's key in all frames of items.
const KEY: &str = "_key";
/// Appended to a timestamp's name: its civil day in the model's zone.
const DAY: &str = "_day";

type Columns = Vec<(String, Kind, Vec<Cell>)>;

/// All frames by name, entities first. A frame of Tablekeeper's own is never hidden by an entity of the same name.
pub fn build(input: &ReportInput<'_>) -> Result<Vec<(String, DataFrame)>, ReportError> {
    let own = [
        ("findings", findings(input)),
        ("expiries", expiries(input)),
        ("aggregates", aggregates(input)),
        ("sets", sets(input)),
        ("params", params(input)),
    ];
    let mut frames = Vec::new();
    for entity in &input.model.entities {
        if own.iter().any(|(name, _)| *name == entity.name) {
            let reason = "Tablekeeper has a frame of that name itself; rename the entity in the model".to_owned();
            return Err(ReportError::Frame { frame: entity.name.clone(), reason });
        }
        let items: Vec<&SourceItem> =
            input.items.iter().filter(|item| item.entity.as_deref() == Some(entity.name.as_str())).collect();
        frames.push(make(&entity.name, items.len(), entity_columns(input, entity, &items))?);
    }
    for (name, columns) in own {
        let height = columns.first().map_or(0, |(_, _, cells)| cells.len());
        frames.push(make(name, height, columns)?);
    }
    Ok(frames)
}

fn make(name: &str, height: usize, columns: Columns) -> Result<(String, DataFrame), ReportError> {
    match frame(height, columns) {
        Ok(frame) => Ok((name.to_owned(), frame)),
        Err(error) => Err(ReportError::Frame { frame: name.to_owned(), reason: error.to_string() }),
    }
}

fn entity_columns(input: &ReportInput<'_>, entity: &Entity, items: &[&SourceItem]) -> Columns {
    let mut columns: Columns = Vec::new();
    let mut add = |name: String, kind: Kind, cells: Vec<Cell>| {
        // The first of a name wins: an attribute `X_day` of the owner's is not hidden by ours.
        if columns.iter().all(|(known, ..)| *known != name) {
            columns.push((name, kind, cells));
        }
    };
    for attribute in &entity.attributes {
        let values: Vec<Option<&Value>> = items.iter().map(|item| stored(attribute, &item.item)).collect();
        let kind = kind(attribute);
        add(attribute.name.clone(), kind, values.iter().map(|value| cell(kind, *value)).collect());
    }
    for variable in variables(entity) {
        let text = |item: &&SourceItem| item.variables.get(&variable).cloned().map_or(Cell::Null, Cell::Text);
        add(variable.clone(), Kind::Text, items.iter().map(text).collect());
    }
    for attribute in entity.attributes.iter().filter(|attribute| is_instant(attribute)) {
        let day = |item: &&SourceItem| day(input, attribute, stored(attribute, &item.item));
        add(format!("{}{DAY}", attribute.name), Kind::Date, items.iter().map(day).collect());
    }
    add(KEY.to_owned(), Kind::Text, items.iter().map(|item| Cell::Text(item.key.to_string())).collect());
    columns
}

/// The attribute's value under its name or an alias; sentinels for "none" are none.
fn stored<'i>(attribute: &Attribute, item: &'i Item) -> Option<&'i Value> {
    let value = [&attribute.name].into_iter().chain(&attribute.aliases).find_map(|name| item.get(name))?;
    let is_none = value.as_text().is_some_and(|text| attribute.none.iter().any(|none| none == text));
    (!is_none).then_some(value)
}

fn kind(attribute: &Attribute) -> Kind {
    match (attribute.kind, attribute.format) {
        (value::Kind::S, Some(Format::Date)) => Kind::Date,
        (value::Kind::N, _) => Kind::Number,
        (value::Kind::Bool, _) => Kind::Bool,
        _ => Kind::Text,
    }
}

fn is_instant(attribute: &Attribute) -> bool {
    matches!(attribute.format, Some(Format::Timestamp | Format::TimestampUtc | Format::EpochSeconds))
}

fn cell(kind: Kind, value: Option<&Value>) -> Cell {
    let Some(value) = value else { return Cell::Null };
    match (kind, value) {
        (Kind::Date, Value::S(text)) => time::parse_date(text).map_or(Cell::Null, Cell::Date),
        (Kind::Number, Value::N(decimal)) => number(decimal),
        (Kind::Bool, Value::Bool(flag)) => Cell::Bool(*flag),
        (Kind::Text, Value::S(text)) => Cell::Text(text.to_string()),
        (Kind::Text, Value::Ss(set)) => Cell::Text(set.iter().cloned().collect::<Vec<_>>().join(", ")),
        (Kind::Text, Value::Ns(set)) => Cell::Text(set.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        (Kind::Text, Value::L(list)) => Cell::Text(list.iter().map(plain).collect::<Vec<_>>().join(", ")),
        (Kind::Text, Value::M(_) | Value::B(_) | Value::Bs(_)) => Cell::Text(value.shown()),
        _ => Cell::Null,
    }
}

fn plain(value: &Value) -> String {
    value.as_text().map_or_else(|| value.shown(), str::to_owned)
}

fn day(input: &ReportInput<'_>, attribute: &Attribute, value: Option<&Value>) -> Cell {
    let Some(value) = value else { return Cell::Null };
    let instant = match (attribute.format, value) {
        (Some(Format::EpochSeconds), value) => {
            time::epoch_seconds(value).ok().and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0))
        }
        (_, Value::S(text)) => time::parse_timestamp(text).ok(),
        _ => None,
    };
    instant.map_or(Cell::Null, |instant| Cell::Date(instant.with_timezone(&input.model.zone).date_naive()))
}

/// The key variables that are not attributes, in the order of the keys.
fn variables(entity: &Entity) -> Vec<String> {
    let indexes = entity.indexes.iter().flat_map(|index| index.keys.iter().map(|(_, template)| template));
    let templates = [&entity.partition].into_iter().chain(&entity.sort).chain(indexes);
    let mut names = Vec::new();
    for variable in templates.flat_map(|template| template.variables()) {
        if entity.attribute(&variable.name).is_none() && !names.contains(&variable.name) {
            names.push(variable.name.clone());
        }
    }
    names
}

fn text(value: impl Into<String>) -> Cell {
    Cell::Text(value.into())
}

fn maybe(value: Option<&String>) -> Cell {
    value.cloned().map_or(Cell::Null, Cell::Text)
}

/// One column of the rows by a function of a row.
fn by<R>(rows: &[R], name: &str, kind: Kind, cell: impl Fn(&R) -> Cell) -> (String, Kind, Vec<Cell>) {
    (name.to_owned(), kind, rows.iter().map(cell).collect())
}

fn findings(input: &ReportInput<'_>) -> Columns {
    let rows = &input.findings;
    let order = |severity: Severity| match severity {
        Severity::Error => 1,
        Severity::Warning => 2,
        Severity::Info => 3,
    };
    vec![
        by(rows, "code", Kind::Text, |row| text(row.code.clone())),
        by(rows, "severity", Kind::Text, |row| text(row.severity.name())),
        by(rows, "severity_order", Kind::Number, |row| Cell::Int(order(row.severity))),
        by(rows, "entity", Kind::Text, |row| maybe(row.entity.as_ref())),
        by(rows, "attribute", Kind::Text, |row| maybe(row.attribute.as_ref())),
        by(rows, "expected", Kind::Text, |row| maybe(row.expected.as_ref())),
        by(rows, "actual", Kind::Text, |row| maybe(row.actual.as_ref())),
        by(rows, "message", Kind::Text, |row| text(row.message.clone())),
        by(rows, KEY, Kind::Text, |row| text(row.key.to_string())),
    ]
}

fn expiries(input: &ReportInput<'_>) -> Columns {
    let rows = &input.expiries;
    let zone = &input.model.zone;
    vec![
        by(rows, "name", Kind::Text, |row| text(row.name.clone())),
        by(rows, "entity", Kind::Text, |row| text(row.entity.clone())),
        by(rows, "subject", Kind::Text, |row| text(row.subject.clone())),
        by(rows, "owner", Kind::Text, |row| maybe(row.owner.as_ref())),
        by(rows, "date", Kind::Date, |row| row.last_day(input.as_of, zone).map_or(Cell::Null, Cell::Date)),
        by(rows, "days_left", Kind::Number, |row| Cell::Int(row.days_left(input.as_of, zone))),
        by(rows, "state", Kind::Text, |row| text(input.state(row).name())),
        by(rows, KEY, Kind::Text, |row| text(row.key.to_string())),
    ]
}

fn aggregates(input: &ReportInput<'_>) -> Columns {
    let rows: Vec<_> =
        input.aggregates.iter().flat_map(|row| row.measures.iter().map(move |measure| (row, measure))).collect();
    let group = |item: &Item| item.0.values().map(plain).collect::<Vec<_>>().join(" / ");
    vec![
        by(&rows, "name", Kind::Text, |(row, _)| text(row.name.clone())),
        by(&rows, "group_value", Kind::Text, |(row, _)| text(group(&row.group))),
        by(&rows, "measure", Kind::Text, |(_, (name, _))| text((*name).clone())),
        by(&rows, "value", Kind::Number, |(_, (_, value))| number(value)),
        by(&rows, KEY, Kind::Text, |(row, _)| text(row.key.to_string())),
    ]
}

fn sets(input: &ReportInput<'_>) -> Columns {
    let mut rows: Vec<(&str, &str, &str, i64)> = Vec::new();
    for entity in &input.model.entities {
        for attribute in &entity.attributes {
            let values = attribute.one_of.iter().zip(1i64..);
            rows.extend(values.map(|(value, at)| (entity.name.as_str(), attribute.name.as_str(), value.as_str(), at)));
        }
    }
    vec![
        by(&rows, "entity", Kind::Text, |row| text(row.0)),
        by(&rows, "attribute", Kind::Text, |row| text(row.1)),
        by(&rows, "value", Kind::Text, |row| text(row.2)),
        by(&rows, "position", Kind::Number, |row| Cell::Int(row.3)),
    ]
}

fn params(input: &ReportInput<'_>) -> Columns {
    let model = input.model;
    let one = |name: &str, kind: Kind, cell: Cell| (name.to_owned(), kind, vec![cell]);
    vec![
        one("as_of", Kind::Date, Cell::Date(input.as_of)),
        one("zone", Kind::Text, text(model.zone.name())),
        one("model", Kind::Text, text(model.name.clone())),
    ]
}
