//! Requests, capacity units and wall time for 1,000 status changes on the embedded database, beside two naive handlers in the
//! same run; and changes a second from the write to the derived count.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::{Connection, DynamoStore, DynamoStream};
use tablekeeper::engine::batch::{Engine, OldImages};
use tablekeeper::engine::shards::ShardSettings;
use tablekeeper::engine::verify::verify;
use tablekeeper::engine::worker::{NoRepair, Unobserved, Worker, WorkerSettings};
use tablekeeper::model::change::RawRecord;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::Item;

use crate::naive::{Spent, add_each, transact_each};
use crate::workload::{model, orders, tables};
use crate::{Figure, milliseconds};

/// Sequence numbers begin here.
const SEQUENCE: u128 = 100_000_000_000_000_000_000_000;

/// The record of a change, as the stream has it.
pub fn record(model: &Model, number: usize, old: Option<&Item>, new: &Item) -> RawRecord {
    let names = model.table.key_names();
    let key = TableKey::of(new, &names).expect("an order has a key");
    RawRecord {
        event_name: Some(if old.is_some() { "MODIFY" } else { "INSERT" }.to_owned()),
        event_id: Some(number.to_string()),
        sequence: Some((SEQUENCE + number as u128).to_string()),
        keys: Some(Ok(key.to_item(&names))),
        new_image: Some(Ok(new.clone())),
        old_image: old.map(|old| Ok(old.clone())),
        ..RawRecord::default()
    }
}

#[allow(clippy::disallowed_methods, reason = "a bench measures time")]
pub fn stopwatch() -> Instant {
    Instant::now()
}

pub async fn run() -> Vec<Figure> {
    let model = Arc::new(model());
    let (embedded, connection, store) = tables(&model).await;
    let orders = orders(11);
    let before: Vec<Item> = orders.iter().map(|(before, _)| before.clone()).collect();
    connection.put_items(&model.table.name, &before).await.expect("items can be put");
    let engine = Engine::new(Arc::clone(&model), store.clone(), SystemClock::new());
    let inserts: Vec<RawRecord> =
        orders.iter().enumerate().map(|(number, (new, _))| record(&model, number, None, new)).collect();
    engine.apply(&inserts, OldImages::Trusted).await.expect("the inserts can be applied");

    let changes: Vec<RawRecord> = orders
        .iter()
        .enumerate()
        .map(|(number, (old, new))| record(&model, 10_000 + number, Some(old), new))
        .collect();
    let start = connection.usage().snapshot();
    let clock = stopwatch();
    let report = engine.apply(&changes, OldImages::Trusted).await.expect("the changes can be applied");
    let ours = clock.elapsed();
    let spent = connection.usage().snapshot().since(&start);
    let mut figures = vec![
        Figure::new(
            "1,000 changes, Tablekeeper",
            format!(
                "{} requests, {} write units, {} read units, {} ({} transactions, {} actions)",
                spent.table_calls(),
                spent.write_half_units as f64 / 2.0,
                spent.read_half_units as f64 / 2.0,
                milliseconds(ours),
                report.transactions,
                report.actions,
            ),
        ),
    ];
    figures.extend(naive(&connection, &model, &orders, ours).await);
    figures.push(end_to_end(&connection, &store, &model, &orders).await);
    embedded.shutdown().await;
    figures
}

async fn naive(connection: &Connection, model: &Model, orders: &[(Item, Item)], ours: Duration) -> Vec<Figure> {
    let (client, table) = (connection.client(), &model.table.name);
    let figure = |what: &str, spent: Spent, time: Duration| {
        let times = time.as_secs_f64() / ours.as_secs_f64();
        let text = format!("{} requests, {} write units, {}: {times:.1} x", spent.requests, spent.units, milliseconds(time));
        Figure::new(format!("1,000 changes, {what}"), text)
    };
    let clock = stopwatch();
    let adds = add_each(client, table, orders).await;
    let adds = figure("naive: one ADD a count", adds, clock.elapsed());
    let clock = stopwatch();
    let transactions = transact_each(client, table, orders).await;
    let transactions = figure("naive: one transaction a record", transactions, clock.elapsed());
    vec![adds, transactions]
}

/// The changed orders are written to the table, and a worker reads its stream to the tip.
async fn end_to_end(connection: &Connection, store: &DynamoStore, model: &Arc<Model>, orders: &[(Item, Item)]) -> Figure {
    let after: Vec<Item> = orders.iter().map(|(_, after)| after.clone()).collect();
    let clock = stopwatch();
    connection.put_items(&model.table.name, &after).await.expect("items can be put");
    let engine = Engine::new(Arc::clone(model), store.clone(), SystemClock::new());
    let stream = DynamoStream::of_table(connection, &model.table.name).await.expect("the table has a stream");
    let settings = WorkerSettings {
        shards: ShardSettings::fast(),
        until_idle: true,
        ..WorkerSettings::new(model.hash.clone())
    };
    let worker = Worker {
        sink: &engine,
        store,
        stream: &stream,
        clock: &engine.clock,
        observer: &Unobserved,
        repair: &NoRepair,
        settings: &settings,
    };
    let report = worker.run(std::future::pending()).await.expect("the stream can be read");
    let time = clock.elapsed();
    let verdict = verify(model, store, &engine.clock).await.expect("the table can be verified");
    let rate = report.records as f64 / time.as_secs_f64();
    let text = format!("{rate:.0} records/s, {}; {} differences", milliseconds(time), verdict.differences.len());
    Figure::new(format!("stream to derived, {} records", report.records), text)
}
