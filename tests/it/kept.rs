//! What tests of the shipped models share: the program as a process, and a table of sample items that it has kept.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Map, Value as Json, json};
use tablekeeper::adapters::dynamodb::Connection;
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::adapters::files::{ItemReader, parse_item};
use tablekeeper::model::load::load;
use tablekeeper::model::shipped::shipped;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::Item;

use crate::program;

/// A finished run of the program.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {} {}", self.out, self.err))
    }
}

/// Runs the program. Tests run in the package's folder, so `models/...` are the shipped files.
pub async fn tablekeeper(arguments: &[&str]) -> Ran {
    let ended = program::run(arguments).await;
    let err = ended.log.join("\n");
    let code = ended.code.unwrap_or_else(|| panic!("{arguments:?} was ended by a signal: {err}"));
    Ran { code, out: ended.out, err }
}

/// The items of a file beside the shipped models.
pub fn items(file: &str) -> Vec<Item> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("models").join(file);
    ItemReader::open(&path).unwrap().map(Result::unwrap).collect()
}

pub fn item(json: &Json) -> Item {
    parse_item(&json.to_string()).unwrap()
}

/// A table of a shipped model in an embedded database, read by a client that counts what it sends.
pub struct Kept {
    pub model: Model,
    pub connection: Connection,
    client: Client,
    sent: Sent,
    database: Embedded,
}

impl Kept {
    /// Writes the items through the SDK and lets the program's worker read the stream to its tip.
    pub async fn of(name: &str, items: &[Item]) -> Kept {
        let model = load(shipped(name).unwrap().source, name).unwrap().model;
        let database = Embedded::start(None).unwrap();
        let connection = Connection::local(database.endpoint()).await.unwrap();
        connection.create_table(&model.table).await.unwrap();
        let sent = Sent::default();
        let config = connection.client().config().to_builder().interceptor(sent.clone()).build();
        let kept = Kept { model, connection, client: Client::from_conf(config), sent, database };
        kept.write(items).await;
        kept
    }

    pub async fn write(&self, items: &[Item]) {
        self.connection.put_items(&self.model.table.name, items).await.unwrap();
        let worker = self.run("worker", &["--until-idle", "--poll-ms", "10"]).await;
        assert_eq!(worker.code, 0, "{}", worker.err);
    }

    /// Runs a command of the program on this table.
    pub async fn run(&self, command: &str, arguments: &[&str]) -> Ran {
        let on_table = [command, "--model", &self.model.name, "--endpoint", self.database.endpoint()];
        tablekeeper(&[&on_table, arguments].concat()).await
    }

    /// One GetItem.
    pub async fn get(&self, partition: &str, sort: &str) -> Option<Json> {
        let before = self.sent.0.load(Ordering::SeqCst);
        let table = &self.model.table;
        let request = self
            .client
            .get_item()
            .table_name(&table.name)
            .key(&table.partition_key.name, AttributeValue::S(partition.to_owned()))
            .key(&table.sort_key.as_ref().unwrap().name, AttributeValue::S(sort.to_owned()));
        let answer = request.send().await.unwrap();
        assert_eq!(self.sent.0.load(Ordering::SeqCst) - before, 1, "a pattern is one request");
        answer.item.map(|item| plain(&item))
    }

    /// The measures of an aggregate item by one GetItem: all of its numbers.
    pub async fn measures(&self, partition: &str, sort: &str) -> Json {
        let item = self.get(partition, sort).await.unwrap_or_else(|| panic!("no {partition} / {sort}"));
        Json::Object(item.as_object().unwrap().clone().into_iter().filter(|(_, value)| value.is_number()).collect())
    }

    /// A Query of one partition; `range` is a condition on the sort key `#sk`, with `:a` and `:b`.
    pub fn query(&self, partition: &str, range: &str, values: &[&str]) -> QueryFluentBuilder {
        let table = &self.model.table;
        let request = self
            .client
            .query()
            .table_name(&table.name)
            .expression_attribute_names("#pk", &table.partition_key.name)
            .expression_attribute_values(":pk", AttributeValue::S(partition.to_owned()));
        if range.is_empty() {
            return request.key_condition_expression("#pk = :pk");
        }
        let request = request
            .key_condition_expression(format!("#pk = :pk AND {range}"))
            .expression_attribute_names("#sk", &table.sort_key.as_ref().unwrap().name);
        [":a", ":b"].iter().zip(values).fold(request, |request, (name, value)| {
            request.expression_attribute_values(*name, AttributeValue::S((*value).to_owned()))
        })
    }

    /// A Query of an index.
    pub fn query_index(&self, index: &str) -> QueryFluentBuilder {
        self.client.query().table_name(&self.model.table.name).index_name(index)
    }

    /// Sends a Query once; its items in their order.
    pub async fn ask(&self, query: QueryFluentBuilder) -> Vec<Json> {
        let before = self.sent.0.load(Ordering::SeqCst);
        let is_limited = query.get_limit().is_some();
        let answer = query.send().await.unwrap();
        assert_eq!(self.sent.0.load(Ordering::SeqCst) - before, 1, "a pattern is one request");
        assert!(is_limited || answer.last_evaluated_key.is_none(), "there is a further page");
        answer.items().iter().map(plain).collect()
    }

    /// The copied attributes of the entries whose sort key begins so, by one Query.
    pub async fn entries(&self, partition: &str, prefix: &str) -> Vec<Json> {
        copies(&self.ask(self.query(partition, "begins_with(#sk, :a)", &[prefix])).await)
    }

    pub async fn close(self) {
        let verify = self.run("verify", &[]).await;
        assert_eq!(verify.code, 0, "{} {}", verify.out, verify.err);
        self.database.shutdown().await;
    }
}

/// The `Copy` of each listing entry.
pub fn copies(entries: &[Json]) -> Vec<Json> {
    entries.iter().map(|entry| entry["Copy"].clone()).collect()
}

/// One attribute of each.
pub fn each(items: &[Json], attribute: &str) -> Vec<Json> {
    items.iter().map(|item| item[attribute].clone()).collect()
}

/// Counts requests as they leave, repeated ones too.
#[derive(Debug, Clone, Default)]
struct Sent(Arc<AtomicUsize>);

impl Intercept for Sent {
    fn name(&self) -> &'static str {
        "Sent"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// An item of the SDK as plain JSON.
fn plain(item: &HashMap<String, AttributeValue>) -> Json {
    Json::Object(item.iter().map(|(name, value)| (name.clone(), plain_value(value))).collect::<Map<_, _>>())
}

fn plain_value(value: &AttributeValue) -> Json {
    match value {
        AttributeValue::S(text) => json!(text),
        AttributeValue::N(number) => serde_json::from_str(number).unwrap(),
        AttributeValue::M(map) => plain(map),
        AttributeValue::Bool(flag) => json!(flag),
        other => panic!("{other:?} is in no derived item here"),
    }
}
