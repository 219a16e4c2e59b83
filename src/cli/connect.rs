//! Which database a command talks to: AWS by the SDK's conventions, an endpoint, or the embedded one.

use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::{Connection, DynamoStore, DynamoStream};
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::model::spec::Model;

use super::args::TableArgs;
use super::context::{Stop, model_for_table};

/// A model, its tables, and what keeps them up.
pub struct Tables {
    pub model: Model,
    pub connection: Connection,
    pub store: DynamoStore,
    pub clock: SystemClock,
    embedded: Option<Embedded>,
}
