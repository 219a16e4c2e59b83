//! Items in CSV: a header with the attributes' names, then one item a row.
//!
//! A cell is text (S). Another type stands behind the name in the header, `Age:N`: S, N, B (base64), BOOL, and for NULL, M, L, SS, NS
//! and BS what DynamoDB JSON has in that place (`["a","b"]` under `Tags:SS`). An empty cell is an absent attribute. The file
//! may be gzip; a byte order mark is skipped.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use csv::{ByteRecord, ReaderBuilder, Trim};

use super::decode;
use super::lines::{Input, LINE_SIZE_MAX, read_failed, unpack, without_mark};
use super::source::{Content, Entries, Entry, Place, SourceError};
use crate::model::value::{Item, Kind, Text, Value};

#[cfg(test)]
mod tests;

/// One column: an attribute's name and type.
struct Column {
    name: Text,
    kind: Kind,
}

struct Rows {
    file: Arc<str>,
    columns: Vec<Column>,
    reader: csv::Reader<Bounded>,
    /// Bytes that the row at hand may still take.
    left: Arc<AtomicUsize>,
    record: ByteRecord,
    /// Quotes read so far: of a whole file an even number.
    quotes: Arc<AtomicUsize>,
    /// Line of the last row.
    last: usize,
    gzip: bool,
    ended: bool,
}

pub fn entries(file: &Arc<str>, input: Input) -> Result<Entries, SourceError> {
    let unpacked = unpack(file, input)?;
    let (gzip, left) = (unpacked.gzip, Arc::new(AtomicUsize::new(LINE_SIZE_MAX)));
    let unfit = |why: String| SourceError::Unfit(format!("{file}: the header cannot be read: {why}"));
    let input = without_mark(unpacked.input).map_err(|error| unfit(read_failed(gzip, &error)))?;
    let quotes = Arc::new(AtomicUsize::new(0));
    let bounded = Bounded { input, left: Arc::clone(&left), quotes: Arc::clone(&quotes) };
    // Rows of another length are ours to tell; the reader would stop there.
    let mut reader = ReaderBuilder::new().flexible(true).trim(Trim::Headers).from_reader(bounded);
    let header = reader.byte_headers().cloned().map_err(|error| unfit(why(error, gzip)))?;
    let columns = header.iter().map(column).collect::<Result<Vec<Column>, String>>();
    let columns = columns.and_then(once).map_err(|why| SourceError::Unfit(format!("{file}: line 1: {why}")))?;
    let file = Arc::clone(file);
    Ok(Box::new(Rows { file, columns, reader, left, record: ByteRecord::new(), quotes, last: 1, gzip, ended: false }))
}

/// `Age:N` is the number `Age`; a name whose end is no type is a name.
fn column(title: &[u8]) -> Result<Column, String> {
    let title = decode::text(title)?;
    if title.is_empty() {
        return Err("a column has no name; write the attribute's name in the header".to_owned());
    }
    let typed = title.rsplit_once(':').filter(|(name, _)| !name.is_empty());
    Ok(match typed.and_then(|(name, kind)| Some((name, Kind::parse(kind)?))) {
        Some((name, kind)) => Column { name: name.into(), kind },
        None => Column { name: title.into(), kind: Kind::S },
    })
}

fn once(columns: Vec<Column>) -> Result<Vec<Column>, String> {
    let mut names: Vec<&Text> = columns.iter().map(|column| &column.name).collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("the column `{}` stands twice; keep one", pair[0])),
        None => Ok(columns),
    }
}

impl Iterator for Rows {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if self.ended {
            return None;
        }
        let begun = usize::try_from(self.reader.position().line()).unwrap_or(usize::MAX);
        self.left.store(LINE_SIZE_MAX, Ordering::Relaxed);
        let content = match self.reader.read_byte_record(&mut self.record) {
            Ok(false) => return self.unclosed(),
            Ok(true) => row(&self.columns, &self.record).map(Content::Item),
            Err(error) => {
                self.ended = true;
                Err(why(error, self.gzip))
            }
        };
        let stated = self.record.position().filter(|_| !self.ended).map(csv::Position::line);
        let line = stated.and_then(|line| usize::try_from(line).ok()).unwrap_or(begun);
        self.last = line;
        Some(Entry { place: Place { file: Arc::clone(&self.file), line }, content })
    }
}

impl Rows {
    /// At the end of the file: the reader takes what follows a quote that is never closed for one cell.
    fn unclosed(&mut self) -> Option<Entry> {
        self.ended = true;
        let message = "a quote is not closed by the end of the file, so that rows may be missing; close it, or write it twice within a cell";
        let is_odd = !self.quotes.load(Ordering::Relaxed).is_multiple_of(2);
        let place = Place { file: Arc::clone(&self.file), line: self.last };
        is_odd.then(|| Entry { place, content: Err(message.to_owned()) })
    }
}

fn row(columns: &[Column], record: &ByteRecord) -> Result<Item, String> {
    if record.len() != columns.len() {
        let (cells, wanted) = (record.len(), columns.len());
        return Err(format!(
            "{cells} cells where the header has {wanted}; quote cells that hold commas, quotes or line ends"
        ));
    }
    let mut item = Item::new();
    for (column, cell) in columns.iter().zip(record).filter(|(_, cell)| !cell.is_empty()) {
        item.insert(column.name.clone(), value(column, decode::text(cell)?)?);
    }
    Ok(item)
}

fn value(column: &Column, cell: &str) -> Result<Value, String> {
    let quoted = || serde_json::Value::from(cell).to_string();
    match column.kind {
        Kind::S => Ok(Value::text(cell)),
        Kind::N | Kind::B => decode::parse_typed_value(column.kind, &quoted(), &column.name),
        Kind::Bool => decode::parse_typed_value(Kind::Bool, &cell.to_lowercase(), &column.name),
        kind => decode::parse_typed_value(kind, cell, &column.name),
    }
}

fn why(error: csv::Error, gzip: bool) -> String {
    match error.into_kind() {
        csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => error.to_string(),
        csv::ErrorKind::Io(error) => read_failed(gzip, &error),
        other => format!("{other:?}"),
    }
}

/// Refuses to go on where one row has no end, as after a quote that is never closed.
struct Bounded {
    input: Input,
    left: Arc<AtomicUsize>,
    quotes: Arc<AtomicUsize>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        let left = self.left.load(Ordering::Relaxed);
        if read > left {
            let message = format!("the row goes on for more than {LINE_SIZE_MAX} bytes; close its quotes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        self.left.store(left - read, Ordering::Relaxed);
        let quotes = buffer[..read].iter().filter(|byte| **byte == b'"').count();
        self.quotes.fetch_add(quotes, Ordering::Relaxed);
        Ok(read)
    }
}
