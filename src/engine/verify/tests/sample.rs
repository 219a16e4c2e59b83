//! A sample finds what is wrong with the items that it looks at, and looks no longer than it may.
#![cfg(test)]

use std::time::Duration;

use super::*;
use crate::engine::testing::TestClock;

fn options() -> SampleOptions {
    let settle = VerifyOptions::default();
    SampleOptions { segments: 3, time: Duration::from_secs(60), items_max: 1000, settle }
}

fn sampled(world: &World, options: &SampleOptions) -> VerifyReport {
    let clock = TestClock::at("2027-01-15T08:00:00Z");
    clock.run(sample(&world.model, &world.store, &clock, options)).unwrap()
}

#[test]
fn a_table_that_was_kept_is_clean_and_each_item_is_seen_once() {
    let report = sampled(&world(), &options());
    assert!(report.differences.is_empty(), "{:?}", lines(&report));
    assert_eq!((report.source_items, report.ledger_rows, report.findings, report.unsettled), (3, 3, 1, 0));
    // Three listing rows, an expiry, a finding.
    assert_eq!((report.derived_items, report.passes), (5, 1));
}

#[test]
fn what_the_ledger_lacks_and_what_was_done_to_rows_is_found() {
    let world = world();
    world.store.put(job(4, "q", "Open", "1")).unwrap();
    let expiry = row_key(&world, "expiry/");
    world.store.delete(&expiry);
    let finding = row_key(&world, "finding/");
    world.store.put(stored(&world, &finding).with("Note", Value::text("by hand"))).unwrap();
    let report = sampled(&world, &options());
    let kinds: Vec<&str> = report.differences.iter().map(|difference| difference.kind.name()).collect();
    let mut sorted = kinds.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["changed-row", "ledger", "missing-row"], "{:?}", lines(&report));
    assert_eq!((report.unsettled, report.passes), (0, 2), "looked at again");
    // The same by the whole proof.
    assert_eq!(verified(&world).differences.len(), 3);
}

#[test]
fn what_is_on_its_way_does_not_stand() {
    let mut world = world();
    world.store.put(job(4, "q", "Open", "1")).unwrap();
    let clock = TestClock::at("2027-01-15T08:00:00Z");
    let (model, store) = (world.model.clone(), world.store.clone());
    let options = options();
    let look = sample(&model, &store, &clock, &options);
    let arrive = async {
        clock.sleep(Duration::from_secs(1)).await;
        world.settle();
    };
    let (report, ()) = clock.run(futures_util::future::join(look, arrive));
    let report = report.unwrap();
    assert!(report.differences.is_empty() && report.unsettled == 0, "{:?}", lines(&report));
    assert_eq!(report.source_items, 4);
}

#[test]
fn it_ends_when_its_time_is_up_or_enough_is_seen() {
    let world = world();
    let none = SampleOptions { time: Duration::ZERO, ..options() };
    assert_eq!(sampled(&world, &none).source_items, 0);
    let few = SampleOptions { segments: 500, items_max: 1, ..options() };
    let seen = sampled(&world, &few).source_items;
    assert!((1..3).contains(&seen), "{seen}");
}
