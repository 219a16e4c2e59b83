//! The worker: reads all shards of one stream and has their records applied, until it is told to stop.
//!
//! The problem: a long-running reader must neither skip a record nor hammer the stream, must survive failures of every request,
//! and must end in a known state. The contract:
//! - one batch is applied at a time and only a batch that is durable moves its shard's checkpoint. A batch that fails is tried
//!   again with growing pauses, then the worker ends with an error; nothing is skipped;
//! - reads run beside it, at most `concurrent_max` shards at once, at the rates of [`ShardSettings`];
//! - records that may be missing are a [`Gap`]. It is written to the state table before anything is read beyond it, so that no
//!   crash can hide it, and by [`OnGap`] the worker ends or has the table reconciled while it reads on. While a gap is open, old
//!   images are not trusted;
//! - pages of several shards that are ready together are applied as one batch;
//! - several workers share the shards by [`LeaseSettings`]; what is applied never depends on it. The first of them repairs gaps;
//! - when `stop` completes, the batch under way is finished, all checkpoints are stored and the shards freed before `run` returns;
//!   before the first read it returns at once.
//!
//! Killed at any other moment, it loses nothing but the time to read some records again.

mod run;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod whole;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::batch::{ApplyError, BatchReport, Engine, OldImages};
use super::checkpoint::{DEFAULT_CONSUMER, ShardKey};
use super::leases::LeaseSettings;
use super::ports::{Clock, Store, StoreError, StreamError, StreamSource, TransactError};
use super::shards::{Gap, Notice, ShardSettings};
use crate::model::change::RawRecord;

/// What applies a batch of records: the engine, or a fake.
pub trait BatchSink: Send + Sync {
    /// What the batch came to; passed on to the observer.
    type Report: Send;
    type Fault: std::error::Error + Send + Sync + 'static;

    /// Applies the records in their order. `Ok` means durable; after an error any part of them may be, and all come again.
    fn apply(
        &self,
        records: &[RawRecord],
        trust: OldImages,
    ) -> impl Future<Output = Result<Self::Report, Self::Fault>> + Send;
}

impl<S: Store, C: Clock> BatchSink for Engine<S, C> {
    type Report = BatchReport;
    type Fault = ApplyError;

    async fn apply(&self, records: &[RawRecord], trust: OldImages) -> Result<BatchReport, ApplyError> {
        Engine::apply(self, records, trust).await
    }
}

/// What repairs the table after a gap, beside the running worker.
pub trait Repair: Send + Sync {
    /// Reconciles the whole table. An error is tried again later; the gap stays open until then.
    fn repair(&self, gap: &Gap) -> impl Future<Output = Result<Repaired, String>> + Send;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repaired {
    /// Every item has been reconciled since the call began: the gap is closed.
    Done,
    /// Not now and not here: the gap stays open until someone reconciles.
    Postponed,
}

/// Leaves every gap open.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRepair;

impl Repair for NoRepair {
    async fn repair(&self, _gap: &Gap) -> Result<Repaired, String> {
        Ok(Repaired::Postponed)
    }
}

/// Told everything that happens; must not block.
pub trait Observer<R>: Send + Sync {
    fn progress(&self, progress: Progress<'_, R>);
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl<R> Observer<R> for Unobserved {
    fn progress(&self, _progress: Progress<'_, R>) {}
}

/// Tells both, in that order.
impl<R, A: Observer<R>, B: Observer<R>> Observer<R> for (A, B) {
    fn progress(&self, progress: Progress<'_, R>) {
        self.0.progress(progress);
        self.1.progress(progress);
    }
}

impl<R, O: Observer<R>> Observer<R> for &O {
    fn progress(&self, progress: Progress<'_, R>) {
        (**self).progress(progress);
    }
}

/// Longest pause of the worker's loop, whatever it waits for.
pub const TURN_MAX: Duration = Duration::from_secs(20);

/// One thing that happened.
pub enum Progress<'a, R> {
    /// Reading begins: shards listed, and of them those with a checkpoint.
    Started {
        arn: &'a str,
        shards: usize,
        resumed: usize,
    },
    /// The loop has come round: at least every [`TURN_MAX`] for as long as it is not stuck. `owned` shards are read here, and
    /// what was written to them until `reached` is applied; see [`ShardTable::standing`](super::shards::ShardTable::standing).
    Turn {
        owned: usize,
        reached: Option<DateTime<Utc>>,
    },
    /// The stream's shards were listed.
    Listed {
        shards: usize,
    },
    /// A page of a shard was read; its records, if any, are to be applied.
    Read {
        records: usize,
    },
    /// A shard opened or finished, a gap, or a request that failed and is repeated.
    Notice(&'a Notice),
    /// Pages of `shards` shards, applied as one; `shard` is the first.
    Batch {
        shard: &'a ShardKey,
        shards: usize,
        records: usize,
        report: &'a R,
    },
    /// It is tried again unless this was the last attempt.
    BatchFailed {
        shard: &'a ShardKey,
        attempt: u32,
        error: &'a (dyn std::error::Error + 'static),
    },
    GapClosed,
    /// The gap stays open; see [`Repaired::Postponed`].
    RepairPostponed,
    RepairFailed(&'a str),
    /// A resume hint was not stored; it is tried again, and a restart meanwhile reads more than it had to.
    CheckpointFailed(&'a str),
    /// This worker reads the shard from now on; `from` is the living worker that had more than its share.
    ShardTaken {
        shard: &'a ShardKey,
        from: Option<&'a str>,
    },
    /// Another worker has taken it, or this one was silent for so long that others may have.
    ShardLost(&'a ShardKey),
    /// How the shards are shared, whenever that has changed: those that this worker owns, and the living workers.
    Shares {
        owned: usize,
        workers: usize,
    },
    /// The leases could not be read or written; it is tried again, and meanwhile others may take this worker's shards.
    LeasesFailed(&'a str),
    Stopping,
}

/// What to do when records may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnGap {
    /// End with [`WorkerError::Gap`], and again at each start until the table has been reconciled.
    #[default]
    Halt,
    /// Have the table reconciled and read on meanwhile.
    Reconcile,
}

#[derive(Debug, Clone, PartialEq)]
pub struct WorkerSettings {
    pub shards: ShardSettings,
    pub on_gap: OnGap,
    /// Stop when every shard is read to its tip, as [`crate::engine::shards::ShardTable::is_idle`] judges: several empty pages in a row.
    /// Records written while it judges may be left for the next run; nothing is lost. For demos and tests. Leases do not
    /// matter then: it reads every shard at once, also those of workers that live or have just been killed.
    pub until_idle: bool,
    /// Whose checkpoints and leases these are: workers of one consumer share the shards, two consumers each read all.
    pub consumer: String,
    /// How several workers share the shards; `None`: each reads all of them, which costs repeated work and nothing else.
    pub leases: Option<LeaseSettings>,
    /// Hash of the model: a changed one needs a reconcile, and old images are not trusted before it.
    pub model_hash: String,
    /// Attempts to apply one batch.
    pub apply_attempts: u32,
    /// Attempts to describe the stream at start, before the error is the caller's.
    pub start_attempts: u32,
    /// Pause before a failed repair is tried again.
    pub repair_pause: Duration,
}

impl WorkerSettings {
    pub fn new(model_hash: impl Into<String>) -> WorkerSettings {
        WorkerSettings {
            shards: ShardSettings::default(),
            on_gap: OnGap::default(),
            until_idle: false,
            consumer: DEFAULT_CONSUMER.to_owned(),
            leases: None,
            model_hash: model_hash.into(),
            apply_attempts: 6,
            start_attempts: 5,
            repair_pause: Duration::from_secs(60),
        }
    }
}

/// A worker's parts, all borrowed.
#[derive(Debug)]
pub struct Worker<'a, B, S, T, C, O, G> {
    pub sink: &'a B,
    /// Only its state table is used.
    pub store: &'a S,
    pub stream: &'a T,
    pub clock: &'a C,
    pub observer: &'a O,
    pub repair: &'a G,
    pub settings: &'a WorkerSettings,
}

impl<B, S, T, C, O, G> Clone for Worker<'_, B, S, T, C, O, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B, S, T, C, O, G> Copy for Worker<'_, B, S, T, C, O, G> {}

impl<B, S, T, C, O, G> Worker<'_, B, S, T, C, O, G>
where
    B: BatchSink,
    S: Store,
    T: StreamSource,
    C: Clock,
    O: Observer<B::Report>,
    G: Repair,
{
    /// Reads until `stop` completes (or, with `until_idle`, until nothing is left to read).
    ///
    /// # Errors
    /// [`WorkerError`]; whatever was durable before stays so, and the next run goes on from there.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<WorkerReport, WorkerError<B::Fault>> {
        run::run(self, stop).await
    }
}

/// A run in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerReport {
    pub batches: u64,
    pub records: u64,
    /// GetRecords calls that were answered.
    pub reads: u64,
    pub gaps: u64,
    pub shards_finished: u64,
    /// Shards that other workers took.
    pub leases_lost: u64,
    /// A gap is still open: the table should be reconciled.
    pub gap_open: bool,
}

/// Why a worker ended of its own accord.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WorkerError<E: std::error::Error + 'static> {
    #[error("{0}; records may be missing: run `reconcile`, or let the worker do it (on-gap reconcile)")]
    Gap(Box<Gap>),
    #[error("the stream cannot be read")]
    Stream(#[source] StreamError),
    #[error("the state table cannot be read")]
    State(#[source] StoreError),
    #[error("the state table cannot be written, so an open gap would not be remembered")]
    StateWrite(#[source] TransactError),
    #[error(
        "the state table keeps the ledger of `{0}`, and two tables in one would count each other's items; give each its own \
         (`state_table`), or delete the row `STREAM` / `{0}` if that table is gone and this one has taken its place"
    )]
    StateOfAnotherTable(String),
    #[error("another process has begun as worker `{0}`; give each its own name (--worker-id), or none")]
    NameTaken(String),
    #[error("another worker reads this stream under another model; start this one with the same model")]
    ModelReplaced,
    #[error("a batch of shard {shard} failed {attempts} times; nothing was skipped, the next run begins with it")]
    Batch { shard: String, attempts: u32, source: E },
}

// Not derived: a copy of the references needs nothing of `R`.
impl<R> Clone for Progress<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Progress<'_, R> {}

impl<R: fmt::Debug> fmt::Debug for Progress<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Started { arn, shards, resumed } => write!(f, "started {arn} shards={shards} resumed={resumed}"),
            Progress::Turn { owned, .. } => write!(f, "turn owned={owned}"),
            Progress::Listed { shards } => write!(f, "listed {shards}"),
            Progress::Read { records } => write!(f, "read {records}"),
            Progress::Notice(notice) => write!(f, "{notice:?}"),
            Progress::Batch { shard, shards, records, report } => {
                write!(f, "batch {} of {shards} {records} {report:?}", shard.shard)
            }
            Progress::BatchFailed { shard, attempt, error } => write!(f, "failed {} {attempt} {error}", shard.shard),
            Progress::GapClosed => f.write_str("gap closed"),
            Progress::RepairPostponed => f.write_str("repair postponed"),
            Progress::RepairFailed(error) => write!(f, "repair failed: {error}"),
            Progress::CheckpointFailed(error) => write!(f, "checkpoint failed: {error}"),
            Progress::ShardTaken { shard, from } => write!(f, "taken {} from {from:?}", shard.shard),
            Progress::ShardLost(shard) => write!(f, "lost {}", shard.shard),
            Progress::Shares { owned, workers } => write!(f, "owned {owned} workers {workers}"),
            Progress::LeasesFailed(error) => write!(f, "leases failed: {error}"),
            Progress::Stopping => f.write_str("stopping"),
        }
    }
}
