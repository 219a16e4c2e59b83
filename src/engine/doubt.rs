//! Doubt: what a record says of an item is not believed where later records of that item may be lost.
//!
//! The problem: after a loss (a stream that was switched off and on, records that were trimmed) the table is reconciled, so the
//! ledger says what the items are. Somebody who still holds an older page, or reads the old stream late, then comes with
//! a record from before the loss. Its number is new to the ledger and its old image may agree with it by chance, and no later
//! record will ever put right what it says.
//!
//! The contract: [`raise`] writes one row of the state table, before a repair reads the first item. Every commit reads it
//! together with the ledger rows, and of each record that was written before the row's instant, or does not say when, the item
//! itself is read. A first start raises it, too: what others, such as a function, lost before it, it cannot know. Who had read the
//! ledger before that may still commit, though for `READ_LIFE` at most, and a request on its way is refused by the database once
//! its signature is `SIGNATURE_LIFE` old: after a known loss a second look after `SETTLED_AFTER`
//! sees all that they did.

use std::time::Duration;

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};

use super::patience::Patience;
use super::ports::{Clock, Store, TransactError};
use super::scan;
use crate::model::key::TableKey;
use crate::model::time::timestamp;
use crate::model::value::{Item, Value};
use crate::plan::state;
use crate::plan::write::{Condition, Op, TableRef, Write};

/// How far the clocks of workers and of the database may lie apart.
const SKEW_MAX: TimeDelta = TimeDelta::minutes(15);
/// Longer than any record is delivered again, like the life of a tombstone.
const ROW_LIFE: TimeDelta = TimeDelta::days(30);
/// How long a ledger row that was read is believed to be what a commit may be planned on.
pub(super) const READ_LIFE: TimeDelta = TimeDelta::minutes(5);
/// How old the signature of a request may be; the database refuses older ones.
pub(crate) const SIGNATURE_LIFE: TimeDelta = TimeDelta::minutes(15);
/// After that long nobody's commit is on its way who had not read the row.
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(25 * 60);

/// The attribute that holds the instant.
const UNTIL: &str = "Until";

/// The row as it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Doubt {
    /// `None`: nobody ever had a reason to doubt.
    until: Option<DateTime<Utc>>,
}

impl Doubt {
    /// What a row says. One that cannot be read leaves nothing beyond doubt.
    pub fn of(row: Option<&Item>) -> Doubt {
        let read = |item: &Item| DateTime::parse_from_rfc3339(item.text(UNTIL)?).ok().map(|until| until.to_utc());
        Doubt { until: row.map(|item| read(item).unwrap_or(DateTime::<Utc>::MAX_UTC)) }
    }

    /// True if a record that was written then must not be believed.
    pub fn covers(&self, created: Option<DateTime<Utc>>) -> bool {
        self.until.is_some_and(|until| created.is_none_or(|created| created <= until))
    }
}

/// Casts doubt on all records written until now.
///
/// # Errors
/// When the row cannot be written; then nothing may be repaired yet.
pub async fn raise<S: Store, C: Clock>(store: &S, clock: &C) -> Result<(), TransactError> {
    let key = state::doubt_key();
    let before = scan::get_one(store, clock, TableRef::State, key.clone()).await?;
    let now = clock.now();
    let until = now + SKEW_MAX;
    // Another one's clock may be ahead, though not by more; a row that cannot be read is written anew.
    let before = Doubt::of(before.as_ref()).until.filter(|before| *before <= until + SKEW_MAX);
    let until = before.map_or(until, |before| before.max(until));
    let write = Write {
        table: TableRef::State,
        op: Op::Put(row(&key, until, now).into()),
        key,
        // Of two at once either instant will do: they lie apart by less than the clocks may.
        condition: Condition::Always,
    };
    let can_retry = |error: &TransactError| match error {
        TransactError::Store(error) => error.can_retry(),
        TransactError::Cancelled(_) => true,
    };
    Patience::SHORT.repeat(clock, || store.transact(std::slice::from_ref(&write)), can_retry).await
}

/// Casts doubt, as [`raise`] does, once for what was lost until `found`, however often it is called. From when on nobody's commit is on
/// its way who had not read of it.
///
/// # Errors
/// As [`raise`].
pub(super) async fn raise_once<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    found: DateTime<Utc>,
) -> Result<DateTime<Utc>, TransactError> {
    let row = scan::get_one(store, clock, TableRef::State, state::doubt_key()).await?;
    let until = Doubt::of(row.as_ref()).until;
    let now = clock.now();
    match until.filter(|until| (found + SKEW_MAX..=now + SKEW_MAX + SKEW_MAX).contains(until)) {
        Some(until) => Ok(until - SKEW_MAX + SETTLED_AFTER),
        None => {
            raise(store, clock).await?;
            // As precise as the row is.
            Ok(now.trunc_subsecs(3) + SETTLED_AFTER)
        }
    }
}

fn row(key: &TableKey, until: DateTime<Utc>, now: DateTime<Utc>) -> Item {
    key.to_item(&state::key_names())
        .with(UNTIL, Value::text(timestamp(until)))
        .with(state::TTL, Value::N((now + ROW_LIFE).timestamp().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::sim::{SimClock, SimStore, block_on};
    use crate::engine::testing::TestClock;
    use crate::plan::testing::model;

    #[test]
    fn doubt_covers_what_was_written_before_it_and_what_does_not_say_when() {
        let (store, begin) = (SimStore::new(&model().table), DateTime::from_timestamp(1_800_000_000, 0).unwrap());
        let clock = SimClock::new(begin, 1);
        let read = || Doubt::of(block_on(store.get(TableRef::State, &[state::doubt_key()])).unwrap()[0].as_ref());
        assert!(!read().covers(None) && !read().covers(Some(begin)), "nothing was lost");
        block_on(raise(&store, &clock)).unwrap();
        assert!(read().covers(None) && read().covers(Some(begin + SKEW_MAX)));
        assert!(!read().covers(Some(begin + SKEW_MAX + TimeDelta::seconds(1))));
        let slow = clock.skewed(TimeDelta::minutes(-5));
        block_on(raise(&store, &slow)).unwrap();
        assert!(read().covers(Some(begin + SKEW_MAX)), "a slower clock takes nothing back");
        let damaged = state::doubt_key().to_item(&state::key_names()).with(UNTIL, Value::text("soon"));
        store.set_state(&state::doubt_key(), Some(damaged));
        block_on(raise(&store, &clock)).unwrap();
        assert!(!read().covers(Some(begin + SKEW_MAX + TimeDelta::seconds(1))), "what cannot be read is written anew");
    }

    #[test]
    fn doubt_is_cast_once_for_one_loss() {
        let (store, clock) = (SimStore::new(&model().table), TestClock::at("2026-03-01T10:00:00Z"));
        let found = clock.now();
        let once = |found| clock.run(raise_once(&store, &clock, found)).unwrap();
        let settled = once(found);
        assert_eq!(settled, found + SETTLED_AFTER);
        clock.advance(Duration::from_secs(600));
        assert_eq!(once(found), settled, "the same loss");
        assert_eq!(once(clock.now()), settled + TimeDelta::seconds(600), "another one");
    }

    #[test]
    fn a_row_that_cannot_be_read_leaves_nothing_beyond_doubt() {
        let damaged = Item::new().with(UNTIL, Value::text("soon"));
        assert!(Doubt::of(Some(&damaged)).covers(Some(DateTime::from_timestamp(4_000_000_000, 0).unwrap())));
    }
}
