//! Which database a command talks to: AWS by the SDK's conventions, an endpoint, or the embedded one.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::{Connection, ConnectionOptions, DynamoStore, TableInfo};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::engine::batch::Engine;
use tablekeeper::engine::checkpoint;
use tablekeeper::engine::ports::StoreError;
use tablekeeper::engine::scan;
use tablekeeper::model::spec::{KeyAttribute, Model, Table};
use tablekeeper::model::value::Item;

use super::args::TableArgs;
use super::context::{Stop, usage};

/// A model, its two tables, and what keeps them up.
pub struct Tables {
    pub model: Arc<Model>,
    pub connection: Connection,
    pub store: DynamoStore,
    pub clock: SystemClock,
    pub arn: String,
    /// ARN of the table's stream, if it has one.
    pub stream_arn: Option<String>,
    /// What the table's stream tells of a change, if it has one: `NEW_AND_OLD_IMAGES`, `KEYS_ONLY`, …
    pub stream_view: Option<String>,
    embedded: Option<Embedded>,
}

impl Tables {
    pub fn engine(&self) -> Engine<DynamoStore, SystemClock> {
        Engine::new(Arc::clone(&self.model), self.store.clone(), self.clock.clone())
    }

    /// The embedded database's endpoint; empty where it is another.
    pub fn endpoint(&self) -> &str {
        self.embedded.as_ref().map_or("", Embedded::endpoint)
    }

    /// Ends the embedded database, if there is one.
    pub async fn close(self) {
        if let Some(embedded) = self.embedded {
            embedded.shutdown().await;
        }
    }
}

/// A connection, and the embedded database behind it where that is the one.
pub struct Database {
    pub connection: Connection,
    embedded: Option<Embedded>,
}

impl Database {
    /// The database that the arguments name; `make` is leave to begin an embedded one in a directory that has none.
    pub async fn open(args: &TableArgs, make: bool) -> Result<Database, Stop> {
        Database::at(args.endpoint.as_deref(), args.data_dir.as_deref(), make).await
    }

    /// The same by its endpoint or its directory.
    pub async fn at(endpoint: Option<&str>, data_dir: Option<&Path>, make: bool) -> Result<Database, Stop> {
        if let Some(dir) = data_dir {
            if !make && !Embedded::is_in(dir) {
                return Err(usage(no_database(dir)));
            }
            if make {
                Embedded::making(dir).map_err(usage)?;
            }
            return Database::embedded(Some(dir)).await;
        }
        let options = ConnectionOptions {
            endpoint: endpoint.map(str::to_owned),
            local: endpoint.is_some_and(is_loopback) && !has_credentials(),
            ..ConnectionOptions::default()
        };
        let connection = Connection::open(options).await.map_err(usage)?;
        Ok(Database { connection, embedded: None })
    }

    /// The embedded database in a directory or in memory, begun if need be.
    pub async fn embedded(dir: Option<&Path>) -> Result<Database, Stop> {
        let embedded = Embedded::start(dir).map_err(usage)?;
        let connection = Connection::local(embedded.endpoint()).await?;
        Ok(Database { connection, embedded: Some(embedded) })
    }

    /// The user's table as it is; it must be there and have the keys that the model declares.
    pub async fn table(&self, table: &Table) -> Result<TableInfo, Stop> {
        let info = self.describe(&table.name).await?;
        keys_agree(table, &info).with_context(|| cannot_use(&table.name)).map_err(usage)?;
        Ok(info)
    }

    /// A table as it is, whatever its keys.
    pub async fn describe(&self, name: &str) -> Result<TableInfo, Stop> {
        match self.connection.describe_table(name).await {
            Ok(info) => Ok(info),
            Err(StoreError::NoTable(name)) if self.embedded.is_some() => {
                Err(usage(self.no_table(&name).await.context(cannot_use(&name))))
            }
            // A database that is not to be reached may be there later: whoever starts the program may try again.
            Err(error) => {
                let stop = if error.can_retry() { Stop::from } else { usage };
                Err(stop(anyhow::Error::new(error).context(cannot_use(name))))
            }
        }
    }

    /// Nobody mistakes a Region here: what there is says most.
    async fn no_table(&self, name: &str) -> anyhow::Error {
        let listed = self.connection.client().list_tables().send().await;
        let names = listed.map(|answer| answer.table_names.unwrap_or_default()).unwrap_or_default();
        let is_state = |name: &String| name.strip_suffix("-keeper").is_some_and(|of| names.iter().any(|n| n == of));
        let tables: Vec<String> = names.iter().filter(|name| !is_state(name)).map(|name| format!("`{name}`")).collect();
        let there = if tables.is_empty() { "no table".to_owned() } else { tables.join(", ") };
        anyhow::anyhow!(
            "the database has no table `{name}`, it has {there}; choose another model or --table, or make the table with `tablekeeper load`"
        )
    }

    /// Ends the embedded database, if there is one.
    pub async fn close(self) {
        if let Some(embedded) = self.embedded {
            embedded.shutdown().await;
        }
    }
}

fn cannot_use(table: &str) -> String {
    format!("cannot use the table `{table}`")
}

fn no_database(dir: &Path) -> anyhow::Error {
    let dir = dir.display();
    anyhow::anyhow!(
        "there is no database in `{dir}`; check the path, or make one there with \
         `tablekeeper load --model MODEL --items FILE --data-dir {dir}`"
    )
}

/// Opens the tables: the user's must be there, Tablekeeper's own is made if need be.
pub async fn open(args: &TableArgs, model: Model) -> Result<Tables, Stop> {
    let database = Database::open(args, false).await?;
    tables(model, database).await
}

/// The tables in this database; Tablekeeper's own is made if need be.
pub async fn tables(model: Model, database: Database) -> Result<Tables, Stop> {
    let TableInfo { arn, stream_view, stream_arn, .. } = database.table(&model.table).await?;
    let Database { connection, embedded } = database;
    let table = &model.table;
    connection
        .ensure_state_table(&table.state_table)
        .await
        .with_context(|| format!("cannot use the state table `{}`", table.state_table))?;
    let (store, clock) = (DynamoStore::new(&connection, table), SystemClock::new());
    // What another table's ledger says must not be read for this one's, let alone be written to it.
    if let Some(arn) = &stream_arn
        && let Some(other) = checkpoint::other_table(&store, &clock, arn).await?
    {
        return Err(Stop::from(anyhow::anyhow!(
            "the state table `{}` is that of {other}; give each table a state table of its own, by --state-table",
            table.state_table
        )));
    }
    Ok(Tables { model: Arc::new(model), connection, store, clock, arn, stream_arn, stream_view, embedded })
}

/// True for an endpoint on this machine, such as the one that `demo --hold` prints.
fn is_loopback(endpoint: &str) -> bool {
    let host = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| {
        host.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(':') || rest.starts_with('/'))
    })
}

/// True if the environment names credentials. A database on this machine takes any, so none need to be looked for.
fn has_credentials() -> bool {
    ["AWS_ACCESS_KEY_ID", "AWS_PROFILE"].iter().any(|name| std::env::var_os(name).is_some())
}

/// A model of other keys would find every record of the table malformed.
fn keys_agree(table: &Table, info: &TableInfo) -> anyhow::Result<()> {
    let shown = |partition: &KeyAttribute, sort: Option<&KeyAttribute>| {
        let keys = [Some(partition), sort].into_iter().flatten();
        let shown: Vec<String> = keys.map(|key| format!("`{}` ({})", key.name, key.kind.name())).collect();
        shown.join(" and ")
    };
    let there = shown(&info.partition_key, info.sort_key.as_ref());
    let declared = shown(&table.partition_key, table.sort_key.as_ref());
    anyhow::ensure!(
        there == declared,
        "its keys are {there}, the model declares {declared}; name another table with --table, or mend [table]"
    );
    Ok(())
}

/// Scans the user's table and calls `each` for every source item.
pub async fn for_each_source_item(tables: &Tables, mut each: impl FnMut(Item) + Send) -> Result<(), Stop> {
    let bar = spinner("items read");
    let counted = |item| {
        bar.inc(1);
        each(item);
    };
    scan::source_items(&tables.store, &tables.clock, counted).await?;
    bar.finish_and_clear();
    Ok(())
}

/// A counter on standard error for long work; hidden where that is no terminal.
pub fn spinner(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!("{{spinner}} {{human_pos}} {what} ({{rate}}/s)"));
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(std::time::Duration::from_millis(120));
    match style {
        Ok(style) => bar.with_style(style.with_key("rate", rate)),
        Err(_) => bar,
    }
}

/// So many a second, as a whole number: more digits are noise.
fn rate(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    let _ = write!(out, "{:.0}", state.per_sec());
}

/// The same for work whose size is known.
pub fn bar(length: u64, what: &'static str) -> ProgressBar {
    let template = format!("{{wide_bar}} {{human_pos}} of {{human_len}} {what} ({{rate}}/s, {{eta}} to go)");
    let bar = ProgressBar::new(length);
    match ProgressStyle::with_template(&template) {
        Ok(style) => bar.with_style(style.with_key("rate", rate)),
        Err(_) => bar,
    }
}

/// The same for bytes that are read; a counter of them where nobody knows how many there are.
pub fn bytes(length: Option<u64>) -> ProgressBar {
    let bar = length.map_or_else(ProgressBar::no_length, ProgressBar::new);
    let template = match length {
        Some(_) => "{wide_bar} {binary_bytes} of {binary_total_bytes} ({binary_bytes_per_sec}, {eta} to go)",
        None => "{binary_bytes} read ({binary_bytes_per_sec})",
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for endpoint in ["http://127.0.0.1:8000", "http://localhost", "http://[::1]:1/", "localhost:4566"] {
            assert!(is_loopback(endpoint), "{endpoint}");
        }
        for endpoint in
            ["http://localhost.example.com", "http://127.0.0.10:1", "https://dynamodb.eu-west-1.amazonaws.com"]
        {
            assert!(!is_loopback(endpoint), "{endpoint}");
        }
    }
}
