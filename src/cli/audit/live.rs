//! The live table as the source of an audit: its progress on the screen and, with `--resume`, in a file.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use chrono::TimeDelta;
use indicatif::ProgressBar;
use tablekeeper::engine::audit::live::{LiveAudit, Progress};
use tablekeeper::engine::cross::Sight;
use tablekeeper::engine::ports::Clock as _;
use tablekeeper::model::spec::Model;

use super::Audited;
use super::beside::Beside;
use crate::cli::args::AuditArgs;
use crate::cli::connect::{self, Tables};
use crate::cli::context::{Stop, usage};
use crate::cli::output::warn;
use crate::cli::worker::stop_signal;

/// How often the progress is written.
const PAUSE: TimeDelta = TimeDelta::seconds(10);

pub async fn of_table<'m>(model: &'m Model, args: &AuditArgs) -> Result<Audited<'m>, Stop> {
    let live = &args.live;
    let file = live.resume.as_deref();
    let left = file.map(read).transpose()?.flatten();
    let tables = connect::open(&args.table, model.clone()).await?;
    let samples = args.samples.0;
    let is_resumed = left.is_some();
    let audit = match left {
        None => LiveAudit::new(model, &tables.arn, samples, live.segments),
        Some(left) => LiveAudit::resume(model, &tables.arn, samples, left).map_err(|why| {
            let file = file.unwrap_or(Path::new("-")).display();
            usage(anyhow::anyhow!("cannot go on from `{file}`: {why}; or remove the file to begin anew"))
        })?,
    };
    // A file that cannot be written is told before hours of reading.
    file.map_or(Ok(()), |file| write(file, &audit)).map_err(usage)?;
    let before = audit.read();
    if is_resumed {
        warn(format_args!("going on after {before} items that an earlier run has read"));
    }
    let bar = bar(&tables, model, before).await;
    let beside = Beside::new(model, args.suggest_patches.is_some());
    let written = Mutex::new(tables.clock.now());
    let each_page = |audit: &LiveAudit<'_>| {
        bar.set_length(bar.length().unwrap_or_default().max(audit.read()));
        bar.set_position(audit.read());
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = file.filter(|_| tables.clock.now() - *written >= PAUSE) {
            // At the end it is tried again, and said.
            let _ = write(file, audit);
            *written = tables.clock.now();
        }
    };
    let ended = {
        let read = audit.run(&tables.store, &tables.clock, live.max_read_units, &beside, each_page);
        match file {
            None => read.await.map_err(anyhow::Error::from),
            Some(_) => tokio::select! {
                read = read => read.map_err(anyhow::Error::from),
                () = stop_signal() => Err(anyhow::anyhow!("told to stop")),
            },
        }
    };
    bar.finish_and_clear();
    tables.close().await;
    if let Err(error) = ended {
        return Err(stopped(error, file, &audit)?.into());
    }
    // What an earlier run saw is out of sight now.
    let sight = if is_resumed { Sight::Partial } else { Sight::Whole };
    let is_blind = beside.is_blind();
    let mut audit = audit.finish();
    let patches = beside.finish(sight, &mut audit)?;
    let mut summary = audit.finish();
    if is_resumed && !is_blind {
        summary.undecided.push(format!(
            "References between items (X501, X502, X503) are judged among the items read since the run went on, not the \
             {before} before; an audit in one run judges all."
        ));
    }
    file.map_or(Ok(()), remove)?;
    Ok(Audited { patches, ..Audited::new(model, format!("table `{}`", model.table.name), summary, None) })
}

/// Of all items that the table had some hours ago; a counter where it knows of none.
async fn bar(tables: &Tables, model: &Model, position: u64) -> ProgressBar {
    let items = tables.connection.describe_table(&model.table.name).await.map_or(0, |info| info.items);
    let bar = match items {
        0 => connect::spinner("items read"),
        items => connect::bar(items, "items, about"),
    };
    bar.set_position(position);
    bar
}

/// What to say of a run that did not come to its end, after its progress has been kept.
fn stopped(error: anyhow::Error, file: Option<&Path>, audit: &LiveAudit<'_>) -> anyhow::Result<anyhow::Error> {
    let Some(file) = file else { return Ok(error) };
    write(file, audit)?;
    let (read, file) = (audit.read(), file.display());
    Ok(error
        .context(format!("stopped after {read} items; the same command goes on from there, by what is in `{file}`")))
}

/// What an earlier run left, if there is a file.
fn read(file: &Path) -> Result<Option<Progress>, Stop> {
    let shown = file.display();
    let text = match std::fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("cannot read `{shown}`")).map_err(usage)?,
    };
    let progress = serde_json::from_slice(&text).with_context(|| {
        format!("`{shown}` holds no progress of an audit; name another file, or remove it to begin anew")
    });
    progress.map(Some).map_err(usage)
}

/// The file is whole at any moment: a new one takes the place of the old one. Only its owner may read it, since it holds keys and findings.
fn write(file: &Path, audit: &LiveAudit<'_>) -> anyhow::Result<()> {
    let context = || format!("cannot write the progress to `{}`", file.display());
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(folder).with_context(context)?;
    new.write_all(&serde_json::to_vec(&audit.save())?).with_context(context)?;
    new.as_file().sync_all().with_context(context)?;
    new.persist(file).map(drop).with_context(context)
}

fn remove(file: &Path) -> anyhow::Result<()> {
    std::fs::remove_file(file)
        .with_context(|| format!("cannot remove `{}`, which is of no use any more", file.display()))
}
