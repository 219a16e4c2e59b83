//! The database in process: what stays when it ends, in order or not, and who may open it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::future::join_all;
use tablekeeper::adapters::dynamodb::{Call, Connection, ConnectionError, Created, DynamoStore, DynamoStream};
use tablekeeper::adapters::embedded::{Embedded, EmbeddedError};
use tablekeeper::engine::ports::{ShardStart, Store, StoreError, TransactError};
use tablekeeper::model::decimal::Decimal;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::spec::{Index, Table};
use tablekeeper::model::value::{Item, Kind, Value};
use tablekeeper::plan::write::{Condition, Op, TableRef, Write};

use crate::contract::stream::read_all;
use crate::contract::{dynamodb_local, key_attribute, open, table};

fn add_one(key: &TableKey) -> Write {
    let add = BTreeMap::from([("Total".into(), Decimal::from(1))]);
    let op = Op::Update { add, set: Item::new() };
    Write { table: TableRef::Source, key: key.clone(), op, condition: Condition::Always }
}

async fn total(store: &DynamoStore, key: &TableKey) -> Decimal {
    let item = store.get(TableRef::Source, std::slice::from_ref(key)).await.unwrap().remove(0);
    item.and_then(|item| item.number("Total").cloned()).unwrap_or_else(Decimal::zero)
}

#[tokio::test]
async fn a_data_directory_keeps_tables_items_and_the_stream() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made/if need be");
    let table = table("kept");
    let key = TableKey::text("COUNT", "a");
    let database = Embedded::start(Some(&path)).unwrap();
    let (connection, store) = open(database.endpoint(), &table).await;
    for _ in 0..3 {
        store.transact(&[add_one(&key)]).await.unwrap();
    }
    let before = DynamoStream::of_table(&connection, &table.name).await.unwrap();
    let records = read_all(&before, ShardStart::TrimHorizon).await;
    let second = records[1].sequence.as_deref().unwrap().parse().unwrap();
    database.shutdown().await;
    let refused = store.transact(&[add_one(&key)]).await;
    assert!(matches!(refused, Err(TransactError::Store(StoreError::Unavailable(_)))), "{refused:?}");

    let database = Embedded::start(Some(&path)).unwrap();
    let connection = Connection::local(database.endpoint()).await.unwrap();
    assert_eq!(connection.create_table(&table).await.unwrap(), Created::Before);
    assert_eq!(connection.ensure_state_table(&table.state_table).await.unwrap(), Created::Before);
    let store = DynamoStore::new(&connection, &table);
    assert_eq!(total(&store, &key).await, Decimal::from(3));
    // The same stream, read on from a position in the first half, and numbers that still grow.
    store.transact(&[add_one(&key)]).await.unwrap();
    let after = DynamoStream::of_table(&connection, &table.name).await.unwrap();
    assert_eq!(after.arn(), before.arn());
    let later = read_all(&after, ShardStart::After(second)).await;
    assert_eq!(later.len(), 2);
    assert_eq!(later[0], records[2]);
    database.shutdown().await;
}

#[tokio::test]
async fn one_process_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let first = Embedded::start(Some(directory.path())).unwrap();
    let second = Embedded::start(Some(directory.path())).unwrap_err();
    assert!(matches!(&second, EmbeddedError::InUse(path) if path == directory.path()), "{second}");
    first.shutdown().await;
    Embedded::start(Some(directory.path())).unwrap().shutdown().await;
    let file = directory.path().join("a file");
    std::fs::write(&file, "x").unwrap();
    assert!(matches!(Embedded::start(Some(&file)), Err(EmbeddedError::Directory { .. })));
}

/// Set for the process that [`a_commit_survives_the_sudden_end_of_the_process`] starts and kills.
const VICTIM_VARIABLE: &str = "TABLEKEEPER_TEST_VICTIM";

/// In that process: commits for ever, and says each commit when it has been answered.
#[tokio::test]
#[ignore = "a part of another test, which runs it in a process of its own"]
async fn the_process_that_is_killed() {
    let Ok(path) = std::env::var(VICTIM_VARIABLE) else { return };
    let database = Embedded::start(Some(Path::new(&path))).unwrap();
    let table = Table { name: "victim".to_owned(), state_table: "victim-keeper".to_owned(), ..table("victim") };
    let (_connection, store) = open(database.endpoint(), &table).await;
    let keys = [TableKey::text("COUNT", "a"), TableKey::text("COUNT", "b")];
    for count in 1_u64.. {
        store.transact(&keys.each_ref().map(add_one)).await.unwrap();
        println!("committed {count}");
    }
}

#[tokio::test]
async fn a_commit_survives_the_sudden_end_of_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "embedded::the_process_that_is_killed", "--ignored", "--nocapture"])
        .env(VICTIM_VARIABLE, directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut said = 0;
    let mut note = |line: String| {
        if let Some(count) = line.split("committed ").nth(1).and_then(|count| count.trim().parse::<i64>().ok()) {
            said = said.max(count);
        }
        said
    };
    while note(lines.next().expect("the process says what it commits").unwrap()) < 50 {}
    victim.kill().unwrap();
    victim.wait().unwrap();
    lines.map_while(Result::ok).for_each(|line| {
        note(line);
    });

    let database = Embedded::start(Some(directory.path())).unwrap();
    let connection = Connection::local(database.endpoint()).await.unwrap();
    let table = Table { name: "victim".to_owned(), state_table: "victim-keeper".to_owned(), ..table("victim") };
    let store = DynamoStore::new(&connection, &table);
    let a = total(&store, &TableKey::text("COUNT", "a")).await;
    let b = total(&store, &TableKey::text("COUNT", "b")).await;
    assert_eq!(a, b, "a transaction is there by half");
    // One more than was said: committed, and killed before its answer was.
    assert!((said..=said + 1).any(|count| Decimal::from(count) == a), "{said} said, {a} there");
    let stream = DynamoStream::of_table(&connection, &table.name).await.unwrap();
    let records = read_all(&stream, ShardStart::TrimHorizon).await;
    assert_eq!(Decimal::from(records.len() as i64), a.checked_add(&b).unwrap());
    database.shutdown().await;
}

#[tokio::test]
async fn an_index_of_several_attributes_is_made_and_sorts() {
    let database = Embedded::start(None).unwrap();
    let sort = [("Level", Kind::S), ("Years", Kind::N), ("Name", Kind::S)];
    let index = Index {
        name: "BySkill".to_owned(),
        partition: vec![key_attribute("Category", Kind::S), key_attribute("Site", Kind::S)],
        sort: sort.map(|(name, kind)| key_attribute(name, kind)).to_vec(),
    };
    let table = Table { indexes: vec![index.clone()], ..table("indexed") };
    let (connection, _) = open(database.endpoint(), &table).await;
    let info = connection.describe_table(&table.name).await.unwrap();
    assert_eq!((&info.indexes[0].partition, &info.indexes[0].sort), (&index.partition, &index.sort));
    assert!(info.stream_arn.is_some());
    assert_eq!(info.stream_view.as_deref(), Some("NEW_AND_OLD_IMAGES"));

    let person = |name: &str, years: i64| {
        let key = TableKey::text("PERSON", name).to_item(&table.key_names());
        key.with("Category", Value::text("Weld"))
            .with("Site", Value::text("1"))
            .with("Level", Value::text("Expert"))
            .with("Years", Value::N(Decimal::from(years)))
            .with("Name", Value::text(name))
    };
    // As numbers 9 comes before 10; one of the attributes absent, and the item is not in the index.
    let mut outside = person("outside", 1);
    outside.0.remove("Years");
    connection.put_items(&table.name, &[person("b", 10), person("a", 9), person("c", 9), outside]).await.unwrap();
    let query = connection.client().query().table_name(&table.name).index_name("BySkill");
    let found = query
        .key_condition_expression("Category = :c AND Site = :s AND #l = :l AND Years BETWEEN :low AND :high")
        .expression_attribute_names("#l", "Level")
        .expression_attribute_values(":c", AttributeValue::S("Weld".to_owned()))
        .expression_attribute_values(":s", AttributeValue::S("1".to_owned()))
        .expression_attribute_values(":l", AttributeValue::S("Expert".to_owned()))
        .expression_attribute_values(":low", AttributeValue::N("9".to_owned()))
        .expression_attribute_values(":high", AttributeValue::N("10".to_owned()));
    let found = found.send().await.unwrap();
    let names: Vec<&str> = found.items().iter().map(|item| item["Name"].as_s().unwrap().as_str()).collect();
    assert_eq!(names, ["a", "c", "b"]);
    database.shutdown().await;
}

#[tokio::test]
async fn transactions_at_once_lose_nothing_in_process() {
    let database = Embedded::start(None).unwrap();
    transactions_at_once_lose_nothing(database.endpoint()).await;
    database.shutdown().await;
}

#[tokio::test]
async fn transactions_at_once_lose_nothing_in_dynamodb_local() {
    let Some(endpoint) = dynamodb_local("transactions at once") else { return };
    transactions_at_once_lose_nothing(&endpoint).await;
}

/// Twenty writers add to the same two items; those that are cancelled try again, and both totals agree with the commits.
async fn transactions_at_once_lose_nothing(endpoint: &str) {
    let table = table("at-once");
    let (_connection, store) = open(endpoint, &table).await;
    let keys = [TableKey::text("COUNT", "a"), TableKey::text("COUNT", "b")];
    let writer = || async {
        for _ in 0..5 {
            loop {
                match store.transact(&keys.each_ref().map(add_one)).await {
                    Ok(()) => break,
                    Err(TransactError::Cancelled(reasons)) => {
                        tokio::time::sleep(std::time::Duration::from_millis(5 * reasons.len() as u64)).await;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    };
    join_all((0..20).map(|_| writer())).await;
    for key in &keys {
        assert_eq!(total(&store, key).await, Decimal::from(100));
    }
}

#[tokio::test]
async fn errors_say_what_can_be_done() {
    let database = Embedded::start(None).unwrap();
    let (connection, _) = open(database.endpoint(), &table("errors")).await;
    let missing = Table { name: "no-such-table".to_owned(), ..table("errors") };
    let store = DynamoStore::new(&connection, &missing);
    let key = TableKey::text("a", "b");
    let no_table = StoreError::NoTable("no-such-table".to_owned());
    assert_eq!(store.get(TableRef::Source, std::slice::from_ref(&key)).await, Err(no_table.clone()));
    assert_eq!(store.transact(&[add_one(&key)]).await, Err(TransactError::Store(no_table.clone())));
    assert_eq!(store.scan(TableRef::Source, (0, 1), None).await, Err(no_table));
    let nonsense = Connection::local("127.0.0.1:8000").await.unwrap_err();
    assert_eq!(nonsense, ConnectionError::Endpoint("127.0.0.1:8000".to_owned()));
    database.shutdown().await;
    let gone = store.get(TableRef::Source, &[key]).await;
    assert!(matches!(&gone, Err(StoreError::Unavailable(text)) if !text.is_empty()), "{gone:?}");
}

#[tokio::test]
async fn requests_and_capacity_are_counted() {
    let database = Embedded::start(None).unwrap();
    let table = table("usage");
    let (connection, store) = open(database.endpoint(), &table).await;
    let before = connection.usage().snapshot();
    let keys: Vec<TableKey> = (0..101).map(|n| TableKey::text("COUNT", n.to_string())).collect();
    let writes: Vec<Write> = keys[..100].iter().map(add_one).collect();
    store.transact(&writes).await.unwrap();
    store.get(TableRef::Source, &keys).await.unwrap();
    let spent = connection.usage().snapshot().since(&before);
    assert_eq!((spent.calls(Call::Transact), spent.calls(Call::Get), spent.table_calls()), (1, 2, 3));
    // A transactional write of a small item costs two units; a consistent read of one, there or not, costs one.
    assert_eq!((spent.write_half_units, spent.read_half_units), (400, 202));
    database.shutdown().await;
}
