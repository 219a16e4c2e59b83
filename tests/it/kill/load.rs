//! What an application does to the `quality` table, from a seed: few items and fewer groups, so that everything meets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tablekeeper::adapters::dynamodb::DynamoStore;
use tablekeeper::engine::ports::{CancelReason, Store, TransactError};
use tablekeeper::model::key::{KeyNames, TableKey};
use tablekeeper::model::value::{Item, Value};
use tablekeeper::plan::write::{Condition, Op, TableRef, Write};

use crate::random::Random;

const USERS: [&str; 4] = ["tech001", "tech002", "tech003", "tech004"];
/// Most of the work orders are of the first.
const PROJECTS: [&str; 5] = ["P001", "P001", "P001", "P002", "P003"];
const ORDERS: usize = 12;
const DEVICES: usize = 5;
/// Measurements of an order and parameter.
const MEASUREMENTS: usize = 4;
/// Acts in the larger transactions.
const BUNDLE: usize = 10;

/// One transaction's writes, each item once.
pub type Acts = BTreeMap<TableKey, Op>;

/// An item's key and text attributes.
pub fn item(names: &KeyNames, (partition, sort): (&str, &str), attributes: &[(&str, &str)]) -> Item {
    let item = TableKey::text(partition, sort).to_item(names);
    attributes.iter().fold(item, |item, (name, value)| item.with(*name, Value::text(*value)))
}

/// Writes until `stop` is set; how many transactions that were.
pub async fn run(store: &DynamoStore, names: &KeyNames, random: &mut Random, stop: &AtomicBool) -> usize {
    let mut transactions = 0;
    while !stop.load(Ordering::SeqCst) {
        write(store, acts(names, random)).await;
        transactions += 1;
        // Leaves the database some time for the worker.
        tokio::time::sleep(Duration::from_millis(random.below(8) as u64)).await;
    }
    transactions
}

/// One transaction, most of them of one act.
pub fn acts(names: &KeyNames, random: &mut Random) -> Acts {
    let mut acts = Acts::new();
    let count = if random.one_in(8) { BUNDLE } else { 1 };
    (0..count).for_each(|_| act(&mut acts, names, random));
    acts
}

/// Writes all of it or, where it meets a transaction of the worker's, again.
pub async fn write(store: &DynamoStore, acts: Acts) {
    let write = |(key, op)| Write { table: TableRef::Source, key, op, condition: Condition::Always };
    let writes: Vec<Write> = acts.into_iter().map(write).collect();
    for _ in 0..200 {
        match store.transact(&writes).await {
            Ok(()) => return,
            Err(TransactError::Cancelled(reasons)) if reasons.contains(&CancelReason::Conflict) => {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("a write of the application never gets through");
}

fn act(acts: &mut Acts, names: &KeyNames, random: &mut Random) {
    let order = format!("WO{:03}", random.below(ORDERS));
    let (user, other) = (random.pick(&USERS), random.pick(&USERS));
    let mut put = |item: Item| acts.insert(TableKey::of(&item, names).expect("a key"), Op::Put(item.into()));
    match random.below(10) {
        0..4 => drop(put(work_order(names, &order, user, random))),
        // Given to somebody else: one item deleted, another put.
        4 => {
            put(work_order(names, &order, other, random));
            if user != other {
                acts.insert(order_key(&order, user), Op::Delete);
            }
        }
        5 => drop(acts.insert(order_key(&order, user), Op::Delete)),
        6 | 7 => {
            let item = measurement(names, &order, user, random);
            let key = TableKey::of(&item, names).expect("a key");
            acts.insert(key, if random.one_in(4) { Op::Delete } else { Op::Put(item.into()) });
        }
        8 => drop(put(device(names, user, random))),
        _ => drop(put(technician(names, user, random))),
    }
}

fn order_key(order: &str, user: &str) -> TableKey {
    TableKey::text(format!("WO#{order}"), format!("USER#{user}"))
}

/// One in sixteen has a stale index key, and one in sixteen a misspelt status.
pub fn work_order(names: &KeyNames, order: &str, user: &str, random: &mut Random) -> Item {
    let status = match random.one_in(16) {
        true => "Compleet",
        false => random.pick(&["Pending", "InProgress", "Complete", "Cancelled"]),
    };
    let project = random.pick(&PROJECTS);
    let indexed = if random.one_in(16) { "P999" } else { project };
    let (order, user) = (format!("WO#{order}"), format!("USER#{user}"));
    let attributes = [
        ("Type", "WorkOrder"),
        ("Status", status),
        ("ProjectID", project),
        ("ScheduledDate", "2026-03-10"),
        ("GSI2PK", &format!("PROJECT#{indexed}")),
        ("GSI2SK", &order),
        ("GSI3PK", &user),
        ("GSI3SK", &order),
    ];
    item(names, (&order, &user), &attributes)
}

fn measurement(names: &KeyNames, order: &str, user: &str, random: &mut Random) -> Item {
    let parameter = random.pick(&["Adhesion", "Thickness"]);
    let (taken_at, n) = ("2026-03-10T08:10:00Z", random.below(MEASUREMENTS));
    let value = format!("{}.{:03}", random.below(30), random.below(1000));
    let result = random.pick(&["Pass", "Pass", "Fail"]);
    let keys = (format!("WO#{order}"), format!("MEASUREMENT#{parameter}#{taken_at}#{n}"));
    let attributes = [
        ("Type", "Measurement"),
        ("Parameter", parameter),
        ("TakenAt", taken_at),
        ("Username", user),
        ("Result", result),
        ("DefectType", random.pick(&["Peel", "Burr"])),
    ];
    item(names, (&keys.0, &keys.1), &attributes).with("Value", Value::N(value.parse().expect("a number")))
}

fn device(names: &KeyNames, user: &str, random: &mut Random) -> Item {
    let keys = (format!("DEVICE#D{}", random.below(DEVICES)), format!("USER#{user}"));
    let attributes = [
        ("Type", "Device"),
        ("Status", random.pick(&["InUse", "Available", "Calibrating", "Maintenance"])),
        ("Model", random.pick(&["ABC-1000", "XYZ-2000"])),
        ("SerialNum", random.pick(&["SN100", "SN200"])),
        ("CalibrationDue", random.pick(&["2026-12-31", "2027-01-15", "N/A"])),
    ];
    item(names, (&keys.0, &keys.1), &attributes)
}

fn technician(names: &KeyNames, user: &str, random: &mut Random) -> Item {
    let key = format!("USER#{user}");
    let attributes = [
        ("Type", "Technician"),
        ("Name", user),
        ("Role", random.pick(&["Technician", "Senior"])),
        ("Status", random.pick(&["Active", "Inactive", "Suspended"])),
        ("CertificateExp", random.pick(&["2026-12-31", "2027-06-30", "N/A"])),
        ("GSI1PK", random.pick(&["USER#manager001", "USER#manager002"])),
        ("GSI1SK", &format!("TECHNICIANS#{user}")),
    ];
    item(names, (&key, &key), &attributes)
}
