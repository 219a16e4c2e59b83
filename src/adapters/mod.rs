//! Floor 3: the outside world. Each adapter implements ports or reads and writes one format; none imports another.
//!
//! - `dynamodb`: the ports on the AWS SDK; `embedded`: a DynamoDB in this process behind the same SDK;
//! - `lambda`: the stream as AWS Lambda delivers it; `cloud`: other services of AWS, where it leaves what it gave up;
//! - `files`: items in files; `definitions`, `analytics` and `page`: reports as they are named, by SQL, as pages and CSV;
//! - [`schema`]: table designs of AWS's DynamoDB MCP server;
//! - `log` and `http`: a running worker's log lines, metrics and health;
//! - `bucket`: files that go to S3; `sinks`: where notifications go;
//! - `clock`: real time;
//! - [`sim`]: a DynamoDB in memory with virtual time, faults on demand and an auditor of the invariants; it is part of the library so
//!   that every floor's tests, and those of other crates, can run on it.

#[cfg(feature = "reports")]
pub mod analytics;
#[cfg(feature = "cloud")]
pub mod bucket;
#[cfg(feature = "worker")]
pub mod clock;
#[cfg(feature = "cloud")]
pub mod cloud;
#[cfg(feature = "reports")]
pub mod definitions;
#[cfg(feature = "worker")]
pub mod dynamodb;
#[cfg(feature = "embedded")]
pub mod embedded;
#[cfg(feature = "embedded")]
pub mod files;
#[cfg(feature = "serve")]
pub mod http;
#[cfg(feature = "lambda")]
pub mod lambda;
#[cfg(feature = "worker")]
pub mod log;
#[cfg(feature = "reports")]
pub mod page;
pub mod schema;
pub mod sim;
#[cfg(feature = "worker")]
pub mod sinks;
