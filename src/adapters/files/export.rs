//! A DynamoDB export to S3, full or incremental: manifests, and data files of DynamoDB JSON.
//!
//! The problem: an export is many files, copied by hand more often than not, and a copy that lacks one looks like a smaller table. So
//! everything that the manifests say is checked while the data is read: that each file is there, its MD5, how many lines it
//! has, how many all have. What does not agree is an entry that says so, and the rest is read.
//!
//! ```text
//! AWSDynamoDB/<export id>/manifest-summary.json   what was exported, and how many items
//! AWSDynamoDB/<export id>/manifest-files.json     a line a data file: its key, items, MD5
//! AWSDynamoDB/<export id>/data/*.json.gz          of a full export
//! AWSDynamoDB/data/*.json.gz                      of incremental ones
//! ```
//!
//! Lines of a full export are `{"Item": {...}}`; of an incremental one `{"Metadata": ..., "Keys": ..., "NewImage": ..., "OldImage": ...}`,
//! the last change of an item in the period, without `NewImage` where it was deleted. The objects are asked for by their
//! keys, of anything that implements [`Objects`]: a folder here.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::decode;
use super::lines::{Input, Lines};
use super::read::FileError;
use super::source::{Content, Entries, Entry, Held, LineEntries, Place, SourceError, Watch};

#[cfg(test)]
mod tests;

const SUMMARY: &str = "manifest-summary.json";
const FILES: &str = "manifest-files.json";
/// Largest summary that is read, in bytes.
const SUMMARY_SIZE_MAX: u64 = 1024 * 1024;

/// Where the objects of an export are.
pub trait Objects: Send + Sync + fmt::Debug {
    /// Opens the object of a key as the manifests write it; a name without `/` stands beside the manifests.
    fn open(&self, key: &str) -> io::Result<Input>;

    /// Its size in bytes, if that is known.
    fn size(&self, key: &str) -> Option<u64>;

    /// How messages call the place.
    fn name(&self) -> String;
}

/// An export as it was copied into a folder.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder with the manifests: this one, or the only one below it (`<export id>`, `AWSDynamoDB/<export id>`).
    pub fn find(path: &Path) -> Result<Folder, SourceError> {
        let mut found = vec![path.to_owned()];
        for _ in 0..3 {
            let with_manifest: Vec<&PathBuf> = found.iter().filter(|folder| folder.join(SUMMARY).is_file()).collect();
            match with_manifest.as_slice() {
                [] => found = found.iter().flat_map(|folder| folders(folder)).collect(),
                [one] => return Ok(Folder((*one).clone())),
                several => {
                    let names: Vec<String> = several.iter().map(|one| format!("`{}`", one.display())).collect();
                    let message = format!("`{}` holds several exports: {}; name one", path.display(), names.join(", "));
                    return Err(SourceError::Unfit(message));
                }
            }
        }
        let shown = path.display();
        Err(SourceError::Unfit(format!(
            "`{shown}` is a folder without {SUMMARY}; name a file, or the folder of an export"
        )))
    }

    /// The file of a key, wherever the copy put it: beside the manifests, in their `data`, or in the `data` of all exports.
    fn file(&self, key: &str) -> Option<PathBuf> {
        let name = key.rsplit('/').next().filter(|name| !name.is_empty() && *name != "..")?;
        let places = [self.0.join("data"), self.0.join("..").join("data"), self.0.clone()];
        places.into_iter().map(|folder| folder.join(name)).find(|file| file.is_file())
    }
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

impl Objects for Folder {
    fn open(&self, key: &str) -> io::Result<Input> {
        let file = self.file(key).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(File::open(file)?))
    }

    fn size(&self, key: &str) -> Option<u64> {
        Some(std::fs::metadata(self.file(key)?).ok()?.len())
    }

    fn name(&self) -> String {
        self.0.display().to_string()
    }
}

/// The manifest of an export, which is all that is kept of it.
#[derive(Debug)]
pub struct Export {
    objects: Arc<dyn Objects>,
    summary: Summary,
    files: Vec<DataFile>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    item_count: u64,
    output_format: String,
    /// `INCREMENTAL_EXPORT`; older exports, all full, do not say.
    #[serde(default)]
    export_type: Option<String>,
}

/// A line of the manifest of files.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataFile {
    item_count: u64,
    #[serde(default)]
    md5_checksum: Option<String>,
    data_file_s3_key: String,
}

impl Export {
    pub fn open(objects: Arc<dyn Objects>) -> Result<Export, SourceError> {
        let place = objects.name();
        let unfit = |file: &str, why: String| SourceError::Unfit(format!("{place}/{file}: {why}"));
        let open =
            |file: &str| objects.open(file).map_err(|source| FileError { name: format!("{place}/{file}"), source });
        let mut text = String::new();
        let read = open(SUMMARY)?.take(SUMMARY_SIZE_MAX).read_to_string(&mut text);
        read.map_err(|error| unfit(SUMMARY, error.to_string()))?;
        let summary: Summary = serde_json::from_str(&text)
            .map_err(|error| unfit(SUMMARY, format!("no manifest of an export: {error}; copy the export again")))?;
        if summary.output_format != "DYNAMODB_JSON" {
            let format = &summary.output_format;
            return Err(unfit(
                SUMMARY,
                format!("the export's format is `{format}`; export the table as DYNAMODB_JSON"),
            ));
        }
        let mut files = Vec::new();
        for line in BufReader::new(open(FILES)?).lines() {
            let line = line.map_err(|error| unfit(FILES, error.to_string()))?;
            if !line.trim().is_empty() {
                let file = serde_json::from_str(&line).map_err(|error| {
                    let at = files.len() + 1;
                    unfit(FILES, format!("line {at} names no data file: {error}; copy the export again"))
                })?;
                files.push(file);
            }
        }
        Ok(Export { objects, summary, files })
    }

    pub fn size(&self) -> Option<u64> {
        self.files.iter().map(|file| self.objects.size(&file.data_file_s3_key)).sum()
    }

    /// True if it holds what changed in a time, not all that is there.
    pub fn is_incremental(&self) -> bool {
        self.summary.export_type.as_deref() == Some("INCREMENTAL_EXPORT")
    }

    pub fn entries(&self, watch: &Watch) -> Entries {
        let content = if self.is_incremental() { Content::Change } else { Content::Line };
        let place: Arc<str> = self.objects.name().into();
        let stated: u64 = self.files.iter().map(|file| file.item_count).sum();
        let wrong = (stated != self.summary.item_count).then(|| {
            let all = self.summary.item_count;
            let message = format!("{SUMMARY} counts {all} items, the files of {FILES} {stated}; copy the export again");
            Entry { place: Place { file: place, line: 0 }, content: Err(message) }
        });
        let (objects, watch) = (Arc::clone(&self.objects), Arc::clone(watch));
        let mut known = BTreeSet::new();
        let (files, twice): (Vec<DataFile>, Vec<DataFile>) =
            self.files.iter().cloned().partition(|file| known.insert(file.data_file_s3_key.clone()));
        let twice = twice.into_iter().map(|file| {
            let message = format!("{FILES} names it twice; it is read once; copy the export again");
            Entry { place: Place { file: file.data_file_s3_key.into(), line: 0 }, content: Err(message) }
        });
        let data = files.into_iter().flat_map(move |file| data(&*objects, file, &watch, content));
        Box::new(wrong.into_iter().chain(twice).chain(data))
    }
}

/// The entries of one data file, and what is wrong with it as a whole.
fn data(objects: &dyn Objects, file: DataFile, watch: &Watch, content: fn(Vec<u8>) -> Content) -> Entries {
    let name: Arc<str> = file.data_file_s3_key.as_str().into();
    let sum = Arc::new(Mutex::new(md5::Context::new()));
    let opened = objects.open(&file.data_file_s3_key).and_then(|input| {
        let summed = Summed { input: watch(input), sum: Arc::clone(&sum) };
        Lines::new(&name, summed).map_err(|error| error.source)
    });
    match opened {
        Ok(lines) => {
            Box::new(Data { lines: LineEntries::new(Arc::clone(&name), lines, content), file, name, sum, ended: false })
        }
        Err(error) => {
            let message = match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("the data file is not in `{}`; copy the whole export", objects.name())
                }
                _ => format!("the data file cannot be read: {error}"),
            };
            Box::new(std::iter::once(Entry { place: Place { file: name, line: 0 }, content: Err(message) }))
        }
    }
}

struct Data {
    file: DataFile,
    name: Arc<str>,
    lines: LineEntries,
    sum: Arc<Mutex<md5::Context>>,
    ended: bool,
}

impl Data {
    /// What the manifest says of the file and is not so. The file has been read to its end.
    fn disagrees(&self) -> Option<String> {
        let (stated, found) = (self.file.item_count, self.lines.entries);
        if stated != found {
            return Some(format!("the manifest counts {stated} items, the file has {found}; copy the export again"));
        }
        let sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let found = BASE64.encode(sum.compute().0);
        let stated = self.file.md5_checksum.as_ref().filter(|stated| **stated != found)?;
        Some(format!("the manifest's MD5 is {stated}, the file's {found}; copy the export again"))
    }
}

impl Iterator for Data {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if let Some(entry) = self.lines.next() {
            return Some(entry);
        }
        if std::mem::replace(&mut self.ended, true) || self.lines.is_cut_off {
            return None;
        }
        let message = self.disagrees()?;
        Some(Entry { place: Place { file: Arc::clone(&self.name), line: 0 }, content: Err(message) })
    }
}

/// Takes the MD5 of what is read.
struct Summed {
    input: Input,
    sum: Arc<Mutex<md5::Context>>,
}

impl Read for Summed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.sum.lock().unwrap_or_else(PoisonError::into_inner).consume(&buffer[..read]);
        Ok(read)
    }
}

/// What a line of an incremental export leaves of its item.
pub(super) fn change(line: &str) -> Result<Held, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Change<'c> {
        #[serde(borrow, rename = "Keys")]
        _keys: &'c RawValue,
        #[serde(borrow)]
        new_image: Option<&'c RawValue>,
    }
    let change: Change<'_> = serde_json::from_str(line)
        .map_err(|error| format!("`{}` is no line of an incremental export: {error}", decode::excerpt(line)))?;
    match change.new_image {
        Some(image) => decode::parse_typed_item(image.get()).map(Held::Item),
        None => Ok(Held::Deletion),
    }
}
