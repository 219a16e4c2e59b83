//! A model in the making: what is proposed, and beside each part what speaks for it.

use std::collections::BTreeMap;

use crate::model::spec::{Entity, Table};

/// A proposal before it is text.
#[derive(Debug, Clone)]
pub struct Draft {
    pub name: String,
    /// Where it comes from: the first comment of the file.
    pub heading: Vec<String>,
    pub delimiter: String,
    pub table: Table,
    /// About the table and its keys.
    pub table_notes: Vec<String>,
    /// About an index, by its name.
    pub index_notes: BTreeMap<String, String>,
    pub entities: Vec<EntityDraft>,
}

/// One proposed entity.
#[derive(Debug, Clone)]
pub struct EntityDraft {
    pub entity: Entity,
    pub notes: Vec<String>,
    pub key_note: String,
    /// About an index that the entity fills, by the index's name.
    pub index_notes: BTreeMap<String, String>,
    /// About an attribute, by its name.
    pub attribute_notes: BTreeMap<String, String>,
    /// Attributes worth an aggregate: their values have been seen to be few.
    pub countable: Vec<String>,
    /// Why it is written as a comment only.
    pub withheld: Option<String>,
    /// How often it was made safer because the loader refused it.
    pub concessions: u8,
}

impl EntityDraft {
    pub fn new(entity: Entity) -> EntityDraft {
        EntityDraft {
            entity,
            notes: Vec::new(),
            key_note: String::new(),
            index_notes: BTreeMap::new(),
            attribute_notes: BTreeMap::new(),
            countable: Vec::new(),
            withheld: None,
            concessions: 0,
        }
    }
}
