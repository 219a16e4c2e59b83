//! Single writes and transactions as data: they can be printed, compared and replayed.

use std::sync::Arc;

use crate::model::derived::Measures;
use crate::model::key::TableKey;
use crate::model::value::{Item, Text, Value};

/// Most actions in one DynamoDB transaction.
pub const ACTIONS_MAX: usize = 100;
/// Most bytes in one DynamoDB transaction, all items together.
pub const TRANSACTION_SIZE_MAX: usize = 4 * 1024 * 1024;

/// Which of the two tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableRef {
    /// The user's single table.
    Source,
    /// Tablekeeper's own, with keys `PK` and `SK` of type S.
    State,
}

/// One conditional write of one item.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    pub table: TableRef,
    pub key: TableKey,
    pub op: Op,
    pub condition: Condition,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Replaces the item; it contains the key's attributes.
    Put(Arc<Item>),
    Delete,
    /// `ADD` on numbers (0 creates the attribute), `SET` on the others; creates the item if there is none.
    Update {
        add: Measures,
        set: Item,
    },
}

/// What must hold of the stored item, else the whole transaction is cancelled.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    Always,
    /// No item of that key.
    Absent,
    /// The item's attribute equals the value.
    Equals(Text, Value),
    /// No item of that key, or its attribute equals the value.
    AbsentOrEquals(Text, Value),
    /// No item of that key, or its attributes equal all of these values, of which there is one at least.
    AbsentOrAll(Vec<(Text, Value)>),
    /// The item's attributes equal all of these values (`None`: it has no such attribute), of which there is one at least.
    All(Vec<(Text, Option<Value>)>),
}

impl Write {
    /// Bytes that this write adds to a transaction, as near as a client can tell: the item or the update's values, and the key.
    pub fn size(&self) -> usize {
        let key = self.key.partition.size() + self.key.sort.as_ref().map_or(0, Value::size);
        key + match &self.op {
            Op::Put(item) => item.size(),
            Op::Delete => 0,
            Op::Update { add, set } => set.size() + add.keys().map(|name| name.len() + 21).sum::<usize>(),
        }
    }
}
