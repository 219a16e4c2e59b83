//! Random histories, delivered in every wrong way that is allowed: again, in other batches, out of order across items, with
//! answers lost, crashes between requests, and another worker that holds an old batch. The invariants hold at every commit,
//! and the end is right.
#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::adapters::sim::{Fault, StreamView};
use crate::engine::ports::StoreError;

const JOBS: usize = 5;
const SHARDS: usize = 2;

#[derive(Debug, Clone)]
enum Action {
    Put {
        job: usize,
        project: usize,
        status: usize,
        hours: i64,
    },
    /// Changes an attribute that nothing is derived from.
    Touch {
        job: usize,
        note: u8,
    },
    Delete {
        job: usize,
    },
    /// Delivers the next records of a shard; afterwards the shard's position may be lost for a few of them.
    Deliver {
        shard: usize,
        count: usize,
        incident: Incident,
        back: usize,
        shuffle: u64,
    },
    /// A second worker applies some records from anywhere in the shard at the same time; `turns` says who steps.
    Zombie {
        shard: usize,
        from: usize,
        count: usize,
        turns: u64,
    },
    /// Scans all items; they are reconciled as scanned, later.
    Scan,
    /// Reconciles all items, as scanned now or a while ago, while a batch is applied.
    Reconcile {
        shard: usize,
        count: usize,
        turns: u64,
    },
}

#[derive(Debug, Clone)]
enum Incident {
    None,
    LoseAnswer,
    Conflict(usize),
    Outage,
    ReadOutage,
    /// The worker is gone after so many steps.
    Crash(usize),
}

fn incident() -> impl Strategy<Value = Incident> {
    prop_oneof![
        3 => Just(Incident::None),
        2 => Just(Incident::LoseAnswer),
        1 => (0..9usize).prop_map(Incident::Conflict),
        1 => Just(Incident::Outage),
        1 => Just(Incident::ReadOutage),
        2 => (1..14usize).prop_map(Incident::Crash),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        5 => (0..JOBS, 0..3usize, 0..4usize, -3..4i64)
            .prop_map(|(job, project, status, hours)| Action::Put { job, project, status, hours }),
        1 => (0..JOBS, any::<u8>()).prop_map(|(job, note)| Action::Touch { job, note }),
        2 => (0..JOBS).prop_map(|job| Action::Delete { job }),
        5 => (0..SHARDS, 1..7usize, incident(), 0..4usize, any::<u64>()).prop_map(
            |(shard, count, incident, back, shuffle)| Action::Deliver { shard, count, incident, back, shuffle }
        ),
        2 => (0..SHARDS, 0..40usize, 1..7usize, any::<u64>())
            .prop_map(|(shard, from, count, turns)| Action::Zombie { shard, from, count, turns }),
        1 => Just(Action::Scan),
        1 => (0..SHARDS, 1..7usize, any::<u64>())
            .prop_map(|(shard, count, turns)| Action::Reconcile { shard, count, turns }),
    ]
}

/// A world whose stream has two shards, each with a position up to which it is delivered.
struct Play {
    world: World,
    positions: [usize; SHARDS],
    scan: Option<Vec<(TableKey, Option<Item>)>>,
    /// Ids of records that left the stream before anybody saw them.
    lost: BTreeSet<String>,
    /// What the second worker runs under; it may not have heard of a new model.
    other_model: Arc<Model>,
    /// Records were lost, so old images say nothing about what is applied.
    trust: OldImages,
}

impl Play {
    fn new() -> Play {
        let world = World::new();
        let other_model = world.model.clone();
        Play {
            world,
            positions: [0; SHARDS],
            scan: None,
            lost: BTreeSet::new(),
            other_model,
            trust: OldImages::Trusted,
        }
    }

    /// A shard's records: each item's are in one shard, in order.
    fn shard(&self, shard: usize) -> Vec<RawRecord> {
        let of = |record: &RawRecord| {
            let Some(Ok(keys)) = &record.keys else { return 0 };
            let digest = TableKey::of(keys, &self.world.model.table.key_names()).unwrap().digest();
            digest.bytes().map(usize::from).sum::<usize>() % SHARDS
        };
        let is_lost = |record: &RawRecord| record.event_id.as_ref().is_some_and(|id| self.lost.contains(id));
        self.world.store.records(0).into_iter().filter(|record| of(record) == shard && !is_lost(record)).collect()
    }

    fn slice(&self, shard: usize, from: usize, count: usize) -> Vec<RawRecord> {
        self.shard(shard).into_iter().skip(from).take(count).collect()
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Put { job: n, project, status, hours } => {
                let status = ["Open", "Busy", "Done", "Mislaid"][status];
                self.world.store.put(job(n, &format!("p{project}"), status, &hours.to_string())).unwrap();
            }
            Action::Touch { job, note } => {
                if let Some(item) = self.world.store.item(TableRef::Source, &job_key(job)) {
                    self.world.store.put(item.with("Note", Value::text(note.to_string()))).unwrap();
                }
            }
            Action::Delete { job } => self.world.store.delete(&job_key(job)),
            Action::Deliver { shard, count, incident, back, shuffle } => {
                let batch = shuffled(self.slice(shard, self.positions[shard], count), shuffle);
                if self.deliver(&batch, &incident) {
                    self.positions[shard] = (self.positions[shard] + batch.len()).saturating_sub(back);
                }
            }
            Action::Scan => self.scan = Some(self.scanned()),
            Action::Zombie { shard, from, count, turns } => {
                let batch = self.slice(shard, self.positions[shard], count);
                let old = self.slice(shard, from, count);
                let other = Engine::new(self.other_model.clone(), self.world.store.clone(), self.world.clock.clone());
                let done = self.race(&batch, other.apply(&old, self.trust), turns);
                self.positions[shard] += if done { batch.len() } else { 0 };
            }
            Action::Reconcile { shard, count, turns } => {
                let batch = self.slice(shard, self.positions[shard], count);
                let items = self.scan.take().unwrap_or_else(|| self.scanned());
                let other = self.world.engine.clone();
                let done = self.race(&batch, other.apply_items(&items), turns);
                self.positions[shard] += if done { batch.len() } else { 0 };
            }
        }
    }

    /// True if the batch is durable.
    fn deliver(&self, batch: &[RawRecord], incident: &Incident) -> bool {
        let store = &self.world.store;
        let outage = StoreError::Unavailable("outage".to_owned());
        match incident {
            Incident::None | Incident::Crash(_) => {}
            Incident::LoseAnswer => store.inject(Fault::LoseAnswer),
            Incident::Conflict(at) => store.inject(Fault::Conflict(*at)),
            Incident::Outage => (0..9).for_each(|_| store.inject(Fault::Transact(outage.clone().into()))),
            Incident::ReadOutage => (0..11).for_each(|_| store.inject(Fault::Read(outage.clone()))),
        }
        let mut stepper = Stepper::new(self.world.engine.apply(batch, self.trust));
        let mut commits = store.counters().commits;
        let steps_max = if let Incident::Crash(steps) = incident { *steps } else { usize::MAX };
        for _ in 0..steps_max {
            let result = stepper.step();
            assert_audit(store, &mut commits);
            if let Some(result) = result {
                store.heal();
                return result.inspect(check_sum).is_ok();
            }
        }
        store.heal();
        false
    }

    /// Applies the batch while another future runs on the same tables. True if the batch is durable.
    fn race(
        &self,
        batch: &[RawRecord],
        other: impl Future<Output = Result<BatchReport, ApplyError>>,
        turns: u64,
    ) -> bool {
        let store = &self.world.store;
        let mut mine = Stepper::new(self.world.engine.apply(batch, self.trust));
        let mut other = Stepper::new(other);
        let (mut durable, mut turn, mut commits) = (false, 0u32, store.counters().commits);
        while !mine.is_done() || !other.is_done() {
            let mine_next = turns.rotate_left(turn) & 1 == 0;
            turn += 1;
            if (mine_next && !mine.is_done()) || other.is_done() {
                durable |= mine.step().is_some_and(|result| result.is_ok());
            } else if let Some(result) = other.step() {
                result.unwrap();
            }
            assert_audit(store, &mut commits);
        }
        durable
    }

    /// All source keys that exist or have a ledger row, with their items.
    fn scanned(&self) -> Vec<(TableKey, Option<Item>)> {
        (0..JOBS).map(|job| (job_key(job), self.world.store.item(TableRef::Source, &job_key(job)))).collect()
    }

    fn finish(&mut self) {
        for shard in 0..SHARDS {
            while self.positions[shard] < self.shard(shard).len() {
                let batch = self.slice(shard, self.positions[shard], 3);
                assert!(self.deliver(&batch, &Incident::None));
                self.positions[shard] += batch.len();
            }
        }
        assert_settled(&self.world.store, &self.world.model);
    }
}

/// Another order across items; each item's records keep theirs.
fn shuffled(batch: Vec<RawRecord>, seed: u64) -> Vec<RawRecord> {
    let mut queues: BTreeMap<String, std::collections::VecDeque<RawRecord>> = BTreeMap::new();
    for record in batch {
        queues.entry(format!("{:?}", record.keys)).or_default().push_back(record);
    }
    let (mut out, mut seed) = (Vec::new(), seed);
    while !queues.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let name = queues.keys().nth((seed >> 33) as usize % queues.len()).cloned().unwrap();
        let queue = queues.get_mut(&name).unwrap();
        out.extend(queue.pop_front());
        if queue.is_empty() {
            queues.remove(&name);
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4_000, ..ProptestConfig::default() })]

    /// I1 and I2 at every commit, I4 at the end, whatever happens on the way.
    #[test]
    fn the_end_is_right_whatever_happens_on_the_way(actions in vec(action(), 1..40)) {
        let mut play = Play::new();
        for action in actions {
            play.act(action);
        }
        play.finish();
    }

    /// The same where a child shard's numbers are below its parent's, which was read to its end before.
    #[test]
    fn numbers_that_do_not_compare_across_shards_do_no_harm(
        parent in vec(action(), 1..20),
        child in vec(action(), 1..20),
    ) {
        let mut play = Play::new();
        parent.into_iter().for_each(|action| play.act(action));
        play.finish();
        play.world.store.restart_numbers();
        child.into_iter().for_each(|action| play.act(action));
        play.finish();
    }

    /// The same from a stream that carries keys only: items are read.
    #[test]
    fn keys_only_streams_come_to_the_same_end(actions in vec(action(), 1..25)) {
        let mut play = Play::new();
        play.world.store.set_view(StreamView::KeysOnly);
        for action in actions {
            play.act(action);
        }
        play.finish();
    }

    /// Records are lost; reconciling all items afterwards heals it, though the stream goes on meanwhile.
    #[test]
    fn a_gap_is_healed_by_reconciling(actions in vec(action(), 1..25), lost in vec((0..SHARDS, 1..6usize), 1..3), more in vec(action(), 0..15)) {
        let mut play = Play::new();
        for action in actions {
            play.act(action);
        }
        for (shard, count) in lost {
            let lost = play.slice(shard, play.positions[shard], count);
            play.lost.extend(lost.into_iter().filter_map(|record| record.event_id));
        }
        play.trust = OldImages::NotTrusted;
        let items = play.scanned();
        run_audited(&play.world.store, play.world.engine.apply_items(&items)).unwrap();
        for action in more {
            play.act(action);
        }
        play.finish();
    }

    /// Another model takes over in the middle of a stream, while a second worker goes on under the old one: reconciling
    /// takes back what was applied under that.
    #[test]
    fn a_changed_model_is_a_difference_like_any_other(actions in vec(action(), 1..25), more in vec(action(), 0..10)) {
        let mut play = Play::new();
        for action in actions {
            play.act(action);
        }
        let mut changed = model();
        changed.hash = "model-2".into();
        changed.aggregates.retain(|aggregate| aggregate.name != "by_project");
        changed.listings[0].name = "jobs_listed".to_owned();
        play.world.model = Arc::new(changed);
        play.world.engine.model = play.world.model.clone();
        for action in more {
            play.act(action);
        }
        let items = play.scanned();
        run_audited(&play.world.store, play.world.engine.apply_items(&items)).unwrap();
        play.finish();
    }

    /// A shuffled batch leaves the very same table as one in order, and so does each cut of it.
    #[test]
    fn batches_and_order_across_items_do_not_matter(puts in vec((0..JOBS, 0..3usize, 0..4usize, -3..4i64), 1..20), seed: u64, cut in 1..9usize) {
        let table = |batches: &dyn Fn(Vec<RawRecord>) -> Vec<Vec<RawRecord>>| {
            let mut play = Play::new();
            for (job, project, status, hours) in puts.clone() {
                play.act(Action::Put { job, project, status, hours });
            }
            for batch in batches(play.world.store.records(0)) {
                play.world.apply(&batch);
            }
            play.world.settle();
            let table = play.world.store.table(TableRef::Source);
            table.items().map(|(key, item)| (key.clone(), item.clone())).collect::<BTreeMap<_, _>>()
        };
        let whole = table(&|records| vec![records]);
        prop_assert_eq!(&whole, &table(&|records| vec![shuffled(records, seed)]));
        prop_assert_eq!(&without_zeros(&whole), &without_zeros(&table(&|records| records.chunks(cut).map(<[_]>::to_vec).collect())));
    }
}

/// Groups that were entered and left between two cuts are there with zeros, or never were: the same to a reader.
fn without_zeros(table: &BTreeMap<TableKey, Item>) -> BTreeMap<TableKey, Item> {
    let is_zero = |item: &Item| item.number("Total").is_some_and(crate::model::decimal::Decimal::is_zero);
    let strip = |item: &Item| {
        Item(
            item.0
                .iter()
                .filter(|(name, value)| {
                    *name != "UpdatedAt" && value.as_number().is_none_or(|number| !number.is_zero())
                })
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )
    };
    table.iter().filter(|(_, item)| !is_zero(item)).map(|(key, item)| (key.clone(), strip(item))).collect()
}
