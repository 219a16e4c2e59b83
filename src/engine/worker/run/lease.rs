//! The worker's side of leases: one look at a time, at the state table's own pace beside the reading.
//!
//! A look is two requests: the sign of life and the rows; then the claims that follow, and last the stream's row, so that a
//! gap which a shard's earlier owner has found is known before the shard is read on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Done, Outcome, Run};
use crate::engine::checkpoint::{StreamRow, stream_row, write_each, write_state};
use crate::engine::leases::{self, Claim, LeaseRow, Leases, Rows};
use crate::engine::ports::{CancelReason, Clock, Store, StreamSource, TransactError};
use crate::engine::shards::{Event, later};
use crate::engine::worker::{BatchSink, Observer, Progress, Repair, Worker, WorkerError};
use crate::plan::write::Write;

/// The shortest pause between two looks, as a part of the usual one.
const HURRIED: u32 = 4;

/// What the run knows of the leases.
pub(super) struct LeaseState {
    pub(super) leases: Leases,
    arn: Arc<str>,
    /// When to look again; while a look is under way, when it began.
    at: DateTime<Utc>,
    looking: bool,
    leader: bool,
    mixed: bool,
    /// What was told last: shards owned, living workers.
    told: (usize, usize),
}

/// The rows as they were read, by a look that began at `at`.
pub(super) struct Look {
    arn: Arc<str>,
    at: DateTime<Utc>,
    rows: Result<Rows, LookError>,
}

pub(super) enum LookError {
    /// Another worker has begun under the same name.
    Replaced,
    Failed(String),
}

/// What became of the claims.
pub(super) struct Claimed {
    arn: Arc<str>,
    workers: usize,
    /// Shard, count of the lease, whom it was taken from, and whether it was granted.
    claims: Vec<(Claim, u64, bool)>,
    stream: Result<Option<StreamRow>, String>,
}

impl LeaseState {
    /// `None` where the settings have no leases, or the worker is to read everything once.
    pub(super) fn new<B, S, T, C: Clock, O, G>(worker: &Worker<'_, B, S, T, C, O, G>, arn: &str) -> Option<LeaseState> {
        let settings = worker.settings.leases.as_ref().filter(|_| !worker.settings.until_idle)?;
        let random = || (worker.clock.jitter() * f64::from(u32::MAX)) as u32;
        let run = format!("{:08x}{:08x}", random(), random());
        Some(LeaseState {
            leases: Leases::new(settings.clone(), run, worker.settings.model_hash.clone(), worker.clock.now()),
            arn: arn.into(),
            at: worker.clock.now(),
            looking: false,
            leader: false,
            mixed: false,
            told: (0, 0),
        })
    }

    pub(super) fn wake_at(&self) -> Option<DateTime<Utc>> {
        (!self.looking).then_some(self.at)
    }
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
    /// Starts a look if one is due.
    pub(super) fn begin_look(&mut self, now: DateTime<Utc>) {
        let Some(state) = self.leases.as_mut() else { return };
        if self.table.arn() != &*state.arn {
            // Another stream: nothing is held of it, and all of its shards are new to the table.
            state.leases.drop_all();
            state.arn = self.table.arn().into();
            state.at = now;
        }
        // A clock that was put back must not stop the looks.
        state.at = state.at.min(later(now, state.leases.pause()));
        if state.looking || state.at > now {
            return;
        }
        state.looking = true;
        state.at = now;
        let (worker, arn, begun) = (self.worker, state.arn.clone(), state.leases.has_begun());
        let beat = state.leases.next_beat();
        let consumer = worker.settings.consumer.as_str();
        self.requests.push(Box::pin(async move {
            let beat = beat.write(&arn, consumer, begun, now);
            let rows = match write_state(worker.store, worker.clock, &[beat]).await {
                Ok(()) => leases::load(worker.store, worker.clock, &arn, consumer)
                    .await
                    .map_err(|e| LookError::Failed(e.to_string())),
                Err(TransactError::Cancelled(reasons)) if reasons.contains(&CancelReason::ConditionFailed) => {
                    Err(LookError::Replaced)
                }
                Err(error) => Err(LookError::Failed(error.to_string())),
            };
            Done::Looked(Box::new(Look { arn, at: now, rows }))
        }));
    }

    pub(super) async fn looked(&mut self, look: Look) -> Outcome<(), B> {
        let rows = match look.rows {
            Ok(rows) => rows,
            Err(LookError::Replaced) => {
                return Err(WorkerError::NameTaken(
                    self.lease_settings().map_or_else(String::new, |s| s.worker.clone()),
                ));
            }
            Err(LookError::Failed(reason)) => return self.look_failed(&reason),
        };
        if self.leases.as_ref().is_none_or(|state| state.arn != look.arn) {
            return self.look_again(Duration::ZERO);
        }
        for row in &rows.shards {
            if self.leases.as_ref().is_some_and(|state| state.leases.term(row.shard()).is_none()) {
                self.event(Event::Seen(row.checkpoint.clone())).await?;
            }
        }
        let open = self.table.open_shards();
        let Some(state) = self.leases.as_mut() else { return Ok(()) };
        let findings = state.leases.look(&rows, &open, look.at);
        (state.leader, state.mixed) = (findings.leader, findings.mixed);
        for shard in findings.lost {
            self.lost(&shard).await?;
        }
        let Some(name) = self.lease_settings().map(|settings| settings.worker.clone()) else { return Ok(()) };
        let consumer = self.worker.settings.consumer.as_str();
        let row_of: BTreeMap<&str, &LeaseRow> = rows.shards.iter().map(|row| (row.shard(), row)).collect();
        let claims: Vec<(Claim, (Write, u64))> = findings
            .claims
            .into_iter()
            .filter_map(|claim| {
                let fresh = self.table.checkpoint(&claim.shard)?;
                let write = leases::claim(&name, consumer, row_of.get(&*claim.shard).copied(), &fresh);
                Some((claim, write))
            })
            .collect();
        let graves = findings.dead.iter().map(|beat| leases::bury(&look.arn, consumer, beat)).collect();
        self.begin_claims(look.arn, findings.workers, claims, graves);
        Ok(())
    }

    fn begin_claims(&mut self, arn: Arc<str>, workers: usize, claims: Vec<(Claim, (Write, u64))>, graves: Vec<Write>) {
        let worker = self.worker;
        self.requests.push(Box::pin(async move {
            let (claims, writes): (Vec<_>, Vec<_>) =
                claims.into_iter().map(|(claim, (write, term))| ((claim, term), write)).unzip();
            let granted = write_each(worker.store, worker.clock, &writes).await;
            // A row that stays is found again by the next look.
            let _ = write_each(worker.store, worker.clock, &graves).await;
            let row = match &granted {
                Ok(_) => stream_row(worker.store, worker.clock, &arn).await.map_err(|error| error.to_string()),
                // Some of them may have been granted: the next look shows them as its own and claims them anew.
                Err(error) => Err(error.to_string()),
            };
            let claims = claims.into_iter().zip(granted.unwrap_or_default());
            let claims = claims.map(|((claim, term), granted)| (claim, term, granted)).collect();
            Done::Claimed(Box::new(Claimed { arn, workers, claims, stream: row }))
        }));
    }

    pub(super) async fn claimed(&mut self, claimed: Claimed) -> Outcome<(), B> {
        let row = match claimed.stream {
            Ok(row) => row,
            Err(reason) => return self.look_failed(&reason),
        };
        if self.leases.as_ref().is_none_or(|state| state.arn != claimed.arn) {
            return self.look_again(Duration::ZERO);
        }
        if let Some(row) = row {
            self.refresh_stream(row)?;
        }
        for (claim, term, granted) in claimed.claims {
            if let Some(state) = self.leases.as_mut().filter(|_| granted) {
                state.leases.hold(claim.shard.clone(), term);
                let key = self.table.key(&claim.shard);
                self.tell(Progress::ShardTaken { shard: &key, from: claim.taken_from.as_deref() });
                self.event(Event::Owned(key, true)).await?;
            }
        }
        let told = (self.table.standing().0, claimed.workers);
        if self.leases.as_ref().is_some_and(|state| state.told != told) {
            self.tell(Progress::Shares { owned: told.0, workers: told.1 });
        }
        let Some(state) = self.leases.as_mut() else { return Ok(()) };
        state.told = told;
        let pause = state.leases.pause();
        self.look_again(pause)
    }

    /// The next look comes so long after this one began.
    fn look_again(&mut self, pause: Duration) -> Outcome<(), B> {
        if let Some(state) = self.leases.as_mut() {
            state.looking = false;
            state.at = later(state.at, pause);
        }
        Ok(())
    }

    fn look_failed(&mut self, reason: &str) -> Outcome<(), B> {
        self.tell(Progress::LeasesFailed(reason));
        let pause = self.leases.as_ref().map_or(Duration::ZERO, |state| state.leases.pause());
        self.look_again(pause)
    }

    /// Shards may have become readable: if nobody has them, the next look need not wait for its time.
    pub(super) fn look_soon(&mut self) {
        let open = self.table.open_shards();
        let now = self.worker.clock.now();
        if let Some(state) = self.leases.as_mut().filter(|state| !state.looking)
            && state.leases.has_unclaimed(&open)
        {
            let pause = state.leases.pause();
            let spared = TimeDelta::from_std(pause - pause / HURRIED).unwrap_or_default();
            state.at = (state.at - spared).max(now).min(state.at);
        }
    }

    /// A write under a lease was refused.
    pub(super) async fn refused(&mut self, shard: &Arc<str>, term: Option<u64>) -> Outcome<(), B> {
        let Some(state) = self.leases.as_mut() else { return Ok(()) };
        // It may have been lost and claimed again since the write was sent.
        match term.is_some() && state.leases.term(shard) == term && state.leases.lose(shard) {
            true => self.lost(shard).await,
            false => Ok(()),
        }
    }

    async fn lost(&mut self, shard: &Arc<str>) -> Outcome<(), B> {
        let key = self.table.key(shard);
        self.report.leases_lost += 1;
        self.tell(Progress::ShardLost(&key));
        self.event(Event::Owned(key, false)).await
    }

    /// True after a long pause: others may have read this worker's shards to their ends by now, and their children's.
    pub(super) fn is_stale(&mut self) -> bool {
        let now = self.worker.clock.now();
        self.leases.as_mut().is_some_and(|state| state.leases.is_stale(now))
    }

    /// Gives everything up without a word to the others, who see for themselves; how much it was.
    pub(super) fn abandon(&mut self) -> u64 {
        let held = self.leases.as_mut().map(|state| state.leases.drop_all()).unwrap_or_default();
        for shard in &held {
            self.tell(Progress::ShardLost(&self.table.key(shard)));
        }
        held.len() as u64
    }

    /// Frees all shards, so that others need not wait.
    pub(super) async fn release(&mut self) {
        let Some(state) = self.leases.as_mut() else { return };
        let open = self.table.open_shards();
        let consumer = self.worker.settings.consumer.as_str();
        let held = state.leases.held().filter(|(shard, _)| open.contains(*shard));
        let mut writes: Vec<Write> =
            held.map(|(shard, term)| leases::release(&self.table.key(shard), consumer, term)).collect();
        writes.push(leases::leave(&state.arn, consumer, &state.leases.last_beat()));
        state.leases.drop_all();
        if let Err(error) = write_each(self.worker.store, self.worker.clock, &writes).await {
            self.tell(Progress::LeasesFailed(&error.to_string()));
        }
    }

    /// True where this worker is the one to repair the table.
    pub(super) fn may_repair(&self) -> bool {
        self.leases.as_ref().is_none_or(|state| state.leader && !state.mixed)
    }

    fn lease_settings(&self) -> Option<&leases::LeaseSettings> {
        self.leases.as_ref().map(|state| state.leases.settings())
    }
}
