//! The Lambda function as a program of its own, under an emulated Runtime API, on a database in process.
//!
//! `tests/lambda-emulator.sh` builds the function, starts the emulator and sets the variables; without them the test says so and
//! stops, since `cargo test` alone has neither.

mod day;
mod events;
mod failures;
mod figures;
mod function;
mod mapping;
mod wire;

use std::path::Path;
use std::process::Command;

use tablekeeper::adapters::dynamodb::{Connection, DynamoStream};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::adapters::files::ItemReader;
use tablekeeper::engine::ports::{ShardStart, StreamSource};
use tablekeeper::model::change::RawRecord;
use tablekeeper::model::load::load;
use tablekeeper::model::shipped::shipped;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{Item, Value};

use function::{Emulated, built};
use wire::{event, wire};

/// The answer that everything is durable.
const DONE: &str = r#"{"batchItemFailures":[]}"#;

/// A start without credentials: it ends, and the log says why.
fn starts_in_vain(binary: &str) {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary);
    command
        .env_clear()
        .env("HOME", home.path())
        .env("AWS_REGION", "us-east-1")
        .env("AWS_EC2_METADATA_DISABLED", "true");
    let ended = command.env("TABLEKEEPER_MODEL", "quality").output().expect("the function starts");
    let log = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(!ended.status.success(), "{log}");
    assert!(log.contains("cannot start: there are no credentials for AWS; set AWS_PROFILE"), "{log}");
}

/// The sample's items in a table, beside an empty state table.
pub async fn seeded(endpoint: &str) -> (Connection, Model) {
    let model = load(shipped("quality").unwrap().source, "quality").unwrap().model;
    let connection = Connection::local(endpoint).await.unwrap();
    connection.create_table(&model.table).await.unwrap();
    connection.ensure_state_table(&model.table.state_table).await.unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/quality.items.jsonl");
    let items: Vec<Item> = ItemReader::open(&path).unwrap().map(|item| item.unwrap()).collect();
    connection.put_items(&model.table.name, &items).await.unwrap();
    (connection, model)
}

/// All records that are in the table's stream now.
async fn records(connection: &Connection, table: &str) -> Vec<RawRecord> {
    let stream = DynamoStream::of_table(connection, table).await.unwrap();
    let mut found = Vec::new();
    for shard in stream.describe().await.unwrap().shards {
        let mut next = Some(stream.iterator(&shard.id, &ShardStart::TrimHorizon).await.unwrap());
        while let Some(iterator) = next {
            let page = stream.records(&iterator).await.unwrap();
            next = page.next.filter(|_| !page.records.is_empty());
            found.extend(page.records);
        }
    }
    found
}

async fn counts(connection: &Connection, table: &str, partition: &str, names: &[&str]) -> Vec<String> {
    let key = Item::new().with("PK", Value::text(partition)).with("SK", Value::text("STATS#WO_STATUS"));
    let item = connection.get_item(table, &key).await.unwrap().unwrap_or_default();
    let shown = |name: &&str| item.number(name).map_or("none".to_owned(), ToString::to_string);
    names.iter().map(shown).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_function_keeps_the_table_right_through_redelivery_and_damage() {
    let Some(built) = built("redelivery and damage") else { return };
    starts_in_vain(&built.binary);
    let database = Embedded::start(None).unwrap();
    let (connection, model) = seeded(database.endpoint()).await;
    let table = model.table.name.as_str();
    let source: Vec<String> = records(&connection, table).await.iter().map(wire).collect();
    assert!(source.len() > 15, "the sample's items are in the stream");
    let function = Emulated::start(&built, database.endpoint()).await;
    let invoke = async |event: &str| function.invoke(event).await;

    // Batches of seven, each delivered twice, and once more all together.
    for batch in source.chunks(7) {
        assert_eq!(invoke(&event(batch)).await, DONE);
        assert_eq!(invoke(&event(batch)).await, DONE);
    }
    assert_eq!(invoke(&event(&source)).await, DONE);
    let names = ["Total", "Count_Pending", "Count_InProgress", "Count_Complete", "Count_Cancelled"];
    assert_eq!(counts(&connection, table, "PROJECT#P001", &names).await, ["2", "1", "1", "0", "0"]);
    assert_eq!(counts(&connection, table, "PROJECT#P004", &names).await, ["1", "0", "0", "0", "1"]);

    // A record that is no record, and one whose image is damaged, block nobody.
    let damaged = r#"{"eventID":"d","eventName":"INSERT","eventSource":"aws:dynamodb","dynamodb":{"SequenceNumber":"99999999999999999999999999999999",
        "Keys":{"PK":{"S":"WO#WO099"},"SK":{"S":"USER#tech001"}},"NewImage":{"PK":{"N":5}}}}"#;
    let mixed = [vec!["7".to_owned(), damaged.to_owned()], source.clone()].concat();
    assert_eq!(invoke(&event(&mixed)).await, DONE);
    assert_eq!(counts(&connection, table, "PROJECT#P001", &names).await[0], "2");

    // The records of what it wrote itself come back and change nothing.
    let all: Vec<String> = records(&connection, table).await.iter().map(wire).collect();
    assert!(all.len() > source.len(), "derived items are in the stream too");
    assert_eq!(invoke(&event(&all)).await, DONE);
    assert_eq!(counts(&connection, table, "PROJECT#P001", &names).await, ["2", "1", "1", "0", "0"]);

    // A window's end, and what is no stream event at all.
    let end = r#"{"Records":[],"window":{},"state":{"a":"b"},"isFinalInvokeForWindow":true}"#;
    assert_eq!(invoke(end).await, r#"{"state":{"a":"b"},"batchItemFailures":[]}"#);
    assert!(invoke("{}").await.contains("not-a-stream-event"));

    // One line of metrics a batch, none for the window's end, and one for what could not be read.
    let log = function.kill().await;
    let lines: Vec<_> =
        log.lines().filter(|line| line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Tablekeeper").collect();
    assert_eq!(lines.len(), 2 * source.len().div_ceil(7) + 3 + 1, "{lines:?}");
    assert_eq!(
        (lines[0]["table"].as_str(), lines[0]["tablekeeper_batch_records"].as_u64()),
        (Some("quality"), Some(7))
    );
    assert_eq!(lines[0]["tablekeeper_records_total.applied"].as_u64(), Some(7), "{lines:?}");
    assert_eq!(lines.last().unwrap()["tablekeeper_batches_total.failed"].as_u64(), Some(1), "{lines:?}");
    assert_eq!(lines[lines.len() - 3]["tablekeeper_records_total.quarantined"].as_u64(), Some(1), "{lines:?}");
    database.shutdown().await;
}
