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
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::contract::{open, table};

#[tokio::test]
async fn a_transaction_whose_answer_is_lost_happens_once() {
    let database = Embedded::start(None).unwrap();
    let table = table("lost");
    let (_, direct) = open(database.endpoint(), &table).await;
    let lose = Arc::new(AtomicUsize::new(0));
    let endpoint = lossy_proxy(database.endpoint(), Arc::clone(&lose)).await;
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

/// Passes requests on; of the answers to transactions it keeps the next `lose` to itself and hangs up.
async fn lossy_proxy(endpoint: &str, lose: Arc<AtomicUsize>) -> String {
    let database = endpoint.strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (database, lose) = (database.clone(), Arc::clone(&lose));
            tokio::spawn(async move {
                let mut server = TcpStream::connect(database).await.unwrap();
                while let Some(request) = message(&mut client).await {
                    server.write_all(&request).await.unwrap();
                    let Some(answer) = message(&mut server).await else { return };
                    let is_transaction = String::from_utf8_lossy(&request).contains("TransactWriteItems");
                    let one_less = |left: usize| left.checked_sub(1);
                    if is_transaction && lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
                        return;
                    }
                    client.write_all(&answer).await.unwrap();
                }
            });
        }
    });
    format!("http://{address}")
}

/// One HTTP message with the length that its head says; `None` at the end of the connection.
pub async fn message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok())?;
    while bytes.len() < head + length {
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    }
    Some(bytes)
}
