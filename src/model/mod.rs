//! Floor 0: the vocabulary. Values, keys, templates, changes, times and the model file; no I/O, no clock.

pub mod change;
pub mod decimal;
pub mod derived;
pub mod key;
pub mod load;
pub mod position;
pub(crate) mod reader;
pub mod shipped;
pub mod spec;
pub mod template;
pub mod time;
pub mod value;
