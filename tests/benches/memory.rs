//! Memory of a worker that reads 2,000 shards. The worker is a process of its own, for everything else here has memory too; its
//! stream is made up on the fly, its tables are the embedded database's in the parent.

use std::process::Command;
use std::sync::Arc;

use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::engine::batch::Engine;
use tablekeeper::engine::leases::LeaseSettings;
use tablekeeper::engine::ports::{
    RecordPage, ShardIterator, ShardListing, ShardStart, StreamDescription, StreamError, StreamSource,
};
use tablekeeper::engine::worker::{NoRepair, Worker, WorkerSettings};
use tablekeeper::model::spec::Model;

use crate::Figure;
use crate::stream::Counter;
use crate::workload::{inserts, model, orders, tables};

/// The argument by which the bench runs itself as the worker; the database's endpoint follows.
pub const CHILD: &str = "as-a-worker-of-many-shards";
const SHARDS: usize = 2_000;
/// So many of them have full pages, as after a pause; the others have a few records each.
const BUSY: usize = 10;
const BUSY_RECORDS: usize = 1_000;
const QUIET_RECORDS: usize = 5;
const PAGE: usize = 1_000;
const MEGABYTES_MAX: f64 = 150.0;

/// Shards whose records are inserts of orders that are made when they are asked for.
struct MadeUp {
    model: Arc<Model>,
}

/// The first order of a shard, and how many it has.
fn of_shard(shard: usize) -> (usize, usize) {
    (shard * BUSY_RECORDS, if shard < BUSY { BUSY_RECORDS } else { QUIET_RECORDS })
}

impl StreamSource for MadeUp {
    async fn describe(&self) -> Result<StreamDescription, StreamError> {
        let shards = (0..SHARDS).map(|shard| ShardListing { id: format!("shardId-{shard:020}"), parent: None });
        let arn = format!("arn:aws:dynamodb:eu-central-1:000000000000:table/{}/stream/1", self.model.table.name);
        Ok(StreamDescription { arn, shards: shards.collect() })
    }

    async fn iterator(&self, shard: &str, start: &ShardStart) -> Result<ShardIterator, StreamError> {
        assert_eq!(*start, ShardStart::TrimHorizon, "every shard is new, and no iterator expires");
        Ok(ShardIterator(format!("{shard}|0")))
    }

    async fn records(&self, iterator: &ShardIterator) -> Result<RecordPage, StreamError> {
        let (shard, at) = iterator.0.split_once('|').ok_or(StreamError::NoShard)?;
        let number = |text: &str| text.trim_start_matches("shardId-").parse().map_err(|_| StreamError::NoShard);
        let (shard_number, at): (usize, usize) = (number(shard)?, number(at)?);
        let (first, count) = of_shard(shard_number);
        let until = count.min(at + PAGE);
        let records = inserts(&self.model, first + at, &orders(first + at..first + until));
        Ok(RecordPage { records, next: Some(ShardIterator(format!("{shard}|{until}"))) })
    }
}

/// The worker: reads all shards to their tips, keeps them a while, and prints how much memory it ever had.
pub async fn work(endpoint: &str) {
    let model = Arc::new(model());
    let (_, store) = tables(endpoint, &model, false).await;
    let engine = Engine::new(Arc::clone(&model), store.clone(), SystemClock::new());
    let leases = LeaseSettings { worker: "bench".to_owned(), lease_time: std::time::Duration::from_secs(10) };
    let settings = WorkerSettings { leases: Some(leases), ..WorkerSettings::new(model.hash.clone()) };
    let counter = Counter::default();
    let worker = Worker {
        sink: &engine,
        store: &store,
        stream: &MadeUp { model: Arc::clone(&model) },
        clock: &engine.clock,
        observer: &counter,
        repair: &NoRepair,
        settings: &settings,
    };
    let all: usize = (0..SHARDS).map(|shard| of_shard(shard).1).sum();
    let stop = async {
        counter.reached(all).await;
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    };
    let report = worker.run(stop).await.expect("the stream can be read");
    println!("{} {all} {}", peak_kilobytes().unwrap_or_default(), report.reads);
}

/// The most memory that this process ever had resident, where the system tells.
pub fn peak_kilobytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok())
}

pub async fn run() -> Vec<Figure> {
    let embedded = Embedded::start(None).expect("the embedded database starts");
    let endpoint = embedded.endpoint().to_owned();
    let child = tokio::task::spawn_blocking(move || {
        let program = std::env::current_exe().expect("a program knows where it is");
        Command::new(program).args([CHILD, &endpoint]).output().expect("the bench can be run")
    });
    let output = child.await.expect("waiting does not panic");
    embedded.shutdown().await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let [kilobytes, records, reads]: [u64; 3] = {
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        numbers.try_into().expect("the worker prints three numbers")
    };
    let megabytes = kilobytes as f64 * 1024.0 / 1e6;
    let value = match kilobytes {
        0 => "not told by this system".to_owned(),
        _ => format!("{megabytes:.0} MB at most, {records} records in {reads} pages"),
    };
    let met = kilobytes > 0 && megabytes < MEGABYTES_MAX;
    let figure = Figure::new(format!("memory of a worker with {SHARDS} shards"), value);
    vec![figure.target(&format!("under {MEGABYTES_MAX} MB"), met)]
}
