//! Real faults with their verdicts, published tables with their right answers, and laws.

mod catalogue;
mod faults;
pub(super) mod laws;
mod messages;
mod quality;
mod redaction;
pub(in crate::derive) mod shipped;
mod skills;
mod strings;
mod times;

use super::derive;
use super::testing::key_of;
use crate::model::derived::{Derived, Finding};
use crate::model::spec::Model;
use crate::model::value::Item;

fn derived(model: &Model, item: &Item) -> Derived {
    derive(model, &key_of(model, item), item)
}

/// `code attribute expected` of each finding.
fn verdicts(model: &Model, item: &Item) -> Vec<String> {
    let text = |part: &Option<String>| part.clone().unwrap_or_else(|| "-".to_owned());
    let line = |f: &Finding| format!("{} {} {}", f.code, text(&f.attribute), text(&f.expected));
    derived(model, item).findings.iter().map(line).collect()
}
