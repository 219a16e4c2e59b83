//! The stream processor as an AWS Lambda function: reads its settings, wires the engine, serves invocations.
//!
//! Settings come from environment variables ([`Settings`]); Region, credentials and endpoint by the SDK's own conventions. Logs are
//! JSON lines: what became of a batch, and one of metrics an invocation. A fault of the settings or the model ends the start with all faults in the log.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lambda_runtime::{Diagnostic, Error, LambdaEvent, service_fn};
use serde_json::value::RawValue;
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::{Connection, ConnectionOptions, DynamoStore};
use tablekeeper::adapters::lambda::metrics::{self, Batch};
use tablekeeper::adapters::lambda::{Answer, Failure, InvocationError, Settings, handle, time_left};
use tablekeeper::adapters::log::Log;
use tablekeeper::engine::batch::{Engine, OldImages};
use tablekeeper::engine::ports::Clock as _;
use tablekeeper::engine::telemetry::explain;
use tablekeeper::model::change::RawRecord;
use tablekeeper::model::load::Loaded;
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;

/// Kept back from the invocation's time, to answer and to log in.
const TIME_RESERVED: Duration = Duration::from_millis(500);

type LambdaEngine = Engine<DynamoStore, SystemClock>;

/// What invocations share.
struct Function {
    engine: LambdaEngine,
    settings: Settings,
    connection: Connection,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().with_span_list(false).with_env_filter(filter).with_target(false).init();
    let function = start().await.inspect_err(|reason| error!("cannot start: {reason:#}"))?;
    let function = &function;
    lambda_runtime::run(service_fn(move |event| invoke(function, event))).await
}

async fn start() -> anyhow::Result<Function> {
    let settings = Settings::read(|name| std::env::var(name).ok()).map_err(|faults| all(&faults))?;
    let deployment = settings.deployment.clone();
    // Half of a cold start is the model, the other half is where AWS is: a function that starts has more than one processor.
    let loading = tokio::task::spawn_blocking(move || deployment.load());
    let connection = Connection::open(ConnectionOptions::default()).await;
    let Loaded { model, warnings } = loading.await??;
    let source = &settings.deployment.model;
    for warning in &warnings {
        warn!("{source}:{warning}");
    }
    let connection = connection?;
    let store = DynamoStore::new(&connection, &model.table);
    info!(model = model.name, hash = model.hash.as_str(), table = model.table.name, "started");
    let engine = Engine::new(Arc::new(model), store, SystemClock::new());
    Ok(Function { engine, settings, connection })
}

fn all(faults: &[impl ToString]) -> anyhow::Error {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    anyhow::Error::msg(lines.join("\n"))
}

async fn invoke(function: &Function, event: LambdaEvent<Box<RawValue>>) -> Result<Answer, Diagnostic> {
    let Function { engine, settings, connection } = function;
    let left = time_left(event.context.deadline, engine.clock.now(), TIME_RESERVED);
    let trust = if settings.trust_old_images { OldImages::Trusted } else { OldImages::NotTrusted };
    let before = connection.usage().snapshot();
    let batch = Mutex::new(None);
    let apply = async |records: &[RawRecord]| apply(engine, records, trust, &batch).await;
    let result = handle(event.payload.get(), settings.reporting, left, apply).await;
    let (batch, now) = (batch.into_inner().unwrap_or_else(PoisonError::into_inner), engine.clock.now());
    let spent = connection.usage().snapshot().since(&before).consumption();
    let readings = [metrics::invocation(&result, batch.as_ref(), now), spent.readings()].concat();
    metrics::emit(&engine.model.table.name, now, &readings);
    result.map_err(|reason| failed(&reason))
}

/// Applies the batch; what came of it is left in `batch`, for metrics.
async fn apply(
    engine: &LambdaEngine,
    records: &[RawRecord],
    trust: OldImages,
    batch: &Mutex<Option<Batch>>,
) -> Result<(), Failure> {
    // Boxed: the whole commit as one state machine is more than the compiler lays out.
    let result = Box::pin(engine.apply(records, trust)).await;
    let (durable, report) = match &result {
        Ok(report) => (records.len(), report),
        Err(fault) => (fault.position, &*fault.report),
    };
    *batch.lock().unwrap_or_else(PoisonError::into_inner) = Some(Batch::new(records, durable, report.clone()));
    match result {
        Ok(report) => {
            Log::default().batch(None, &report);
            Ok(())
        }
        Err(fault) => {
            let (position, can_retry) = (fault.position, fault.can_retry());
            // It ends up in logs, ours and Lambda's.
            let reason = explain(&fault, false);
            warn!(position, sequence = fault.sequence, can_retry, error = reason, "batch not applied");
            Err(Failure { position, reason })
        }
    }
}

/// The failed invocation as Lambda shows it; the runtime logs it too.
fn failed(reason: &InvocationError) -> Diagnostic {
    Diagnostic { error_type: reason.code().to_owned(), error_message: reason.to_string() }
}
