//! What should be in the table against what is.

use std::collections::{BTreeMap, BTreeSet};

use super::{Difference, DifferenceKind, VerifyReport};
use crate::model::decimal::{Decimal, Sum};
use crate::model::derived::RowKind;
use crate::model::key::{KeyNames, TableKey};
use crate::model::value::{Item, MARKER, Value};
use crate::plan::ledger::{Applied, aggregate_marker, item_hash};

/// Most parts of an item's derived data that a difference names.
const PARTS_MAX: usize = 3;

/// What the items and the ledger say should be in the table.
#[derive(Default)]
pub(super) struct Expected {
    /// By aggregate item: the marker and the measures' sums.
    aggregates: BTreeMap<TableKey, (String, BTreeMap<String, Sum>)>,
    rows: BTreeMap<TableKey, Row>,
}

/// The derived items that are in the table.
#[derive(Default)]
pub(super) struct Stored {
    /// All aggregates, and whatever else stands where one might: the marker and, by attribute, what may be a measure.
    aggregates: BTreeMap<TableKey, (String, BTreeMap<String, Value>)>,
    rows: BTreeMap<TableKey, Row>,
}

/// A listing, expiry or finding.
#[derive(PartialEq)]
struct Row {
    marker: String,
    hash: String,
}

impl Stored {
    pub fn insert(&mut self, key: TableKey, item: Item, names: &KeyNames) {
        let marker = item.0.get(MARKER).map(shown).unwrap_or_default();
        if kind(&marker) == Some("aggregate") {
            let is_key = |name: &String| *name == names.partition || Some(name) == names.sort.as_ref();
            let measures = item
                .0
                .into_iter()
                .filter(|(name, value)| !is_key(name) && (matches!(value, Value::N(_)) || is_measure(name)));
            self.aggregates.insert(key, (marker, measures.collect()));
        } else {
            self.rows.insert(key, Row { marker, hash: item_hash(&item) });
        }
    }
}

impl Expected {
    pub fn add(&mut self, applied: &Applied, report: &mut VerifyReport) {
        for count in &applied.counts {
            let (_, sums) = self
                .aggregates
                .entry(count.key.clone())
                .or_insert_with(|| (aggregate_marker(&count.aggregate), BTreeMap::new()));
            for (measure, amount) in &count.measures {
                sums.entry(measure.clone()).or_default().add(amount);
            }
        }
        for row in &applied.rows {
            report.findings += u64::from(row.kind == RowKind::Finding);
            let marker = row.marker();
            let other = self.rows.insert(row.key.clone(), Row { marker: marker.clone(), hash: row.hash.clone() });
            if other.is_some() {
                let (expected, stored) = ("a row of its own".to_owned(), "two source items claim it".to_owned());
                report.push(DifferenceKind::MissingRow, &row.key, marker, expected, stored);
            }
        }
    }

    pub fn compare(self, mut stored: Stored, report: &mut VerifyReport) {
        for (key, row) in &self.rows {
            row.compare(key, &mut stored, report);
        }
        for (key, (marker, sums)) in &self.aggregates {
            compare_aggregate(key, marker, sums, &mut stored, report);
        }
        for (key, (marker, measures)) in &stored.aggregates {
            // An aggregate of nothing is at zero and stays: its group was left.
            compare_measures(key, marker, &BTreeMap::new(), measures, report);
        }
        for (key, row) in stored.rows {
            let known = [RowKind::Listing, RowKind::Expiry, RowKind::Finding].map(RowKind::name);
            if kind(&row.marker).is_some_and(|kind| known.contains(&kind)) {
                report.push(DifferenceKind::UnexpectedRow, &key, row.marker, "none".to_owned(), "a row".to_owned());
            } else {
                let expected = "aggregate/, listing/, expiry/ or finding/ and a name".to_owned();
                report.push(DifferenceKind::Marker, &key, row.marker.clone(), expected, row.marker);
            }
        }
    }
}

impl Row {
    fn compare(&self, key: &TableKey, stored: &mut Stored, report: &mut VerifyReport) {
        let marker = self.marker.clone();
        if let Some((other, _)) = stored.aggregates.remove(key) {
            report.push(DifferenceKind::Marker, key, marker.clone(), marker, other);
            return;
        }
        match stored.rows.remove(key) {
            None => report.push(DifferenceKind::MissingRow, key, marker, "a row".to_owned(), "none".to_owned()),
            Some(row) if row.marker != marker => {
                report.push(DifferenceKind::Marker, key, marker.clone(), marker, row.marker);
            }
            Some(row) if row.hash != self.hash => {
                let content = |hash: &str| format!("content {}", hash.get(..8).unwrap_or(hash));
                report.push(DifferenceKind::ChangedRow, key, marker, content(&self.hash), content(&row.hash));
            }
            Some(_) => {}
        }
    }
}

fn compare_aggregate(
    key: &TableKey,
    marker: &str,
    sums: &BTreeMap<String, Sum>,
    stored: &mut Stored,
    report: &mut VerifyReport,
) {
    let mut mistaken = |found: String| {
        report.push(DifferenceKind::Marker, key, marker.to_owned(), marker.to_owned(), found);
    };
    let measures = match (stored.aggregates.remove(key), stored.rows.remove(key)) {
        (None, None) => BTreeMap::new(),
        (Some((found, measures)), _) => {
            if found != marker {
                mistaken(found);
            }
            measures
        }
        // Whatever it is, it has no measures that could be compared.
        (None, Some(row)) => return mistaken(row.marker),
    };
    compare_measures(key, marker, sums, &measures, report);
}

/// A measure that is missing counts as 0: a bucket that the model was given later appears with the next write.
fn compare_measures(
    key: &TableKey,
    marker: &str,
    sums: &BTreeMap<String, Sum>,
    stored: &BTreeMap<String, Value>,
    report: &mut VerifyReport,
) {
    let name = marker.split_once('/').map_or(marker, |(_, name)| name);
    for measure in sums.keys().chain(stored.keys()).collect::<BTreeSet<_>>() {
        let wanted = sums.get(measure).map_or_else(|| Ok(Decimal::zero()), Sum::total);
        let found = stored.get(measure);
        let agrees = match (&wanted, found) {
            (Ok(wanted), None) => wanted.is_zero(),
            (Ok(wanted), Some(Value::N(found))) => wanted == found,
            _ => false,
        };
        if !agrees {
            let expected = wanted.map_or_else(|error| format!("a sum of {error}"), |number| number.to_string());
            let stored = found.map_or_else(|| "none".to_owned(), shown);
            report.push(DifferenceKind::Aggregate, key, format!("{name} {measure}"), expected, stored);
        }
    }
}

/// The parts of `one` that `other` does not have, in words.
pub(super) fn beyond(one: &Applied, other: &Applied) -> String {
    let theirs: BTreeSet<String> = parts(other).collect();
    let mut parts: Vec<String> = parts(one).filter(|part| !theirs.contains(part)).collect();
    let more = parts.len().saturating_sub(PARTS_MAX);
    parts.truncate(PARTS_MAX);
    match (parts.is_empty(), more) {
        (true, _) => "nothing".to_owned(),
        (false, 0) => parts.join(", "),
        (false, more) => format!("{} and {more} more", parts.join(", ")),
    }
}

/// `Total 1 of by_project at PROJECT#p / STATS`, `listing/jobs at JOBS / 1 (0011aabb)`: the digits tell contents apart.
fn parts(applied: &Applied) -> impl Iterator<Item = String> + '_ {
    let counts = applied.counts.iter().flat_map(|count| {
        let of = format!("of {} at {}", count.aggregate, count.key);
        count.measures.iter().map(move |(measure, number)| format!("{measure} {number} {of}"))
    });
    let rows = applied.rows.iter().map(|row| {
        let hash = row.hash.get(..8).unwrap_or(&row.hash);
        format!("{} at {} ({hash})", row.marker(), row.key)
    });
    counts.chain(rows)
}

fn kind(marker: &str) -> Option<&str> {
    marker.split_once('/').filter(|(_, name)| !name.is_empty()).map(|(kind, _)| kind)
}

fn is_measure(name: &str) -> bool {
    name == "Total" || ["Count_", "Sum_", "SumSq_"].iter().any(|prefix| name.starts_with(prefix))
}

fn shown(value: &Value) -> String {
    match value {
        Value::S(text) => text.clone(),
        other => other.shown(),
    }
}

impl VerifyReport {
    fn push(&mut self, kind: DifferenceKind, key: &TableKey, what: String, expected: String, stored: String) {
        self.differences.push(Difference { kind, key: key.to_string(), what, expected, stored });
    }
}
