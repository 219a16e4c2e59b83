//! Files of items as a table would hold them: each key once, and every line that is not used is told.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read as _};
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;
use tablekeeper::adapters::files::{FileError, ItemReader};
use tablekeeper::derive::{self, Fold};
use tablekeeper::model::key::{KeyNames, TableKey};
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{Item, Kind, Text};

use super::context::{Exit, Stop, usage};
use super::output::{self, count};

/// Most lines of one kind that are shown one by one.
const SHOWN_MAX: usize = 10;

/// What a file gave.
#[derive(Debug, Default)]
pub struct FromFile<T> {
    pub read: T,
    /// Lines that hold no item, one message each.
    pub faults: Vec<String>,
    pub superseded: Vec<Superseded>,
    /// Items that Tablekeeper derived itself, as an export of a kept table has them.
    pub derived: usize,
}

impl<T> FromFile<T> {
    /// The same with a part of what was read, and the rest.
    pub fn split<A, B>(self, parts: impl FnOnce(T) -> (A, B)) -> (FromFile<A>, B) {
        let FromFile { read, faults, superseded, derived } = self;
        let (read, rest) = parts(read);
        (FromFile { read, faults, superseded, derived }, rest)
    }
}

/// A line whose key comes again further down: a table keeps the later one.
#[derive(Debug, Clone, Serialize)]
pub struct Superseded {
    pub line: usize,
    pub by_line: usize,
    pub key: String,
}

/// Calls `each` with the line, key and content of every source item. Of several lines of one key the last counts.
pub fn read<T: Default>(
    model: &Model,
    path: &Path,
    each: impl Fn(&mut T, usize, TableKey, Item),
) -> Result<FromFile<T>, Stop> {
    let file = File::open(path)?;
    let first = file.read(model, &BTreeSet::new(), &each)?;
    if first.superseded.is_empty() {
        return Ok(first);
    }
    // What the earlier lines gave cannot be taken back: once more, without them. Few files need it, and none its whole content
    // in memory for it.
    let passed_over = first.superseded.iter().map(|line| line.line).collect();
    let superseded = first.superseded;
    Ok(FromFile { superseded, ..file.read(model, &passed_over, &each)? })
}

/// Everything derived from a file's items, added up.
pub fn fold(model: &Model, path: &Path) -> Result<FromFile<Fold>, Stop> {
    read(model, path, |fold: &mut Fold, _, key, item| fold.add(&derive::derive(model, &key, &item)))
}

/// A file that can be read more than once: standard input and pipes are kept, as they come.
struct File<'p> {
    path: &'p Path,
    stdin: Option<Vec<u8>>,
}

impl File<'_> {
    fn open(path: &Path) -> Result<File<'_>, Stop> {
        let mut stdin = None;
        if path.as_os_str() == "-" {
            let bytes = stdin.insert(Vec::new());
            std::io::stdin().read_to_end(bytes).context("cannot read standard input")?;
        }
        // A pipe by name is gone once it is read.
        if stdin.is_none() && std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            stdin = Some(std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?);
        }
        Ok(File { path, stdin })
    }

    fn shown(&self) -> String {
        if self.path.as_os_str() == "-" { "standard input".to_owned() } else { self.path.display().to_string() }
    }

    fn reader(&self) -> Result<ItemReader, FileError> {
        match &self.stdin {
            Some(bytes) => ItemReader::new(self.shown(), Cursor::new(bytes.clone())),
            None => ItemReader::open(self.path),
        }
    }

    fn read<T: Default>(
        &self,
        model: &Model,
        passed_over: &BTreeSet<usize>,
        each: &impl Fn(&mut T, usize, TableKey, Item),
    ) -> Result<FromFile<T>, Stop> {
        let names = model.table.key_names();
        let shown = self.shown();
        let mut found = FromFile::default();
        let mut lines: BTreeMap<Text, usize> = BTreeMap::new();
        let mut reader = self.reader().with_context(|| format!("cannot read items from `{shown}`")).map_err(usage)?;
        while let Some(item) = reader.next() {
            let line = reader.line();
            match item {
                Err(fault) => found.faults.push(format!("{shown}: {fault}")),
                Ok(item) if item.is_ours() => found.derived += 1,
                Ok(item) => match TableKey::of(&item, &names) {
                    None => found.faults.push(format!("{shown}: line {line}: {}", no_key(&item, &names))),
                    Some(_) if passed_over.contains(&line) => {}
                    Some(key) => {
                        if let Some(before) = lines.insert(key.digest(), line) {
                            found.superseded.push(Superseded { line: before, by_line: line, key: key.to_string() });
                        }
                        each(&mut found.read, line, key, item);
                    }
                },
            }
        }
        Ok(found)
    }
}

/// Why an item has no key: each key attribute that is not there, or holds what no key can be.
fn no_key(item: &Item, names: &KeyNames) -> String {
    let whats: Vec<String> = std::iter::once(&names.partition)
        .chain(&names.sort)
        .filter_map(|name| match item.get(name) {
            None => Some(format!("`{name}` is absent")),
            Some(value) if !matches!(value.kind(), Kind::S | Kind::N | Kind::B) => {
                Some(format!("`{name}` is {} of type {}", derive::findings::shown(value), value.kind().name()))
            }
            Some(_) => None,
        })
        .collect();
    format!("no key: {}; give it a value of type S, N or B", whats.join(", "))
}

/// Shows what could not be read and what was passed over, at most ten lines of each.
pub fn show<T>(found: &FromFile<T>, exit: Exit) {
    show_some(found.faults.iter(), |text| output::fault(text, exit));
    let superseded = |line: &Superseded| {
        let Superseded { line, by_line, key } = line;
        format!("line {line} is passed over: line {by_line} has its key `{key}` again, and a table keeps the last")
    };
    show_some(found.superseded.iter().map(superseded), |text| output::warn(text));
}

fn show_some(lines: impl ExactSizeIterator<Item = impl std::fmt::Display>, show: impl Fn(&dyn std::fmt::Display)) {
    let all = lines.len();
    lines.take(SHOWN_MAX).for_each(|text| show(&text));
    if all > SHOWN_MAX {
        show(&format_args!("... and {} more", all - SHOWN_MAX));
    }
}

/// `; 2 lines hold no item, 1 line is passed over`, for a summary; empty where every line was used.
pub fn unused<T>(found: &FromFile<T>) -> String {
    let mut parts = String::new();
    if !found.faults.is_empty() {
        parts.push_str(&format!("; {} without an item", count(found.faults.len(), "line")));
    }
    if !found.superseded.is_empty() {
        parts.push_str(&format!(
            "; {} passed over for a later one of the same key",
            count(found.superseded.len(), "line")
        ));
    }
    parts
}
