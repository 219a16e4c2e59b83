//! An audit for programs: one JSON object, or a finding a line and then the counts.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use tablekeeper::engine::audit::RuleCount;
use tablekeeper::model::derived::Severity;
use tablekeeper::model::value::Text;

use super::Audited;
use crate::cli::findings::FindingOut;
use crate::cli::input::Superseded;
use crate::cli::output;

#[derive(Serialize)]
struct AuditOut<'a> {
    /// Gravest first; at most as many of each rule and entity as were asked for.
    findings: Vec<FindingOut<'a>>,
    #[serde(flatten)]
    counts: Counts<'a>,
}

/// The last line of JSON lines.
#[derive(Serialize)]
struct SummaryOut<'a> {
    summary: Counts<'a>,
}

#[derive(Serialize)]
struct Counts<'a> {
    source: &'a str,
    model: ModelOut<'a>,
    /// All items, by entity, and those that are no entity's or several's.
    items: u64,
    checked: &'a BTreeMap<Text, u64>,
    unrecognised: u64,
    /// All findings, also those that are not shown.
    findings_total: u64,
    severities: BTreeMap<&'static str, u64>,
    rules: Vec<RuleOut<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    undecided: &'a [String],
    /// What holds no item, one message each, at most a hundred of them.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unread: &'a [String],
    #[serde(skip_serializing_if = "is_zero")]
    unread_total: usize,
    /// Lines whose key comes again: only the last is judged. At most a hundred of them.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    superseded: &'a [Superseded],
    #[serde(skip_serializing_if = "is_zero")]
    superseded_total: usize,
}

#[derive(Serialize)]
struct ModelOut<'a> {
    name: &'a str,
    /// Two audits whose hashes differ were held against different rules.
    hash: &'a str,
}

#[derive(Serialize)]
struct RuleOut<'a> {
    code: &'a str,
    name: &'a str,
    severity: Severity,
    entity: Option<&'a str>,
    checked: u64,
    failed: u64,
    /// With two decimals; `null` where nothing was checked.
    percent: Option<Box<RawValue>>,
    undecidable: u64,
    findings: u64,
    shown: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

pub fn json(audited: &Audited<'_>) -> anyhow::Result<()> {
    output::json(&AuditOut { findings: findings(audited), counts: counts(audited) })
}

pub fn json_lines(audited: &Audited<'_>) -> anyhow::Result<()> {
    for finding in findings(audited) {
        output::line(serde_json::to_string(&finding)?);
    }
    output::line(serde_json::to_string(&SummaryOut { summary: counts(audited) })?);
    Ok(())
}

fn findings<'a>(audited: &'a Audited<'_>) -> Vec<FindingOut<'a>> {
    let names = audited.model.table.key_names();
    audited.summary.sample().into_iter().map(|finding| FindingOut::of(finding, &names)).collect()
}

fn counts<'a>(audited: &'a Audited<'_>) -> Counts<'a> {
    let summary = &audited.summary;
    Counts {
        source: &audited.source,
        model: ModelOut { name: &audited.model.name, hash: &audited.model.hash },
        items: summary.items(),
        checked: &summary.checked,
        unrecognised: summary.unrecognised,
        findings_total: summary.findings(),
        severities: summary.severities().into_iter().map(|(severity, number)| (severity.name(), number)).collect(),
        rules: summary.rules.iter().map(rule).collect(),
        undecided: &summary.undecided,
        unread: &audited.unread,
        unread_total: audited.unread_total,
        superseded: &audited.superseded,
        superseded_total: audited.superseded_total,
    }
}

fn rule(rule: &RuleCount) -> RuleOut<'_> {
    let percent = |hundredths: u64| RawValue::from_string(format!("{}.{:02}", hundredths / 100, hundredths % 100)).ok();
    RuleOut {
        code: &rule.code,
        name: rule.name,
        severity: rule.severity,
        entity: rule.entity.as_deref(),
        checked: rule.checked,
        failed: rule.failed,
        percent: rule.share().hundredths().and_then(percent),
        undecidable: rule.undecidable,
        findings: rule.findings,
        shown: rule.sample.len(),
    }
}
