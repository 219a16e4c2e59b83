//! `verify` and `reconcile`: prove that everything derived is right, and make it right.

use indicatif::MultiProgress;
use serde::Serialize;
use tablekeeper::engine::checkpoint;
use tablekeeper::engine::doubt;
use tablekeeper::engine::malformed::Malformed;
use tablekeeper::engine::reconcile::{self, Journal, ReconcileOptions, ReconcileReport, Resumed};
use tablekeeper::engine::verify::{self, Difference, RepairReport, VerifyOptions, VerifyReport};
use tablekeeper::model::time::timestamp;

use super::args::{OutputFormat, ReconcileArgs, VerifyArgs};
use super::connect::{self, Tables, spinner};
use super::context::{Exit, Outcome, Stop, model_for_table};
use super::output::{BAD, GOOD, Grid, count, json, line, paint, warn};

/// Most differences that a text lists; JSON has them all.
const SHOWN_MAX: usize = 50;
/// Runs of the command line resume each other, and nobody else's.
const RUN_NAME: &str = "command-line";

#[derive(Serialize)]
struct VerifyOut<'r> {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    repaired: Option<&'r RepairReport>,
    #[serde(flatten)]
    report: &'r VerifyReport,
}

pub async fn verify(args: &VerifyArgs, format: OutputFormat) -> Outcome {
    let tables = connect::open(&args.table, model_for_table(&args.table)?).await?;
    let options = VerifyOptions { passes: args.passes, ..VerifyOptions::default() };
    let bar = spinner("passes done");
    let passed = |pass: u32, differences: usize| {
        bar.inc(1);
        if differences > 0 && format == OutputFormat::Text {
            bar.suspend(|| warn(format_args!("pass {pass}: {}", count(differences, "difference"))));
        }
    };
    let (repaired, report) = if args.repair {
        let mut repaired = verify::repair(&tables.engine(), &options, passed).await?;
        let verdict = std::mem::take(&mut repaired.verdict);
        (Some(repaired), verdict)
    } else {
        (None, verify::settle(&tables.model, &tables.store, &tables.clock, &options, passed).await?)
    };
    bar.finish_and_clear();
    tables.close().await;
    let ok = report.differences.is_empty() && report.unsettled == 0;
    match format {
        OutputFormat::Json => json(&VerifyOut { ok, repaired: repaired.as_ref(), report: &report })?,
        OutputFormat::Text => {
            repaired.iter().for_each(print_repaired);
            print_verdict(&report);
        }
    }
    Ok(match (report.differences.len(), report.unsettled) {
        (0, 0) => Exit::Fine,
        (0, _) => Exit::Incomplete,
        _ => Exit::Findings,
    })
}

fn print_repaired(repaired: &RepairReport) {
    let given_up = match repaired.given_up {
        0 => String::new(),
        n => format!("; {n} left to others who were writing there"),
    };
    line(format_args!(
        "repaired: {}, {}{given_up}",
        count(to_usize(repaired.aggregates), "aggregate"),
        count(to_usize(repaired.rows), "row"),
    ));
}

/// The verdict, and what differs.
pub fn print_verdict(report: &VerifyReport) {
    print_differences(&report.differences);
    print_malformed(&report.malformed);
    let read = format!(
        "{}, {}, {} read",
        count(to_usize(report.source_items), "source item"),
        count(to_usize(report.derived_items), "derived item"),
        count(to_usize(report.ledger_rows), "ledger row"),
    );
    let quarantined = match report.quarantined {
        0 => String::new(),
        n => format!("; {} in quarantine", count(to_usize(n), "item")),
    };
    let malformed = match report.malformed.len() {
        0 => String::new(),
        n => format!("; {} in quarantine", count(n, "malformed record")),
    };
    let left_out = match report.left_out {
        0 => String::new(),
        n => format!("; {n} left out of sums that would not fit"),
    };
    let unsettled = match report.unsettled {
        0 => String::new(),
        n => format!("; {n} unsettled after {}", passes(report.passes)),
    };
    let verdict = match report.differences.len() {
        0 if report.unsettled > 0 => paint(BAD, "not proved:"),
        0 if report.quarantined + report.left_out > 0 => paint(GOOD, "exact but for what is given up;"),
        0 => paint(GOOD, "exact"),
        _ => paint(BAD, "not exact"),
    };
    let differences = count(report.differences.len(), "difference");
    line(format_args!("{verdict} {read}: {differences}{unsettled}{quarantined}{malformed}{left_out}"));
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

/// A block for each: its place is there to be copied.
fn print_malformed(rows: &[Malformed]) {
    for row in rows.iter().take(SHOWN_MAX) {
        let Malformed { place, code, reason, event_id, sequence_number, at } = row;
        line(format_args!("  malformed record {code}: {reason}"));
        line(format_args!("    place            QUARANTINE / {place}"));
        let told = [("event id", event_id.as_ref()), ("sequence number", sequence_number.as_ref()), ("came", Some(at))];
        for (name, text) in told.into_iter().filter_map(|(name, text)| Some((name, text?))) {
            line(format_args!("    {name:<15}  {text}"));
        }
    }
    match rows.len() {
        0 => {}
        n if n > SHOWN_MAX => line(format_args!("  {SHOWN_MAX} of {n}; --format json has them all")),
        _ => line("  `tablekeeper explain P901` says what to do"),
    }
}

fn passes(number: u32) -> String {
    if number == 1 { "1 pass".to_owned() } else { format!("{number} passes") }
}

pub async fn reconcile(args: &ReconcileArgs, format: OutputFormat) -> Outcome {
    let tables = connect::open(&args.table, model_for_table(&args.table)?).await?;
    let pace = Pace { segments: args.segments, max_read_units: args.max_read_units, from_start: args.from_start };
    let (report, _) = with_progress(&tables, pace).await?;
    tables.close().await;
    match format {
        OutputFormat::Json => json(&report)?,
        OutputFormat::Text => line(reconciled(&report)),
    }
    Ok(if report.quarantined == 0 { Exit::Fine } else { Exit::Findings })
}

/// What a reconcile came to, in one line.
pub fn reconciled(report: &ReconcileReport) -> String {
    format!(
        "{} and {} looked at; {} put right in {}; {} in quarantine{}",
        count(to_usize(report.items), "item"),
        count(to_usize(report.ledger_rows), "ledger row"),
        report.reconciled,
        count(to_usize(report.transactions), "transaction"),
        count(to_usize(report.quarantined), "item"),
        match to_usize(report.removed) {
            0 => String::new(),
            removed => format!("; {} of the former model removed", count(removed, "empty aggregate")),
        },
    )
}

/// How a reconcile reads.
pub struct Pace {
    pub segments: u32,
    pub max_read_units: Option<u32>,
    /// Begin anew, wherever an earlier run stopped.
    pub from_start: bool,
}

/// Reconciles with a progress bar for each side, and closes the table's gap if one is open. False if there is one afterwards.
pub async fn with_progress(tables: &Tables, pace: Pace) -> Result<(ReconcileReport, bool), Stop> {
    let gap = checkpoint::open_gap(&tables.store, &tables.clock, &tables.arn).await?;
    let Pace { segments, max_read_units, from_start } = pace;
    let journal = Some(Journal { name: RUN_NAME.to_owned(), from_start, gap: gap.clone() });
    let options = ReconcileOptions { segments, max_read_units, journal };
    if gap.as_ref().is_some_and(|gap| gap.loss) {
        doubt::raise(&tables.store, &tables.clock).await?;
    }
    let bars = MultiProgress::new();
    let [items, ledger_rows] = ["items", "ledger rows"].map(|what| bars.add(spinner(what)));
    let mut told = false;
    let done = |so_far: &ReconcileReport| {
        if let Some(resumed) = so_far.resumed.as_ref().filter(|_| !std::mem::replace(&mut told, true)) {
            bars.suspend(|| tell_resumed(resumed));
        }
        items.set_position(so_far.items);
        ledger_rows.set_position(so_far.ledger_rows);
    };
    let report = reconcile::reconcile_with(&tables.engine(), &options, done).await?;
    items.finish_and_clear();
    ledger_rows.finish_and_clear();
    let closed = match gap {
        Some(gap) => checkpoint::close_gap(&tables.store, &tables.clock, &tables.arn, &gap).await?,
        None => true,
    };
    if !closed {
        warn("another gap was found meanwhile: reconcile once more");
    }
    Ok((report, closed))
}

fn tell_resumed(resumed: &Resumed) {
    warn(format_args!(
        "goes on where the run that began at {} stopped: {} and {} are done; --from-start begins anew",
        timestamp(resumed.begun),
        count(to_usize(resumed.items), "item"),
        count(to_usize(resumed.ledger_rows), "ledger row"),
    ));
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
