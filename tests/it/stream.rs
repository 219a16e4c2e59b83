//! What the engine relies on of a stream, asked of every database that there is. Lineage, splits and leases are proved on the
//! simulated stream: both databases here have one shard.

use std::collections::BTreeMap;

use tablekeeper::adapters::dynamodb::{Connection, DynamoStore, DynamoStream};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::engine::ports::{ShardIterator, ShardStart, Store, StreamError, StreamSource};
use tablekeeper::model::change::{RawRecord, SequenceNumber};
use tablekeeper::model::decimal::Decimal;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::spec::Table;
use tablekeeper::model::value::{Item, Value};
use tablekeeper::plan::write::{Condition, Op, TableRef, Write};

use crate::store::{dynamodb_local, open, table};

#[tokio::test]
async fn the_embedded_database_keeps_the_contract() {
    let database = Embedded::start(None).unwrap();
    contract(database.endpoint()).await;
    database.shutdown().await;
}

#[tokio::test]
async fn dynamodb_local_keeps_the_contract() {
    let Some(endpoint) = dynamodb_local("the stream's contract") else { return };
    contract(&endpoint).await;
}

async fn contract(endpoint: &str) {
    let table = table("stream");
    let (connection, store) = open(endpoint, &table).await;
    every_change_is_a_record(&connection, &store, &table).await;
    reading_goes_on_after_any_record(&connection, &table).await;
    long_streams_come_in_pages(&connection, &table).await;
    what_is_not_there_is_told(&connection, &table).await;
}

fn item(table: &Table, id: &str, state: &str) -> Item {
    TableKey::text(id, "a").to_item(&table.key_names()).with("State", Value::text(state))
}

/// All records of all shards from `start` on, and no more: the first empty page ends it.
pub async fn read_all(stream: &DynamoStream, start: ShardStart) -> Vec<RawRecord> {
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

async fn every_change_is_a_record(connection: &Connection, store: &DynamoStore, table: &Table) {
    let [first, second] = ["open", "closed"].map(|state| item(table, "CHANGE", state));
    connection.put_item(&table.name, &first).await.unwrap();
    connection.put_item(&table.name, &second).await.unwrap();
    // Changes nothing: no record of DynamoDB's, and one with two equal images of the embedded database's.
    connection.put_item(&table.name, &second).await.unwrap();
    let key = TableKey::text("CHANGE", "a");
    let count = TableKey::text("COUNT", "a");
    let update = Op::Update { add: BTreeMap::from([("Total".to_owned(), Decimal::from(0))]), set: Item::new() };
    let writes = [
        Write { table: TableRef::Source, key: key.clone(), op: Op::Delete, condition: Condition::Always },
        Write { table: TableRef::Source, key: count.clone(), op: update, condition: Condition::Always },
    ];
    store.transact(&writes).await.unwrap();
    // Adds 0 to what is there, and deletes what is not there: likewise.
    store.transact(&writes).await.unwrap();

    let stream = DynamoStream::of_table(connection, &table.name).await.unwrap();
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

async fn reading_goes_on_after_any_record(connection: &Connection, table: &Table) {
    let stream = DynamoStream::of_table(connection, &table.name).await.unwrap();
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
    connection.put_item(&table.name, &item(table, "LATER", "x")).await.unwrap();
    let later = stream.records(&empty.next.unwrap()).await.unwrap();
    assert_eq!(later.records.len(), 1);
}

async fn long_streams_come_in_pages(connection: &Connection, table: &Table) {
    let stream = DynamoStream::of_table(connection, &table.name).await.unwrap();
    let before = read_all(&stream, ShardStart::TrimHorizon).await.len();
    let items: Vec<Item> = (0..1100).map(|n| item(table, &format!("LONG#{n}"), "x")).collect();
    connection.put_items(&table.name, &items).await.unwrap();
    let shard = &stream.describe().await.unwrap().shards[0];
    let start = stream.iterator(&shard.id, &ShardStart::TrimHorizon).await.unwrap();
    assert!(stream.records(&start).await.unwrap().records.len() <= 1000);
    assert_eq!(read_all(&stream, ShardStart::TrimHorizon).await.len(), before + 1100);
}

async fn what_is_not_there_is_told(connection: &Connection, table: &Table) {
    let stream = DynamoStream::of_table(connection, &table.name).await.unwrap();
    assert!(stream.describe().await.unwrap().arn.contains(&table.name));
    let nonsense = stream.records(&ShardIterator("nonsense".to_owned())).await;
    assert_eq!(nonsense, Err(StreamError::ExpiredIterator));
    let without = DynamoStream::of_table(connection, &table.state_table).await;
    assert_eq!(without.unwrap_err(), StreamError::NoStream);
    let no_table = DynamoStream::of_table(connection, "no-such-table").await.unwrap_err();
    assert!(no_table.to_string().contains("`no-such-table`"), "{no_table}");
    let gone = stream.arn().replace(&table.name, "no-such-table");
    assert_eq!(DynamoStream::new(connection, gone).describe().await, Err(StreamError::NoStream));
}
