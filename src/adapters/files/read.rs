//! Lines from a file, standard input or anything that reads.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::decode;
use crate::model::value::Item;

/// Longest line that is read, in bytes: ten times the largest item that DynamoDB stores. A longer one is a fault.
pub const LINE_SIZE_MAX: usize = 4 * 1024 * 1024;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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
    input: Box<dyn BufRead + Send>,
    /// Lines read so far.
    line: usize,
    buffer: Vec<u8>,
    gzip: bool,
    ended: bool,
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
    pub fn new(name: impl Into<String>, mut input: impl Read + Send + 'static) -> Result<ItemReader, FileError> {
        let name = name.into();
        let mut head = Vec::with_capacity(GZIP_MAGIC.len());
        if let Err(source) = (&mut input).take(GZIP_MAGIC.len() as u64).read_to_end(&mut head) {
            return Err(FileError { name, source });
        }
        let gzip = head == GZIP_MAGIC;
        let whole = BufReader::new(Cursor::new(head).chain(input));
        let input: Box<dyn BufRead + Send> =
            if gzip { Box::new(BufReader::new(MultiGzDecoder::new(whole))) } else { Box::new(whole) };
        Ok(ItemReader { input, line: 0, buffer: Vec::new(), gzip, ended: false })
    }

    /// The number of the line last read, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    fn fault(&self, message: impl Into<String>) -> FileFault {
        FileFault { line: self.line, message: message.into(), fatal: false }
    }

    fn fatal(&mut self, message: impl Into<String>) -> FileFault {
        self.ended = true;
        FileFault { line: self.line, message: message.into(), fatal: true }
    }

    /// The item of the line in the buffer; `None` for a blank one.
    fn decode(&mut self) -> Option<Result<Item, FileFault>> {
        if self.line == 1 && (self.buffer.starts_with(&[0xff, 0xfe]) || self.buffer.starts_with(&[0xfe, 0xff])) {
            return Some(Err(self.fatal("the file is UTF-16; save it as UTF-8")));
        }
        let mut bytes = self.buffer.as_slice();
        if self.line == 1 {
            bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        }
        let text = match std::str::from_utf8(bytes) {
            Ok(text) if text.trim().is_empty() => return None,
            Ok(text) => text,
            Err(error) => {
                let before = decode::excerpt(&String::from_utf8_lossy(bytes));
                let at = error.valid_up_to() + 1;
                return Some(Err(self.fault(format!("byte {at} of `{before}` is not UTF-8; save the file as UTF-8"))));
            }
        };
        if self.line == 1 && matches!(text.trim(), "{" | "[") {
            // Each line of such a file would be a fault of its own; one that names the cause is worth more.
            return Some(Err(self.fatal("the file spreads its JSON over several lines; bring it to one item a line, with `jq -c .` (`jq -c '.[]'` for an array, `jq -c '.Items[]'` for the output of `aws dynamodb scan`)")));
        }
        Some(decode::parse_item(text).map_err(|message| self.fault(message)))
    }

    fn read_failed(&mut self, error: &io::Error) -> FileFault {
        let message = match (self.gzip, error.kind()) {
            (true, io::ErrorKind::UnexpectedEof) => {
                "the gzip data ends in the middle; the file is cut off, fetch it again".to_owned()
            }
            (true, _) => format!("the gzip data is damaged ({error}); fetch the file again"),
            (false, _) => format!("cannot read on: {error}"),
        };
        self.fatal(message)
    }
}

impl Iterator for ItemReader {
    type Item = Result<Item, FileFault>;

    fn next(&mut self) -> Option<Result<Item, FileFault>> {
        while !self.ended {
            self.line += 1;
            match read_line(&mut self.input, &mut self.buffer) {
                Ok(Line::End) => self.ended = true,
                Ok(Line::Whole) => {
                    if let Some(result) = self.decode() {
                        return Some(result);
                    }
                }
                Ok(Line::TooLong) => {
                    let start = String::from_utf8_lossy(&self.buffer[..self.buffer.len().min(400)]).into_owned();
                    let shown = decode::excerpt(&start);
                    return Some(Err(self.fault(format!(
                        "`{shown}` goes on for more than {LINE_SIZE_MAX} bytes; no item is that large, write one item a line"
                    ))));
                }
                Err(error) => return Some(Err(self.read_failed(&error))),
            }
        }
        None
    }
}

enum Line {
    Whole,
    /// The buffer holds the beginning; the rest was skipped.
    TooLong,
    End,
}

/// Reads up to and without the next line feed, never keeping more than [`LINE_SIZE_MAX`] bytes.
fn read_line(input: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<Line> {
    buffer.clear();
    let mut line = Line::End;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(line);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        let room = LINE_SIZE_MAX - buffer.len();
        buffer.extend_from_slice(&part[..part.len().min(room)]);
        line = if part.len() > room || matches!(line, Line::TooLong) { Line::TooLong } else { Line::Whole };
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn read(bytes: impl Into<Vec<u8>>) -> Vec<Result<Item, FileFault>> {
        ItemReader::new("test", Cursor::new(bytes.into())).unwrap().collect()
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn keys(results: &[Result<Item, FileFault>]) -> Vec<&str> {
        results.iter().filter_map(|result| result.as_ref().ok()?.text("PK")).collect()
    }

    /// Gives one byte a call, as a slow pipe may.
    struct Dripping(Cursor<Vec<u8>>);

    impl Read for Dripping {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    #[test]
    fn a_bad_line_is_a_fault_and_reading_goes_on() {
        let results = read("\u{feff}{\"PK\":\"a\"}\r\n\n  \n{\"PK\":\nx\n{\"Item\":{\"PK\":{\"S\":\"b\"}}}");
        assert_eq!(keys(&results), ["a", "b"]);
        let faults: Vec<&FileFault> = results.iter().filter_map(|result| result.as_ref().err()).collect();
        assert_eq!(faults.iter().map(|fault| fault.line).collect::<Vec<_>>(), [4, 5]);
        assert!(faults.iter().all(|fault| !fault.fatal));
        assert!(faults[0].to_string().starts_with("line 4: column 6 of `{\"PK\":`"), "{}", faults[0]);
    }

    #[test]
    fn empty_input_has_no_items_and_no_faults() {
        for bytes in [&b""[..], b"\n", b"\xef\xbb\xbf", b" \n\n"] {
            assert_eq!(read(bytes), []);
        }
        assert_eq!(read(gzip("")), []);
    }

    #[test]
    fn gzip_is_known_by_its_bytes_and_members_are_joined() {
        let mut bytes = gzip("{\"PK\":\"a\"}\n{\"PK\":");
        bytes.extend(gzip("\"b\"}\n"));
        assert_eq!(keys(&read(bytes.clone())), ["a", "b"]);
        let dripped = ItemReader::new("slow", Dripping(Cursor::new(bytes))).unwrap();
        assert_eq!(keys(&dripped.collect::<Vec<_>>()), ["a", "b"]);
    }

    #[test]
    fn a_cut_off_gzip_is_fatal_wherever_it_is_cut() {
        let text: String = (0..200).map(|n| format!("{{\"PK\":\"{n}\",\"digest\":{}}}\n", n * 7919)).collect();
        let mut bytes = gzip(&text);
        let first = bytes.len();
        bytes.extend(gzip("{\"PK\":\"last\"}\n"));
        for cut in (2..bytes.len()).filter(|cut| *cut != first) {
            let results = read(&bytes[..cut]);
            let Some(Err(fault)) = results.last() else { panic!("cut at {cut} went unseen") };
            assert!(fault.fatal && fault.message.contains("cut off"), "cut at {cut}: {fault}");
        }
        let mut damaged = bytes.clone();
        damaged[first / 2] ^= 0xff;
        assert!(matches!(read(damaged).last(), Some(Err(fault)) if fault.fatal));
    }

    #[test]
    fn a_line_without_end_costs_no_memory_and_the_next_is_read() {
        let long = io::repeat(b'x').take(3 * LINE_SIZE_MAX as u64).chain(&b"\n{\"PK\":\"a\"}"[..]);
        let mut reader = ItemReader::new("long", long).unwrap();
        let fault = reader.next().unwrap().unwrap_err();
        assert!(fault.message.contains("4194304 bytes"), "{fault}");
        assert!(reader.buffer.capacity() <= 2 * LINE_SIZE_MAX);
        assert_eq!(reader.next().unwrap().unwrap().text("PK"), Some("a"));
        assert_eq!(reader.next(), None);
    }

    #[test]
    fn a_line_of_just_the_longest_length_is_read() {
        let line = |length: usize| format!("{{\"PK\":\"{}\"}}\n", "x".repeat(length - 9));
        assert!(matches!(read(line(LINE_SIZE_MAX)).as_slice(), [Ok(_)]));
        assert!(matches!(read(line(LINE_SIZE_MAX + 1)).as_slice(), [Err(_)]));
    }

    #[test]
    fn other_encodings_are_told_from_bad_lines() {
        let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain("{}\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert!(matches!(read(utf16).as_slice(), [Err(fault)] if fault.fatal && fault.message.contains("UTF-16")));
        let latin1 = read(&b"{\"PK\":\"caf\xe9\"}\n{\"PK\":\"b\"}\n"[..]);
        assert!(matches!(&latin1[0], Err(fault) if fault.message.contains("byte 11")));
        assert_eq!(keys(&latin1), ["b"]);
    }

    #[test]
    fn a_pretty_printed_file_is_one_fault_that_says_so() {
        for text in ["{\n  \"PK\": \"a\"\n}\n", "[\n{\"PK\": \"a\"}\n]\n"] {
            let results = read(text);
            assert!(matches!(results.as_slice(), [Err(fault)] if fault.fatal && fault.message.contains("jq -c")));
        }
    }

    #[test]
    fn a_missing_file_and_a_folder_are_errors_with_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none.jsonl");
        assert!(ItemReader::open(&missing).err().unwrap().to_string().contains("none.jsonl"));
        assert!(ItemReader::open(folder.path()).is_err());
    }
}
