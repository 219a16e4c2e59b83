//! From one item to its records. Shared by threads; it knows the model only.

use crate::derive::references::{self, Names};
use crate::model::key::TableKey;
use crate::model::spec::{Entity, Model, Reference};
use crate::model::template::Template;
use crate::model::value::{Item, Value};

use super::record::{Place, Record, What, Who};

/// Sees of an item what other items may ask of it, and what it asks of others.
pub struct Lens<'m> {
    pub(super) model: &'m Model,
    /// By the number of an entity: the attributes that others copy from it, each once.
    masters: Vec<Vec<&'m str>>,
    /// By the number of an entity: whether items of it may be named by their partition key alone.
    by_partition: Vec<bool>,
    /// The keys of all references that name a whole key.
    keys: Vec<(&'m Template, Option<&'m Template>)>,
}

/// What was seen of one item.
#[derive(Debug, Default)]
pub struct Seen {
    pub(super) entity: Option<usize>,
    pub(super) records: Vec<Record>,
}

impl<'m> Lens<'m> {
    pub fn new(model: &'m Model) -> Lens<'m> {
        let mut lens = Lens {
            model,
            masters: vec![Vec::new(); model.entities.len()],
            by_partition: vec![false; model.entities.len()],
            keys: Vec::new(),
        };
        for reference in model.entities.iter().flat_map(|entity| &entity.references) {
            let is_partial = lens.is_by_partition(reference);
            for to in reference.to.iter().filter_map(|to| number(model, to)) {
                lens.by_partition[to] |= is_partial;
                for copy in &reference.copies {
                    if !lens.masters[to].contains(&copy.master.as_str()) {
                        lens.masters[to].push(&copy.master);
                    }
                }
            }
            if !is_partial {
                lens.keys.push((&reference.partition, reference.sort.as_ref()));
            }
        }
        lens
    }

    /// True if the model declares no reference: then there is nothing to see.
    pub fn is_blind(&self) -> bool {
        self.model.entities.iter().all(|entity| entity.references.is_empty())
    }

    /// What one item says. `entity` is what [`crate::derive::derive()`] recognised it as. Tablekeeper's own items say nothing.
    pub fn look(&self, key: &TableKey, entity: Option<&str>, item: &Item) -> Seen {
        if self.is_blind() || item.is_ours() {
            return Seen::default();
        }
        let entity = entity.and_then(|name| number(self.model, name));
        let mut seen = Seen { entity, records: Vec::new() };
        self.say_who(key, entity, item, &mut seen.records);
        if let Some(entity) = entity {
            self.say_names(key, entity, item, &mut seen.records);
        }
        seen
    }

    /// Where its entity holds an attribute that others copy, among what [`What::Is`] holds.
    pub(super) fn master(&self, entity: usize, attribute: &str) -> Option<usize> {
        self.masters.get(entity)?.iter().position(|name| *name == attribute)
    }

    pub(super) fn is_by_partition(&self, reference: &Reference) -> bool {
        reference.sort.is_none() && self.model.table.sort_key.is_some()
    }

    pub(super) fn of(&self, place: Place) -> Option<(&'m Entity, &'m Reference)> {
        let entity = self.model.entities.get(place.entity)?;
        Some((entity, entity.references.get(place.reference)?))
    }

    fn say_who(&self, key: &TableKey, entity: Option<usize>, item: &Item, records: &mut Vec<Record>) {
        if entity.is_some_and(|entity| self.by_partition[entity]) {
            let key = TableKey { partition: key.partition.clone(), sort: None };
            records.extend(entity.map(|entity| Record { key, what: What::Is(Who::One(entity), Vec::new()) }));
        }
        if !self.keys.iter().any(|(partition, sort)| may_name(partition, *sort, key)) {
            return;
        }
        let what = match entity {
            Some(number) => {
                let entity = &self.model.entities[number];
                let masters = self.masters[number].iter();
                let held = masters.map(|attribute| references::master(entity, attribute, item)).collect();
                What::Is(Who::One(number), held)
            }
            None if references::is_claimed_by_several(self.model, key, item) => What::Is(Who::Several, Vec::new()),
            None => What::Is(Who::None, Vec::new()),
        };
        records.push(Record { key: key.clone(), what });
    }

    fn say_names(&self, key: &TableKey, number: usize, item: &Item, records: &mut Vec<Record>) {
        let entity = &self.model.entities[number];
        for mention in references::mentions(self.model, entity, key, item) {
            let at = Place { entity: number, reference: mention.reference };
            let of_itself = |what| Record { key: key.clone(), what };
            match mention.names {
                Names::Key(other) => {
                    let copies = mention.copies.into_iter().map(|copied| (copied.copy, copied.at, copied.held));
                    let what = What::Named { at, by: key.clone(), copies: copies.collect() };
                    records.push(Record { key: other, what });
                }
                Names::Nothing if entity.references[mention.reference].required => {
                    records.push(of_itself(What::Lacks(at)));
                }
                Names::Nothing => {}
                Names::Unknown => records.push(of_itself(What::Unknown(at))),
            }
        }
    }
}

fn number(model: &Model, name: &str) -> Option<usize> {
    model.entities.iter().position(|entity| entity.name == name)
}

/// False only if no text of the templates can be the key: most items are named by nobody, and need no record.
fn may_name(partition: &Template, sort: Option<&Template>, key: &TableKey) -> bool {
    let begins = |template: &Template, value: &Value| match value {
        Value::S(text) => match template.constant() {
            Some(constant) => text == constant,
            None => text.starts_with(template.prefix()),
        },
        _ => true,
    };
    let sorts = sort.zip(key.sort.as_ref()).is_none_or(|(template, value)| begins(template, value));
    sorts && begins(partition, &key.partition)
}
