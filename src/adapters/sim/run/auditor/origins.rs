//! The auditor's view of where findings come from, by ledger rows alone.

use std::collections::BTreeMap;

use super::books::Story;
use crate::adapters::sim::run::models::Models;
use crate::model::derived::RowKind;
use crate::model::key::TableKey;
use crate::model::value::Text;
use crate::plan::ledger::{AppliedRow, LedgerRow};

/// The database's refusals bring them, not what the item derives.
const REFUSALS: [&str; 2] = ["P903", "A308"];

/// What this step of a ledger row adds to the counts of findings that came and went, by item and attribute.
pub(super) fn turnover(before: Option<&LedgerRow>, row: &LedgerRow) -> BTreeMap<(TableKey, Text), i64> {
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
        if let (Some(_), Some(before)) = (was, before) {
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

/// Findings that the ledger says a change brought, and it did not.
pub(super) fn check(row: &LedgerRow, story: &mut Story, models: &Models, faults: &mut Vec<String>) {
    for introduced in &row.introduced {
        let Some(finding) = findings(row).find(|finding| finding.key == introduced.key) else {
            continue;
        };
        let number = super::as_number(&introduced.sequence);
        let is_refusal = REFUSALS.contains(&finding.name.as_str());
        if !is_refusal && !story.introduces(&row.source, number, &introduced.key, models) {
            faults.push(format!("origin: the record {number} of `{}` did not bring {}", row.source, finding.key));
        }
    }
}

fn findings(row: &LedgerRow) -> impl Iterator<Item = &AppliedRow> {
    row.applied.rows.iter().filter(|row| row.kind == RowKind::Finding)
}
