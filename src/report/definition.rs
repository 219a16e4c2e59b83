//! Report definitions: `reports/*.toml`.
//!
//! A definition is data, so that a quality manager can add a section without building anything. All faults of a file are
//! reported at once, each with line, column and remedy.
//!
//! ```toml
//! version = 1
//! title = "Weekly report"
//!
//! [[headline]]                      # one card; the query gives one row: value, and if wanted note and status
//! title = "Overdue"
//! sql = "SELECT COUNT(*) AS value FROM expiries WHERE state = 'overdue'"
//! format = "integer"
//! needs = ["Device.CalibrationDue"] # left out, and said so, where the model has no such entity or attribute
//!
//! [[section]]
//! id = "overdue"                    # the anchor on the page and the name of the CSV file
//! title = "Overdue"
//! sql = "SELECT subject, days_left FROM expiries WHERE date < :as_of"
//! order = ["days_left", "subject"]  # `"x desc"` descends; ties are broken by all columns from left to right
//! columns = [{ name = "subject", title = "Device" }, { name = "days_left", title = "Left", format = "days" }]
//! chart = { kind = "bar", x = "subject", y = ["days_left"] }
//! empty = "Nothing overdue."
//! limit = 25                        # rows on the page; the CSV has all
//! ```

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};
use toml::de::DeTable;

use super::dataset::OrderBy;
use super::format::{Format, Tone};
use super::reader::{Faults, Reader, Text, suggestion};
use super::sql;
use crate::model::key::hex;
use crate::model::position::Fault;

/// The codes of faults in a report definition, with what each means.
pub const CODES: &[(&str, &str)] = &[
    ("C201", "the file is not TOML"),
    ("C202", "`version` is absent or not 1"),
    ("C203", "unknown key"),
    ("C204", "something needed is absent or empty"),
    ("C205", "a value has the wrong type"),
    ("C206", "a value is not one of those that are known: format, tone, kind of chart, id, order"),
    ("C207", "a name is used twice"),
    ("C208", "the query orders or cuts its own rows, so that ties would come out differently in each run"),
    ("C209", "the query uses a parameter that is not known"),
    ("C210", "a chart's columns do not fit its kind"),
    ("C211", "the query is not a SELECT"),
];

/// Rows on the page where the definition does not say.
pub const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 10_000;
/// Formats as remedies list them.
const FORMATS: [&str; 9] = ["text", "integer", "number", "number(2)", "percent", "date", "days", "due", "status"];
const ID_LENGTH_MAX: usize = 60;

/// A whole report definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The file's stem: `quality-weekly`.
    pub name: String,
    pub title: String,
    pub intro: Option<String>,
    pub headlines: Vec<Headline>,
    pub sections: Vec<Section>,
    /// SHA-256 of the file in hexadecimal.
    pub hash: String,
}

/// One figure at the top.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    pub title: String,
    /// Gives one row with the column `value`, and if wanted `note` (text) and `status` (a word for a badge).
    pub sql: String,
    pub format: Format,
    /// What the model must declare, else the figure means nothing: `Entity` or `Entity.Attribute`.
    pub needs: Vec<String>,
}

/// One query, shown as a table and perhaps as a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    pub id: String,
    pub title: String,
    pub intro: Option<String>,
    /// As [`Headline::needs`].
    pub needs: Vec<String>,
    pub sql: String,
    pub order: Vec<OrderBy>,
    /// Empty: all columns of the query, by their names.
    pub columns: Vec<Column>,
    pub chart: Option<Chart>,
    /// What to say where there are no rows.
    pub empty: String,
    /// Most rows on the page.
    pub limit: usize,
}

/// How one column of the query is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub name: String,
    pub title: String,
    pub format: Format,
    /// Tones of status words, besides the usual ones.
    pub tones: BTreeMap<String, Tone>,
}

/// A picture of the section's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chart {
    pub kind: ChartKind,
    /// Default: the section's title.
    pub title: Option<String>,
    /// The column with the categories.
    pub x: String,
    /// The columns with the figures; each is a series.
    pub y: Vec<String>,
    /// Long form: the column whose values name the series; `y` is then one column.
    pub series: Option<String>,
    /// Series whose colour says something, by column, or by value in long form.
    pub tones: BTreeMap<String, Tone>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartKind {
    Bar,
    StackedBar,
    HorizontalBar,
    Line,
}

impl ChartKind {
    pub const ALL: [ChartKind; 4] = [ChartKind::Bar, ChartKind::StackedBar, ChartKind::HorizontalBar, ChartKind::Line];

    pub fn name(self) -> &'static str {
        match self {
            ChartKind::Bar => "bar",
            ChartKind::StackedBar => "stacked-bar",
            ChartKind::HorizontalBar => "horizontal-bar",
            ChartKind::Line => "line",
        }
    }
}

/// Reads a definition; `name` is the file's stem.
///
/// # Errors
/// All faults of the file, in its order.
pub fn parse(source: &str, name: &str) -> Result<Definition, Vec<Fault>> {
    let mut faults = Faults::new(source);
    let table = match DeTable::parse(source) {
        Ok(table) => table,
        Err(error) => {
            let span = error.span().unwrap_or(0..0);
            faults.push("C201", span, error.message().to_owned(), "mend the TOML syntax there");
            return Err(faults.sorted());
        }
    };
    let mut root = Reader::new(table.get_ref(), 0..0, "the report");
    read_version(&mut root, &mut faults);
    let title = root.required("title", &mut faults);
    let intro = root.text("intro", &mut faults);
    let headlines = root.tables("headline", "headline", &mut faults);
    let headlines = headlines.into_iter().map(|reader| read_headline(reader, &mut faults)).collect();
    let sections = root.tables("section", "section", &mut faults);
    if sections.is_empty() {
        faults.push("C204", 0..0, "the report has no section", "add `[[section]]` with id, title and sql");
    }
    let mut ids = BTreeSet::new();
    let sections = sections.into_iter().map(|reader| read_section(reader, &mut ids, &mut faults)).collect();
    root.finish(&mut faults);
    if !faults.is_empty() {
        return Err(faults.sorted());
    }
    Ok(Definition {
        name: name.to_owned(),
        title: plain(title),
        intro: intro.map(|text| text.value),
        headlines,
        sections,
        hash: hex(&Sha256::digest(source.as_bytes())),
    })
}

fn read_version(root: &mut Reader<'_>, faults: &mut Faults<'_>) {
    match root.value("version") {
        Some(value) if value.get_ref().as_integer().is_some_and(|number| number.as_str() == "1") => {}
        Some(value) => faults.push("C202", value.span(), "this version is not known", "write `version = 1`"),
        None => faults.push("C202", 0..0, "the report has no `version`", "begin the file with `version = 1`"),
    }
}

fn read_headline(mut reader: Reader<'_>, faults: &mut Faults<'_>) -> Headline {
    let title = reader.required("title", faults);
    let sql = reader.required("sql", faults);
    check_query(sql.as_ref(), faults);
    let format = read_format(&mut reader, faults);
    let needs = values(reader.texts("needs", faults));
    reader.finish(faults);
    Headline { title: plain(title), sql: plain(sql), format, needs }
}

fn read_section(mut reader: Reader<'_>, ids: &mut BTreeSet<String>, faults: &mut Faults<'_>) -> Section {
    let id = reader.required("id", faults);
    if let Some(id) = &id {
        check_id(id, ids, faults);
    }
    let title = reader.required("title", faults);
    let intro = reader.text("intro", faults);
    let needs = values(reader.texts("needs", faults));
    let sql = reader.required("sql", faults);
    check_query(sql.as_ref(), faults);
    if let Some(sql) = &sql {
        check_order(sql, faults);
    }
    let order = reader.texts("order", faults).iter().filter_map(|text| read_order(text, faults)).collect();
    let columns = read_columns(&mut reader, faults);
    let chart = reader.table("chart", faults).and_then(|reader| read_chart(reader, faults));
    let empty = reader.text("empty", faults).map_or_else(|| "Nothing to show.".to_owned(), |text| text.value);
    let limit = reader.count("limit", LIMIT_MAX, faults).unwrap_or(LIMIT_DEFAULT);
    reader.finish(faults);
    Section {
        id: plain(id),
        title: plain(title),
        intro: intro.map(|text| text.value),
        needs,
        sql: plain(sql),
        order,
        columns,
        chart,
        empty,
        limit,
    }
}

fn read_columns(reader: &mut Reader<'_>, faults: &mut Faults<'_>) -> Vec<Column> {
    let what = format!("column of {}:", reader.name());
    let mut names = BTreeSet::new();
    let mut columns = Vec::new();
    for mut reader in reader.tables("columns", &what, faults) {
        let name = reader.required("name", faults);
        let title = reader.text("title", faults);
        let format = read_format(&mut reader, faults);
        let tones = reader.table("tones", faults).map(|reader| read_tones(&reader, faults)).unwrap_or_default();
        reader.finish(faults);
        let Some(name) = name else { continue };
        if !names.insert(name.value.clone()) {
            let message = format!("column `{}` is shown twice", name.value);
            faults.push("C207", name.span.clone(), message, "leave one of them out");
        }
        let title = title.map_or_else(|| name.value.clone(), |text| text.value);
        columns.push(Column { name: name.value, title, format, tones });
    }
    columns
}

fn read_tones(reader: &Reader<'_>, faults: &mut Faults<'_>) -> BTreeMap<String, Tone> {
    let mut tones = BTreeMap::new();
    for (word, tone) in reader.words(faults) {
        match Tone::parse(&tone.value) {
            Some(known) => {
                tones.insert(word.value, known);
            }
            None => {
                let message = format!("`{}` is not a tone", tone.value);
                faults.push("C206", tone.span, message, suggestion(&tone.value, Tone::ALL.iter().map(|t| t.name())));
            }
        }
    }
    tones
}

fn read_format(reader: &mut Reader<'_>, faults: &mut Faults<'_>) -> Format {
    let Some(text) = reader.text("format", faults) else { return Format::default() };
    Format::parse(&text.value).unwrap_or_else(|| {
        let remedy = suggestion(&text.value, FORMATS.into_iter());
        faults.push("C206", text.span, format!("`{}` is not a format", text.value), remedy);
        Format::default()
    })
}

fn read_chart(mut reader: Reader<'_>, faults: &mut Faults<'_>) -> Option<Chart> {
    let kind_text = reader.required("kind", faults);
    let title = reader.text("title", faults);
    let x = reader.required("x", faults);
    let y = reader.texts("y", faults);
    let series = reader.text("series", faults);
    let tones = reader.table("tones", faults).map(|reader| read_tones(&reader, faults)).unwrap_or_default();
    let span = reader.span();
    reader.finish(faults);
    let kind_text = kind_text?;
    let kind = ChartKind::ALL.into_iter().find(|kind| kind.name() == kind_text.value);
    if kind.is_none() {
        let message = format!("`{}` is not a kind of chart", kind_text.value);
        let remedy = suggestion(&kind_text.value, ChartKind::ALL.iter().map(|kind| kind.name()));
        faults.push("C206", kind_text.span, message, remedy);
    }
    if y.is_empty() {
        faults.push(
            "C210",
            span.clone(),
            "the chart has no `y`",
            "name the columns with the figures: `y = [\"total\"]`",
        );
    }
    if series.is_some() && y.len() > 1 {
        let message = "the chart has both `series` and several columns in `y`";
        faults.push("C210", span, message, "name one column in `y`, or leave `series` out");
    }
    let (title, series) = (title.map(|text| text.value), series.map(|text| text.value));
    Some(Chart { kind: kind?, title, x: x?.value, y: values(y), series, tones })
}

fn read_order(text: &Text, faults: &mut Faults<'_>) -> Option<OrderBy> {
    let mut words = text.value.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(column), None | Some("asc"), None) => Some(OrderBy { column: column.to_owned(), descending: false }),
        (Some(column), Some("desc"), None) => Some(OrderBy { column: column.to_owned(), descending: true }),
        _ => {
            let message = format!("`{}` is not an order", text.value);
            faults.push("C206", text.span.clone(), message, "write a column's name, or `\"name desc\"`");
            None
        }
    }
}

/// Ids become file names and anchors.
fn check_id(id: &Text, ids: &mut BTreeSet<String>, faults: &mut Faults<'_>) {
    let fine = id.value.len() <= ID_LENGTH_MAX
        && id.value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !fine {
        let message = format!("`{}` is not an id", id.value);
        let remedy = format!("use at most {ID_LENGTH_MAX} of a-z, 0-9 and `-`; it names a file");
        faults.push("C206", id.span.clone(), message, remedy);
    }
    if !ids.insert(id.value.clone()) {
        let message = format!("two sections have the id `{}`", id.value);
        faults.push("C207", id.span.clone(), message, "give each section an id of its own");
    }
}

fn check_query(sql: Option<&Text>, faults: &mut Faults<'_>) {
    let Some(sql) = sql.filter(|sql| !sql.value.trim().is_empty()) else { return };
    let first = sql::first_word(&sql.value);
    if !["SELECT", "WITH"].iter().any(|word| first.eq_ignore_ascii_case(word)) {
        let message = format!("the query begins with `{first}`; a report only reads");
        faults.push("C211", sql.span.clone(), message, "begin it with SELECT, or with WITH");
    }
    for parameter in sql::parameters(&sql.value) {
        if !sql::PARAMETERS.contains(&parameter.name.as_str()) {
            let message = format!("the query uses `:{}`, which is not known", parameter.name);
            faults.push("C209", sql.span.clone(), message, suggestion(&parameter.name, sql::PARAMETERS.into_iter()));
        }
    }
}

fn check_order(sql: &Text, faults: &mut Faults<'_>) {
    if let Some((word, _)) = sql::outer_word(&sql.value, &["ORDER", "LIMIT"]) {
        let message = format!("the query has {word} at its end; rows that tie would come in another order in each run");
        let remedy = "take it out and write `order = [\"column desc\"]` or `limit = 10` beside `sql`";
        faults.push("C208", sql.span.clone(), message, remedy);
    }
}

fn plain(text: Option<Text>) -> String {
    text.map(|text| text.value).unwrap_or_default()
}

fn values(texts: Vec<Text>) -> Vec<String> {
    texts.into_iter().map(|text| text.value).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = r#"
version = 1
title = "T"
[[headline]]
title = "H"
sql = "SELECT 1 AS value"
[[section]]
id = "a"
title = "A"
sql = "SELECT x, n FROM t WHERE d < :as_of"
order = ["n desc", "x"]
columns = [{ name = "x", title = "X", format = "status", tones = { Bad = "bad" } }, { name = "n", format = "number(2)" }]
chart = { kind = "bar", x = "x", y = ["n"] }
limit = 10
"#;

    #[test]
    fn a_definition_is_read_whole() {
        let definition = parse(GOOD, "good").unwrap();
        let section = &definition.sections[0];
        assert_eq!(section.order[0], OrderBy { column: "n".to_owned(), descending: true });
        assert_eq!(section.columns[0].tones["Bad"], Tone::Bad);
        assert_eq!(section.columns[1].title, "n");
        assert_eq!(section.chart.as_ref().unwrap().y, ["n"]);
        assert_eq!((section.limit, definition.headlines.len()), (10, 1));
    }

    #[test]
    fn each_code_has_a_place() {
        let cases: [(&str, &str, &str); 11] = [
            ("C201", "version = 1", "version = "),
            ("C202", "version = 1", "version = 2"),
            ("C203", "limit = 10", "limits = 10"),
            ("C204", "sql = \"SELECT 1 AS value\"", ""),
            ("C205", "limit = 10", "limit = \"10\""),
            ("C206", "kind = \"bar\"", "kind = \"pie\""),
            ("C207", "name = \"n\"", "name = \"x\""),
            ("C208", ":as_of\"", ":as_of ORDER BY x\""),
            ("C209", ":as_of", ":as_off"),
            ("C210", "y = [\"n\"]", "y = []"),
            ("C211", "SELECT x, n FROM t WHERE", "DELETE FROM t WHERE"),
        ];
        for ((code, good, bad), (listed, _)) in cases.iter().zip(CODES) {
            assert_eq!(code, listed);
            assert!(GOOD.contains(good), "{good}");
            let source = GOOD.replacen(good, bad, 1);
            let faults = parse(&source, "bad").unwrap_err();
            assert_eq!(faults.iter().map(|fault| fault.code).collect::<Vec<_>>(), [*code], "{faults:?}");
            assert!(faults[0].position.line > 1 && !faults[0].remedy.is_empty(), "{}", faults[0]);
        }
    }

    #[test]
    fn the_reference_names_every_code_format_tone_and_chart() {
        let reference = include_str!("../../reports/README.md");
        let codes = CODES.iter().map(|(code, _)| format!("| {code} |"));
        let tones = Tone::ALL.map(|tone| format!("`{}`", tone.name()));
        let charts = ChartKind::ALL.map(|kind| format!("`{}`", kind.name()));
        for word in codes.chain(tones).chain(charts).chain(FORMATS.map(|format| format!("`{format}`"))) {
            assert!(reference.contains(&word), "{word}");
        }
        assert!(FORMATS.iter().all(|format| Format::parse(format).is_some()));
    }

    #[test]
    fn all_faults_come_at_once_in_their_order() {
        let source = GOOD
            .replace("limit = 10", "limt = 10")
            .replace("kind = \"bar\"", "kind = \"baar\"")
            .replace("title = \"T\"", "title = 7");
        let faults = parse(&source, "bad").unwrap_err();
        let shown: Vec<String> = faults.iter().map(|fault| format!("{} {}", fault.position, fault.code)).collect();
        assert_eq!(shown, ["3:9 C205", "13:18 C206", "14:1 C203"]);
        assert_eq!(faults[1].remedy, "did you mean `bar`?");
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(source in "(?s).{0,200}", at in 0usize..400) {
            let _ = parse(&source, "x");
            let cut: String = GOOD.chars().take(at).chain(source.chars()).collect();
            let _ = parse(&cut, "x");
        }
    }
}
