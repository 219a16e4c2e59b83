//! Rules across items (family X5): is the item that another names there, is it of the right entity, are copies what their
//! master says?
//!
//! The problem: a table of any size is read once, in any order, and memory is small; the item that is named may come long before or
//! after the one that names it. The answer is a join by sorting: each item gives a few small records ([`Lens::look`]), "I am this
//! key" and "I name that key", which are sorted by the key that they speak of, through sorted runs on disk once memory is full.
//! Read in that order, an item comes just before all that name it, so that one key at a time is enough to know, however often
//! it is named.
//!
//! The contract:
//! - memory stays within about the bound that [`Cross::new`] is given, whatever the table; where it is enough, nothing is written;
//! - the findings and their order depend on the set of items alone: by the key that is named, then by the key that names it;
//! - each item is seen once; of Tablekeeper's own items none is;
//! - what is on disk (keys, copied values) is in files of a [`Spill`] and goes with them, also when the run is broken off;
//! - a fault of the disk is told by [`Cross::finish`], which then has no answer.
//!
//! Beside an audit an [`Onlooker`] does all this. Threads: a [`Lens`] is shared and does the work of an item anywhere; [`Cross::add`] takes what it saw and is quick, so let one
//! thread have the [`Cross`], or lock it for the call. The order in which items are added does not matter.

mod judge;
mod lens;
mod onlooker;
mod record;
mod sort;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::{self, Cursor};

pub use lens::{Lens, Seen};
pub use onlooker::Onlooker;

use crate::engine::ports::Spill;
use crate::model::derived::Finding;
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::Item;
use judge::Judge;
use sort::Sorter;

/// How much of the table the items were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// All of it: an item that was not seen is not there.
    Whole,
    /// A file that nobody says is the whole table: an item that was not seen is not there if one of its entity was. A file of one kind
    /// of items says nothing of the others.
    OfSeenEntities,
    /// Part of it: nothing is known of an item that was not seen.
    Partial,
}

/// How one rule did over the items of one entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    pub rule: &'static str,
    pub entity: String,
    /// References (X501, X503) or copies (X502) that were judged; failed ones among them.
    pub checked: u64,
    pub failed: u64,
    /// What could not be judged, because the other item was out of sight, or what is named could not be told.
    pub undecidable: u64,
}

/// What is kept on disk could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error(
    "references are compared through temporary files, and these fail: {0}; free some space, or set TMPDIR to another folder"
)]
pub struct SpillError(io::Error);

/// Everything that the items seen so far say of each other.
pub struct Cross<'m, S: Spill> {
    lens: Lens<'m>,
    sorter: Sorter<S>,
    entities: BTreeSet<usize>,
    /// The first fault of the disk; from then on nothing is kept.
    fault: Option<io::Error>,
}

impl<'m, S: Spill> Cross<'m, S> {
    /// `memory_max` is in bytes; under about 100 kB, some more is used.
    pub fn new(model: &'m Model, spill: S, memory_max: usize) -> Cross<'m, S> {
        let sorter = Sorter::new(spill, memory_max);
        Cross { lens: Lens::new(model), sorter, entities: BTreeSet::new(), fault: None }
    }

    /// Takes one item. `entity` is what [`crate::derive::derive()`] recognised it as.
    pub fn see(&mut self, key: &TableKey, entity: Option<&str>, item: &Item) {
        let seen = self.lens.look(key, entity, item);
        self.add(seen);
    }

    /// Takes what a [`Lens`] of the same model saw of one item.
    pub fn add(&mut self, seen: Seen) {
        self.entities.extend(seen.entity);
        if self.fault.is_none() {
            self.fault = seen.records.into_iter().try_for_each(|record| self.sorter.push(record)).err();
        }
    }

    /// Judges all that was seen. `each` gets the findings, by the key that is named, then by the key that names it; the tallies are by
    /// rule and entity, and only of entities that refer to something.
    ///
    /// # Errors
    /// If the disk failed, now or before; what `each` got until then is not all.
    pub fn finish(self, sight: Sight, each: impl FnMut(Finding)) -> Result<Vec<Tally>, SpillError> {
        if let Some(fault) = self.fault {
            return Err(SpillError(fault));
        }
        let mut judge = Judge::new(self.lens, sight, self.entities, each);
        let mut sorted = self.sorter.into_sorted().map_err(SpillError)?;
        while let Some(record) = sorted.next().map_err(SpillError)? {
            judge.take(record);
        }
        Ok(judge.tallies())
    }
}

/// Files in memory: for tests, and where there is no disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct InMemory;

impl Spill for InMemory {
    type File = Cursor<Vec<u8>>;

    fn create(&self) -> io::Result<Self::File> {
        Ok(Cursor::default())
    }
}
