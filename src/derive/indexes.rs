//! Index keys against their templates: G201 to G205.
//!
//! Two passes, because a variable that one index's key needs may be known only from another's: first every key that is
//! there is read, then each index is judged.

use crate::model::spec::{Condition, EntityIndex, Index, KeyAttribute};
use crate::model::template::Template;
use crate::model::value::Value;

use super::findings::{Findings, shown};
use super::render::RenderFault;
use super::rules::a309::LeftOut;
use super::rules::{a304, a309, g201, g202, g203, g204, g205, k104, s406};
use super::scope::{Reading, Scope};
use crate::model::template::FormatError;

/// One key attribute of an index that the entity declares.
pub(super) struct Slot<'a> {
    pub(super) attribute: &'a KeyAttribute,
    pub(super) is_sort: bool,
    pub(super) template: &'a Template,
    pub(super) actual: Option<&'a Value>,
    /// Missing where there is no value, or one that cannot be indexed, or one that should not be there.
    pub(super) reading: Option<Reading>,
}

pub(super) struct Judged<'a> {
    pub(super) index: &'a Index,
    pub(super) declared: &'a EntityIndex,
    /// The condition of a sparse index holds.
    pub(super) wanted: bool,
    pub(super) slots: Vec<Slot<'a>>,
}

pub fn check(scope: &mut Scope<'_>, findings: &mut Findings<'_>) {
    let (entity, table) = (scope.entity, &scope.model.table);
    let mut judged = Vec::new();
    for declared in &entity.indexes {
        if let Some(index) = table.index(&declared.index) {
            judged.push(read(scope, declared, index));
        }
    }
    for index in &judged {
        match index.wanted {
            true => wanted(scope, index, findings),
            false => unwanted(scope, index, findings),
        }
    }
    let is_declared = |index: &&Index| entity.indexes.iter().any(|declared| declared.index == index.name);
    for index in table.indexes.iter().filter(|index| !is_declared(index)) {
        stray(scope, index, findings);
    }
}

pub(super) fn read<'a>(scope: &mut Scope<'a>, declared: &'a EntityIndex, index: &'a Index) -> Judged<'a> {
    let wanted = scope.holds(&declared.when);
    let mut slots = Vec::new();
    for (name, template) in &declared.keys {
        let Some(attribute) = index.attributes().find(|attribute| attribute.name == *name) else { continue };
        let actual = scope.item.get(name);
        let reading = actual
            .filter(|value| wanted && value.kind() == attribute.kind && value.size() > 0)
            .map(|value| scope.read(template, value));
        let is_sort = index.sort.iter().any(|sort| sort.name == *name);
        slots.push(Slot { attribute, is_sort, template, actual, reading });
    }
    Judged { index, declared, wanted, slots }
}

/// The item belongs in this index.
fn wanted(scope: &Scope<'_>, judged: &Judged<'_>, findings: &mut Findings<'_>) {
    let (index, slots) = (judged.index.name.as_str(), &judged.slots);
    let is_present = |slot: &&Slot<'_>| slot.actual.is_some();
    let present: Vec<&str> = slots.iter().filter(is_present).map(|slot| slot.attribute.name.as_str()).collect();
    let absent: Vec<&Slot<'_>> = slots.iter().filter(|slot| slot.actual.is_none()).collect();
    if present.is_empty() {
        should_be_present(scope, judged, findings);
        return;
    }
    if let Some(first) = absent.first() {
        let expected = scope.expected(first.template, first.attribute.kind).ok().map(|value| shown(&value));
        let names: Vec<&str> = absent.iter().map(|slot| slot.attribute.name.as_str()).collect();
        g202::found(index, &present, &names, expected, findings);
    }
    for slot in slots {
        let Some(actual) = slot.actual else { continue };
        if !g205::check(index, slot.attribute, slot.is_sort, actual, findings)
            && let Some(reading) = &slot.reading
        {
            disagreement(scope, index, slot, actual, reading, findings);
        }
    }
}

fn disagreement(
    scope: &Scope<'_>,
    index: &str,
    slot: &Slot<'_>,
    actual: &Value,
    reading: &Reading,
    findings: &mut Findings<'_>,
) {
    let (at, template) = (slot.attribute.name.as_str(), slot.template);
    match reading {
        Reading::Agrees => {}
        Reading::TwoValues { expected, .. } | Reading::Differs { expected: Some(expected) }
            if s406::is_broken(template, actual, expected) =>
        {
            s406::found(scope.entity, Some(index), at, template, (actual, expected), findings);
        }
        Reading::Differs { expected } => g201::found(index, at, template, actual, expected.as_ref(), findings),
        Reading::TwoValues { name, expected, .. } if in_primary_key(scope, name) => {
            g201::found(index, at, template, actual, Some(expected), findings);
        }
        // Both values come from index keys: which of them is wrong, the item does not tell.
        Reading::TwoValues { name, known, found, expected } => {
            k104::found(scope.entity, at, (name, known, found), (actual, expected), findings);
        }
        Reading::Unrendered(RenderFault::Absent { name }) => {
            if !is_required(scope, name) {
                let because = format!("its key is made of `{name}`, which the item does not have");
                g203::found(index, &[(at, actual)], &because, findings);
            }
        }
        Reading::Unrendered(RenderFault::Format { error: fault @ FormatError::Time { .. }, .. }) => {
            a304::in_key(Some(index), at, actual, fault, findings);
        }
        Reading::Unrendered(fault) => {
            a309::found(
                LeftOut { kind: "index", name: index },
                Some(at),
                Some(shown(actual)),
                &fault.to_string(),
                findings,
            );
        }
    }
}

/// None of the key attributes is there, though the item belongs in the index.
fn should_be_present(scope: &Scope<'_>, judged: &Judged<'_>, findings: &mut Findings<'_>) {
    let index = judged.index.name.as_str();
    let mut expected = Vec::new();
    for slot in &judged.slots {
        let name = slot.attribute.name.as_str();
        match scope.expected(slot.template, slot.attribute.kind) {
            Ok(value) => expected.push((name, shown(&value))),
            Err(RenderFault::Unbound { .. }) => expected.push((name, slot.template.source.clone())),
            // An optional attribute that is not there keeps the item out of the index by nature; a required one is A301's.
            Err(RenderFault::Absent { .. }) => return,
            Err(fault) => {
                a309::found(LeftOut { kind: "index", name: index }, Some(name), None, &fault.to_string(), findings);
                return;
            }
        }
    }
    let holding: Vec<String> = judged.declared.when.iter().map(|condition| is(scope, condition)).collect();
    g204::found(index, &expected, &holding.join(" and "), findings);
}

/// `` `State` is `open` ``: what a condition looks at.
fn is(scope: &Scope<'_>, condition: &Condition) -> String {
    let name = &condition.attribute;
    match scope.value(name).ok().or_else(|| scope.item.get(name)) {
        Some(value) => format!("`{name}` is `{}`", shown(value)),
        None => format!("`{name}` is absent"),
    }
}

/// The item does not belong in this index, by the condition.
fn unwanted(scope: &Scope<'_>, judged: &Judged<'_>, findings: &mut Findings<'_>) {
    let present: Vec<(&str, &Value)> =
        judged.slots.iter().filter_map(|slot| Some((slot.attribute.name.as_str(), slot.actual?))).collect();
    if present.is_empty() {
        return;
    }
    let is_in_index = present.len() == judged.slots.len();
    let failing = judged.declared.when.iter().find(|condition| !scope.holds(std::slice::from_ref(*condition)));
    let because =
        failing.map(|condition| format!("{}, not `{}`", is(scope, condition), condition.values.join("` or `")));
    not_there(scope, judged.index, &present, is_in_index, &because.unwrap_or_default(), findings);
}

/// The item's entity does not have this index.
fn stray(scope: &Scope<'_>, index: &Index, findings: &mut Findings<'_>) {
    let item = scope.item;
    let present: Vec<(&str, &Value)> =
        index.attributes().filter_map(|key| Some((key.name.as_str(), item.get(&key.name)?))).collect();
    if present.is_empty() {
        return;
    }
    let is_in_index = present.len() == index.attributes().count();
    let because = format!("{} does not have that index", scope.entity.name);
    not_there(scope, index, &present, is_in_index, &because, findings);
}

/// Key attributes that serve nothing else are a finding; those that are declared attributes too only if the item is in the index
/// by them. The primary key, and another index's keys, are there for their own reasons.
fn not_there(
    scope: &Scope<'_>,
    index: &Index,
    present: &[(&str, &Value)],
    is_in_index: bool,
    because: &str,
    findings: &mut Findings<'_>,
) {
    let own_reason = |name: &str| is_primary_key(scope, name) || in_other_index(scope, index, name);
    let is_declared = |name: &str| scope.entity.attribute(name).is_some();
    let own: Vec<(&str, &Value)> = present.iter().copied().filter(|(name, _)| !own_reason(name)).collect();
    let removable: Vec<(&str, &Value)> = own.iter().copied().filter(|(name, _)| !is_declared(name)).collect();
    // Without one of its keys the item leaves the index: of declared attributes the first will do.
    let by_attribute = if is_in_index { own.into_iter().take(1).collect() } else { Vec::new() };
    let unwanted = if removable.is_empty() { by_attribute } else { removable };
    g203::found(&index.name, &unwanted, because, findings);
}

pub fn is_primary_key(scope: &Scope<'_>, name: &str) -> bool {
    let table = &scope.model.table;
    table.partition_key.name == name || table.sort_key.as_ref().is_some_and(|key| key.name == name)
}

pub(super) fn in_other_index(scope: &Scope<'_>, index: &Index, name: &str) -> bool {
    let holds_key = |declared: &&EntityIndex| declared.keys.iter().any(|(key, _)| key == name);
    let others = scope.entity.indexes.iter().filter(|declared| declared.index != index.name);
    others.filter(holds_key).any(|declared| scope.holds(&declared.when))
}

pub(super) fn in_primary_key(scope: &Scope<'_>, variable: &str) -> bool {
    let templates = std::iter::once(&scope.entity.partition).chain(&scope.entity.sort);
    templates.into_iter().flat_map(Template::variables).any(|other| other.name == variable)
}

pub(super) fn is_required(scope: &Scope<'_>, name: &str) -> bool {
    scope.entity.attribute(name).is_some_and(|attribute| attribute.required)
}
