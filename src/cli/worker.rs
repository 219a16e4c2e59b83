//! `worker`: reads the stream and applies it until told to stop.

use std::future::Future;
use std::io::IsTerminal as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Serialize;
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::DynamoStream;
use tablekeeper::adapters::http::{self, Listening, Telemetry};
use tablekeeper::adapters::log::Log;
use tablekeeper::engine::batch::{ApplyError, BatchReport};
use tablekeeper::engine::leases::LeaseSettings;
use tablekeeper::engine::ports::{Clock, StreamError};
use tablekeeper::engine::reconcile;
use tablekeeper::engine::shards::ShardSettings;
use tablekeeper::engine::telemetry::explain;
use tablekeeper::engine::worker::{Observer, OnGap, Progress, Worker, WorkerError, WorkerReport, WorkerSettings};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::args::{OnGapArg, OutputFormat, WorkerArgs};
use super::connect::{self, Tables};
use super::context::{Exit, Outcome, Stop, model_for_table, usage};
use super::output::{count, json, line};

/// Counts the records of derived items.
#[derive(Default)]
struct Ours(AtomicUsize);

impl Observer<BatchReport> for Ours {
    fn progress(&self, progress: Progress<'_, BatchReport>) {
        if let Progress::Batch { report, .. } = progress {
            self.0.fetch_add(report.ours, Ordering::Relaxed);
        }
    }
}

#[derive(Serialize)]
struct WorkerOut {
    batches: u64,
    records: u64,
    /// Of them records of derived items.
    ours: usize,
    reads: u64,
    gaps: u64,
    gap_open: bool,
    leases_lost: u64,
}

pub async fn run(args: &WorkerArgs, format: OutputFormat) -> Outcome {
    start_log(args.log_json);
    let mut stop = pin!(stop_signal());
    let model = model_for_table(&args.table)?;
    // Before anything else is begun: a port that is taken is a fault of the command line.
    let listening = match args.listen {
        Some(address) => Some(http::listen(address).await.map_err(usage)?),
        None => None,
    };
    let tables = tokio::select! {
        tables = connect::open(&args.table, model) => tables?,
        () = stop.as_mut() => return tell(&WorkerReport::default(), 0, false, format),
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
        consumer: args.consumer.clone(),
        leases: leases(args, &tables.clock),
        ..WorkerSettings::new(tables.model.hash.clone())
    };
    if let Some(cost) = tables.stream_view.as_deref().and_then(cost_of_view) {
        tracing::warn!("{cost}");
    }
    let ours = Ours::default();
    let shows_keys = args.log_keys && !tables.model.findings.hash_keys;
    let result = observed(&tables, &settings, (&ours, Log { keys: shows_keys }), listening, stop).await;
    tables.close().await;
    // Who is stopped before anything was read tells that, too.
    tell(&result?.unwrap_or_default(), ours.0.into_inner(), args.until_idle, format)
}

/// What a run came to.
fn tell(report: &WorkerReport, ours: usize, until_idle: bool, format: OutputFormat) -> Outcome {
    match format {
        OutputFormat::Json => json(&WorkerOut {
            batches: report.batches,
            records: report.records,
            ours,
            reads: report.reads,
            gaps: report.gaps,
            gap_open: report.gap_open,
            leases_lost: report.leases_lost,
        })?,
        OutputFormat::Text => line(format_args!(
            "{}, of which {ours} of derived items, in {}; everything read is applied",
            count(usize::try_from(report.records).unwrap_or(usize::MAX), "record"),
            count(usize::try_from(report.batches).unwrap_or(usize::MAX), "batch").replace("batchs", "batches"),
        )),
    }
    if report.gap_open {
        tracing::warn!("the table is not reconciled yet; the next start of a worker goes on with that");
    }
    // Who was told to stop has done what it was told; who was to read until idle has not.
    Ok(if report.gap_open && until_idle { Exit::Incomplete } else { Exit::Fine })
}

/// What it costs that the stream does not tell all of a change; the derived items come out the same.
fn cost_of_view(view: &str) -> Option<String> {
    let cost = match view {
        "NEW_AND_OLD_IMAGES" => return None,
        "NEW_IMAGE" => "no record can be passed over for changing nothing that is derived: each reads its ledger row",
        _ => "each record reads its item from the table, and those of derived items do too",
    };
    Some(format!("the stream's view is {view}: {cost}; a stream of NEW_AND_OLD_IMAGES saves these reads"))
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

/// Reads until told to stop, with a log and, if so wished, with health and metrics over HTTP. `None`: told to stop before it read.
async fn observed(
    tables: &Tables,
    settings: &WorkerSettings,
    (ours, log): (&Ours, Log),
    listening: Option<Listening>,
    stop: impl Future<Output = ()> + Send,
) -> Result<Option<WorkerReport>, Stop> {
    let Some(listening) = listening else {
        return checked(tables, settings, &(ours, log), log.keys, stop).await;
    };
    let telemetry = Arc::new(Telemetry::new(tables.clock.clone())?);
    let server = Server::start(listening, Arc::clone(&telemetry), tables);
    let result = checked(tables, settings, &((&*telemetry, ours), log), log.keys, stop).await;
    server.end().await;
    result
}

/// Looks whether the two tables belong together, then reads. On a first start that look may take as long as a large table is, so
/// whoever watches from outside hears of it, and it ends when told to stop.
async fn checked(
    tables: &Tables,
    settings: &WorkerSettings,
    observer: &impl Observer<BatchReport>,
    keys: bool,
    stop: impl Future<Output = ()> + Send,
) -> Result<Option<WorkerReport>, Stop> {
    let (mut stop, engine) = (pin!(stop), tables.engine());
    let mut told = false;
    let page = || {
        if !std::mem::replace(&mut told, true) {
            tracing::info!("there is no ledger yet: looking through the table for counts that somebody made before");
        }
        observer.progress(Progress::Turn { owned: 0, reached: None });
    };
    // Records must not be applied to counts that no ledger knows of, nor taken from counts that are not there.
    tokio::select! {
        belong = reconcile::refuse_strangers(&engine, page) => belong?,
        () = stop.as_mut() => return Ok(None),
    }
    read(tables, settings, observer, keys, stop).await.map(Some)
}

/// The server of health and metrics, beside the worker.
struct Server {
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Server {
    fn start(listening: Listening, telemetry: Arc<Telemetry<SystemClock>>, tables: &Tables) -> Server {
        tracing::info!(address = %listening.address, "serving /healthz, /readyz and /metrics");
        let (stop, stopped) = oneshot::channel();
        let connection = tables.connection.clone();
        let consumption = move || connection.usage().snapshot().consumption();
        let stopped = async move { stopped.await.unwrap_or_default() };
        let (store, model) = (tables.store.clone(), Arc::clone(&tables.model));
        let task = tokio::spawn(http::serve(listening, telemetry, store, model, consumption, stopped));
        Server { stop, task }
    }

    async fn end(self) {
        let _ = self.stop.send(());
        if let Ok(Err(error)) = self.task.await {
            tracing::warn!(error = %error, "health and metrics were not served to the end");
        }
    }
}

/// Reads the table's stream until `stop` completes, or until idle by the settings. With `keys` an error names items by them.
pub async fn read(
    tables: &Tables,
    settings: &WorkerSettings,
    observer: &impl Observer<BatchReport>,
    keys: bool,
    stop: impl Future<Output = ()> + Send,
) -> Result<WorkerReport, Stop> {
    let mut engine = tables.engine();
    // Who wants to be done when everything is read does not want to wait for what others may have under way.
    engine.settings.second_look = !settings.until_idle;
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
    // What ends a worker ends up in its log.
    let explained = |error: WorkerError<ApplyError>| anyhow::anyhow!(explain(&error, keys));
    Ok(worker.run(stop).await.map_err(explained)?)
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

/// What this program says, and of what it is made of errors only: the SDK and the embedded database warn of what is then handled.
const LOG_DEFAULT: &str = "tablekeeper=info,error";

/// Logs go to standard error; `RUST_LOG` chooses what.
fn start_log(as_json: bool) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(LOG_DEFAULT));
    // Colours are for eyes: a file or a journal would keep their escape sequences.
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    let _ = if as_json { log.json().try_init() } else { log.try_init() };
}
