//! References: a key that the other item can have, and copies that can be equal.

use super::templates::{self, Use};
use super::{Lint, entities, rules};
use crate::model::load::overlap::can_meet;
use crate::model::reader::suggest;
use crate::model::spec::{Entity, Reference};
use crate::model::template::Template;

pub(super) fn check(lint: &mut Lint) {
    let model = lint.model;
    for entity in &model.entities {
        for reference in &entity.references {
            let others = others(lint, entity, reference);
            let path = ["entity", &entity.name, "reference", &reference.name];
            lint.check_conditions(&at(entity, reference, "when"), &reference.when, entity, &rules::NEVER_TRUE);
            if !lint.sink.is_broken(&path) {
                check_options(lint, entity, reference);
                check_key(lint, entity, reference, &others);
            }
            check_copies(lint, entity, reference, &others);
        }
    }
}

/// The path of one of the reference's options.
fn at<'p>(entity: &'p Entity, reference: &'p Reference, option: &'p str) -> [&'p str; 5] {
    ["entity", &entity.name, "reference", &reference.name, option]
}

/// The entities that the reference names; a fault for each that is not there.
fn others<'m>(lint: &mut Lint<'m, '_, '_>, entity: &Entity, reference: &Reference) -> Vec<&'m Entity> {
    let model = lint.model;
    let mut others = Vec::new();
    for to in &reference.to {
        let other = model.entity(to);
        if other.is_none() {
            let span = lint.sink.within(&at(entity, reference, "to"), to);
            let remedy = suggest::remedy(to, model.entities.iter().map(|entity| entity.name.as_str()));
            lint.fault(&rules::UNKNOWN_ENTITY, span, format!("there is no entity `{to}`"), remedy);
        }
        others.extend(other);
    }
    others
}

fn check_options(lint: &mut Lint, entity: &Entity, reference: &Reference) {
    let [key, with, copies] = ["key", "with", "copies"].map(|option| at(entity, reference, option));
    if lint.sink.has(&key) && lint.sink.has(&with) {
        let span = lint.sink.key_span(&with);
        let message = format!("`with` of reference `{}` stands beside `key`", reference.name);
        lint.fault(&rules::REFERENCE_OPTION, span, message, "keep `key`, which says all of it, or `with` alone");
    }
    if lint.model.table.sort_key.is_some() && reference.sort.is_none() && !reference.copies.is_empty() {
        let span = lint.sink.key_span(&copies);
        let message = format!(
            "reference `{}` names no sort key, so that it may mean several items and there is no one master",
            reference.name
        );
        lint.fault(&rules::REFERENCE_OPTION, span, message, "add the sort key to `key`, or drop `copies`");
    }
}

fn check_key<'m>(lint: &mut Lint<'m, '_, '_>, entity: &'m Entity, reference: &'m Reference, others: &[&'m Entity]) {
    let table = &lint.model.table;
    let path = at(entity, reference, "key");
    let is_written = lint.sink.has(&path);
    let sort = table.sort_key.as_ref().zip(reference.sort.as_ref());
    for (key, template) in std::iter::once((&table.partition_key, &reference.partition)).chain(sort) {
        let path = [&path[..], &[&key.name]].concat();
        if is_written || all_known(lint, entity, reference, template, others) {
            templates::check(lint, &path, template, entity, Use::Derived);
            entities::check_key_type(lint, &path, template, entity, key.kind);
        }
    }
    for other in others {
        check_fit(lint, entity, reference, other);
    }
}

/// Some item of the other entity can have the key.
fn check_fit(lint: &mut Lint, entity: &Entity, reference: &Reference, other: &Entity) {
    if lint.sink.is_faulty(&["delimiter"]) || !lint.is_whole(other) {
        return;
    }
    let meet = |own: &Template, theirs: &Template| can_meet(own, theirs, &lint.model.delimiter);
    let sorts = reference.sort.as_ref().zip(other.sort.as_ref()).is_none_or(|(own, theirs)| meet(own, theirs));
    if sorts && meet(&reference.partition, &other.partition) {
        return;
    }
    let key = at(entity, reference, "key");
    let span = match lint.sink.has(&key) {
        true => lint.sink.value_span(&key),
        false => lint.sink.within(&at(entity, reference, "to"), &other.name),
    };
    let own = shown(&reference.partition, reference.sort.as_ref());
    let theirs = shown(&other.partition, other.sort.as_ref());
    let message = format!("no key of `{}` is written {own}", other.name);
    lint.fault(&rules::REFERENCE_KEY, span, message, format!("its keys are written {theirs}"));
}

fn shown(partition: &Template, sort: Option<&Template>) -> String {
    let parts = std::iter::once(partition).chain(sort);
    parts.map(|template| format!("`{template}`")).collect::<Vec<_>>().join(" / ")
}

/// True if the names that the other entity's key needs are there; a fault, at `to`, for each that is not.
fn all_known(lint: &mut Lint, entity: &Entity, reference: &Reference, template: &Template, others: &[&Entity]) -> bool {
    let known = templates::key_variables(entity);
    let mut all = true;
    for variable in template.variables() {
        let name = variable.name.as_str();
        if entity.attribute(name).is_some() || known.contains(name) {
            continue;
        }
        all = false;
        if lint.may_be_unread(entity, name) {
            continue;
        }
        let with = at(entity, reference, "with");
        let given = lint.sink.within(&with, name);
        let message = format!("`{name}` is neither an attribute nor a key variable of `{}`", entity.name);
        let other = others.first().map_or("the other entity", |other| &other.name);
        match lint.sink.has(&with) && given != lint.sink.value_span(&with) {
            true => {
                let names: Vec<&str> =
                    known.iter().copied().chain(entity.attributes.iter().map(|a| a.name.as_str())).collect();
                lint.fault(&rules::UNKNOWN_VARIABLE, given, message, suggest::remedy(name, names.iter().copied()));
            }
            false => {
                let span = lint.sink.value_span(&at(entity, reference, "to"));
                let message = format!("{message}, and the key of `{other}` needs it");
                let remedy = format!("say what stands for it: `with = {{ {name} = \"...\" }}`, or write `key`");
                lint.fault(&rules::UNKNOWN_VARIABLE, span, message, remedy);
            }
        }
    }
    all
}

/// Copies and masters are declared, and of one type.
fn check_copies<'m>(lint: &mut Lint<'m, '_, '_>, entity: &'m Entity, reference: &'m Reference, others: &[&'m Entity]) {
    let path = at(entity, reference, "copies");
    for copy in &reference.copies {
        let is_listed = !lint.sink.has(&[&path[..], &[&copy.own]].concat());
        let pair = [&path[..], &[&copy.own]].concat();
        let (own_at, master_at) = match is_listed {
            true => (lint.sink.within(&path, &copy.own), lint.sink.within(&path, &copy.master)),
            false => (lint.sink.key_span(&pair), lint.sink.value_span(&pair)),
        };
        let own = lint.attribute_of(entity, &copy.own, own_at);
        for other in others {
            let Some(master) = lint.attribute_of(other, &copy.master, master_at.clone()) else { continue };
            let Some(own) = own.filter(|own| lint.knows_type(entity, own) && lint.knows_type(other, master)) else {
                continue;
            };
            if own.kind != master.kind {
                let (own_kind, kind) = (own.kind.name(), master.kind.name());
                let message = format!(
                    "`{}` is of type {own_kind}, its master `{}` of `{}` of type {kind}",
                    copy.own, copy.master, other.name
                );
                lint.fault(&rules::COPY_TYPE, master_at.clone(), message, "declare one type for both");
            }
        }
    }
}
