//! Floor 2: the ports, and what runs over them.
//!
//! The problem: between a record and a right table lie crashes, lost answers, throttling, other writers and items that the
//! database refuses. The contract: whoever calls into this floor gets either "all of this is durable" or an error that says
//! from where on it is not, and calling again, also with the same or with more, is always right (I1 to I5 of the crate's page).
//!
//! - [`ports`]: all that is asked of the outside: [`ports::Store`], [`ports::StreamSource`], [`ports::Clock`], [`ports::Spill`], [`ports::Sink`];
//! - [`batch`] and [`commit`]: records or scanned items in, one commit of all that they change; `work` is one item's part in it;
//! - [`shards`]: the life of a stream's shards as a pure state table; [`worker`] drives it and [`checkpoint`] keeps its place;
//! - [`leases`]: which of several workers reads which shard, pure;
//! - [`reconcile`]: first start, repair and a changed model; [`verify`]: the proof; [`doubt`]: what is not believed after a loss;
//! - [`redrive`]: batches that AWS Lambda gave up, applied after all;
//! - [`audit`]: what many items break, counted in memory that does not grow with them;
//! - [`sweep`], [`alerts`], [`outbox`]: what falls due, what is told of it once, and how that is delivered;
//! - [`slices`]: a reconcile that is called for, for those who have minutes only; [`slots`]: one print of each report at each of its times;
//! - [`cross`]: what items say of each other, compared in one pass and bounded memory;
//! - [`telemetry`]: what operators see: the names of metrics and log fields, health, and what is counted in the tables;
//! - [`scan`], `pace` and `patience`: reading page by page, no faster than is allowed, and trying again.
//!
//! Nothing here knows an SDK, reads a clock or starts a task.

pub mod alerts;
pub mod audit;
pub mod batch;
pub mod checkpoint;
pub mod commit;
pub mod cross;
pub mod doubt;
pub mod leases;
pub mod malformed;
pub mod outbox;
pub mod pace;
mod patience;
pub mod ports;
pub mod reconcile;
pub mod redrive;
pub mod scan;
pub mod shards;
pub mod slices;
pub mod slots;
pub mod sweep;
pub mod telemetry;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;
pub mod verify;
mod work;
pub mod worker;
