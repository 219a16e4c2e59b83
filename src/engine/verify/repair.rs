//! Repair: derived items that somebody else changed, made to agree with the ledger again, beside running commits.
//!
//! Why no commit is undone or counted twice:
//! - **Aggregates.** A commit changes an aggregate and what the ledger sums up to alike, so the difference between the two is the same
//!   before and after it, and stands until someone mends it. Where it was measured the aggregate held still ([`settle`](super::settle())
//!   tells). The sum is written on the condition that the measure still has the value of that measurement; if it has, be it
//!   again, the ledger's sum is what it was then, too. If a commit was faster the condition fails, nothing is written, and the
//!   difference is measured anew. So it is for an answer that was lost: the second attempt finds another value.
//! - **Rows.** First the ledger row gives up its claim to the row and what stands there goes, in one transaction, on condition that
//!   the ledger row is as it was read: from here on the tables agree. Then the source item is reconciled like any other, which
//!   derives the row anew. A row that nobody claims goes on condition that the ledger row of the item that it names is as
//!   it was read. Whoever commits meanwhile is first, and this one steps back.
//!
//! Not covered: somebody who goes on changing derived items by hand at the same time. Left alone are items that carry `_keeper`
//! but nothing known in it, or do not say whose row they are (an item of the application's may have been marked; take the attribute off), sums that need more than 38
//! digits, and places where an item of the application stands: its entry is in quarantine afterwards. An aggregate that
//! was deleted gets back all but the bucket attributes of former models.

use std::collections::BTreeMap;

use serde::Serialize;

use super::compare::{Found, Mend};
use super::settle::standing;
use super::{DifferenceKind, VerifyOptions, VerifyReport, pass};
use crate::derive;
use crate::engine::batch::{ApplyError, Engine};
use crate::engine::checkpoint::write_state;
use crate::engine::ports::{CancelReason, Clock, Store, StoreError, TransactError};
use crate::engine::scan::{get, get_one};
use crate::model::decimal::Decimal;
use crate::model::key::TableKey;
use crate::model::time::timestamp;
use crate::model::value::{Item, MARKER, SOURCE, Text, Value};
use crate::plan::ledger::{LedgerRow, REVISION, aggregate_marker, item_hash, revision};
use crate::plan::pack::declared_measures;
use crate::plan::state::ledger_key_of;
use crate::plan::write::{Condition, Op, TableRef, Write};

/// Most rounds of measuring and mending: a second one finds what only shows when something else is right.
const ROUNDS_MAX: u32 = 3;
/// Measures written at once: their condition has to fit an expression of 4 KB.
const MEASURES_MAX: usize = 50;
/// Written by each commit. With it in the condition a value that went and came back is not taken for the one that was measured.
const UPDATED: &str = "UpdatedAt";
/// Items reconciled together.
const CHUNK: usize = 500;

/// What a repair wrote, and what verify says afterwards.
#[derive(Debug, Default, Serialize)]
pub struct RepairReport {
    /// Aggregate items whose measures or marker were written.
    pub aggregates: u64,
    /// Listings, expiries and findings that were taken away or derived anew.
    pub rows: u64,
    /// Writes that others forestalled or the database refused; what they were about is measured again.
    pub given_up: u64,
    #[serde(skip)]
    pub verdict: VerifyReport,
}

#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a derived item cannot be repaired: {0}")]
    Write(#[from] TransactError),
    /// Nothing has been written.
    #[error(
        "the table has derived items, but the state table has no ledger, so nothing tells which of them are right; name the right \
         state table, or delete all items with the attribute `{MARKER}` and reconcile"
    )]
    NoLedger,
    /// Its row is not claimed any more, so `reconcile` derives it.
    #[error("the item of a repaired row cannot be reconciled: {0}; run reconcile")]
    Apply(#[source] ApplyError),
}

/// Mends what stands, and verifies again until nothing is left that can be mended. `progress` hears of each pass and of the
/// differences in it. Options of fewer than two passes are taken for two: what was seen once is not known to stand.
///
/// # Errors
/// What stopped it; each derived item was mended as a whole or not at all, and the repair may be started again.
pub async fn repair<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    options: &VerifyOptions,
    mut progress: impl FnMut(u32, usize) + Send,
) -> Result<RepairReport, RepairError> {
    let options = VerifyOptions { passes: options.passes.max(2), ..options.clone() };
    let mut repair = Repair { engine, report: RepairReport::default() };
    let Engine { model, store, clock, .. } = engine;
    for round in 0..=ROUNDS_MAX {
        let measured = standing(clock, &options, &mut progress, || pass(model, store, clock)).await?;
        let (mut verdict, found) = measured;
        if verdict.ledger_rows == 0 && verdict.derived_items > 0 {
            return Err(RepairError::NoLedger);
        }
        let before = (repair.report.aggregates, repair.report.rows, repair.report.given_up);
        if round < ROUNDS_MAX {
            repair.mend(&found).await?;
        }
        if before == (repair.report.aggregates, repair.report.rows, repair.report.given_up) {
            verdict.differences = found.into_iter().map(|found| found.difference).collect();
            repair.report.verdict = verdict;
            break;
        }
    }
    Ok(repair.report)
}

/// What is wrong with one aggregate item.
#[derive(Default)]
struct Broken<'f> {
    seen: Option<&'f str>,
    marker: &'f str,
    measures: Vec<(&'f Text, &'f Decimal)>,
    member: Option<&'f TableKey>,
}

struct Repair<'e, S, C> {
    engine: &'e Engine<S, C>,
    report: RepairReport,
}

impl<S: Store, C: Clock> Repair<'_, S, C> {
    async fn mend(&mut self, found: &[Found]) -> Result<(), RepairError> {
        let mut aggregates: BTreeMap<&TableKey, Broken<'_>> = BTreeMap::new();
        let mut owners = Vec::new();
        // What such a row counts is in the sums, and is taken from them by whoever can read it again.
        let is_unreadable = |found: &Found| found.difference.kind == DifferenceKind::UnreadableLedger;
        let sums_are_known = !found.iter().any(is_unreadable);
        for Found { seen, mend, .. } in found {
            match mend {
                Mend::No => {}
                Mend::Aggregate { .. } if !sums_are_known => {}
                Mend::Aggregate { key, marker, measure, member } => {
                    let broken = aggregates.entry(key).or_default();
                    (broken.seen, broken.marker, broken.member) = (seen.as_deref(), marker, member.as_ref());
                    broken.measures.extend(measure.as_ref().map(|(name, number)| (name, number)));
                }
                Mend::Row { key, owner } => {
                    self.give_up_claim(key, owner).await?;
                    // Also where it seems that others were faster: it may have been this one, and the answer was lost.
                    owners.push(owner.clone());
                }
                Mend::Stray { key } => self.take_away(key, seen.as_deref()).await?,
            }
        }
        for (key, broken) in aggregates {
            self.correct(key, &broken).await?;
        }
        owners.dedup();
        for owners in owners.chunks(CHUNK) {
            let items = get(&self.engine.store, &self.engine.clock, TableRef::Source, owners).await?;
            let items = items.into_iter().map(|item| item.filter(|item| !item.is_ours()));
            let scanned: Vec<_> = owners.iter().cloned().zip(items).collect();
            self.engine.apply_items(&scanned).await.map_err(RepairError::Apply)?;
        }
        Ok(())
    }

    /// Writes the sums and the marker, some measures at a time.
    async fn correct(&mut self, key: &TableKey, broken: &Broken<'_>) -> Result<(), RepairError> {
        let item = self.item(key).await?;
        if item.as_ref().map(item_hash).as_deref() != broken.seen {
            self.report.given_up += 1;
            return Ok(());
        }
        let group = match (&item, broken.member) {
            (None, Some(member)) => self.group(key, member).await?,
            _ => None,
        };
        let (mut item, mut rest) = (item, broken.measures.as_slice());
        // At least once: without a measure there is the marker to be written.
        loop {
            // An item that is made anew is made whole.
            let count = if item.is_some() { rest.len().min(MEASURES_MAX) } else { rest.len() };
            let (measures, later) = rest.split_at(count);
            let write = self.correction(key, item.as_ref(), broken.marker, measures, group.as_ref());
            let written = write.op.clone();
            if !self.send(&[write]).await? {
                self.report.given_up += 1;
                return Ok(());
            }
            if later.is_empty() {
                break;
            }
            // All other values must still be those of the measurement, so they are not read again.
            item = item.map(|item| match written {
                Op::Update { set, .. } => set.0.into_iter().fold(item, |item, (name, value)| item.with(name, value)),
                _ => item,
            });
            rest = later;
        }
        self.report.aggregates += 1;
        Ok(())
    }

    fn correction(
        &self,
        key: &TableKey,
        item: Option<&Item>,
        marker: &str,
        measures: &[(&Text, &Decimal)],
        group: Option<&Item>,
    ) -> Write {
        let Engine { model, clock, .. } = self.engine;
        let mut set = Item::new().with(MARKER, Value::text(marker)).with(UPDATED, Value::text(timestamp(clock.now())));
        let mut add = BTreeMap::new();
        let condition = match item {
            Some(item) => {
                let names = measures.iter().map(|(name, _)| name.as_str()).chain([MARKER, UPDATED]);
                Condition::All(names.map(|name| (name.into(), item.get(name).cloned())).collect())
            }
            None => {
                let declared = model.aggregates.iter().find(|known| aggregate_marker(&known.name) == marker);
                add = declared.map(|known| declared_measures(model, &known.name)).unwrap_or_default();
                if let Some(group) = group {
                    set.insert("Group", Value::M(group.0.clone()));
                }
                Condition::Absent
            }
        };
        for (name, number) in measures {
            add.remove(*name);
            set.insert((*name).clone(), Value::N((*number).clone()));
        }
        Write { table: TableRef::Source, key: key.clone(), op: Op::Update { add, set }, condition }
    }

    /// The values that the group of an aggregate stands for, by an item that counts in it.
    async fn group(&self, key: &TableKey, member: &TableKey) -> Result<Option<Item>, StoreError> {
        let Some(item) = self.item(member).await?.filter(|item| !item.is_ours()) else { return Ok(None) };
        let derived = derive::derive(&self.engine.model, member, &item);
        Ok(derived.counts.into_iter().find(|count| count.key == *key).map(|count| count.group))
    }

    /// Takes a row that is not as the ledger says, and the ledger's claim to it; the owner has to be reconciled afterwards.
    async fn give_up_claim(&mut self, key: &TableKey, owner: &TableKey) -> Result<(), RepairError> {
        // The ledger row first: whatever is committed after it was read makes the condition fail.
        let Some(mut row) = self.ledger_row(owner).await? else { return Ok(()) };
        let Some(at) = row.applied.rows.iter().position(|applied| applied.key == *key) else { return Ok(()) };
        let claim = row.applied.rows.remove(at);
        let item = self.item(key).await?.filter(Item::is_ours);
        let agrees = |item: &Item| item.text(MARKER) == Some(claim.marker().as_str()) && item_hash(item) == claim.hash;
        if item.as_ref().is_some_and(agrees) {
            return Ok(());
        }
        let mut writes = vec![next(row)];
        writes.extend(item.map(|item| taking_away(key, &item)));
        let done = self.send(&writes).await?;
        self.count(done);
        Ok(())
    }

    /// Takes away a row that nobody claims.
    async fn take_away(&mut self, key: &TableKey, seen: Option<&str>) -> Result<(), RepairError> {
        let Some(item) = self.item(key).await?.filter(|item| Some(item_hash(item).as_str()) == seen) else {
            self.report.given_up += 1;
            return Ok(());
        };
        let names = self.engine.model.table.key_names();
        let owner = match item.get(SOURCE) {
            Some(Value::M(source)) => TableKey::of(&Item(source.clone()), &names)
                .filter(|owner| owner != key)
                .map(|owner| LedgerRow::key(&owner)),
            Some(Value::S(digest)) => Some(ledger_key_of(digest)),
            _ => None,
        };
        // Every row of ours says whose it is. What does not may be an item of the application's that somebody marked.
        let Some(owner) = owner else { return Ok(()) };
        let stored = self.read(TableRef::State, owner.clone()).await?;
        let guard = match stored.as_ref().map(LedgerRow::from_item) {
            // Whether it claims the row is not known.
            Some(Err(_)) => return Ok(()),
            Some(Ok(row)) if row.applied.rows.iter().any(|applied| applied.key == *key) => return Ok(()),
            Some(Ok(row)) => next(row),
            None => Write { table: TableRef::State, key: owner, op: Op::Delete, condition: Condition::Absent },
        };
        let writes = [taking_away(key, &item), guard];
        let done = self.send(&writes).await?;
        self.count(done);
        Ok(())
    }

    fn count(&mut self, done: bool) {
        self.report.rows += u64::from(done);
        self.report.given_up += u64::from(!done);
    }

    async fn ledger_row(&self, source: &TableKey) -> Result<Option<LedgerRow>, StoreError> {
        let item = self.read(TableRef::State, LedgerRow::key(source)).await?;
        Ok(item.as_ref().and_then(|item| LedgerRow::from_item(item).ok()))
    }

    async fn item(&self, key: &TableKey) -> Result<Option<Item>, StoreError> {
        self.read(TableRef::Source, key.clone()).await
    }

    async fn read(&self, table: TableRef, key: TableKey) -> Result<Option<Item>, StoreError> {
        get_one(&self.engine.store, &self.engine.clock, table, key).await
    }

    /// False if somebody was faster, or the database refuses it.
    async fn send(&self, writes: &[Write]) -> Result<bool, TransactError> {
        match write_state(&self.engine.store, &self.engine.clock, writes).await {
            Ok(()) => Ok(true),
            Err(TransactError::Cancelled(reasons)) if reasons.iter().any(is_final) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn is_final(reason: &CancelReason) -> bool {
    matches!(reason, CancelReason::ConditionFailed | CancelReason::Refused(_))
}

/// The ledger row's next revision, on condition that it is as it was read.
fn next(mut row: LedgerRow) -> Write {
    let condition = Condition::Equals(REVISION.into(), revision(row.revision));
    row.revision += 1;
    Write { table: TableRef::State, key: LedgerRow::key(&row.source), op: Op::Put(row.to_item().into()), condition }
}

/// The delete of a row, on condition that it still says whose it is.
fn taking_away(key: &TableKey, item: &Item) -> Write {
    let attributes = [MARKER, SOURCE].map(|name| (name.into(), item.get(name).cloned()));
    Write { table: TableRef::Source, key: key.clone(), op: Op::Delete, condition: Condition::All(attributes.into()) }
}
