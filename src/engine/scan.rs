//! Reading a table page by page, with pauses where the database asks for them.

use super::patience;
use super::ports::{Clock, Store, StoreError};
use crate::model::key::TableKey;
use crate::model::value::Item;
use crate::plan::write::TableRef;

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
        let page = patience::read(clock, || store.scan(self.table, self.segment, self.start.clone())).await?;
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
    patience::read(clock, || store.get(table, keys)).await
}
