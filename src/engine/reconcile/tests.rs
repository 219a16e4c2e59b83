//! Reconcile from every start, in every company, interrupted anywhere: it ends with tables that verify finds exact.
#![cfg(test)]

mod beside;
mod resume;

use std::sync::Arc;

use super::*;
use crate::adapters::sim::{Stepper, block_on};
use crate::engine::batch::OldImages;
use crate::engine::tests::{World, assert_settled, job, job_key, run_audited};
use crate::engine::verify::verify;
use crate::model::spec::Model;
use crate::model::template::Template;
use crate::plan::ledger::REVISION;
use crate::plan::testing::model;

/// Reconciles, with I1 and I2 checked after every commit.
fn reconciled(world: &World) -> ReconcileReport {
    run_audited(&world.store, reconcile(&world.engine, |_| {})).unwrap()
}

/// Nothing differs, by verify and by the simulation's own audit.
fn check_exact(world: &World) {
    let report = block_on(verify(&world.model, &world.store, &world.clock)).unwrap();
    assert!(report.differences.is_empty(), "{:#?}", report.differences);
    assert_settled(&world.store, &world.model);
}

/// The engine goes on under another model.
fn change(world: &mut World, hash: &str, change: impl FnOnce(&mut Model)) {
    let mut model = Model::clone(&world.model);
    model.hash = hash.into();
    change(&mut model);
    world.model = Arc::new(model);
    world.engine.model = world.model.clone();
}

fn put_all(world: &World, jobs: std::ops::Range<usize>) {
    for n in jobs {
        let status = ["Open", "Busy", "Done", "Mislaid"][n % 4];
        let item = job(n, &format!("p{}", n % 3), status, &format!("{n}.5"));
        world.store.put(item.with("Due", Value::text("2027-01-31"))).unwrap();
    }
}

#[test]
fn the_first_start_on_a_table_with_items() {
    let mut world = World::new();
    put_all(&world, 0..60);
    let mut heard = Vec::new();
    let report =
        run_audited(&world.store, reconcile(&world.engine, |so_far| heard.push(so_far.items + so_far.ledger_rows)))
            .unwrap();
    assert_eq!((report.items, report.ledger_rows, report.reconciled, report.quarantined), (60, 60, 60, 0));
    assert!(heard.windows(2).all(|pair| pair[0] <= pair[1]) && heard.last() == Some(&120));
    check_exact(&world);
    // The stream still has all of it, and changes nothing derived.
    let table = world.store.table(TableRef::Source);
    world.settle();
    let after = world.store.table(TableRef::Source);
    assert!(table.items().eq(after.items()));
    let again = reconciled(&world);
    assert_eq!((again.reconciled, again.transactions), (0, 0));
}

#[test]
fn what_is_counted_already_is_not_counted_twice_for_want_of_a_ledger() {
    let mut world = World::new();
    put_all(&world, 0..9);
    world.settle();
    let whole = world.store.table(TableRef::State);
    let rows: Vec<_> = whole.items().filter(|(_, row)| LedgerRow::is_ledger(row)).collect();
    rows.iter().for_each(|(key, _)| world.store.set_state(key, None));
    let commits = world.store.counters().commits;
    let error = block_on(reconcile(&world.engine, |_| {})).unwrap_err();
    assert!(matches!(error, ReconcileError::NoLedger { .. }) && error.to_string().contains("counted twice"), "{error}");
    assert_eq!(world.store.counters().commits, commits);
    // As the message says: without the derived items it starts anew.
    for (key, _) in world.store.table(TableRef::Source).items().filter(|(_, item)| item.is_ours()) {
        world.store.delete(key);
    }
    assert_eq!(reconciled(&world).reconciled, 9);
    check_exact(&world);
}

/// Who waits for the look at a large table sees that it goes on, and may end it; later starts look at a few rows only.
#[test]
fn the_search_of_a_first_start_tells_of_each_page() {
    let world = World::new();
    put_all(&world, 0..40);
    let pages = || {
        let mut pages = 0;
        block_on(refuse_strangers(&world.engine, || pages += 1)).unwrap();
        pages
    };
    let told = pages();
    assert!(told > 5, "a page each: {told}");
    reconciled(&world);
    assert_eq!(pages(), 0, "there is a ledger");
}

#[test]
fn lost_records_are_made_up_for() {
    let mut world = World::new();
    put_all(&world, 0..20);
    world.settle();
    world.store.put(job(1, "q", "Done", "7")).unwrap();
    world.store.delete(&job_key(2));
    world.store.put(job(30, "q", "Open", "1")).unwrap();
    let _lost = world.pending();
    assert!(!block_on(verify(&world.model, &world.store, &world.clock)).unwrap().differences.is_empty());
    let report = reconciled(&world);
    assert_eq!((report.items, report.reconciled), (20, 3));
    check_exact(&world);
    assert!(world.ledger(&job_key(2)).unwrap().deleted);
    // A tombstone is no ledger row to look at.
    assert_eq!(reconciled(&world).ledger_rows, 20);
}

#[test]
fn every_change_of_the_model_is_followed() {
    let mut world = World::new();
    put_all(&world, 0..40);
    world.settle();
    type Change = fn(&mut Model);
    let changes: [(&str, Change); 9] = [
        ("an aggregate removed", |model| model.aggregates.retain(|aggregate| aggregate.name != "by_user")),
        ("one added, at other keys", |model| {
            let mut added = model.aggregates[0].clone();
            added.name = "by_status".to_owned();
            added.group_by = vec!["Status".to_owned()];
            added.partition = Template::parse("STATUS#{Status}").unwrap();
            model.aggregates.push(added);
        }),
        ("one renamed in place", |model| model.aggregates[0].name = "jobs_of_project".to_owned()),
        ("two that swap names", |model| {
            model.aggregates[0].name = "by_status".to_owned();
            model.aggregates[1].name = "jobs_of_project".to_owned();
        }),
        ("a sum dropped, a bucket added", |model| {
            model.aggregates[0].sum.clear();
            model.aggregates[0].buckets.push("Mislaid".to_owned());
        }),
        ("a listing's key changed", |model| {
            model.listings[0].sort = Some(Template::parse("{job}#{user}#{Status}").unwrap());
        }),
        ("a listing renamed and copying more", |model| {
            model.listings[0].name = "jobs_listed".to_owned();
            model.listings[0].copy.push("Project".to_owned());
        }),
        ("a rule added, an expiry dropped", |model| {
            model.entities[0].attributes[1].one_of = vec!["p0".to_owned(), "p1".to_owned()];
            model.expiries.clear();
        }),
        ("another prefix, an entity renamed", |model| {
            model.prefix = "OWN".to_owned();
            model.entities[0].name = "Task".to_owned();
            model.aggregates.iter_mut().for_each(|aggregate| aggregate.of = "Task".to_owned());
            model.listings[0].of = "Task".to_owned();
        }),
    ];
    for (what, apply) in changes {
        change(&mut world, what, apply);
        let before = block_on(verify(&world.model, &world.store, &world.clock)).unwrap();
        assert!(!before.differences.is_empty(), "{what}: verify sees the difference");
        let report = reconciled(&world);
        assert_eq!((report.reconciled, report.quarantined), (40, 0), "{what}: {report:?}");
        check_exact(&world);
        assert_eq!(reconciled(&world).transactions, 0, "{what}: and stays so");
    }
    for n in 0..40 {
        world.store.delete(&job_key(n));
    }
    world.settle();
    check_exact(&world);
}

/// An item that is only taken away, after another one has already written the aggregate's new name.
#[test]
fn what_counts_under_a_former_name_is_taken_away_under_the_new_one() {
    let mut world = World::new();
    put_all(&world, 0..6);
    world.settle();
    change(&mut world, "model-2", |model| model.aggregates[0].name = "jobs_of_project".to_owned());
    world.store.put(job(0, "p0", "Done", "1")).unwrap();
    world.store.delete(&job_key(3));
    let records = world.pending();
    for record in records {
        assert_eq!(world.apply(&[record]).quarantined, 0);
    }
    assert_eq!(world.measure("p0", "Total").unwrap(), "1");
    let stats = TableKey::text("PROJECT#p0", "STATS#JOBS");
    assert_eq!(world.store.item(TableRef::Source, &stats).unwrap().text(MARKER), Some("aggregate/jobs_of_project"));
    reconciled(&world);
    check_exact(&world);
}

/// The aggregate was written last under its former name, by a commit that only took away, and nobody writes to it any more.
#[test]
fn a_former_name_that_was_left_behind_is_replaced() {
    let mut world = World::new();
    put_all(&world, 0..6);
    world.settle();
    change(&mut world, "model-2", |model| model.aggregates[0].name = "jobs_of_project".to_owned());
    reconciled(&world);
    let stats = TableKey::text("PROJECT#p0", "STATS#JOBS");
    let stored = || world.store.item(TableRef::Source, &stats).unwrap();
    let left = stored().with(MARKER, Value::text("aggregate/by_project"));
    world.store.put(left.clone()).unwrap();
    reconciled(&world);
    assert_eq!(stored(), left.with(MARKER, Value::text("aggregate/jobs_of_project")));
    check_exact(&world);
}

/// Without the first aggregate, and the keys of its items.
fn drop_by_project(world: &mut World) -> [TableKey; 3] {
    change(world, "model-2", |model| _ = model.aggregates.remove(0));
    ["p0", "p1", "p2"].map(|project| TableKey::text(format!("PROJECT#{project}"), "STATS#JOBS"))
}

#[test]
fn what_a_dropped_aggregate_leaves_is_taken_away() {
    let mut world = World::new();
    put_all(&world, 0..6);
    world.settle();
    let former = world.engine.clone();
    let keys = drop_by_project(&mut world);
    let there = |key: &TableKey| world.store.item(TableRef::Source, key).is_some();
    assert!(keys.iter().all(there));
    assert_eq!(reconciled(&world).removed, 3);
    assert!(!keys.iter().any(there) && world.measure("p0", "Total").is_none());
    check_exact(&world);
    let again = reconciled(&world);
    assert_eq!((again.removed, again.transactions), (0, 0), "nothing is left to do");
    // A worker under the former model goes on counting, finds nothing there, and is right.
    world.store.put(job(0, "p1", "Done", "1")).unwrap();
    let records = world.pending();
    run_audited(&world.store, former.apply(&records, OldImages::NotTrusted)).unwrap();
    assert_eq!(world.measure("p1", "Total").as_deref(), Some("1"));
    assert_eq!(reconciled(&world).removed, 1);
    check_exact(&world);
    // The aggregate of a model that has it stays at zero when its last item goes.
    let keys: Vec<TableKey> = (0..6).map(job_key).collect();
    keys.iter().for_each(|key| world.store.delete(key));
    world.settle();
    assert_eq!(reconciled(&world).removed, 0);
    assert!(world.store.table(TableRef::Source).items().count() > 0);
}

#[test]
fn a_dropped_aggregate_in_which_something_still_counts_stays() {
    let mut world = World::new();
    put_all(&world, 0..6);
    world.settle();
    let [p0, p1, p2] = drop_by_project(&mut world);
    // A ledger row that cannot be read: what its item counts is not taken away.
    let row = LedgerRow::key(&job_key(0));
    let stored = world.store.item(TableRef::State, &row).unwrap();
    world.store.set_state(&row, Some(stored.clone().with(REVISION, Value::text("one"))));
    let error = block_on(reconcile(&world.engine, |_| {})).unwrap_err();
    assert!(matches!(error, ReconcileError::Ledger { .. }), "{error}");
    let there = |key: &TableKey| world.store.item(TableRef::Source, key).is_some();
    assert_eq!((there(&p0), there(&p1), there(&p2)), (true, false, false));
    assert_eq!(world.measure("p0", "Total").as_deref(), Some("1"));
    world.store.set_state(&row, Some(stored));
    assert_eq!((reconciled(&world).removed, there(&p0)), (1, false));
    check_exact(&world);
}

/// The table was deleted and made again under its name; the state table is the former one's.
#[test]
fn nothing_is_taken_from_aggregates_that_are_not_there() {
    let mut world = World::new();
    put_all(&world, 0..6);
    world.settle();
    let keys: Vec<TableKey> = world.store.table(TableRef::Source).items().map(|(key, _)| key.clone()).collect();
    keys.iter().for_each(|key| world.store.delete(key));
    put_all(&world, 0..2);
    let error = block_on(reconcile(&world.engine, |_| {})).unwrap_err();
    assert!(matches!(error, ReconcileError::NoAggregates { .. }) && error.to_string().contains("made anew"), "{error}");
    assert_eq!(world.measure("p0", "Total"), None, "nothing was written");
}

#[test]
fn a_derived_item_at_the_key_of_a_source_item_means_that_it_is_gone() {
    let mut world = World::new();
    put_all(&world, 0..3);
    world.settle();
    let names = world.model.table.key_names();
    let stranger = job_key(1).to_item(&names).with(MARKER, Value::text("aggregate/of_before"));
    world.store.put(stranger).unwrap();
    let _lost = world.pending();
    assert_eq!(reconciled(&world).reconciled, 1);
    check_exact(&world);
}

#[test]
fn what_is_in_quarantine_is_tried_again() {
    let mut world = World::new();
    let place = TableKey::text("JOBS", "Open#1#u1");
    let mine = place.to_item(&world.model.table.key_names()).with("Mine", Value::Bool(true));
    world.store.put(mine).unwrap();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    let records = world.pending();
    assert_eq!(world.apply(&records).quarantined, 1);
    // Still in the way: told again, and nothing is written.
    let report = reconciled(&world);
    assert_eq!((report.quarantined, report.transactions), (1, 0), "{report:?}");
    world.store.delete(&place);
    let report = reconciled(&world);
    assert_eq!((report.quarantined, report.reconciled), (0, 2), "{report:?}");
    world.settle();
    check_exact(&world);

    // A record that could not be decoded: the item itself can.
    world.store.put(job(1, "p", "Busy", "2")).unwrap();
    let mut records = world.pending();
    records[0].new_image = Some(Err("`12,5` is not a number".to_owned()));
    assert_eq!(world.apply(&records).quarantined, 1);
    assert_eq!(reconciled(&world).reconciled, 1);
    check_exact(&world);
    assert_eq!(world.measure("p", "Count_Busy").unwrap(), "1");
}

#[test]
fn what_could_not_be_taken_away_is_tried_again_though_the_item_is_gone() {
    let mut wide = model();
    wide.aggregates[0].sum_squares.clear();
    let mut world = World::with(wide);
    for (n, hours) in ["1e37", "-1e37", "0.00001"].into_iter().enumerate() {
        world.store.put(job(n, "p", "Open", hours)).unwrap();
        world.settle();
    }
    for n in [1, 0] {
        world.store.delete(&job_key(n));
        let records = world.pending();
        assert_eq!(world.apply(&records).quarantined, 1);
    }
    // Neither can go without the other; together they can.
    let report = reconciled(&world);
    assert_eq!((report.ledger_rows, report.reconciled, report.quarantined), (3, 2, 0));
    check_exact(&world);
    assert_eq!(world.measure("p", "Total").unwrap(), "1");
}

#[test]
fn sums_that_were_left_out_come_back_when_there_is_room() {
    let mut wide = model();
    wide.aggregates[0].sum_squares.clear();
    let mut world = World::with(wide);
    world.store.put(job(0, "p", "Open", &"9".repeat(38))).unwrap();
    world.store.put(job(5, "p", "Open", "0.5")).unwrap();
    world.settle();
    for _ in 0..2 {
        let report = reconciled(&world);
        assert_eq!((report.reconciled, report.transactions), (0, 0), "tried in full, refused, and not written again");
        assert!(world.ledger(&job_key(5)).unwrap().left_out.is_some());
        check_exact(&world);
    }
    world.store.delete(&job_key(0));
    world.settle();
    assert_eq!(reconciled(&world).reconciled, 1);
    assert_eq!(world.ledger(&job_key(5)).unwrap().left_out, None);
    assert_eq!(world.measure("p", "Sum_Hours").unwrap(), "0.5");
    check_exact(&world);
}

#[test]
fn a_ledger_row_that_cannot_be_read_stops_its_own_item_only() {
    let mut world = World::new();
    put_all(&world, 0..30);
    world.settle();
    world.store.put(job(3, "q", "Done", "7")).unwrap();
    world.store.delete(&job_key(4));
    let _lost = world.pending();
    let damage = |n: usize| {
        let key = LedgerRow::key(&job_key(n));
        let row = world.store.item(TableRef::State, &key).unwrap();
        world.store.set_state(&key, Some(row.clone().with(REVISION, Value::text("one"))));
        (key, row)
    };
    let kept = [damage(11), damage(12)];
    let gone = damage(13);
    world.store.delete(&job_key(13));
    let _lost = world.store.records(0);
    let error = block_on(reconcile(&world.engine, |_| {})).unwrap_err();
    assert!(matches!(error, ReconcileError::Ledger { rows: 3, .. }), "{error}");
    assert!(error.to_string().contains("3 ledger rows cannot be read"), "{error}");
    assert_eq!(world.measure("q", "Total").unwrap(), "1", "the others are reconciled");
    assert!(world.ledger(&job_key(4)).unwrap().deleted);
    for (key, row) in kept.into_iter().chain([gone]) {
        world.store.set_state(&key, Some(row));
    }
    assert_eq!(reconciled(&world).reconciled, 1);
    check_exact(&world);
}

/// Dropped at every moment in turn, and started anew: nothing is half done and the next run ends it.
#[test]
fn it_may_be_interrupted_at_any_request() {
    let start = || {
        let mut world = World::new();
        put_all(&world, 0..16);
        let records = world.pending();
        world.apply(&records[..8]);
        world.store.delete(&job_key(1));
        world.store.put(job(2, "q", "Done", "7")).unwrap();
        world
    };
    let steps = {
        let world = start();
        let mut stepper = Stepper::new(reconcile(&world.engine, |_| {}));
        (1..).find(|_| stepper.step().is_some()).unwrap()
    };
    assert!(steps > 12, "{steps}");
    for steps in 1..steps {
        let world = start();
        let mut stepper = Stepper::new(reconcile(&world.engine, |_| {}));
        for _ in 0..steps {
            assert!(stepper.step().is_none());
        }
        drop(stepper);
        assert!(crate::adapters::sim::audit(&world.store).is_empty());
        reconciled(&world);
        check_exact(&world);
    }
}

#[test]
fn tables_without_a_sort_key_and_with_numbers_for_keys_are_reconciled() {
    let mut flat = model();
    flat.table.sort_key = None;
    flat.entities[0].sort = None;
    flat.entities[0].partition = Template::parse("JOB#{job}").unwrap();
    flat.aggregates.truncate(1);
    flat.aggregates[0].sort = None;
    flat.listings[0].sort = None;
    flat.listings[0].partition = Template::parse("JOBS#{Status}#{job}").unwrap();
    let world = World::with(flat);
    for n in 0..20 {
        let item = Item::new().with("PK", Value::text(format!("JOB#{n}"))).with("Status", Value::text("Open"));
        world.store.put(item.with("Project", Value::text("p")).with("Due", Value::text("soon"))).unwrap();
    }
    assert_eq!(reconciled(&world).reconciled, 20);
    check_exact(&world);

    let mut numbered = model();
    numbered.table.partition_key.kind = crate::model::value::Kind::N;
    numbered.table.sort_key = None;
    numbered.entities[0].sort = None;
    numbered.aggregates.clear();
    numbered.listings.clear();
    numbered.expiries.clear();
    let world = World::with(numbered);
    for n in ["1", "1.5", "-2e20"] {
        world.store.put(Item::new().with("PK", Value::N(n.parse().unwrap()))).unwrap();
    }
    assert_eq!(reconciled(&world).reconciled, 3);
    world.store.delete(&TableKey { partition: Value::N("1.50".parse().unwrap()), sort: None });
    assert_eq!(reconciled(&world).reconciled, 1);
    check_exact(&world);
}

/// Under the new key of the listing, each of two items belongs where the other one's entry stands.
#[test]
fn entries_that_change_places_do_not_take_each_other_away() {
    let mut world = World::new();
    change(&mut world, "model-1", |model| model.listings[0].sort = Some(Template::parse("{job}#{user}").unwrap()));
    let names = world.model.table.key_names();
    for (job, user) in [("a", "b"), ("b", "a"), ("c", "c")] {
        let key = TableKey::text(format!("JOB#{job}"), format!("USER#{user}"));
        world.store.put(key.to_item(&names).with("Status", Value::text("Open"))).unwrap();
    }
    world.settle();
    change(&mut world, "model-2", |model| model.listings[0].sort = Some(Template::parse("{user}#{job}").unwrap()));
    // One at a time, as the stream may bring it.
    let key = TableKey::text("JOB#a", "USER#b");
    let items = [(key.clone(), world.store.item(TableRef::Source, &key))];
    run_audited(&world.store, world.engine.apply_items(&items)).unwrap();
    reconciled(&world);
    check_exact(&world);
}
