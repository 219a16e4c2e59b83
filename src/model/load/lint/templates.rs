//! What every template must keep, whatever it is a template of.

use std::collections::BTreeSet;

use super::{Lint, rules};
use crate::model::decimal::Decimal;
use crate::model::reader::suggest;
use crate::model::spec::{Attribute, Entity};
use crate::model::template::{Pad, Segment, Template, Variable};
use crate::model::value::Kind;

/// What a template is for, which decides what it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// A key of the source item itself: its variables are declared by being there.
    Source,
    /// A key of a derived item: its variables come from the source item.
    Derived,
    /// A text for people.
    Message,
}

/// Variables of the entity's keys that are no declared attributes.
pub(super) fn key_variables(entity: &Entity) -> BTreeSet<&str> {
    let indexes = entity.indexes.iter().flat_map(|index| index.keys.iter().map(|(_, template)| template));
    [Some(&entity.partition), entity.sort.as_ref()]
        .into_iter()
        .flatten()
        .chain(indexes)
        .flat_map(Template::variables)
        .map(|variable| variable.name.as_str())
        .filter(|name| entity.attribute(name).is_none())
        .collect()
}

/// Reports what is wrong with the template that stands at `path`.
pub(super) fn check<'m>(
    lint: &mut Lint<'m, '_, '_>,
    path: &[&str],
    template: &Template,
    entity: &'m Entity,
    usage: Use,
) {
    for variable in template.variables() {
        match entity.attribute(&variable.name) {
            Some(attribute) => check_attribute(lint, path, variable, entity, attribute),
            None => check_variable(lint, path, variable, entity, usage),
        }
    }
    if usage != Use::Message {
        check_neighbours(lint, path, template);
    }
}

/// Where the variable stands in the template.
pub(super) fn place(lint: &Lint, path: &[&str], variable: &Variable) -> std::ops::Range<usize> {
    let open = lint.sink.within(path, &format!("{{{}}}", variable.name));
    if open != lint.sink.value_span(path) { open } else { lint.sink.within(path, &format!("{{{}:", variable.name)) }
}

fn check_variable(lint: &mut Lint, path: &[&str], variable: &Variable, entity: &Entity, usage: Use) {
    let known = key_variables(entity);
    if usage != Use::Source && !known.contains(variable.name.as_str()) && !lint.may_be_unread(entity, &variable.name) {
        let all: Vec<&str> = known.into_iter().chain(entity.attributes.iter().map(|a| a.name.as_str())).collect();
        let message = format!("`{}` is neither an attribute nor a key variable of `{}`", variable.name, entity.name);
        let remedy = suggest::remedy(&variable.name, all.iter().copied());
        let span = place(lint, path, variable);
        lint.fault(&rules::UNKNOWN_VARIABLE, span, message, remedy);
    }
    if variable.ordinal && !lint.may_be_unread(entity, &variable.name) {
        let message = format!("`{}` has no declared set, so it has no ordinal", variable.name);
        let remedy = format!("declare `attribute.{}` with `one_of`", variable.name);
        let span = place(lint, path, variable);
        lint.fault(&rules::TYPE_UNFIT, span, message, remedy);
    }
}

fn check_attribute(lint: &mut Lint, path: &[&str], variable: &Variable, entity: &Entity, attribute: &Attribute) {
    let is_bare = !variable.ordinal && variable.pad.is_none() && variable.time.is_none();
    if is_bare && matches!(attribute.kind, Kind::S | Kind::N | Kind::Bool) {
        return;
    }
    let span = place(lint, path, variable);
    if variable.ordinal && attribute.one_of.is_empty() && lint.knows(entity, attribute, "one_of") {
        let message = format!("`{}` has no `one_of`, so it has no ordinal", attribute.name);
        lint.fault(&rules::TYPE_UNFIT, span.clone(), message, "declare the set in its order, or drop `ordinal`");
    }
    if !lint.knows_type(entity, attribute) {
        return;
    }
    lint.demand_kind(entity, attribute, &[Kind::S, Kind::N, Kind::Bool], span.clone(), "written as text");
    if let Some(pad) = variable.pad {
        match attribute.kind {
            Kind::N => check_pad(lint, span, entity, attribute, pad),
            _ => lint.demand_kind(entity, attribute, &[Kind::N], span, "padded with zeros"),
        }
    } else if variable.time.is_some() {
        lint.demand_kind(entity, attribute, &[Kind::S], span, "a time in a key");
    }
}

/// The padding holds every number that the attribute allows.
fn check_pad(lint: &mut Lint, span: std::ops::Range<usize>, entity: &Entity, attribute: &Attribute, pad: Pad) {
    let name = &attribute.name;
    match &attribute.min {
        Some(min) if min.is_negative() => {
            let message = format!("`{name}` may be negative (min {min}), which a padded key cannot hold");
            lint.fault(&rules::PAD_RANGE, span.clone(), message, "set `min = 0`, or leave it out of the key");
        }
        Some(_) => {}
        None if !lint.knows(entity, attribute, "min") => {}
        None => {
            let message = format!("`{name}` has no `min`; a negative value could not be written into the key");
            lint.fault(&rules::PAD_UNBOUNDED, span.clone(), message, "declare `min = 0`");
        }
    }
    if let Some(max) = &attribute.max
        && integer_digits(max) > pad.integer
    {
        let message = format!("`{name}` may be {max}, which does not fit {} digits", pad.integer);
        lint.fault(&rules::PAD_RANGE, span, message, format!("pad to {} digits, or lower `max`", integer_digits(max)));
    }
}

fn integer_digits(number: &Decimal) -> usize {
    let plain = number.to_plain();
    plain.trim_start_matches('-').split('.').next().map_or(0, str::len)
}

fn check_neighbours(lint: &mut Lint, path: &[&str], template: &Template) {
    for pair in template.segments.windows(2) {
        if let [Segment::Variable(left), Segment::Variable(right)] = pair {
            let span = place(lint, path, right);
            let message = format!("`{}` and `{}` stand side by side", left.name, right.name);
            let remedy = format!("put a literal between them, for example `{}`", lint.model.delimiter);
            lint.fault(&rules::AMBIGUOUS, span, message, remedy);
        }
    }
}
