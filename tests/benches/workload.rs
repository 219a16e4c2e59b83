//! A thousand work orders of 20 projects and 50 technicians, drawn independently, and a status change of each.

use tablekeeper::adapters::dynamodb::{Connection, DynamoStore};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::model::load;
use tablekeeper::model::shipped::shipped;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{Item, Value};

pub const ORDERS: usize = 1_000;
const PROJECTS: u64 = 20;
const TECHNICIANS: u64 = 50;

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

/// The shipped model `quality`.
pub fn model() -> Model {
    let shipped = shipped("quality").expect("the model is shipped");
    load::load(shipped.source, shipped.name).expect("the shipped model is sound").model
}

/// One work order.
pub fn order(number: usize, project: u64, technician: u64, status: &str) -> Item {
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
    texts.into_iter().fold(Item::new(), |item, (name, text)| item.with(name, Value::S(text)))
}

/// The work orders before and after their change, in an order of their own.
pub fn orders(seed: u64) -> Vec<(Item, Item)> {
    let mut draw = Draw(seed);
    (0..ORDERS)
        .map(|number| {
            let (project, technician) = (draw.below(PROJECTS), draw.below(TECHNICIANS));
            (order(number, project, technician, "Pending"), order(number, project, technician, "InProgress"))
        })
        .collect()
}

/// An embedded database in memory with the model's tables.
pub async fn tables(model: &Model) -> (Embedded, Connection, DynamoStore) {
    let embedded = Embedded::start(None).expect("the embedded database starts");
    let connection = Connection::local(embedded.endpoint()).await.expect("its endpoint is a URL");
    connection.create_table(&model.table).await.expect("the table can be made");
    connection.ensure_state_table(&model.table.state_table).await.expect("the state table can be made");
    let store = DynamoStore::new(&connection, &model.table);
    (embedded, connection, store)
}
