//! Plain reads and writes of single items: for loads, demonstrations and tests. The engine writes by transactions only.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::{ConsumedCapacity, PutRequest, ReturnConsumedCapacity, WriteRequest};

use super::connection::Connection;
use super::convert::{Attributes, encode_item, table};
use super::errors::store_error;
use super::usage::Call;
use crate::engine::ports::StoreError;
use crate::model::value::Item;

/// Most items in one BatchWriteItem.
const PUTS_MAX: usize = 25;
/// Batches of which nothing is taken, in a row, before a load gives up.
const IDLE_PUTS_MAX: u32 = 6;
const IDLE_PUT_PAUSE: Duration = Duration::from_millis(50);

impl Connection {
    /// Writes the whole item, over one of the same key.
    pub async fn put_item(&self, table: &str, item: &Item) -> Result<(), StoreError> {
        let request = self.tables.put_item().table_name(table).set_item(Some(encode_item(item)));
        self.usage.count(Call::Write);
        let answer = request.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await;
        let answer = answer.map_err(|error| store_error(&error, table))?;
        self.charge(Call::Write, answer.consumed_capacity.as_slice());
        Ok(())
    }

    /// `key` holds the key attributes by name. An item that is not there is no error.
    pub async fn delete_item(&self, table: &str, key: &Item) -> Result<(), StoreError> {
        let request = self.tables.delete_item().table_name(table).set_key(Some(encode_item(key)));
        self.usage.count(Call::Write);
        let answer = request.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await;
        let answer = answer.map_err(|error| store_error(&error, table))?;
        self.charge(Call::Write, answer.consumed_capacity.as_slice());
        Ok(())
    }

    /// A consistent read; `key` holds the key attributes by name.
    pub async fn get_item(&self, table: &str, key: &Item) -> Result<Option<Item>, StoreError> {
        let request = self.tables.get_item().table_name(table).set_key(Some(encode_item(key))).consistent_read(true);
        self.usage.count(Call::Get);
        let answer = request.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await;
        let answer = answer.map_err(|error| store_error(&error, table))?;
        self.charge(Call::Get, answer.consumed_capacity.as_slice());
        let decoded = answer.item.map(table::item).transpose();
        decoded.map_err(|error| StoreError::Refused(format!("table `{table}`: an item cannot be read: {error}")))
    }

    /// Writes all of the items in batches, over those of the same keys. Not atomic: an error leaves some written. Two items
    /// of one key within 25 neighbours are refused by the database.
    pub async fn put_items(&self, table: &str, items: &[Item]) -> Result<(), StoreError> {
        for chunk in items.chunks(PUTS_MAX) {
            self.put_chunk(table, chunk.iter().map(encode_item).collect()).await?;
        }
        Ok(())
    }

    async fn put_chunk(&self, table: &str, items: Vec<Attributes>) -> Result<(), StoreError> {
        let put = |item| PutRequest::builder().set_item(Some(item)).build();
        let requests = items.into_iter().map(|item| Ok(WriteRequest::builder().put_request(put(item)?).build()));
        let requests: Result<Vec<WriteRequest>, aws_sdk_dynamodb::error::BuildError> = requests.collect();
        let mut pending =
            requests.map_err(|error| StoreError::Refused(format!("a request could not be made: {error}")))?;
        let mut idle = 0;
        while !pending.is_empty() {
            let asked = pending.len();
            let request = self.tables.batch_write_item().request_items(table, pending);
            self.usage.count(Call::Write);
            let answer = request.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await;
            let answer = answer.map_err(|error| store_error(&error, table))?;
            self.charge(Call::Write, answer.consumed_capacity.as_deref().unwrap_or_default());
            let rest: Option<HashMap<_, _>> = answer.unprocessed_items;
            pending = rest.and_then(|mut tables| tables.remove(table)).unwrap_or_default();
            if pending.len() < asked {
                idle = 0;
            } else if idle == IDLE_PUTS_MAX {
                return Err(StoreError::Throttled(format!("table `{table}`: {asked} items stay unwritten")));
            } else {
                tokio::time::sleep(IDLE_PUT_PAUSE * 2_u32.pow(idle)).await;
                idle += 1;
            }
        }
        Ok(())
    }

    fn charge(&self, call: Call, consumed: &[ConsumedCapacity]) {
        self.usage.charge(call, consumed.iter().filter_map(ConsumedCapacity::capacity_units));
    }
}
