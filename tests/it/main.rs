//! The one integration-test binary: each further one would link everything again.

mod embedded;
mod house;
mod kill;
mod lambda;
mod lost_answer;
mod program;
mod random;
mod redelivery;
mod report;
mod restart;
mod store;
mod stream;
mod worker;
