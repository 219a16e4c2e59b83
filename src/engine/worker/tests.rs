//! Whole runs over a stream and a state table in memory.
#![cfg(test)]

use std::collections::VecDeque;
use std::future::{Future, pending, ready};
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Waker};

use proptest::prelude::*;

use super::*;
use crate::adapters::sim::{Fault, SimStore};
use crate::engine::batch::OldImages;
use crate::engine::checkpoint::{self, Checkpoint, DEFAULT_CONSUMER, StreamRow, open_gap};
use crate::engine::ports::ShardStart;
use crate::engine::shards::GapCause;
use crate::engine::testing::{ARN, Call, FakeShard, FakeStream, TestClock};
use crate::model::spec::{KeyAttribute, Table};
use crate::model::value::Kind;
use crate::plan::write::TableRef;

mod gaps;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the batch failed")]
struct Failed;

/// Applies by remembering.
#[derive(Debug)]
struct Sink {
    clock: TestClock,
    /// How long a batch takes.
    takes: Duration,
    /// Outcomes of the next batches; then all succeed.
    failures: Mutex<VecDeque<bool>>,
    applied: Mutex<Vec<(u64, OldImages)>>,
}

impl BatchSink for Sink {
    type Report = usize;
    type Fault = Failed;

    async fn apply(&self, records: &[RawRecord], trust: OldImages) -> Result<usize, Failed> {
        self.clock.sleep(self.takes).await;
        if self.failures.lock().unwrap().pop_front() == Some(true) {
            return Err(Failed);
        }
        let numbers = records.iter().map(|record| record.sequence.as_ref().unwrap().parse::<u64>().unwrap());
        self.applied.lock().unwrap().extend(numbers.map(|number| (number, trust)));
        Ok(records.len())
    }
}

/// Repairs after a while, or says it will not.
struct Repairer {
    clock: TestClock,
    takes: Duration,
    results: Mutex<VecDeque<Result<Repaired, String>>>,
    gaps: Mutex<Vec<Gap>>,
}

impl Repair for Repairer {
    async fn repair(&self, gap: &Gap) -> Result<Repaired, String> {
        self.gaps.lock().unwrap().push(gap.clone());
        self.clock.sleep(self.takes).await;
        self.results.lock().unwrap().pop_front().unwrap_or(Ok(Repaired::Done))
    }
}

#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Observer<usize> for Log {
    fn progress(&self, progress: Progress<'_, usize>) {
        self.0.lock().unwrap().push(format!("{progress:?}"));
    }
}

impl Log {
    fn has(&self, part: &str) -> bool {
        self.0.lock().unwrap().iter().any(|line| line.contains(part))
    }
}

struct World {
    clock: TestClock,
    stream: FakeStream,
    store: SimStore,
    sink: Sink,
    repair: Repairer,
    log: Log,
    settings: WorkerSettings,
}

impl World {
    fn new(shards: Vec<FakeShard>) -> World {
        let clock = TestClock::at("2026-03-01T10:00:00Z");
        let mut settings = WorkerSettings::new("model-1");
        settings.until_idle = true;
        World {
            stream: FakeStream::new(&clock, shards),
            store: SimStore::new(&table()),
            sink: Sink {
                clock: clock.clone(),
                takes: Duration::ZERO,
                failures: Mutex::default(),
                applied: Mutex::default(),
            },
            repair: Repairer {
                clock: clock.clone(),
                takes: Duration::ZERO,
                results: Mutex::default(),
                gaps: Mutex::default(),
            },
            log: Log::default(),
            settings,
            clock,
        }
    }

    /// A world that has read everything once, with no gap open.
    fn settled(shards: Vec<FakeShard>) -> World {
        let world = World::new(shards);
        let report = world.run().unwrap();
        assert!(!report.gap_open);
        world.sink.applied.lock().unwrap().clear();
        world.repair.gaps.lock().unwrap().clear();
        world
    }

    fn worker(&self) -> Worker<'_, Sink, SimStore, FakeStream, TestClock, Log, Repairer> {
        Worker {
            sink: &self.sink,
            store: &self.store,
            stream: &self.stream,
            clock: &self.clock,
            observer: &self.log,
            repair: &self.repair,
            settings: &self.settings,
        }
    }

    fn run(&self) -> Result<WorkerReport, WorkerError<Failed>> {
        self.clock.run(self.worker().run(pending()))
    }

    fn numbers(&self) -> Vec<u64> {
        self.sink.applied.lock().unwrap().iter().map(|(number, _)| *number).collect()
    }

    fn row(&self, shard: &str) -> Option<Checkpoint> {
        let rows = self.clock.run(checkpoint::load_shards(&self.store, &self.clock, ARN, DEFAULT_CONSUMER)).unwrap();
        rows.into_iter().find(|row| &*row.key.shard == shard)
    }

    fn stream_row(&self) -> StreamRow {
        let item = self.store.item(TableRef::State, &StreamRow::row_key(ARN)).unwrap();
        StreamRow::from_item(&item).unwrap()
    }
}

fn table() -> Table {
    let text = |name: &str| KeyAttribute { name: name.to_owned(), kind: Kind::S };
    Table {
        name: "T".to_owned(),
        partition_key: text("PK"),
        sort_key: Some(text("SK")),
        indexes: Vec::new(),
        ttl: None,
        state_table: "T-keeper".to_owned(),
    }
}

fn one_shard(records: impl IntoIterator<Item = u64>) -> Vec<FakeShard> {
    vec![FakeShard::new("a", None, records, false)]
}

#[test]
fn a_run_reads_everything_and_the_next_one_goes_on() {
    let world = World::new(vec![
        FakeShard::new("a", None, 1..=5, true),
        FakeShard::new("b", Some("a"), 6..=8, false),
        FakeShard::new("c", Some("a"), 9..=9, false),
    ]);
    let report = world.run().unwrap();
    assert_eq!((report.records, report.shards_finished, report.gaps), (9, 1, 0));
    assert_eq!(world.numbers()[..5], [1, 2, 3, 4, 5]);
    assert!(world.row("a").unwrap().finished);
    assert_eq!(world.row("b").unwrap().last.unwrap().to_string(), "8");

    world.stream.with_shard("b", |shard| shard.records.push(10));
    let report = world.run().unwrap();
    assert_eq!((report.records, world.numbers().last()), (1, Some(&10)));
}

#[test]
fn a_stop_finishes_the_batch_under_way_and_stores_its_checkpoint() {
    // data-prepper 5413: SIGTERM in mid-batch.
    let mut world = World::settled(one_shard(1..=2));
    world.stream.with_shard("a", |shard| shard.records.extend(3..=8));
    world.settings.until_idle = false;
    world.sink.takes = Duration::from_secs(5);
    world.clock.run(world.worker().run(world.clock.sleep(Duration::from_secs(7)))).unwrap();
    assert!(world.log.has("stopping"));
    assert_eq!(world.numbers(), [3, 4, 5, 6]);
    assert_eq!(world.row("a").unwrap().last.unwrap().to_string(), "6");
    world.clock.run(world.worker().run(world.clock.sleep(Duration::from_secs(30)))).unwrap();
    assert_eq!(world.numbers(), [3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_failing_batch_is_tried_again_and_nothing_is_skipped() {
    let world = World::settled(one_shard(1..=2));
    world.stream.with_shard("a", |shard| shard.records.extend(3..=6));
    *world.sink.failures.lock().unwrap() = vec![true; 3].into();
    world.run().unwrap();
    assert_eq!(world.numbers(), [3, 4, 5, 6]);

    world.stream.with_shard("a", |shard| shard.records.extend(7..=10));
    let attempts = world.settings.apply_attempts;
    *world.sink.failures.lock().unwrap() = [false].into_iter().chain(vec![true; attempts as usize]).collect();
    let before = world.clock.now();
    let error = world.run().unwrap_err();
    assert_eq!(error, WorkerError::Batch { shard: "a".to_owned(), attempts, source: Failed });
    assert!(world.clock.now() - before > chrono::TimeDelta::seconds(3), "attempts without pauses");
    assert_eq!(world.row("a").unwrap().last.unwrap().to_string(), "8");
    world.run().unwrap();
    assert_eq!(world.numbers(), [3, 4, 5, 6, 7, 8, 9, 10]);
}

#[test]
fn a_stop_does_not_wait_for_a_batch_that_keeps_failing() {
    let mut world = World::settled(one_shard(1..=2));
    world.stream.with_shard("a", |shard| shard.records.push(3));
    world.settings.until_idle = false;
    world.settings.apply_attempts = u32::MAX;
    *world.sink.failures.lock().unwrap() = vec![true; 1000].into();
    let before = world.clock.now();
    world.clock.run(world.worker().run(world.clock.sleep(Duration::from_secs(60)))).unwrap();
    assert!(world.clock.now() - before < chrono::TimeDelta::seconds(61));
    assert_eq!(world.row("a").unwrap().last.unwrap().to_string(), "2");
}

#[test]
fn back_pressure_beyond_an_iterators_life_loses_nothing() {
    // redpanda 4545: each batch takes 16 minutes.
    let mut world = World::settled(one_shard(1..=2));
    world.stream.with_shard("a", |shard| shard.records.extend(3..=7));
    world.sink.takes = Duration::from_secs(16 * 60);
    world.run().unwrap();
    assert_eq!(world.numbers(), [3, 4, 5, 6, 7]);
    let retaken = world.stream.times(|call| matches!(call, Call::Iterator(_, ShardStart::After(_))));
    assert!(retaken.len() >= 3);
}

#[test]
fn a_stream_that_is_not_to_be_reached_at_start_is_tried_a_few_times() {
    let world = World::new(one_shard(1..=2));
    let down = StreamError::Unavailable("down".to_owned());
    world.stream.lock().describe_faults.extend(vec![down.clone(); 3]);
    world.run().unwrap();
    let world = World::new(one_shard(1..=2));
    world.stream.lock().describe_faults.extend(vec![down.clone(); 50]);
    assert_eq!(world.run().unwrap_err(), WorkerError::Stream(down));
    let world = World::new(one_shard(1..=2));
    world.stream.lock().describe_faults.push_back(StreamError::NoStream);
    assert_eq!(world.run().unwrap_err(), WorkerError::Stream(StreamError::NoStream));
}

#[test]
fn a_checkpoint_that_cannot_be_stored_does_not_stop_the_reading() {
    let mut world = World::settled(one_shard(1..=2));
    world.settings.shards.idle_pages = 30;
    world.stream.with_shard("a", |shard| shard.records.extend(3..=6));
    for _ in 0..6 {
        let throttled = StoreError::Throttled("slow down".to_owned());
        world.store.inject(Fault::Transact(TransactError::Store(throttled)));
    }
    world.run().unwrap();
    assert_eq!(world.numbers(), [3, 4, 5, 6]);
    assert!(world.log.has("checkpoint failed"));
    assert_eq!(world.row("a").unwrap().last.unwrap().to_string(), "6");
}

#[test]
fn a_gap_that_cannot_be_remembered_ends_the_worker() {
    let mut world = World::settled(one_shard(1..=4));
    world.settings.on_gap = OnGap::Reconcile;
    world.stream.with_shard("a", |shard| {
        shard.records.extend(5..=9);
        shard.trimmed = 7;
    });
    for _ in 0..50 {
        let refused = StoreError::Refused("no".to_owned());
        world.store.inject(Fault::Transact(TransactError::Store(refused)));
    }
    assert!(matches!(world.run().unwrap_err(), WorkerError::StateWrite(_)));
    assert_eq!(world.numbers(), [0u64; 0]);
}

#[test]
fn a_run_can_be_given_to_any_runtime() {
    fn spawnable<T: Send>(future: T) -> T {
        future
    }
    let world = World::new(one_shard(1..=2));
    let run = spawnable(world.worker().run(ready(())));
    assert!(world.clock.run(run).is_ok());
    let unobserved = Worker {
        sink: &world.sink,
        store: &world.store,
        stream: &world.stream,
        clock: &world.clock,
        observer: &Unobserved,
        repair: &NoRepair,
        settings: &world.settings,
    };
    assert!(world.clock.run(spawnable(unobserved.run(pending()))).unwrap().gap_open);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Killed at any moment, any number of times: every record is applied, and its first application is in order.
    #[test]
    fn kills_at_any_moment_lose_nothing(kills in prop::collection::vec(1..120usize, 0..12)) {
        let world = World::new(vec![
            FakeShard::new("a", None, 1..=9, true),
            FakeShard::new("b", Some("a"), 10..=14, true),
            FakeShard::new("c", Some("b"), 15..=20, false),
        ]);
        for polls in kills {
            let mut run = Box::pin(world.worker().run(pending()));
            for _ in 0..polls {
                if run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                    break;
                }
                world.clock.advance(Duration::from_millis(100));
            }
        }
        world.run().unwrap();
        let mut seen = Vec::new();
        for number in world.numbers() {
            if !seen.contains(&number) {
                seen.push(number);
            }
        }
        prop_assert_eq!(seen, (1..=20).collect::<Vec<u64>>());
    }
}
