//! Sorting more records than memory holds: sorted runs in files, merged.
//!
//! Memory is half for the records' own sizes and half for what they hold; where either is full, they are sorted and written as
//! a run, one JSON value a line. [`FAN_IN`] runs of one level become one run of the next, so that there are few open files
//! however many records there are, and each record is written once a level.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io::{self, BufRead as _, BufReader, BufWriter, SeekFrom, Write as _};

use super::record::Record;
use crate::engine::ports::Spill;

/// How many runs become one. More: fewer passes over the disk; fewer: less memory for reading them all.
const FAN_IN: usize = 16;

/// Bytes of the buffer through which a run is read or written, least and most.
const BUFFER_SIZES: (usize, usize) = (4 * 1024, 64 * 1024);

pub(super) struct Sorter<S: Spill> {
    spill: S,
    /// Most bytes that the records held hold beside their own sizes.
    heap_max: usize,
    heap: usize,
    /// Its capacity is fixed: growing would take twice the memory for a moment.
    records: Vec<Record>,
    /// By level.
    runs: Vec<Vec<S::File>>,
    buffer_size: usize,
}

impl<S: Spill> Sorter<S> {
    pub fn new(spill: S, memory_max: usize) -> Sorter<S> {
        let half = memory_max / 2;
        let records = Vec::with_capacity((half / size_of::<Record>()).max(1));
        let buffer_size = (memory_max / (4 * FAN_IN)).clamp(BUFFER_SIZES.0, BUFFER_SIZES.1);
        Sorter { spill, heap_max: half, heap: 0, records, runs: Vec::new(), buffer_size }
    }

    pub fn push(&mut self, record: Record) -> io::Result<()> {
        if self.records.len() == self.records.capacity() || self.heap >= self.heap_max && !self.records.is_empty() {
            self.spill()?;
        }
        self.heap += record.heap();
        self.records.push(record);
        Ok(())
    }

    /// All records in their order.
    pub fn into_sorted(mut self) -> io::Result<Sorted<S::File>> {
        if self.runs.is_empty() {
            self.records.sort_unstable();
            return Ok(Sorted::Held(self.records.into_iter()));
        }
        self.spill()?;
        // The memory is needed for reading.
        drop(self.records);
        Merge::new(self.runs.into_iter().flatten(), self.buffer_size).map(Sorted::Merged)
    }

    /// Bytes that the records now held take.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.records.capacity() * size_of::<Record>() + self.heap
    }

    #[cfg(test)]
    pub fn open_files(&self) -> usize {
        self.runs.iter().map(Vec::len).sum()
    }

    /// What is held becomes a run.
    fn spill(&mut self) -> io::Result<()> {
        self.records.sort_unstable();
        let mut writer = RunWriter::new(self.spill.create()?, self.buffer_size);
        self.records.drain(..).try_for_each(|record| writer.write(&record))?;
        self.heap = 0;
        self.keep(0, writer.finish()?)
    }

    fn keep(&mut self, level: usize, run: S::File) -> io::Result<()> {
        if self.runs.len() == level {
            self.runs.push(Vec::new());
        }
        self.runs[level].push(run);
        if self.runs[level].len() < FAN_IN {
            return Ok(());
        }
        let mut merge = Merge::new(self.runs[level].drain(..), self.buffer_size)?;
        let mut writer = RunWriter::new(self.spill.create()?, self.buffer_size);
        while let Some(record) = merge.next()? {
            writer.write(&record)?;
        }
        self.keep(level + 1, writer.finish()?)
    }
}

/// Records in their order.
pub(super) enum Sorted<F> {
    Held(std::vec::IntoIter<Record>),
    Merged(Merge<F>),
}

impl<F: io::Read + io::Seek> Sorted<F> {
    pub fn next(&mut self) -> io::Result<Option<Record>> {
        match self {
            Sorted::Held(records) => Ok(records.next()),
            Sorted::Merged(merge) => merge.next(),
        }
    }
}

/// Several sorted runs as one.
pub(super) struct Merge<F> {
    runs: Vec<RunReader<F>>,
    /// The first record of each run that has one, and the run's number.
    heads: BinaryHeap<Reverse<(Record, usize)>>,
}

impl<F: io::Read + io::Seek> Merge<F> {
    fn new(files: impl Iterator<Item = F>, buffer_size: usize) -> io::Result<Merge<F>> {
        let mut merge = Merge { runs: Vec::new(), heads: BinaryHeap::new() };
        for file in files {
            let mut run = RunReader::new(file, buffer_size)?;
            merge.heads.extend(run.next()?.map(|record| Reverse((record, merge.runs.len()))));
            merge.runs.push(run);
        }
        Ok(merge)
    }

    fn next(&mut self) -> io::Result<Option<Record>> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        let Reverse((_, number)) = *head;
        match self.runs[number].next()? {
            Some(following) => {
                let first = std::mem::replace(&mut *head, Reverse((following, number)));
                Ok(Some(first.0.0))
            }
            None => Ok(Some(PeekMut::pop(head).0.0)),
        }
    }
}

struct RunWriter<F: io::Write>(BufWriter<F>);

impl<F: io::Write + io::Seek> RunWriter<F> {
    fn new(file: F, buffer_size: usize) -> RunWriter<F> {
        RunWriter(BufWriter::with_capacity(buffer_size, file))
    }

    fn write(&mut self, record: &Record) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, record)?;
        self.0.write_all(b"\n")
    }

    fn finish(self) -> io::Result<F> {
        self.0.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

struct RunReader<F> {
    file: BufReader<F>,
    line: Vec<u8>,
}

impl<F: io::Read + io::Seek> RunReader<F> {
    fn new(mut file: F, buffer_size: usize) -> io::Result<RunReader<F>> {
        file.seek(SeekFrom::Start(0))?;
        Ok(RunReader { file: BufReader::with_capacity(buffer_size, file), line: Vec::new() })
    }

    fn next(&mut self) -> io::Result<Option<Record>> {
        self.line.clear();
        if self.file.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice(&self.line)?))
    }
}
