//! Items from a file of JSON lines, standard input or anything that reads.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::decode;
use super::lines::Lines;
use crate::model::value::Item;

#[cfg(test)]
mod tests;

/// Why a file could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot read `{name}`; check the path and its permissions")]
pub struct FileError {
    pub name: String,
    pub source: io::Error,
}

/// A line that holds no item, or the point at which the file could not be read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct FileFault {
    /// Counted from 1, in the unpacked text.
    pub line: usize,
    /// What is wrong, with the value and the remedy.
    pub message: String,
    /// True where nothing after this line could be read: what was yielded is not the whole file.
    pub fatal: bool,
}

/// Yields the items of a file in their order; a bad line is a fault and the reading goes on.
pub struct ItemReader {
    lines: Lines,
    buffer: Vec<u8>,
}

impl ItemReader {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path) -> Result<ItemReader, FileError> {
        let name = path.display().to_string();
        if name == "-" {
            return ItemReader::new("standard input", io::stdin());
        }
        match File::open(path) {
            Ok(file) => ItemReader::new(name, file),
            Err(source) => Err(FileError { name, source }),
        }
    }

    /// Reads from anything. The first bytes are read here, to know gzip by them; `name` is for messages.
    pub fn new(name: impl Into<String>, input: impl Read + Send + 'static) -> Result<ItemReader, FileError> {
        Ok(ItemReader { lines: Lines::new(&name.into(), input)?, buffer: Vec::new() })
    }

    /// The number of the line last read, counted from 1.
    pub fn line(&self) -> usize {
        self.lines.line()
    }
}

impl Iterator for ItemReader {
    type Item = Result<Item, FileFault>;

    fn next(&mut self) -> Option<Result<Item, FileFault>> {
        let decoded = self.lines.next(&mut self.buffer)?.and_then(|()| {
            let fault = |message| FileFault { line: self.lines.line(), message, fatal: false };
            decode::parse_line(&self.buffer).map_err(fault)
        });
        Some(decoded)
    }
}
