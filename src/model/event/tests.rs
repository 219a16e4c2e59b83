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
        let record =
            changed(&format!("{{\"Keys\":{{\"PK\":{{\"S\":\"a\"}}}},\"NewImage\":{image},\"SequenceNumber\":\"9\"}}"));
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
    assert_eq!(event.state.unwrap(), [("1".to_owned(), "x".to_owned())].into());
    let first = StreamEvent::parse(r#"{"Records":[],"window":{"start":"x","end":"y"}}"#).unwrap();
    assert_eq!(first.state, Some(HashMap::new()));
    // A state that is none of ours is no reason to fail the batch.
    let odd = StreamEvent::parse(r#"{"Records":[],"state":{"1":{"x":1}}}"#).unwrap();
    assert_eq!(odd.state, Some(HashMap::new()));
    assert!(StreamEvent::parse(r#"{"Records":[]}"#).unwrap().state.is_none());
}

#[test]
fn what_is_no_stream_event_is_refused_as_a_whole() {
    assert!(matches!(StreamEvent::parse("{}"), Err(EventFault::NoRecords)));
    assert!(matches!(StreamEvent::parse("{\"Records\":null}"), Err(EventFault::NoRecords)));
    assert!(matches!(StreamEvent::parse("{\"Records\":7}"), Err(EventFault::NotAnEvent { .. })));
    assert!(matches!(StreamEvent::parse("nonsense"), Err(EventFault::NotAnEvent { .. })));
    // What it holds is not told: it ends up in logs.
    let twice = serde_json::to_string(r#"{"Records":[{"dynamodb":{"NewImage":{"Name":{"S":"secret"}}}}]}"#).unwrap();
    for odd in [twice.as_str(), "{\"Records\":\"secret\"}", "secret"] {
        let fault = StreamEvent::parse(odd).unwrap_err().to_string();
        assert!(fault.contains("is not an event") && !fault.contains("secret"), "{fault}");
    }
    let queue = StreamEvent::parse(r#"{"Records":[{"eventSource":"aws:sqs","body":"x"}]}"#).unwrap_err();
    assert!(queue.to_string().contains("aws:sqs"));
}

#[test]
fn where_the_records_come_from_is_told_each_once() {
    let record = |arn: &str| format!("{{\"eventName\":\"INSERT\",\"eventSourceARN\":{arn}}}");
    let streams = |arns: &[&str]| {
        let records: Vec<String> = arns.iter().map(|arn| record(arn)).collect();
        StreamEvent::parse(&format!("{{\"Records\":[{}]}}", records.join(","))).unwrap().streams
    };
    assert_eq!(streams(&[r#""a""#, r#""b""#, r#""a""#, "null"]), ["a", "b"]);
    // An escape is not read the plain way, the rest is the same.
    assert_eq!(streams(&[r#""a""#, r#""\u0062""#, r#""a""#]), ["a", "b"]);
}
