//! Lines of anything that reads, unpacked, none longer than is sensible.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use super::decode;
use super::read::{FileError, FileFault};

/// Longest line that is read, in bytes: ten times the largest item that DynamoDB stores. A longer one is a fault.
pub const LINE_SIZE_MAX: usize = 4 * 1024 * 1024;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Bytes that are unpacked in one go.
const BUFFER_SIZE: usize = 64 * 1024;

/// Anything that can be read, from any thread.
pub type Input = Box<dyn Read + Send>;

/// What was packed and what was not, read alike.
pub(super) struct Unpacked {
    pub input: Box<dyn BufRead + Send>,
    /// It was gzip, which is known by its first bytes.
    pub gzip: bool,
}

/// Unpacks gzip; several members are read as one. The first bytes are read here; `name` is for messages.
pub(super) fn unpack(name: &str, mut input: impl Read + Send + 'static) -> Result<Unpacked, FileError> {
    let mut head = Vec::with_capacity(GZIP_MAGIC.len());
    if let Err(source) = (&mut input).take(GZIP_MAGIC.len() as u64).read_to_end(&mut head) {
        return Err(FileError { name: name.to_owned(), source });
    }
    let gzip = head == GZIP_MAGIC;
    let whole = BufReader::with_capacity(BUFFER_SIZE, Cursor::new(head).chain(input));
    let input: Box<dyn BufRead + Send> = match gzip {
        true => Box::new(BufReader::with_capacity(BUFFER_SIZE, MultiGzDecoder::new(whole))),
        false => Box::new(whole),
    };
    Ok(Unpacked { input, gzip })
}

/// The rest of a text after its byte order mark, or all of it where it has none.
pub(super) fn without_mark(mut input: impl Read + Send + 'static) -> io::Result<Input> {
    let mut head = Vec::with_capacity(BYTE_ORDER_MARK.len());
    (&mut input).take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut head)?;
    if head == BYTE_ORDER_MARK {
        head.clear();
    }
    Ok(Box::new(Cursor::new(head).chain(input)))
}

/// Why reading stopped, and what to do.
pub(super) fn read_failed(gzip: bool, error: &io::Error) -> String {
    match (gzip, error.kind()) {
        (true, io::ErrorKind::UnexpectedEof) => {
            "the gzip data ends in the middle; the file is cut off, fetch it again".to_owned()
        }
        (true, _) => format!("the gzip data is damaged ({error}); fetch the file again"),
        (false, _) => format!("cannot read on: {error}"),
    }
}

/// Yields the lines of a file that are not blank, in their order, without a byte order mark.
pub(super) struct Lines {
    unpacked: Unpacked,
    /// Lines read so far.
    line: usize,
    ended: bool,
}

impl Lines {
    pub fn new(name: &str, input: impl Read + Send + 'static) -> Result<Lines, FileError> {
        Ok(Lines { unpacked: unpack(name, input)?, line: 0, ended: false })
    }

    /// The number of the line last read, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Puts the next line in the buffer; a fault is a line that cannot be one item's, or the end of what can be read.
    pub fn next(&mut self, buffer: &mut Vec<u8>) -> Option<Result<(), FileFault>> {
        while !self.ended {
            self.line += 1;
            match read_line(&mut self.unpacked.input, buffer) {
                Ok(Line::End) => self.ended = true,
                Ok(Line::Whole) => {
                    if let Err(message) = self.begin(buffer) {
                        return Some(Err(self.fatal(message)));
                    }
                    if !buffer.trim_ascii().is_empty() {
                        return Some(Ok(()));
                    }
                }
                Ok(Line::TooLong) => return Some(Err(self.too_long(buffer))),
                Err(error) => {
                    let message = read_failed(self.unpacked.gzip, &error);
                    return Some(Err(self.fatal(message)));
                }
            }
        }
        None
    }

    /// What the first line tells of the whole file.
    fn begin(&self, buffer: &mut Vec<u8>) -> Result<(), &'static str> {
        if self.line > 1 {
            return Ok(());
        }
        if buffer.starts_with(&[0xff, 0xfe]) || buffer.starts_with(&[0xfe, 0xff]) {
            return Err("the file is UTF-16; save it as UTF-8");
        }
        if buffer.starts_with(BYTE_ORDER_MARK) {
            buffer.drain(..BYTE_ORDER_MARK.len());
        }
        if matches!(buffer.trim_ascii(), b"{" | b"[") {
            // Each line of such a file would be a fault of its own; one that names the cause is worth more.
            return Err(
                "the file spreads its JSON over several lines; bring it to one item a line, with `jq -c .` (`jq -c '.[]'` for an array, `jq -c '.Items[]'` for the output of `aws dynamodb scan`)",
            );
        }
        Ok(())
    }

    fn too_long(&self, buffer: &[u8]) -> FileFault {
        let start = String::from_utf8_lossy(&buffer[..buffer.len().min(400)]).into_owned();
        let shown = decode::excerpt(&start);
        let message = format!(
            "`{shown}` goes on for more than {LINE_SIZE_MAX} bytes; no item is that large, write one item a line"
        );
        FileFault { line: self.line, message, fatal: false }
    }

    fn fatal(&mut self, message: impl Into<String>) -> FileFault {
        self.ended = true;
        FileFault { line: self.line, message: message.into(), fatal: true }
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
