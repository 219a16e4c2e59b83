//! `audit --suggest-patches`: a request that would mend an item a line, as JSON. Nothing is ever sent from here.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use tablekeeper::derive::patch::request::Request;
use tablekeeper::derive::patch::{self, Left, Patch};
use tablekeeper::model::derived::Finding;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::Item;
use tempfile::{NamedTempFile, SpooledTempFile};

use super::context::{Stop, usage};
use super::findings::KeyOut;
use super::output::{count, line};

/// Lines are kept in memory up to this size, then on disk.
const IN_MEMORY_MAX: usize = 1 << 20;

/// A line: a patch, or a finding that none mends.
#[derive(Serialize)]
struct LineOut<'a> {
    key: KeyOut,
    /// True: what it changes follows from the values that its condition names.
    safe: bool,
    /// Codes of the findings that are gone afterwards.
    mends: &'a [String],
    /// What to know before sending it, or why there is no patch.
    reason: Option<&'a str>,
    /// The command of `aws dynamodb` that takes the request with `--cli-input-json`.
    operation: Option<&'static str>,
    request: Option<&'a Request>,
    /// The finding that no patch mends.
    #[serde(skip_serializing_if = "Option::is_none")]
    leaves: Option<LeftOut<'a>>,
}

#[derive(Serialize)]
struct LeftOut<'a> {
    code: &'a str,
    attribute: Option<&'a str>,
}

/// Where the lines go once all items are read.
pub enum Destination {
    Stdout,
    /// What is complete takes the place of what was there.
    File(NamedTempFile, PathBuf),
    /// A device or a pipe.
    Other(File, PathBuf),
}

impl Destination {
    /// `-` is standard output. A file is made at once: that it cannot be shows before a long run, not after it.
    ///
    /// # Errors
    /// It cannot be made, or is one of `read`: the source, or the model, or lies in a folder of these.
    pub fn open(path: &Path, read: &[&Path]) -> Result<Destination, Stop> {
        if path.as_os_str() == "-" {
            return Ok(Destination::Stdout);
        }
        let shown = path.display();
        let real = std::fs::canonicalize(path).ok();
        let is_read = |of: &&Path| {
            std::fs::canonicalize(of).is_ok_and(|of| real.as_ref().is_some_and(|real| real.starts_with(of)))
        };
        if read.iter().any(is_read) {
            return Err(usage(anyhow::anyhow!("patches to `{shown}` would destroy what is read; name another file")));
        }
        let context = || format!("cannot write patches to `{shown}`");
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let file = File::options().write(true).open(path).with_context(context).map_err(usage)?;
            return Ok(Destination::Other(file, path.to_owned()));
        }
        let place = real.unwrap_or_else(|| path.to_owned());
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = NamedTempFile::new_in(folder).with_context(context).map_err(usage)?;
        Ok(Destination::File(file, place))
    }
}

/// The lines so far, and how many of each kind.
pub struct Suggestions {
    lines: SpooledTempFile,
    /// The first line that could not be kept.
    lost: Option<io::Error>,
    safe: usize,
    not_safe: usize,
    left: usize,
}

impl Default for Suggestions {
    fn default() -> Suggestions {
        let lines = SpooledTempFile::new(IN_MEMORY_MAX);
        Suggestions { lines, lost: None, safe: 0, not_safe: 0, left: 0 }
    }
}

impl Suggestions {
    /// What would mend these findings of the item.
    pub fn add(&mut self, model: &Model, key: &TableKey, item: &Item, findings: &[Finding]) {
        if findings.is_empty() {
            return;
        }
        let suggestion = patch::suggest(model, key, item, findings);
        let key = || KeyOut(key.to_item(&model.table.key_names()));
        for Patch { safe, mends, reason, request } in &suggestion.patches {
            *if *safe { &mut self.safe } else { &mut self.not_safe } += 1;
            let (operation, request) = (Some(request.operation()), Some(request));
            self.line(&LineOut { key: key(), safe: *safe, mends, reason: *reason, operation, request, leaves: None });
        }
        for Left { finding, reason } in &suggestion.left {
            self.left += 1;
            let leaves = Some(LeftOut { code: &finding.code, attribute: finding.attribute.as_deref() });
            let reason = Some(reason.as_str());
            self.line(&LineOut { key: key(), safe: false, mends: &[], reason, operation: None, request: None, leaves });
        }
    }

    fn line(&mut self, out: &LineOut<'_>) {
        let written = serde_json::to_writer(&mut self.lines, out).map_err(io::Error::from);
        if let Err(error) = written.and_then(|()| self.lines.write_all(b"\n")) {
            self.lost.get_or_insert(error);
        }
    }

    /// Brings the lines to where they belong; returns what to say of them.
    pub fn finish(mut self, to: Destination) -> Result<String, Stop> {
        let kept = self.lost.take().map_or(Ok(()), Err).and_then(|()| self.lines.rewind());
        kept.context("patches cannot be kept in the directory for temporary files")?;
        match to {
            Destination::Stdout => {
                for text in BufReader::new(self.lines).lines() {
                    line(text?);
                }
            }
            Destination::File(mut file, place) => {
                let context = || format!("cannot write patches to `{}`", place.display());
                io::copy(&mut self.lines, &mut file).with_context(context)?;
                file.persist(&place).with_context(context)?;
            }
            Destination::Other(mut file, place) => {
                io::copy(&mut self.lines, &mut file)
                    .with_context(|| format!("cannot write patches to `{}`", place.display()))?;
            }
        }
        let (safe, not_safe) = (count(self.safe, "safe patch"), self.not_safe);
        let left = count(self.left, "finding");
        Ok(format!("{}, {not_safe} unsafe; {left} without one; nothing was sent", safe.replace("patchs", "patches")))
    }
}
