//! `demo`: the whole job on sample data, on the embedded database, in seconds.

mod day;
mod show;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use chrono::{DateTime, NaiveDate, Utc};
use serde::Serialize;
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::Created;
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::adapters::sinks::{JsonLinesSink, LineSink, LocalSink, Sinks};
use tablekeeper::derive;
use tablekeeper::engine::ports::{Clock as _, Store as _};
use tablekeeper::engine::scan::Pages;
use tablekeeper::engine::shards::ShardSettings;
use tablekeeper::engine::sweep::{SweepReport, SweepSettings, sweep};
use tablekeeper::engine::verify::{VerifyReport, verify};
use tablekeeper::engine::worker::{OnGap, Unobserved, WorkerSettings};
use tablekeeper::model::key::{KeyNames, TableKey};
use tablekeeper::model::load;
use tablekeeper::model::shipped::{SHIPPED, Shipped, shipped};
use tablekeeper::model::value::Item;
use tablekeeper::plan::ledger::{Applied, LedgerRow};
use tablekeeper::plan::write::TableRef;
use tablekeeper::report::input::Freshness;

use super::args::{DemoArgs, OutputFormat};
use super::connect::{self, Database, Tables};
use super::context::{Exit, Outcome, Stop, make_directory, usage};
use super::output::{BOLD, DIM, count, heading, json, line, paint};
use super::report::{self, Written};
use super::sweep::{noon, print_entries};
use super::{proof, worker};

/// Longest wait for the worker to derive what was written.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two looks at the ledger.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What `demo --format json` prints.
#[derive(Serialize)]
struct DemoOut<'r> {
    model: &'r str,
    endpoint: &'r str,
    steps: usize,
    sweep: super::sweep::SweepOut<'r>,
    reports: &'r [Written],
    verify: &'r VerifyReport,
    seconds: f64,
}

pub async fn run(args: &DemoArgs, format: OutputFormat) -> Outcome {
    let started = SystemClock::new().now();
    let Some(sample) = shipped(&args.model) else {
        let names: Vec<&str> = SHIPPED.iter().map(|model| model.name).collect();
        return Err(usage(anyhow::anyhow!("no shipped model `{}`; there are {}", args.model, names.join(", "))));
    };
    make_directory(&args.out)?;
    // Begun anew: the notifications of an earlier run are not this one's.
    let notifications = notifications(args);
    std::fs::File::create(&notifications)
        .with_context(|| format!("cannot write `{}`; name another directory with --out", notifications.display()))
        .map_err(usage)?;
    let (tables, created) = set_up(args, sample).await?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let tables = Arc::new(tables);
    let reader = tokio::spawn({
        let tables = Arc::clone(&tables);
        async move { read_stream(&tables, stopped).await }
    });
    if created == Created::Before && format == OutputFormat::Text {
        line(again(args));
    }
    let show = Show { tables: &tables, names: tables.model.table.key_names(), text: format == OutputFormat::Text };
    // Whatever the day comes to, the worker is stopped in order.
    let played = show.play(args, sample, started).await;
    let played = match (played, args.hold) {
        (Ok(done), true) => {
            show.hold().await;
            Ok(done)
        }
        (played, _) => played,
    };
    let _ = stop.send(());
    let read = reader.await.context("the worker ended unexpectedly")?;
    if let Ok(tables) = Arc::try_unwrap(tables) {
        tables.close().await;
    }
    let exit = played?;
    read?;
    Ok(exit)
}

fn notifications(args: &DemoArgs) -> PathBuf {
    args.out.join("notifications.jsonl")
}

/// What a second run on kept data does.
fn again(args: &DemoArgs) -> String {
    let dir = args.data_dir.as_deref().unwrap_or(Path::new("")).display();
    format!(
        "{} `{dir}` holds this demo already: the sample is written over what is there and the day is played again; what was \
         told stays told. For a fresh start give another --data-dir.\n",
        paint(BOLD, "Again:"),
    )
}

/// The embedded database with the model's tables, and whether they had to be made.
async fn set_up(args: &DemoArgs, sample: Shipped) -> Result<(Tables, Created), Stop> {
    let model = load::load(sample.source, sample.name)
        .map_err(|faults| anyhow::anyhow!("the shipped model `{}` has {}", sample.name, count(faults.len(), "fault")))?
        .model;
    args.data_dir.as_deref().map_or(Ok(()), Embedded::making).map_err(usage)?;
    let database = Database::embedded(args.data_dir.as_deref()).await?;
    if let Some(dir) = &args.data_dir {
        claim(dir, &model.table.name, database.connection.describe_table(&model.table.name).await.is_ok())?;
    }
    let created = database.connection.create_table(&model.table).await?;
    let tables = connect::tables(model, database).await?;
    args.data_dir.as_deref().map_or(Ok(()), Embedded::made).map_err(usage)?;
    Ok((tables, created))
}

/// The demo plays on tables that it made itself, and on no others: it writes over what is there.
fn claim(dir: &Path, table: &str, is_there: bool) -> Result<(), Stop> {
    let claim = dir.join(format!("{table}.demo"));
    if is_there && !claim.exists() {
        return Err(usage(anyhow::anyhow!(
            "`{}` has a table `{table}` that the demo did not make, and would write over; give another --data-dir",
            dir.display()
        )));
    }
    std::fs::write(&claim, "The demo made this table and writes over it.\n")
        .with_context(|| format!("cannot write `{}`", claim.display()))
        .map_err(Stop::from)
}

async fn read_stream(tables: &Tables, stop: tokio::sync::oneshot::Receiver<()>) -> Result<(), Stop> {
    let settings = WorkerSettings {
        shards: ShardSettings::fast(),
        on_gap: OnGap::Reconcile,
        ..WorkerSettings::new(tables.model.hash.clone())
    };
    worker::read(tables, &settings, &Unobserved, true, async {
        let _ = stop.await;
    })
    .await?;
    Ok(())
}

/// Plays the day and shows it.
struct Show<'t> {
    tables: &'t Tables,
    names: KeyNames,
    /// False: quiet, for JSON.
    text: bool,
}

impl Show<'_> {
    async fn play(&self, args: &DemoArgs, sample: Shipped, started: DateTime<Utc>) -> Result<Exit, Stop> {
        let model = &self.tables.model;
        let today = match args.as_of {
            Some(day) => day,
            None => self.tables.clock.now().with_timezone(&model.zone).date_naive(),
        };
        self.say(format_args!(
            "{} model `{}`, table `{}`, embedded DynamoDB at {}, day {today}\n",
            paint(BOLD, "Tablekeeper demo:"),
            sample.name,
            model.table.name,
            self.tables.endpoint(),
        ));
        let items = self.load_sample(sample).await?;
        self.say(format_args!(
            "  {} {} of the sample loaded; the worker has derived everything from them",
            paint(BOLD, " 0"),
            count(items, "item"),
        ));
        let steps = day::parse(sample.day, today)?;
        for (number, step) in steps.iter().enumerate() {
            self.step(number + 1, step).await?;
        }
        let swept = self.sweep(args, today).await?;
        let written = self.report(args, today).await?;
        let verdict = verify(model, &self.tables.store, &self.tables.clock).await?;
        let seconds = (self.tables.clock.now() - started).as_seconds_f64();
        if self.text {
            heading("Proof");
            proof::print_verdict(&verdict);
            line(format_args!("\n{} {seconds:.1} s", paint(DIM, "done in")));
        } else {
            json(&DemoOut {
                model: sample.name,
                endpoint: self.tables.endpoint(),
                steps: steps.len(),
                sweep: super::sweep::out(&swept),
                reports: &written,
                verify: &verdict,
                seconds,
            })?;
        }
        Ok(if verdict.differences.is_empty() { Exit::Fine } else { Exit::Findings })
    }

    async fn load_sample(&self, sample: Shipped) -> Result<usize, Stop> {
        let mut items = Vec::new();
        for text in sample.items.lines().filter(|text| !text.trim().is_empty()) {
            let item = tablekeeper::adapters::files::parse_item(text).map_err(|fault| anyhow::anyhow!("{fault}"))?;
            items.push(item);
        }
        self.tables.connection.put_items(&self.tables.model.table.name, &items).await?;
        let keys: Vec<TableKey> = items.iter().filter_map(|item| TableKey::of(item, &self.names)).collect();
        self.derived(&keys).await?;
        Ok(items.len())
    }

    async fn step(&self, number: usize, step: &day::Step) -> Result<(), Stop> {
        let store = &self.tables.store;
        let before = show::snapshot(store, &self.tables.clock, &self.names).await?;
        let writes = step.writes(store, &self.names).await?;
        store.transact(&writes).await?;
        let keys: Vec<TableKey> = writes.into_iter().map(|write| write.key).collect();
        self.derived(&keys).await?;
        if self.text {
            line(format_args!("  {} {}", paint(BOLD, format!("{number:>2}")), step.say));
            show::print_changes(&before, &show::snapshot(store, &self.tables.clock, &self.names).await?);
        }
        Ok(())
    }

    /// Waits until the ledger says of every key that what its item derives now is applied.
    async fn derived(&self, keys: &[TableKey]) -> Result<(), Stop> {
        let look = async {
            while !self.is_derived(keys).await? {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Ok(())
        };
        match tokio::time::timeout(PATIENCE, look).await {
            Ok(derived) => derived,
            Err(_) => Ok(bail_late(keys.len())?),
        }
    }

    async fn is_derived(&self, keys: &[TableKey]) -> Result<bool, Stop> {
        let store = &self.tables.store;
        let ledger_keys: Vec<TableKey> = keys.iter().map(LedgerRow::key).collect();
        let rows = store.get(TableRef::State, &ledger_keys).await?;
        let items = store.get(TableRef::Source, keys).await?;
        for ((key, row), item) in keys.iter().zip(rows).zip(items) {
            let row = row.map(|row| LedgerRow::from_item(&row)).transpose()?;
            let applied = row.filter(|row| !row.deleted).map(|row| row.applied);
            let wanted = item.map(|item| Applied::of(&derive::derive(&self.tables.model, key, &item)));
            if applied != wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn sweep(&self, args: &DemoArgs, today: NaiveDate) -> Result<SweepReport, Stop> {
        let (store, clock) = (&self.tables.store, &self.tables.clock);
        let snapshot = show::snapshot(store, clock, &self.names).await?;
        let mut sinks = vec![LocalSink::JsonLines(JsonLinesSink::open(&notifications(args))?)];
        if self.text {
            heading("Aggregates, each one GetItem");
            show::print_aggregates(&snapshot);
            heading("Findings, all of them one Query");
            show::print_findings(&snapshot, &self.names);
            if !self.tables.model.expiries.is_empty() {
                heading("Notifications, one a threshold");
            }
            sinks.push(LocalSink::Stdout(LineSink::stdout()));
        }
        // A year ahead, so that one sees what was renewed as well.
        let settings = SweepSettings { list_days: 400, ..SweepSettings::default() };
        let as_of = noon(today, &self.tables.model.zone)?;
        let report = sweep(&self.tables.model, store, clock, as_of, &settings, &Sinks(sinks)).await?;
        if self.text && !self.tables.model.expiries.is_empty() {
            heading("Expiries");
            print_entries(&report.entries);
        }
        Ok(report)
    }

    async fn report(&self, args: &DemoArgs, today: NaiveDate) -> Result<Vec<Written>, Stop> {
        let model = &self.tables.model;
        let items = self.source_items().await?;
        let definitions = model
            .reports
            .names
            .iter()
            .map(|report| report::definition(&report.name, None))
            .collect::<Result<Vec<_>, _>>()?;
        let freshness = Freshness { source: Some(model.table.name.clone()), ..Freshness::default() };
        let written = report::write(model, &definitions, items, today, freshness, &args.out)?;
        if self.text {
            heading("Report");
            for one in &written {
                line(format_args!(
                    "  {} and {} beside it",
                    paint(BOLD, one.page.display()),
                    count(one.csv.len(), "CSV file")
                ));
            }
        }
        Ok(written)
    }

    async fn source_items(&self) -> Result<Vec<(TableKey, Item)>, Stop> {
        let mut found = Vec::new();
        let mut pages = Pages::new(TableRef::Source, (0, 1));
        while let Some(items) = pages.next(&self.tables.store, &self.tables.clock).await? {
            let keyed = |item: Item| TableKey::of(&item, &self.names).map(|key| (key, item));
            found.extend(items.into_iter().filter(|item| !item.is_ours()).filter_map(keyed));
        }
        Ok(found)
    }

    /// Keeps everything up until SIGINT or SIGTERM.
    async fn hold(&self) {
        let table = &self.tables.model.table;
        let endpoint = self.tables.endpoint();
        self.say(format_args!(
            "\nDatabase and worker stay up; Ctrl-C ends them. Another terminal may try:\n\n  \
             AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local aws dynamodb scan --region us-east-1 \\\n    \
             --endpoint-url {endpoint} --table-name {} \\\n    \
             --filter-expression 'attribute_exists(#k)' --expression-attribute-names '{{\"#k\":\"_keeper\"}}'\n\n  \
             tablekeeper verify --model {} --endpoint {endpoint}\n",
            table.name, self.tables.model.name,
        ));
        worker::stop_signal().await;
    }

    fn say(&self, text: std::fmt::Arguments<'_>) {
        if self.text {
            line(text);
        }
    }
}

fn bail_late(keys: usize) -> anyhow::Result<()> {
    bail!("the worker has not derived {} within {} s", count(keys, "item"), PATIENCE.as_secs())
}
