//! Records that name no item, or no place in the order of its changes: what is kept of them, and how it is read again.
//!
//! There is no item to hang a finding on, so the quarantine row is all there is: `verify` lists these rows, and they go by themselves
//! after [`LIFE_DAYS`]. Reconciling makes good what such a record changed; it has no use for the row.

use chrono::{DateTime, Days, Utc};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::derive::decode::UNDECODED;
use crate::model::change::{RawRecord, SequenceNumber};
use crate::model::key::hex;
use crate::model::time::timestamp;
use crate::model::value::{Item, Value};
use crate::plan::state;
use crate::plan::write::{Condition, Op, TableRef, Write};

/// How long a row stays after the last delivery of its record. Longer than any record is delivered again.
pub const LIFE_DAYS: u64 = 30;

/// A row, without anything that an item held.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Malformed {
    /// Sort key of the row in the partition `QUARANTINE` of the state table.
    pub place: String,
    pub code: String,
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence_number: Option<String>,
    /// When it came last.
    pub at: String,
}

/// The row to be written for a record; a second delivery writes the same one.
pub(super) fn row(raw: &RawRecord, code: &str, reason: &str, now: DateTime<Utc>) -> Write {
    let sequence: Option<SequenceNumber> = raw.sequence.as_deref().and_then(|text| text.parse().ok());
    let digest = hex(&Sha256::digest(format!("{raw:?}").as_bytes())[..16]);
    let key = state::malformed_key(sequence.as_ref(), raw.event_id.as_deref().unwrap_or(&digest));
    let expires = now.checked_add_days(Days::new(LIFE_DAYS)).unwrap_or(now);
    let mut item = key
        .to_item(&state::key_names())
        .with("Code", Value::text(code))
        .with("Reason", Value::text(reason.chars().take(1_000).collect::<String>()))
        .with("At", Value::text(timestamp(now)))
        .with(state::TTL, Value::N(expires.timestamp().into()));
    let told = [("Event", &raw.event_name), ("EventId", &raw.event_id), ("Seq", &raw.sequence)];
    for (name, text) in told {
        if let Some(text) = text {
            item.insert(name, Value::text(text.chars().take(200).collect::<String>()));
        }
    }
    Write { table: TableRef::State, key, op: Op::Put(item.into()), condition: Condition::Always }
}

/// Why, without what follows where a value was met that is none: that may be quoted.
pub(super) fn shown(reason: &str) -> String {
    if reason.starts_with(UNDECODED) { UNDECODED.to_owned() } else { reason.to_owned() }
}

/// Reads a row of the state table; `None` for other rows, and for one whose time is over: DynamoDB may take days to delete it.
pub(super) fn read(item: &Item, now: DateTime<Utc>) -> Option<Malformed> {
    // The quarantine rows of items say which item.
    if item.text(state::PARTITION) != Some(state::QUARANTINE) || item.get("Source").is_some() {
        return None;
    }
    let expires = item.number(state::TTL).and_then(|number| number.to_plain().parse::<i64>().ok());
    if expires.is_some_and(|expires| expires <= now.timestamp()) {
        return None;
    }
    let text = |name: &str| item.text(name).map(str::to_owned);
    Some(Malformed {
        place: text(state::SORT)?,
        code: text("Code").unwrap_or_default(),
        reason: item.text("Reason").map(shown).unwrap_or_default(),
        event_id: text("EventId"),
        sequence_number: text("Seq"),
        at: text("At").unwrap_or_default(),
    })
}
