//! Metrics of a function: one line an invocation in CloudWatch's embedded metric format.
//!
//! The problem: nobody can scrape a function, and a call to CloudWatch in each invocation costs time and money. CloudWatch makes
//! metrics of JSON lines in a function's log that say in `_aws` which of their members are metrics. The contract: [`emit`] writes one
//! such line to standard output, with the names of [`METRICS`](crate::engine::telemetry::METRICS) in the namespace [`NAMESPACE`] and
//! the one dimension [`DIMENSION`], the kept table's name. A label becomes a part of the name, after a dot:
//! `tablekeeper_records_total.applied`, for a line has one value for each dimension. Counters hold what this invocation added (sum
//! them up); the lag is that of its last durable record (take the maximum). A counter that did not grow is left out: CloudWatch bills a
//! metric by the hours in which it is sent. No value of an item is in a line, and neither is a key.
//!
//! The functions' log format is JSON. Lambda leaves lines of a custom runtime (`provided.al2023`) that are JSON objects as they are,
//! and reads their members `level` and `timestamp`; it would add what is missing, so they are there. A function whose
//! `ApplicationLogLevel` is above `INFO` loses these lines, and its metrics.

use std::collections::BTreeMap;
use std::io::Write as _;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use serde_json::Number;

use super::answer::Answer;
use super::handler::InvocationError;
use crate::engine::batch::BatchReport;
use crate::engine::telemetry::readings::{Reading, outcomes, work};
use crate::engine::telemetry::{BATCH_RECORDS, BATCHES, Kind, LAG};
use crate::model::change::RawRecord;

/// Where CloudWatch lists the metrics.
pub const NAMESPACE: &str = "Tablekeeper";
/// What they are told apart by; its value is the kept table's name.
pub const DIMENSION: &str = "table";
/// Most metrics that CloudWatch takes from one element of `CloudWatchMetrics`.
const DIRECTIVE_MAX: usize = 100;

/// What applying a batch came to, whether to its end or not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    pub report: BatchReport,
    /// When the last durable record was written.
    pub reached: Option<DateTime<Utc>>,
}

impl Batch {
    /// A batch whose first `durable` records are durable.
    pub fn new(records: &[RawRecord], durable: usize, report: BatchReport) -> Batch {
        Batch { report, reached: records.iter().take(durable).filter_map(|record| record.created_at).max() }
    }
}

/// What an invocation adds to the metrics. `batch`: as far as applying came to tell; it does not where time ran out or where
/// there was nothing to apply.
///
/// Outcomes of a batch that comes again as a whole are counted when it is durable. Those of a batch that is durable in part are counted
/// now, as far as they are: its records before the failure never come again.
pub fn invocation<'b>(
    result: &Result<Answer, InvocationError>,
    batch: Option<&'b Batch>,
    now: DateTime<Utc>,
) -> Vec<Reading<'b>> {
    let whole = result.as_ref().is_ok_and(|answer| answer.failures().is_empty());
    let mut readings = Vec::new();
    if !whole {
        readings.push(Reading::labelled(&BATCHES, "failed", 1.0));
    }
    let Some(Batch { report, reached }) = batch else { return readings };
    readings.extend(work(report));
    if result.is_ok() {
        readings.extend(outcomes(report));
        let lag = reached.map(|reached| (now - reached).num_milliseconds().max(0) as f64 / 1_000.0);
        readings.extend(lag.map(|seconds| Reading::plain(&LAG, seconds)));
    }
    if whole {
        readings.push(Reading::labelled(&BATCHES, "applied", 1.0));
        readings.push(Reading::plain(&BATCH_RECORDS, report.records as f64));
    }
    readings
}

#[derive(Serialize)]
struct Document<'d> {
    #[serde(rename = "_aws")]
    metadata: Metadata,
    level: &'static str,
    timestamp: String,
    table: &'d str,
    #[serde(flatten)]
    values: BTreeMap<String, Number>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Metadata {
    /// In milliseconds.
    timestamp: i64,
    cloud_watch_metrics: Vec<Directive>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Directive {
    namespace: &'static str,
    dimensions: [[&'static str; 1]; 1],
    metrics: Vec<Definition>,
}

#[derive(Serialize, Clone)]
#[serde(rename_all = "PascalCase")]
struct Definition {
    name: String,
    unit: &'static str,
}

/// Writes the line of an invocation on the kept table `table` to standard output; none where nothing happened.
pub fn emit(table: &str, now: DateTime<Utc>, readings: &[Reading<'_>]) {
    if let Some(line) = document(table, now, readings) {
        // Metrics are no reason for a batch to fail.
        let _ = writeln!(std::io::stdout().lock(), "{line}");
    }
}

fn document(table: &str, now: DateTime<Utc>, readings: &[Reading<'_>]) -> Option<String> {
    let (mut values, mut metrics) = (BTreeMap::new(), Vec::new());
    for reading in readings {
        // A gauge that is 0 is news, a counter that grew by 0 is none.
        let is_news = reading.value != 0.0 || reading.metric.kind == Kind::Gauge;
        let Some(value) = number(reading.value).filter(|_| is_news) else { continue };
        let name = match reading.label {
            Some(label) => format!("{}.{label}", reading.metric.name),
            None => reading.metric.name.to_owned(),
        };
        let unit = if reading.metric.unit == "seconds" { "Seconds" } else { "Count" };
        if values.insert(name.clone(), value).is_none() {
            metrics.push(Definition { name, unit });
        }
    }
    let directive = |metrics: &[Definition]| Directive {
        namespace: NAMESPACE,
        dimensions: [[DIMENSION]],
        metrics: metrics.to_vec(),
    };
    let document = Document {
        metadata: Metadata {
            timestamp: now.timestamp_millis(),
            cloud_watch_metrics: metrics.chunks(DIRECTIVE_MAX).map(directive).collect(),
        },
        level: "INFO",
        timestamp: now.to_rfc3339_opts(SecondsFormat::Millis, true),
        table,
        values,
    };
    if metrics.is_empty() { None } else { serde_json::to_string(&document).ok() }
}

/// Whole numbers as such. `None`: JSON has no such number.
fn number(value: f64) -> Option<Number> {
    let whole = value as i64;
    if whole as f64 == value { Some(whole.into()) } else { Number::from_f64(value) }
}

#[cfg(test)]
mod tests;
