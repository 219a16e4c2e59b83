//! What people have their items in: which kind a path is, and its entries one after the other.
//!
//! The contract: [`Source::of`] says at once whether a path can be read at all, and as what; [`Source::entries`] begins at the
//! beginning each time. An [`Entry`] is not yet decoded, so that one thread can unpack while others decode. Whatever holds
//! no item is an entry too, with its place, the value and the remedy.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::export::{Export, Folder, Objects};
use super::lines::{Input, Lines};
use super::read::{FileError, FileFault};
use super::{csv, decode, workbench};
use crate::engine::cross::Sight;
use crate::model::value::Item;

/// Bytes at the beginning of a file that tell what it is.
const HEAD_SIZE: u64 = 4 * 1024;

/// How the items are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceFormat {
    /// One item a line, as [`super::ItemReader`] reads it.
    JsonLines,
    /// A header, then one item a row.
    Csv,
    /// A model of NoSQL Workbench with the data of its tables.
    Workbench,
    /// The folder of a DynamoDB export to S3, full or incremental.
    Export,
}

/// Why a source cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    File(#[from] FileError),
    /// It is there, and is not what it should be.
    #[error("{0}")]
    Unfit(String),
    /// What is remembered of a large file, or standard input, finds no room.
    #[error("cannot keep a temporary file; make room, or set TMPDIR to a folder that has some")]
    Spill(#[source] io::Error),
}

/// Where something stands: a file and a line of it, counted from 1; line 0 is the file as a whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub file: Arc<str>,
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}: line {line}", self.file),
        }
    }
}

/// One item as the source has it, or why there is none.
#[derive(Debug)]
pub struct Entry {
    pub place: Place,
    /// The error says what is wrong, with the value and the remedy.
    pub content: Result<Content, String>,
}

impl Entry {
    pub(super) fn fault(file: &Arc<str>, fault: FileFault) -> Entry {
        Entry { place: Place { file: Arc::clone(file), line: fault.line }, content: Err(fault.message) }
    }
}

#[derive(Debug)]
pub enum Content {
    /// A line of JSON.
    Line(Vec<u8>),
    /// A line of an incremental export: the last change of an item.
    Change(Vec<u8>),
    Item(Item),
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Held {
    Item(Item),
    /// The item is not there any more.
    Deletion,
}

impl Content {
    /// Decodes it; the error says what is wrong, with the value and the remedy.
    pub fn decode(self) -> Result<Held, String> {
        match self {
            Content::Item(item) => Ok(Held::Item(item)),
            Content::Line(line) => decode::parse_line(&line).map(Held::Item),
            Content::Change(line) => super::export::change(decode::text(&line)?),
        }
    }
}

/// The entries of a source in their order.
pub type Entries = Box<dyn Iterator<Item = Entry> + Send>;

/// Watches what is read, for a progress bar: it is given each input, and gives it back.
pub type Watch = Arc<dyn Fn(Input) -> Input + Send + Sync>;

/// A source of items that can be read more than once.
#[derive(Debug)]
pub struct Source {
    name: Arc<str>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    File(SourceFormat, PathBuf),
    /// Standard input or a pipe, kept in a file without a name.
    Kept(SourceFormat, File),
    Export(Export),
}

impl Source {
    /// The source at a path; `-` is standard input. Without a format, it is what the path and its first bytes tell.
    pub fn of(path: &Path, format: Option<SourceFormat>) -> Result<Source, SourceError> {
        let shown = path.display().to_string();
        let cannot = |source: io::Error| FileError { name: shown.clone(), source };
        if shown == "-" {
            return Source::kept("standard input", io::stdin(), format.unwrap_or(SourceFormat::JsonLines));
        }
        let found = std::fs::metadata(path).map_err(cannot)?;
        if found.is_dir() {
            return match format {
                None | Some(SourceFormat::Export) => Source::export(&shown, Arc::new(Folder::find(path)?)),
                Some(_) => {
                    Err(SourceError::Unfit(format!("`{shown}` is a folder; name a file, or the folder of an export")))
                }
            };
        }
        if !found.is_file() {
            return Source::kept(&shown, File::open(path).map_err(cannot)?, format.unwrap_or(SourceFormat::JsonLines));
        }
        let format = match format {
            // The manifest stands for the folder.
            Some(SourceFormat::Export) => return Source::of(path.parent().unwrap_or(path), format),
            None if is_manifest(path) => return Source::of(path.parent().unwrap_or(path), Some(SourceFormat::Export)),
            Some(format) => format,
            None => told(path, File::open(path).map_err(cannot)?),
        };
        Ok(Source { name: shown.into(), kind: Kind::File(format, path.to_owned()) })
    }

    /// An export to S3, wherever its objects are.
    pub fn export(name: &str, objects: Arc<dyn Objects>) -> Result<Source, SourceError> {
        Ok(Source { name: name.into(), kind: Kind::Export(Export::open(objects)?) })
    }

    /// What can be read once only is kept in a temporary file.
    fn kept(name: &str, mut input: impl io::Read, format: SourceFormat) -> Result<Source, SourceError> {
        if format == SourceFormat::Export {
            return Err(SourceError::Unfit("an export is a folder; name it by --items".to_owned()));
        }
        let mut file = tempfile::tempfile().map_err(SourceError::Spill)?;
        io::copy(&mut input, &mut file).map_err(SourceError::Spill)?;
        Ok(Source { name: name.into(), kind: Kind::Kept(format, file) })
    }

    /// How messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that there are to read, packed as they are, if that is known.
    pub fn size(&self) -> Option<u64> {
        match &self.kind {
            Kind::File(_, path) => std::fs::metadata(path).ok().map(|found| found.len()),
            Kind::Kept(_, file) => file.metadata().ok().map(|found| found.len()),
            Kind::Export(export) => export.size(),
        }
    }

    /// How much of a table it is, as far as it says so itself.
    pub fn sight(&self) -> Sight {
        match &self.kind {
            Kind::Export(export) if export.is_incremental() => Sight::Partial,
            Kind::Export(_) => Sight::Whole,
            Kind::File(..) | Kind::Kept(..) => Sight::OfSeenEntities,
        }
    }

    /// True if one key may come twice: only an export cannot have that.
    pub fn may_repeat_keys(&self) -> bool {
        !matches!(self.kind, Kind::Export(_))
    }

    /// All entries, from the beginning. `table` is the one that is meant, where a source has several.
    pub fn entries(&self, table: &str, watch: &Watch) -> Result<Entries, SourceError> {
        let cannot = |source| FileError { name: self.name.to_string(), source };
        let (format, file) = match &self.kind {
            Kind::Export(export) => return Ok(export.entries(watch)),
            Kind::File(format, path) => (*format, File::open(path).map_err(cannot)?),
            Kind::Kept(format, file) => {
                let mut file = file.try_clone().map_err(cannot)?;
                file.rewind().map_err(cannot)?;
                (*format, file)
            }
        };
        let input = watch(Box::new(file));
        match format {
            SourceFormat::Csv => csv::entries(&self.name, input),
            SourceFormat::Workbench => workbench::entries(&self.name, input, table),
            SourceFormat::JsonLines | SourceFormat::Export => {
                Ok(Box::new(LineEntries::new(Arc::clone(&self.name), Lines::new(&self.name, input)?, Content::Line)))
            }
        }
    }
}

/// What a file is, by its name's end and its first bytes.
fn told(path: &Path, file: File) -> SourceFormat {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name.strip_suffix(".gz").unwrap_or(&name).ends_with(".csv") {
        return SourceFormat::Csv;
    }
    let mut head = String::new();
    let unpacked = super::lines::unpack(&name, file).map(|unpacked| unpacked.input);
    // Bytes that are no text, or cannot be unpacked, are for the reading to tell.
    let _ = unpacked.map(|input| input.take(HEAD_SIZE).read_to_string(&mut head));
    match workbench::begins_so(&head) {
        true => SourceFormat::Workbench,
        false => SourceFormat::JsonLines,
    }
}

fn is_manifest(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "manifest-summary.json" || name == "manifest-files.json")
}

/// The lines of one file as entries.
pub(super) struct LineEntries {
    file: Arc<str>,
    lines: Lines,
    content: fn(Vec<u8>) -> Content,
    /// Entries yielded, faults among them.
    pub entries: u64,
    /// The last fault ended the reading.
    pub is_cut_off: bool,
}

impl LineEntries {
    pub fn new(file: Arc<str>, lines: Lines, content: fn(Vec<u8>) -> Content) -> LineEntries {
        LineEntries { file, lines, content, entries: 0, is_cut_off: false }
    }
}

impl Iterator for LineEntries {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let mut buffer = Vec::new();
        let read = self.lines.next(&mut buffer)?;
        self.entries += 1;
        Some(match read {
            Ok(()) => {
                let place = Place { file: Arc::clone(&self.file), line: self.lines.line() };
                Entry { place, content: Ok((self.content)(buffer)) }
            }
            Err(fault) => {
                self.is_cut_off |= fault.fatal;
                Entry::fault(&self.file, fault)
            }
        })
    }
}
