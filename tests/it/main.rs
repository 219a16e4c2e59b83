//! The one integration-test binary: each further one would link everything again.

mod answers;
mod embedded;
mod exits;
mod house;
mod kept;
mod kill;
mod lambda;
mod limits;
mod lost_answer;
mod operations;
mod patterns;
mod program;
mod random;
mod reconcile;
mod redelivery;
mod report;
mod restart;
mod store;
mod stream;
mod worker;
