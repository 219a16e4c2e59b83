//! The two tables, as the engine's [`Store`].
//!
//! What callers rely on: every read is consistent; a read by key returns as many answers as it was asked for, in that order,
//! whatever the pages; a transaction is one attempt. The SDK may send that attempt again when its answer was lost; it then
//! carries the same token, which DynamoDB remembers for longer than an operation can last, so a transaction that had been
//! committed is answered as committed. Later repeats, by the engine, carry another token and rest on the ledger's condition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{BuildError, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    CancellationReason, ConsumedCapacity, Delete, KeysAndAttributes, Put, ReturnConsumedCapacity, TransactWriteItem,
    Update,
};
use futures_util::future::try_join_all;

use super::connection::Connection;
use super::convert::{Attributes, encode_item, encode_key, table};
use super::errors::store_error;
use super::expression::Placeholders;
use super::usage::{Call, Usage};
use crate::engine::ports::{CancelReason, Page, SortRange, Store, StoreError, TransactError};
use crate::model::key::{KeyNames, TableKey};
use crate::model::spec;
use crate::model::value::{Item, Value};
use crate::plan::state;
use crate::plan::write::{ACTIONS_MAX, Op, TableRef, Write};

/// Most keys in one BatchGetItem.
const KEYS_MAX: usize = 100;
/// BatchGetItem requests under way at once for one `get`.
const GETS_AT_ONCE: usize = 4;
/// Batches that bring nothing, in a row, before a `get` gives up.
const IDLE_GETS_MAX: u32 = 6;
const IDLE_GET_PAUSE: Duration = Duration::from_millis(50);

/// The user's table and the state table in DynamoDB. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DynamoStore {
    client: Client,
    usage: Arc<Usage>,
    source: Arc<Place>,
    state: Arc<Place>,
}

/// One table: its name and its keys' names.
#[derive(Debug)]
struct Place {
    name: String,
    keys: KeyNames,
}

impl DynamoStore {
    /// The tables that the model names; whether they exist shows with the first request.
    pub fn new(connection: &Connection, table: &spec::Table) -> DynamoStore {
        DynamoStore {
            client: connection.tables.clone(),
            usage: Arc::clone(&connection.usage),
            source: Arc::new(Place { name: table.name.clone(), keys: table.key_names() }),
            state: Arc::new(Place { name: table.state_table.clone(), keys: state::key_names() }),
        }
    }

    fn place(&self, table: TableRef) -> &Place {
        match table {
            TableRef::Source => &self.source,
            TableRef::State => &self.state,
        }
    }

    /// The tables of a transaction, for messages that set them in backquotes: its errors do not say which one they mean.
    fn names_of(&self, writes: &[Write]) -> String {
        let tables: BTreeSet<TableRef> = writes.iter().map(|write| write.table).collect();
        let names: Vec<&str> = tables.into_iter().map(|table| self.place(table).name.as_str()).collect();
        names.join("` or `")
    }

    /// The items of at most [`KEYS_MAX`] distinct keys, in any order.
    async fn get_chunk(&self, place: &Place, keys: &[&TableKey]) -> Result<Vec<Item>, StoreError> {
        let mut pending: Vec<Attributes> = keys.iter().map(|key| encode_key(key, &place.keys)).collect();
        let mut found = Vec::with_capacity(keys.len());
        let mut idle = 0;
        while !pending.is_empty() {
            let asked = pending.len();
            let wanted = KeysAndAttributes::builder().set_keys(Some(pending)).consistent_read(true).build();
            let request = self
                .client
                .batch_get_item()
                .request_items(&place.name, wanted.map_err(not_buildable)?)
                .return_consumed_capacity(ReturnConsumedCapacity::Total);
            self.usage.count(Call::Get);
            let answer = request.send().await.map_err(|error| store_error(&error, &place.name))?;
            self.charge(Call::Get, answer.consumed_capacity.as_deref().unwrap_or_default());
            let items = answer.responses.and_then(|mut tables| tables.remove(&place.name)).unwrap_or_default();
            found.extend(decode(items, &place.name)?);
            let rest = answer.unprocessed_keys.and_then(|mut tables| tables.remove(&place.name));
            pending = rest.map(|rest| rest.keys).unwrap_or_default();
            if pending.len() < asked {
                idle = 0;
            } else if idle == IDLE_GETS_MAX {
                let text = format!("table `{}`: {asked} keys stay unprocessed", place.name);
                return Err(StoreError::Throttled(text));
            } else {
                tokio::time::sleep(IDLE_GET_PAUSE * 2_u32.pow(idle)).await;
                idle += 1;
            }
        }
        Ok(found)
    }

    fn charge(&self, call: Call, consumed: &[ConsumedCapacity]) {
        self.usage.charge(call, consumed.iter().filter_map(ConsumedCapacity::capacity_units));
    }

    fn action(&self, write: &Write) -> Result<TransactWriteItem, StoreError> {
        let place = self.place(write.table);
        let mut places = Placeholders::default();
        let condition = places.condition(&write.condition, &place.keys.partition);
        let key = encode_key(&write.key, &place.keys);
        let action = TransactWriteItem::builder();
        let action = match &write.op {
            Op::Put(item) => {
                let (names, values) = places.into_parts();
                let put = Put::builder()
                    .table_name(&place.name)
                    .set_item(Some(encode_item(item)))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values);
                action.put(put.build().map_err(not_buildable)?)
            }
            Op::Delete => {
                let (names, values) = places.into_parts();
                let delete = Delete::builder()
                    .table_name(&place.name)
                    .set_key(Some(key))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values);
                action.delete(delete.build().map_err(not_buildable)?)
            }
            Op::Update { add, set } => {
                let Some(expression) = places.update(add, set) else {
                    return Err(StoreError::Refused(format!("an update of {} that changes nothing", write.key)));
                };
                let (names, values) = places.into_parts();
                let update = Update::builder()
                    .table_name(&place.name)
                    .set_key(Some(key))
                    .update_expression(expression)
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values);
                action.update(update.build().map_err(not_buildable)?)
            }
        };
        Ok(action.build())
    }
}

impl Store for DynamoStore {
    async fn get(&self, table: TableRef, keys: &[TableKey]) -> Result<Vec<Option<Item>>, StoreError> {
        let place = self.place(table);
        // A batch that names a key twice is refused as a whole.
        let distinct: Vec<&TableKey> = keys.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let chunks: Vec<&[&TableKey]> = distinct.chunks(KEYS_MAX).collect();
        let mut found: BTreeMap<TableKey, Item> = BTreeMap::new();
        for group in chunks.chunks(GETS_AT_ONCE) {
            let answers = try_join_all(group.iter().map(|chunk| self.get_chunk(place, chunk))).await?;
            let items = answers.into_iter().flatten();
            found.extend(items.filter_map(|item| Some((TableKey::of(&item, &place.keys)?, item))));
        }
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    async fn transact(&self, writes: &[Write]) -> Result<(), TransactError> {
        if writes.is_empty() {
            return Ok(());
        }
        if writes.len() > ACTIONS_MAX {
            let text = format!("a transaction of {} writes; DynamoDB takes {ACTIONS_MAX}", writes.len());
            return Err(StoreError::Refused(text).into());
        }
        let actions = writes.iter().map(|write| self.action(write)).collect::<Result<Vec<_>, _>>()?;
        let request = self
            .client
            .transact_write_items()
            .set_transact_items(Some(actions))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        self.usage.count(Call::Transact);
        let answer = request.send().await;
        let answer = answer.map_err(|error| transact_error(&error, writes.len(), &self.names_of(writes)))?;
        self.charge(Call::Transact, answer.consumed_capacity());
        Ok(())
    }

    async fn query(
        &self,
        table: TableRef,
        partition: &Value,
        range: SortRange,
        start: Option<TableKey>,
    ) -> Result<Page, StoreError> {
        let place = self.place(table);
        let range = match range {
            // DynamoDB refuses these two; what they mean is plain.
            SortRange::BeginsWith(prefix) if prefix.is_empty() => SortRange::All,
            SortRange::Between(from, to) if from.kind() == to.kind() && from > to => return Ok(Page::default()),
            other => other,
        };
        let mut places = Placeholders::default();
        let condition = places
            .key_condition(partition, &range, &place.keys)
            .map_err(|error| StoreError::Refused(format!("table `{}`: {error}", place.name)))?;
        let (names, values) = places.into_parts();
        let request = self
            .client
            .query()
            .table_name(&place.name)
            .consistent_read(true)
            .key_condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .set_exclusive_start_key(start.map(|key| encode_key(&key, &place.keys)))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        self.usage.count(Call::Query);
        let answer = request.send().await.map_err(|error| store_error(&error, &place.name))?;
        self.charge(Call::Query, answer.consumed_capacity.as_slice());
        page(answer.items, answer.last_evaluated_key, place)
    }

    async fn scan(&self, table: TableRef, segment: (u32, u32), start: Option<TableKey>) -> Result<Page, StoreError> {
        let place = self.place(table);
        let bound = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let request = self
            .client
            .scan()
            .table_name(&place.name)
            .consistent_read(true)
            .segment(bound(segment.0))
            .total_segments(bound(segment.1))
            .set_exclusive_start_key(start.map(|key| encode_key(&key, &place.keys)))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        self.usage.count(Call::Scan);
        let answer = request.send().await.map_err(|error| store_error(&error, &place.name))?;
        self.charge(Call::Scan, answer.consumed_capacity.as_slice());
        page(answer.items, answer.last_evaluated_key, place)
    }
}

fn page(items: Option<Vec<Attributes>>, last: Option<Attributes>, place: &Place) -> Result<Page, StoreError> {
    let next = match last.filter(|key| !key.is_empty()) {
        None => None,
        Some(last) => {
            let key = decode(vec![last], &place.name)?.pop().and_then(|key| TableKey::of(&key, &place.keys));
            // To end here would pass over the rest of the table in silence.
            Some(key.ok_or_else(|| {
                let KeyNames { partition, sort } = &place.keys;
                let sort = sort.as_deref().unwrap_or("none");
                StoreError::Refused(format!(
                    "table `{}` has other keys than the model's `{partition}` and `{sort}`",
                    place.name
                ))
            })?)
        }
    };
    Ok(Page { items: decode(items.unwrap_or_default(), &place.name)?, next })
}

fn decode(items: Vec<Attributes>, table_name: &str) -> Result<Vec<Item>, StoreError> {
    let readable = |error| StoreError::Refused(format!("table `{table_name}`: an item cannot be read: {error}"));
    items.into_iter().map(|attributes| table::item(attributes).map_err(readable)).collect()
}

fn not_buildable(error: BuildError) -> StoreError {
    StoreError::Refused(format!("a request could not be made: {error}"))
}

fn transact_error(error: &SdkError<TransactWriteItemsError>, writes: usize, table: &str) -> TransactError {
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error() else {
        return store_error(error, table).into();
    };
    let reasons = cancelled.cancellation_reasons();
    if reasons.len() != writes {
        // Nothing was written, but not why: no write may be blamed for it.
        let text = format!("transaction of {writes} writes cancelled with {} reasons", reasons.len());
        return StoreError::Unavailable(text).into();
    }
    TransactError::Cancelled(reasons.iter().map(cancel_reason).collect())
}

fn cancel_reason(reason: &CancellationReason) -> CancelReason {
    match reason.code() {
        None | Some("None") => CancelReason::None,
        Some("ConditionalCheckFailed") => CancelReason::ConditionFailed,
        Some("TransactionConflict") => CancelReason::Conflict,
        Some("ThrottlingError" | "ProvisionedThroughputExceeded" | "RequestLimitExceeded") => CancelReason::Throttled,
        Some(code) => CancelReason::Refused(format!("{code}: {}", reason.message().unwrap_or("no message"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_sorted_by_what_can_be_done() {
        let reason = |code: &str| cancel_reason(&CancellationReason::builder().code(code).message("m").build());
        assert_eq!(reason("None"), CancelReason::None);
        assert_eq!(cancel_reason(&CancellationReason::builder().build()), CancelReason::None);
        assert_eq!(reason("ConditionalCheckFailed"), CancelReason::ConditionFailed);
        assert_eq!(reason("TransactionConflict"), CancelReason::Conflict);
        assert_eq!(reason("ThrottlingError"), CancelReason::Throttled);
        assert_eq!(reason("ValidationError"), CancelReason::Refused("ValidationError: m".to_owned()));
    }
}
