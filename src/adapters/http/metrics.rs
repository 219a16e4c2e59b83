//! The metrics of [`METRICS`], kept by the `prometheus` crate and written in its text format.
//!
//! One table of metrics serves for all: what is not in the list cannot be counted, and what is in it is registered. A metric
//! appears with its first value; counters without labels have theirs, 0, from the beginning.

use std::collections::BTreeMap;

use prometheus::core::Collector;
use prometheus::{CounterVec, Encoder as _, GaugeVec, HistogramOpts, HistogramVec, Opts, Registry, TextEncoder};

use crate::engine::batch::{ApplyError, BatchReport};
use crate::engine::shards::{GapCause, Notice};
use crate::engine::telemetry::census::Census;
use crate::engine::telemetry::readings::{Consumption, Reading, outcomes, work};
use crate::engine::telemetry::{self, BATCH_BUCKETS, Kind, METRICS, Metric};
use crate::engine::worker::Progress;

/// The media type of [`Metrics::text`].
pub const MEDIA_TYPE: &str = prometheus::TEXT_FORMAT;

/// All metrics of one worker.
pub struct Metrics {
    registry: Registry,
    counters: BTreeMap<&'static str, CounterVec>,
    gauges: BTreeMap<&'static str, GaugeVec>,
    histograms: BTreeMap<&'static str, HistogramVec>,
}

impl Metrics {
    /// # Errors
    /// Two metrics of the list are in each other's way.
    pub fn new() -> Result<Metrics, prometheus::Error> {
        let mut metrics = Metrics {
            registry: Registry::new(),
            counters: BTreeMap::new(),
            gauges: BTreeMap::new(),
            histograms: BTreeMap::new(),
        };
        for metric in METRICS {
            metrics.register(metric)?;
        }
        metrics.begin();
        Ok(metrics)
    }

    fn register(&mut self, metric: &'static Metric) -> Result<(), prometheus::Error> {
        let options = Opts::new(metric.name, metric.help);
        let collector: Box<dyn Collector> = match metric.kind {
            Kind::Counter => {
                let counter = CounterVec::new(options, metric.labels)?;
                if metric.labels.is_empty() {
                    counter.get_metric_with_label_values::<&str>(&[])?;
                }
                self.counters.insert(metric.name, counter.clone());
                Box::new(counter)
            }
            Kind::Gauge => {
                let gauge = GaugeVec::new(options, metric.labels)?;
                self.gauges.insert(metric.name, gauge.clone());
                Box::new(gauge)
            }
            Kind::Histogram => {
                let options = HistogramOpts::from(options).buckets(BATCH_BUCKETS.to_vec());
                let histogram = HistogramVec::new(options, metric.labels)?;
                histogram.get_metric_with_label_values::<&str>(&[])?;
                self.histograms.insert(metric.name, histogram.clone());
                Box::new(histogram)
            }
        };
        self.registry.register(collector)
    }

    /// What alarms look at is there from the beginning: a series that begins with its first event shows no growth by it.
    fn begin(&self) {
        for result in ["applied", "failed"] {
            self.add(&telemetry::BATCHES, &[result], 0.0);
        }
        for content in ["records", "empty"] {
            self.add(&telemetry::PAGES, &[content], 0.0);
        }
        for cause in GapCause::NAMES {
            self.add(&telemetry::GAPS, &[cause], 0.0);
        }
        self.count(&outcomes(&BatchReport::default()));
        self.set(&telemetry::WORKERS, &[], 0.0);
    }

    // A metric that is not in the list, or labels that are not the metric's, would be a fault of this file: its tests count
    // everything once and compare with the list.

    fn add(&self, metric: &Metric, labels: &[&str], count: f64) {
        let counter = self.counters.get(metric.name).map(|counter| counter.get_metric_with_label_values(labels));
        if let Some(Ok(counter)) = counter {
            counter.inc_by(count);
        }
    }

    /// Brings a counter up to a total that is counted elsewhere.
    fn raise(&self, metric: &Metric, labels: &[&str], total: f64) {
        let counter = self.counters.get(metric.name).map(|counter| counter.get_metric_with_label_values(labels));
        if let Some(Ok(counter)) = counter {
            counter.inc_by((total - counter.get()).max(0.0));
        }
    }

    fn set(&self, metric: &Metric, labels: &[&str], value: f64) {
        if let Some(Ok(gauge)) = self.gauges.get(metric.name).map(|gauge| gauge.get_metric_with_label_values(labels)) {
            gauge.set(value);
        }
    }

    /// Counts what happened.
    pub fn on(&self, progress: &Progress<'_, BatchReport>) {
        match progress {
            Progress::Turn { owned, .. } => self.set(&telemetry::SHARDS_OWNED, &[], *owned as f64),
            Progress::Listed { shards } | Progress::Started { shards, .. } => {
                self.set(&telemetry::SHARDS_LISTED, &[], *shards as f64);
            }
            Progress::Read { records } => {
                self.add(&telemetry::PAGES, &[if *records == 0 { "empty" } else { "records" }], 1.0);
            }
            Progress::Notice(notice) => self.notice(notice),
            Progress::Batch { records, report, .. } => {
                self.add(&telemetry::BATCHES, &["applied"], 1.0);
                let size = self.histograms.get(telemetry::BATCH_RECORDS.name);
                if let Some(Ok(size)) = size.map(|size| size.get_metric_with_label_values::<&str>(&[])) {
                    size.observe(*records as f64);
                }
                self.count(&outcomes(report));
                self.count(&work(report));
            }
            Progress::BatchFailed { error, .. } => {
                self.add(&telemetry::BATCHES, &["failed"], 1.0);
                // Its records come again and are counted then; what was done for them is done.
                if let Some(failure) = error.downcast_ref::<ApplyError>() {
                    self.count(&work(&failure.report));
                }
            }
            Progress::GapClosed => self.set(&telemetry::GAP_OPEN, &[], 0.0),
            Progress::RepairFailed(_) => self.add(&telemetry::REPAIR_FAILURES, &[], 1.0),
            Progress::CheckpointFailed(_) => self.add(&telemetry::CHECKPOINT_FAILURES, &[], 1.0),
            Progress::ShardTaken { .. } => self.add(&telemetry::SHARDS_TAKEN, &[], 1.0),
            Progress::ShardLost(_) => self.add(&telemetry::LEASES_LOST, &[], 1.0),
            Progress::LeasesFailed(_) => self.add(&telemetry::LEASE_FAILURES, &[], 1.0),
            Progress::Shares { workers, .. } => self.set(&telemetry::WORKERS, &[], *workers as f64),
            Progress::RepairPostponed | Progress::Stopping => {}
        }
        if let Progress::Started { .. } = progress {
            self.set(&telemetry::GAP_OPEN, &[], 0.0);
        }
    }

    fn notice(&self, notice: &Notice) {
        match notice {
            Notice::Finished(_) => self.add(&telemetry::SHARDS_FINISHED, &[], 1.0),
            Notice::Trouble { .. } => self.add(&telemetry::TROUBLE, &[], 1.0),
            Notice::Gap(gap) => {
                self.add(&telemetry::GAPS, &[gap.cause.name()], 1.0);
                self.set(&telemetry::GAP_OPEN, &[], 1.0);
            }
            Notice::Opened(..) => {}
        }
    }

    fn count(&self, readings: &[Reading<'_>]) {
        for reading in readings {
            self.add(reading.metric, reading.label.as_slice(), reading.value);
        }
    }

    pub fn lag(&self, seconds: f64) {
        self.set(&telemetry::LAG, &[], seconds);
    }

    pub fn consumption(&self, consumption: &Consumption) {
        for reading in consumption.readings() {
            self.raise(reading.metric, reading.label.as_slice(), reading.value);
        }
    }

    pub fn census(&self, census: &Census) {
        // Codes of entities that the model no longer has would stand for ever.
        if let Some(findings) = self.gauges.get(telemetry::FINDINGS.name) {
            findings.reset();
        }
        for reading in census.readings() {
            self.set(reading.metric, reading.label.as_slice(), reading.value);
        }
    }

    pub fn census_failed(&self) {
        self.add(&telemetry::CENSUS_FAILURES, &[], 1.0);
    }

    /// Everything that has a value, in Prometheus' text format.
    ///
    /// # Errors
    /// A family has no name or no value, which registration and gathering rule out.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::engine::checkpoint::ShardKey;
    use crate::engine::commit::CommitError;
    use crate::engine::ports::{ShardStart, StreamError};
    use crate::engine::shards::{Gap, GapCause};

    fn shard() -> ShardKey {
        ShardKey { arn: "arn".into(), shard: "shardId-1".into() }
    }

    fn report() -> BatchReport {
        BatchReport {
            records: 9,
            ours: 1,
            skipped: 2,
            applied: 6,
            transactions: 1,
            actions: 14,
            retries: 1,
            conflicts: 3,
            findings: BTreeMap::from([("G201".to_owned(), 2)]),
            introduced: BTreeMap::from([("G201".to_owned(), 2)]),
            resolved: BTreeMap::from([("A303".to_owned(), 1)]),
            ..BatchReport::default()
        }
    }

    /// Everything once.
    fn filled() -> Metrics {
        let metrics = Metrics::new().unwrap();
        let at = "2026-03-01T10:00:00Z".parse().unwrap();
        let notices = [
            Notice::Opened(shard(), ShardStart::TrimHorizon),
            Notice::Finished(shard()),
            Notice::Gap(Gap { cause: GapCause::Trimmed, shard: None, since: at }),
            Notice::Trouble { shard: None, error: StreamError::NoShard, failures: 1 },
        ];
        let (shard, report) = (shard(), report());
        let source = CommitError::Contended { attempts: 10 };
        let error = ApplyError { position: 0, sequence: None, report: Box::new(report.clone()), source };
        let failed = Progress::BatchFailed { shard: &shard, attempt: 1, error: &error };
        let started = Progress::Started { arn: "arn", shards: 2, resumed: 0 };
        let batch = Progress::Batch { shard: &shard, shards: 1, records: 9, report: &report };
        let turn = Progress::Turn { owned: 1, reached: None };
        for progress in [started, turn, Progress::Read { records: 0 }, Progress::Read { records: 9 }, batch, failed] {
            metrics.on(&progress);
        }
        notices.iter().for_each(|notice| metrics.on(&Progress::Notice(notice)));
        metrics.on(&Progress::RepairFailed("x"));
        metrics.on(&Progress::CheckpointFailed("x"));
        metrics.on(&Progress::ShardTaken { shard: &shard, from: None });
        metrics.on(&Progress::ShardLost(&shard));
        metrics.on(&Progress::LeasesFailed("x"));
        metrics.on(&Progress::Shares { owned: 1, workers: 3 });
        metrics.lag(0.25);
        metrics.consumption(&Consumption { read_units: 1.5, write_units: 28.0, requests: vec![("get", 3)] });
        metrics.consumption(&Consumption { read_units: 2.5, write_units: 28.0, requests: vec![("get", 4)] });
        let findings = BTreeMap::from([("G201".to_owned(), 5), ("K101".to_owned(), 0)]);
        metrics.census(&Census { findings, quarantine: 2, outbox: 4 });
        metrics.census_failed();
        metrics
    }

    #[test]
    fn what_is_served_is_what_is_listed() {
        let text = filled().text().unwrap();
        let said = |mark: &str| -> BTreeSet<String> {
            text.lines().filter_map(|line| line.strip_prefix(mark)).map(str::to_owned).collect()
        };
        let kinds = METRICS.iter().map(|metric| format!("{} {}", metric.name, metric.kind.name())).collect();
        assert_eq!(said("# TYPE "), kinds);
        let helps = METRICS.iter().map(|metric| format!("{} {}", metric.name, metric.help)).collect();
        assert_eq!(said("# HELP "), helps);
    }

    #[test]
    fn values_are_those_that_were_told() {
        let text = filled().text().unwrap();
        let lines: BTreeSet<&str> = text.lines().collect();
        for line in [
            "tablekeeper_lag_seconds 0.25",
            "tablekeeper_records_total{outcome=\"applied\"} 6",
            "tablekeeper_records_total{outcome=\"malformed\"} 0",
            "tablekeeper_batches_total{result=\"failed\"} 1",
            "tablekeeper_batch_records_bucket{le=\"3\"} 0",
            "tablekeeper_batch_records_bucket{le=\"10\"} 1",
            "tablekeeper_batch_records_sum 9",
            // Once for the batch that failed, once for the one that did not.
            "tablekeeper_transactions_total 2",
            "tablekeeper_findings_written_total{code=\"G201\"} 4",
            "tablekeeper_findings_introduced_total{code=\"G201\"} 4",
            "tablekeeper_findings_resolved_total{code=\"A303\"} 2",
            "tablekeeper_consumed_units_total{kind=\"read\"} 2.5",
            "tablekeeper_requests_total{operation=\"get\"} 4",
            "tablekeeper_gaps_total{cause=\"trimmed\"} 1",
            "tablekeeper_gap_open 1",
            "tablekeeper_findings{code=\"G201\"} 5",
            "tablekeeper_findings{code=\"K101\"} 0",
            "tablekeeper_quarantine_rows 2",
            "tablekeeper_outbox_messages 4",
            "tablekeeper_shards_owned 1",
            "tablekeeper_shards_taken_total 1",
            "tablekeeper_leases_lost_total 1",
            "tablekeeper_lease_failures_total 1",
            "tablekeeper_workers 3",
            "tablekeeper_shards_listed 2",
            "tablekeeper_pages_read_total{content=\"empty\"} 1",
        ] {
            assert!(lines.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn what_has_no_value_is_left_out() {
        let text = Metrics::new().unwrap().text().unwrap();
        assert!(text.contains("tablekeeper_transactions_total 0\n"), "{text}");
        for name in ["tablekeeper_lag_seconds", "tablekeeper_findings", "tablekeeper_quarantine_rows"] {
            assert!(!text.contains(&format!("# TYPE {name} ")), "{name}");
        }
    }
}
