//! Health, metrics and logs of a worker, as its operator meets them: a process, an address, a signal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::Connection;
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::adapters::http::{self, Listening, Telemetry};
use tablekeeper::adapters::sim::{Fault, SimStore};
use tablekeeper::engine::batch::BatchReport;
use tablekeeper::engine::checkpoint::ShardKey;
use tablekeeper::engine::ports::{Clock as _, StoreError};
use tablekeeper::engine::telemetry::readings::Consumption;
use tablekeeper::engine::telemetry::{LOG_FIELDS, METRICS, metrics_table};
use tablekeeper::engine::worker::{Observer, Progress};
use tablekeeper::model::key::TableKey;
use tablekeeper::model::load::load;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{Item, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::house::source::{code_only, files, without_tests};
use crate::program::{Program, run};
use crate::proxy::message;

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// Status and body of a GET.
async fn get(address: &str, path: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer of HTTP");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    // Bodies are short enough to come with their length, not in chunks.
    assert!(head.to_ascii_lowercase().contains("content-length"), "{head}");
    (status, body.to_owned())
}

/// The values of a scrape by name and labels.
struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    async fn of(address: &str) -> Scrape {
        let (status, text) = get(address, "/metrics").await;
        assert_eq!(status, 200, "{text}");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Scrape(
            lines.filter_map(|line| line.rsplit_once(' ')).map(|(k, v)| (k.to_owned(), v.parse().unwrap())).collect(),
        )
    }

    fn value(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.0))
    }

    fn outcome(&self, outcome: &str) -> f64 {
        self.0.get(&format!("tablekeeper_records_total{{outcome=\"{outcome}\"}}")).copied().unwrap_or_default()
    }

    /// Names without labels and without the parts of a histogram.
    fn names(&self) -> BTreeSet<&str> {
        let name = |line: &'_ str| -> String { line.split('{').next().unwrap_or_default().to_owned() };
        let served: BTreeSet<String> = self.0.keys().map(|line| name(line)).collect();
        let is_served = |metric: &str| {
            served.contains(metric)
                || ["_bucket", "_sum", "_count"].iter().all(|part| served.contains(&format!("{metric}{part}")))
        };
        METRICS.iter().map(|metric| metric.name).filter(|name| is_served(name)).collect()
    }
}

/// Scrapes until the values are as they should become.
async fn scrape_until(address: &str, is_so: impl Fn(&Scrape) -> bool) -> Scrape {
    let mut waited = Duration::ZERO;
    loop {
        let scrape = Scrape::of(address).await;
        if is_so(&scrape) {
            return scrape;
        }
        assert!(waited < PATIENCE, "{:?}", scrape.0);
        tokio::time::sleep(PAUSE).await;
        waited += PAUSE;
    }
}

fn quality() -> Model {
    load(include_str!("../../models/quality.toml"), "quality").unwrap().model
}

/// A work order; any other status than the model's is a finding.
fn work_order(model: &Model, number: usize, status: &str) -> Item {
    let (order, user) = (format!("WO#WO{number:03}"), "USER#tech001".to_owned());
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
    let item = TableKey::text(&order, &user).to_item(&model.table.key_names());
    attributes.iter().fold(item, |item, (name, value)| item.with(*name, Value::text(*value)))
}

/// The address that a worker says it serves at.
async fn address(worker: &Program) -> String {
    worker.says("\"address\":", 1, PATIENCE).await;
    let line = worker.line("\"address\":").expect("the worker says where it listens");
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    line["fields"]["address"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_worker_is_watched_from_outside() {
    let (database, model) = (Embedded::start(None).unwrap(), quality());
    let connection = Connection::local(database.endpoint()).await.unwrap();
    connection.create_table(&model.table).await.unwrap();
    let endpoint = database.endpoint();
    let arguments = ["worker", "--model", "quality", "--endpoint", endpoint, "--poll-ms", "50", "--log-json"];
    let worker = Program::start(&[&arguments[..], &["--listen", "127.0.0.1:0"]].concat());
    let address = address(&worker).await;

    // The first start reconciles; what is written after that comes by the stream alone.
    let (gaps, open) = ("tablekeeper_gaps_total{cause=\"first_start\"}", "tablekeeper_gap_open");
    scrape_until(&address, |scrape| scrape.0.contains_key(gaps) && scrape.0.get(open) == Some(&0.0)).await;
    let (written, faulty) = (40, 3);
    for number in 0..written {
        let status = if number < faulty { "Lost" } else { "Pending" };
        connection.put_item(&model.table.name, &work_order(&model, number, status)).await.unwrap();
    }
    let findings = "tablekeeper_findings{code=\"A303\"}";
    let scrape = scrape_until(&address, |scrape| {
        scrape.outcome("applied") == written as f64 && scrape.0.get(findings) == Some(&(faulty as f64))
    })
    .await;
    assert_eq!(scrape.value("tablekeeper_findings_introduced_total{code=\"A303\"}"), faulty as f64);
    connection.put_item(&model.table.name, &work_order(&model, 0, "Pending")).await.unwrap();
    let (written, faulty) = (written + 1, faulty - 1);
    let scrape = scrape_until(&address, |scrape| {
        scrape.outcome("applied") == written as f64 && scrape.0.get(findings) == Some(&(faulty as f64))
    })
    .await;
    let all: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(scrape.names(), all);
    let theirs = ["applied", "already_applied", "reconciled", "superseded", "skipped", "quarantined", "malformed"];
    assert_eq!(theirs.map(|outcome| scrape.outcome(outcome)).iter().sum::<f64>(), written as f64);
    let expected = [
        ("tablekeeper_shards_owned", 1.0),
        ("tablekeeper_quarantine_rows", 0.0),
        ("tablekeeper_outbox_messages", 0.0),
        ("tablekeeper_findings_written_total{code=\"A303\"}", 3.0),
        ("tablekeeper_findings_introduced_total{code=\"A303\"}", 3.0),
        ("tablekeeper_findings_resolved_total{code=\"A303\"}", 1.0),
        ("tablekeeper_gaps_total{cause=\"first_start\"}", 1.0),
        ("tablekeeper_gap_open", 0.0),
    ];
    for (name, value) in expected {
        assert_eq!(scrape.value(name), value, "{name}");
    }
    assert!(scrape.value("tablekeeper_lag_seconds") < 10.0, "{:?}", scrape.0);
    assert!(scrape.value("tablekeeper_batch_records_sum") >= written as f64);
    let (transactions, later) = (scrape.value("tablekeeper_transactions_total"), Scrape::of(&address).await);
    assert!(transactions >= 1.0 && later.value("tablekeeper_requests_total{operation=\"transact\"}") >= transactions);
    // A ledger row for each item at least, and writes in a transaction count twice.
    assert!(later.value("tablekeeper_consumed_units_total{kind=\"write\"}") >= 2.0 * written as f64);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(&address, path).await, (200, "ok\n".to_owned()), "{path}");
    }

    // The port is taken: a fault of the command line, said before any work.
    let second = run(&[&arguments[..], &["--listen", &address]].concat()).await.expect(2);
    assert!(second.says(&format!("cannot listen on {address}")), "{:?}", second.log);

    worker.terminate();
    let ended = worker.end().await.expect(0);
    assert_log(&ended.log);
    assert!(TcpStream::connect(&address).await.is_err(), "the server ends with the worker");
    database.shutdown().await;
}

/// On a first start the whole table may have to be read before the first record: somebody must see that it goes on, and be able to
/// stop it.
#[tokio::test]
async fn a_worker_is_watched_and_stopped_while_it_looks_through_a_large_table() {
    let (database, model) = (Embedded::start(None).unwrap(), quality());
    let connection = Connection::local(database.endpoint()).await.unwrap();
    connection.create_table(&model.table).await.unwrap();
    // As slow as can be: scans of the user's own table are not answered at all.
    let table = format!("\"TableName\":\"{}\"", model.table.name);
    let held = move |request: &str| request.contains("DynamoDB_20120810.Scan") && request.contains(&table);
    let (endpoint, asked) = holding_proxy(database.endpoint(), held).await;
    let arguments = ["worker", "--model", "quality", "--endpoint", &endpoint, "--log-json", "--listen", "127.0.0.1:0"];
    let worker = Program::start(&arguments);
    let address = tokio::time::timeout(PATIENCE, address(&worker)).await.unwrap();
    tokio::time::timeout(PATIENCE, asked.notified()).await.expect("it looks through the table");
    assert_eq!(get(&address, "/healthz").await, (200, "ok\n".to_owned()));
    let (status, reason) = get(&address, "/readyz").await;
    assert!(status == 503 && reason.starts_with("the stream has not been described yet"), "{status} {reason}");

    let asked_to_stop = SystemClock::new().now();
    worker.terminate();
    let ended = worker.end().await.expect(0);
    let took = SystemClock::new().now() - asked_to_stop;
    assert!(took.num_seconds() < 5, "{took}");
    assert!(!ended.says("reading the stream"), "{:?}", ended.log);
    database.shutdown().await;
}

/// Passes requests on, except those that are `held`: they get no answer, and the other end of the pair is told of each.
async fn holding_proxy(
    endpoint: &str,
    held: impl Fn(&str) -> bool + Send + Sync + 'static,
) -> (String, Arc<tokio::sync::Notify>) {
    let database = endpoint.strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (held, asked) = (Arc::new(held), Arc::new(tokio::sync::Notify::new()));
    let told = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (database, held, told) = (database.clone(), Arc::clone(&held), Arc::clone(&told));
            tokio::spawn(async move {
                let mut server = TcpStream::connect(database).await.unwrap();
                while let Some(request) = message(&mut client).await {
                    if held(&String::from_utf8_lossy(&request)) {
                        told.notify_one();
                        return std::future::pending().await;
                    }
                    server.write_all(&request).await.unwrap();
                    let Some(answer) = message(&mut server).await else { return };
                    client.write_all(&answer).await.unwrap();
                }
            });
        }
    });
    (format!("http://{address}"), asked)
}

/// Every line is JSON with documented fields only, and none names an item.
fn assert_log(log: &[String]) {
    let documented: BTreeSet<&str> = LOG_FIELDS.iter().map(|(name, _)| *name).chain(["message"]).collect();
    for line in log {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let fields = line["fields"].as_object().unwrap();
        assert!(fields.keys().all(|field| documented.contains(field.as_str())), "{line}");
        assert!(!line.to_string().contains("tech001"), "{line}");
    }
}

/// Names of the fields of the log lines that a source file writes.
fn log_fields(text: &str) -> BTreeSet<String> {
    let (code, _) = without_tests(&code_only(text));
    let mut fields = BTreeSet::new();
    for level in ["error!(", "warn!(", "info!(", "debug!(", "trace!("] {
        for (at, _) in code.match_indices(level) {
            let mut depth = 0;
            let end = code[at + level.len()..].find(|c: char| {
                depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
                depth < 0
            });
            let arguments = &code[at + level.len()..at + level.len() + end.expect("a closed call")];
            fields.extend(split(arguments).into_iter().filter(|name| !name.is_empty()));
        }
    }
    fields
}

/// What stands before `=` in each argument.
fn split(arguments: &str) -> Vec<String> {
    let mut depth = 0;
    let parts = arguments.split(|c: char| {
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        depth == 0 && c == ','
    });
    parts
        .map(|part| part.split('=').next().unwrap_or_default().trim().trim_start_matches(['%', '?']).to_owned())
        .collect()
}

#[test]
fn every_field_of_the_log_is_documented_and_used() {
    assert_eq!(split(" a, b = f(x, y), %c, ").join(" "), "a b c ");
    let used: BTreeSet<String> = files("src", &[".rs"]).iter().flat_map(|file| log_fields(&file.text)).collect();
    let documented: BTreeSet<String> = LOG_FIELDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(used, documented);
}

#[test]
fn the_readme_lists_the_metrics_as_they_are() {
    let table = metrics_table();
    assert!(include_str!("../../README.md").contains(&table), "put this into README.md, section Operations:\n{table}");
}

/// A server without a worker, on tables in memory.
struct Served {
    store: SimStore,
    telemetry: Arc<Telemetry<SystemClock>>,
    address: String,
    stop: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Served {
    async fn start() -> Served {
        let model = Arc::new(quality());
        let store = SimStore::new(&model.table);
        let telemetry = Arc::new(Telemetry::new(SystemClock::new()).unwrap());
        let listening: Listening = http::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listening.address.to_string();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let stopped = async move { stopped.await.unwrap_or_default() };
        let task = http::serve(listening, telemetry.clone(), store.clone(), model, Consumption::default, stopped);
        Served { store, telemetry, address, stop, task: tokio::spawn(task) }
    }

    fn told(&self, progress: Progress<'_, BatchReport>) {
        self.telemetry.progress(progress);
    }
}

#[tokio::test]
async fn readiness_follows_the_worker() {
    let served = Served::start().await;
    let ready = async || get(&served.address, "/readyz").await;
    let (status, reason) = ready().await;
    assert!(status == 503 && reason.starts_with("the stream has not been described yet"), "{status} {reason}");
    assert_eq!(get(&served.address, "/healthz").await.0, 200, "young, not stuck");
    served.told(Progress::Started { arn: "arn", shards: 1, resumed: 0 });
    served.told(Progress::Read { records: 1 });
    assert_eq!(ready().await.0, 200);
    let (shard, error) = (ShardKey { arn: "arn".into(), shard: "s".into() }, std::io::Error::other("x"));
    served.told(Progress::BatchFailed { shard: &shard, attempt: 2, error: &error });
    assert_eq!(ready().await.0, 503);
    served.told(Progress::Batch { shard: &shard, shards: 1, records: 1, report: &BatchReport::default() });
    assert_eq!(ready().await.0, 200);
    assert_eq!(get(&served.address, "/elsewhere").await.0, 404);
}

#[tokio::test]
async fn a_database_that_does_not_answer_leaves_the_rest_of_the_metrics() {
    let served = Served::start().await;
    served.store.inject(Fault::Read(StoreError::Unavailable("away".to_owned())));
    let scrape = Scrape::of(&served.address).await;
    assert_eq!(scrape.value("tablekeeper_census_failures_total"), 1.0);
    assert!(!scrape.names().contains("tablekeeper_quarantine_rows"), "there is no value to serve");
    assert_eq!(scrape.value("tablekeeper_transactions_total"), 0.0);
    // Not asked again at once.
    assert_eq!(Scrape::of(&served.address).await.value("tablekeeper_census_failures_total"), 1.0);
}

#[tokio::test]
async fn a_client_that_never_asks_does_not_hold_up_the_end() {
    let served = Served::start().await;
    let mut idle = TcpStream::connect(&served.address).await.unwrap();
    idle.write_all(b"GET /metrics HTTP/1.1\r\n").await.unwrap();
    assert_eq!(get(&served.address, "/healthz").await.0, 200);
    served.stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(10), served.task).await.unwrap().unwrap().unwrap();
}
