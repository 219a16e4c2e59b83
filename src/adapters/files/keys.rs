//! Which lines of a file are superseded by later ones of the same key, found with bounded memory.
//!
//! A table keeps the last of several items of one key, and so must whoever reads a file as a table. Keys are remembered as 16 bytes
//! of a hash with their line; once there are many they go to temporary files, parted by the hash, so that lines of one
//! key meet in one part. Parts are looked at one after the other.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};

use crate::engine::audit::Capped;
use crate::model::key::TableKey;
use crate::model::value::Text;

/// Keys that are kept in memory before they are written away: 24 MB.
pub const KEYS_IN_MEMORY: usize = 1 << 20;

/// Temporary files; each holds a part of the keys.
const PARTS: usize = 64;
/// Bytes of a key's hash and its line.
const RECORD_SIZE: usize = 24;

/// A hash of a key, and its line.
type Seen = ([u8; 16], u64);

/// All keys seen so far.
pub struct Keys {
    most: usize,
    memory: Vec<Seen>,
    parts: Vec<BufWriter<File>>,
}

/// What is passed over, for a later line of the same key.
#[derive(Debug)]
pub struct PassedOver {
    /// One bit a line.
    lines: Vec<u64>,
    /// Line and by which line, as far as they are kept.
    pub superseded: Capped<usize, usize>,
}

impl PassedOver {
    pub fn contains(&self, line: usize) -> bool {
        self.lines.get(line / 64).is_some_and(|bits| bits & (1 << (line % 64)) != 0)
    }

    fn insert(&mut self, line: usize, by: usize) {
        if self.lines.len() <= line / 64 {
            self.lines.resize(line / 64 + 1, 0);
        }
        self.lines[line / 64] |= 1 << (line % 64);
        self.superseded.add(line, by);
    }
}

/// A hash of the key: half a SHA-256, so that no two keys of a table are taken for one.
pub fn hash(key: &TableKey) -> [u8; 16] {
    let digest: Text = key.digest();
    let digit = |at: usize| u8::from_str_radix(&digest[2 * at..2 * at + 2], 16).unwrap_or_default();
    std::array::from_fn(digit)
}

impl Keys {
    /// Keeps so many keys in memory.
    pub fn new(most: usize) -> Keys {
        Keys { most: most.max(1), memory: Vec::new(), parts: Vec::new() }
    }

    /// Adds keys and their lines, in any order.
    pub fn add(&mut self, seen: &mut Vec<([u8; 16], usize)>) -> io::Result<()> {
        self.memory.extend(seen.drain(..).map(|(hash, line)| (hash, line as u64)));
        if self.memory.len() >= self.most { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> io::Result<()> {
        while self.parts.len() < PARTS {
            self.parts.push(BufWriter::new(tempfile::tempfile()?));
        }
        for (hash, line) in self.memory.drain(..) {
            let part = &mut self.parts[usize::from(hash[0]) % PARTS];
            part.write_all(&hash)?;
            part.write_all(&line.to_le_bytes())?;
        }
        Ok(())
    }

    /// The lines that are superseded; the first `shown` of them are told one by one.
    pub fn finish(mut self, shown: usize) -> io::Result<PassedOver> {
        let mut passed_over = PassedOver { lines: Vec::new(), superseded: Capped::new(shown) };
        if self.parts.is_empty() {
            superseded(&mut self.memory, &mut passed_over);
            return Ok(passed_over);
        }
        self.spill()?;
        for part in std::mem::take(&mut self.parts) {
            let mut file = part.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.rewind()?;
            superseded(&mut read(file)?, &mut passed_over);
        }
        Ok(passed_over)
    }
}

fn read(file: File) -> io::Result<Vec<Seen>> {
    let records = file.metadata()?.len() / RECORD_SIZE as u64;
    let mut input = BufReader::new(file);
    let mut seen = Vec::with_capacity(usize::try_from(records).unwrap_or_default());
    for _ in 0..records {
        let (mut hash, mut line) = ([0; 16], [0; 8]);
        input.read_exact(&mut hash)?;
        input.read_exact(&mut line)?;
        seen.push((hash, u64::from_le_bytes(line)));
    }
    Ok(seen)
}

/// Of neighbours of one key, the earlier is superseded by the later.
fn superseded(seen: &mut [Seen], passed_over: &mut PassedOver) {
    seen.sort_unstable();
    for pair in seen.windows(2) {
        if let [(one, line), (other, by)] = pair
            && one == other
        {
            passed_over.insert(*line as usize, *by as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_over(most: usize, shown: usize, lines: impl Iterator<Item = (u32, usize)>) -> PassedOver {
        let mut keys = Keys::new(most);
        for (key, line) in lines {
            let key = hash(&TableKey::text(key.to_string(), "x"));
            keys.add(&mut vec![(key, line)]).unwrap();
        }
        keys.finish(shown).unwrap()
    }

    #[test]
    fn the_last_line_of_a_key_stays_in_memory_and_on_disk() {
        // Keys 0 to 699 over 1,000 lines, from the last to the first.
        let lines = || (1..=1_000_usize).rev().map(|line| ((line as u32 - 1) % 700, line));
        for most in [10_000, 100, 1] {
            let found = passed_over(most, 2, lines());
            assert_eq!(found.superseded.all(), 300, "{most}");
            let shown: Vec<(usize, usize)> = found.superseded.iter().map(|(line, by)| (*line, *by)).collect();
            assert_eq!(shown, [(1, 701), (2, 702)]);
            let passed: Vec<usize> = (0..2_000).filter(|line| found.contains(*line)).collect();
            assert_eq!(passed, (1..=300).collect::<Vec<usize>>());
        }
    }

    #[test]
    fn a_key_that_comes_three_times_is_superseded_twice() {
        let found = passed_over(2, 10, [(5, 9), (5, 4), (6, 1), (5, 7)].into_iter());
        let shown: Vec<(usize, usize)> = found.superseded.iter().map(|(line, by)| (*line, *by)).collect();
        assert_eq!(shown, [(4, 7), (7, 9)]);
    }
}
