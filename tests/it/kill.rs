//! A worker that is killed at any moment loses nothing and counts nothing twice.
//!
//! The database is in this process, the workers are processes of their own. While an application writes, they are killed; after each
//! kill the invariants of every commit are checked on what is there, then a worker catches up and the table must be exact.

pub mod load;
mod several;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all};
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::{Connection, DynamoStore};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::adapters::sim::{SimStore, audit, audit_settled};
use tablekeeper::engine::scan::Pages;
use tablekeeper::engine::verify::{Difference, DifferenceKind, verify};
use tablekeeper::model::key::{KeyNames, TableKey};
use tablekeeper::model::load::load;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{Item, Value};
use tablekeeper::plan::ledger::LedgerRow;
use tablekeeper::plan::state;
use tablekeeper::plan::write::{Op, TableRef};

use crate::program::{Ended, Program, run};
use crate::random::Random;
use load::{Acts, item};

const SEED: u64 = 2026;
const KILLS: usize = 50;
const KILLS_OF_TWO: usize = 10;
const KILLS_IN_BACKFILL: usize = 6;
const STOPS: usize = 4;
/// Applications that write at once.
const WRITERS: usize = 2;

/// Tables of the model `quality` in a database of their own.
pub struct World {
    pub database: Embedded,
    pub model: Arc<Model>,
    pub connection: Connection,
    pub store: DynamoStore,
    clock: SystemClock,
    transactions: AtomicUsize,
}

impl World {
    /// Empty tables.
    pub async fn open() -> World {
        let database = Embedded::start(None).unwrap();
        let model = Arc::new(load(include_str!("../../models/quality.toml"), "quality").unwrap().model);
        let connection = Connection::local(database.endpoint()).await.unwrap();
        connection.create_table(&model.table).await.unwrap();
        connection.ensure_state_table(&model.table.state_table).await.unwrap();
        let store = DynamoStore::new(&connection, &model.table);
        World { database, model, connection, store, clock: SystemClock::new(), transactions: AtomicUsize::new(0) }
    }

    /// Empty tables whose stream has been read before: from here on no reconcile makes good what the stream's way does wrong.
    async fn begun() -> World {
        let world = World::open().await;
        let first = run(&world.worker(&["--until-idle"])).await.expect(0);
        assert!(first.says("the gap is closed"), "{:?}", first.log);
        world
    }

    fn worker<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let fixed = ["--format", "json", "worker", "--model", "quality", "--poll-ms", "10", "--log-json"];
        [&fixed, ["--endpoint", self.database.endpoint()].as_slice(), more].concat()
    }

    pub fn names(&self) -> KeyNames {
        self.model.table.key_names()
    }

    /// Applications write while `meanwhile` goes on.
    async fn under_load<T>(&self, seed: u64, meanwhile: impl Future<Output = T>) -> T {
        let (names, stop) = (self.names(), AtomicBool::new(false));
        let writers = (0..WRITERS).map(|writer| {
            let mut random = Random::new(seed * WRITERS as u64 + writer as u64);
            let (names, stop) = (&names, &stop);
            async move { load::run(&self.store, names, &mut random, stop).await }
        });
        let meanwhile = async {
            let result = meanwhile.await;
            stop.store(true, Ordering::SeqCst);
            result
        };
        let (written, result) = join(join_all(writers), meanwhile).await;
        self.transactions.fetch_add(written.into_iter().sum(), Ordering::SeqCst);
        result
    }

    async fn scan(&self, table: TableRef) -> Vec<Item> {
        let (mut pages, mut items) = (Pages::new(table, (0, 1)), Vec::new());
        while let Some(page) = pages.next(&self.store, &self.clock).await.unwrap() {
            items.extend(page);
        }
        items
    }

    /// Both tables at one moment: what a killed worker had asked for may still be on its way.
    async fn snapshot(&self) -> SimStore {
        for _ in 0..100 {
            let state = self.scan(TableRef::State).await;
            let source = self.scan(TableRef::Source).await;
            if self.scan(TableRef::State).await == state {
                let snapshot = SimStore::new(&self.model.table);
                source.into_iter().for_each(|item| snapshot.put(item).unwrap());
                for row in state {
                    let key = TableKey::of(&row, &state::key_names()).unwrap();
                    snapshot.set_state(&key, Some(row));
                }
                return snapshot;
            }
        }
        panic!("the tables do not come to rest");
    }

    /// I1 and I2, which hold at every commit, by arithmetic that shares nothing with the product's.
    async fn assert_invariants(&self, when: &str) {
        let faults = audit(&self.snapshot().await);
        assert!(faults.is_empty(), "{when}:\n{}", faults.join("\n"));
    }

    pub async fn differences(&self) -> Vec<Difference> {
        verify(&self.model, &self.store, &self.clock).await.unwrap().differences
    }

    /// Lets a worker catch up and proves the table exact.
    async fn assert_exact_at_tip(&self, when: &str) -> Ended {
        let caught_up = run(&self.worker(&["--until-idle"])).await.expect(0);
        assert_eq!(self.differences().await, [], "{when}");
        caught_up
    }

    /// I4 at the end of all, by the same other arithmetic; then the database ends.
    pub async fn close(self) {
        assert_eq!(audit_settled(&self.snapshot().await, &self.model), [""; 0]);
        self.database.shutdown().await;
    }

    async fn get(&self, table: &str, key: &Item) -> Option<Item> {
        self.connection.get_item(table, key).await.unwrap()
    }

    async fn put(&self, table: &str, item: &Item) {
        self.connection.put_item(table, item).await.unwrap();
    }
}

fn assert_no_repair(caught_up: &Ended, when: &str) {
    assert!(!caught_up.says("gap") && !caught_up.says("reconciling"), "{when}: {:?}", caught_up.log);
}

/// Lets the worker apply up to so many batches, on a busy machine as on an idle one, and a little more.
async fn some_batches(worker: &Program, random: &mut Random, batches: usize) {
    worker.says("batch applied", random.below(batches + 1), Duration::from_secs(1)).await;
    pause(random, 50).await;
}

async fn pause(random: &mut Random, milliseconds: usize) {
    tokio::time::sleep(Duration::from_millis(random.below(milliseconds) as u64)).await;
}

/// What all rounds together came to: without these a test of kills might kill nothing but idle workers.
#[derive(Debug, Default)]
struct Tally {
    /// Records that the killed workers had applied.
    applied: u64,
    /// Records that were left to those after them.
    left: u64,
    /// Records that those met again: killed between a commit and its checkpoint.
    met_again: u64,
    starts: Vec<Duration>,
}

impl Tally {
    fn add(&mut self, killed: &[Ended], caught_up: &Ended) {
        self.applied += killed.iter().map(|killed| killed.sum("applied")).sum::<u64>();
        self.left += caught_up.sum("applied");
        self.met_again += caught_up.sum("already_applied");
    }

    fn tell(mut self, what: &str, transactions: &AtomicUsize) {
        self.starts.sort();
        let median = self.starts.get(self.starts.len() / 2);
        println!(
            "{what}: {} transactions written; items applied {}, left to the next {}, met again {}; median start {median:?}",
            transactions.load(Ordering::SeqCst),
            self.applied,
            self.left,
            self.met_again
        );
        assert!(self.applied > 0 && self.left > 0 && self.met_again > 0, "no kill hit a worker at work");
    }
}

#[tokio::test]
async fn a_worker_killed_at_any_moment_loses_nothing() {
    let world = World::begun().await;
    let (mut random, mut tally) = (Random::new(SEED), Tally::default());
    for round in 0..KILLS as u64 {
        let when = format!("seed {SEED}, kill {round}");
        let killed = world.under_load(round, async {
            let worker = Program::start(&world.worker(&["--worker-id", "one"]));
            // One in five is killed while it starts.
            match round % 5 {
                4 => pause(&mut random, 150).await,
                _ => {
                    tally.starts.push(worker.at_work().await);
                    some_batches(&worker, &mut random, 3).await;
                }
            }
            let killed = worker.kill().await;
            assert_eq!(killed.code, None, "{when}: it ended by itself: {:?}", killed.log);
            killed
        });
        let killed = killed.await;
        world.assert_invariants(&when).await;
        let caught_up = world.assert_exact_at_tip(&when).await;
        assert_no_repair(&caught_up, &when);
        tally.add(&[killed], &caught_up);
    }
    tally.tell(&format!("{KILLS} kills"), &world.transactions);
    world.close().await;
}

#[tokio::test]
async fn two_workers_on_one_table_are_killed() {
    let world = World::begun().await;
    let (mut random, mut tally) = (Random::new(SEED + 1), Tally::default());
    for round in 0..KILLS_OF_TWO as u64 {
        let when = format!("seed {SEED} + 1, kill {round} of two workers");
        let killed = world.under_load(1000 + round, async {
            let (one, two) = (
                Program::start(&world.worker(&["--lease-seconds", "0"])),
                Program::start(&world.worker(&["--lease-seconds", "0"])),
            );
            tally.starts.extend([one.at_work().await, two.at_work().await]);
            some_batches(&one, &mut random, 3).await;
            let one = one.kill().await;
            // The other goes on alone, and sometimes another one comes in its place before it is killed as well.
            let third = random.one_in(2).then(|| Program::start(&world.worker(&["--lease-seconds", "0"])));
            some_batches(&two, &mut random, 4).await;
            let two = two.kill().await;
            let mut killed = vec![one, two];
            if let Some(third) = third {
                killed.push(third.kill().await);
            }
            killed
        });
        let killed = killed.await;
        world.assert_invariants(&when).await;
        let caught_up = world.assert_exact_at_tip(&when).await;
        assert_no_repair(&caught_up, &when);
        tally.add(&killed, &caught_up);
    }
    tally.tell(&format!("{KILLS_OF_TWO} rounds of two workers"), &world.transactions);
    world.close().await;
}

#[tokio::test]
async fn a_worker_killed_in_its_first_backfill_begins_it_again() {
    let mut random = Random::new(SEED + 2);
    for round in 0..KILLS_IN_BACKFILL as u64 {
        let (world, when) = (World::open().await, format!("seed {SEED} + 2, kill {round} in a backfill"));
        world.under_load(2000 + round, tokio::time::sleep(Duration::from_millis(150))).await;
        world
            .under_load(3000 + round, async {
                let worker = Program::start(&world.worker(&["--worker-id", "one"]));
                worker.at_work().await;
                pause(&mut random, 60).await;
                worker.kill().await;
            })
            .await;
        world.assert_invariants(&when).await;
        world.assert_exact_at_tip(&when).await;
        // The next one finds no gap: what was open has been closed, not forgotten.
        assert_no_repair(&world.assert_exact_at_tip(&when).await, &when);
        world.close().await;
    }
}

#[tokio::test]
async fn a_worker_that_is_told_to_stop_ends_in_order() {
    let world = World::begun().await;
    let mut random = Random::new(SEED + 3);
    for round in 0..STOPS as u64 {
        let when = format!("seed {SEED} + 3, stop {round}");
        let stopped = world.under_load(4000 + round, async {
            let worker = Program::start(&world.worker(&[]));
            worker.at_work().await;
            worker.says("batch applied", 1, Duration::from_secs(30)).await;
            some_batches(&worker, &mut random, 3).await;
            worker.terminate();
            worker.end().await
        });
        let stopped = stopped.await.expect(0);
        assert!(stopped.says("stopping") && stopped.sum("applied") > 0, "{when}: {:?}", stopped.log);
        assert_eq!(stopped.json()["gap_open"], false);
        world.assert_invariants(&when).await;
        // Everything that it applied has its checkpoint: nothing is met again.
        let caught_up = world.assert_exact_at_tip(&when).await;
        assert_eq!(caught_up.sum("already_applied"), 0, "{when}: {:?}", caught_up.log);
        assert_no_repair(&caught_up, &when);
    }
    world.close().await;
}

/// A key as differences show it, what differs, and both values.
fn told(differences: &[Difference]) -> Vec<(DifferenceKind, &str, &str, &str, &str)> {
    let all = differences.iter();
    all.map(|d| (d.kind, d.key.as_str(), d.what.as_str(), d.expected.as_str(), d.stored.as_str())).collect()
}

/// The counter-proof: each kind of damage is found, and nothing else is.
#[tokio::test]
async fn verify_finds_exactly_what_was_damaged() {
    let world = World::begun().await;
    let (names, mut random) = (world.names(), Random::new(5));
    let table = &world.model.table;
    let (source, ledger) = (table.name.as_str(), table.state_table.as_str());
    let mut order = |id: &str| load::work_order(&names, id, "tech001", &mut random);
    let orders =
        ["WO1", "WO2"].map(|id| order(id).with("Status", Value::text("Pending")).with("ProjectID", Value::text("P7")));
    let orders = orders.map(|order| order.with("GSI2PK", Value::text("PROJECT#P7")));
    let attributes = [("Type", "Device"), ("Status", "InUse"), ("Model", "M"), ("SerialNum", "S")];
    let device = item(&names, ("DEVICE#D1", "USER#tech001"), &attributes);
    let acts =
        orders.iter().chain([&device]).map(|item| (TableKey::of(item, &names).unwrap(), Op::Put(item.clone().into())));
    load::write(&world.store, acts.collect::<Acts>()).await;
    world.assert_exact_at_tip("undamaged").await;

    // An aggregate.
    let statistics = TableKey::text("PROJECT#P7", "STATS#WO_STATUS").to_item(&names);
    let good = world.get(source, &statistics).await.unwrap();
    world.put(source, &good.clone().with("Total", Value::N(3.into()))).await;
    let key = "PROJECT#P7 / STATS#WO_STATUS";
    let expected = [(DifferenceKind::Aggregate, key, "wo_status_by_project Total", "2", "3")];
    assert_eq!(told(&world.differences().await), expected);
    let endpoint = world.database.endpoint();
    let verified = run(&["--format", "json", "verify", "--model", "quality", "--endpoint", endpoint]).await;
    let verified = verified.expect(1).json();
    assert_eq!((&verified["ok"], verified["differences"].as_array().unwrap().len()), (&false.into(), 1));
    assert_eq!(audit(&world.snapshot().await).len(), 1);
    world.put(source, &good).await;

    // A ledger row that is lost: its item is not applied, and nothing accounts for what it counts.
    let applied = TableKey::of(&orders[0], &names).unwrap();
    let row_key = LedgerRow::key(&applied).to_item(&state::key_names());
    let row = world.get(ledger, &row_key).await.unwrap();
    world.connection.delete_item(ledger, &row_key).await.unwrap();
    let differences = world.differences().await;
    let found = told(&differences);
    let expected = (DifferenceKind::Ledger, "WO#WO1 / USER#tech001", "WorkOrder", "applied", "never applied");
    assert_eq!(found.last(), Some(&expected));
    assert_eq!(found.iter().filter(|found| found.0 == DifferenceKind::Aggregate).count(), found.len() - 1, "{found:?}");
    assert_eq!(found.len(), 5, "two aggregates, two measures each: {found:?}");
    world.put(ledger, &row).await;

    // A derived row too many, one that is altered, one that is lost.
    let stray = item(&names, ("DEVICES", "ID#D9#tech009"), &[("_keeper", "listing/devices")]);
    world.put(source, &stray).await;
    let expected = [(DifferenceKind::UnexpectedRow, "DEVICES / ID#D9#tech009", "listing/devices", "none", "a row")];
    assert_eq!(told(&world.differences().await), expected);
    world.connection.delete_item(source, &TableKey::text("DEVICES", "ID#D9#tech009").to_item(&names)).await.unwrap();
    let entry = TableKey::text("DEVICES", "ID#D1#tech001").to_item(&names);
    let good = world.get(source, &entry).await.unwrap();
    world.put(source, &good.clone().with("Copy", Value::text("x"))).await;
    let kinds = async || world.differences().await.iter().map(|d| (d.kind, d.key.clone())).collect::<Vec<_>>();
    let key = "DEVICES / ID#D1#tech001".to_owned();
    assert_eq!(kinds().await, [(DifferenceKind::ChangedRow, key.clone())]);
    world.connection.delete_item(source, &entry).await.unwrap();
    assert_eq!(kinds().await, [(DifferenceKind::MissingRow, key)]);
    world.put(source, &good).await;
    assert_eq!(world.differences().await, []);

    // What no worker has applied yet: an item that is new, one that is gone.
    world.put(source, &orders[0].clone().with("SK", Value::text("USER#tech002"))).await;
    assert!(kinds().await.contains(&(DifferenceKind::Ledger, "WO#WO1 / USER#tech002".to_owned())));
    world.connection.delete_item(source, &applied.to_item(&names)).await.unwrap();
    assert!(kinds().await.contains(&(DifferenceKind::Ghost, "WO#WO1 / USER#tech001".to_owned())));
    world.assert_exact_at_tip("applied").await;
    world.close().await;
}
