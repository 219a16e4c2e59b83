//! What would mend an item: requests that its owner may send, and never sent from here.
//!
//! The problem: a patch that is nearly right makes a table worse, and a table changes between the audit and the patch. The answer:
//! only what follows from the item itself and the model is proposed (an index key from the attributes that it is made of, a
//! declared value that was miswritten, seconds for milliseconds); each request has a condition on every value that it rests on; and
//! the mended item is derived before it is proposed.
//!
//! Contract of [`suggest`]: the item as a patch leaves it has none of the findings that the patch says it mends, and none that
//! the item did not have before. One update an item holds all that is safe to mend. A wrong primary key is a put and a delete in one
//! transaction, and never safe: who else knows the old key cannot be seen from here. Each finding that no patch mends is
//! in [`Suggestion::left`], with the reason.

pub mod request;

mod indexes;
mod primary;
mod times;
mod values;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::derived::Finding;
use crate::model::key::TableKey;
use crate::model::spec::{Entity, Model};
use crate::model::value::{Item, Text, Value};

use request::Request;

use super::{judge, with_key};

/// All that can be said about mending one item.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion<'f> {
    /// At most one update, and one move to another key. They exclude each other: each has a condition on values that the other
    /// changes.
    pub patches: Vec<Patch>,
    /// The findings that no patch mends.
    pub left: Vec<Left<'f>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    /// False where more can hang on it than the item shows.
    pub safe: bool,
    /// Codes of the findings that are gone afterwards, each once.
    pub mends: Vec<String>,
    /// What to know before sending it.
    pub reason: Option<&'static str>,
    pub request: Request,
}

/// A finding that no patch mends.
#[derive(Debug, Clone, PartialEq)]
pub struct Left<'f> {
    pub finding: &'f Finding,
    pub reason: String,
}

/// Code and attribute, which tell the findings of one item apart.
type Place = (String, Option<String>);

fn place(finding: &Finding) -> Place {
    (finding.code.clone(), finding.attribute.clone())
}

/// A change and what it rests on.
#[derive(Debug, Clone, Default)]
struct Edit {
    /// Attributes that are set; those with `None` are removed.
    changes: BTreeMap<Text, Option<Value>>,
    /// Attributes of the item as it was, there or not, without which the change would not be right.
    rests_on: BTreeSet<Text>,
}

impl Edit {
    /// One attribute's value, which follows from what it was.
    fn of(name: &str, value: Option<Value>) -> Edit {
        Edit { changes: BTreeMap::from([(name.into(), value)]), ..Edit::default() }
    }
}

/// An item on its way to be mended.
#[derive(Debug, Clone)]
struct Draft<'m> {
    model: &'m Model,
    key: TableKey,
    item: Item,
    entity: Option<&'m Entity>,
    /// All findings that it has now.
    places: BTreeSet<Place>,
    rests_on: BTreeSet<Text>,
}

impl<'m> Draft<'m> {
    fn of(model: &'m Model, key: TableKey, item: Item, rests_on: BTreeSet<Text>) -> Draft<'m> {
        let (entity, places) = {
            let item = with_key(model, &key, &item);
            let (entity, _, _, findings) = judge(model, &key, &item);
            let owned = |(code, attribute): (&str, Option<&str>)| (code.to_owned(), attribute.map(str::to_owned));
            (entity.map(|entity| entity.name.clone()), findings.places().map(owned).collect())
        };
        Draft { entity: entity.and_then(|name| model.entity(&name)), model, key, item, places, rests_on }
    }

    fn with(&self, edit: &Edit) -> Draft<'m> {
        let mut item = self.item.clone();
        for (name, value) in &edit.changes {
            match value {
                Some(value) => item.insert(name.clone(), value.clone()),
                None => {
                    item.0.remove(name);
                }
            }
        }
        let rests_on = self.rests_on.union(&edit.rests_on).cloned().collect();
        Draft::of(self.model, self.key.clone(), item, rests_on)
    }

    /// True if a finding is about the attribute or variable of that name.
    fn is_in_doubt(&self, name: &str) -> bool {
        self.places.iter().any(|(_, attribute)| attribute.as_deref() == Some(name))
    }

    /// The codes of the findings of `before` that are gone.
    fn mended_since(&self, before: &Draft<'_>) -> Vec<String> {
        let gone = before.places.difference(&self.places).map(|(code, _)| code.clone());
        gone.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Which findings are to be mended, and how the item was.
struct Task<'m> {
    before: Draft<'m>,
    wanted: BTreeSet<Place>,
}

impl<'m> Task<'m> {
    /// The draft with the edit and all that follows from it in the item's index keys; why not, where it would do harm or no good.
    fn try_edit(&self, draft: &Draft<'m>, edit: &Edit, place: &Place) -> Result<Draft<'m>, String> {
        let mut trial = indexes::settle(self, draft.with(edit)).0;
        // An item whose entity was not known now shows what else is wrong with it.
        let shown: Vec<Place> = trial.places.difference(&self.before.places).cloned().collect();
        for place in &shown {
            if let Some(Ok(edit)) = values::candidate(&trial, place) {
                let next = indexes::settle(self, trial.with(&edit)).0;
                if next.places.is_subset(&trial.places) && !next.places.contains(place) {
                    trial = next;
                }
            }
        }
        if let Some((code, attribute)) = trial.places.difference(&self.before.places).next() {
            let of = attribute.as_ref().map(|name| format!(" of `{name}`")).unwrap_or_default();
            return Err(format!("mending it would bring {code}{of}"));
        }
        match trial.places.contains(place) {
            true => Err("the value that would be right is not certain".to_owned()),
            false => Ok(trial),
        }
    }
}

/// What would mend these findings of the item, which [`super::derive()`] has found.
pub fn suggest<'f>(model: &Model, key: &TableKey, item: &Item, findings: &'f [Finding]) -> Suggestion<'f> {
    let before = Draft::of(model, key.clone(), item.clone(), BTreeSet::new());
    let task = Task { before, wanted: findings.iter().map(place).collect() };
    let mut draft = task.before.clone();
    let mut reasons: BTreeMap<Place, String> = BTreeMap::new();
    for finding in findings {
        let place = place(finding);
        if !draft.places.contains(&place) {
            continue;
        }
        let tried = match values::candidate(&draft, &place) {
            Some(candidate) => candidate.and_then(|edit| task.try_edit(&draft, &edit, &place)),
            None => continue,
        };
        match tried {
            Ok(mended) => draft = mended,
            Err(reason) => {
                reasons.insert(place, reason);
            }
        }
    }
    let (draft, problems) = indexes::settle(&task, draft);
    reasons.extend(problems);
    let mut patches = Vec::new();
    let mut stays = draft.places.clone();
    match update(&task, &draft) {
        Some(Ok(patch)) => patches.push(patch),
        Some(Err(reason)) => {
            let mended = task.before.places.difference(&draft.places);
            reasons.extend(mended.map(|place| (place.clone(), reason.to_owned())));
            stays = task.before.places.clone();
        }
        None => {}
    }
    match primary::move_to_right_key(&task, &draft) {
        Some(Ok((patch, places))) => {
            patches.push(patch);
            stays = stays.intersection(&places).cloned().collect();
        }
        Some(Err(reason)) => reasons.extend(
            draft.places.iter().filter(|(code, _)| code == primary::CODE).map(|place| (place.clone(), reason.clone())),
        ),
        None => {}
    }
    let left = findings.iter().filter(|finding| stays.contains(&place(finding))).map(|finding| {
        let reason = reasons.remove(&place(finding)).unwrap_or_else(|| values::why_not(&finding.code).to_owned());
        Left { finding, reason }
    });
    Suggestion { left: left.collect(), patches }
}

/// The update from the item as it was to the draft; `None` where nothing changed.
fn update(task: &Task<'_>, draft: &Draft<'_>) -> Option<Result<Patch, &'static str>> {
    let before = &task.before;
    if draft.item == before.item {
        return None;
    }
    let request = match request::update(draft.model, &before.key, &before.item, &draft.item, &rests_on(draft)) {
        Ok(request) => Request::UpdateItem(request),
        Err(reason) => return Some(Err(reason)),
    };
    // DynamoDB acts on the attribute from then on.
    let ttl = draft.model.table.ttl.as_deref();
    let expires = ttl.is_some_and(|name| before.item.get(name) != draft.item.get(name));
    let reason = expires.then_some("DynamoDB deletes the item once its time to live has passed");
    Some(Ok(Patch { safe: true, mends: draft.mended_since(before), reason, request }))
}

/// What the edits rest on, and what makes the item one of its entity.
fn rests_on(draft: &Draft<'_>) -> BTreeSet<Text> {
    let mut names = draft.rests_on.clone();
    if let Some(entity) = draft.entity {
        for condition in &entity.matches {
            names.extend(spellings(entity, &condition.attribute, &draft.item));
        }
    }
    names
}

/// The names under which the item could carry the attribute, up to the one under which it does; of an undeclared one the name.
fn spellings(entity: &Entity, name: &str, item: &Item) -> Vec<Text> {
    let Some(attribute) = entity.attribute(name) else { return vec![name.into()] };
    let all: Vec<&String> = std::iter::once(&attribute.name).chain(&attribute.aliases).collect();
    let carried = all.iter().position(|name| item.get(name).is_some()).map_or(all.len(), |at| at + 1);
    all[..carried].iter().map(|name| name.as_str().into()).collect()
}
