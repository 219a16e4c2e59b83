//! Who works on the table: workers that read all shards, functions that are handed batches, reconciliations, and people who edit
//! an aggregate by hand and have it repaired.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::lines::{StoreLine, StreamLine, Weather};
#[cfg(test)]
use super::mistakes::{Applies, Mistake};
use crate::adapters::sim::clock::SimClock;
use crate::adapters::sim::random::Random;
use crate::engine::batch::{ApplyError, BatchReport, Engine, OldImages};
use crate::engine::leases::LeaseSettings;
use crate::engine::ports::Clock;
use crate::engine::reconcile::reconcile;
use crate::engine::shards::{Gap, ShardSettings};
use crate::engine::verify::{VerifyOptions, repair};
use crate::engine::worker::{
    BatchSink, Observer, OnGap, Progress, Repair, Repaired, Unobserved, Worker, WorkerSettings,
};
use crate::model::change::RawRecord;
use crate::model::decimal::Decimal;
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, MARKER, Value};
use crate::plan::write::TableRef;

/// What an actor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Worker,
    Function,
    Reconciler,
    /// Edits an aggregate, then repairs.
    Meddler,
    /// Repairs only.
    Repairer,
}

/// What an actor needs of the world.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    pub model: Arc<Model>,
    pub store: StoreLine,
    pub stream: StreamLine,
    /// May show another time than others'.
    pub clock: SimClock,
    pub weather: Weather,
}

impl Parts {
    pub fn applier(&self) -> Applier {
        Applier {
            engine: Engine::new(self.model.clone(), self.store.clone(), self.clock.clone()),
            weather: self.weather.clone(),
            #[cfg(test)]
            applies: Applies::new(self.store.mistake),
        }
    }

    #[cfg(test)]
    pub fn mistaken(mut self, mistake: Option<Mistake>) -> Parts {
        self.store.mistake = mistake;
        self.stream.mistake = mistake;
        self
    }
}

/// The engine, with what goes wrong around it.
pub(super) struct Applier {
    pub engine: Engine<StoreLine, SimClock>,
    weather: Weather,
    #[cfg(test)]
    applies: Applies,
}

impl Applier {
    /// A batch as a function applies it.
    pub async fn batch(&self, records: &[RawRecord], trust: OldImages) -> Result<BatchReport, ApplyError> {
        #[cfg(test)]
        let result = self.applies.batch(&self.engine, records, trust).await;
        #[cfg(not(test))]
        let result = self.engine.apply(records, trust).await;
        self.weather.count(|tally| {
            tally.batches += 1;
            tally.records += records.len() as u64;
        });
        result
    }
}

impl BatchSink for Applier {
    type Report = BatchReport;
    type Fault = ApplyError;

    async fn apply(&self, records: &[RawRecord], trust: OldImages) -> Result<BatchReport, ApplyError> {
        self.batch(records, trust).await
    }
}

impl Repair for Applier {
    async fn repair(&self, gap: &Gap) -> Result<Repaired, String> {
        self.weather.count(|tally| tally.reconciles += 1);
        self.engine.repair(gap).await
    }
}

/// Counts gaps.
struct Watch(Weather);

impl Observer<BatchReport> for Watch {
    fn progress(&self, progress: Progress<'_, BatchReport>) {
        if let Progress::Notice(crate::engine::shards::Notice::Gap(gap)) = progress {
            self.0.count(|tally| tally.gaps += u64::from(gap.is_loss()));
        }
    }
}

fn worker_settings(model: &Model) -> WorkerSettings {
    let shards = ShardSettings {
        poll_min: Duration::from_millis(200),
        poll_max: Duration::from_secs(5),
        describe_max: Duration::from_secs(10),
        ..ShardSettings::fast()
    };
    let on_gap = OnGap::Reconcile;
    WorkerSettings { shards, on_gap, ..WorkerSettings::new(model.hash.clone()) }
}

/// A worker that is stopped in good order now and then, and begins anew after that and after errors.
pub(super) async fn worker(parts: Parts, leases: Option<LeaseSettings>, mut random: Random) {
    let (applier, settings) = (parts.applier(), WorkerSettings { leases, ..worker_settings(&parts.model) });
    let observer = Watch(parts.weather.clone());
    loop {
        let worker = Worker {
            sink: &applier,
            store: &parts.store,
            stream: &parts.stream,
            clock: &parts.clock,
            observer: &observer,
            repair: &applier,
            settings: &settings,
        };
        let life = Duration::from_secs(*random.pick(&[1, 30, 600, 40_000]));
        // However it ended: the next run goes on from what is durable.
        let _ = worker.run(parts.clock.sleep(life)).await;
        parts.clock.sleep(Duration::from_millis(500)).await;
    }
}

/// A worker that ends when everything is read; false if it ended otherwise.
pub(super) async fn last_worker(parts: Parts) -> bool {
    let applier = parts.applier();
    let settings = WorkerSettings { until_idle: true, ..worker_settings(&parts.model) };
    let worker = Worker {
        sink: &applier,
        store: &parts.store,
        stream: &parts.stream,
        clock: &parts.clock,
        observer: &Unobserved,
        repair: &applier,
        settings: &settings,
    };
    worker.run(std::future::pending()).await.is_ok_and(|report| !report.gap_open)
}

/// One reconciliation beside everything else; again if it fails.
pub(super) async fn reconciler(parts: Parts) {
    let applier = parts.applier();
    parts.weather.count(|tally| tally.reconciles += 1);
    while reconcile(&applier.engine, |_| {}).await.is_err() {
        parts.clock.sleep(Duration::from_secs(1)).await;
    }
}

/// What people do to aggregates by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hands {
    /// They change counts and markers.
    Counts,
    /// They change sums as well, and take whole aggregates away. Only where all sums are small, for else what is written meanwhile might
    /// fit beside the wrong number and not beside the right one; and where nobody puts something else into the place.
    All,
}

/// Somebody who edits one aggregate by hand and has the product repair it, beside everything else; again until there is nothing
/// more to repair.
pub(super) async fn meddler(parts: Parts, hands: Hands, mut random: Random) {
    if edit(&parts, hands, &mut random) {
        parts.weather.count(|tally| tally.edits += 1);
        parts.clock.sleep(Duration::from_secs(*random.pick(&[0, 0, 5, 100]))).await;
        repairer(parts).await;
    }
}

/// False where there is no aggregate.
fn edit(parts: &Parts, hands: Hands, random: &mut Random) -> bool {
    let table = parts.store.tables().table(TableRef::Source);
    let is_aggregate = |item: &Item| item.text(MARKER).is_some_and(|marker| marker.starts_with("aggregate/"));
    let aggregates: Vec<(&TableKey, &Item)> = table.items().filter(|(_, item)| is_aggregate(item)).collect();
    if aggregates.is_empty() {
        return false;
    }
    let (key, item) = *random.pick(&aggregates);
    let is_count = |name: &str| name == "Total" || name.starts_with("Count_");
    let numbers = item.0.iter().filter_map(|(name, value)| Some((name, value.as_number()?)));
    let measures: Vec<_> = numbers.filter(|(name, _)| hands == Hands::All || is_count(name)).collect();
    let edited = match random.below(8) {
        0 => Some(item.clone().with(MARKER, Value::text("aggregate/nobody"))),
        1 | 2 if hands == Hands::All => None,
        _ if measures.is_empty() => return false,
        _ => {
            let mut edited = item.clone();
            for _ in 0..1 + random.below(3) {
                let (name, number) = *random.pick(&measures);
                let change = Decimal::from(random.below(9) as i64 - 4);
                let Ok(number) = number.checked_add(&change) else { continue };
                edited.insert(name.as_str(), Value::N(number));
            }
            Some(edited)
        }
    };
    parts.store.tables().edit(key, edited);
    true
}

/// The product's repair, again until it says that nothing is left which others got in the way of.
pub(super) async fn repairer(parts: Parts) {
    let (applier, options) = (parts.applier(), VerifyOptions::default());
    loop {
        let repaired = repair(&applier.engine, &options, |_, _| {}).await;
        parts.weather.count(|tally| tally.repairs += u64::from(repaired.is_ok()));
        if repaired.is_ok_and(|report| report.given_up == 0 && report.verdict.unsettled == 0) {
            return;
        }
        parts.clock.sleep(Duration::from_secs(1)).await;
    }
}

/// An actor that is polled only when something woke it.
pub(super) struct Actor {
    pub name: String,
    pub role: Role,
    pub still_until: Option<DateTime<Utc>>,
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Actor {
    pub fn new(name: String, role: Role, future: impl Future<Output = ()> + 'static) -> Actor {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        Actor { name, role, still_until: None, future: Box::pin(future), woken }
    }

    pub fn is_ready(&self, now: DateTime<Utc>) -> bool {
        self.woken.0.load(Ordering::Relaxed) && self.still_until.is_none_or(|until| until <= now)
    }

    /// One turn: at most one request of it takes effect in the tables. True when it is at its end.
    pub fn turn(&mut self) -> bool {
        self.woken.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(self.woken.clone());
        matches!(self.future.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(()))
    }

    pub fn pause(&mut self, now: DateTime<Utc>, seconds: i64) {
        self.still_until = Some(now + TimeDelta::seconds(seconds));
    }
}
