//! What should be in the table, by the ledger, against what is.

use std::collections::{BTreeMap, BTreeSet};

use super::{Difference, DifferenceKind};
use crate::model::decimal::{Decimal, Sum};
use crate::model::derived::RowKind;
use crate::model::key::{KeyNames, TableKey};
use crate::model::value::{Item, MARKER, Text, Value};
use crate::plan::ledger::{Applied, aggregate_marker, item_hash};
use crate::plan::origin::is_history;

/// Most parts of an item's derived data that a difference names.
const PARTS_MAX: usize = 3;

/// A difference, and what it takes to judge and to mend it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub difference: Difference,
    /// Digest of the derived item that was read, `UpdatedAt` and all; `None`: there was none, or it is not about one.
    pub seen: Option<Text>,
    pub mend: Mend,
}

/// How a derived item is made to agree with the ledger.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Mend {
    /// Not by writing derived items.
    No,
    /// The aggregate item gets its marker, and a measure its sum.
    Aggregate {
        key: TableKey,
        marker: Text,
        measure: Option<(Text, Decimal)>,
        /// A source item that counts in it.
        member: Option<TableKey>,
    },
    /// The row is derived anew from the item that it belongs to.
    Row { key: TableKey, owner: TableKey },
    /// The row goes.
    Stray { key: TableKey },
}

impl Found {
    pub fn new(kind: DifferenceKind, key: &TableKey, what: impl Into<String>, sides: (String, String)) -> Found {
        Found::of(kind, key.to_string(), what, sides)
    }

    /// `sides` are what is expected and what is stored.
    pub fn of(kind: DifferenceKind, key: String, what: impl Into<String>, sides: (String, String)) -> Found {
        let (expected, stored) = sides;
        let difference = Difference { kind, key, what: what.into(), expected, stored };
        Found { difference, seen: None, mend: Mend::No }
    }

    fn seen(mut self, hash: Option<&str>) -> Found {
        self.seen = hash.map(Text::from);
        self
    }

    fn mend(mut self, mend: Mend) -> Found {
        self.mend = mend;
        self
    }
}

/// What the ledger says should be in the table.
#[derive(Default)]
pub(super) struct Expected {
    aggregates: BTreeMap<TableKey, Sums>,
    rows: BTreeMap<TableKey, Claim>,
}

/// What an aggregate item should say.
struct Sums {
    marker: Text,
    /// The first source item that counts in it.
    member: Option<TableKey>,
    measures: BTreeMap<Text, Sum>,
}

/// The derived items that are in the table.
#[derive(Default)]
pub(super) struct Stored {
    /// All aggregates, and whatever else stands where one might.
    aggregates: BTreeMap<TableKey, Aggregate>,
    rows: BTreeMap<TableKey, Row>,
}

struct Aggregate {
    marker: Text,
    /// By attribute, what may be a measure.
    measures: BTreeMap<Text, Value>,
    hash: Text,
}

/// A listing, expiry or finding as it is stored.
struct Row {
    marker: Text,
    hash: Text,
}

/// A listing, expiry or finding as a ledger row says.
struct Claim {
    marker: Text,
    hash: Text,
    /// The source item; `None` where two claim it.
    owner: Option<TableKey>,
}

impl Stored {
    pub fn insert(&mut self, key: TableKey, item: Item, names: &KeyNames) {
        let marker = item.0.get(MARKER).map(shown).unwrap_or_default();
        let hash = item_hash(&item);
        if kind(&marker) == Some("aggregate") {
            let is_key = |name: &Text| *name == names.partition || Some(name) == names.sort.as_ref();
            let measures = item
                .0
                .into_iter()
                .filter(|(name, value)| !is_key(name) && (matches!(value, Value::N(_)) || is_measure(name)))
                .filter(|(name, _)| !is_history(name));
            self.aggregates.insert(key, Aggregate { marker, measures: measures.collect(), hash });
        } else {
            self.rows.insert(key, Row { marker, hash });
        }
    }
}

impl Expected {
    /// What is applied for a source item; the number of findings among it.
    pub fn add(&mut self, owner: &TableKey, applied: &Applied, found: &mut Vec<Found>) -> u64 {
        for count in &applied.counts {
            let sums = self.aggregates.entry(count.key.clone()).or_insert_with(|| Sums {
                marker: aggregate_marker(&count.aggregate),
                member: Some(owner.clone()),
                measures: BTreeMap::new(),
            });
            for (measure, amount) in &count.measures {
                sums.measures.entry(measure.clone()).or_default().add(amount);
            }
        }
        for row in &applied.rows {
            let marker = row.marker();
            let claim = Claim { marker: marker.clone(), hash: row.hash.clone(), owner: Some(owner.clone()) };
            if self.rows.insert(row.key.clone(), claim).is_some() {
                self.rows.entry(row.key.clone()).and_modify(|claim| claim.owner = None);
                let sides = ("a row of its own".to_owned(), "two source items claim it".to_owned());
                found.push(Found::new(DifferenceKind::MissingRow, &row.key, marker, sides));
            }
        }
        applied.rows.iter().filter(|row| row.kind == RowKind::Finding).count() as u64
    }

    /// Keys of the rows.
    pub fn row_keys(&self) -> Vec<TableKey> {
        self.rows.keys().cloned().collect()
    }

    /// Compares the rows, and takes them out of what is stored.
    pub fn compare_rows(&self, stored: &mut Stored, found: &mut Vec<Found>) {
        for (key, claim) in &self.rows {
            found.extend(claim.compare(key, stored));
        }
    }

    pub fn compare(self, mut stored: Stored, found: &mut Vec<Found>) {
        self.compare_rows(&mut stored, found);
        for (key, sums) in &self.aggregates {
            sums.compare(key, &mut stored, found);
        }
        for (key, aggregate) in &stored.aggregates {
            // An aggregate of nothing is at zero and stays: its group was left.
            let nothing = Sums { marker: aggregate.marker.clone(), member: None, measures: BTreeMap::new() };
            nothing.compare_measures(key, Some(aggregate), found);
        }
        for (key, row) in stored.rows {
            let known = [RowKind::Listing, RowKind::Expiry, RowKind::Finding].map(RowKind::name);
            let stray = if kind(&row.marker).is_some_and(|kind| known.contains(&kind)) {
                let sides = ("none".to_owned(), "a row".to_owned());
                let mend = Mend::Stray { key: key.clone() };
                Found::new(DifferenceKind::UnexpectedRow, &key, row.marker, sides).mend(mend)
            } else {
                // It may be an item of the application's that somebody marked, so nobody takes it away.
                let expected = "aggregate/, listing/, expiry/ or finding/ and a name".to_owned();
                Found::new(DifferenceKind::Marker, &key, row.marker.clone(), (expected, row.marker.into()))
            };
            found.push(stray.seen(Some(&row.hash)));
        }
    }
}

impl Claim {
    fn compare(&self, key: &TableKey, stored: &mut Stored) -> Option<Found> {
        let marker = self.marker.clone();
        let mend = self.owner.as_ref().map_or(Mend::No, |owner| Mend::Row { key: key.clone(), owner: owner.clone() });
        let found = |kind, sides, hash: Option<&str>| {
            Some(Found::new(kind, key, marker.clone(), sides).seen(hash).mend(mend.clone()))
        };
        if let Some(aggregate) = stored.aggregates.remove(key) {
            let sides = (marker.to_string(), aggregate.marker.into());
            return found(DifferenceKind::Marker, sides, Some(&aggregate.hash));
        }
        match stored.rows.remove(key) {
            None => found(DifferenceKind::MissingRow, ("a row".to_owned(), "none".to_owned()), None),
            Some(row) if row.marker != marker => {
                found(DifferenceKind::Marker, (marker.to_string(), row.marker.into()), Some(&row.hash))
            }
            Some(row) if row.hash != self.hash => {
                let content = |hash: &str| format!("content {}", hash.get(..8).unwrap_or(hash));
                found(DifferenceKind::ChangedRow, (content(&self.hash), content(&row.hash)), Some(&row.hash))
            }
            Some(_) => None,
        }
    }
}

impl Sums {
    fn compare(&self, key: &TableKey, stored: &mut Stored, found: &mut Vec<Found>) {
        let mut mistaken = |other: &str, hash: &str| {
            let sides = (self.marker.to_string(), other.to_owned());
            let difference = Found::new(DifferenceKind::Marker, key, self.marker.as_str(), sides);
            found.push(difference.seen(Some(hash)).mend(self.mend(key, None)));
        };
        let aggregate = stored.aggregates.remove(key);
        match (&aggregate, stored.rows.remove(key)) {
            (Some(aggregate), _) if aggregate.marker != self.marker => mistaken(&aggregate.marker, &aggregate.hash),
            // Whatever it is, it has no measures that could be compared.
            (None, Some(row)) => return mistaken(&row.marker, &row.hash),
            _ => {}
        }
        self.compare_measures(key, aggregate.as_ref(), found);
    }

    /// A measure that is missing counts as 0: a bucket that the model was given later appears with the next write.
    fn compare_measures(&self, key: &TableKey, stored: Option<&Aggregate>, found: &mut Vec<Found>) {
        let name = self.marker.split_once('/').map_or(self.marker.as_str(), |(_, name)| name);
        let nothing = BTreeMap::new();
        let measures = stored.map_or(&nothing, |aggregate| &aggregate.measures);
        for measure in self.measures.keys().chain(measures.keys()).collect::<BTreeSet<_>>() {
            let wanted = self.measures.get(measure).map_or_else(|| Ok(Decimal::zero()), Sum::total);
            let value = measures.get(measure);
            let agrees = match (&wanted, value) {
                (Ok(wanted), None) => wanted.is_zero(),
                (Ok(wanted), Some(Value::N(value))) => wanted == value,
                _ => false,
            };
            if agrees {
                continue;
            }
            // A sum that is no number cannot be written either.
            let mend = match &wanted {
                Ok(wanted) => self.mend(key, Some((measure.clone(), wanted.clone()))),
                Err(_) => Mend::No,
            };
            let expected = wanted.map_or_else(|error| format!("a sum of {error}"), |number| number.to_string());
            let sides = (expected, value.map_or_else(|| "none".to_owned(), |value| shown(value).into()));
            let difference = Found::new(DifferenceKind::Aggregate, key, format!("{name} {measure}"), sides);
            found.push(difference.seen(stored.map(|aggregate| aggregate.hash.as_str())).mend(mend));
        }
    }

    fn mend(&self, key: &TableKey, measure: Option<(Text, Decimal)>) -> Mend {
        Mend::Aggregate { key: key.clone(), marker: self.marker.clone(), measure, member: self.member.clone() }
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

fn shown(value: &Value) -> Text {
    match value {
        Value::S(text) => text.clone(),
        other => other.shown().into(),
    }
}
