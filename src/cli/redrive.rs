//! `redrive`: the batches that AWS Lambda gave up, applied after all.
//!
//! A letter (an object, a message, a file) is let go only when its records are durable and, where some were lost, the gap is: the ledger
//! makes it harmless to do one again. One that is no batch of this table, or cannot be applied, stays, and the others go on.

mod show;
mod source;

use std::pin::{Pin, pin};

use futures_util::FutureExt as _;
use indicatif::ProgressBar;
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::{DynamoStore, DynamoStream};
use tablekeeper::engine::batch::{BatchReport, Engine};
use tablekeeper::engine::checkpoint::open_gap;
use tablekeeper::engine::reconcile::{self, ReconcileReport, SEGMENTS_DEFAULT};
use tablekeeper::engine::redrive::{Redriven, redrive, remember, same_table};
use tablekeeper::engine::telemetry::explain;
use tablekeeper::model::discarded::DiscardedBatch;

use super::args::{OnGapArg, OutputFormat, RedriveArgs};
use super::connect::{self, Database, Tables, bar, spinner};
use super::context::{Exit, Outcome, Stop, model_for_table};
use super::output::{fault, warn};
use super::proof::{self, Pace};
use super::worker::stop_signal;
use show::{BatchOut, Became, Summary};
use source::{Letter, Source};

/// Most letters whose trouble is shown one by one; JSON has them all.
const SHOWN_MAX: usize = 20;

pub async fn run(args: &RedriveArgs, format: OutputFormat) -> Outcome {
    let model = model_for_table(&args.table)?;
    // A place that is not there, or without rights, is told before the database is asked.
    let source = Source::open(&args.from).await?;
    if args.dry_run {
        let database = Database::open(&args.table, false).await?;
        let table = database.table(&model.table).await?.arn;
        database.close().await;
        return show::plan(&look(source, &table).await?, format);
    }
    let mut stop = pin!(stop_signal());
    let tables = tokio::select! {
        tables = connect::open(&args.table, model) => tables?,
        () = stop.as_mut() => return show::end(&Summary::stopped(), format),
    };
    let summary = apply(&tables, args, source, stop).await;
    tables.close().await;
    show::end(&summary?, format)
}

/// What is at the place, without doing anything about it.
async fn look(mut source: Source, table: &str) -> Result<Summary, Stop> {
    let mut summary = Summary::default();
    let bar = progress(&source);
    while let Some(letter) = source.next().await? {
        let out = match read(&source, &letter, table).await {
            Ok(batch) => BatchOut::of(&letter, Became::Applicable, Some(&batch)),
            Err((became, reason)) => BatchOut { error: Some(reason), ..BatchOut::of(&letter, became, None) },
        };
        tell(&bar, &mut summary.trouble, &out);
        summary.batches.push(out);
        source.leave(letter);
        bar.inc(1);
    }
    bar.finish_and_clear();
    source.close().await;
    Ok(summary)
}

/// The letter as a batch of this table, or what it is instead.
async fn read(source: &Source, letter: &Letter, table: &str) -> Result<DiscardedBatch, (Became, String)> {
    let bytes = source.bytes(letter).await.map_err(|error| (Became::Failed, format!("{error:#}")))?;
    // Whoever mended what is no UTF-8 would guess at keys.
    let text = String::from_utf8(bytes).map_err(|_| (Became::Refused, "it is no text in UTF-8".to_owned()))?;
    let batch = DiscardedBatch::parse(&text).map_err(|error| (Became::Refused, error.to_string()))?;
    same_table(&batch, table).map_err(|error| (Became::Refused, error.to_string()))?;
    Ok(batch)
}

/// One batch after the other, then a reconcile where records are lost.
async fn apply(
    tables: &Tables,
    args: &RedriveArgs,
    mut source: Source,
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> Result<Summary, Stop> {
    let engine = tables.engine();
    // Records must not be applied to counts that no ledger knows of, nor taken from counts that are not there.
    tokio::select! {
        belong = reconcile::refuse_strangers(&engine, || ()) => belong?,
        () = stop.as_mut() => return Ok(Summary::stopped()),
    }
    let mut summary = Summary::default();
    let bar = progress(&source);
    while !summary.stopped {
        let Some(letter) = source.next().await? else { break };
        // Wherever it is stopped, doing it again is right.
        let done = tokio::select! {
            done = one(tables, &engine, &source, &letter, args.keep, &mut summary.report) => Some(done),
            () = stop.as_mut() => None,
        };
        let Some((out, goes_on)) = done else {
            source.leave(letter);
            summary.stopped = true;
            break;
        };
        tell(&bar, &mut summary.trouble, &out);
        if !out.removed {
            source.leave(letter);
        }
        summary.batches.push(out);
        bar.inc(1);
        summary.stopped = !goes_on || stop.as_mut().now_or_never().is_some();
    }
    bar.finish_and_clear();
    source.close().await;
    let open = open_gap(&tables.store, &tables.clock, &tables.arn).await?;
    summary.gap = open.filter(|gap| gap.loss).map(|gap| gap.cause);
    if summary.gap.is_some() && args.on_gap == OnGapArg::Reconcile && !summary.stopped {
        let pace = Pace { segments: SEGMENTS_DEFAULT, max_read_units: args.max_read_units, from_start: false };
        let (report, closed): (ReconcileReport, bool) = tokio::select! {
            done = proof::with_progress(tables, pace) => done?,
            () = stop => {
                summary.stopped = true;
                return Ok(summary);
            }
        };
        summary.gap = summary.gap.filter(|_| !closed);
        summary.reconciled = Some(report);
    }
    Ok(summary)
}

/// Applies one letter and lets it go. False where the others would fare as badly.
async fn one(
    tables: &Tables,
    engine: &Engine<DynamoStore, SystemClock>,
    source: &Source,
    letter: &Letter,
    keep: bool,
    report: &mut BatchReport,
) -> (BatchOut, bool) {
    let batch = match read(source, letter, &tables.arn).await {
        Ok(batch) => batch,
        Err((became, reason)) => {
            return (BatchOut { error: Some(reason), ..BatchOut::of(letter, became, None) }, true);
        }
    };
    let failed = |reason| BatchOut { error: Some(reason), ..BatchOut::of(letter, Became::Failed, Some(&batch)) };
    let stream = DynamoStream::new(&tables.connection, batch.stream.clone());
    let work = async {
        let done =
            redrive(engine, &stream, &batch).await.map_err(|error| (explain(&error, false), !error.concerns_all()))?;
        if let Some(gap) = &done.lost {
            let remembered = remember(engine, &batch, tables.stream_arn.as_deref(), gap).await;
            remembered
                .map_err(|error| (format!("its gap cannot be written down: {}", explain(&error, false)), false))?;
        }
        Ok(done)
    };
    let Redriven { report: applied, lost } = match source.holding(letter, Box::pin(work)).await {
        Ok(done) => done,
        Err((reason, goes_on)) => return (failed(reason), goes_on),
    };
    let became = match &lost {
        None => Became::Applied,
        Some(_) if applied.records > 0 => Became::PartlyLost,
        Some(_) => Became::Lost,
    };
    let mut out = BatchOut {
        records: Some(applied.records as u64),
        error: lost.map(|gap| gap.to_string()),
        ..BatchOut::of(letter, became, Some(&batch))
    };
    report.add(applied);
    match if keep { Ok(false) } else { source.remove(letter).await } {
        Ok(removed) => out.removed = removed,
        Err(error) => out.not_removed = Some(error.to_string()),
    }
    (out, true)
}

fn progress(source: &Source) -> ProgressBar {
    match source.expected() {
        Some(length) => bar(length, "batches"),
        None => spinner("batches"),
    }
}

/// Tells of trouble as it comes, though not of each in a heap of it.
fn tell(bar: &ProgressBar, trouble: &mut usize, out: &BatchOut) {
    let place = &out.place;
    for reason in [&out.error, &out.not_removed].into_iter().flatten() {
        *trouble += 1;
        bar.suspend(|| match *trouble {
            ..=SHOWN_MAX if out.became.is_loss() => warn(format_args!("{place}: gap: {reason}")),
            ..=SHOWN_MAX => fault(format_args!("{place}: {reason}"), Exit::Incomplete),
            more if more == SHOWN_MAX + 1 => warn("more of that is only counted; --format json has it all"),
            _ => {}
        });
    }
}
