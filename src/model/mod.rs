//! Floor 0: the vocabulary of all others. No I/O, no clock.
//!
//! - [`value`], [`decimal`], [`key`], [`time`]: what items hold, exactly as DynamoDB compares and counts it;
//! - [`change`]: a stream record, before and after it is believed; [`event`] and [`discarded`]: the batches in which AWS Lambda delivers
//!   them, and those that it gave up;
//! - [`derived`]: what is derived from one item;
//! - [`spec`]: a table as its owner declared it; [`template`]: how its keys are written; [`load`]: from the file, with all faults
//!   at once; `reader` does the same for every file that people write; [`shipped`]: the models that come along;
//! - [`rule`] and [`position`]: what can be broken, and where in a file it is.

pub mod change;
pub mod decimal;
pub mod derived;
pub mod discarded;
pub mod event;
pub mod key;
pub mod load;
pub mod position;
pub(crate) mod reader;
pub mod rule;
pub mod shipped;
pub mod spec;
pub mod template;
pub mod time;
pub mod value;
pub mod zone;
