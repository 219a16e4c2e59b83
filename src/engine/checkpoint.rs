//! Checkpoint rows: where to go on reading after a restart.
//!
//! The ledger decides what has been applied; these rows only save time. A row that is lost, late or overwritten by another
//! worker costs repeated reading, never a wrong count. What must not be lost is the knowledge that records MAY be missing:
//! that is the stream row's open gap, which is written before anything is read beyond the gap.
//!
//! | `PK` | `SK` | attributes |
//! |---|---|---|
//! | `STREAM` | ARN of the table (the stream's ARN up to `/stream/`) | `Arn` of the stream last read, `Model` (hash), `GapSince`, `GapLast`, `GapCause`, `GapLoss`, `UpdatedAt` |
//! | `STREAM#<stream ARN>` | `SHARD#<shard id>` | `Seq` (padded; absent: nothing read yet), `Finished`, `Parent`, `ReadAt` |
//!
//! Rows are keyed by ARN, so equal shard ids of two streams never meet; rows that do not decode are another's and ignored.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::patience::Patience;
use super::ports::{CancelReason, Clock, SortRange, Store, StoreError, TransactError};
use super::scan::{Pages, get_one};
use crate::model::change::SequenceNumber;
use crate::model::key::TableKey;
use crate::model::time::{instant, timestamp};
use crate::model::value::{Item, Value};
use crate::plan::state;
use crate::plan::write::{ACTIONS_MAX, Condition, Op, TableRef, Write};

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
}

impl Checkpoint {
    pub fn row_key(key: &ShardKey) -> TableKey {
        state::checkpoint_key(&key.arn, &key.shard)
    }

    /// The put that stores the row, whatever is there: the row is a hint.
    pub fn write(&self) -> Write {
        let key = Checkpoint::row_key(&self.key);
        let mut item = state_item(&key)
            .with("Finished", Value::Bool(self.finished))
            .with("ReadAt", Value::text(timestamp(self.read_at)));
        if let Some(last) = &self.last {
            item.insert("Seq", Value::text(last.padded()));
        }
        if let Some(parent) = &self.parent {
            item.insert("Parent", Value::text(parent.clone()));
        }
        put(key, item)
    }

    /// Reads a row of the stream `arn`; `None` for a row that is not one of ours.
    pub fn from_item(arn: &Arc<str>, item: &Item) -> Option<Checkpoint> {
        let shard = item.text("SK")?.strip_prefix("SHARD#")?;
        let last = match item.get("Seq") {
            None => None,
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

    pub fn write(&self, now: DateTime<Utc>) -> Write {
        let key = StreamRow::row_key(&self.arn);
        let mut item = state_item(&key)
            .with("Arn", Value::text(self.arn.clone()))
            .with("Model", Value::text(self.model.clone()))
            .with("UpdatedAt", Value::text(timestamp(now)));
        if let Some(gap) = &self.gap {
            item.insert("GapSince", Value::text(timestamp(gap.since)));
            item.insert("GapLast", Value::text(timestamp(gap.last)));
            item.insert("GapCause", Value::text(gap.cause.clone()));
            item.insert("GapLoss", Value::Bool(gap.loss));
        }
        put(key, item)
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
        Some(StreamRow { arn: item.text("Arn")?.to_owned(), model: item.text("Model")?.to_owned(), gap })
    }
}

/// Reads what earlier runs left of the stream `arn` and of its table's earlier streams.
///
/// # Errors
/// The last of several attempts'.
pub async fn load<S: Store, C: Clock>(store: &S, clock: &C, arn: &str) -> Result<History, StoreError> {
    Ok(History { stream: stream_row(store, clock, arn).await?, checkpoints: load_shards(store, clock, arn).await? })
}

/// The checkpoints of one stream.
///
/// # Errors
/// The last of several attempts'.
pub async fn load_shards<S: Store, C: Clock>(store: &S, clock: &C, arn: &str) -> Result<Vec<Checkpoint>, StoreError> {
    let arn: Arc<str> = arn.into();
    let partition = state::checkpoint_key(&arn, "").partition;
    let range = SortRange::BeginsWith("SHARD#".to_owned());
    let mut pages = Pages::of_partition(TableRef::State, partition, range);
    let mut checkpoints = Vec::new();
    while let Some(items) = pages.next(store, clock).await? {
        checkpoints.extend(items.iter().filter_map(|item| Checkpoint::from_item(&arn, item)));
    }
    Ok(checkpoints)
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
    let Some(row) = stream_row(store, clock, arn).await? else { return Ok(true) };
    match &row.gap {
        None => return Ok(true),
        Some(gap) if gap != seen => return Ok(false),
        Some(_) => {}
    }
    let mut write = StreamRow { gap: None, ..row }.write(clock.now());
    write.condition = Condition::Equals("GapLast".to_owned(), Value::text(timestamp(seen.last)));
    match write_state(store, clock, &[write]).await {
        Ok(()) => Ok(true),
        Err(TransactError::Cancelled(reasons)) if reasons.contains(&CancelReason::ConditionFailed) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn stream_row<S: Store, C: Clock>(store: &S, clock: &C, arn: &str) -> Result<Option<StreamRow>, StoreError> {
    let row = get_one(store, clock, TableRef::State, StreamRow::row_key(arn)).await?;
    Ok(row.as_ref().and_then(StreamRow::from_item))
}

/// The delete of a row that is not needed any more.
pub fn forget(key: &ShardKey) -> Write {
    let key = Checkpoint::row_key(key);
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

/// The table's part of a stream's ARN: what the streams of one table have in common.
pub fn table_of(arn: &str) -> &str {
    arn.split_once("/stream/").map_or(arn, |(table, _)| table)
}

fn state_item(key: &TableKey) -> Item {
    key.to_item(&state::key_names())
}

fn put(key: TableKey, item: Item) -> Write {
    Write { table: TableRef::State, key, op: Op::Put(item), condition: Condition::Always }
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
            Op::Put(item) => item,
            other => panic!("not a put: {other:?}"),
        }
    }

    #[test]
    fn rows_read_back_as_written() {
        let bare = Checkpoint { parent: None, last: None, finished: false, ..row() };
        for checkpoint in [row(), bare] {
            let item = item_of(checkpoint.write());
            assert_eq!(Checkpoint::from_item(&checkpoint.key.arn, &item), Some(checkpoint));
        }
        let gap = OpenGap { since: row().read_at, last: row().read_at, cause: "trimmed".to_owned(), loss: true };
        for gap in [None, Some(gap)] {
            let stream = StreamRow { arn: "arn:x:table/T/stream/1".to_owned(), model: "abc".to_owned(), gap };
            assert_eq!(StreamRow::from_item(&item_of(stream.write(row().read_at))), Some(stream));
        }
    }

    #[test]
    fn equal_shard_ids_of_two_streams_have_two_rows() {
        let other = ShardKey { arn: "arn:x:table/T/stream/2".into(), shard: "shardId-1".into() };
        assert_ne!(Checkpoint::row_key(&row().key), Checkpoint::row_key(&other));
        assert_eq!(table_of(&row().key.arn), table_of(&other.arn));
        assert_ne!(table_of("arn:x:table/T/stream/1"), table_of("arn:x:table/U/stream/1"));
    }

    #[test]
    fn rows_of_others_are_ignored() {
        let arn: Arc<str> = "a".into();
        let good = item_of(row().write());
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
