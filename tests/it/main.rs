//! The one integration-test binary: each further one would link everything again.

mod embedded;
mod store;
mod stream;
