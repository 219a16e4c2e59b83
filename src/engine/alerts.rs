//! What is said about one date that falls due, and when: pure, no clock, no I/O.
//!
//! The problem: a mail every day is not read, one mail a year is forgotten, and a mark "sent" that outlives a renewal silences the
//! next year. The contract:
//! - an [`Entry`] stands at one of the [`AlertState`]s as of an instant, in civil days of the site's zone;
//! - an episode is one date of one source item under one expiry: a renewed date is another episode;
//! - thresholds are the lead days, tightened over time: 90, 60, … 0, and after the due instant -1, -8, -15, … (a week apart). When
//!   several were crossed since the last look, only the tightest is told and the wider leads are recorded as skipped;
//! - a threshold is told once: the [`Alert`] remembers the tightest one reached, so looking again, or looking back, tells nothing;
//! - an episode whose entry is gone is resolved, and told so once, if anything had been told.

use std::collections::BTreeSet;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use sha2::{Digest, Sha256};

use super::ports::Notification;
use crate::model::decimal::Decimal;
use crate::model::key::{KeyNames, TableKey, hex};
use crate::model::time::{days_until, instant};
use crate::model::value::{Item, Value};
use crate::model::zone::Zone;
use crate::plan::state;
use crate::plan::write::{Condition, Op, TableRef, Write};

/// Days between two notifications of an overdue episode.
const OVERDUE_REPEAT_DAYS: i64 = 7;
/// Thresholds told that an alert remembers by number; the tightest one decides, the others are for people.
const SENT_MAX: usize = 60;

/// Where a date stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlertState {
    /// Farther off than the widest lead.
    Scheduled,
    Upcoming,
    /// The last civil day on which it is valid.
    DueToday,
    Overdue,
    /// Renewed, deleted or no longer active.
    Resolved,
}

impl AlertState {
    pub fn name(self) -> &'static str {
        match self {
            AlertState::Scheduled => "scheduled",
            AlertState::Upcoming => "upcoming",
            AlertState::DueToday => "due_today",
            AlertState::Overdue => "overdue",
            AlertState::Resolved => "resolved",
        }
    }
}

/// One expiry row of the user's table.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The row's own key.
    pub key: TableKey,
    pub expiry: String,
    pub entity: String,
    pub subject: String,
    pub owner: Option<String>,
    pub source: TableKey,
    /// The date or time as the source item has it.
    pub date: String,
    /// The exclusive instant at which it expires.
    pub due: DateTime<Utc>,
}

/// A row that is marked as an expiry and cannot be read as one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expiry row {key}: attribute `{attribute}` is missing or malformed; reconcile the table")]
pub struct EntryFault {
    pub key: String,
    pub attribute: &'static str,
}

/// How an entry stands as of an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub state: AlertState,
    /// Civil days to the last valid day; negative after it.
    pub days: i64,
    /// The tightest threshold crossed.
    pub threshold: Option<i64>,
}

/// What has been told of one episode; a row of the state table.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    pub episode: String,
    pub entry: Entry,
    pub open: bool,
    /// The tightest threshold told.
    pub reached: i64,
    pub sent: BTreeSet<i64>,
    /// Leads that a tighter one made needless.
    pub skipped: BTreeSet<i64>,
    /// The threshold that was reached when the episode was last told to be resolved.
    pub resolved_at: Option<i64>,
    /// Condition of the next write; 0: there is no row yet.
    pub revision: u64,
}

impl Entry {
    /// # Errors
    /// Names the first attribute that is missing or malformed.
    pub fn from_item(item: &Item, names: &KeyNames) -> Result<Entry, EntryFault> {
        let key = TableKey::of(item, names);
        let shown = key.as_ref().map_or_else(|| "without a key".to_owned(), TableKey::to_string);
        let fault = |attribute| EntryFault { key: shown.clone(), attribute };
        let text = |attribute| item.text(attribute).map(str::to_owned).ok_or_else(|| fault(attribute));
        let source = match item.get("Source") {
            Some(Value::M(map)) => TableKey::of(&Item(map.clone()), names),
            _ => None,
        };
        let due = item.text("Due").and_then(instant);
        Ok(Entry {
            key: key.ok_or_else(|| fault("key"))?,
            expiry: text("Expiry")?,
            entity: text("Entity")?,
            subject: text("Subject")?,
            owner: item.text("Owner").map(str::to_owned),
            source: source.ok_or_else(|| fault("Source"))?,
            date: text("Date")?,
            due: due.ok_or_else(|| fault("Due"))?.to_utc(),
        })
    }

    /// 32 hexadecimal digits that name the episode: expiry, source item and date.
    pub fn episode(&self) -> String {
        let mut hash = Sha256::new();
        for part in [self.expiry.as_str(), &self.source.digest(), &self.date] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hex(&hash.finalize()[..16])
    }

    /// Where the entry stands as of an instant, with thresholds `leads` in days before the last valid day.
    pub fn standing(&self, as_of: DateTime<Utc>, leads: &[u32], zone: &Zone) -> Standing {
        let days = days_until(self.due, as_of, zone);
        if as_of >= self.due {
            let day = |at: DateTime<Utc>| at.with_timezone(zone).date_naive();
            let days_overdue = (day(as_of) - day(self.due)).num_days().max(0);
            let threshold = -1 - days_overdue / OVERDUE_REPEAT_DAYS * OVERDUE_REPEAT_DAYS;
            return Standing { state: AlertState::Overdue, days, threshold: Some(threshold) };
        }
        let threshold = leads.iter().map(|lead| i64::from(*lead)).filter(|lead| days <= *lead).min();
        let state = match threshold {
            _ if days <= 0 => AlertState::DueToday,
            Some(_) => AlertState::Upcoming,
            None => AlertState::Scheduled,
        };
        Standing { state, days, threshold }
    }

    /// The row's attributes, for the alert row; the entry can be gone when they are needed again.
    fn to_map(&self) -> Value {
        let mut item = Item::new()
            .with("Entity", Value::text(&self.entity))
            .with("Subject", Value::text(&self.subject))
            .with("Date", Value::text(&self.date))
            .with("Due", Value::S(self.due.to_rfc3339_opts(SecondsFormat::AutoSi, true).into()))
            .with("Row", key_map(&self.key))
            .with("Source", key_map(&self.source));
        if let Some(owner) = &self.owner {
            item.insert("Owner", Value::text(owner));
        }
        Value::M(item.0)
    }

    fn from_map(expiry: &str, map: &Value) -> Option<Entry> {
        let Value::M(map) = map else { return None };
        let item = Item(map.clone());
        Some(Entry {
            key: key_from_map(item.get("Row")?)?,
            expiry: expiry.to_owned(),
            entity: item.text("Entity")?.to_owned(),
            subject: item.text("Subject")?.to_owned(),
            owner: item.text("Owner").map(str::to_owned),
            source: key_from_map(item.get("Source")?)?,
            date: item.text("Date")?.to_owned(),
            due: instant(item.text("Due")?)?,
        })
    }
}

/// What follows from an entry's standing for what was told before: the alert as it should be, and what to tell now. `None` where
/// nothing changes.
pub fn tell(
    before: Option<&Alert>,
    entry: &Entry,
    standing: Standing,
    leads: &[u32],
) -> Option<(Alert, Option<Notification>)> {
    let threshold = standing.threshold?;
    let reached = before.map(|alert| alert.reached);
    if reached.is_some_and(|reached| reached <= threshold) {
        // Told before. An episode that was resolved and is back (active again) is open again, without a word.
        let alert = before.filter(|alert| !alert.open)?;
        return Some((Alert { open: true, entry: entry.clone(), ..alert.clone() }, None));
    }
    let mut alert = before.cloned().unwrap_or_else(|| Alert {
        episode: entry.episode(),
        entry: entry.clone(),
        open: true,
        reached: threshold,
        sent: BTreeSet::new(),
        skipped: BTreeSet::new(),
        resolved_at: None,
        revision: 0,
    });
    alert.open = true;
    alert.entry = entry.clone();
    alert.reached = threshold;
    alert.sent.insert(threshold);
    while alert.sent.len() > SENT_MAX {
        alert.sent.pop_last();
    }
    let passed = leads.iter().map(|lead| i64::from(*lead)).filter(|lead| *lead > threshold);
    alert.skipped.extend(passed.filter(|lead| reached.is_none_or(|reached| *lead < reached)));
    let notification = notification(&alert, standing.state, threshold, message(entry, standing));
    Some((alert, Some(notification)))
}

/// What follows for an open alert whose entry is gone.
pub fn resolve(before: &Alert) -> (Alert, Option<Notification>) {
    let told = before.resolved_at != Some(before.reached);
    let alert = Alert { open: false, resolved_at: Some(before.reached), ..before.clone() };
    let Entry { expiry, subject, date, .. } = &before.entry;
    let text = format!("{expiry} of {subject} ({date}): resolved, renewed or no longer active");
    let notification = told.then(|| notification(&alert, AlertState::Resolved, alert.reached, text));
    (alert, notification)
}

fn notification(alert: &Alert, state: AlertState, threshold_days: i64, message: String) -> Notification {
    let resolved = if state == AlertState::Resolved { "#resolved" } else { "" };
    Notification {
        id: format!("{}#{threshold_days}{resolved}", alert.episode),
        expiry: alert.entry.expiry.clone(),
        subject: alert.entry.subject.clone(),
        owner: alert.entry.owner.clone(),
        state: state.name().to_owned(),
        threshold_days,
        date: alert.entry.date.clone(),
        due: alert.entry.due,
        message,
    }
}

fn message(entry: &Entry, standing: Standing) -> String {
    let Entry { expiry, subject, date, .. } = entry;
    let count = |days: i64| if days == 1 { "1 day".to_owned() } else { format!("{days} days") };
    match standing.state {
        AlertState::Overdue if standing.days >= 0 => format!("{expiry} of {subject} expired today, {date}"),
        AlertState::Overdue => format!("{expiry} of {subject} expired {} ago, {date}", count(-standing.days)),
        AlertState::DueToday => format!("{expiry} of {subject} expires today, {date}"),
        _ => format!("{expiry} of {subject} expires in {}, {date}", count(standing.days)),
    }
}

impl Alert {
    /// The put of this alert, on condition that the row is still as it was read. A resolved alert is forgotten at `forget_at`.
    pub fn write(&self, forget_at: DateTime<Utc>) -> Write {
        let key = state::alert_key(&self.entry.expiry, &self.episode);
        let numbers = |set: &BTreeSet<i64>| Value::L(set.iter().map(|days| number(*days)).collect());
        let mut item = key
            .to_item(&state::key_names())
            .with("Rev", number(self.revision.saturating_add(1).try_into().unwrap_or(i64::MAX)))
            .with("Expiry", Value::text(&self.entry.expiry))
            .with("Entry", self.entry.to_map())
            .with("Open", Value::Bool(self.open))
            .with("Reached", number(self.reached))
            .with("Sent", numbers(&self.sent))
            .with("Skipped", numbers(&self.skipped));
        if let Some(reached) = self.resolved_at {
            item.insert("ResolvedAt", number(reached));
        }
        if !self.open {
            item.insert(state::TTL, number(forget_at.timestamp()));
        }
        let condition = match self.revision {
            0 => Condition::Absent,
            revision => Condition::Equals("Rev".into(), number(revision.try_into().unwrap_or(i64::MAX))),
        };
        Write { table: TableRef::State, key, op: Op::Put(item.into()), condition }
    }

    /// `None` for a row that is not an alert.
    pub fn from_item(item: &Item) -> Option<Alert> {
        let numbers = |name: &str| match item.get(name) {
            Some(Value::L(list)) => list.iter().map(integer).collect::<Option<BTreeSet<i64>>>(),
            _ => None,
        };
        let resolved_at = match item.get("ResolvedAt") {
            Some(value) => Some(integer(value)?),
            None => None,
        };
        Some(Alert {
            episode: item.text("SK")?.to_owned(),
            entry: Entry::from_map(item.text("Expiry")?, item.get("Entry")?)?,
            open: item.get("Open") == Some(&Value::Bool(true)),
            reached: integer(item.get("Reached")?)?,
            sent: numbers("Sent")?,
            skipped: numbers("Skipped")?,
            resolved_at,
            revision: u64::try_from(integer(item.get("Rev")?)?).ok()?,
        })
    }
}

/// The latest due instant at which an entry can have crossed a threshold as of `as_of`, with a margin for zones.
pub fn horizon(as_of: DateTime<Utc>, days: u32) -> Option<DateTime<Utc>> {
    as_of.checked_add_signed(TimeDelta::try_days(i64::from(days) + 2)?)
}

fn key_map(key: &TableKey) -> Value {
    let item = key.to_item(&state::key_names());
    Value::M(item.0)
}

fn key_from_map(value: &Value) -> Option<TableKey> {
    let Value::M(map) = value else { return None };
    let partition = map.get(state::PARTITION)?.clone();
    Some(TableKey { partition, sort: map.get(state::SORT).cloned() })
}

fn number(value: i64) -> Value {
    Value::N(Decimal::from(value))
}

fn integer(value: &Value) -> Option<i64> {
    value.as_number()?.to_plain().parse().ok()
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDate;

    use super::*;
    use crate::model::time::expires_at;
    use crate::model::zone::zone;

    const LEADS: [u32; 7] = [90, 60, 30, 14, 7, 1, 0];

    fn entry(date: &str, zone: &Zone) -> Entry {
        Entry {
            key: TableKey::text("KEEPER#EXPIRY#calibration", "x"),
            expiry: "calibration".to_owned(),
            entity: "Device".to_owned(),
            subject: "DEV-1".to_owned(),
            owner: None,
            source: TableKey::text("DEVICE#DEV-1", "USER#t"),
            date: date.to_owned(),
            due: expires_at(&Value::text(date), None, zone).unwrap(),
        }
    }

    fn at(instant: &str) -> DateTime<Utc> {
        DateTime::parse_from_rfc3339(instant).unwrap().to_utc()
    }

    fn state(date: &str, zone: &Zone, as_of: &str) -> AlertState {
        entry(date, zone).standing(at(as_of), &LEADS, zone).state
    }

    /// Looks once a day at 06:00 UTC; the days and thresholds on which something is told.
    fn daily(entry: &Entry, from: &str, to: &str) -> Vec<(String, i64)> {
        let day = |text: &str| text.parse::<NaiveDate>().unwrap();
        let mut alert = None;
        let mut told = Vec::new();
        for day in day(from).iter_days().take_while(|today| *today <= day(to)) {
            let as_of = day.and_hms_opt(6, 0, 0).unwrap().and_utc();
            let standing = entry.standing(as_of, &LEADS, &zone("Europe/Berlin"));
            if let Some((after, notification)) = tell(alert.as_ref(), entry, standing, &LEADS) {
                told.extend(notification.map(|n| (day.to_string(), n.threshold_days)));
                alert = Some(after);
            }
        }
        told
    }

    #[test]
    fn seven_notifications_in_ninety_days_and_none_between() {
        // Scenario A01.
        let told = daily(&entry("2026-03-31", &zone("Europe/Berlin")), "2025-12-01", "2026-03-31");
        let expected = [
            ("2025-12-31", 90),
            ("2026-01-30", 60),
            ("2026-03-01", 30),
            ("2026-03-17", 14),
            ("2026-03-24", 7),
            ("2026-03-30", 1),
            ("2026-03-31", 0),
        ];
        assert_eq!(told, expected.map(|(day, threshold)| (day.to_owned(), threshold)));
    }

    #[test]
    fn the_last_day_is_due_today_until_its_midnight() {
        // A03.
        assert_eq!(state("2026-06-13", &zone("Europe/Berlin"), "2026-06-13T00:30:00+02:00"), AlertState::DueToday);
        assert_eq!(state("2026-06-13", &zone("Europe/Berlin"), "2026-06-13T23:59:00+02:00"), AlertState::DueToday);
        assert_eq!(state("2026-06-13", &zone("Europe/Berlin"), "2026-06-14T00:00:00+02:00"), AlertState::Overdue);
        assert_eq!(state("2026-06-13", &zone("Europe/Berlin"), "2026-06-12T23:59:00+02:00"), AlertState::Upcoming);
    }

    #[test]
    fn overdue_is_told_at_once_and_each_week() {
        // A11.
        let told = daily(&entry("2026-04-30", &zone("Europe/Berlin")), "2026-04-30", "2026-05-16");
        let days: Vec<&str> = told.iter().map(|(day, _)| day.as_str()).collect();
        assert_eq!(days, ["2026-04-30", "2026-05-01", "2026-05-08", "2026-05-15"]);
        assert_eq!(told[2].1, -8);
    }

    #[test]
    fn a_renewal_is_another_episode_and_resolves_the_first_once() {
        // A14, A24.
        let old = entry("2026-03-31", &zone("Europe/Berlin"));
        let standing = |entry: &Entry, as_of: &str| entry.standing(at(as_of), &LEADS, &zone("Europe/Berlin"));
        let (told, _) = tell(None, &old, standing(&old, "2026-04-02T06:00:00Z"), &LEADS).unwrap();
        let (resolved, notification) = resolve(&told);
        assert_eq!(notification.unwrap().state, "resolved");
        assert_eq!(resolve(&resolved).1, None);
        let new = entry("2027-03-31", &zone("Europe/Berlin"));
        assert_ne!(new.episode(), old.episode());
        let told = daily(&new, "2027-03-01", "2027-03-01");
        assert_eq!(told, [("2027-03-01".to_owned(), 30)]);
    }

    #[test]
    fn after_downtime_only_the_tightest_threshold_is_told() {
        // A25: told 60 in time, off from 25 February to 20 March.
        let entry = entry("2026-03-31", &zone("Europe/Berlin"));
        let standing = |as_of| entry.standing(at(as_of), &LEADS, &zone("Europe/Berlin"));
        let (alert, _) = tell(None, &entry, standing("2026-01-30T06:00:00Z"), &LEADS).unwrap();
        assert_eq!(alert.skipped, BTreeSet::from([90]));
        let (alert, notification) = tell(Some(&alert), &entry, standing("2026-03-20T06:00:00Z"), &LEADS).unwrap();
        assert_eq!(notification.unwrap().threshold_days, 14);
        assert_eq!(alert.skipped, BTreeSet::from([30, 90]));
        assert_eq!(alert.sent, BTreeSet::from([14, 60]));
        // Looking back tells nothing.
        assert_eq!(tell(Some(&alert), &entry, standing("2026-03-02T06:00:00Z"), &LEADS), None);
    }

    #[test]
    fn boundaries_are_the_sites_and_a_timestamp_is_exact() {
        // A28: the night of the clock change; A29: west of Greenwich; A30: a timestamp.
        assert_eq!(state("2026-03-29", &zone("Europe/Berlin"), "2026-03-29T21:59:59.999Z"), AlertState::DueToday);
        assert_eq!(state("2026-03-29", &zone("Europe/Berlin"), "2026-03-29T22:00:00Z"), AlertState::Overdue);
        assert_eq!(state("2026-03-31", &zone("America/Los_Angeles"), "2026-04-01T06:59:59Z"), AlertState::DueToday);
        assert_eq!(state("2026-03-31", &zone("America/Los_Angeles"), "2026-04-01T07:00:00Z"), AlertState::Overdue);
        let stamp = entry("2026-03-31T12:00:00Z", &zone("Europe/Berlin"));
        let standing = |as_of| stamp.standing(at(as_of), &LEADS, &zone("Europe/Berlin"));
        assert_eq!(standing("2026-03-31T11:59:59Z").state, AlertState::DueToday);
        let overdue = standing("2026-03-31T12:00:00Z");
        assert_eq!((overdue.state, overdue.threshold), (AlertState::Overdue, Some(-1)));
        assert!(message(&stamp, overdue).contains("expired today"));
        assert_eq!(standing("2026-04-06T12:00:00Z").threshold, Some(-1));
        assert_eq!(standing("2026-04-07T00:00:00Z").threshold, Some(-8));
    }

    #[test]
    fn the_published_certificates_stand_as_their_table_says() {
        let as_of = at("2026-11-30T09:00:00Z");
        let standing = |date| entry(date, &zone("Europe/Berlin")).standing(as_of, &LEADS, &zone("Europe/Berlin"));
        assert_eq!((standing("2026-12-31").days, standing("2026-12-31").state), (31, AlertState::Upcoming));
        assert_eq!(standing("2025-11-15").state, AlertState::Overdue);
        assert_eq!(standing("2027-12-31").state, AlertState::Scheduled);
        let none: [u32; 0] = [];
        assert_eq!(
            entry("2026-12-01", &zone("Europe/Berlin")).standing(as_of, &none, &zone("Europe/Berlin")).state,
            AlertState::Scheduled
        );
    }

    #[test]
    fn two_items_with_the_same_date_are_two_episodes() {
        // A15.
        let first = entry("2026-03-31", &zone("Europe/Berlin"));
        let second = Entry { source: TableKey::text("DEVICE#DEV-2", "USER#t"), ..first.clone() };
        let other = Entry { expiry: "maintenance".to_owned(), ..first.clone() };
        let episodes = BTreeSet::from([first.episode(), second.episode(), other.episode()]);
        assert_eq!(episodes.len(), 3);
    }

    #[test]
    fn alert_rows_read_back_as_written() {
        let entry = Entry { owner: Some("m1".to_owned()), ..entry("2026-03-31", &zone("Europe/Berlin")) };
        let standing = entry.standing(at("2026-04-20T06:00:00Z"), &LEADS, &zone("Europe/Berlin"));
        let (alert, _) = tell(None, &entry, standing, &LEADS).unwrap();
        for alert in [resolve(&alert).0, alert] {
            let Op::Put(item) = alert.write(at("2027-01-01T00:00:00Z")).op else { panic!("not a put") };
            assert_eq!(Alert::from_item(&item), Some(Alert { revision: 1, ..alert.clone() }));
            assert_eq!(item.get("ExpiresAt").is_some(), !alert.open);
            assert_eq!(Alert::from_item(&Item::clone(&item).with("Reached", Value::text("x"))), None);
        }
    }
}
