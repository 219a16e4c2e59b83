//! The auditor of a story: recomputes the invariants after every commit, from the history of writes alone.
//!
//! It keeps books of its own (unbounded decimals, no deltas, no plans, no transactions) and is told each write once. After each
//! commit it holds:
//! - I1: for each aggregate, what was added up is the sum over all ledger rows;
//! - I2: the rows that were put and not deleted are those of all ledger rows;
//! - I3: a ledger row stays, its number never falls, its revision counts its commits, and what it says was applied is what some
//!   state of its item derives, not older than the record that its number names;
//! - I5: where a reader says that it is done with a shard's records up to one, the ledger is at each of them or beyond. A shard is
//!   said to be finished only when it is closed;
//! - origins: a finding that a change brought names a record whose change brought it (without old images one after
//!   which it is there), and what is counted as
//!   introduced or resolved is no less than what ledger rows show, and no more than what changes brought.
//!
//! I4 is for the end: see [`Auditor::settled`].
//!
//! Where somebody edits an aggregate by hand, the books note by how much each measure went astray. So much, no more and no less, it is
//! off at every commit from there on, until a repair writes the measure; then it must be the ledger's sum again. At the end none is
//! astray.

mod books;
mod origins;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::books::{Books, Story};
use super::models::Models;
use crate::adapters::sim::store::Happening;
use crate::adapters::sim::stream::{Routed, SimStream};
use crate::engine::checkpoint::{Checkpoint, ShardKey};
use crate::model::key::TableKey;
use crate::model::value::Item;
use crate::plan::ledger::LedgerRow;
use crate::plan::write::{Op, TableRef, Write};

/// What the auditor knows.
pub(super) struct Auditor {
    models: Models,
    stream: SimStream,
    /// Records say what the item was before, so it is known which of them brought what.
    old_images: bool,
    /// Source items by key, with all states that they were ever in.
    stories: BTreeMap<TableKey, Story>,
    ledger: BTreeMap<TableKey, LedgerRow>,
    /// Source keys by the digest that names their ledger rows.
    sources: BTreeMap<TableKey, TableKey>,
    books: Books,
    /// Item and state of each record of the application's writes, by the record's position in the whole stream.
    changes: BTreeMap<usize, (TableKey, usize)>,
    shards: BTreeMap<String, Vec<Record>>,
    /// So many records of a shard have been vouched for.
    vouched: BTreeMap<String, usize>,
    routed: usize,
}

struct Record {
    number: u128,
    /// `None`: of a derived item.
    change: Option<(TableKey, usize)>,
}

impl Auditor {
    pub fn new(models: Models, stream: SimStream, old_images: bool) -> Auditor {
        Auditor {
            models,
            stream,
            old_images,
            stories: BTreeMap::new(),
            ledger: BTreeMap::new(),
            sources: BTreeMap::new(),
            books: Books::default(),
            changes: BTreeMap::new(),
            shards: BTreeMap::new(),
            vouched: BTreeMap::new(),
            routed: 0,
        }
    }

    /// Takes in what has happened since the last call; the violations.
    pub fn look(&mut self, happenings: Vec<Happening>, routed: Vec<Routed>) -> Vec<String> {
        let mut deeds = Vec::new();
        for happening in happenings {
            match happening {
                Happening::Application { key, item, record } => {
                    let story = self.stories.entry(key.clone()).or_default();
                    self.changes.insert(record, (key, story.push(item)));
                }
                deed @ (Happening::Commit(_) | Happening::Hand { .. }) => deeds.push(deed),
            }
        }
        for Routed { shard, number, .. } in routed {
            let change = self.changes.remove(&self.routed);
            if let Some((key, version)) = &change
                && let Some(story) = self.stories.get_mut(key)
            {
                story.number(number, *version);
            }
            self.shards.entry(shard).or_default().push(Record { number, change });
            self.routed += 1;
        }
        let mut faults = Vec::new();
        for deed in deeds {
            match deed {
                Happening::Commit(writes) => self.commit(&writes, &mut faults),
                Happening::Hand { key, before, after } => self.books.edit(&key, before.as_ref(), after.as_ref()),
                Happening::Application { .. } => {}
            }
        }
        faults
    }

    fn commit(&mut self, writes: &[Write], faults: &mut Vec<String>) {
        for write in writes {
            match write.table {
                TableRef::Source => self.books.write(write),
                TableRef::State => self.state_write(write, faults),
            }
        }
        self.books.check(faults);
    }

    fn state_write(&mut self, write: &Write, faults: &mut Vec<String>) {
        let partition = write.key.partition.as_text().unwrap_or_default();
        let is_ledger = partition.starts_with(crate::plan::state::LEDGER_PREFIX);
        match &write.op {
            Op::Put(item) if is_ledger => match LedgerRow::from_item(item) {
                Ok(row) => self.ledger_write(row, faults),
                Err(fault) => faults.push(format!("I3: {fault}")),
            },
            _ if is_ledger => {
                if let Some(key) = self.sources.get(&write.key) {
                    faults.push(format!("I3: the ledger row of `{key}` was taken away"));
                }
            }
            Op::Put(item) => {
                if let Some(arn) = partition.strip_prefix("STREAM#") {
                    self.checkpoint(arn, item, faults);
                }
            }
            _ => {}
        }
    }

    fn ledger_write(&mut self, row: LedgerRow, faults: &mut Vec<String>) {
        let key = row.source.clone();
        let before = self.ledger.get(&key);
        let (revision, known) = before.map_or((0, None), |row| (row.revision, row.sequence.as_ref()));
        if row.revision != revision + 1 {
            faults.push(format!("I3: `{key}` goes from revision {revision} to {}", row.revision));
        }
        let (was, is) = (known.map(as_number), row.sequence.as_ref().map(as_number));
        if is < was {
            faults.push(format!("I3: `{key}` goes back from number {was:?} to {is:?}"));
        }
        let story = self.stories.entry(key.clone()).or_default();
        origins::check(&row, story, self.old_images, &self.models, faults);
        if !is_given_up(&row) {
            let story = self.stories.entry(key.clone()).or_default();
            let named = is.and_then(|number| story.version_of(number)).unwrap_or(0);
            match story.matching(&key, &row, &self.models) {
                None => faults.push(format!("I3: `{key}` never derived what its ledger row says: {:?}", row.applied)),
                Some(version) if version < named => faults
                    .push(format!("I3: `{key}` is at its state {version}, and its number {is:?} names state {named}")),
                Some(_) => {}
            }
        }
        self.books.account(before, &row, faults);
        self.sources.insert(LedgerRow::key(&key), key.clone());
        self.ledger.insert(key, row);
    }

    fn checkpoint(&mut self, arn: &str, item: &Item, faults: &mut Vec<String>) {
        let arn: Arc<str> = arn.into();
        let Some(Checkpoint { key: ShardKey { shard, .. }, last, finished, .. }) = Checkpoint::from_item(&arn, item)
        else {
            return;
        };
        let records = self.shards.get(&*shard).map_or(&[][..], Vec::as_slice);
        let last = last.as_ref().map(as_number);
        let mut upto = last.map_or(0, |last| records.partition_point(|record| record.number <= last));
        if finished {
            upto = records.len();
            if !self.stream.is_closed(&shard) {
                faults.push(format!("I5: shard {shard} is said to be finished, and it is open"));
            }
        }
        self.vouch(&shard, upto, faults);
    }

    /// Somebody says that the shard's first `upto` records are done with.
    pub fn vouch(&mut self, shard: &str, upto: usize, faults: &mut Vec<String>) {
        let vouched = self.vouched.entry(shard.to_owned()).or_default();
        // What is trimmed was perhaps never read: that is a gap, and the end will show whether it was closed.
        let from = (*vouched).max(self.stream.trimmed(shard));
        *vouched = (*vouched).max(upto);
        let records = self.shards.get(shard).map_or(&[][..], Vec::as_slice);
        let mut last: BTreeMap<&TableKey, usize> = BTreeMap::new();
        for record in records.iter().take(upto).skip(from) {
            if let Some((key, version)) = &record.change {
                last.insert(key, *version);
            }
        }
        for (key, version) in last {
            let Some(story) = self.stories.get_mut(key) else { continue };
            let at = match self.ledger.get(key) {
                Some(row) if is_given_up(row) => continue,
                Some(row) => story.matching(key, row, &self.models),
                None => story.last_absent(),
            };
            if at.is_none_or(|at| at < version) {
                faults.push(format!(
                    "I5: the records of {shard} are done with up to the {upto}th, and `{key}` is at its state {at:?} of {version}"
                ));
            }
        }
    }

    /// I4: nothing is left to read, so each ledger row is what its item derives now under the model of that index, nothing is left
    /// of items that are gone, and the aggregates and listings are what the items come to by plain counting.
    pub fn settled(&mut self, model: usize) -> Vec<String> {
        let mut faults = self.books.astray();
        let mut given_up = false;
        if self.old_images {
            let mut brought = BTreeMap::new();
            self.stories.iter_mut().for_each(|(key, story)| story.brought(key, &self.models, &mut brought));
            self.books.check_introduced(&brought, &mut faults);
        }
        for (key, story) in &mut self.stories {
            let row = self.ledger.get(key);
            given_up |= row.is_some_and(|row| is_given_up(row) || row.left_out.is_some());
            if let Some(fault) = story.settled(key, row, model, &self.models) {
                faults.push(format!("I4: {fault}"));
            }
        }
        if !given_up {
            let items = self.stories.iter().filter_map(|(key, story)| Some((key, story.now()?)));
            self.books.compare(items, model, &mut faults);
        }
        faults
    }

    /// Items that are given up, wholly or in part.
    pub fn given_up(&self) -> usize {
        self.ledger.values().filter(|row| is_given_up(row) || row.left_out.is_some()).count()
    }
}

/// The database refused what it derives.
fn is_given_up(row: &LedgerRow) -> bool {
    row.quarantined.is_some()
}

fn as_number(number: &crate::model::change::SequenceNumber) -> u128 {
    number.to_string().parse().unwrap_or(u128::MAX)
}
