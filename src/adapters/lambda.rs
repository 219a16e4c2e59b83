//! Tablekeeper as functions of AWS Lambda: the stream's events in, partial batch answers out; and what is called by the clock.
//!
//! The problem: an event source mapping repeats a batch until the function says it is done, so an event that cannot be read as a
//! whole blocks its shard for as long as records live. And an answer that claims too much loses records without a word.
//!
//! The contract: an event is read as [`StreamEvent`], which refuses only what is no stream event at all. A record that is damaged
//! becomes a [`RawRecord`](crate::model::change::RawRecord) that says what is damaged, for quarantine; the others are applied.
//! [`StreamEvent::answer`] names the lowest sequence number that is not durable, spelt as the event has it. Where nothing is
//! durable there is no answer: the invocation must fail, which mappings repeat with or without `ReportBatchItemFailures`.
//!
//! A call by the clock ([`Call`]) names one task; it fails where its task does, which Lambda repeats and then reports.
//!
//! Answers and window states are the types of `aws_lambda_events`; its event types are not used, because they cannot tell a
//! damaged record from a damaged batch (see [`crate::model::event`]).

mod answer;
mod call;
mod handler;
pub mod metrics;
mod settings;

pub use answer::{Answer, NothingDurable, Reporting};
pub use call::{Call, CallFault, ScheduleSettings, Task};
pub use handler::{Failure, InvocationError, handle, time_left};
pub use settings::{Deployment, ModelFault, SettingFault, Settings};

#[cfg(doc)]
use crate::model::event::StreamEvent;
