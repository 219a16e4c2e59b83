//! From the changes of many items to few transactions.
//!
//! A transaction costs by the action and hot aggregate items conflict, so the additions of all items of a transaction to
//! one aggregate item are merged into one action. How many merge depends on who travels together: items are sorted by their
//! groups, the rarer group first. (Rare groups are then complete within one transaction, while the common ones are in
//! every transaction anyhow.)
//!
//! Contract: every delta is in exactly one plan, whole; a plan has at most 100 actions and 4 MB and no item twice, unless
//! a single delta alone is larger or contradicts itself (then the database refuses it and the item is given up).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};

use crate::model::decimal::Decimal;
use crate::model::derived::{Measures, TOTALS};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::time::timestamp;
use crate::model::value::{Item, MARKER, Text, Value, joined};
use crate::plan::delta::{Addition, Delta, accumulate};
use crate::plan::ledger::aggregate_marker;
use crate::plan::standing::Standing;
use crate::plan::write::{ACTIONS_MAX, Op, TRANSACTION_SIZE_MAX, TableRef, Write};

/// Bytes allowed for one number and its name's overhead in an update.
const NUMBER_SIZE_MAX: usize = 21;
/// Bytes of an aggregate's `UpdatedAt`, `Group` and marker beside the group's own values.
const AGGREGATE_OVERHEAD: usize = 120;

/// One transaction: the deltas it commits and the writes that commit them.
#[derive(Debug, Clone, PartialEq)]
pub struct TxPlan {
    pub deltas: Vec<Delta>,
    pub writes: Vec<Write>,
    /// For each write, whose it is.
    pub owners: Vec<Owner>,
}

/// Whose a write is, by index into [`TxPlan::deltas`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The ledger row of a delta: its condition is the item's.
    Ledger(usize),
    /// A derived row or a quarantine row of a delta.
    Row(usize),
    /// An aggregate item; all deltas that add to it.
    Aggregate(Vec<usize>),
}

impl Owner {
    /// The deltas that cannot be committed without this write.
    pub fn deltas(&self) -> &[usize] {
        match self {
            Owner::Ledger(delta) | Owner::Row(delta) => std::slice::from_ref(delta),
            Owner::Aggregate(deltas) => deltas,
        }
    }
}

/// Packs deltas of distinct source items into transactions. `now` goes into `UpdatedAt`.
pub fn pack(model: &Model, deltas: Vec<Delta>, standing: &Standing, now: DateTime<Utc>) -> Vec<TxPlan> {
    let mut plans = Vec::new();
    let mut draft = Draft::default();
    for delta in sorted(deltas) {
        let candidate = Candidate::new(model, standing, delta);
        if let Some(candidate) = draft.add(standing, candidate) {
            plans.push(std::mem::take(&mut draft).finish(model, standing, now));
            draft.begin(standing, candidate);
        }
    }
    if !draft.taken.is_empty() {
        plans.push(draft.finish(model, standing, now));
    }
    plans
}

/// Items of equal groups side by side, the rarest shared group first; by source key among themselves.
fn sorted(deltas: Vec<Delta>) -> Vec<Delta> {
    let mut groups: HashMap<&TableKey, usize> = HashMap::new();
    let mut uses: Vec<usize> = Vec::new();
    let mut of_deltas: Vec<Vec<usize>> = Vec::with_capacity(deltas.len());
    for delta in &deltas {
        let mut of_delta = Vec::with_capacity(delta.adds.len());
        for addition in &delta.adds {
            let group = *groups.entry(&addition.key).or_insert(uses.len());
            match uses.get_mut(group) {
                Some(uses) => *uses += 1,
                None => uses.push(1),
            }
            of_delta.push(group);
        }
        of_deltas.push(of_delta);
    }
    // A group by how often it is used and by its key's place among the keys: as the key itself would sort.
    let mut ranks = vec![(0, 0); uses.len()];
    let groups: BTreeMap<&TableKey, usize> = groups.into_iter().collect();
    groups.into_values().enumerate().for_each(|(place, group)| ranks[group] = (uses[group], place));
    let rank = |groups: Vec<usize>| {
        let shared = groups.into_iter().map(|group| ranks[group]).filter(|(uses, _)| *uses > 1);
        let mut shared: Vec<(usize, usize)> = shared.collect();
        shared.sort_unstable();
        shared
    };
    let mut ranked: Vec<_> = of_deltas.into_iter().map(rank).zip(0..).collect();
    let source = |at: &usize| deltas[*at].source();
    ranked.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| source(one).cmp(source(other))));
    // Each delta is moved once, not at each step of the sorting: it is large.
    let mut deltas: Vec<Option<Delta>> = deltas.into_iter().map(Some).collect();
    ranked.into_iter().filter_map(|(_, at)| deltas[at].take()).collect()
}

/// A delta with its writes, which are made once.
struct Candidate {
    delta: Delta,
    /// All writes but the additions; the ledger row's is the first.
    rows: Vec<Write>,
    /// Bytes of all writes, the additions counted as if nobody shared them.
    size: usize,
}

impl Candidate {
    fn new(model: &Model, standing: &Standing, delta: Delta) -> Candidate {
        let rows = row_writes(model, &delta, standing);
        let size = delta_size(model, &delta, &rows);
        Candidate { delta, rows, size }
    }
}

/// A transaction in the making.
#[derive(Default)]
struct Draft {
    taken: Vec<Candidate>,
    sums: BTreeMap<TableKey, Sum>,
    /// Keys of derived rows and quarantine rows: to the user's table, and to the state table. Ledger rows are not among them: each
    /// source item has one of its own, at a key of its own kind.
    source_keys: BTreeSet<TableKey>,
    state_keys: BTreeSet<TableKey>,
    actions: usize,
    size: usize,
}

/// The merged additions to one aggregate item.
#[derive(Clone)]
struct Sum {
    aggregate: Text,
    group: Option<Item>,
    measures: Measures,
    renamed: bool,
    deltas: Vec<usize>,
}

impl Draft {
    /// Takes the delta in, or gives it back where it does not fit.
    fn add(&mut self, standing: &Standing, candidate: Candidate) -> Option<Candidate> {
        if !self.taken.is_empty() && !self.has_room(&candidate) {
            return Some(candidate);
        }
        self.begin(standing, candidate);
        None
    }

    fn has_room(&self, Candidate { delta, rows, size }: &Candidate) -> bool {
        let mut actions = self.actions + rows.len();
        let mut sums_fit = true;
        for addition in &delta.adds {
            match self.sums.get(&addition.key) {
                None => actions += 1,
                Some(sum) => sums_fit &= fits(sum, addition),
            }
        }
        let clash = || {
            rows.iter().skip(1).any(|write| self.holds(write.table, &write.key))
                || delta.adds.iter().any(|addition| self.source_keys.contains(&addition.key))
        };
        sums_fit && actions <= ACTIONS_MAX && self.size + size <= TRANSACTION_SIZE_MAX && !clash()
    }

    fn holds(&self, table: TableRef, key: &TableKey) -> bool {
        match table {
            TableRef::Source => self.source_keys.contains(key) || self.sums.contains_key(key),
            TableRef::State => self.state_keys.contains(key),
        }
    }

    /// Takes the delta in without asking.
    fn begin(&mut self, standing: &Standing, candidate: Candidate) {
        let index = self.taken.len();
        let Candidate { delta, rows, size } = &candidate;
        self.size += size;
        self.actions += rows.len();
        for write in rows.iter().skip(1) {
            match write.table {
                TableRef::Source => self.source_keys.insert(write.key.clone()),
                TableRef::State => self.state_keys.insert(write.key.clone()),
            };
        }
        for addition in delta.adds.iter().filter(|addition| !is_void(addition, standing)) {
            match self.sums.get_mut(&addition.key) {
                None => {
                    self.actions += 1;
                    self.sums.insert(addition.key.clone(), Sum::of(addition, index));
                }
                Some(sum) => sum.merge(addition, index),
            }
        }
        self.taken.push(candidate);
    }

    fn finish(self, model: &Model, standing: &Standing, now: DateTime<Utc>) -> TxPlan {
        let mut plan = TxPlan { deltas: Vec::new(), writes: Vec::new(), owners: Vec::new() };
        for (index, Candidate { delta, rows, .. }) in self.taken.into_iter().enumerate() {
            plan.owners.push(Owner::Ledger(index));
            plan.owners.extend((1..rows.len()).map(|_| Owner::Row(index)));
            plan.writes.extend(rows);
            plan.deltas.push(delta);
        }
        for (key, mut sum) in self.sums {
            sum.measures.retain(|_, number| !number.is_zero());
            if !sum.measures.is_empty() || sum.renamed {
                plan.owners.push(Owner::Aggregate(std::mem::take(&mut sum.deltas)));
                plan.writes.push(sum.into_write(model, standing, key, now));
            }
        }
        plan
    }
}

/// A merged addition must itself be a number of 38 digits.
fn fits(sum: &Sum, addition: &Addition) -> bool {
    let fits = |(measure, number): (&Text, &Decimal)| {
        sum.measures.get(measure).is_none_or(|total| total.checked_add(number).is_ok())
    };
    addition.measures.iter().all(fits)
}

impl Sum {
    fn of(addition: &Addition, index: usize) -> Sum {
        Sum {
            aggregate: addition.aggregate.clone(),
            group: addition.group.clone(),
            measures: addition.measures.clone(),
            renamed: addition.renamed,
            deltas: vec![index],
        }
    }

    fn merge(&mut self, addition: &Addition, index: usize) {
        if addition.group.is_some() {
            self.group.clone_from(&addition.group);
            self.aggregate.clone_from(&addition.aggregate);
        }
        self.renamed |= addition.renamed;
        for (measure, number) in &addition.measures {
            // `fits` has been asked before a delta joins others.
            let _fits = accumulate(&mut self.measures, measure, number, &addition.key);
        }
        self.deltas.push(index);
    }

    fn into_write(self, model: &Model, standing: &Standing, key: TableKey, now: DateTime<Utc>) -> Write {
        let mut add = declared_measures(model, &self.aggregate);
        add.extend(self.measures);
        let mut marker = aggregate_marker(&self.aggregate);
        let condition = standing.condition(&key, marker.clone());
        // Who only takes away may know the item by a former name, and leaves it the one that it has.
        if let Some(found) = standing.marker(&key).filter(|_| self.group.is_none()) {
            marker = found.into();
        }
        let mut set = Item::new().with(MARKER, Value::S(marker.clone())).with("UpdatedAt", Value::text(timestamp(now)));
        if let Some(group) = self.group {
            set.insert("Group", Value::M(group.0));
        }
        Write { table: TableRef::Source, key, op: Op::Update { add, set }, condition }
    }
}

/// Zero for every measure that the model declares, so that all are there from the first write on.
pub fn declared_measures(model: &Model, aggregate: &str) -> Measures {
    if aggregate == TOTALS {
        return Measures::from([("Total".into(), Decimal::zero())]);
    }
    let Some(aggregate) = model.aggregate(aggregate) else {
        return Measures::new();
    };
    let buckets = aggregate.buckets.iter().map(|bucket| joined(&["Count_", bucket]));
    let sums = aggregate.sum.iter().map(|attribute| joined(&["Sum_", attribute]));
    let squares = aggregate.sum_squares.iter().map(|attribute| joined(&["SumSq_", attribute]));
    std::iter::once("Total".into())
        .chain(buckets)
        .chain(sums)
        .chain(squares)
        .map(|measure| (measure, Decimal::zero()))
        .collect()
}

/// Taking away from an item that is not ours any more: there is nothing to take.
fn is_void(addition: &Addition, standing: &Standing) -> bool {
    addition.group.is_none() && standing.is_taken(&addition.key)
}

/// Bytes of what [`declared_measures`] gives: names and numbers.
fn declared_size(model: &Model, aggregate: &str) -> usize {
    let Some(aggregate) = model.aggregate(aggregate) else { return "Total".len() + NUMBER_SIZE_MAX };
    let all = |prefix: &str, names: &[String]| -> usize {
        names.iter().map(|name| prefix.len() + name.len() + NUMBER_SIZE_MAX).sum()
    };
    "Total".len()
        + NUMBER_SIZE_MAX
        + all("Count_", &aggregate.buckets)
        + all("Sum_", &aggregate.sum)
        + all("SumSq_", &aggregate.sum_squares)
}

/// All writes of a delta but its additions; the ledger row's is the first.
fn row_writes(model: &Model, delta: &Delta, standing: &Standing) -> Vec<Write> {
    let source = || Value::M(delta.source().to_item(&model.table.key_names()).0);
    let puts = delta.puts.iter().map(|put| Write {
        table: TableRef::Source,
        key: put.key.clone(),
        op: Op::Put(put.item.clone()),
        condition: standing.row_condition(&put.key, put.marker.clone(), source()),
    });
    let deletes = delta.deletes.iter().filter(|delete| !standing.is_taken(&delete.key)).map(|delete| Write {
        table: TableRef::Source,
        key: delete.key.clone(),
        op: Op::Delete,
        condition: standing.row_condition(&delete.key, delete.marker.clone(), source()),
    });
    std::iter::once(delta.ledger_write()).chain(puts).chain(deletes).chain(delta.extra.iter().cloned()).collect()
}

/// Bytes of a delta's writes, its additions counted as if nobody shared them.
fn delta_size(model: &Model, delta: &Delta, rows: &[Write]) -> usize {
    let number = |name: &Text| name.len() + NUMBER_SIZE_MAX;
    let additions = delta.adds.iter().map(|addition| {
        let key = addition.key.partition.size() + addition.key.sort.as_ref().map_or(0, Value::size);
        let declared = declared_size(model, &addition.aggregate);
        let measures: usize = addition.measures.keys().map(number).sum();
        key + declared + measures + addition.group.as_ref().map_or(0, Item::size) + AGGREGATE_OVERHEAD
    });
    rows.iter().map(Write::size).sum::<usize>() + additions.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::delta::diff;
    use crate::plan::testing::{contribution, derived, listing, model, number};
    use crate::plan::write::Condition;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).unwrap()
    }

    fn stats(group: &str) -> TableKey {
        TableKey::text(group, "STATS#JOBS")
    }

    /// A new item `n` that adds 1 and its hours to the given groups, and has listing rows of the given sizes.
    fn delta(n: usize, groups: &[&str], hours: &str, rows: &[usize]) -> Delta {
        let measures = [("Total", "1"), ("Count_Open", "1"), ("Sum_Hours", hours)];
        let counts = groups.iter().map(|group| contribution("by_project", &stats(group), &measures)).collect();
        let row = |(i, size): (usize, &usize)| {
            listing("jobs", &TableKey::text("JOBS", format!("{n}/{i}")), &"x".repeat(*size))
        };
        let derived = derived(counts, rows.iter().enumerate().map(row).collect());
        let source = TableKey::text(format!("JOB#{n}"), "USER#a");
        diff(&model(), None, &source, Some(&derived), Some(&"1".parse().unwrap()), now()).unwrap()
    }

    fn packed(deltas: Vec<Delta>) -> Vec<TxPlan> {
        pack(&model(), deltas, &Standing::default(), now())
    }

    fn check_limits(plans: &[TxPlan]) {
        for plan in plans {
            assert!(plan.writes.len() <= ACTIONS_MAX && plan.writes.len() == plan.owners.len());
            assert!(plan.writes.iter().map(Write::size).sum::<usize>() <= TRANSACTION_SIZE_MAX);
            let keys: BTreeSet<_> = plan.writes.iter().map(|write| (write.table, &write.key)).collect();
            assert_eq!(keys.len(), plan.writes.len(), "an item twice");
        }
    }

    #[test]
    fn additions_to_one_item_are_one_action_with_every_declared_measure() {
        let plans = packed(vec![delta(1, &["P"], "2.5", &[]), delta(2, &["P"], "-0.5", &[])]);
        assert_eq!(plans.len(), 1);
        let [.., write] = plans[0].writes.as_slice() else { panic!("no writes") };
        let Op::Update { add, set } = &write.op else { panic!("{write:?}") };
        let shown: Vec<String> = add.iter().map(|(name, n)| format!("{name} {n}")).collect();
        assert_eq!(shown, ["Count_Busy 0", "Count_Done 0", "Count_Open 2", "SumSq_Hours 0", "Sum_Hours 2", "Total 2"]);
        assert_eq!(set.text(MARKER), Some("aggregate/by_project"));
        assert_eq!(set.text("UpdatedAt"), Some("2027-01-15T08:00:00.000Z"));
        assert!(matches!(set.get("Group"), Some(Value::M(_))));
        assert_eq!(write.condition, Condition::AbsentOrEquals(MARKER.into(), Value::text("aggregate/by_project")));
        assert_eq!(plans[0].owners.last(), Some(&Owner::Aggregate(vec![0, 1])));
    }

    #[test]
    fn additions_that_cancel_out_are_not_written() {
        let (leaves, enters) = (delta(1, &["P"], "3", &[]), delta(2, &["P"], "3", &[]));
        let ledger = leaves.after.clone();
        let gone = diff(&model(), Some(&ledger), leaves.source(), None, Some(&"2".parse().unwrap()), now()).unwrap();
        let plans = packed(vec![gone, enters]);
        assert_eq!(plans[0].writes.len(), 2, "two ledger rows and nothing else: {:?}", plans[0].writes);
    }

    #[test]
    fn a_hundred_actions_are_one_transaction_and_one_more_are_two() {
        let with = |items: usize| packed((0..items).map(|n| delta(n, &["P"], "1", &[])).collect());
        let plans = with(99);
        assert_eq!((plans.len(), plans[0].writes.len()), (1, 100));
        let plans = with(100);
        assert_eq!(plans.iter().map(|plan| plan.writes.len()).collect::<Vec<_>>(), [100, 2]);
        check_limits(&plans);
    }

    #[test]
    fn four_megabytes_are_one_transaction_and_a_byte_more_are_two() {
        let row = 390 * 1024;
        let ten = |last: usize| {
            (0..10).map(|n| delta(n, &[], "1", &[row, if n == 9 { last } else { 20_000 }])).collect::<Vec<_>>()
        };
        let size: usize = packed(ten(1)).iter().flat_map(|plan| &plan.writes).map(Write::size).sum();
        let room = TRANSACTION_SIZE_MAX - size;
        let plans = packed(ten(1 + room));
        assert_eq!(plans.len(), 1);
        assert_eq!(plans[0].writes.iter().map(Write::size).sum::<usize>(), TRANSACTION_SIZE_MAX);
        let plans = packed(ten(2 + room));
        assert_eq!(plans.len(), 2);
        check_limits(&plans);
    }

    #[test]
    fn sums_that_do_not_fit_together_travel_apart() {
        let plans = packed(vec![delta(1, &["P"], "1e37", &[]), delta(2, &["P"], "1e-5", &[])]);
        assert_eq!(plans.len(), 2);
    }

    #[test]
    fn two_items_that_claim_one_row_travel_apart() {
        let mut twin = delta(2, &[], "1", &[5]);
        let one = delta(1, &[], "1", &[5]);
        twin.puts[0].key = one.puts[0].key.clone();
        assert_eq!(packed(vec![one, twin]).len(), 2);
    }

    /// 1,000 changes of distinct items over 20 projects and 50 users.
    fn thousand() -> Vec<Delta> {
        let mut seed = 1u64;
        let mut random = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        (0..1_000)
            .map(|n| delta(n, &[&format!("P{:02}", random(20)), &format!("U{:02}", random(50))], "1", &[]))
            .collect()
    }

    #[test]
    fn sorting_by_groups_saves_a_third_of_the_transactions() {
        let plans = packed(thousand());
        check_limits(&plans);
        let actions: usize = plans.iter().map(|plan| plan.writes.len()).sum();
        assert!(plans.len() <= 15 && actions <= 1_450, "{} transactions, {actions} actions", plans.len());
        assert_eq!(plans.iter().map(|plan| plan.deltas.len()).sum::<usize>(), 1_000);
    }

    proptest::proptest! {
        /// Every delta is in one plan, every plan within the limits, and nothing added is lost or invented.
        #[test]
        fn plans_carry_exactly_the_deltas(
            items in proptest::collection::vec((proptest::collection::btree_set(0..6usize, 0..4), -9i64..9, 0..3usize), 1..120)
        ) {
            let names = ["A", "B", "C", "D", "E", "F"];
            let deltas: Vec<Delta> = items.iter().enumerate().map(|(n, (groups, hours, rows))| {
                let groups: Vec<&str> = groups.iter().map(|group| names[*group]).collect();
                delta(n, &groups, &hours.to_string(), &vec![10; *rows])
            }).collect();
            let mut expected: BTreeMap<(TableKey, Text), Decimal> = BTreeMap::new();
            for addition in deltas.iter().flat_map(|delta| &delta.adds) {
                for (measure, n) in &addition.measures {
                    let sum = expected.entry((addition.key.clone(), measure.clone())).or_insert_with(|| number("0"));
                    *sum = sum.checked_add(n).unwrap();
                }
            }
            let plans = packed(deltas.clone());
            check_limits(&plans);
            let mut sources: Vec<_> = plans.iter().flat_map(|plan| &plan.deltas).map(|delta| delta.source().clone()).collect();
            sources.sort();
            let mut given: Vec<_> = deltas.iter().map(|delta| delta.source().clone()).collect();
            given.sort();
            proptest::prop_assert_eq!(sources, given);
            for write in plans.iter().flat_map(|plan| &plan.writes) {
                if let Op::Update { add, .. } = &write.op {
                    for (measure, n) in add {
                        let sum = expected.entry((write.key.clone(), measure.clone())).or_insert_with(|| number("0"));
                        *sum = sum.checked_sub(n).unwrap();
                    }
                }
            }
            proptest::prop_assert!(expected.values().all(Decimal::is_zero));
        }
    }
}
