//! A stream delivers at least once, in batches of its own choice, and orders nothing across items. Whatever it does with the records
//! of a whole working day, the same table comes of it.
//!
//! Two tables count as the same if all derived items are equal but for `UpdatedAt`, and all ledger rows say the same is applied. A
//! measure at zero is the same as none: whether a group was ever met depends on the batches.

// The demo's own reader of the day, so that the day here is the day there.
#[path = "../../src/cli/demo/day.rs"]
mod day;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use chrono::{DateTime, NaiveDate};
use futures_util::future::join;
use tablekeeper::adapters::files::parse_item;
use tablekeeper::adapters::sim::{SimClock, SimStore, Stepper, audit, audit_settled, block_on};
use tablekeeper::engine::batch::{Engine, OldImages};
use tablekeeper::engine::ports::Store as _;
use tablekeeper::engine::verify::verify;
use tablekeeper::model::change::RawRecord;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::load::load;
use tablekeeper::model::shipped::{SHIPPED, Shipped};
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{Item, Value};
use tablekeeper::plan::ledger::{Applied, LedgerRow};
use tablekeeper::plan::write::TableRef;

use crate::random::Random;

/// For each model.
const SHUFFLES: u64 = 40;
const RACES: u64 = 12;
/// Records in a batch where nothing else is said: few, so that most items cross batches.
const BATCH: usize = 7;

struct World {
    model: Arc<Model>,
    store: SimStore,
    clock: SimClock,
    engine: Engine<SimStore, SimClock>,
}

/// A model's sample and day, and what comes of them.
struct Day {
    world: World,
    records: Vec<RawRecord>,
    /// What comes of one delivery.
    wanted: Contents,
}

/// Derived items, and what is applied by source key.
#[derive(Debug, Clone, PartialEq)]
struct Contents {
    derived: BTreeMap<TableKey, Item>,
    applied: BTreeMap<TableKey, (Applied, bool)>,
}

impl World {
    fn new(model: &Arc<Model>) -> World {
        let store = SimStore::new(&model.table);
        let clock = SimClock::new(DateTime::from_timestamp(1_800_000_000, 0).unwrap(), 7);
        let engine = Engine::new(Arc::clone(model), store.clone(), clock.clone());
        World { model: Arc::clone(model), store, clock, engine }
    }

    fn deliver(&self, records: &[RawRecord]) {
        block_on(self.engine.apply(records, OldImages::Trusted)).unwrap();
    }

    fn contents(&self) -> Contents {
        let is_zero = |value: &Value| value.as_number().is_some_and(|number| number.is_zero());
        let mut derived = BTreeMap::new();
        for (key, item) in self.store.table(TableRef::Source).items().filter(|(_, item)| item.is_ours()) {
            let is_aggregate = item.text("_keeper").unwrap().starts_with("aggregate/");
            let mut item = item.clone();
            item.0.retain(|name, value| name != "UpdatedAt" && !(is_aggregate && is_zero(value)));
            if !is_aggregate || item.0.values().any(|value| value.as_number().is_some()) {
                derived.insert(key.clone(), item);
            }
        }
        let state = self.store.table(TableRef::State);
        let rows = state.items().filter(|(_, item)| LedgerRow::is_ledger(item));
        let rows = rows.map(|(_, item)| LedgerRow::from_item(item).unwrap());
        // A tombstone says as little as no row does.
        let rows = rows.filter(|row| !row.deleted).map(|row| (row.source, (row.applied, row.quarantined.is_some())));
        Contents { derived, applied: rows.collect() }
    }
}

impl Contents {
    /// The same where other records are in the stream as well: changes have other numbers there.
    fn without_numbers(mut self) -> Contents {
        for item in self.derived.values_mut() {
            if let Some(Value::M(origin)) = item.0.get_mut("Origin") {
                origin.remove("Seq");
            }
        }
        self
    }
}

impl Day {
    fn of(sample: Shipped) -> Day {
        let model = Arc::new(load(sample.source, sample.name).unwrap().model);
        let world = World::new(&model);
        play(&world, sample, |_| {});
        let records = world.store.records(0);
        assert!(records.len() >= 20, "{}: {} records", sample.name, records.len());
        world.deliver(&records);
        let wanted = world.contents();
        assert!(wanted.derived.len() >= 20, "{}: {} derived items", sample.name, wanted.derived.len());
        let day = Day { world, records, wanted };
        day.check(&day.world, "delivered once");
        assert_eq!(audit_settled(&day.world.store, &model), [""; 0]);
        day
    }

    /// The day's source items, and nothing derived yet.
    fn world(&self) -> World {
        let world = World::new(&self.world.model);
        for (_, item) in self.world.store.table(TableRef::Source).items().filter(|(_, item)| !item.is_ours()) {
            world.store.put(item.clone()).unwrap();
        }
        world
    }

    /// A new world after all of the deliveries.
    fn check_after<'r>(&self, deliveries: impl IntoIterator<Item = &'r [RawRecord]>, how: &str) -> World {
        let world = self.world();
        deliveries.into_iter().for_each(|batch| world.deliver(batch));
        self.check(&world, how);
        world
    }

    fn check(&self, world: &World, how: &str) {
        let name = self.world.model.name.as_str();
        assert_eq!(world.contents(), self.wanted, "{name}, {how}");
        let verified = block_on(verify(&world.model, &world.store, &world.clock)).unwrap();
        assert_eq!(verified.differences, [], "{name}, {how}");
    }
}

/// Plays sample and day into the source table, one transaction after the other.
fn play(world: &World, sample: Shipped, mut after_each: impl FnMut(&World)) {
    let names = world.model.table.key_names();
    for line in sample.items.lines().filter(|line| !line.trim().is_empty()) {
        world.store.put(parse_item(line).unwrap()).unwrap();
        after_each(world);
    }
    for step in day::parse(sample.day, NaiveDate::from_ymd_opt(2026, 11, 30).unwrap()).unwrap() {
        let writes = block_on(step.writes(&world.store, &names)).unwrap();
        block_on(world.store.transact(&writes)).unwrap_or_else(|error| panic!("{}: {error}", step.say));
        after_each(world);
    }
}

fn for_each_day(test: impl Fn(&Day)) {
    for sample in SHIPPED {
        test(&Day::of(sample));
    }
}

/// The records in another order, those of each item in theirs.
fn shuffled(records: &[RawRecord], random: &mut Random) -> Vec<RawRecord> {
    let mut queues: BTreeMap<String, VecDeque<&RawRecord>> = BTreeMap::new();
    for record in records {
        queues.entry(format!("{:?}", record.keys)).or_default().push_back(record);
    }
    let mut queues: Vec<_> = queues.into_values().collect();
    let mut order = Vec::with_capacity(records.len());
    while !queues.is_empty() {
        let at = random.below(queues.len());
        order.extend(queues[at].pop_front().cloned());
        if queues[at].is_empty() {
            queues.swap_remove(at);
        }
    }
    order
}

/// Cut into batches of 1 to 12, each delivered up to three times.
fn deliveries<'r>(mut records: &'r [RawRecord], random: &mut Random) -> Vec<&'r [RawRecord]> {
    let mut deliveries = Vec::new();
    while !records.is_empty() {
        let (batch, rest) = records.split_at((1 + random.below(12)).min(records.len()));
        deliveries.extend(std::iter::repeat_n(batch, 1 + random.below(3)));
        records = rest;
    }
    deliveries
}

#[test]
fn followed_as_it_happens() {
    for sample in SHIPPED {
        let day = Day::of(sample);
        let (world, mut delivered) = (World::new(&day.world.model), 0);
        // The records of what is derived come back in the same stream, and are delivered as well.
        play(&world, sample, |world| {
            let records = world.store.records(delivered);
            delivered += records.len();
            world.deliver(&records);
        });
        world.deliver(&world.store.records(delivered));
        let (contents, wanted) = (world.contents().without_numbers(), day.wanted.clone().without_numbers());
        assert_eq!(contents, wanted, "{}, followed as it happens", world.model.name);
        assert_eq!(block_on(verify(&world.model, &world.store, &world.clock)).unwrap().differences, []);
    }
}

#[test]
fn delivered_twice() {
    for_each_day(|day| {
        let records = day.records.as_slice();
        for size in [1, 2, BATCH, records.len()] {
            let twice = records.chunks(size).flat_map(|batch| [batch, batch]);
            day.check_after(twice, &format!("batches of {size}, each twice"));
            // The whole day twice, and each batch twice within one.
            day.check_after(
                records.chunks(size).chain(records.chunks(size)),
                &format!("all twice in batches of {size}"),
            );
            let doubled: Vec<Vec<RawRecord>> = records.chunks(size).map(|batch| [batch, batch].concat()).collect();
            day.check_after(doubled.iter().map(Vec::as_slice), &format!("doubled batches of {size}"));
        }
    });
}

#[test]
fn cut_at_every_boundary() {
    for_each_day(|day| {
        for at in 0..=day.records.len() {
            let (first, second) = day.records.split_at(at);
            day.check_after([first, second], &format!("cut at {at}"));
        }
    });
}

#[test]
fn shuffled_across_items() {
    for_each_day(|day| {
        for seed in 0..SHUFFLES {
            let mut random = Random::new(seed);
            let records = shuffled(&day.records, &mut random);
            day.check_after(deliveries(&records, &mut random), &format!("shuffled by seed {seed}"));
        }
    });
}

#[test]
fn old_batches_again_after_the_end() {
    for_each_day(|day| {
        let records = day.records.as_slice();
        let world = day.check_after(records.chunks(BATCH), "in batches");
        for size in [1, BATCH, records.len()] {
            records.chunks(size).rev().for_each(|batch| {
                world.deliver(batch);
                day.check(&world, &format!("an old batch of {size} after the end, from the last to the first"));
            });
            let reversed: Vec<RawRecord> = records.iter().rev().cloned().collect();
            reversed.chunks(size).for_each(|batch| world.deliver(batch));
            day.check(&world, &format!("records from the last to the first in batches of {size}"));
        }
    });
}

#[test]
fn a_crash_between_commit_and_acknowledgement() {
    for_each_day(|day| {
        let records = day.records.as_slice();
        let world = day.check_after([records], "at once");
        for from in 0..records.len() {
            world.deliver(&records[from..]);
            day.check(&world, &format!("all from {from} on again"));
        }
        // Applied up to one point and begun again at an earlier one.
        for until in 0..=records.len() {
            for from in [0, until.saturating_sub(3)] {
                let how = format!("applied up to {until}, again from {from}");
                day.check_after([&records[..until], &records[from..]], &how);
            }
        }
    });
}

#[test]
fn a_crash_at_every_step_of_a_batch() {
    for_each_day(|day| {
        for crash_after in 0.. {
            let world = day.world();
            let mut stepper = Stepper::new(world.engine.apply(&day.records, OldImages::Trusted));
            let ended = (0..crash_after).any(|_| stepper.step().is_some());
            drop(stepper);
            let faults = audit(&world.store);
            assert!(faults.is_empty(), "crash after step {crash_after}:\n{}", faults.join("\n"));
            day.records.chunks(BATCH).for_each(|batch| world.deliver(batch));
            day.check(&world, &format!("crash after step {crash_after}"));
            if ended {
                assert!(crash_after > 3, "only {crash_after} steps");
                return;
            }
        }
    });
}

#[test]
fn two_readers_at_once() {
    for_each_day(|day| {
        for seed in 0..RACES {
            let (world, mut random) = (day.world(), Random::new(seed));
            let (one, two) = (deliveries(&day.records, &mut random), deliveries(&day.records, &mut random));
            let read = async |batches: Vec<&[RawRecord]>| {
                for batch in batches {
                    world.engine.apply(batch, OldImages::Trusted).await.unwrap();
                }
            };
            block_on(join(read(one), read(two)));
            day.check(&world, &format!("two readers, seed {seed}"));
        }
    });
}

/// The counter-proof: a day without one of its records that matter is another table.
#[test]
fn a_lost_record_shows() {
    for_each_day(|day| {
        let world = day.world();
        let last = day.records.len() - 1;
        day.records[..last].chunks(BATCH).for_each(|batch| world.deliver(batch));
        assert_ne!(world.contents(), day.wanted);
        assert_ne!(block_on(verify(&world.model, &world.store, &world.clock)).unwrap().differences, []);
    });
}
