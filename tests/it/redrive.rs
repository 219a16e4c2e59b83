//! Batches that Lambda gave up, as their operator meets them: invocation records in files, in a bucket and in a queue.

mod aws;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::{Connection, DynamoStore, DynamoStream};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::engine::batch::{Engine, OldImages};
use tablekeeper::engine::ports::ShardStart;
use tablekeeper::engine::ports::StreamSource as _;
use tablekeeper::model::change::RawRecord;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::load::load;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{Item, Value};
use tempfile::TempDir;

use crate::contract::stream::read_all;
use crate::program::{Ended, Program, run};
use crate::random::Random;

/// Records of a batch.
const BATCH: usize = 7;

/// A table with a day's changes in its stream.
struct World {
    database: Embedded,
    connection: Connection,
    model: Model,
    stream: DynamoStream,
    shard: String,
    folder: TempDir,
    /// The day's records.
    records: Vec<RawRecord>,
}

impl World {
    async fn after_a_day() -> World {
        let database = Embedded::start(None).unwrap();
        let connection = Connection::local(database.endpoint()).await.unwrap();
        let model = load(include_str!("../../models/quality.toml"), "quality").unwrap().model;
        connection.create_table(&model.table).await.unwrap();
        connection.ensure_state_table(&model.table.state_table).await.unwrap();
        let table = model.table.name.as_str();
        connection.put_items(table, &crate::kept::items("quality.items.jsonl")).await.unwrap();
        let mut random = Random::new(4);
        for _ in 0..60 {
            let order = work_order(&model, random.below(15), random.below(4), &mut random);
            if random.one_in(6) {
                let names = model.table.key_names();
                let key = TableKey::of(&order, &names).unwrap().to_item(&names);
                connection.delete_item(table, &key).await.unwrap();
            } else {
                connection.put_item(table, &order).await.unwrap();
            }
        }
        let stream = DynamoStream::of_table(&connection, table).await.unwrap();
        let shard = stream.describe().await.unwrap().shards.remove(0).id;
        let records = read_all(&stream, ShardStart::TrimHorizon).await;
        assert!(records.len() > 10 * BATCH);
        World { database, connection, model, stream, shard, folder: tempfile::tempdir().unwrap(), records }
    }

    /// What Lambda writes of a batch; with the records or only with their place.
    fn letter(&self, records: &[RawRecord], whole: bool) -> Json {
        let [first, last] = [records.first(), records.last()].map(|record| record.unwrap().sequence.clone().unwrap());
        let mut letter = json!({
            "requestContext": { "requestId": "r", "condition": "RetryAttemptsExhausted", "approximateInvokeCount": 5 },
            "responseContext": { "statusCode": 200, "functionError": "Unhandled" },
            "version": "1.0", "timestamp": "2026-03-01T10:05:00.000Z",
            "DDBStreamBatchInfo": {
                "shardId": self.shard, "startSequenceNumber": first, "endSequenceNumber": last,
                "approximateArrivalOfFirstRecord": "2026-03-01T10:00:00Z",
                "approximateArrivalOfLastRecord": "2026-03-01T10:00:01Z",
                "batchSize": records.len(), "streamArn": self.stream.arn()
            }
        });
        if whole {
            let records: Vec<Json> = records.iter().map(|record| wire(record, &self.stream.arn())).collect();
            letter["payload"] = json!(json!({ "Records": records }).to_string());
        }
        letter
    }

    /// The same of a shard that is past retention.
    fn gone(&self, records: &[RawRecord]) -> String {
        let mut letter = self.letter(records, false);
        letter["DDBStreamBatchInfo"]["shardId"] = json!("shardId-of-yesterday");
        letter.to_string()
    }

    /// The day in batches.
    fn batches(&self) -> Vec<&[RawRecord]> {
        self.records.chunks(BATCH).collect()
    }

    /// Where a letter lies in the folder, as it would in the bucket.
    fn write(&self, number: usize, text: &str) -> PathBuf {
        let path = self.folder.path().join(key(number));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn path(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    /// The function applies these and has nothing to do with the others.
    async fn apply(&self, batches: &[&[RawRecord]]) {
        let store = DynamoStore::new(&self.connection, &self.model.table);
        let engine = Engine::new(self.model.clone().into(), store, SystemClock::new());
        for batch in batches {
            engine.apply(batch, OldImages::NotTrusted).await.unwrap();
        }
    }

    fn arguments<'a>(&'a self, command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let fixed = [command, "--model", "quality", "--format", "json", "--endpoint", self.database.endpoint()];
        [&fixed, more].concat()
    }

    async fn run(&self, command: &str, more: &[&str]) -> Ended {
        run(&self.arguments(command, more)).await
    }

    async fn redrive(&self, code: i32, more: &[&str]) -> Json {
        self.run("redrive", &[&["--from", self.path()], more].concat()).await.expect(code).json()
    }

    /// Nothing differs from what the items derive.
    async fn exact(&self) {
        let verify = self.run("verify", &[]).await.expect(0).json();
        assert_eq!(verify["differences"], json!([]));
        assert!(verify["derived_items"].as_u64() > Some(5), "{verify}");
    }

    async fn close(self) {
        self.database.shutdown().await;
    }
}

fn work_order(model: &Model, number: usize, project: usize, random: &mut Random) -> Item {
    let (order, user) = (format!("WO#WO9{number:02}"), format!("USER#tech{:03}", number % 3));
    let project = format!("P00{project}");
    let attributes = [
        ("Type", "WorkOrder"),
        ("Status", random.pick(&["Pending", "InProgress", "Complete", "Cancelled"])),
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

/// The record as a mapping delivers it.
fn wire(record: &RawRecord, stream: &str) -> Json {
    let image = |image: &Option<Result<Item, String>>| image.as_ref().map(|item| json!(item.as_ref().unwrap()));
    json!({
        "eventID": record.event_id, "eventName": record.event_name, "eventSource": "aws:dynamodb",
        "eventSourceARN": stream, "awsRegion": "eu-central-1",
        "dynamodb": {
            "ApproximateCreationDateTime": record.created_at.unwrap().timestamp(),
            "SequenceNumber": record.sequence, "Keys": image(&record.keys),
            "NewImage": image(&record.new_image), "OldImage": image(&record.old_image)
        }
    })
}

/// As Lambda names objects.
fn key(number: usize) -> String {
    format!("aws/lambda/0f-mapping/shardId-1/2026/03/01/2026-03-01T10.{:02}.{:02}-r{number}", number / 60, number % 60)
}

fn outcomes(redriven: &Json) -> Vec<&str> {
    redriven["batches"].as_array().unwrap().iter().map(|batch| batch["outcome"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_days_batches_that_were_given_up_are_applied_however_often() {
    let world = World::after_a_day().await;
    let batches = world.batches();
    let (given_up, applied): (Vec<_>, Vec<_>) = (0..batches.len()).partition(|number| number % 3 != 1);
    world.apply(&applied.iter().map(|number| batches[*number]).collect::<Vec<_>>()).await;
    world.run("verify", &["--passes", "1"]).await.expect(1);
    for number in &given_up {
        world.write(*number, &world.letter(batches[*number], true).to_string());
    }
    let listed = world.redrive(0, &["--dry-run"]).await;
    assert_eq!(outcomes(&listed), vec!["applicable"; given_up.len()]);
    world.run("verify", &["--passes", "1"]).await.expect(1);

    let records: usize = given_up.iter().map(|number| batches[*number].len()).sum();
    for round in 0..2 {
        let redriven = world.redrive(0, &[]).await;
        assert_eq!(outcomes(&redriven), vec!["applied"; given_up.len()]);
        assert_eq!((redriven["records"].as_u64(), &redriven["gap"]), (Some(records as u64), &Json::Null));
        assert_eq!(redriven["applied"].as_u64() > Some(0), round == 0, "{redriven}");
        world.exact().await;
    }
    // Files stay where they are, and one alone will do as well.
    let file = world.write(0, &world.letter(batches[0], true).to_string());
    let alone = world.run("redrive", &["--from", file.to_str().unwrap()]).await.expect(0).json();
    assert_eq!(outcomes(&alone), ["applied"]);
    assert_eq!(world.redrive(0, &["--dry-run"]).await["batches"].as_array().unwrap().len(), given_up.len());
    world.close().await;
}

#[tokio::test]
async fn what_is_no_batch_of_this_table_is_named_and_the_others_go_on() {
    let world = World::after_a_day().await;
    let batches = world.batches();
    let letters: Vec<String> = batches.iter().map(|batch| world.letter(batch, true).to_string()).collect();
    // The first batch is another table's, and applied as this one's it would be believed.
    let other = letters[0].replace("table/quality/", "table/quality-copy/");
    assert_ne!(other, letters[0]);
    let elsewhere = letters[0].replace("arn:aws:dynamodb:", "arn:aws:dynamodb:elsewhere-");
    let cut = &letters[1][..letters[1].len() / 2];
    let asynchronous = json!({ "requestContext": {}, "requestPayload": {}, "responsePayload": {} }).to_string();
    let strangers = [other.as_str(), cut, &asynchronous, &elsewhere, "", "PK,SK"];
    let places: Vec<PathBuf> = strangers.iter().zip(100..).map(|(text, number)| world.write(number, text)).collect();
    letters.iter().enumerate().for_each(|(number, letter)| drop(world.write(number, letter)));
    std::fs::write(world.folder.path().join("no-text"), [0xFF, 0xFE, 0x00]).unwrap();

    let ended = world.run("redrive", &["--from", world.path()]).await.expect(3);
    let redriven = ended.json();
    let count = |outcome| outcomes(&redriven).iter().filter(|other| **other == outcome).count();
    assert_eq!((count("applied"), count("refused")), (letters.len(), strangers.len() + 1));
    for (place, words) in
        places.iter().zip(["table/quality-copy", "cut off", "asynchronous", "elsewhere", "empty", "no JSON"])
    {
        let place = place.to_str().unwrap();
        let said = ended.log.iter().find(|line| line.contains(place)).unwrap_or_else(|| panic!("{place}"));
        assert!(said.contains(words) && serde_json::from_str::<Json>(said).unwrap()["error"]["exit"] == 3, "{said}");
    }
    world.exact().await;

    let shown = ["redrive", "--model", "quality", "--endpoint", world.database.endpoint(), "--from", world.path()];
    let text = run(&shown).await.expect(3).out;
    let line = format!("  applied  {:>8}  {:>8}", letters.len(), world.records.len());
    let tidied = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.lines().any(|found| tidied(found) == tidied(&line)), "{text}");
    world.close().await;
}

#[tokio::test]
async fn batches_without_their_records_are_read_from_the_stream() {
    let world = World::after_a_day().await;
    let batches = world.batches();
    for (number, batch) in batches.iter().enumerate() {
        let letter = world.letter(batch, false).to_string();
        let envelope = json!({ "Type": "Notification", "MessageId": "m", "Message": letter }).to_string();
        world.write(number, if number % 2 == 0 { &letter } else { &envelope });
    }
    for _ in 0..2 {
        let redriven = world.redrive(0, &[]).await;
        assert_eq!(outcomes(&redriven), vec!["applied"; batches.len()]);
        assert_eq!(redriven["records"].as_u64(), Some(world.records.len() as u64));
        world.exact().await;
    }
    world.close().await;
}

#[tokio::test]
async fn what_is_past_retention_is_a_gap_until_the_table_is_reconciled() {
    let world = World::after_a_day().await;
    let batches = world.batches();
    world.apply(&batches[..2]).await;
    let lost = world.write(2, &world.gone(batches[2]));
    for (number, batch) in batches.iter().enumerate().skip(3) {
        world.write(number, &world.letter(batch, true).to_string());
    }

    let halted = world.run("redrive", &["--from", world.path(), "--on-gap", "halt"]).await.expect(3);
    let redriven = halted.json();
    let applied = vec!["applied"; batches.len() - 3];
    assert_eq!(outcomes(&redriven), [vec!["lost"], applied.clone()].concat());
    let cause = redriven["gap"].as_str().unwrap();
    assert!(cause.contains("vanished") && redriven.get("reconcile").is_none(), "{redriven}");
    assert!(halted.says(&format!("{}: gap: ", lost.display())) && halted.says("tablekeeper reconcile"));
    // It stays open for whoever reconciles, also where the batch is away.
    std::fs::remove_file(&lost).unwrap();
    assert_eq!(world.redrive(3, &["--on-gap", "halt"]).await["gap"].as_str(), Some(cause));
    world.run("verify", &["--passes", "1"]).await.expect(1);
    world.run("reconcile", &[]).await.expect(0);
    world.exact().await;
    assert_eq!(world.redrive(0, &["--on-gap", "halt"]).await["gap"], Json::Null);

    // By itself it reconciles at once.
    let item = work_order(&world.model, 77, 1, &mut Random::new(1));
    world.connection.put_item(&world.model.table.name, &item).await.unwrap();
    world.write(2, &world.gone(batches[2]));
    let redriven = world.redrive(0, &[]).await;
    assert_eq!(outcomes(&redriven), [vec!["lost"], applied].concat());
    assert_eq!((&redriven["gap"], &redriven["reconcile"]["reconciled"]), (&Json::Null, &json!(1)));
    world.exact().await;
    world.close().await;
}

#[tokio::test]
async fn told_to_stop_it_ends_after_the_batch_at_hand() {
    let world = World::after_a_day().await;
    // Each is looked for in vain for some seconds.
    let files: Vec<PathBuf> = (0..4).map(|number| world.write(number, &world.gone(&world.records))).collect();
    let program = Program::start(&world.arguments("redrive", &["--from", world.path()]));
    tokio::time::sleep(Duration::from_secs(2)).await;
    program.terminate();
    let stopped = program.end().await.expect(3).json();
    assert_eq!(stopped["stopped"], json!(true));
    assert!(stopped["batches"].as_array().unwrap().len() < files.len(), "{stopped}");
    files.iter().skip(1).for_each(|file| std::fs::remove_file(file).unwrap());
    let redriven = world.redrive(0, &[]).await;
    assert_eq!((outcomes(&redriven), &redriven["gap"]), (vec!["lost"], &Json::Null));
    world.exact().await;
    world.close().await;
}

#[tokio::test]
async fn a_place_that_is_not_there_is_a_fault_of_the_command_line() {
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    let world = World::after_a_day().await;
    for (from, words) in [
        ("no-such-folder", "no-such-folder"),
        ("s3://", "names no bucket"),
        ("s3://bucket", "AWS_REGION"),
        ("sqs://queue", "AWS_REGION"),
    ] {
        let ended = world.run("redrive", &["--from", from]).await.expect(2);
        assert!(ended.says(words), "{from}: {:?}", ended.log);
    }
    let nothing = world.run("redrive", &["--from", empty]).await.expect(0).json();
    assert_eq!(nothing["batches"], json!([]));
    assert!(!Path::new("no-such-folder").exists());
    world.close().await;
}
