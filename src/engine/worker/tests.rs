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
fn old_images_are_trusted_only_after_a_first_backfill() {
    let mut world = World::new(one_shard(1..=4));
    world.repair.results.lock().unwrap().push_back(Ok(Repaired::Postponed));
    let report = world.run().unwrap();
    assert!(report.gap_open && report.gaps == 0);
    assert!(world.sink.applied.lock().unwrap().iter().all(|(_, trust)| *trust == OldImages::NotTrusted));

    // The next run asks again; records that come while the repair runs are not trusted, those after it are.
    world.repair.takes = Duration::from_secs(10);
    world.settings.until_idle = false;
    world.stream.with_shard("a", |shard| shard.records.push(5));
    let append = async {
        world.clock.sleep(Duration::from_secs(20)).await;
        world.stream.with_shard("a", |shard| shard.records.push(6));
        world.clock.sleep(Duration::from_secs(20)).await;
    };
    world.clock.run(world.worker().run(append)).unwrap();
    let applied = world.sink.applied.lock().unwrap();
    assert_eq!(applied[4..], [(5, OldImages::NotTrusted), (6, OldImages::Trusted)]);
    let causes: Vec<_> = world.repair.gaps.lock().unwrap().iter().map(|gap| gap.cause.clone()).collect();
    assert_eq!(causes[0], GapCause::FirstStart);
    assert!(matches!(causes[1], GapCause::StillOpen { loss: false, .. }));
}

#[test]
fn a_lost_position_halts_the_worker_at_each_start() {
    let world = World::settled(one_shard(1..=4));
    world.stream.with_shard("a", |shard| {
        shard.records.extend(5..=9);
        shard.trimmed = 7;
    });
    for _ in 0..2 {
        let error = world.run().unwrap_err();
        let WorkerError::Gap(gap) = &error else { panic!("{error:?}") };
        assert_eq!(gap.cause, GapCause::Trimmed);
        assert!(error.to_string().contains("shard a: records were trimmed"), "{error}");
        assert_eq!(world.row("a").unwrap().last.unwrap().to_string(), "4");
    }
    assert_eq!(world.numbers(), [0u64; 0]);
}

#[test]
fn a_gap_is_reconciled_beside_the_reading() {
    let mut world = World::settled(one_shard(1..=4));
    world.settings.on_gap = OnGap::Reconcile;
    world.stream.with_shard("a", |shard| {
        shard.records.extend(5..=9);
        shard.trimmed = 7;
    });
    let report = world.run().unwrap();
    assert_eq!((report.gaps, report.gap_open), (1, false));
    assert_eq!(world.numbers(), [8, 9]);
    assert!(world.log.has("gap closed"));
    assert_eq!(world.repair.gaps.lock().unwrap().len(), 1);
    assert_eq!(world.stream_row().gap, None);
}

#[test]
fn an_open_gap_survives_a_crash() {
    let mut world = World::settled(one_shard(1..=4));
    world.settings.on_gap = OnGap::Reconcile;
    world.repair.takes = Duration::from_secs(3600);
    world.stream.with_shard("a", |shard| {
        shard.records.extend(5..=9);
        shard.trimmed = 7;
    });
    // Killed while the repair runs.
    let killed = async {
        let mut run = pin!(world.worker().run(pending()));
        let mut kill = pin!(world.clock.sleep(Duration::from_secs(60)));
        std::future::poll_fn(|cx| {
            let _ = run.as_mut().poll(cx);
            kill.as_mut().poll(cx)
        })
        .await;
    };
    world.clock.run(killed);
    assert_eq!(world.numbers(), [8, 9], "reading went on");
    let gap = world.stream_row().gap.unwrap();
    assert!(gap.loss && gap.cause.contains("trimmed"));

    world.settings.on_gap = OnGap::Halt;
    assert!(matches!(world.run().unwrap_err(), WorkerError::Gap(_)), "still open");
    let seen = world.clock.run(open_gap(&world.store, &world.clock, ARN)).unwrap().unwrap();
    let close = checkpoint::close_gap(&world.store, &world.clock, ARN, &seen);
    assert!(world.clock.run(close).unwrap());
    world.run().unwrap();
}

#[test]
fn a_loss_is_repaired_as_one_whatever_else_is_found_after_it() {
    // Once more is lost than records: at the next start the checkpoints are gone as well, or the model is another one. Neither is a
    // loss for itself, but the repair closes the gap of the loss with it.
    for model_changes in [false, true] {
        let mut world = World::settled(one_shard(1..=4));
        world.settings.on_gap = OnGap::Reconcile;
        world.repair.results.lock().unwrap().push_back(Ok(Repaired::Postponed));
        world.stream.with_shard("a", |shard| {
            shard.records.extend(5..=9);
            shard.trimmed = 7;
        });
        assert!(world.run().unwrap().gap_open);
        match model_changes {
            true => world.settings.model_hash = "model-2".to_owned(),
            false => world.store.set_state(&Checkpoint::row_key(&world.row("a").unwrap().key, DEFAULT_CONSUMER), None),
        }
        assert!(!world.run().unwrap().gap_open);
        let gaps = world.repair.gaps.lock().unwrap();
        assert!(gaps.iter().all(Gap::is_loss), "{gaps:?}");
        assert_eq!(gaps.len(), 2, "one is postponed, one is done");
    }
}

#[test]
fn a_gap_found_during_a_reconcile_is_not_closed_by_it() {
    let mut world = World::settled(one_shard(1..=4));
    world.settings.on_gap = OnGap::Reconcile;
    world.settings.until_idle = false;
    world.repair.takes = Duration::from_secs(60);
    let lose = |from: u64| {
        world.stream.with_shard("a", |shard| {
            shard.records.extend(from..from + 3);
            shard.trimmed = shard.records.len() - 1;
        })
    };
    lose(5);
    let again = async {
        world.clock.sleep(Duration::from_secs(30)).await;
        lose(8);
        world.clock.sleep(Duration::from_secs(45)).await;
        let stale = world.stream_row().gap.unwrap();
        assert!(stale.last > stale.since);
        let earlier = checkpoint::OpenGap { last: stale.since, ..stale };
        assert!(!checkpoint::close_gap(&world.store, &world.clock, ARN, &earlier).await.unwrap());
        world.clock.sleep(Duration::from_secs(120)).await;
    };
    let report = world.clock.run(world.worker().run(again)).unwrap();
    assert_eq!((report.gaps, report.gap_open), (2, false));
    assert_eq!(world.repair.gaps.lock().unwrap().len(), 2);
}

#[test]
fn a_repair_that_fails_is_tried_again_later() {
    let mut world = World::new(one_shard(1..=2));
    world.settings.until_idle = false;
    world.repair.results.lock().unwrap().extend([Err("no power".to_owned()), Err("no power".to_owned())]);
    let report = world.clock.run(world.worker().run(world.clock.sleep(Duration::from_secs(200)))).unwrap();
    assert!(!report.gap_open);
    assert!(world.log.has("no power"));
    assert_eq!(world.repair.gaps.lock().unwrap().len(), 3);
}

#[test]
fn a_changed_model_calls_for_a_reconcile_and_does_not_halt() {
    let mut world = World::settled(one_shard(1..=4));
    world.settings.model_hash = "model-2".to_owned();
    let report = world.run().unwrap();
    assert_eq!((report.gaps, report.gap_open), (0, false));
    assert_eq!(world.repair.gaps.lock().unwrap()[0].cause, GapCause::ModelChanged);
    assert_eq!(world.stream_row().model, "model-2");
}

#[test]
fn lost_checkpoints_are_not_taken_for_a_stream_that_was_never_away() {
    let world = World::settled(one_shard(1..=4));
    world.store.set_state(&Checkpoint::row_key(&world.row("a").unwrap().key, DEFAULT_CONSUMER), None);
    world.run().unwrap();
    assert_eq!(world.repair.gaps.lock().unwrap()[0].cause, GapCause::FirstStart);
    assert_eq!(world.numbers(), [1, 2, 3, 4]);
}

#[test]
fn a_stream_that_was_enabled_anew_is_loud_and_its_old_rows_go() {
    let mut world = World::settled(one_shard(1..=4));
    let new = format!("{}2", ARN.strip_suffix('1').unwrap());
    world.stream.lock().arn = new.clone();
    let error = world.run().unwrap_err();
    assert!(error.to_string().contains("the table has a new stream"), "{error}");
    world.settings.on_gap = OnGap::Reconcile;
    world.run().unwrap();
    assert_eq!(world.numbers(), [1, 2, 3, 4]);
    assert_eq!(world.stream_row().arn, new);
    assert!(world.row("a").is_none(), "the old stream's checkpoint is gone");
    world.settings.on_gap = OnGap::Halt;
    world.run().unwrap();
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
