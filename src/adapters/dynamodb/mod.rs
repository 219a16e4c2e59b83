//! DynamoDB through AWS's SDK: the table, its stream, and what has to be set up once.
//!
//! The engine asks through ports and knows no SDK; here their answers are made. [`Connection`] finds the endpoint, the Region
//! and the credentials by the SDK's own conventions and holds one client for each service. [`DynamoStore`] is the
//! [`Store`](crate::engine::ports::Store), [`DynamoStream`] the [`StreamSource`](crate::engine::ports::StreamSource).
//! All requests and consumed capacity are counted in one [`Usage`].

mod connection;
mod convert;
mod credentials;
mod errors;
mod expression;
mod items;
mod setup;
mod store;
mod stream;
mod transport;
mod usage;

pub use connection::{Connection, ConnectionError, ConnectionOptions};
pub use credentials::{CredentialsError, find_credentials};
pub use setup::{Created, IndexInfo, TableInfo};
pub use store::DynamoStore;
pub use stream::DynamoStream;
pub use usage::{Call, Usage, UsageSnapshot};
