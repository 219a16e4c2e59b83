//! Floor 1: from what was applied and what should be, to transactions.

pub mod delta;
pub mod ledger;
pub mod outcome;
pub mod pack;
pub mod standing;
pub mod state;
#[cfg(test)]
pub mod testing;
pub mod write;
