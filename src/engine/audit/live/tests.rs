//! Segments, pace, throttling, and runs that go on where another stopped.

use super::*;
use crate::adapters::sim::{Fault, SimStore, Stepper, block_on};
use crate::engine::audit::tests::{model, order, sound};
use crate::engine::testing::TestClock;

const TABLE: &str = "arn:aws:dynamodb:eu-central-1:000000000000:table/T";

fn store(model: &Model) -> SimStore {
    let store = SimStore::new(&model.table);
    for number in 0..60 {
        let item = if number % 7 == 0 { order(number, "open", "shut#0") } else { sound(number) };
        store.put(item.with("Price", crate::model::value::Value::N((number as i64).into()))).unwrap();
    }
    store
}

fn clock() -> TestClock {
    TestClock::at("2027-01-15T08:00:00Z")
}

/// All that is told of an audit.
fn told(audit: LiveAudit<'_>) -> String {
    format!("{:?}", audit.finish().finish())
}

fn whole(model: &Model, store: &SimStore, segments: u32) -> String {
    let audit = LiveAudit::new(model, TABLE, 5, segments);
    block_on(audit.run(store, &clock(), None, &(), |_| {})).unwrap();
    assert_eq!(audit.read(), 60);
    told(audit)
}

#[test]
fn the_result_does_not_depend_on_the_segments() {
    let model = model();
    let store = store(&model);
    let serial = whole(&model, &store, 1);
    assert!(serial.contains("failed: 9"), "{serial}");
    for segments in [2, 3, 8, 100] {
        assert_eq!(whole(&model, &store, segments), serial, "{segments}");
    }
}

/// Interrupted at every moment, and written to a file in between.
#[test]
fn a_run_goes_on_where_another_stopped() {
    let model = model();
    let store = store(&model);
    let wanted = whole(&model, &store, 3);
    let mut resumed = 0;
    for steps in 1.. {
        let first = LiveAudit::new(&model, TABLE, 5, 3);
        let clock = clock();
        let mut stepper = Stepper::new(first.run(&store, &clock, None, &(), |_| {}));
        if (0..steps).any(|_| stepper.step().is_some()) {
            break;
        }
        drop(stepper);
        let file = serde_json::to_vec(&first.save()).unwrap();
        let second = LiveAudit::resume(&model, TABLE, 5, serde_json::from_slice(&file).unwrap()).unwrap();
        resumed += usize::from((1..60).contains(&second.read()));
        block_on(second.run(&store, &clock, None, &(), |_| {})).unwrap();
        assert_eq!((second.read(), told(second)), (60, wanted.clone()), "after {steps} steps");
    }
    assert!(resumed >= 3, "{resumed}");
}

#[test]
fn what_another_run_left_is_refused_where_it_says_nothing() {
    let model = model();
    let left = LiveAudit::new(&model, TABLE, 5, 3).save();
    let refused = |model: &Model, table: &str, samples: usize, left: &Progress| {
        LiveAudit::resume(model, table, samples, left.clone()).err()
    };
    assert_eq!(refused(&model, TABLE, 5, &left), None);
    assert_eq!(refused(&model, "other", 5, &left), Some(OtherRun::Table(TABLE.to_owned())));
    assert_eq!(refused(&model, TABLE, 6, &left), Some(OtherRun::Samples(5)));
    assert_eq!(refused(&Model { hash: "other".into(), ..model.clone() }, TABLE, 5, &left), Some(OtherRun::Model));
    assert_eq!(refused(&model, TABLE, 5, &Progress { version: 2, ..left.clone() }), Some(OtherRun::Version));
    assert_eq!(refused(&model, TABLE, 5, &Progress { places: Vec::new(), ..left }), Some(OtherRun::Empty));
}

#[test]
fn the_limit_holds_however_many_segments_read() {
    let model = model();
    let store = store(&model);
    let seconds = |limit: Option<u32>, segments: u32| {
        let (clock, audit) = (clock(), LiveAudit::new(&model, TABLE, 5, segments));
        let (begun, pages) = (clock.now(), std::sync::atomic::AtomicU32::new(0));
        let count = |_: &LiveAudit<'_>| {
            pages.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        };
        clock.run(audit.run(&store, &clock, limit, &(), count)).unwrap();
        ((clock.now() - begun).as_seconds_f64(), f64::from(pages.into_inner()))
    };
    assert_eq!(seconds(None, 3).0, 0.0);
    for segments in [1, 3] {
        // A page costs a unit here; each segment's first one may run ahead.
        let (took, pages) = seconds(Some(2), segments);
        assert!(took >= (pages - 2.0 * f64::from(segments)) / 2.0 && took <= pages / 2.0, "{took} s for {pages} pages");
    }
}

#[test]
fn a_table_that_throttles_is_waited_for_and_one_that_refuses_is_not() {
    let model = model();
    let store = store(&model);
    for _ in 0..20 {
        store.inject(Fault::Read(StoreError::Throttled("slow down".to_owned())));
    }
    let (clock, audit) = (clock(), LiveAudit::new(&model, TABLE, 5, 1));
    clock.run(audit.run(&store, &clock, None, &(), |_| {})).unwrap();
    assert_eq!(told(audit), whole(&model, &store, 1));
    store.inject(Fault::Read(StoreError::Refused("no".to_owned())));
    let audit = LiveAudit::new(&model, TABLE, 5, 1);
    assert!(clock.run(audit.run(&store, &clock, None, &(), |_| {})).is_err());
}
