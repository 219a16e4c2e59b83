//! Report definitions: `reports/*.toml`.
//!
//! A definition is data, so that a quality manager can add a section without building anything. All faults of a file are
//! reported at once, each with line, column and remedy.
//!
//! ```toml
//! version = 1
//! title = "Weekly report"
//! schedule = "0 7 * * 1"            # when it is printed by itself, in the model's time zone; without it, only when asked for
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
use std::ops::Range;

use sha2::{Digest, Sha256};

use super::dataset::OrderBy;
use super::format::{Format, Tone};
#[cfg(feature = "reports")]
use super::schedule::Schedule;
use super::{rules, sql};
use crate::model::key::hex;
use crate::model::position::Fault;
use crate::model::reader::{Field, Fields, Sink, suggest};

/// Rows on the page where the definition does not say.
pub const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: u32 = 10_000;
const VERSION: u32 = 1;
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
    /// When it is printed by itself; `None`: only when asked for.
    #[cfg(feature = "reports")]
    pub schedule: Option<Schedule>,
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

/// A text and where it stands.
struct Text {
    value: String,
    span: Range<usize>,
}

/// Reads a definition; `name` is the file's stem.
///
/// # Errors
/// All faults of the file, in its order.
pub fn parse(source: &str, name: &str) -> Result<Definition, Vec<Fault>> {
    let mut sink = Sink::new(source, &rules::GRAMMAR);
    let Some(root) = sink.parse() else { return Err(sink.into_faults()) };
    let mut root = Fields::root(root.get_ref());
    let hash = hex(&Sha256::digest(source.as_bytes()));
    let definition = read_definition(&mut sink, &mut root, name, hash);
    root.finish(&mut sink);
    let faults = sink.into_faults();
    if faults.is_empty() { Ok(definition) } else { Err(faults) }
}

fn read_definition(sink: &mut Sink, root: &mut Fields<'_>, name: &str, hash: String) -> Definition {
    read_version(sink, root);
    let title = plain(required(sink, root, "title"));
    let intro = root.take_text(sink, "intro");
    // Without the feature nobody prints reports; the key is known all the same.
    let schedule = root.take(sink, "schedule");
    #[cfg(feature = "reports")]
    let schedule = schedule.and_then(|field| read_schedule(sink, &field));
    #[cfg(not(feature = "reports"))]
    let _ = schedule;
    let headlines = tables(sink, root, "headline");
    let headlines = headlines.into_iter().map(|fields| read_headline(sink, fields)).collect();
    let sections = root.require(sink, "section", "add `[[section]]` with id, title and sql");
    let sections = sections.map(|field| open_each(sink, &field)).unwrap_or_default();
    let mut ids = BTreeSet::new();
    let sections = sections.into_iter().map(|fields| read_section(sink, fields, &mut ids)).collect();
    Definition {
        name: name.to_owned(),
        title,
        intro,
        #[cfg(feature = "reports")]
        schedule,
        headlines,
        sections,
        hash,
    }
}

#[cfg(feature = "reports")]
fn read_schedule(sink: &mut Sink, field: &Field<'_>) -> Option<Schedule> {
    let text = field.text(sink)?;
    Schedule::parse(&text)
        .inspect_err(|reason| {
            let remedy = "write minute, hour, day of month, month and weekday: `\"0 7 * * 1\"` is Mondays at seven";
            sink.fault(&rules::SCHEDULE, field.span(), format!("`{text}` is not a schedule: {reason}"), remedy);
        })
        .ok()
}

fn read_version(sink: &mut Sink, root: &mut Fields<'_>) {
    let Some(field) = root.require(sink, "version", "begin the file with `version = 1`") else { return };
    if field.whole(sink, 0..=u32::MAX).is_some_and(|version| version != VERSION) {
        let message = "this version is not known to this release".to_owned();
        sink.fault(&rules::VERSION, field.span(), message, format!("write `version = {VERSION}`"));
    }
}

/// A text that must be there and say something.
fn required(sink: &mut Sink, fields: &mut Fields<'_>, key: &'static str) -> Option<Text> {
    let field = fields.require(sink, key, &format!("add `{key} = \"...\"`"))?;
    let text = Text { value: field.text(sink)?, span: field.span() };
    if text.value.trim().is_empty() {
        sink.fault(&rules::MISSING, field.span(), format!("`{}` is empty", field.name()), "write something there");
    }
    Some(text)
}

/// The tables of a list that may be absent.
fn tables<'t>(sink: &mut Sink, fields: &mut Fields<'t>, key: &'static str) -> Vec<Fields<'t>> {
    let list = fields.take(sink, key);
    list.map(|list| open_each(sink, &list)).unwrap_or_default()
}

fn open_each<'t>(sink: &mut Sink, list: &Field<'t>) -> Vec<Fields<'t>> {
    let elements = list.elements(sink).unwrap_or_default();
    if list.is_array() && elements.is_empty() {
        let remedy = "add what belongs there, or leave the key out";
        sink.fault(&rules::MISSING, list.span(), format!("`{}` is empty", list.name()), remedy);
    }
    elements.iter().filter_map(|element| element.fields(sink)).collect()
}

fn read_headline(sink: &mut Sink, mut fields: Fields<'_>) -> Headline {
    let title = plain(required(sink, &mut fields, "title"));
    let sql = read_query(sink, &mut fields);
    let format = read_format(sink, &mut fields);
    let needs = fields.take_texts(sink, "needs");
    fields.finish(sink);
    Headline { title, sql: plain(sql), format, needs }
}

fn read_section(sink: &mut Sink, mut fields: Fields<'_>, ids: &mut BTreeSet<String>) -> Section {
    let id = required(sink, &mut fields, "id");
    if let Some(id) = &id {
        check_id(sink, id, ids);
    }
    let title = plain(required(sink, &mut fields, "title"));
    let intro = fields.take_text(sink, "intro");
    let needs = fields.take_texts(sink, "needs");
    let sql = read_query(sink, &mut fields);
    if let Some(sql) = &sql {
        check_order(sink, sql);
    }
    let order = fields.take(sink, "order").map(|field| field.one_or_more(sink)).unwrap_or_default();
    let order = order.iter().filter_map(|element| read_order(sink, element)).collect();
    let columns = read_columns(sink, &mut fields);
    let chart = fields.take(sink, "chart").and_then(|field| read_chart(sink, &field));
    let empty = fields.take_text(sink, "empty").unwrap_or_else(|| "Nothing to show.".to_owned());
    let limit = fields.take(sink, "limit").and_then(|field| field.whole(sink, 1..=LIMIT_MAX));
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(LIMIT_DEFAULT);
    fields.finish(sink);
    Section { id: plain(id), title, intro, needs, sql: plain(sql), order, columns, chart, empty, limit }
}

fn read_columns(sink: &mut Sink, fields: &mut Fields<'_>) -> Vec<Column> {
    let mut names = BTreeSet::new();
    let mut columns = Vec::new();
    for mut fields in tables(sink, fields, "columns") {
        let name = required(sink, &mut fields, "name");
        let title = fields.take_text(sink, "title");
        let format = read_format(sink, &mut fields);
        let tones = read_tones(sink, &mut fields);
        fields.finish(sink);
        let Some(name) = name else { continue };
        if !names.insert(name.value.clone()) {
            let message = format!("column `{}` is shown twice", name.value);
            sink.fault(&rules::DUPLICATE, name.span, message, "leave one of them out");
        }
        let title = title.unwrap_or_else(|| name.value.clone());
        columns.push(Column { name: name.value, title, format, tones });
    }
    columns
}

/// `tones = { Broken = "bad" }`: the keys are the author's words.
fn read_tones(sink: &mut Sink, fields: &mut Fields<'_>) -> BTreeMap<String, Tone> {
    let table = fields.take(sink, "tones").and_then(|field| field.fields(sink));
    let words = table.map(|mut table| table.take_all(sink)).unwrap_or_default();
    let names = Tone::ALL.map(Tone::name);
    let tone = |(word, field): (String, Field<'_>)| Some((word, Tone::parse(&field.one_of(sink, &names)?)?));
    words.into_iter().filter_map(tone).collect()
}

fn read_format(sink: &mut Sink, fields: &mut Fields<'_>) -> Format {
    let Some(field) = fields.take(sink, "format") else { return Format::default() };
    let Some(text) = field.text(sink) else { return Format::default() };
    Format::parse(&text).unwrap_or_else(|| {
        let remedy = suggest::remedy(&text, FORMATS);
        sink.fault(&rules::UNKNOWN_VALUE, field.span(), format!("`{text}` is not a format"), remedy);
        Format::default()
    })
}

fn read_chart(sink: &mut Sink, field: &Field<'_>) -> Option<Chart> {
    let mut fields = field.fields(sink)?;
    let names = ChartKind::ALL.map(ChartKind::name);
    let kind = fields.require(sink, "kind", "add for example `kind = \"bar\"`");
    let kind = kind.and_then(|kind| kind.one_of(sink, &names));
    let kind = kind.and_then(|name| ChartKind::ALL.into_iter().find(|kind| kind.name() == name));
    let title = fields.take_text(sink, "title");
    let x = required(sink, &mut fields, "x");
    let y = fields.take_texts(sink, "y");
    let series = fields.take_text(sink, "series");
    let tones = read_tones(sink, &mut fields);
    fields.finish(sink);
    if y.is_empty() {
        let remedy = "name the columns with the figures: `y = [\"total\"]`";
        sink.fault(&rules::CHART, field.span(), "the chart has no `y`".to_owned(), remedy);
    }
    if series.is_some() && y.len() > 1 {
        let message = "the chart has both `series` and several columns in `y`".to_owned();
        sink.fault(&rules::CHART, field.span(), message, "name one column in `y`, or leave `series` out");
    }
    Some(Chart { kind: kind?, title, x: x?.value, y, series, tones })
}

fn read_order(sink: &mut Sink, field: &Field<'_>) -> Option<OrderBy> {
    let text = field.text(sink)?;
    let mut words = text.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(column), None | Some("asc"), None) => Some(OrderBy { column: column.to_owned(), descending: false }),
        (Some(column), Some("desc"), None) => Some(OrderBy { column: column.to_owned(), descending: true }),
        _ => {
            let message = format!("`{text}` is not an order");
            sink.fault(&rules::UNKNOWN_VALUE, field.span(), message, "write a column's name, or `\"name desc\"`");
            None
        }
    }
}

/// Ids become file names and anchors.
fn check_id(sink: &mut Sink, id: &Text, ids: &mut BTreeSet<String>) {
    let fine = id.value.len() <= ID_LENGTH_MAX
        && id.value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !fine {
        let message = format!("`{}` is not an id", id.value);
        let remedy = format!("use at most {ID_LENGTH_MAX} of a-z, 0-9 and `-`; it names a file");
        sink.fault(&rules::UNKNOWN_VALUE, id.span.clone(), message, remedy);
    }
    if !ids.insert(id.value.clone()) {
        let message = format!("two sections have the id `{}`", id.value);
        sink.fault(&rules::DUPLICATE, id.span.clone(), message, "give each section an id of its own");
    }
}

/// `sql`: a query that only reads, with parameters that are known.
fn read_query(sink: &mut Sink, fields: &mut Fields<'_>) -> Option<Text> {
    let sql = required(sink, fields, "sql")?;
    if sql.value.trim().is_empty() {
        return Some(sql);
    }
    let first = sql::first_word(&sql.value);
    if !["SELECT", "WITH"].iter().any(|word| first.eq_ignore_ascii_case(word)) {
        let message = format!("the query begins with `{first}`; a report only reads");
        sink.fault(&rules::NOT_SELECT, sql.span.clone(), message, "begin it with SELECT, or with WITH");
    }
    for parameter in sql::parameters(&sql.value) {
        if !sql::PARAMETERS.contains(&parameter.name.as_str()) {
            let message = format!("the query uses `:{}`, which is not known", parameter.name);
            let remedy = suggest::remedy(&parameter.name, sql::PARAMETERS);
            sink.fault(&rules::PARAMETER, sql.span.clone(), message, remedy);
        }
    }
    Some(sql)
}

fn check_order(sink: &mut Sink, sql: &Text) {
    if let Some((word, _)) = sql::outer_word(&sql.value, &["ORDER", "LIMIT"]) {
        let message = format!("the query has {word} at its end; rows that tie would come in another order in each run");
        let remedy = "take it out and write `order = [\"column desc\"]` or `limit = 10` beside `sql`; a frame \
                      of that name is written in quotes";
        sink.fault(&rules::OUTER_ORDER, sql.span.clone(), message, remedy);
    }
}

/// The text, or what stands for it in a definition that is refused anyway.
fn plain(text: Option<Text>) -> String {
    text.map(|text| text.value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::rules::RULES;

    const GOOD: &str = r#"
version = 1
title = "T"
schedule = "0 7 * * 1"
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
        let cases: [(&str, &str, &str); 13] = [
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
            ("C212", "limit = 10", "limit = 0"),
            ("C213", "0 7 * * 1", "0 7 30 2 *"),
        ];
        assert_eq!(cases.map(|(code, ..)| code).as_slice(), RULES.iter().map(|rule| rule.code).collect::<Vec<_>>());
        // Without the feature nobody prints by the clock.
        for (code, good, bad) in cases.iter().filter(|(code, ..)| cfg!(feature = "reports") || *code != "C213") {
            assert!(GOOD.contains(good), "{good}");
            let source = GOOD.replacen(good, bad, 1);
            let faults = parse(&source, "bad").unwrap_err();
            assert_eq!(faults.iter().map(|fault| fault.code).collect::<Vec<_>>(), [*code], "{faults:?}");
            assert!(faults[0].position.line > 1 && !faults[0].remedy.is_empty(), "{}", faults[0]);
        }
    }

    #[test]
    fn messages_name_the_part_as_an_author_counts() {
        let first = |good: &str, bad: &str| parse(&GOOD.replacen(good, bad, 1), "bad").unwrap_err()[0].message.clone();
        assert_eq!(first("id = \"a\"\n", ""), "`section 1` has no `id`");
        assert_eq!(first("x = \"x\", y", "y"), "`section 1.chart` has no `x`");
        assert_eq!(first("tones = { Bad = \"bad\" }", "tone = 1"), "`section 1.columns 1` knows no key `tone`");
        let sections = GOOD.find("[[section]]").unwrap();
        let empty = GOOD[..sections].replacen("title", "section = []\ntitle", 1);
        assert_eq!(parse(&empty, "bad").unwrap_err()[0].message, "`section` is empty");
    }

    #[test]
    fn the_reference_names_every_code_format_tone_and_chart() {
        let reference = include_str!("../../reports/README.md");
        let codes = RULES.iter().map(|rule| format!("| {} |", rule.code));
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
        assert_eq!(shown, ["3:9 C205", "14:18 C206", "15:1 C203"]);
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
