//! `derive`: items in, derived items out; no database.

use std::collections::BTreeMap;

use comfy_table::Cell;
use serde::Serialize;
use serde_json::value::RawValue;
use tablekeeper::derive::Fold;
use tablekeeper::derive::fold::{AggregateTotals, Entry};
use tablekeeper::model::derived::Finding;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{Item, Text, Value};

use super::args::{DeriveArgs, OutputFormat};
use super::context::{Exit, Outcome, load_model};
use super::findings::{self, FindingOut, Judged, KeyOut};
use super::input::{self, FromFile, Superseded};
use super::output::{Grid, exact, heading, json, line};

#[derive(Serialize)]
struct DeriveOut<'f> {
    aggregates: Vec<AggregateOut<'f>>,
    listings: Vec<ListingOut<'f>>,
    expiries: Vec<ExpiryOut<'f>>,
    findings: Vec<FindingOut<'f>>,
    checked: &'f BTreeMap<Text, u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unread: &'f [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    superseded: &'f [Superseded],
}

#[derive(Serialize)]
struct AggregateOut<'f> {
    name: &'f str,
    key: KeyOut,
    values: BTreeMap<&'f str, Box<RawValue>>,
}

#[derive(Serialize)]
struct ListingOut<'f> {
    name: &'f str,
    key: KeyOut,
    values: KeyOut,
}

#[derive(Serialize)]
struct ExpiryOut<'f> {
    name: &'f str,
    subject: Option<&'f str>,
    /// The instant at which it has expired.
    due: Option<&'f str>,
}

pub fn run(args: &DeriveArgs, format: OutputFormat) -> Outcome {
    let model = load_model(&args.model)?;
    let found = input::fold(&model, &args.items)?;
    input::show(&found, Exit::Incomplete);
    let fold = &found.read;
    let aggregates = fold.aggregates(&model);
    let overflows = fold.overflows(&model);
    let findings: Vec<&Finding> = overflows.iter().chain(fold.findings()).collect();
    match format {
        OutputFormat::Json => json(&out(&model, &found, &aggregates, &findings))?,
        OutputFormat::Text => {
            heading("Aggregates");
            print_aggregates(&aggregates);
            heading("Listings");
            print_entries(fold.listings().collect());
            heading("Expiries");
            print_expiries(fold.expiries().collect());
            heading("Findings");
            findings::print(&findings, findings::SHOWN_MAX);
            let (checked, unrecognised, set_aside) = (fold.checked(), fold.unrecognised(), fold.set_aside());
            let unused = input::unused(found.faults.len(), found.superseded.len());
            let judged = Judged { checked, unrecognised, set_aside };
            line(format_args!("\n{}", findings::summary(&judged, findings.len() as u64, &unused)));
        }
    }
    Ok(match (found.faults.is_empty(), findings.is_empty()) {
        (false, _) => Exit::Incomplete,
        (true, false) => Exit::Findings,
        (true, true) => Exit::Fine,
    })
}

fn out<'f>(
    model: &Model,
    found: &'f FromFile<Fold>,
    aggregates: &'f [AggregateTotals],
    findings: &[&'f Finding],
) -> DeriveOut<'f> {
    let fold = &found.read;
    let names = model.table.key_names();
    let key = |entry: &Entry<'_>| KeyOut(entry.key.to_item(&names));
    DeriveOut {
        aggregates: aggregates
            .iter()
            .map(|totals| AggregateOut {
                name: &totals.name,
                key: KeyOut(totals.key.to_item(&names)),
                values: totals.measures.iter().map(|(name, number)| (name.as_str(), exact(number))).collect(),
            })
            .collect(),
        listings: fold
            .listings()
            .map(|entry| ListingOut { name: entry.name, key: key(&entry), values: KeyOut(copied(entry.item)) })
            .collect(),
        expiries: fold
            .expiries()
            .map(|entry| ExpiryOut {
                name: entry.name,
                subject: entry.item.text("Subject"),
                due: entry.item.text("Due"),
            })
            .collect(),
        findings: findings.iter().map(|finding| FindingOut::of(finding, &names)).collect(),
        checked: fold.checked(),
        unread: &found.faults,
        superseded: &found.superseded,
    }
}

/// A listing entry's copied attributes.
fn copied(item: &Item) -> Item {
    match item.get("Copy") {
        Some(Value::M(map)) => Item(map.clone()),
        _ => Item::new(),
    }
}

/// One row an aggregate item: its key and its measures that are not zero.
fn print_aggregates(aggregates: &[AggregateTotals]) {
    if aggregates.is_empty() {
        return line("  none");
    }
    let mut grid = Grid::new(&["Aggregate", "Key", "Total", "Measures"]).right(&[2]);
    for totals in aggregates {
        let measures: Vec<String> = totals
            .measures
            .iter()
            .filter(|(name, _)| *name != "Total")
            .map(|(name, number)| format!("{} {number}", name.trim_start_matches("Count_")))
            .collect();
        let total = totals.measures.get("Total").map(ToString::to_string).unwrap_or_default();
        grid.row([
            Cell::new(&totals.name),
            Cell::new(totals.key.to_string()),
            Cell::new(total),
            Cell::new(measures.join("  ")),
        ]);
    }
    grid.print();
}

fn print_entries(entries: Vec<Entry<'_>>) {
    if entries.is_empty() {
        return line("  none");
    }
    let mut grid = Grid::new(&["Listing", "Key"]);
    for entry in entries.iter().take(100) {
        grid.row([entry.name.to_owned(), entry.key.to_string()]);
    }
    grid.print();
    if entries.len() > 100 {
        line(format_args!("  100 of {}; --format json has them all", entries.len()));
    }
}

fn print_expiries(entries: Vec<Entry<'_>>) {
    if entries.is_empty() {
        return line("  none");
    }
    let mut grid = Grid::new(&["Expiry", "Subject", "Date", "Owner"]);
    for entry in &entries {
        let text = |name: &str| entry.item.text(name).unwrap_or("-").to_owned();
        grid.row([entry.name.to_owned(), text("Subject"), text("Date"), text("Owner")]);
    }
    grid.print();
}
