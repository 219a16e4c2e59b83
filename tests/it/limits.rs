//! What DynamoDB does not take, through the real client and the embedded database: items and entries of 400 KB, sums of 38
//! digits, transactions of 100 actions and of 4 MB, records that cannot be read, places that are occupied. One item may be
//! left out or given up, with a finding; all others of its batch are applied, once; and what is stored can be proved.

use std::sync::{Arc, Mutex};

use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::{Connection, DynamoStore, DynamoStream};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::derive::derive;
use tablekeeper::engine::batch::{BatchReport, Engine, OldImages};
use tablekeeper::engine::ports::{Page, ShardStart, SortRange, Store, StoreError, TransactError};
use tablekeeper::engine::reconcile::reconcile;
use tablekeeper::engine::verify::verify;
use tablekeeper::model::change::{RawRecord, SequenceNumber};
use tablekeeper::model::derived::RowKind;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::load::load;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{ITEM_SIZE_MAX, Item, Value};
use tablekeeper::plan::write::{ACTIONS_MAX, TRANSACTION_SIZE_MAX, TableRef, Write};

use crate::contract::stream::read_all;

const MODEL: &str = r#"
version = 1

[table]
name = "limits"
partition_key = "PK"
sort_key = "SK"

[entity.Job]
key = { PK = "JOB#{job}", SK = "JOB" }
attribute.Project = {}
attribute.Hours = "N"
attribute.Note = {}
attribute.Listed = "BOOL"

[aggregate.by_project]
of = "Job"
group_by = ["Project"]
sum = ["Hours"]
key = { PK = "PROJECT#{Project}", SK = "STATS" }

[listing.jobs]
of = "Job"
when = { Listed = true }
key = { PK = "JOBS", SK = "{job}" }
copy = ["Note"]
"#;

/// The store, noting actions and bytes of every transaction that is committed.
#[derive(Clone)]
struct Watched {
    store: DynamoStore,
    committed: Arc<Mutex<Vec<(usize, usize)>>>,
}

impl Store for Watched {
    async fn get(&self, table: TableRef, keys: &[TableKey]) -> Result<Vec<Option<Item>>, StoreError> {
        self.store.get(table, keys).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<(), TransactError> {
        self.store.transact(writes).await?;
        let size = writes.iter().map(Write::size).sum();
        self.committed.lock().unwrap().push((writes.len(), size));
        Ok(())
    }

    async fn query(
        &self,
        table: TableRef,
        partition: &Value,
        range: SortRange,
        start: Option<TableKey>,
    ) -> Result<Page, StoreError> {
        self.store.query(table, partition, range, start).await
    }

    async fn scan(&self, table: TableRef, segment: (u32, u32), start: Option<TableKey>) -> Result<Page, StoreError> {
        self.store.scan(table, segment, start).await
    }
}

struct World {
    model: Arc<Model>,
    connection: Connection,
    stream: DynamoStream,
    engine: Engine<Watched, SystemClock>,
    /// The last record that was read.
    position: Option<SequenceNumber>,
    database: Embedded,
}

impl World {
    async fn open() -> World {
        let model = Arc::new(load(MODEL, "limits").unwrap().model);
        let database = Embedded::start(None).unwrap();
        let connection = Connection::local(database.endpoint()).await.unwrap();
        connection.create_table(&model.table).await.unwrap();
        connection.ensure_state_table(&model.table.state_table).await.unwrap();
        let store = Watched { store: DynamoStore::new(&connection, &model.table), committed: Arc::default() };
        let stream = DynamoStream::of_table(&connection, &model.table.name).await.unwrap();
        let engine = Engine::new(model.clone(), store, SystemClock::new());
        World { model, connection, stream, engine, position: None, database }
    }

    async fn put(&self, items: &[Item]) {
        self.connection.put_items(&self.model.table.name, items).await.unwrap();
    }

    /// The records since the last call.
    async fn records(&mut self) -> Vec<RawRecord> {
        let start = self.position.clone().map_or(ShardStart::TrimHorizon, ShardStart::After);
        let records = read_all(&self.stream, start).await;
        if let Some(last) = records.last() {
            self.position = Some(last.sequence.as_deref().unwrap().parse().unwrap());
        }
        records
    }

    async fn apply(&self, records: &[RawRecord]) -> BatchReport {
        self.engine.apply(records, OldImages::Trusted).await.unwrap()
    }

    /// Puts the items and applies their records as one batch; then again, which changes nothing.
    async fn batch(&mut self, items: &[Item]) -> BatchReport {
        self.put(items).await;
        let records = self.records().await;
        let report = self.apply(&records).await;
        let again = self.apply(&records).await;
        assert_eq!((again.applied, again.transactions), (0, 0), "{again:?}");
        report
    }

    /// Actions and bytes of the transactions since the last call.
    fn committed(&self) -> Vec<(usize, usize)> {
        std::mem::take(&mut *self.engine.store.committed.lock().unwrap())
    }

    async fn source(&self, partition: &str, sort: &str) -> Option<Item> {
        let key = TableKey::text(partition, sort).to_item(&self.model.table.key_names());
        self.connection.get_item(&self.model.table.name, &key).await.unwrap()
    }

    /// The measure of a project; `-` where there is none.
    async fn measure(&self, project: &str, name: &str) -> String {
        let item = self.source(&format!("PROJECT#{project}"), "STATS").await;
        item.and_then(|item| Some(item.number(name)?.to_plain())).unwrap_or_else(|| "-".to_owned())
    }

    async fn partition(&self, table: TableRef, partition: &str) -> Vec<Item> {
        let page = self.engine.store.query(table, &Value::text(partition), SortRange::All, None).await.unwrap();
        assert!(page.next.is_none());
        page.items
    }

    async fn finding_codes(&self) -> Vec<String> {
        let findings = self.partition(TableRef::Source, "KEEPER#FINDINGS").await;
        findings.iter().map(|finding| finding.text("Code").unwrap().to_owned()).collect()
    }

    async fn assert_exact(&self, quarantined: u64) {
        let report = verify(&self.model, &self.engine.store, &self.engine.clock).await.unwrap();
        assert!(report.differences.is_empty(), "{:?}", report.differences);
        assert_eq!(report.quarantined, quarantined);
    }

    async fn close(self) {
        self.database.shutdown().await;
    }
}

fn job_key(id: &str) -> TableKey {
    TableKey::text(format!("JOB#{id}"), "JOB")
}

fn job(id: &str) -> Item {
    Item::new().with("PK", Value::text(format!("JOB#{id}"))).with("SK", Value::text("JOB"))
}

fn in_project(id: &str, project: &str, hours: &str) -> Item {
    job(id).with("Project", Value::text(project)).with("Hours", Value::N(hours.parse().unwrap()))
}

/// An item with an entry in the listing that copies a note of this many bytes.
fn listed(id: &str, note: usize) -> Item {
    job(id).with("Listed", Value::Bool(true)).with("Note", Value::text("x".repeat(note)))
}

#[tokio::test]
async fn items_and_entries_of_400_kilobytes() {
    let mut world = World::open().await;
    let full = in_project("full", "p", "1");
    let room = ITEM_SIZE_MAX - full.size() - "Note".len();
    let full = full.with("Note", Value::text("x".repeat(room)));
    let over = full.clone().with("Note", Value::text("x".repeat(room + 1)));
    let refused = world.connection.put_item(&world.model.table.name, &over).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");

    // The entry is larger than its item: the item passes, the entry passes only up to 400 KB.
    let with_note = |id: &str, note: usize| {
        listed(id, note).with("Project", Value::text("p")).with("Hours", Value::N("1".parse().unwrap()))
    };
    let derived = derive(&world.model, &job_key("edge"), &with_note("edge", 1));
    let entry = derived.rows.iter().find(|row| row.kind == RowKind::Listing).unwrap();
    let largest = 1 + ITEM_SIZE_MAX - entry.item.size();
    let items = [
        in_project("a", "p", "1"),
        full,
        with_note("edge", largest),
        with_note("past", largest + 1),
        in_project("z", "p", "1"),
    ];
    let report = world.batch(&items).await;
    assert_eq!((report.applied, report.quarantined), (5, 0), "{report:?}");
    assert_eq!(report.findings, [("A309".to_owned(), 1)].into());
    assert_eq!(world.source("JOBS", "edge").await.unwrap().size(), ITEM_SIZE_MAX);
    assert_eq!(world.source("JOBS", "past").await, None);
    assert_eq!((world.measure("p", "Total").await, world.measure("p", "Sum_Hours").await), ("5".into(), "5".into()));
    assert_eq!(world.finding_codes().await, ["A309"]);
    world.assert_exact(0).await;

    // With a shorter note the entry is there and the finding gone.
    let report = world.batch(&[with_note("past", 5)]).await;
    assert_eq!(report.applied, 1);
    assert!(world.source("JOBS", "past").await.is_some() && world.finding_codes().await.is_empty());
    world.assert_exact(0).await;
    world.close().await;
}

#[tokio::test]
async fn a_sum_of_38_digits_is_exact_and_past_it_one_item_is_left_out() {
    let mut world = World::open().await;
    const NINES: &str = "99999999999999999999999999999999999999";
    let two = [in_project("a", "p", "99999999999999999999999999999999999990"), in_project("b", "p", "9")];
    assert_eq!(world.batch(&two).await.applied, 2);
    assert_eq!((world.measure("p", "Sum_Hours").await, world.measure("p", "Total").await), (NINES.into(), "2".into()));
    world.assert_exact(0).await;

    // The sum alone: the item is counted, and so are all others of the batch, with their hours.
    let further = [in_project("c", "p", "0"), in_project("d", "p", "0.5"), in_project("e", "q", "7")];
    let report = world.batch(&further).await;
    assert_eq!((report.applied, report.quarantined, report.findings), (3, 0, [("A308".to_owned(), 1)].into()));
    assert_eq!((world.measure("p", "Sum_Hours").await, world.measure("p", "Total").await), (NINES.into(), "4".into()));
    assert_eq!((world.measure("q", "Sum_Hours").await, world.measure("q", "Total").await), ("7".into(), "1".into()));
    assert_eq!(world.finding_codes().await, ["A308"]);
    world.assert_exact(0).await;

    // When there is room, reconciling counts it in.
    let names = world.model.table.key_names();
    world.connection.delete_item(&world.model.table.name, &job_key("a").to_item(&names)).await.unwrap();
    let records = world.records().await;
    assert_eq!(world.apply(&records).await.applied, 1);
    reconcile(&world.engine, |_| {}).await.unwrap();
    assert_eq!((world.measure("p", "Sum_Hours").await, world.measure("p", "Total").await), ("9.5".into(), "3".into()));
    assert!(world.finding_codes().await.is_empty());
    world.assert_exact(0).await;
    world.close().await;
}

#[tokio::test]
async fn a_batch_of_100_actions_is_one_transaction_and_more_are_several() {
    let mut world = World::open().await;
    let jobs = |first: usize, count: usize| -> Vec<Item> {
        (first..first + count).map(|n| in_project(&format!("{n:04}"), "p", "0.1")).collect()
    };
    world.batch(&jobs(0, 99)).await;
    assert_eq!(actions(&world.committed()), [100], "99 ledger rows and one aggregate");
    world.batch(&jobs(99, 100)).await;
    assert_eq!(actions(&world.committed()), [100, 2]);
    assert_eq!(
        (world.measure("p", "Total").await, world.measure("p", "Sum_Hours").await),
        ("199".into(), "19.9".into())
    );

    // 250 items of 3 projects, each with an entry: 500 actions and more.
    let mixed: Vec<Item> =
        (0..250).map(|n| listed(&format!("m{n:03}"), 10).with("Project", Value::text(format!("m{}", n % 3)))).collect();
    let report = world.batch(&mixed).await;
    let committed = actions(&world.committed());
    assert_eq!((report.applied, report.transactions), (250, committed.len()));
    assert!(committed.len() <= 7 && committed.iter().all(|actions| *actions <= ACTIONS_MAX), "{committed:?}");
    assert!(committed.iter().sum::<usize>() <= 500 + 2 * committed.len(), "{committed:?}");
    for (project, total) in [("m0", "84"), ("m1", "83"), ("m2", "83")] {
        assert_eq!(world.measure(project, "Total").await, total);
    }
    assert_eq!(world.partition(TableRef::Source, "JOBS").await.len(), 250);
    world.assert_exact(0).await;
    world.close().await;
}

fn actions(committed: &[(usize, usize)]) -> Vec<usize> {
    committed.iter().map(|(actions, _)| *actions).collect()
}

#[tokio::test]
async fn a_batch_of_4_megabytes_is_one_transaction_and_more_are_several() {
    const ITEMS: usize = 11;
    const SMALL: usize = 10;
    let mut world = World::open().await;
    // Items of no group: a ledger row and an entry each. `room` more bytes are shared out among the notes.
    let jobs = |series: &str, room: usize| -> Vec<Item> {
        let share = |n: usize| room / ITEMS + usize::from(n < room % ITEMS);
        (0..ITEMS).map(|n| listed(&format!("{series}{n:02}"), SMALL + share(n))).collect()
    };
    world.batch(&jobs("a", 0)).await;
    let [(22, size)] = world.committed()[..] else { panic!("not one transaction") };
    let room = TRANSACTION_SIZE_MAX - size;
    world.batch(&jobs("b", room)).await;
    assert_eq!(world.committed(), [(22, TRANSACTION_SIZE_MAX)]);
    let report = world.batch(&jobs("c", room + 1)).await;
    let committed = world.committed();
    assert_eq!((report.applied, report.quarantined, actions(&committed)), (ITEMS, 0, vec![20, 2]));
    world.assert_exact(0).await;
    world.close().await;
}

#[tokio::test]
async fn unreadable_records_are_quarantined_and_the_others_applied() {
    let mut world = World::open().await;
    world.batch(&[in_project("b", "p", "2")]).await;
    world.put(&["a", "b", "c"].map(|id| in_project(id, "p", "3"))).await;
    let mut records = world.records().await;
    records.retain(|record| matches!(&record.keys, Some(Ok(keys)) if keys.text("SK") == Some("JOB")));
    assert_eq!(records.len(), 3);
    // A number of 39 digits, as the stream's adapter reports it; and a record of some other table.
    records[1].new_image =
        Some(Err(format!("attribute \"Hours\": number \"{}\": more than 38 digits", "1".repeat(39))));
    let stranger = Item::new().with("id", Value::text("x"));
    let malformed = RawRecord {
        event_name: Some("INSERT".to_owned()),
        event_id: Some("e1".to_owned()),
        sequence: records[1].sequence.clone(),
        keys: Some(Ok(stranger.clone())),
        new_image: Some(Ok(stranger)),
        ..RawRecord::default()
    };
    records.insert(1, malformed);
    let report = world.apply(&records).await;
    assert_eq!((report.applied, report.quarantined, report.malformed), (2, 1, 1), "{report:?}");
    assert_eq!(report.findings, [("P901".to_owned(), 1), ("P902".to_owned(), 1)].into());
    // What "b" had is taken back: nobody knows what it says now.
    assert_eq!((world.measure("p", "Total").await, world.measure("p", "Sum_Hours").await), ("2".into(), "6".into()));
    let quarantine = world.partition(TableRef::State, "QUARANTINE").await;
    let mut codes: Vec<&str> = quarantine.iter().filter_map(|row| row.text("Code")).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["P901", "P902"]);
    assert_eq!(world.finding_codes().await, ["P902"]);
    world.assert_exact(1).await;
    // Delivered again: the same rows, nothing twice.
    let again = world.apply(&records).await;
    assert_eq!((again.applied, again.already_applied, again.malformed), (0, 3, 1), "{again:?}");
    assert_eq!(world.measure("p", "Total").await, "2");
    assert_eq!(world.partition(TableRef::State, "QUARANTINE").await.len(), 2);

    reconcile(&world.engine, |_| {}).await.unwrap();
    assert_eq!((world.measure("p", "Total").await, world.measure("p", "Sum_Hours").await), ("3".into(), "9".into()));
    assert!(world.finding_codes().await.is_empty());
    world.assert_exact(0).await;
    world.close().await;
}

#[tokio::test]
async fn an_item_whose_entry_has_no_place_is_given_up_alone() {
    let mut world = World::open().await;
    let occupant = Item::new().with("PK", Value::text("JOBS")).with("SK", Value::text("j07"));
    let occupant = occupant.with("Mine", Value::text("the application's"));
    let jobs = (0..40).map(|n| listed(&format!("j{n:02}"), 10).with("Project", Value::text("p")));
    let items: Vec<Item> = std::iter::once(occupant.clone()).chain(jobs).collect();
    let report = world.batch(&items).await;
    assert_eq!((report.applied, report.quarantined), (40, 1), "{report:?}");
    assert_eq!(report.findings, [("K102".to_owned(), 1), ("P903".to_owned(), 1)].into());
    assert_eq!(world.source("JOBS", "j07").await, Some(occupant.clone()));
    assert_eq!(world.measure("p", "Total").await, "39");
    world.assert_exact(1).await;

    // The place is freed, and the item is derived like any other.
    let names = world.model.table.key_names();
    let key = TableKey::text("JOBS", "j07").to_item(&names);
    world.connection.delete_item(&world.model.table.name, &key).await.unwrap();
    let records = world.records().await;
    world.apply(&records).await;
    reconcile(&world.engine, |_| {}).await.unwrap();
    assert_eq!(world.measure("p", "Total").await, "40");
    assert_eq!(world.partition(TableRef::Source, "JOBS").await.len(), 40);
    world.assert_exact(0).await;
    world.close().await;
}
