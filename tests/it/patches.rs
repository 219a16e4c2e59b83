//! `audit --suggest-patches` on a table: the safe ones, sent as they are printed, leave an audit that finds only what no safe patch
//! mends; one whose item has changed meanwhile is refused.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem};
use serde_json::{Value as Json, json};
use tablekeeper::adapters::dynamodb::Connection;
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::model::load::load;
use tempfile::TempDir;

use crate::contract::dynamodb_local;
use crate::kept::{Ran, item, tablekeeper};

const MODEL: &str = r#"version = 1

[table]
name = "patched-orders"
partition_key = "PK"
sort_key = "SK"
ttl = "expires"
index.GSI1 = { partition = ["GSI1PK"], sort = ["GSI1SK"] }
index.GSI2 = { partition = ["GSI2PK"], sort = ["GSI2SK"] }

[entity.Order]
match = { Type = "Order" }
key = { PK = "ORD#{id}", SK = "ORD#{id}" }
index.GSI1 = { GSI1PK = "CUST#{Customer}", GSI1SK = "{Status}#{Date}" }
index.GSI2 = { GSI2PK = "OPEN", GSI2SK = "{Date}#{id}", when = { Status = "Open" } }
attribute.Customer = { required = true }
attribute.Status = { required = true, one_of = ["Open", "Shipped"] }
attribute.Date = { required = true, format = "date" }
attribute.Total = { type = "N" }

[entity.Line]
key = { PK = "ORD#{id}", SK = "LINE#{Number:04}" }
attribute.Number = { type = "N", required = true, min = 0, max = 9999 }
"#;

/// One a kind of fault, by the order's number; `Z` is right.
fn orders() -> Vec<Json> {
    let order = |id: &str, changes: Json| {
        let mut order = json!({"PK": format!("ORD#{id}"), "SK": format!("ORD#{id}"), "Type": "Order", "Customer": "ann",
            "Status": "Shipped", "Date": "2026-01-02", "GSI1PK": "CUST#ann", "GSI1SK": "Shipped#2026-01-02"});
        for (name, value) in changes.as_object().unwrap() {
            order[name] = value.clone();
        }
        order.as_object_mut().unwrap().retain(|_, value| *value != "absent");
        order
    };
    vec![
        order("Z", json!({})),
        order("stale", json!({"GSI1SK": "Open#2026-01-02"})),
        order("half", json!({"GSI1PK": "absent"})),
        order("sparse", json!({"GSI2PK": "OPEN", "GSI2SK": "2026-01-02#sparse"})),
        order("lacking", json!({"Status": "Open", "GSI1SK": "Open#2026-01-02"})),
        order("case", json!({"Status": "OPEN ", "GSI1SK": "OPEN #2026-01-02"})),
        order("date", json!({"Date": "31/01/2026"})),
        order("text", json!({"Total": "12.50", "expires": "4102444800"})),
        order("milli", json!({"expires": 4_102_444_800_000_i64})),
        order("nil", json!({"Total": null})),
        order("type", json!({"Type": "ORDER"})),
        order("lost", json!({"Status": "Lost", "GSI1SK": "Lost#2026-01-02"})),
        json!({"PK": "ORD#Z", "SK": "LINE#7", "Number": 7, "Note": "unpadded", "Parts": [{"b": 1}, "c"]}),
    ]
}

struct Orders {
    folder: TempDir,
    client: Client,
    endpoint: String,
}

impl Orders {
    async fn at(endpoint: &str) -> Orders {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("orders.toml"), MODEL).unwrap();
        let connection = Connection::local(endpoint).await.unwrap();
        let table = load(MODEL, "orders").unwrap().model.table;
        connection.create_table(&table).await.unwrap();
        let items: Vec<_> = orders().iter().map(item).collect();
        connection.put_items(&table.name, &items).await.unwrap();
        Orders { folder, client: connection.client().clone(), endpoint: endpoint.to_owned() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    async fn audit(&self, options: &[&str]) -> Ran {
        let model = self.path("orders.toml");
        tablekeeper(&[&["audit", "--model", &model, "--endpoint", &self.endpoint], options].concat()).await
    }

    /// The lines of an audit with patches, which says 1 while there are findings.
    async fn patches(&self, code: i32) -> Vec<Json> {
        let file = self.path("patches.jsonl");
        let ran = self.audit(&["--suggest-patches", &file]).await;
        assert_eq!(ran.code, code, "{} {}", ran.out, ran.err);
        assert!(ran.out.contains("checked") && ran.err.contains("nothing was sent"), "{} {}", ran.out, ran.err);
        lines(&std::fs::read_to_string(file).unwrap())
    }

    /// `aws dynamodb update-item --cli-input-json`, by the SDK.
    async fn update(&self, request: &Json) -> Result<(), String> {
        let sent = self
            .client
            .update_item()
            .table_name(text(&request["TableName"]))
            .set_key(Some(attributes(&request["Key"])))
            .update_expression(text(&request["UpdateExpression"]))
            .condition_expression(text(&request["ConditionExpression"]))
            .set_expression_attribute_names(Some(names(request)))
            .set_expression_attribute_values(values(request))
            .send()
            .await;
        sent.map(|_| ()).map_err(|error| error.into_service_error().to_string())
    }

    /// `aws dynamodb transact-write-items --cli-input-json`, likewise.
    async fn transact(&self, request: &Json) -> Result<(), String> {
        let (put, delete) = (&request["TransactItems"][0]["Put"], &request["TransactItems"][1]["Delete"]);
        let puts = Put::builder()
            .table_name(text(&put["TableName"]))
            .set_item(Some(attributes(&put["Item"])))
            .condition_expression(text(&put["ConditionExpression"]))
            .set_expression_attribute_names(Some(names(put)));
        let deletes = Delete::builder()
            .table_name(text(&delete["TableName"]))
            .set_key(Some(attributes(&delete["Key"])))
            .condition_expression(text(&delete["ConditionExpression"]))
            .set_expression_attribute_names(Some(names(delete)))
            .set_expression_attribute_values(values(delete));
        let items = [
            TransactWriteItem::builder().put(puts.build().unwrap()).build(),
            TransactWriteItem::builder().delete(deletes.build().unwrap()).build(),
        ];
        let sent = self.client.transact_write_items().set_transact_items(Some(items.into())).send().await;
        sent.map(|_| ()).map_err(|error| error.into_service_error().to_string())
    }

    async fn set(&self, id: &str, name: &str, to: &str) {
        let key = AttributeValue::S(format!("ORD#{id}"));
        let request = self.client.update_item().table_name("patched-orders").key("PK", key.clone()).key("SK", key);
        let request = request.update_expression("SET #n = :v").expression_attribute_names("#n", name);
        request.expression_attribute_values(":v", AttributeValue::S(to.to_owned())).send().await.unwrap();
    }
}

fn lines(text: &str) -> Vec<Json> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap()
}

/// DynamoDB JSON of the types that occur here.
fn value(json: &Json) -> AttributeValue {
    let (kind, inner) = json.as_object().unwrap().iter().next().unwrap();
    match kind.as_str() {
        "S" => AttributeValue::S(text(inner).to_owned()),
        "N" => AttributeValue::N(text(inner).to_owned()),
        "NULL" => AttributeValue::Null(true),
        "M" => AttributeValue::M(attributes(inner)),
        "L" => AttributeValue::L(inner.as_array().unwrap().iter().map(value).collect()),
        other => panic!("{other}"),
    }
}

fn attributes(json: &Json) -> HashMap<String, AttributeValue> {
    json.as_object().unwrap().iter().map(|(name, json)| (name.clone(), value(json))).collect()
}

fn names(request: &Json) -> HashMap<String, String> {
    let names = request["ExpressionAttributeNames"].as_object().unwrap();
    names.iter().map(|(placeholder, name)| (placeholder.clone(), text(name).to_owned())).collect()
}

fn values(request: &Json) -> Option<HashMap<String, AttributeValue>> {
    request.get("ExpressionAttributeValues").map(attributes)
}

/// The findings of an audit, as `PK CODE`.
fn findings(audit: &Ran) -> Vec<String> {
    let found = audit.json()["findings"].as_array().unwrap().clone();
    let mut found: Vec<String> =
        found.iter().map(|finding| format!("{} {}", text(&finding["key"]["SK"]), text(&finding["code"]))).collect();
    found.sort();
    found
}

async fn safe_patches_mend_what_they_say(endpoint: &str) {
    let orders = Orders::at(endpoint).await;
    let patches = orders.patches(1).await;
    let (safe, others): (Vec<&Json>, Vec<&Json>) = patches.iter().partition(|line| line["safe"] == true);
    let mut keys: Vec<&str> = safe.iter().map(|line| text(&line["key"]["PK"]).trim_start_matches("ORD#")).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["case", "date", "half", "lacking", "milli", "nil", "sparse", "stale", "text", "type"]);
    let left = others.iter().find(|line| line["request"].is_null()).unwrap();
    assert_eq!(left["leaves"], json!({"code": "A303", "attribute": "Status"}));
    assert_eq!(left["reason"], "which value was meant is not known");

    // Somebody ships an order between the audit and its patch.
    orders.set("lacking", "Status", "Shipped").await;
    orders.set("stale", "GSI1SK", "Shipped#2026-01-02").await;
    for line in &safe {
        assert_eq!(line["operation"], "update-item");
        let sent = orders.update(&line["request"]).await;
        match text(&line["key"]["PK"]) {
            "ORD#lacking" | "ORD#stale" => assert!(sent.unwrap_err().contains("ConditionalCheckFailed"), "{line}"),
            _ => sent.unwrap(),
        }
        // Nor does it come in twice.
        assert!(orders.update(&line["request"]).await.is_err(), "{line}");
    }
    let audit = orders.audit(&["--format", "json"]).await;
    assert_eq!(findings(&audit), ["LINE#7 K101", "ORD#lacking G201", "ORD#lost A303"]);

    // What has changed gets another patch; what is not safe is for somebody to decide, and can be sent.
    let patches = orders.patches(1).await;
    for line in patches.iter().filter(|line| !line["request"].is_null()) {
        match line["safe"].as_bool().unwrap() {
            true => orders.update(&line["request"]).await.unwrap(),
            false => {
                assert_eq!((&line["operation"], &line["mends"]), (&json!("transact-write-items"), &json!(["K101"])));
                assert!(text(&line["reason"]).contains("the primary key changes"));
                orders.transact(&line["request"]).await.unwrap();
                assert!(orders.transact(&line["request"]).await.is_err());
            }
        }
    }
    assert_eq!(findings(&orders.audit(&["--format", "json"]).await), ["ORD#lost A303"]);
    let moved = AttributeValue::S("LINE#0007".to_owned());
    let get = orders.client.get_item().table_name("patched-orders").key("SK", moved);
    let moved = get.key("PK", AttributeValue::S("ORD#Z".to_owned())).send().await.unwrap().item.unwrap();
    assert_eq!(moved["Note"], AttributeValue::S("unpadded".to_owned()));
}

#[tokio::test]
async fn safe_patches_leave_a_clean_table() {
    let database = Embedded::start(None).unwrap();
    safe_patches_mend_what_they_say(database.endpoint()).await;
    database.shutdown().await;
}

#[tokio::test]
async fn dynamodb_local_takes_the_patches_too() {
    let Some(endpoint) = dynamodb_local("patches::dynamodb_local_takes_the_patches_too") else { return };
    safe_patches_mend_what_they_say(&endpoint).await;
    let client = Connection::local(&endpoint).await.unwrap().client().clone();
    client.delete_table().table_name("patched-orders").send().await.unwrap();
}

#[tokio::test]
async fn of_a_file_patches_alone_can_be_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("orders.toml"), MODEL).unwrap();
    // A key that comes again counts once, as in a table: its first line has no patch.
    let mut items = orders();
    let mut again = items[1].clone();
    again["GSI1SK"] = json!("Shipped#2026-01-02");
    items.push(again);
    let items: String = items.iter().map(|item| format!("{item}\n")).collect();
    std::fs::write(path("items.jsonl"), items).unwrap();
    let audit = ["audit", "--model", &path("orders.toml"), "--items", &path("items.jsonl"), "--table", "other"];
    let ran = tablekeeper(&[&audit[..], &["--suggest-patches", "-"]].concat()).await;
    assert_eq!(ran.code, 1, "{}", ran.err);
    let lines = lines(&ran.out);
    assert_eq!(lines.len(), 11, "{}", ran.out);
    let tables: Vec<&Json> = lines.iter().filter_map(|line| line["request"].get("TableName")).collect();
    assert!(tables.len() == 9 && tables.iter().all(|name| *name == "other"), "{tables:?}");
    assert!(ran.err.contains("9 safe patches, 1 unsafe; 1 finding without one; nothing was sent"), "{}", ran.err);
    let nowhere = path("no/such/folder");
    let ran = tablekeeper(&[&audit[..], &["--suggest-patches", &nowhere]].concat()).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("cannot write patches to"), "{}", ran.err);
}
