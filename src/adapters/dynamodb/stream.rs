//! A table's stream, as the engine's [`StreamSource`].
//!
//! A listing of shards that ends early, or an error taken for the end of a shard, loses records without a trace. So every
//! page of the description is read, a shard ends only when there is no next iterator, and every error says what is known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodbstreams::Client;
use aws_sdk_dynamodbstreams::types::{Record, ShardIteratorType};
use chrono::{DateTime, Utc};

use super::connection::Connection;
use super::convert::stream;
use super::errors::stream_error;
use super::usage::{Call, Usage};
use crate::engine::ports::{
    RecordPage, ShardIterator, ShardListing, ShardStart, StoreError, StreamDescription, StreamError, StreamSource,
};
use crate::model::change::{RawRecord, SequenceNumber};

/// Shortest sequence number that the service takes; shorter ones, which have lost leading zeros, are filled up to it.
const SEQUENCE_LENGTH_MIN: usize = 21;

/// One stream. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DynamoStream {
    client: Client,
    usage: Arc<Usage>,
    /// Of the stream that was described last.
    arn: Arc<Mutex<String>>,
    /// Asked with each description which stream it writes to; `None`: this one stream and no other.
    table: Option<(Connection, String)>,
}

impl DynamoStream {
    /// The stream of that ARN: also one that its table has disabled since, which stays readable for a day.
    pub fn new(connection: &Connection, arn: impl Into<String>) -> DynamoStream {
        let client = aws_sdk_dynamodbstreams::Client::new(connection.config());
        let usage = Arc::clone(&connection.usage);
        DynamoStream { client, usage, arn: Arc::new(Mutex::new(arn.into())), table: None }
    }

    /// The stream that the table writes to, also when that becomes another one because it was switched off and on: each description
    /// tells. Fails with [`StreamError::NoStream`] where none is enabled.
    pub async fn of_table(connection: &Connection, table: &str) -> Result<DynamoStream, StreamError> {
        let arn = current(connection, table).await?.ok_or(StreamError::NoStream)?;
        let table = Some((connection.clone(), table.to_owned()));
        Ok(DynamoStream { table, ..DynamoStream::new(connection, arn) })
    }

    pub fn arn(&self) -> String {
        self.arn.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The ARN, after a look at the table. A stream that is switched off is read to its end.
    async fn current_arn(&self) -> Result<String, StreamError> {
        if let Some((connection, table)) = &self.table
            && let Some(arn) = current(connection, table).await?
        {
            *self.arn.lock().unwrap_or_else(PoisonError::into_inner) = arn;
        }
        Ok(self.arn())
    }
}

/// The ARN of the stream that the table writes to now.
async fn current(connection: &Connection, table: &str) -> Result<Option<String>, StreamError> {
    let info = connection.describe_table(table).await.map_err(|error| match error {
        StoreError::Unavailable(text) => StreamError::Unavailable(text),
        StoreError::Throttled(text) => StreamError::Throttled(text),
        StoreError::Refused(_) | StoreError::Denied(_) | StoreError::NoTable(_) => {
            StreamError::Refused(error.to_string())
        }
    })?;
    Ok(info.stream_arn)
}

impl StreamSource for DynamoStream {
    async fn describe(&self) -> Result<StreamDescription, StreamError> {
        let mut shards: BTreeMap<String, ShardListing> = BTreeMap::new();
        let mut after: Option<String> = None;
        let mut asked = BTreeSet::new();
        let arn = self.current_arn().await?;
        loop {
            self.usage.count(Call::Describe);
            let request = self.client.describe_stream().stream_arn(&arn).set_exclusive_start_shard_id(after.clone());
            let answer = request.send().await.map_err(|error| stream_error(&error))?;
            let Some(description) = answer.stream_description else {
                return Err(StreamError::Unavailable("an answer without a description".to_owned()));
            };
            for shard in description.shards.unwrap_or_default() {
                let Some(id) = shard.shard_id else {
                    return Err(StreamError::Unavailable("a listed shard has no id".to_owned()));
                };
                let parent = shard.parent_shard_id.filter(|parent| !parent.is_empty());
                shards.insert(id.clone(), ShardListing { id, parent });
            }
            let Some(last) = description.last_evaluated_shard_id.filter(|id| !id.is_empty()) else {
                return Ok(StreamDescription { arn, shards: shards.into_values().collect() });
            };
            // Pages are in no order that could be relied on, so a circle shows only by an id that comes again.
            if !asked.insert(last.clone()) {
                return Err(StreamError::Unavailable("the listing of shards does not advance".to_owned()));
            }
            after = Some(last);
        }
    }

    async fn iterator(&self, shard: &str, start: &ShardStart) -> Result<ShardIterator, StreamError> {
        let request = self.client.get_shard_iterator().stream_arn(self.arn()).shard_id(shard);
        let number = |sequence: &SequenceNumber| format!("{:0>SEQUENCE_LENGTH_MIN$}", sequence.to_string());
        let request = match start {
            ShardStart::TrimHorizon => request.shard_iterator_type(ShardIteratorType::TrimHorizon),
            ShardStart::After(last) => {
                request.shard_iterator_type(ShardIteratorType::AfterSequenceNumber).sequence_number(number(last))
            }
            ShardStart::At(first) => {
                request.shard_iterator_type(ShardIteratorType::AtSequenceNumber).sequence_number(number(first))
            }
        };
        self.usage.count(Call::Iterator);
        let answer = request.send().await.map_err(|error| stream_error(&error))?;
        let iterator = answer.shard_iterator.filter(|iterator| !iterator.is_empty());
        iterator.map(ShardIterator).ok_or_else(|| StreamError::Unavailable("an answer without an iterator".to_owned()))
    }

    async fn records(&self, iterator: &ShardIterator) -> Result<RecordPage, StreamError> {
        self.usage.count(Call::Records);
        let request = self.client.get_records().shard_iterator(&iterator.0);
        let answer = request.send().await.map_err(|error| stream_error(&error))?;
        Ok(RecordPage {
            records: answer.records.unwrap_or_default().into_iter().map(raw_record).collect(),
            next: answer.next_shard_iterator.filter(|next| !next.is_empty()).map(ShardIterator),
        })
    }
}

/// Nothing is judged here: what is missing or unreadable stays so, and the engine puts it aside under its sequence number.
fn raw_record(record: Record) -> RawRecord {
    let mut raw = RawRecord {
        event_name: record.event_name.map(|name| name.as_str().to_owned()),
        event_id: record.event_id,
        principal: record.user_identity.and_then(|identity| identity.principal_id),
        ..RawRecord::default()
    };
    if let Some(content) = record.dynamodb {
        raw.sequence = content.sequence_number;
        raw.keys = content.keys.map(stream::item);
        raw.new_image = content.new_image.map(stream::item);
        raw.old_image = content.old_image.map(stream::item);
        raw.created_at = content
            .approximate_creation_date_time
            .and_then(|time| DateTime::<Utc>::from_timestamp(time.secs(), time.subsec_nanos()));
    }
    raw
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use aws_sdk_dynamodbstreams::primitives::DateTime as SdkDateTime;
    use aws_sdk_dynamodbstreams::types::{AttributeValue, OperationType, StreamRecord};

    use super::*;

    #[test]
    fn an_unreadable_image_does_not_take_the_record_with_it() {
        let image = HashMap::from([("n".to_owned(), AttributeValue::N("1e999".to_owned()))]);
        let keys = HashMap::from([("PK".to_owned(), AttributeValue::S("a".to_owned()))]);
        let content = StreamRecord::builder()
            .set_keys(Some(keys))
            .set_new_image(Some(image))
            .sequence_number("111")
            .approximate_creation_date_time(SdkDateTime::from_secs(1_767_225_600))
            .build();
        let raw = raw_record(Record::builder().event_name(OperationType::Insert).dynamodb(content).build());
        assert_eq!((raw.event_name.as_deref(), raw.sequence.as_deref()), (Some("INSERT"), Some("111")));
        assert!(raw.keys.unwrap().is_ok());
        assert!(raw.new_image.unwrap().unwrap_err().contains("\"n\""));
        assert_eq!(raw.created_at.unwrap().to_rfc3339(), "2026-01-01T00:00:00+00:00");
    }

    #[test]
    fn an_empty_record_stays_empty() {
        assert_eq!(raw_record(Record::builder().build()), RawRecord::default());
    }
}
