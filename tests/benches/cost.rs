//! Requests, capacity units and wall time for 1,000 status changes, beside two naive handlers in the same run, on each database
//! that there is.

use std::sync::Arc;
use std::time::Duration;

use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::Connection;
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::engine::batch::{Engine, OldImages};
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::Item;

use crate::naive::{Spent, add_each, transact_each};
use crate::workload::{ORDERS, changes, inserts, model, orders, tables};
use crate::{Figure, milliseconds, stopwatch};

/// Names the endpoint of a DynamoDB Local.
const LOCAL_VARIABLE: &str = "TABLEKEEPER_DYNAMODB_LOCAL";
const REQUESTS_MAX: u64 = 30;
const WRITE_UNITS_MAX: f64 = 3_200.0;
const TIMES_MIN: f64 = 10.0;
/// Only the last one is measured.
const ROUNDS: usize = 4;

pub async fn run() -> Vec<Figure> {
    let embedded = Embedded::start(None).expect("the embedded database starts");
    let mut figures = on("embedded", embedded.endpoint()).await;
    embedded.shutdown().await;
    match std::env::var(LOCAL_VARIABLE) {
        Ok(endpoint) => figures.extend(on("DynamoDB Local", &endpoint).await),
        Err(_) => {
            figures.push(Figure::new("1,000 changes on DynamoDB Local", format!("not run: set {LOCAL_VARIABLE}")))
        }
    }
    figures
}

async fn on(database: &str, endpoint: &str) -> Vec<Figure> {
    let model = Arc::new(model());
    let (connection, store) = tables(endpoint, &model, false).await;
    let engine = Engine::new(Arc::clone(&model), store, SystemClock::new());
    // All but the last thousand warm everything up: connections, prepared statements, a virtual machine's compiler, which takes its
    // time with a path that is taken 25 times a round.
    for round in 0..ROUNDS {
        let from = round * ORDERS;
        let orders = orders(from..from + ORDERS);
        let before: Vec<Item> = orders.iter().map(|(before, _)| before.clone()).collect();
        connection.put_items(&model.table.name, &before).await.expect("items can be put");
        engine.apply(&inserts(&model, from, &orders), OldImages::Trusted).await.expect("the inserts can be applied");
        let records = changes(&model, 10_000 + from, &orders);
        let start = connection.usage().snapshot();
        let clock = stopwatch();
        let report = engine.apply(&records, OldImages::Trusted).await.expect("the changes can be applied");
        let ours = clock.elapsed();
        let spent = connection.usage().snapshot().since(&start);
        if round + 1 < ROUNDS {
            naive(database, &connection, &model, &orders, ours, round).await;
            continue;
        }
        let (requests, write_units) = (spent.table_calls(), spent.write_half_units as f64 / 2.0);
        let value = format!(
            "{requests} requests ({} transactions), {write_units} write units, {} read units, {}",
            report.transactions,
            spent.read_half_units as f64 / 2.0,
            milliseconds(ours),
        );
        let met = requests <= REQUESTS_MAX && write_units <= WRITE_UNITS_MAX;
        let figure = Figure::new(format!("1,000 changes on {database}"), value);
        let target = format!("at most {REQUESTS_MAX} requests, {WRITE_UNITS_MAX} write units");
        let mut figures = vec![figure.target(&target, met)];
        figures.extend(naive(database, &connection, &model, &orders, ours, round).await);
        return figures;
    }
    Vec::new()
}

async fn naive(
    database: &str,
    connection: &Connection,
    model: &Model,
    orders: &[(Item, Item)],
    ours: Duration,
    round: usize,
) -> Vec<Figure> {
    let (client, table) = (connection.client(), &model.table.name);
    let figure = |what: &str, spent: Spent, time: Duration, met: Option<bool>| {
        let times = time.as_secs_f64() / ours.as_secs_f64();
        let text =
            format!("{} requests, {} write units, {}: {times:.1} x", spent.requests, spent.units, milliseconds(time));
        let figure = Figure::new(format!("  {what}, {database}"), text);
        match met {
            Some(met) => figure.target(&format!("at least {TIMES_MIN} x"), met),
            None => figure,
        }
    };
    let clock = stopwatch();
    let adds = add_each(client, table, orders).await;
    let time = clock.elapsed();
    let met = time.as_secs_f64() >= TIMES_MIN * ours.as_secs_f64();
    let adds = figure("naive: one ADD a count", adds, time, Some(met));
    let clock = stopwatch();
    let transactions = transact_each(client, table, orders, round).await;
    let transactions = figure("naive: one transaction a record", transactions, clock.elapsed(), None);
    vec![adds, transactions]
}
