//! `report`: quality reports as one HTML page and CSV files.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use chrono::NaiveDate;
use serde::Serialize;
use tablekeeper::adapters::analytics::{self, ReportError};
use tablekeeper::adapters::page::{self, Encoding, File, Files};
use tablekeeper::engine::ports::Clock as _;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::Item;
use tablekeeper::report::builtin::BUILTIN;
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
    let names = if args.report.is_empty() { model.reports.names.clone() } else { args.report.clone() };
    if names.is_empty() {
        let shipped = shipped_names();
        return Err(usage(anyhow::anyhow!(
            "the model names no report; choose one with --report: a file, or a shipped report: {shipped}"
        )));
    }
    let definitions = names.iter().map(|name| definition(name)).collect::<Result<Vec<Definition>, Stop>>()?;
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

fn shipped_names() -> String {
    BUILTIN.map(|(name, _)| name).join(", ")
}

/// A report definition: a file, or a shipped one by name.
pub fn definition(which: &str) -> Result<Definition, Stop> {
    let shipped = BUILTIN.iter().find(|(name, _)| *name == which);
    let (text, place) = match shipped {
        Some((name, text)) => ((*text).to_owned(), format!("reports/{name}.toml")),
        None => {
            let text = std::fs::read_to_string(which)
                .with_context(|| {
                    format!("cannot read the report `{which}`; give a file, or a shipped report: {}", shipped_names())
                })
                .map_err(usage)?;
            (text, which.to_owned())
        }
    };
    let name =
        Path::new(which).file_stem().map_or_else(|| which.to_owned(), |stem| stem.to_string_lossy().into_owned());
    definition::parse(&text, &name).map_err(|faults| refuse("report", &Source { text, place, name }, &faults))
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
