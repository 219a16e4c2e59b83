//! Reconcile: bring what is derived in line with the source items, whatever the stream said.
//!
//! One operation serves the first start on a table with items, the repair after a gap and a changed model. It runs
//! beside the live stream, may be stopped at any moment and started again, and converges.
//!
//! What a scan read is only believed where it agrees with the ledger row. Where it does not, the ledger row is read
//! FIRST and the item after it (consistently), then derived, compared and committed on the condition that the ledger row
//! is still as it was read. The other order would be wrong: between the two reads the stream could apply a newer state,
//! which the older item would then undo for good. The ledger's sequence number stays as it is, so records still in the
//! stream apply as usual afterwards.
//!
//! After the items come the ledger rows: items that are gone are found from that side, and what is in quarantine is tried a
//! second time, because what stood in its way may have been moved by the first pass; and a last time together, because two
//! items may be refused alone whose sums cancel each other. What the ledger says is applied is
//! believed: derived items that somebody else changed are for `verify` to find. A ledger row that cannot be read stops nobody
//! but its own item, and is an error at the end.
//!
//! # Segments, pace, memory
//!
//! Each side is read in segments, all at once within this one task; a page of each is in memory and no more. All reads, those
//! of the commits included, may be held to a number of read units a second.
//!
//! # Resuming
//!
//! A run with a [`Journal`] keeps its place after every page, once what the page held is durable. A later run of the same name
//! begins there. That is right because reconciling is not about one moment: an item that was passed was in line then, and what
//! changed it since comes by the stream. It rests on someone reading the stream, so a run is not resumed once a gap was found
//! after it began, nor when it has stood still for a day; nor under another model. Where nobody reads the stream, begin anew. A page with a
//! ledger row that could not be read is not passed, so that it is looked at again. Of aggregates with the name of a former model the
//! journal says only that there were some in what was passed; then they are looked for again.
//!
//! At the end the aggregates go that the model dropped, those of them that are at zero: see `names`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use serde::Serialize;

use super::batch::{ApplyError, BatchReport, Engine};
use super::checkpoint::{OpenGap, write_state};
use super::commit::CommitError;
use super::doubt;
use super::pace::Paced;
use super::ports::{Clock, Store, StoreError, TransactError};
use super::scan::{self, get};
use super::shards::{Gap, GapCause};
use super::telemetry::explain;
use super::worker::{Repair, Repaired};
use crate::model::key::TableKey;
use crate::model::value::{Item, MARKER, Value};
use crate::plan::ledger::{LedgerFault, LedgerRow};
use crate::plan::write::TableRef;
use journal::{At, Heading, Place, Side, Tally};
use names::FormerNames;
pub use strangers::{has_ledger, refuse_strangers};

mod journal;
mod names;
mod strangers;
#[cfg(test)]
mod tests;

/// Items handled together: one batch read of their ledger rows, merged transactions.
const CHUNK: usize = 500;
/// Segments of a run that is not told otherwise: enough to keep a worker's requests under way, few enough for any table.
pub const SEGMENTS_DEFAULT: u32 = 4;
/// Most segments of a run; each holds a page of at most 1 MB.
pub const SEGMENTS_MAX: u32 = 256;

/// How a run reads, and whether it can be resumed.
#[derive(Debug, Clone)]
pub struct ReconcileOptions {
    /// Parts of each table that are read at once, 1 to [`SEGMENTS_MAX`]. A resumed run keeps the number that it began with.
    pub segments: u32,
    /// Read units a second, one for each 4 KB read; `None`: as fast as it goes.
    pub max_read_units: Option<u32>,
    /// `None`: the run keeps no place, and resumes none.
    pub journal: Option<Journal>,
}

impl Default for ReconcileOptions {
    fn default() -> ReconcileOptions {
        ReconcileOptions { segments: SEGMENTS_DEFAULT, max_read_units: None, journal: None }
    }
}

/// Where a run keeps its place.
#[derive(Debug, Clone)]
pub struct Journal {
    /// Runs of one name resume each other.
    pub name: String,
    /// Forget what earlier runs of the name left.
    pub from_start: bool,
    /// The gap that is open now and will be closed after the run. A run that began before it was found does not count.
    pub gap: Option<OpenGap>,
}

/// What reconcile did; of a resumed run, all starts together.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct ReconcileReport {
    /// Source items scanned.
    pub items: u64,
    /// Ledger rows of items that are not known to be gone.
    pub ledger_rows: u64,
    /// Items whose derived data was wrong and has been written anew.
    pub reconciled: u64,
    /// Items whose derived data the database refuses still; each has a row in quarantine that says why.
    pub quarantined: u64,
    pub transactions: u64,
    /// Empty aggregates that were taken away: the model has dropped them.
    pub removed: u64,
    /// What an earlier start had done, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Resumed>,
}

/// Where an interrupted run had got to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resumed {
    pub begun: DateTime<Utc>,
    pub items: u64,
    pub ledger_rows: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("an item cannot be reconciled: {0}")]
    Apply(#[source] ApplyError),
    /// What has been reconciled stays so; the next start goes on from an earlier place.
    #[error("the run cannot keep its place in the state table: {0}")]
    Journal(#[source] TransactError),
    /// All other items are reconciled.
    #[error("{rows} ledger rows cannot be read, so their items are not reconciled; the first: {first}")]
    Ledger { rows: usize, first: LedgerFault },
    #[error("an aggregate of a former model cannot be given its name, or taken away: {0}")]
    Rename(#[source] TransactError),
    /// Nothing has been written.
    #[error(
        "`{key}` counts items already, but the state table has no ledger: they would be counted twice; restore the state \
         table, or delete all items with the attribute `{MARKER}` from the table first"
    )]
    NoLedger { key: TableKey },
    /// Nothing has been written.
    #[error(
        "the ledger counts items in `{key}`, which is not in the table, nor is any other aggregate that was looked for: was the table \
         made anew? Then delete the state table, which belongs to the former one. Were derived items deleted by hand? Then \
         run `tablekeeper verify --repair`"
    )]
    NoAggregates { key: TableKey },
}

/// Reconciles every item and every ledger row, from the start and as fast as it goes; `progress` hears how many of both have
/// been looked at.
///
/// # Errors
/// As [`reconcile_with`].
pub async fn reconcile<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    progress: impl FnMut(&ReconcileReport) + Send,
) -> Result<ReconcileReport, ReconcileError> {
    reconcile_with(engine, &ReconcileOptions::default(), progress).await
}

/// Reconciles every item and every ledger row that an earlier start has not; `progress` hears at the beginning from where it goes
/// on, then how many of both have been looked at.
///
/// # Errors
/// What stopped it; whatever was committed until then stays, and the next start may go on from there.
pub async fn reconcile_with<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    options: &ReconcileOptions,
    progress: impl FnMut(&ReconcileReport) + Send,
) -> Result<ReconcileReport, ReconcileError> {
    let store = Paced::new(&engine.store, &engine.clock, options.max_read_units);
    let engine = Engine { model: engine.model.clone(), store, clock: &engine.clock, settings: engine.settings.clone() };
    let run = Run::begin(&engine, options, progress).await?;
    run.refuse_strangers().await?;
    for side in Side::ALL {
        // The second side meets all that the first one left there.
        run.shared().given_up.clear();
        try_join_all((0..run.heading.segments).map(|segment| run.segment(side, segment))).await?;
    }
    run.given_up_together().await?;
    run.remove_empty().await?;
    if let Some(journal) = &options.journal {
        journal::forget(&engine.store, &engine.clock, &journal.name).await?;
    }
    let shared = run.shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    match shared.faults.first() {
        Some(first) => Err(ReconcileError::Ledger { rows: shared.faults.len(), first: first.clone() }),
        None => Ok(shared.report),
    }
}

/// An item as it was read, `None` where it was not there.
type Scanned = (TableKey, Option<Item>);

struct Run<'e, S, C, P> {
    engine: &'e Engine<S, C>,
    /// Of the journal.
    name: Option<&'e str>,
    heading: Heading,
    /// Places that an earlier start had got to.
    earlier: Vec<Place>,
    shared: Mutex<Shared<P>>,
}

/// What all segments add to.
struct Shared<P> {
    progress: P,
    report: ReconcileReport,
    /// Ledger rows that cannot be read, each once.
    faults: Vec<LedgerFault>,
    /// Items that stay in quarantine, [`CHUNK`] of them at most.
    given_up: Vec<TableKey>,
    former: FormerNames,
}

impl<P: FnMut(&ReconcileReport)> Shared<P> {
    fn add(&mut self, side: Side, tally: Tally) {
        match side {
            Side::Strangers | Side::Former => {}
            Side::Items => self.report.items += tally.seen,
            Side::Ledger => {
                self.report.ledger_rows += tally.seen;
                // Whatever is in quarantine is met from this side, whether or not it was from the other.
                self.report.quarantined += tally.quarantined;
            }
        }
        self.report.reconciled += tally.reconciled;
        self.report.transactions += tally.transactions;
    }

    fn add_and_tell(&mut self, side: Side, tally: Tally) {
        self.add(side, tally);
        self.tell();
    }

    fn note_given_up(&mut self, report: &BatchReport) {
        let room = CHUNK.saturating_sub(self.given_up.len());
        self.given_up.extend(report.given_up.iter().filter_map(|given_up| given_up.key.clone()).take(room));
    }

    fn tell(&mut self) {
        (self.progress)(&self.report);
    }
}

impl<'e, S: Store, C: Clock, P: FnMut(&ReconcileReport) + Send> Run<'e, S, C, P> {
    /// Finds out where to begin.
    async fn begin(
        engine: &'e Engine<S, C>,
        options: &'e ReconcileOptions,
        progress: P,
    ) -> Result<Run<'e, S, C, P>, ReconcileError> {
        let (store, clock, journal) = (&engine.store, &engine.clock, options.journal.as_ref());
        let segments = options.segments.clamp(1, SEGMENTS_MAX);
        let mut heading = Heading::new(&engine.model.hash, segments, journal, clock.now());
        let mut earlier = Vec::new();
        if let Some(Journal { name, from_start, .. }) = journal {
            let found = if *from_start { None } else { journal::load(store, clock, name, &heading).await? };
            match found {
                Some(found) => (heading, earlier) = found,
                None => journal::forget(store, clock, name).await?,
            }
        }
        let mut shared = Shared {
            progress,
            report: ReconcileReport::default(),
            faults: Vec::new(),
            given_up: Vec::new(),
            former: match earlier.iter().any(|place| place.met_former) {
                true => FormerNames::Unknown,
                false => FormerNames::default(),
            },
        };
        if earlier.iter().any(|place| place.side != Side::Strangers) {
            earlier.iter().for_each(|place| shared.add(place.side, place.tally));
            let ReconcileReport { items, ledger_rows, .. } = shared.report;
            shared.report.resumed = Some(Resumed { begun: heading.begun, items, ledger_rows });
            shared.tell();
        }
        let name = journal.map(|journal| journal.name.as_str());
        Ok(Run { engine, name, heading, earlier, shared: Mutex::new(shared) })
    }

    fn shared(&self) -> MutexGuard<'_, Shared<P>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One segment of one side, from where an earlier start stopped to its end.
    async fn segment(&self, side: Side, segment: u32) -> Result<(), ReconcileError> {
        let Engine { store, clock, .. } = self.engine;
        let earlier = self.earlier.iter().find(|place| (place.side, place.segment) == (side, segment));
        let mut place = earlier.cloned().unwrap_or_else(|| Place::start(side, segment));
        let (table, part) = (side.table(), (segment, self.heading.segments));
        let mut pages = match &place.at {
            At::Start => scan::Pages::new(table, part),
            At::After(key) => scan::Pages::after(table, part, key.clone()),
            At::End => return Ok(()),
        };
        let mut passed_all = true;
        while let Some(items) = pages.next(store, clock).await? {
            let (tally, passed) = match side {
                Side::Strangers | Side::Items => {
                    place.met_former |= self.note_names(&items);
                    self.items(items).await?
                }
                Side::Ledger => self.ledger_rows(&items).await?,
                Side::Former => {
                    let removed = names::remove(self.engine, items.into_iter()).await?;
                    self.shared().report.removed += removed;
                    (Tally::default(), true)
                }
            };
            passed_all &= passed;
            self.shared().add_and_tell(side, tally);
            if passed_all {
                place.tally.add(tally);
                place.at = pages.position().map_or(At::End, |key| At::After(key.clone()));
                self.keep(&place).await?;
            }
        }
        Ok(())
    }

    async fn keep(&self, place: &Place) -> Result<(), ReconcileError> {
        let Some(name) = self.name else { return Ok(()) };
        let Engine { store, clock, .. } = self.engine;
        let write = self.heading.write(name, place, clock.now());
        write_state(store, clock, &[write]).await.map_err(ReconcileError::Journal)
    }

    /// True if there are aggregates of a former name among the items.
    fn note_names(&self, items: &[Item]) -> bool {
        let former = &mut self.shared().former;
        items.iter().filter(|item| former.note(self.engine, item)).count() > 0
    }

    /// Gives the aggregates in which these rows count the names by which they do.
    async fn rename(&self, rows: &[LedgerRow]) -> Result<(), ReconcileError> {
        if self.shared().former.is_empty() {
            return Ok(());
        }
        let named = names::named(&self.engine.model, rows);
        let noted = self.shared().former.take(&named);
        let former = match noted {
            Some(noted) => noted,
            None => names::look_up(self.engine, &named).await?,
        };
        names::correct(self.engine, former, &named).await.map_err(ReconcileError::Rename)
    }

    /// A page of the table; false if an item could not be looked at.
    async fn items(&self, items: Vec<Item>) -> Result<(Tally, bool), ReconcileError> {
        let names = self.engine.model.table.key_names();
        let scanned: Vec<Scanned> = items
            .into_iter()
            .filter(|item| !item.is_ours())
            .filter_map(|item| TableKey::of(&item, &names).map(|key| (key, Some(item))))
            .collect();
        self.apply(scanned.len(), &scanned).await
    }

    /// A page of the state table; false if a ledger row could not be read.
    async fn ledger_rows(&self, items: &[Item]) -> Result<(Tally, bool), ReconcileError> {
        let Engine { store, clock, .. } = self.engine;
        let mut rows = Vec::new();
        let mut readable = true;
        for item in items.iter().filter(|item| LedgerRow::is_ledger(item)) {
            match LedgerRow::from_item(item) {
                Ok(row) => rows.push(row),
                Err(fault) => {
                    self.fault(fault);
                    readable = false;
                }
            }
        }
        rows.retain(|row| !is_tombstone(row));
        self.rename(&rows).await?;
        let seen = rows.len();
        let keys: Vec<TableKey> = rows.iter().map(|row| row.source.clone()).collect();
        let found = get(store, clock, TableRef::Source, &keys).await?;
        let open: Vec<Scanned> = rows
            .into_iter()
            // A derived item at the key of a source item: that one is gone.
            .zip(found.into_iter().map(|item| item.filter(|item| !item.is_ours())))
            .filter(|(row, item)| item.is_none() || row.quarantined.is_some())
            .map(|(row, item)| (row.source, item))
            .collect();
        let (tally, passed) = self.apply(seen, &open).await?;
        Ok((tally, passed && readable))
    }

    /// Tries what stays in quarantine once more, in one commit.
    async fn given_up_together(&self) -> Result<(), ReconcileError> {
        let Engine { store, clock, .. } = self.engine;
        let keys = std::mem::take(&mut self.shared().given_up);
        if keys.len() < 2 {
            return Ok(());
        }
        let items = get(store, clock, TableRef::Source, &keys).await?;
        let items = items.into_iter().map(|item| item.filter(|item| !item.is_ours()));
        let (tally, _) = self.apply(0, &keys.iter().cloned().zip(items).collect::<Vec<Scanned>>()).await?;
        let mut shared = self.shared();
        shared.report.quarantined = shared.report.quarantined.saturating_sub(keys.len() as u64);
        shared.add_and_tell(Side::Ledger, tally);
        Ok(())
    }

    /// Takes away what the model's former aggregates left behind. Where it is not known which there are, the table is read once more.
    async fn remove_empty(&self) -> Result<(), ReconcileError> {
        let former = std::mem::take(&mut self.shared().former);
        match former {
            FormerNames::Noted(noted) => {
                let removed = names::remove_noted(self.engine, noted).await?;
                self.shared().report.removed += removed;
            }
            FormerNames::Unknown => {
                try_join_all((0..self.heading.segments).map(|segment| self.segment(Side::Former, segment))).await?;
            }
        }
        Ok(())
    }

    /// Applies what was found among `seen` items; false if a ledger row could not be read.
    async fn apply(&self, seen: usize, items: &[Scanned]) -> Result<(Tally, bool), ReconcileError> {
        let mut tally = Tally { seen: seen as u64, ..Tally::default() };
        let mut passed = true;
        let mut todo: Vec<&[Scanned]> = items.chunks(CHUNK).rev().collect();
        while let Some(chunk) = todo.pop() {
            let (report, fault) = match self.engine.apply_items(chunk).await {
                Ok(report) => {
                    tally.quarantined += report.quarantined as u64;
                    self.shared().note_given_up(&report);
                    (Box::new(report), None)
                }
                Err(ApplyError { source: CommitError::Ledger(fault), report, .. }) => (report, Some(fault)),
                Err(error) => return Err(ReconcileError::Apply(error)),
            };
            tally.reconciled += (report.applied + report.reconciled) as u64;
            tally.transactions += report.transactions as u64;
            // A row that cannot be read is isolated by halving.
            if let Some(fault) = fault {
                match chunk.split_at(chunk.len() / 2) {
                    ([], _) => {
                        self.fault(fault);
                        passed = false;
                    }
                    (one, other) => todo.extend([other, one]),
                }
            }
        }
        Ok((tally, passed))
    }

    fn fault(&self, fault: LedgerFault) {
        let mut shared = self.shared();
        if !shared.faults.iter().any(|known| known.row == fault.row) {
            shared.faults.push(fault);
        }
    }
}

/// An aggregate that is not at zero.
fn counts(item: &Item) -> bool {
    item.text(MARKER).is_some_and(|marker| marker.starts_with("aggregate/"))
        && item.0.values().filter_map(Value::as_number).any(|number| !number.is_zero())
}

/// Nothing is left of the item, so there is nothing to look for.
fn is_tombstone(row: &LedgerRow) -> bool {
    row.deleted && row.applied.is_empty() && row.quarantined.is_none()
}

/// A gap is closed by reconciling the whole table, where records were lost twice: see [`doubt`].
impl<S: Store, C: Clock> Repair for Engine<S, C> {
    async fn repair(&self, gap: &Gap) -> Result<Repaired, String> {
        let told = |error: ReconcileError| explain(&error, false);
        // Who reads a stream for the first time does not know what others, such as a function, have lost of it.
        if gap.cause != GapCause::ModelChanged {
            doubt::raise(&self.store, &self.clock).await.map_err(|error| explain(&error, false))?;
        }
        reconcile(self, |_| {}).await.map_err(told)?;
        if gap.is_loss() && self.settings.second_look {
            self.clock.sleep(doubt::SETTLED_AFTER).await;
            reconcile(self, |_| {}).await.map_err(told)?;
        }
        Ok(Repaired::Done)
    }
}
