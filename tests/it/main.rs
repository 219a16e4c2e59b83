//! The one integration-test binary: each further one would link everything again.

mod answers;
mod contract;
mod embedded;
mod exits;
mod house;
mod infra;
mod kept;
mod kill;
mod lambda;
mod limits;
mod lost_answer;
mod operations;
mod own;
mod patterns;
mod program;
mod proxy;
mod random;
mod reconcile;
mod redelivery;
mod report;
mod restart;
mod says;
mod shard_pages;
mod worker;
