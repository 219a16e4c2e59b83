//! The journal of a reconcile: how far each segment is, kept in the state table so that a run can be resumed.
//!
//! One row a segment and side (key in [`state::progress_key`]): `Model` (hash), `Segments` (their total number), `Gap` (the last gap
//! that was open at the beginning, or `-`), `Begun`, `UpdatedAt`, `Next` (JSON of the key after which to go on; absent: the segment is done),
//! `Former` (1: aggregates with the name of a former model were met; 0: none), the counts `Seen`, `Reconciled`, `Quarantined` and
//! `Transactions`, and `ExpiresAt` for runs that nobody resumes.
//!
//! A row is written when all items before its position are durable, and says nothing else. So whoever resumes does no harm
//! with a row that is behind, and rows of one beginning may have been written by several processes one after the other, even at once.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Journal, ReconcileError};
use crate::engine::checkpoint::{count, number, write_state};
use crate::engine::ports::{Clock, SortRange, Store, StoreError};
use crate::engine::scan::Pages;
use crate::model::key::TableKey;
use crate::model::time::{instant, timestamp};
use crate::model::value::{Item, Value};
use crate::plan::state;
use crate::plan::write::{Condition, Op, TableRef, Write};

/// A run that has stood still for longer is not resumed: by then the stream may have lost what changed meanwhile.
const AGE_MAX: TimeDelta = TimeDelta::hours(24);
/// How long its rows are kept: a segment that is done early is not written again while the others go on for days.
const ROW_LIFE: TimeDelta = TimeDelta::days(30);
/// No gap was open.
const NO_GAP: &str = "-";

/// From where the items are found: first the table, then the ledger. Before both comes a look through the table for what is another
/// ledger's, after both perhaps one for what a former model left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Strangers,
    Items,
    Ledger,
    Former,
}

impl Side {
    pub const ALL: [Side; 2] = [Side::Items, Side::Ledger];
    const WITH_PLACES: [Side; 4] = [Side::Strangers, Side::Items, Side::Ledger, Side::Former];

    /// Part of a key; never changes.
    pub fn name(self) -> &'static str {
        match self {
            Side::Strangers => "STRANGERS",
            Side::Items => "ITEMS",
            Side::Ledger => "LEDGER",
            Side::Former => "FORMER",
        }
    }

    pub fn table(self) -> TableRef {
        match self {
            Side::Strangers | Side::Items | Side::Former => TableRef::Source,
            Side::Ledger => TableRef::State,
        }
    }
}

/// What all rows of one run have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heading {
    pub model: String,
    pub segments: u32,
    pub gap: String,
    pub begun: DateTime<Utc>,
}

/// How far one segment of one side is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub side: Side,
    pub segment: u32,
    pub at: At,
    /// Aggregates with the name of a former model were met on the way.
    pub met_former: bool,
    pub tally: Tally,
}

impl Place {
    pub fn start(side: Side, segment: u32) -> Place {
        Place { side, segment, at: At::Start, met_former: false, tally: Tally::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum At {
    Start,
    After(TableKey),
    End,
}

/// What was done in a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub seen: u64,
    pub reconciled: u64,
    pub quarantined: u64,
    pub transactions: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.seen += other.seen;
        self.reconciled += other.reconciled;
        self.quarantined += other.quarantined;
        self.transactions += other.transactions;
    }
}

impl Heading {
    pub fn new(model: &str, segments: u32, journal: Option<&Journal>, now: DateTime<Utc>) -> Heading {
        let gap = journal.and_then(|journal| journal.gap.as_ref());
        let gap = gap.map_or_else(|| NO_GAP.to_owned(), |gap| timestamp(gap.last));
        // As precise as the rows are, or they would not be known again.
        let begun = instant(&timestamp(now)).unwrap_or(now);
        Heading { model: model.to_owned(), segments, gap, begun }
    }

    /// The put that stores the place; `ExpiresAt` takes it away when it is of no use any more.
    pub fn write(&self, run: &str, place: &Place, now: DateTime<Utc>) -> Write {
        let key = state::progress_key(run, place.side.name(), place.segment);
        let Tally { seen, reconciled, quarantined, transactions } = place.tally;
        let mut item = key
            .to_item(&state::key_names())
            .with("Model", Value::text(&self.model))
            .with("Segments", number(self.segments.into()))
            .with("Gap", Value::text(&self.gap))
            .with("Begun", Value::text(timestamp(self.begun)))
            .with("UpdatedAt", Value::text(timestamp(now)))
            .with(state::TTL, Value::N((now + ROW_LIFE).timestamp().into()));
        for (name, value) in [
            ("Seen", seen),
            ("Reconciled", reconciled),
            ("Quarantined", quarantined),
            ("Transactions", transactions),
            ("Segment", place.segment.into()),
            ("Former", place.met_former.into()),
        ] {
            item.insert(name, number(value));
        }
        if let At::After(next) = &place.at {
            let json = serde_json::to_string(next).expect("a key always has a JSON form");
            item.insert("Next", Value::text(json));
        }
        Write { table: TableRef::State, key, op: Op::Put(item.into()), condition: Condition::Always }
    }
}

/// Reads a row: the run, the place, and when it was written. `None` for a row that is not one of ours.
fn read_row(item: &Item) -> Option<(Heading, Place, DateTime<Utc>)> {
    let heading = Heading {
        model: item.text("Model")?.to_owned(),
        segments: u32::try_from(count(item, "Segments")?).ok()?,
        gap: item.text("Gap")?.to_owned(),
        begun: instant(item.text("Begun")?)?,
    };
    let side = item.text(state::SORT)?.split('#').next()?;
    let at = match item.get("Next") {
        None => At::End,
        Some(_) => At::After(serde_json::from_str(item.text("Next")?).ok()?),
    };
    let tally = Tally {
        seen: count(item, "Seen")?,
        reconciled: count(item, "Reconciled")?,
        quarantined: count(item, "Quarantined")?,
        transactions: count(item, "Transactions")?,
    };
    let side = Side::WITH_PLACES.into_iter().find(|known| known.name() == side)?;
    let segment = u32::try_from(count(item, "Segment")?).ok().filter(|segment| *segment < heading.segments)?;
    // A row of a version that did not say: there may have been some.
    let met_former = count(item, "Former") != Some(0);
    Some((heading, Place { side, segment, at, met_former, tally }, instant(item.text("UpdatedAt")?)?))
}

/// What an earlier run of that name left, if it can be resumed by the run `wanted`: under the same model, with no gap found
/// since it began, and moved on within a day. Its number of segments counts, for positions mean nothing in others.
pub(super) async fn load<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    run: &str,
    wanted: &Heading,
) -> Result<Option<(Heading, Vec<Place>)>, StoreError> {
    let rows = rows(store, clock, run).await?;
    let oldest = clock.now() - AGE_MAX;
    let read = rows.iter().filter_map(read_row);
    let usable: Vec<_> =
        read.filter(|(heading, ..)| heading.model == wanted.model && heading.gap == wanted.gap).collect();
    let Some(last) = usable.iter().map(|(heading, ..)| heading).max_by_key(|heading| heading.begun).cloned() else {
        return Ok(None);
    };
    let of_last: Vec<_> = usable.into_iter().filter(|(heading, ..)| *heading == last).collect();
    // The run stands still when all of its segments do.
    if of_last.iter().all(|(_, _, at)| *at < oldest) {
        return Ok(None);
    }
    let places = of_last.into_iter().map(|(_, place, _)| place).collect();
    Ok(Some((last, places)))
}

/// Deletes all rows of the runs of that name.
pub(super) async fn forget<S: Store, C: Clock>(store: &S, clock: &C, run: &str) -> Result<(), ReconcileError> {
    let rows = rows(store, clock, run).await?;
    let keys = rows.iter().filter_map(|row| TableKey::of(row, &state::key_names()));
    let deletes: Vec<Write> =
        keys.map(|key| Write { table: TableRef::State, key, op: Op::Delete, condition: Condition::Always }).collect();
    write_state(store, clock, &deletes).await.map_err(ReconcileError::Journal)
}

async fn rows<S: Store, C: Clock>(store: &S, clock: &C, run: &str) -> Result<Vec<Item>, StoreError> {
    let partition = Value::text(state::progress_partition(run));
    let mut pages = Pages::of_partition(TableRef::State, partition, SortRange::All);
    let mut rows = Vec::new();
    while let Some(page) = pages.next(store, clock).await? {
        rows.extend(page);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_as_written_and_others_are_ignored() {
        let now: DateTime<Utc> = "2026-03-01T10:00:00.250Z".parse().unwrap();
        let heading = Heading { model: "abc".to_owned(), segments: 4, gap: NO_GAP.to_owned(), begun: now };
        let item = |place: &Place| match heading.write("cli", place, now).op {
            Op::Put(item) => item,
            other => panic!("{other:?}"),
        };
        let tally = Tally { seen: 5, reconciled: 3, quarantined: 1, transactions: 2 };
        for at in [At::After(TableKey::text("a", "b")), At::End] {
            for (side, met_former) in Side::WITH_PLACES.into_iter().zip([true, false, false, true]) {
                let place = Place { side, segment: 3, at: at.clone(), met_former, tally };
                assert_eq!(read_row(&item(&place)), Some((heading.clone(), place, now)));
            }
        }
        let at = At::After(TableKey::text("a", "b"));
        let good = item(&Place { side: Side::Items, segment: 3, at, met_former: false, tally });
        let mut without = Item::clone(&good);
        without.0.remove("Former");
        assert!(read_row(&without).is_some_and(|(_, place, _)| place.met_former), "an older version did not say");
        for (name, value) in [("SK", "OTHER#1"), ("Next", "{"), ("Begun", "soon"), ("Segments", "4")] {
            assert_eq!(read_row(&Item::clone(&good).with(name, Value::text(value))), None, "{name}");
        }
        assert_eq!(read_row(&Item::clone(&good).with("Segments", number(3))), None, "a segment that there is not");
    }
}
