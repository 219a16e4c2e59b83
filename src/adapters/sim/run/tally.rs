//! What happened in a story, in figures and in words.

use std::collections::VecDeque;
use std::fmt;

use serde::Serialize;

use crate::plan::ledger::LedgerRow;
use crate::plan::write::{Op, TableRef, Write};

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
    /// Aggregates that somebody edited by hand.
    pub edits: u64,
    /// Repairs by the product, of all that such an edit put out of order.
    pub repairs: u64,
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
        self.edits += other.edits;
        self.repairs += other.repairs;
        self.model_changes += other.model_changes;
        self.quarantined += other.quarantined;
    }
}

/// The last things that happened.
#[derive(Debug, Default)]
pub(super) struct Log {
    lines: VecDeque<String>,
    lines_max: usize,
    /// Who had the last turns, since which step, and how many.
    turns: Option<(String, usize, usize)>,
}

impl Log {
    pub fn new(lines_max: usize) -> Log {
        Log { lines_max, ..Log::default() }
    }

    pub fn line(&mut self, step: usize, text: impl fmt::Display) {
        self.end_turns();
        self.push(format!("{step:>6} {text}"));
    }

    /// Turns of one actor one after another are one line.
    pub fn turn(&mut self, step: usize, actor: &str) {
        match &mut self.turns {
            Some((name, _, count)) if name == actor => *count += 1,
            _ => {
                self.end_turns();
                self.turns = Some((actor.to_owned(), step, 1));
            }
        }
    }

    /// What a transaction of ours wrote in the state table.
    pub fn commit(&mut self, step: usize, writes: &[Write]) {
        for write in writes.iter().filter(|write| write.table == TableRef::State) {
            let Op::Put(item) = &write.op else { continue };
            let text = match LedgerRow::from_item(item) {
                Ok(row) => ledger_words(&row),
                Err(_) => {
                    let words = ["Seq", "Finished", "GapCause", "Reason"].into_iter().filter_map(|name| {
                        Some(format!("{name} {}", item.get(name)?.shown().trim_start_matches(['"', '0'])))
                    });
                    format!("{}: {}", write.key, words.collect::<Vec<_>>().join(", "))
                }
            };
            self.line(step, format!("  committed {text}"));
        }
    }

    fn end_turns(&mut self) {
        if let Some((name, step, count)) = self.turns.take() {
            self.push(format!("{step:>6} {name}: {count} turns"));
        }
    }

    fn push(&mut self, line: String) {
        if self.lines.len() >= self.lines_max {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub fn lines(mut self) -> Vec<String> {
        self.end_turns();
        self.lines.into()
    }
}

fn ledger_words(row: &LedgerRow) -> String {
    let number = row.sequence.as_ref().map_or("none".to_owned(), ToString::to_string);
    let state = match (row.deleted, &row.quarantined) {
        (_, Some(_)) => "given up",
        (true, None) => "gone",
        (false, None) => "there",
    };
    let groups: Vec<String> = row.applied.counts.iter().map(|count| count.key.to_string()).collect();
    format!("ledger {} revision {} number {number}: {state}, in {}", row.source, row.revision, groups.join(", "))
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

impl Failure {
    /// How to see it again.
    pub fn again(&self) -> String {
        let Failure { seed, steps, .. } = self;
        format!("again: tablekeeper simulate --seeds {seed}..{} --steps {steps}", seed + 1)
    }
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
        f.write_str(&self.again())
    }
}

impl std::error::Error for Failure {}
