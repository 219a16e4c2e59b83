//! What becomes of single records and items: skipped, superseded, poison, malformed, refused.
#![cfg(test)]

use std::time::Duration;

use super::*;
use crate::adapters::sim::{StreamView, block_on};
use crate::engine::malformed::LIFE_DAYS;
use crate::engine::verify::verify;
use crate::model::value::MARKER;

#[test]
fn a_working_day_of_one_job() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "2.5")).unwrap();
    let report = world.settle();
    assert_eq!((report.applied, report.transactions, report.ledger_reads, report.item_reads), (1, 1, 1, 0));
    world.store.put(job(1, "p", "Done", "4")).unwrap();
    world.settle();
    let measure = |name: &str| world.measure("p", name).unwrap();
    assert_eq!(["Total", "Count_Open", "Count_Busy", "Count_Done"].map(measure), ["1", "0", "0", "1"]);
    assert_eq!(["Sum_Hours", "SumSq_Hours"].map(measure), ["4", "16"]);
    assert_eq!(world.partition("JOBS"), ["Done#1#u1"]);
    world.store.put(job(1, "q", "Done", "4")).unwrap();
    world.settle();
    assert_eq!((world.measure("p", "Total").unwrap(), world.measure("q", "Total").unwrap()), ("0".into(), "1".into()));
    world.store.delete(&job_key(1));
    world.settle();
    assert_eq!((world.measure("q", "SumSq_Hours").unwrap(), world.partition("JOBS").len()), ("0".into(), 0));
}

#[test]
fn records_that_change_nothing_derived_cost_nothing() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.settle();
    world.store.put(job(1, "p", "Open", "1").with("Note", Value::text("a"))).unwrap();
    world.store.put(job(1, "p", "Open", "1").with("Note", Value::text("b"))).unwrap();
    let records = world.pending();
    let before = world.store.counters();
    assert_eq!(world.apply(&records).skipped, 2);
    assert_eq!(world.store.counters(), before, "not even a read");
    let untrusted = block_on(world.engine.apply(&records, OldImages::NotTrusted)).unwrap();
    assert_eq!((untrusted.superseded, untrusted.applied, untrusted.actions), (1, 1, 1), "the ledger row alone");
}

#[test]
fn a_run_of_changes_that_ends_where_it_began_is_not_skipped() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.settle();
    world.store.put(job(1, "p", "Busy", "1")).unwrap();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    let records = world.pending();
    let report = world.apply(&records);
    assert_eq!((report.skipped, report.superseded, report.applied), (0, 1, 1));
    // A paused worker that holds the first half alone can do no harm: the ledger has passed it.
    let paused = world.apply(&records[..1]);
    assert_eq!((paused.already_applied, paused.transactions), (1, 0));
    assert_eq!(world.measure("p", "Count_Open").unwrap(), "1");
}

#[test]
fn a_tombstone_keeps_old_records_from_bringing_an_item_back() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.store.delete(&job_key(1));
    let records = world.pending();
    // The delete is seen alone, as a worker does that starts in the middle of the stream.
    assert_eq!(world.apply(&records[1..]).applied, 1);
    let row = world.ledger(&job_key(1)).unwrap();
    assert!(row.deleted && row.expires_at.is_some());
    let late = world.apply(&records[..1]);
    assert_eq!((late.already_applied, late.transactions), (1, 0));
    assert_eq!(world.apply(&records).transactions, 0);
    assert_settled(&world.store, &world.model);
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.settle();
    assert!(!world.ledger(&job_key(1)).unwrap().deleted, "a new item of that key is a new item");
}

#[test]
fn the_third_record_of_ten_is_poison_and_the_others_are_applied_once() {
    // powertools-java 1820: record 3 of 10 is poison.
    let mut world = World::new();
    for n in 0..10 {
        world.store.put(job(n, "p", "Open", "1")).unwrap();
    }
    let mut records = world.pending();
    records[2].new_image = Some(Err("`12,5` is not a number".to_owned()));
    let report = world.apply(&records);
    assert_eq!((report.applied, report.quarantined, report.transactions), (9, 1, 1));
    assert_eq!(report.findings.get("P902"), Some(&1));
    assert_eq!(world.measure("p", "Total").unwrap(), "9");
    let [row] = world.quarantine().try_into().unwrap();
    assert_eq!((row.text("Code"), row.text("Seq")), (Some("P902"), Some(format!("{:0>40}", "97").as_str())));
    assert!(world.ledger(&job_key(2)).unwrap().quarantined.is_some());
    assert_eq!(world.partition("KEEPER#FINDINGS").len(), 1);
    let again = world.apply(&records);
    assert_eq!((again.already_applied, again.transactions), (10, 0));

    world.store.put(job(2, "p", "Busy", "1")).unwrap();
    world.settle();
    assert_eq!((world.measure("p", "Total").unwrap(), world.partition("KEEPER#FINDINGS").len()), ("10".into(), 0));
    assert_eq!(world.ledger(&job_key(2)).unwrap().quarantined, None, "the next good record heals it");
}

/// The numbers of a child shard may lie below its parent's, so a number that is past does not say that this poison is applied.
#[test]
fn poison_with_a_number_that_is_past_is_looked_at() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.settle();
    world.store.restart_numbers();
    world.store.put(job(1, "q", "Done", "1")).unwrap();
    let mut records = world.pending();
    let damage = || Some(Err("`12,5` is not a number".to_owned()));
    records[0].new_image = damage();
    let report = world.apply(&records);
    assert_eq!((report.reconciled, report.item_reads, report.quarantined), (1, 1, 0), "{report:?}");
    assert_settled(&world.store, &world.model);
    assert_eq!(world.apply(&records).transactions, 0);

    // The same where the parent's last record was poison as well, of the same kind or of another one.
    for (reason, reads) in [(damage(), 0), (Some(Err("no map".to_owned())), 1)] {
        world.store.put(job(2, "p", "Busy", "1")).unwrap();
        let mut parent = world.pending();
        parent.last_mut().unwrap().new_image = damage();
        assert_eq!(world.apply(&parent).quarantined, 1);
        world.store.restart_numbers();
        world.store.put(job(2, "q", "Done", "1")).unwrap();
        let mut child = world.pending();
        child.last_mut().unwrap().new_image = reason;
        let report = world.apply(&child);
        assert_eq!((report.reconciled, report.already_applied, report.item_reads), (reads, 1 - reads, reads));
        let is_given_up = world.ledger(&job_key(2)).unwrap().quarantined.is_some();
        assert_eq!(is_given_up, reads == 0, "all that there is to say is said, or the item speaks for itself");
        world.store.put(job(2, "p", "Open", "1")).unwrap();
        world.settle();
    }
}

/// What the database refused is tried again whenever a record of the item comes, whatever it says.
#[test]
fn poison_that_comes_again_has_what_was_given_up_tried_again() {
    let mut world = World::new();
    let place = TableKey::text("JOBS", "Open#1#u1");
    world.store.put(place.to_item(&world.model.table.key_names()).with("Mine", Value::Bool(true))).unwrap();
    world.store.put(job(1, "p", "Busy", "1")).unwrap();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    let mut records = world.pending();
    let last = records.pop().unwrap();
    assert_eq!(world.apply(&records).quarantined, 0);
    assert_eq!(world.apply(&[last]).quarantined, 1, "somebody's item stands there");
    world.store.delete(&place);
    let gone = world.pending();
    world.apply(&gone);
    let mut earlier = records.pop().unwrap();
    earlier.new_image = Some(Err("`12,5` is not a number".to_owned()));
    assert_eq!(world.apply(&[earlier]).reconciled, 1);
    assert_settled(&world.store, &world.model);
    assert_eq!(world.ledger(&job_key(1)).unwrap().quarantined, None);
    assert_eq!(world.measure("p", "Count_Open").unwrap(), "1");
}

#[test]
fn a_malformed_record_is_kept_and_blocks_nothing() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.store.put(job(2, "p", "Open", "1")).unwrap();
    let mut records = world.pending();
    records[0].sequence = None;
    for _ in 0..2 {
        let report = world.apply(&records);
        assert_eq!((report.malformed, report.findings.get("P901")), (1, Some(&1)));
        let [row] = world.quarantine().try_into().unwrap();
        assert_eq!((row.text("EventId"), row.text("SK")), (Some("event-1"), Some("-#event-1")));
    }
    assert_eq!(world.measure("p", "Total").unwrap(), "1");
}

#[test]
fn verify_lists_malformed_records_until_their_time_is_over() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.store.put(job(2, "p", "Open", "1")).unwrap();
    let mut records = world.pending();
    records[0].sequence = None;
    records[1].keys = Some(Err("`secret` is no key".to_owned()));
    let report = world.apply(&records);
    assert_eq!((report.malformed, report.given_up.len()), (2, 2));
    assert!(!format!("{report:?}").contains("secret"), "a value may be in it: {report:?}");
    let listed = |world: &World| block_on(verify(&world.model, &world.store, &world.clock)).unwrap();
    let [first, second] = listed(&world).malformed.try_into().unwrap();
    assert_eq!((first.place.as_str(), first.event_id.as_deref()), ("-#event-1", Some("event-1")));
    assert_eq!((first.code.as_str(), first.reason.as_str()), ("P901", "there is no sequence number"));
    assert_eq!(
        (second.sequence_number, second.reason),
        (records[1].sequence.clone(), "the keys cannot be decoded".into())
    );
    assert_eq!(listed(&world).quarantined, 0, "those are items");
    let life = Duration::from_secs(LIFE_DAYS * 24 * 60 * 60);
    world.clock.advance(life - Duration::from_secs(1));
    assert_eq!(listed(&world).malformed.len(), 2);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(listed(&world).malformed, []);
}

#[test]
fn numbers_out_of_order_within_a_batch_are_not_believed() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.store.put(job(1, "p", "Busy", "1")).unwrap();
    let mut records = world.pending();
    records.reverse();
    let report = world.apply(&records);
    assert_eq!((report.item_reads, report.applied), (1, 1));
    assert_eq!(world.ledger(&job_key(1)).unwrap().sequence, Some("96".parse().unwrap()));
    world.settle();
}

#[test]
fn a_record_that_does_not_begin_where_the_ledger_ends_is_not_believed() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.store.put(job(1, "p", "Busy", "1")).unwrap();
    let records = world.pending();
    world.apply(&records);
    // Changes nothing derived, is skipped, and so the ledger does not learn its number.
    world.store.put(job(1, "p", "Busy", "1").with("Note", Value::text("a"))).unwrap();
    let skipped = world.pending();
    assert_eq!(world.apply(&skipped).skipped, 1);
    // The child shard's numbers are lower than the parent's.
    world.store.restart_numbers();
    world.store.put(job(1, "p", "Done", "1")).unwrap();
    let report = world.settle();
    assert_eq!((report.reconciled, report.item_reads), (1, 1));
    // A paused worker of the parent shard wakes up with a record whose number the ledger has not passed.
    let late = run_audited(&world.store, world.engine.apply(&skipped, OldImages::NotTrusted)).unwrap();
    assert_eq!((late.item_reads, late.applied), (1, 1));
    assert_settled(&world.store, &world.model);
    assert_eq!(world.measure("p", "Count_Done").unwrap(), "1");
}

/// Twelve listings that copy a large attribute: each row is below 400 KB, together they exceed 4 MB.
fn wide_model() -> Model {
    let mut wide = model();
    let listing = wide.listings[0].clone();
    wide.listings = (0..12)
        .map(|n| {
            let mut listing = listing.clone();
            listing.name = format!("wide_{n}");
            listing.partition = crate::model::template::Template::parse(&format!("WIDE{n}")).unwrap();
            listing.copy = vec!["Project".to_owned()];
            listing
        })
        .collect();
    wide
}

#[test]
fn an_item_that_no_transaction_can_hold_is_quarantined_alone() {
    let mut world = World::with(wide_model());
    for n in 0..8 {
        world.store.put(job(n, "p", "Open", "1")).unwrap();
    }
    let large = "x".repeat(390 * 1024);
    world.store.put(job(3, "p", "Open", "1")).unwrap();
    let mut item = job(3, "p", "Busy", "1");
    item.insert("Project", Value::text(&large));
    // The group's key would be too long as well; the listings are what is at stake here.
    let mut model = wide_model();
    model.aggregates.retain(|aggregate| aggregate.name == "by_user");
    world.model = Arc::new(model);
    world.engine.model = world.model.clone();
    world.store.put(item).unwrap();
    let records = world.pending();
    let report = world.apply(&records);
    assert_eq!((report.applied, report.quarantined), (7, 1), "{report:?}");
    assert_eq!(report.findings.get("P903"), Some(&1));
    let row = world.ledger(&job_key(3)).unwrap();
    assert!(row.quarantined.as_ref().unwrap().contains("bytes"));
    assert!(row.applied.counts.iter().all(|count| count.aggregate == "findings"), "it counts nowhere else");
    let again = world.apply(&records);
    assert_eq!(
        (again.already_applied, again.quarantined),
        (7, 1),
        "tried again, and refused for another number of bytes"
    );
    let again = world.apply(&records);
    assert_eq!((again.quarantined, again.transactions), (1, 0), "the same end writes nothing: {again:?}");
    world.settle();
    // What a child shard says of it has a lower number and counts all the same.
    world.store.restart_numbers();
    world.store.delete(&job_key(3));
    let records = world.pending();
    world.apply(&records);
    let row = world.ledger(&job_key(3)).unwrap();
    assert!(row.deleted && row.quarantined.is_none() && row.applied.is_empty(), "{row:?}");
}

#[test]
fn a_source_item_at_a_derived_key_is_not_overwritten() {
    let mut world = World::new();
    let place = TableKey::text("JOBS", "Open#1#u1");
    let mine = place.to_item(&world.model.table.key_names()).with("Mine", Value::Bool(true));
    world.store.put(mine.clone()).unwrap();
    for n in 0..4 {
        world.store.put(job(n, "p", "Open", "1")).unwrap();
    }
    let records = world.pending();
    let report = world.apply(&records);
    assert_eq!((report.applied, report.quarantined), (4, 1));
    assert_eq!(world.store.item(TableRef::Source, &place), Some(mine));
    assert!(world.ledger(&job_key(1)).unwrap().quarantined.unwrap().contains("JOBS / Open#1#u1"));
    assert_eq!(world.measure("p", "Total").unwrap(), "3", "not a part of it is applied");

    world.store.delete(&place);
    world.settle();
    let items = [(job_key(1), world.store.item(TableRef::Source, &job_key(1)))];
    assert_eq!(run_audited(&world.store, world.engine.apply_items(&items)).unwrap().reconciled, 1);
    assert_eq!((world.measure("p", "Total").unwrap(), world.partition("JOBS").len()), ("4".into(), 4));
}

#[test]
fn a_derived_row_that_was_overwritten_is_given_up_and_not_deleted() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.settle();
    let place = TableKey::text("JOBS", "Open#1#u1");
    let mine = place.to_item(&world.model.table.key_names()).with("Mine", Value::Bool(true));
    world.store.put(mine.clone()).unwrap();
    world.store.put(job(1, "p", "Done", "1")).unwrap();
    let records = world.pending();
    let report = block_on(world.engine.apply(&records, OldImages::Trusted)).unwrap();
    assert_eq!((report.applied, report.quarantined), (2, 0));
    assert_eq!(world.store.item(TableRef::Source, &place), Some(mine));
    world.settle();
}

#[test]
fn an_aggregate_that_was_renamed_in_place_is_taken_over() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.store.put(job(2, "p", "Open", "1")).unwrap();
    world.settle();
    let mut renamed = model();
    renamed.hash = "model-2".into();
    renamed.aggregates[0].name = "jobs_of_project".to_owned();
    world.model = Arc::new(renamed);
    world.engine.model = world.model.clone();
    world.store.put(job(1, "p", "Busy", "1")).unwrap();
    let records = world.pending();
    let report = world.apply(&records);
    assert_eq!((report.applied, report.quarantined), (1, 0));
    let stats = TableKey::text("PROJECT#p", "STATS#JOBS");
    let item = world.store.item(TableRef::Source, &stats).unwrap();
    assert_eq!(
        (item.text(MARKER), item.number("Total").unwrap().to_string()),
        (Some("aggregate/jobs_of_project"), "2".into())
    );
}

#[test]
fn reconciling_builds_up_from_an_existing_table() {
    let mut world = World::new();
    for n in 0..30 {
        world.store.put(job(n, "p", "Open", "1")).unwrap();
    }
    let scanned: Vec<_> = (0..30).map(|n| (job_key(n), world.store.item(TableRef::Source, &job_key(n)))).collect();
    world.store.put(job(3, "p", "Done", "1")).unwrap();
    world.store.delete(&job_key(4));
    let report = run_audited(&world.store, world.engine.apply_items(&scanned)).unwrap();
    assert_eq!((report.reconciled, report.already_applied), (29, 1), "the deleted one was read again, and is nothing");
    assert_eq!(
        (world.measure("p", "Total").unwrap(), world.measure("p", "Count_Done").unwrap()),
        ("29".into(), "1".into())
    );
    assert_eq!(world.ledger(&job_key(3)).unwrap().sequence, None);
    world.settle();
    let again = run_audited(&world.store, world.engine.apply_items(&scanned[5..])).unwrap();
    assert_eq!((again.already_applied, again.item_reads, again.transactions), (25, 0, 0));
    // Found from the ledger's side: an item that is gone, though no record says so.
    world.store.delete(&job_key(7));
    let _lost = world.pending();
    let report = run_audited(&world.store, world.engine.apply_items(&[(job_key(7), None)])).unwrap();
    assert_eq!(report.reconciled, 1);
    assert_settled(&world.store, &world.model);
}

#[test]
fn records_of_our_own_rows_leave_no_trace_though_they_carry_keys_only() {
    let mut world = World::new();
    world.store.set_view(StreamView::KeysOnly);
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    let records = world.pending();
    world.apply(&records);
    let ours = world.pending();
    let report = world.apply(&ours);
    assert_eq!((ours.len(), report.ours, report.transactions), (3, 3, 0));
    assert_eq!(world.ledger(&TableKey::text("PROJECT#p", "STATS#JOBS")), None);
}

#[test]
fn a_thousand_changes_are_merged() {
    let mut world = World::new();
    for n in 0..1_000 {
        world.store.put(job(n, &format!("p{}", n % 20), "Open", "1")).unwrap();
    }
    let report = world.settle();
    assert_eq!(report.applied, 1_000);
    // A ledger row and a listing row each, and a few aggregates in each transaction.
    assert!(report.transactions <= 23 && report.actions <= 2_150, "{report:?}");
}
