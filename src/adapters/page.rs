//! A report as one self-contained page and as CSV, both from the same [`ReportData`]; and an audit likewise.
//!
//! The problem: the page goes by mail to people who open it anywhere, prints, and years later must still say what it was
//! made from. So it loads nothing from outside and runs no script, every text in it is escaped, and its head states the
//! date, the zone, the table, the model and a hash of the input.
//!
//! Contract: the same data gives the same bytes.

mod audit;
mod csv;

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, context};

use crate::report::chart;
use crate::report::data::{Header, HeadlineData, ReportData, SectionData, VERSION};
use crate::report::dataset::Cell;
use crate::report::definition::Column;
use crate::report::format::{Format, Tone};

pub use audit::{AuditPage, audit_csv, audit_html};
pub use csv::{Encoding, csv};

const PAGE: &str = include_str!("../../reports/page.html");
const STYLE: &str = include_str!("../../reports/page.css");
const TEMPLATE: &str = "page.html";
const AUDIT: &str = include_str!("../../reports/audit.html");
const AUDIT_TEMPLATE: &str = "audit.html";
/// Room that a table's columns may take beside a chart: 1 for figures, 2 for words. A wider one stands below it.
const ROOM_BESIDE_CHART: usize = 9;

/// Why a page or a file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("the page template does not render: {0}")]
    Template(#[from] minijinja::Error),
    #[error("the CSV of section `{section}` cannot be written: {reason}")]
    Csv { section: String, reason: String },
}

static TEMPLATES: LazyLock<Result<Environment<'static>, minijinja::Error>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_template(TEMPLATE, PAGE)?;
    environment.add_template(AUDIT_TEMPLATE, AUDIT)?;
    Ok(environment)
});

fn templates() -> Result<&'static Environment<'static>, PageError> {
    let broken = |error: &minijinja::Error| PageError::Template(minijinja::Error::new(error.kind(), error.to_string()));
    TEMPLATES.as_ref().map_err(broken)
}

/// The report as one HTML page.
///
/// # Errors
/// Only where the embedded template is broken.
pub fn html(data: &ReportData) -> Result<String, PageError> {
    let page = context! {
        title => data.title.as_str(),
        intro => data.intro.clone(),
        // Ours alone, and it must not be escaped.
        style => Value::from_safe_string(STYLE.to_owned()),
        version => VERSION,
        report => data.name.as_str(),
        facts => facts(&data.header),
        as_of => data.header.as_of.to_string(),
        entities => list(data.header.entities.iter().filter(|(_, count)| *count > 0), |(name, count)| {
            context! { name => name.as_str(), count => *count }
        }),
        unrecognised => data.header.unrecognised,
        headlines => list(&data.headlines, headline),
        sections => list(&data.sections, |one| section(data, one)),
        left_out => list(&data.left_out, |one| {
            context! { title => one.title.as_str(), missing => one.missing.join(", ") }
        }),
    };
    Ok(templates()?.get_template(TEMPLATE)?.render(page)?)
}

/// One file of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub name: String,
    pub content_type: &'static str,
    pub bytes: Vec<u8>,
}

/// All files of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    pub page: File,
    /// One a section.
    pub csv: Vec<File>,
}

/// Writes all files of a report.
///
/// # Errors
/// As [`html`] and [`csv()`].
pub fn files(data: &ReportData, encoding: Encoding) -> Result<Files, PageError> {
    let page = File {
        name: format!("{}.html", data.name),
        content_type: "text/html; charset=utf-8",
        bytes: html(data)?.into_bytes(),
    };
    let csv = csv(data, encoding)?.into_iter();
    let csv = csv.map(|(name, bytes)| File { name, content_type: "text/csv; charset=utf-8", bytes }).collect();
    Ok(Files { page, csv })
}

fn list<T>(values: impl IntoIterator<Item = T>, one: impl Fn(T) -> Value) -> Value {
    values.into_iter().map(one).collect::<Vec<Value>>().into()
}

/// The head: label, value, and whether the value is code-like.
fn facts(header: &Header) -> Value {
    let freshness = &header.freshness;
    let mut facts: Vec<(&str, String)> = vec![
        ("As of", format!("{} (end of day)", header.as_of)),
        ("Time zone", header.zone.clone()),
        ("Table", header.table.clone()),
        ("Model", header.model.clone()),
        ("Items", Format::Integer.show(&Cell::Int(header.items() as i64))),
    ];
    if let Some(source) = &freshness.source {
        facts.push(("Read from", source.clone()));
    }
    if let Some(at) = &freshness.changed_at {
        facts.push(("Last change", at.format("%Y-%m-%d %H:%M:%S UTC").to_string()));
    }
    if let Some(sequence) = &freshness.last_sequence {
        facts.push(("Stream position", sequence.clone()));
    }
    // 16 digits tell any two inputs apart; the whole hash would push the figures off a phone's screen.
    facts.push(("Input hash", header.input_hash.chars().take(16).collect()));
    list(facts, |(label, value)| context! { label, value })
}

fn headline(one: &HeadlineData) -> Value {
    let tone = one.status.as_deref().map_or(Tone::Neutral, Tone::of);
    context! {
        title => one.title.as_str(),
        value => one.format.show(&one.value),
        note => one.note.clone(),
        status => one.status.as_ref().map(|word| Format::Status.show(&Cell::Text(word.clone()))),
        tone => tone.name(),
    }
}

fn section(data: &ReportData, one: &SectionData) -> Value {
    let rows = one.page_rows();
    let total = one.table.rows.len();
    let chart = one.chart.as_ref().filter(|_| total > 0);
    let cut = (rows.len() < total).then(|| {
        let file = csv::file_name(data, one);
        let (shown, all) = (Cell::Int(rows.len() as i64), Cell::Int(total as i64));
        format!("{} of {} rows; the full list is in {file}.", Format::Integer.show(&shown), Format::Integer.show(&all))
    });
    context! {
        id => one.id.as_str(),
        title => one.title.as_str(),
        intro => one.intro.clone(),
        empty => one.empty.as_str(),
        count => total,
        cut,
        beside => chart.is_some() && room(&one.columns) <= ROOM_BESIDE_CHART,
        // Our own writer has escaped every text in it.
        chart => chart.map(|picture| Value::from_safe_string(chart::svg(picture, &one.id))),
        columns => list(&one.columns, |column| {
            context! { title => column.title.as_str(), numeric => column.format.is_numeric() }
        }),
        rows => list(rows, |row| list(one.shown(row), |(column, cell)| shown(column, cell))),
    }
}

fn room(columns: &[Column]) -> usize {
    columns.iter().map(|column| if column.format.is_numeric() { 1 } else { 2 }).sum()
}

fn shown(column: &Column, cell: &Cell) -> Value {
    let tone = match (column.format, cell) {
        (Format::Status, Cell::Text(word)) => Some(column.tones.get(word).copied().unwrap_or_else(|| Tone::of(word))),
        _ => None,
    };
    context! {
        text => column.format.show(cell),
        tone => tone.map(Tone::name),
        numeric => column.format.is_numeric(),
        none => cell.is_null(),
    }
}
