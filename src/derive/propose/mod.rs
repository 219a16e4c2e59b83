//! A model for a table that has none yet, proposed from a sample of its items.
//!
//! The problem: who has a table has its conventions in code, in heads and in the items, and writing them down from nothing is
//! the hardest part of checking them. The items tell most of it: parts of keys that never differ are literals, parts that are
//! the same as an attribute are that attribute, parts that are the same across keys are one variable.
//!
//! The contract: [`propose()`] is pure, and what it gives loads without errors. Every guess stands beside what speaks for it: `5 of 5
//! items`, or `guess: 85 %`, which is (agreeing + 1) of (items + 2); what is doubtful begins with `check:`. Where the items
//! contradict one another the majority is proposed, so that `audit` names the rest; where nothing is clear the part is left
//! out or written as a comment. Memory is that of the sample.
//!
//! `table` finds the keys, `groups` the entities, `keys` their templates, `indexes` who is in an index and why, `attributes` the
//! rest; `write` makes the text, `settle` has the loader judge it and gives way where it objects.

mod attributes;
mod draft;
mod groups;
mod indexes;
mod keys;
mod names;
mod sample;
mod settle;
mod share;
mod table;
mod write;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::position::Fault;
use crate::model::spec::{Attribute, Condition, Entity, Index, KeyAttribute, Model};
use crate::model::template::Template;
use crate::model::value::{Item, Kind};

pub use draft::{Draft, EntityDraft};
pub use names::pascal;
pub use sample::Sample;
pub use settle::settle;

use groups::Group;
use keys::{Hints, Unified, Unifier, Use};
use share::Share;

/// What is known of a table that is there.
#[derive(Debug, Clone)]
pub struct Known {
    pub partition_key: KeyAttribute,
    pub sort_key: Option<KeyAttribute>,
    pub indexes: Vec<Index>,
    pub ttl: Option<String>,
}

/// What the owner says beforehand.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The model's name.
    pub name: String,
    /// The table's name.
    pub table: String,
    /// Where the items are from, for the file's first line.
    pub source: String,
    pub partition_key: Option<String>,
    pub sort_key: Option<String>,
    pub indexes: Vec<AskedIndex>,
    /// The attribute that names an item's entity.
    pub type_attribute: Option<String>,
    pub delimiter: Option<String>,
}

/// An index by the names of its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedIndex {
    pub name: String,
    pub partition: Vec<String>,
    pub sort: Vec<String>,
}

/// A proposal that loads.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The model file.
    pub text: String,
    pub model: Model,
    pub warnings: Vec<Fault>,
    /// How many items the sample held, and of how many.
    pub items: usize,
    pub seen: u64,
    /// Findings of the sample's own items under the proposal, by rule code.
    pub findings: BTreeMap<String, usize>,
}

/// Why nothing can be proposed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    #[error("there is no item to propose a model from")]
    NoItems,
    #[error(
        "no attribute looks like the table's key; say which it is with --partition-key NAME and, if there is one, --sort-key NAME"
    )]
    NoKey,
    #[error("no item has the key attribute `{name}`; names count with their case")]
    NoSuchKey { name: String },
    #[error("the proposal does not load: {0}")]
    Refused(String),
}

/// Proposes a model for the items of the sample.
///
/// # Errors
/// No items, no key to be found, or nothing that the loader takes.
pub fn propose(sample: &Sample, asked: &Asked, known: Option<&Known>) -> Result<Proposal, ProposeError> {
    let items = sample.items();
    if items.is_empty() {
        return Err(ProposeError::NoItems);
    }
    let draft = draft(items, sample.seen(), asked, known)?;
    let mut proposal = settle(draft)?;
    proposal.items = items.len();
    proposal.seen = sample.seen();
    proposal.findings = settle::findings(&proposal.model, items);
    Ok(proposal)
}

fn draft(items: &[Item], seen: u64, asked: &Asked, known: Option<&Known>) -> Result<Draft, ProposeError> {
    let found = table::find(items, asked, known)?;
    let delimiter = asked.delimiter.clone().unwrap_or_else(|| groups::delimiter(items, &found.table));
    let type_attribute = asked.type_attribute.clone().or_else(|| groups::type_attribute(items));
    let (groups, mut notes) = groups::group(items, &found.table, &delimiter, type_attribute.as_deref());
    notes.splice(0..0, found.notes);
    if let Some(name) = &type_attribute {
        let share = Share::count(items.iter().map(|item| item.text(name).is_some()));
        notes.push(format!("`{name}` names the entity: {share} have it."));
    }
    let (table, index_notes) = (found.table, found.index_notes);
    let mut draft = Draft {
        name: asked.name.clone(),
        heading: heading(&asked.source, items.len(), seen),
        delimiter,
        table,
        table_notes: notes,
        index_notes,
        entities: Vec::new(),
    };
    let varying = varying(&groups, &draft);
    let shared = shared(items, &draft);
    let excluded = excluded(&draft, type_attribute.as_deref());
    let hints = Hints { delimiter: &draft.delimiter, varying: &varying, shared: &shared, excluded: &excluded };
    let entities: Vec<EntityDraft> =
        groups.iter().map(|group| entity(group, &draft, type_attribute.as_deref(), &hints, items.len())).collect();
    draft.entities = entities;
    dates_of_others(&mut draft);
    Ok(draft)
}

fn heading(source: &str, items: usize, seen: u64) -> Vec<String> {
    let of =
        if seen > items as u64 { format!("a sample of {items} of {seen} items") } else { format!("{items} items") };
    vec![
        format!("Proposed from {of} of {source}."),
        "Behind each part stands what speaks for it: so many of so many items, or a guess with its confidence. What begins with".to_owned(),
        "`check:` is doubtful. Mend what is wrong, then: tablekeeper check MODEL, tablekeeper audit --model MODEL.".to_owned(),
    ]
}

/// Attributes from which no key is made: keys themselves, and the name of the entity.
fn excluded(draft: &Draft, type_attribute: Option<&str>) -> BTreeSet<String> {
    let table = &draft.table;
    let own = [Some(&table.partition_key), table.sort_key.as_ref()].into_iter().flatten().map(|key| key.name.clone());
    let indexed = table.indexes.iter().flat_map(|index| index.attributes()).map(|key| key.name.clone());
    let made = indexed.filter(|name| names::is_made_for_keys(name));
    own.chain(made).chain(type_attribute.map(str::to_owned)).collect()
}

/// Values that a part of some group's key takes among others.
fn varying(groups: &[Group<'_>], draft: &Draft) -> BTreeSet<String> {
    let table = &draft.table;
    let keys = [Some(&table.partition_key), table.sort_key.as_ref()].into_iter().flatten();
    let keys: Vec<&str> = keys.map(|key| key.name.as_str()).collect();
    let mut varying = BTreeSet::new();
    for (group, key) in groups.iter().flat_map(|group| keys.iter().map(move |key| (group, *key))) {
        let mut columns: BTreeMap<usize, BTreeMap<&str, usize>> = BTreeMap::new();
        for text in group.items.iter().filter_map(|item| item.text(key)) {
            for (at, part) in groups::parts(text, &draft.delimiter).into_iter().enumerate() {
                *columns.entry(at).or_default().entry(part).or_default() += 1;
            }
        }
        for values in columns.into_values() {
            let of = values.values().sum();
            let is_literal = values.values().any(|agree| Share { agree: *agree, of }.holds());
            let words = values.into_keys().filter(|value| !is_literal && !value.is_empty());
            varying.extend(words.map(str::to_owned));
        }
    }
    varying
}

/// Whole sort keys of one word that occur in several partitions.
fn shared(items: &[Item], draft: &Draft) -> BTreeSet<String> {
    let Some(sort) = &draft.table.sort_key else { return BTreeSet::new() };
    let mut partitions: BTreeMap<&str, BTreeSet<_>> = BTreeMap::new();
    for item in items {
        if let Some(text) = item.text(&sort.name).filter(|text| names::is_word(text)) {
            partitions.entry(text).or_default().insert(item.get(&draft.table.partition_key.name));
        }
    }
    partitions.into_iter().filter(|(_, partitions)| partitions.len() > 1).map(|(text, _)| text.to_owned()).collect()
}

/// One group's entity.
fn entity(
    group: &Group<'_>,
    draft: &Draft,
    type_attribute: Option<&str>,
    hints: &Hints<'_>,
    all: usize,
) -> EntityDraft {
    let table = &draft.table;
    let mut unifier = Unifier::new(&group.items, hints);
    let mut uses: Vec<Use> = Vec::new();
    let mut key_notes = Vec::new();
    let mut key = |unifier: &mut Unifier<'_, '_>, key: &KeyAttribute| -> Template {
        match unifier.unify(&key.name, key.kind) {
            Some(Unified { template, uses: used, notes }) => {
                uses.extend(used);
                key_notes.extend(notes);
                template
            }
            None => bare(&key.name),
        }
    };
    let partition = key(&mut unifier, &table.partition_key);
    let sort = table.sort_key.as_ref().map(|sort| key(&mut unifier, sort));
    let own: BTreeSet<String> = uses.iter().map(|used| used.attribute.clone()).collect();
    let mut entity = EntityDraft::new(Entity {
        name: group.name.clone(),
        matches: Vec::new(),
        partition,
        sort,
        indexes: Vec::new(),
        attributes: Vec::new(),
        references: Vec::new(),
        severities: BTreeMap::new(),
    });
    let share = Share { agree: group.items.len(), of: all };
    entity.key_note = key_notes.join("; ");
    entity.notes.push(match group.items.len() {
        1 => format!("check: {share}: one item cannot tell literals from values, nor what is required."),
        _ => format!("{share}."),
    });
    entity.notes.extend(group.notes.iter().cloned());
    let is_key = |name: &str| {
        [Some(&table.partition_key), table.sort_key.as_ref()].into_iter().flatten().any(|key| key.name == name)
    };
    let named = type_attribute.zip(group.named.as_ref()).filter(|(name, _)| !is_key(name));
    if let Some((name, value)) = named {
        entity.entity.matches.push(Condition { attribute: name.to_owned(), values: vec![value.clone()] });
    }
    indexes::fill(&mut entity, group, draft, &mut unifier, &mut uses);
    let undeclared: BTreeSet<&str> = hints.excluded.iter().map(String::as_str).collect();
    for examined in attributes::examine_all(&group.items, &undeclared) {
        let name = examined.attribute.name.clone();
        entity.attribute_notes.insert(name.clone(), examined.note);
        if examined.countable {
            entity.countable.push(name);
        }
        entity.entity.attributes.push(examined.attribute);
    }
    for used in uses {
        demand(&mut entity, &used, own.contains(&used.attribute), table_kind(draft, &used.attribute));
    }
    entity
}

fn table_kind(draft: &Draft, name: &str) -> Option<Kind> {
    draft.table.indexes.iter().flat_map(|index| index.attributes()).find(|key| key.name == name).map(|key| key.kind)
}

/// An attribute of which a key is made is declared, in the primary key required, and where it is padded not negative.
fn demand(entity: &mut EntityDraft, used: &Use, in_primary_key: bool, kind: Option<Kind>) {
    let attributes = &mut entity.entity.attributes;
    let spelt = |attribute: &&mut Attribute| attribute.name == used.attribute;
    let attribute = match attributes.iter_mut().find(spelt) {
        Some(attribute) => attribute,
        None => {
            attributes.push(Attribute::new(used.attribute.clone(), kind.unwrap_or(Kind::S)));
            let Some(attribute) = attributes.last_mut() else { return };
            attribute
        }
    };
    attribute.required |= in_primary_key;
    if used.pad.is_some() {
        attribute.min = Some(crate::model::decimal::Decimal::zero());
    }
}

/// `{pk}` for a key attribute of which nothing is known.
fn bare(key: &str) -> Template {
    let name = names::variable(key).unwrap_or_else(|| "value".to_owned());
    let variable = crate::model::template::Variable { name: name.clone(), ..Default::default() };
    Template { source: format!("{{{name}}}"), segments: vec![crate::model::template::Segment::Variable(variable)] }
}

/// An attribute that is only ever "none" here but a date in another entity is a date here, too.
fn dates_of_others(draft: &mut Draft) {
    let mut formats = BTreeMap::new();
    for attribute in draft.entities.iter().flat_map(|entity| &entity.entity.attributes) {
        if let Some(format) = attribute.format {
            formats.insert(attribute.name.clone(), format);
        }
    }
    for entity in &mut draft.entities {
        for attribute in &mut entity.entity.attributes {
            if attribute.format.is_none()
                && !attribute.none.is_empty()
                && attribute.kind == Kind::S
                && attribute.one_of.is_empty()
            {
                attribute.format = formats.get(&attribute.name).copied();
                if attribute.format.is_some() {
                    let note = entity.attribute_notes.entry(attribute.name.clone()).or_default();
                    note.push_str("; a date as in other entities");
                }
            }
        }
    }
}
