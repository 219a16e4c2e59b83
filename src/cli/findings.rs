//! Findings on the screen and in JSON; used by `derive` and `audit`.

use std::collections::BTreeMap;

use comfy_table::Cell;
use serde::Serialize;
use tablekeeper::adapters::files::PlainJson;
use tablekeeper::model::derived::{Finding, Severity};
use tablekeeper::model::key::KeyNames;
use tablekeeper::model::value::{Item, Text};

use super::output::{Grid, count, line, severity_cell};

/// Most findings that a text lists; JSON has them all.
pub const SHOWN_MAX: usize = 50;

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

/// A table of findings; says how many there are if not all are shown, which are `most`.
pub fn print(findings: &[&Finding], most: usize) {
    if findings.is_empty() {
        line("  none");
        return;
    }
    let mut grid = Grid::new(&["Severity", "Code", "Item", "What and what to do"]);
    for finding in findings.iter().take(most) {
        grid.row([
            severity_cell(finding.severity),
            Cell::new(&finding.code),
            Cell::new(finding.key.to_string()),
            Cell::new(&finding.message),
        ]);
    }
    grid.print();
    if findings.len() > most {
        line(format_args!("  {most} of {}; --format json has them all", findings.len()));
    }
}

/// How many items were judged, for a summary.
pub struct Judged<'c> {
    pub checked: &'c BTreeMap<Text, u64>,
    pub unrecognised: u64,
    pub set_aside: u64,
}

/// `19 items checked: 3 Device, 5 WorkOrder; 2 findings`, and what of the file was `unused`.
pub fn summary(judged: &Judged<'_>, findings: u64, unused: &str) -> String {
    let Judged { checked, unrecognised, set_aside } = judged;
    let counted = |number: u64, noun: &str| count(usize::try_from(number).unwrap_or(usize::MAX), noun);
    let mut parts: Vec<String> = checked.iter().map(|(entity, number)| format!("{number} {entity}")).collect();
    if *unrecognised > 0 {
        parts.push(format!("{unrecognised} of no entity"));
    }
    let total = counted(checked.values().sum::<u64>() + unrecognised, "item");
    let set_aside = match set_aside {
        0 => String::new(),
        n => format!("; {} neither counted nor listed, the key being in doubt (K101, K104)", counted(*n, "item")),
    };
    let checked = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{total} checked{checked}; {}{set_aside}{unused}", counted(findings, "finding"))
}
