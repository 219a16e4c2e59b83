//! Reading a table page by page, with pauses where the database asks for them.

use std::time::Duration;

use super::ports::{Clock, Store, StoreError};
use crate::model::key::TableKey;
use crate::model::value::Item;
use crate::plan::write::TableRef;

/// Most attempts at one read; with doubling pauses from 50 ms this is about half a minute.
const ATTEMPTS_MAX: u32 = 10;

/// The pages of a scan, in the table's order.
pub struct Pages {
    table: TableRef,
    segment: (u32, u32),
    start: Option<TableKey>,
    done: bool,
}

impl Pages {
    pub fn new(table: TableRef, segment: (u32, u32)) -> Pages {
        Pages { table, segment, start: None, done: false }
    }

    /// The next page, perhaps empty; `None` after the last.
    pub async fn next<S: Store, C: Clock>(&mut self, store: &S, clock: &C) -> Result<Option<Vec<Item>>, StoreError> {
        if self.done {
            return Ok(None);
        }
        let page = again(clock, || store.scan(self.table, self.segment, self.start.clone())).await?;
        self.done = page.next.is_none();
        self.start = page.next;
        Ok(Some(page.items))
    }
}

/// Consistent reads by key, in the order asked.
pub async fn get<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    table: TableRef,
    keys: &[TableKey],
) -> Result<Vec<Option<Item>>, StoreError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    again(clock, || store.get(table, keys)).await
}

/// Repeats a read while the database asks for patience.
async fn again<T, C: Clock, F: Future<Output = Result<T, StoreError>>>(
    clock: &C,
    mut request: impl FnMut() -> F,
) -> Result<T, StoreError> {
    let mut attempt = 0;
    loop {
        match request().await {
            Err(error) if error.can_retry() && attempt + 1 < ATTEMPTS_MAX => {
                clock.sleep(Duration::from_millis(50 << attempt).mul_f64(0.5 + clock.jitter() / 2.0)).await;
                attempt += 1;
            }
            other => return other,
        }
    }
}
