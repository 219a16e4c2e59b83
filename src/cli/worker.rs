//! `worker`: reads the stream and applies it until told to stop.

use std::future::Future;
use std::io::IsTerminal as _;
use std::pin::pin;
use std::time::Duration;

use serde::Serialize;
use tablekeeper::adapters::dynamodb::DynamoStream;
use tablekeeper::engine::batch::BatchReport;
use tablekeeper::engine::ports::StreamError;
use tablekeeper::engine::shards::ShardSettings;
use tablekeeper::engine::worker::{Observer, OnGap, Progress, Worker, WorkerReport, WorkerSettings};
use tracing::{debug, error, info, warn};

use super::args::{OnGapArg, OutputFormat, WorkerArgs};
use super::connect::{self, Tables};
use super::context::{Exit, Outcome, Stop, model_for_table, usage};
use super::output::{count, json, line};

/// Writes what happens to the log. Values of items are not logged.
pub struct Log;

impl Observer<BatchReport> for Log {
    fn progress(&self, progress: Progress<'_, BatchReport>) {
        match progress {
            Progress::Started { arn, shards, resumed } => info!(arn, shards, resumed, "reading the stream"),
            Progress::Notice(notice) => info!("{notice}"),
            Progress::Batch { shard, records, report } if report.ours < records => info!(
                shard = %shard.shard,
                records,
                applied = report.applied,
                already_applied = report.already_applied,
                skipped = report.skipped,
                quarantined = report.quarantined + report.malformed,
                transactions = report.transactions,
                "batch applied"
            ),
            Progress::Batch { records, .. } => debug!(records, "batch of derived items passed over"),
            Progress::BatchFailed { shard, attempt, error } => {
                warn!(shard = %shard.shard, attempt, error = %chain(error), "batch failed, it is tried again");
            }
            Progress::GapClosed => info!("the table is reconciled, the gap is closed"),
            Progress::RepairPostponed => warn!("the gap stays open: run `tablekeeper reconcile`"),
            Progress::RepairFailed(reason) => error!(reason, "reconciling failed, it is tried again"),
            Progress::CheckpointFailed(reason) => warn!(reason, "a checkpoint was not stored, it is tried again"),
            Progress::Stopping => info!("stopping: the batch at hand is finished first"),
        }
    }
}

/// The error and its sources in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

#[derive(Serialize)]
struct WorkerOut {
    batches: u64,
    records: u64,
    reads: u64,
    gaps: u64,
    gap_open: bool,
}

pub async fn run(args: &WorkerArgs, format: OutputFormat) -> Outcome {
    start_log(args.log_json);
    let mut stop = pin!(stop_signal());
    let model = model_for_table(&args.table)?;
    let tables = tokio::select! {
        tables = connect::open(&args.table, model) => tables?,
        () = stop.as_mut() => return Ok(Exit::Fine),
    };
    let shards = ShardSettings {
        poll_min: Duration::from_millis(args.poll_ms.min(1000)),
        poll_max: Duration::from_millis(args.poll_ms),
        ..match args.poll_ms {
            ..1000 => ShardSettings::fast(),
            _ => ShardSettings::default(),
        }
    };
    let settings = WorkerSettings {
        shards,
        on_gap: match args.on_gap {
            OnGapArg::Halt => OnGap::Halt,
            OnGapArg::Reconcile => OnGap::Reconcile,
        },
        until_idle: args.until_idle,
        ..WorkerSettings::new(tables.model.hash.clone())
    };
    let result = read(&tables, &settings, &Log, stop).await;
    tables.close().await;
    let report = result?;
    match format {
        OutputFormat::Json => json(&WorkerOut {
            batches: report.batches,
            records: report.records,
            reads: report.reads,
            gaps: report.gaps,
            gap_open: report.gap_open,
        })?,
        OutputFormat::Text => line(format_args!(
            "{} in {}; everything read is applied",
            count(usize::try_from(report.records).unwrap_or(usize::MAX), "record"),
            count(usize::try_from(report.batches).unwrap_or(usize::MAX), "batch").replace("batchs", "batches"),
        )),
    }
    Ok(if report.gap_open { Exit::Incomplete } else { Exit::Fine })
}

/// Reads the table's stream until `stop` completes, or until idle by the settings.
pub async fn read(
    tables: &Tables,
    settings: &WorkerSettings,
    observer: &impl Observer<BatchReport>,
    stop: impl Future<Output = ()> + Send,
) -> Result<WorkerReport, Stop> {
    let engine = tables.engine();
    let table = &tables.model.table.name;
    let stream = DynamoStream::of_table(&tables.connection, table).await.map_err(|error| match error {
        StreamError::NoStream => usage(anyhow::Error::new(error).context(format!("cannot read changes of `{table}`"))),
        error => error.into(),
    })?;
    let worker = Worker {
        sink: &engine,
        store: &tables.store,
        stream: &stream,
        clock: &tables.clock,
        observer,
        repair: &engine,
        settings,
    };
    Ok(worker.run(stop).await?)
}

/// Completes at the first SIGINT or SIGTERM from this call on, also at one that comes before it is waited for.
pub fn stop_signal() -> impl Future<Output = ()> + Send {
    #[cfg(unix)]
    let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok();
    async move {
        #[cfg(unix)]
        if let Some(mut terminate) = terminate {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
        let _ = tokio::signal::ctrl_c().await;
    }
}

/// Logs go to standard error; `RUST_LOG` chooses what.
fn start_log(as_json: bool) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("tablekeeper=info,warn"));
    // Colours are for eyes: a file or a journal would keep their escape sequences.
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    let _ = if as_json { log.json().try_init() } else { log.try_init() };
}
