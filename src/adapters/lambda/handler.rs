//! One invocation: an event in, an answer out.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::answer::{Answer, NothingDurable, Reporting};
use crate::model::change::RawRecord;
use crate::model::event::{EventFault, StreamEvent};

/// A task gets this much even where Lambda's deadline seems to have passed.
const TIME_MIN: Duration = Duration::from_secs(1);

/// Its begin, in milliseconds since 1970.
const THIS_CENTURY: i64 = 978_307_200_000;

/// Why an invocation fails; the mapping delivers its batch again.
#[derive(Debug, thiserror::Error)]
pub enum InvocationError {
    #[error(transparent)]
    Event(#[from] EventFault),
    #[error(transparent)]
    NothingDurable(#[from] NothingDurable),
    #[error("the batch was not applied within {0:?}; give the function more time or the mapping smaller batches")]
    Timeout(Duration),
}

impl InvocationError {
    /// Stable name of the kind of error, for alarms and log queries.
    pub fn code(&self) -> &'static str {
        match self {
            InvocationError::Event(_) => "not-a-stream-event",
            InvocationError::NothingDurable(_) => "nothing-durable",
            InvocationError::Timeout(_) => "timeout",
        }
    }
}

/// What is left of an invocation's time, less what is kept back to answer and to log in. `deadline` is Lambda's, in milliseconds since
/// 1970; clocks differ, so where it seems to have passed there is a second all the same. What is no instant of this century is a time
/// itself: so cargo-lambda's emulator has it.
pub fn time_left(deadline: u64, now: DateTime<Utc>, reserved: Duration) -> Duration {
    let deadline = i64::try_from(deadline).unwrap_or(i64::MAX);
    let left = if deadline < THIS_CENTURY { deadline } else { deadline.saturating_sub(now.timestamp_millis()) };
    Duration::from_millis(left.try_into().unwrap_or(0)).saturating_sub(reserved).max(TIME_MIN)
}

/// How far applying a batch came before it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Position in the batch of the first record that is not durable.
    pub position: usize,
    pub reason: String,
}

/// Decodes the payload, has its records applied, and says how far they are durable. `time_left` ends the applying: a function that
/// Lambda stops in the middle says nothing and starts cold, while what this one committed is found in the ledger all the same.
pub async fn handle(
    payload: &str,
    reporting: Reporting,
    time_left: Duration,
    apply: impl AsyncFnOnce(&[RawRecord]) -> Result<(), Failure>,
) -> Result<Answer, InvocationError> {
    let event = StreamEvent::parse(payload)?;
    // The last event of a window has no records.
    let outcome = match event.records.is_empty() {
        true => Ok(()),
        false => {
            let applied = tokio::time::timeout(time_left, apply(&event.records)).await;
            applied.map_err(|_| InvocationError::Timeout(time_left))?
        }
    };
    match outcome {
        Ok(()) => Ok(event.done()),
        Err(failure) => Ok(event.answer(failure.position, reporting, &failure.reason)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"Records":[{"eventName":"INSERT","dynamodb":{"SequenceNumber":"111"}},
        {"eventName":"INSERT","dynamodb":{"SequenceNumber":"222"}}]}"#;
    const MINUTE: Duration = Duration::from_secs(60);

    fn json(answer: &Answer) -> String {
        serde_json::to_string(answer).unwrap()
    }

    fn failure(position: usize) -> Result<(), Failure> {
        Err(Failure { position, reason: "throttled".to_owned() })
    }

    #[tokio::test]
    async fn records_are_applied_and_the_answer_says_how_far() {
        let answer = |result: Result<(), Failure>| async move {
            let apply = async |records: &[RawRecord]| {
                assert_eq!(records.len(), 2);
                result
            };
            handle(EVENT, Reporting::ItemFailures, MINUTE, apply).await
        };
        assert_eq!(json(&answer(Ok(())).await.unwrap()), r#"{"batchItemFailures":[]}"#);
        let partial = answer(failure(1)).await.unwrap();
        assert_eq!(json(&partial), r#"{"batchItemFailures":[{"itemIdentifier":"222"}]}"#);
        assert_eq!(answer(failure(0)).await.unwrap_err().code(), "nothing-durable");
    }

    #[tokio::test]
    async fn the_end_of_a_window_applies_nothing_and_hands_back_its_state() {
        let event = r#"{"Records":[],"state":{"a":"b"},"isFinalInvokeForWindow":true}"#;
        let apply = async |_: &[RawRecord]| failure(0);
        let answer = handle(event, Reporting::ItemFailures, MINUTE, apply).await.unwrap();
        assert_eq!(json(&answer), r#"{"state":{"a":"b"},"batchItemFailures":[]}"#);
    }

    #[tokio::test]
    async fn a_batch_that_hangs_fails_before_lambda_stops_the_function() {
        let apply = async |_: &[RawRecord]| std::future::pending().await;
        let error = handle(EVENT, Reporting::ItemFailures, Duration::from_millis(5), apply).await.unwrap_err();
        assert_eq!(error.code(), "timeout");
    }

    #[tokio::test]
    async fn what_is_no_event_is_never_applied() {
        let apply = async |_: &[RawRecord]| unreachable!("nothing to apply");
        let error = handle("{}", Reporting::ItemFailures, MINUTE, apply).await.unwrap_err();
        assert_eq!(error.code(), "not-a-stream-event");
    }

    #[test]
    fn time_is_kept_back_and_never_none_is_left() {
        let now: DateTime<Utc> = "2026-03-01T10:00:00Z".parse().unwrap();
        let at = |seconds: i64| u64::try_from((now.timestamp() + seconds) * 1000).unwrap();
        let left = |seconds| time_left(at(seconds), now, Duration::from_secs(5));
        assert_eq!(left(60), Duration::from_secs(55));
        assert_eq!([left(5), left(-60)], [TIME_MIN; 2]);
        assert_eq!(time_left(600_000, now, Duration::from_secs(5)), Duration::from_secs(595));
        assert!(time_left(u64::MAX, now, TIME_MIN) > Duration::from_secs(1 << 40));
    }
}
