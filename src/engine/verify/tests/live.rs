//! Verify and repair beside running workers: what is on its way is no difference, what stands is mended, and no commit is
//! undone or counted twice by it.
#![cfg(test)]

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::adapters::sim::{Fault, Stepper};
use crate::engine::ports::StoreError;
use crate::engine::tests::assert_settled;
use crate::model::decimal::Decimal;

/// Repairs to the end: nothing differs, by verify and by the simulation's own audit.
fn repaired(world: &World) -> RepairReport {
    let report = block_on(repair(&world.engine, &VerifyOptions::default(), |_, _| {})).unwrap();
    assert_eq!(lines(&report.verdict), [""; 0]);
    assert_settled(&world.store, &world.model);
    report
}

fn settled(world: &World) -> VerifyReport {
    block_on(settle(&world.model, &world.store, &world.clock, &VerifyOptions::default(), |_, _| {})).unwrap()
}

#[test]
fn a_quiet_table_is_read_once_if_it_is_clean_and_twice_if_not() {
    let world = world();
    let report = settled(&world);
    assert_eq!((report.passes, report.unsettled, report.differences.len()), (1, 0, 0));
    assert_eq!(world.clock.slept(), Duration::ZERO);
    world.store.delete(&stats("p"));
    let report = settled(&world);
    assert_eq!((report.passes, report.unsettled), (2, 0));
    assert_eq!(lines(&report), lines(&verified(&world)));
    assert_eq!(world.clock.slept(), Duration::from_secs(2));
    assert!(report.advice().unwrap().contains("verify --repair"));
}

/// Between the passes a worker applies what the first one missed.
#[test]
fn what_was_on_its_way_is_no_difference() {
    let mut world = world();
    world.store.put(job(1, "q", "Busy", "7")).unwrap();
    world.store.delete(&job_key(2));
    world.store.put(job(4, "p", "Open", "1")).unwrap();
    assert!(!verified(&world).differences.is_empty());
    let records = world.pending();
    let engine = world.engine.clone();
    let passes = std::sync::Mutex::new(Vec::new());
    let apply = |pass: u32, differences: usize| {
        passes.lock().unwrap().push((pass, differences));
        block_on(engine.apply(&records, OldImages::Trusted)).unwrap();
    };
    let options = VerifyOptions::default();
    let report = block_on(settle(&world.model, &world.store, &world.clock, &options, apply)).unwrap();
    assert_eq!((report.passes, lines(&report), report.unsettled), (2, vec![], 0));
    assert_eq!(passes.into_inner().unwrap(), [(1, 3), (2, 0)]);
}

/// An aggregate is written between any two passes: what it says proves nothing, and the rest does.
#[test]
fn what_is_never_at_rest_is_unsettled() {
    let world = world();
    let damaged = stored(&world, &stats("p")).with("Total", number("9"));
    world.store.put(damaged).unwrap();
    let listed = TableKey::text("JOBS", "Done#3#u1");
    world.store.delete(&listed);
    let engine = world.engine.clone();
    let write = |pass: u32, _: usize| {
        let item = job(10 + pass as usize, "p", "Open", "1");
        world.store.put(item.clone()).unwrap();
        let items = [(job_key(10 + pass as usize), Some(item))];
        block_on(engine.apply_items(&items)).unwrap();
    };
    let report = block_on(settle(&world.model, &world.store, &world.clock, &VerifyOptions::default(), write)).unwrap();
    assert_eq!((report.passes, report.unsettled), (3, 1));
    assert_eq!(lines(&report), ["missing-row | JOBS / Done#3#u1 | listing/jobs_by_hours | a row | none"]);
    // At rest it stands, and can be mended.
    assert_eq!(lines(&settled(&world)).len(), 2);
    let report = repaired(&world);
    assert_eq!((report.aggregates, report.rows, report.given_up), (1, 1, 0));
}

/// What, the aggregates and rows that are mended, and how it is done.
type Damage = (&'static str, (u64, u64), Box<dyn Fn(&World)>);

/// Every kind of damage by hand.
fn damages() -> [Damage; 14] {
    let put = |world: &World, item: Item| world.store.put(item).unwrap();
    let listed = || TableKey::text("JOBS", "Done#3#u1");
    [
        ("a number", (1, 0), Box::new(move |w| put(w, stored(w, &stats("p")).with("Total", number("3"))))),
        (
            "two",
            (1, 0),
            Box::new(move |w| {
                put(w, stored(w, &stats("p")).with("Total", number("-3")).with("Sum_Hours", number("0.001")));
            }),
        ),
        (
            "a text for a number",
            (1, 0),
            Box::new(move |w| put(w, stored(w, &stats("p")).with("Total", Value::text("2")))),
        ),
        ("a measure of its own", (1, 0), Box::new(move |w| put(w, stored(w, &stats("p")).with("Mine", number("7"))))),
        (
            "a measure taken out",
            (1, 0),
            Box::new(move |w| {
                let mut item = stored(w, &stats("p"));
                item.0.remove("Sum_Hours");
                put(w, item);
            }),
        ),
        ("an aggregate deleted", (1, 0), Box::new(|w| w.store.delete(&stats("q")))),
        ("one copied", (1, 0), Box::new(move |w| put(w, stored(w, &stats("q")).with("PK", Value::text("PROJECT#z"))))),
        (
            "a marker",
            (1, 0),
            Box::new(move |w| put(w, stored(w, &stats("p")).with(MARKER, Value::text("aggregate/x")))),
        ),
        (
            "a row's marker at an aggregate",
            (1, 0),
            Box::new(move |w| {
                put(w, stored(w, &stats("p")).with(MARKER, Value::text("listing/jobs_by_hours")));
            }),
        ),
        ("a row deleted", (0, 1), Box::new(move |w| w.store.delete(&listed()))),
        ("a row changed", (0, 1), Box::new(move |w| put(w, stored(w, &listed()).with("Copy", Value::text("x"))))),
        (
            "a row's marker",
            (0, 1),
            Box::new(move |w| put(w, stored(w, &listed()).with(MARKER, Value::text("listing/x")))),
        ),
        (
            "an aggregate's marker at a row",
            (0, 1),
            Box::new(move |w| {
                put(w, stored(w, &listed()).with(MARKER, Value::text("aggregate/by_project")));
            }),
        ),
        ("a row copied", (0, 1), Box::new(move |w| put(w, stored(w, &listed()).with("SK", Value::text("Done#4#u0"))))),
    ]
}

#[test]
fn each_damage_is_mended() {
    for (what, mended, damage) in damages() {
        let world = world();
        damage(&world);
        assert!(!verified(&world).differences.is_empty(), "{what}");
        let report = repaired(&world);
        assert_eq!((report.aggregates, report.rows), mended, "{what}");
        assert_eq!(report.given_up, 0, "{what}");
    }
}

#[test]
fn an_aggregate_that_was_deleted_comes_back_whole() {
    let world = world();
    let whole = stored(&world, &stats("q"));
    world.store.delete(&stats("q"));
    repaired(&world);
    assert_eq!(
        stored(&world, &stats("q")),
        whole.with("UpdatedAt", stored(&world, &stats("q")).0["UpdatedAt"].clone())
    );
}

#[test]
fn many_measures_are_mended_in_parts() {
    let mut wide = model();
    wide.aggregates[0].buckets.extend((0..120).map(|n| format!("B{n:03}")));
    let mut world = World::with(wide);
    (0..120).for_each(|n| world.store.put(job(n, "p", &format!("B{n:03}"), "1")).unwrap());
    world.settle();
    let mut item = stored(&world, &stats("p")).with(MARKER, Value::text("aggregate/other"));
    for value in item.0.values_mut().filter(|value| value.as_number().is_some()) {
        *value = number("77");
    }
    world.store.put(item).unwrap();
    assert_eq!(repaired(&world).aggregates, 1);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let world = world();
    let names = world.model.table.key_names();
    // A marker that means nothing, on what may be the application's.
    let odd = TableKey::text("NOTE#1", "x").to_item(&names).with(MARKER, number("1"));
    world.store.put(odd.clone()).unwrap();
    // The application's item where an entry belongs.
    let listed = TableKey::text("JOBS", "Done#3#u1");
    let mine = listed.to_item(&names).with("Mine", Value::Bool(true));
    world.store.put(mine.clone()).unwrap();
    let report = block_on(repair(&world.engine, &VerifyOptions::default(), |_, _| {})).unwrap();
    assert_eq!(stored(&world, &TableKey::text("NOTE#1", "x")), odd);
    assert_eq!(stored(&world, &listed), mine);
    let left = lines(&report.verdict);
    assert!(left[0].starts_with("marker | NOTE#1 / x | 1 |"), "{left:?}");
    // The item whose entry has no place is in quarantine, which says so.
    assert_eq!(report.verdict.quarantined, 1);
}

#[test]
fn a_ledger_row_that_was_lost_is_made_good_in_either_order() {
    for repair_first in [true, false] {
        let world = world();
        world.store.set_state(&LedgerRow::key(&job_key(3)), None);
        let reconciled = || block_on(crate::engine::reconcile::reconcile(&world.engine, |_| {})).unwrap();
        let mend = || block_on(repair(&world.engine, &VerifyOptions::default(), |_, _| {})).unwrap();
        if repair_first {
            mend();
            reconciled();
        } else {
            reconciled();
            mend();
        }
        check(&world, &[]);
        assert_settled(&world.store, &world.model);
    }
}

#[test]
fn an_item_that_somebody_marked_is_not_taken_for_a_row_of_ours() {
    let world = world();
    let marked = job(1, "p1", "Open", "1").with(MARKER, Value::text("listing/jobs_by_status"));
    world.store.put(marked.clone()).unwrap();
    let mended = block_on(repair(&world.engine, &VerifyOptions::default(), |_, _| {})).unwrap();
    assert!(lines(&mended.verdict)[0].starts_with("unexpected-row"), "it is told of");
    assert_eq!(world.store.item(TableRef::Source, &job_key(1)), Some(marked));
}

#[test]
fn without_a_ledger_nothing_is_taken_away() {
    let world = world();
    (1..4).for_each(|n| world.store.set_state(&LedgerRow::key(&job_key(n)), None));
    let commits = world.store.counters().commits;
    let error = block_on(repair(&world.engine, &VerifyOptions::default(), |_, _| {})).unwrap_err();
    assert!(matches!(error, RepairError::NoLedger) && error.to_string().contains("right state table"), "{error}");
    assert_eq!(world.store.counters().commits, commits);
}

#[derive(Debug, Clone)]
enum Act {
    Put { job: usize, project: usize, status: usize, hours: i64 },
    Delete { job: usize },
    Worker { steps: usize },
    Repair { steps: usize },
    LoseAnswer,
    Conflict(usize),
    Throttle,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..6usize, 0..2usize, 0..4usize, -3..4i64)
            .prop_map(|(job, project, status, hours)| Act::Put { job, project, status, hours }),
        2 => (0..6usize).prop_map(|job| Act::Delete { job }),
        6 => (1..9usize).prop_map(|steps| Act::Worker { steps }),
        8 => (1..12usize).prop_map(|steps| Act::Repair { steps }),
        1 => Just(Act::LoseAnswer),
        1 => (0..9usize).prop_map(Act::Conflict),
        1 => Just(Act::Throttle),
    ]
}

fn apply_write(world: &World, act: &Act) {
    match *act {
        Act::Put { job: n, project, status, hours } => {
            let status = ["Open", "Busy", "Done", "Mislaid"][status];
            world.store.put(job(n, &format!("p{project}"), status, &hours.to_string())).unwrap();
        }
        Act::Delete { job } => world.store.delete(&job_key(job)),
        _ => {}
    }
}

/// By aggregate and measure, how much more is stored than the ledger says.
fn surplus(world: &World) -> BTreeMap<(String, String), Decimal> {
    let report = verified(world);
    let aggregates = report.differences.iter().filter(|difference| difference.kind == DifferenceKind::Aggregate);
    let number = |text: &str| if text == "none" { Decimal::zero() } else { text.parse().unwrap() };
    aggregates
        .map(|d| ((d.key.clone(), d.what.clone()), number(&d.stored).checked_sub(&number(&d.expected)).unwrap()))
        .collect()
}

/// A table that was kept, with measures that are off by so much and rows that are changed or gone.
fn damaged_world(first: &[Act], damage: Vec<(usize, usize, i64)>, rows: Vec<(usize, bool)>) -> World {
    let mut world = World::new();
    first.iter().for_each(|act| apply_write(&world, act));
    world.settle();
    for (project, measure, by) in damage {
        let Some(item) = world.store.item(TableRef::Source, &stats(&format!("p{project}"))) else { continue };
        let measure = ["Total", "Sum_Hours", "Count_Open"][measure];
        let off = item.number(measure).unwrap().checked_add(&by.into()).unwrap();
        world.store.put(item.with(measure, Value::N(off))).unwrap();
    }
    for (which, delete) in rows {
        let table = world.store.table(TableRef::Source);
        let is_row = |item: &Item| item.text(MARKER).is_some_and(|marker| !marker.starts_with("aggregate/"));
        let entries: Vec<_> = table.items().filter(|(_, item)| is_row(item)).collect();
        let Some((key, item)) = entries.get(which % entries.len().max(1)) else { continue };
        match delete {
            true => world.store.delete(key),
            false => world.store.put((*item).clone().with("Scrawl", Value::text("x"))).unwrap(),
        }
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 4_000, ..ProptestConfig::default() })]

    /// The application writes, a worker applies, somebody has damaged derived items, and a repair runs beside them. At no commit
    /// is an aggregate further off than the damage made it, and when all are at rest the repair ends with exact tables.
    #[test]
    fn repair_beside_running_commits_undoes_none_and_counts_none_twice(
        first in vec(act(), 0..20),
        damage in vec((0..2usize, 0..3usize, -4..5i64), 1..4),
        rows in vec((any::<usize>(), any::<bool>()), 0..3),
        acts in vec(act(), 1..80),
    ) {
        let mut world = damaged_world(&first, damage, rows);
        let _ours = world.pending();
        let damaged = surplus(&world);
        let engine = world.engine.clone();
        let options = VerifyOptions::default();
        let mut repairing = Stepper::new(repair(&engine, &options, |_, _| {}));
        let mut worker: Option<(Stepper<'_, _>, usize)> = None;
        let mut commits = world.store.counters().commits;
        for act in &acts {
            apply_write(&world, act);
            match act {
                Act::LoseAnswer => world.store.inject(Fault::LoseAnswer),
                Act::Conflict(at) => world.store.inject(Fault::Conflict(*at)),
                Act::Throttle => world.store.inject(Fault::Read(StoreError::Throttled("slow down".to_owned()))),
                _ => {}
            }
            let steps = if let Act::Worker { steps } | Act::Repair { steps } = act { *steps } else { 0 };
            for _ in 0..steps {
                if matches!(act, Act::Repair { .. }) {
                    if let Some(result) = repairing.step() {
                        prop_assert!(!matches!(result, Err(RepairError::Apply(_))), "{:?}", result.err());
                        repairing = Stepper::new(repair(&engine, &options, |_, _| {}));
                    }
                } else if let Some((applying, end)) = &mut worker {
                    if let Some(result) = applying.step() {
                        let result: Result<_, crate::engine::batch::ApplyError> = result;
                        world.delivered = if result.is_ok() { *end } else { world.delivered };
                        worker = None;
                    }
                } else {
                    let records: Vec<_> = world.store.records(world.delivered).into_iter().take(4).collect();
                    let end = world.delivered + records.len();
                    let engine = engine.clone();
                    worker = Some((Stepper::new(async move { engine.apply(&records, OldImages::Trusted).await }), end));
                }
                if std::mem::replace(&mut commits, world.store.counters().commits) != commits {
                    for (place, off) in surplus(&world) {
                        prop_assert_eq!(damaged.get(&place), Some(&off), "{:?}", place);
                    }
                }
            }
        }
        world.store.heal();
        let records = world.store.records(world.delivered);
        block_on(engine.apply(&records, OldImages::Trusted)).unwrap();
        // A repair that was cut off may have taken a row away and not derived it anew: the ledger knows.
        block_on(crate::engine::reconcile::reconcile(&engine, |_| {})).unwrap();
        repaired(&world);
    }
}
