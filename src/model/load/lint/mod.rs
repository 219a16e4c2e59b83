//! The lints: faults that show only in the model as a whole.
//!
//! Each reads the model and reports at the place of the part it is about. Parts that could not be read are marked
//! broken by the reader and are passed over here.

mod aggregates;
mod attributes;
mod candidates;
mod entities;
mod expiries;
mod listings;
mod places;
mod references;
mod tables;
mod templates;

use std::ops::Range;

use self::templates::key_variables;
use super::rules;
use crate::model::decimal::Decimal;
use crate::model::reader::{Sink, suggest};
use crate::model::rule::Rule;
use crate::model::spec::{Attribute, Condition, Entity, Model};
use crate::model::value::Kind;

/// Judges the whole model.
pub(super) fn run(model: &Model, sink: &mut Sink) {
    let mut lint = Lint { model, sink };
    tables::check(&mut lint);
    attributes::check(&mut lint);
    entities::check(&mut lint);
    references::check(&mut lint);
    aggregates::check(&mut lint);
    listings::check(&mut lint);
    expiries::check(&mut lint);
    places::check(&mut lint);
}

/// A model under judgement and where to report.
struct Lint<'m, 's, 't> {
    model: &'m Model,
    sink: &'s mut Sink<'t>,
}

impl<'m> Lint<'m, '_, '_> {
    fn fault(&mut self, rule: &Rule, span: Range<usize>, message: String, remedy: impl Into<String>) {
        self.sink.fault(rule, span, message, remedy);
    }

    /// The entity that a part is of; a fault, once, if the file has none of that name.
    fn entity_of(&mut self, kind: &str, name: &str, of: &str) -> Option<&'m Entity> {
        if self.sink.is_broken(&[kind, name]) {
            return None;
        }
        let entity = self.model.entity(of);
        if entity.is_none() {
            let span = self.sink.value_span(&[kind, name, "of"]);
            let remedy = suggest::remedy(of, self.model.entities.iter().map(|entity| entity.name.as_str()));
            self.fault(&rules::UNKNOWN_ENTITY, span, format!("there is no entity `{of}`"), remedy);
        }
        entity
    }

    /// True if the entity's keys were read, so that its variables are known.
    fn is_whole(&self, entity: &Entity) -> bool {
        !self.sink.is_broken(&["entity", &entity.name])
    }

    /// True if the name may be one of what could not be read of the entity: then nothing is said about it.
    fn may_be_unread(&self, entity: &Entity, name: &str) -> bool {
        self.sink.may_name(&["entity", &entity.name], name)
    }

    /// False where the attribute's option could not be read: what it would have said is not known.
    fn knows(&self, entity: &Entity, attribute: &Attribute, option: &str) -> bool {
        !self.sink.is_faulty(&["entity", &entity.name, "attribute", &attribute.name, option])
    }

    /// False where the attribute's type could not be read: then nothing is said about it.
    fn knows_type(&self, entity: &Entity, attribute: &Attribute) -> bool {
        !self.sink.is_broken(&["entity", &entity.name, "attribute", &attribute.name])
    }

    /// The declared attribute; a fault at `span` if there is none.
    fn attribute_of(&mut self, entity: &'m Entity, name: &str, span: Range<usize>) -> Option<&'m Attribute> {
        let attribute = entity.attribute(name);
        if attribute.is_none() && !self.may_be_unread(entity, name) {
            let message = format!("entity `{}` declares no attribute `{name}`", entity.name);
            let remedy = suggest::remedy(name, entity.attributes.iter().map(|attribute| attribute.name.as_str()));
            self.fault(&rules::UNKNOWN_ATTRIBUTE, span, message, remedy);
        }
        attribute
    }

    /// A fault at `span` if the name is neither an attribute nor a key variable of the entity.
    fn demand_name(&mut self, entity: &Entity, name: &str, span: Range<usize>) {
        let variables = key_variables(entity);
        if entity.attribute(name).is_some() || variables.contains(name) || self.may_be_unread(entity, name) {
            return;
        }
        let known: Vec<&str> = variables.into_iter().chain(entity.attributes.iter().map(|a| a.name.as_str())).collect();
        let message = format!("`{name}` is neither an attribute nor a key variable of `{}`", entity.name);
        self.fault(&rules::UNKNOWN_ATTRIBUTE, span, message, suggest::remedy(name, known.iter().copied()));
    }

    /// A fault unless the attribute's type is one of `kinds`.
    fn demand_kind(&mut self, entity: &Entity, attribute: &Attribute, kinds: &[Kind], span: Range<usize>, what: &str) {
        if self.knows_type(entity, attribute) && !kinds.contains(&attribute.kind) {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            let message = format!("`{}` is of type {} and cannot be {what}", attribute.name, attribute.kind.name());
            self.fault(&rules::TYPE_UNFIT, span, message, format!("use an attribute of type {}", names.join(", ")));
        }
    }

    /// The conditions of a `when` or `match` under `path`: each can hold, by the entity's own declarations.
    fn check_conditions(&mut self, path: &[&str], conditions: &[Condition], entity: &'m Entity, never: &Rule) {
        for condition in conditions {
            let mut path = path.to_vec();
            path.push(&condition.attribute);
            let Some(attribute) = entity.attribute(&condition.attribute) else {
                let matched = entity.matches.iter().any(|other| other.attribute == condition.attribute);
                if !matched {
                    let span = self.sink.key_span(&path);
                    self.demand_name(entity, &condition.attribute, span);
                }
                continue;
            };
            let span = self.sink.value_span(&path);
            self.demand_kind(entity, attribute, &[Kind::S, Kind::N, Kind::Bool], span, "compared");
            for value in &condition.values {
                self.check_value(&path, value, entity, attribute, never);
            }
        }
    }

    fn check_value(&mut self, path: &[&str], value: &str, entity: &Entity, attribute: &Attribute, never: &Rule) {
        let Some(why) = impossible(value, attribute) else { return };
        let is_known = self.knows(entity, attribute, "one_of") && self.knows(entity, attribute, "none");
        if is_known && self.knows_type(entity, attribute) {
            let span = self.sink.within(path, value);
            let message = format!("`{}` is never `{value}`: {why}", attribute.name);
            let remedy = match attribute.one_of.is_empty() {
                true => "use a value that the attribute can have".to_owned(),
                false => suggest::remedy(value, attribute.one_of.iter().map(String::as_str)),
            };
            self.fault(never, span, message, remedy);
        }
    }
}

/// Why the attribute cannot have the value by its declaration.
fn impossible(value: &str, attribute: &Attribute) -> Option<&'static str> {
    if attribute.none.iter().any(|none| none == value) {
        return Some("it stands for none");
    }
    if !attribute.one_of.is_empty() && !attribute.one_of.iter().any(|declared| declared == value) {
        return Some("it is not in its `one_of`");
    }
    match attribute.kind {
        Kind::N if value.parse::<Decimal>().is_err() => Some("it is a number"),
        Kind::Bool if value != "true" && value != "false" => Some("it is true or false"),
        _ => None,
    }
}
