//! Reconcile and repair as their user meets them: processes that are killed, beside an application that writes.
//!
//! `TABLEKEEPER_RECONCILE_ITEMS=200000 cargo test --release --test it reconcile -- --nocapture` is the full size.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join;
use serde_json::json;
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::{Connection, DynamoStore};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::engine::ports::{Clock as _, SortRange};
use tablekeeper::engine::scan::Pages;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::load::load;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{Item, Value};
use tablekeeper::plan::state;
use tablekeeper::plan::write::TableRef;

use crate::kept::{Kept, item, items};
use crate::program::Program;
use crate::random::Random;
use crate::restart::switch_stream;

/// Items of the table in an ordinary run.
const ITEMS: usize = 1_000;
const PROJECTS: usize = 40;
const USERS: usize = 25;
/// Longest that any of the programs may take at the full size.
const PATIENCE: Duration = Duration::from_secs(1_800);

fn count_of_items() -> usize {
    std::env::var("TABLEKEEPER_RECONCILE_ITEMS").map_or(ITEMS, |text| text.parse().expect("a number of items"))
}

fn order_key(number: usize) -> (String, String) {
    (format!("WO#WO{number:06}"), format!("USER#tech{:03}", number % USERS))
}

fn work_order(model: &Model, number: usize, project: usize, status: &str) -> Item {
    let (order, user) = order_key(number);
    let project = format!("P{project:03}");
    let attributes = [
        ("Type", "WorkOrder"),
        ("Status", status),
        ("ProjectID", &project),
        ("ScheduledDate", "2026-03-10"),
        ("GSI2PK", &format!("PROJECT#{project}")),
        ("GSI2SK", &order),
        ("GSI3PK", &user),
        ("GSI3SK", &order),
    ];
    let item = TableKey::text(&order, &user).to_item(&model.table.key_names());
    attributes.iter().fold(item, |item, (name, value)| item.with(*name, Value::text(*value)))
}

struct World {
    database: Embedded,
    model: Model,
    connection: Connection,
    store: DynamoStore,
    clock: SystemClock,
    written: AtomicUsize,
    /// Numbers of the orders that the application has written to.
    touched: Mutex<BTreeSet<usize>>,
}

impl World {
    /// A filled table whose stream begins after that: at each write the embedded database looks through all records of a stream.
    async fn filled(count: usize) -> World {
        let database = Embedded::start(None).unwrap();
        let model = load(include_str!("../../models/quality.toml"), "quality").unwrap().model;
        let connection = Connection::local(database.endpoint()).await.unwrap();
        connection.create_table(&model.table).await.unwrap();
        switch_stream(&connection, &model.table.name, false).await;
        connection.ensure_state_table(&model.table.state_table).await.unwrap();
        let store = DynamoStore::new(&connection, &model.table);
        let clock = SystemClock::new();
        let world = World {
            database,
            model,
            connection,
            store,
            clock,
            written: AtomicUsize::new(0),
            touched: Mutex::default(),
        };
        for start in (0..count).step_by(1_000) {
            let numbers = start..(start + 1_000).min(count);
            let items: Vec<Item> =
                numbers.map(|n| work_order(&world.model, n, n % PROJECTS, ["Pending", "Complete"][n % 2])).collect();
            world.connection.put_items(&world.model.table.name, &items).await.unwrap();
        }
        switch_stream(&world.connection, &world.model.table.name, true).await;
        world
    }

    fn command<'a>(&'a self, command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let fixed = [command, "--model", "quality", "--format", "json", "--endpoint", self.database.endpoint()];
        [&fixed, more].concat()
    }

    /// An application that changes, deletes and adds items until it is told to stop.
    async fn write(&self, count: usize, stop: &AtomicBool) {
        let (table, mut random) = (&self.model.table.name, Random::new(7));
        while !stop.load(Ordering::SeqCst) {
            let number = random.below(count + count / 10);
            self.touched.lock().unwrap().insert(number);
            if random.one_in(5) {
                let (order, user) = order_key(number);
                let key = TableKey::text(order, user).to_item(&self.model.table.key_names());
                self.connection.delete_item(table, &key).await.unwrap();
            } else {
                let status = random.pick(&["Pending", "InProgress", "Complete", "Cancelled"]);
                let item = work_order(&self.model, number, random.below(PROJECTS), status);
                self.connection.put_item(table, &item).await.unwrap();
            }
            self.written.fetch_add(1, Ordering::SeqCst);
            // The embedded database looks through all records of a stream at each write: many would leave no time for the rest.
            tokio::time::sleep(if count > 10 * ITEMS { 50 } else { 5 } * Duration::from_millis(1)).await;
        }
    }

    /// How many items and ledger rows the run under way has passed for good.
    async fn passed(&self) -> usize {
        let partition = Value::text(state::progress_partition("command-line"));
        let mut pages = Pages::of_partition(TableRef::State, partition, SortRange::All);
        let mut passed = 0;
        while let Some(rows) = pages.next(&self.store, &self.clock).await.unwrap() {
            let seen = rows.iter().filter_map(|row| row.number("Seen"));
            passed += seen.map(|seen| seen.to_plain().parse::<usize>().unwrap()).sum::<usize>();
        }
        passed
    }

    /// Starts a run and kills it once so much is passed.
    async fn interrupted(&self, arguments: &[&str], passed: usize) {
        let program = Program::start(arguments);
        while self.passed().await < passed {
            assert!(program.line("error:").is_none(), "{:?}", program.line("error:"));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let ended = program.kill().await;
        assert_eq!(ended.code, None, "killed, not ended: {} {:?}", ended.out, ended.log);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_killed_twice_beside_a_writer_ends_exact() {
    let count = count_of_items();
    let world = World::filled(count).await;
    let begun = world.clock.now();
    // So slow that there is a middle to be killed in, also where all else on the machine is slow.
    let pace = (count / 3).to_string();
    let slow = world.command("reconcile", &["--max-read-units", &pace]);
    let stop = AtomicBool::new(false);
    let runs = async {
        world.interrupted(&slow, count / 5).await;
        world.interrupted(&slow, count + count / 5).await;
        let last = Program::start(&world.command("reconcile", &[])).end_within(PATIENCE).await.expect(0);
        stop.store(true, Ordering::SeqCst);
        last
    };
    let (last, ()) = join(runs, world.write(count, &stop)).await;
    let took = (world.clock.now() - begun).as_seconds_f64();

    assert!(last.says("goes on where the run that began at"), "{:?}", last.log);
    let report = last.json();
    assert!(report["resumed"]["items"].as_u64().unwrap() as usize >= count / 5, "{report}");
    assert_eq!(world.passed().await, 0, "the rows are gone at the end");
    // Only what the writer did behind its back is still open. (The worker below reconciles, too, for it starts for the first time.)
    let verdict = Program::start(&world.command("verify", &["--passes", "1"])).end_within(PATIENCE).await.json();
    let items = verdict["differences"].as_array().unwrap();
    let items: Vec<&str> = items
        .iter()
        .filter(|one| one["kind"] == "ledger" || one["kind"] == "ghost")
        .map(|one| one["key"].as_str().unwrap())
        .collect();
    let touched: BTreeSet<String> = world
        .touched
        .lock()
        .unwrap()
        .iter()
        .map(|number| {
            let (order, user) = order_key(*number);
            format!("{order} / {user}")
        })
        .collect();
    let missed: Vec<&&str> = items.iter().filter(|key| !touched.contains(**key)).collect();
    assert!(missed.is_empty(), "{} of {} items: {missed:?}", missed.len(), items.len());
    println!("{} items written to, {} of them still to come by the stream", touched.len(), items.len());

    Program::start(&world.command("worker", &["--until-idle"])).end_within(PATIENCE).await.expect(0);
    let verdict = Program::start(&world.command("verify", &[])).end_within(PATIENCE).await.expect(0).json();
    assert_eq!((&verdict["ok"], &verdict["passes"]), (&json!(true), &json!(1)), "{verdict}");
    let written = world.written.load(Ordering::SeqCst);
    assert!(written > 20, "{written} writes are no load");
    println!("{count} items reconciled in {took:.1} s with two kills, beside {written} writes");
    world.database.shutdown().await;
}

#[tokio::test]
async fn what_was_changed_by_hand_is_repaired() {
    let kept = Kept::of("quality", &items("quality.items.jsonl")).await;
    let table = kept.model.table.name.clone();
    let stats = item(&json!({"PK": "PROJECT#P002", "SK": "STATS#WO_STATUS"}));
    let stored = kept.connection.get_item(&table, &stats).await.unwrap().unwrap();
    let wrong = stored.clone().with("Total", Value::text("many")).with("_keeper", Value::text("aggregate/x"));
    kept.connection.put_item(&table, &wrong).await.unwrap();
    let found = kept.run("verify", &[]).await;
    assert!(found.code == 1 && found.out.contains("tablekeeper verify --repair"), "{} {}", found.out, found.err);
    let ran = kept.run("verify", &["--repair", "--format", "json"]).await;
    assert_eq!((ran.code, &ran.json()["repaired"]["aggregates"]), (0, &json!(1)), "{} {}", ran.out, ran.err);
    let mended = kept.connection.get_item(&table, &stats).await.unwrap().unwrap();
    assert_eq!(mended.clone().with("UpdatedAt", stored.0["UpdatedAt"].clone()), stored);

    kept.connection.delete_item(&table, &stats).await.unwrap();
    let ran = kept.run("verify", &["--repair"]).await;
    assert!(ran.code == 0 && ran.out.contains("repaired: 1 aggregate, 0 rows"), "{} {}", ran.out, ran.err);
    let whole = kept.connection.get_item(&table, &stats).await.unwrap().unwrap();
    assert_eq!(whole.clone().with("UpdatedAt", stored.0["UpdatedAt"].clone()), stored);
    kept.close().await;
}
