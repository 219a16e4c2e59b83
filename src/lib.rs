//! Tablekeeper.

pub mod adapters;
pub mod derive;
pub mod engine;
pub mod model;
pub mod plan;
pub mod report;
