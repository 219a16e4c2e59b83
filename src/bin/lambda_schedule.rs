//! What runs by the clock, as an AWS Lambda function: sweeps, reports, slices of a reconcile, verifies.
//!
//! Each call names one task ([`Call`]). A task that fails fails the invocation, so that Lambda calls again and alarms ring; what it
//! had done until then stays, and nothing is done twice. Settings come from environment variables ([`ScheduleSettings`]);
//! Region, credentials and endpoints by the SDK's own conventions. Logs are JSON lines, one a task that says what it did, and none
//! holds a value of an item.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use lambda_runtime::{Diagnostic, Error, LambdaEvent, service_fn};
use serde_json::value::RawValue;
use tablekeeper::adapters::analytics;
use tablekeeper::adapters::bucket::Bucket;
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::definitions::{self, Found};
use tablekeeper::adapters::dynamodb::{Connection, ConnectionOptions, DynamoStore, UsageSnapshot};
use tablekeeper::adapters::lambda::metrics;
use tablekeeper::adapters::lambda::{Call, ScheduleSettings, Task, time_left};
use tablekeeper::adapters::page::{self, Encoding, Files};
use tablekeeper::adapters::sinks::TopicSink;
use tablekeeper::engine::batch::Engine;
use tablekeeper::engine::checkpoint;
use tablekeeper::engine::ports::Clock as _;
use tablekeeper::engine::reconcile::{ReconcileReport, has_ledger};
use tablekeeper::engine::scan::source_items;
use tablekeeper::engine::slices::{self, Slice, SliceOptions};
use tablekeeper::engine::slots::{self, Claim, Claimed, Holder, Slot};
use tablekeeper::engine::sweep::{SweepSettings, sweep};
use tablekeeper::engine::telemetry::census::{Census, census};
use tablekeeper::engine::telemetry::explain;
use tablekeeper::engine::verify::{self, SampleOptions, VerifyOptions, VerifyReport};
use tablekeeper::model::key::TableKey;
use tablekeeper::model::load::Loaded;
use tablekeeper::model::spec::Model;
use tablekeeper::report::definition::{self, Definition};
use tablekeeper::report::input::{Freshness, ReportInput};
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;

/// Kept back from the invocation's time, to give back what was claimed, to answer and to log in.
const TIME_RESERVED: Duration = Duration::from_secs(5);
/// After the invocation's time is up, nothing of it can still be under way for longer.
const AFTERMATH: TimeDelta = TimeDelta::seconds(30);
/// Most items of both tables together that are verified whole: their ledger has to fit the function's memory.
const WHOLE_MAX: u64 = 200_000;
/// Part of the time that the whole may take; a sample gets the rest.
const WHOLE_TIME: f64 = 0.7;
/// A change should be applied so long after the stream function's window.
const ARRIVAL: Duration = Duration::from_secs(5);
const SAMPLE_ITEMS_MAX: u64 = 20_000;
/// Source items of one segment, about.
const SEGMENT_ITEMS: u64 = 1000;
/// Most kinds of differences that get a line each.
const SHOWN_MAX: usize = 20;

/// All that is made once.
struct Function {
    engine: Engine<DynamoStore, SystemClock>,
    connection: Connection,
    settings: ScheduleSettings,
    topic: TopicSink,
    bucket: Bucket,
    definitions: Vec<Definition>,
}

// The SQL engine blocks threads, which the other flavour has none of to spare.
#[tokio::main]
async fn main() -> Result<(), Error> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().with_span_list(false).with_env_filter(filter).with_target(false).init();
    let function = start().await.inspect_err(|reason| error!("cannot start: {reason:#}"))?;
    let function = &function;
    lambda_runtime::run(service_fn(move |event| invoke(function, event))).await
}

async fn start() -> anyhow::Result<Function> {
    let settings = ScheduleSettings::read(|name| std::env::var(name).ok()).map_err(|faults| all(&faults))?;
    let Loaded { model, warnings } = settings.deployment.load()?;
    let source = &settings.deployment.model;
    for warning in &warnings {
        warn!("{source}:{warning}");
    }
    let definitions = model
        .reports
        .names
        .iter()
        .map(|report| read_definition(&report.name, source))
        .collect::<Result<Vec<_>, _>>()?;
    for definition in definitions.iter().filter(|definition| definition.schedule.is_none()) {
        info!(report = definition.name, "this report has no schedule: it is printed only when asked for");
    }
    let connection = Connection::open(ConnectionOptions::default()).await?;
    let store = DynamoStore::new(&connection, &model.table);
    info!(model = model.name, hash = model.hash.as_str(), table = model.table.name, "started");
    Ok(Function {
        topic: TopicSink::new(connection.config(), &settings.topic_arn),
        bucket: Bucket::new(connection.config(), &settings.bucket),
        engine: Engine::new(Arc::new(model), store, SystemClock::new()),
        connection,
        settings,
        definitions,
    })
}

/// A report that the model names: a shipped one, or a file of the deployment package.
fn read_definition(name: &str, model: &str) -> anyhow::Result<Definition> {
    let Found { name, place, text } = definitions::find(name, Some(model))?;
    definition::parse(&text, &name).map_err(|faults| all(&faults).context(format!("the report `{place}` is at fault")))
}

fn all(faults: &[impl ToString]) -> anyhow::Error {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    anyhow::Error::msg(lines.join("\n"))
}

async fn invoke(function: &Function, event: LambdaEvent<Box<RawValue>>) -> Result<(), Diagnostic> {
    let call = Call::parse(event.payload.get(), function.engine.clock.now())
        .map_err(|fault| Diagnostic { error_type: "not-a-call".to_owned(), error_message: fault.to_string() })?;
    let left = time_left(event.context.deadline, function.engine.clock.now(), TIME_RESERVED);
    let holder = &event.context.request_id;
    let before = function.connection.usage().snapshot();
    // Boxed: as one state machine they are more than the compiler lays out.
    let done = match call.task {
        Task::Sweep => Box::pin(function.sweep(call.at, left)).await,
        Task::Report => Box::pin(function.report(call.at, left, holder)).await,
        Task::Reconcile => Box::pin(function.reconcile(left)).await,
        Task::Verify => Box::pin(function.verify(left)).await,
    };
    function.measure(&before).await;
    done.map_err(|reason| {
        // It ends up in logs, ours and Lambda's.
        let (task, error) = (call.task.name(), explain(reason.as_ref(), false));
        error!(task, error, "task failed");
        Diagnostic { error_type: format!("{task}-failed"), error_message: error }
    })
}

impl Function {
    /// Writes the line of metrics: what the invocation has asked of the database, and what stands in the tables after it.
    async fn measure(&self, before: &UsageSnapshot) {
        let Engine { model, store, clock, .. } = &self.engine;
        let standing = match census(store, model).await {
            Ok(standing) => Some(standing),
            Err(reason) => {
                warn!(
                    error = explain(&reason, false),
                    "what stands in the tables could not be counted for the metrics"
                );
                None
            }
        };
        let spent = self.connection.usage().snapshot().since(before).consumption();
        let standing = standing.iter().flat_map(Census::readings);
        metrics::emit(&model.table.name, clock.now(), &standing.chain(spent.readings()).collect::<Vec<_>>());
    }
}

/// Ends what takes longer than `left`.
async fn within<T>(left: Duration, what: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::time::timeout(left, what).await.map_err(|_| {
        anyhow::anyhow!("it was not done within {} s; give the function more time or memory", left.as_secs())
    })?
}

// ---- sweep ---------------------------------------------------------------------------------------------------------

impl Function {
    fn model(&self) -> &Model {
        &self.engine.model
    }

    async fn sweep(&self, at: DateTime<Utc>, left: Duration) -> anyhow::Result<()> {
        let Engine { model, store, clock, .. } = &self.engine;
        let settings = SweepSettings::default();
        let looking = async { Ok(sweep(model, store, clock, at, &settings, &self.topic).await?) };
        let report = within(left, looking).await?;
        if report.entries.is_empty() && !has_ledger(&self.engine).await? {
            warn!("nobody has taken in this table yet, so nothing is known to fall due");
        }
        info!(
            task = Task::Sweep.name(),
            due = report.entries.len(),
            sent = report.sent.len(),
            undelivered = report.undelivered.len(),
            resolved = report.resolved.len(),
            unreadable = report.faults.len(),
            "swept"
        );
        if let Some(first) = report.undelivered.first() {
            let (count, reason) = (report.undelivered.len(), &first.reason);
            bail!("{count} notifications stay in the outbox for the next sweep; the first: {reason}");
        }
        // What a fault says names an item.
        ensure!(
            report.faults.is_empty(),
            "{} rows cannot be read; `tablekeeper sweep` names them",
            report.faults.len()
        );
        Ok(())
    }
}

// ---- report --------------------------------------------------------------------------------------------------------

/// A report that is to be printed now.
struct Job<'f> {
    definition: &'f Definition,
    claim: Claim,
}

impl Function {
    async fn report(&self, at: DateTime<Utc>, left: Duration, request: &str) -> anyhow::Result<()> {
        let clock = &self.engine.clock;
        let until = clock.now() + TimeDelta::from_std(left + TIME_RESERVED)? + AFTERMATH;
        // Lambda calls again under the same id.
        let holder = Holder { name: format!("{request}#{:06x}", (clock.jitter() * f64::from(1 << 24)) as u32), until };
        let (jobs, others) = self.claim_all(at, &holder).await?;
        let printed = jobs.len();
        if !jobs.is_empty() {
            self.print_all(&jobs, left).await?;
        }
        let task = Task::Report.name();
        if others > 0 {
            info!(task, printed, others, "reports are being printed by another invocation");
            return Ok(());
        }
        // An alarm counts these lines, word for word.
        info!(task, printed, reports = self.definitions.len(), "no report is missing");
        Ok(())
    }

    /// Claims what is due and free; the number of slots that others are printing.
    async fn claim_all(&self, at: DateTime<Utc>, holder: &Holder) -> anyhow::Result<(Vec<Job<'_>>, usize)> {
        let Engine { store, clock, .. } = &self.engine;
        let (mut jobs, mut others) = (Vec::new(), 0);
        for definition in &self.definitions {
            let (Some(schedule), report) = (&definition.schedule, &definition.name) else { continue };
            let since = slots::owed_since(store, clock, report, at).await?;
            let Some(due) = schedule.due(since, at, &self.model().zone) else { continue };
            let slot = Slot { report: report.clone(), at: due.slot };
            match slots::claim(store, clock, &slot, &due.earlier, holder).await? {
                Claimed::Mine(claim) => jobs.push(Job { definition, claim }),
                Claimed::Theirs { .. } => others += 1,
                Claimed::Printed => slots::settle(store, clock, &slot).await?,
            }
        }
        Ok((jobs, others))
    }

    /// Prints every job that can be printed; those that cannot are given back.
    async fn print_all(&self, jobs: &[Job<'_>], left: Duration) -> anyhow::Result<()> {
        let Engine { store, clock, .. } = &self.engine;
        let end = clock.now() + TimeDelta::from_std(left)?;
        let rest = || (end - clock.now()).to_std().unwrap_or_default();
        let mut input = within(rest(), self.input(jobs)).await;
        let mut failures = Vec::new();
        for job in jobs {
            let done = match &mut input {
                Ok(input) => within(rest(), self.print(job, input)).await,
                Err(reason) => Err(anyhow::anyhow!("{reason:#}")),
            };
            if let Err(reason) = done {
                failures.push(format!("{}: {}", job.definition.name, explain(reason.as_ref(), false)));
                slots::give_back(store, clock, &job.claim).await?;
            }
        }
        ensure!(failures.is_empty(), "not printed: {}", failures.join("; "));
        Ok(())
    }

    /// All items, and what is derived from them; the same for all reports but for the date.
    async fn input(&self, jobs: &[Job<'_>]) -> anyhow::Result<ReportInput<'_>> {
        let (model, names) = (self.model(), self.model().table.key_names());
        let mut items = Vec::new();
        source_items(&self.engine.store, &self.engine.clock, |item| {
            items.extend(TableKey::of(&item, &names).map(|key| (key, item)));
        })
        .await?;
        let freshness = Freshness { source: Some(model.table.name.clone()), ..Freshness::default() };
        let as_of = jobs.first().map(|job| self.as_of(&job.claim)).unwrap_or_default();
        Ok(analytics::collect(model, items, as_of, freshness))
    }

    /// The day of the slot by the clock of the site.
    fn as_of(&self, claim: &Claim) -> chrono::NaiveDate {
        claim.slot.at.with_timezone(&self.model().zone).date_naive()
    }

    async fn print(&self, job: &Job<'_>, input: &mut ReportInput<'_>) -> anyhow::Result<()> {
        let Engine { store, clock, .. } = &self.engine;
        let Job { definition, claim } = job;
        input.as_of = self.as_of(claim);
        let Files { page, csv } = page::files(&analytics::run(definition, input)?, Encoding::Utf8)?;
        let folder =
            format!("{}{}/{}/", self.settings.prefix, definition.name, claim.slot.at.format("%Y-%m-%dT%H%M%SZ"));
        let mut keys = Vec::new();
        // The page last: where it is, all is.
        for file in csv.into_iter().chain([page]) {
            let key = format!("{folder}{}", file.name);
            self.bucket.put(&key, file.content_type, file.bytes).await?;
            keys.push(key);
        }
        if slots::finish(store, clock, claim, &keys).await? {
            slots::settle(store, clock, &claim.slot).await?;
        } else {
            warn!(report = definition.name, "another invocation has taken the report over, and prints it once more");
        }
        let slot = claim.slot.at.to_rfc3339();
        info!(report = definition.name, slot, files = keys.len(), missed = claim.skipped, "report printed");
        Ok(())
    }
}

// ---- reconcile -----------------------------------------------------------------------------------------------------

impl Function {
    async fn reconcile(&self, left: Duration) -> anyhow::Result<()> {
        let arn = self.stream_arn().await?;
        let options = SliceOptions { time: left, max_read_units: self.settings.max_read_units };
        let slice = slices::go_on(&self.engine, &arn, &options).await?;
        let task = Task::Reconcile.name();
        match slice {
            Slice::NotCalledFor => info!(task, "no reconcile is called for"),
            Slice::LeftToWorker => info!(task, "a worker lives and sees to the gap"),
            Slice::Waits(until) => {
                let until = until.to_rfc3339();
                info!(task, until, "records may be lost: the reconcile begins when everybody has read of it");
            }
            Slice::Interrupted(report) => told(&report, "a slice of the reconcile is done, the next goes on"),
            Slice::Done { report, closed: true } => told(&report, "the table is reconciled, the gap is closed"),
            Slice::Done { report, closed: false } => {
                told(&report, "the table is reconciled; another gap was found meanwhile, which the next slice sees to");
            }
        }
        Ok(())
    }

    /// The stream's ARN, of a table whose state table is its own.
    async fn stream_arn(&self) -> anyhow::Result<String> {
        let table = &self.model().table;
        let described = self.connection.describe_table(&table.name).await?;
        let arn = described
            .stream_arn
            .with_context(|| format!("the table `{}` has no stream; enable one with new and old images", table.name))?;
        let other = checkpoint::other_table(&self.engine.store, &self.engine.clock, &arn).await?;
        match other {
            Some(other) => bail!(
                "the state table `{}` is that of {other}; give each table a state table of its own",
                table.state_table
            ),
            None => Ok(arn),
        }
    }
}

fn told(report: &ReconcileReport, what: &str) {
    let ReconcileReport { items, ledger_rows, reconciled, quarantined, transactions, .. } = report;
    info!(task = Task::Reconcile.name(), items, ledger_rows, reconciled, quarantined, transactions, "{what}");
}

// ---- verify --------------------------------------------------------------------------------------------------------

impl Function {
    async fn verify(&self, left: Duration) -> anyhow::Result<()> {
        let Engine { model, store, clock, .. } = &self.engine;
        let end = clock.now() + TimeDelta::from_std(left)?;
        let table = &model.table;
        let items = self.connection.describe_table(&table.name).await?.items;
        let rows = self.connection.describe_table(&table.state_table).await?.items;
        let pause = self.settings.window + ARRIVAL;
        let settle = VerifyOptions { pause, ..VerifyOptions::default() };
        let mut whole = None;
        if items.saturating_add(rows) <= WHOLE_MAX {
            let proof = verify::settle(model, store, clock, &settle, |_, _| {});
            whole = tokio::time::timeout(left.mul_f64(WHOLE_TIME), proof).await.ok().transpose()?;
        }
        let is_whole = whole.is_some();
        let report = match whole {
            Some(report) => report,
            None => {
                let segments = u32::try_from((items / SEGMENT_ITEMS).clamp(1, 1_000_000))?;
                let time = (end - clock.now()).to_std().unwrap_or_default();
                let options = SampleOptions { segments, time, items_max: SAMPLE_ITEMS_MAX, settle };
                // A last look may begin just before the time is up.
                within(time + TIME_RESERVED / 2, async { Ok(verify::sample(model, store, clock, &options).await?) })
                    .await?
            }
        };
        judge(&report, is_whole)
    }
}

fn judge(report: &VerifyReport, whole: bool) -> anyhow::Result<()> {
    let VerifyReport { source_items: items, derived_items, ledger_rows, quarantined, unsettled, .. } = report;
    let (differences, malformed) = (report.differences.len(), report.malformed.len());
    info!(
        task = Task::Verify.name(),
        whole, items, derived_items, ledger_rows, quarantined, malformed, unsettled, differences, "verified"
    );
    let mut kinds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for difference in &report.differences {
        *kinds.entry((difference.kind.name(), &difference.what)).or_default() += 1;
    }
    for ((kind, what), count) in kinds.iter().take(SHOWN_MAX) {
        warn!(kind, what, differences = count, "what is stored differs from what it should be");
    }
    let advice = report.advice().unwrap_or_default();
    let plural = if differences == 1 { "" } else { "s" };
    ensure!(differences == 0, "{differences} difference{plural}; `tablekeeper verify` names what differs. {advice}");
    Ok(())
}
