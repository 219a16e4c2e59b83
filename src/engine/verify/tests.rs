//! A table that was kept is clean, and every kind of damage is found and named.
#![cfg(test)]

use std::sync::Arc;

mod live;
mod sample;

use super::*;
use crate::adapters::sim::{SimClock, SimStore, block_on};
use crate::derive::derive_poison;
use crate::engine::batch::{Engine, OldImages};
use crate::engine::tests::{World, job, job_key};
use crate::model::value::{MARKER, Value};
use crate::plan::ledger::REVISION;
use crate::plan::testing::model;

/// Two jobs of project p, the second mislaid and due, and one of project q; all applied.
fn world() -> World {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "2.5")).unwrap();
    world.store.put(job(2, "p", "Mislaid", "1").with("Due", Value::text("2027-01-31"))).unwrap();
    world.store.put(job(3, "q", "Done", "4")).unwrap();
    world.settle();
    world
}

pub fn verified(world: &World) -> VerifyReport {
    block_on(verify(&world.model, &world.store, &world.clock)).unwrap()
}

/// One line for each difference.
fn lines(report: &VerifyReport) -> Vec<String> {
    let line = |d: &Difference| [d.kind.name(), &d.key, &d.what, &d.expected, &d.stored].join(" | ");
    report.differences.iter().map(line).collect()
}

fn check(world: &World, expected: &[&str]) {
    assert_eq!(lines(&verified(world)), expected);
}

fn stats(project: &str) -> TableKey {
    TableKey::text(format!("PROJECT#{project}"), "STATS#JOBS")
}

fn stored(world: &World, key: &TableKey) -> Item {
    world.store.item(TableRef::Source, key).unwrap()
}

fn number(text: &str) -> Value {
    Value::N(text.parse().unwrap())
}

/// The key of the only row with that marker's beginning.
fn row_key(world: &World, marker: &str) -> TableKey {
    let table = world.store.table(TableRef::Source);
    let mut rows = table.items().filter(|(_, item)| item.text(MARKER).is_some_and(|text| text.starts_with(marker)));
    let key = rows.next().unwrap().0.clone();
    assert!(rows.next().is_none());
    key
}

#[test]
fn a_table_that_was_kept_is_clean() {
    let report = verified(&world());
    assert!(report.differences.is_empty(), "{:?}", lines(&report));
    assert_eq!((report.source_items, report.ledger_rows, report.findings), (3, 3, 1));
    // Two projects, two users, the findings' totals; three listing rows, an expiry, a finding.
    assert_eq!((report.derived_items, report.quarantined, report.left_out), (10, 0, 0));
    assert_eq!(report.advice(), None);
}

#[test]
fn an_aggregates_numbers_are_compared_one_by_one() {
    let world = world();
    let right = stored(&world, &stats("p"));
    world.store.put(right.clone().with("Total", number("3")).with("Count_Mystery", number("7"))).unwrap();
    check(
        &world,
        &[
            "aggregate | PROJECT#p / STATS#JOBS | by_project Count_Mystery | 0 | 7",
            "aggregate | PROJECT#p / STATS#JOBS | by_project Total | 2 | 3",
        ],
    );
    world.store.put(right.clone().with("Total", Value::text("2")).with("Count_Done", Value::Bool(true))).unwrap();
    check(
        &world,
        &[
            "aggregate | PROJECT#p / STATS#JOBS | by_project Count_Done | 0 | true",
            "aggregate | PROJECT#p / STATS#JOBS | by_project Total | 2 | 2",
        ],
    );
    let mut bare = right.clone();
    bare.0.retain(|name, _| !["Count_Busy", "Sum_Hours"].contains(&name.as_str()));
    world.store.put(bare).unwrap();
    check(&world, &["aggregate | PROJECT#p / STATS#JOBS | by_project Sum_Hours | 3.5 | none"]);
    world.store.put(right.with("Note", Value::text("kept by hand")).with("Count_Later", number("0"))).unwrap();
    check(&world, &[]);
}

#[test]
fn a_deleted_and_a_stray_aggregate_are_found() {
    let world = world();
    let right = stored(&world, &stats("q"));
    world.store.delete(&stats("q"));
    world.store.put(right.with("PK", Value::text("PROJECT#z"))).unwrap();
    let sides = [("PROJECT#q", true), ("PROJECT#z", false)];
    let mut expected = Vec::new();
    for (partition, is_missing) in sides {
        for (measure, n) in [("Count_Done", "1"), ("SumSq_Hours", "16"), ("Sum_Hours", "4"), ("Total", "1")] {
            let (wanted, found) = if is_missing { (n, "none") } else { ("0", n) };
            expected.push(format!("aggregate | {partition} / STATS#JOBS | by_project {measure} | {wanted} | {found}"));
        }
    }
    assert_eq!(lines(&verified(&world)), expected);
}

#[test]
fn a_wrong_marker_is_found_wherever_it_stands() {
    let world = world();
    let expiry = row_key(&world, "expiry/");
    let listing = TableKey::text("JOBS", "Done#3#u1");
    let mark = |key: &TableKey, marker: Value| world.store.put(stored(&world, key).with(MARKER, marker)).unwrap();
    mark(&stats("p"), Value::text("aggregate/by_user"));
    mark(&stats("q"), Value::text("listing/jobs_by_hours"));
    mark(&listing, Value::text("listing/others"));
    mark(&expiry, Value::text("aggregate/due"));
    world
        .store
        .put(TableKey::text("JOB#9", "USER#u1").to_item(&world.model.table.key_names()).with(MARKER, number("1")))
        .unwrap();
    let place = expiry.to_string();
    let mut expected = vec![
        "marker | JOB#9 / USER#u1 | 1 | aggregate/, listing/, expiry/ or finding/ and a name | 1".to_owned(),
        "marker | JOBS / Done#3#u1 | listing/jobs_by_hours | listing/jobs_by_hours | listing/others".to_owned(),
        format!("marker | {place} | expiry/due | expiry/due | aggregate/due"),
        "marker | PROJECT#p / STATS#JOBS | aggregate/by_project | aggregate/by_project | aggregate/by_user".to_owned(),
        "marker | PROJECT#q / STATS#JOBS | aggregate/by_project | aggregate/by_project | listing/jobs_by_hours"
            .to_owned(),
    ];
    expected.sort();
    assert_eq!(lines(&verified(&world)), expected);
}

#[test]
fn missing_stray_and_changed_rows_are_found() {
    let world = world();
    let finding = row_key(&world, "finding/");
    world.store.delete(&finding);
    let listed = TableKey::text("JOBS", "Done#3#u1");
    let right = stored(&world, &listed);
    world.store.put(right.clone().with("SK", Value::text("Done#4#u0"))).unwrap();
    let changed = right.clone().with("Copy", Value::text("other"));
    let content = |item: &Item| format!("content {}", &crate::plan::ledger::item_hash(item)[..8]);
    world.store.put(changed.clone()).unwrap();
    let code = stored_code(&finding);
    let mut expected = vec![
        format!("missing-row | {finding} | finding/{code} | a row | none"),
        "unexpected-row | JOBS / Done#4#u0 | listing/jobs_by_hours | none | a row".to_owned(),
        format!("changed-row | JOBS / Done#3#u1 | listing/jobs_by_hours | {} | {}", content(&right), content(&changed)),
    ];
    assert_eq!(lines(&verified(&world)), expected);
    assert!(verified(&world).advice().unwrap().contains("somebody else"));
    // The application writes over a row: it is a source item from then on, and the row is missing.
    let mut over = listed.to_item(&world.model.table.key_names());
    over.insert("Mine", Value::Bool(true));
    world.store.put(over).unwrap();
    expected.pop();
    expected.insert(1, "missing-row | JOBS / Done#3#u1 | listing/jobs_by_hours | a row | none".to_owned());
    let found = lines(&verified(&world));
    assert_eq!(found.iter().filter(|line| expected.contains(line)).count(), 3, "{found:?}");
}

fn stored_code(finding: &TableKey) -> String {
    let sort = finding.sort.as_ref().unwrap().as_text().unwrap();
    sort.split('#').next().unwrap().to_owned()
}

#[test]
fn an_item_that_was_never_applied_or_in_another_state_is_found() {
    let mut world = world();
    let lost = world.store.item(TableRef::State, &LedgerRow::key(&job_key(3)));
    world.store.set_state(&LedgerRow::key(&job_key(3)), None);
    let found = lines(&verified(&world));
    // What was derived from it stands there, and nothing accounts for it.
    let kinds =
        ["aggregate", "unexpected-row", "ledger"].map(|kind| found.iter().filter(|l| l.starts_with(kind)).count());
    assert_eq!((kinds, found.len()), ([6, 1, 1], 8), "{found:#?}");
    assert!(found.contains(&"ledger | JOB#3 / USER#u1 | Job | applied | never applied".to_owned()));
    world.store.set_state(&LedgerRow::key(&job_key(3)), lost);
    check(&world, &[]);
    world.store.put(job(1, "p", "Busy", "2.5")).unwrap();
    let found = lines(&verified(&world));
    let hash = |status: &str| {
        let item = job(1, "p", status, "2.5");
        let applied = Applied::of(&derive::derive(&world.model, &job_key(1), &item));
        applied.rows[0].hash[..8].to_owned()
    };
    let (busy, open) = (hash("Busy"), hash("Open"));
    let expected = format!(
        "ledger | JOB#1 / USER#u1 | Job | Count_Busy 1 of by_project at PROJECT#p / STATS#JOBS, Count_Busy 1 of by_user at \
         STATS#u1 / STATS#JOBS, listing/jobs_by_hours at JOBS / Busy#1#u1 ({busy}) | Count_Open 1 of by_project at \
         PROJECT#p / STATS#JOBS, Count_Open 1 of by_user at STATS#u1 / STATS#JOBS, listing/jobs_by_hours at JOBS / \
         Open#1#u1 ({open})"
    );
    // What hangs on it is as the ledger says.
    assert_eq!(found, [expected]);
    let row = world.store.item(TableRef::State, &LedgerRow::key(&job_key(1))).unwrap();
    let records = world.pending();
    block_on(world.engine.apply(&records, OldImages::Trusted)).unwrap();
    check(&world, &[]);
    world.store.set_state(&LedgerRow::key(&job_key(1)), Some(row.with("Deleted", Value::Bool(true))));
    assert!(lines(&verified(&world)).contains(&"ledger | JOB#1 / USER#u1 | Job | applied | deleted".to_owned()));
}

#[test]
fn a_ledger_row_of_a_deleted_item_is_a_ghost_and_a_tombstone_is_none() {
    let mut world = world();
    world.store.delete(&job_key(1));
    let report = verified(&world);
    let [ghost] = &report.differences[..] else { panic!("{:?}", lines(&report)) };
    assert_eq!(
        (ghost.kind, ghost.key.as_str(), ghost.what.as_str()),
        (DifferenceKind::Ghost, "JOB#1 / USER#u1", "Job")
    );
    assert_eq!(ghost.expected, "deleted");
    assert!(ghost.stored.starts_with("Count_Open 1 of by_project at PROJECT#p / STATS#JOBS,"), "{}", ghost.stored);
    assert!(report.advice().unwrap().contains("reconcile"));
    world.settle();
    check(&world, &[]);
}

#[test]
fn a_ledger_row_that_cannot_be_read_is_one_difference() {
    let world = world();
    let key = LedgerRow::key(&job_key(1));
    let row = world.store.item(TableRef::State, &key).unwrap();
    world.store.set_state(&key, Some(row.with(REVISION, Value::text("one"))));
    let place = key.partition.as_text().unwrap();
    check(
        &world,
        &[&format!("unreadable-ledger | {place} | Job | a row that can be read | `Rev`: \"one\" is not a number")],
    );
    assert!(verified(&world).advice().unwrap().starts_with("Restore"));
}

#[test]
fn what_is_in_quarantine_is_counted_apart_deleted_or_not() {
    let mut world = world();
    world.store.put(job(1, "p", "Busy", "1")).unwrap();
    let mut records = world.pending();
    records.last_mut().unwrap().new_image = Some(Err("`12,5` is not a number".to_owned()));
    world.apply(&records);
    let report = verified(&world);
    assert_eq!((report.quarantined, lines(&report).len(), report.findings), (1, 0, 2));

    // Held: the delete could not be applied. What was applied before counts still.
    let key = LedgerRow::key(&job_key(3));
    let mut row = LedgerRow::from_item(&world.store.item(TableRef::State, &key).unwrap()).unwrap();
    row.deleted = true;
    row.quarantined = Some("number overflow".to_owned());
    world.store.set_state(&key, Some(row.to_item()));
    world.store.delete(&job_key(3));
    let report = verified(&world);
    assert_eq!((report.quarantined, lines(&report).len()), (2, 0), "{:?}", lines(&report));
}

#[test]
fn sums_that_were_left_out_are_no_difference() {
    let mut model = model();
    model.aggregates[0].sum_squares.clear();
    let mut world = World::with(model);
    world.store.put(job(0, "p", "Open", &"9".repeat(38))).unwrap();
    world.store.put(job(5, "p", "Open", "0.5")).unwrap();
    world.settle();
    let row = world.ledger(&job_key(5)).unwrap();
    assert!(row.left_out.is_some() && row.quarantined.is_none(), "{row:?}");
    let report = verified(&world);
    assert_eq!((report.left_out, report.quarantined, lines(&report).len()), (1, 0, 0), "{:?}", lines(&report));
    // The row alone says that they were left out: without it the sums are missed.
    let bare = LedgerRow { left_out: None, ..row };
    world.store.set_state(&LedgerRow::key(&job_key(5)), Some(bare.to_item()));
    let report = verified(&world);
    let found = lines(&report);
    assert!(
        found.len() == 1 && found[0].starts_with("ledger | JOB#5 / USER#u1 | Job | Sum_Hours 0.5 of by_project"),
        "{found:#?}"
    );
}

#[test]
fn sums_are_exact_in_any_order_of_the_items() {
    let mut model = model();
    model.aggregates[0].sum_squares.clear();
    // The items are read in the order of their keys: the first two alone come to 43 digits.
    for jobs in [[0, 1, 2], [0, 2, 1]] {
        let mut world = World::with(model.clone());
        for (n, hours) in jobs.into_iter().zip(["1e37", "-1e37", "0.00001"]) {
            world.store.put(job(n, "p", "Open", hours)).unwrap();
            world.settle();
        }
        assert_eq!(world.measure("p", "Sum_Hours").unwrap(), "0.00001");
        check(&world, &[]);
    }
}

/// A listing whose keys do not name their items, which the loader refuses: the first comer keeps the place.
#[test]
fn two_items_never_share_a_row_and_a_ledger_that_says_so_is_told() {
    let mut same = model();
    same.listings[0].sort = Some(crate::model::template::Template::parse("{Status}").unwrap());
    let mut world = World::with(same);
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.settle();
    world.store.put(job(2, "p", "Open", "1")).unwrap();
    let records = world.pending();
    assert_eq!(world.apply(&records).quarantined, 1);
    assert_eq!(verified(&world).quarantined, 1);
    check(&world, &[]);

    let mut claim = world.ledger(&job_key(2)).unwrap();
    claim.applied.rows.extend(world.ledger(&job_key(1)).unwrap().applied.rows);
    world.store.set_state(&LedgerRow::key(&job_key(2)), Some(claim.to_item()));
    check(
        &world,
        &["missing-row | JOBS / Open | listing/jobs_by_hours | a row of its own | two source items claim it"],
    );
}

#[test]
fn tables_without_a_sort_key_and_with_numbers_for_keys_are_verified() {
    let mut flat = model();
    flat.table.sort_key = None;
    flat.entities[0].sort = None;
    flat.entities[0].partition = crate::model::template::Template::parse("JOB#{job}").unwrap();
    flat.aggregates.truncate(1);
    flat.aggregates[0].sort = None;
    flat.listings[0].sort = None;
    flat.listings[0].partition = crate::model::template::Template::parse("JOBS#{Status}#{job}").unwrap();
    let mut world = World::with(flat);
    for (n, status) in [(1, "Open"), (2, "Mislaid")] {
        let item = Item::new().with("PK", Value::text(format!("JOB#{n}"))).with("Status", Value::text(status));
        world.store.put(item.with("Project", Value::text("p")).with("Due", Value::text("2027-01-31"))).unwrap();
    }
    world.settle();
    let report = verified(&world);
    // The project's aggregate and the findings' totals; two listing rows, two expiries, a finding.
    assert_eq!((report.source_items, report.derived_items, report.findings), (2, 7, 1));
    check(&world, &[]);

    // Nothing derived can be stored here; the ledger is kept, and it is right.
    let mut numbered = model();
    numbered.table.partition_key.kind = crate::model::value::Kind::N;
    numbered.table.sort_key.as_mut().unwrap().kind = crate::model::value::Kind::B;
    numbered.aggregates.clear();
    numbered.listings.clear();
    numbered.expiries.clear();
    let mut world = World::with(numbered);
    let bytes = |bytes: &[u8]| Value::B(crate::model::value::Bytes(bytes.to_vec()));
    for n in ["1", "1.5", "-2e20"] {
        world.store.put(Item::new().with("PK", number(n)).with("SK", bytes(&[0, 255]))).unwrap();
    }
    world.settle();
    let report = verified(&world);
    assert_eq!((report.source_items, report.derived_items, report.ledger_rows, report.findings), (3, 0, 3, 0));
    world.store.delete(&TableKey { partition: number("1.50"), sort: Some(bytes(&[0, 255])) });
    world.settle();
    check(&world, &[]);
}

#[test]
fn a_poisoned_item_is_compared_by_its_ledger_row() {
    let world = world();
    let store: &SimStore = &world.store;
    let poison = Applied::of(&derive_poison(&world.model, &job_key(1), "P903", "refused"));
    let key = LedgerRow::key(&job_key(1));
    let mut row = LedgerRow::from_item(&store.item(TableRef::State, &key).unwrap()).unwrap();
    row.applied = poison;
    row.quarantined = Some("refused".to_owned());
    store.set_state(&key, Some(row.to_item()));
    let report = verified(&world);
    let expected = |line: &&str| lines(&report).iter().any(|found| found.starts_with(line));
    assert!(
        [
            "aggregate | PROJECT#p / STATS#JOBS | by_project Total | 1 | 2",
            "unexpected-row | JOBS / Open#1#u1",
            "missing-row | KEEPER#FINDINGS / P903"
        ]
        .iter()
        .all(expected),
        "{:#?}",
        lines(&report)
    );
}

#[test]
fn many_items_on_many_pages_are_read_once_each() {
    let mut world = World::new();
    for n in 0..1_000 {
        world.store.put(job(n, &format!("p{}", n % 50), "Open", "1")).unwrap();
    }
    world.settle();
    let before = world.store.counters();
    let report = verified(&world);
    assert_eq!((report.source_items, report.ledger_rows, report.differences.len()), (1_000, 1_000, 0));
    assert_eq!(world.store.counters(), before, "pages only: no item is asked for by key, nothing is written");
}

#[test]
fn the_json_form_is_stable() {
    let world = world();
    world.store.delete(&job_key(3));
    world.store.put(stored(&world, &stats("p")).with("Total", number("3"))).unwrap();
    let mut report = verified(&world);
    report.differences.truncate(1);
    let expected = serde_json::json!({
        "source_items": 2, "derived_items": 10, "ledger_rows": 3, "quarantined": 0, "malformed": [], "left_out": 0, "findings": 1,
        "passes": 1, "unsettled": 0, "differences": [{
            "kind": "aggregate", "key": "PROJECT#p / STATS#JOBS", "what": "by_project Total", "expected": "2", "stored": "3",
        }],
    });
    assert_eq!(serde_json::to_value(&report).unwrap(), expected);
    let kinds = [
        DifferenceKind::Aggregate,
        DifferenceKind::Marker,
        DifferenceKind::MissingRow,
        DifferenceKind::UnexpectedRow,
        DifferenceKind::ChangedRow,
        DifferenceKind::Ledger,
        DifferenceKind::Ghost,
        DifferenceKind::UnreadableLedger,
    ];
    for kind in kinds {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name(), "text and JSON speak of the same");
    }
}

/// The future can be spawned, and takes any model by reference.
#[test]
fn a_table_that_is_not_to_be_reached_is_an_error() {
    let world = world();
    for _ in 0..6 {
        world.store.inject(crate::adapters::sim::Fault::Read(StoreError::Unavailable("outage".to_owned())));
    }
    let engine: &Engine<SimStore, SimClock> = &world.engine;
    let model: Arc<Model> = engine.model.clone();
    assert!(matches!(block_on(verify(&model, &world.store, &world.clock)), Err(StoreError::Unavailable(_))));
    world.store.inject(crate::adapters::sim::Fault::Read(StoreError::Throttled("slow down".to_owned())));
    check(&world, &[]);
}
