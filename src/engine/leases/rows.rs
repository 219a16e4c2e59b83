//! The rows of leases, and the conditional writes that change them.
//!
//! | `PK` | `SK` | attributes |
//! |---|---|---|
//! | `STREAM#<stream ARN>#<consumer>` | `SHARD#<shard id>` | the checkpoint's, and `Owner` (a worker; empty: nobody), `Lease` (counts the changes of hands) |
//! | likewise | `WORKER#<worker id>` | `Run` (this life of the worker), `Beat` (counter), `LeaseMs`, `Model` (hash), `UpdatedAt` (for people; nobody judges by it) |
//!
//! The position stays the checkpoint's business: claiming a shard leaves it as it is, storing it leaves the lease as it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::engine::checkpoint::{Checkpoint, LEASE, ShardKey, count, number, rows};
use crate::engine::ports::{Clock, SortRange, Store, StoreError};
use crate::model::time::timestamp;
use crate::model::value::{Item, Value};
use crate::plan::state;
use crate::plan::write::{Condition, Op, TableRef, Write};

const OWNER: &str = "Owner";
const RUN: &str = "Run";
const BEAT: &str = "Beat";

/// A shard's row: its position and its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRow {
    pub checkpoint: Checkpoint,
    pub owner: Option<String>,
    /// How often the lease has changed hands; `None` in a row that was written without leases.
    pub term: Option<u64>,
}

/// A worker's sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    pub worker: String,
    pub run: String,
    pub count: u64,
    /// What the worker itself goes by: it moves its counter several times in it.
    pub lease_time: Duration,
    /// Hash of the model that it derives under.
    pub model: String,
}

/// All rows of one consumer of one stream that are ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    pub shards: Vec<LeaseRow>,
    pub workers: Vec<Beat>,
}

impl LeaseRow {
    pub fn shard(&self) -> &str {
        &self.checkpoint.key.shard
    }

    fn from_item(arn: &Arc<str>, item: &Item) -> Option<LeaseRow> {
        Some(LeaseRow {
            checkpoint: Checkpoint::from_item(arn, item)?,
            owner: item.text(OWNER).filter(|owner| !owner.is_empty()).map(str::to_owned),
            term: count(item, LEASE),
        })
    }
}

impl Beat {
    /// The put that stores it. Once this life has `begun` it is refused where another of the same name has begun since.
    pub fn write(&self, arn: &str, consumer: &str, begun: bool, now: DateTime<Utc>) -> Write {
        let key = state::worker_key(arn, consumer, &self.worker);
        let item = key
            .to_item(&state::key_names())
            .with(RUN, Value::text(self.run.clone()))
            .with(BEAT, number(self.count))
            .with("LeaseMs", number(u64::try_from(self.lease_time.as_millis()).unwrap_or(u64::MAX)))
            .with("Model", Value::text(self.model.clone()))
            .with("UpdatedAt", Value::text(timestamp(now)));
        let condition = match begun {
            false => Condition::Always,
            true => Condition::AbsentOrEquals(RUN.into(), Value::text(self.run.clone())),
        };
        Write { table: TableRef::State, key, op: Op::Put(item.into()), condition }
    }

    /// True if the worker has not moved from the one to the other.
    pub fn is_same(&self, other: &Beat) -> bool {
        (&self.worker, &self.run, self.count) == (&other.worker, &other.run, other.count)
    }

    fn from_item(item: &Item) -> Option<Beat> {
        Some(Beat {
            worker: item.text(state::SORT)?.strip_prefix(state::WORKER_PREFIX)?.to_owned(),
            run: item.text(RUN)?.to_owned(),
            count: count(item, BEAT)?,
            lease_time: Duration::from_millis(count(item, "LeaseMs")?),
            model: item.text("Model")?.to_owned(),
        })
    }
}

/// Reads all rows of one consumer of the stream.
///
/// # Errors
/// The last of several attempts'.
pub async fn load<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    arn: &Arc<str>,
    consumer: &str,
) -> Result<Rows, StoreError> {
    let items = rows(store, clock, arn, consumer, SortRange::All).await?;
    Ok(Rows {
        shards: items.iter().filter_map(|item| LeaseRow::from_item(arn, item)).collect(),
        workers: items.iter().filter_map(Beat::from_item).collect(),
    })
}

/// The write that makes `worker` the owner, and the lease's count from then on. `row` is the shard's row as it was seen; where
/// there is none, one is made with the position of `fresh`.
pub fn claim(worker: &str, consumer: &str, row: Option<&LeaseRow>, fresh: &Checkpoint) -> (Write, u64) {
    let term = row.and_then(|row| row.term).unwrap_or(0) + 1;
    let (set, condition) = match row {
        None => (fresh.attributes(), Condition::Absent),
        Some(LeaseRow { term: Some(seen), .. }) => (Item::new(), Condition::Equals(LEASE.into(), number(*seen))),
        Some(row) => {
            let read_at = Value::text(timestamp(row.checkpoint.read_at));
            (Item::new(), Condition::Equals("ReadAt".into(), read_at))
        }
    };
    let set = set.with(OWNER, Value::text(worker)).with(LEASE, number(term));
    (update(&fresh.key, consumer, set, condition), term)
}

/// The write that frees a shard: the next look of any worker finds it.
pub fn release(key: &ShardKey, consumer: &str, term: u64) -> Write {
    let set = Item::new().with(OWNER, Value::text("")).with(LEASE, number(term + 1));
    update(key, consumer, set, Condition::Equals(LEASE.into(), number(term)))
}

/// The delete of one's own row at the end.
pub fn leave(arn: &str, consumer: &str, beat: &Beat) -> Write {
    let condition = Condition::Equals(RUN.into(), Value::text(beat.run.clone()));
    Write { table: TableRef::State, key: state::worker_key(arn, consumer, &beat.worker), op: Op::Delete, condition }
}

/// The delete of a dead worker's row, unless it has moved after all.
pub fn bury(arn: &str, consumer: &str, beat: &Beat) -> Write {
    let condition = Condition::Equals(BEAT.into(), number(beat.count));
    Write { table: TableRef::State, key: state::worker_key(arn, consumer, &beat.worker), op: Op::Delete, condition }
}

fn update(key: &ShardKey, consumer: &str, set: Item, condition: Condition) -> Write {
    let op = Op::Update { add: BTreeMap::new(), set };
    Write { table: TableRef::State, key: Checkpoint::row_key(key, consumer), op, condition }
}
