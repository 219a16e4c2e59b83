//! What the engine relies on of a database and of its stream: one set of cases, each of them a test of its own on the simulated
//! database, on the one in process, and on AWS's DynamoDB Local where `TABLEKEEPER_DYNAMODB_LOCAL` holds its endpoint
//! (`tests/dynamodb-local.sh` sets it).
//!
//! What the simulator proves of the engine holds for DynamoDB as far as the simulated database is one, and that is what this
//! set shows. Lineage, splits and leases are proved on the simulated stream alone: the other two have one shard.

pub mod store;
pub mod stream;

use std::sync::atomic::{AtomicU32, Ordering};

use tablekeeper::adapters::dynamodb::{Connection, Created, DynamoStore, DynamoStream};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::adapters::sim::stream::Manners;
use tablekeeper::adapters::sim::{SimClock, SimStore, SimStream};
use tablekeeper::engine::ports::{Store, StreamSource};
use tablekeeper::model::key::KeyNames;
use tablekeeper::model::spec::{KeyAttribute, Table};
use tablekeeper::model::value::{Item, Kind};

/// Names the endpoint of a DynamoDB Local; without it that third of these tests is passed over, loudly.
pub const LOCAL_VARIABLE: &str = "TABLEKEEPER_DYNAMODB_LOCAL";

/// Makes each case a test on each database. A case gets a database of its own, with two empty tables and a stream.
macro_rules! on_every_database {
    ($($case:ident),+ $(,)?) => {
        mod simulated {
            $(#[test]
            fn $case() {
                let database = crate::contract::Simulated::new(stringify!($case));
                tablekeeper::adapters::sim::block_on(super::$case(&database));
            })+
        }

        mod embedded {
            $(#[tokio::test]
            async fn $case() {
                let database = tablekeeper::adapters::embedded::Embedded::start(None).unwrap();
                let served = crate::contract::Served::new(database.endpoint(), stringify!($case)).await;
                super::$case(&served).await;
                database.shutdown().await;
            })+
        }

        mod dynamodb_local {
            $(#[tokio::test]
            async fn $case() {
                let name = concat!(module_path!(), "::", stringify!($case));
                let Some(endpoint) = crate::contract::dynamodb_local(name) else { return };
                let served = crate::contract::Served::new(&endpoint, stringify!($case)).await;
                super::$case(&served).await;
                served.clear().await;
            })+
        }
    };
}
pub(crate) use on_every_database;

pub fn key_attribute(name: &str, kind: Kind) -> KeyAttribute {
    KeyAttribute { name: name.to_owned(), kind }
}

/// A table of a name that no other test has, with keys that need placeholders.
pub fn table(name: &str) -> Table {
    // The process and a count: a database that outlives one run must not meet its names again.
    static TABLES: AtomicU32 = AtomicU32::new(0);
    let name = format!("{name}-{}-{}", std::process::id(), TABLES.fetch_add(1, Ordering::Relaxed));
    Table {
        state_table: format!("{name}-keeper"),
        name,
        partition_key: key_attribute("Partition", Kind::S),
        sort_key: Some(key_attribute("sort.key", Kind::S)),
        indexes: Vec::new(),
        ttl: None,
    }
}

/// The endpoint of DynamoDB Local, or a word on standard error that this was not run.
pub fn dynamodb_local(test: &str) -> Option<String> {
    let endpoint = std::env::var(LOCAL_VARIABLE).ok().filter(|endpoint| !endpoint.is_empty());
    if endpoint.is_none() {
        eprintln!("NOT RUN on DynamoDB Local: {test}; set {LOCAL_VARIABLE}, or run tests/dynamodb-local.sh");
    }
    endpoint
}

pub async fn open(endpoint: &str, table: &Table) -> (Connection, DynamoStore) {
    let connection = Connection::local(endpoint).await.unwrap();
    assert_eq!(connection.create_table(table).await.unwrap(), Created::Now);
    assert_eq!(connection.ensure_state_table(&table.state_table).await.unwrap(), Created::Now);
    let store = DynamoStore::new(&connection, table);
    (connection, store)
}

/// Two tables and the stream of the first.
pub trait Database {
    type Store: Store;
    type Stream: StreamSource;
    fn table(&self) -> &Table;
    fn store(&self) -> &Self::Store;
    async fn stream(&self) -> Self::Stream;
    /// As the application puts items, not as the engine does.
    async fn put(&self, items: &[Item]);

    fn names(&self) -> KeyNames {
        self.table().key_names()
    }
}

/// One that is asked through AWS's SDK.
pub struct Served {
    pub connection: Connection,
    store: DynamoStore,
    table: Table,
}

impl Served {
    pub async fn new(endpoint: &str, case: &str) -> Served {
        let table = table(case);
        let (connection, store) = open(endpoint, &table).await;
        Served { connection, store, table }
    }

    /// Leaves nothing in a database that goes on.
    pub async fn clear(self) {
        self.connection.delete_table(&self.table.name).await.unwrap();
        self.connection.delete_table(&self.table.state_table).await.unwrap();
    }
}

impl Database for Served {
    type Store = DynamoStore;
    type Stream = DynamoStream;

    fn table(&self) -> &Table {
        &self.table
    }

    fn store(&self) -> &DynamoStore {
        &self.store
    }

    async fn stream(&self) -> DynamoStream {
        DynamoStream::of_table(&self.connection, &self.table.name).await.unwrap()
    }

    async fn put(&self, items: &[Item]) {
        match items {
            [item] => self.connection.put_item(&self.table.name, item).await.unwrap(),
            items => self.connection.put_items(&self.table.name, items).await.unwrap(),
        }
    }
}

/// The simulated one, on its best behaviour.
pub struct Simulated {
    store: SimStore,
    stream: SimStream,
    table: Table,
}

impl Simulated {
    pub fn new(case: &str) -> Simulated {
        let table = table(case);
        let store = SimStore::new(&table);
        let stream = SimStream::new(&store, &SimClock::new(chrono::DateTime::UNIX_EPOCH, 1), 1, Manners::good(), 1);
        Simulated { store, stream, table }
    }
}

impl Database for Simulated {
    type Store = SimStore;
    type Stream = SimStream;

    fn table(&self) -> &Table {
        &self.table
    }

    fn store(&self) -> &SimStore {
        &self.store
    }

    async fn stream(&self) -> SimStream {
        self.stream.clone()
    }

    async fn put(&self, items: &[Item]) {
        items.iter().for_each(|item| self.store.put(item.clone()).unwrap());
    }
}

/// What loads and demonstrations use; the engine does not.
async fn single_items_are_written_read_and_deleted(served: &Served) {
    use tablekeeper::model::key::TableKey;
    use tablekeeper::model::value::Value;

    let (connection, table) = (&served.connection, &served.table);
    let keys: Vec<Item> =
        (0..60).map(|n| TableKey::text("SINGLE", n.to_string()).to_item(&table.key_names())).collect();
    let items: Vec<Item> = keys.iter().map(|key| key.clone().with("State", Value::text("open"))).collect();
    connection.put_items(&table.name, &items).await.unwrap();
    let changed = keys[59].clone().with("State", Value::text("closed"));
    connection.put_item(&table.name, &changed).await.unwrap();
    connection.delete_item(&table.name, &keys[0]).await.unwrap();
    connection.delete_item(&table.name, &keys[0]).await.unwrap();
    assert_eq!(connection.get_item(&table.name, &keys[0]).await, Ok(None));
    assert_eq!(connection.get_item(&table.name, &keys[30]).await, Ok(Some(items[30].clone())));
    assert_eq!(connection.get_item(&table.name, &keys[59]).await, Ok(Some(changed)));
}

/// What only those have that are asked through the SDK: no port asks it, and the simulated one has no use for it.
async fn beside_the_ports(endpoint: &str) {
    let served = Served::new(endpoint, "beside").await;
    single_items_are_written_read_and_deleted(&served).await;
    stream::what_is_not_there_is_told(&served.connection, &served.table).await;
    served.clear().await;
}

#[tokio::test]
async fn the_embedded_database_serves_what_no_port_asks() {
    let database = Embedded::start(None).unwrap();
    beside_the_ports(database.endpoint()).await;
    database.shutdown().await;
}

#[tokio::test]
async fn dynamodb_local_serves_what_no_port_asks() {
    let Some(endpoint) = dynamodb_local("what no port asks") else { return };
    beside_the_ports(&endpoint).await;
}
