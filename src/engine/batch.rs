//! A batch of stream records, applied.
//!
//! The contract: when [`Engine::apply`] returns a report, every record of the batch is accounted for: it is applied, or
//! already applied, or superseded by a later record of its item in the batch, or changes nothing that is derived, or not
//! ours to look at, or in quarantine. When it returns an error, [`ApplyError::position`] names the first record that is not
//! durable; giving the batch again from there, or whole, or shuffled across items, is always right.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::commit::{CommitError, Settings, Works, count};
use super::malformed;
use super::ports::{Clock, Store};
use super::work::{Led, Was, Wish, Work};
use crate::derive::decode::{Decoded, decode};
use crate::derive::{derive, derive_poison};
use crate::model::change::{Change, ChangeKind, RawRecord, SequenceNumber};
use crate::model::derived::Derived;
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::Item;
use crate::plan::ledger::Applied;
use crate::plan::origin::{Marks, of_derived};
use crate::plan::write::{ACTIONS_MAX, Write};

/// Applies changes of one table to its derived data.
#[derive(Debug, Clone)]
pub struct Engine<S, C> {
    pub model: Arc<Model>,
    pub store: S,
    pub clock: C,
    pub settings: Settings,
}

/// Whether records may be skipped because their old and new images derive the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldImages {
    Trusted,
    /// Records may have been lost before these: only the ledger knows what is applied.
    NotTrusted,
    /// These come late, and others of their items may be lost or applied already under numbers that do not compare: the records only name
    /// items, and each of them is read.
    NorNewOnes,
}

/// What became of a batch. `records` is the sum of `ours`, `skipped`, `superseded`, `applied`, `already_applied`,
/// `reconciled`, `quarantined` and `malformed`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchReport {
    pub records: usize,
    /// Records of derived items.
    pub ours: usize,
    /// Records that change nothing that is derived.
    pub skipped: usize,
    /// Records that a later one of the same item in the batch made void.
    pub superseded: usize,
    /// Items whose record was applied.
    pub applied: usize,
    /// Items whose record, or something later, had been applied before.
    pub already_applied: usize,
    /// Items that were read and put right because the ledger said something else.
    pub reconciled: usize,
    /// Items given up with a finding.
    pub quarantined: usize,
    /// Records that name no item or have no sequence number.
    pub malformed: usize,
    pub transactions: usize,
    /// Single writes in them.
    pub actions: usize,
    /// Requests sent again after a pause.
    pub retries: usize,
    /// Writes that met another transaction on the same item.
    pub conflicts: usize,
    pub ledger_reads: usize,
    /// Source items read.
    pub item_reads: usize,
    /// Findings of the items that were written, by code.
    pub findings: BTreeMap<String, usize>,
    /// Findings that changes brought, by code; each counts once.
    pub introduced: BTreeMap<String, usize>,
    /// Findings that stand no more, by code.
    pub resolved: BTreeMap<String, usize>,
    /// What `quarantined` and `malformed` count, one by one.
    pub given_up: Vec<GivenUp>,
}

impl BatchReport {
    /// Adds what became of another batch.
    pub fn add(&mut self, other: BatchReport) {
        self.records += other.records;
        self.ours += other.ours;
        self.skipped += other.skipped;
        self.superseded += other.superseded;
        self.applied += other.applied;
        self.already_applied += other.already_applied;
        self.reconciled += other.reconciled;
        self.quarantined += other.quarantined;
        self.malformed += other.malformed;
        self.transactions += other.transactions;
        self.actions += other.actions;
        self.retries += other.retries;
        self.conflicts += other.conflicts;
        self.ledger_reads += other.ledger_reads;
        self.item_reads += other.item_reads;
        let sums = [
            (&mut self.findings, other.findings),
            (&mut self.introduced, other.introduced),
            (&mut self.resolved, other.resolved),
        ];
        for (sums, counts) in sums {
            counts.into_iter().for_each(|(code, count)| *sums.entry(code).or_default() += count);
        }
        self.given_up.extend(other.given_up);
    }
}

/// A record or item that was put into quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// Code of the finding that says why.
    pub code: String,
    /// `None`: the record names no item.
    pub key: Option<TableKey>,
    /// The sequence number of a record that names no item, as the record gives it.
    pub sequence: Option<String>,
    /// The event id of a record that names no item, where it has one.
    pub event_id: Option<String>,
    /// Why, without values of items: of an item the rule's name.
    pub reason: String,
}

/// A batch that is not durable from some record on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("records from position {position} on (sequence number {}) are not applied: {source}", shown(.sequence))]
pub struct ApplyError {
    /// Position in the batch of the first record that is not durable. Later ones may or may not be.
    pub position: usize,
    /// Its sequence number, as the record gives it.
    pub sequence: Option<String>,
    /// What was done until then.
    pub report: Box<BatchReport>,
    #[source]
    pub source: CommitError,
}

impl ApplyError {
    /// True where the same batch may succeed later.
    pub fn can_retry(&self) -> bool {
        self.source.can_retry()
    }
}

fn shown(sequence: &Option<String>) -> &str {
    sequence.as_deref().unwrap_or("unknown")
}

/// One item's records in a batch, in their order.
type History = Vec<Entry>;

struct Entry {
    position: usize,
    created: Option<DateTime<Utc>>,
    sequence: SequenceNumber,
    content: Content,
}

enum Content {
    Change {
        kind: ChangeKind,
        was: Was,
        /// What the item derives after the change, unless it was removed or the record does not say.
        derived: Option<Derived>,
    },
    Poison {
        code: &'static str,
        reason: String,
    },
}

/// True if the record's old and new images derive the same. An insert or a delete always changes something: the ledger.
fn changes_nothing(entry: &Entry) -> bool {
    match &entry.content {
        Content::Change {
            kind: ChangeKind::Modify,
            was: Was::Deriving { entity, applied },
            derived: Some(derived),
        } => *entity == derived.entity && *applied == Applied::of(derived),
        _ => false,
    }
}

/// The highest number of the records of one item.
fn highest(history: &History) -> Option<SequenceNumber> {
    history.iter().map(|entry| &entry.sequence).max().cloned()
}

/// The item is read, and no record is believed.
fn read_at(sequence: Option<SequenceNumber>) -> Option<(Wish, Vec<Led>)> {
    sequence.map(|sequence| (Wish::Read { sequence: Some(sequence) }, Vec::new()))
}

impl Entry {
    fn led(&self) -> Led {
        let (was, is) = match &self.content {
            Content::Change { was, derived: Some(derived), .. } => (was.clone(), Some(of_derived(derived))),
            Content::Change { kind: ChangeKind::Remove, was, .. } => (was.clone(), Some(Marks::new())),
            Content::Change { was, .. } => (was.clone(), None),
            Content::Poison { .. } => (Was::Unknown, None),
        };
        Led { sequence: self.sequence.clone(), at: self.created, was, is }
    }
}

/// A batch after decoding.
#[derive(Default)]
struct Sorted {
    histories: BTreeMap<TableKey, History>,
    /// Quarantine rows of malformed records, with the records' positions.
    malformed: Vec<(usize, Write)>,
}

impl<S: Store, C: Clock> Engine<S, C> {
    pub fn new(model: Arc<Model>, store: S, clock: C) -> Engine<S, C> {
        Engine { model, store, clock, settings: Settings::default() }
    }

    /// Applies a batch of records of one shard, in their order. Any number of records; about 1,000 are best.
    pub async fn apply(&self, records: &[RawRecord], trust: OldImages) -> Result<BatchReport, ApplyError> {
        let mut report = BatchReport { records: records.len(), ..BatchReport::default() };
        let sorted = self.sort(records, &mut report);
        let mut works = Works::new();
        for (key, history) in sorted.histories {
            if trust == OldImages::Trusted && history.iter().all(changes_nothing) {
                report.skipped += history.len();
                continue;
            }
            report.superseded += history.len().saturating_sub(1);
            let first = history.first().map_or(0, |entry| entry.position);
            let created = history.last().and_then(|entry| entry.created);
            let wish = match trust {
                OldImages::NorNewOnes => read_at(highest(&history)),
                OldImages::Trusted | OldImages::NotTrusted => self.wish(&key, history),
            };
            if let Some((wish, steps)) = wish {
                works.insert(key.clone(), Work::new(key, wish, first).led_by(steps, created));
            }
        }
        let result = self.commit(&mut works, &mut report).await;
        count(&works, &mut report);
        let kept = self.keep_malformed(&sorted.malformed, &mut report).await;
        let Err(source) = result.and(kept.clone()) else {
            return Ok(report);
        };
        let unfinished = works.values().filter(|work| work.finish.is_none()).map(|work| work.first);
        let unkept = sorted.malformed.iter().filter(|_| kept.is_err()).map(|(position, _)| *position);
        let position = unfinished.chain(unkept).min().unwrap_or(0);
        let sequence = records.get(position).and_then(|record| record.sequence.clone());
        Err(ApplyError { position, sequence, report: Box::new(report), source })
    }

    /// Makes the derived data of source items right, whatever was applied: for backfill, repair and changed models. Each
    /// item comes as it was scanned (`None`: it was not there); one that disagrees with its ledger row is read again,
    /// because what was scanned may be older than the row.
    ///
    /// Positions in the error are positions in `items`.
    pub async fn apply_items(&self, items: &[(TableKey, Option<Item>)]) -> Result<BatchReport, ApplyError> {
        let mut report = BatchReport { records: items.len(), ..BatchReport::default() };
        let mut works = Works::new();
        for (position, (key, item)) in items.iter().enumerate() {
            if item.as_ref().is_some_and(Item::is_ours) {
                report.ours += 1;
                continue;
            }
            let derived = item.as_ref().map(|item| derive(&self.model, key, item));
            let work = Work::new(key.clone(), Wish::Scanned { derived }, position);
            report.superseded += usize::from(works.insert(key.clone(), work).is_some());
        }
        let result = self.commit(&mut works, &mut report).await;
        count(&works, &mut report);
        result.map(|()| report.clone()).map_err(|source| {
            let unfinished = works.values().filter(|work| work.finish.is_none()).map(|work| work.first);
            let position = unfinished.min().unwrap_or(0);
            ApplyError { position, sequence: None, report: Box::new(report), source }
        })
    }

    /// Decodes all records and sorts them by item.
    fn sort(&self, records: &[RawRecord], report: &mut BatchReport) -> Sorted {
        let mut sorted = Sorted::default();
        for (position, raw) in records.iter().enumerate() {
            let (key, sequence, content) = match decode(&self.model, raw) {
                Decoded::Ours => {
                    report.ours += 1;
                    continue;
                }
                Decoded::Malformed { code, reason } => {
                    report.malformed += 1;
                    report.given_up.push(GivenUp {
                        code: code.to_owned(),
                        key: None,
                        sequence: raw.sequence.clone(),
                        event_id: raw.event_id.clone(),
                        reason: malformed::shown(&reason),
                    });
                    *report.findings.entry(code.to_owned()).or_default() += 1;
                    sorted.malformed.push((position, malformed::row(raw, code, &reason, self.clock.now())));
                    continue;
                }
                Decoded::Change(change) => {
                    let content = self.content(&change);
                    (change.key, change.sequence, content)
                }
                Decoded::Poison { key, sequence, code, reason } => (key, sequence, Content::Poison { code, reason }),
            };
            sorted.histories.entry(key).or_default().push(Entry {
                position,
                created: raw.created_at,
                sequence,
                content,
            });
        }
        sorted
    }

    fn content(&self, change: &Change<'_>) -> Content {
        let derived = |item: &Item| derive(&self.model, &change.key, item);
        let deriving = |derived: Derived| Was::Deriving { applied: Applied::of(&derived), entity: derived.entity };
        let was = match (change.old, change.kind) {
            (Some(old), _) => deriving(derived(old)),
            (None, ChangeKind::Insert) => Was::Absent,
            (None, _) => Was::Unknown,
        };
        Content::Change { kind: change.kind, was, derived: change.new.map(derived) }
    }

    /// What a history comes to: what its last record says, and the records that led there. `None` for an empty one.
    fn wish(&self, key: &TableKey, mut history: History) -> Option<(Wish, Vec<Led>)> {
        let steps: Vec<Led> = history.iter().map(Entry::led).collect();
        let last = history.pop()?;
        // Within a shard numbers grow with the order. Where they do not, neither is believed: the item is read.
        let highest = highest(&history);
        if highest.as_ref().is_some_and(|highest| *highest > last.sequence) {
            return read_at(highest);
        }
        let sequence = last.sequence;
        let wish = match last.content {
            Content::Poison { code, reason } => {
                Wish::Poison { sequence, derived: derive_poison(&self.model, key, code, &reason), code, reason }
            }
            Content::Change { kind, derived: None, .. } if kind != ChangeKind::Remove => {
                Wish::Read { sequence: Some(sequence) }
            }
            Content::Change { derived, .. } => Wish::Record { sequence, derived },
        };
        Some((wish, steps))
    }

    /// Writes the quarantine rows of malformed records; a second delivery writes the same rows.
    async fn keep_malformed(&self, rows: &[(usize, Write)], report: &mut BatchReport) -> Result<(), CommitError> {
        let distinct: BTreeMap<&TableKey, &Write> = rows.iter().map(|(_, write)| (&write.key, write)).collect();
        let writes: Vec<Write> = distinct.into_values().cloned().collect();
        for writes in writes.chunks(ACTIONS_MAX) {
            self.write_plain(writes, report).await?;
        }
        Ok(())
    }
}
