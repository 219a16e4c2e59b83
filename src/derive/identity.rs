//! Who an item is: its entity and the variables of its keys, for those who show items rather than count them.

use std::collections::BTreeMap;

use crate::model::key::TableKey;
use crate::model::spec::{Entity, Model};
use crate::model::value::Item;

use super::primary;
use super::recognise::{Recognised, recognise};
use super::scope::{Reading, Scope, key_text};
use super::with_key;

/// An item whose entity is beyond doubt.
#[derive(Debug, Clone)]
pub struct Identity<'m> {
    pub entity: &'m Entity,
    /// The key variables that are not attributes, as texts; one that no key gives is missing.
    pub variables: BTreeMap<String, String>,
}

/// The item's identity; `None` for Tablekeeper's own items and wherever [`super::derive`] would count nothing: no entity,
/// several, or a primary key that breaks its templates.
pub fn identify<'m>(model: &'m Model, key: &TableKey, item: &Item) -> Option<Identity<'m>> {
    if item.is_ours() {
        return None;
    }
    let item = with_key(model, key, item);
    let Recognised::One(entity) = recognise(model, key, &item) else { return None };
    let scope = scope(model, entity, key, &item)?;
    let indexes = entity.indexes.iter().flat_map(|index| index.keys.iter().map(|(_, template)| template));
    let templates = [&entity.partition].into_iter().chain(&entity.sort).chain(indexes);
    let names = templates.flat_map(|template| template.variables()).map(|variable| &variable.name);
    let variables = names
        .filter(|name| entity.attribute(name).is_none())
        .filter_map(|name| Some((name.clone(), key_text(scope.value(name).ok()?)?.into_owned())))
        .collect();
    Some(Identity { entity, variables })
}

/// The item as one of the entity, with the variables of its keys, indexes included; `None` where the primary key breaks its
/// templates. The item has its key's attributes.
pub(super) fn scope<'a>(model: &'a Model, entity: &'a Entity, key: &TableKey, item: &'a Item) -> Option<Scope<'a>> {
    let mut scope = Scope::new(model, entity, item);
    if primary::read(&mut scope, key).iter().any(|part| part.reading != Reading::Agrees) {
        return None;
    }
    for (name, template) in entity.indexes.iter().flat_map(|index| &index.keys) {
        if let Some(value) = item.get(name).filter(|value| key_text(value).is_some_and(|text| !text.is_empty())) {
            scope.read(template, value);
        }
    }
    Some(scope)
}
