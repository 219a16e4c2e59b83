//! Segments, pace, and runs that go on where an earlier one stopped.
#![cfg(test)]

use std::time::Duration;

use super::*;
use crate::engine::testing::TestClock;
use crate::plan::state;

fn journaled() -> ReconcileOptions {
    let journal = Journal { name: "test".to_owned(), from_start: false, gap: None };
    ReconcileOptions { segments: 3, max_read_units: None, journal: Some(journal) }
}

fn run(world: &World, options: &ReconcileOptions) -> ReconcileReport {
    run_audited(&world.store, reconcile_with(&world.engine, options, |_| {})).unwrap()
}

/// Drops a run as soon as that many rows of its journal are written; false if it ended before.
fn interrupt(world: &World, options: &ReconcileOptions, rows: usize) -> bool {
    let mut stepper = Stepper::new(reconcile_with(&world.engine, options, |_| {}));
    while journal_rows(world) < rows {
        if stepper.step().is_some() {
            return false;
        }
    }
    true
}

fn journal_rows(world: &World) -> usize {
    let partition = state::progress_partition("test");
    let table = world.store.table(TableRef::State);
    table.items().filter(|(key, _)| key.partition.as_text() == Some(&partition)).count()
}

#[test]
fn segments_together_cover_all() {
    for segments in [1, 2, 3, 7, 16] {
        let world = World::new();
        put_all(&world, 0..60);
        let report = run(&world, &ReconcileOptions { segments, ..ReconcileOptions::default() });
        assert_eq!((report.items, report.ledger_rows, report.reconciled), (60, 60, 60), "{segments}");
        check_exact(&world);
    }
}

/// Interrupted at every moment: what was done is not done again, what was not is, and nothing is counted twice.
#[test]
fn a_run_goes_on_where_it_stopped() {
    let mut resumed = 0;
    for steps in 1.. {
        let world = World::new();
        put_all(&world, 0..40);
        let mut stepper = Stepper::new(reconcile_with(&world.engine, &OPTIONS, |_| {}));
        if (0..steps).any(|_| stepper.step().is_some()) {
            break;
        }
        drop(stepper);
        let rows = journal_rows(&world);
        let reads = world.store.counters().reads;
        let report = run(&world, &OPTIONS);
        assert_eq!((report.items, report.ledger_rows), (40, 40), "after {steps} steps");
        // The first row is of the look for strangers.
        assert!(rows > 0 || report.resumed.is_none(), "after {steps} steps");
        assert!(rows < 2 || report.resumed.is_some(), "after {steps} steps");
        if let Some(earlier) = &report.resumed {
            resumed += 1;
            assert!(earlier.items > 0);
            let reads = world.store.counters().reads - reads;
            // A dozen to see that the two tables belong together.
            let most = 12 + 3 * (80 - earlier.items - earlier.ledger_rows) as usize;
            assert!(reads <= most, "{reads} reads, {earlier:?}");
        }
        assert_eq!(journal_rows(&world), 0, "the rows are gone at the end");
        check_exact(&world);
    }
    assert!(resumed > 20, "{resumed}");
}

static OPTIONS: std::sync::LazyLock<ReconcileOptions> = std::sync::LazyLock::new(journaled);

#[test]
fn what_changed_behind_the_place_comes_by_the_stream() {
    let mut world = World::new();
    put_all(&world, 0..40);
    assert!(interrupt(&world, &OPTIONS, 3));
    for n in 0..40 {
        match n % 3 {
            0 => world.store.delete(&job_key(n)),
            _ => world.store.put(job(n, "moved", "Done", "3")).unwrap(),
        }
    }
    put_all(&world, 40..50);
    assert!(run(&world, &OPTIONS).resumed.is_some());
    world.settle();
    check_exact(&world);
}

/// Each of these takes away what resuming rests on.
#[test]
fn a_run_begins_anew_where_the_earlier_one_says_nothing() {
    let gap = |at: &str| OpenGap {
        since: at.parse().unwrap(),
        last: at.parse().unwrap(),
        cause: "trimmed".to_owned(),
        loss: true,
    };
    let with_gap = |gap: OpenGap| {
        let journal = journaled().journal.map(|journal| Journal { gap: Some(gap), ..journal });
        ReconcileOptions { journal, ..journaled() }
    };
    type Prepare<'t> = (&'t str, bool, Box<dyn Fn(&mut World) -> ReconcileOptions + 't>);
    let from_start = |_: &mut World| {
        let journal = journaled().journal.map(|journal| Journal { from_start: true, ..journal });
        ReconcileOptions { journal, ..journaled() }
    };
    let cases: [Prepare<'_>; 7] = [
        ("nothing", true, Box::new(|_| journaled())),
        ("another number of segments", true, Box::new(|_| ReconcileOptions { segments: 9, ..journaled() })),
        (
            "another model",
            false,
            Box::new(|world| {
                change(world, "model-2", |_| {});
                journaled()
            }),
        ),
        (
            "23 hours",
            true,
            Box::new(|world| {
                world.clock.advance(Duration::from_secs(23 * 3_600));
                journaled()
            }),
        ),
        (
            "more than a day",
            false,
            Box::new(|world| {
                world.clock.advance(Duration::from_secs(25 * 3_600));
                journaled()
            }),
        ),
        ("a gap that was found since", false, Box::new(|_| with_gap(gap("2027-01-15T09:00:00Z")))),
        ("told to", false, Box::new(from_start)),
    ];
    for (what, resumes, prepare) in cases {
        let mut world = World::new();
        put_all(&world, 0..40);
        assert!(interrupt(&world, &journaled(), 2));
        let options = prepare(&mut world);
        let report = run(&world, &options);
        assert_eq!(report.resumed.is_some(), resumes, "{what}");
        assert_eq!((report.items, report.ledger_rows, journal_rows(&world)), (40, 40, 0), "{what}");
        check_exact(&world);
    }

    // The same gap is still open; then a further one is found.
    let world = World::new();
    put_all(&world, 0..40);
    let options = with_gap(gap("2027-01-15T09:00:00Z"));
    assert!(interrupt(&world, &options, 2) && run(&world, &options).resumed.is_some());
    assert!(interrupt(&world, &options, 2));
    assert_eq!(run(&world, &with_gap(gap("2027-01-15T09:00:00.001Z"))).resumed, None);
}

/// Interrupted at every moment: an aggregate whose former name was met in a part that
/// is not read again is given its name all the same.
#[test]
fn former_names_are_replaced_wherever_the_run_was_interrupted() {
    let mut resumed = 0;
    for steps in 1.. {
        let mut world = World::new();
        put_all(&world, 0..6);
        world.settle();
        change(&mut world, "model-2", |model| model.aggregates[0].name = "jobs_of_project".to_owned());
        reconciled(&world);
        let stats = ["p0", "p1", "p2"].map(|project| TableKey::text(format!("PROJECT#{project}"), "STATS#JOBS"));
        let marker = |key| world.store.item(TableRef::Source, key).unwrap().text(MARKER).unwrap().to_owned();
        for key in &stats {
            let left = world.store.item(TableRef::Source, key).unwrap();
            world.store.put(left.with(MARKER, Value::text("aggregate/by_project"))).unwrap();
        }
        let mut stepper = Stepper::new(reconcile_with(&world.engine, &OPTIONS, |_| {}));
        if (0..steps).any(|_| stepper.step().is_some()) {
            break;
        }
        drop(stepper);
        let reads = world.store.counters().reads;
        let report = run(&world, &OPTIONS);
        resumed += usize::from(report.resumed.is_some());
        assert_eq!(stats.each_ref().map(marker), ["aggregate/jobs_of_project"; 3], "after {steps} steps");
        check_exact(&world);
        assert!(world.store.counters().reads - reads < 60, "each page of rows reads its few aggregates once");
    }
    assert!(resumed > 10, "{resumed}");
}

/// Interrupted at every moment: what a dropped aggregate left is taken away by whichever run ends.
#[test]
fn dropped_aggregates_go_wherever_the_run_was_interrupted() {
    let mut resumed = 0;
    for steps in 1.. {
        let mut world = World::new();
        put_all(&world, 0..12);
        world.settle();
        let keys = drop_by_project(&mut world);
        let mut stepper = Stepper::new(reconcile_with(&world.engine, &OPTIONS, |_| {}));
        if (0..steps).any(|_| stepper.step().is_some()) {
            break;
        }
        drop(stepper);
        let report = run(&world, &OPTIONS);
        resumed += usize::from(report.resumed.is_some());
        let left = keys.iter().filter(|key| world.store.item(TableRef::Source, key).is_some()).count();
        assert_eq!(left, 0, "after {steps} steps");
        check_exact(&world);
    }
    assert!(resumed > 10, "{resumed}");
}

#[test]
fn a_row_that_cannot_be_read_holds_its_place() {
    let mut world = World::new();
    put_all(&world, 0..40);
    world.settle();
    world.store.put(job(3, "q", "Done", "7")).unwrap();
    let _lost = world.pending();
    let key = LedgerRow::key(&job_key(3));
    let row = world.store.item(TableRef::State, &key).unwrap();
    world.store.set_state(&key, Some(row.clone().with(REVISION, Value::text("one"))));
    // As far as it gets without being told of the fault.
    assert!(interrupt(&world, &OPTIONS, 5));
    world.store.set_state(&key, Some(row));
    let report = run(&world, &OPTIONS);
    assert!(report.resumed.is_some());
    assert_eq!((report.items, report.reconciled), (40, 1));
    check_exact(&world);
}

#[test]
fn runs_of_several_names_and_other_workers_do_not_meet() {
    let world = World::new();
    put_all(&world, 0..40);
    assert!(interrupt(&world, &OPTIONS, 3));
    let rows = journal_rows(&world);
    assert_eq!(reconciled(&world).resumed, None);
    assert_eq!(journal_rows(&world), rows);
    let other = Journal { name: "other".to_owned(), from_start: false, gap: None };
    assert_eq!(run(&world, &ReconcileOptions { journal: Some(other), ..journaled() }).resumed, None);
    assert_eq!(journal_rows(&world), rows);
}

#[test]
fn reads_are_held_to_the_pace() {
    let seconds = |max_read_units: Option<u32>, segments: u32| {
        let world = World::new();
        put_all(&world, 0..60);
        let clock = TestClock::at("2027-01-15T08:00:00Z");
        let engine = Engine::new(world.model.clone(), world.store.clone(), clock.clone());
        let begun = clock.now();
        let options = ReconcileOptions { segments, max_read_units, journal: None };
        clock.run(reconcile_with(&engine, &options, |_| {})).unwrap();
        check_exact(&world);
        ((clock.now() - begun).as_seconds_f64(), world.store.counters().reads)
    };
    assert_eq!(seconds(None, 4).0, 0.0);
    for segments in [1, 4] {
        // One unit for each item read by key and for each page: the 60 ledger rows and items of the first side, the 60 items of
        // the second, some pages, and with each page that is applied the row that casts doubt.
        let (slow, reads) = seconds(Some(10), segments);
        assert!((181..200).contains(&reads), "{reads}");
        assert!((20.0..30.0).contains(&slow), "{slow} s in {segments} segments");
        let (fast, _) = seconds(Some(100), segments);
        assert!((slow / fast - 10.0).abs() < 0.5, "{slow} s and {fast} s");
    }
}
