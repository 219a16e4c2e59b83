//! Places in a text file and the faults found there.

use std::fmt;
use std::ops::Range;

use super::derived::Severity;

/// A place in a file, both counted from 1; the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    /// The position of byte `offset` in `text`, whose lines begin at `lines`.
    pub fn of(text: &str, lines: &[usize], offset: usize) -> Position {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = lines.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).and_then(|before| lines.get(before)).copied().unwrap_or_default();
        Position { line: line.max(1), column: text[start..offset].chars().count() + 1 }
    }
}

/// The bytes at which the lines of a text begin: found once, because a file may have a fault a line.
pub fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A fault of a model file or report definition: what is wrong, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Stable code of family C, for example `C101`.
    pub code: &'static str,
    pub severity: Severity,
    pub position: Position,
    /// The bytes of the file that the fault is about, for a caret under them.
    pub span: Range<usize>,
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}[{}]: {}; {}", self.position, self.severity.name(), self.code, self.message, self.remedy)
    }
}
