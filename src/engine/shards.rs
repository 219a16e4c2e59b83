//! The life of a stream's shards as a pure state table.
//!
//! The problem: shards split and roll over, are listed late, twice, in any order or not any more; iterators expire; records
//! are trimmed. A reader that gets one of these wrong loses records in silence or reads a child before its parent's end.
//!
//! The contract: [`ShardTable`] does no I/O and reads no clock. The worker asks it for [`Action`]s, performs them and tells it
//! the [`Event`]s that came of them; it answers with [`Notice`]s. Of it holds, whatever the order of events:
//! - a shard is read only when its parent is finished, or neither listed nor known;
//! - a shard ends by a page without a next iterator whose records have been applied, and by nothing else;
//! - reading starts at TRIM_HORIZON or after the last applied record, never at LATEST;
//! - records that may be missing make a [`Gap`]: a shard is never passed over in silence;
//! - a finished shard stays known until the stream has not listed it for a while, or its lineage would be read again;
//! - every call rate is bounded, and the shard that was served longest ago goes first;
//! - a late or repeated answer (an old [`Ticket`]) changes nothing.
//!
//! Only shards that are `owned` are read; ownership comes from outside and may change at any time.

mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SubsecRound as _, Utc};

use super::checkpoint::{Checkpoint, OpenGap, ShardKey};
use super::ports::{ShardIterator, ShardStart, StreamDescription, StreamError};
use crate::model::change::SequenceNumber;
pub use table::ShardTable;
pub(super) use table::later;

/// Rates and limits; every one is a bound.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardSettings {
    /// Shortest time between two reads of one shard.
    pub poll_min: Duration,
    /// Longest pause of an idle shard: empty pages double the pause up to here.
    pub poll_max: Duration,
    /// Longest pause after failures.
    pub backoff_max: Duration,
    /// Shortest time between two descriptions, while a child is awaited.
    pub describe_min: Duration,
    /// Time between two descriptions when nothing is awaited.
    pub describe_max: Duration,
    /// Most shards that are being read or whose page waits to be applied: bounds memory (1 MB a page).
    pub concurrent_max: usize,
    /// Shortest time between two checkpoints of one shard, except its last.
    pub save_every: Duration,
    /// How often an idle shard's checkpoint is renewed, so that a restart can tell an idle stream from lost records.
    pub heartbeat: Duration,
    /// How long the stream keeps records.
    pub retention: Duration,
    /// Empty pages in a row after which a shard counts as read to its tip. One is not enough: empty pages occur before records.
    pub idle_pages: u32,
    /// Most requests for iterators and records a second, all shards together: bounds what many idle shards cost.
    pub requests_per_second: u32,
    /// Whether shards that are newly listed belong to this worker.
    pub own_new: bool,
}

impl Default for ShardSettings {
    fn default() -> ShardSettings {
        ShardSettings {
            poll_min: Duration::from_millis(200),
            poll_max: Duration::from_secs(1),
            backoff_max: Duration::from_secs(10),
            describe_min: Duration::from_secs(1),
            describe_max: Duration::from_secs(20),
            concurrent_max: 8,
            save_every: Duration::from_secs(1),
            heartbeat: Duration::from_secs(300),
            retention: Duration::from_secs(24 * 3600),
            idle_pages: 3,
            requests_per_second: 500,
            own_new: true,
        }
    }
}

impl ShardSettings {
    /// For an engine on the same machine: polls every 50 ms at most, looks for children every 100 ms.
    pub fn fast() -> ShardSettings {
        ShardSettings {
            poll_min: Duration::from_millis(5),
            poll_max: Duration::from_millis(50),
            backoff_max: Duration::from_secs(1),
            describe_min: Duration::from_millis(100),
            describe_max: Duration::from_secs(2),
            save_every: Duration::from_millis(250),
            ..ShardSettings::default()
        }
    }
}

/// Names one request for one shard; an answer under an older turn is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub key: ShardKey,
    pub turn: u64,
}

/// What the worker is to do next. Each is answered by exactly one event, or never (then the worker ends).
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Answer: [`Event::Described`] or [`Event::DescribeFailed`].
    Describe,
    /// Answer: [`Event::Placed`].
    TakeIterator(Ticket, ShardStart),
    /// Answer: [`Event::Page`], and [`Event::Applied`] once its records, if any, are durable.
    Read(Ticket, ShardIterator),
    /// Store these rows. Answer: [`Event::Saved`].
    Save(Vec<Checkpoint>),
    /// Delete these rows. No answer: a row left over is harmless.
    Forget(Vec<ShardKey>),
}

/// What came of an action, or from outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Described(StreamDescription),
    DescribeFailed(StreamError),
    Placed(Ticket, Result<ShardIterator, StreamError>),
    Page(Ticket, Result<PageSeen, StreamError>),
    /// The records of the ticket's page are durable.
    Applied(Ticket),
    /// The rows of a save were stored or not.
    Saved(Vec<ShardKey>, bool),
    /// This worker reads the shard from now on, or no longer.
    Owned(ShardKey, bool),
    /// Another worker's checkpoint of a shard that is not owned here.
    Seen(Checkpoint),
}

/// A page without its records.
#[derive(Debug, Clone, PartialEq)]
pub struct PageSeen {
    pub records: usize,
    /// The last record's number; `None` on an empty page or where no record has a readable one.
    pub last: Option<SequenceNumber>,
    /// When the last record was written, if it says so.
    pub written_at: Option<DateTime<Utc>>,
    pub next: Option<ShardIterator>,
}

/// What the worker's owner should know.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    Opened(ShardKey, ShardStart),
    Finished(ShardKey),
    Gap(Gap),
    /// A request failed; it is repeated after a pause. `None`: the description.
    Trouble {
        shard: Option<ShardKey>,
        error: StreamError,
        failures: u32,
    },
}

/// Records may be missing, or old images must not be trusted for another reason, until the table has been reconciled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    pub cause: GapCause,
    /// The shard in question; `None` where it is the whole stream.
    pub shard: Option<ShardKey>,
    pub since: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GapCause {
    /// The stream has not been read before: items that are older than it were never seen. Nothing was lost.
    FirstStart,
    /// Earlier runs derived under another model. Nothing was lost.
    ModelChanged,
    /// An earlier run left its gap open.
    StillOpen { cause: String, loss: bool },
    /// The position is past retention.
    Trimmed,
    /// The shard was not read to its end and is not there any more.
    ShardGone,
    /// The table has a new stream; what the old one still held was not read.
    StreamReplaced { old: String },
    /// The shard was last read longer ago than the stream keeps records.
    AwayTooLong { read_at: DateTime<Utc> },
    /// A shard came and went unseen between the known ones and this shard, its child.
    ParentUnseen { parent: String },
}

impl GapCause {
    /// All that [`name`](GapCause::name) may say.
    pub const NAMES: [&str; 8] = [
        "first_start",
        "model_changed",
        "still_open",
        "trimmed",
        "shard_gone",
        "stream_replaced",
        "away_too_long",
        "parent_unseen",
    ];

    /// A stable name, for metrics and logs.
    pub fn name(&self) -> &'static str {
        match self {
            GapCause::FirstStart => "first_start",
            GapCause::ModelChanged => "model_changed",
            GapCause::StillOpen { .. } => "still_open",
            GapCause::Trimmed => "trimmed",
            GapCause::ShardGone => "shard_gone",
            GapCause::StreamReplaced { .. } => "stream_replaced",
            GapCause::AwayTooLong { .. } => "away_too_long",
            GapCause::ParentUnseen { .. } => "parent_unseen",
        }
    }
}

impl Gap {
    /// True where records may have been lost, false where only a backfill is due.
    pub fn is_loss(&self) -> bool {
        !matches!(self.cause, GapCause::FirstStart | GapCause::ModelChanged | GapCause::StillOpen { loss: false, .. })
    }
}

impl From<&Gap> for OpenGap {
    fn from(gap: &Gap) -> OpenGap {
        // As precise as it is stored: the gap is known again by it.
        let since = gap.since.trunc_subsecs(3);
        OpenGap { since, last: since, cause: gap.to_string(), loss: gap.is_loss() }
    }
}

/// One line for a log.
impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Opened(key, ShardStart::TrimHorizon) => {
                write!(f, "shard {} opened at its oldest record", key.shard)
            }
            Notice::Opened(key, ShardStart::After(number)) => write!(f, "shard {} opened after {number}", key.shard),
            Notice::Opened(key, ShardStart::At(number)) => write!(f, "shard {} opened at {number}", key.shard),
            Notice::Finished(key) => write!(f, "shard {} read to its end", key.shard),
            Notice::Gap(gap) => write!(f, "gap: {gap}"),
            Notice::Trouble { shard: Some(key), error, failures } => {
                write!(f, "shard {}: {error} (failure {failures} in a row), it is tried again", key.shard)
            }
            Notice::Trouble { shard: None, error, failures } => {
                write!(f, "the shards cannot be listed: {error} (failure {failures} in a row), it is tried again")
            }
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(shard) = &self.shard {
            write!(f, "shard {}: ", shard.shard)?;
        }
        match &self.cause {
            GapCause::FirstStart => f.write_str("the stream has not been read before; older items are not in it"),
            GapCause::ModelChanged => f.write_str("the model has changed since the stream was last read"),
            GapCause::StillOpen { cause, .. } => write!(f, "not reconciled since an earlier run: {cause}"),
            GapCause::Trimmed => f.write_str("records were trimmed before they were read"),
            GapCause::ShardGone => f.write_str("the shard vanished before it was read to its end"),
            GapCause::StreamReplaced { old } => write!(f, "the table has a new stream; the rest of {old} was not read"),
            GapCause::AwayTooLong { read_at } => {
                write!(f, "last read at {}, longer ago than the stream keeps records", read_at.to_rfc3339())
            }
            GapCause::ParentUnseen { parent } => write!(f, "its parent {parent} was trimmed before it was ever seen"),
        }
    }
}
