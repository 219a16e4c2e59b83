//! Floor 2: ports, and what runs over them.

pub mod alerts;
pub mod batch;
pub mod checkpoint;
pub mod commit;
pub mod leases;
pub mod outbox;
mod patience;
pub mod ports;
pub mod reconcile;
pub mod scan;
pub mod shards;
pub mod sweep;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod verify;
mod work;
pub mod worker;
