//! `audit`: which items break the conventions, how many, and out of how many?

mod beside;
mod live;
mod machine;
mod text;

use std::path::Path;
use std::sync::Arc;

use tablekeeper::adapters::files::audit::{self, Options, Reading};
use tablekeeper::adapters::files::{Input, Source, SourceError};
use tablekeeper::adapters::page::{self, AuditPage};
use tablekeeper::engine::audit::Summary;
use tablekeeper::engine::cross::Sight;
use tablekeeper::model::derived::Severity;
use tablekeeper::model::spec::Model;

use super::args::{AuditArgs, Format};
use super::connect;
use super::context::{Exit, Outcome, Stop, model_for_table, usage};
use super::input::{self, Superseded};
use super::output::{self, warn};
use super::patches::{Destination, Suggestions};
use beside::Beside;

/// What was found, and what could not be read.
pub struct Audited<'m> {
    model: &'m Model,
    /// What was audited, for people.
    source: String,
    summary: Summary,
    unread: Vec<String>,
    unread_total: usize,
    broken_files: usize,
    superseded: Vec<Superseded>,
    superseded_total: usize,
    deleted: u64,
    patches: Option<Suggestions>,
}

pub async fn run(args: &AuditArgs, format: Format) -> Outcome {
    if format == Format::Sarif {
        // It is about lines of files; items have keys.
        format.common().map_err(usage)?;
    }
    let model = model_for_table(&args.table)?;
    if args.suggest_patches.is_some() && model.findings.redact_values {
        return Err(usage(anyhow::anyhow!(
            "patches quote values and keys, which the model's [findings] hides; audit by a copy of the model without it"
        )));
    }
    let read: Vec<&Path> =
        args.items.iter().map(|path| path.as_path()).chain([Path::new(&args.table.model.model)]).collect();
    let patches_to = args.suggest_patches.as_deref().map(|path| Destination::open(path, &read)).transpose()?;
    let mut audited = match &args.items {
        Some(path) => of_source(&model, path, args)?,
        None => live::of_table(&model, args).await?,
    };
    input::show_faults(audited.unread.iter(), audited.unread_total, Exit::Incomplete);
    input::show_superseded(&audited.superseded, audited.superseded_total);
    let is_taken = matches!(patches_to, Some(Destination::Stdout));
    let said = patches_to.zip(audited.patches.take()).map(|(to, patches)| patches.finish(to)).transpose()?;
    match format {
        // Standard output is the patches'.
        _ if is_taken => {}
        Format::Text => text::print(&audited),
        Format::Json => machine::json(&audited)?,
        Format::Jsonl => machine::json_lines(&audited)?,
        Format::Csv => output::document(&page::audit_csv(&audited.summary, &model.table.key_names())?),
        Format::Html => output::document(page::audit_html(&audited.page())?.as_bytes()),
        Format::Sarif => {}
    }
    if let (Some(said), Format::Text) = (said, format) {
        warn(said);
    }
    let threshold = Severity::from(args.fail_on);
    Ok(match audited.summary.worst() {
        _ if audited.unread_total > 0 => Exit::Incomplete,
        Some(worst) if worst >= threshold => Exit::Findings,
        _ => Exit::Fine,
    })
}

fn of_source<'m>(model: &'m Model, path: &Path, args: &AuditArgs) -> Result<Audited<'m>, Stop> {
    let source = Source::of(path, args.source_format.map(Into::into)).map_err(cannot)?;
    let bar = connect::bytes(source.size());
    let watched = bar.clone();
    let watch = move |input: Input| -> Input { Box::new(watched.wrap_read(input)) };
    let options = Options { samples: args.samples.0, watch: Arc::new(watch), ..Options::default() };
    let done = audit::audit(model, &source, &options, || Beside::new(model, args.suggest_patches.is_some()));
    bar.finish_and_clear();
    let (mut audit, reading, beside) = done.map_err(cannot)?;
    let is_partial = args.partial || reading.faults.all() > 0;
    let sight = if is_partial { Sight::Partial } else { source.sight() };
    let patches = beside.finish(sight, &mut audit)?;
    Ok(Audited { patches, ..Audited::new(model, source.name().to_owned(), audit.finish(), Some(reading)) })
}

/// What is not there or not fit to be read is the command line's fault; a full disk is not.
fn cannot(error: SourceError) -> Stop {
    match error {
        SourceError::File(error) => {
            let context = format!("cannot read items from `{}`", error.name);
            usage(anyhow::Error::new(error).context(context))
        }
        SourceError::Unfit(_) => usage(error),
        SourceError::Spill(_) => Stop::from(error),
    }
}

impl<'m> Audited<'m> {
    fn new(model: &'m Model, source: String, summary: Summary, reading: Option<Reading>) -> Audited<'m> {
        let mut audited = Audited {
            model,
            source,
            summary,
            unread: Vec::new(),
            unread_total: 0,
            broken_files: 0,
            superseded: Vec::new(),
            superseded_total: 0,
            deleted: 0,
            patches: None,
        };
        if let Some(reading) = reading {
            audited.unread_total = usize::try_from(reading.faults.all()).unwrap_or(usize::MAX);
            audited.broken_files = usize::try_from(reading.broken_files).unwrap_or(usize::MAX);
            audited.unread = reading.faults.iter().map(|(place, fault)| format!("{place}: {fault}")).collect();
            audited.superseded_total = usize::try_from(reading.superseded_lines).unwrap_or(usize::MAX);
            let told = reading.superseded.into_iter();
            audited.superseded =
                told.map(|one| Superseded { line: one.line, by_line: one.by_line, key: one.key }).collect();
            audited.deleted = reading.deleted;
        }
        audited
    }

    fn page(&self) -> AuditPage<'_> {
        AuditPage {
            table: &self.model.table.name,
            model: &self.model.name,
            model_hash: &self.model.hash,
            source: &self.source,
            summary: &self.summary,
            unread: &self.unread,
            unread_total: self.unread_total,
        }
    }
}
