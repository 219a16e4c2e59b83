//! The worker and the sweep on the embedded database: the same code path as production, with real time.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::{Connection, DynamoStore, DynamoStream};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::engine::batch::{BatchReport, Engine};
use tablekeeper::engine::ports::{Notification, Sink, SinkError};
use tablekeeper::engine::shards::ShardSettings;
use tablekeeper::engine::sweep::{SweepSettings, sweep};
use tablekeeper::engine::worker::{NoRepair, Observer, Progress, Worker, WorkerReport, WorkerSettings};
use tablekeeper::model::key::TableKey;
use tablekeeper::model::load::load;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{Item, Value};

struct World {
    model: Arc<Model>,
    connection: Connection,
    store: DynamoStore,
    stream: DynamoStream,
    engine: Engine<DynamoStore, SystemClock>,
    tally: Tally,
}

/// Keeps the batches' reports.
#[derive(Default)]
struct Tally(Mutex<Vec<BatchReport>>);

impl Observer<BatchReport> for Tally {
    fn progress(&self, progress: Progress<'_, BatchReport>) {
        if let Progress::Batch { report, .. } = progress {
            self.0.lock().unwrap().push(report.clone());
        }
    }
}

impl World {
    async fn open(database: &Embedded) -> World {
        let model = Arc::new(load(include_str!("../../models/quality.toml"), "quality").unwrap().model);
        let connection = Connection::local(database.endpoint()).await.unwrap();
        connection.create_table(&model.table).await.unwrap();
        connection.ensure_state_table(&model.table.state_table).await.unwrap();
        let store = DynamoStore::new(&connection, &model.table);
        let stream = DynamoStream::of_table(&connection, &model.table.name).await.unwrap();
        let engine = Engine::new(model.clone(), store.clone(), SystemClock::new());
        World { model, connection, store, stream, engine, tally: Tally::default() }
    }

    async fn run(&self, until_idle: bool, stop: impl Future<Output = ()> + Send) -> WorkerReport {
        let settings = WorkerSettings {
            until_idle,
            shards: ShardSettings::fast(),
            ..WorkerSettings::new(self.model.hash.as_str())
        };
        let worker = Worker {
            sink: &self.engine,
            store: &self.store,
            stream: &self.stream,
            clock: &self.engine.clock,
            observer: &self.tally,
            repair: &NoRepair,
            settings: &settings,
        };
        worker.run(stop).await.unwrap()
    }

    async fn put(&self, key: TableKey, attributes: &[(&str, &str)]) {
        let item = attributes.iter().fold(key.to_item(&self.model.table.key_names()), |item, (name, value)| {
            item.with(*name, Value::text(*value))
        });
        self.connection.put_item(&self.model.table.name, &item).await.unwrap();
    }

    async fn work_order(&self, id: &str, user: &str, status: &str) {
        let (order, user) = (format!("WO#{id}"), format!("USER#{user}"));
        let attributes = [
            ("Type", "WorkOrder"),
            ("Status", status),
            ("ProjectID", "P001"),
            ("ScheduledDate", "2026-03-10"),
            ("GSI2PK", "PROJECT#P001"),
            ("GSI2SK", &order),
            ("GSI3PK", &user),
            ("GSI3SK", &order),
        ];
        self.put(TableKey::text(&order, &user), &attributes).await;
    }

    async fn technician(&self, name: &str, status: &str, expires: &str) {
        let (user, sort) = (format!("USER#{name}"), format!("TECHNICIANS#{name}"));
        let attributes = [
            ("Type", "Technician"),
            ("Name", name),
            ("Role", "Technician"),
            ("Status", status),
            ("CertificateExp", expires),
            ("GSI1PK", "USER#manager001"),
            ("GSI1SK", &sort),
        ];
        self.put(TableKey::text(&user, &user), &attributes).await;
    }

    async fn statistics(&self) -> Option<Item> {
        let key = TableKey::text("PROJECT#P001", "STATS#WO_STATUS").to_item(&self.model.table.key_names());
        self.connection.get_item(&self.model.table.name, &key).await.unwrap()
    }
}

fn count(item: &Item, name: &str) -> String {
    item.number(name).map_or_else(|| "absent".to_owned(), |number| number.to_plain())
}

#[derive(Default)]
struct Inbox(Mutex<Vec<Notification>>);

impl Sink for Inbox {
    async fn send(&self, notification: &Notification) -> Result<(), SinkError> {
        self.0.lock().unwrap().push(notification.clone());
        Ok(())
    }
}

#[tokio::test]
async fn a_worker_keeps_the_counts_and_a_sweep_tells_of_the_dates() {
    let database = Embedded::start(None).unwrap();
    let world = World::open(&database).await;
    world.work_order("WO001", "tech001", "Pending").await;
    world.work_order("WO004", "tech003", "InProgress").await;
    world.technician("tech001", "Active", "2026-12-31").await;
    world.technician("tech002", "Suspended", "2025-11-15").await;
    world.technician("tech003", "Active", "2025-11-15").await;
    let report = world.run(true, pending()).await;
    assert!(report.records >= 5, "{report:?}");
    let statistics = world.statistics().await.unwrap();
    let counts = ["Total", "Count_Pending", "Count_InProgress", "Count_Complete", "Count_Cancelled"];
    assert_eq!(counts.map(|name| count(&statistics, name)), ["2", "1", "1", "0", "0"]);

    // The next run reads only what is new, its own writes among it, and changes nothing.
    let before = statistics;
    world.run(true, pending()).await;
    assert_eq!(world.statistics().await.unwrap(), before);
    assert_eq!(world.run(true, pending()).await.records, 0);

    let (inbox, settings) = (Inbox::default(), SweepSettings::default());
    let as_of = "2026-11-30T09:00:00Z".parse().unwrap();
    for told in [2, 0] {
        let swept = sweep(&world.model, &world.store, &world.engine.clock, as_of, &settings, &inbox).await.unwrap();
        assert_eq!((swept.sent.len(), swept.faults.len()), (told, 0), "{swept:?}");
    }
    let messages: Vec<(String, String)> =
        inbox.0.lock().unwrap().iter().map(|n| (n.subject.clone(), n.state.clone())).collect();
    let expected = [("tech003", "overdue"), ("tech001", "upcoming")];
    assert_eq!(messages, expected.map(|(subject, state)| (subject.to_owned(), state.to_owned())));
    database.shutdown().await;
}

#[tokio::test]
async fn a_running_worker_follows_and_stops_when_told() {
    let database = Embedded::start(None).unwrap();
    let world = World::open(&database).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let writes = async {
        for n in 0..40 {
            world.work_order(&format!("WO{n:03}"), "tech001", "Pending").await;
        }
        for n in 0..40 {
            world.work_order(&format!("WO{n:03}"), "tech001", "Complete").await;
        }
        let mut waited = 0;
        while world.statistics().await.is_none_or(|item| count(&item, "Count_Complete") != "40") {
            waited += 1;
            assert!(waited < 400, "the counts do not follow");
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        stop.send(()).unwrap();
    };
    let run = world.run(false, async { stopped.await.unwrap_or_default() });
    let (report, ()) =
        tokio::time::timeout(Duration::from_secs(60), futures_util::future::join(run, writes)).await.unwrap();
    assert!(report.records >= 80, "{report:?}");
    assert_eq!(count(&world.statistics().await.unwrap(), "Count_Pending"), "0");
    // What was applied before the stop is not read again: only records of derived items are left.
    world.tally.0.lock().unwrap().clear();
    world.run(true, pending()).await;
    let reports = world.tally.0.lock().unwrap().clone();
    assert!(reports.iter().all(|report| report.ours == report.records), "{reports:?}");
    database.shutdown().await;
}
