//! Events of DynamoDB's event source mapping, plain and windowed, as a function gets them and as a batch that was given up keeps them.
//!
//! Fields are kept as JSON text and read one by one: what Lambda sends is spelt differently by different senders (times as
//! float, integer or text, numbers with and without quotes), and one odd field must cost one record, not the batch.
//!
//! That is why the event types of `aws_lambda_events` are not used for reading, though the Lambda adapter's answers are its. Its
//! `Event` reads all or nothing: one record without `SizeBytes`, with an attribute type it does not know or with a damaged
//! `B` refuses the whole batch, which then blocks its shard. It makes an absent image, an empty one and `null` the same
//! empty item, and a missing time 1970. What it can read, a test of that adapter holds this reader to.
//!
//! Reading field by field goes over the text four times. Nearly all events are spelt as DynamoDB's documentation has them, so one
//! pass with plain types is tried first (`PlainEvent`); whatever that does not take is read the careful way from the start.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::change::{Image, RawRecord};
use super::decimal::Decimal;
use super::value::Item;

const EVENT_SOURCE: &str = "aws:dynamodb";
/// Characters of a bad value that a message shows.
const EXCERPT_LENGTH_MAX: usize = 80;

/// Why a payload is no stream event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventFault {
    #[error("the payload is not an event: {reason}")]
    NotAnEvent { reason: String },
    #[error("the event has no `Records`; it is not what an event source mapping of a DynamoDB stream delivers")]
    NoRecords,
    #[error("the event's records come from `{0}`; connect this function to a DynamoDB stream")]
    WrongSource(String),
}

/// One event: its records in their order, and the window's state if the mapping has tumbling windows.
#[derive(Debug)]
pub struct StreamEvent {
    pub records: Vec<RawRecord>,
    /// ARNs of the streams that the records say they come from, each once: one, unless somebody put the event together.
    pub streams: Vec<String>,
    /// Only windowed events tell it.
    pub shard: Option<String>,
    /// The state that a windowed event carries and wants back; `None` for a plain event. This function keeps none of its own.
    pub state: Option<HashMap<String, String>>,
}

#[derive(Deserialize)]
struct WireEvent<'a> {
    #[serde(borrow, rename = "Records")]
    records: Option<Vec<&'a RawValue>>,
    #[serde(borrow, rename = "shardId")]
    shard: Option<&'a RawValue>,
    #[serde(borrow)]
    window: Option<&'a RawValue>,
    #[serde(borrow)]
    state: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireRecord<'a> {
    #[serde(borrow, rename = "eventName")]
    name: Option<&'a RawValue>,
    #[serde(borrow, rename = "eventID")]
    id: Option<&'a RawValue>,
    #[serde(borrow, rename = "eventSource")]
    source: Option<&'a RawValue>,
    #[serde(borrow, rename = "eventSourceARN")]
    stream: Option<&'a RawValue>,
    #[serde(borrow)]
    dynamodb: Option<&'a RawValue>,
    #[serde(borrow, rename = "userIdentity")]
    identity: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct WireChange<'a> {
    #[serde(borrow)]
    keys: Option<&'a RawValue>,
    #[serde(borrow)]
    new_image: Option<&'a RawValue>,
    #[serde(borrow)]
    old_image: Option<&'a RawValue>,
    #[serde(borrow)]
    sequence_number: Option<&'a RawValue>,
    #[serde(borrow)]
    approximate_creation_date_time: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireIdentity<'a> {
    #[serde(borrow, rename = "principalId", alias = "PrincipalId")]
    principal: Option<&'a RawValue>,
}

/// An event that is spelt as documented.
#[derive(Deserialize)]
struct PlainEvent<'a> {
    #[serde(borrow, rename = "Records")]
    records: Vec<PlainRecord<'a>>,
    #[serde(borrow, rename = "shardId")]
    shard: Option<&'a RawValue>,
    #[serde(borrow)]
    window: Option<&'a RawValue>,
    #[serde(borrow)]
    state: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PlainRecord<'a> {
    #[serde(rename = "eventName")]
    name: Option<String>,
    #[serde(rename = "eventID")]
    id: Option<String>,
    #[serde(borrow, rename = "eventSource")]
    source: Option<&'a str>,
    #[serde(borrow, rename = "eventSourceARN")]
    stream: Option<&'a str>,
    #[serde(borrow)]
    dynamodb: Option<PlainChange<'a>>,
    #[serde(borrow, rename = "userIdentity")]
    identity: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct PlainChange<'a> {
    keys: Option<Item>,
    new_image: Option<Item>,
    old_image: Option<Item>,
    sequence_number: Option<String>,
    #[serde(borrow)]
    approximate_creation_date_time: Option<&'a RawValue>,
}

impl PlainRecord<'_> {
    fn read(self) -> RawRecord {
        let change = self.dynamodb.unwrap_or_default();
        let image = |item: Option<Item>| item.filter(|item| !item.0.is_empty()).map(Ok);
        RawRecord {
            event_name: self.name,
            event_id: self.id,
            principal: self.identity.and_then(principal),
            sequence: change.sequence_number,
            keys: image(change.keys),
            new_image: image(change.new_image),
            old_image: image(change.old_image),
            created_at: change.approximate_creation_date_time.and_then(|raw| time(&scalar(raw))),
        }
    }
}

impl StreamEvent {
    /// Reads an event. Damaged records are among the records; a payload that is no event of a DynamoDB stream is a fault.
    pub fn parse(json: &str) -> Result<StreamEvent, EventFault> {
        match StreamEvent::parse_plain(json) {
            Some(event) => Ok(event),
            None => StreamEvent::parse_carefully(json),
        }
    }

    /// `None` if anything is spelt otherwise than documented.
    fn parse_plain(json: &str) -> Option<StreamEvent> {
        let plain: PlainEvent = serde_json::from_str(json).ok()?;
        if plain.records.iter().any(|record| record.source.is_some_and(|source| source != EVENT_SOURCE)) {
            return None;
        }
        let mut streams = Vec::new();
        plain.records.iter().filter_map(|record| record.stream).for_each(|stream| note(&mut streams, stream));
        let records = plain.records.into_iter().map(PlainRecord::read).collect();
        Some(StreamEvent { streams, ..StreamEvent::with_window(records, plain.shard, plain.window, plain.state) })
    }

    fn with_window(
        records: Vec<RawRecord>,
        shard: Option<&RawValue>,
        window: Option<&RawValue>,
        state: Option<&RawValue>,
    ) -> StreamEvent {
        let windowed = window.is_some() || state.is_some();
        let state = windowed.then(|| state.and_then(parse).unwrap_or_default());
        StreamEvent { records, streams: Vec::new(), shard: shard.map(scalar), state }
    }

    fn parse_carefully(json: &str) -> Result<StreamEvent, EventFault> {
        let wire: WireEvent =
            serde_json::from_str(json).map_err(|error| EventFault::NotAnEvent { reason: told(&error) })?;
        let Some(raw_records) = wire.records else { return Err(EventFault::NoRecords) };
        let (mut records, mut streams) = (Vec::with_capacity(raw_records.len()), Vec::new());
        for raw in raw_records {
            records.push(record(raw, &mut streams)?);
        }
        Ok(StreamEvent { streams, ..StreamEvent::with_window(records, wire.shard, wire.window, wire.state) })
    }
}

/// `principalId` of a user identity; one that cannot be read is none.
fn principal(raw: &RawValue) -> Option<String> {
    serde_json::from_str::<WireIdentity>(raw.get()).ok()?.principal.map(scalar)
}

fn note(streams: &mut Vec<String>, stream: &str) {
    if !streams.iter().any(|known| known == stream) {
        streams.push(stream.to_owned());
    }
}

/// `streams` takes in where the record says that it comes from.
fn record(raw: &RawValue, streams: &mut Vec<String>) -> Result<RawRecord, EventFault> {
    let wire: WireRecord = match serde_json::from_str(raw.get()) {
        Ok(wire) => wire,
        Err(error) => return Ok(damaged(RawRecord::default(), raw, &error)),
    };
    if let Some(source) = wire.source.map(scalar).filter(|source| source != EVENT_SOURCE) {
        return Err(EventFault::WrongSource(source));
    }
    if let Some(stream) = wire.stream {
        note(streams, &scalar(stream));
    }
    let known = RawRecord {
        event_name: wire.name.map(scalar),
        event_id: wire.id.map(scalar),
        principal: wire.identity.and_then(principal),
        ..RawRecord::default()
    };
    let Some(raw_change) = wire.dynamodb else { return Ok(known) };
    let change: WireChange = match serde_json::from_str(raw_change.get()) {
        Ok(change) => change,
        Err(error) => return Ok(damaged(known, raw_change, &error)),
    };
    Ok(RawRecord {
        sequence: change.sequence_number.map(scalar),
        keys: image(change.keys),
        new_image: image(change.new_image),
        old_image: image(change.old_image),
        created_at: change.approximate_creation_date_time.and_then(|raw| time(&scalar(raw))),
        ..known
    })
}

/// A record of which no more can be read; its keys say why.
fn damaged(known: RawRecord, raw: &RawValue, error: &serde_json::Error) -> RawRecord {
    let reason = format!("`{}` is not a change: {}", excerpt(raw.get()), told(error));
    RawRecord { keys: Some(Err(reason)), ..known }
}

/// What is wrong with a JSON text, without a word of what it holds: that ends up in logs. serde's own words for a value of another type show it.
pub(super) fn told(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Data => format!("another form than expected at line {} column {}", error.line(), error.column()),
        Category::Io | Category::Syntax | Category::Eof => error.to_string(),
    }
}

/// An item has at least its keys, so an empty image is how some senders spell an absent one.
fn image(raw: Option<&RawValue>) -> Image {
    match serde_json::from_str::<Item>(raw?.get()) {
        Ok(item) if item.0.is_empty() => None,
        Ok(item) => Some(Ok(item)),
        Err(error) => Some(Err(error.to_string())),
    }
}

/// The text of a JSON string; other JSON as it is written.
pub(super) fn scalar(raw: &RawValue) -> String {
    parse::<String>(raw).unwrap_or_else(|| excerpt(raw.get()))
}

fn parse<T: DeserializeOwned>(raw: &RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// Seconds since 1970 with or without a fraction, or RFC 3339. It is informative only, so what cannot be read is absent.
fn time(text: &str) -> Option<DateTime<Utc>> {
    // As Lambda most often writes it, and quick to read.
    if let Ok(seconds) = text.strip_suffix(".0").unwrap_or(text).parse::<u32>() {
        return DateTime::from_timestamp(i64::from(seconds), 0);
    }
    let Ok(seconds) = text.parse::<Decimal>() else {
        return DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc());
    };
    let plain = seconds.to_plain();
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let nanoseconds: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let whole = whole.parse().ok().filter(|whole: &i64| *whole >= 0)?;
    DateTime::from_timestamp(whole, nanoseconds.parse().ok()?)
}

fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_LENGTH_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests;
