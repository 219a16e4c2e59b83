//! A finished report as data: all that pages, charts and CSV are written from.

use chrono::NaiveDate;

use super::chart::Picture;
use super::dataset::{Cell, Table};
use super::definition::Column;
use super::format::Format;
use super::input::Freshness;

/// The tool's version, printed on every page: the same version, input and date give the same bytes.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A finished report.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportData {
    /// The definition's name: `quality-weekly`.
    pub name: String,
    pub title: String,
    pub intro: Option<String>,
    pub header: Header,
    pub headlines: Vec<HeadlineData>,
    pub sections: Vec<SectionData>,
    pub left_out: Vec<LeftOut>,
}

/// What the report speaks about, and how one can check that.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    pub model: String,
    pub table: String,
    pub as_of: NaiveDate,
    /// IANA name.
    pub zone: String,
    pub freshness: Freshness,
    /// Items of each entity, in the model's order; entities without items too.
    pub entities: Vec<(String, usize)>,
    /// Items that are of no entity, or of several.
    pub unrecognised: usize,
    pub input_hash: String,
    pub model_hash: String,
    pub definition_hash: String,
}

/// One card.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadlineData {
    pub title: String,
    pub value: Cell,
    pub format: Format,
    pub note: Option<String>,
    pub status: Option<String>,
}

/// One section with its rows in their final order.
#[derive(Debug, Clone, PartialEq)]
pub struct SectionData {
    pub id: String,
    pub title: String,
    pub intro: Option<String>,
    /// What is shown; each is a column of `table`.
    pub columns: Vec<Column>,
    pub table: Table,
    pub chart: Option<Picture>,
    pub empty: String,
    /// Most rows on the page; CSV has all.
    pub limit: usize,
}

/// A figure or section that the model has no data for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub title: String,
    /// The entities and attributes that the model does not declare.
    pub missing: Vec<String>,
}

impl Header {
    /// All items that were read.
    pub fn items(&self) -> usize {
        self.unrecognised + self.entities.iter().map(|(_, count)| count).sum::<usize>()
    }
}

impl SectionData {
    /// The shown cells of one row, each with its column.
    pub fn shown<'d>(&'d self, row: &'d [Cell]) -> impl Iterator<Item = (&'d Column, &'d Cell)> {
        self.columns.iter().filter_map(|column| Some((column, row.get(self.table.column(&column.name)?)?)))
    }

    /// The rows that the page shows.
    pub fn page_rows(&self) -> &[Vec<Cell>] {
        &self.table.rows[..self.table.rows.len().min(self.limit)]
    }
}

impl Column {
    /// A column for a query's column of which the definition says nothing: the format by its first value.
    pub fn inferred(table: &Table, at: usize) -> Column {
        let name = table.columns[at].clone();
        let format = match table.rows.iter().map(|row| &row[at]).find(|cell| !cell.is_null()) {
            Some(Cell::Int(_)) => Format::Integer,
            Some(Cell::Num(_)) => Format::Number(None),
            Some(Cell::Date(_)) => Format::Date,
            _ => Format::Text,
        };
        Column { title: name.clone(), name, format, tones: Default::default() }
    }
}
