//! Index keys as they should be: all of an index's key attributes at once, so that none is left half mended.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, Edit, Place, Task, spellings};
use crate::derive::indexes::{self, Judged, Slot};
use crate::derive::primary;
use crate::derive::render::{RenderFault, split_template};
use crate::derive::scope::{Scope, key_text};
use crate::model::spec::{Condition, Index};
use crate::model::template::{Template, Variable};
use crate::model::value::Text;

/// Mending one index can make room for the next: few rounds do.
const ROUNDS_MAX: usize = 3;

/// The draft with each index mended that can be, where that mends what is wanted or what the draft's edits have brought; and why
/// not, for the findings about the others' key attributes.
pub fn settle<'m>(task: &Task<'m>, mut draft: Draft<'m>) -> (Draft<'m>, BTreeMap<Place, String>) {
    let is_due = |place: &Place| task.wanted.contains(place) || !task.before.places.contains(place);
    let mut reasons = BTreeMap::new();
    for _ in 0..ROUNDS_MAX {
        reasons.clear();
        let mut is_changed = false;
        for index in &draft.model.table.indexes {
            let reason = match edit(&draft, index) {
                Some(Ok(edit)) => {
                    let trial = draft.with(&edit);
                    let is_better = trial.places.is_subset(&draft.places);
                    if is_better && draft.places.difference(&trial.places).any(&is_due) {
                        draft = trial;
                        is_changed = true;
                        continue;
                    }
                    let new = trial.places.difference(&draft.places).next();
                    new.map(|(code, _)| format!("mending it would bring {code}"))
                }
                Some(Err(reason)) => Some(reason),
                None => None,
            };
            if let Some(reason) = reason {
                let about = |(code, attribute): &&Place| {
                    code.starts_with('G') && index.attributes().any(|key| Some(&key.name) == attribute.as_ref())
                };
                reasons.extend(draft.places.iter().filter(about).map(|place| (place.clone(), reason.clone())));
            }
        }
        if !is_changed {
            break;
        }
    }
    (draft, reasons)
}

/// What the index's key attributes lack of what they should be; `None` where nothing does, or where the keys are not judged.
fn edit(draft: &Draft<'_>, index: &Index) -> Option<Result<Edit, String>> {
    let entity = draft.entity?;
    let mut scope = Scope::new(draft.model, entity, &draft.item);
    primary::read(&mut scope, &draft.key);
    let table = &draft.model.table;
    let declared = entity.indexes.iter().filter_map(|declared| Some((declared, table.index(&declared.index)?)));
    let judged: Vec<Judged<'_>> =
        declared.map(|(declared, index)| indexes::read(&mut scope, declared, index)).collect();
    let keys = Keys { draft, scope: &scope, judged: &judged };
    let edit = match judged.iter().find(|judged| judged.index.name == index.name) {
        Some(judged) if judged.wanted => keys.wanted(judged),
        Some(judged) => keys.unwanted(index, &judged.declared.when),
        None => keys.unwanted(index, &[]),
    };
    match edit {
        Ok(edit) if edit.changes.is_empty() => None,
        other => Some(other),
    }
}

struct Keys<'k, 'a> {
    draft: &'k Draft<'a>,
    scope: &'k Scope<'k>,
    judged: &'k [Judged<'k>],
}

impl Keys<'_, '_> {
    /// The item belongs in the index, or would if it had the attributes that the keys are made of.
    fn wanted(&self, judged: &Judged<'_>) -> Result<Edit, String> {
        let mut edit = Edit::default();
        for slot in &judged.slots {
            let name = slot.attribute.name.as_str();
            match self.scope.expected(slot.template, slot.attribute.kind) {
                Ok(expected) if slot.actual == Some(&expected) => {}
                Ok(expected) => {
                    if self.is_own(name) {
                        return Err(format!("`{name}` is more than a key of the index"));
                    }
                    edit.rests_on.extend(self.sources_of(slot)?);
                    edit.changes.insert(name.into(), Some(expected));
                }
                // An optional attribute that is not there keeps the item out of the index.
                Err(RenderFault::Absent { name }) if !indexes::is_required(self.scope, &name) => {
                    let mut edit = self.unwanted(judged.index, &judged.declared.when)?;
                    edit.rests_on.extend(spellings(self.scope.entity, &name, self.scope.item));
                    return Ok(edit);
                }
                Err(fault) => return Err(fault.to_string()),
            }
        }
        if !edit.changes.is_empty() {
            edit.rests_on.extend(self.conditions(&judged.declared.when)?);
        }
        Ok(edit)
    }

    /// The item does not belong in the index: what serves nothing else is removed.
    fn unwanted(&self, index: &Index, when: &[Condition]) -> Result<Edit, String> {
        let names = index.attributes().map(|key| key.name.as_str());
        let present: Vec<&str> = names.filter(|name| self.scope.item.get(name).is_some()).collect();
        let own = |name: &&str| self.is_own(name) || indexes::in_other_index(self.scope, index, name);
        let removable: Vec<&str> = present.iter().copied().filter(|name| !own(name)).collect();
        if removable.is_empty() && present.len() == index.attributes().count() {
            return Err("its key attributes are needed elsewhere".to_owned());
        }
        let changes = removable.into_iter().map(|name| (name.into(), None)).collect();
        Ok(Edit { changes, rests_on: self.conditions(when)? })
    }

    /// A declared attribute, or the primary key: it does not follow from the index.
    fn is_own(&self, name: &str) -> bool {
        self.scope.entity.attribute(name).is_some() || indexes::is_primary_key(self.scope, name)
    }

    fn sources_of(&self, slot: &Slot<'_>) -> Result<BTreeSet<Text>, String> {
        let mut sources = BTreeSet::new();
        for variable in slot.template.variables() {
            sources.extend(self.sources(&variable.name, Some(slot))?);
        }
        Ok(sources)
    }

    fn conditions(&self, when: &[Condition]) -> Result<BTreeSet<Text>, String> {
        let mut sources = BTreeSet::new();
        for condition in when {
            sources.extend(self.sources(&condition.attribute, None)?);
        }
        Ok(sources)
    }

    /// The attributes that give a name its value; the primary key needs none, as it cannot change. `but_for`: a key that is to be
    /// written, and so cannot be its own witness; against the others it can.
    fn sources(&self, name: &str, but_for: Option<&Slot<'_>>) -> Result<Vec<Text>, String> {
        let is_variable = self.scope.entity.attribute(name).is_none();
        let sources: Vec<Text> = if is_variable && indexes::in_primary_key(self.scope, name) {
            Vec::new()
        } else if is_variable && self.scope.value(name).is_ok() {
            let has = |template: &Template| template.variables().any(|variable| variable.name == name);
            let slots = self.judged.iter().flat_map(|judged| &judged.slots);
            let gives = |slot: &&Slot<'_>| slot.reading.is_some() && has(slot.template);
            let others = slots.filter(gives).map(|slot| slot.attribute.name.as_str());
            let own = but_for.map(|slot| slot.attribute.name.as_str());
            let others: Vec<Text> = others.filter(|key| Some(*key) != own).map(Into::into).collect();
            if others.is_empty() {
                return Err(format!("`{{{name}}}` is known from this key alone"));
            }
            if but_for.is_some_and(|slot| self.contradicts(slot, name)) {
                return Err("which of its keys is right, the item does not tell".to_owned());
            }
            others
        } else {
            spellings(self.scope.entity, name, self.scope.item)
        };
        if let Some(source) =
            sources.iter().map(Text::as_str).chain([name]).find(|source| self.draft.is_in_doubt(source))
        {
            return Err(format!("it depends on `{source}`, which has a finding of its own"));
        }
        Ok(sources)
    }

    /// True if the key, as it is, gives the variable another value than the other keys do.
    fn contradicts(&self, slot: &Slot<'_>, name: &str) -> bool {
        let text = slot.actual.filter(|_| slot.reading.is_some()).and_then(key_text);
        let Some(texts) = text.as_deref().and_then(|text| split_template(slot.template, text)) else { return false };
        let differs = |(variable, text): (&Variable, &str)| {
            variable.name == name && self.scope.written(variable).as_deref() != Some(text)
        };
        slot.template.variables().zip(texts).any(differs)
    }
}
