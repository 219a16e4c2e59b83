//! The one integration-test binary: each further one would link everything again.

mod house;
