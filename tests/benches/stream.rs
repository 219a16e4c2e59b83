//! Changes a second from the application's write to the derived count, on the embedded database: the same process is database,
//! application and worker.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::DynamoStream;
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::engine::batch::{BatchReport, Engine};
use tablekeeper::engine::shards::ShardSettings;
use tablekeeper::engine::verify::verify;
use tablekeeper::engine::worker::{NoRepair, Observer, Progress, Worker, WorkerSettings};
use tablekeeper::model::value::Item;
use tokio::sync::Notify;

use crate::workload::{model, orders, tables};
use crate::{Figure, stopwatch};

/// Work orders that are written, and then changed.
const CHANGES: usize = 1_000;

/// Counts the records of source items that are applied, and says when a number of them is.
#[derive(Default)]
pub struct Counter {
    seen: Mutex<(usize, Option<Instant>)>,
    news: Notify,
}

impl Observer<BatchReport> for Counter {
    fn progress(&self, progress: Progress<'_, BatchReport>) {
        if let Progress::Batch { report, .. } = progress {
            let mut seen = self.seen.lock().expect("nobody panics with it");
            *seen = (seen.0 + report.records - report.ours, Some(stopwatch()));
            self.news.notify_one();
        }
    }
}

impl Counter {
    /// When the `count`-th record had been applied.
    pub async fn reached(&self, count: usize) -> Instant {
        loop {
            let seen = *self.seen.lock().expect("nobody panics with it");
            match seen {
                (applied, Some(at)) if applied >= count => return at,
                _ => self.news.notified().await,
            }
        }
    }
}

pub async fn run() -> Vec<Figure> {
    let embedded = Embedded::start(None).expect("the embedded database starts");
    let model = Arc::new(model());
    let (connection, store) = tables(embedded.endpoint(), &model, true).await;
    let engine = Engine::new(Arc::clone(&model), store.clone(), SystemClock::new());
    let stream = DynamoStream::of_table(&connection, &model.table.name).await.expect("the table has a stream");
    let settings = WorkerSettings { shards: ShardSettings::fast(), ..WorkerSettings::new(model.hash.clone()) };
    let counter = Counter::default();
    let worker = Worker {
        sink: &engine,
        store: &store,
        stream: &stream,
        clock: &engine.clock,
        observer: &counter,
        repair: &NoRepair,
        settings: &settings,
    };
    let (before, after): (Vec<Item>, Vec<Item>) = orders(0..CHANGES).into_iter().unzip();
    let mut figures = Vec::new();
    let measured = async {
        for (round, (what, items)) in [("inserts", &before), ("changes", &after)].into_iter().enumerate() {
            let start = stopwatch();
            connection.put_items(&model.table.name, items).await.expect("items can be put");
            let written = start.elapsed().as_secs_f64();
            let derived = counter.reached(CHANGES * (round + 1)).await.duration_since(start).as_secs_f64();
            let value = format!(
                "{:.0} a second ({derived:.2} s, of which {written:.2} s beside the writer)",
                CHANGES as f64 / derived
            );
            figures.push(Figure::new(format!("written, read and derived: {CHANGES} {what}"), value));
        }
    };
    worker.run(measured).await.expect("the stream can be read");
    let verdict = verify(&model, &store, &engine.clock).await.expect("the table can be verified");
    assert_eq!(verdict.differences.len(), 0, "a figure of wrong counts says nothing");
    embedded.shutdown().await;
    figures
}
