//! A wrong primary key: the item is put under the right one and deleted under the wrong one, in one transaction.

use std::collections::BTreeSet;

use super::request::{self, Request};
use super::{Draft, Patch, Place, Task, indexes};
use crate::derive::primary::{self, Part};
use crate::derive::rules::k101;
use crate::derive::scope::{Reading, Scope};
use crate::model::key::{PARTITION_KEY_SIZE_MAX, SORT_KEY_SIZE_MAX, TableKey};
use crate::model::value::Value;

/// The finding that a move mends.
pub const CODE: &str = k101::RULE.code;

const WHY_UNSAFE: &str = "the primary key changes: what refers to the item by its old key loses it, and so does an attribute that \
                          is added meanwhile; or an attribute is wrong, and not the key";

/// The move, and the findings that stay; `None` where the key is right, or nobody asked.
pub fn move_to_right_key<'m>(task: &Task<'m>, draft: &Draft<'m>) -> Option<Result<(Patch, BTreeSet<Place>), String>> {
    let is_wrong = |place: &Place| place.0 == CODE && task.wanted.contains(place);
    draft.places.iter().any(is_wrong).then(|| moved(task, draft))
}

fn moved<'m>(task: &Task<'m>, draft: &Draft<'m>) -> Result<(Patch, BTreeSet<Place>), String> {
    let key = right_key(draft)?;
    let mut item = draft.item.clone();
    item.0.extend(key.to_item(&draft.model.table.key_names()).0);
    let (moved, _) = indexes::settle(task, Draft::of(draft.model, key, item, draft.rests_on.clone()));
    if let Some((code, _)) = moved.places.iter().find(|place| place.0 == CODE || !task.before.places.contains(place)) {
        return Err(format!("under the key that the attributes give it would have {code}"));
    }
    let before = &task.before;
    let request = request::move_item(draft.model, (&before.key, &before.item), (&moved.key, &moved.item))?;
    let request = Request::TransactWriteItems(Box::new(request));
    let patch = Patch { safe: false, mends: moved.mended_since(before), reason: Some(WHY_UNSAFE), request };
    Ok((patch, moved.places))
}

/// The key that the item's attributes give, if they leave no doubt.
fn right_key(draft: &Draft<'_>) -> Result<TableKey, String> {
    let Some(entity) = draft.entity else { return Err("no entity says how its key is written".to_owned()) };
    let mut scope = Scope::new(draft.model, entity, &draft.item);
    let mut values = Vec::new();
    for Part { template, actual, reading, .. } in primary::read(&mut scope, &draft.key) {
        let expected = match reading {
            Reading::Agrees => actual,
            Reading::Differs { expected: Some(expected) } => expected,
            Reading::Differs { expected: None } => {
                return Err(format!("nothing but the key gives what `{}` is made of", template.source));
            }
            Reading::TwoValues { .. } => return Err("which of its keys is right, the item does not tell".to_owned()),
            Reading::Unrendered(fault) => return Err(fault.to_string()),
        };
        let doubtful = template.variables().find(|variable| draft.is_in_doubt(&variable.name));
        if let Some(variable) = doubtful {
            return Err(format!("it depends on `{}`, which has a finding of its own", variable.name));
        }
        values.push(expected);
    }
    let mut values = values.into_iter();
    let Some(partition) = values.next() else { return Err("it has no key".to_owned()) };
    let key = TableKey { partition, sort: values.next() };
    let fits = |value: &Value, most: usize| matches!(value, Value::N(_)) || (1..=most).contains(&value.size());
    match fits(&key.partition, PARTITION_KEY_SIZE_MAX) && key.sort.iter().all(|sort| fits(sort, SORT_KEY_SIZE_MAX)) {
        true => Ok(key),
        false => Err("the key that the attributes give is empty or too long".to_owned()),
    }
}
