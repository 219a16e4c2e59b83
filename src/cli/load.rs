//! `load`: a file of items into a table, which is made with its indexes and its stream where there is none.

use std::path::Path;

use serde::Serialize;
use tablekeeper::adapters::dynamodb::{Connection, Created};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::engine::ports::StoreError;
use tablekeeper::model::key::{PARTITION_KEY_SIZE_MAX, SORT_KEY_SIZE_MAX, TableKey};
use tablekeeper::model::spec::{KeyAttribute, Model, Table};
use tablekeeper::model::value::{ITEM_SIZE_MAX, Item, Value};

use super::args::{LoadArgs, OutputFormat};
use super::connect::{Database, bar};
use super::context::{Exit, Outcome, Stop, model_for_table, usage};
use super::input::{self, FromFile, Superseded};
use super::output::{count, json, line};

/// Items between two moves of the progress bar: those of one request.
const STEP: usize = 25;

#[derive(Serialize)]
struct LoadOut<'l> {
    table: &'l str,
    created: bool,
    loaded: usize,
    /// Items that Tablekeeper had derived: a worker makes them anew.
    derived_left_out: usize,
    superseded: &'l [Superseded],
}

/// An item and its line.
struct Line {
    number: usize,
    item: Item,
}

pub async fn run(args: &LoadArgs, format: OutputFormat) -> Outcome {
    let model = model_for_table(&args.table)?;
    let found = read(&model, &args.items)?;
    let database = Database::open(&args.table, true).await?;
    let mut created = Created::Before;
    if args.create || args.table.data_dir.is_some() {
        created = database.connection.create_table(&model.table).await?;
    }
    database.table(&model.table).await?;
    args.table.data_dir.as_deref().map_or(Ok(()), Embedded::made).map_err(usage)?;
    write(&database.connection, &model.table, &args.items, &found.read).await?;
    database.close().await;
    let loaded = found.read.len();
    match format {
        OutputFormat::Json => json(&LoadOut {
            table: &model.table.name,
            created: created == Created::Now,
            loaded,
            derived_left_out: found.derived,
            superseded: &found.superseded,
        })?,
        OutputFormat::Text => {
            let made = match created {
                Created::Now => format!(", which was made with {} and a stream", indexes(&model.table)),
                Created::Before => String::new(),
            };
            let left_out = match found.derived {
                0 => String::new(),
                n => format!("; {} left out, a worker makes them anew", count(n, "derived item")),
            };
            let passed_over = input::unused(found.faults.len(), found.superseded.len());
            line(format_args!(
                "{} in table `{}`{made}{left_out}{passed_over}",
                count(loaded, "item"),
                model.table.name
            ));
        }
    }
    Ok(Exit::Fine)
}

fn indexes(table: &Table) -> String {
    count(table.indexes.len(), "index").replace("indexs", "indexes")
}

/// The items of the file. One line that cannot be used, and nothing is loaded: half a file is a table that nobody meant.
fn read(model: &Model, path: &Path) -> Result<FromFile<Vec<Line>>, Stop> {
    let mut found =
        input::read(model, path, |lines: &mut Vec<Line>, number, _, item| lines.push(Line { number, item }))?;
    for Line { number, item } in &found.read {
        let misfit = misfits(&model.table, item);
        found.faults.extend(misfit.map(|reason| format!("{}: line {number}: {reason}", path.display())));
    }
    input::show(&found, Exit::Usage);
    if found.faults.is_empty() {
        return Ok(found);
    }
    let error = format!("{} cannot be loaded; nothing was written", count(found.faults.len(), "line"));
    Err(usage(anyhow::anyhow!("{error}: mend the file, then load again")))
}

/// Why the table or one of its indexes would refuse the item.
fn misfits(table: &Table, item: &Item) -> Option<String> {
    if item.size() > ITEM_SIZE_MAX {
        return Some(format!("the item has {} bytes, DynamoDB stores {ITEM_SIZE_MAX}", item.size()));
    }
    let partitions =
        std::iter::once(&table.partition_key).chain(table.indexes.iter().flat_map(|index| &index.partition));
    let sorts = table.sort_key.iter().chain(table.indexes.iter().flat_map(|index| &index.sort));
    let keys = partitions.map(|key| (key, PARTITION_KEY_SIZE_MAX)).chain(sorts.map(|key| (key, SORT_KEY_SIZE_MAX)));
    keys.into_iter().find_map(|(key, size_max)| misfit(key, size_max, item))
}

/// Why a key attribute cannot have the item's value.
fn misfit(key: &KeyAttribute, size_max: usize, item: &Item) -> Option<String> {
    let value = item.get(&key.name)?;
    let (is, wanted) = (value.kind(), key.kind);
    if is != wanted {
        let shown = value.shown();
        return Some(format!("`{}` is {shown} of type {}, the key has type {}", key.name, is.name(), wanted.name()));
    }
    if value.size() > size_max {
        return Some(format!("`{}` has {} bytes, a key there has {size_max} at most", key.name, value.size()));
    }
    let is_empty = matches!(value, Value::S(_) | Value::B(_)) && value.size() == 0;
    is_empty.then(|| format!("`{}` is empty, which no key can be", key.name))
}

async fn write(connection: &Connection, table: &Table, path: &Path, lines: &[Line]) -> Result<(), Stop> {
    let bar = bar(lines.len() as u64, "items");
    for (number, step) in lines.chunks(STEP).enumerate() {
        let before = number * STEP;
        let items: Vec<Item> = step.iter().map(|line| line.item.clone()).collect();
        let written = match connection.put_items(&table.name, &items).await {
            // One item of the batch is at fault, and the answer does not say which.
            Err(StoreError::Refused(_)) => put_singly(connection, table, path, step).await,
            other => other.map_err(|error| (0, anyhow::Error::new(error))),
        };
        if let Err((of_step, error)) = written {
            bar.finish_and_clear();
            let all = lines.len();
            let so_far = format!("at least {} of {all} items are written", before + of_step);
            return Err(error
                .context(format!(
                    "the load is not complete: {so_far}; mend the cause and load again, what is there is written over"
                ))
                .into());
        }
        bar.inc(step.len() as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Writes items one by one up to the one that is refused, which the error names.
async fn put_singly(
    connection: &Connection,
    table: &Table,
    path: &Path,
    lines: &[Line],
) -> Result<(), (usize, anyhow::Error)> {
    for (written, line) in lines.iter().enumerate() {
        if let Err(error) = connection.put_item(&table.name, &line.item).await {
            let key = TableKey::of(&line.item, &table.key_names()).map(|key| key.to_string()).unwrap_or_default();
            let place = format!("{}: line {}: item `{key}`", path.display(), line.number);
            return Err((written, anyhow::Error::new(error).context(place)));
        }
    }
    Ok(())
}
