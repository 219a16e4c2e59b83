//! Reading a table page by page, with pauses where the database asks for them.

use std::time::Duration;

use super::ports::{Clock, Store, StoreError};
use crate::model::key::TableKey;
use crate::model::value::Item;
use crate::plan::write::TableRef;

/// Most attempts at one page; with doubling pauses from 50 ms this is about half a minute.
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
        let mut attempt = 0;
        let page = loop {
            match store.scan(self.table, self.segment, self.start.clone()).await {
                Ok(page) => break page,
                Err(error) if error.can_retry() && attempt + 1 < ATTEMPTS_MAX => {
                    clock.sleep(Duration::from_millis(50 << attempt).mul_f64(0.5 + clock.jitter() / 2.0)).await;
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        };
        self.done = page.next.is_none();
        self.start = page.next;
        Ok(Some(page.items))
    }
}
