//! One run of a worker.

mod batches;
mod gaps;
mod lease;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::{FuturesUnordered, Stream};

use super::{BatchSink, Observer, Progress, Repair, Repaired, TURN_MAX, Worker, WorkerError, WorkerReport};
use crate::engine::checkpoint::{self, Checkpoint, ShardKey, StreamRow, forget, write_each, write_state};
use crate::engine::patience::backoff;
use crate::engine::ports::{Clock, RecordPage, Store, StreamDescription, StreamError, StreamSource, TransactError};
use crate::engine::shards::{Action, Event, Notice, ShardSettings, ShardTable, Ticket};
use crate::plan::write::Write;
use batches::{Batch, Page};
use gaps::{RepairState, gaps_at_start};
use lease::{Claimed, LeaseState, Look};

const START_BACKOFF: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// What a request came to.
enum Done {
    Event(Event),
    Page(Ticket, Result<RecordPage, StreamError>),
    Saved(Save, Result<Vec<bool>, TransactError>),
    Forgotten,
    Repaired(Result<Repaired, String>),
    Looked(Box<Look>),
    Claimed(Box<Claimed>),
}

/// Rows on their way to the state table.
#[derive(Default)]
struct Save {
    keys: Vec<ShardKey>,
    writes: Vec<Write>,
    /// For each write its shard and the lease that it is made under.
    leases: Vec<(Arc<str>, Option<u64>)>,
}

type Applied<B> = (Batch, Result<<B as BatchSink>::Report, <B as BatchSink>::Fault>);

/// What ended a wait.
enum Wake<B: BatchSink> {
    Stop,
    Applied(Applied<B>),
    Done(Done),
    Time,
}

struct Run<'w, B: BatchSink, S, T, C, O, G> {
    worker: Worker<'w, B, S, T, C, O, G>,
    table: ShardTable,
    stream: StreamRow,
    requests: FuturesUnordered<BoxFuture<'w, Done>>,
    pages: VecDeque<Page>,
    applying: Option<BoxFuture<'w, Applied<B>>>,
    /// What is being applied has failed before.
    retrying: bool,
    repair: RepairState,
    /// `None`: every shard is read, whoever else reads it.
    leases: Option<LeaseState>,
    report: WorkerReport,
}

type Outcome<T, B> = Result<T, WorkerError<<B as BatchSink>::Fault>>;

/// See [`Worker::run`].
pub(super) async fn run<B, S, T, C, O, G>(
    worker: Worker<'_, B, S, T, C, O, G>,
    stop: impl Future<Output = ()> + Send,
) -> Outcome<WorkerReport, B>
where
    B: BatchSink,
    S: Store,
    T: StreamSource,
    C: Clock,
    O: Observer<B::Report>,
    G: Repair,
{
    let mut stop = pin!(stop);
    let mut report = WorkerReport::default();
    let mut run = match select(pin!(Run::start(worker, false)), stop.as_mut()).await {
        Either::Left((run, _)) => run?,
        // Nothing has been read yet, so there is nothing to finish.
        Either::Right(_) => return Ok(report),
    };
    loop {
        std::mem::swap(&mut run.report, &mut report);
        let result = run.go(stop.as_mut()).await;
        report = std::mem::take(&mut run.report);
        report.gap_open = run.stream.gap.is_some();
        if let Ok(Ended::Stale { stopped }) = result {
            report.leases_lost += run.abandon();
            if stopped {
                return Ok(report);
            }
            match again(worker, stop.as_mut()).await? {
                Some(fresh) => run = fresh,
                None => return Ok(report),
            }
            continue;
        }
        // Beyond a gap that is not remembered nothing may be stored, or it would be forgotten.
        if matches!(result, Ok(_) | Err(WorkerError::Batch { .. })) {
            run.save_all().await;
        }
        // In good order or not: others need not wait for this one's shards.
        run.release().await;
        return result.map(|_| report);
    }
}

/// Starts anew, as if the worker had been killed, with all the patience of one that is not just being tried out. `None` if it
/// was told to stop before that.
async fn again<'w, B, S, T, C, O, G>(
    worker: Worker<'w, B, S, T, C, O, G>,
    mut stop: Pin<&mut (impl Future<Output = ()> + Send)>,
) -> Outcome<Option<Run<'w, B, S, T, C, O, G>>, B>
where
    B: BatchSink,
    S: Store,
    T: StreamSource,
    C: Clock,
    O: Observer<B::Report>,
    G: Repair,
{
    loop {
        let started = match select(pin!(Run::start(worker, true)), stop.as_mut()).await {
            Either::Left((run, _)) => run,
            Either::Right(_) => return Ok(None),
        };
        let reason = match started {
            Ok(run) => return Ok(Some(run)),
            Err(WorkerError::State(error)) if error.can_retry() => error.to_string(),
            Err(WorkerError::StateWrite(TransactError::Store(error))) if error.can_retry() => error.to_string(),
            Err(WorkerError::Stream(error @ (StreamError::Throttled(_) | StreamError::Unavailable(_)))) => {
                error.to_string()
            }
            Err(error) => return Err(error),
        };
        worker.observer.progress(Progress::LeasesFailed(&reason));
        let pause = pin!(worker.clock.sleep(BACKOFF_MAX));
        if let Either::Left(_) = select(stop.as_mut(), pause).await {
            return Ok(None);
        }
    }
}

/// Why a run ended in good order.
enum Ended {
    /// It was told to, or there is nothing left to read.
    Done,
    /// It was away for longer than its lease: what it knows may be out of date. When it looked up, it had been told to stop.
    Stale { stopped: bool },
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
    /// `again`: this worker has run before, so the model that is stored is a newer one if it is not its own.
    async fn start(worker: Worker<'w, B, S, T, C, O, G>, again: bool) -> Outcome<Self, B> {
        let description = first_description(&worker).await?;
        let history = checkpoint::load(worker.store, worker.clock, &description.arn, &worker.settings.consumer)
            .await
            .map_err(WorkerError::State)?;
        // Before anything is written: the first worker of the other table must not meet a row of ours.
        if let Some(other) = history.other_table {
            return Err(WorkerError::StateOfAnotherTable(other));
        }
        if again && history.stream.as_ref().is_some_and(|row| row.model != worker.settings.model_hash) {
            return Err(WorkerError::ModelReplaced);
        }
        let is_first = history.stream.is_none();
        let now = worker.clock.now();
        let gaps = gaps_at_start(&history, &description, &worker.settings.model_hash, now);
        let arn = description.arn.clone();
        worker.observer.progress(Progress::Started {
            arn: &arn,
            shards: description.shards.len(),
            resumed: history.checkpoints.len(),
        });
        let earlier = history.stream.as_ref().map(|row| row.arn.clone()).filter(|earlier| *earlier != arn);
        let version = history.stream.as_ref().map_or(0, |row| row.version);
        let gap = history.stream.and_then(|row| row.gap);
        let leases = LeaseState::new(&worker, &arn);
        let own_new = leases.is_none() && worker.settings.shards.own_new;
        let shards = ShardSettings { own_new, ..worker.settings.shards.clone() };
        let (table, notices) = ShardTable::open(shards, description, history.checkpoints, now);
        let mut run = Run {
            worker,
            table,
            stream: StreamRow { arn, model: worker.settings.model_hash.clone(), gap, version },
            requests: FuturesUnordered::new(),
            pages: VecDeque::new(),
            applying: None,
            retrying: false,
            repair: RepairState::default(),
            leases,
            report: WorkerReport::default(),
        };
        let notices = gaps.into_iter().map(Notice::Gap).chain(notices).collect();
        run.notices(notices).await?;
        if is_first {
            // Another first one may have begun at the same moment; each has written its row by now, so one sees the other's.
            let other = checkpoint::other_table(worker.store, worker.clock, &run.stream.arn).await;
            if let Some(other) = other.map_err(WorkerError::State)? {
                return Err(WorkerError::StateOfAnotherTable(other));
            }
        }
        if let Some(earlier) = earlier {
            run.drop_stream(&earlier).await?;
        }
        Ok(run)
    }

    /// Until `stop`, until idle, or until something goes wrong for good.
    async fn go(&mut self, mut stop: Pin<&mut (impl Future<Output = ()> + Send)>) -> Outcome<Ended, B> {
        let mut stopping = false;
        loop {
            let (owned, reached) = self.table.standing();
            self.tell(Progress::Turn { owned, reached });
            if !stopping {
                self.begin();
            }
            if self.applying.is_none() && (stopping || self.worker.settings.until_idle && self.is_idle()) {
                return Ok(Ended::Done);
            }
            let pause = match stopping {
                // Only the batch under way is waited for; it wakes by itself.
                true => TURN_MAX,
                false => (self.wake_at() - self.worker.clock.now()).to_std().unwrap_or_default().min(TURN_MAX),
            };
            let wake = self.wait(stop.as_mut(), stopping, pause).await;
            // What has come meanwhile is not looked at: it answers questions of long ago.
            if !stopping && self.is_stale() {
                return Ok(Ended::Stale { stopped: matches!(wake, Wake::Stop) });
            }
            match wake {
                Wake::Stop => {
                    stopping = true;
                    self.tell(Progress::Stopping);
                    self.give_up_retry();
                    self.give_up_repair();
                }
                Wake::Applied(applied) => self.applied(applied, stopping).await?,
                Wake::Done(done) => self.done(done).await?,
                Wake::Time => {}
            }
        }
    }

    /// Starts all that is due.
    fn begin(&mut self) {
        let now = self.worker.clock.now();
        self.begin_look(now);
        while let Some(action) = self.table.next_action(now) {
            self.request(action);
        }
        if self.applying.is_none()
            && let Some(batch) = self.next_batch()
        {
            self.apply(batch);
        }
        self.begin_repair(now);
    }

    fn request(&mut self, action: Action) {
        let worker = self.worker;
        let request: BoxFuture<'w, Done> = match action {
            Action::Describe => Box::pin(async move {
                Done::Event(match worker.stream.describe().await {
                    Ok(description) => Event::Described(description),
                    Err(error) => Event::DescribeFailed(error),
                })
            }),
            Action::TakeIterator(ticket, start) => Box::pin(async move {
                let iterator = worker.stream.iterator(&ticket.key.shard, &start).await;
                Done::Event(Event::Placed(ticket, iterator))
            }),
            Action::Read(ticket, iterator) => Box::pin(async move {
                let page = worker.stream.records(&iterator).await;
                Done::Page(ticket, page)
            }),
            Action::Save(rows) => {
                let save = self.save(rows);
                Box::pin(async move {
                    let stored = write_each(worker.store, worker.clock, &save.writes).await;
                    Done::Saved(save, stored)
                })
            }
            Action::Forget(keys) => Box::pin(async move {
                let writes: Vec<_> = keys.iter().map(|key| forget(key, &worker.settings.consumer)).collect();
                // A row that stays is read at the next start, found unlisted and finished, and forgotten then.
                let _ = write_state(worker.store, worker.clock, &writes).await;
                Done::Forgotten
            }),
        };
        self.requests.push(request);
    }

    async fn wait(
        &mut self,
        mut stop: Pin<&mut (impl Future<Output = ()> + Send)>,
        stopping: bool,
        pause: Duration,
    ) -> Wake<B> {
        let mut time = pin!(self.worker.clock.sleep(pause));
        let (applying, requests) = (&mut self.applying, &mut self.requests);
        poll_fn(|cx| {
            if !stopping && stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Wake::Stop);
            }
            if let Some(future) = applying
                && let Poll::Ready(applied) = future.as_mut().poll(cx)
            {
                *applying = None;
                return Poll::Ready(Wake::Applied(applied));
            }
            if let Poll::Ready(Some(done)) = Pin::new(&mut *requests).poll_next(cx) {
                return Poll::Ready(Wake::Done(done));
            }
            time.as_mut().poll(cx).map(|()| Wake::Time)
        })
        .await
    }

    async fn done(&mut self, done: Done) -> Outcome<(), B> {
        match done {
            Done::Event(event) => self.event(event).await,
            Done::Page(ticket, page) => self.page(ticket, page).await,
            Done::Saved(save, stored) => self.saved(save, stored).await,
            Done::Forgotten => Ok(()),
            Done::Repaired(result) => self.repaired(result).await,
            Done::Looked(look) => self.looked(*look).await,
            Done::Claimed(claimed) => self.claimed(*claimed).await,
        }
    }

    async fn event(&mut self, event: Event) -> Outcome<(), B> {
        let described = matches!(event, Event::Described(_));
        if let Event::Described(description) = &event {
            self.tell(Progress::Listed { shards: description.shards.len() });
        }
        let notices = self.table.on(event, self.worker.clock.now(), self.worker.clock.jitter());
        if described || notices.iter().any(|notice| matches!(notice, Notice::Finished(_))) {
            self.look_soon();
        }
        self.notices(notices).await
    }

    async fn notices(&mut self, notices: Vec<Notice>) -> Outcome<(), B> {
        for notice in notices {
            self.tell(Progress::Notice(&notice));
            match notice {
                Notice::Gap(gap) => self.gap(gap).await?,
                Notice::Finished(_) => self.report.shards_finished += 1,
                Notice::Opened(..) | Notice::Trouble { .. } => {}
            }
        }
        Ok(())
    }

    /// Deletes the rows of an earlier stream of the table: its gap is in the stream row by now.
    async fn drop_stream(&mut self, arn: &str) -> Outcome<(), B> {
        let Worker { store, clock, settings, .. } = self.worker;
        let rows = checkpoint::load_shards(store, clock, arn, &settings.consumer).await;
        let keys = rows.map_err(WorkerError::State)?.into_iter().map(|row| row.key).collect();
        self.request(Action::Forget(keys));
        Ok(())
    }

    /// At a stop only a first attempt is waited for. A batch that has failed before was not applied and will come again.
    fn give_up_retry(&mut self) {
        if self.retrying {
            self.applying = None;
        }
    }

    /// The writes that store these rows, each on condition of its lease where there are leases.
    fn save(&self, rows: Vec<Checkpoint>) -> Save {
        let consumer = &self.worker.settings.consumer;
        let mut save = Save { keys: rows.iter().map(|row| row.key.clone()).collect(), ..Save::default() };
        for row in rows {
            let term = self.leases.as_ref().map(|state| state.leases.term(&row.key.shard));
            // What is not held any more is the new owner's to store.
            if term != Some(None) {
                let term = term.flatten();
                save.writes.push(row.write(consumer, term));
                save.leases.push((row.key.shard, term));
            }
        }
        save
    }

    async fn saved(&mut self, save: Save, stored: Result<Vec<bool>, TransactError>) -> Outcome<(), B> {
        if let Err(error) = &stored {
            self.tell(Progress::CheckpointFailed(&error.to_string()));
        }
        self.event(Event::Saved(save.keys, stored.is_ok())).await?;
        for ((shard, term), stored) in save.leases.into_iter().zip(stored.unwrap_or_default()) {
            if !stored {
                self.refused(&shard, term).await?;
            }
        }
        Ok(())
    }

    async fn save_all(&mut self) {
        let now = self.worker.clock.now();
        while let Some(Action::Save(rows)) = self.table.last_save(now) {
            let save = self.save(rows);
            let stored = write_each(self.worker.store, self.worker.clock, &save.writes).await;
            if let Err(error) = stored {
                self.tell(Progress::CheckpointFailed(&error.to_string()));
                return;
            }
            self.table.on(Event::Saved(save.keys, true), now, 0.0);
        }
    }

    fn is_idle(&self) -> bool {
        self.pages.is_empty()
            && !self.repair.running
            && !self.repair_due(self.worker.clock.now())
            && self.table.is_idle()
    }

    fn wake_at(&self) -> DateTime<Utc> {
        let look = self.leases.as_ref().and_then(LeaseState::wake_at);
        [self.repair_at(), look].into_iter().flatten().fold(self.table.wake_at(), DateTime::min)
    }

    fn tell(&self, progress: Progress<'_, B::Report>) {
        self.worker.observer.progress(progress);
    }
}

async fn first_description<B, S, T, C, O, G>(worker: &Worker<'_, B, S, T, C, O, G>) -> Outcome<StreamDescription, B>
where
    B: BatchSink,
    T: StreamSource,
    C: Clock,
    O: Observer<B::Report>,
{
    let mut failures = 0;
    loop {
        let error = match worker.stream.describe().await {
            Ok(description) => return Ok(description),
            Err(error) => error,
        };
        failures += 1;
        let passing = matches!(error, StreamError::Throttled(_) | StreamError::Unavailable(_));
        if !passing || failures >= worker.settings.start_attempts {
            return Err(WorkerError::Stream(error));
        }
        worker.observer.progress(Progress::Notice(&Notice::Trouble { shard: None, error, failures }));
        worker.clock.sleep(backoff(START_BACKOFF, failures - 1, BACKOFF_MAX, worker.clock.jitter())).await;
    }
}
