//! Stories from fixed seeds, and the proof that the simulation can fail.
#![cfg(test)]

use super::mistakes::Mistake;
use super::*;

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

#[test]
fn a_seed_is_the_same_story_every_time() {
    for seed in 0..4 {
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
