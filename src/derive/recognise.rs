//! Which entity an item is.
//!
//! An item is of the entity whose key templates its primary key has the shape of and whose `match` conditions hold. Where
//! several fit, the one whose templates also render to the very key wins, then the one whose variables hold no delimiter
//! (`TASK#1#COMMENT#2` is a comment, not the task `1#COMMENT#2`); if that leaves several, none is chosen: a guess would
//! count the item in the wrong place. An item whose key has no entity's shape, but whose attributes are those of exactly
//! one entity, is that entity's with a broken key.

use crate::model::key::TableKey;
use crate::model::spec::{Entity, Model};
use crate::model::template::Template;
use crate::model::value::{Item, Value};

use super::primary;
use super::render::{self, split_template};
use super::scope::{Scope, condition_holds, key_text};

/// What was recognised.
pub enum Recognised<'a> {
    One(&'a Entity),
    None { by_key: Vec<&'a Entity>, by_partition: Vec<&'a Entity> },
    Several(Vec<&'a Entity>),
}

pub fn recognise<'a>(model: &'a Model, key: &TableKey, item: &Item) -> Recognised<'a> {
    let by_key: Vec<&Entity> = model.entities.iter().filter(|entity| has_shape(entity, key)).collect();
    let mut both: Vec<&Entity> = by_key.iter().copied().filter(|entity| matches(entity, item)).collect();
    if both.len() > 1 {
        let agreeing: Vec<&Entity> = both.iter().copied().filter(|entity| agrees(model, entity, key, item)).collect();
        if !agreeing.is_empty() {
            both = agreeing;
        }
    }
    if both.len() > 1 {
        let clean: Vec<&Entity> = both.iter().copied().filter(|entity| reads_cleanly(model, entity, key)).collect();
        if !clean.is_empty() {
            both = clean;
        }
    }
    match both.as_slice() {
        [one] => return Recognised::One(one),
        [] => {}
        _ => return Recognised::Several(both),
    }
    let stated = |entity: &&Entity| !entity.matches.is_empty() && matches(entity, item);
    let by_attributes: Vec<&Entity> = model.entities.iter().filter(stated).collect();
    if let (true, [one]) = (by_key.is_empty(), by_attributes.as_slice()) {
        return Recognised::One(one);
    }
    let fits_partition = |entity: &&Entity| fits(&entity.partition, &key.partition);
    let by_partition = model.entities.iter().filter(fits_partition).collect();
    Recognised::None { by_key, by_partition }
}

fn has_shape(entity: &Entity, key: &TableKey) -> bool {
    let sort_fits = match (&entity.sort, &key.sort) {
        (Some(template), Some(value)) => fits(template, value),
        (None, None) => true,
        _ => false,
    };
    sort_fits && fits(&entity.partition, &key.partition)
}

/// True if no variable of the key's templates has to swallow a delimiter.
fn reads_cleanly(model: &Model, entity: &Entity, key: &TableKey) -> bool {
    let clean = |template: &Template, value: &Value| {
        let text = key_text(value);
        let values = text.as_deref().and_then(|text| split_template(template, text)).unwrap_or_default();
        !values.iter().any(|value| value.contains(&model.delimiter))
    };
    let sort = entity.sort.as_ref().zip(key.sort.as_ref());
    clean(&entity.partition, &key.partition) && sort.is_none_or(|(template, value)| clean(template, value))
}

fn fits(template: &Template, value: &Value) -> bool {
    template.bare_variable().is_some() || key_text(value).is_some_and(|text| render::has_shape(template, &text))
}

fn matches(entity: &Entity, item: &Item) -> bool {
    entity.matches.iter().all(|condition| condition_holds(entity, item, condition))
}

fn agrees(model: &Model, entity: &Entity, key: &TableKey, item: &Item) -> bool {
    let mut scope = Scope::new(model, entity, item);
    primary::read(&mut scope, key).iter().all(|part| part.reading == super::scope::Reading::Agrees)
}
