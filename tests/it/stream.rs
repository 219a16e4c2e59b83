//! What the engine relies on of a stream, asked of every database that there is, the simulated one included. Lineage, splits and
//! leases are proved on that one alone: the databases here have one shard.

use std::collections::BTreeMap;

use tablekeeper::adapters::dynamodb::{Connection, DynamoStore, DynamoStream};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::adapters::sim::stream::Manners;
use tablekeeper::adapters::sim::{SimClock, SimStore, SimStream, block_on};
use tablekeeper::engine::ports::{ShardIterator, ShardStart, Store, StreamError, StreamSource};
use tablekeeper::model::change::{RawRecord, SequenceNumber};
use tablekeeper::model::decimal::Decimal;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::spec::Table;
use tablekeeper::model::value::{Item, Value};
use tablekeeper::plan::write::{Condition, Op, TableRef, Write};

use crate::store::{dynamodb_local, open, table};

/// A database with an empty table that has a stream.
trait Bench {
    type Store: Store;
    type Stream: StreamSource;
    fn table(&self) -> &Table;
    fn store(&self) -> &Self::Store;
    async fn stream(&self) -> Self::Stream;
    async fn put(&self, items: &[Item]);
}

struct Served {
    connection: Connection,
    store: DynamoStore,
    table: Table,
}

impl Bench for Served {
    type Store = DynamoStore;
    type Stream = DynamoStream;

    fn table(&self) -> &Table {
        &self.table
    }

    fn store(&self) -> &DynamoStore {
        &self.store
    }

    async fn stream(&self) -> DynamoStream {
        DynamoStream::of_table(&self.connection, &self.table.name).await.unwrap()
    }

    async fn put(&self, items: &[Item]) {
        match items {
            [item] => self.connection.put_item(&self.table.name, item).await.unwrap(),
            items => self.connection.put_items(&self.table.name, items).await.unwrap(),
        }
    }
}

struct Simulated {
    store: SimStore,
    stream: SimStream,
    table: Table,
}

impl Bench for Simulated {
    type Store = SimStore;
    type Stream = SimStream;

    fn table(&self) -> &Table {
        &self.table
    }

    fn store(&self) -> &SimStore {
        &self.store
    }

    async fn stream(&self) -> SimStream {
        self.stream.clone()
    }

    async fn put(&self, items: &[Item]) {
        items.iter().for_each(|item| self.store.put(item.clone()).unwrap());
    }
}

#[test]
fn the_simulated_stream_keeps_the_contract() {
    let table = table("stream");
    let store = SimStore::new(&table);
    let stream = SimStream::new(&store, &SimClock::new(chrono::DateTime::UNIX_EPOCH, 1), 1, Manners::good(), 1);
    block_on(contract(&Simulated { store, stream, table }));
}

#[tokio::test]
async fn the_embedded_database_keeps_the_contract() {
    let database = Embedded::start(None).unwrap();
    served(database.endpoint()).await;
    database.shutdown().await;
}

#[tokio::test]
async fn dynamodb_local_keeps_the_contract() {
    let Some(endpoint) = dynamodb_local("the stream's contract") else { return };
    served(&endpoint).await;
}

async fn served(endpoint: &str) {
    let table = table("stream");
    let (connection, store) = open(endpoint, &table).await;
    let bench = Served { connection, store, table };
    contract(&bench).await;
    what_is_not_there_is_told(&bench.connection, &bench.table).await;
}

async fn contract(bench: &impl Bench) {
    every_change_is_a_record(bench).await;
    reading_goes_on_after_any_record(bench).await;
    long_streams_come_in_pages(bench).await;
    strange_iterators_and_shards_are_refused(bench).await;
}

fn item(table: &Table, id: &str, state: &str) -> Item {
    TableKey::text(id, "a").to_item(&table.key_names()).with("State", Value::text(state))
}

/// All records of all shards from `start` on, and no more: the first empty page ends it.
pub async fn read_all(stream: &impl StreamSource, start: ShardStart) -> Vec<RawRecord> {
    let mut records = Vec::new();
    for shard in stream.describe().await.unwrap().shards {
        let mut next = Some(stream.iterator(&shard.id, &start).await.unwrap());
        while let Some(iterator) = next {
            let page = stream.records(&iterator).await.unwrap();
            next = page.next.filter(|_| !page.records.is_empty());
            records.extend(page.records);
        }
    }
    records
}

fn sequence(record: &RawRecord) -> SequenceNumber {
    record.sequence.as_deref().unwrap().parse().unwrap()
}

async fn every_change_is_a_record(bench: &impl Bench) {
    let table = bench.table();
    let [first, second] = ["open", "closed"].map(|state| item(table, "CHANGE", state));
    bench.put(std::slice::from_ref(&first)).await;
    bench.put(std::slice::from_ref(&second)).await;
    // Changes nothing: no record of DynamoDB's, and one with two equal images of the embedded database's.
    bench.put(std::slice::from_ref(&second)).await;
    let key = TableKey::text("CHANGE", "a");
    let count = TableKey::text("COUNT", "a");
    let update = Op::Update { add: BTreeMap::from([("Total".to_owned(), Decimal::from(0))]), set: Item::new() };
    let writes = [
        Write { table: TableRef::Source, key: key.clone(), op: Op::Delete, condition: Condition::Always },
        Write { table: TableRef::Source, key: count.clone(), op: update, condition: Condition::Always },
    ];
    bench.store().transact(&writes).await.unwrap();
    // Adds 0 to what is there, and deletes what is not there: likewise.
    bench.store().transact(&writes).await.unwrap();

    let stream = bench.stream().await;
    let records = read_all(&stream, ShardStart::TrimHorizon).await;
    assert!(records.windows(2).all(|pair| sequence(&pair[0]) < sequence(&pair[1])));
    let names = table.key_names();
    let of = |key: &TableKey| -> Vec<&RawRecord> {
        let of_key = records.iter().filter(|record| record.keys == Some(Ok(key.to_item(&names))));
        of_key.filter(|record| record.old_image != record.new_image).collect()
    };
    let changes = of(&key);
    let kinds: Vec<&str> = changes.iter().map(|record| record.event_name.as_deref().unwrap()).collect();
    assert_eq!(kinds, ["INSERT", "MODIFY", "REMOVE"]);
    let images: Vec<_> = changes.iter().map(|record| (record.old_image.clone(), record.new_image.clone())).collect();
    let (first, second) = (Some(Ok(first)), Some(Ok(second)));
    assert_eq!(images, [(None, first.clone()), (first, second.clone()), (second, None)]);
    assert!(changes.iter().all(|record| record.event_id.is_some() && record.created_at.is_some()));
    assert!(changes.iter().all(|record| record.principal.is_none()));
    let counts = of(&count);
    assert_eq!(counts.len(), 1);
    let image = counts[0].new_image.clone().unwrap().unwrap();
    assert_eq!(image.number("Total"), Some(&Decimal::zero()));
}

async fn reading_goes_on_after_any_record(bench: &impl Bench) {
    let stream = bench.stream().await;
    let all = read_all(&stream, ShardStart::TrimHorizon).await;
    for (at, record) in all.iter().enumerate() {
        // The number goes through its stored form, as it does in a checkpoint.
        let stored: SequenceNumber = sequence(record).padded().parse().unwrap();
        assert_eq!(read_all(&stream, ShardStart::After(stored)).await, all[at + 1..]);
    }
    // An iterator at the end stays good: what comes later comes through it.
    let shard = &stream.describe().await.unwrap().shards[0];
    let last = sequence(all.last().unwrap());
    let end = stream.iterator(&shard.id, &ShardStart::After(last)).await.unwrap();
    let empty = stream.records(&end).await.unwrap();
    assert!(empty.records.is_empty());
    bench.put(&[item(bench.table(), "LATER", "x")]).await;
    let later = stream.records(&empty.next.unwrap()).await.unwrap();
    assert_eq!(later.records.len(), 1);
}

async fn long_streams_come_in_pages(bench: &impl Bench) {
    let stream = bench.stream().await;
    let before = read_all(&stream, ShardStart::TrimHorizon).await.len();
    let items: Vec<Item> = (0..1100).map(|n| item(bench.table(), &format!("LONG#{n}"), "x")).collect();
    bench.put(&items).await;
    let shard = &stream.describe().await.unwrap().shards[0];
    let start = stream.iterator(&shard.id, &ShardStart::TrimHorizon).await.unwrap();
    assert!(stream.records(&start).await.unwrap().records.len() <= 1000);
    assert_eq!(read_all(&stream, ShardStart::TrimHorizon).await.len(), before + 1100);
}

async fn strange_iterators_and_shards_are_refused(bench: &impl Bench) {
    let stream = bench.stream().await;
    let nonsense = stream.records(&ShardIterator("nonsense".to_owned())).await;
    assert_eq!(nonsense, Err(StreamError::ExpiredIterator));
    let listed = stream.describe().await.unwrap().shards.remove(0).id;
    let unknown = format!("{}{}", &listed[..listed.len() - 1], if listed.ends_with('9') { '8' } else { '9' });
    // The database in process takes any shard's name and finds no record there; the others refuse it.
    if let Ok(iterator) = stream.iterator(&unknown, &ShardStart::TrimHorizon).await {
        assert_eq!(stream.records(&iterator).await.map(|page| page.records), Ok(Vec::new()));
    }
}

async fn what_is_not_there_is_told(connection: &Connection, table: &Table) {
    let stream = DynamoStream::of_table(connection, &table.name).await.unwrap();
    assert!(stream.describe().await.unwrap().arn.contains(&table.name));
    let without = DynamoStream::of_table(connection, &table.state_table).await;
    assert_eq!(without.unwrap_err(), StreamError::NoStream);
    let no_table = DynamoStream::of_table(connection, "no-such-table").await.unwrap_err();
    assert!(no_table.to_string().contains("`no-such-table`"), "{no_table}");
    let gone = stream.arn().replace(&table.name, "no-such-table");
    assert_eq!(DynamoStream::new(connection, gone).describe().await, Err(StreamError::NoStream));
}
