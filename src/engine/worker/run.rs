//! One run of a worker.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures::future::{BoxFuture, Either, select};
use futures::stream::{FuturesUnordered, Stream};

use super::{BatchSink, Observer, OnGap, Progress, Repair, Repaired, TURN_MAX, Worker, WorkerError, WorkerReport};
use crate::engine::batch::OldImages;
use crate::engine::checkpoint::{self, Checkpoint, History, OpenGap, StreamRow, forget, write_state};
use crate::engine::patience::backoff;
use crate::engine::ports::{Clock, RecordPage, Store, StreamDescription, StreamError, StreamSource, TransactError};
use crate::engine::shards::{Action, Event, Gap, GapCause, Notice, PageSeen, ShardTable, Ticket};
use crate::model::change::{RawRecord, SequenceNumber};

const START_BACKOFF: Duration = Duration::from_millis(200);
const APPLY_BACKOFF: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// A page that waits to be applied.
struct Batch {
    ticket: Ticket,
    records: Vec<RawRecord>,
    attempts: u32,
}

/// What a request came to.
enum Done {
    Event(Event),
    Page(Ticket, Result<RecordPage, StreamError>),
    Saved(Vec<Checkpoint>, Result<(), TransactError>),
    Forgotten,
    Repaired(Result<Repaired, String>),
}

type Applied<B> = (Batch, Result<<B as BatchSink>::Report, <B as BatchSink>::Fault>);

/// What ended a wait.
enum Wake<B: BatchSink> {
    Stop,
    Applied(Applied<B>),
    Done(Done),
    Time,
}

/// How far the repair of an open gap is.
#[derive(Default)]
struct RepairState {
    /// The gap that calls for a repair.
    wanted: Option<Gap>,
    running: bool,
    /// Another gap came while the repair ran: it does not count for that one.
    again: bool,
    /// Not before, after a failure.
    at: Option<DateTime<Utc>>,
}

struct Run<'w, B: BatchSink, S, T, C, O, G> {
    worker: Worker<'w, B, S, T, C, O, G>,
    table: ShardTable,
    stream: StreamRow,
    requests: FuturesUnordered<BoxFuture<'w, Done>>,
    batches: VecDeque<Batch>,
    applying: Option<BoxFuture<'w, Applied<B>>>,
    /// What is being applied has failed before.
    retrying: bool,
    repair: RepairState,
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
    let start = pin!(Run::start(worker));
    let mut run = match select(start, stop.as_mut()).await {
        Either::Left((run, _)) => run?,
        // Nothing has been read yet, so there is nothing to finish.
        Either::Right(_) => return Ok(WorkerReport::default()),
    };
    let mut stopping = false;
    loop {
        let (owned, reached) = run.table.standing();
        run.tell(Progress::Turn { owned, reached });
        if !stopping {
            run.begin();
        }
        if run.applying.is_none() && (stopping || worker.settings.until_idle && run.is_idle()) {
            return Ok(run.end().await);
        }
        let pause = match stopping {
            // Only the batch under way is waited for; it wakes by itself.
            true => TURN_MAX,
            false => (run.wake_at() - worker.clock.now()).to_std().unwrap_or_default().min(TURN_MAX),
        };
        match run.wait(stop.as_mut(), stopping, pause).await {
            Wake::Stop => {
                stopping = true;
                run.tell(Progress::Stopping);
                run.give_up_retry();
            }
            Wake::Applied((batch, result)) => run.applied(batch, result, stopping).await?,
            Wake::Done(done) => run.done(done).await?,
            Wake::Time => {}
        }
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
    async fn start(worker: Worker<'w, B, S, T, C, O, G>) -> Outcome<Self, B> {
        let description = first_description(&worker).await?;
        let history =
            checkpoint::load(worker.store, worker.clock, &description.arn).await.map_err(WorkerError::State)?;
        let now = worker.clock.now();
        let gaps = gaps_at_start(&history, &description, &worker.settings.model_hash, now);
        let arn = description.arn.clone();
        worker.observer.progress(Progress::Started {
            arn: &arn,
            shards: description.shards.len(),
            resumed: history.checkpoints.len(),
        });
        let earlier = history.stream.as_ref().map(|row| row.arn.clone()).filter(|earlier| *earlier != arn);
        let gap = history.stream.and_then(|row| row.gap);
        let (table, notices) = ShardTable::open(worker.settings.shards.clone(), description, history.checkpoints, now);
        let mut run = Run {
            worker,
            table,
            stream: StreamRow { arn, model: worker.settings.model_hash.clone(), gap },
            requests: FuturesUnordered::new(),
            batches: VecDeque::new(),
            applying: None,
            retrying: false,
            repair: RepairState::default(),
            report: WorkerReport::default(),
        };
        let notices = gaps.into_iter().map(Notice::Gap).chain(notices).collect();
        run.notices(notices).await?;
        if let Some(earlier) = earlier {
            run.drop_stream(&earlier).await?;
        }
        Ok(run)
    }

    /// Starts all that is due.
    fn begin(&mut self) {
        let now = self.worker.clock.now();
        while let Some(action) = self.table.next_action(now) {
            self.request(action);
        }
        if self.applying.is_none()
            && let Some(batch) = self.batches.pop_front()
        {
            self.apply(batch);
        }
        if self.repair_due(now)
            && let Some(gap) = self.repair.wanted.clone()
        {
            self.repair.running = true;
            self.repair.again = false;
            let worker = self.worker;
            self.requests.push(Box::pin(async move { Done::Repaired(worker.repair.repair(&gap).await) }));
        }
    }

    fn request(&mut self, action: Action) {
        let worker = self.worker;
        self.requests.push(match action {
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
            Action::Save(rows) => Box::pin(async move {
                let writes: Vec<_> = rows.iter().map(Checkpoint::write).collect();
                let stored = write_state(worker.store, worker.clock, &writes).await;
                Done::Saved(rows, stored)
            }),
            Action::Forget(keys) => Box::pin(async move {
                let writes: Vec<_> = keys.iter().map(forget).collect();
                // A row that stays is read at the next start, found unlisted and finished, and forgotten then.
                let _ = write_state(worker.store, worker.clock, &writes).await;
                Done::Forgotten
            }),
        });
    }

    fn apply(&mut self, batch: Batch) {
        let worker = self.worker;
        let trust = if self.stream.gap.is_some() { OldImages::NotTrusted } else { OldImages::Trusted };
        let pause = match batch.attempts {
            0 => Duration::ZERO,
            attempt => backoff(APPLY_BACKOFF, attempt - 1, BACKOFF_MAX, worker.clock.jitter()),
        };
        self.retrying = batch.attempts > 0;
        self.applying = Some(Box::pin(async move {
            if !pause.is_zero() {
                worker.clock.sleep(pause).await;
            }
            let result = worker.sink.apply(&batch.records, trust).await;
            (batch, result)
        }));
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
            Done::Saved(rows, stored) => {
                if let Err(error) = &stored {
                    self.tell(Progress::CheckpointFailed(&error.to_string()));
                }
                let keys = rows.into_iter().map(|row| row.key).collect();
                self.event(Event::Saved(keys, stored.is_ok())).await
            }
            Done::Forgotten => Ok(()),
            Done::Repaired(result) => self.repaired(result).await,
        }
    }

    async fn page(&mut self, ticket: Ticket, page: Result<RecordPage, StreamError>) -> Outcome<(), B> {
        let page = match page {
            Ok(page) => page,
            Err(error) => return self.event(Event::Page(ticket, Err(error))).await,
        };
        self.report.reads += 1;
        self.tell(Progress::Read { records: page.records.len() });
        let seen = PageSeen {
            records: page.records.len(),
            last: page.records.iter().rev().find_map(sequence),
            written_at: page.records.iter().rev().find_map(|record| record.created_at),
            next: page.next,
        };
        self.event(Event::Page(ticket.clone(), Ok(seen))).await?;
        if !page.records.is_empty() {
            self.batches.push_back(Batch { ticket, records: page.records, attempts: 0 });
        }
        Ok(())
    }

    async fn applied(
        &mut self,
        mut batch: Batch,
        result: Result<B::Report, B::Fault>,
        stopping: bool,
    ) -> Outcome<(), B> {
        let shard = &batch.ticket.key;
        match result {
            Ok(report) => {
                let records = batch.records.len();
                self.tell(Progress::Batch { shard, records, report: &report });
                self.report.batches += 1;
                self.report.records += records as u64;
                self.event(Event::Applied(batch.ticket)).await
            }
            Err(error) => {
                batch.attempts += 1;
                self.tell(Progress::BatchFailed { shard, attempt: batch.attempts, error: &error });
                if batch.attempts >= self.worker.settings.apply_attempts {
                    let shard = shard.shard.to_string();
                    self.save_all().await;
                    return Err(WorkerError::Batch { shard, attempts: batch.attempts, source: error });
                }
                if !stopping {
                    self.apply(batch);
                }
                Ok(())
            }
        }
    }

    async fn event(&mut self, event: Event) -> Outcome<(), B> {
        if let Event::Described(description) = &event {
            self.tell(Progress::Listed { shards: description.shards.len() });
        }
        let notices = self.table.on(event, self.worker.clock.now(), self.worker.clock.jitter());
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

    /// Remembers the gap durably, or ends the worker.
    async fn gap(&mut self, gap: Gap) -> Outcome<(), B> {
        self.report.gaps += u64::from(gap.is_loss());
        if gap.is_loss() && self.worker.settings.on_gap == OnGap::Halt {
            return Err(WorkerError::Gap(Box::new(gap)));
        }
        let loss = gap.is_loss();
        let open = OpenGap { since: gap.since, last: gap.since, cause: gap.to_string(), loss };
        self.stream.arn = self.table.arn().to_owned();
        self.stream.gap = match self.stream.gap.take() {
            // The first loss names the cause; what was open longer stays open since then.
            Some(earlier) if earlier.loss || !loss => Some(OpenGap { last: earlier.last.max(gap.since), ..earlier }),
            Some(earlier) => Some(OpenGap { since: earlier.since.min(gap.since), ..open }),
            None => Some(open),
        };
        self.repair.again = self.repair.running;
        self.repair.at = None;
        self.repair.wanted = Some(gap);
        self.write_stream().await
    }

    async fn repaired(&mut self, result: Result<Repaired, String>) -> Outcome<(), B> {
        self.repair.running = false;
        match result {
            Ok(Repaired::Done) if self.repair.again => Ok(()),
            Ok(Repaired::Done) => {
                self.repair = RepairState::default();
                self.stream.gap = None;
                self.write_stream().await?;
                self.tell(Progress::GapClosed);
                Ok(())
            }
            Ok(Repaired::Postponed) => {
                self.repair = RepairState::default();
                self.tell(Progress::RepairPostponed);
                Ok(())
            }
            Err(error) => {
                let pause = TimeDelta::from_std(self.worker.settings.repair_pause).unwrap_or_default();
                self.repair.at = self.worker.clock.now().checked_add_signed(pause);
                self.tell(Progress::RepairFailed(&error));
                Ok(())
            }
        }
    }

    async fn write_stream(&mut self) -> Outcome<(), B> {
        let write = self.stream.write(self.worker.clock.now());
        write_state(self.worker.store, self.worker.clock, &[write]).await.map_err(WorkerError::StateWrite)
    }

    /// Deletes the checkpoints of an earlier stream of the table: its gap is in the stream row by now.
    async fn drop_stream(&mut self, arn: &str) -> Outcome<(), B> {
        let rows =
            checkpoint::load_shards(self.worker.store, self.worker.clock, arn).await.map_err(WorkerError::State)?;
        self.request(Action::Forget(rows.into_iter().map(|row| row.key).collect()));
        Ok(())
    }

    /// At a stop only a first attempt is waited for. A batch that has failed before was not applied and will come again.
    fn give_up_retry(&mut self) {
        if self.retrying {
            self.applying = None;
        }
    }

    async fn end(mut self) -> WorkerReport {
        self.save_all().await;
        self.report.gap_open = self.stream.gap.is_some();
        self.report
    }

    async fn save_all(&mut self) {
        let now = self.worker.clock.now();
        while let Some(Action::Save(rows)) = self.table.last_save(now) {
            let writes: Vec<_> = rows.iter().map(Checkpoint::write).collect();
            let stored = write_state(self.worker.store, self.worker.clock, &writes).await;
            if let Err(error) = stored {
                self.tell(Progress::CheckpointFailed(&error.to_string()));
                return;
            }
            let keys = rows.into_iter().map(|row| row.key).collect();
            self.table.on(Event::Saved(keys, true), now, 0.0);
        }
    }

    fn is_idle(&self) -> bool {
        self.batches.is_empty()
            && !self.repair.running
            && !self.repair_due(self.worker.clock.now())
            && self.table.is_idle()
    }

    fn repair_due(&self, now: DateTime<Utc>) -> bool {
        !self.repair.running && self.repair.wanted.is_some() && self.repair.at.is_none_or(|at| at <= now)
    }

    fn wake_at(&self) -> DateTime<Utc> {
        let table = self.table.wake_at();
        match self.repair.at {
            Some(at) if !self.repair.running => table.min(at),
            _ => table,
        }
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

/// What earlier runs left open, as gaps.
fn gaps_at_start(history: &History, stream: &StreamDescription, model: &str, since: DateTime<Utc>) -> Vec<Gap> {
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

fn sequence(record: &RawRecord) -> Option<SequenceNumber> {
    record.sequence.as_deref().and_then(|text| text.parse().ok())
}
