//! What made the counts of other consumers wrong, done to ours.
#![cfg(test)]

use super::*;
use crate::adapters::sim::{Fault, StreamView, block_on};
use crate::engine::ports::StoreError;
use crate::engine::reconcile::reconcile;
use crate::engine::verify::verify;

/// Jobs 0 to `count` of project p, applied.
fn world(count: usize) -> World {
    let mut world = World::new();
    for n in 0..count {
        world.store.put(job(n, "p", "Open", "1")).unwrap();
    }
    world.settle();
    world
}

fn totals(world: &World) -> [String; 3] {
    ["Total", "Count_Open", "Sum_Hours"].map(|name| world.measure("p", name).unwrap())
}

fn differences(world: &World) -> usize {
    block_on(verify(&world.model, &world.store, &world.clock)).unwrap().differences.len()
}

#[test]
fn records_behind_a_poison_one_are_applied_once_however_often_they_come() {
    // powertools-java 1820: record 3 of 10 cannot be read, and what was done behind it comes again.
    let mut world = World::new();
    for n in 0..10 {
        world.store.put(job(n, "p", "Open", "1")).unwrap();
    }
    let mut records = world.pending();
    records[2].new_image = Some(Err("`12,5` is not a number".to_owned()));
    assert_eq!((world.apply(&records).applied, totals(&world)), (9, ["9", "9", "9"].map(str::to_owned)));
    for from in (0..10).rev() {
        assert_eq!(world.apply(&records[from..]).transactions, 0, "all is applied, also the verdict on the third");
        assert_eq!(totals(&world), ["9", "9", "9"]);
    }
}

#[test]
fn records_behind_one_that_the_database_did_not_take_are_applied_once() {
    // powertools-java 1820: the same where the database fails in the midst, and the rest is delivered from there on.
    for outages in 1..6 {
        let mut world = World::new();
        for n in 0..200 {
            world.store.put(job(n, &format!("p{}", n % 5), "Open", "1")).unwrap();
        }
        let records = world.pending();
        world.engine.settings.patience.attempts_max = 1;
        (0..outages).for_each(|n| {
            let outage = StoreError::Unavailable("outage".to_owned());
            world.store.inject(if n % 2 == 0 { Fault::LoseAnswer } else { Fault::Transact(outage.into()) });
        });
        let mut from = 0;
        while let Err(error) = world.try_apply(&records[from..]) {
            from += error.position;
        }
        assert_eq!((0..5).map(|p| world.measure(&format!("p{p}"), "Total").unwrap()).collect::<Vec<_>>(), ["40"; 5]);
        world.settle();
    }
}

#[test]
fn a_delete_without_images_takes_away_what_was_counted() {
    // data-prepper 3534: a REMOVE that carries keys and nothing else.
    let mut world = world(2);
    world.store.set_view(StreamView::KeysOnly);
    world.store.delete(&job_key(1));
    let records = world.pending();
    assert!(records.iter().all(|record| record.new_image.is_none() && record.old_image.is_none()));
    assert_eq!(world.apply(&records).applied, 1);
    assert_eq!((totals(&world), world.partition("JOBS").len()), (["1", "1", "1"].map(str::to_owned), 1));
    // An item that no ledger row knows: there is nothing to take away.
    world.store.set_view(StreamView::NewAndOldImages);
    world.store.put(job(7, "p", "Open", "1")).unwrap();
    let _lost = world.pending();
    world.store.set_view(StreamView::KeysOnly);
    world.store.delete(&job_key(7));
    let records = world.pending();
    world.apply(&records);
    assert_eq!(totals(&world), ["1", "1", "1"]);
    assert_settled(&world.store, &world.model);
}

#[test]
fn one_retry_counts_nothing_twice() {
    // voice-of-customer 264: the transaction has happened, its answer is lost, and it is tried again; then the batch comes again.
    let mut world = world(3);
    world.store.put(job(3, "p", "Open", "1")).unwrap();
    world.store.inject(Fault::LoseAnswer);
    let records = world.pending();
    assert_eq!(world.apply(&records).retries, 1);
    assert_eq!(totals(&world), ["4", "4", "4"]);
    assert_eq!((world.apply(&records).transactions, totals(&world)), (0, ["4", "4", "4"].map(str::to_owned)));
    world.settle();
}

#[test]
fn a_delete_that_is_delivered_twice_subtracts_once() {
    // voice-of-customer 364: in two batches, twice in one, and with the item's earlier records behind it.
    let mut world = world(3);
    world.store.put(job(1, "p", "Open", "2")).unwrap();
    world.store.delete(&job_key(1));
    let records = world.pending();
    let [change, delete] = &records[..] else { panic!("{records:?}") };
    for batch in [
        vec![change.clone(), delete.clone()],
        vec![delete.clone()],
        vec![delete.clone(), delete.clone()],
        vec![delete.clone(), change.clone()],
        vec![change.clone()],
    ] {
        world.apply(&batch);
        assert_eq!(totals(&world), ["2", "2", "2"]);
    }
    world.settle();
}

#[test]
fn counts_that_miss_a_record_are_shown_and_heal() {
    // voice-of-customer 383: a change is lost. The item's next one mends it, and where none comes a reconcile does.
    for next in [true, false] {
        let mut world = world(3);
        for n in 0..2 {
            world.store.put(job(n, "p", "Done", "5")).unwrap();
        }
        world.store.delete(&job_key(2));
        let _lost = world.pending();
        assert!(differences(&world) > 0, "verify must see it");
        if next {
            world.store.put(job(0, "p", "Busy", "1")).unwrap();
            world.store.put(job(1, "p", "Open", "1")).unwrap();
            world.store.put(job(2, "p", "Open", "1")).unwrap();
            world.settle();
            assert_eq!(totals(&world), ["3", "2", "3"]);
        } else {
            run_audited(&world.store, reconcile(&world.engine, |_| {})).unwrap();
            assert_eq!(totals(&world), ["2", "0", "10"]);
        }
        assert_eq!(differences(&world), 0);
    }
}
