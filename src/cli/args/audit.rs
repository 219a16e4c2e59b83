//! `audit`: its arguments.

mod live;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tablekeeper::adapters::files::SourceFormat;
use tablekeeper::engine::audit::SAMPLES_DEFAULT;
use tablekeeper::model::derived::Severity;

use super::TableArgs;
pub use live::LiveArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tablekeeper audit --model quality                                    the live table
  tablekeeper audit --model quality --max-read-units 200 --resume audit.progress
  tablekeeper audit --model skills --items items.jsonl.gz --format json
  tablekeeper audit --model my-model.toml --items AWSDynamoDB/01693685827463-2d8752fd
  tablekeeper audit --model my-model.toml --items people.csv --fail-on error
  tablekeeper audit --model my-model.toml --items items.jsonl --format html > audit.html
  tablekeeper audit --model my-model.toml --suggest-patches patches.jsonl

A source is one of
  jsonl      JSON lines of plain items or of {\"Item\": DynamoDB JSON}, plain or gzip
  csv        a header with the attributes' names, then an item a row; cells are text,
             another type stands in the header as `Age:N`; empty is absent
  workbench  a model of NoSQL Workbench with data; its only table, or the one of --table
  export     the folder of a DynamoDB export to S3, full or incremental, in DYNAMODB_JSON

and is known by its name and its first bytes. For each rule and entity it is counted how
many items were checked, how many of them failed, and for how many nobody can say. Of the
findings a sample is printed, the same each time.

--format jsonl prints a finding a line and the counts in the last one, csv the findings
alone, html one page.

A line of patches.jsonl is {\"safe\",\"mends\",\"reason\",\"operation\",\"request\",...}: a request as the AWS
CLI takes it, conditional on every value that it rests on, or (\"request\":null) a finding
that no patch mends, and why. Nothing is applied. To read the safe ones, and to send them:
  jq -c 'select(.safe).request' patches.jsonl
  jq -c 'select(.safe).request' patches.jsonl |
    while read -r request; do aws dynamodb update-item --cli-input-json \"$request\"; done
A refused one (ConditionalCheckFailedException) met an item that has changed: audit again.")]
pub struct AuditArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// Audit this file or folder instead of the live table; - for standard input
    #[arg(long, value_name = "PATH")]
    pub items: Option<PathBuf>,
    #[command(flatten)]
    pub live: LiveArgs,
    /// What the items are in, where the path does not tell
    #[arg(long, value_enum, value_name = "FORMAT", requires = "items")]
    pub source_format: Option<SourceFormatArg>,
    /// The items are part of the table, a sample for example: that another item is not among them says nothing
    #[arg(long, requires = "items")]
    pub partial: bool,
    /// Most findings that are printed of each rule and entity; `all` needs memory for all of them
    #[arg(long, value_name = "N|all", default_value_t = Samples(SAMPLES_DEFAULT))]
    pub samples: Samples,
    /// Write requests that would mend the items to this file, as JSON lines; - for standard output, in place of the findings.
    /// Nothing is ever applied
    #[arg(long, value_name = "FILE")]
    pub suggest_patches: Option<PathBuf>,
    /// Exit with 1 only for findings as grave as this, or graver
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = FailOn::Info)]
    pub fail_on: FailOn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SourceFormatArg {
    Jsonl,
    Csv,
    Workbench,
    Export,
}

impl From<SourceFormatArg> for SourceFormat {
    fn from(argument: SourceFormatArg) -> SourceFormat {
        match argument {
            SourceFormatArg::Jsonl => SourceFormat::JsonLines,
            SourceFormatArg::Csv => SourceFormat::Csv,
            SourceFormatArg::Workbench => SourceFormat::Workbench,
            SourceFormatArg::Export => SourceFormat::Export,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    Error,
    Warning,
    Info,
}

impl From<FailOn> for Severity {
    fn from(argument: FailOn) -> Severity {
        match argument {
            FailOn::Error => Severity::Error,
            FailOn::Warning => Severity::Warning,
            FailOn::Info => Severity::Info,
        }
    }
}

/// A number of findings, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Samples(pub usize);

impl std::str::FromStr for Samples {
    type Err = String;

    fn from_str(text: &str) -> Result<Samples, String> {
        match text {
            "all" => Ok(Samples(usize::MAX)),
            _ => {
                text.parse().map(Samples).map_err(|_| format!("`{text}` is no number of findings; give one, or `all`"))
            }
        }
    }
}

impl std::fmt::Display for Samples {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            usize::MAX => f.write_str("all"),
            number => write!(f, "{number}"),
        }
    }
}
