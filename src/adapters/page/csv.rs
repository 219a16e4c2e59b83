//! CSV: one file a section, all rows, and nothing that a spreadsheet would run.
//!
//! A text cell that a spreadsheet would take for a formula gets an apostrophe in front. Numbers are typed and are never
//! touched, or a negative figure would become a text.

use super::PageError;
use crate::report::data::{ReportData, SectionData};
use crate::report::dataset::Cell;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// How the text is encoded: spreadsheets that open mailed files need the mark, machines stumble over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    #[default]
    Utf8,
    Utf8WithMark,
}

/// One (file name, bytes) for each section, in the report's order; the columns and titles are the page's.
///
/// # Errors
/// Where the writer refuses a row; it has no reason to.
pub fn csv(data: &ReportData, encoding: Encoding) -> Result<Vec<(String, Vec<u8>)>, PageError> {
    data.sections
        .iter()
        .map(|section| match write(section, encoding) {
            Ok(bytes) => Ok((file_name(data, section), bytes)),
            Err(reason) => Err(PageError::Csv { section: section.id.clone(), reason }),
        })
        .collect()
}

/// `<report>-<section>.csv`.
pub(super) fn file_name(data: &ReportData, section: &SectionData) -> String {
    format!("{}-{}.csv", data.name, section.id)
}

fn write(section: &SectionData, encoding: Encoding) -> Result<Vec<u8>, String> {
    let bytes = match encoding {
        Encoding::Utf8 => Vec::new(),
        Encoding::Utf8WithMark => BYTE_ORDER_MARK.to_vec(),
    };
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(bytes);
    let titles = section.columns.iter().map(|column| harmless(&column.title));
    writer.write_record(titles).map_err(|error| error.to_string())?;
    for row in &section.table.rows {
        let cells = section.shown(row).map(|(_, cell)| plain(cell));
        writer.write_record(cells).map_err(|error| error.to_string())?;
    }
    writer.into_inner().map_err(|error| error.to_string())
}

/// The cell for machines: full precision, ISO dates, nothing for no data.
fn plain(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Bool(flag) => flag.to_string(),
        Cell::Int(number) => number.to_string(),
        Cell::Num(number) if !number.is_finite() => String::new(),
        Cell::Num(number) if *number != 0.0 && !(1e-5..1e16).contains(&number.abs()) => format!("{number:e}"),
        Cell::Num(number) => number.to_string(),
        Cell::Date(date) => date.format("%Y-%m-%d").to_string(),
        Cell::Text(text) => harmless(text),
    }
}

/// The text, with an apostrophe in front if a spreadsheet could read it as a formula.
pub(super) fn harmless(text: &str) -> String {
    let skipped = |c: &char| c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}' | '"' | '\'' | '`');
    let starts_with_control = text.starts_with(['\t', '\r', '\n']);
    let first = text.chars().find(|c| !skipped(c));
    let is_formula = first.is_some_and(|c| matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠'));
    if starts_with_control || is_formula { format!("'{text}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_text() {
        let cases = ["=1+1", "+cmd|x", "@SUM(A1)", "-2+3+cmd|'/c calc'!A1", "\t=1", "\r=1", "\nx", "＝1", "＠x"];
        for text in cases.into_iter().chain(["\u{feff}=1", "  +1", "\"=1", "'=1", " \u{a0}-1"]) {
            assert_eq!(harmless(text), format!("'{text}"), "{text:?}");
        }
        for text in ["", "a=1", "Smith, \"A\"\nB", "00123", "1E5", "x-1", "#1", "'quoted'"] {
            assert_eq!(harmless(text), text);
        }
    }

    #[test]
    fn numbers_are_never_touched() {
        assert_eq!(plain(&Cell::Num(-5.0)), "-5");
        assert_eq!(plain(&Cell::Num(-1e-7)), "-1e-7");
        assert_eq!(plain(&Cell::Int(-3)), "-3");
        assert_eq!(plain(&Cell::Num(0.1)), "0.1");
        assert_eq!(plain(&Cell::Null), "");
        assert_eq!(plain(&Cell::Num(f64::NAN)), "");
    }
}
