//! Floor 3: the outside world. Each adapter implements ports or reads and writes one format; none imports another.

#[cfg(feature = "reports")]
pub mod analytics;
#[cfg(feature = "worker")]
pub mod clock;
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
pub mod sim;
#[cfg(feature = "worker")]
pub mod sinks;
