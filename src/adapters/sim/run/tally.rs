//! What happened in a story, in figures and in words.

use std::collections::VecDeque;
use std::fmt;

use serde::Serialize;

/// The figures of one story, or of many.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Stories.
    pub seeds: u64,
    /// Turns of actors, writes of the application, faults and jumps of the clock; the quiet end of a story is not counted.
    pub steps: u64,
    /// Writes of the application that changed something.
    pub writes: u64,
    /// Transactions of ours, each looked at by the auditor.
    pub commits: u64,
    pub batches: u64,
    pub records: u64,
    /// Actors ended at any moment and begun anew.
    pub crashes: u64,
    /// Actors that stood still while others went on.
    pub pauses: u64,
    pub conflicts: u64,
    /// Transactions that were committed and whose answer was lost.
    pub lost_answers: u64,
    /// Requests that failed otherwise.
    pub outages: u64,
    /// Batches of functions that were delivered again.
    pub duplicates: u64,
    /// Splits and roll-overs of shards, and new streams.
    pub shard_changes: u64,
    pub gaps: u64,
    pub reconciles: u64,
    pub model_changes: u64,
    /// Items that the database refused.
    pub quarantined: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.writes += other.writes;
        self.commits += other.commits;
        self.batches += other.batches;
        self.records += other.records;
        self.crashes += other.crashes;
        self.pauses += other.pauses;
        self.conflicts += other.conflicts;
        self.lost_answers += other.lost_answers;
        self.outages += other.outages;
        self.duplicates += other.duplicates;
        self.shard_changes += other.shard_changes;
        self.gaps += other.gaps;
        self.reconciles += other.reconciles;
        self.model_changes += other.model_changes;
        self.quarantined += other.quarantined;
    }
}

/// The last things that happened.
#[derive(Debug, Default)]
pub(super) struct Log {
    lines: VecDeque<String>,
}

impl Log {
    const LINES_MAX: usize = 60;

    pub fn line(&mut self, step: usize, text: impl fmt::Display) {
        if self.lines.len() >= Log::LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{step:>6} {text}"));
    }

    pub fn lines(self) -> Vec<String> {
        self.lines.into()
    }
}

/// A story in which an invariant was violated. The seed and the number of steps tell it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub seed: u64,
    /// As the story was asked for.
    pub steps: usize,
    /// The step at which it showed.
    pub step: usize,
    pub violations: Vec<String>,
    /// The last steps before, the latest last.
    pub schedule: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, step {} of {}: an invariant is violated", self.seed, self.step, self.steps)?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        writeln!(f, "the steps before:")?;
        for line in &self.schedule {
            writeln!(f, "  {line}")?;
        }
        let Failure { seed, steps, .. } = self;
        write!(f, "again: tablekeeper simulate --seeds {seed}..{} --steps {steps}", seed + 1)
    }
}

impl std::error::Error for Failure {}
