use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;

const STREAM: &str = "arn:aws:dynamodb:eu-central-1:000000000000:table/T/stream/2026-01-01T00:00:00.000";

fn record(payload: Option<Json>) -> Json {
    let mut record = json!({
        "requestContext": {
            "requestId": "r-1", "functionArn": "arn:aws:lambda:eu-central-1:000000000000:function:keeper",
            "condition": "RetryAttemptsExhausted", "approximateInvokeCount": 3
        },
        "responseContext": { "statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled" },
        "version": "1.0", "timestamp": "2026-03-01T10:05:00.123Z",
        "DDBStreamBatchInfo": {
            "shardId": "shardId-7", "startSequenceNumber": "000000000000000000111", "endSequenceNumber": "1222",
            "approximateArrivalOfFirstRecord": "2026-03-01T10:00:00Z",
            "approximateArrivalOfLastRecord": "2026-03-01T10:00:09Z", "batchSize": 2, "streamArn": STREAM
        }
    });
    if let Some(payload) = payload {
        record["payload"] = payload;
    }
    record
}

fn event(stream: &str) -> Json {
    let change = |number: &str| {
        json!({
            "eventID": number, "eventName": "INSERT", "eventSource": "aws:dynamodb", "eventSourceARN": stream,
            "dynamodb": { "Keys": { "PK": { "S": "a\"b" } }, "SequenceNumber": number }
        })
    };
    json!({ "Records": [change("111"), change("1222")] })
}

fn parse(json: &Json) -> Result<DiscardedBatch, DiscardedFault> {
    DiscardedBatch::parse(&json.to_string())
}

#[test]
fn a_record_of_a_bucket_has_the_whole_event() {
    let batch = parse(&record(Some(json!(event(STREAM).to_string())))).unwrap();
    assert_eq!((batch.stream.as_str(), batch.shard.as_str(), batch.size), (STREAM, "shardId-7", Some(2)));
    assert_eq!((batch.first.to_string(), batch.last.to_string()), ("111".to_owned(), "1222".to_owned()));
    assert_eq!(batch.arrived.unwrap().to_rfc3339(), "2026-03-01T10:00:00+00:00");
    assert_eq!(batch.condition.as_deref(), Some("RetryAttemptsExhausted"));
    let records = batch.records.as_ref().unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].keys.as_ref().unwrap().as_ref().unwrap().text("PK"), Some("a\"b"));
    // An event that is not put into a text means the same.
    assert_eq!(parse(&record(Some(event(STREAM)))).unwrap(), batch);
}

#[test]
fn a_record_of_a_queue_says_only_where_the_records_are() {
    let bare = parse(&record(None)).unwrap();
    assert_eq!(bare.records, None);
    assert_eq!(parse(&record(Some(Json::Null))).unwrap(), bare);
    let envelope = json!({ "Type": "Notification", "TopicArn": "t", "Message": record(None).to_string() });
    assert_eq!(parse(&envelope).unwrap(), bare);
    let mut short = record(None);
    short.as_object_mut().unwrap().retain(|name, _| name == "DDBStreamBatchInfo");
    for name in ["batchSize", "approximateArrivalOfFirstRecord"] {
        short["DDBStreamBatchInfo"].as_object_mut().unwrap().remove(name);
    }
    let short = parse(&short).unwrap();
    assert_eq!((short.size, short.arrived, short.condition), (None, None, None));
}

#[test]
fn a_payload_that_is_not_the_batch_is_read_from_the_stream() {
    let mut outside = event(STREAM);
    outside["Records"][1]["dynamodb"]["SequenceNumber"] = json!("1223");
    for payload in [json!({ "Records": [] }), outside] {
        assert_eq!(parse(&record(Some(json!(payload.to_string())))).unwrap().records, None, "{payload}");
    }
}

#[test]
fn a_damaged_record_stays_among_the_others() {
    let mut event = event(STREAM);
    event["Records"][1] = json!(7);
    let records = parse(&record(Some(json!(event.to_string())))).unwrap().records.unwrap();
    assert!(matches!(&records[1].keys, Some(Err(reason)) if reason.contains("`7`")));
    assert!(matches!(records[0].keys, Some(Ok(_))));
}

#[test]
fn what_it_is_instead_is_said() {
    let without = |name: &str| {
        let mut record = record(None);
        record["DDBStreamBatchInfo"].as_object_mut().unwrap().remove(name);
        record
    };
    let mut backwards = record(None);
    backwards["DDBStreamBatchInfo"]["endSequenceNumber"] = json!("99");
    let other = STREAM.replace("table/T", "table/U");
    let said = [
        (json!({ "requestContext": {}, "requestPayload": {}, "responsePayload": {} }), "asynchronous"),
        (json!({ "KinesisBatchInfo": { "shardId": "s" } }), "Kinesis"),
        (json!({ "Records": [] }), "no `DDBStreamBatchInfo`"),
        (json!({ "Type": "Notification", "Message": "{}" }), "no `DDBStreamBatchInfo`"),
        (json!({ "Message": "hello" }), "no JSON of an invocation record"),
        (json!([1]), "no JSON of an invocation record"),
        (json!({ "Message": "" }), "empty"),
        (without("streamArn"), "`streamArn`"),
        (without("shardId"), "`shardId`"),
        (without("startSequenceNumber"), "`startSequenceNumber`"),
        (without("endSequenceNumber"), "`endSequenceNumber`"),
        (backwards, "111, which is after its last, 99"),
        (record(Some(json!("{\"Records\":"))), "payload cannot be applied"),
        (record(Some(json!("{}"))), "no `Records`"),
        (record(Some(json!({ "Records": [{ "eventSource": "aws:sqs" }] }))), "`aws:sqs`"),
        (record(Some(event(&other))), "table/U"),
    ];
    for (json, words) in said {
        let error = parse(&json).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let whole = record(Some(json!(event(STREAM).to_string()))).to_string();
    assert_eq!(DiscardedBatch::parse(" \n"), Err(DiscardedFault::Empty));
    for end in [1, whole.len() / 2, whole.len() - 1] {
        let error = DiscardedBatch::parse(&whole[..end]).unwrap_err();
        assert!(matches!(error, DiscardedFault::NotJson(_)), "{end}: {error}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = DiscardedBatch::parse(&String::from_utf8_lossy(&bytes));
    }

    /// Bytes of a real one that were changed, cut out or doubled.
    #[test]
    fn no_damage_makes_it_panic(cut in 0..900usize, length in 0..40usize, put in prop::collection::vec(any::<u8>(), 0..20)) {
        let mut bytes = record(Some(json!(event(STREAM).to_string()))).to_string().into_bytes();
        let cut = cut.min(bytes.len());
        let end = (cut + length).min(bytes.len());
        bytes.splice(cut..end, put);
        let _ = DiscardedBatch::parse(&String::from_utf8_lossy(&bytes));
    }
}
