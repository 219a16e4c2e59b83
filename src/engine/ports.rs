//! The ports: all that the engine asks of the outside world.
//!
//! Adapters implement them on the AWS SDK; tests on memory. Every future is `Send`, no port knows a runtime.

use std::future::Future;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::model::change::{RawRecord, SequenceNumber};
use crate::model::key::TableKey;
use crate::model::value::{Item, Value};
pub use crate::plan::outcome::CancelReason;
use crate::plan::write::{TableRef, Write};

/// The two tables.
pub trait Store: Send + Sync {
    /// Consistent reads by key, in the order asked, any number of keys (the adapter pages and repeats unprocessed ones).
    fn get(
        &self,
        table: TableRef,
        keys: &[TableKey],
    ) -> impl Future<Output = Result<Vec<Option<Item>>, StoreError>> + Send;

    /// All of the writes or none; at most 100. One attempt: conflicts and throttling are the caller's to repeat.
    fn transact(&self, writes: &[Write]) -> impl Future<Output = Result<(), TransactError>> + Send;

    /// One page of a consistent query of one partition, ascending, sort keys within `range`.
    fn query(
        &self,
        table: TableRef,
        partition: &Value,
        range: SortRange,
        start: Option<TableKey>,
    ) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// One page of a consistent scan of segment `segment.0` of `segment.1`.
    fn scan(
        &self,
        table: TableRef,
        segment: (u32, u32),
        start: Option<TableKey>,
    ) -> impl Future<Output = Result<Page, StoreError>> + Send;
}

/// Which sort keys of a partition a query returns.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum SortRange {
    #[default]
    All,
    BeginsWith(String),
    /// Both ends included.
    Between(Value, Value),
}

/// A page of items; `next` is where to go on, `None` at the end. A page may be empty without being the last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    pub items: Vec<Item>,
    pub next: Option<TableKey>,
}

/// A request that failed, by what the caller can do about it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// Try again after a pause; nothing is known about whether a write happened.
    #[error("the database is not to be reached just now: {0}")]
    Unavailable(String),
    #[error("the database throttles: {0}")]
    Throttled(String),
    /// The database will not do this, however often it is asked.
    #[error("the database refused: {0}")]
    Refused(String),
    /// Credentials or permissions are wanting: this says nothing about the content, so nothing is put aside for it.
    #[error("the database denies access: {0}; check the credentials and their permissions")]
    Denied(String),
    #[error("no table `{0}`; create it, or check its name, the Region and the credentials")]
    NoTable(String),
}

/// A transaction that did not (certainly) happen.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TransactError {
    /// Nothing was written; one reason for each write, in their order.
    #[error("transaction cancelled: {0:?}")]
    Cancelled(Vec<CancelReason>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StoreError {
    /// True where the same request may succeed later.
    pub fn can_retry(&self) -> bool {
        matches!(self, StoreError::Unavailable(_) | StoreError::Throttled(_))
    }
}

/// One DynamoDB stream.
pub trait StreamSource: Send + Sync {
    /// All shards now listed, every page read; shards in any order, repeated ones once.
    fn describe(&self) -> impl Future<Output = Result<StreamDescription, StreamError>> + Send;

    fn iterator(
        &self,
        shard: &str,
        start: &ShardStart,
    ) -> impl Future<Output = Result<ShardIterator, StreamError>> + Send;

    /// At most 1,000 records or 1 MB; an empty page is not the end, a missing `next` is.
    fn records(&self, iterator: &ShardIterator) -> impl Future<Output = Result<RecordPage, StreamError>> + Send;
}

/// A stream and its shards as last listed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StreamDescription {
    pub arn: String,
    pub shards: Vec<ShardListing>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardListing {
    pub id: String,
    /// May name a shard that is no longer listed: its records are gone, the child may start.
    pub parent: Option<String>,
}

/// Where to begin in a shard. There is no LATEST: it loses records at start-up and in children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShardStart {
    TrimHorizon,
    After(SequenceNumber),
    /// With the record of that number, which is there or was.
    At(SequenceNumber),
}

/// An opaque iterator; lives about 15 minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardIterator(pub String);

#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordPage {
    pub records: Vec<RawRecord>,
    /// `None`: the shard is closed and read to its end.
    pub next: Option<ShardIterator>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StreamError {
    /// Take a new iterator after the last sequence number.
    #[error("the shard iterator has expired or is not accepted")]
    ExpiredIterator,
    /// Records between the position and the oldest retained one are lost: a gap.
    #[error("records at this position are past retention")]
    Trimmed,
    #[error("the shard is not there any more")]
    NoShard,
    #[error("the table has no stream; enable one with new and old images")]
    NoStream,
    #[error("the stream throttles: {0}")]
    Throttled(String),
    #[error("the stream is not to be reached just now: {0}")]
    Unavailable(String),
    #[error("the stream refused: {0}")]
    Refused(String),
}

/// Time, as a parameter: real in the programs, virtual in tests.
pub trait Clock: Send + Sync {
    fn now(&self) -> DateTime<Utc>;
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
    /// A number in [0, 1) for jitter.
    fn jitter(&self) -> f64;
}

impl<C: Clock> Clock for &C {
    fn now(&self) -> DateTime<Utc> {
        (**self).now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        (**self).sleep(duration)
    }

    fn jitter(&self) -> f64 {
        (**self).jitter()
    }
}

/// Room for what memory does not hold.
pub trait Spill {
    type File: std::io::Read + std::io::Write + std::io::Seek;

    /// A new, empty file, which is gone when it is dropped and when the process ends, however it ends.
    fn create(&self) -> std::io::Result<Self::File>;
}

/// Where notifications go; delivery is at least once, `id` is the idempotency key.
pub trait Sink: Send + Sync {
    fn send(&self, notification: &Notification) -> impl Future<Output = Result<(), SinkError>> + Send;
}

/// One message about one subject crossing one threshold.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Notification {
    /// Episode + threshold: the same message twice has the same id.
    pub id: String,
    pub expiry: String,
    pub subject: String,
    pub owner: Option<String>,
    /// `upcoming`, `due_today`, `overdue` or `resolved`.
    pub state: String,
    /// The threshold that was crossed, in days before the due date; negative: days overdue. When resolved: the last one told.
    pub threshold_days: i64,
    /// The date or time as the item has it.
    pub date: String,
    /// The exclusive instant at which it expires.
    pub due: DateTime<Utc>,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("notification could not be delivered: {0}")]
pub struct SinkError(pub String);
