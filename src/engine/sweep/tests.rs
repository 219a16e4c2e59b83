//! Sweeps over rows as derive makes them, in a store in memory.
#![cfg(test)]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::future::join;
use proptest::prelude::*;

use super::*;
use crate::adapters::sim::{Fault, SimStore};
use crate::derive::derive;
use crate::derive::testing::{attribute, entity, model, template};
use crate::engine::ports::SinkError;
use crate::engine::testing::TestClock;
use crate::model::spec::Condition as When;
use crate::model::value::Kind;

/// Remembers what it was sent; refuses while told to.
#[derive(Default)]
struct Inbox {
    sent: Mutex<Vec<Notification>>,
    refuse: Mutex<u32>,
}

impl Sink for Inbox {
    async fn send(&self, notification: &Notification) -> Result<(), SinkError> {
        let mut refuse = self.refuse.lock().unwrap();
        if *refuse > 0 {
            *refuse -= 1;
            return Err(SinkError("mailbox full".to_owned()));
        }
        self.sent.lock().unwrap().push(notification.clone());
        Ok(())
    }
}

impl Inbox {
    fn ids(&self) -> Vec<String> {
        self.sent.lock().unwrap().iter().map(|notification| notification.id.clone()).collect()
    }

    /// Subject, state and threshold of all messages since the last call.
    fn take(&self) -> Vec<(String, String, i64)> {
        let sent = std::mem::take(&mut *self.sent.lock().unwrap());
        sent.into_iter().map(|n| (n.subject, n.state, n.threshold_days)).collect()
    }
}

struct World {
    model: Model,
    store: SimStore,
    clock: TestClock,
    inbox: Inbox,
    settings: SweepSettings,
    /// The rows of each technician that are in the table.
    rows: Mutex<BTreeMap<String, Vec<TableKey>>>,
}

fn certificates(sort_key: bool) -> Model {
    let mut model = model("PK", "SK");
    let mut technician = entity("Technician", "USER#{username}", "USER#{username}");
    technician.attributes =
        vec![attribute("Status", Kind::S), attribute("CertificateExp", Kind::S), attribute("Manager", Kind::S)];
    if !sort_key {
        model.table.sort_key = None;
        technician.sort = None;
    }
    model.entities = vec![technician];
    model.expiries = vec![Expiry {
        name: "certificate".to_owned(),
        of: "Technician".to_owned(),
        date: "CertificateExp".to_owned(),
        when: vec![When { attribute: "Status".to_owned(), values: vec!["Active".to_owned()] }],
        lead_days: vec![90, 60, 30, 14, 7, 1, 0],
        subject: Some(template("{username}")),
        owner: Some(template("{Manager}")),
    }];
    model
}

impl World {
    fn new() -> World {
        World::of(certificates(true))
    }

    fn of(model: Model) -> World {
        World {
            store: SimStore::new(&model.table),
            clock: TestClock::at("2026-11-30T09:00:00Z"),
            inbox: Inbox::default(),
            settings: SweepSettings::default(),
            rows: Mutex::default(),
            model,
        }
    }

    /// Puts the technician, and the rows derived of it in place of those before, as the worker does.
    fn technician(&self, name: &str, status: &str, date: &str) {
        let id = format!("USER#{name}");
        let names = self.model.table.key_names();
        let sort = names.sort.as_ref().map(|_| Value::text(&id));
        let key = TableKey { partition: Value::text(&id), sort };
        let item = key
            .to_item(&names)
            .with("Status", Value::text(status))
            .with("CertificateExp", Value::text(date))
            .with("Manager", Value::text("manager001"));
        let derived = derive(&self.model, &key, &item);
        self.store.put(item).unwrap();
        let mut rows = self.rows.lock().unwrap();
        for row in rows.remove(name).unwrap_or_default() {
            self.store.delete(&row);
        }
        for row in &derived.rows {
            self.store.put(Item::clone(&row.item)).unwrap();
        }
        rows.insert(name.to_owned(), derived.rows.into_iter().map(|row| row.key).collect());
    }

    async fn look(&self, as_of: &str) -> Result<SweepReport, SweepError> {
        let as_of = as_of.parse().unwrap();
        sweep(&self.model, &self.store, &self.clock, as_of, &self.settings, &self.inbox).await
    }

    fn sweep(&self, as_of: &str) -> SweepReport {
        self.clock.run(self.look(as_of)).unwrap()
    }

    fn state_rows(&self, partition: &str) -> usize {
        let table = self.store.table(TableRef::State);
        table.items().filter(|(key, _)| key.partition.as_text().unwrap().starts_with(partition)).count()
    }
}

fn told(subject: &str, state: &str, threshold: i64) -> (String, String, i64) {
    (subject.to_owned(), state.to_owned(), threshold)
}

const AS_OF: &str = "2026-11-30T09:00:00Z";

#[test]
fn the_published_technicians_as_of_the_end_of_november() {
    let world = World::new();
    world.technician("tech001", "Active", "2026-12-31");
    world.technician("tech002", "Suspended", "2025-11-15");
    world.technician("tech003", "Active", "2025-11-15");
    let report = world.sweep(AS_OF);
    let stand: Vec<_> = report.entries.iter().map(|e| (e.subject.as_str(), e.state, e.days, e.notified)).collect();
    assert_eq!(
        stand,
        [("tech003", AlertState::Overdue, -380, Some(-379)), ("tech001", AlertState::Upcoming, 31, Some(60))]
    );
    assert_eq!(report.entries[0].due.to_rfc3339(), "2025-11-15T23:00:00+00:00");
    assert_eq!(report.entries[0].owner.as_deref(), Some("manager001"));
    assert_eq!(world.inbox.take(), [told("tech003", "overdue", -379), told("tech001", "upcoming", 60)]);
    assert_eq!(report.sent[0].message, "certificate of tech003 expired 380 days ago, 2025-11-15");
    assert_eq!(world.state_rows("OUTBOX"), 0, "delivered rows are gone");
}

#[test]
fn looking_again_tells_nothing() {
    let world = World::new();
    world.technician("tech001", "Active", "2026-12-31");
    world.sweep(AS_OF);
    world.inbox.take();
    let report = world.sweep("2026-11-30T22:59:00Z");
    assert_eq!((report.sent.len(), report.entries[0].notified), (0, None));
    world.sweep("2026-12-01T09:00:00Z");
    assert_eq!(world.inbox.take(), [told("tech001", "upcoming", 30)]);
}

#[test]
fn only_looking_writes_and_sends_nothing() {
    let mut world = World::new();
    world.settings = SweepSettings { notify: false, list_days: 400, ..SweepSettings::default() };
    world.technician("tech001", "Active", "2026-12-31");
    world.technician("tech004", "Active", "2027-12-31");
    let report = world.sweep(AS_OF);
    let stand: Vec<_> = report.entries.iter().map(|e| (e.state, e.notified)).collect();
    assert_eq!(stand, [(AlertState::Upcoming, Some(60)), (AlertState::Scheduled, None)]);
    assert_eq!((world.inbox.ids().len(), world.state_rows("")), (0, 0));
}

#[test]
fn what_is_beyond_the_widest_lead_is_not_read() {
    let world = World::new();
    world.technician("tech004", "Active", "2027-12-31");
    assert_eq!(world.sweep(AS_OF).entries, []);
}

#[test]
fn a_renewal_or_a_suspension_resolves_once() {
    let world = World::new();
    world.technician("tech001", "Active", "2026-12-05");
    world.technician("tech003", "Active", "2025-11-15");
    world.sweep(AS_OF);
    world.inbox.take();
    world.technician("tech001", "Active", "2027-12-05");
    world.technician("tech003", "Suspended", "2025-11-15");
    let report = world.sweep("2026-12-01T09:00:00Z");
    assert_eq!(report.resolved.len(), 2);
    assert_eq!(world.inbox.take(), [told("tech003", "resolved", -379), told("tech001", "resolved", 7)]);
    let report = world.sweep("2026-12-02T09:00:00Z");
    assert_eq!((report.resolved.len(), world.inbox.take().len()), (0, 0));
    // The new date has its own thresholds.
    world.sweep("2027-11-25T09:00:00Z");
    assert_eq!(world.inbox.take(), [told("tech001", "upcoming", 14)]);
}

#[test]
fn an_item_that_is_active_again_is_not_told_twice() {
    let world = World::new();
    world.technician("tech001", "Active", "2026-12-05");
    world.sweep(AS_OF);
    world.technician("tech001", "Suspended", "2026-12-05");
    world.sweep(AS_OF);
    world.technician("tech001", "Active", "2026-12-05");
    world.sweep(AS_OF);
    world.technician("tech001", "Suspended", "2026-12-05");
    world.sweep(AS_OF);
    assert_eq!(world.inbox.take(), [told("tech001", "upcoming", 7), told("tech001", "resolved", 7)]);
}

#[test]
fn looking_back_does_not_resolve_what_is_out_of_range() {
    let world = World::new();
    world.technician("tech001", "Active", "2026-12-31");
    world.sweep(AS_OF);
    let report = world.sweep("2026-01-15T09:00:00Z");
    assert_eq!((report.entries.len(), report.resolved.len()), (0, 0));
}

#[test]
fn a_message_that_cannot_be_delivered_stays_and_shows() {
    let world = World::new();
    world.technician("tech001", "Active", "2026-12-31");
    world.technician("tech003", "Active", "2026-12-01");
    *world.inbox.refuse.lock().unwrap() = 3;
    let report = world.sweep(AS_OF);
    assert_eq!(report.undelivered.len(), 1, "the other one is delivered");
    assert!(report.undelivered[0].reason.contains("mailbox full"));
    assert_eq!((report.sent.len(), world.state_rows("OUTBOX")), (1, 1));
    let report = world.sweep(AS_OF);
    assert_eq!((report.sent.len(), report.undelivered.len(), world.state_rows("OUTBOX")), (1, 0, 0));
    assert_eq!(world.inbox.take(), [told("tech001", "upcoming", 60), told("tech003", "upcoming", 1)]);
}

#[test]
fn two_sweeps_at_once_decide_each_threshold_once() {
    let world = World::new();
    for n in 0..30 {
        world.technician(&format!("tech{n:03}"), "Active", "2026-12-31");
    }
    let (first, second) = world.clock.run(join(world.look(AS_OF), world.look(AS_OF)));
    first.unwrap();
    second.unwrap();
    let ids: BTreeSet<String> = world.inbox.ids().into_iter().collect();
    assert_eq!(ids.len(), 30);
    let rows = world.store.table(TableRef::State);
    for (_, item) in rows.items() {
        assert_eq!(Alert::from_item(item).unwrap().revision, 1, "decided twice");
    }
    world.inbox.take();
    assert_eq!(world.sweep(AS_OF).sent, []);
}

#[test]
fn a_lost_answer_is_found_to_be_written() {
    let world = World::new();
    for n in 0..70 {
        world.technician(&format!("tech{n:03}"), "Active", "2026-12-31");
    }
    world.store.inject(Fault::LoseAnswer);
    world.store.inject(Fault::Conflict(3));
    world.sweep(AS_OF);
    assert_eq!(world.inbox.take().len(), 70);
}

#[test]
fn a_table_without_a_sort_key_is_scanned() {
    let world = World::of(certificates(false));
    for n in 0..20 {
        world.technician(&format!("tech{n:03}"), "Active", if n % 2 == 0 { "2026-12-31" } else { "2029-12-31" });
    }
    let report = world.sweep(AS_OF);
    assert_eq!((report.entries.len(), report.sent.len()), (10, 10));
    world.technician("tech000", "Suspended", "2026-12-31");
    assert_eq!(world.sweep(AS_OF).resolved.len(), 1);
}

#[test]
fn a_row_that_cannot_be_read_is_a_fault_and_holds_up_nobody() {
    let world = World::new();
    world.technician("tech001", "Active", "2026-12-31");
    let broken = TableKey::text("KEEPER#EXPIRY#certificate", "2026-12-01T00:00:00Z#x")
        .to_item(&world.model.table.key_names())
        .with(MARKER, Value::text("expiry/certificate"))
        .with("Expiry", Value::text("certificate"));
    world.store.put(broken).unwrap();
    let alert = state::alert_key("certificate", &world.sweep(AS_OF).sent[0].id[..32]);
    let report = world.sweep(AS_OF);
    assert_eq!(report.faults.len(), 1);
    assert!(report.faults[0].contains("attribute `Entity` is missing"), "{:?}", report.faults);
    // A damaged alert row: loud, and the others go on.
    world.store.set_state(&alert, Some(alert.to_item(&state::key_names())));
    world.technician("tech003", "Active", "2026-12-31");
    let report = world.sweep(AS_OF);
    assert_eq!((report.faults.len(), report.sent.len()), (2, 1));
}

#[test]
fn an_absurd_date_of_looking_is_refused() {
    let world = World::new();
    world.technician("tech001", "Active", "2026-12-31");
    for as_of in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
        let look = sweep(&world.model, &world.store, &world.clock, as_of, &world.settings, &world.inbox);
        assert_eq!(world.clock.run(look).unwrap_err(), SweepError::AsOf(as_of));
    }
    assert_eq!(world.sweep("9998-12-31T23:59:59Z").entries[0].state, AlertState::Overdue);
    assert_eq!(world.sweep("1970-01-01T00:00:00Z").entries, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Daily looks that are killed at any step: over the whole time each threshold that a look should tell is told, and by one id.
    #[test]
    fn killed_sweeps_lose_no_message(kills in prop::collection::vec((0..40u32, 0..60usize), 0..20)) {
        let world = World::new();
        world.technician("tech001", "Active", "2026-12-31");
        world.technician("tech003", "Active", "2026-11-29");
        let start: DateTime<Utc> = "2026-11-20T09:00:00Z".parse().unwrap();
        for day in 0..40u32 {
            let as_of = (start + TimeDelta::days(i64::from(day))).to_rfc3339();
            for (_, polls) in kills.iter().filter(|(killed, _)| *killed == day) {
                let mut look = Box::pin(world.look(&as_of));
                for _ in 0..*polls {
                    if look.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                        break;
                    }
                    world.clock.advance(Duration::from_secs(1));
                }
            }
            world.sweep(&as_of);
        }
        let ids: BTreeSet<String> = world.inbox.ids().into_iter().collect();
        let mut told: Vec<(String, i64)> = Vec::new();
        for id in ids {
            let sent = world.inbox.sent.lock().unwrap();
            let notification = sent.iter().find(|n| n.id == id).unwrap();
            told.push((notification.subject.clone(), notification.threshold_days));
        }
        told.sort();
        // The last look is on 29 December.
        let mut expected = vec![("tech001", 7), ("tech001", 14), ("tech001", 30), ("tech001", 60)];
        expected.splice(4.., [-29, -22, -15, -8, -1, 0, 1, 7, 14].map(|days| ("tech003", days)));
        let expected: Vec<(String, i64)> =
            expected.into_iter().map(|(subject, days)| (subject.to_owned(), days)).collect();
        prop_assert_eq!(told, expected);
    }
}
