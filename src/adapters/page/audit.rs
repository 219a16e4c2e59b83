//! An audit as one page, and its findings as CSV.
//!
//! Both say what is in them by themselves: under which model, of what, how many of how many. Everything is escaped, nothing is
//! loaded and nothing runs; the same audit gives the same bytes.

use minijinja::context;
use minijinja::value::Value;

use super::csv::harmless;
use super::{AUDIT_TEMPLATE, PageError, STYLE, list, templates};
use crate::engine::audit::{RuleCount, Summary};
use crate::model::derived::{Finding, Severity};
use crate::model::key::KeyNames;
use crate::model::value;
use crate::report::data::VERSION;
use crate::report::dataset::Cell;
use crate::report::format::Format;

/// What a page shows.
#[derive(Debug, Clone, Copy)]
pub struct AuditPage<'a> {
    pub table: &'a str,
    pub model: &'a str,
    pub model_hash: &'a str,
    /// The file, folder or table that was audited.
    pub source: &'a str,
    pub summary: &'a Summary,
    /// What could not be read, as far as it is told.
    pub unread: &'a [String],
    pub unread_total: usize,
}

/// The audit as one HTML page.
///
/// # Errors
/// Only where the embedded template is broken.
pub fn audit_html(page: &AuditPage<'_>) -> Result<String, PageError> {
    let summary = page.summary;
    let facts = [
        ("Audited", page.source),
        ("Table", page.table),
        ("Model", page.model),
        // 16 digits tell any two models apart.
        ("Model hash", page.model_hash.get(..16).unwrap_or(page.model_hash)),
    ];
    let rule_rows = |wanted: fn(&RuleCount) -> bool| list(summary.rules.iter().filter(|rule| wanted(rule)), rule_row);
    let context = context! {
        title => format!("Audit of {}", page.table),
        // Ours alone, and it must not be escaped.
        style => Value::from_safe_string(STYLE.to_owned()),
        version => VERSION,
        facts => list(facts, |(label, value)| context! { label, value }),
        cards => cards(page),
        broken => rule_rows(|rule| rule.findings > 0),
        kept => rule_rows(|rule| rule.findings == 0),
        parts => list(summary.broken(), part),
        entities => list(&summary.checked, |(name, count)| context! { name => name.as_str(), count => shown(*count) }),
        unrecognised => summary.unrecognised,
        undecided => summary.undecided.clone(),
        unread => page.unread.to_vec(),
        unread_total => page.unread_total,
    };
    Ok(templates()?.get_template(AUDIT_TEMPLATE)?.render(context)?)
}

fn shown(number: u64) -> String {
    Format::Integer.show(&Cell::Int(i64::try_from(number).unwrap_or(i64::MAX)))
}

fn tone(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "bad",
        Severity::Warning => "warning",
        Severity::Info => "neutral",
    }
}

fn cards(page: &AuditPage<'_>) -> Value {
    let summary = page.summary;
    let mut cards = vec![("Items checked", summary.items(), "neutral")];
    let severities = summary.severities();
    for (title, severity) in [("Errors", Severity::Error), ("Warnings", Severity::Warning), ("Infos", Severity::Info)] {
        let found = severities.iter().find(|(one, _)| *one == severity).map_or(0, |(_, found)| *found);
        cards.push((title, found, if found == 0 { "good" } else { tone(severity) }));
    }
    if page.unread_total > 0 {
        cards.push(("Not read", page.unread_total as u64, "bad"));
    }
    list(cards, |(title, number, tone)| context! { title, value => shown(number), tone })
}

fn rule_row(rule: &RuleCount) -> Value {
    context! {
        id => id(rule),
        tone => tone(rule.severity),
        severity => rule.severity.name(),
        code => rule.code.as_str(),
        name => rule.name,
        entity => rule.entity.as_deref().unwrap_or("no entity"),
        failed => shown(rule.failed),
        checked => shown(rule.checked),
        share => rule.share().to_string(),
        undecidable => shown(rule.undecidable),
    }
}

fn id(rule: &RuleCount) -> String {
    format!("{}-{}", rule.code, rule.entity.as_deref().unwrap_or_default())
}

fn part(rule: &RuleCount) -> Value {
    let cut = (rule.sample.len() as u64) < rule.findings;
    context! {
        id => id(rule),
        title => format!("{} {}: {}", rule.code, rule.name, rule.entity.as_deref().unwrap_or("items of no entity")),
        count => shown(rule.findings),
        cut => cut.then(|| format!("{} of {} findings.", rule.sample.len(), shown(rule.findings))),
        rows => list(&rule.sample, |finding| context! {
            key => finding.key.to_string(),
            attribute => finding.attribute.clone(),
            expected => finding.expected.clone(),
            actual => finding.actual.clone(),
            message => finding.message.as_str(),
        }),
    }
}

/// The findings that are shown as CSV, with the key's attributes under the table's names.
///
/// # Errors
/// Where the writer refuses a row; it has no reason to.
pub fn audit_csv(summary: &Summary, names: &KeyNames) -> Result<Vec<u8>, PageError> {
    let write = || -> Result<Vec<u8>, csv::Error> {
        let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
        let keys = std::iter::once(&names.partition).chain(&names.sort);
        let header = ["severity", "code", "entity"].map(str::to_owned).into_iter();
        let header = header.chain(keys.map(|name| harmless(name)));
        writer.write_record(header.chain(["attribute", "expected", "actual", "message"].map(str::to_owned)))?;
        for finding in summary.sample() {
            writer.write_record(cells(finding, names))?;
        }
        writer.into_inner().map_err(|error| error.into_error().into())
    };
    write().map_err(|error| PageError::Csv { section: "findings".to_owned(), reason: error.to_string() })
}

fn cells(finding: &Finding, names: &KeyNames) -> Vec<String> {
    let text = |text: &Option<String>| text.as_deref().map(harmless).unwrap_or_default();
    let key = |value: &value::Value| match value {
        // A number is no formula.
        value::Value::N(number) => number.to_string(),
        other => harmless(other.as_text().unwrap_or(&other.shown())),
    };
    let sort = names.sort.as_ref().map(|_| finding.key.sort.as_ref().map(key).unwrap_or_default());
    let mut cells = vec![finding.severity.name().to_owned(), finding.code.clone(), text(&finding.entity)];
    cells.push(key(&finding.key.partition));
    cells.extend(sort);
    cells.extend([
        text(&finding.attribute),
        text(&finding.expected),
        text(&finding.actual),
        harmless(&finding.message),
    ]);
    cells
}
