//! `init` for who has a table already: a model from the table, from a file of its items, or from a schema.

use std::path::Path;

use anyhow::Context as _;
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::{DynamoStore, TableInfo};
use tablekeeper::adapters::files::ItemReader;
use tablekeeper::adapters::schema;
use tablekeeper::derive::propose::{self, Asked, Known, Proposal, Sample};
use tablekeeper::engine::pace::Paced;
use tablekeeper::engine::scan::Pages;
use tablekeeper::model::spec::{Index, Table};
use tablekeeper::plan::write::TableRef;

use super::super::args::InitArgs;
use super::super::connect::{Database, spinner};
use super::super::context::{Exit, Stop, usage};
use super::super::output;
use super::NAME_LENGTHS;

/// A table is read in so many places at once, a page each in turn, so that a sample is not of one end of it.
const SEGMENTS: u32 = 8;
/// Most lines without an item that are shown one by one.
const FAULTS_SHOWN: usize = 10;

/// A proposed model, and whether all that was to be read could be.
pub struct Proposed {
    pub proposal: Proposal,
    pub complete: bool,
}

/// The proposal that the arguments ask for; `None` where they ask for none.
pub async fn run(args: &InitArgs) -> Result<Option<Proposed>, Stop> {
    let from = &args.from;
    if let Some(table) = &from.from_table {
        return from_table(args, table).await.map(Some);
    }
    if let Some(file) = &from.from_items {
        return from_items(args, file).map(Some);
    }
    if let Some(file) = &from.from_schema {
        return from_schema(args, file).map(Some);
    }
    Ok(None)
}

async fn from_table(args: &InitArgs, name: &str) -> Result<Proposed, Stop> {
    let database = Database::at(args.sampled.endpoint.as_deref(), args.sampled.data_dir.as_deref(), false).await?;
    let info = database.describe(name).await?;
    let ttl = database.connection.ttl_attribute(name).await;
    let known = known(info, ttl);
    let sample = read_table(args, name, &database, &known).await?;
    database.close().await;
    let asked = Asked { table: name.to_owned(), source: format!("the table `{name}`"), ..asked(args, name) };
    let proposal = propose::propose(&sample, &asked, Some(&known)).map_err(usage)?;
    Ok(Proposed { proposal, complete: true })
}

fn known(info: TableInfo, ttl: Option<String>) -> Known {
    let index = |index: tablekeeper::adapters::dynamodb::IndexInfo| Index {
        name: index.name,
        partition: index.partition,
        sort: index.sort,
    };
    let mut indexes: Vec<Index> = info.indexes.into_iter().map(index).collect();
    indexes.sort_by(|a, b| a.name.cmp(&b.name));
    Known { partition_key: info.partition_key, sort_key: info.sort_key, indexes, ttl }
}

/// The first pages of several segments in turn, until there are enough items.
async fn read_table(args: &InitArgs, name: &str, database: &Database, known: &Known) -> Result<Sample, Stop> {
    let size = args.sampled.sample as usize;
    let table = Table {
        name: name.to_owned(),
        partition_key: known.partition_key.clone(),
        sort_key: known.sort_key.clone(),
        indexes: Vec::new(),
        ttl: None,
        state_table: format!("{name}-keeper"),
    };
    let (store, clock) = (DynamoStore::new(&database.connection, &table), SystemClock::new());
    let store = Paced::new(&store, &clock, Some(args.sampled.max_read_units));
    let mut segments: Vec<Pages> =
        (0..SEGMENTS).map(|segment| Pages::new(TableRef::Source, (segment, SEGMENTS))).collect();
    let mut sample = Sample::new(size);
    let bar = spinner("items read");
    while !segments.is_empty() && sample.seen() < size as u64 {
        let mut open = Vec::new();
        for mut pages in segments {
            if let Some(items) = pages.next(&store, &clock).await? {
                bar.inc(items.len() as u64);
                items.into_iter().filter(|item| !item.is_ours()).for_each(|item| sample.add(item));
                open.push(pages);
            }
        }
        segments = open;
    }
    bar.finish_and_clear();
    Ok(sample)
}

fn from_items(args: &InitArgs, file: &Path) -> Result<Proposed, Stop> {
    let is_stdin = file.as_os_str() == "-";
    let shown = if is_stdin { "standard input".to_owned() } else { file.display().to_string() };
    let reader = ItemReader::open(file).with_context(|| format!("cannot read items from `{shown}`")).map_err(usage)?;
    let mut sample = Sample::new(args.sampled.sample as usize);
    let mut faults = 0;
    for item in reader {
        match item {
            Ok(item) if item.is_ours() => {}
            Ok(item) => sample.add(item),
            Err(fault) => {
                if faults < FAULTS_SHOWN {
                    output::fault(format_args!("{shown}: {fault}"), Exit::Incomplete);
                }
                faults += 1;
            }
        }
    }
    if faults > FAULTS_SHOWN {
        output::fault(format_args!("... and {} more", faults - FAULTS_SHOWN), Exit::Incomplete);
    }
    let name = file.file_name().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
    let stem = if is_stdin { "my-table" } else { name.split('.').next().unwrap_or(&name) };
    let asked = Asked { source: format!("`{name}`"), ..asked(args, stem) };
    let proposal = propose::propose(&sample, &asked, None).map_err(usage)?;
    Ok(Proposed { proposal, complete: faults == 0 })
}

fn from_schema(args: &InitArgs, file: &Path) -> Result<Proposed, Stop> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display())).map_err(usage)
    };
    let text = read(file)?;
    let usage_data = args.usage.as_deref().map(read).transpose()?;
    let place = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let mut draft = schema::read(&text, usage_data.as_deref(), args.table.as_deref())
        .with_context(|| format!("cannot bring over `{}`", file.display()))
        .map_err(usage)?;
    draft.name = asked(args, &draft.table.name).name;
    draft.heading.insert(0, format!("Brought over from `{place}`."));
    let proposal = propose::settle(draft).map_err(usage)?;
    Ok(Proposed { proposal, complete: true })
}

/// What the owner says; the model is called as asked for, as the file to be written, or as where it comes from.
fn asked(args: &InitArgs, from: &str) -> Asked {
    let file = args.out.file_stem().filter(|_| super::is_model_file(&args.out)).map(|stem| stem.to_string_lossy());
    let name = args.name.clone().unwrap_or_else(|| sayable(file.as_deref().unwrap_or(from)));
    let sampled = &args.sampled;
    Asked {
        table: name.clone(),
        name,
        source: String::new(),
        partition_key: sampled.partition_key.clone(),
        sort_key: sampled.sort_key.clone(),
        indexes: sampled.index.clone(),
        type_attribute: sampled.type_attribute.clone(),
        delimiter: sampled.delimiter.clone(),
    }
}

/// A name that a model can have, made of one that it may not have.
fn sayable(name: &str) -> String {
    let sign = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let letters: String = name.chars().map(sign).skip_while(|c| !c.is_ascii_alphabetic()).collect();
    let name: String = letters.trim_end_matches('-').chars().take(*NAME_LENGTHS.end()).collect();
    if NAME_LENGTHS.contains(&name.len()) { name } else { format!("{name}-table").trim_start_matches('-').to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_becomes_one_that_a_model_can_have() {
        for (from, name) in
            [("orders", "orders"), ("my.table v2", "my-table-v2"), ("7up", "up-table"), ("", "table"), ("é", "table")]
        {
            assert_eq!(sayable(from), name);
        }
        assert_eq!(sayable(&"n".repeat(300)).len(), 64);
    }
}
