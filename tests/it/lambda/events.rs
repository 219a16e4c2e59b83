//! Events as they are found in the world, and what else may come: each gets the right answer, and the counts are right after it.

use std::path::Path;

use tablekeeper::engine::ports::Store as _;
use tablekeeper::plan::state;
use tablekeeper::plan::write::TableRef;

use super::function::{Emulated, built};
use super::wire::{event, windowed};
use super::{DONE, counts};
use crate::kill::World;

/// Events published by others; not part of this repository.
const CORPUS: &str = "../shared/corpus/stream-events";
/// Lambda's limit of an event.
const EVENT_BYTES_MAX: usize = 6 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_events_are_answered() {
    let Some(built) = built("published events") else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(CORPUS);
    if !folder.is_dir() {
        eprintln!("skipped: published events: {CORPUS} is not there");
        return;
    }
    let world = World::open().await;
    let function = Emulated::start(&built, world.database.endpoint()).await;
    let (mut answered, mut refused) = (0, 0);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let answer = function.invoke(&text).await;
        let Ok(json) = serde_json::from_str::<serde_json::Value>(&text) else {
            // Before the function's own code: what is no JSON is no event.
            assert!(answer.contains("errorMessage") && answer.contains("errorType"), "{}: {answer}", path.display());
            refused += 1;
            continue;
        };
        if json.get("Records").is_none() {
            // A record by itself, which no mapping delivers.
            assert!(answer.contains("not-a-stream-event"), "{}: {answer}", path.display());
            refused += 1;
            continue;
        }
        let expected = match json.get("window") {
            Some(_) => format!("{{\"state\":{},\"batchItemFailures\":[]}}", json["state"]),
            None => DONE.to_owned(),
        };
        assert_eq!(answer, expected, "{}", path.display());
        answered += json["Records"].as_array().unwrap().len() as u64;
    }
    assert!(answered > 0 && refused == 2, "{answered} records answered, {refused} payloads refused");
    // All of other tables: each is in quarantine, for somebody to see that the function is on the wrong stream.
    assert_eq!(function.kill().await.sum("malformed"), answered);
    assert_eq!(world.differences().await, []);
    world.close().await;
}

/// A pending work order of project `P` as a record; `more` goes into its change.
fn order(n: usize, kind: &str, number: usize, more: &str) -> String {
    let keys = format!(r#"{{"PK":{{"S":"WO#WO{n:04}"}},"SK":{{"S":"USER#tech001"}}}}"#);
    format!(
        r#"{{"eventID":"e{number}","eventName":"{kind}","eventSource":"aws:dynamodb","dynamodb":{{"Keys":{keys},"SequenceNumber":"{number}"{more}}}}}"#
    )
}

fn image(n: usize, padding: &str) -> String {
    format!(
        r#","NewImage":{{"PK":{{"S":"WO#WO{n:04}"}},"SK":{{"S":"USER#tech001"}},"Type":{{"S":"WorkOrder"}},"Status":{{"S":"Pending"}},"ProjectID":{{"S":"P"}},"ScheduledDate":{{"S":"2026-03-10"}},"GSI2PK":{{"S":"PROJECT#P"}},"GSI2SK":{{"S":"WO#WO{n:04}"}},"GSI3PK":{{"S":"USER#tech001"}},"GSI3SK":{{"S":"WO#WO{n:04}"}},"Notes":{{"S":"{padding}"}}}}"#
    )
}

/// A pending work order of project `P` and technician `tech001` that is new.
pub fn inserted(n: usize, number: usize, time: &str) -> String {
    order(n, "INSERT", number, &format!("{}{time}", image(n, "")))
}

async fn total(world: &World) -> String {
    counts(&world.connection, &world.model.table.name, "PROJECT#P", &["Total"]).await.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_deletes_and_own_records_are_taken_as_they_come() {
    let Some(built) = built("spellings of events") else { return };
    let world = World::open().await;
    let function = Emulated::start(&built, world.database.endpoint()).await;
    let times = [r#""1700000000""#, r#""2023-11-14T22:13:20Z""#, "1700000000", "1.7E9", "1700000000.123", "null"];
    let mut records: Vec<String> = times
        .iter()
        .enumerate()
        .map(|(n, time)| inserted(n, 100 + n, &format!(r#","ApproximateCreationDateTime":{time}"#)))
        .collect();
    records.push(inserted(6, 106, ""));
    assert_eq!(function.invoke(&event(&records)).await, DONE);
    assert_eq!(total(&world).await, "7");

    // Gone without images, gone with empty ones, gone by time to live.
    let by_ttl = order(2, "REMOVE", 202, "").replacen(
        "{",
        r#"{"userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},"#,
        1,
    );
    let removes = [order(0, "REMOVE", 200, ""), order(1, "REMOVE", 201, r#","NewImage":{},"OldImage":null"#), by_ttl];
    assert_eq!(function.invoke(&event(&removes)).await, DONE);
    assert_eq!(
        function.invoke(&windowed(&removes, r#"{"a":"b"}"#)).await,
        r#"{"state":{"a":"b"},"batchItemFailures":[]}"#
    );
    assert_eq!(total(&world).await, "4");

    // A derived item's own record, and its delete.
    let own = r#""Keys":{"PK":{"S":"PROJECT#P"},"SK":{"S":"STATS#WO_STATUS"}}"#;
    let own = |kind: &str, number: usize, image: &str| {
        format!(
            r#"{{"eventName":"{kind}","eventSource":"aws:dynamodb","dynamodb":{{{own},"SequenceNumber":"{number}"{image}}}}}"#
        )
    };
    let marked = r#","NewImage":{"PK":{"S":"PROJECT#P"},"SK":{"S":"STATS#WO_STATUS"},"_keeper":{"S":"aggregate/wo_status_by_project"}}"#;
    let records = [own("MODIFY", 300, marked), own("REMOVE", 301, &marked.replace("NewImage", "OldImage"))];
    assert_eq!(function.invoke(&event(&records)).await, DONE);
    assert_eq!(total(&world).await, "4");
    let log = function.kill().await;
    assert_eq!((log.sum("applied"), log.sum("already_applied")), (10, 3));
    world.database.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_without_a_sequence_number_is_kept_where_somebody_sees_it() {
    let Some(built) = built("a record without a number") else { return };
    let world = World::open().await;
    let function = Emulated::start(&built, world.database.endpoint()).await;
    let nameless = inserted(1, 101, "").replace(r#","SequenceNumber":"101""#, "");
    assert!(!nameless.contains("SequenceNumber"));
    let batch = [inserted(0, 100, ""), nameless, inserted(2, 102, "")];
    // It can be neither ordered nor named in an answer: it goes to quarantine, and its neighbours are applied.
    assert_eq!(function.invoke(&event(&batch)).await, DONE);
    assert_eq!(total(&world).await, "2");
    let row = world.store.get(TableRef::State, &[state::malformed_key(None, "e101")]).await.unwrap().remove(0).unwrap();
    assert_eq!(row.text("Code"), Some("P901"));
    assert!(row.text("Reason").is_some_and(|reason| reason.contains("no sequence number")), "{row:?}");
    let log = function.kill().await;
    assert!(log.warns("record that names no item"));
    assert_eq!(log.sum("malformed"), 1);
    world.database.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_events_are_applied() {
    let Some(built) = built("the largest events") else { return };
    let world = World::open().await;
    let function = Emulated::start(&built, world.database.endpoint()).await;
    let records: Vec<String> = (0..1000).map(|n| inserted(n, 1000 + n, "")).collect();
    assert_eq!(function.invoke(&event(&records)).await, DONE);
    assert_eq!(total(&world).await, "1000");
    // As many bytes as fit, in items of a few kilobytes.
    let empty = order(0, "MODIFY", 10_000, &image(0, "")).len() + 1;
    let padding = "x".repeat(EVENT_BYTES_MAX / 1000 - empty - 1);
    let records: Vec<String> = (0..1000).map(|n| order(n, "MODIFY", 10_000 + n, &image(n, &padding))).collect();
    let event = event(&records);
    assert!((EVENT_BYTES_MAX - 10_000..=EVENT_BYTES_MAX).contains(&event.len()), "{}", event.len());
    assert_eq!(function.invoke(&event).await, DONE);
    assert_eq!(total(&world).await, "1000");
    assert_eq!(function.kill().await.sum("applied"), 2000);
    world.database.shutdown().await;
}
