//! Two handlers as they are commonly written, for comparison: they keep two counts by status for each changed work order.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, Put, ReturnConsumedCapacity, TransactWriteItem, Update};
use tablekeeper::model::value::Item;

/// Requests sent and write units consumed.
#[derive(Default)]
pub struct Spent {
    pub requests: usize,
    pub units: f64,
}

fn text(item: &Item, name: &str) -> String {
    item.text(name).unwrap_or_default().to_owned()
}

/// The two aggregate items of a work order.
fn groups(item: &Item) -> [String; 2] {
    [format!("PROJECT#{}", text(item, "ProjectID")), format!("TECHNICIAN#{}", text(item, "SK"))]
}

/// One `ADD` for each count that changes: what a retry of the batch counts twice.
pub async fn add_each(client: &Client, table: &str, orders: &[(Item, Item)]) -> Spent {
    let mut spent = Spent::default();
    for (old, new) in orders {
        for (item, by) in [(old, -1), (new, 1)] {
            for group in groups(item) {
                let answer = client
                    .update_item()
                    .table_name(table)
                    .key("PK", AttributeValue::S(group))
                    .key("SK", AttributeValue::S("NAIVE".to_owned()))
                    .update_expression("ADD #c :n")
                    .expression_attribute_names("#c", format!("Count_{}", text(item, "Status")))
                    .expression_attribute_values(":n", AttributeValue::N(by.to_string()))
                    .return_consumed_capacity(ReturnConsumedCapacity::Total)
                    .send()
                    .await
                    .expect("the database takes an ADD");
                spent.requests += 1;
                spent.units += answer.consumed_capacity.and_then(|c| c.capacity_units).unwrap_or(0.0);
            }
        }
    }
    spent
}

/// One transaction a record, with a marker item that makes it idempotent; `round` tells the markers of several runs apart.
pub async fn transact_each(client: &Client, table: &str, orders: &[(Item, Item)], round: usize) -> Spent {
    let mut spent = Spent::default();
    for (number, (old, new)) in orders.iter().enumerate() {
        let marker = Put::builder()
            .table_name(table)
            .item("PK", AttributeValue::S(format!("SEEN#{round}#{number}")))
            .item("SK", AttributeValue::S("SEEN".to_owned()))
            .condition_expression("attribute_not_exists(PK)")
            .build()
            .expect("a put is whole");
        let updates = groups(new).into_iter().map(|group| {
            Update::builder()
                .table_name(table)
                .key("PK", AttributeValue::S(group))
                .key("SK", AttributeValue::S("NAIVE2".to_owned()))
                .update_expression("ADD #old :minus, #new :plus")
                .expression_attribute_names("#old", format!("Count_{}", text(old, "Status")))
                .expression_attribute_names("#new", format!("Count_{}", text(new, "Status")))
                .expression_attribute_values(":minus", AttributeValue::N("-1".to_owned()))
                .expression_attribute_values(":plus", AttributeValue::N("1".to_owned()))
                .build()
                .expect("an update is whole")
        });
        let mut request = client
            .transact_write_items()
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .transact_items(TransactWriteItem::builder().put(marker).build());
        for update in updates {
            request = request.transact_items(TransactWriteItem::builder().update(update).build());
        }
        let answer = request.send().await.expect("the database takes the transaction");
        spent.requests += 1;
        spent.units +=
            answer.consumed_capacity.unwrap_or_default().iter().filter_map(|c| c.capacity_units).sum::<f64>();
    }
    spent
}
