//! From what was applied for one source item and what should be, to the difference.
//!
//! The difference is exact: additions are decimals of what should be minus what was, row by row and measure by measure.
//! It does not ask whether the model still declares what was applied: an aggregate that is gone from the model is
//! subtracted like any other.

use std::collections::btree_map::Entry;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::change::SequenceNumber;
use crate::model::decimal::{Decimal, DecimalError};
use crate::model::derived::{Derived, Measures};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::time::timestamp;
use crate::model::value::{Item, Text, Value};
use crate::plan::ledger::{Applied, AppliedCount, AppliedRow, LedgerRow, REVISION, revision, row_marker};
use crate::plan::state;
use crate::plan::write::{Condition, Op, TableRef, Write};

const SECONDS_A_DAY: i64 = 86_400;

/// All that one commit changes for one source item.
#[derive(Debug, Clone, PartialEq)]
pub struct Delta {
    /// Revision of the ledger row as it was read; `None`: there was none.
    pub revision: Option<u64>,
    /// The ledger row as it will be; names the source item.
    pub after: LedgerRow,
    /// True if the ledger row says the same before and after, but for the revision and the model's hash.
    pub settled: bool,
    pub adds: Vec<Addition>,
    pub puts: Vec<RowPut>,
    pub deletes: Vec<RowDelete>,
    /// Rows of the state table to be written with it: quarantine rows.
    pub extra: Vec<Write>,
}

/// What the commit adds to one aggregate item. No measure is zero; there is none where only the name changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Addition {
    pub aggregate: Text,
    pub key: TableKey,
    /// The group's values; `None` if the item no longer belongs there, so that this only takes away.
    pub group: Option<Item>,
    pub measures: Measures,
    /// The ledger knows the aggregate item under another name: its marker has to be written.
    pub renamed: bool,
}

/// A derived row to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct RowPut {
    pub key: TableKey,
    pub item: Arc<Item>,
    /// The marker of the row that may stand there now.
    pub marker: Text,
}

/// A derived row to be taken away.
#[derive(Debug, Clone, PartialEq)]
pub struct RowDelete {
    pub key: TableKey,
    pub marker: Text,
}

/// One addition cannot express the difference: the old and the new value lie so far apart that it needs more than 38 digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{measure}` of `{key}` cannot change by so much in one step: {source}")]
pub struct SumTooWide {
    pub key: String,
    pub measure: String,
    pub source: DecimalError,
}

impl Delta {
    /// Nothing but the ledger row changes.
    pub fn is_empty(&self) -> bool {
        self.adds.is_empty() && self.puts.is_empty() && self.deletes.is_empty() && self.extra.is_empty()
    }

    pub fn source(&self) -> &TableKey {
        &self.after.source
    }

    /// The ledger row's write; its condition is that the row is still as it was read.
    pub fn ledger_write(&self) -> Write {
        let key = LedgerRow::key(self.source());
        Write {
            table: TableRef::State,
            op: Op::Put(self.after.to_item_at(&key).into()),
            key,
            condition: match self.revision {
                None => Condition::Absent,
                Some(read) => Condition::Equals(REVISION.into(), revision(read)),
            },
        }
    }

    /// Marks the item as given up, with a quarantine row of the same transaction that says why.
    pub fn quarantine(mut self, before: Option<&LedgerRow>, code: &str, reason: &str, now: DateTime<Utc>) -> Delta {
        self.after.quarantined = Some(reason.to_owned());
        // Given up again under another model is news: the row is written, so that it is not tried a third time.
        self.settled = before.is_some_and(|row| same(row, &self.after) && row.model == self.after.model);
        let key = state::quarantine_key(self.source(), self.after.sequence.as_ref());
        let mut item = key
            .to_item(&state::key_names())
            .with("Code", Value::text(code))
            .with("Reason", Value::text(reason))
            .with("Source", Value::text(self.source().to_string()))
            .with("At", Value::text(timestamp(now)));
        if let Some(sequence) = &self.after.sequence {
            item.insert("Seq", Value::text(sequence.padded()));
        }
        let row = Write { table: TableRef::State, key, op: Op::Put(item.into()), condition: Condition::Always };
        let earlier = before.and_then(release).filter(|earlier| earlier.key != row.key);
        self.extra = std::iter::once(row).chain(earlier).collect();
        self
    }

    /// Marks the item as one whose sums are left out: whoever compares its row with the item must know.
    pub fn without_sums(mut self, before: Option<&LedgerRow>, reason: &str) -> Delta {
        self.after.left_out = Some(reason.to_owned());
        self.settled = before.is_some_and(|row| same(row, &self.after));
        self
    }
}

/// The difference between `before` and `derived` (`None`: the source item is gone). `sequence` is the change's number;
/// `None` keeps the ledger's. `now` dates tombstones.
///
/// Errors: [`SumTooWide`], only where a sum changes by more than a number can say.
pub fn diff(
    model: &Model,
    before: Option<&LedgerRow>,
    source: &TableKey,
    derived: Option<&Derived>,
    sequence: Option<&SequenceNumber>,
    now: DateTime<Utc>,
) -> Result<Delta, SumTooWide> {
    let nothing = Applied::default();
    let was = before.map_or(&nothing, |row| &row.applied);
    let applied = derived.map(Applied::of).unwrap_or_default();
    let (puts, deletes) = row_changes(was, derived, &applied);
    let adds = additions(was, derived)?;
    let after = next_row(model, before, source, derived, applied, sequence, now);
    Ok(Delta {
        revision: before.map(|row| row.revision),
        settled: before.is_some_and(|row| same(row, &after)),
        after,
        adds,
        puts,
        deletes,
        extra: before.and_then(release).into_iter().collect(),
    })
}

/// The delete of the quarantine row by which the item was given up: rows are there for what is in quarantine now.
fn release(before: &LedgerRow) -> Option<Write> {
    before.quarantined.as_ref()?;
    let key = state::quarantine_key(&before.source, before.sequence.as_ref());
    Some(Write { table: TableRef::State, key, op: Op::Delete, condition: Condition::Always })
}

/// The difference between all but the sums that `before` has applied, and `derived`, which must have none. Those sums
/// stay, in the aggregates and in the ledger: for an item whose sums the database will not take away just now. Give it a
/// reason by [`Delta::quarantine`].
pub fn diff_beside_sums(
    model: &Model,
    before: &LedgerRow,
    source: &TableKey,
    derived: Option<&Derived>,
    sequence: Option<&SequenceNumber>,
    now: DateTime<Utc>,
) -> Result<Delta, SumTooWide> {
    let mut rest = before.clone();
    let mut sums = before.applied.counts.clone();
    rest.applied.counts.iter_mut().for_each(|count| count.measures.retain(|measure, _| !is_sum(measure)));
    sums.iter_mut().for_each(|count| count.measures.retain(|measure, _| is_sum(measure)));
    sums.retain(|count| !count.measures.is_empty());
    let mut delta = diff(model, Some(&rest), source, derived, sequence, now)?;
    delta.after.applied.counts.extend(sums);
    delta.after.applied.counts.sort_by(|a, b| (&a.key, &a.aggregate).cmp(&(&b.key, &b.aggregate)));
    delta.after.expires_at = None;
    delta.settled = same(before, &delta.after);
    Ok(delta)
}

/// True for the measures that hold sums of values, which unlike counts can outgrow a number.
pub fn is_sum(measure: &str) -> bool {
    measure.starts_with("Sum_") || measure.starts_with("SumSq_")
}

/// A commit that leaves all derived data of the item as they are and only moves its ledger row on: for an item whose
/// change the database refuses in every form. Give it a reason by [`Delta::quarantine`].
pub fn hold(
    model: &Model,
    before: Option<&LedgerRow>,
    source: &TableKey,
    gone: bool,
    sequence: Option<&SequenceNumber>,
    now: DateTime<Utc>,
) -> Delta {
    let applied = before.map(|row| row.applied.clone()).unwrap_or_default();
    let mut after = next_row(model, before, source, None, applied, sequence, now);
    after.deleted = gone;
    after.entity = before.and_then(|row| row.entity.clone());
    // A row that still accounts for derived data must not expire, or nobody could ever take them back.
    after.expires_at = after.expires_at.filter(|_| gone && after.applied.is_empty());
    Delta {
        revision: before.map(|row| row.revision),
        settled: before.is_some_and(|row| same(row, &after)),
        after,
        adds: Vec::new(),
        puts: Vec::new(),
        deletes: Vec::new(),
        extra: Vec::new(),
    }
}

fn next_row(
    model: &Model,
    before: Option<&LedgerRow>,
    source: &TableKey,
    derived: Option<&Derived>,
    applied: Applied,
    sequence: Option<&SequenceNumber>,
    now: DateTime<Utc>,
) -> LedgerRow {
    let deleted = derived.is_none();
    let kept_seconds = i64::from(model.tombstone_days) * SECONDS_A_DAY;
    // A tombstone that nothing moves on keeps its day, else each second look at it would write it again.
    let expires_at = match before {
        Some(row) if row.deleted && row.expires_at.is_some() && sequence.is_none() => row.expires_at,
        _ => Some(now.timestamp() + kept_seconds),
    };
    LedgerRow {
        source: source.clone(),
        sequence: sequence.or_else(|| before?.sequence.as_ref()).cloned(),
        revision: before.map_or(0, |row| row.revision) + 1,
        entity: derived.and_then(|derived| derived.entity.clone()),
        applied,
        model: model.hash.clone(),
        deleted,
        expires_at: expires_at.filter(|_| deleted),
        quarantined: None,
        left_out: None,
    }
}

fn same(before: &LedgerRow, after: &LedgerRow) -> bool {
    // Taken apart, so that a field that is added must be thought of here.
    let LedgerRow {
        source,
        sequence,
        revision: _,
        entity,
        applied,
        model: _,
        deleted,
        expires_at,
        quarantined,
        left_out,
    } = after;
    before.source == *source
        && before.sequence == *sequence
        && before.entity == *entity
        && before.applied == *applied
        && before.deleted == *deleted
        && before.expires_at == *expires_at
        && before.quarantined == *quarantined
        && before.left_out == *left_out
}

fn additions(was: &Applied, derived: Option<&Derived>) -> Result<Vec<Addition>, SumTooWide> {
    let mut net = Vec::new();
    for AppliedCount { aggregate, key, measures } in &was.counts {
        let addition = addition(&mut net, aggregate, key);
        for (measure, number) in measures {
            accumulate(&mut addition.measures, measure, &number.negated(), key)?;
        }
    }
    for count in derived.iter().flat_map(|derived| &derived.counts) {
        let addition = addition(&mut net, &count.aggregate, &count.key);
        addition.renamed |= addition.aggregate != count.aggregate;
        addition.aggregate.clone_from(&count.aggregate);
        addition.group = Some(count.group.clone());
        for (measure, number) in &count.measures {
            accumulate(&mut addition.measures, measure, number, &count.key)?;
        }
    }
    for addition in &mut net {
        addition.measures.retain(|_, number| !number.is_zero());
    }
    net.retain(|addition| !addition.measures.is_empty() || addition.renamed);
    Ok(net)
}

/// What is added at that key so far. By key and not by name: an aggregate that was renamed in place is the same item.
fn addition<'n>(net: &'n mut Vec<Addition>, aggregate: &Text, key: &TableKey) -> &'n mut Addition {
    let at = net.iter().position(|addition| addition.key == *key).unwrap_or_else(|| {
        let (aggregate, key) = (aggregate.clone(), key.clone());
        net.push(Addition { aggregate, key, group: None, measures: Measures::new(), renamed: false });
        net.len() - 1
    });
    &mut net[at]
}

/// Adds `number` to a measure, exactly.
pub(super) fn accumulate(
    measures: &mut Measures,
    measure: &Text,
    number: &Decimal,
    key: &TableKey,
) -> Result<(), SumTooWide> {
    match measures.entry(measure.clone()) {
        Entry::Vacant(place) => {
            place.insert(number.clone());
        }
        Entry::Occupied(mut sum) => {
            let wide = |source| SumTooWide { key: key.to_string(), measure: measure.to_string(), source };
            *sum.get_mut() = sum.get().checked_add(number).map_err(wide)?;
        }
    }
    Ok(())
}

/// `applied` is what `derived` will have applied. An item has few rows, so looking through them is the fastest way.
fn row_changes(was: &Applied, derived: Option<&Derived>, applied: &Applied) -> (Vec<RowPut>, Vec<RowDelete>) {
    let mut puts = Vec::new();
    for row in derived.iter().flat_map(|derived| &derived.rows) {
        let stands = was.rows.iter().find(|stands| stands.key == row.key);
        let will =
            applied.rows.iter().find(|will| will.key == row.key && will.kind == row.kind && will.name == row.name);
        if stands.is_some() && stands == will {
            continue;
        }
        // A row that takes the place of another one of the same item finds that one's marker there.
        let marker = stands.map_or_else(|| row_marker(row.kind, &row.name), AppliedRow::marker);
        puts.push(RowPut { key: row.key.clone(), item: row.item.clone(), marker });
    }
    let gone = was.rows.iter().filter(|row| !applied.rows.iter().any(|will| will.key == row.key));
    let deletes = gone.map(|row| RowDelete { key: row.key.clone(), marker: row.marker() }).collect();
    (puts, deletes)
}

#[cfg(test)]
mod tests {
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
        let item =
            derived(vec![contribution("by_project", &stats, &[("Total", "1"), ("Sum_Hours", "2.5")])], vec![row]);
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
        let row = |delta: &Delta| {
            delta.extra.iter().map(|write| (write.key.clone(), write.op == Op::Delete)).collect::<Vec<_>>()
        };
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
}
