//! The invariants I1, I2 and I4, checked against the tables with arithmetic of its own: it adds up with unbounded decimals
//! and knows nothing of deltas, plans or transactions.

use std::collections::{BTreeMap, BTreeSet};

use bigdecimal::BigDecimal;

use super::store::SimStore;
use crate::derive::{derive, without_sums};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, MARKER, Text, Value};
use crate::plan::ledger::{Applied, LedgerRow, item_hash};
use crate::plan::write::TableRef;

/// I1 and I2, which hold at every moment: stored aggregates are the sums, and stored rows the union, of what the ledger
/// rows say. One line for each violation.
pub fn audit(store: &SimStore) -> Vec<String> {
    let mut faults = Vec::new();
    let ledger = ledger(store, &mut faults);
    let mut sums: BTreeMap<(TableKey, Text), BigDecimal> = BTreeMap::new();
    let mut rows: BTreeMap<TableKey, (Text, Text)> = BTreeMap::new();
    for row in ledger.values() {
        for count in &row.applied.counts {
            for (measure, number) in &count.measures {
                *sums.entry((count.key.clone(), measure.clone())).or_default() += wide(number);
            }
        }
        for applied in &row.applied.rows {
            if rows.insert(applied.key.clone(), (applied.marker(), applied.hash.clone())).is_some() {
                faults.push(format!("two source items claim the row `{}`", applied.key));
            }
        }
    }
    let mut stored_sums: BTreeMap<(TableKey, Text), BigDecimal> = BTreeMap::new();
    let mut stored_rows: BTreeMap<TableKey, (Text, Text)> = BTreeMap::new();
    for (key, item) in store.table(TableRef::Source).items() {
        match item.text(MARKER) {
            None => {}
            Some(marker) if marker.starts_with("aggregate/") => stored_sums.extend(measures(key, item)),
            Some(marker) => {
                stored_rows.insert(key.clone(), (marker.into(), item_hash(item)));
            }
        }
    }
    for measure in sums.keys().chain(stored_sums.keys()).collect::<BTreeSet<_>>() {
        let zero = BigDecimal::default();
        let (ledger, stored) = (sums.get(measure).unwrap_or(&zero), stored_sums.get(measure).unwrap_or(&zero));
        if ledger != stored {
            faults.push(format!("I1: `{}` of `{}` is {stored}, the ledger says {ledger}", measure.1, measure.0));
        }
    }
    for key in rows.keys().chain(stored_rows.keys()).collect::<BTreeSet<_>>() {
        if rows.get(key) != stored_rows.get(key) {
            faults.push(format!("I2: row `{key}` is {:?}, the ledger says {:?}", stored_rows.get(key), rows.get(key)));
        }
    }
    faults
}

/// I4, which holds when the stream has been read to its end: each ledger row is what its item derives now, and nothing is
/// left for items that are gone. Quarantined items are passed over: they are known not to agree.
pub fn audit_settled(store: &SimStore, model: &Model) -> Vec<String> {
    let mut faults = audit(store);
    let mut ledger = ledger(store, &mut faults);
    for (key, item) in store.table(TableRef::Source).items().filter(|(_, item)| !item.is_ours()) {
        match ledger.remove(key) {
            None => faults.push(format!("I4: `{key}` has no ledger row")),
            Some(row) if row.quarantined.is_some() => {}
            Some(row) if row.deleted => {
                faults.push(format!("I4: `{key}` is there, and its ledger row says it is gone"))
            }
            Some(row) => {
                let derived = derive(model, key, item);
                let derived = match &row.left_out {
                    Some(reason) => without_sums(model, key, &derived, reason),
                    None => derived,
                };
                if row.applied != Applied::of(&derived) || row.entity != derived.entity {
                    faults.push(format!(
                        "I4: `{key}` has {:?} applied, and derives {:?}",
                        row.applied,
                        Applied::of(&derived)
                    ));
                }
            }
        }
    }
    for (key, row) in ledger.into_iter().filter(|(_, row)| row.quarantined.is_none()) {
        if !row.deleted || !row.applied.is_empty() || row.expires_at.is_none() {
            faults.push(format!("I4: `{key}` is gone, and its ledger row is no tombstone: {row:?}"));
        }
    }
    faults
}

/// All ledger rows by source key.
pub fn ledger(store: &SimStore, faults: &mut Vec<String>) -> BTreeMap<TableKey, LedgerRow> {
    let mut rows = BTreeMap::new();
    for (_, item) in store.table(TableRef::State).items().filter(|(_, item)| LedgerRow::is_ledger(item)) {
        match LedgerRow::from_item(item) {
            Ok(row) => {
                rows.insert(row.source.clone(), row);
            }
            Err(fault) => faults.push(fault.to_string()),
        }
    }
    rows
}

fn measures<'a>(key: &'a TableKey, item: &'a Item) -> impl Iterator<Item = ((TableKey, Text), BigDecimal)> + 'a {
    let is_measure = |name: &str| ["Total", "Count_", "Sum_", "SumSq_"].iter().any(|prefix| name.starts_with(prefix));
    item.0.iter().filter(move |(name, _)| is_measure(name)).filter_map(|(name, value)| match value {
        Value::N(number) => Some(((key.clone(), name.clone()), wide(number))),
        _ => None,
    })
}

fn wide(number: &crate::model::decimal::Decimal) -> BigDecimal {
    number.to_string().parse().unwrap_or_default()
}
