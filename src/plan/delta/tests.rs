//! Differences step by step: what is added, written, taken away, and when nothing is.

use std::collections::BTreeMap;

use super::*;
use crate::plan::testing::{contribution, derived, listing, model, number};

fn source() -> TableKey {
    TableKey::text("JOB#1", "USER#a")
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn step(before: Option<&LedgerRow>, derived: Option<&Derived>, sequence: Option<&str>) -> Delta {
    let sequence = sequence.map(|text| text.parse().unwrap());
    diff(&model(), before, &source(), derived, sequence.as_ref(), now()).unwrap()
}

fn measures(delta: &Delta) -> Vec<(&str, &str, String)> {
    let flat = delta.adds.iter().flat_map(|add| add.measures.iter().map(move |(m, n)| (add, m, n)));
    flat.map(|(add, m, n)| (add.aggregate.as_str(), m.as_str(), n.to_string())).collect()
}

#[test]
fn a_new_item_adds_everything_and_a_deleted_one_takes_it_away() {
    let stats = TableKey::text("PROJECT#p", "STATS#JOBS");
    let row = listing("jobs", &TableKey::text("JOBS", "1"), "x");
    let item = derived(vec![contribution("by_project", &stats, &[("Total", "1"), ("Sum_Hours", "2.5")])], vec![row]);
    let first = step(None, Some(&item), Some("9"));
    assert_eq!(
        measures(&first),
        [("by_project", "Sum_Hours", "2.5".to_owned()), ("by_project", "Total", "1".to_owned())]
    );
    assert_eq!((first.puts.len(), first.deletes.len(), first.after.revision), (1, 0, 1));
    assert_eq!(first.ledger_write().condition, Condition::Absent);

    let gone = step(Some(&first.after), None, Some("10"));
    assert_eq!(
        measures(&gone),
        [("by_project", "Sum_Hours", "-2.5".to_owned()), ("by_project", "Total", "-1".to_owned())]
    );
    assert_eq!((gone.puts.len(), gone.deletes.len()), (0, 1));
    assert!(gone.after.deleted && gone.after.applied.is_empty() && gone.adds[0].group.is_none());
    assert_eq!(gone.after.expires_at, Some(1_800_000_000 + 30 * 86_400));
    assert_eq!(gone.ledger_write().condition, Condition::Equals("Rev".into(), Value::N(1.into())));
}

#[test]
fn only_what_changes_is_written() {
    let (p, q) = (TableKey::text("PROJECT#p", "S"), TableKey::text("PROJECT#q", "S"));
    let rows = |content: &str| {
        vec![
            listing("jobs", &TableKey::text("JOBS", "1"), content),
            listing("jobs", &TableKey::text("JOBS", "2"), "same"),
        ]
    };
    let before = derived(vec![contribution("by_project", &p, &[("Total", "1"), ("Count_Open", "1")])], rows("x"));
    let ledger = step(None, Some(&before), Some("1")).after;

    let same = step(Some(&ledger), Some(&before), None);
    assert!(same.is_empty() && same.settled);
    let moved_on = step(Some(&ledger), Some(&before), Some("2"));
    assert!(moved_on.is_empty() && !moved_on.settled, "the sequence number is news");

    let status = derived(vec![contribution("by_project", &p, &[("Total", "1"), ("Count_Done", "1")])], rows("y"));
    let delta = step(Some(&ledger), Some(&status), Some("2"));
    assert_eq!(
        measures(&delta),
        [("by_project", "Count_Done", "1".to_owned()), ("by_project", "Count_Open", "-1".to_owned())]
    );
    assert_eq!(delta.puts.len(), 1);

    let moved = derived(vec![contribution("by_project", &q, &[("Total", "1"), ("Count_Open", "1")])], rows("x"));
    let delta = step(Some(&ledger), Some(&moved), Some("2"));
    assert_eq!(delta.adds.iter().map(|add| add.group.is_some()).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn what_a_former_model_applied_is_taken_back() {
    let (old, row) = (TableKey::text("OLD", "S"), TableKey::text("JOBS", "1"));
    let before =
        derived(vec![contribution("dropped", &old, &[("Total", "1")])], vec![listing("renamed_from", &row, "x")]);
    let ledger = step(None, Some(&before), Some("1")).after;
    let after = derived(vec![], vec![listing("renamed_to", &row, "x")]);
    let delta = step(Some(&ledger), Some(&after), None);
    assert_eq!(measures(&delta), [("dropped", "Total", "-1".to_owned())]);
    assert_eq!(delta.puts[0].marker, "listing/renamed_from", "the row in its place carries the old name");
    assert!(delta.deletes.is_empty());
    assert_eq!(delta.after.sequence, ledger.sequence, "reconciling keeps the number");

    let renamed = derived(vec![contribution("new_name", &old, &[("Total", "1")])], vec![]);
    let delta = step(Some(&ledger), Some(&renamed), None);
    assert!(measures(&delta).is_empty() && delta.adds[0].renamed, "same item, same count, other name");
}

#[test]
fn a_difference_of_more_than_38_digits_is_an_error() {
    let stats = TableKey::text("PROJECT#p", "S");
    let item = |hours: &str| derived(vec![contribution("by_project", &stats, &[("Sum_Hours", hours)])], vec![]);
    let ledger = step(None, Some(&item("1e37")), Some("1")).after;
    let error = diff(&model(), Some(&ledger), &source(), Some(&item("1e-5")), None, now()).unwrap_err();
    assert_eq!(error.measure, "Sum_Hours");
}

#[test]
fn sums_that_cannot_be_taken_away_stay_and_all_else_goes() {
    let stats = TableKey::text("PROJECT#p", "S");
    let counts = vec![contribution("by_project", &stats, &[("Total", "1"), ("Sum_Hours", "1e37")])];
    let ledger = step(None, Some(&derived(counts, vec![])), Some("1")).after;
    let sequence = "2".parse().unwrap();
    let delta = diff_beside_sums(&model(), &ledger, &source(), None, Some(&sequence), now()).unwrap();
    assert_eq!(measures(&delta), [("by_project", "Total", "-1".to_owned())]);
    let left: Vec<_> = delta.after.applied.counts[0].measures.keys().collect();
    assert_eq!(left, ["Sum_Hours"]);
    assert_eq!((delta.after.deleted, delta.after.expires_at, delta.settled), (true, None, false));
    let again = diff_beside_sums(&model(), &delta.after, &source(), None, None, now()).unwrap();
    assert!(again.settled);
    let freed = step(Some(&delta.after), None, None);
    assert_eq!(freed.adds[0].measures["Sum_Hours"], number("-1e37"));
    assert!(freed.after.expires_at.is_some());
}

#[test]
fn an_item_that_is_given_up_keeps_what_was_applied() {
    let stats = TableKey::text("PROJECT#p", "S");
    let before = derived(vec![contribution("by_project", &stats, &[("Total", "1")])], vec![]);
    let ledger = step(None, Some(&before), Some("1")).after;
    let sequence = "2".parse().unwrap();
    let held = hold(&model(), Some(&ledger), &source(), true, Some(&sequence), now());
    let held = held.quarantine(Some(&ledger), "P903", "number overflow", now());
    assert_eq!(held.after.applied, ledger.applied);
    assert_eq!((held.after.deleted, held.after.expires_at), (true, None), "it accounts for a count and must stay");
    assert_eq!((held.extra.len(), held.adds.len()), (1, 0));
    let again = hold(&model(), Some(&held.after), &source(), true, None, now());
    assert!(again.quarantine(Some(&held.after), "P903", "number overflow", now()).settled);
}

#[test]
fn a_quarantine_row_goes_with_the_quarantine() {
    let row =
        |delta: &Delta| delta.extra.iter().map(|write| (write.key.clone(), write.op == Op::Delete)).collect::<Vec<_>>();
    let item = derived(vec![], vec![]);
    let given_up = |before: Option<&LedgerRow>, sequence: &str| {
        let delta = step(before, Some(&item), Some(sequence));
        delta.quarantine(before, "P903", "too large", now())
    };
    let key = |sequence: &str| state::quarantine_key(&source(), Some(&sequence.parse().unwrap()));
    let first = given_up(None, "1");
    assert_eq!(row(&first), [(key("1"), false)]);
    let again = given_up(Some(&first.after), "2");
    assert_eq!(row(&again), [(key("2"), false), (key("1"), true)], "one row an item");
    let healed = step(Some(&again.after), Some(&item), None);
    assert_eq!(row(&healed), [(key("2"), true)]);
    assert!(row(&step(Some(&healed.after), Some(&item), Some("3"))).is_empty());
}

proptest::proptest! {
    /// Whatever was applied step by step, the additions so far sum up to what is applied now.
    #[test]
    fn additions_sum_to_what_is_applied(steps in proptest::collection::vec(proptest::option::of((0..3usize, -5i64..5)), 1..8)) {
        let keys = [TableKey::text("A", "S"), TableKey::text("B", "S"), TableKey::text("C", "S")];
        let mut stored: BTreeMap<(TableKey, Text), Decimal> = BTreeMap::new();
        let mut ledger: Option<LedgerRow> = None;
        for (n, wanted) in steps.into_iter().enumerate() {
            let item = wanted.map(|(key, hours)| {
                derived(vec![contribution("by_project", &keys[key], &[("Total", "1"), ("Sum_Hours", &format!("{hours}.25"))])], vec![])
            });
            let delta = step(ledger.as_ref(), item.as_ref(), Some(&(n + 1).to_string()));
            for add in &delta.adds {
                for (measure, n) in &add.measures {
                    proptest::prop_assert!(!n.is_zero());
                    let sum = stored.entry((add.key.clone(), measure.clone())).or_insert_with(Decimal::zero);
                    *sum = sum.checked_add(n).unwrap();
                }
            }
            let mut rest = stored.clone();
            for count in &delta.after.applied.counts {
                for (measure, n) in &count.measures {
                    let sum = rest.entry((count.key.clone(), measure.clone())).or_insert_with(|| number("0"));
                    *sum = sum.checked_sub(n).unwrap();
                }
            }
            proptest::prop_assert!(rest.values().all(Decimal::is_zero), "{rest:?}");
            ledger = Some(delta.after);
        }
    }
}
