//! What goes wrong on the way to the database, and numbers that do not fit.
#![cfg(test)]

use std::time::Duration;

use super::*;
use crate::adapters::sim::{Fault, block_on};
use crate::engine::commit::CommitError;
use crate::engine::ports::{CancelReason, StoreError, TransactError};
use crate::model::value::ITEM_SIZE_MAX;
use crate::plan::ledger::REVISION;

fn outage() -> Fault {
    Fault::Transact(StoreError::Unavailable("outage".to_owned()).into())
}

#[test]
fn a_lost_answer_is_found_to_be_applied() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.store.inject(Fault::LoseAnswer);
    let report = world.settle();
    assert_eq!((report.applied, report.retries, world.store.counters().commits), (1, 1, 1));
    assert_eq!(world.measure("p", "Total").unwrap(), "1");
}

#[test]
fn conflicts_and_throttling_are_waited_out() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.store.inject(Fault::Conflict(2));
    world.store.inject(Fault::Transact(TransactError::Cancelled(vec![CancelReason::Throttled])));
    world.store.inject(Fault::Transact(StoreError::Throttled("slow down".to_owned()).into()));
    let report = world.settle();
    assert_eq!((report.applied, report.conflicts, report.retries), (1, 1, 3));
    let slept = world.clock.slept();
    assert!(slept >= Duration::from_millis(175) && slept <= Duration::from_millis(350), "{slept:?}");
}

#[test]
fn a_batch_that_fails_says_from_where_it_is_not_durable() {
    let mut world = World::new();
    for n in 0..200 {
        world.store.put(job(n, &format!("p{}", n / 40), "Open", "1")).unwrap();
    }
    let records = world.pending();
    // The first transaction passes; all attempts of the second fail.
    world.engine.settings.patience.attempts_max = 3;
    let mut stepper = Stepper::new(world.engine.apply(&records, OldImages::Trusted));
    while world.store.counters().commits == 0 {
        assert!(stepper.step().is_none());
    }
    (0..3).for_each(|_| world.store.inject(outage()));
    let error = loop {
        if let Some(result) = stepper.step() {
            break result.unwrap_err();
        }
    };
    assert!(error.can_retry() && matches!(error.source, CommitError::Store(StoreError::Unavailable(_))));
    assert_eq!((error.report.transactions, error.report.retries), (1, 2));
    let durable = |n: usize| world.ledger(&job_key(n)).is_some();
    let first = (0..200).find(|n| !durable(*n)).unwrap();
    assert_eq!((error.position, error.sequence.as_deref()), (first, records[first].sequence.as_deref()));
    assert_eq!((0..200).filter(|n| durable(*n)).count(), error.report.applied);
    drop(stepper);
    let report = world.apply(&records[error.position..]);
    assert_eq!(report.applied + error.report.applied, 200);
    world.settle();
}

#[test]
fn endless_conflicts_give_the_batch_back() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    let records = world.pending();
    (0..10).for_each(|_| world.store.inject(Fault::Conflict(0)));
    let error = world.try_apply(&records).unwrap_err();
    assert_eq!((&error.source, error.position), (&CommitError::Contended { attempts: 10 }, 0));
    assert_eq!(world.store.counters().commits, 0);
    world.apply(&records);
    world.settle();
}

#[test]
fn an_item_that_stays_throttled_holds_up_nobody_else() {
    let mut world = World::new();
    // Each in a group of its own, so that they share no write.
    for n in 0..10 {
        world.store.put(job(n, &format!("p{n}"), "Open", "1")).unwrap();
    }
    let records = world.pending();
    // Ledger rows come first in a transaction, in the order of their items.
    let reasons = (0..10).map(|n| if n == 2 { CancelReason::Throttled } else { CancelReason::None });
    let throttled = TransactError::Cancelled(reasons.collect());
    (0..10).for_each(|_| world.store.inject(Fault::Transact(throttled.clone())));
    let error = world.try_apply(&records).unwrap_err();
    assert_eq!((&error.source, error.position), (&CommitError::Contended { attempts: 10 }, 2));
    assert_eq!((error.sequence.as_deref(), error.report.applied), (records[2].sequence.as_deref(), 9));
    assert!(world.ledger(&job_key(2)).is_none() && world.ledger(&job_key(9)).is_some());
    // From there on it comes again.
    let report = world.apply(&records[2..]);
    assert_eq!((report.applied, report.already_applied), (1, 7));
    assert!((0..10).all(|n| world.measure(&format!("p{n}"), "Total").unwrap() == "1"));
    world.settle();
}

#[test]
fn where_everything_is_contended_the_rest_is_given_back_soon() {
    let mut world = World::new();
    for n in 0..40 {
        world.store.put(job(n, &format!("p{n}"), "Open", "1")).unwrap();
    }
    let records = world.pending();
    // Ten attempts, and three with each of five more transactions: the sixth ends it, and nobody tries the other items.
    let attempts = 10 + 5 * 3;
    (0..attempts).for_each(|n| world.store.inject(Fault::Conflict(n * 7)));
    let error = world.try_apply(&records).unwrap_err();
    assert_eq!((&error.source, error.report.retries), (&CommitError::Contended { attempts: 3 }, attempts - 6));
    assert_eq!(error.report.applied, 0, "one transaction had them all");
    let report = world.apply(&records);
    assert_eq!(report.applied, 40);
    world.settle();
}

#[test]
fn reads_are_repeated_too() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    let throttled = StoreError::Throttled("slow down".to_owned());
    world.store.inject(Fault::Read(throttled.clone()));
    assert_eq!(world.settle().retries, 1);
    world.store.inject(Fault::Read(StoreError::NoTable("jobs-keeper".to_owned())));
    world.store.put(job(1, "p", "Busy", "1")).unwrap();
    let records = world.pending();
    let error = world.try_apply(&records).unwrap_err();
    assert!(!error.can_retry() && error.to_string().contains("jobs-keeper"), "{error}");
}

#[test]
fn a_damaged_ledger_row_stops_the_batch() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.settle();
    let key = LedgerRow::key(&job_key(1));
    let row = world.store.item(TableRef::State, &key).unwrap();
    world.store.set_state(&key, Some(row.clone().with(REVISION, Value::text("one"))));
    world.store.put(job(1, "p", "Busy", "1")).unwrap();
    let records = world.pending();
    let error = world.try_apply(&records).unwrap_err();
    assert!(!error.can_retry() && matches!(error.source, CommitError::Ledger(_)));
    world.store.set_state(&key, Some(row));
    world.apply(&records);
    world.settle();
}

const NINES: &str = "99999999999999999999999999999999999999";

#[test]
fn a_sum_of_38_digits_is_exact_and_one_of_39_leaves_the_item_out_of_it() {
    let mut model = model();
    model.aggregates[0].sum_squares.clear();
    let mut world = World::with(model);
    world.store.put(job(0, "p", "Open", NINES)).unwrap();
    world.settle();
    assert_eq!(world.measure("p", "Sum_Hours").unwrap(), NINES);
    for n in 1..9 {
        world.store.put(job(n, "p", "Open", if n == 5 { "0.5" } else { "0" })).unwrap();
    }
    let records = world.pending();
    let report = world.apply(&records);
    assert_eq!((report.applied, report.quarantined, report.findings.get("A308")), (8, 0, Some(&1)));
    assert_eq!(
        (world.measure("p", "Total").unwrap(), world.measure("p", "Sum_Hours").unwrap()),
        ("9".into(), NINES.into())
    );
    assert_eq!(world.partition("KEEPER#FINDINGS").len(), 1);
    let again = world.apply(&records);
    assert_eq!((again.already_applied, again.transactions), (8, 0));

    // Once there is room, reconciling counts it in.
    world.store.delete(&job_key(0));
    let records = world.pending();
    world.apply(&records);
    let items = [(job_key(5), world.store.item(TableRef::Source, &job_key(5)))];
    run_audited(&world.store, world.engine.apply_items(&items)).unwrap();
    assert_eq!((world.measure("p", "Sum_Hours").unwrap(), world.partition("KEEPER#FINDINGS").len()), ("0.5".into(), 0));
    world.settle();
}

#[test]
fn a_sum_that_changes_by_more_than_a_number_can_say_changes_in_two_steps() {
    let mut model = model();
    model.aggregates[0].sum_squares.clear();
    let mut world = World::with(model);
    world.store.put(job(1, "p", "Open", NINES)).unwrap();
    world.settle();
    world.store.put(job(1, "p", "Open", "0.00001")).unwrap();
    let report = world.settle();
    assert_eq!((report.transactions, report.quarantined), (2, 0));
    assert_eq!(world.measure("p", "Sum_Hours").unwrap(), "0.00001");
}

/// An item with many derived rows, whose keys take six bytes a character in its ledger row; `more` bytes are added to that row.
fn with_large_ledger_row(more: usize) -> (World, BatchReport) {
    let mut wide = model();
    let listing = wide.listings[0].clone();
    wide.listings = (0..30)
        .map(|n| {
            let mut listing = listing.clone();
            listing.name = format!("wide_{n}{}", "x".repeat(if n == 0 { more } else { 0 }));
            listing.partition = crate::model::template::Template::parse(&format!("WIDE{n}#{{Project}}")).unwrap();
            listing
        })
        .collect();
    let mut world = World::with(wide);
    world.store.put(job(1, &"\u{1}".repeat(1_900), "Open", "1")).unwrap();
    world.store.put(job(2, "p", "Open", "1")).unwrap();
    let records = world.pending();
    let report = world.apply(&records);
    (world, report)
}

#[test]
fn a_ledger_row_at_the_limit_is_stored_and_one_over_it_is_named_in_the_finding() {
    let size = |world: &World| world.store.item(TableRef::State, &LedgerRow::key(&job_key(1))).unwrap().size();
    let (world, report) = with_large_ledger_row(0);
    assert_eq!(report.applied, 2, "{report:?}");
    let missing = ITEM_SIZE_MAX - size(&world);
    let (world, report) = with_large_ledger_row(missing);
    assert_eq!((size(&world), report.applied, report.quarantined), (ITEM_SIZE_MAX, 2, 0));

    let (mut world, report) = with_large_ledger_row(missing + 1);
    assert_eq!((report.applied, report.quarantined), (1, 1), "{report:?}");
    let finding = world.partition("KEEPER#FINDINGS");
    assert!(!finding.is_empty() && size(&world) < 20_000);
    let says =
        "its ledger row, which lists all that is derived from it, would have 409601 bytes, DynamoDB stores 409600";
    let reason = world.ledger(&job_key(1)).unwrap().quarantined.unwrap();
    assert!(reason.starts_with(says), "{reason}");
    let table = world.store.table(TableRef::Source);
    let messages: Vec<&str> = table.items().filter_map(|(_, item)| item.text("Message")).collect();
    assert!(messages.iter().any(|message| message.contains(says)), "{messages:?}");
    drop(table);
    world.settle();
}

#[test]
fn what_cannot_be_taken_away_is_held_until_it_can() {
    let mut model = model();
    model.aggregates[0].sum_squares.clear();
    let mut world = World::with(model);
    for (n, hours) in ["1e37", "-1e37", "0.00001"].into_iter().enumerate() {
        world.store.put(job(n, "p", "Open", hours)).unwrap();
        world.settle();
    }
    // Without the second, the sum would need 43 digits.
    world.store.delete(&job_key(1));
    let records = world.pending();
    let report = world.apply(&records);
    assert_eq!((report.quarantined, report.applied), (1, 0));
    let row = world.ledger(&job_key(1)).unwrap();
    assert!(row.deleted && row.quarantined.is_some() && row.expires_at.is_none());
    assert_eq!((world.quarantine().len(), world.partition("JOBS").len()), (1, 2));
    assert_eq!(
        (world.measure("p", "Total").unwrap(), world.measure("p", "Sum_Hours").unwrap()),
        ("2".into(), "0.00001".into())
    );
    assert_eq!(world.apply(&records).transactions, 0);

    // Nor can the first go without the second; together they can.
    world.store.delete(&job_key(0));
    let records = world.pending();
    assert_eq!(world.apply(&records).quarantined, 1);
    assert_eq!(world.measure("p", "Total").unwrap(), "1");
    let gone = [(job_key(0), None), (job_key(1), None)];
    assert_eq!(run_audited(&world.store, world.engine.apply_items(&gone)).unwrap().reconciled, 2);
    assert_eq!(
        (world.measure("p", "Total").unwrap(), world.measure("p", "Sum_Hours").unwrap()),
        ("1".into(), "0.00001".into())
    );
    assert_eq!(world.ledger(&job_key(1)).unwrap().quarantined, None);
    world.settle();
}

/// A worker under a former model takes the row's place between this worker's read and its commit. What it then meets is not
/// somebody else's item, only a ledger row that moved on.
#[test]
fn a_row_that_another_worker_rewrote_is_not_mistaken_for_a_stranger() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.settle();
    world.store.put(job(1, "p", "Busy", "1")).unwrap();
    let records = world.pending();
    let mut renamed = model();
    renamed.hash = "model-2".into();
    renamed.listings[0].name = "jobs_listed".to_owned();
    world.model = Arc::new(renamed.clone());
    world.engine.model = world.model.clone();
    let mut mine = Stepper::new(world.engine.apply(&records, OldImages::Trusted));
    // Two steps: the ledger row is read, nothing is written.
    assert!(mine.step().is_none() && mine.step().is_none());
    let other = Engine::new(world.model.clone(), world.store.clone(), world.clock.clone());
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    let items = [(job_key(1), world.store.item(TableRef::Source, &job_key(1)))];
    block_on(other.apply_items(&items)).unwrap();
    while mine.step().is_none() {}
    drop(mine);
    assert!(audit(&world.store).is_empty());
    world.settle();
    assert_eq!(world.partition("JOBS"), ["Open#1#u1"]);
}

/// The futures can be spawned on a runtime with several threads.
#[test]
fn engines_can_be_shared_between_threads() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    let world = World::new();
    block_on(send(world.engine.apply(&[], OldImages::Trusted))).unwrap();
    block_on(send(world.engine.apply_items(&[]))).unwrap();
}
