//! `sweep`: what falls due, and who is told.

use std::collections::BTreeSet;

use anyhow::Context as _;
use chrono::{DateTime, NaiveDate, NaiveTime, SubsecRound as _, Utc};
use comfy_table::Cell;
use serde::Serialize;
use tablekeeper::adapters::sinks::{JsonLinesSink, LineSink, LocalSink, Sinks};
use tablekeeper::engine::alerts::AlertState;
use tablekeeper::engine::ports::{Clock as _, Notification};
use tablekeeper::engine::reconcile;
use tablekeeper::engine::sweep::{EntryReport, SweepReport, SweepSettings, sweep};
use tablekeeper::model::zone::Zone;

use super::args::{OutputFormat, SweepArgs};
use super::connect;
use super::context::{Exit, Outcome, Stop, model_for_table, usage};
use super::output::{Grid, count, fault, heading, json, line, warn};

#[derive(Serialize)]
pub struct SweepOut<'r> {
    as_of: DateTime<Utc>,
    entries: Vec<EntryOut<'r>>,
    resolved: usize,
    sent: &'r [Notification],
    undelivered: usize,
    faults: &'r [String],
}

#[derive(Serialize)]
pub struct EntryOut<'r> {
    name: &'r str,
    subject: &'r str,
    owner: Option<&'r str>,
    date: &'r str,
    due: DateTime<Utc>,
    days: i64,
    state: &'static str,
    notified_threshold: Option<i64>,
}

pub async fn run(args: &SweepArgs, format: OutputFormat) -> Outcome {
    let model = model_for_table(&args.table)?;
    let mut sinks = Vec::new();
    if format == OutputFormat::Text {
        sinks.push(LocalSink::Stdout(LineSink::stdout()));
    }
    if let Some(path) = &args.notify_file {
        sinks.push(LocalSink::JsonLines(JsonLinesSink::open(path).map_err(usage)?));
    }
    let tables = connect::open(&args.table, model).await?;
    let as_of = match args.as_of {
        Some(day) => noon(day, &tables.model.zone)?,
        None => tables.clock.now(),
    };
    let settings = SweepSettings::default();
    let report = sweep(&tables.model, &tables.store, &tables.clock, as_of, &settings, &Sinks(sinks)).await?;
    let is_unread = report.entries.is_empty() && !reconcile::has_ledger(&tables.engine()).await?;
    if is_unread {
        warn("no worker has read this table yet, so nothing is known to fall due; run `tablekeeper worker` first");
    }
    tables.close().await;
    for text in &report.faults {
        fault(text, Exit::Incomplete);
    }
    let reasons: BTreeSet<&String> = report.undelivered.iter().map(|undelivered| &undelivered.reason).collect();
    for reason in reasons {
        fault(format_args!("not delivered: {reason}"), Exit::Incomplete);
    }
    match format {
        OutputFormat::Json => json(&out(&report))?,
        OutputFormat::Text => {
            heading("Due");
            print_entries(&report.entries);
            line(format_args!(
                "\n{} sent, {} left in the outbox, {} resolved",
                count(report.sent.len(), "notification"),
                report.undelivered.len(),
                report.resolved.len()
            ));
        }
    }
    let complete = report.faults.is_empty() && report.undelivered.is_empty() && !is_unread;
    Ok(if complete { Exit::Fine } else { Exit::Incomplete })
}

/// Noon of a civil day in the site's zone: every clock change leaves noon alone.
pub fn noon(day: NaiveDate, zone: &Zone) -> Result<DateTime<Utc>, Stop> {
    let noon = NaiveTime::from_hms_opt(12, 0, 0).context("noon is a time")?;
    let local = day.and_time(noon).and_local_timezone(zone.clone()).earliest();
    let instant = local.with_context(|| format!("{day} has no noon in {zone}")).map_err(usage)?;
    Ok(instant.with_timezone(&Utc))
}

pub fn out(report: &SweepReport) -> SweepOut<'_> {
    SweepOut {
        as_of: report.as_of.trunc_subsecs(3),
        entries: report.entries.iter().map(entry_out).collect(),
        resolved: report.resolved.len(),
        sent: &report.sent,
        undelivered: report.undelivered.len(),
        faults: &report.faults,
    }
}

fn entry_out(entry: &EntryReport) -> EntryOut<'_> {
    EntryOut {
        name: &entry.expiry,
        subject: &entry.subject,
        owner: entry.owner.as_deref(),
        date: &entry.date,
        due: entry.due,
        days: entry.days,
        state: entry.state.name(),
        notified_threshold: entry.notified,
    }
}

/// What is due, most urgent first.
pub fn print_entries(entries: &[EntryReport]) {
    if entries.is_empty() {
        line("  nothing due");
        return;
    }
    let mut grid = Grid::new(&["State", "Expiry", "Subject", "Date", "Days", "Owner"]).right(&[4]);
    for entry in entries {
        let color = match entry.state {
            AlertState::Overdue => comfy_table::Color::Red,
            AlertState::DueToday | AlertState::Upcoming => comfy_table::Color::Yellow,
            AlertState::Scheduled | AlertState::Resolved => comfy_table::Color::Green,
        };
        grid.row([
            Cell::new(entry.state.name().replace('_', " ")).fg(color),
            Cell::new(&entry.expiry),
            Cell::new(&entry.subject),
            Cell::new(&entry.date),
            Cell::new(entry.days),
            Cell::new(entry.owner.as_deref().unwrap_or("-")),
        ]);
    }
    grid.print();
}
