//! Slices: the reconcile that a table calls for, a piece at a time.
//!
//! The problem: a function has minutes, a large table takes hours; and where a function reads the stream there is no worker that would
//! see what a first start, a gap or a changed model calls for. The contract:
//! - what is called for is in the stream's row of the state table (see [`super::checkpoint`]): an open gap, whoever found it; no row
//!   at all, for then nobody has ever taken in what is older than the stream; another model, or another stream, than the one that was
//!   read last. Where none of these is so, [`go_on`] reads that row and no item;
//! - a slice begins where the last one stopped (the run has a [`Journal`]) and ends when its time is up, in the middle of whatever it
//!   does, which is harmless as a crash is. The gap is closed by the slice that comes to the end;
//! - after a loss nothing is read before everybody who may still commit what they read before it is done (see [`super::doubt`]): one
//!   reconcile after that sees all of it;
//! - while a worker lives the gap is its business, and nothing is written or read twice.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use futures_util::future::{Either, select};

use super::batch::Engine;
use super::checkpoint::{DEFAULT_CONSUMER, OpenGap, StreamRow, add_gap, close_gap, stream_row};
use super::ports::{Clock, Store, StoreError, TransactError};
use super::reconcile::{Journal, ReconcileError, ReconcileOptions, ReconcileReport, SEGMENTS_DEFAULT, reconcile_with};
use super::shards::{Gap, GapCause};
use super::{doubt, leases};

/// Slices resume each other, and nobody else's runs.
const RUN_NAME: &str = "slices";
/// How long a sign of life is waited for at most.
const SIGN_WAIT_MAX: Duration = Duration::from_secs(60);

/// What a slice may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceOptions {
    pub time: Duration,
    /// As in [`ReconcileOptions`].
    pub max_read_units: Option<u32>,
}

/// What a slice came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slice {
    NotCalledFor,
    /// A worker reads the stream and repairs it.
    LeftToWorker,
    /// After a loss: nothing is read before then.
    Waits(DateTime<Utc>),
    /// Its time was up; what all slices have done so far.
    Interrupted(ReconcileReport),
    /// The whole table is reconciled. The gap is closed unless another was found meanwhile.
    Done {
        report: ReconcileReport,
        closed: bool,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum SliceError {
    #[error("the state table cannot be read")]
    Read(#[from] StoreError),
    #[error("the state table cannot be written")]
    Write(#[from] TransactError),
    #[error(transparent)]
    Reconcile(#[from] ReconcileError),
}

/// Goes on with the reconcile that the table calls for, if it does. `arn` is its stream's.
///
/// # Errors
/// [`SliceError`]; what was committed stays, and the next slice goes on from there.
pub async fn go_on<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    arn: &str,
    options: &SliceOptions,
) -> Result<Slice, SliceError> {
    let Engine { store, clock, .. } = engine;
    let end = clock.now() + TimeDelta::from_std(options.time).unwrap_or(TimeDelta::MAX);
    let row = stream_row(store, clock, arn).await?;
    let found = found(row.as_ref(), arn, &engine.model.hash);
    if found.is_none() && row.as_ref().is_none_or(|row| row.gap.is_none()) {
        return Ok(Slice::NotCalledFor);
    }
    if worker_lives(engine, arn).await? {
        return Ok(Slice::LeftToWorker);
    }
    let row = match (found, row) {
        (None, Some(row)) => row,
        (found, _) => write_down(engine, arn, found.unwrap_or(GapCause::FirstStart)).await?,
    };
    let Some(gap) = row.gap else { return Ok(Slice::NotCalledFor) };
    let settled = doubt::raise_once(store, clock, gap.last).await?;
    if gap.loss && clock.now() < settled {
        return Ok(Slice::Waits(settled));
    }
    let left = (end - clock.now()).to_std().unwrap_or_default();
    let (report, whole) = reconcile_for(engine, &gap, left, options.max_read_units).await?;
    if !whole {
        return Ok(Slice::Interrupted(report));
    }
    let closed = close_gap(store, clock, arn, &gap).await?;
    Ok(Slice::Done { report, closed })
}

/// What nobody has written down yet.
fn found(row: Option<&StreamRow>, arn: &str, model: &str) -> Option<GapCause> {
    match row {
        None => Some(GapCause::FirstStart),
        Some(row) if row.arn != arn => Some(GapCause::StreamReplaced { old: row.arn.clone() }),
        Some(row) if row.model != model => Some(GapCause::ModelChanged),
        Some(_) => None,
    }
}

/// Opens a gap before anything is read for it, as a worker does; the row as it is then.
async fn write_down<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    arn: &str,
    cause: GapCause,
) -> Result<StreamRow, TransactError> {
    // As precise as it is stored: the gap is known again by it.
    let since = engine.clock.now().trunc_subsecs(3);
    let gap = Gap { cause, shard: None, since };
    let open = OpenGap { since, last: since, cause: gap.to_string(), loss: gap.is_loss() };
    let stream = StreamRow { arn: arn.to_owned(), model: engine.model.hash.to_string(), gap: None, version: 0 };
    add_gap(&engine.store, &engine.clock, &stream, true, &open).await
}

/// Reconciles until the end or until the time is up; true: the whole table.
async fn reconcile_for<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    gap: &OpenGap,
    time: Duration,
    max_read_units: Option<u32>,
) -> Result<(ReconcileReport, bool), ReconcileError> {
    let journal = Journal { name: RUN_NAME.to_owned(), from_start: false, gap: Some(gap.clone()) };
    let options = ReconcileOptions { segments: SEGMENTS_DEFAULT, max_read_units, journal: Some(journal) };
    let mut so_far = ReconcileReport::default();
    let run = Box::pin(reconcile_with(engine, &options, |report: &ReconcileReport| so_far.clone_from(report)));
    let ended = match select(run, pin!(engine.clock.sleep(time))).await {
        Either::Left((ended, _)) => Some(ended),
        Either::Right(_) => None,
    };
    match ended {
        Some(report) => Ok((report?, true)),
        None => Ok((so_far, false)),
    }
}

/// True if a worker gives a sign of life within the time in which it gives several.
async fn worker_lives<S: Store, C: Clock>(engine: &Engine<S, C>, arn: &str) -> Result<bool, StoreError> {
    let Engine { store, clock, .. } = engine;
    let arn: Arc<str> = arn.into();
    let before = leases::load(store, clock, &arn, DEFAULT_CONSUMER).await?.workers;
    let Some(wait) = before.iter().map(|beat| beat.lease_time).max() else { return Ok(false) };
    clock.sleep(wait.min(SIGN_WAIT_MAX)).await;
    let after = leases::load(store, clock, &arn, DEFAULT_CONSUMER).await?.workers;
    Ok(after.iter().any(|beat| !before.iter().any(|earlier| earlier.is_same(beat))))
}

#[cfg(test)]
mod tests;
