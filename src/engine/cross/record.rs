//! What is sorted: one small statement about one key.

use serde::{Deserialize, Serialize};

use crate::derive::references::Held;
use crate::model::key::TableKey;
use crate::model::value::{Text, Value};

/// A statement about the item with a key. Sorted, an item comes before all that name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(rename = "k")]
    pub key: TableKey,
    #[serde(rename = "w")]
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum What {
    /// There is such an item, and this is what it holds of the attributes that others copy, in the order of [`super::Lens`].
    #[serde(rename = "i")]
    Is(Who, Vec<Option<Held>>),
    /// The item names nothing, though it must.
    #[serde(rename = "l")]
    Lacks(Place),
    /// What the item names cannot be told.
    #[serde(rename = "u")]
    Unknown(Place),
    /// The item `by` names it, with what it has copied.
    #[serde(rename = "n")]
    Named { at: Place, by: TableKey, copies: Vec<(usize, Text, Held)> },
}

/// What an item is, entities by their number in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Who {
    #[serde(rename = "o")]
    One(usize),
    #[serde(rename = "n")]
    None,
    #[serde(rename = "s")]
    Several,
}

/// A reference of the model: its entity's number, and its own among that entity's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Place {
    #[serde(rename = "e")]
    pub entity: usize,
    #[serde(rename = "r")]
    pub reference: usize,
}

impl Record {
    /// Bytes that the record takes beside its own size.
    pub fn heap(&self) -> usize {
        let held = |held: &Held| text(&held.shown);
        let what = match &self.what {
            What::Is(_, values) => {
                values.capacity() * size_of::<Option<Held>>() + values.iter().flatten().map(held).sum::<usize>()
            }
            What::Lacks(_) | What::Unknown(_) => 0,
            What::Named { by, copies, .. } => {
                let values: usize = copies.iter().map(|(_, at, value)| text(at) + held(value)).sum();
                key(by) + copies.capacity() * size_of::<(usize, Text, Held)>() + values
            }
        };
        key(&self.key) + what
    }
}

fn key(key: &TableKey) -> usize {
    std::iter::once(&key.partition).chain(&key.sort).map(value).sum()
}

fn value(value: &Value) -> usize {
    match value {
        Value::S(text) => self::text(text),
        // A number of many digits is on the heap, too.
        other => other.size(),
    }
}

/// Short texts are held in place.
fn text(text: &Text) -> usize {
    if text.is_heap_allocated() { text.len() + 2 * size_of::<usize>() } else { 0 }
}
