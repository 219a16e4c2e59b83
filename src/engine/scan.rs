//! Reading tables page by page, with pauses where the database asks for them.

use super::patience;
use super::ports::{Clock, SortRange, Store, StoreError};
use crate::model::key::TableKey;
use crate::model::value::{Item, Value};
use crate::plan::write::TableRef;

/// The pages of a scan or a query, in the table's order.
pub struct Pages {
    table: TableRef,
    what: What,
    start: Option<TableKey>,
    done: bool,
}

enum What {
    Segment(u32, u32),
    Partition(Value, SortRange),
}

impl Pages {
    /// Segment `segment.0` of `segment.1` of a whole table.
    pub fn new(table: TableRef, segment: (u32, u32)) -> Pages {
        Pages { table, what: What::Segment(segment.0, segment.1), start: None, done: false }
    }

    /// The rest of a segment, after the item at `start`.
    pub fn after(table: TableRef, segment: (u32, u32), start: TableKey) -> Pages {
        Pages { start: Some(start), ..Pages::new(table, segment) }
    }

    /// After which item the next page begins; `None` before the first page and after the last.
    pub fn position(&self) -> Option<&TableKey> {
        self.start.as_ref()
    }

    /// One partition, or the range of it.
    pub fn of_partition(table: TableRef, partition: Value, range: SortRange) -> Pages {
        Pages { table, what: What::Partition(partition, range), start: None, done: false }
    }

    /// The next page, perhaps empty; `None` after the last.
    ///
    /// # Errors
    /// The last of several attempts'; the same page is asked for again by the next call.
    pub async fn next<S: Store, C: Clock>(&mut self, store: &S, clock: &C) -> Result<Option<Vec<Item>>, StoreError> {
        if self.done {
            return Ok(None);
        }
        let start = || self.start.clone();
        let page = match &self.what {
            What::Segment(segment, of) => {
                patience::read(clock, || store.scan(self.table, (*segment, *of), start())).await?
            }
            What::Partition(partition, range) => {
                patience::read(clock, || store.query(self.table, partition, range.clone(), start())).await?
            }
        };
        self.done = page.next.is_none();
        self.start = page.next;
        Ok(Some(page.items))
    }
}

/// Reads the user's table whole and calls `each` for every source item.
///
/// # Errors
/// The last of several attempts'.
pub async fn source_items<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    mut each: impl FnMut(Item) + Send,
) -> Result<(), StoreError> {
    let mut pages = Pages::new(TableRef::Source, (0, 1));
    while let Some(items) = pages.next(store, clock).await? {
        items.into_iter().filter(|item| !item.is_ours()).for_each(&mut each);
    }
    Ok(())
}

/// Consistent reads by key, in the order asked.
///
/// # Errors
/// The last of several attempts'.
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

/// One item by its key.
///
/// # Errors
/// As [`get`].
pub async fn get_one<S: Store, C: Clock>(
    store: &S,
    clock: &C,
    table: TableRef,
    key: TableKey,
) -> Result<Option<Item>, StoreError> {
    Ok(get(store, clock, table, &[key]).await?.pop().flatten())
}
