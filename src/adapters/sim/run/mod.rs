//! Stories: an application, workers and functions on one table, with everything that goes wrong, all from one seed.
//!
//! The problem: counts go wrong where two rare things meet, and nobody writes a test for a pair that nobody thought of. The contract:
//! - [`simulate`] plays the story of a seed: so many steps, each one turn of an actor, a write of the application, a fault or a jump
//!   of the clock; then the weather clears up, everything is read to its end, and the books must balance;
//! - in some stories somebody edits aggregates by hand, and the product's own repair puts them right beside everything else;
//! - an auditor looks at every commit, see `auditor`. A violation ends the story with a [`Failure`] that tells how to see it again;
//! - the same seed and steps are the same story, on every machine.
//!
//! Nothing of the engine is replaced: the workers, batches, commits and reconciliations are the product's own. The simulation is
//! shown to be able to fail by known mistakes that its tests put in their way.

mod actors;
mod application;
mod auditor;
mod lines;
mod mapping;
#[cfg(test)]
mod mistakes;
mod models;
mod stage;
mod tally;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use stage::Stage;
pub use tally::{Failure, Tally};

/// Failures after which many stories are broken off.
const FAILURES_MAX: usize = 5;

/// How long a story is.
#[derive(Debug, Clone)]
pub struct Script {
    pub steps: usize,
    /// Lines of the schedule that a failure shows, the last ones.
    pub lines: usize,
    #[cfg(test)]
    mistake: Option<mistakes::Mistake>,
    /// In a thousand steps, how many more may lose records: two workers and a function among them.
    #[cfg(test)]
    perils: usize,
    /// In a thousand steps, how many edits by hand: a worker is among those who go on meanwhile.
    #[cfg(test)]
    edits: usize,
}

impl Script {
    pub fn new(steps: usize) -> Script {
        Script {
            steps,
            lines: 100,
            #[cfg(test)]
            mistake: None,
            #[cfg(test)]
            perils: 0,
            #[cfg(test)]
            edits: 0,
        }
    }
}

/// Plays the story of a seed.
///
/// # Errors
/// The first violation.
pub fn simulate(seed: u64, script: &Script) -> Result<Tally, Box<Failure>> {
    let mut stage = Stage::new(seed, script);
    match stage.play() {
        Ok(()) => Ok(stage.tally()),
        Err(violations) => Err(Box::new(stage.failure(seed, violations))),
    }
}

/// What many stories came to.
#[derive(Debug, Default)]
pub struct Stories {
    /// Of the stories that ended well.
    pub tally: Tally,
    /// By seed; with five of them no more stories are begun.
    pub failures: Vec<Failure>,
}

/// Plays the stories of all seeds, on so many threads; `progress` hears after each how many there were.
pub fn simulate_all(seeds: Range<u64>, script: &Script, threads: usize, progress: impl Fn(u64) + Sync) -> Stories {
    let (next, played) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    let stories = Mutex::new(Stories::default());
    let locked = || stories.lock().unwrap_or_else(PoisonError::into_inner);
    let play = || {
        loop {
            if locked().failures.len() >= FAILURES_MAX {
                return;
            }
            let after = |seed: u64| seed.checked_add(1).filter(|_| seed < seeds.end);
            let Ok(seed) = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after) else { return };
            let result = simulate(seed, script);
            match result {
                Ok(tally) => locked().tally.add(&tally),
                Err(failure) => locked().failures.push(*failure),
            }
            progress(played.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(play);
        }
    });
    let mut stories = stories.into_inner().unwrap_or_else(PoisonError::into_inner);
    stories.failures.sort_by_key(|failure| failure.seed);
    stories
}
