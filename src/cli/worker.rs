//! `worker`: reads the stream and applies it until told to stop.

use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use tablekeeper::adapters::dynamodb::DynamoStream;
use tablekeeper::engine::batch::BatchReport;
use tablekeeper::engine::leases::LeaseSettings;
use tablekeeper::engine::ports::Clock;
use tablekeeper::engine::shards::ShardSettings;
use tablekeeper::engine::worker::{Observer, OnGap, Progress, Worker, WorkerReport, WorkerSettings};
use tracing::{debug, error, info, warn};

use super::args::{OnGapArg, OutputFormat, WorkerArgs};
use super::connect::{self, Tables};
use super::context::{Exit, Outcome, Stop, model_for_table};
use super::output::{count, json, line};

/// Writes what happens to the log. Values of items are not logged.
pub struct Log;

impl Observer<BatchReport> for Log {
    fn progress(&self, progress: Progress<'_, BatchReport>) {
        match progress {
            Progress::Started { arn, shards, resumed } => info!(arn, shards, resumed, "reading the stream"),
            Progress::Notice(notice) => info!("{notice}"),
            Progress::Batch { shard, shards, records, report } if report.ours < records => info!(
                shard = %shard.shard,
                shards,
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
            Progress::ShardTaken { shard, from: None } => info!(shard = %shard.shard, "shard taken"),
            Progress::ShardTaken { shard, from: Some(from) } => info!(shard = %shard.shard, from, "shard taken over"),
            Progress::ShardLost(shard) => info!(shard = %shard.shard, "shard is another worker's now"),
            Progress::Shares { owned, workers } => info!(owned, workers, "shards shared"),
            Progress::LeasesFailed(reason) => warn!(reason, "leases were not renewed, it is tried again"),
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
    leases_lost: u64,
}

pub async fn run(args: &WorkerArgs, format: OutputFormat) -> Outcome {
    start_log(args.log_json);
    let tables = connect::open(&args.table, model_for_table(&args.table)?).await?;
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
        consumer: args.consumer.clone(),
        leases: leases(args, &tables.clock),
        ..WorkerSettings::new(tables.model.hash.clone())
    };
    let result = read(&tables, &settings, &Log, stop_signal()).await;
    tables.close().await;
    let report = result?;
    match format {
        OutputFormat::Json => json(&WorkerOut {
            batches: report.batches,
            records: report.records,
            reads: report.reads,
            gaps: report.gaps,
            gap_open: report.gap_open,
            leases_lost: report.leases_lost,
        })?,
        OutputFormat::Text => line(format_args!(
            "{} in {}; everything read is applied",
            count(usize::try_from(report.records).unwrap_or(usize::MAX), "record"),
            count(usize::try_from(report.batches).unwrap_or(usize::MAX), "batch").replace("batchs", "batches"),
        )),
    }
    Ok(if report.gap_open { Exit::Incomplete } else { Exit::Fine })
}

/// How this worker shares the shards. The embedded database in a directory has one process, which needs no leases.
fn leases(args: &WorkerArgs, clock: &impl Clock) -> Option<LeaseSettings> {
    if args.lease_seconds == 0 || args.table.data_dir.is_some() {
        return None;
    }
    // The process id alone is the same in every container.
    let name = || format!("{:x}-{:06x}", std::process::id(), (clock.jitter() * f64::from(1 << 24)) as u32);
    let worker = args.worker_id.clone().unwrap_or_else(name);
    Some(LeaseSettings { worker, lease_time: Duration::from_secs(args.lease_seconds) })
}

/// Reads the table's stream until `stop` completes, or until idle by the settings.
pub async fn read(
    tables: &Tables,
    settings: &WorkerSettings,
    observer: &impl Observer<BatchReport>,
    stop: impl Future<Output = ()> + Send,
) -> Result<WorkerReport, Stop> {
    let engine = tables.engine();
    let stream = DynamoStream::of_table(&tables.connection, &tables.model.table.name).await?;
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

/// Completes at the first SIGINT or SIGTERM.
pub async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

/// Logs go to standard error; `RUST_LOG` chooses what.
fn start_log(as_json: bool) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("tablekeeper=info,warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _ = if as_json { log.json().try_init() } else { log.try_init() };
}
