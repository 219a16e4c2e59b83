//! Floor 1: one item in, everything derived from it out. Pure.
//!
//! The problem: counts, listings, alerts and findings about a table have to be right after any crash, redelivery or change of
//! the model. The answer: all of them are a function of one item and the model, [`derive()`], which reads no clock, asks no
//! database and never fails; keeping them is then only a matter of remembering what was derived last.
//!
//! The way of an item: recognise its entity; read the variables from its keys; check it by the [`rules`]; render what is
//! derived from it. An item whose entity is in doubt (none, several, or a primary key that breaks
//! its template) derives findings only: to count it would be a guess.
//!
//! Invariants: no panic on any input; at most [`findings::FINDINGS_MAX`] findings an item; no two rows of one item share
//! a key; listing keys of different items differ; no derived item has an index's key attribute at its top level.

use std::borrow::Cow;

use crate::model::derived::{Contribution, Derived, Row, RowKind};
use crate::model::key::TableKey;
use crate::model::spec::{Entity, Format, Model};
use crate::model::value::Item;

pub mod decode;
pub mod findings;
pub mod fold;
pub mod identity;
pub mod patch;
pub mod propose;
pub mod references;
pub mod rules;

mod counts;
mod indexes;
mod own;
mod primary;
mod recognise;
mod render;
mod rows;
mod scope;
mod strings;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use fold::Fold;

use findings::{Details, Findings};
use recognise::Recognised;
use rules::{a301, a302, a303, a304, a305, a306, a307, a308, a310, k102, k103};
use scope::{Scope, is_none};

/// Everything derived from one item. Items that Tablekeeper wrote itself derive nothing.
pub fn derive(model: &Model, key: &TableKey, item: &Item) -> Derived {
    if item.is_ours() {
        return Derived::default();
    }
    let item = with_key(model, key, item);
    let (entity, counts, rows, findings) = judge(model, key, &item);
    finish(entity, counts, rows, findings)
}

/// The same, of an item that holds its key, before the findings are cut to [`findings::FINDINGS_MAX`] and become rows themselves.
fn judge<'a>(
    model: &'a Model,
    key: &'a TableKey,
    item: &'a Item,
) -> (Option<&'a Entity>, Vec<Contribution>, Vec<Row>, Findings<'a>) {
    let mut findings = Findings::new(model, key).about(item);
    match recognise::recognise(model, key, item) {
        Recognised::One(entity) => {
            findings.of_entity(Some(&entity.name));
            let (counts, rows) = of_entity(model, entity, key, item, &mut findings);
            return (Some(entity), counts, rows, findings);
        }
        Recognised::None { by_key, by_partition } => {
            k102::found(model, key, item, &by_key, &by_partition, &mut findings);
        }
        Recognised::Several(entities) => k103::found(key, &entities, &mut findings),
    }
    strings::check_raw(key_names(model), key, &model.delimiter, &mut findings);
    (None, Vec::new(), Vec::new(), findings)
}

/// What is derived where the item's content is not known or not storable: one finding of family P9, with its row and totals.
/// `code` is `P901`, `P902` or `P903`; another one counts as `P902`.
pub fn derive_poison(model: &Model, key: &TableKey, code: &'static str, reason: &str) -> Derived {
    let rule = rules::rule(code).unwrap_or(&rules::p902::RULE);
    let what = match rule.code {
        "P901" => "a stream record of this item is malformed",
        "P903" => "the database refused what is derived from this item",
        _ => "the image of this item cannot be decoded",
    };
    let message = format!("{what}: {}; mend the cause, then reconcile", findings::cut(reason));
    let mut findings = Findings::new(model, key);
    findings.push(rule, Details { message, ..Details::default() });
    finish(None, Vec::new(), Vec::new(), findings)
}

/// The same without the sums and squares of values, for an item that would carry a sum over 38 digits; a finding says so.
/// Counts, listings, expiries and the item's other findings stay.
pub fn without_sums(model: &Model, key: &TableKey, derived: &Derived, reason: &str) -> Derived {
    let mut findings = Findings::new(model, key);
    findings.extend(derived.findings.iter().cloned());
    findings.of_entity(derived.entity.as_deref());
    a308::sums(&findings::cut(reason), &mut findings);
    let mut counts = derived.counts.clone();
    counts.retain(|contribution| contribution.aggregate != findings::TOTALS);
    for contribution in &mut counts {
        contribution.measures.retain(|measure, _| !counts::is_sum(measure));
    }
    let rows = derived.rows.iter().filter(|row| row.kind != RowKind::Finding).cloned().collect();
    let entity = derived.entity.as_ref().and_then(|name| model.entity(name));
    Derived { entity: derived.entity.clone(), ..finish(entity, counts, rows, findings) }
}

fn of_entity<'a>(
    model: &'a Model,
    entity: &'a Entity,
    key: &TableKey,
    item: &'a Item,
    findings: &mut Findings<'_>,
) -> (Vec<Contribution>, Vec<Row>) {
    let mut scope = Scope::new(model, entity, item);
    let key_agrees = primary::check(&mut scope, key, findings);
    attributes(&scope, findings);
    if !key_agrees {
        strings::check_raw(key_names(model), key, &model.delimiter, findings);
        return (Vec::new(), Vec::new());
    }
    indexes::check(&mut scope, findings);
    strings::check(&scope, key, findings);
    let counts = counts::contributions(&scope, findings);
    (counts, rows::rows(&scope, key, findings))
}

fn attributes(scope: &Scope<'_>, findings: &mut Findings<'_>) {
    for (attribute, carried) in scope.attributes() {
        a301::check(scope, attribute, carried, findings);
        if let Some(carried) = carried.filter(|(_, value)| !is_none(attribute, value)) {
            for check in [a302::check, a303::check, a304::check, a305::check, a306::check, a307::check] {
                check(attribute, carried, findings);
            }
        }
    }
    if let Some(name) = &scope.model.table.ttl
        && let Some(value) = scope.item.get(name)
        && !scope.entity.attribute(name).is_some_and(|attribute| is_none(attribute, value))
    {
        let is_declared =
            scope.entity.attribute(name).is_some_and(|attribute| attribute.format == Some(Format::EpochSeconds));
        a306::check_value(name, value, !is_declared, findings);
        a310::check(name, value, findings);
    }
}

fn finish(
    entity: Option<&Entity>,
    mut counts: Vec<Contribution>,
    mut rows: Vec<Row>,
    findings: Findings<'_>,
) -> Derived {
    let (findings, finding_rows, totals) = findings.finish();
    counts.extend(totals);
    rows.extend(finding_rows);
    Derived { entity: entity.map(|entity| entity.name.as_str().into()), counts, rows, findings }
}

fn key_names(model: &Model) -> [Option<&str>; 2] {
    let table = &model.table;
    [Some(&table.partition_key.name), table.sort_key.as_ref().map(|key| &key.name)].map(|name| name.map(String::as_str))
}

/// The item with its key's attributes, which an image may lack and templates may name.
fn with_key<'i>(model: &Model, key: &TableKey, item: &'i Item) -> Cow<'i, Item> {
    let [partition, sort] = key_names(model).map(|name| name.and_then(|name| item.get(name)));
    if partition == Some(&key.partition) && sort == key.sort.as_ref() {
        return Cow::Borrowed(item);
    }
    let mut item = item.clone();
    item.0.extend(key.to_item(&model.table.key_names()).0);
    Cow::Owned(item)
}
