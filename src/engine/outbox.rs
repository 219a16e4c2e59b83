//! The outbox: notifications that are decided and not yet delivered.
//!
//! A row is written in the same transaction as the alert that decided it, so neither exists without the other. Delivery sends and
//! then deletes the row: at least once. A receiver that must not see a message twice keeps the ids it has seen; the same message
//! always has the same id.

use chrono::{DateTime, Utc};

use super::checkpoint::write_state;
use super::patience::Patience;
use super::ports::{Clock, Notification, Sink, SortRange, Store, StoreError, TransactError};
use super::scan::Pages;
use crate::model::decimal::Decimal;
use crate::model::time::{instant, timestamp};
use crate::model::value::{Item, Value};
use crate::plan::state;
use crate::plan::write::{Condition, Op, TableRef, Write};

/// Attempts to send one message in one delivery; the next delivery tries again.
const SENDING: Patience = Patience { attempts_max: 3, ..Patience::SHORT };

/// What a delivery came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delivery {
    pub sent: Vec<Notification>,
    /// Messages that stay in the outbox, and why.
    pub undelivered: Vec<Undelivered>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered {
    pub id: String,
    pub reason: String,
}

/// The put of a notification's row. The row of the same id, if it is still there, is the same message.
pub fn enqueue(notification: &Notification, now: DateTime<Utc>) -> Write {
    let key = state::outbox_key(&notification.id);
    let item = key
        .to_item(&state::key_names())
        .with("Expiry", Value::text(&notification.expiry))
        .with("Subject", Value::text(&notification.subject))
        .with("State", Value::text(&notification.state))
        .with("ThresholdDays", Value::N(Decimal::from(notification.threshold_days)))
        .with("Date", Value::text(&notification.date))
        .with("Due", Value::S(timestamp(notification.due).into()))
        .with("Message", Value::text(&notification.message))
        .with("CreatedAt", Value::S(timestamp(now).into()));
    let item = match &notification.owner {
        Some(owner) => item.with("Owner", Value::text(owner)),
        None => item,
    };
    Write { table: TableRef::State, key, op: Op::Put(item.into()), condition: Condition::Always }
}

/// Reads a row; `None` where an attribute is missing or malformed.
pub fn decode(item: &Item) -> Option<Notification> {
    let text = |name: &str| item.text(name).map(str::to_owned);
    Some(Notification {
        id: text(state::SORT)?,
        expiry: text("Expiry")?,
        subject: text("Subject")?,
        owner: text("Owner"),
        state: text("State")?,
        threshold_days: item.number("ThresholdDays")?.to_plain().parse().ok()?,
        date: text("Date")?,
        due: instant(item.text("Due")?)?,
        message: text("Message")?,
    })
}

/// Sends all that is in the outbox, a page at a time, within a page by due date and subject. A message that cannot be sent, or a row
/// that cannot be read, stays and does not hold up the others.
///
/// # Errors
/// The state table cannot be read, or a delivered row cannot be deleted (it will be sent again, with the same id).
pub async fn deliver<S: Store, C: Clock, K: Sink>(store: &S, clock: &C, sink: &K) -> Result<Delivery, OutboxError> {
    let mut delivery = Delivery::default();
    let mut pages = Pages::of_partition(TableRef::State, Value::text(state::OUTBOX), SortRange::All);
    while let Some(items) = pages.next(store, clock).await.map_err(OutboxError::Read)? {
        let mut notifications = Vec::new();
        for item in &items {
            match decode(item) {
                Some(notification) => notifications.push(notification),
                None => delivery.undelivered.push(Undelivered {
                    id: item.text(state::SORT).unwrap_or_default().to_owned(),
                    reason: "the outbox row cannot be read; delete it".to_owned(),
                }),
            }
        }
        notifications.sort_by(|a, b| (a.due, &a.subject, &a.id).cmp(&(b.due, &b.subject, &b.id)));
        for notification in notifications {
            deliver_one(store, clock, sink, notification, &mut delivery).await?;
        }
    }
    Ok(delivery)
}

async fn deliver_one<S: Store, C: Clock, K: Sink>(
    store: &S,
    clock: &C,
    sink: &K,
    notification: Notification,
    delivery: &mut Delivery,
) -> Result<(), OutboxError> {
    let sent = SENDING.repeat(clock, || sink.send(&notification), |_| true).await;
    if let Err(error) = sent {
        delivery.undelivered.push(Undelivered { id: notification.id, reason: error.to_string() });
        return Ok(());
    }
    let key = state::outbox_key(&notification.id);
    let delete = Write { table: TableRef::State, key, op: Op::Delete, condition: Condition::Always };
    write_state(store, clock, &[delete]).await.map_err(OutboxError::Write)?;
    delivery.sent.push(notification);
    Ok(())
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OutboxError {
    #[error("the outbox cannot be read")]
    Read(#[source] StoreError),
    #[error("a delivered notification cannot be removed from the outbox and will be sent again")]
    Write(#[source] TransactError),
}
