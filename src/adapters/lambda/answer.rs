//! What the function tells the event source mapping: how far a batch is durable.

use serde::Serialize;
use serde_json::value::RawValue;

use super::event::StreamEvent;
use crate::model::change::SequenceNumber;

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

/// The answer: empty failures mean that all of the batch is durable.
#[derive(Debug, Serialize)]
pub struct Answer<'a> {
    #[serde(rename = "batchItemFailures")]
    pub failures: Vec<ItemFailure<'a>>,
    /// Windowed events want their state back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'a RawValue>,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct ItemFailure<'a> {
    /// A sequence number exactly as the event has it.
    #[serde(rename = "itemIdentifier")]
    pub identifier: &'a str,
}

/// No part of the batch may be called done; the invocation must fail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nothing of the batch is reported durable: {0}; the mapping delivers it again")]
pub struct NothingDurable(pub String);

impl StreamEvent {
    /// The answer when everything is durable.
    pub fn done(&self) -> Answer<'_> {
        Answer { failures: Vec::new(), state: self.state.as_deref() }
    }

    /// The answer when everything below `lowest_failed` is durable. That record and all after it come again, which is why one
    /// failure is enough. It is an error where the batch has to fail as a whole: the number is unknown, belongs to the first
    /// record or to none, or the mapping does not read failures. `reason` is for that error's message.
    pub fn answer(
        &self,
        lowest_failed: Option<&SequenceNumber>,
        reporting: Reporting,
        reason: &str,
    ) -> Result<Answer<'_>, NothingDurable> {
        let nothing = || NothingDurable(reason.to_owned());
        let failed = lowest_failed.ok_or_else(nothing)?;
        if reporting == Reporting::WholeBatch {
            return Err(nothing());
        }
        let numbered = self.records.iter().filter_map(|record| {
            let text = record.sequence.as_deref()?;
            Some((text.parse::<SequenceNumber>().ok()?, text))
        });
        let mut numbers: Vec<(SequenceNumber, &str)> = numbered.collect();
        numbers.sort();
        match numbers.binary_search_by(|(number, _)| number.cmp(failed)) {
            Err(_) => Err(nothing()),
            Ok(at) if numbers[..at].iter().all(|(number, _)| number == failed) => Err(nothing()),
            Ok(at) => {
                Ok(Answer { failures: vec![ItemFailure { identifier: numbers[at].1 }], state: self.state.as_deref() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of different lengths, in stream order: as text they would sort otherwise.
    const NUMBERS: [&str; 3] = ["20500000000000000910398", "820400000000000001192334", "1683700000000000001135967"];

    fn event(rest: &str) -> StreamEvent {
        let record = |number: &str| format!(r#"{{"eventName":"INSERT","dynamodb":{{"SequenceNumber":"{number}"}}}}"#);
        let records: Vec<String> = NUMBERS.iter().map(|number| record(number)).chain(["{}".to_owned()]).collect();
        StreamEvent::parse(&format!("{{\"Records\":[{}]{rest}}}", records.join(","))).unwrap()
    }

    fn number(text: &str) -> SequenceNumber {
        text.parse().unwrap()
    }

    #[test]
    fn all_done_is_an_empty_list() {
        assert_eq!(serde_json::to_string(&event("").done()).unwrap(), r#"{"batchItemFailures":[]}"#);
        let windowed = serde_json::to_string(&event(r#","state":{"a":"b"}"#).done()).unwrap();
        assert_eq!(windowed, r#"{"batchItemFailures":[],"state":{"a":"b"}}"#);
    }

    #[test]
    fn a_failure_in_the_middle_is_named_as_the_event_spells_it() {
        let event = event("");
        for text in &NUMBERS[1..] {
            let answer = event.answer(Some(&number(&format!("000{text}"))), Reporting::ItemFailures, "x").unwrap();
            assert_eq!(answer.failures, [ItemFailure { identifier: text }]);
        }
    }

    #[test]
    fn nothing_durable_fails_the_invocation() {
        let event = event("");
        let unknown = number("5");
        for (failed, reporting) in [
            (None, Reporting::ItemFailures),
            (Some(&number(NUMBERS[0])), Reporting::ItemFailures),
            (Some(&unknown), Reporting::ItemFailures),
            (Some(&number(NUMBERS[1])), Reporting::WholeBatch),
        ] {
            let error = event.answer(failed, reporting, "the table throttles").unwrap_err();
            assert!(error.to_string().contains("the table throttles"));
        }
    }
}
