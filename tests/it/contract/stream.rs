//! What the engine relies on of a stream.

use std::collections::BTreeMap;

use tablekeeper::adapters::dynamodb::{Connection, DynamoStream};
use tablekeeper::engine::ports::{ShardIterator, ShardStart, Store, StreamError, StreamSource};
use tablekeeper::model::change::{RawRecord, SequenceNumber};
use tablekeeper::model::decimal::Decimal;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::spec::Table;
use tablekeeper::model::value::{Item, Value};
use tablekeeper::plan::state;
use tablekeeper::plan::write::{Condition, Op, TableRef, Write};

use super::{Database, on_every_database};

on_every_database!(
    every_change_is_a_record,
    every_type_comes_through,
    the_state_table_does_not_show,
    the_changes_of_an_item_come_in_their_order,
    an_iterator_can_be_read_twice,
    reading_goes_on_after_any_record,
    long_streams_come_in_pages,
    strange_iterators_and_shards_are_refused,
);

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

async fn every_change_is_a_record(database: &impl Database) {
    let table = database.table();
    let [first, second] = ["open", "closed"].map(|state| item(table, "CHANGE", state));
    database.put(std::slice::from_ref(&first)).await;
    database.put(std::slice::from_ref(&second)).await;
    // Changes nothing: no record of DynamoDB's, and one with two equal images of the embedded database's.
    database.put(std::slice::from_ref(&second)).await;
    let key = TableKey::text("CHANGE", "a");
    let count = TableKey::text("COUNT", "a");
    let update = Op::Update { add: BTreeMap::from([("Total".into(), Decimal::from(0))]), set: Item::new() };
    let writes = [
        Write { table: TableRef::Source, key: key.clone(), op: Op::Delete, condition: Condition::Always },
        Write { table: TableRef::Source, key: count.clone(), op: update, condition: Condition::Always },
    ];
    database.store().transact(&writes).await.unwrap();
    // Adds 0 to what is there, and deletes what is not there: likewise.
    database.store().transact(&writes).await.unwrap();

    let stream = database.stream().await;
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

async fn every_type_comes_through(database: &impl Database) {
    let key = TableKey::text("TYPES", "é\u{1F600}");
    let mut whole = key.to_item(&database.names());
    whole.0.extend(super::store::every_type().0);
    database.put(std::slice::from_ref(&whole)).await;
    let write = Write { table: TableRef::Source, key, op: Op::Delete, condition: Condition::Always };
    database.store().transact(&[write]).await.unwrap();
    let records = read_all(&database.stream().await, ShardStart::TrimHorizon).await;
    let images: Vec<_> = records.into_iter().map(|record| (record.old_image, record.new_image)).collect();
    assert_eq!(images, [(None, Some(Ok(whole.clone()))), (Some(Ok(whole)), None)]);
}

async fn the_state_table_does_not_show(database: &impl Database) {
    let names = state::key_names();
    let puts: Vec<Write> = (0..3)
        .map(|n| {
            let key = TableKey::text("STATE", n.to_string());
            let op = Op::Put(key.to_item(&names).into());
            Write { table: TableRef::State, key, op, condition: Condition::Absent }
        })
        .collect();
    database.store().transact(&puts).await.unwrap();
    database.put(&[item(database.table(), "SOURCE", "x")]).await;
    let records = read_all(&database.stream().await, ShardStart::TrimHorizon).await;
    let keys: Vec<_> = records.into_iter().map(|record| record.keys).collect();
    assert_eq!(keys, [Some(Ok(TableKey::text("SOURCE", "a").to_item(&database.names())))]);
}

async fn the_changes_of_an_item_come_in_their_order(database: &impl Database) {
    const ITEMS: usize = 7;
    let names = database.names();
    for n in 0..70 {
        let key = TableKey::text(format!("ORDER#{}", n % ITEMS), "a");
        // By the application and by transactions in turn.
        if n % 2 == 0 {
            database.put(&[item(database.table(), &format!("ORDER#{}", n % ITEMS), &n.to_string())]).await;
        } else {
            let op = Op::Put(key.to_item(&names).with("State", Value::text(n.to_string())).into());
            let write = Write { table: TableRef::Source, key, op, condition: Condition::Always };
            database.store().transact(&[write]).await.unwrap();
        }
    }
    let records = read_all(&database.stream().await, ShardStart::TrimHorizon).await;
    let mut states: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for record in &records {
        let image = record.new_image.clone().unwrap().unwrap();
        let key = image.text("Partition").unwrap().to_owned();
        states.entry(key).or_default().push(image.text("State").unwrap().parse().unwrap());
    }
    assert_eq!(states.len(), ITEMS);
    for (n, states) in states.into_values().enumerate() {
        assert_eq!(states, (n..70).step_by(ITEMS).collect::<Vec<_>>());
    }
}

async fn an_iterator_can_be_read_twice(database: &impl Database) {
    let items: Vec<Item> = (0..20).map(|n| item(database.table(), &format!("TWICE#{n}"), "x")).collect();
    database.put(&items).await;
    let stream = database.stream().await;
    let shard = stream.describe().await.unwrap().shards.remove(0).id;
    let start = stream.iterator(&shard, &ShardStart::TrimHorizon).await.unwrap();
    // An answer that was lost on the way is asked for again.
    let [first, second] = [stream.records(&start).await.unwrap(), stream.records(&start).await.unwrap()];
    assert_eq!(first.records, second.records);
    assert!(!first.records.is_empty());
}

async fn reading_goes_on_after_any_record(database: &impl Database) {
    for n in 0..12 {
        database.put(&[item(database.table(), &format!("ITEM#{}", n % 5), &n.to_string())]).await;
    }
    let stream = database.stream().await;
    let all = read_all(&stream, ShardStart::TrimHorizon).await;
    assert_eq!(all.len(), 12);
    for (at, record) in all.iter().enumerate() {
        // The number goes through its stored form, as it does in a checkpoint.
        let stored: SequenceNumber = sequence(record).padded().parse().unwrap();
        assert_eq!(read_all(&stream, ShardStart::After(stored.clone())).await, all[at + 1..]);
        assert_eq!(read_all(&stream, ShardStart::At(stored)).await, all[at..]);
    }
    // An iterator at the end stays good: what comes later comes through it.
    let shard = &stream.describe().await.unwrap().shards[0];
    let last = sequence(all.last().unwrap());
    let end = stream.iterator(&shard.id, &ShardStart::After(last)).await.unwrap();
    let empty = stream.records(&end).await.unwrap();
    assert!(empty.records.is_empty());
    database.put(&[item(database.table(), "LATER", "x")]).await;
    let later = stream.records(&empty.next.unwrap()).await.unwrap();
    assert_eq!(later.records.len(), 1);
}

async fn long_streams_come_in_pages(database: &impl Database) {
    let stream = database.stream().await;
    let before = read_all(&stream, ShardStart::TrimHorizon).await.len();
    let items: Vec<Item> = (0..1100).map(|n| item(database.table(), &format!("LONG#{n}"), "x")).collect();
    database.put(&items).await;
    let shard = &stream.describe().await.unwrap().shards[0];
    let start = stream.iterator(&shard.id, &ShardStart::TrimHorizon).await.unwrap();
    assert!(stream.records(&start).await.unwrap().records.len() <= 1000);
    assert_eq!(read_all(&stream, ShardStart::TrimHorizon).await.len(), before + 1100);
}

async fn strange_iterators_and_shards_are_refused(database: &impl Database) {
    let stream = database.stream().await;
    let nonsense = stream.records(&ShardIterator("nonsense".to_owned())).await;
    assert_eq!(nonsense, Err(StreamError::ExpiredIterator));
    let listed = stream.describe().await.unwrap().shards.remove(0).id;
    let unknown = format!("{}{}", &listed[..listed.len() - 1], if listed.ends_with('9') { '8' } else { '9' });
    // The database in process takes any shard's name and finds no record there; the others refuse it.
    if let Ok(iterator) = stream.iterator(&unknown, &ShardStart::TrimHorizon).await {
        assert_eq!(stream.records(&iterator).await.map(|page| page.records), Ok(Vec::new()));
    }
}

pub async fn what_is_not_there_is_told(connection: &Connection, table: &Table) {
    let stream = DynamoStream::of_table(connection, &table.name).await.unwrap();
    assert!(stream.describe().await.unwrap().arn.contains(&table.name));
    let without = DynamoStream::of_table(connection, &table.state_table).await;
    assert_eq!(without.unwrap_err(), StreamError::NoStream);
    let no_table = DynamoStream::of_table(connection, "no-such-table").await.unwrap_err();
    assert!(no_table.to_string().contains("`no-such-table`"), "{no_table}");
    let gone = stream.arn().replace(&table.name, "no-such-table");
    assert_eq!(DynamoStream::new(connection, gone).describe().await, Err(StreamError::NoStream));
}
