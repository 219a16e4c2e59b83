//! Pace: reading no faster than the table's owner allows.
//!
//! What a read costs is known when its answer is there. So each read books what it will probably cost, waits for its turn, and the
//! difference is settled afterwards: over any longer time the limit holds whatever the items' sizes and however many read at
//! once, while a single request (a page of 1 MB is 256 units) may run ahead of it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::ports::{Clock, Page, SortRange, Store, StoreError, TransactError};
use crate::model::key::TableKey;
use crate::model::value::{Item, Value};
use crate::plan::write::{TableRef, Write};

/// Bytes that one unit reads consistently.
const UNIT_SIZE: usize = 4096;

/// A store whose reads are held to a number of read units a second; writes pass.
pub struct Paced<'e, S, C> {
    store: &'e S,
    clock: &'e C,
    /// `None`: as fast as it goes.
    meter: Option<Mutex<Meter>>,
}

struct Meter {
    units_per_second: f64,
    /// When everything that is booked has been paid for.
    free_at: DateTime<Utc>,
    /// What the last page cost: the next one's probable cost.
    page_units: f64,
}

impl Meter {
    /// Books a read; how long it has to wait for its turn.
    fn book(&mut self, units: f64, now: DateTime<Utc>) -> Duration {
        let turn = self.free_at.max(now);
        self.free_at = turn + self.time_of(units);
        (turn - now).to_std().unwrap_or_default()
    }

    fn settle(&mut self, units: f64) {
        self.free_at += self.time_of(units);
    }

    fn time_of(&self, units: f64) -> TimeDelta {
        TimeDelta::microseconds((units / self.units_per_second * 1e6) as i64)
    }
}

impl<'e, S: Store, C: Clock> Paced<'e, S, C> {
    /// At most so many read units a second, 1 at least; `None`: no limit.
    pub fn new(store: &'e S, clock: &'e C, max_read_units: Option<u32>) -> Paced<'e, S, C> {
        let meter = max_read_units.map(|units| {
            let units_per_second = f64::from(units.max(1));
            Mutex::new(Meter { units_per_second, free_at: clock.now(), page_units: 0.0 })
        });
        Paced { store, clock, meter }
    }

    /// Waits for its turn, sends the request and pays. `booked` is its probable cost; `None`: that of the last page.
    async fn read<T>(
        &self,
        booked: Option<f64>,
        request: impl Future<Output = Result<T, StoreError>> + Send,
        cost: impl Fn(&T) -> f64 + Send,
    ) -> Result<T, StoreError> {
        let Some(meter) = &self.meter else { return request.await };
        let lock = || meter.lock().unwrap_or_else(PoisonError::into_inner);
        let (units, pause) = {
            let mut meter = lock();
            let units = booked.unwrap_or(meter.page_units);
            (units, meter.book(units, self.clock.now()))
        };
        // What a commit reads by key it must not wait for, or its ledger rows would be old before it is sent: the next page waits.
        if !pause.is_zero() && booked.is_none() {
            self.clock.sleep(pause).await;
        }
        let answer = request.await;
        // What a failed request cost is not known; what was booked for it stays paid.
        if let Ok(answer) = &answer {
            let (mut meter, cost) = (lock(), cost(answer));
            meter.settle(cost - units);
            if booked.is_none() {
                meter.page_units = cost;
            }
        }
        answer
    }
}

/// A page is charged by its bytes together.
fn page_units(page: &Page) -> f64 {
    units(page.items.iter().map(Item::size).sum())
}

/// Items read by key are charged one by one, and so is one that is not there.
fn item_units(items: &[Option<Item>]) -> f64 {
    items.iter().map(|item| units(item.as_ref().map_or(0, Item::size))).sum()
}

fn units(size: usize) -> f64 {
    size.div_ceil(UNIT_SIZE).max(1) as f64
}

impl<S: Store, C: Clock> Store for Paced<'_, S, C> {
    async fn get(&self, table: TableRef, keys: &[TableKey]) -> Result<Vec<Option<Item>>, StoreError> {
        self.read(Some(keys.len() as f64), self.store.get(table, keys), |items: &Vec<_>| item_units(items)).await
    }

    async fn transact(&self, writes: &[Write]) -> Result<(), TransactError> {
        self.store.transact(writes).await
    }

    async fn query(
        &self,
        table: TableRef,
        partition: &Value,
        range: SortRange,
        start: Option<TableKey>,
    ) -> Result<Page, StoreError> {
        self.read(None, self.store.query(table, partition, range, start), page_units).await
    }

    async fn scan(&self, table: TableRef, segment: (u32, u32), start: Option<TableKey>) -> Result<Page, StoreError> {
        self.read(None, self.store.scan(table, segment, start), page_units).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_charged_as_dynamodb_does() {
        let item = |size: usize| Item::new().with("PK", Value::text("x".repeat(size - 2)));
        assert_eq!(item(4096).size(), 4096);
        assert_eq!(item_units(&[Some(item(10)), None, Some(item(4096)), Some(item(4097))]), 5.0);
        assert_eq!(page_units(&Page { items: (0..10).map(|_| item(500)).collect(), next: None }), 2.0);
        assert_eq!(page_units(&Page::default()), 1.0);
    }

    #[test]
    fn whoever_comes_while_others_are_booked_waits_for_them() {
        let start = DateTime::UNIX_EPOCH;
        let mut meter = Meter { units_per_second: 10.0, free_at: start, page_units: 0.0 };
        assert_eq!(meter.book(5.0, start), Duration::ZERO);
        assert_eq!(meter.book(5.0, start), Duration::from_millis(500));
        meter.settle(10.0);
        assert_eq!(meter.book(1.0, start), Duration::from_secs(2), "it cost more than was booked");
        assert_eq!(meter.book(1.0, start + TimeDelta::seconds(60)), Duration::ZERO, "idle time is not saved up");
    }
}
