//! Tests of batch and commit on the in-memory store: what they share.
#![cfg(test)]

mod cases;
mod faults;
mod histories;
mod origins;
mod peers;
mod shipped;

use std::future::Future;
use std::sync::Arc;

use chrono::DateTime;

use super::batch::{ApplyError, BatchReport, Engine, OldImages};
use crate::adapters::sim::{SimClock, SimStore, Stepper, audit, audit_settled};
use crate::model::change::RawRecord;
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, Value};
use crate::plan::ledger::LedgerRow;
use crate::plan::testing::model;
use crate::plan::write::TableRef;

pub type SimEngine = Engine<SimStore, SimClock>;

/// Two tables, a clock and an engine on them.
pub struct World {
    pub model: Arc<Model>,
    pub store: SimStore,
    pub clock: SimClock,
    pub engine: SimEngine,
    /// Records of the stream that were delivered.
    pub delivered: usize,
}

impl World {
    pub fn new() -> World {
        World::with(model())
    }

    pub fn with(model: Model) -> World {
        let model = Arc::new(model);
        let store = SimStore::new(&model.table);
        let clock = SimClock::new(DateTime::from_timestamp(1_800_000_000, 0).unwrap(), 7);
        let engine = Engine::new(model.clone(), store.clone(), clock.clone());
        World { model, store, clock, engine, delivered: 0 }
    }

    /// The records that were not delivered yet.
    pub fn pending(&mut self) -> Vec<RawRecord> {
        let records = self.store.records(self.delivered);
        self.delivered += records.len();
        records
    }

    pub fn try_apply(&self, records: &[RawRecord]) -> Result<BatchReport, ApplyError> {
        let report = run_audited(&self.store, self.engine.apply(records, OldImages::Trusted));
        if let Ok(report) = &report {
            check_sum(report);
        }
        report
    }

    pub fn apply(&self, records: &[RawRecord]) -> BatchReport {
        self.try_apply(records).unwrap()
    }

    /// Delivers the rest of the stream, the records of our own writes included, and checks I1, I2 and I4.
    pub fn settle(&mut self) -> BatchReport {
        let records = self.pending();
        let report = self.apply(&records);
        let ours = self.pending();
        assert_eq!(self.apply(&ours).transactions, 0, "records of derived items lead to no write");
        assert_settled(&self.store, &self.model);
        report
    }

    /// The ledger row of an item.
    pub fn ledger(&self, key: &TableKey) -> Option<LedgerRow> {
        self.store.item(TableRef::State, &LedgerRow::key(key)).map(|item| LedgerRow::from_item(&item).unwrap())
    }

    /// A measure of aggregate `by_project`, as stored.
    pub fn measure(&self, project: &str, measure: &str) -> Option<String> {
        let key = TableKey::text(format!("PROJECT#{project}"), "STATS#JOBS");
        Some(self.store.item(TableRef::Source, &key)?.number(measure)?.to_string())
    }

    /// Sort keys in a partition of the source table.
    pub fn partition(&self, partition: &str) -> Vec<String> {
        let table = self.store.table(TableRef::Source);
        let keys = table.items().map(|(key, _)| key).filter(|key| key.partition.as_text() == Some(partition));
        keys.filter_map(|key| key.sort.as_ref()?.as_text().map(str::to_owned)).collect()
    }

    /// Rows in quarantine.
    pub fn quarantine(&self) -> Vec<Item> {
        let table = self.store.table(TableRef::State);
        let rows = table.items().filter(|(key, _)| key.partition.as_text() == Some("QUARANTINE"));
        rows.map(|(_, item)| item.clone()).collect()
    }
}

pub fn job_key(job: usize) -> TableKey {
    TableKey::text(format!("JOB#{job}"), format!("USER#u{}", job % 2))
}

pub fn job(job: usize, project: &str, status: &str, hours: &str) -> Item {
    let key = job_key(job).to_item(&model().table.key_names());
    key.with("Project", Value::text(project))
        .with("Status", Value::text(status))
        .with("Hours", Value::N(hours.parse().unwrap()))
}

/// Runs a future step by step and checks I1 and I2 after every commit.
pub fn run_audited<T>(store: &SimStore, future: impl Future<Output = T>) -> T {
    let mut stepper = Stepper::new(future);
    let mut commits = store.counters().commits;
    loop {
        let output = stepper.step();
        assert_audit(store, &mut commits);
        if let Some(output) = output {
            return output;
        }
    }
}

/// Checks I1 and I2 if there was a commit since.
pub fn assert_audit(store: &SimStore, commits: &mut usize) {
    let now = store.counters().commits;
    if std::mem::replace(commits, now) != now {
        let faults = audit(store);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}

pub fn assert_settled(store: &SimStore, model: &Model) {
    let faults = audit_settled(store, model);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Every record is accounted for.
fn check_sum(report: &BatchReport) {
    let parts = [
        report.ours,
        report.skipped,
        report.superseded,
        report.applied,
        report.already_applied,
        report.reconciled,
        report.quarantined,
        report.malformed,
    ];
    assert_eq!(parts.iter().sum::<usize>(), report.records, "{report:?}");
}
