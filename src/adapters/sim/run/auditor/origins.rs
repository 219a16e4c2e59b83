//! The auditor's view of where findings come from, by ledger rows alone.

use std::collections::BTreeMap;

use super::books::{Measure, Story};
use crate::adapters::sim::run::models::Models;
use crate::model::derived::RowKind;
use crate::model::key::TableKey;
use crate::model::value::Text;
use crate::plan::ledger::{Applied, AppliedRow, LedgerRow};

/// The database's refusals bring them, not what the item derives.
const REFUSALS: [&str; 2] = ["P903", "A308"];

/// What this step of a ledger row adds to the counts of findings that came and went, by item and attribute.
pub(super) fn turnover(before: Option<&LedgerRow>, row: &LedgerRow) -> BTreeMap<Measure, i64> {
    let mut turnover = BTreeMap::new();
    // A repair takes back a claim to a row, and counts nothing: the finding stands.
    if before.is_some_and(|before| {
        before.applied.counts == row.applied.counts && findings(before).count() > findings(row).count()
    }) {
        return turnover;
    }
    let mut add = |of: &LedgerRow, name: String| {
        if let Some(totals) = of.applied.counts.iter().find(|count| count.aggregate == "findings") {
            *turnover.entry((totals.key.clone(), Text::from(name))).or_default() += 1;
        }
    };
    let origin = |of: &LedgerRow, key: &TableKey| of.introduced.iter().find(|known| known.key == *key).cloned();
    for finding in findings(row) {
        let (was, is) = (before.and_then(|before| origin(before, &finding.key)), origin(row, &finding.key));
        if was == is {
            continue;
        }
        add(row, format!("Introduced_{}", finding.name));
        // It has gone and come again.
        if let Some(before) = before.filter(|before| findings(before).any(|stood| stood.key == finding.key)) {
            add(before, format!("Resolved_{}", finding.name));
        }
    }
    if let Some(before) = before {
        for gone in findings(before).filter(|gone| findings(row).all(|stands| stands.key != gone.key)) {
            add(before, format!("Resolved_{}", gone.name));
        }
    }
    turnover
}

/// True for counts of what came and went.
pub(super) fn is_history(measure: &str) -> bool {
    measure.starts_with("Introduced_") || measure.starts_with("Resolved_")
}

/// True for counts of what changes brought, but for what refusals did.
pub(super) fn is_checked(measure: &str) -> bool {
    measure.strip_prefix("Introduced_").is_some_and(|code| !REFUSALS.contains(&code))
}

/// The counts of what came and of what went of the same code.
pub(super) fn both((key, name): &Measure) -> [Measure; 2] {
    let code = name.split_once('_').map_or("", |(_, code)| code);
    ["Introduced_", "Resolved_"].map(|prefix| (key.clone(), format!("{prefix}{code}").into()))
}

/// What a change brought, by the findings' rows, and where it is counted.
pub(super) fn between(before: &Applied, is: &Applied) -> BTreeMap<TableKey, Measure> {
    let Some(totals) = is.counts.iter().find(|count| count.aggregate == "findings") else { return BTreeMap::new() };
    let new = of(is).filter(|finding| of(before).all(|stood| stood.key != finding.key));
    let measure = |finding: &AppliedRow| (totals.key.clone(), format!("Introduced_{}", finding.name).into());
    new.map(|finding| (finding.key.clone(), measure(finding))).collect()
}

/// Findings that the ledger says a change brought, and it did not.
pub(super) fn check(row: &LedgerRow, story: &mut Story, old_images: bool, models: &Models, faults: &mut Vec<String>) {
    for introduced in &row.introduced {
        let Some(finding) = findings(row).find(|finding| finding.key == introduced.key) else {
            continue;
        };
        let number = super::as_number(&introduced.sequence);
        let is_refusal = REFUSALS.contains(&finding.name.as_str());
        if !is_refusal && !story.introduces(&row.source, number, &introduced.key, old_images, models) {
            faults.push(format!("origin: the record {number} of `{}` did not bring {}", row.source, finding.key));
        }
    }
}

fn findings(row: &LedgerRow) -> impl Iterator<Item = &AppliedRow> {
    of(&row.applied)
}

fn of(applied: &Applied) -> impl Iterator<Item = &AppliedRow> {
    applied.rows.iter().filter(|row| row.kind == RowKind::Finding)
}
