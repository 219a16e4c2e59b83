//! One function, one failure, at a chosen moment: a crash after a commit, an item that the database does not take for now.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tablekeeper::adapters::sim::mapping::{Said, said};
use tablekeeper::model::key::TableKey;
use tablekeeper::model::value::Item;
use tablekeeper::plan::write::Op;
use tokio::sync::Notify;

use super::function::{Emulated, Function, built};
use super::{DONE, records, wire};
use crate::kill::{World, load};
use crate::proxy::{Fate, proxy};
use crate::random::Random;

/// Ten work orders, one record each, in their order.
async fn ten_orders(world: &World) -> (Vec<String>, Vec<String>) {
    let (names, mut random) = (world.model.table.key_names(), Random::new(3));
    for n in 1..=10 {
        let order: Item = load::work_order(&names, &format!("WO{n:03}"), "tech001", &mut random);
        let key = TableKey::of(&order, &names).unwrap();
        load::write(&world.store, load::Acts::from([(key, Op::Put(order.into()))])).await;
    }
    let records = records(&world.connection, &world.model.table.name).await;
    assert_eq!(records.len(), 10);
    let numbers = records.iter().map(|record| record.sequence.clone().unwrap()).collect();
    (records.iter().map(wire::wire).collect(), numbers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_between_commit_and_answer_counts_nothing_twice() {
    let Some(built) = built("a crash between commit and answer") else { return };
    let world = World::open().await;
    let (batch, _) = ten_orders(&world).await;
    let event = wire::event(&batch);

    // The database has done the transaction; the function dies before it hears of it.
    let (committed, commits) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (told, counted) = (Arc::clone(&committed), Arc::clone(&commits));
    let judge = move |request: &str| match request.contains("TransactWriteItems") {
        true => {
            counted.fetch_add(1, Ordering::SeqCst);
            Fate::Hold(Arc::clone(&told))
        }
        false => Fate::Pass,
    };
    let endpoint = proxy(world.database.endpoint(), judge).await;
    let mut function = Function::start(&built.binary, &endpoint).await;
    tokio::select! {
        answer = function.invoke(&event) => panic!("it answers before its commit: {answer:?}"),
        () = committed.notified() => {}
    }
    let log = function.kill().await;
    assert_eq!((commits.load(Ordering::SeqCst), log.sum("applied")), (1, 0));

    // The batch comes again.
    let mut function = Function::start(&built.binary, world.database.endpoint()).await;
    assert_eq!(function.invoke(&event).await.as_deref(), Ok(DONE));
    let log = function.kill().await;
    assert_eq!((log.sum("applied"), log.sum("already_applied")), (0, 10));
    assert_eq!(world.differences().await, []);
    world.close().await;
}

/// DynamoDB's answer to a transaction of which the writes that name `item` are throttled.
fn throttled(request: &str, item: &str) -> String {
    let body = request.split_once("\r\n\r\n").expect("a request of HTTP").1;
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let reason = |write: &serde_json::Value| match write.to_string().contains(item) {
        true => serde_json::json!({"Code": "ThrottlingError", "Message": "the partition is throttled"}),
        false => serde_json::json!({"Code": "None"}),
    };
    let reasons: Vec<serde_json::Value> = body["TransactItems"].as_array().unwrap().iter().map(reason).collect();
    let answer = serde_json::json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": "Transaction cancelled, please refer cancellation reasons for specific reasons",
        "CancellationReasons": reasons,
    });
    answer.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_the_database_does_not_take_is_named_and_the_others_are_done() {
    let Some(built) = built("a partial failure") else { return };
    let world = World::open().await;
    let (batch, numbers) = ten_orders(&world).await;
    let is_throttled = Arc::new(AtomicBool::new(true));
    let throttles = Arc::clone(&is_throttled);
    let judge = move |request: &str| {
        let is_met = request.contains("TransactWriteItems") && request.contains("WO#WO003");
        match is_met && throttles.load(Ordering::SeqCst) {
            true => Fate::Refuse(400, throttled(request, "WO#WO003")),
            false => Fate::Pass,
        }
    };
    let endpoint = proxy(world.database.endpoint(), judge).await;
    let function = Emulated::start(&built, &endpoint).await;

    // Records 1 and 2 are durable, and so are 4 to 10; from 3 on they come again.
    let answer = function.invoke(&wire::event(&batch)).await;
    assert_eq!(answer, format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{}"}}]}}"#, numbers[2]));
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    assert_eq!(said(&answer, 0, &numbers), Said::FailedFrom(2));
    is_throttled.store(false, Ordering::SeqCst);
    assert_eq!(function.invoke(&wire::event(&batch[2..])).await, DONE);
    let log = function.kill().await;
    assert_eq!((log.sum("applied"), log.sum("already_applied")), (1, 7), "3 by the retry; 4 to 10 not twice");
    assert_eq!(world.differences().await, []);
    world.close().await;
}
