//! A topic of Amazon SNS.
//!
//! One message for all who subscribe, whatever they are: mail and text messages get the readable line, queues, functions and
//! webhooks the notification's JSON, as `sweep --notify-file` writes it. Attributes serve filter policies. A FIFO topic drops what
//! comes again within five minutes by the notification's id; others do not, which is what the id in the message is for.

use aws_config::SdkConfig;
use aws_sdk_sns::Client;
use aws_sdk_sns::types::MessageAttributeValue;
use serde_json::json;

use super::readable;
use crate::engine::ports::{Notification, Sink, SinkError};
use crate::engine::telemetry::explain;

/// Most characters of a mail's subject line; SNS takes ASCII only.
const SUBJECT_MAX: usize = 100;

/// Publishes to one topic.
#[derive(Debug, Clone)]
pub struct TopicSink {
    client: Client,
    arn: String,
}

impl TopicSink {
    /// `arn` names the topic; sends nothing yet.
    pub fn new(config: &SdkConfig, arn: &str) -> TopicSink {
        TopicSink { client: Client::new(config), arn: arn.to_owned() }
    }
}

impl Sink for TopicSink {
    async fn send(&self, notification: &Notification) -> Result<(), SinkError> {
        let fault = |error: &(dyn std::error::Error + 'static)| SinkError(explain(error, false));
        let mut request = self
            .client
            .publish()
            .topic_arn(&self.arn)
            .message_structure("json")
            .message(message(notification)?)
            .subject(subject(notification));
        for (name, value) in attributes(notification) {
            let value = MessageAttributeValue::builder().data_type("String").string_value(value).build();
            request = request.message_attributes(name, value.map_err(|error| fault(&error))?);
        }
        if self.arn.ends_with(".fifo") {
            request = request.message_group_id(&notification.expiry).message_deduplication_id(&notification.id);
        }
        request.send().await.map(|_| ()).map_err(|error| fault(&error))
    }
}

/// The message for each kind of subscriber.
fn message(notification: &Notification) -> Result<String, SinkError> {
    let line = readable(notification);
    let data = serde_json::to_string(notification).map_err(|error| SinkError(error.to_string()))?;
    Ok(json!({
        "default": line,
        "email": line,
        "sqs": data,
        "lambda": data,
        "http": data,
        "https": data,
        "firehose": data,
    })
    .to_string())
}

fn subject(notification: &Notification) -> String {
    let shown = |c: char| if c.is_ascii() { c } else { '?' };
    readable(notification).chars().map(shown).take(SUBJECT_MAX).collect()
}

fn attributes(notification: &Notification) -> Vec<(&'static str, &str)> {
    let Notification { state, expiry, id, owner, .. } = notification;
    // An attribute's value may be neither empty nor any character.
    let owner = owner.as_deref().filter(|owner| !owner.is_empty() && !owner.contains(char::is_control));
    let mut attributes = vec![("state", state.as_str()), ("expiry", expiry), ("id", id)];
    attributes.extend(owner.map(|owner| ("owner", owner)));
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::sinks::tests::notification;

    #[test]
    fn people_get_a_line_and_programs_get_json() {
        let sent = notification("José\n");
        let message: serde_json::Value = serde_json::from_str(&message(&sent).unwrap()).unwrap();
        assert_eq!(
            message["default"],
            r"[upcoming] certificate of José\n expires in 30 days, 2026-12-31 (to manager001)"
        );
        assert_eq!(message["email"], message["default"]);
        for protocol in ["sqs", "lambda", "http", "https", "firehose"] {
            let text = message[protocol].as_str().unwrap();
            assert_eq!(serde_json::from_str::<Notification>(text).unwrap(), sent, "{protocol}");
        }
    }

    #[test]
    fn subjects_and_attributes_are_what_sns_takes() {
        let long = notification(&"José\n".repeat(60));
        let subject = subject(&long);
        assert!(subject.len() == SUBJECT_MAX && subject.is_ascii() && !subject.contains(char::is_control), "{subject}");
        assert!(subject.starts_with("[upcoming] certificate of Jos?"), "{subject}");
        let mut sent = notification("a");
        let names = |sent: &Notification| attributes(sent).iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(names(&sent), ["state", "expiry", "id", "owner"]);
        for owner in [None, Some(""), Some("a\nb")] {
            sent.owner = owner.map(str::to_owned);
            assert_eq!(names(&sent), ["state", "expiry", "id"]);
        }
    }
}
