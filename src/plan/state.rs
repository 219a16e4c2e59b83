//! The state table's rows: which there are and under which keys, in one place.
//!
//! | row | `PK` | `SK` | written by |
//! |---|---|---|---|
//! | ledger | `LEDGER#<digest of the source key>` | `LEDGER` | every commit |
//! | quarantine | `QUARANTINE` | `<sequence number, padded>#<digest>`, or `-#<event id or digest>` | the commit that gives an item up; malformed records, which expire after 30 days |
//! | outbox | `OUTBOX` | `<threshold key>` | the sweep |
//! | alert | `ALERT#<expiry>` | `<digest of the episode>` | the sweep |
//! | checkpoint and lease | `STREAM#<stream's ARN>#<consumer>` | `SHARD#<shard id>` | the worker |
//! | worker | `STREAM#<stream's ARN>#<consumer>` | `WORKER#<worker id>` | the worker |
//! | stream | `STREAM` | `<table's ARN>` | the worker |
//! | doubt | `DOUBT` | `DOUBT` | repairs after a loss of records |
//! | report | `REPORT#<report>` | `SETTLED` | whoever prints reports by the clock: up to when nothing is owed |
//! | slot | `REPORT#<report>` | `SLOT#<instant>` | whoever prints the report of that instant |
//! | progress | `RECONCILE#<run>` | `<side>#<segment, 6 digits>` | a reconcile that can be resumed, until its end |
//!
//! Digests stand for source keys because a source key may be as long as a key can be; the row carries the key itself.

use crate::model::change::SequenceNumber;
use crate::model::key::{KeyNames, TableKey};
use crate::model::value::joined;

/// Name of the partition key attribute.
pub const PARTITION: &str = "PK";
/// Name of the sort key attribute.
pub const SORT: &str = "SK";
/// Time to live of rows that go by themselves: tombstones, alerts that rest, malformed records.
pub const TTL: &str = "ExpiresAt";
/// Begins every ledger row's partition key.
pub const LEDGER_PREFIX: &str = "LEDGER#";
/// The partition of all quarantine rows.
pub const QUARANTINE: &str = "QUARANTINE";
/// The partition of all outbox rows.
pub const OUTBOX: &str = "OUTBOX";

/// Begins the sort key of a shard's row.
pub const SHARD_PREFIX: &str = "SHARD#";
/// Begins the sort key of a worker's row.
pub const WORKER_PREFIX: &str = "WORKER#";

/// The key attributes of the state table.
pub fn key_names() -> KeyNames {
    KeyNames { partition: PARTITION.into(), sort: Some(SORT.into()) }
}

/// The ledger row of a source item.
pub fn ledger_key(source: &TableKey) -> TableKey {
    ledger_key_of(&source.digest())
}

/// The same by the digest of the source item's key.
pub fn ledger_key_of(digest: &str) -> TableKey {
    TableKey::text(joined(&[LEDGER_PREFIX, digest]), "LEDGER")
}

/// The quarantine row of a change of a source item; without a sequence number, of the item itself.
pub fn quarantine_key(source: &TableKey, sequence: Option<&SequenceNumber>) -> TableKey {
    let sequence = sequence.map_or_else(|| "-".to_owned(), SequenceNumber::padded);
    TableKey::text(QUARANTINE, format!("{sequence}#{}", source.digest()))
}

/// The quarantine row of a record that is too malformed to name an item. `id` tells it from others: its event id, or a
/// digest of its content, so that a second delivery writes the same row.
pub fn malformed_key(sequence: Option<&SequenceNumber>, id: &str) -> TableKey {
    let sequence = sequence.map_or_else(|| "-".to_owned(), SequenceNumber::padded);
    let id: String = id.chars().take(200).collect();
    TableKey::text(QUARANTINE, format!("{sequence}#{id}"))
}

/// The outbox row of one notification.
pub fn outbox_key(threshold_key: &str) -> TableKey {
    TableKey::text(OUTBOX, threshold_key)
}

/// The alert row of one episode of an expiry: in one partition, so that the open ones can be listed.
pub fn alert_key(expiry: &str, episode_digest: &str) -> TableKey {
    TableKey::text(alert_partition(expiry), episode_digest)
}

/// The partition of all alert rows of an expiry.
pub fn alert_partition(expiry: &str) -> String {
    format!("ALERT#{expiry}")
}

/// The partition of all rows of one consumer of one stream: shards of different streams may share an id.
pub fn stream_partition(stream_arn: &str, consumer: &str) -> String {
    format!("STREAM#{stream_arn}#{consumer}")
}

/// The row of one shard: how far it is read, and who reads it.
pub fn checkpoint_key(stream_arn: &str, consumer: &str, shard: &str) -> TableKey {
    TableKey::text(stream_partition(stream_arn, consumer), format!("{SHARD_PREFIX}{shard}"))
}

/// The row by which one worker shows that it lives.
pub fn worker_key(stream_arn: &str, consumer: &str, worker: &str) -> TableKey {
    TableKey::text(stream_partition(stream_arn, consumer), format!("{WORKER_PREFIX}{worker}"))
}

/// The row that says until when records are not believed, because later ones may be lost.
pub fn doubt_key() -> TableKey {
    TableKey::text("DOUBT", "DOUBT")
}

/// The row that remembers which stream of a table was read and whether a gap is open.
pub fn stream_key(table_arn: &str) -> TableKey {
    TableKey::text("STREAM", table_arn)
}

/// The partition of all rows of one report that is printed by the clock.
pub fn report_partition(report: &str) -> String {
    format!("REPORT#{report}")
}

/// The row that says up to when all slots of a report are settled.
pub fn report_key(report: &str) -> TableKey {
    TableKey::text(report_partition(report), "SETTLED")
}

/// The row of one slot of a report; `at` sorts as a text.
pub fn slot_key(report: &str, at: &str) -> TableKey {
    TableKey::text(report_partition(report), format!("SLOT#{at}"))
}

/// The partition of all progress rows of the reconciles of one name.
pub fn progress_partition(run: &str) -> String {
    format!("RECONCILE#{run}")
}

/// How far one segment of a table is reconciled.
pub fn progress_key(run: &str, side: &str, segment: u32) -> TableKey {
    TableKey::text(progress_partition(run), format!("{side}#{segment:06}"))
}
