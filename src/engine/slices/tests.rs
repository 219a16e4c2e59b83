//! Whatever calls for a reconcile gets one, in as many slices as it takes, and nothing else is read.
#![cfg(test)]

use futures_util::future::join;

use super::*;
use crate::adapters::sim::SimStore;
use crate::engine::checkpoint::write_state;
use crate::engine::leases::Beat;
use crate::engine::testing::{ARN, TestClock};
use crate::engine::tests::{assert_settled, job};
use crate::model::key::TableKey;
use crate::plan::testing::model;

struct World {
    store: SimStore,
    clock: TestClock,
    engine: Engine<SimStore, TestClock>,
}

impl World {
    /// So many jobs in the table, and nothing derived.
    fn new(jobs: usize) -> World {
        let model = Arc::new(model());
        let store = SimStore::new(&model.table);
        let clock = TestClock::at("2027-01-15T08:00:00.123456Z");
        for n in 0..jobs {
            store.put(job(n, &format!("p{}", n % 3), "Open", "1.5")).unwrap();
        }
        let engine = Engine::new(model, store.clone(), clock.clone());
        World { store, clock, engine }
    }

    /// Reads so slowly that a slice of `seconds` ends somewhere, if `max_read_units` says so.
    fn slice(&self, seconds: u64, max_read_units: Option<u32>) -> Slice {
        let options = SliceOptions { time: Duration::from_secs(seconds), max_read_units };
        self.clock.run(go_on(&self.engine, ARN, &options)).unwrap()
    }

    fn whole(&self) -> ReconcileReport {
        match self.slice(600, None) {
            Slice::Done { report, closed: true } => report,
            other => panic!("{other:?}"),
        }
    }

    fn row(&self) -> StreamRow {
        self.clock.run(stream_row(&self.store, &self.clock, ARN)).unwrap().unwrap()
    }

    fn open(&self, loss: bool) {
        let now = self.clock.now();
        let gap = OpenGap { since: now, last: now, cause: "found by another".to_owned(), loss };
        let stream = StreamRow { gap: None, ..self.row() };
        self.clock.run(add_gap(&self.store, &self.clock, &stream, false, &gap)).unwrap();
    }

    fn reads(&self) -> usize {
        self.store.counters().reads
    }
}

#[test]
fn a_table_that_nobody_has_taken_in_is_and_then_nothing_is_read() {
    let world = World::new(40);
    let report = world.whole();
    assert_eq!((report.items, report.reconciled), (40, 40));
    assert_settled(&world.store, &world.engine.model);
    let (row, before) = (world.row(), world.reads());
    assert_eq!(world.slice(600, None), Slice::NotCalledFor);
    assert_eq!((world.reads() - before, world.row()), (1, row), "the stream's row, and nothing is written");
}

#[test]
fn slices_go_on_where_the_last_one_stopped() {
    let world = World::new(90);
    let (mut slices, mut seen) = (0, 0);
    let report = loop {
        slices += 1;
        assert!(slices < 60, "it never ends");
        match world.slice(4, Some(10)) {
            Slice::Interrupted(report) => {
                let now = report.items + report.ledger_rows;
                assert!(now >= seen, "{now} after {seen}");
                seen = now;
                assert!(world.row().gap.is_some(), "it stays open");
            }
            Slice::Done { report, closed } => {
                assert!(closed);
                break report;
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(slices > 2, "{slices}");
    assert!(report.resumed.is_some());
    assert_eq!((report.items, report.ledger_rows), (90, 90), "nothing was looked at twice");
    assert_settled(&world.store, &world.engine.model);
    assert_eq!(world.slice(4, Some(10)), Slice::NotCalledFor);
}

#[test]
fn a_changed_model_and_another_stream_call_for_one() {
    let mut world = World::new(9);
    world.whole();
    let mut changed = (*world.engine.model).clone();
    changed.hash = "model-2".into();
    world.engine.model = Arc::new(changed);
    assert_eq!(world.whole().items, 9);
    assert_eq!(world.row().model, "model-2");
    let mut row = world.row();
    row.arn = format!("{ARN}0");
    row.version += 1;
    world.clock.run(write_state(&world.store, &world.clock, &[row.write(world.clock.now())])).unwrap();
    let Slice::Waits(until) = world.slice(600, None) else { panic!("what the old one held may be lost") };
    world.clock.advance((until - world.clock.now()).to_std().unwrap());
    assert_eq!(world.whole().items, 9);
    assert_eq!(world.row().arn, ARN);
}

#[test]
fn after_a_loss_nothing_is_read_before_everybody_is_done() {
    let world = World::new(9);
    world.whole();
    world.open(true);
    let begun = world.clock.now();
    let before = world.reads();
    let Slice::Waits(until) = world.slice(600, None) else { panic!("a loss") };
    assert_eq!(until, begun.trunc_subsecs(3) + doubt::SETTLED_AFTER);
    world.clock.advance(doubt::SETTLED_AFTER - Duration::from_secs(1));
    assert_eq!(world.slice(600, None), Slice::Waits(until), "however often it is called");
    assert!(world.reads() - before < 12, "no item");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.whole().items, 9);
    world.open(false);
    assert_eq!(world.whole().items, 9, "where nothing was lost nobody waits");
}

#[test]
fn a_gap_that_is_found_meanwhile_stays_open() {
    let world = World::new(40);
    let options = SliceOptions { time: Duration::from_secs(600), max_read_units: Some(10) };
    let other = async {
        world.clock.sleep(Duration::from_secs(3)).await;
        let now = world.clock.now();
        let gap = OpenGap { since: now, last: now, cause: "late".to_owned(), loss: true };
        let stream = StreamRow { arn: ARN.to_owned(), model: "model-1".to_owned(), gap: None, version: 0 };
        add_gap(&world.store, &world.clock, &stream, false, &gap).await.unwrap();
    };
    let (slice, ()) = world.clock.run(join(go_on(&world.engine, ARN, &options), other));
    assert!(matches!(slice.unwrap(), Slice::Done { closed: false, .. }));
    assert!(matches!(world.slice(600, None), Slice::Waits(_)));
}

#[test]
fn a_living_worker_is_left_to_its_work_and_a_dead_one_is_not_waited_for() {
    let world = World::new(9);
    let beat = |count| Beat {
        worker: "w".to_owned(),
        run: "r".to_owned(),
        count,
        lease_time: Duration::from_secs(10),
        model: "model-1".to_owned(),
    };
    let store_beat = async |count| {
        let write = beat(count).write(ARN, DEFAULT_CONSUMER, count > 1, world.clock.now());
        write_state(&world.store, &world.clock, &[write]).await.unwrap();
    };
    world.clock.run(store_beat(1));
    let alive = async {
        world.clock.sleep(Duration::from_secs(4)).await;
        store_beat(2).await;
    };
    let options = SliceOptions { time: Duration::from_secs(600), max_read_units: None };
    let (slice, ()) = world.clock.run(join(go_on(&world.engine, ARN, &options), alive));
    assert_eq!(slice.unwrap(), Slice::LeftToWorker);
    assert_eq!(world.whole().items, 9);
}

/// Slices of a few pages until the run is done; how many it took.
fn slices(world: &World, pause: Duration) -> usize {
    for n in 1..400 {
        match world.slice(4, Some(10)) {
            Slice::Interrupted(_) => world.clock.advance(pause),
            Slice::Done { closed, .. } => {
                assert!(closed && world.row().gap.is_none());
                assert_settled(&world.store, &world.engine.model);
                return n;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("it does not end");
}

#[test]
fn a_first_start_that_only_looks_through_the_table_for_slices_comes_to_its_end() {
    let slices = slices(&World::new(600), Duration::ZERO);
    assert!(slices > 20, "{slices} slices are no trial");
}

#[test]
fn a_run_of_days_forgets_no_segment_that_is_done() {
    let world = World::new(600);
    let item = job(0, "p0", "Open", "1.5");
    let key = TableKey::of(&item, &world.engine.model.table.key_names()).unwrap();
    world.clock.run(world.engine.apply_items(&[(key, Some(item))])).unwrap();
    let slices = slices(&world, Duration::from_secs(2 * 3600));
    assert!(slices > 20, "{slices} slices are no trial");
}

#[test]
fn slices_end_where_the_model_dropped_an_aggregate() {
    let mut world = World::new(600);
    world.whole();
    let mut changed = (*world.engine.model).clone();
    changed.hash = "model-2".into();
    changed.aggregates.remove(0);
    world.engine.model = Arc::new(changed);
    let slices = slices(&world, Duration::ZERO);
    assert!(slices > 20, "{slices} slices are no trial");
}
