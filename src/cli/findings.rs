//! Findings on the screen and in JSON; used by `derive`, `audit` and `demo`.

use std::collections::BTreeMap;

use comfy_table::Cell;
use serde::Serialize;
use tablekeeper::adapters::files::PlainJson;
use tablekeeper::derive::Fold;
use tablekeeper::engine::cross::Tally;
use tablekeeper::model::derived::{Finding, Severity};
use tablekeeper::model::key::KeyNames;
use tablekeeper::model::value::{Item, Text};

use super::input::{self, FromFile, Superseded};
use super::output::{Grid, count, line, severity_cell};

/// Most findings that a text lists; JSON has them all.
const SHOWN_MAX: usize = 50;

/// A finding as `--format json` prints it.
#[derive(Serialize)]
pub struct FindingOut<'f> {
    code: &'f str,
    severity: Severity,
    entity: Option<&'f str>,
    key: KeyOut,
    attribute: Option<&'f str>,
    expected: Option<&'f str>,
    actual: Option<&'f str>,
    message: &'f str,
}

/// A key under the table's names, as plain JSON.
pub struct KeyOut(pub Item);

impl Serialize for KeyOut {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PlainJson(&self.0).serialize(serializer)
    }
}

impl<'f> FindingOut<'f> {
    pub fn of(finding: &'f Finding, names: &KeyNames) -> FindingOut<'f> {
        FindingOut {
            code: &finding.code,
            severity: finding.severity,
            entity: finding.entity.as_deref(),
            key: KeyOut(finding.key.to_item(names)),
            attribute: finding.attribute.as_deref(),
            expected: finding.expected.as_deref(),
            actual: finding.actual.as_deref(),
            message: &finding.message,
        }
    }
}

/// What `audit --format json` prints, and the last part of `derive --format json`.
#[derive(Serialize)]
pub struct AuditOut<'f> {
    pub findings: Vec<FindingOut<'f>>,
    pub checked: &'f BTreeMap<Text, u64>,
    /// Lines of the file that hold no item, one message each.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub unread: &'f [String],
    /// Lines of the file whose key comes again: only the last is judged.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub superseded: &'f [Superseded],
    /// Rules across items that could not be judged, because the other item was out of sight.
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "undecidable")]
    pub undecidable: Vec<Tally>,
}

fn undecidable<S: serde::Serializer>(tallies: &[Tally], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Out<'t> {
        code: &'t str,
        entity: &'t str,
        count: u64,
    }
    serializer.collect_seq(tallies.iter().map(|t| Out { code: t.rule, entity: &t.entity, count: t.undecidable }))
}

/// `undecidable: X501 4 of WorkOrder; ...`, if there is something.
pub fn print_undecidable(tallies: &[Tally]) {
    if tallies.is_empty() {
        return;
    }
    let parts: Vec<String> = tallies.iter().map(|t| format!("{} {} of {}", t.rule, t.undecidable, t.entity)).collect();
    line(format_args!("undecidable, the other item being out of sight: {}", parts.join(", ")));
}

/// A table of findings; says how many there are if not all are shown.
pub fn print(findings: &[&Finding]) {
    if findings.is_empty() {
        line("  none");
        return;
    }
    let mut grid = Grid::new(&["Severity", "Code", "Item", "What and what to do"]);
    for finding in findings.iter().take(SHOWN_MAX) {
        grid.row([
            severity_cell(finding.severity),
            Cell::new(&finding.code),
            Cell::new(finding.key.to_string()),
            Cell::new(&finding.message),
        ]);
    }
    grid.print();
    if findings.len() > SHOWN_MAX {
        line(format_args!("  {SHOWN_MAX} of {}; --format json has them all", findings.len()));
    }
}

/// `19 items checked: 3 Device, 5 WorkOrder; 2 findings`, and what of the file was not used.
pub fn summary(found: &FromFile<Fold>, findings: usize) -> String {
    let (checked, unrecognised) = (found.read.checked(), found.read.unrecognised());
    let mut parts: Vec<String> = checked.iter().map(|(entity, number)| format!("{number} {entity}")).collect();
    if unrecognised > 0 {
        parts.push(format!("{unrecognised} of no entity"));
    }
    let total = checked.values().sum::<u64>() + unrecognised;
    let total = count(usize::try_from(total).unwrap_or(usize::MAX), "item");
    let set_aside = match found.read.set_aside() {
        0 => String::new(),
        n => {
            let items = count(usize::try_from(n).unwrap_or(usize::MAX), "item");
            format!("; {items} neither counted nor listed, the key being in doubt (K101, K104)")
        }
    };
    let unused = input::unused(found);
    let checked = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{total} checked{checked}; {}{set_aside}{unused}", count(findings, "finding"))
}
