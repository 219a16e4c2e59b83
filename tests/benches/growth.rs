//! One batch of 1,000 changes as the table grows: requests, units and time must follow what changed, not the table.

use std::sync::Arc;
use std::time::Duration;

use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::{Connection, DynamoStore};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::engine::batch::{Engine, OldImages};
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::Item;

use crate::workload::{ORDERS, changes, inserts, ledger_row, model, orders, pending, tables};
use crate::{Figure, milliseconds, stopwatch};

/// Holds the largest table to be tried, for those who cannot wait for a million items.
const ITEMS_VARIABLE: &str = "TABLEKEEPER_BENCH_ITEMS";
/// Items in the table when the batches come.
const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Batches at each size; the median counts.
const BATCHES: usize = 5;
/// In place of a size, for the numbers of the items that warm everything up.
const WARM_UP: usize = 500_000;
/// Items put at once.
const CHUNK: usize = 5_000;
/// What passes for noise between the fastest and the slowest size.
const NOISE_MAX: f64 = 1.5;

pub async fn run() -> Vec<Figure> {
    let embedded = Embedded::start(None).expect("the embedded database starts");
    let model = Arc::new(model());
    let (connection, store) = tables(embedded.endpoint(), &model, false).await;
    let engine = Engine::new(Arc::clone(&model), store, SystemClock::new());
    let (mut figures, mut medians, mut there) = (Vec::new(), Vec::new(), 0);
    let most = std::env::var(ITEMS_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
    for size in SIZES.into_iter().filter(|size| *size <= most) {
        while there < size {
            let end = size.min(there + CHUNK);
            load(&connection, &model, there..end).await;
            there = end;
        }
        if medians.is_empty() {
            // Connections, caches and prepared statements, which the first size alone would pay for.
            let _warm = batches(&engine, &connection, WARM_UP).await;
        }
        let (figure, median) = batches(&engine, &connection, size).await;
        figures.push(figure);
        medians.push(median.as_secs_f64());
    }
    embedded.shutdown().await;
    let (least, most) = (medians.iter().copied().fold(f64::MAX, f64::min), medians.iter().copied().fold(0.0, f64::max));
    let figure = Figure::new("slowest to fastest of these", format!("{:.2} x", most / least));
    figures.push(figure.target(&format!("flat, within {NOISE_MAX} x"), most / least <= NOISE_MAX));
    figures
}

/// Puts work orders with their ledger rows, as they are when they have been applied; only the aggregates know nothing of them.
async fn load(connection: &Connection, model: &Model, numbers: std::ops::Range<usize>) {
    let items: Vec<Item> = numbers.map(pending).collect();
    let rows: Vec<Item> = items.iter().map(|item| ledger_row(model, item).to_item()).collect();
    let (source, state) = (&model.table.name, &model.table.state_table);
    connection.put_items(source, &items).await.expect("items can be put");
    connection.put_items(state, &rows).await.expect("rows can be put");
}

/// Batches of work orders that are new to the table and are then changed; the changes are measured.
async fn batches(
    engine: &Engine<DynamoStore, SystemClock>,
    connection: &Connection,
    size: usize,
) -> (Figure, Duration) {
    let mut times = Vec::new();
    let mut cost = String::new();
    for batch in 0..BATCHES {
        // Numbers of their own, far from the loaded ones, so that every size is asked the same.
        let from = 2_000_000 + size + batch * ORDERS;
        let orders = orders(from..from + ORDERS);
        engine.apply(&inserts(&engine.model, from, &orders), OldImages::Trusted).await.expect("inserts can be applied");
        let records = changes(&engine.model, 10_000_000 + from, &orders);
        let start = connection.usage().snapshot();
        let clock = stopwatch();
        engine.apply(&records, OldImages::Trusted).await.expect("changes can be applied");
        times.push(clock.elapsed());
        let spent = connection.usage().snapshot().since(&start);
        cost = format!("{} requests, {} write units", spent.table_calls(), spent.write_half_units as f64 / 2.0);
    }
    times.sort();
    let median = times[BATCHES / 2];
    let what = format!("1,000 changes in a table of {size} items");
    (Figure::new(what, format!("{cost}, {}", milliseconds(median))), median)
}
