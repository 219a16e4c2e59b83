//! Events of DynamoDB's event source mapping, plain and windowed.
//!
//! Fields are kept as JSON text and read one by one: what Lambda sends is spelt differently by different senders (times as
//! float, integer or text, numbers with and without quotes), and one odd field must cost one record, not the batch.
//!
//! That is why the event types of `aws_lambda_events` are not used for reading, though its answers and window states are. Its
//! `Event` reads all or nothing: one record without `SizeBytes`, with an attribute type it does not know or with a damaged
//! `B` refuses the whole batch, which then blocks its shard. It makes an absent image, an empty one and `null` the same
//! empty item, and a missing time 1970. What it can read, a test holds this reader to.
//!
//! Reading field by field goes over the text four times. Nearly all events are spelt as DynamoDB's documentation has them, so one
//! pass with plain types is tried first ([`PlainEvent`]); whatever that does not take is read the careful way from the start.

use aws_lambda_events::time_window::TimeWindowEventResponseProperties;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::model::change::{Image, RawRecord};
use crate::model::decimal::Decimal;
use crate::model::value::Item;

const EVENT_SOURCE: &str = "aws:dynamodb";
/// Characters of a bad value that a message shows.
const EXCERPT_LENGTH_MAX: usize = 80;

/// Why a payload is no stream event; the invocation fails with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventFault {
    #[error("the payload `{excerpt}` is not an event: {reason}")]
    NotAnEvent { excerpt: String, reason: String },
    #[error(
        "the event has no `Records`; this function is to be invoked by an event source mapping of a DynamoDB stream"
    )]
    NoRecords,
    #[error("the event's records come from `{0}`; connect this function to a DynamoDB stream")]
    WrongSource(String),
}

/// One event: its records in their order, and the window's state if the mapping has tumbling windows.
#[derive(Debug)]
pub struct StreamEvent {
    pub records: Vec<RawRecord>,
    /// Only windowed events tell it.
    pub shard: Option<String>,
    /// The state that a windowed event carries and wants back; `None` for a plain event. This function keeps none of its own.
    pub(super) state: Option<TimeWindowEventResponseProperties>,
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
        let records = plain.records.into_iter().map(PlainRecord::read).collect();
        Some(StreamEvent::with_window(records, plain.shard, plain.window, plain.state))
    }

    fn with_window(
        records: Vec<RawRecord>,
        shard: Option<&RawValue>,
        window: Option<&RawValue>,
        state: Option<&RawValue>,
    ) -> StreamEvent {
        let windowed = window.is_some() || state.is_some();
        let state = windowed.then(|| {
            let mut properties = TimeWindowEventResponseProperties::default();
            properties.state = state.and_then(parse).unwrap_or_default();
            properties
        });
        StreamEvent { records, shard: shard.map(scalar), state }
    }

    fn parse_carefully(json: &str) -> Result<StreamEvent, EventFault> {
        let wire: WireEvent = serde_json::from_str(json)
            .map_err(|error| EventFault::NotAnEvent { excerpt: excerpt(json), reason: error.to_string() })?;
        let Some(raw_records) = wire.records else { return Err(EventFault::NoRecords) };
        let mut records = Vec::with_capacity(raw_records.len());
        for raw in raw_records {
            records.push(record(raw)?);
        }
        Ok(StreamEvent::with_window(records, wire.shard, wire.window, wire.state))
    }
}

/// `principalId` of a user identity; one that cannot be read is none.
fn principal(raw: &RawValue) -> Option<String> {
    serde_json::from_str::<WireIdentity>(raw.get()).ok()?.principal.map(scalar)
}

fn record(raw: &RawValue) -> Result<RawRecord, EventFault> {
    let wire: WireRecord = match serde_json::from_str(raw.get()) {
        Ok(wire) => wire,
        Err(error) => return Ok(damaged(RawRecord::default(), raw, &error)),
    };
    if let Some(source) = wire.source.map(scalar).filter(|source| source != EVENT_SOURCE) {
        return Err(EventFault::WrongSource(source));
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
    let reason = format!("`{}` is not a change: {error}", excerpt(raw.get()));
    RawRecord { keys: Some(Err(reason)), ..known }
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
fn scalar(raw: &RawValue) -> String {
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
mod tests {
    use super::*;
    use crate::model::value::{Bytes, Value};

    fn one(record: &str) -> RawRecord {
        let event = StreamEvent::parse(&format!("{{\"Records\":[{record}]}}")).unwrap();
        let [record] = event.records.try_into().unwrap();
        record
    }

    fn changed(change: &str) -> RawRecord {
        one(&format!("{{\"eventName\":\"MODIFY\",\"dynamodb\":{change}}}"))
    }

    #[test]
    fn a_whole_record_is_read() {
        let record = one(
            r#"{"eventID":"e1","eventName":"MODIFY","eventVersion":"1.1","eventSource":"aws:dynamodb","awsRegion":"eu-west-1",
            "userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},
            "dynamodb":{"ApproximateCreationDateTime":1700000000,"Keys":{"PK":{"S":"a"},"n":{"N":"1.50"}},
            "NewImage":{"PK":{"S":"a"},"n":{"N":"1.50"},"b":{"B":"AQI="}},"OldImage":{"PK":{"S":"a"}},
            "SequenceNumber":"820400000000000001192334","SizeBytes":26,"StreamViewType":"NEW_AND_OLD_IMAGES"},
            "eventSourceARN":"arn:aws:dynamodb:eu-west-1:1:table/t/stream/x"}"#,
        );
        assert_eq!(record.event_name.as_deref(), Some("MODIFY"));
        assert_eq!(record.event_id.as_deref(), Some("e1"));
        assert_eq!(record.sequence.as_deref(), Some("820400000000000001192334"));
        assert_eq!(record.principal.as_deref(), Some("dynamodb.amazonaws.com"));
        assert_eq!(record.created_at.unwrap().to_rfc3339(), "2023-11-14T22:13:20+00:00");
        let new = record.new_image.unwrap().unwrap();
        assert_eq!(new.number("n").unwrap().to_string(), "1.5");
        assert_eq!(new.get("b"), Some(&Value::B(Bytes(vec![1, 2]))));
        assert!(record.old_image.unwrap().is_ok() && record.keys.unwrap().is_ok());
    }

    #[test]
    fn times_come_in_every_spelling_or_not_at_all() {
        let time = |json: &str| {
            let record = changed(&format!("{{\"ApproximateCreationDateTime\":{json}}}"));
            record.created_at.map(|time| time.to_rfc3339())
        };
        for json in ["1700000000", "1700000000.0", "\"1700000000\"", "1.7E9", "\"2023-11-14T23:13:20+01:00\""] {
            assert_eq!(time(json).as_deref(), Some("2023-11-14T22:13:20+00:00"), "{json}");
        }
        assert_eq!(time("1700000000.123").as_deref(), Some("2023-11-14T22:13:20.123+00:00"));
        for json in ["null", "\"\"", "\"yesterday\"", "-1", "1e100", "{}", "true"] {
            assert_eq!(time(json), None, "{json}");
        }
        assert_eq!(changed("{}").created_at, None);
    }

    #[test]
    fn a_remove_has_keys_and_no_images_however_they_are_left_out() {
        for images in ["", r#","NewImage":null,"OldImage":null"#, r#","NewImage":{},"OldImage":{}"#] {
            let change = format!("{{\"Keys\":{{\"PK\":{{\"S\":\"a\"}}}},\"SequenceNumber\":\"111\"{images}}}");
            let record = one(&format!("{{\"eventName\":\"REMOVE\",\"dynamodb\":{change}}}"));
            assert_eq!((record.new_image, record.old_image), (None, None), "{images}");
            assert_eq!(record.keys.unwrap().unwrap().text("PK"), Some("a"));
        }
    }

    #[test]
    fn a_damaged_image_costs_its_record_only() {
        let bad = [
            "{\"PK\":{\"S\":5}}",
            "{\"PK\":{\"Q\":\"x\"}}",
            "{\"b\":{\"B\":\"?\"}}",
            "{\"n\":{\"N\":\"1e999\"}}",
            "[]",
            "7",
        ];
        for image in bad {
            let record = changed(&format!(
                "{{\"Keys\":{{\"PK\":{{\"S\":\"a\"}}}},\"NewImage\":{image},\"SequenceNumber\":\"9\"}}"
            ));
            assert!(matches!(&record.new_image, Some(Err(reason)) if !reason.is_empty()), "{image}");
            assert!(matches!(record.keys, Some(Ok(_))), "{image}");
            assert_eq!(record.sequence.as_deref(), Some("9"), "{image}");
        }
    }

    #[test]
    fn a_damaged_record_stays_among_the_others() {
        let good = r#"{"eventName":"INSERT","dynamodb":{"Keys":{"PK":{"S":"a"}},"SequenceNumber":"3"}}"#;
        let json = format!("{{\"Records\":[7,{{\"eventID\":\"e\",\"dynamodb\":\"x\"}},{{}},{good}]}}");
        let records = StreamEvent::parse(&json).unwrap().records;
        assert_eq!(records.len(), 4);
        assert!(matches!(&records[0].keys, Some(Err(reason)) if reason.contains("`7`")));
        assert!(matches!(&records[1].keys, Some(Err(reason)) if reason.contains("not a change")));
        assert_eq!(records[1].event_id.as_deref(), Some("e"));
        assert_eq!(records[2], RawRecord::default());
        assert_eq!(records[3].sequence.as_deref(), Some("3"));
    }

    #[test]
    fn sequence_numbers_are_passed_on_as_they_are() {
        let sequence = |json: &str| changed(&format!("{{\"SequenceNumber\":{json}}}")).sequence;
        assert_eq!(sequence("\"111\"").as_deref(), Some("111"));
        assert_eq!(sequence("12345678901234567890123").as_deref(), Some("12345678901234567890123"));
        assert_eq!(sequence("null"), None);
        assert_eq!(sequence("[1]").as_deref(), Some("[1]"));
    }

    #[test]
    fn windowed_events_carry_shard_and_state() {
        let event = StreamEvent::parse(
            r#"{"Records":[],"window":{"start":"2026-01-01T00:00:00Z","end":"2026-01-01T00:02:00Z"},"state":{"1":"x"},
            "shardId":"shard-1","eventSourceARN":"arn","isFinalInvokeForWindow":true,"isWindowTerminatedEarly":false}"#,
        )
        .unwrap();
        assert_eq!(event.shard.as_deref(), Some("shard-1"));
        assert_eq!(event.state.unwrap().state, [("1".to_owned(), "x".to_owned())].into());
        let first = StreamEvent::parse(r#"{"Records":[],"window":{"start":"x","end":"y"}}"#).unwrap();
        assert_eq!(first.state.unwrap(), TimeWindowEventResponseProperties::default());
        // A state that is none of ours is no reason to fail the batch.
        let odd = StreamEvent::parse(r#"{"Records":[],"state":{"1":{"x":1}}}"#).unwrap();
        assert_eq!(odd.state.unwrap(), TimeWindowEventResponseProperties::default());
        assert!(StreamEvent::parse(r#"{"Records":[]}"#).unwrap().state.is_none());
    }

    #[test]
    fn what_the_package_can_read_is_read_the_same() {
        let json = r#"{"Records":[{"awsRegion":"eu-west-1","eventID":"e1","eventName":"MODIFY","eventSource":"aws:dynamodb",
            "dynamodb":{"ApproximateCreationDateTime":1700000000,"Keys":{"PK":{"S":"a"}},
            "NewImage":{"PK":{"S":"a"},"n":{"N":"123456789012345678901234567890.12345678"},"b":{"B":"AQI="},"t":{"BOOL":true},
            "z":{"NULL":true},"l":{"L":[{"N":"1"},{"S":""}]},"m":{"M":{"x":{"SS":["p","q"]}}},"k":{"NS":["1","2"]}},
            "OldImage":{"PK":{"S":"a"}},"SequenceNumber":"820400000000000001192334","SizeBytes":26}}]}"#;
        let theirs: aws_lambda_events::dynamodb::Event = serde_json::from_str(json).unwrap();
        let written_by_them = serde_json::to_string(&theirs).unwrap();
        let ours = StreamEvent::parse(json).unwrap().records;
        assert_eq!(StreamEvent::parse(&written_by_them).unwrap().records, ours);
        let (record, change) = (&ours[0], &theirs.records[0].change);
        assert_eq!(record.sequence, change.sequence_number);
        assert_eq!(record.created_at, Some(change.approximate_creation_date_time));
        assert_eq!(record.event_name.as_deref(), Some(theirs.records[0].event_name.as_str()));
    }

    #[test]
    fn what_is_no_stream_event_is_refused_as_a_whole() {
        assert!(matches!(StreamEvent::parse("{}"), Err(EventFault::NoRecords)));
        assert!(matches!(StreamEvent::parse("{\"Records\":null}"), Err(EventFault::NoRecords)));
        assert!(matches!(StreamEvent::parse("{\"Records\":7}"), Err(EventFault::NotAnEvent { .. })));
        assert!(matches!(StreamEvent::parse("nonsense"), Err(EventFault::NotAnEvent { .. })));
        let queue = StreamEvent::parse(r#"{"Records":[{"eventSource":"aws:sqs","body":"x"}]}"#).unwrap_err();
        assert!(queue.to_string().contains("aws:sqs"));
    }
}
