//! Stories from fixed seeds, and the proof that the simulation can fail.
#![cfg(test)]

use chrono::TimeDelta;

use super::lines::{Rates, StoreLine, Weather};
use super::mistakes::Mistake;
use super::*;
use crate::adapters::sim::random::Random;
use crate::adapters::sim::{SimClock, Stepper, block_on};
use crate::engine::batch::{Engine, OldImages};
use crate::engine::ports::Clock;
use crate::engine::shards::{Gap, GapCause};
use crate::engine::tests::{World, assert_settled, job, job_key};
use crate::engine::worker::Repair;
use crate::model::change::RawRecord;

/// Fresh seeds are for `.ci/run`; here the same ones every time.
const SEEDS: u64 = 60;
const STEPS: usize = 300;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn stories_end_with_balanced_books() {
    let first = from_environment("TABLEKEEPER_SIMULATE_FROM", 0);
    let mut all = Tally::default();
    let script = Script { lines: from_environment("TABLEKEEPER_SIMULATE_LINES", 100) as usize, ..Script::new(STEPS) };
    let keep_going = from_environment("TABLEKEEPER_SIMULATE_ALL", 0) > 0;
    for seed in first..first + from_environment("TABLEKEEPER_SIMULATE_SEEDS", SEEDS) {
        match simulate(seed, &script) {
            Ok(tally) => all.add(&tally),
            Err(failure) if keep_going => println!("seed {seed}: {}", failure.violations[0]),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{all:?}");
}

/// Streams that are switched off and on again and again, workers that stand still meanwhile, functions that read the old ones late.
#[test]
fn stories_of_losses_end_with_balanced_books() {
    let script = Script { perils: 40, ..Script::new(STEPS) };
    let first = from_environment("TABLEKEEPER_SIMULATE_FROM", 0);
    for seed in first..first + from_environment("TABLEKEEPER_SIMULATE_SEEDS", SEEDS / 3) {
        if let Err(failure) = simulate(seed, &script) {
            panic!("{failure}");
        }
    }
}

/// Somebody edits aggregates by hand again and again, and has them repaired beside everything else.
#[test]
fn stories_of_edits_end_with_balanced_books() {
    let script = Script { edits: 40, ..Script::new(2 * STEPS) };
    let first = from_environment("TABLEKEEPER_SIMULATE_FROM", 0);
    let mut all = Tally::default();
    for seed in first..first + from_environment("TABLEKEEPER_SIMULATE_SEEDS", SEEDS / 3) {
        match simulate(seed, &script) {
            Ok(tally) => all.add(&tally),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{all:?}");
    assert!(all.edits > all.seeds && all.repairs > all.seeds, "one at the end, and some in the midst of it: {all:?}");
}

#[test]
fn a_seed_is_the_same_story_every_time() {
    // The last one is one of edits by hand.
    for seed in 0..5 {
        let tell = || simulate(seed, &Script::new(STEPS)).unwrap();
        assert_eq!(tell(), tell());
    }
}

/// The first seed at which a story with the mistake ends badly.
fn caught(mistake: Mistake, seeds: u64) -> Option<(u64, Failure)> {
    let script = Script { mistake: Some(mistake), ..Script::new(STEPS) };
    (0..seeds).find_map(|seed| Some((seed, *simulate(seed, &script).err()?)))
}

#[test]
fn every_known_mistake_is_caught() {
    let mut missed = Vec::new();
    for mistake in Mistake::ALL {
        match caught(mistake, 400) {
            Some((seed, failure)) => {
                println!("{mistake:?}: seed {seed}, step {}: {}", failure.step, failure.violations[0])
            }
            None => missed.push(mistake),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

/// An engine on a world's tables, by a line on which nothing fails but what takes too long.
fn fair(world: &World) -> Engine<StoreLine, SimClock> {
    let never = Rates { conflict: 0, lost_answer: 0, throttled: 0, unavailable: 0, stream: 0, false_trim: 0 };
    let line = StoreLine::new(world.store.clone(), Weather::new(Random::new(1), never), world.clock.clone());
    Engine::new(world.model.clone(), line, world.clock.clone())
}

fn loss(world: &World) -> Gap {
    Gap { cause: GapCause::Trimmed, shard: None, since: world.clock.now() }
}

/// A world in which the last record of an item is lost, and the one before it, which agrees with what is applied by chance.
fn half_told(is_new: bool) -> (World, Vec<RawRecord>) {
    let mut world = World::new();
    let open = job(1, "p", "Open", "1");
    if !is_new {
        world.store.put(open.clone()).unwrap();
        let first = world.pending();
        world.try_apply(&first).unwrap();
    }
    world.store.put(job(1, "p", "Busy", "2")).unwrap();
    let held = world.pending();
    match is_new {
        true => world.store.delete(&job_key(1)),
        false => world.store.put(open).unwrap(),
    }
    world.pending();
    (world, held)
}

#[test]
fn a_record_from_before_a_loss_is_not_believed_at_whatever_request_its_reader_stood_still() {
    for is_new in [true, false] {
        for steps in 0..30 {
            let (world, held) = half_told(is_new);
            let engine = fair(&world);
            let mut late = Stepper::new(engine.apply(&held, OldImages::Trusted));
            let done = (0..steps).any(|_| late.step().is_some());
            block_on(fair(&world).repair(&loss(&world))).unwrap();
            while !late.is_done() {
                late.step();
            }
            drop(late);
            assert_settled(&world.store, &world.model);
            assert!(steps < 29 || done, "every request was tried");
        }
    }
}

#[test]
fn records_from_after_a_loss_are_believed_again() {
    let (mut world, _) = half_told(false);
    block_on(fair(&world).repair(&loss(&world))).unwrap();
    world.store.put(job(1, "p", "Done", "3")).unwrap();
    let mut records = world.pending();
    let engine = world.engine.clone();
    let apply = |records: &[RawRecord]| block_on(engine.apply(records, OldImages::Trusted)).unwrap();
    assert_eq!(apply(&records).item_reads, 1, "it does not say when it was written");
    records[0].sequence = Some("9".repeat(30));
    records[0].created_at = Some(world.clock.now() + TimeDelta::hours(1));
    assert_eq!(apply(&records).item_reads, 1, "its old image is not what is applied by now");
    world.pending();
    world.store.put(job(1, "p", "Open", "4")).unwrap();
    let mut records = world.pending();
    records[0].sequence = Some("9".repeat(31));
    records[0].created_at = Some(world.clock.now() + TimeDelta::hours(1));
    let report = apply(&records);
    assert_eq!((report.applied, report.item_reads), (1, 0));
    assert_settled(&world.store, &world.model);
}

/// A worker starts beside a function that holds a batch whose followers it lost: nobody told the worker of a loss.
#[test]
fn a_first_start_casts_doubt_on_what_others_still_hold() {
    let (world, held) = half_told(false);
    let first_start = Gap { cause: GapCause::FirstStart, ..loss(&world) };
    block_on(fair(&world).repair(&first_start)).unwrap();
    block_on(world.engine.apply(&held, OldImages::Trusted)).unwrap();
    assert_settled(&world.store, &world.model);
}
