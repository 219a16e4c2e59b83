//! A DynamoDB in memory: two tables with real transactions, the stream of the one, virtual time and faults on demand.
//!
//! Nothing here is scripted: writes change state, conditions are evaluated against it, and every refusal comes from a rule
//! that DynamoDB has too. So a test asserts what is in the tables, not which calls were made. Faults (a lost answer, a
//! conflict, an outage) are asked for by name and then happen to the next request.
//!
//! - [`store`]: the `Store` port, with faults, counters and a history of what was written;
//! - [`table`]: one table: limits, conditions, expressions, pages;
//! - [`stream`]: the `StreamSource` port over the store's changes: many shards that split, close, hide and lose records;
//! - [`mapping`]: what an event source mapping of AWS Lambda makes of a function's answers;
//! - [`clock`]: time that passes only when someone sleeps or a test says so;
//! - [`random`]: the chances of a seed;
//! - [`executor`]: runs futures without a runtime, to the end or one step at a time;
//! - [`auditor`]: checks the invariants of the product against the tables, by its own arithmetic;
//! - [`run`]: whole stories from a seed: an application, workers and functions on one table, faults, and an auditor that
//!   looks at every commit.

pub mod auditor;
pub mod clock;
pub mod executor;
pub mod mapping;
pub mod random;
pub mod run;
pub mod store;
pub mod stream;
pub mod table;

pub use auditor::{audit, audit_settled};
pub use clock::SimClock;
pub use executor::{Stepper, block_on};
pub use store::{Fault, SimStore, StreamView};
pub use stream::SimStream;
