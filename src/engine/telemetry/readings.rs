//! Values of metrics: what a batch's report, the requests of a process and a census come to.
//!
//! The contract: whoever shows metrics takes names, labels and values from here, so that a worker's `/metrics` and the lines of a
//! function count the same things under the same names.

use super::census::Census;
use super::{
    ACTIONS, CONFLICTS, FINDINGS, FINDINGS_INTRODUCED, FINDINGS_RESOLVED, FINDINGS_WRITTEN, Metric, OUTBOX, QUARANTINE,
    RECORDS, REQUESTS, RETRIES, TRANSACTIONS, UNITS,
};
use crate::engine::batch::BatchReport;

/// One value of one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading<'a> {
    pub metric: &'static Metric,
    /// The value of the metric's label, if it has one; no metric has two.
    pub label: Option<&'a str>,
    pub value: f64,
}

impl<'a> Reading<'a> {
    pub fn plain(metric: &'static Metric, value: f64) -> Reading<'a> {
        Reading { metric, label: None, value }
    }

    pub fn labelled(metric: &'static Metric, label: &'a str, value: f64) -> Reading<'a> {
        Reading { metric, label: Some(label), value }
    }

    fn count(metric: &'static Metric, count: usize) -> Reading<'a> {
        Reading::plain(metric, count as f64)
    }
}

/// What became of a batch's records, all outcomes.
pub fn outcomes(report: &BatchReport) -> [Reading<'static>; 8] {
    [
        ("applied", report.applied),
        ("already_applied", report.already_applied),
        ("reconciled", report.reconciled),
        ("superseded", report.superseded),
        ("skipped", report.skipped),
        ("ours", report.ours),
        ("quarantined", report.quarantined),
        ("malformed", report.malformed),
    ]
    .map(|(outcome, count)| Reading::labelled(&RECORDS, outcome, count as f64))
}

/// What was done for a batch, whether or not all of it became durable.
pub fn work(report: &BatchReport) -> Vec<Reading<'_>> {
    let counts = [
        Reading::count(&TRANSACTIONS, report.transactions),
        Reading::count(&ACTIONS, report.actions),
        Reading::count(&CONFLICTS, report.conflicts),
        Reading::count(&RETRIES, report.retries),
    ];
    let findings = [
        (&FINDINGS_WRITTEN, &report.findings),
        (&FINDINGS_INTRODUCED, &report.introduced),
        (&FINDINGS_RESOLVED, &report.resolved),
    ];
    let findings = findings.into_iter().flat_map(|(metric, codes)| {
        codes.iter().map(move |(code, count)| Reading::labelled(metric, code, *count as f64))
    });
    counts.into_iter().chain(findings).collect()
}

/// What a process has asked and what it was charged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Consumption {
    pub read_units: f64,
    pub write_units: f64,
    /// Requests by operation.
    pub requests: Vec<(&'static str, u64)>,
}

impl Consumption {
    pub fn readings(&self) -> Vec<Reading<'static>> {
        let units = [("read", self.read_units), ("write", self.write_units)];
        let units = units.map(|(kind, units)| Reading::labelled(&UNITS, kind, units));
        let requests = self.requests.iter();
        let requests = requests.map(|(operation, count)| Reading::labelled(&REQUESTS, operation, *count as f64));
        units.into_iter().chain(requests).collect()
    }
}

impl Census {
    pub fn readings(&self) -> Vec<Reading<'_>> {
        let findings = self.findings.iter();
        let findings = findings.map(|(code, count)| Reading::labelled(&FINDINGS, code, *count as f64));
        let rows = [(&QUARANTINE, self.quarantine), (&OUTBOX, self.outbox)];
        findings.chain(rows.map(|(metric, rows)| Reading::plain(metric, rows as f64))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::engine::telemetry::METRICS;

    #[test]
    fn every_reading_is_of_a_listed_metric_and_has_its_label() {
        let findings = BTreeMap::from([("G201".to_owned(), 2)]);
        let report = BatchReport {
            introduced: findings.clone(),
            resolved: findings.clone(),
            findings,
            ..BatchReport::default()
        };
        let census = Census { findings: BTreeMap::from([("K101".to_owned(), 1)]), ..Census::default() };
        let consumption = Consumption { requests: vec![("get", 1)], ..Consumption::default() };
        let all = [&outcomes(&report)[..], &work(&report), &consumption.readings(), &census.readings()].concat();
        assert_eq!(all.len(), 8 + 7 + 3 + 3);
        for reading in all {
            assert!(METRICS.contains(&reading.metric), "{reading:?}");
            assert_eq!(reading.metric.labels.len(), usize::from(reading.label.is_some()), "{reading:?}");
        }
    }

    #[test]
    fn outcomes_sum_up_to_the_records_of_the_batch() {
        let report =
            BatchReport { records: 10, ours: 1, skipped: 2, applied: 3, quarantined: 4, ..BatchReport::default() };
        assert_eq!(outcomes(&report).iter().map(|reading| reading.value).sum::<f64>(), 10.0);
    }
}
