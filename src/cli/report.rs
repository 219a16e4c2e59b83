//! `report`: quality reports as one HTML page and CSV files.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use chrono::NaiveDate;
use serde::Serialize;
use tablekeeper::adapters::analytics::{self, ReportError};
use tablekeeper::adapters::definitions::{self, Found};
use tablekeeper::adapters::page::{self, Encoding, File, Files};
use tablekeeper::engine::ports::Clock as _;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::Item;
use tablekeeper::report::definition::{self, Definition};
use tablekeeper::report::input::Freshness;

use super::args::{OutputFormat, ReportArgs};
use super::connect;
use super::context::{Exit, Outcome, Source, Stop, make_directory, model_for_table, refuse, usage};
use super::input::{self, FromFile};
use super::output::{count, json, line};

/// What was written for one report.
#[derive(Serialize)]
pub struct Written {
    pub report: String,
    pub as_of: NaiveDate,
    pub page: PathBuf,
    pub csv: Vec<PathBuf>,
}

pub async fn run(args: &ReportArgs, format: OutputFormat) -> Outcome {
    let model = model_for_table(&args.table)?;
    // A person names files from where they are, a model from where it lies itself.
    let beside = args.report.is_empty().then_some(args.table.model.model.as_str());
    let named = || model.reports.names.iter().map(|report| report.name.clone()).collect();
    let names: Vec<String> = if beside.is_some() { named() } else { args.report.clone() };
    if names.is_empty() {
        let shipped = definitions::shipped_names();
        return Err(usage(anyhow::anyhow!(
            "the model names no report; choose one with --report: a file, or a shipped report: {shipped}"
        )));
    }
    let definitions = names.iter().map(|name| definition(name, beside)).collect::<Result<Vec<Definition>, Stop>>()?;
    let as_of = match args.as_of {
        Some(day) => day,
        None => tablekeeper::adapters::clock::SystemClock::new().now().with_timezone(&model.zone).date_naive(),
    };
    make_directory(&args.out)?;
    let found = items(args, &model).await?;
    input::show(&found, Exit::Incomplete);
    let source = args.items.as_ref().map_or_else(|| model.table.name.clone(), |path| path.display().to_string());
    let freshness = Freshness { source: Some(source), ..Freshness::default() };
    let written = write(&model, &definitions, found.read, as_of, freshness, &args.out)?;
    match format {
        OutputFormat::Json => json(&written)?,
        OutputFormat::Text => {
            for one in &written {
                line(format_args!(
                    "{} as of {}: {} and {}",
                    one.report,
                    one.as_of,
                    one.page.display(),
                    count(one.csv.len(), "CSV file")
                ));
            }
        }
    }
    Ok(if found.faults.is_empty() { Exit::Fine } else { Exit::Incomplete })
}

async fn items(args: &ReportArgs, model: &Model) -> Result<FromFile<Vec<(TableKey, Item)>>, Stop> {
    if let Some(path) = &args.items {
        return input::read(model, path, |items: &mut Vec<_>, _, key, item| items.push((key, item)));
    }
    let mut items = Vec::new();
    let tables = connect::open(&args.table, model.clone()).await?;
    let names = model.table.key_names();
    connect::for_each_source_item(&tables, |item| {
        if let Some(key) = TableKey::of(&item, &names) {
            items.push((key, item));
        }
    })
    .await?;
    tables.close().await;
    Ok(FromFile { read: items, ..FromFile::default() })
}

/// A report definition: a file, or a shipped one by name; `model` is how the model that names it is named.
pub fn definition(which: &str, model: Option<&str>) -> Result<Definition, Stop> {
    let source = source(definitions::find(which, model).map_err(usage)?);
    definition::parse(&source.text, &source.name).map_err(|faults| refuse("report", &source, &faults))
}

/// A definition's text as faults are shown in it.
pub fn source(found: Found) -> Source {
    let Found { name, place, text } = found;
    Source { text, place, name }
}

/// Runs the reports over the items and writes page and CSV files into the directory `out`.
pub fn write(
    model: &Model,
    definitions: &[Definition],
    items: Vec<(TableKey, Item)>,
    as_of: NaiveDate,
    freshness: Freshness,
    out: &Path,
) -> Result<Vec<Written>, Stop> {
    let input = analytics::collect(model, items, as_of, freshness);
    let save = |file: &File| -> Result<PathBuf, Stop> {
        let path = out.join(&file.name);
        std::fs::write(&path, &file.bytes).with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(path)
    };
    let mut written = Vec::new();
    for definition in definitions {
        let data = analytics::run(definition, &input).map_err(|error| match error {
            ReportError::Frame { .. } => error.into(),
            _ => usage(error),
        })?;
        let Files { page, csv } = page::files(&data, Encoding::Utf8)?;
        let page = save(&page)?;
        let csv = csv.iter().map(&save).collect::<Result<_, _>>()?;
        written.push(Written { report: definition.name.clone(), as_of, page, csv });
    }
    Ok(written)
}
