//! Checkpoint rows: where to go on reading after a restart.
//!
//! The ledger decides what has been applied; these rows only save time. A row that is lost, late or overwritten by another
//! worker costs repeated reading, never a wrong count. What must not be lost is the knowledge that records MAY be missing:
//! that is the stream row's open gap, which is written before anything is read beyond the gap.
//!
//! | `PK` | `SK` | attributes |
//! |---|---|---|
//! | `STREAM` | ARN of the table (the stream's ARN up to `/stream/`) | `Arn` of the stream last read, `Model` (hash), `GapSince`, `GapLast`, `GapCause`, `GapLoss`, `Version`, `UpdatedAt` |
//! | `STREAM#<stream ARN>#<consumer>` | `SHARD#<shard id>` | `Seq` (padded; NULL or absent: nothing read yet), `Finished`, `Parent`, `ReadAt`; `Owner` and `Lease` belong to [`super::leases`] |
//!
//! Rows are keyed by ARN and consumer, so equal shard ids of two streams, or of two consumers, never meet; rows that do not
//! decode are another's and ignored. The stream's own row is shared by all: a gap is a fact about the table's derived items.
//! Several workers write it, so every write goes by its `Version`, and none can undo a gap that another has found.
//!
//! Ledger rows are keyed by source key alone, so two tables in one state table would take each other's rows for their own. The
//! stream's rows tell that apart: where there is one of another table, a worker does not start.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::patience::Patience;
use super::ports::{CancelReason, Clock, SortRange, Store, StoreError, TransactError};
use super::scan::{Pages, get_one};
use crate::model::change::SequenceNumber;
use crate::model::decimal::Decimal;
use crate::model::key::TableKey;
use crate::model::time::{instant, timestamp};
use crate::model::value::{Item, Value};
use crate::plan::state;
use crate::plan::write::{ACTIONS_MAX, Condition, Op, TableRef, Write};

/// The consumer of those who name none.
pub const DEFAULT_CONSUMER: &str = "tablekeeper";
/// Counts the changes of hands of a shard's lease; 0: nobody has had it.
pub(super) const LEASE: &str = "Lease";
const VERSION: &str = "Version";

/// A shard of a stream; ids alone are not unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardKey {
    pub arn: Arc<str>,
    pub shard: Arc<str>,
}

/// How far one shard has been read and applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    pub key: ShardKey,
    pub parent: Option<String>,
    /// The last applied record; `None` while no record has been read.
    pub last: Option<SequenceNumber>,
    /// Closed and applied to its end.
    pub finished: bool,
    /// What was written to the shard up to this instant has been applied, as near as can be told.
    pub read_at: DateTime<Utc>,
}

/// What is known of a table's stream besides its shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRow {
    pub arn: String,
    /// Hash of the model under which the stream was last read.
    pub model: String,
    pub gap: Option<OpenGap>,
    /// Counts the writes of the row.
    pub version: u64,
}

/// Records may be missing since then, and the table has not been reconciled yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenGap {
    pub since: DateTime<Utc>,
    /// When the latest gap was found: a reconcile that began before does not close it.
    pub last: DateTime<Utc>,
    pub cause: String,
    /// Records may be lost; false where only a backfill is due.
    pub loss: bool,
}

/// What earlier runs left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    pub stream: Option<StreamRow>,
    /// Of the stream that is read now.
    pub checkpoints: Vec<Checkpoint>,
    /// ARN of another table that this state table serves.
    pub other_table: Option<String>,
}

impl Checkpoint {
    pub fn row_key(key: &ShardKey, consumer: &str) -> TableKey {
        state::checkpoint_key(&key.arn, consumer, &key.shard)
    }

    /// The update that stores the position and leaves the lease as it is. With a `term` it holds only while that lease
    /// lasts; without, it is stored whatever is there: the row is a hint.
    pub fn write(&self, consumer: &str, term: Option<u64>) -> Write {
        // Adding 0 makes the attribute, so that a lease can be taken on condition of it.
        let (add, condition) = match term {
            None => (BTreeMap::from([(LEASE.into(), Decimal::zero())]), Condition::Always),
            Some(term) => (BTreeMap::new(), Condition::Equals(LEASE.into(), number(term))),
        };
        let op = Op::Update { add, set: self.attributes() };
        Write { table: TableRef::State, key: Checkpoint::row_key(&self.key, consumer), op, condition }
    }

    pub(super) fn attributes(&self) -> Item {
        let last = self.last.as_ref().map_or(Value::Null(true), |last| Value::text(last.padded()));
        let mut item = Item::new()
            .with("Finished", Value::Bool(self.finished))
            .with("ReadAt", Value::text(timestamp(self.read_at)))
            .with("Seq", last);
        if let Some(parent) = &self.parent {
            item.insert("Parent", Value::text(parent.clone()));
        }
        item
    }

    /// Reads a row of the stream `arn`; `None` for a row that is not one of ours.
    pub fn from_item(arn: &Arc<str>, item: &Item) -> Option<Checkpoint> {
        let shard = item.text(state::SORT)?.strip_prefix(state::SHARD_PREFIX)?;
        let last = match item.get("Seq") {
            None | Some(Value::Null(_)) => None,
            Some(value) => Some(value.as_text()?.parse().ok()?),
        };
        Some(Checkpoint {
            key: ShardKey { arn: arn.clone(), shard: shard.into() },
            parent: item.text("Parent").map(str::to_owned),
            last,
            finished: matches!(item.get("Finished")?, Value::Bool(true)),
            read_at: instant(item.text("ReadAt")?)?,
        })
    }
}

impl StreamRow {
    pub fn row_key(arn: &str) -> TableKey {
        state::stream_key(table_of(arn))
    }

    /// The put that stores the row, provided that it still has the version before this one.
    pub fn write(&self, now: DateTime<Utc>) -> Write {
        let key = StreamRow::row_key(&self.arn);
        let mut item = key
            .to_item(&state::key_names())
            .with("Arn", Value::text(self.arn.clone()))
            .with("Model", Value::text(self.model.clone()))
            .with(VERSION, number(self.version))
            .with("UpdatedAt", Value::text(timestamp(now)));
        if let Some(gap) = &self.gap {
            item.insert("GapSince", Value::text(timestamp(gap.since)));
            item.insert("GapLast", Value::text(timestamp(gap.last)));
            item.insert("GapCause", Value::text(gap.cause.clone()));
            item.insert("GapLoss", Value::Bool(gap.loss));
        }
        let condition = match self.version {
            0 | 1 => Condition::Absent,
            version => Condition::Equals(VERSION.into(), number(version - 1)),
        };
        Write { table: TableRef::State, key, op: Op::Put(item.into()), condition }
    }

    pub fn from_item(item: &Item) -> Option<StreamRow> {
        let gap = match item.text("GapCause") {
            Some(cause) => Some(OpenGap {
                since: instant(item.text("GapSince")?)?,
                last: instant(item.text("GapLast")?)?,
                cause: cause.to_owned(),
                loss: item.get("GapLoss") != Some(&Value::Bool(false)),
            }),
            None => None,
        };
        Some(StreamRow {
            arn: item.text("Arn")?.to_owned(),
            model: item.text("Model")?.to_owned(),
            gap,
            version: count(item, VERSION).unwrap_or_default(),
        })
    }
}

/// Reads what earlier runs left of the stream `arn` and of its table's earlier streams.
///
/// # Errors
/// The last of several attempts'.
pub async fn load<S: Store, C: Clock>(store: &S, clock: &C, arn: &str, consumer: &str) -> Result<History, StoreError> {
    let stream = stream_row(store, clock, arn).await?;
    let other_table = other_table(store, clock, arn).await?;
    Ok(History { stream, checkpoints: load_shards(store, clock, arn, consumer).await?, other_table })
}

/// The ARN of another table than the stream's whose stream was read with this state table.
///
/// # Errors
/// The last of several attempts'.
pub async fn other_table<S: Store, C: Clock>(store: &S, clock: &C, arn: &str) -> Result<Option<String>, StoreError> {
    let own = StreamRow::row_key(arn);
    let mut pages = Pages::of_partition(TableRef::State, own.partition, SortRange::All);
    while let Some(page) = pages.next(store, clock).await? {
        let rows = page.iter().filter_map(StreamRow::from_item);
        if let Some(other) = rows.map(|row| table_of(&row.arn).to_owned()).find(|other| other != table_of(arn)) {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

/// A consumer's checkpoints of one stream.
///
/// # Errors
/// The last of several attempts'.
pub async fn load_shards<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    arn: &str,
    consumer: &str,
) -> Result<Vec<Checkpoint>, StoreError> {
    let range = SortRange::BeginsWith(state::SHARD_PREFIX.to_owned());
    let items = rows(store, clock, arn, consumer, range).await?;
    let arn: Arc<str> = arn.into();
    Ok(items.iter().filter_map(|item| Checkpoint::from_item(&arn, item)).collect())
}

/// A consumer's rows of one stream, whatever they are.
pub(super) async fn rows<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    arn: &str,
    consumer: &str,
    range: SortRange,
) -> Result<Vec<Item>, StoreError> {
    let partition = Value::text(state::stream_partition(arn, consumer));
    let mut pages = Pages::of_partition(TableRef::State, partition, range);
    let mut items = Vec::new();
    while let Some(page) = pages.next(store, clock).await? {
        items.extend(page);
    }
    Ok(items)
}

/// The open gap of the stream's table, to be given to [`close_gap`] after a reconcile that begins now.
///
/// # Errors
/// The last of several attempts'.
pub async fn open_gap<S: Store, C: Clock>(store: &S, clock: &C, arn: &str) -> Result<Option<OpenGap>, StoreError> {
    Ok(stream_row(store, clock, arn).await?.and_then(|row| row.gap))
}

/// Closes a gap after the whole table has been reconciled, unless another one was found since: `seen` is the gap as it was
/// before the reconcile began. True if no gap is open now.
///
/// # Errors
/// The last of several attempts.
pub async fn close_gap<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    arn: &str,
    seen: &OpenGap,
) -> Result<bool, TransactError> {
    let row = change_stream(store, clock, arn, |row| {
        let row = row.filter(|row| row.gap.as_ref() == Some(seen))?;
        Some(StreamRow { gap: None, ..row.clone() })
    })
    .await?;
    Ok(row.is_none_or(|row| row.gap.is_none()))
}

/// Adds a gap to those that are open, or opens one: the first loss names the cause, what was open longer stays open since
/// then. The row as it is afterwards; it names the model of `stream` only where `takes_model`: who finds a gap does not thereby
/// take the table from those who work under another model.
///
/// # Errors
/// The last of several attempts.
pub async fn add_gap<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    stream: &StreamRow,
    takes_model: bool,
    found: &OpenGap,
) -> Result<StreamRow, TransactError> {
    let add = |row: Option<&StreamRow>| {
        let gap = match row.and_then(|row| row.gap.clone()) {
            None => found.clone(),
            Some(earlier) => {
                // Later than the earlier one's, so that a reconcile which began before this gap does not close it.
                let last = found.last.max(earlier.last + TimeDelta::milliseconds(1));
                match earlier.loss || !found.loss {
                    true => OpenGap { last, ..earlier },
                    false => OpenGap { since: earlier.since.min(found.since), last, ..found.clone() },
                }
            }
        };
        let model = row.filter(|_| !takes_model).map_or(&stream.model, |row| &row.model).clone();
        Some(StreamRow { gap: Some(gap), model, ..stream.clone() })
    };
    let row = change_stream(store, clock, &stream.arn, add).await?;
    Ok(row.unwrap_or_else(|| stream.clone()))
}

/// Reads the stream's row and writes what `change` makes of it (`None`: leave it), again while others were faster. The row as
/// it is afterwards.
async fn change_stream<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    arn: &str,
    change: impl Fn(Option<&StreamRow>) -> Option<StreamRow>,
) -> Result<Option<StreamRow>, TransactError> {
    let attempt = || async {
        let row = stream_row(store, clock, arn).await?;
        let Some(changed) = change(row.as_ref()) else { return Ok(row) };
        let changed = StreamRow { version: row.as_ref().map_or(0, |row| row.version) + 1, ..changed };
        let mut write = changed.write(clock.now());
        if row.is_some_and(|row| row.version == 0) {
            write.condition = Condition::Always;
        }
        write_state(store, clock, &[write]).await.map(|()| Some(changed))
    };
    let lost_race = |error: &TransactError| matches!(error, TransactError::Cancelled(reasons) if reasons.contains(&CancelReason::ConditionFailed));
    Patience::SHORT.repeat(clock, attempt, lost_race).await
}

pub(super) async fn stream_row<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    arn: &str,
) -> Result<Option<StreamRow>, StoreError> {
    let row = get_one(store, clock, TableRef::State, StreamRow::row_key(arn)).await?;
    Ok(row.as_ref().and_then(StreamRow::from_item))
}

/// The delete of a row that is not needed any more.
pub fn forget(key: &ShardKey, consumer: &str) -> Write {
    let key = Checkpoint::row_key(key, consumer);
    Write { table: TableRef::State, key, op: Op::Delete, condition: Condition::Always }
}

/// Writes state rows, any number, with a few attempts.
///
/// # Errors
/// A failed condition at once, else the last attempt's; rows before the failing hundred are written.
pub async fn write_state<S: Store, C: Clock>(store: &S, clock: &C, writes: &[Write]) -> Result<(), TransactError> {
    let can_retry = |error: &TransactError| match error {
        TransactError::Store(error) => error.can_retry(),
        TransactError::Cancelled(reasons) => !reasons.contains(&CancelReason::ConditionFailed),
    };
    for chunk in writes.chunks(ACTIONS_MAX) {
        Patience::SHORT.repeat(clock, || store.transact(chunk), can_retry).await?;
    }
    Ok(())
}

/// Writes that stand each for itself: true for those that were done, false for those whose condition did not hold.
///
/// # Errors
/// The last attempt's; earlier ones may have been done.
pub async fn write_each<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    writes: &[Write],
) -> Result<Vec<bool>, TransactError> {
    let mut done = Vec::with_capacity(writes.len());
    for chunk in writes.chunks(ACTIONS_MAX) {
        let mut standing = vec![true; chunk.len()];
        loop {
            let due: Vec<Write> =
                chunk.iter().zip(&standing).filter(|(_, stands)| **stands).map(|(w, _)| w.clone()).collect();
            if due.is_empty() {
                break;
            }
            let reasons = match write_state(store, clock, &due).await {
                Ok(()) => break,
                Err(TransactError::Cancelled(reasons)) if reasons.contains(&CancelReason::ConditionFailed) => reasons,
                Err(error) => return Err(error),
            };
            let mut reasons = reasons.iter();
            for stands in standing.iter_mut().filter(|stands| **stands) {
                *stands = reasons.next() != Some(&CancelReason::ConditionFailed);
            }
        }
        done.extend(standing);
    }
    Ok(done)
}

/// The table's part of a stream's ARN: what the streams of one table have in common.
pub fn table_of(arn: &str) -> &str {
    arn.split_once("/stream/").map_or(arn, |(table, _)| table)
}

pub(super) fn number(count: u64) -> Value {
    Value::N(i64::try_from(count).unwrap_or(i64::MAX).into())
}

pub(super) fn count(item: &Item, name: &str) -> Option<u64> {
    item.number(name)?.to_plain().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Checkpoint {
        Checkpoint {
            key: ShardKey { arn: "arn:x:table/T/stream/1".into(), shard: "shardId-1".into() },
            parent: Some("shardId-0".to_owned()),
            last: Some("820400000000000001192334".parse().unwrap()),
            finished: true,
            read_at: "2026-03-01T10:00:00.250Z".parse().unwrap(),
        }
    }

    fn item_of(write: Write) -> Item {
        match write.op {
            Op::Put(item) => Arc::unwrap_or_clone(item),
            Op::Update { set, .. } => write
                .key
                .to_item(&state::key_names())
                .0
                .into_iter()
                .chain(set.0)
                .fold(Item::new(), |item, (name, value)| item.with(name, value)),
            other => panic!("neither a put nor an update: {other:?}"),
        }
    }

    #[test]
    fn rows_read_back_as_written() {
        let bare = Checkpoint { parent: None, last: None, finished: false, ..row() };
        for checkpoint in [row(), bare] {
            let item = item_of(checkpoint.write("c", None));
            assert_eq!(Checkpoint::from_item(&checkpoint.key.arn, &item), Some(checkpoint));
        }
        let gap = OpenGap { since: row().read_at, last: row().read_at, cause: "trimmed".to_owned(), loss: true };
        for gap in [None, Some(gap)] {
            let stream =
                StreamRow { arn: "arn:x:table/T/stream/1".to_owned(), model: "abc".to_owned(), gap, version: 3 };
            assert_eq!(StreamRow::from_item(&item_of(stream.write(row().read_at))), Some(stream));
        }
    }

    #[test]
    fn equal_shard_ids_of_two_streams_have_two_rows() {
        let other = ShardKey { arn: "arn:x:table/T/stream/2".into(), shard: "shardId-1".into() };
        assert_ne!(Checkpoint::row_key(&row().key, "c"), Checkpoint::row_key(&other, "c"));
        assert_ne!(Checkpoint::row_key(&row().key, "c"), Checkpoint::row_key(&row().key, "d"), "two consumers");
        assert_eq!(table_of(&row().key.arn), table_of(&other.arn));
        assert_ne!(table_of("arn:x:table/T/stream/1"), table_of("arn:x:table/U/stream/1"));
    }

    #[test]
    fn rows_of_others_are_ignored() {
        let arn: Arc<str> = "a".into();
        let good = item_of(row().write("c", None));
        for broken in [
            good.clone().with("SK", Value::text("LEASE#1")),
            good.clone().with("Seq", Value::text("not a number")),
            good.clone().with("Finished", Value::text("yes")).with("ReadAt", Value::Bool(true)),
            Item::new(),
        ] {
            assert_eq!(Checkpoint::from_item(&arn, &broken), None, "{broken:?}");
        }
    }
}
