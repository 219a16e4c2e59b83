//! A queue with a message for each batch that was given up.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;

use super::{CloudError, config, failed};

const FIND_RIGHTS: &str = "sqs:GetQueueUrl";
const READ_RIGHTS: &str = "sqs:ReceiveMessage, and kms:Decrypt with the queue's key";
const HOLD_RIGHTS: &str = "sqs:ChangeMessageVisibility";
const DELETE_RIGHTS: &str = "sqs:DeleteMessage";
/// Waiting at all makes the service ask all of its machines, so that an empty answer means an empty queue.
const WAIT_SECONDS: i32 = 2;

/// A queue, and what was received of it.
#[derive(Debug, Clone)]
pub struct DeadLetterQueue {
    client: Client,
    url: String,
    /// Others do not see a message for so long after it was received or held, in seconds.
    pub hidden_seconds: i32,
    received: BTreeSet<String>,
}

/// A message as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub id: String,
    pub body: String,
    receipt: String,
}

impl DeadLetterQueue {
    pub const SCHEME: &'static str = "sqs://";

    /// `sqs://NAME`, or the queue's URL, which is taken as it is.
    ///
    /// # Errors
    /// No queue is named, there is none, or no Region is set.
    pub async fn open<E: Display>(
        address: &str,
        look: impl AsyncFnOnce(&SdkConfig) -> Result<(), E>,
    ) -> Result<DeadLetterQueue, CloudError> {
        let client = Client::new(&config(look).await?);
        let url = match address.strip_prefix(DeadLetterQueue::SCHEME) {
            None => address.to_owned(),
            Some(name) => find(&client, address, name).await?,
        };
        Ok(DeadLetterQueue::new(client, url))
    }

    /// The queue of that URL.
    pub fn new(client: Client, url: impl Into<String>) -> DeadLetterQueue {
        DeadLetterQueue { client, url: url.into(), hidden_seconds: 300, received: BTreeSet::new() }
    }

    /// How often a message must be [`hold`](DeadLetterQueue::hold)-ed while it is worked on.
    pub fn hold_every(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.hidden_seconds / 3).unwrap_or_default().max(1))
    }

    /// The next message that was not received before; `None`: the queue has no more that can be seen.
    ///
    /// # Errors
    /// [`CloudError`].
    pub async fn receive(&mut self) -> Result<Option<Message>, CloudError> {
        // What was left because it could not be done may come again before the last of the others.
        for _ in 0..=self.received.len() {
            match self.receive_any().await? {
                Some(message) if !self.received.insert(message.id.clone()) => {}
                other => return Ok(other),
            }
        }
        Ok(None)
    }

    async fn receive_any(&self) -> Result<Option<Message>, CloudError> {
        let request = self
            .client
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(1)
            .visibility_timeout(self.hidden_seconds)
            .wait_time_seconds(WAIT_SECONDS);
        let answer = request.send().await.map_err(|error| failed(&error, self.shown(), READ_RIGHTS))?;
        let Some(message) = answer.messages.unwrap_or_default().into_iter().next() else { return Ok(None) };
        Ok(Some(Message {
            id: message.message_id.unwrap_or_default(),
            body: message.body.unwrap_or_default(),
            receipt: message.receipt_handle.unwrap_or_default(),
        }))
    }

    fn shown(&self) -> String {
        format!("queue `{}`", self.url)
    }

    /// Keeps the message from others for another while.
    ///
    /// # Errors
    /// [`CloudError`].
    pub async fn hold(&self, message: &Message) -> Result<(), CloudError> {
        self.hide(message, self.hidden_seconds).await
    }

    /// Lets others have the message at once.
    ///
    /// # Errors
    /// [`CloudError`]; then they have it after a while.
    pub async fn release(&self, message: &Message) -> Result<(), CloudError> {
        self.hide(message, 0).await
    }

    async fn hide(&self, message: &Message, seconds: i32) -> Result<(), CloudError> {
        let request = self.client.change_message_visibility().queue_url(&self.url);
        let request = request.receipt_handle(&message.receipt).visibility_timeout(seconds);
        request.send().await.map(|_| ()).map_err(|error| failed(&error, self.shown(), HOLD_RIGHTS))
    }

    /// # Errors
    /// [`CloudError`]; then the message comes again.
    pub async fn delete(&self, message: &Message) -> Result<(), CloudError> {
        let request = self.client.delete_message().queue_url(&self.url).receipt_handle(&message.receipt);
        request.send().await.map(|_| ()).map_err(|error| failed(&error, self.shown(), DELETE_RIGHTS))
    }
}

async fn find(client: &Client, address: &str, name: &str) -> Result<String, CloudError> {
    if name.is_empty() || name.contains('/') {
        let fault = "names no queue; write sqs://NAME, or the queue's URL";
        return Err(CloudError::Address { address: address.to_owned(), fault });
    }
    let found = client.get_queue_url().queue_name(name).send().await;
    let found = found.map_err(|error| failed(&error, format!("queue `{name}`"), FIND_RIGHTS))?;
    found.queue_url.ok_or_else(|| CloudError::NotThere(format!("queue `{name}`")))
}
