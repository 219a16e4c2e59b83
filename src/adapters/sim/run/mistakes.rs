//! Known mistakes, put between the engine and the simulated database: each makes the whole behave as a product that has it.
//!
//! They exist in tests only, so no build of the product can make one.
#![cfg(test)]

use std::sync::Mutex;

use super::lines::StoreLine;
use crate::adapters::sim::clock::SimClock;
use crate::adapters::sim::stream::SimStream;
use crate::engine::batch::{ApplyError, BatchReport, Engine, OldImages};
use crate::engine::ports::{
    CancelReason, Clock as _, Page, RecordPage, ShardIterator, ShardStart, Store, StreamDescription, StreamError,
    StreamSource, TransactError,
};
use crate::model::change::RawRecord;
use crate::model::key::TableKey;
use crate::model::value::{Item, Value};
use crate::plan::ledger::LedgerRow;
use crate::plan::state::{LEDGER_PREFIX, key_names};
use crate::plan::write::{Condition, Op, TableRef, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mistake {
    /// The ledger row is put whatever it is by now.
    NoConditionOnTheLedger,
    /// Children are read from where they are, not from their beginning.
    LatestForChildren,
    /// An empty page is taken for the end of a shard.
    EmptyPageIsTheEnd,
    /// `95` is taken to be later than `100`, and what is not later is passed over.
    NumbersComparedAsText,
    /// An action that cannot be done is left out, and the rest is sent.
    FailedActionsAreLeftOut,
    /// A batch is said to be applied, and is applied later.
    CheckpointBeforeApply,
    /// Children are read beside their parents, and nobody looks what the item was before.
    ChildBesideParent,
    /// A deleted item's ledger row is deleted.
    NoTombstone,
    /// An item that disagrees is not read again after its ledger row: what was scanned before is believed.
    ItemReadBeforeLedger,
    /// After a lost answer everything is sent again, without conditions.
    LostAnswerIsSentAgain,
    /// An item that moves is added to its new group and stays in its old one.
    OldGroupIsForgotten,
    /// Changes that cancel out are not written, nor are their ledger rows.
    NothingToAddIsNothingToWrite,
    /// A batch that failed is passed over.
    FailedBatchIsPassedOver,
    /// A position that is trimmed is given up for the oldest record, and nobody hears of it.
    TrimmedInSilence,
    /// Listing entries are put before anything else, on their own.
    RowsOutsideTheTransaction,
    /// A repair writes the sum that it has measured, whatever was added meanwhile.
    RepairWithoutCondition,
}

impl Mistake {
    pub const ALL: [Mistake; 16] = [
        Mistake::NoConditionOnTheLedger,
        Mistake::LatestForChildren,
        Mistake::EmptyPageIsTheEnd,
        Mistake::NumbersComparedAsText,
        Mistake::FailedActionsAreLeftOut,
        Mistake::CheckpointBeforeApply,
        Mistake::ChildBesideParent,
        Mistake::NoTombstone,
        Mistake::ItemReadBeforeLedger,
        Mistake::LostAnswerIsSentAgain,
        Mistake::OldGroupIsForgotten,
        Mistake::NothingToAddIsNothingToWrite,
        Mistake::FailedBatchIsPassedOver,
        Mistake::TrimmedInSilence,
        Mistake::RowsOutsideTheTransaction,
        Mistake::RepairWithoutCondition,
    ];

    /// A transaction, with the mistakes that are made in sending one.
    pub async fn transact(self, line: &StoreLine, writes: &[Write]) -> Result<(), TransactError> {
        let is_ours = writes.iter().any(is_ledger);
        if self == Mistake::RepairWithoutCondition && writes.iter().any(is_repair) {
            line.stand_still().await;
            return line.send(&unconditional(writes)).await;
        }
        if !is_ours {
            return line.send(writes).await;
        }
        let altered = self.altered(writes);
        if altered.is_empty() {
            return Ok(());
        }
        if self == Mistake::RowsOutsideTheTransaction {
            let rows: Vec<Write> = altered.iter().filter(|write| is_row(write)).cloned().collect();
            if !rows.is_empty() {
                line.send(&rows).await?;
            }
        }
        let result = line.send(&altered).await;
        match (self, &result) {
            (Mistake::LostAnswerIsSentAgain, Err(TransactError::Store(error))) if error.can_retry() => {
                line.send(&unconditional(&altered)).await
            }
            (Mistake::FailedActionsAreLeftOut, Err(TransactError::Cancelled(reasons))) => {
                let fine = |(_, reason): &(&Write, &CancelReason)| **reason == CancelReason::None;
                let rest: Vec<Write> =
                    altered.iter().zip(reasons).filter(fine).map(|(write, _)| write.clone()).collect();
                line.send(&rest).await
            }
            _ => result,
        }
    }

    fn altered(self, writes: &[Write]) -> Vec<Write> {
        let has_additions = writes.iter().any(|write| matches!(write.op, Op::Update { .. }));
        let altered = writes.iter().cloned().filter_map(|mut write| {
            match (self, &write.op) {
                (Mistake::NoConditionOnTheLedger, _) if is_ledger(&write) => write.condition = Condition::Always,
                (Mistake::NoTombstone, Op::Put(item)) if item.get("Deleted").is_some() => write.op = Op::Delete,
                // Only what enters a group says which group that is.
                (Mistake::OldGroupIsForgotten, Op::Update { set, .. }) if set.get("Group").is_none() => return None,
                (Mistake::NothingToAddIsNothingToWrite, _) if !has_additions => return None,
                _ => {}
            }
            Some(write)
        });
        altered.collect()
    }

    pub fn listing(self, mut stream: StreamDescription) -> StreamDescription {
        if self == Mistake::ChildBesideParent {
            stream.shards.iter_mut().for_each(|shard| shard.parent = None);
        }
        stream
    }

    pub async fn iterator(
        self,
        stream: &SimStream,
        shard: &str,
        start: &ShardStart,
    ) -> Result<ShardIterator, StreamError> {
        let is_child = stream.shards().iter().any(|other| other.id == shard && other.parent.is_some());
        match (self, start, stream.iterator(shard, start).await) {
            (Mistake::LatestForChildren, ShardStart::TrimHorizon, Ok(_)) if is_child => {
                let end = u128::MAX.to_string().parse().expect("a number");
                stream.iterator(shard, &ShardStart::After(end)).await
            }
            (Mistake::TrimmedInSilence, _, Err(StreamError::Trimmed)) => {
                stream.iterator(shard, &ShardStart::TrimHorizon).await
            }
            (_, _, iterator) => iterator,
        }
    }

    pub fn page(self, mut page: RecordPage) -> RecordPage {
        match self {
            Mistake::EmptyPageIsTheEnd if page.records.is_empty() => page.next = None,
            Mistake::ChildBesideParent => page.records.iter_mut().for_each(forget_before),
            _ => {}
        }
        page
    }
}

/// The record no longer says what the item was before.
fn forget_before(record: &mut RawRecord) {
    record.old_image = None;
    if record.event_name.as_deref() == Some("INSERT") {
        record.event_name = Some("MODIFY".to_owned());
    }
}

fn is_ledger(write: &Write) -> bool {
    write.table == TableRef::State && write.key.partition.as_text().is_some_and(|key| key.starts_with(LEDGER_PREFIX))
}

fn is_row(write: &Write) -> bool {
    write.table == TableRef::Source && matches!(write.op, Op::Put(_))
}

/// Nobody else writes a sum as a whole; leases, which are numbers too, are in the other table.
fn is_repair(write: &Write) -> bool {
    let sets_number = |set: &Item| set.0.values().any(|value| value.as_number().is_some());
    write.table == TableRef::Source && matches!(&write.op, Op::Update { set, .. } if sets_number(set))
}

fn unconditional(writes: &[Write]) -> Vec<Write> {
    writes.iter().map(|write| Write { condition: Condition::Always, ..write.clone() }).collect()
}

impl StoreLine {
    /// Long enough for others to be faster.
    async fn stand_still(&self) {
        self.clock.sleep(std::time::Duration::from_secs(3)).await;
    }

    /// What a scan has shown, for a reader that believes it later.
    pub fn note(&self, table: TableRef, page: &Result<Page, crate::engine::ports::StoreError>) {
        if let (Some(Mistake::ItemReadBeforeLedger), TableRef::Source, Ok(page)) = (self.mistake, table, page) {
            let names = key_names();
            let keyed = page.items.iter().filter_map(|item| Some((TableKey::of(item, &names)?, item.clone())));
            self.scanned.lock().unwrap().extend(keyed);
        }
    }

    pub fn instead(&self, table: TableRef, keys: &[TableKey], found: Vec<Option<Item>>) -> Vec<Option<Item>> {
        if table == TableRef::State {
            return found;
        }
        let mut scanned = self.scanned.lock().unwrap();
        keys.iter().zip(found).map(|(key, found)| scanned.remove(key).or(found)).collect()
    }
}

/// The mistakes that are made around a batch.
pub(super) struct Applies {
    mistake: Option<Mistake>,
    /// Said to be applied.
    owed: Mutex<Vec<(Vec<RawRecord>, OldImages)>>,
}

impl Applies {
    pub fn new(mistake: Option<Mistake>) -> Applies {
        Applies { mistake, owed: Mutex::default() }
    }

    pub async fn batch(
        &self,
        engine: &Engine<StoreLine, SimClock>,
        records: &[RawRecord],
        trust: OldImages,
    ) -> Result<BatchReport, ApplyError> {
        match self.mistake {
            Some(Mistake::CheckpointBeforeApply) => {
                let owed = std::mem::take(&mut *self.owed.lock().unwrap());
                for (records, trust) in owed {
                    engine.apply(&records, trust).await?;
                }
                self.owed.lock().unwrap().push((records.to_vec(), trust));
                Ok(BatchReport::default())
            }
            Some(Mistake::FailedBatchIsPassedOver) => {
                Ok(engine.apply(records, trust).await.unwrap_or_else(|error| *error.report))
            }
            Some(Mistake::NumbersComparedAsText) => {
                let mut later = Vec::new();
                for record in records {
                    if !passed_by_text(engine, record).await {
                        later.push(record.clone());
                    }
                }
                engine.apply(&later, trust).await
            }
            _ => engine.apply(records, trust).await,
        }
    }
}

/// True if the ledger's number is not below the record's, compared as text.
async fn passed_by_text(engine: &Engine<StoreLine, SimClock>, record: &RawRecord) -> bool {
    let (Some(Ok(keys)), Some(number)) = (&record.keys, &record.sequence) else { return false };
    let Some(key) = TableKey::of(keys, &engine.model.table.key_names()) else { return false };
    let Ok(rows) = engine.store.get(TableRef::State, &[LedgerRow::key(&key)]).await else { return false };
    let known = rows.into_iter().flatten().next().and_then(|row| row.text("Seq").map(str::to_owned));
    known.is_some_and(|known| Value::text(known.trim_start_matches('0')) >= Value::text(number.as_str()))
}
