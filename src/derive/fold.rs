//! Adding up what many items derive: the right answer that a table, a report or a check is held against.
//!
//! The result does not depend on the order of the items. Sums are exact without limits while they run; one whose total no
//! DynamoDB number can hold is an error value beside the measures, never a rounded number and never a panic.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::findings::{Findings, TOTALS};
use super::rules::{a308, k101, k104};
use crate::model::decimal::{Decimal, DecimalError, Sum};
use crate::model::derived::{Derived, Finding, Measures, RowKind};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, Text, joined};

/// What all items added so far derive together. Add each item once.
#[derive(Debug, Clone, Default)]
pub struct Fold {
    aggregates: BTreeMap<(Text, TableKey), Group>,
    listings: BTreeMap<(Text, TableKey), Arc<Item>>,
    expiries: BTreeMap<(Text, TableKey), Arc<Item>>,
    findings: Vec<Finding>,
    checked: BTreeMap<Text, u64>,
    unrecognised: u64,
    set_aside: u64,
}

#[derive(Debug, Clone, Default)]
struct Group {
    values: Item,
    sums: BTreeMap<Text, Sum>,
}

/// One aggregate item's content.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateTotals {
    pub name: Text,
    pub key: TableKey,
    /// The group's values by name.
    pub group: Item,
    /// `Total`, `Count_<bucket>` with every declared bucket, `Sum_<attribute>`, `SumSq_<attribute>`; zeros are there.
    pub measures: Measures,
    /// Measures whose total does not fit a DynamoDB number; they are not in `measures`.
    pub overflowed: BTreeMap<Text, DecimalError>,
}

/// One listing or expiry entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry<'f> {
    /// The listing's or expiry's name.
    pub name: &'f str,
    pub key: &'f TableKey,
    /// The whole item as it is stored.
    pub item: &'f Item,
}

impl Fold {
    pub fn new() -> Fold {
        Fold::default()
    }

    /// Adds what one item derives.
    pub fn add(&mut self, derived: &Derived) {
        match &derived.entity {
            Some(entity) => *self.checked.entry(entity.clone()).or_default() += 1,
            None => self.unrecognised += 1,
        }
        self.set_aside += u64::from(is_set_aside(derived));
        for count in &derived.counts {
            let id = (count.aggregate.clone(), count.key.clone());
            let group =
                self.aggregates.entry(id).or_insert_with(|| Group { values: count.group.clone(), ..Group::default() });
            // Groups of one key have one set of values, unless the model lets two keys coincide; then the order of the items
            // must still not matter.
            if count.group.0 < group.values.0 {
                group.values = count.group.clone();
            }
            for (measure, number) in &count.measures {
                group.sums.entry(measure.clone()).or_default().add(number);
            }
        }
        for row in &derived.rows {
            let rows = match row.kind {
                RowKind::Listing => &mut self.listings,
                RowKind::Expiry => &mut self.expiries,
                RowKind::Finding => continue,
            };
            let kept = rows.entry((row.name.clone(), row.key.clone())).or_insert_with(|| row.item.clone());
            if row.item.0 < kept.0 {
                *kept = row.item.clone();
            }
        }
        self.findings.extend(derived.findings.iter().cloned());
    }

    /// Every group that an item belongs to, by name and key. Declared buckets and sums that got nothing are 0.
    pub fn aggregates(&self, model: &Model) -> Vec<AggregateTotals> {
        let totals = |((name, key), group): (&(Text, TableKey), &Group)| {
            let mut measures = zeros(model, name);
            let mut overflowed = BTreeMap::new();
            for (measure, sum) in &group.sums {
                match sum.total() {
                    Ok(total) => {
                        measures.insert(measure.clone(), total);
                    }
                    Err(error) => {
                        measures.remove(measure);
                        overflowed.insert(measure.clone(), error);
                    }
                }
            }
            let (name, key, group) = (name.clone(), key.clone(), group.values.clone());
            AggregateTotals { name, key, group, measures, overflowed }
        };
        self.aggregates.iter().map(totals).collect()
    }

    /// Listing entries by listing, in the order of their keys: the order in which a Query returns them.
    pub fn listings(&self) -> impl Iterator<Item = Entry<'_>> {
        entries(&self.listings)
    }

    /// Expiry entries by expiry, soonest first.
    pub fn expiries(&self) -> impl Iterator<Item = Entry<'_>> {
        entries(&self.expiries)
    }

    /// Findings, gravest first, then by code, key and attribute.
    pub fn findings(&self) -> Vec<&Finding> {
        let mut findings: Vec<&Finding> = self.findings.iter().collect();
        findings.sort_by_key(|f| (std::cmp::Reverse(f.severity), &f.code, &f.key, &f.attribute));
        findings
    }

    /// One finding, under the aggregate's key, for each total that no DynamoDB number can hold.
    pub fn overflows(&self, model: &Model) -> Vec<Finding> {
        let mut all = Vec::new();
        for totals in self.aggregates(model) {
            let mut findings = Findings::new(model, &totals.key);
            findings.of_entity(model.aggregate(&totals.name).map(|aggregate| aggregate.of.as_str()));
            for (measure, error) in &totals.overflowed {
                a308::total(measure, &totals.name, error, &mut findings);
            }
            all.extend(findings.finish().0);
        }
        all
    }

    /// Items by the entity that they were recognised as.
    pub fn checked(&self) -> &BTreeMap<Text, u64> {
        &self.checked
    }

    /// Items of an entity of which nothing but findings is derived, because their primary key is in doubt.
    pub fn set_aside(&self) -> u64 {
        self.set_aside
    }

    /// Items that are no entity's, or several's.
    pub fn unrecognised(&self) -> u64 {
        self.unrecognised
    }
}

/// A primary key that breaks its template always leaves nothing but findings; K104 may be about an index key too.
pub(crate) fn is_set_aside(derived: &Derived) -> bool {
    let has = |code: &str| derived.findings.iter().any(|finding| finding.code == code);
    let is_bare = derived.counts.iter().all(|count| count.aggregate == TOTALS)
        && derived.rows.iter().all(|row| row.kind == RowKind::Finding);
    derived.entity.is_some() && is_bare && (has(k101::RULE.code) || has(k104::RULE.code))
}

fn entries(rows: &BTreeMap<(Text, TableKey), Arc<Item>>) -> impl Iterator<Item = Entry<'_>> {
    rows.iter().map(|((name, key), item)| Entry { name, key, item })
}

/// The measures that every item of an aggregate has.
fn zeros(model: &Model, aggregate: &str) -> Measures {
    let Some(aggregate) = model.aggregate(aggregate) else { return Measures::new() };
    let counts =
        aggregate.buckets.iter().filter(|_| aggregate.count_by.is_some()).map(|bucket| joined(&["Count_", bucket]));
    let sums = aggregate.sum.iter().map(|name| joined(&["Sum_", name]));
    let squares = aggregate.sum_squares.iter().map(|name| joined(&["SumSq_", name]));
    counts.chain(sums).chain(squares).map(|measure| (measure, Decimal::zero())).collect()
}
