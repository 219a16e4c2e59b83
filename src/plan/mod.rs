//! Floor 1: from what was applied and what should be, to transactions.

pub mod delta;
pub mod ledger;
pub mod outcome;
pub mod pack;
pub mod state;
pub mod write;
