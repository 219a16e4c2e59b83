//! Batches that AWS Lambda gave up, as the on-failure destination of an event source mapping keeps them.
//!
//! Lambda writes an *invocation record*, one JSON object a batch. Its shape is that of "Retain discarded records for a DynamoDB event
//! source" in the AWS Lambda Developer Guide (services-dynamodb-errors). What is read of it:
//!
//! ```json
//! {
//!   "requestContext": { "condition": "RetryAttemptsExhausted" },
//!   "DDBStreamBatchInfo": {
//!     "shardId": "shardId-00000001700000000000-0a1b2c3d",
//!     "startSequenceNumber": "111", "endSequenceNumber": "222", "batchSize": 2,
//!     "approximateArrivalOfFirstRecord": "2026-03-01T10:00:00Z",
//!     "streamArn": "arn:aws:dynamodb:eu-central-1:000000000000:table/T/stream/2026-01-01T00:00:00.000"
//!   },
//!   "payload": "{\"Records\":[...]}"
//! }
//! ```
//!
//! A bucket gets all of it, in objects named `aws/lambda/<mapping>/<shard>/YYYY/MM/DD/YYYY-MM-DDTHH.MM.SS-<random>`. Topics and queues get it
//! without `payload`: they say where in the stream the records are, for as long as the stream has them. A queue that is subscribed
//! to a topic holds it in the topic's envelope, as the text `Message`.
//!
//! The contract: [`DiscardedBatch::parse`] takes any text. What is no such record is an error that says what it is instead, and
//! nothing of what the items hold.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::change::{RawRecord, SequenceNumber};
use super::event::{EventFault, StreamEvent, scalar, told};

/// One batch that was given up.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscardedBatch {
    /// ARN of the stream.
    pub stream: String,
    pub shard: String,
    /// Number of its first record.
    pub first: SequenceNumber,
    /// Number of its last record.
    pub last: SequenceNumber,
    /// How many records it had; informative, and `None` where it is not told.
    pub size: Option<u64>,
    /// When the first of them was written, as near as Lambda knows.
    pub arrived: Option<DateTime<Utc>>,
    /// Why Lambda gave it up: `RetryAttemptsExhausted`, `RecordAgeExceeded`, …
    pub condition: Option<String>,
    /// The records themselves, damaged ones among them; `None`: they are to be read from the stream.
    pub records: Option<Vec<RawRecord>>,
}

/// Why a text is no batch that was given up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiscardedFault {
    #[error("it is empty; take it from the destination again")]
    Empty,
    #[error("it is no JSON of an invocation record: {0}; is it cut off? Take it from the destination again")]
    NotJson(String),
    #[error(
        "it is the record of an asynchronous invocation, not of an event source mapping; give that event to the \
         function that was to have it"
    )]
    Asynchronous,
    #[error("it is about a Kinesis stream; only batches of DynamoDB streams can be applied")]
    Kinesis,
    #[error("it has no `DDBStreamBatchInfo`, so it is no batch of a DynamoDB stream; leave it to whom it belongs")]
    NoBatch,
    #[error("`DDBStreamBatchInfo` has no {0}, so nobody can tell which records these are; reconcile the table instead")]
    Incomplete(&'static str),
    #[error("its first record is {first}, which is after its last, {last}; reconcile the table instead")]
    Backwards { first: SequenceNumber, last: SequenceNumber },
    #[error("its payload cannot be applied: {0}")]
    Payload(String),
    #[error(
        "its payload has records of `{found}`, but it is a batch of `{told}`; whoever put it together must take it apart"
    )]
    OtherStream { told: String, found: String },
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, rename = "DDBStreamBatchInfo")]
    batch: Option<WireBatch<'a>>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(borrow, rename = "requestContext")]
    request: Option<WireRequest<'a>>,
    #[serde(borrow, rename = "requestPayload")]
    asynchronous: Option<&'a RawValue>,
    #[serde(borrow, rename = "KinesisBatchInfo")]
    kinesis: Option<&'a RawValue>,
    #[serde(borrow, rename = "Message")]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireBatch<'a> {
    #[serde(borrow)]
    shard_id: Option<&'a RawValue>,
    #[serde(borrow)]
    start_sequence_number: Option<&'a RawValue>,
    #[serde(borrow)]
    end_sequence_number: Option<&'a RawValue>,
    #[serde(borrow)]
    batch_size: Option<&'a RawValue>,
    #[serde(borrow)]
    approximate_arrival_of_first_record: Option<&'a RawValue>,
    #[serde(borrow)]
    stream_arn: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireRequest<'a> {
    #[serde(borrow)]
    condition: Option<&'a RawValue>,
}

impl DiscardedBatch {
    /// Reads an invocation record, also in a topic's envelope.
    ///
    /// # Errors
    /// [`DiscardedFault`]: it is something else, or damaged as a whole. Damaged records are among the records.
    pub fn parse(json: &str) -> Result<DiscardedBatch, DiscardedFault> {
        let wire = read(json)?;
        match (&wire.batch, wire.message) {
            (None, Some(message)) => of(read(&scalar(message))?),
            _ => of(wire),
        }
    }
}

fn read(json: &str) -> Result<Wire<'_>, DiscardedFault> {
    if json.trim().is_empty() {
        return Err(DiscardedFault::Empty);
    }
    serde_json::from_str(json).map_err(|error| DiscardedFault::NotJson(told(&error)))
}

fn of(wire: Wire<'_>) -> Result<DiscardedBatch, DiscardedFault> {
    let Some(batch) = wire.batch else {
        return Err(match (wire.asynchronous, wire.kinesis) {
            (Some(_), _) => DiscardedFault::Asynchronous,
            (_, Some(_)) => DiscardedFault::Kinesis,
            _ => DiscardedFault::NoBatch,
        });
    };
    let text = |raw: Option<&RawValue>| raw.map(scalar).filter(|text| !text.is_empty());
    let number = |raw| text(raw).and_then(|text| text.parse::<SequenceNumber>().ok());
    let stream = text(batch.stream_arn).ok_or(DiscardedFault::Incomplete("`streamArn`"))?;
    let shard = text(batch.shard_id).ok_or(DiscardedFault::Incomplete("`shardId`"))?;
    let first = number(batch.start_sequence_number);
    let first = first.ok_or(DiscardedFault::Incomplete("`startSequenceNumber` that is a number"))?;
    let last = number(batch.end_sequence_number);
    let last = last.ok_or(DiscardedFault::Incomplete("`endSequenceNumber` that is a number"))?;
    if first > last {
        return Err(DiscardedFault::Backwards { first, last });
    }
    let time = |text: String| DateTime::parse_from_rfc3339(&text).ok().map(|time| time.to_utc());
    let records = records(wire.payload, &stream)?;
    Ok(DiscardedBatch {
        // Where the payload is not what the rest says it is, the stream knows better.
        records: records.filter(|records| are_of(records, &first, &last)),
        size: text(batch.batch_size).and_then(|text| text.parse().ok()),
        arrived: text(batch.approximate_arrival_of_first_record).and_then(time),
        condition: text(wire.request.and_then(|request| request.condition)),
        stream,
        shard,
        first,
        last,
    })
}

/// True if there are records, and all that have a number lie within the batch.
fn are_of(records: &[RawRecord], first: &SequenceNumber, last: &SequenceNumber) -> bool {
    let numbers = records.iter().filter_map(|record| record.sequence.as_deref()?.parse::<SequenceNumber>().ok());
    !records.is_empty() && numbers.into_iter().all(|number| number >= *first && number <= *last)
}

/// The records of a payload: a text that holds the event, or the event as it is, as other senders write it.
fn records(payload: Option<&RawValue>, stream: &str) -> Result<Option<Vec<RawRecord>>, DiscardedFault> {
    let Some(payload) = payload.filter(|payload| payload.get() != "null") else { return Ok(None) };
    let event = match serde_json::from_str::<String>(payload.get()) {
        Ok(text) => StreamEvent::parse(&text),
        Err(_) => StreamEvent::parse(payload.get()),
    };
    let event = event.map_err(|fault| match fault {
        EventFault::NotAnEvent { reason } => DiscardedFault::Payload(reason),
        other => DiscardedFault::Payload(other.to_string()),
    })?;
    match event.streams.into_iter().find(|found| found != stream) {
        Some(found) => Err(DiscardedFault::OtherStream { told: stream.to_owned(), found }),
        None => Ok(Some(event.records)),
    }
}

#[cfg(test)]
mod tests;
