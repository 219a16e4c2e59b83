//! Stream records and events as a mapping writes them.

use tablekeeper::model::change::RawRecord;
use tablekeeper::model::value::Item;

/// The record as a mapping would deliver it.
pub fn wire(record: &RawRecord) -> String {
    let image = |name: &str, image: &Option<Result<Item, String>>| match image {
        Some(Ok(item)) => format!(",\"{name}\":{}", serde_json::to_string(item).unwrap()),
        _ => String::new(),
    };
    let principal = |name: &String| format!("\"userIdentity\":{{\"type\":\"Service\",\"principalId\":\"{name}\"}},");
    format!(
        "{{\"eventID\":\"{}\",\"eventName\":\"{}\",\"eventSource\":\"aws:dynamodb\",{}\"dynamodb\":{{\
         \"ApproximateCreationDateTime\":1.7E9,\"SequenceNumber\":\"{}\"{}{}{}}}}}",
        record.event_id.as_deref().unwrap_or_default(),
        record.event_name.as_deref().unwrap_or_default(),
        record.principal.as_ref().map(principal).unwrap_or_default(),
        record.sequence.as_deref().unwrap_or_default(),
        image("Keys", &record.keys),
        image("NewImage", &record.new_image),
        image("OldImage", &record.old_image),
    )
}

/// A plain event.
pub fn event(records: &[String]) -> String {
    format!("{{\"Records\":[{}]}}", records.join(","))
}

/// An event of a mapping with tumbling windows that carries this state, JSON of texts.
pub fn windowed(records: &[String], state: &str) -> String {
    format!(
        "{{\"Records\":[{}],\"window\":{{\"start\":\"2026-03-10T08:00:00Z\",\"end\":\"2026-03-10T08:02:00Z\"}},\"state\":{state},\
         \"shardId\":\"shardId-0\",\"eventSourceARN\":\"arn\",\"isFinalInvokeForWindow\":false,\"isWindowTerminatedEarly\":false}}",
        records.join(",")
    )
}
