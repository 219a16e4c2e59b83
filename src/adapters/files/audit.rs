//! A source of items into an audit, on several threads and in bounded memory.
//!
//! Each thread takes a batch of entries, which one thread at a time unpacks, and decodes and judges them while others take
//! theirs. The result does not depend on their number. Where a source has keys twice the first pass finds out which
//! lines are superseded, and a second one leaves them out: what an item has added cannot be taken back.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::keys::{self, KEYS_IN_MEMORY, Keys, PassedOver};
use super::source::{Content, Entries, Entry, Held, Place, Source, SourceError, Watch};
use crate::derive::{derive, findings};
use crate::engine::audit::{Audit, Capped, SAMPLES_DEFAULT, Witness};
use crate::model::key::{KeyNames, TableKey};
use crate::model::spec::Model;
use crate::model::value::{Item, Kind};

#[cfg(test)]
mod tests;

/// Entries that a thread takes at once.
const BATCH: usize = 128;
/// Faults and superseded lines that are told one by one.
pub const TOLD_MAX: usize = 100;

/// How an audit is done.
pub struct Options {
    /// Findings that are kept of each rule and entity.
    pub samples: usize,
    pub threads: usize,
    /// Keys that are kept in memory.
    pub keys_in_memory: usize,
    pub watch: Watch,
}

impl Default for Options {
    /// As many threads as there are processors.
    fn default() -> Options {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Options {
            samples: SAMPLES_DEFAULT,
            threads,
            keys_in_memory: KEYS_IN_MEMORY,
            watch: std::sync::Arc::new(|input| input),
        }
    }
}

/// A line whose key comes again further down: a table keeps the later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superseded {
    pub line: usize,
    pub by_line: usize,
    pub key: String,
}

/// What a source gave besides items to judge.
#[derive(Debug)]
pub struct Reading {
    /// What holds no item, and files that are missing, damaged or not what a manifest says.
    pub faults: Capped<Place, String>,
    /// Those of them that are about a file as a whole.
    pub broken_files: u64,
    /// Lines that are passed over, those told of them, by line.
    pub superseded: Vec<Superseded>,
    pub superseded_lines: u64,
    /// Items that Tablekeeper derived itself, as an export of a kept table has them.
    pub derived: u64,
    /// Items that an incremental export says are deleted.
    pub deleted: u64,
}

/// What one thread has found.
struct Part<'m> {
    audit: Audit<'m>,
    reading: Reading,
    /// Keys of the lines in the batch at hand.
    seen: Vec<([u8; 16], usize)>,
}

/// One pass over a source.
struct Pass<'p> {
    model: &'p Model,
    names: KeyNames,
    entries: Mutex<Entries>,
    /// Where keys are to be remembered.
    keys: Option<Mutex<Keys>>,
    passed_over: Option<PassedOver>,
    options: &'p Options,
    /// A thread has failed; the others stop as well.
    failed: AtomicBool,
}

/// Judges all items of the source. A `witness` sees them beside the audit; a second pass, which has another one, is the one that counts.
pub fn audit<'m, W: Witness>(
    model: &'m Model,
    source: &Source,
    options: &Options,
    witness: impl Fn() -> W,
) -> Result<(Audit<'m>, Reading, W), SourceError> {
    let entries = |source: &Source| source.entries(&model.table.name, &options.watch);
    let keys = source.may_repeat_keys().then(|| Mutex::new(Keys::new(options.keys_in_memory)));
    let mut pass = Pass {
        model,
        names: model.table.key_names(),
        entries: Mutex::new(entries(source)?),
        keys,
        passed_over: None,
        options,
        failed: AtomicBool::new(false),
    };
    let seeing = witness();
    let (audit, reading) = pass.run(model, &seeing).map_err(SourceError::Spill)?;
    let Some(keys) = pass.keys.take() else { return Ok((audit, reading, seeing)) };
    let keys = keys.into_inner().unwrap_or_else(PoisonError::into_inner);
    let passed_over = keys.finish(TOLD_MAX).map_err(SourceError::Spill)?;
    if passed_over.superseded.is_empty() {
        return Ok((audit, reading, seeing));
    }
    drop((audit, reading, seeing));
    pass.entries = Mutex::new(entries(source)?);
    pass.passed_over = Some(passed_over);
    let seeing = witness();
    let (audit, mut reading) = pass.run(model, &seeing).map_err(SourceError::Spill)?;
    reading.superseded.sort_by_key(|line| line.line);
    reading.superseded_lines = pass.passed_over.map_or(0, |passed_over| passed_over.superseded.all());
    Ok((audit, reading, seeing))
}

impl Pass<'_> {
    fn run<'m>(&self, model: &'m Model, witness: &impl Witness) -> io::Result<(Audit<'m>, Reading)> {
        let whole = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.options.threads.max(1)).map(|_| scope.spawn(|| self.part(model, witness))).collect();
            let parts = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            parts.collect::<io::Result<Vec<Part<'m>>>>()
        });
        let mut whole = whole?.into_iter();
        let mut first = whole.next().unwrap_or_else(|| Part::new(model, self.options.samples));
        whole.for_each(|other| first.merge(other));
        Ok((first.audit, first.reading))
    }

    fn part<'m>(&self, model: &'m Model, witness: &impl Witness) -> io::Result<Part<'m>> {
        let mut part = Part::new(model, self.options.samples);
        while !self.failed.load(Ordering::Relaxed) {
            let batch: Vec<Entry> = {
                let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
                entries.by_ref().take(BATCH).collect()
            };
            if batch.is_empty() {
                break;
            }
            batch.into_iter().for_each(|entry| self.judge(entry, &mut part, witness));
            if let Some(keys) = &self.keys {
                let added = keys.lock().unwrap_or_else(PoisonError::into_inner).add(&mut part.seen);
                added.inspect_err(|_| self.failed.store(true, Ordering::Relaxed))?;
            }
        }
        Ok(part)
    }

    fn judge(&self, entry: Entry, part: &mut Part<'_>, witness: &impl Witness) {
        let Entry { place, content } = entry;
        let reading = &mut part.reading;
        let item = match content.and_then(Content::decode) {
            Err(fault) => {
                reading.broken_files += u64::from(place.line == 0);
                return reading.faults.add(place.clone(), self.told(&place, fault));
            }
            Ok(Held::Deletion) => return reading.deleted += 1,
            Ok(Held::Item(item)) if item.is_ours() => return reading.derived += 1,
            Ok(Held::Item(item)) => item,
        };
        let Some(key) = TableKey::of(&item, &self.names) else {
            return reading.faults.add(place.clone(), self.told(&place, no_key(&item, &self.names)));
        };
        if let Some(passed_over) = self.passed_over.as_ref().filter(|lines| lines.contains(place.line)) {
            let told = passed_over.superseded.iter().find(|(line, _)| **line == place.line);
            let superseded =
                |(line, by): (&usize, &usize)| Superseded { line: *line, by_line: *by, key: self.shown(&key) };
            return reading.superseded.extend(told.map(superseded));
        }
        if self.keys.is_some() {
            part.seen.push((keys::hash(&key), place.line));
        }
        let derived = derive(self.model, &key, &item);
        witness.see(&key, &item, &derived);
        part.audit.add(&derived);
    }
}

impl Pass<'_> {
    /// A fault of a line quotes it, unless the model hides values.
    fn told(&self, place: &Place, fault: String) -> String {
        match self.model.findings.redact_values && place.line > 0 {
            true => "no item, or one without a key; the model hides what it holds".to_owned(),
            false => fault,
        }
    }

    fn shown(&self, key: &TableKey) -> String {
        match self.model.findings.hash_keys {
            true => key.digest().to_string(),
            false => key.to_string(),
        }
    }
}

impl<'m> Part<'m> {
    fn new(model: &'m Model, samples: usize) -> Part<'m> {
        let reading = Reading {
            faults: Capped::new(TOLD_MAX),
            broken_files: 0,
            superseded: Vec::new(),
            superseded_lines: 0,
            derived: 0,
            deleted: 0,
        };
        Part { audit: Audit::new(model, samples), reading, seen: Vec::new() }
    }

    fn merge(&mut self, other: Part<'_>) {
        self.audit.merge(other.audit);
        let (ours, theirs) = (&mut self.reading, other.reading);
        ours.faults.merge(theirs.faults);
        ours.superseded.extend(theirs.superseded);
        ours.broken_files += theirs.broken_files;
        ours.derived += theirs.derived;
        ours.deleted += theirs.deleted;
    }
}

/// Why an item has no key: each key attribute that is not there, or holds what no key can be.
pub fn no_key(item: &Item, names: &KeyNames) -> String {
    let whats: Vec<String> = std::iter::once(&names.partition)
        .chain(&names.sort)
        .filter_map(|name| match item.get(name) {
            None => Some(format!("`{name}` is absent")),
            Some(value) if !matches!(value.kind(), Kind::S | Kind::N | Kind::B) => {
                Some(format!("`{name}` is {} of type {}", findings::shown(value), value.kind().name()))
            }
            Some(_) => None,
        })
        .collect();
    format!("no key: {}; give it a value of type S, N or B", whats.join(", "))
}
