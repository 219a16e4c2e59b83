//! The whole chain: a table that changes, its records in shards that split, a worker that is killed, and the auditor.
#![cfg(test)]

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::task::{Context, Waker};

use proptest::prelude::*;

use super::*;
use crate::adapters::sim::{Fault, SimStore, audit, audit_settled};
use crate::engine::batch::Engine;
use crate::engine::checkpoint::{Checkpoint, DEFAULT_CONSUMER, load_shards};
use crate::engine::testing::{FakeShard, FakeStream, TestClock};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::Value;
use crate::plan::testing::model;

/// A table, its stream and how far the one was copied to the other. An item's records stay in one lineage: the shard of its
/// user, or that shard's latest descendant.
pub(super) struct World {
    pub model: Arc<Model>,
    pub clock: TestClock,
    pub store: SimStore,
    pub stream: FakeStream,
    pub engine: Engine<SimStore, TestClock>,
    pub settings: WorkerSettings,
    copied: usize,
    /// The open shards, one for each lane of users.
    open: Vec<String>,
    splits: usize,
}

/// Users of one lane: user `n` is in lane `n / LANE`.
const LANE: usize = 2;

impl World {
    fn new() -> World {
        World::with_lanes(2)
    }

    pub fn with_lanes(lanes: usize) -> World {
        let model = Arc::new(model());
        let clock = TestClock::at("2026-03-01T10:00:00Z");
        let store = SimStore::new(&model.table);
        let open: Vec<String> = (0..lanes).map(|lane| format!("lane{lane:02}")).collect();
        let shards = open.iter().map(|id| FakeShard::new(id, None, [], false)).collect();
        let stream = FakeStream::new(&clock, shards);
        stream.lock().page_size = 5;
        let engine = Engine::new(model.clone(), store.clone(), clock.clone());
        let mut settings = WorkerSettings::new(model.hash.clone());
        settings.until_idle = true;
        World { model, clock, store, stream, engine, settings, copied: 0, open, splits: 0 }
    }

    pub fn users(&self) -> usize {
        self.open.len() * LANE
    }

    /// Puts or deletes a job; its record goes to the open shard of its user's lane.
    pub fn play(&mut self, (job, user, hours): (u8, usize, Option<u8>)) {
        let user = user % self.users();
        let key = TableKey::text(format!("JOB#{job}"), format!("USER#{user}"));
        match hours {
            None => self.store.delete(&key),
            Some(hours) => {
                let status = ["Open", "Busy", "Done", "Lost"][usize::from(hours) % 4];
                let item = key
                    .to_item(&self.model.table.key_names())
                    .with("Status", Value::text(status))
                    .with("Project", Value::text(format!("P{}", hours % 3)))
                    .with("Hours", Value::N(i64::from(hours).into()));
                self.store.put(item).unwrap();
            }
        }
        self.copy();
    }

    /// Copies new records, those of derived items included, into the shards.
    pub fn copy(&mut self) {
        let records = self.store.records(self.copied);
        self.copied += records.len();
        let mut state = self.stream.lock();
        for record in records {
            let number: u64 = record.sequence.as_ref().unwrap().parse().unwrap();
            let keys = record.keys.as_ref().unwrap().as_ref().unwrap();
            // Derived items are in any lane; all of theirs in the same.
            let user = keys.text("SK").unwrap().strip_prefix("USER#").and_then(|user| user.parse::<usize>().ok());
            let open = &self.open[user.unwrap_or_default() / LANE];
            state.shards.iter_mut().find(|shard| shard.id == *open).unwrap().records.push(number);
            state.contents.insert(number, record);
        }
    }

    /// The open shard of a lane closes, and a child goes on; it is listed late.
    pub fn split(&mut self, lane: usize) {
        let lane = lane % self.open.len();
        self.copy();
        self.splits += 1;
        let (id, parent) = (format!("s{}", self.splits), self.open[lane].clone());
        let mut state = self.stream.lock();
        let mut child = FakeShard::new(&id, Some(&parent), [], false);
        child.hidden = state.describes + 1;
        state.shards.iter_mut().find(|shard| shard.id == parent).unwrap().closed = true;
        state.shards.push(child);
        drop(state);
        self.open[lane] = id;
    }

    fn worker(&self) -> Worker<'_, Engine<SimStore, TestClock>, SimStore, FakeStream, TestClock, Unobserved, NoRepair> {
        Worker {
            sink: &self.engine,
            store: &self.store,
            stream: &self.stream,
            clock: &self.clock,
            observer: &Unobserved,
            repair: &NoRepair,
            settings: &self.settings,
        }
    }

    /// A worker for so many polls, then kill -9.
    fn run_and_kill(&self, polls: usize) {
        let mut run = Box::pin(self.worker().run(pending()));
        for _ in 0..polls {
            if run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                return;
            }
            self.clock.advance(Duration::from_millis(50));
        }
    }

    pub fn settle(&mut self) {
        // Twice: the first run's own writes are records too.
        for _ in 0..2 {
            self.copy();
            let ended = (0..20).any(|_| self.clock.run(self.worker().run(pending())).is_ok());
            assert!(ended, "faults that end must not keep the worker from its end");
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Change((u8, usize, Option<u8>)),
    Split(usize),
    Kill(usize),
    LoseAnswer,
    Conflict,
    Stop,
}

fn any_step() -> impl Strategy<Value = Step> {
    let change = (0..5u8, 0..4usize, prop::option::weighted(0.8, 0..12u8));
    prop_oneof![
        8 => change.prop_map(Step::Change),
        1 => (0..2usize).prop_map(Step::Split),
        2 => (1..150usize).prop_map(Step::Kill),
        1 => Just(Step::LoseAnswer),
        1 => Just(Step::Conflict),
        1 => Just(Step::Stop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// At every moment the aggregates are what the ledger says, and at the end of the stream the ledger is what the items derive.
    #[test]
    fn a_killed_worker_leaves_exact_tables(steps in prop::collection::vec(any_step(), 1..40)) {
        let mut world = World::new();
        for step in steps {
            match step {
                Step::Change(change) => world.play(change),
                Step::Split(lane) => world.split(lane),
                Step::Kill(polls) => world.run_and_kill(polls),
                Step::LoseAnswer => world.store.inject(Fault::LoseAnswer),
                Step::Conflict => world.store.inject(Fault::Conflict(1)),
                Step::Stop => {
                    world.copy();
                    let _ = world.clock.run(world.worker().run(std::future::ready(())));
                }
            }
            prop_assert_eq!(audit(&world.store), Vec::<String>::new());
        }
        world.settle();
        prop_assert_eq!(audit_settled(&world.store, &world.model), Vec::<String>::new());
    }
}

#[test]
fn two_workers_on_the_same_shards_change_nothing() {
    let mut world = World::new();
    for n in 0..60u8 {
        world.play((n % 7, usize::from(n), (n % 5 != 4).then_some(n)));
        if n == 30 {
            world.split(0);
        }
    }
    let both = futures_util::future::join(world.worker().run(pending()), world.worker().run(pending()));
    let (first, second) = world.clock.run(both);
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(audit(&world.store), Vec::<String>::new());
    world.settle();
    assert_eq!(audit_settled(&world.store, &world.model), Vec::<String>::new());
}

#[test]
fn a_shard_that_is_read_again_from_its_beginning_changes_nothing() {
    let mut world = World::new();
    for n in 0..40u8 {
        world.play((n % 7, usize::from(n), (n % 5 != 4).then_some(n)));
    }
    world.settle();
    let before: BTreeMap<_, _> = aggregates(&world);
    let arn = world.stream.lock().arn.clone();
    for shard in world.clock.run(load_shards(&world.store, &world.clock, &arn, DEFAULT_CONSUMER)).unwrap() {
        world.store.set_state(&Checkpoint::row_key(&shard.key, DEFAULT_CONSUMER), None);
    }
    world.settle();
    assert_eq!(aggregates(&world), before);
    assert_eq!(audit_settled(&world.store, &world.model), Vec::<String>::new());
}

fn aggregates(world: &World) -> BTreeMap<TableKey, crate::model::value::Item> {
    let table = world.store.table(crate::plan::write::TableRef::Source);
    table.items().filter(|(_, item)| item.is_ours()).map(|(key, item)| (key.clone(), item.clone())).collect()
}
