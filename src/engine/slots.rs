//! Slots: one print of each report at each of its times, whoever looks and however often.
//!
//! The problem: whoever prints by the clock may be started twice, late, at once with another, or die in the middle; and a
//! report must come out once for each of its times (its slots), not twice and not never. The contract:
//! - [`owed_since`] says up to when a report's slots are settled. It begins with the first look: what was due before is not owed;
//! - [`claim`] gives a slot to one who asks, by a conditional write. Another who asks meanwhile is told so. A claim is
//!   good until its lease is over: then its holder has died, and the next who asks gets the slot;
//! - [`finish`] writes down what was printed, if the claim still stands, and [`settle`] that nothing is owed up to the slot.
//!   In between a crash costs one more look and no second print;
//! - of several slots that were missed only the last is printed; its row counts those that were skipped.
//!
//! | `PK` | `SK` | attributes |
//! |---|---|---|
//! | `REPORT#<report>` | `SETTLED` | `Until`, `UpdatedAt` |
//! | `REPORT#<report>` | `SLOT#<instant>` | `State` (`claimed`, `printed`, `failed`, `skipped`), `Claim` (who), `LeaseUntil`, `Files`, `Skipped`, `SkippedSince`, `UpdatedAt`, `ExpiresAt` |

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use super::checkpoint::{number, write_state};
use super::ports::{CancelReason, Clock, SortRange, Store, StoreError, TransactError};
use super::scan::{Pages, get_one};
use crate::model::key::TableKey;
use crate::model::time::{instant, timestamp};
use crate::model::value::{Item, Value};
use crate::plan::state;
use crate::plan::write::{Condition, Op, TableRef, Write};

/// How long the row of a slot is kept, for people: what is settled does not rest on it.
const ROW_LIFE: TimeDelta = TimeDelta::days(400);
/// Attempts to write a row that others write, too.
const ROUNDS_MAX: u32 = 5;
/// Most rows of dead claims that one claim marks: they fit its transaction.
const SKIPPED_ROWS_MAX: usize = 90;

const STATE: &str = "State";
const CLAIM: &str = "Claim";
const LEASE_UNTIL: &str = "LeaseUntil";
const UNTIL: &str = "Until";
const CLAIMED: &str = "claimed";
const PRINTED: &str = "printed";
const FAILED: &str = "failed";
const SKIPPED: &str = "skipped";

/// One report at one of its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    pub report: String,
    pub at: DateTime<Utc>,
}

/// Who asks for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Another for each attempt to print.
    pub name: String,
    /// When it is certainly done or dead.
    pub until: DateTime<Utc>,
}

/// What asking for a slot came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The caller prints it.
    Mine(Claim),
    /// Another one is printing it.
    Theirs { until: DateTime<Utc> },
    /// It was printed.
    Printed,
}

/// The right to print a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub slot: Slot,
    /// How many slots before it are never printed.
    pub skipped: u64,
    skipped_since: Option<DateTime<Utc>>,
    holder: Holder,
}

/// Up to when all slots of the report are settled. Who asks first settles all until `now`.
///
/// # Errors
/// The last of several attempts'.
pub async fn owed_since<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    report: &str,
    now: DateTime<Utc>,
) -> Result<DateTime<Utc>, TransactError> {
    advance(store, clock, report, None, now).await
}

/// Nothing is owed of the slot's report until the slot.
///
/// # Errors
/// The last of several attempts'.
pub async fn settle<S: Store, C: Clock>(store: &S, clock: &C, slot: &Slot) -> Result<(), TransactError> {
    advance(store, clock, &slot.report, Some(slot.at), slot.at).await.map(|_| ())
}

/// Moves the row on to `to`, never back; where there is none, it begins at `first`. What it says then.
async fn advance<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    report: &str,
    to: Option<DateTime<Utc>>,
    first: DateTime<Utc>,
) -> Result<DateTime<Utc>, TransactError> {
    let key = state::report_key(report);
    let mut round = 0;
    loop {
        let row = get_one(store, clock, TableRef::State, key.clone()).await?;
        let stored = row.as_ref().and_then(|row| row.text(UNTIL));
        let until = stored.and_then(instant);
        let wanted = match until {
            Some(until) if to.is_none_or(|to| to <= until) => return Ok(until),
            _ => to.unwrap_or(first),
        };
        let item = key
            .to_item(&state::key_names())
            .with(UNTIL, Value::text(timestamp(wanted)))
            .with("UpdatedAt", Value::text(timestamp(clock.now())));
        let condition = match (row.is_some(), stored) {
            (false, _) => Condition::Absent,
            (true, Some(stored)) => Condition::Equals(UNTIL.into(), Value::text(stored)),
            (true, None) => Condition::Always,
        };
        let write = Write { table: TableRef::State, key: key.clone(), op: Op::Put(item.into()), condition };
        round += 1;
        match write_state(store, clock, &[write]).await {
            Ok(()) => return Ok(wanted),
            Err(error) if is_lost_race(&error) && round < ROUNDS_MAX => {}
            Err(error) => return Err(error),
        }
    }
}

/// Asks for a slot; `earlier` are the owed ones before it, which are skipped unless somebody has printed them or is doing so.
///
/// # Errors
/// The last of several attempts'; then nothing is claimed for longer than the lease.
pub async fn claim<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    slot: &Slot,
    earlier: &[DateTime<Utc>],
    holder: &Holder,
) -> Result<Claimed, TransactError> {
    let key = slot.key();
    let mut round = 0;
    loop {
        let row = get_one(store, clock, TableRef::State, key.clone()).await?;
        if let Some(standing) = row.as_ref().and_then(|row| standing(row, holder, clock.now())) {
            return Ok(standing);
        }
        let (skipped, skipped_since, dead) = skipped(store, clock, slot, earlier).await?;
        let claim = Claim { slot: slot.clone(), skipped, skipped_since, holder: holder.clone() };
        let condition = match &row {
            None => Condition::Absent,
            Some(row) => as_it_was(row),
        };
        let mut writes = vec![claim.put(CLAIMED, condition, &[], clock.now())];
        writes.extend(dead);
        round += 1;
        match write_state(store, clock, &writes).await {
            Ok(()) => return Ok(Claimed::Mine(claim)),
            Err(error) if is_lost_race(&error) && round < ROUNDS_MAX => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes down what was printed. False: the claim did not last, and another has the slot now.
///
/// # Errors
/// The last of several attempts'.
pub async fn finish<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    claim: &Claim,
    files: &[String],
) -> Result<bool, TransactError> {
    end(store, clock, claim, PRINTED, files).await
}

/// Frees the slot at once after a failure, so that the next who asks gets it. False: another has it already.
///
/// # Errors
/// The last of several attempts'; then the slot is free when the lease is over.
pub async fn give_back<S: Store, C: Clock>(store: &S, clock: &C, claim: &Claim) -> Result<bool, TransactError> {
    end(store, clock, claim, FAILED, &[]).await
}

async fn end<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    claim: &Claim,
    to: &'static str,
    files: &[String],
) -> Result<bool, TransactError> {
    let mine = Value::text(claim.holder.name.as_str());
    let condition =
        Condition::All(vec![(CLAIM.into(), Some(mine.clone())), (STATE.into(), Some(Value::text(CLAIMED)))]);
    match write_state(store, clock, &[claim.put(to, condition, files, clock.now())]).await {
        Ok(()) => Ok(true),
        Err(error) if is_lost_race(&error) => {
            let row = get_one(store, clock, TableRef::State, claim.slot.key()).await?;
            // Perhaps only the answer was lost.
            Ok(row.is_some_and(|row| row.get(CLAIM) == Some(&mine) && row.text(STATE) == Some(to)))
        }
        Err(error) => Err(error),
    }
}

/// How many of the earlier slots are never printed, the first of them, and the writes that say so in the rows of claims that died.
async fn skipped<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    slot: &Slot,
    earlier: &[DateTime<Utc>],
) -> Result<(u64, Option<DateTime<Utc>>, Vec<Write>), StoreError> {
    let (Some(first), Some(last)) = (earlier.first(), earlier.last()) else { return Ok((0, None, Vec::new())) };
    let sort = |at: &DateTime<Utc>| Slot { report: slot.report.clone(), at: *at }.key().sort;
    let (Some(from), Some(to)) = (sort(first), sort(last)) else { return Ok((0, None, Vec::new())) };
    let partition = Value::text(state::report_partition(&slot.report));
    let mut pages = Pages::of_partition(TableRef::State, partition, SortRange::Between(from, to));
    let (mut settled, mut dead) = (BTreeSet::new(), Vec::new());
    let now = clock.now();
    while let Some(rows) = pages.next(store, clock).await? {
        for row in &rows {
            let is_claimed = row.text(STATE) == Some(CLAIMED);
            if row.text(STATE) == Some(PRINTED) || (is_claimed && lease_of(row).is_some_and(|until| until > now)) {
                settled.extend(row.text(state::SORT).map(str::to_owned));
            } else if let Some(key) = TableKey::of(row, &state::key_names())
                && row.text(STATE) != Some(SKIPPED)
                && dead.len() < SKIPPED_ROWS_MAX
            {
                let set = Item::new().with(STATE, Value::text(SKIPPED)).with("UpdatedAt", Value::text(timestamp(now)));
                let op = Op::Update { add: Default::default(), set };
                dead.push(Write { table: TableRef::State, key, op, condition: as_it_was(row) });
            }
        }
    }
    let is_settled =
        |at: &DateTime<Utc>| sort(at).as_ref().and_then(Value::as_text).is_some_and(|sort| settled.contains(sort));
    let mut left = earlier.iter().filter(|at| !is_settled(at));
    let since = left.next().copied();
    Ok((left.count() as u64 + u64::from(since.is_some()), since, dead))
}

/// What a slot's row says to `holder`; `None`: the slot is free.
fn standing(row: &Item, holder: &Holder, now: DateTime<Utc>) -> Option<Claimed> {
    match row.text(STATE) {
        Some(PRINTED) => Some(Claimed::Printed),
        // One's own claim is there where only the answer to its write was lost.
        Some(CLAIMED) if row.text(CLAIM) != Some(holder.name.as_str()) => {
            lease_of(row).filter(|until| *until > now).map(|until| Claimed::Theirs { until })
        }
        _ => None,
    }
}

/// Nobody has taken or left the slot since its row was read.
fn as_it_was(row: &Item) -> Condition {
    Condition::All([STATE, CLAIM].map(|name| (name.into(), row.get(name).cloned())).into())
}

fn lease_of(row: &Item) -> Option<DateTime<Utc>> {
    row.text(LEASE_UNTIL).and_then(instant)
}

fn is_lost_race(error: &TransactError) -> bool {
    matches!(error, TransactError::Cancelled(reasons) if reasons.contains(&CancelReason::ConditionFailed))
}

impl Slot {
    fn key(&self) -> TableKey {
        state::slot_key(&self.report, &timestamp(self.at))
    }
}

impl Claim {
    fn put(&self, to: &str, condition: Condition, files: &[String], now: DateTime<Utc>) -> Write {
        let key = self.slot.key();
        let mut item = key
            .to_item(&state::key_names())
            .with(STATE, Value::text(to))
            .with(CLAIM, Value::text(self.holder.name.as_str()))
            .with(LEASE_UNTIL, Value::text(timestamp(self.holder.until)))
            .with("UpdatedAt", Value::text(timestamp(now)))
            .with(state::TTL, Value::N((now + ROW_LIFE).timestamp().into()));
        if !files.is_empty() {
            item.insert("Files", Value::L(files.iter().map(Value::text).collect()));
        }
        if let Some(since) = self.skipped_since {
            item.insert("Skipped", number(self.skipped));
            item.insert("SkippedSince", Value::text(timestamp(since)));
        }
        Write { table: TableRef::State, key, op: Op::Put(item.into()), condition }
    }
}

#[cfg(test)]
mod tests;
