//! The schedule function as a program of its own: an emulated Runtime API calls it, the tables are in a database in process, topic, queue and
//! bucket in a simulation of AWS.
//!
//! `tests/lambda-emulator.sh` builds and starts all of it and sets the variables; without them each test says so and stops.

mod function;

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_s3::types::{BucketVersioningStatus, VersioningConfiguration};
use chrono::{DateTime, NaiveDate, SecondsFormat, TimeDelta, Utc};
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::{Connection, ConnectionOptions, DynamoStore};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::engine::ports::{Clock as _, Notification, SortRange};
use tablekeeper::engine::scan::Pages;
use tablekeeper::engine::slots::{self, Claimed, Holder, Slot};
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{Item, Value};
use tablekeeper::plan::state;
use tablekeeper::plan::write::TableRef;
use tablekeeper::report::builtin;
use tokio::sync::{Mutex, MutexGuard};

use crate::lambda::seeded;
use function::{EMULATOR, Function, invoke};

/// Path of the built function.
const BINARY: &str = "TABLEKEEPER_SCHEDULE_BINARY";
/// Endpoint of the simulation of AWS.
const AWS: &str = "TABLEKEEPER_AWS";
const FUNCTION: &str = "lambda-schedule";
const REPORT: &str = "quality-weekly";
/// What an invocation that did its task answers.
const DONE: &str = "null";

/// The emulator knows functions by the names of their binaries, so one world has it at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// A kept table with a topic, a queue that hears it, and the name of a bucket that is not there yet.
struct World {
    _turn: MutexGuard<'static, ()>,
    /// Names the topic, the queue and the bucket.
    name: &'static str,
    emulator: String,
    binary: String,
    database: Embedded,
    connection: Connection,
    model: Model,
    store: DynamoStore,
    clock: SystemClock,
    aws: Connection,
    endpoint: String,
    topic: String,
    queue: String,
}

impl World {
    /// `None`: the variables are not set.
    async fn new(name: &'static str) -> Option<World> {
        let variable = |name: &str| std::env::var(name).ok();
        let (Some(emulator), Some(binary), Some(endpoint)) = (variable(EMULATOR), variable(BINARY), variable(AWS))
        else {
            eprintln!("skipped: {EMULATOR}, {BINARY} and {AWS} are not set; tests/lambda-emulator.sh sets them");
            return None;
        };
        let turn = TURN.lock().await;
        let database = Embedded::start(None).unwrap();
        let (connection, model) = seeded(database.endpoint()).await;
        let store = DynamoStore::new(&connection, &model.table);
        let options = ConnectionOptions { endpoint: Some(endpoint.clone()), local: true, ..Default::default() };
        let aws = Connection::open(options).await.unwrap();
        let (sns, sqs) = (aws_sdk_sns::Client::new(aws.config()), aws_sdk_sqs::Client::new(aws.config()));
        let topic = sns.create_topic().name(name).send().await.unwrap().topic_arn.unwrap();
        let queue = sqs.create_queue().queue_name(name).send().await.unwrap().queue_url.unwrap();
        let queue_arn = topic.replacen(":sns:", ":sqs:", 1);
        let subscribe = sns.subscribe().topic_arn(&topic).protocol("sqs").endpoint(queue_arn);
        subscribe.attributes("RawMessageDelivery", "true").send().await.unwrap();
        let clock = SystemClock::new();
        Some(World {
            _turn: turn,
            name,
            emulator,
            binary,
            database,
            connection,
            model,
            store,
            clock,
            aws,
            endpoint,
            topic,
            queue,
        })
    }

    fn start(&self) -> Function {
        self.start_with(&[])
    }

    fn start_with(&self, further: &[(&str, &str)]) -> Function {
        let variables = [
            ("AWS_ENDPOINT_URL_S3", self.endpoint.as_str()),
            ("AWS_ENDPOINT_URL_SNS", &self.endpoint),
            ("TABLEKEEPER_TOPIC_ARN", &self.topic),
            ("TABLEKEEPER_REPORT_BUCKET", self.name),
            ("TABLEKEEPER_WINDOW_SECONDS", "0"),
        ];
        let variables = [&variables[..], further].concat();
        Function::start(&self.emulator, FUNCTION, &self.binary, self.database.endpoint(), &variables)
    }

    fn days_ago(&self, days: i64) -> DateTime<Utc> {
        self.clock.now() - TimeDelta::days(days)
    }

    /// Puts an item as it is but for one attribute.
    async fn change(&self, (partition, sort): (&str, &str), name: &str, value: Value) {
        let table = &self.model.table.name;
        let key = Item::new().with("PK", Value::text(partition)).with("SK", Value::text(sort));
        let item = self.connection.get_item(table, &key).await.unwrap().expect("it is there");
        self.connection.put_items(table, &[item.with(name, value)]).await.unwrap();
    }

    /// What is in the queue; it is empty afterwards.
    async fn heard(&self) -> Vec<aws_sdk_sqs::types::Message> {
        let sqs = aws_sdk_sqs::Client::new(self.aws.config());
        let mut heard = Vec::new();
        loop {
            let receive = sqs.receive_message().queue_url(&self.queue).max_number_of_messages(10);
            let messages = receive.message_attribute_names("All").send().await.unwrap().messages.unwrap_or_default();
            if messages.is_empty() {
                return heard;
            }
            for message in &messages {
                let handle = message.receipt_handle.as_ref().unwrap();
                sqs.delete_message().queue_url(&self.queue).receipt_handle(handle).send().await.unwrap();
            }
            heard.extend(messages);
        }
    }

    async fn make_bucket(&self) {
        let s3 = self.s3();
        s3.create_bucket().bucket(self.name).send().await.unwrap();
        let versions = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
        s3.put_bucket_versioning().bucket(self.name).versioning_configuration(versions).send().await.unwrap();
    }

    fn s3(&self) -> aws_sdk_s3::Client {
        aws_sdk_s3::Client::new(self.aws.config())
    }

    /// Keys in the bucket, one for each time that an object was written.
    async fn written(&self) -> Vec<String> {
        let versions = self.s3().list_object_versions().bucket(self.name).send().await.unwrap();
        versions.versions.unwrap_or_default().into_iter().filter_map(|version| version.key).collect()
    }

    async fn state_rows(&self, partition: String) -> Vec<Item> {
        let mut pages = Pages::of_partition(TableRef::State, Value::text(partition), SortRange::All);
        let mut rows = Vec::new();
        while let Some(page) = pages.next(&self.store, &self.clock).await.unwrap() {
            rows.extend(page);
        }
        rows
    }
}

fn call(task: &str, at: DateTime<Utc>) -> String {
    format!("{{\"task\":\"{task}\",\"at\":\"{}\"}}", at.to_rfc3339_opts(SecondsFormat::Secs, true))
}

fn today() -> NaiveDate {
    SystemClock::new().now().date_naive()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_tells_once_and_a_failed_one_is_told_by_the_next() {
    let Some(world) = World::new("sweep").await else { return };
    let expired = (today() - TimeDelta::days(3)).to_string();
    world.change(("USER#tech001", "USER#tech001"), "CertificateExp", Value::text(expired)).await;
    let function = world.start_with(&[("TABLEKEEPER_TOPIC_ARN", "arn:aws:sns:us-east-1:123456789012:no-such")]);
    assert_eq!(function.invoke(&call("reconcile", world.days_ago(0))), DONE);
    let answer = function.invoke(&call("sweep", world.days_ago(0)));
    assert!(answer.contains("sweep-failed") && answer.contains("stay in the outbox"), "{answer}");
    drop(function);

    let function = world.start();
    assert_eq!(function.invoke(&call("sweep", world.days_ago(0))), DONE);
    let heard = world.heard().await;
    let told: Vec<Notification> =
        heard.iter().map(|message| serde_json::from_str(message.body.as_ref().unwrap()).unwrap()).collect();
    let ids: BTreeSet<&str> = told.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids.len(), told.len(), "each once");
    let certificate = told.iter().position(|one| one.subject == "tech001").expect("it has expired");
    assert_eq!((told[certificate].state.as_str(), told[certificate].expiry.as_str()), ("overdue", "certificate"));
    let attributes = heard[certificate].message_attributes.as_ref().unwrap();
    assert_eq!(attributes["state"].string_value.as_deref(), Some("overdue"));
    assert_eq!(attributes["id"].string_value.as_deref(), Some(told[certificate].id.as_str()));

    assert_eq!(function.invoke(&call("sweep", world.days_ago(0))), DONE);
    assert_eq!(world.heard().await.len(), 0, "nothing twice");
    let log = function.log();
    assert!(log.contains(&format!("\"sent\":{}", told.len())) && log.contains("\"sent\":0"), "{log}");
    assert!(!log.contains("tech001"), "no value of an item: {log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_is_printed_once_a_slot_whoever_is_called_and_whatever_fails() {
    let Some(world) = World::new("report").await else { return };
    let (one, two) = (world.start(), world.start());
    let said = || [one.log(), two.log()].concat().matches("\"no report is missing\"").count();
    // The first look: what was due before is not owed.
    assert_eq!(one.invoke(&call("report", world.days_ago(15))), DONE);
    assert_eq!(said(), 1);
    let due = call("report", world.days_ago(8));
    let failed = one.invoke(&due);
    assert!(failed.contains("report-failed") && failed.contains("NoSuchBucket"), "{failed}");
    assert_eq!(said(), 1);

    world.make_bucket().await;
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| invoke(&world.emulator, FUNCTION, &due))).collect();
        calls.into_iter().for_each(|call| assert_eq!(call.join().unwrap(), DONE));
    });
    let first = world.written().await;
    let definition = builtin(REPORT).unwrap().unwrap();
    assert_eq!(first.len(), definition.sections.len() + 1, "each file once: {first:?}");
    let folder = first[0].rsplit_once('/').unwrap().0;
    let slot = definition.schedule.as_ref().unwrap().due(world.days_ago(15), world.days_ago(8), &world.model.zone);
    let slot = slot.unwrap().slot;
    assert_eq!(folder, format!("reports/{REPORT}/{}", slot.format("%Y-%m-%dT%H%M%SZ")));
    let page = world.s3().get_object().bucket(world.name).key(format!("{folder}/{REPORT}.html")).send().await.unwrap();
    assert_eq!(page.content_type(), Some("text/html; charset=utf-8"));
    let page = page.body.collect().await.unwrap().to_vec();
    assert!(String::from_utf8(page).unwrap().contains(&slot.date_naive().to_string()), "as of the slot's day");
    let rows = world.state_rows(state::report_partition(REPORT)).await;
    let files = rows.iter().find_map(|row| row.get("Files")).cloned();
    assert!(matches!(files, Some(Value::L(files)) if files.len() == first.len()), "{rows:?}");
    assert!(said() > 1);

    // The next slot was claimed by one who lives, then by one who has died.
    let next = definition.schedule.as_ref().unwrap().due(world.days_ago(8), world.days_ago(1), &world.model.zone);
    let slot = Slot { report: REPORT.to_owned(), at: next.unwrap().slot };
    let now = world.clock.now();
    let claim = async |seconds| {
        let holder = Holder { name: "another".to_owned(), until: now + TimeDelta::seconds(seconds) };
        slots::claim(&world.store, &world.clock, &slot, &[], &holder).await.unwrap()
    };
    let Claimed::Mine(living) = claim(600).await else { panic!("it is free") };
    let before = said();
    assert_eq!(one.invoke(&call("report", world.days_ago(1))), DONE);
    assert_eq!((said(), world.written().await.len()), (before, first.len()), "it is being printed");
    assert!(slots::give_back(&world.store, &world.clock, &living).await.unwrap());
    assert!(matches!(claim(-1).await, Claimed::Mine(_)));
    assert_eq!(one.invoke(&call("report", world.days_ago(1))), DONE);
    assert_eq!((said(), world.written().await.len()), (before + 1, 2 * first.len()), "taken over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconcile_goes_on_after_a_crash_and_verify_tells_what_was_edited_by_hand() {
    let Some(world) = World::new("proof").await else { return };
    let rows = async || world.state_rows(state::progress_partition("slices")).await.len();
    let slow = world.start_with(&[("TABLEKEEPER_MAX_READ_UNITS", "3")]);
    let (emulator, event) = (world.emulator.clone(), call("reconcile", world.days_ago(0)));
    // Its answer never comes: the function is killed in the middle.
    std::thread::spawn(move || invoke(&emulator, FUNCTION, &event));
    let mut looks = 0;
    while rows().await == 0 {
        looks += 1;
        assert!(looks < 600, "no place is kept: {}", slow.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(slow);
    assert!(rows().await > 0);

    let function = world.start();
    assert_eq!(function.invoke(&call("reconcile", world.days_ago(0))), DONE);
    assert_eq!(rows().await, 0, "done");
    assert_eq!(function.invoke(&call("reconcile", world.days_ago(0))), DONE);
    let log = function.log();
    assert!(log.contains("the gap is closed") && log.contains("no reconcile is called for"), "{log}");

    assert_eq!(function.invoke(&call("verify", world.days_ago(0))), DONE);
    world.change(("PROJECT#P001", "STATS#WO_STATUS"), "Count_Pending", Value::N(99.into())).await;
    let answer = function.invoke(&call("verify", world.days_ago(0)));
    assert!(answer.contains("verify-failed") && answer.contains("1 difference;"), "{answer}");
    let log = function.log();
    assert!(log.contains("\"what\":\"wo_status_by_project Count_Pending\"") && !log.contains("P001"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_task_fails_and_without_settings_nothing_starts() {
    let Some(world) = World::new("odd").await else { return };
    let function = world.start();
    for (event, said) in [
        (r#"{"task":"tidy"}"#, "`tidy` is not a task"),
        ("{}", "not a call by the clock"),
        (r#"{"task":"sweep","at":"2999-01-01T00:00:00Z"}"#, "has not come yet"),
    ] {
        let answer = function.invoke(event);
        assert!(answer.contains("not-a-call") && answer.contains(said), "{answer}");
    }
    drop(function);
    let wrong = [("TABLEKEEPER_MODEL", ""), ("TABLEKEEPER_TOPIC_ARN", ""), ("TABLEKEEPER_REPORT_BUCKET", "")];
    let (failed, log) = world.start_with(&wrong).end();
    assert!(failed, "{log}");
    for (name, _) in wrong {
        assert!(log.contains(&format!("{name} is not set")), "{log}");
    }
}
