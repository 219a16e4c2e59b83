//! Files as people have them: cut off, damaged, in other encodings, larger than memory.

use std::io::{Cursor, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::LINE_SIZE_MAX;
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
