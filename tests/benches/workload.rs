//! Work orders of 20 projects and 50 technicians, drawn independently, and a status change of each.

use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType};
use tablekeeper::adapters::dynamodb::{Connection, DynamoStore};
use tablekeeper::derive::derive;
use tablekeeper::model::change::RawRecord;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::load;
use tablekeeper::model::shipped::shipped;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{Item, Value};
use tablekeeper::plan::ledger::{Applied, LedgerRow};

/// Changes in one batch.
pub const ORDERS: usize = 1_000;
const PROJECTS: u64 = 20;
const TECHNICIANS: u64 = 50;
/// Sequence numbers begin here.
const SEQUENCE: u128 = 100_000_000_000_000_000_000_000;

/// A seeded sequence of numbers that look random (splitmix64).
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }
}

/// The shipped model `quality`, of a table that no other part of the bench has.
pub fn model() -> Model {
    static TABLES: AtomicU32 = AtomicU32::new(0);
    let shipped = shipped("quality").expect("the model is shipped");
    let mut model = load::load(shipped.source, shipped.name).expect("the shipped model is sound").model;
    let name = format!("bench-{}-{}", std::process::id(), TABLES.fetch_add(1, Ordering::Relaxed));
    model.table.state_table = format!("{name}-keeper");
    model.table.name = name;
    model
}

/// One work order.
fn order(number: usize, project: u64, technician: u64, status: &str) -> Item {
    let (wo, user) = (format!("WO#B{number:07}"), format!("USER#t{technician:02}"));
    let project = format!("P{project:02}");
    let texts = [
        ("PK", wo.clone()),
        ("SK", user.clone()),
        ("Type", "WorkOrder".to_owned()),
        ("Status", status.to_owned()),
        ("ProjectID", project.clone()),
        ("ScheduledDate", "2026-03-10".to_owned()),
        ("GSI2PK", format!("PROJECT#{project}")),
        ("GSI2SK", wo.clone()),
        ("GSI3PK", user),
        ("GSI3SK", wo),
    ];
    texts.into_iter().fold(Item::new(), |item, (name, text)| item.with(name, Value::text(text)))
}

/// Work order `number`, pending.
pub fn pending(number: usize) -> Item {
    let mut draw = Draw(number as u64);
    order(number, draw.below(PROJECTS), draw.below(TECHNICIANS), "Pending")
}

/// The work orders of those numbers, before and after their change.
pub fn orders(numbers: std::ops::Range<usize>) -> Vec<(Item, Item)> {
    let change = |number| {
        let before = pending(number);
        let after = before.clone().with("Status", Value::text("InProgress"));
        (before, after)
    };
    numbers.map(change).collect()
}

/// The record of a change, as the stream has it; `old` is missing for an insert.
pub fn record(model: &Model, number: usize, old: Option<&Item>, new: &Item) -> RawRecord {
    let names = model.table.key_names();
    let key = TableKey::of(new, &names).expect("an order has a key");
    RawRecord {
        event_name: Some(if old.is_some() { "MODIFY" } else { "INSERT" }.to_owned()),
        event_id: Some(number.to_string()),
        sequence: Some((SEQUENCE + number as u128).to_string()),
        keys: Some(Ok(key.to_item(&names))),
        new_image: Some(Ok(new.clone())),
        old_image: old.map(|old| Ok(old.clone())),
        ..RawRecord::default()
    }
}

/// The records of all inserts, numbered from `from` on.
pub fn inserts(model: &Model, from: usize, orders: &[(Item, Item)]) -> Vec<RawRecord> {
    orders.iter().enumerate().map(|(at, (new, _))| record(model, from + at, None, new)).collect()
}

/// The records of all changes, numbered from `from` on.
pub fn changes(model: &Model, from: usize, orders: &[(Item, Item)]) -> Vec<RawRecord> {
    orders.iter().enumerate().map(|(at, (old, new))| record(model, from + at, Some(old), new)).collect()
}

/// The model's tables, made at the endpoint. With a `stream` if it is read: the embedded database looks through all records of a
/// stream at each write, and what is measured then is that.
pub async fn tables(endpoint: &str, model: &Model, stream: bool) -> (Connection, DynamoStore) {
    let connection = Connection::local(endpoint).await.expect("its endpoint is a URL");
    match stream {
        true => drop(connection.create_table(&model.table).await.expect("the table can be made")),
        false => plain_table(&connection, &model.table.name).await,
    }
    connection.ensure_state_table(&model.table.state_table).await.expect("the state table can be made");
    let store = DynamoStore::new(&connection, &model.table);
    (connection, store)
}

/// A table of the model's keys with neither stream nor indexes.
async fn plain_table(connection: &Connection, name: &str) {
    let definition = |name: &str| {
        let text = AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S);
        text.build().expect("a definition is whole")
    };
    let part = |name: &str, kind: KeyType| {
        KeySchemaElement::builder().attribute_name(name).key_type(kind).build().expect("a key's part is whole")
    };
    let request = connection.client().create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
    let request = request.attribute_definitions(definition("PK")).attribute_definitions(definition("SK"));
    let request = request.key_schema(part("PK", KeyType::Hash)).key_schema(part("SK", KeyType::Range));
    request.send().await.expect("the table can be made");
}

/// The ledger row of an item that has been applied.
pub fn ledger_row(model: &Model, item: &Item) -> LedgerRow {
    let key = TableKey::of(item, &model.table.key_names()).expect("an order has a key");
    let derived = derive(model, &key, item);
    LedgerRow {
        source: key,
        sequence: "1".parse().ok(),
        revision: 1,
        entity: derived.entity.clone(),
        applied: Applied::of(&derived),
        introduced: Vec::new(),
        model: model.hash.clone(),
        deleted: false,
        expires_at: None,
        quarantined: None,
        left_out: None,
    }
}
