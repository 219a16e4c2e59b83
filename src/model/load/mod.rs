//! From the text of a model file to a [`Model`], or to all that is wrong with it.
//!
//! A model file is written by hand, and a fault in it makes every derived number wrong. So the loader refuses what it
//! does not know, and it reports ALL faults of a file at once, each with a stable code, its place and a remedy: nobody
//! should mend one fault only to meet the next.
//!
//! Three steps. `model::reader` walks the parsed TOML and notes where each part stands; `table`, `entity`, `reference` and `derived` turn
//! it into a model, with stand-ins where a part could not be read; `lint` judges the model as a whole. A part that
//! could not be read is marked broken, and the lints leave it alone, so that one fault is reported once. Any error
//! throws the model away: a stand-in never leaves this module.
//!
//! The syntax is described in `models/README.md`.

mod derived;
mod entity;
mod lint;
mod overlap;
mod reference;
pub mod rules;
mod severity;
mod table;

#[cfg(test)]
mod tests;

use sha2::{Digest, Sha256};

use super::derived::Severity;
use super::key::hex;
use super::position::Fault;
use super::reader::{Fields, Sink};
use super::rule::Rule;
use super::spec::Model;

/// What a model breaks that names a report which is not there; those find out who may read files.
pub const UNKNOWN_REPORT: Rule = rules::UNKNOWN_VALUE;

/// A model and the warnings about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub model: Model,
    pub warnings: Vec<Fault>,
}

/// Reads the model file `source`. `name` is the model's name unless the file gives one, usually the file's stem.
///
/// # Errors
/// All faults of the file, warnings among them, in the order of their places, if at least one is an error.
pub fn load(source: &str, name: &str) -> Result<Loaded, Vec<Fault>> {
    let mut sink = Sink::new(source, &rules::GRAMMAR);
    let Some(root) = sink.parse() else { return Err(sink.into_faults()) };
    let root = Fields::root(root.get_ref());
    let hash = hex(&Sha256::digest(source.as_bytes()));
    let model = table::read_model(&mut sink, root, name, hash);
    lint::run(&model, &mut sink);
    let faults = sink.into_faults();
    if faults.iter().any(|fault| fault.severity == Severity::Error) {
        return Err(faults);
    }
    Ok(Loaded { model, warnings: faults })
}
