//! The sweep: looks at all dates that fall due, as of an instant, and tells what is to be told.
//!
//! The problem: nothing happens in the stream when a certificate expires, so someone must look; and whoever looks may be started
//! twice, late, or be killed half-way. The contract:
//! - [`sweep`] reads each expiry's rows up to the widest lead, one query an expiry (a scan where the table has no sort key);
//! - what is told of an episode is decided by [`super::alerts`], and its alert row and its outbox row are written in one transaction,
//!   on condition that the alert is still as it was read. So two sweeps at once, or one after another, decide each threshold once;
//! - an open episode whose row is gone is resolved. The row is looked for by its key, not concluded from the range that was read;
//! - then the outbox is delivered: at least once, with stable ids, also what an earlier sweep had to leave there.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Datelike, SecondsFormat, TimeDelta, Utc};

use super::alerts::{Alert, AlertState, Entry, horizon, resolve, tell};
use super::outbox::{OutboxError, Undelivered, deliver, enqueue};
use super::ports::{CancelReason, Clock, Notification, Sink, SortRange, Store, StoreError, TransactError};
use super::scan::{Pages, get, get_one};
use crate::model::key::TableKey;
use crate::model::spec::{Expiry, Model};
use crate::model::value::{Item, MARKER, Value, joined};
use crate::plan::state;
use crate::plan::write::{ACTIONS_MAX, TableRef, Write};

/// Times that one episode is read and decided anew because another sweep changed it.
const ROUNDS_MAX: u32 = 5;
/// Keys read at once.
const KEYS_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepSettings {
    /// False: only look; nothing is written or sent, and `notified` says what would be told.
    pub notify: bool,
    /// Also list entries that fall due within so many days, beyond the widest lead.
    pub list_days: u32,
    /// Days that a resolved alert is remembered, so that an item that becomes active again is not told twice.
    pub remember_days: u32,
}

impl Default for SweepSettings {
    fn default() -> SweepSettings {
        SweepSettings { notify: true, list_days: 0, remember_days: 400 }
    }
}

/// All that a sweep found and did.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepReport {
    pub as_of: DateTime<Utc>,
    /// By due instant, then expiry and subject.
    pub entries: Vec<EntryReport>,
    /// Episodes that this sweep resolved.
    pub resolved: Vec<Resolved>,
    /// Messages delivered now, also those of earlier sweeps.
    pub sent: Vec<Notification>,
    /// Messages that stay in the outbox.
    pub undelivered: Vec<Undelivered>,
    /// Rows that cannot be read: each is one date that nobody is told of.
    pub faults: Vec<String>,
}

/// One entry as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryReport {
    pub expiry: String,
    pub entity: String,
    pub subject: String,
    pub owner: Option<String>,
    pub date: String,
    pub due: DateTime<Utc>,
    /// Civil days to the last valid day; negative after it.
    pub days: i64,
    pub state: AlertState,
    /// The threshold that this sweep tells; `None`: nothing new.
    pub notified: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub expiry: String,
    pub subject: String,
    pub date: String,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SweepError {
    #[error("as of {0}: give an instant between the years 1970 and 9998")]
    AsOf(DateTime<Utc>),
    #[error("the expiries of {expiry} cannot be read")]
    Read { expiry: String, source: StoreError },
    #[error("what is to be told of {expiry} cannot be written; nothing of it was sent")]
    Write { expiry: String, source: TransactError },
    #[error(transparent)]
    Outbox(#[from] OutboxError),
}

/// Looks as of `as_of`, decides, and delivers to `sink`.
///
/// # Errors
/// [`SweepError`]; what was decided before stays in the outbox and is delivered by the next sweep.
pub async fn sweep<S: Store, C: Clock, K: Sink>(
    model: &Model,
    store: &S,
    clock: &C,
    as_of: DateTime<Utc>,
    settings: &SweepSettings,
    sink: &K,
) -> Result<SweepReport, SweepError> {
    // Beyond these, civil days of a zone leave the calendar.
    if !(1970..=9998).contains(&as_of.year()) {
        return Err(SweepError::AsOf(as_of));
    }
    let mut report = SweepReport {
        as_of,
        entries: Vec::new(),
        resolved: Vec::new(),
        sent: Vec::new(),
        undelivered: Vec::new(),
        faults: Vec::new(),
    };
    let look = Look { model, store, clock, as_of, settings };
    for expiry in &model.expiries {
        look.at(expiry, &mut report).await?;
    }
    report.entries.sort_by(|a, b| (a.due, &a.expiry, &a.subject).cmp(&(b.due, &b.expiry, &b.subject)));
    if settings.notify {
        let delivery = deliver(store, clock, sink).await?;
        report.sent = delivery.sent;
        report.undelivered = delivery.undelivered;
    }
    Ok(report)
}

/// What one look at an expiry needs.
struct Look<'a, S, C> {
    model: &'a Model,
    store: &'a S,
    clock: &'a C,
    as_of: DateTime<Utc>,
    settings: &'a SweepSettings,
}

/// An episode that changes: what is written of it, and what is told.
struct Decision {
    episode: String,
    /// Its entry; `None`: gone.
    entry: Option<Entry>,
    alert: Alert,
    notification: Option<Notification>,
}

impl<S: Store, C: Clock> Look<'_, S, C> {
    async fn at(&self, expiry: &Expiry, report: &mut SweepReport) -> Result<(), SweepError> {
        let read = |source| SweepError::Read { expiry: expiry.name.clone(), source };
        let alerts = self.alerts(&expiry.name).await.map_err(read)?;
        let entries = self.entries(expiry, report).await.map_err(read)?;
        let seen: BTreeSet<String> = entries.iter().map(Entry::episode).collect();
        let mut decisions = Vec::new();
        for entry in entries {
            let episode = entry.episode();
            let decision = self.decide(expiry, alerts.get(&episode), Some(&entry), &episode);
            let standing = entry.standing(self.as_of, &expiry.lead_days, &self.model.zone);
            report.entries.push(EntryReport {
                expiry: expiry.name.clone(),
                entity: entry.entity,
                subject: entry.subject,
                owner: entry.owner,
                date: entry.date,
                due: entry.due,
                days: standing.days,
                state: standing.state,
                notified: decision.as_ref().and_then(|d| d.notification.as_ref()).map(|n| n.threshold_days),
            });
            decisions.extend(decision);
        }
        let unseen: Vec<Alert> =
            alerts.into_values().filter(|alert| alert.open && !seen.contains(&alert.episode)).collect();
        for gone in self.gone(unseen).await.map_err(read)? {
            let Entry { expiry: name, subject, date, .. } = gone.entry.clone();
            report.resolved.push(Resolved { expiry: name, subject, date });
            decisions.extend(self.decide(expiry, Some(&gone), None, &gone.episode));
        }
        if self.settings.notify {
            let faults = self.commit(expiry, decisions).await;
            report.faults.extend(faults.map_err(|source| SweepError::Write { expiry: expiry.name.clone(), source })?);
        }
        Ok(())
    }

    fn decide(
        &self,
        expiry: &Expiry,
        before: Option<&Alert>,
        entry: Option<&Entry>,
        episode: &str,
    ) -> Option<Decision> {
        let (alert, notification) = match entry {
            Some(entry) => {
                let standing = entry.standing(self.as_of, &expiry.lead_days, &self.model.zone);
                tell(before, entry, standing, &expiry.lead_days)?
            }
            None => resolve(before.filter(|alert| alert.open)?),
        };
        Some(Decision { episode: episode.to_owned(), entry: entry.cloned(), alert, notification })
    }

    /// The expiry's rows that fall due until the widest lead (or as far as is to be listed).
    async fn entries(&self, expiry: &Expiry, report: &mut SweepReport) -> Result<Vec<Entry>, StoreError> {
        let names = self.model.table.key_names();
        let marker = Value::S(joined(&["expiry/", &expiry.name]));
        let days = expiry.lead_days.iter().copied().max().unwrap_or(0).max(self.settings.list_days);
        let until = horizon(self.as_of, days);
        let mut entries = Vec::new();
        let mut pages = self.entry_pages(expiry, until);
        while let Some(items) = pages.next(self.store, self.clock).await? {
            for item in items.iter().filter(|item| item.get(MARKER) == Some(&marker)) {
                match Entry::from_item(item, &names) {
                    Ok(entry) if until.is_none_or(|until| entry.due <= until) => entries.push(entry),
                    Ok(_) => {}
                    Err(fault) => report.faults.push(fault.to_string()),
                }
            }
        }
        Ok(entries)
    }

    fn entry_pages(&self, expiry: &Expiry, until: Option<DateTime<Utc>>) -> Pages {
        if self.model.table.sort_key.is_none() {
            return Pages::new(TableRef::Source, (0, 1));
        }
        let partition = Value::S(joined(&[&self.model.prefix, "#EXPIRY#", &expiry.name]));
        // Four-digit years sort as text; beyond them everything is read and the due instants decide.
        let range = match until {
            Some(until) if until.year() <= 9999 => {
                SortRange::Between(Value::text("0"), Value::S(until.to_rfc3339_opts(SecondsFormat::Secs, true).into()))
            }
            _ => SortRange::All,
        };
        Pages::of_partition(TableRef::Source, partition, range)
    }

    async fn alerts(&self, expiry: &str) -> Result<BTreeMap<String, Alert>, StoreError> {
        let partition = Value::S(state::alert_partition(expiry).into());
        let mut pages = Pages::of_partition(TableRef::State, partition, SortRange::All);
        let mut alerts = BTreeMap::new();
        while let Some(items) = pages.next(self.store, self.clock).await? {
            let read = items.iter().filter_map(Alert::from_item);
            alerts.extend(read.map(|alert| (alert.episode.clone(), alert)));
        }
        Ok(alerts)
    }

    /// Of these alerts those whose row is not there any more, or speaks of another episode.
    async fn gone(&self, alerts: Vec<Alert>) -> Result<Vec<Alert>, StoreError> {
        let names = self.model.table.key_names();
        let mut gone = Vec::new();
        for chunk in alerts.chunks(KEYS_MAX) {
            let keys: Vec<TableKey> = chunk.iter().map(|alert| alert.entry.key.clone()).collect();
            let rows = get(self.store, self.clock, TableRef::Source, &keys).await?;
            let is_there = |alert: &Alert, row: &Option<Item>| {
                let entry = row.as_ref().and_then(|row| Entry::from_item(row, &names).ok());
                entry.is_some_and(|entry| entry.episode() == alert.episode)
            };
            gone.extend(chunk.iter().zip(&rows).filter(|(alert, row)| !is_there(alert, row)).map(|(a, _)| a.clone()));
        }
        Ok(gone)
    }

    /// Writes decisions, many at a time. Where another sweep was first, each is decided anew on what it left. Returns what could
    /// not be decided.
    async fn commit(&self, expiry: &Expiry, decisions: Vec<Decision>) -> Result<Vec<String>, TransactError> {
        let mut faults = Vec::new();
        for chunk in decisions.chunks(ACTIONS_MAX / 2) {
            let writes: Vec<Write> = chunk.iter().flat_map(|decision| self.writes(decision)).collect();
            if self.transact(&writes).await? {
                continue;
            }
            for decision in chunk {
                if !self.commit_one(expiry, decision).await? {
                    let key = state::alert_key(&expiry.name, &decision.episode);
                    let subject = &decision.alert.entry.subject;
                    faults.push(format!("alert row {key} ({subject}) cannot be read or never rests; delete it"));
                }
            }
        }
        Ok(faults)
    }

    async fn commit_one(&self, expiry: &Expiry, first: &Decision) -> Result<bool, TransactError> {
        let key = state::alert_key(&expiry.name, &first.episode);
        for _ in 0..ROUNDS_MAX {
            let row = get_one(self.store, self.clock, TableRef::State, key.clone()).await?;
            let before = row.as_ref().and_then(Alert::from_item);
            let Some(decision) = self.decide(expiry, before.as_ref(), first.entry.as_ref(), &first.episode) else {
                return Ok(true);
            };
            if self.transact(&self.writes(&decision)).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn writes(&self, decision: &Decision) -> Vec<Write> {
        let now = self.clock.now();
        let forget_at = TimeDelta::try_days(i64::from(self.settings.remember_days));
        let forget_at = forget_at.and_then(|days| now.checked_add_signed(days)).unwrap_or(now);
        let told = decision.notification.as_ref().map(|notification| enqueue(notification, now));
        std::iter::once(decision.alert.write(forget_at)).chain(told).collect()
    }

    /// One transaction: true when it is written, false when a condition failed. After a lost answer the condition fails on our
    /// own write, and deciding anew finds nothing left to do.
    async fn transact(&self, writes: &[Write]) -> Result<bool, TransactError> {
        match super::checkpoint::write_state(self.store, self.clock, writes).await {
            Ok(()) => Ok(true),
            Err(TransactError::Cancelled(reasons)) if reasons.contains(&CancelReason::ConditionFailed) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
