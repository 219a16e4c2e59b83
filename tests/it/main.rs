//! The one integration-test binary: each further one would link everything again.

mod answers;
mod embedded;
mod exits;
mod house;
mod kept;
mod lambda;
mod limits;
mod lost_answer;
mod patterns;
mod report;
mod store;
mod stream;
mod worker;
