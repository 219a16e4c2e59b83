//! Several whole workers on one stream and one state table: they come, hang, are killed and come back, and the tables are exact.
#![cfg(test)]

mod cases;
mod laws;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use chrono::{DateTime, TimeDelta, Utc};

use super::whole::World;
use super::*;
use crate::adapters::sim::{SimStore, audit, audit_settled};
use crate::engine::leases::{LeaseSettings, Rows, load};
use crate::engine::testing::{ARN, FakeStream, TestClock};

const LEASE_TIME: Duration = Duration::from_secs(10);

/// A worker's own clock: it passes as the others' does and shows another time.
#[derive(Debug, Clone)]
struct OwnClock {
    common: TestClock,
    skew: TimeDelta,
}

impl Clock for OwnClock {
    fn now(&self) -> DateTime<Utc> {
        self.common.now() + self.skew
    }

    async fn sleep(&self, duration: Duration) {
        self.common.sleep(duration).await;
    }

    fn jitter(&self) -> f64 {
        self.common.jitter()
    }
}

/// Repairs as the settings of the test say, and counts.
#[derive(Debug, Clone)]
struct Repairer {
    clock: TestClock,
    takes: Duration,
    began: Arc<Mutex<Vec<String>>>,
}

impl Repair for Repairer {
    async fn repair(&self, gap: &Gap) -> Result<Repaired, String> {
        self.began.lock().unwrap().push(gap.to_string());
        self.clock.sleep(self.takes).await;
        Ok(Repaired::Done)
    }
}

/// What all workers have told, in its order.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<(String, String)>>>);

struct Voice(String, Log);

impl Observer<BatchReport> for Voice {
    fn progress(&self, progress: Progress<'_, BatchReport>) {
        let told = match progress {
            Progress::Notice(notice) => notice.to_string(),
            progress => format!("{progress:?}"),
        };
        self.1.0.lock().unwrap().push((self.0.clone(), told));
    }
}

impl Log {
    fn of(&self, part: &str) -> Vec<(String, String)> {
        self.0.lock().unwrap().iter().filter(|(_, line)| line.contains(part)).cloned().collect()
    }

    fn position(&self, part: &str) -> usize {
        self.0.lock().unwrap().iter().position(|(_, line)| line.contains(part)).unwrap_or_else(|| panic!("no {part}"))
    }

    fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}

type Ended = Result<WorkerReport, WorkerError<ApplyError>>;
type Running = Pin<Box<dyn Future<Output = Ended>>>;

/// A worker on the stage.
#[derive(Default)]
struct Slot {
    running: Option<Running>,
    paused: bool,
    stop: Arc<AtomicBool>,
    ended: Option<Ended>,
}

/// Workers that share one world.
struct Stage {
    world: RefCell<World>,
    clock: TestClock,
    store: SimStore,
    stream: FakeStream,
    slots: RefCell<BTreeMap<String, Slot>>,
    repair: RefCell<Repairer>,
    log: Log,
}

impl Stage {
    fn new(lanes: usize) -> Stage {
        let world = World::with_lanes(lanes);
        let repair = Repairer { clock: world.clock.clone(), takes: Duration::ZERO, began: Arc::default() };
        Stage {
            clock: world.clock.clone(),
            store: world.store.clone(),
            stream: world.stream.clone(),
            world: RefCell::new(world),
            slots: RefCell::default(),
            repair: RefCell::new(repair),
            log: Log::default(),
        }
    }

    fn settings(&self, name: &str) -> WorkerSettings {
        let lease = LeaseSettings { worker: name.to_owned(), lease_time: LEASE_TIME };
        WorkerSettings {
            until_idle: false,
            leases: Some(lease),
            on_gap: OnGap::Reconcile,
            ..self.world.borrow().settings.clone()
        }
    }

    fn start(&self, name: &str) {
        self.start_as(name, self.settings(name), TimeDelta::zero());
    }

    /// Starts a worker, known on the stage under `slot`.
    fn start_as(&self, slot: &str, settings: WorkerSettings, skew: TimeDelta) {
        let clock = OwnClock { common: self.clock.clone(), skew };
        let mut engine = Engine::new(self.world.borrow().model.clone(), self.store.clone(), clock.clone());
        engine.settings = self.world.borrow().engine.settings.clone();
        let (store, stream, repair) = (self.store.clone(), self.stream.clone(), self.repair.borrow().clone());
        let observer = Voice(slot.to_owned(), self.log.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let running: Running = Box::pin(async move {
            let worker = Worker {
                sink: &engine,
                store: &store,
                stream: &stream,
                clock: &clock,
                observer: &observer,
                repair: &repair,
                settings: &settings,
            };
            let mut over = false;
            let stopped = poll_fn(move |_| {
                assert!(!over, "a future that is done is not asked again");
                over = told.load(Ordering::SeqCst);
                if over { Poll::Ready(()) } else { Poll::Pending }
            });
            worker.run(stopped).await
        });
        let slot_of = Slot { running: Some(running), stop, ..Slot::default() };
        self.slots.borrow_mut().insert(slot.to_owned(), slot_of);
    }

    fn kill(&self, name: &str) {
        self.slots.borrow_mut().remove(name);
    }

    fn pause(&self, name: &str, paused: bool) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(name) {
            slot.paused = paused;
        }
    }

    fn stop(&self, name: &str) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(name) {
            slot.stop.store(true, Ordering::SeqCst);
        }
    }

    fn ended(&self, name: &str) -> Option<Ended> {
        self.slots.borrow_mut().get_mut(name).and_then(|slot| slot.ended.take())
    }

    async fn wait(&self, seconds: f64) {
        self.clock.sleep(Duration::from_secs_f64(seconds)).await;
    }

    /// Plays the script while the workers that are up do their work.
    fn play<T>(&self, script: impl Future<Output = T>) -> T {
        self.clock.run(async {
            let mut script = pin!(script);
            poll_fn(|cx| {
                if let Poll::Ready(done) = script.as_mut().poll(cx) {
                    return Poll::Ready(done);
                }
                let names: Vec<String> = self.slots.borrow().keys().cloned().collect();
                for name in names {
                    let running = match self.slots.borrow_mut().get_mut(&name) {
                        Some(slot) if !slot.paused => slot.running.take(),
                        _ => None,
                    };
                    let Some(mut running) = running else { continue };
                    let polled = running.as_mut().poll(cx);
                    if let Some(slot) = self.slots.borrow_mut().get_mut(&name) {
                        match polled {
                            Poll::Ready(ended) => slot.ended = Some(ended),
                            Poll::Pending => slot.running = Some(running),
                        }
                    }
                }
                Poll::Pending
            })
            .await
        })
    }

    /// Changes for all lanes, with the `seed`'s values.
    fn change(&self, seed: u8) {
        let mut world = self.world.borrow_mut();
        for user in 0..world.users() {
            let hours = seed.wrapping_mul(7).wrapping_add(user as u8) % 12;
            world.play((seed % 5, user, (hours != 3).then_some(hours)));
        }
    }

    fn rows(&self, consumer: &str) -> Rows {
        crate::adapters::sim::block_on(load(&self.store, &self.clock, &ARN.into(), consumer)).unwrap()
    }

    /// Unfinished shards by owner.
    fn shares(&self) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for row in self.rows(DEFAULT_CONSUMER).shards.iter().filter(|row| !row.checkpoint.finished) {
            *shares.entry(row.owner.clone().unwrap_or_else(|| "nobody".to_owned())).or_default() += 1;
        }
        shares
    }

    fn assert_even(&self, workers: usize, what: &str) {
        let shares = self.shares();
        let (least, most) = (shares.values().min().unwrap(), shares.values().max().unwrap());
        assert!(shares.len() == workers && most - least <= 1 && !shares.contains_key("nobody"), "{what}: {shares:?}");
    }

    /// Everything that was written is applied and right.
    fn assert_exact(&self) {
        assert_eq!(audit(&self.store), Vec::<String>::new());
        let mut world = self.world.borrow_mut();
        world.settle();
        assert_eq!(audit_settled(&self.store, &world.model), Vec::<String>::new());
    }
}
