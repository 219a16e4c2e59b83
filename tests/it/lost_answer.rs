//! A transaction whose answer is lost on the way: it must not happen twice, and nobody may be told that it failed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tablekeeper::adapters::dynamodb::{Connection, DynamoStore};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::engine::ports::{Store, StoreError, TransactError};
use tablekeeper::model::decimal::Decimal;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::value::Item;
use tablekeeper::plan::write::{Condition, Op, TableRef, Write};

use crate::contract::{open, table};
use crate::proxy::{Fate, proxy};

#[tokio::test]
async fn a_transaction_whose_answer_is_lost_happens_once() {
    let database = Embedded::start(None).unwrap();
    let table = table("lost");
    let (_, direct) = open(database.endpoint(), &table).await;
    let lose = Arc::new(AtomicUsize::new(0));
    // Of the answers to transactions the next `lose` are kept back.
    let left = Arc::clone(&lose);
    let judge = move |request: &str| {
        let one_less = |left: usize| left.checked_sub(1);
        let is_transaction = request.contains("TransactWriteItems");
        let loses = is_transaction && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
        if loses { Fate::Lose } else { Fate::Pass }
    };
    let endpoint = proxy(database.endpoint(), judge).await;
    let store = DynamoStore::new(&Connection::local(&endpoint).await.unwrap(), &table);
    let key = TableKey::text("COUNT", "a");
    let add = BTreeMap::from([("Total".into(), Decimal::from(1))]);
    let op = Op::Update { add, set: Item::new() };
    let write = Write { table: TableRef::Source, key: key.clone(), op, condition: Condition::Always };
    let total = async || {
        let item = direct.get(TableRef::Source, std::slice::from_ref(&key)).await.unwrap().remove(0);
        item.unwrap().number("Total").unwrap().clone()
    };

    store.transact(std::slice::from_ref(&write)).await.unwrap();
    // One answer is lost: the SDK asks again under the same token and hears that it is done.
    lose.store(1, Ordering::SeqCst);
    assert_eq!(store.transact(std::slice::from_ref(&write)).await, Ok(()));
    assert_eq!((total().await, lose.load(Ordering::SeqCst)), (Decimal::from(2), 0));
    // All are lost: it has happened once, and nobody knows.
    lose.store(usize::MAX, Ordering::SeqCst);
    let unknown = store.transact(std::slice::from_ref(&write)).await;
    assert!(matches!(unknown, Err(TransactError::Store(StoreError::Unavailable(_)))), "{unknown:?}");
    assert_eq!(total().await, Decimal::from(3));
    database.shutdown().await;
}
