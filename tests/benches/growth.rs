//! One batch of 1,000 changes as the table grows: requests, units and time must follow what changed, not the table.

use std::sync::Arc;

use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::engine::batch::{Engine, OldImages};
use tablekeeper::model::value::Item;

use crate::cost::{record, stopwatch};
use crate::workload::{ORDERS, Draw, model, order, tables};
use crate::{Figure, milliseconds};

/// Items in the table when the batch comes.
const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Items put at once.
const CHUNK: usize = 5_000;

pub async fn run() -> Vec<Figure> {
    let model = Arc::new(model());
    let (embedded, connection, store) = tables(&model).await;
    let engine = Engine::new(Arc::clone(&model), store, SystemClock::new());
    let mut draw = Draw(3);
    let mut figures = Vec::new();
    let mut there = 0;
    for size in SIZES {
        while there < size {
            let end = size.min(there + CHUNK);
            let items: Vec<Item> = (there..end).map(|n| order(n, draw.below(20), draw.below(50), "Pending")).collect();
            connection.put_items(&model.table.name, &items).await.expect("items can be put");
            // The last thousand have been applied before, so that their change is a change.
            if end == size {
                let last = &items[items.len() - ORDERS..];
                let inserts: Vec<_> = last.iter().enumerate().map(|(n, new)| record(&model, size + n, None, new)).collect();
                engine.apply(&inserts, OldImages::Trusted).await.expect("the inserts can be applied");
                figures.push(batch(&engine, &connection, size, last).await);
            }
            there = end;
        }
    }
    embedded.shutdown().await;
    figures
}

async fn batch(
    engine: &Engine<tablekeeper::adapters::dynamodb::DynamoStore, SystemClock>,
    connection: &tablekeeper::adapters::dynamodb::Connection,
    size: usize,
    last: &[Item],
) -> Figure {
    let changed = |item: &Item| item.clone().with("Status", tablekeeper::model::value::Value::text("Complete"));
    let changes: Vec<_> = last
        .iter()
        .enumerate()
        .map(|(n, old)| record(&engine.model, 10_000_000 + size + n, Some(old), &changed(old)))
        .collect();
    let start = connection.usage().snapshot();
    let clock = stopwatch();
    engine.apply(&changes, OldImages::Trusted).await.expect("the changes can be applied");
    let time = clock.elapsed();
    let spent = connection.usage().snapshot().since(&start);
    let units = spent.write_half_units as f64 / 2.0;
    Figure::new(
        format!("1,000 changes in a table of {size} items"),
        format!("{} requests, {units} write units, {}", spent.table_calls(), milliseconds(time)),
    )
}
