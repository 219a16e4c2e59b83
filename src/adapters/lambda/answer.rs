//! What the function tells the event source mapping: how far a batch is durable.

use aws_lambda_events::dynamodb::TimeWindowEventResponse;
use aws_lambda_events::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use aws_lambda_events::time_window::TimeWindowEventResponseProperties;
use serde::Serialize;

use crate::model::change::SequenceNumber;
use crate::model::event::StreamEvent;

/// Whether the mapping reads `batchItemFailures`. One that does not takes every answer for success, and what the answer
/// names as failed would never come again; a function cannot see which kind it serves, so it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reporting {
    /// The mapping has `FunctionResponseTypes: [ReportBatchItemFailures]`.
    #[default]
    ItemFailures,
    /// It has not: a batch succeeds or fails as a whole.
    WholeBatch,
}

/// The answer in the form that the event's mapping reads. Empty failures mean that all of the batch is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    Plain(DynamoDbEventResponse),
    /// Mappings with tumbling windows want their state back.
    Windowed(TimeWindowEventResponse),
}

impl Answer {
    /// What is named as not durable.
    pub fn failures(&self) -> &[DynamoDbBatchItemFailure] {
        match self {
            Answer::Plain(response) => &response.batch_item_failures,
            Answer::Windowed(response) => &response.batch_item_failures,
        }
    }
}

/// No part of the batch may be called done; the invocation must fail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nothing of the batch is reported durable: {0}; the mapping delivers it again")]
pub struct NothingDurable(pub String);

impl StreamEvent {
    /// The answer when everything is durable.
    pub fn done(&self) -> Answer {
        self.answer_with(None)
    }

    fn answer_with(&self, failed: Option<&str>) -> Answer {
        let failure = |identifier: &str| {
            let mut failure = DynamoDbBatchItemFailure::default();
            // Exactly as the event spells it: Lambda looks the number up by its text.
            failure.item_identifier = Some(identifier.to_owned());
            failure
        };
        let mut plain = DynamoDbEventResponse::default();
        plain.batch_item_failures = failed.into_iter().map(failure).collect();
        let Some(state) = &self.state else { return Answer::Plain(plain) };
        let mut windowed = TimeWindowEventResponse::default();
        let mut properties = TimeWindowEventResponseProperties::default();
        properties.state.clone_from(state);
        windowed.time_window_event_response_properties = properties;
        windowed.batch_item_failures = plain.batch_item_failures;
        Answer::Windowed(windowed)
    }

    /// The answer when the records before position `failed` are durable and that one is not. It and all after it come again, which
    /// is why one failure is enough. It is an error where the batch has to fail as a whole: nothing is durable, no number can
    /// say from where on, or the mapping does not read failures. `reason` is for that error's message.
    pub fn answer(&self, failed: usize, reporting: Reporting, reason: &str) -> Result<Answer, NothingDurable> {
        let nothing = || NothingDurable(reason.to_owned());
        if reporting == Reporting::WholeBatch || failed >= self.records.len() {
            return Err(nothing());
        }
        let number = |at: &usize| -> Option<(SequenceNumber, &str)> {
            let text = self.records[*at].sequence.as_deref()?;
            Some((text.parse().ok()?, text))
        };
        // A record without a number cannot be named; then the nearest before it, though durable, comes again too.
        let from = (1..=failed).rev().find(|at| number(at).is_some()).ok_or_else(nothing)?;
        // Mappings deliver in the stream's order; if one did not, the lowest number would still be the safe one.
        let lowest = (from..self.records.len()).filter_map(|at| number(&at)).min().ok_or_else(nothing)?;
        Ok(self.answer_with(Some(lowest.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of different lengths, in stream order: as text they would sort otherwise.
    const NUMBERS: [&str; 3] = ["20500000000000000910398", "820400000000000001192334", "1683700000000000001135967"];

    fn event(sequences: &[&str], rest: &str) -> StreamEvent {
        let record = |number: &&str| format!(r#"{{"eventName":"INSERT","dynamodb":{{"SequenceNumber":"{number}"}}}}"#);
        let records: Vec<String> = sequences.iter().map(record).collect();
        StreamEvent::parse(&format!("{{\"Records\":[{}]{rest}}}", records.join(","))).unwrap()
    }

    fn named(sequences: &[&str], failed: usize) -> Option<String> {
        let event = event(sequences, "");
        let answer = event.answer(failed, Reporting::ItemFailures, "x").ok()?;
        assert_eq!(answer.failures().len(), 1);
        answer.failures()[0].item_identifier.clone()
    }

    #[test]
    fn all_done_is_an_empty_list() {
        assert_eq!(serde_json::to_string(&event(&NUMBERS, "").done()).unwrap(), r#"{"batchItemFailures":[]}"#);
        let windowed = serde_json::to_string(&event(&NUMBERS, r#","state":{"a":"b"}"#).done()).unwrap();
        assert_eq!(windowed, r#"{"state":{"a":"b"},"batchItemFailures":[]}"#);
    }

    #[test]
    fn a_failure_in_the_middle_is_named_as_the_event_spells_it() {
        assert_eq!(named(&NUMBERS, 1).as_deref(), Some(NUMBERS[1]));
        assert_eq!(named(&NUMBERS, 2).as_deref(), Some(NUMBERS[2]));
        assert_eq!(named(&["1", "0002", "3"], 1).as_deref(), Some("0002"));
    }

    #[test]
    fn never_more_is_claimed_than_is_durable() {
        // Out of order: 2 would be passed over if 3 were named.
        assert_eq!(named(&["1", "3", "2"], 1).as_deref(), Some("2"));
        // The failed record has no number: the one before it comes again.
        assert_eq!(named(&["1", "2", "none", "4"], 2).as_deref(), Some("2"));
        assert_eq!(named(&["none", "none", "3"], 1), None);
    }

    #[test]
    fn nothing_durable_fails_the_invocation() {
        let event = event(&NUMBERS, "");
        for (failed, reporting) in
            [(0, Reporting::ItemFailures), (3, Reporting::ItemFailures), (1, Reporting::WholeBatch)]
        {
            let error = event.answer(failed, reporting, "the table throttles").unwrap_err();
            assert!(error.to_string().contains("the table throttles"));
        }
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
}
