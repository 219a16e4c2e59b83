//! `verify` and `reconcile`: prove that everything derived is right, and make it right.

use serde::Serialize;
use tablekeeper::engine::checkpoint;
use tablekeeper::engine::reconcile::{self, ReconcileReport};
use tablekeeper::engine::verify::{self, Difference, VerifyReport};

use super::args::{OutputFormat, TableArgs};
use super::connect::{self, Tables, spinner};
use super::context::{Exit, Outcome, Stop, model_for_table};
use super::output::{BAD, GOOD, Grid, count, json, line, paint, warn};

/// Most differences that a text lists; JSON has them all.
const SHOWN_MAX: usize = 50;

#[derive(Serialize)]
struct VerifyOut<'r> {
    ok: bool,
    #[serde(flatten)]
    report: &'r VerifyReport,
}

pub async fn verify(args: &TableArgs, format: OutputFormat) -> Outcome {
    let tables = connect::open(args, model_for_table(args)?).await?;
    let report = verify::verify(&tables.model, &tables.store, &tables.clock).await?;
    tables.close().await;
    match format {
        OutputFormat::Json => json(&VerifyOut { ok: report.differences.is_empty(), report: &report })?,
        OutputFormat::Text => print_verdict(&report),
    }
    Ok(if report.differences.is_empty() { Exit::Fine } else { Exit::Findings })
}

/// The verdict, and what differs.
pub fn print_verdict(report: &VerifyReport) {
    print_differences(&report.differences);
    let read = format!(
        "{}, {}, {} read",
        count(to_usize(report.source_items), "source item"),
        count(to_usize(report.derived_items), "derived item"),
        count(to_usize(report.ledger_rows), "ledger row"),
    );
    let quarantined = match report.quarantined {
        0 => String::new(),
        n => format!("; {n} in quarantine"),
    };
    let left_out = match report.left_out {
        0 => String::new(),
        n => format!("; {n} left out of sums that would not fit"),
    };
    match report.differences.len() {
        0 => line(format_args!("{} {read}: 0 differences{quarantined}{left_out}", paint(GOOD, "exact"))),
        n => {
            line(format_args!("{} {read}: {}{quarantined}{left_out}", paint(BAD, "not exact"), count(n, "difference")))
        }
    }
    if let Some(advice) = report.advice() {
        line(format_args!("  {advice}"));
    }
}

fn print_differences(differences: &[Difference]) {
    if differences.is_empty() {
        return;
    }
    let mut grid = Grid::new(&["Kind", "Item", "What", "Expected", "Stored"]);
    for difference in differences.iter().take(SHOWN_MAX) {
        grid.row([difference.kind.name(), &difference.key, &difference.what, &difference.expected, &difference.stored]);
    }
    grid.print();
    if differences.len() > SHOWN_MAX {
        line(format_args!("  {SHOWN_MAX} of {}; --format json has them all", differences.len()));
    }
}

pub async fn reconcile(args: &TableArgs, format: OutputFormat) -> Outcome {
    let tables = connect::open(args, model_for_table(args)?).await?;
    let report = with_progress(&tables).await?;
    tables.close().await;
    match format {
        OutputFormat::Json => json(&report)?,
        OutputFormat::Text => line(format_args!(
            "{} and {} looked at; {} put right in {}; {} in quarantine",
            count(to_usize(report.items), "item"),
            count(to_usize(report.ledger_rows), "ledger row"),
            report.reconciled,
            count(to_usize(report.transactions), "transaction"),
            report.quarantined,
        )),
    }
    Ok(if report.quarantined == 0 { Exit::Fine } else { Exit::Findings })
}

/// Reconciles with a progress bar, and closes the stream's gap if one is open.
async fn with_progress(tables: &Tables) -> Result<ReconcileReport, Stop> {
    let table = tables.connection.describe_table(&tables.model.table.name).await?;
    let gap = match &table.stream_arn {
        Some(arn) => checkpoint::open_gap(&tables.store, &tables.clock, arn).await?.map(|gap| (arn, gap)),
        None => None,
    };
    let bar = spinner("items and ledger rows");
    let done = |so_far: &ReconcileReport| bar.set_position(so_far.items + so_far.ledger_rows);
    let report = reconcile::reconcile(&tables.engine(), done).await?;
    bar.finish_and_clear();
    if let Some((arn, gap)) = gap
        && !checkpoint::close_gap(&tables.store, &tables.clock, arn, &gap).await?
    {
        warn("another gap was found meanwhile: reconcile once more");
    }
    Ok(report)
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
