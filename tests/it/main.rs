//! The one integration-test binary: each further one would link everything again.

mod answers;
mod contract;
mod embedded;
mod exits;
mod function;
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
mod random;
mod reconcile;
mod redelivery;
mod report;
mod restart;
mod says;
mod schedule;
mod shard_pages;
mod worker;
