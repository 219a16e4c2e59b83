//! Reports by SQL: the items as frames, the definition's queries over them by polars, typed answers in a fixed order.
//!
//! The problem: a query engine answers in whatever order its threads finish, knows nothing of the model, and fails with its
//! own words. So frames are built here from the model (columns are there even without items), every answer is put into
//! a fixed order, and an error names the report, the section, the query and the columns there are.
//!
//! Frames:
//! - one for each entity, by its name: its declared attributes, the key variables that are not attributes (text) and `_key`
//!   (text). `N` is a whole number where every value is one, else a float; `format = "date"` is a date; a timestamp stays
//!   text and has a second column `<name>_day`, the civil day in the model's zone. Sentinels, absent values and values of
//!   another type are null;
//! - `findings`: code, severity, severity_order (1 is error), entity, attribute, expected, actual, message, _key;
//! - `expiries`: name, entity, subject, owner, date (the last valid day), days_left, state (overdue, due_today, upcoming,
//!   scheduled), _key (the source item's);
//! - `aggregates`: name, group_value (the group's values joined by ` / `), measure, value, _key; one row a measure;
//! - `sets`: entity, attribute, value, position: every value of every declared set, also those that no item has;
//! - `params`: one row with as_of, zone, model.
//!
//! `:as_of` in a query is the date of the report.

mod collect;
mod column;
mod frames;
mod query;
#[cfg(test)]
mod tests;

use crate::model::spec::Model;
use crate::report::chart::Picture;
use crate::report::data::{Header, HeadlineData, LeftOut, ReportData, SectionData};
use crate::report::dataset::{Cell, Table};
use crate::report::definition::{Column, Definition, Headline, Section};
use crate::report::input::ReportInput;
use query::Engine;

pub use collect::collect;

/// Why a report could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    #[error("report `{report}`, {place}: the query failed: {reason}\nquery: {sql}\nthere is: {columns}")]
    Query { report: String, place: String, reason: String, sql: String, columns: String },
    #[error(
        "report `{report}`, {place}: `{column}` is not a column of the query, which gives {columns}; \
         name it in the query with AS\nquery: {sql}"
    )]
    Column { report: String, place: String, column: String, columns: String, sql: String },
    #[error("report `{report}`, {place}: the query gave {rows} rows where one is wanted; aggregate it\nquery: {sql}")]
    NotOneRow { report: String, place: String, rows: usize, sql: String },
    #[error("the items of `{frame}` cannot be made a frame: {reason}")]
    Frame { frame: String, reason: String },
}

/// Runs all queries of a definition.
///
/// # Errors
/// The first query that fails or lacks a column that the definition shows.
pub fn run(definition: &Definition, input: &ReportInput<'_>) -> Result<ReportData, ReportError> {
    let mut engine = Engine::new(&definition.name, input)?;
    let missing = |needs: &[String]| -> Vec<String> {
        needs.iter().filter(|need| !is_declared(input.model, need)).cloned().collect()
    };
    let mut left_out = Vec::new();
    let mut headlines = Vec::new();
    for headline in &definition.headlines {
        match missing(&headline.needs) {
            missing if missing.is_empty() => headlines.push(run_headline(&mut engine, headline)?),
            missing => left_out.push(LeftOut { title: headline.title.clone(), missing }),
        }
    }
    let mut sections = Vec::new();
    for section in &definition.sections {
        match missing(&section.needs) {
            missing if missing.is_empty() => sections.push(run_section(&mut engine, section)?),
            missing => left_out.push(LeftOut { title: section.title.clone(), missing }),
        }
    }
    Ok(ReportData {
        name: definition.name.clone(),
        title: definition.title.clone(),
        intro: definition.intro.clone(),
        header: header(definition, input),
        headlines,
        sections,
        left_out,
    })
}

/// Whether the model has the entity, or `Entity.Attribute`.
fn is_declared(model: &Model, need: &str) -> bool {
    let (entity, attribute) = need.split_once('.').map_or((need, None), |(entity, name)| (entity, Some(name)));
    model.entity(entity).is_some_and(|entity| attribute.is_none_or(|name| entity.attribute(name).is_some()))
}

fn header(definition: &Definition, input: &ReportInput<'_>) -> Header {
    let model = input.model;
    let of = |name: &str| input.items.iter().filter(|item| item.entity.as_deref() == Some(name)).count();
    let entities: Vec<(String, usize)> =
        model.entities.iter().map(|entity| (entity.name.clone(), of(&entity.name))).collect();
    let recognised: usize = entities.iter().map(|(_, count)| count).sum();
    Header {
        model: model.name.clone(),
        table: model.table.name.clone(),
        as_of: input.as_of,
        zone: model.zone.name().to_owned(),
        freshness: input.freshness.clone(),
        unrecognised: input.items.len() - recognised,
        entities,
        input_hash: input.hash(),
        model_hash: model.hash.to_string(),
        definition_hash: definition.hash.clone(),
    }
}

fn run_headline(engine: &mut Engine<'_>, headline: &Headline) -> Result<HeadlineData, ReportError> {
    let place = format!("headline `{}`", headline.title);
    let table = engine.query(&place, &headline.sql)?;
    let [row] = table.rows.as_slice() else {
        let (report, sql) = (engine.report.to_owned(), headline.sql.clone());
        return Err(ReportError::NotOneRow { report, place, rows: table.rows.len(), sql });
    };
    let text = |name: &str| match table.column(name).map(|at| &row[at]) {
        Some(Cell::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let value = engine.column(&place, &headline.sql, &table, "value")?;
    Ok(HeadlineData {
        title: headline.title.clone(),
        value: row[value].clone(),
        format: headline.format,
        note: text("note"),
        status: text("status"),
    })
}

fn run_section(engine: &mut Engine<'_>, section: &Section) -> Result<SectionData, ReportError> {
    let place = format!("section `{}`", section.id);
    let mut table = engine.query(&place, &section.sql)?;
    let names = section.order.iter().map(|by| &by.column).chain(section.columns.iter().map(|column| &column.name));
    for name in names {
        engine.column(&place, &section.sql, &table, name)?;
    }
    table.sort(&section.order);
    let columns = match section.columns.is_empty() {
        true => (0..table.columns.len()).map(|at| Column::inferred(&table, at)).collect(),
        false => section.columns.clone(),
    };
    let chart = match &section.chart {
        Some(chart) => Some(
            Picture::of(chart, &section.title, &columns, &table)
                .map_err(|column| engine.no_column(&place, &section.sql, &table, &column))?,
        ),
        None => None,
    };
    Ok(SectionData {
        id: section.id.clone(),
        title: section.title.clone(),
        intro: section.intro.clone(),
        columns,
        table,
        chart,
        empty: section.empty.clone(),
        limit: section.limit,
    })
}

impl Engine<'_> {
    fn column(&self, place: &str, sql: &str, table: &Table, name: &str) -> Result<usize, ReportError> {
        table.column(name).ok_or_else(|| self.no_column(place, sql, table, name))
    }

    fn no_column(&self, place: &str, sql: &str, table: &Table, name: &str) -> ReportError {
        ReportError::Column {
            report: self.report.to_owned(),
            place: place.to_owned(),
            column: name.to_owned(),
            columns: table.columns.join(", "),
            sql: sql.to_owned(),
        }
    }
}
