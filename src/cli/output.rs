//! How results look: tables that line up, colour on a terminal only, JSON with exact numbers.

use std::io::{ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::value::RawValue;
use tablekeeper::model::decimal::Decimal;
use tablekeeper::model::derived::Severity;

use super::context::Exit;

pub const BOLD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();
pub const GOOD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green))).bold();
pub const BAD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red))).bold();
pub const WARN: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));

/// The text in a style; `anstream` takes the codes out where standard output is no terminal.
pub fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Set once a line was written.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Set once a line could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Set if results, and so errors, are printed as JSON.
static JSON: AtomicBool = AtomicBool::new(false);

pub fn print_json() {
    JSON.store(true, Ordering::Relaxed);
}

pub fn wants_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// A line on standard output. A closed pipe (`| head`) ends the output, it is no error of ours; a full disk is, see [`is_lost`].
pub fn line(text: impl std::fmt::Display) {
    BEGUN.store(true, Ordering::Relaxed);
    written(writeln!(anstream::stdout(), "{text}"));
}

fn written(result: std::io::Result<()>) {
    if let Err(error) = result
        && error.kind() != ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        lost(&error);
    }
}

/// A whole document on standard output, as it is.
pub fn document(bytes: &[u8]) {
    written(std::io::stdout().write_all(bytes));
}

/// True if a part of the output could not be written, so that the run is incomplete.
pub fn is_lost() -> bool {
    written(std::io::stdout().flush());
    LOST.load(Ordering::Relaxed)
}

fn lost(error: &std::io::Error) {
    fault(format_args!("standard output cannot be written: {error}"), Exit::Incomplete);
}

/// A hint or a progress report on standard error; as JSON it is told apart from an error.
pub fn warn(text: impl std::fmt::Display) {
    if wants_json() {
        json_line(&serde_json::json!({"warning": {"message": text.to_string()}}));
    } else {
        let _ = writeln!(anstream::stderr(), "{text}");
    }
}

/// Something that went wrong and does not end the command at once; `exit` is how it will end for that.
pub fn fault(text: impl std::fmt::Display, exit: Exit) {
    if wants_json() {
        json_error(&text.to_string(), exit);
    } else {
        warn(format_args!("error: {text}"));
    }
}

/// A heading with an empty line before it, but for what comes first.
pub fn heading(text: &str) {
    let before = if BEGUN.load(Ordering::Relaxed) { "\n" } else { "" };
    line(format_args!("{before}{}", paint(BOLD, text)));
}

/// Characters of a line of running text: those of the terminal, within what can be read.
pub fn width() -> usize {
    Table::new().width().map_or(80, usize::from).clamp(40, 100)
}

/// The text's words in lines of at most `width` characters; a longer word has a line of its own.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line =
            lines.last_mut().filter(|line| line.is_empty() || line.chars().count() + 1 + word.chars().count() <= width);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Indented pretty JSON and a newline.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(serde_json::to_string_pretty(value)?);
    Ok(())
}

/// An error as one line of JSON on standard error, for those who asked for JSON.
pub fn json_error(message: &str, exit: Exit) {
    json_line(&serde_json::json!({"error": {"message": message, "exit": exit as u8}}));
}

fn json_line(object: &serde_json::Value) {
    let _ = writeln!(std::io::stderr(), "{object}");
}

/// A number as a JSON number with all of its digits.
pub fn exact(number: &Decimal) -> Box<RawValue> {
    let text = number.to_string();
    // A decimal's text is a JSON number but for a plus sign in an exponent's place, which JSON allows as well.
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A table without frames: a header, then rows.
pub struct Grid {
    table: Table,
}

impl Grid {
    pub fn new(header: &[&str]) -> Grid {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        if table.width().is_none() {
            table.set_width(200);
        }
        table.set_header(header.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
        Grid { table }
    }

    /// Numbers in these columns are aligned right.
    pub fn right(mut self, columns: &[usize]) -> Grid {
        for column in columns {
            if let Some(column) = self.table.column_mut(*column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        self.table.add_row(cells.into_iter().map(Into::into).collect::<Vec<Cell>>());
    }

    pub fn print(&self) {
        for text in self.table.to_string().lines() {
            line(format_args!("  {}", text.trim_end()));
        }
    }
}

/// A severity as a table cell in its colour.
pub fn severity_cell(severity: Severity) -> Cell {
    let color = match severity {
        Severity::Error => comfy_table::Color::Red,
        Severity::Warning => comfy_table::Color::Yellow,
        Severity::Info => comfy_table::Color::Blue,
    };
    Cell::new(severity.name()).fg(color)
}

/// `1 item`, `2 items`.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_none_is_lost() {
        assert_eq!(wrapped("one two\nthree four", 9), ["one two", "three", "four"]);
        assert_eq!(wrapped("a much-too-long word", 6), ["a", "much-too-long", "word"]);
        assert_eq!(wrapped("exactly 10", 10), ["exactly 10"]);
        assert_eq!(wrapped("", 10), [""]);
    }
}
