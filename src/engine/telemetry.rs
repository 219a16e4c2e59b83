//! What operators see of a running worker: metrics, health and log lines.
//!
//! The problem: dashboards and alarms are built on names, and break in silence when a name changes. The contract: every metric and
//! every log field is named here and nowhere else. Tests compare these lists with what is served, with what is logged and with
//! the table in the README; so a change of a name is a change of this file, and a breaking one.
//!
//! - [`METRICS`]: what `/metrics` serves, and what functions write as lines for CloudWatch. A metric without a value yet is left
//!   out; it is never served as a made-up 0.
//! - [`readings`]: their values, from what the engine reports.
//! - [`health::Health`]: what `/healthz` and `/readyz` answer.
//! - [`census`]: what is counted in the tables themselves.
//! - [`LOG_FIELDS`]: the fields of log lines. Values of items are never among them; an item is named by the digest of its key,
//!   which is the end of its ledger row's key.
//!
//! All of it is pure: who serves and who logs are adapters. The requests to AWS need no lines of our own: its SDK traces each
//! with service and operation, at level `debug` under `aws_smithy_runtime`.

pub mod census;
pub mod health;
pub mod readings;

use std::error::Error;
use std::time::Duration;

use super::commit::CommitError;
use super::reconcile::ReconcileError;
use crate::model::key::TableKey;

/// How a metric's value moves, in the words of Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the process lives.
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    /// What one of it is.
    pub unit: &'static str,
    pub help: &'static str,
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    unit: &'static str,
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Counter, labels, unit, help }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], unit: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, unit, help }
}

pub static RECORDS: Metric = counter(
    "tablekeeper_records_total",
    &["outcome"],
    "records",
    "Stream records whose batch is durable, by what became of them: applied, already_applied, reconciled, superseded (a later record of the item was in the batch), skipped (nothing derived changes), ours (derived items), quarantined, malformed",
);
pub static BATCHES: Metric = counter(
    "tablekeeper_batches_total",
    &["result"],
    "batches",
    "Attempts to apply a batch: applied, or failed (it is tried again)",
);
pub static BATCH_RECORDS: Metric = Metric {
    name: "tablekeeper_batch_records",
    kind: Kind::Histogram,
    labels: &[],
    unit: "records",
    help: "Size of the batches that are durable",
};
pub static LAG: Metric = gauge(
    "tablekeeper_lag_seconds",
    &[],
    "seconds",
    "Age of the last applied record of the shard that is furthest behind; where a shard is read to its tip, time since that was seen. Grows while nothing is applied or read",
);
pub static TRANSACTIONS: Metric =
    counter("tablekeeper_transactions_total", &[], "transactions", "Transactions committed for stream records");
pub static ACTIONS: Metric =
    counter("tablekeeper_transaction_actions_total", &[], "writes", "Single writes in those transactions");
pub static CONFLICTS: Metric = counter(
    "tablekeeper_conflicts_total",
    &[],
    "writes",
    "Writes that met another transaction on the same item; they are sent again",
);
pub static RETRIES: Metric = counter(
    "tablekeeper_retries_total",
    &[],
    "requests",
    "Requests for stream records that were sent again after a pause",
);
pub static UNITS: Metric = counter(
    "tablekeeper_consumed_units_total",
    &["kind"],
    "units",
    "Capacity consumed by all requests of this process to the tables, as their answers report it: read, write",
);
pub static REQUESTS: Metric = counter(
    "tablekeeper_requests_total",
    &["operation"],
    "requests",
    "Requests of this process: get, transact, query, scan, write to the tables; describe, iterator, records to the stream",
);
pub static SHARDS_OWNED: Metric =
    gauge("tablekeeper_shards_owned", &[], "shards", "Unfinished shards that this worker reads");
pub static SHARDS_LISTED: Metric =
    gauge("tablekeeper_shards_listed", &[], "shards", "Shards of the stream as last listed, finished ones among them");
pub static SHARDS_FINISHED: Metric =
    counter("tablekeeper_shards_finished_total", &[], "shards", "Shards read to their end");
pub static SHARDS_TAKEN: Metric = counter(
    "tablekeeper_shards_taken_total",
    &[],
    "shards",
    "Shards whose lease this worker has taken; with one worker each shard is taken once",
);
pub static LEASES_LOST: Metric = counter(
    "tablekeeper_leases_lost_total",
    &[],
    "shards",
    "Shards that other workers have taken over, or may have while this one was silent",
);
pub static LEASE_FAILURES: Metric = counter(
    "tablekeeper_lease_failures_total",
    &[],
    "requests",
    "Attempts to renew the leases that failed; after a lease time without one that succeeds others take the shards",
);
pub static WORKERS: Metric = gauge(
    "tablekeeper_workers",
    &[],
    "workers",
    "Workers that share the shards, as this one sees them; 0 without leases",
);
pub static PAGES: Metric =
    counter("tablekeeper_pages_read_total", &["content"], "pages", "Pages read from the stream: records, or empty");
pub static TROUBLE: Metric = counter(
    "tablekeeper_stream_failures_total",
    &[],
    "requests",
    "Requests to the stream that failed; they are repeated",
);
pub static GAPS: Metric = counter(
    "tablekeeper_gaps_total",
    &["cause"],
    "gaps",
    "Reasons to reconcile: first_start, model_changed (nothing was lost); still_open, trimmed, shard_gone, stream_replaced, away_too_long, parent_unseen",
);
pub static GAP_OPEN: Metric = gauge(
    "tablekeeper_gap_open",
    &[],
    "0 or 1",
    "1 from a gap until the table has been reconciled: derived items may be wrong meanwhile",
);
pub static REPAIR_FAILURES: Metric =
    counter("tablekeeper_repair_failures_total", &[], "attempts", "Attempts to reconcile after a gap that failed");
pub static CHECKPOINT_FAILURES: Metric = counter(
    "tablekeeper_checkpoint_failures_total",
    &[],
    "requests",
    "Positions that could not be stored; a restart would read more than it had to",
);
pub static FINDINGS: Metric = gauge(
    "tablekeeper_findings",
    &["code"],
    "findings",
    "Findings that stand in the table now, of all workers; `tablekeeper explain CODE` tells what to do",
);
pub static FINDINGS_WRITTEN: Metric = counter(
    "tablekeeper_findings_written_total",
    &["code"],
    "findings",
    "Findings of the items that this worker wrote; an item that is written again counts again",
);
pub static FINDINGS_INTRODUCED: Metric = counter(
    "tablekeeper_findings_introduced_total",
    &["code"],
    "findings",
    "Findings that changes of items brought, each once; the totals in the table count those of all workers",
);
pub static FINDINGS_RESOLVED: Metric = counter(
    "tablekeeper_findings_resolved_total",
    &["code"],
    "findings",
    "Findings that stand no more: the item was mended or deleted, or the model changed",
);
pub static QUARANTINE: Metric =
    gauge("tablekeeper_quarantine_rows", &[], "rows", "Rows in quarantine now, of all workers; counted up to 10000");
pub static OUTBOX: Metric = gauge(
    "tablekeeper_outbox_messages",
    &[],
    "messages",
    "Notifications decided and not yet delivered, of all sweeps; counted up to 10000",
);
pub static CENSUS_FAILURES: Metric = counter(
    "tablekeeper_census_failures_total",
    &[],
    "attempts",
    "Scrapes at which findings, quarantine and outbox could not be counted; their last values are served",
);

/// All metrics, in the order of the README's table.
pub static METRICS: &[&Metric] = &[
    &LAG,
    &RECORDS,
    &BATCHES,
    &BATCH_RECORDS,
    &TRANSACTIONS,
    &ACTIONS,
    &CONFLICTS,
    &RETRIES,
    &UNITS,
    &REQUESTS,
    &SHARDS_OWNED,
    &SHARDS_LISTED,
    &SHARDS_FINISHED,
    &SHARDS_TAKEN,
    &LEASES_LOST,
    &LEASE_FAILURES,
    &WORKERS,
    &PAGES,
    &TROUBLE,
    &GAPS,
    &GAP_OPEN,
    &REPAIR_FAILURES,
    &CHECKPOINT_FAILURES,
    &FINDINGS,
    &FINDINGS_WRITTEN,
    &FINDINGS_INTRODUCED,
    &FINDINGS_RESOLVED,
    &QUARANTINE,
    &OUTBOX,
    &CENSUS_FAILURES,
];

/// Upper bounds of [`BATCH_RECORDS`]: a page of the stream has at most 1,000 records, pages of several shards may be one batch.
pub const BATCH_BUCKETS: [f64; 9] = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0];

/// A census costs reads, so scrapes that follow each other faster share one.
pub const CENSUS_AGE_MAX: Duration = Duration::from_secs(5);

/// Fields of log lines, besides time, level, target and `message`.
pub const LOG_FIELDS: [(&str, &str); 57] = [
    ("address", "where health and metrics are served"),
    ("already_applied", "items whose record, or something later, had been applied before"),
    ("applied", "items whose record was applied"),
    ("arn", "the stream's ARN"),
    ("attempt", "attempts of this batch so far"),
    ("attribute", "name of a table's attribute"),
    ("can_retry", "whether the same batch may succeed later"),
    ("cause", "why there is a gap, as in `tablekeeper_gaps_total`"),
    ("code", "code of the finding that says why a record or item was given up"),
    ("derived_items", "derived items that were read"),
    ("differences", "what is stored and not as it should be"),
    ("due", "dates that are due, or soon"),
    ("error", "an error and its causes in one line"),
    ("failures", "failures of this request in a row"),
    ("files", "files of a printed report"),
    ("from", "the worker that a shard was taken over from: it had more than its share"),
    ("hash", "hash of the model"),
    ("item", "digest of a source item's key: `LEDGER#<digest>` is its row in the state table"),
    ("items", "source items that were looked at"),
    ("key", "a source item's key; only with `--log-keys`"),
    ("kind", "kind of a difference, as `verify` has it"),
    ("ledger_rows", "ledger rows that were looked at"),
    ("malformed", "records that name no item or have no sequence number; they are in quarantine"),
    ("missed", "times of a report before this one that are never printed"),
    ("model", "name of the model"),
    ("more", "further records or items like the ones before that are not listed one by one"),
    ("others", "reports that another invocation is printing"),
    ("ours", "records of derived items"),
    ("owned", "unfinished shards that this worker reads"),
    ("position", "position in the batch of the first record that is not durable"),
    ("printed", "reports printed now"),
    ("quarantined", "items given up with a finding"),
    ("reconciled", "items that were read and put right because the ledger said something else"),
    ("records", "records of a batch"),
    ("report", "name of a report"),
    ("reports", "reports that the model names"),
    ("resolved", "dates that were renewed, or whose items are gone"),
    ("resumed", "shards with a stored position"),
    ("retries", "requests of a batch that were sent again after a pause"),
    ("sent", "notifications delivered"),
    ("sequence", "a record's sequence number, where no item can be named"),
    ("shard", "the shard's id"),
    ("shards", "shards of the stream"),
    ("skipped", "records that change nothing that is derived"),
    ("slot", "the time that a report was due at"),
    ("start", "where reading a shard begins"),
    ("superseded", "records that a later one of the same item in the batch made void"),
    ("table", "name of a table"),
    ("task", "what the schedule function was called for"),
    ("transactions", "transactions of a batch, or of a reconcile"),
    ("undelivered", "notifications that stay in the outbox"),
    ("unreadable", "expiry and alert rows that cannot be read"),
    ("unsettled", "differences about what is being written"),
    ("until", "when what is waited for has come"),
    ("what", "what differs: an aggregate and its measure, a derived item's marker, an entity"),
    ("whole", "whether both tables were read whole, not a sample"),
    ("workers", "workers that share the shards"),
];

/// The README's table of metrics.
pub fn metrics_table() -> String {
    let rows = METRICS.iter().map(|metric| {
        let labels = metric.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let labels = if labels.is_empty() { String::new() } else { format!(" by {labels}") };
        format!("| `{}` | {} of {}{labels} | {} |\n", metric.name, metric.kind.name(), metric.unit, metric.help)
    });
    ["| metric | what | meaning |\n".to_owned(), "|---|---|---|\n".to_owned()].into_iter().chain(rows).collect()
}

/// The error and its causes in one line; an item in it is named by the digest of its key unless `keys` may be shown.
pub fn explain(error: &(dyn Error + 'static), keys: bool) -> String {
    let (mut parts, mut next) = (Vec::<String>::new(), Some(error));
    let mut named = None;
    while let Some(error) = next {
        named = named.or_else(|| key_in(error));
        let text = error.to_string();
        // Some errors end with what their source says.
        if !parts.last().is_some_and(|said| said.ends_with(&text)) {
            parts.push(text);
        }
        next = error.source();
    }
    let text = parts.join(": ");
    match named.filter(|_| !keys) {
        Some(key) => text.replace(&key.to_string(), &format!("item {}", key.digest())),
        None => text,
    }
}

/// The item that an error's own message names.
fn key_in<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e TableKey> {
    if let Some(ReconcileError::NoLedger { key }) = error.downcast_ref() {
        return Some(key);
    }
    error.downcast_ref::<CommitError>()?.key()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_distinct_and_follow_prometheus_conventions() {
        let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            let rest = metric.name.strip_prefix("tablekeeper_").expect(metric.name);
            assert!(rest.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{rest}");
            assert_eq!(rest.ends_with("_total"), metric.kind == Kind::Counter, "{rest}");
            assert!(!metric.help.contains('|') && !metric.help.ends_with('.'), "{}", metric.help);
        }
        let fields: Vec<&str> = LOG_FIELDS.iter().map(|(name, _)| *name).collect();
        assert!(fields.is_sorted(), "{fields:?}");
    }

    #[test]
    fn the_table_has_a_row_for_each_metric() {
        let table = metrics_table();
        assert_eq!(table.lines().count(), METRICS.len() + 2);
        assert!(table.contains("| `tablekeeper_records_total` | counter of records by `outcome` | "), "{table}");
    }
}
