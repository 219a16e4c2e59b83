//! Gaps: remembered before anything is read beyond them, repaired by one worker, closed by none that did not see them.

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::{AbortHandle, Aborted, abortable};

use super::{Done, Outcome, Run};
use crate::engine::checkpoint::{History, OpenGap, StreamRow, add_gap, close_gap, stream_row};
use crate::engine::ports::{Clock, Store, StreamDescription, StreamSource};
use crate::engine::shards::{Gap, GapCause};
use crate::engine::worker::{BatchSink, Observer, OnGap, Progress, Repair, Repaired, WorkerError};

/// How far the repair of an open gap is.
#[derive(Default)]
pub(super) struct RepairState {
    /// The gap that calls for a repair.
    wanted: Option<Gap>,
    pub(super) running: bool,
    abort: Option<AbortHandle>,
    /// The gap as it stood when the repair began: only that one is closed by it.
    began_with: Option<OpenGap>,
    /// Not before, after a failure.
    at: Option<DateTime<Utc>>,
    /// Someone else is to see to this one.
    postponed: Option<OpenGap>,
}

impl<'w, B, S, T, C, O, G> Run<'w, B, S, T, C, O, G>
where
    B: BatchSink,
    S: Store,
    T: StreamSource,
    C: Clock,
    O: Observer<B::Report>,
    G: Repair,
{
    /// Remembers the gap durably, or ends the worker.
    pub(super) async fn gap(&mut self, gap: Gap) -> Outcome<(), B> {
        let loss = gap.is_loss();
        self.report.gaps += u64::from(loss);
        if loss && self.worker.settings.on_gap == OnGap::Halt {
            return Err(WorkerError::Gap(Box::new(gap)));
        }
        let found = OpenGap::from(&gap);
        self.stream.arn = self.table.arn().to_owned();
        let takes_model = gap.cause == GapCause::ModelChanged;
        if takes_model {
            self.stream.model.clone_from(&self.worker.settings.model_hash);
        }
        let row = add_gap(self.worker.store, self.worker.clock, &self.stream, takes_model, &found).await;
        self.stream = row.map_err(WorkerError::StateWrite)?;
        self.repair.at = None;
        self.repair.wanted = Some(gap);
        Ok(())
    }

    /// Starts the repair if one is due.
    pub(super) fn begin_repair(&mut self, now: DateTime<Utc>) {
        if !self.repair_due(now) {
            return;
        }
        let Some(wanted) = self.repair.wanted.clone() else { return };
        self.repair.running = true;
        self.repair.began_with = self.stream.gap.clone();
        let gap = as_grave_as(self.stream.gap.as_ref(), wanted);
        let worker = self.worker;
        let (repair, abort) = abortable(async move { worker.repair.repair(&gap).await });
        self.repair.abort = Some(abort);
        let done = |result| match result {
            Ok(repaired) => Done::Repaired(repaired),
            Err(Aborted) => Done::Forgotten,
        };
        self.requests.push(Box::pin(async move { done(repair.await) }));
    }

    /// Ends the repair where it stands, as a crash would: the gap stays open, and the next start repairs it. On a large table it
    /// would go on for long beside the batch that a stop waits for, and slow that down.
    pub(super) fn give_up_repair(&mut self) {
        if let Some(repair) = self.repair.abort.take() {
            repair.abort();
        }
    }

    pub(super) async fn repaired(&mut self, result: Result<Repaired, String>) -> Outcome<(), B> {
        self.repair.running = false;
        match result {
            Ok(Repaired::Done) => return self.close().await,
            Ok(Repaired::Postponed) => {
                self.repair = RepairState { postponed: self.stream.gap.clone(), ..RepairState::default() };
                self.tell(Progress::RepairPostponed);
            }
            Err(error) => {
                let pause = TimeDelta::from_std(self.worker.settings.repair_pause).unwrap_or_default();
                self.repair.at = self.worker.clock.now().checked_add_signed(pause);
                self.tell(Progress::RepairFailed(&error));
            }
        }
        Ok(())
    }

    /// The table is reconciled; the gap is closed unless another one was found since the repair began.
    async fn close(&mut self) -> Outcome<(), B> {
        let (store, clock) = (self.worker.store, self.worker.clock);
        let arn = self.stream.arn.clone();
        let closed = match self.repair.began_with.take() {
            Some(seen) => close_gap(store, clock, &arn, &seen).await.map_err(WorkerError::StateWrite)?,
            None => true,
        };
        if closed {
            self.repair = RepairState::default();
            self.tell(Progress::GapClosed);
        }
        if let Some(row) = stream_row(store, clock, &arn).await.map_err(WorkerError::State)? {
            self.stream = row;
        }
        Ok(())
    }

    /// Takes in the stream's row as it was read after the last look: other workers find and close gaps, too.
    pub(super) fn refresh_stream(&mut self, row: StreamRow) -> Outcome<(), B> {
        if row.arn != self.stream.arn || row.version < self.stream.version {
            return Ok(());
        }
        if row.model != self.worker.settings.model_hash {
            return Err(WorkerError::ModelReplaced);
        }
        self.stream = row;
        let Some(open) = &self.stream.gap else {
            if !self.repair.running {
                self.repair = RepairState::default();
            }
            return Ok(());
        };
        if self.repair.wanted.is_none() && self.repair.postponed.as_ref() != Some(open) {
            let cause = GapCause::StillOpen { cause: open.cause.clone(), loss: open.loss };
            self.repair.wanted = Some(Gap { cause, shard: None, since: open.last });
        }
        Ok(())
    }

    pub(super) fn repair_due(&self, now: DateTime<Utc>) -> bool {
        !self.repair.running
            && self.repair.wanted.is_some()
            && self.may_repair()
            && self.repair.at.is_none_or(|at| at <= now)
    }

    pub(super) fn repair_at(&self) -> Option<DateTime<Utc>> {
        self.repair.at.filter(|_| !self.repair.running && self.may_repair())
    }
}

/// The gap to be repaired: what the repair will close decides how thorough it must be, not what this worker found last.
/// Another gap, of another worker too, may have been a loss where that one was none.
fn as_grave_as(open: Option<&OpenGap>, wanted: Gap) -> Gap {
    match open {
        Some(open) if open.loss && !wanted.is_loss() => {
            let cause = GapCause::StillOpen { cause: open.cause.clone(), loss: true };
            Gap { cause, shard: None, since: open.since }
        }
        _ => wanted,
    }
}

/// What earlier runs left open, as gaps.
pub(super) fn gaps_at_start(
    history: &History,
    stream: &StreamDescription,
    model: &str,
    since: DateTime<Utc>,
) -> Vec<Gap> {
    let gap = |cause| Gap { cause, shard: None, since };
    let Some(row) = &history.stream else { return vec![gap(GapCause::FirstStart)] };
    let mut gaps = Vec::new();
    if let Some(open) = &row.gap {
        let cause = GapCause::StillOpen { cause: open.cause.clone(), loss: open.loss };
        gaps.push(Gap { cause, shard: None, since: open.last });
    }
    if row.arn != stream.arn {
        gaps.push(gap(GapCause::StreamReplaced { old: row.arn.clone() }));
    } else if history.checkpoints.is_empty() && !stream.shards.is_empty() {
        // The resume hints are gone, so it cannot be told how long the stream was not read.
        gaps.push(gap(GapCause::FirstStart));
    }
    if row.model != model {
        gaps.push(gap(GapCause::ModelChanged));
    }
    gaps
}
