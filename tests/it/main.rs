//! The one integration-test binary: each further one would link everything again.

mod embedded;
mod house;
mod lambda;
mod lost_answer;
mod store;
mod stream;
mod worker;
