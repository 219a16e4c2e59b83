//! The one integration-test binary: each further one would link everything again.

mod answers;
mod contract;
mod credentials;
mod embedded;
mod exits;
mod house;
mod infra;
mod init;
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
mod redrive;
mod report;
mod restart;
mod says;
mod shard_pages;
mod worker;
