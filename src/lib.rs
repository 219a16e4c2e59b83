//! Tablekeeper.
pub mod model;
