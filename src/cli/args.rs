//! The command line's shape. Help texts and examples live here, what the commands do in their own files.

mod init;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use chrono::{Datelike as _, NaiveDate};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tablekeeper::engine::checkpoint::DEFAULT_CONSUMER;
use tablekeeper::engine::reconcile::{SEGMENTS_DEFAULT, SEGMENTS_MAX};
use tablekeeper::engine::verify::VerifyOptions;

pub use init::InitArgs;

mod audit;

pub use audit::AuditArgs;

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 findings or differences, 2 usage or model fault, 3 incomplete run.";

const EXAMPLES: &str = "Examples:
  tablekeeper demo                                       see the whole job on sample data
  tablekeeper check models/quality.toml                  is the model file sound?
  tablekeeper derive --model quality --items items.jsonl what would be derived from these items?
  tablekeeper audit --model quality --items items.jsonl  which items break the conventions?
  tablekeeper load --model quality --items items.jsonl --data-dir try
                                                         a table of your own, without AWS
  tablekeeper worker --model my-model.toml               keep the table's derived items exact
  tablekeeper verify --model my-model.toml               prove it";

/// Keeps a DynamoDB single table honest: exact counts, checked keys, expiry alerts, quality reports.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Cli {
    /// How to print results
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(subcommand)]
    pub command: Command,
}

/// What `--format` takes; what a command does not print it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// JSON lines; `audit` only
    Jsonl,
    /// The findings alone; `audit` only
    Csv,
    /// One page; `audit` only
    Html,
    /// SARIF 2.1.0, for code scanners and editors; `check` only
    Sarif,
}

/// How every command can print its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    Text,
    Json,
}

impl Format {
    /// The format, if it is one of every command's.
    pub fn common(self) -> anyhow::Result<OutputFormat> {
        match self {
            Format::Text => Ok(OutputFormat::Text),
            Format::Json => Ok(OutputFormat::Json),
            Format::Jsonl | Format::Csv | Format::Html => {
                anyhow::bail!("only `audit` prints jsonl, csv and html; use --format json or text here")
            }
            Format::Sarif => {
                anyhow::bail!("only `check` prints SARIF, which is about lines of files; use --format text or json")
            }
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the whole job in seconds: embedded database, worker, a working day, alerts, report, proof
    Demo(DemoArgs),
    /// Read the table's stream and keep all derived items true until told to stop (SIGINT or SIGTERM)
    Worker(WorkerArgs),
    /// Write the files to begin with: a model, also proposed from a table or a file of items, a stack's parameters and its template
    Init(InitArgs),
    /// Check a model file; all of its faults at once, with line and column
    Check(CheckArgs),
    /// Derive aggregates, listings, expiries and findings from a file of items; no database
    Derive(DeriveArgs),
    /// Check items against the model's key conventions: a file, an export to S3, or the live table
    Audit(AuditArgs),
    /// Write a file of items into a table, which can be made at the same time: to try things on data of your own
    Load(LoadArgs),
    /// Print a quality report as one HTML page and CSV files
    Report(ReportArgs),
    /// Find what falls due and send one notification a threshold
    Sweep(SweepArgs),
    /// Recompute everything from the table and say what differs from what is stored
    Verify(VerifyArgs),
    /// Bring derived items in line with the table: first start, after a gap, after a change of the model
    Reconcile(ReconcileArgs),
    /// Apply the batches that AWS Lambda gave up, from where the event source mapping's on-failure destination has them
    Redrive(RedriveArgs),
    /// Play stories from seeds on a simulated database: crashes, lost answers, splits, lost records; the books must balance
    Simulate(SimulateArgs),
    /// Explain a rule by its code: what, why it matters, an example, what to do instead
    Explain(ExplainArgs),
    /// Print the deployment template (AWS CloudFormation) with the model's table in place
    Infra(InfraArgs),
    /// Print a completion script for a shell, which is no JSON whatever --format says
    #[command(after_help = "\
Examples:
  tablekeeper completions bash > ~/.local/share/bash-completion/completions/tablekeeper
  tablekeeper completions zsh > \"${fpath[1]}/_tablekeeper\"
  tablekeeper completions fish > ~/.config/fish/completions/tablekeeper.fish")]
    Completions {
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

/// Which model.
#[derive(Debug, Clone, Args)]
pub struct ModelArgs {
    /// A model file, or a shipped model by name: quality, inspection, skills
    #[arg(long, value_name = "FILE|NAME")]
    pub model: String,
}

/// Which table, and where. Region, credentials, profile and endpoint follow the AWS SDK's own conventions.
#[derive(Debug, Clone, Args)]
pub struct TableArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// The table, if its name is not the model's
    #[arg(long)]
    pub table: Option<String>,
    /// Tablekeeper's own table; default <TABLE>-keeper
    #[arg(long)]
    pub state_table: Option<String>,
    /// Another endpoint than the SDK would choose (also AWS_ENDPOINT_URL)
    #[arg(long, value_name = "URL", conflicts_with = "data_dir")]
    pub endpoint: Option<String>,
    /// Run on the embedded database kept in this directory, without AWS
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tablekeeper demo                        the quality-control table, in memory
  tablekeeper demo --model skills --hold  another table; database and worker stay up
  tablekeeper demo --data-dir try         keep the tables, for other commands with --data-dir try
  tablekeeper demo --as-of 2026-11-30 --format json")]
pub struct DemoArgs {
    /// A shipped model: quality, inspection, skills
    #[arg(long, default_value = "quality", value_name = "NAME")]
    pub model: String,
    /// Keep the embedded database in this directory; default: in memory
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Directory for the report and the notifications
    #[arg(long, value_name = "DIR", default_value = "tablekeeper-demo")]
    pub out: PathBuf,
    /// The day on which the demo is set; default: today
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = parse_day)]
    pub as_of: Option<NaiveDate>,
    /// Keep database and worker up afterwards, for trying things by hand
    #[arg(long)]
    pub hold: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tablekeeper worker --model my-model.toml               until SIGINT or SIGTERM
  tablekeeper worker --model my-model.toml --until-idle  until all that is there is applied
  tablekeeper worker --model quality --data-dir try      on what `load` or `demo` left in ./try
  tablekeeper worker --model my-model.toml --worker-id keeper-1 --listen 127.0.0.1:9464 --log-json

Logs go to standard error; RUST_LOG chooses what, for example RUST_LOG=tablekeeper=debug,warn.")]
pub struct WorkerArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// Stop when the stream has been read to its tip
    #[arg(long)]
    pub until_idle: bool,
    /// Shortest pause between two reads of a shard, in milliseconds
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub poll_ms: u64,
    /// What to do when records were lost past retention
    #[arg(long, value_enum, default_value_t = OnGapArg::Reconcile)]
    pub on_gap: OnGapArg,
    /// Name of this worker among those that share the shards; one that is killed goes on at once under the same name, under
    /// another only after the lease time. Default: a new name each time
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub worker_id: Option<String>,
    /// Workers of one consumer share the table's shards, two consumers each read all of them
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CONSUMER, value_parser = parse_name)]
    pub consumer: String,
    /// How long a worker may be silent before others take its shards; 0: every worker reads every shard, as with --until-idle
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub lease_seconds: u64,
    /// Serve /healthz, /readyz and /metrics (Prometheus) here, for example 127.0.0.1:9464; nothing is served by default
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,
    /// Log lines as JSON
    #[arg(long)]
    pub log_json: bool,
    /// Name items in the log by their keys, not only by the digests of their keys; not under a model that hashes keys
    #[arg(long)]
    pub log_keys: bool,
}

/// Years in which things fall due: beyond them a date is a slip of the keyboard, and some leave the calendar.
const YEARS: RangeInclusive<i32> = 1970..=2199;

fn parse_day(text: &str) -> Result<NaiveDate, String> {
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    day.filter(|day| text.len() == 10 && YEARS.contains(&day.year()))
        .ok_or_else(|| format!("`{text}` is no day YYYY-MM-DD of the years {} to {}", YEARS.start(), YEARS.end()))
}

/// A name becomes part of a key.
fn parse_name(text: &str) -> Result<String, String> {
    let fits = (1..=100).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic() && c != '#');
    if fits { Ok(text.to_owned()) } else { Err("use 1 to 100 letters, digits or signs other than `#`".to_owned()) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnGapArg {
    /// Stop with an error
    Halt,
    /// Reconcile the whole table, then go on
    Reconcile,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tablekeeper check models/quality.toml
  tablekeeper check models/*.toml --format sarif > check.sarif  for code scanners")]
pub struct CheckArgs {
    /// Model files, or names of shipped models
    #[arg(required = true, value_name = "FILE|NAME")]
    pub models: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: tablekeeper derive --model quality --items models/quality.items.jsonl --format json")]
pub struct DeriveArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// JSON lines of plain items or of {"Item": DynamoDB JSON}, plain or gzip; - for standard input. Of several lines of one
    /// key the last counts, as in a table
    #[arg(long, value_name = "FILE")]
    pub items: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  into an embedded database in ./try, and everything derived from it:
    tablekeeper load --model quality --items models/quality.items.jsonl --data-dir try
    tablekeeper worker --model quality --data-dir try --until-idle
  into DynamoDB Local:
    tablekeeper load --model quality --items items.jsonl --endpoint http://127.0.0.1:8000 --create")]
pub struct LoadArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// JSON lines of plain items or of {"Item": DynamoDB JSON}, plain or gzip; - for standard input. Read and checked to its
    /// end before anything is written; of several lines of one key the last counts
    #[arg(long, value_name = "FILE")]
    pub items: PathBuf,
    /// Make the table, on demand, with the model's indexes and a stream of new and old images, if there is none of that name. With
    /// --data-dir this is always so
    #[arg(long)]
    pub create: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example: tablekeeper report --model quality --items models/quality.items.jsonl --as-of 2026-11-30"
)]
pub struct ReportArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// Report on this file instead of the live table; - for standard input
    #[arg(long, value_name = "FILE")]
    pub items: Option<PathBuf>,
    /// A report definition: a file, or a shipped one by name (quality-weekly, inspection-weekly, skills); default: those that the
    /// model names
    #[arg(long, value_name = "FILE|NAME")]
    pub report: Vec<String>,
    /// The day that the report speaks of; default: today in the site's zone
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = parse_day)]
    pub as_of: Option<NaiveDate>,
    /// Directory for the page and the CSV files
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tablekeeper sweep --model quality                      what is due now; run it once a day
  tablekeeper sweep --model quality --notify-file due.jsonl --format json
  tablekeeper sweep --model quality --data-dir try --as-of 2026-12-24

A notification is sent once for each threshold, however often the sweep runs, and counts as sent even if --as-of is yet to come.")]
pub struct SweepArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// The day on which things are due; default: now
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = parse_day)]
    pub as_of: Option<NaiveDate>,
    /// Append notifications to this file as JSON lines, too
    #[arg(long, value_name = "FILE")]
    pub notify_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tablekeeper verify --model my-model.toml                what differs?
  tablekeeper verify --model my-model.toml --passes 10    beside busy workers
  tablekeeper verify --model my-model.toml --repair       mend edits by hand
  tablekeeper verify --model my-model.toml --format json  all, for a program

Reported is what two readings in a row found alike; a clean table is read once.
Changes of items that were never applied are for `reconcile`; --repair mends what
somebody else did to derived items, and may run beside the workers.")]
pub struct VerifyArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// Most readings of both tables, while anything differs; 1 reports what is on its way as well
    #[arg(long, default_value_t = VerifyOptions::default().passes, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub passes: u32,
    /// Make derived items agree with the ledger again: aggregates, markers, rows
    #[arg(long)]
    pub repair: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tablekeeper reconcile --model my-model.toml
  tablekeeper reconcile --model my-model.toml --max-read-units 500
  tablekeeper reconcile --model my-model.toml --from-start

For a first start, a changed model, a gap. A run that was interrupted goes on
where it stopped when it is started again within a day, with the same model and
no gap found meanwhile. What changed in between comes by the stream; where no
worker reads it, use --from-start.")]
pub struct ReconcileArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// Parts of each table that are read at once; a run that goes on keeps its number
    #[arg(long, default_value_t = SEGMENTS_DEFAULT, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(SEGMENTS_MAX)))]
    pub segments: u32,
    /// Read no more than this in a second, of both tables, in read units (4 KB each); default: as fast as it goes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_read_units: Option<u32>,
    /// Begin anew, wherever an earlier run stopped
    #[arg(long)]
    pub from_start: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tablekeeper redrive --model quality --from s3://letters/aws/lambda/ --dry-run
  tablekeeper redrive --model quality --from s3://letters/aws/lambda/
  tablekeeper redrive --model quality --from sqs://letters --on-gap halt
  tablekeeper redrive --model quality --from downloaded --max-read-units 500

Objects of a bucket hold the records themselves. Messages of a queue say where
in the stream they are, which keeps them for a day: what is not there any more
is a gap, and the table is reconciled. A batch may be applied as often as one
likes, beside workers and functions. What is applied is deleted from the bucket
or the queue; files are left. A batch is applicable (--dry-run), applied, partly
lost or lost (its records were past retention: older than the day for which the
stream keeps them), refused (no batch of this table) or failed. Of its records

  applied          are in the derived items now
  already applied  were there before, or something later of the item was
  superseded       a later record of the same item in the batch stands for
  reconciled       belong to items that were read anew and corrected
  ours             are of derived items
  quarantined      belong to items that were given up; a finding says why
  malformed        name no item; `tablekeeper verify` lists them

Buckets and queues are found by the SDK's own
conventions, AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL_SQS among them.")]
pub struct RedriveArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// s3://BUCKET or s3://BUCKET/PREFIX, sqs://NAME or the queue's URL, an invocation record in a file, or a folder of such files
    #[arg(long, value_name = "PLACE")]
    pub from: String,
    /// Only list what would be applied
    #[arg(long)]
    pub dry_run: bool,
    /// Leave what is applied in the bucket or the queue
    #[arg(long)]
    pub keep: bool,
    /// What to do when records are past retention, once all others are applied; after `halt` a worker or `reconcile` has to do it
    #[arg(long, value_enum, default_value_t = OnGapArg::Reconcile)]
    pub on_gap: OnGapArg,
    /// Where the table is reconciled, read no more than this in a second, of both tables, in read units (4 KB each)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_read_units: Option<u32>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: tablekeeper simulate --seeds 0..500")]
pub struct SimulateArgs {
    /// Which stories; the end is not played
    #[arg(long, value_name = "FROM..TO", default_value = "0..100")]
    pub seeds: Seeds,
    /// Steps of a story before everything is read to its end
    #[arg(long, default_value_t = 300, value_name = "N", value_parser = at_least_one)]
    pub steps: usize,
    /// Lines of the schedule that a failure shows
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub lines: usize,
}

/// `FROM..TO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(pub std::ops::Range<u64>);

impl std::str::FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let seeds = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
        seeds
            .filter(|seeds: &std::ops::Range<u64>| !seeds.is_empty())
            .map(Seeds)
            .ok_or_else(|| format!("`{text}` is no range of seeds; give two numbers, the lower one first: 0..500"))
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|steps| *steps > 0)
        .ok_or_else(|| format!("`{text}` is no number of steps; give 1 or more"))
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tablekeeper explain G201
  tablekeeper explain --page rules.html
  tablekeeper explain --page -            Markdown on standard output")]
pub struct ExplainArgs {
    /// A rule's code; without it, all rules are listed
    #[arg(value_parser = super::explain::Codes, hide_possible_values = true)]
    pub code: Option<String>,
    /// Write all rules in full as one page: HTML where the name ends in `.html`, else Markdown; `-` is standard output
    #[arg(long, value_name = "FILE|-", conflicts_with = "code")]
    pub page: Option<std::path::PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tablekeeper infra --model my-model.toml --out stack.yaml  the whole stack; infra/README.md tells how to deploy it
  tablekeeper infra --model my-model.toml --format json     the two tables alone, for a template of your own")]
pub struct InfraArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// Write into this file, whole or not at all, over what it holds; by default to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
