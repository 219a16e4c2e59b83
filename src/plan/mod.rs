//! Floor 1: from what was applied and what should be, to transactions. Pure.
//!
//! The problem: many items change at once, several add to one aggregate, and DynamoDB takes at most 100 writes of 4 MB at once,
//! each item once, all or none. The contract: every item's ledger row travels in one transaction with all that its change
//! does to derived items, so that none exists without the other (I1, I2); a refusal can be traced to the items to blame.
//!
//! - [`ledger`]: the row that remembers what has been applied for one source item;
//! - [`delta`]: what should be minus what has been applied; [`pack`]: many of them as few transactions;
//! - [`origin`]: which change brought a finding, and how many come and go;
//! - [`standing`]: who stands where a derived item belongs; [`outcome`]: a cancelled transaction, read;
//! - [`mod@write`]: single writes as data; [`state`]: which rows the state table has, under which keys.

pub mod delta;
pub mod ledger;
pub mod origin;
pub mod outcome;
pub mod pack;
pub mod standing;
pub mod state;
#[cfg(test)]
pub mod testing;
pub mod write;
