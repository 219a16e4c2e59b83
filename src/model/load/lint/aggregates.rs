//! Aggregates: what they group, count and sum, and that a group has exactly one place.

use super::templates::{self, Use, key_variables};
use super::{Lint, entities, rules};
use crate::model::spec::{Aggregate, Entity};
use crate::model::template::Template;
use crate::model::value::Kind;

/// The name under which totals of findings are kept.
const FINDINGS: &str = "findings";
/// The bucket of values outside the declared set.
const OTHER: &str = "Other";

pub(super) fn check(lint: &mut Lint) {
    let model = lint.model;
    for aggregate in &model.aggregates {
        if aggregate.name == FINDINGS {
            let span = lint.sink.key_span(&["aggregate", FINDINGS]);
            let message = format!("`{FINDINGS}` is the aggregate of the findings themselves");
            lint.fault(&rules::RESERVED, span, message, "use another name");
        }
        check_buckets(lint, aggregate);
        if let Some(entity) = lint.entity_of("aggregate", &aggregate.name, &aggregate.of) {
            check_group(lint, aggregate, entity);
            check_measures(lint, aggregate, entity);
            check_key(lint, aggregate, entity);
            let path = ["aggregate", &aggregate.name, "when"];
            lint.check_conditions(&path, &aggregate.when, entity, &rules::NEVER_TRUE);
        }
    }
}

fn check_group<'m>(lint: &mut Lint<'m, '_, '_>, aggregate: &Aggregate, entity: &'m Entity) {
    let path = ["aggregate", &aggregate.name, "group_by"];
    for name in &aggregate.group_by {
        let span = lint.sink.within(&path, name);
        match entity.attribute(name) {
            Some(attribute) => {
                lint.demand_kind(entity, attribute, &[Kind::S, Kind::N, Kind::Bool], span, "a group");
            }
            None => lint.demand_name(entity, name, span),
        }
    }
}

fn check_buckets(lint: &mut Lint, aggregate: &Aggregate) {
    let path = ["aggregate", &aggregate.name, "buckets"];
    let has_count_by = lint.sink.has(&["aggregate", &aggregate.name, "count_by"]);
    if !has_count_by && lint.sink.has(&path) {
        let span = lint.sink.key_span(&path);
        let message = format!("`{}` has `buckets` but no `count_by`", aggregate.name);
        lint.fault(&rules::OPTION_MISPLACED, span, message, "name the attribute whose values are counted apart");
    }
    if aggregate.buckets.iter().any(|bucket| bucket == OTHER) {
        let path = if lint.sink.has(&path) { path } else { ["aggregate", &aggregate.name, "count_by"] };
        let span = lint.sink.within(&path, OTHER);
        let message = format!("the bucket `{OTHER}` counts the values outside the declared set");
        lint.fault(&rules::RESERVED, span, message, "give `buckets` without it, or use another value");
    }
}

fn check_measures<'m>(lint: &mut Lint<'m, '_, '_>, aggregate: &Aggregate, entity: &'m Entity) {
    if let Some(name) = &aggregate.count_by {
        let span = lint.sink.value_span(&["aggregate", &aggregate.name, "count_by"]);
        if let Some(attribute) = lint.attribute_of(entity, name, span.clone()) {
            let kinds = [Kind::S, Kind::N, Kind::Bool];
            lint.demand_kind(entity, attribute, &kinds, span.clone(), "counted by its values");
            let is_known = lint.knows(entity, attribute, "one_of")
                && !lint.sink.is_faulty(&["aggregate", &aggregate.name, "buckets"]);
            if aggregate.buckets.is_empty() && is_known {
                let message = format!("`{name}` has no `one_of`, so its counts have no declared set");
                lint.fault(&rules::NO_BUCKETS, span, message, "declare `one_of` for it, or `buckets` here");
            }
            for bucket in aggregate.buckets.iter().filter(|bucket| *bucket != OTHER) {
                let path = ["aggregate", &aggregate.name, "buckets"];
                lint.check_value(&path, bucket, entity, attribute, &rules::NEVER_TRUE);
            }
        }
    }
    for (key, names) in [("sum", &aggregate.sum), ("sum_squares", &aggregate.sum_squares)] {
        for name in names {
            let span = lint.sink.within(&["aggregate", &aggregate.name, key], name);
            if let Some(attribute) = lint.attribute_of(entity, name, span.clone()) {
                lint.demand_kind(entity, attribute, &[Kind::N], span, "summed");
            }
        }
    }
}

fn check_key<'m>(lint: &mut Lint<'m, '_, '_>, aggregate: &'m Aggregate, entity: &'m Entity) {
    if lint.sink.is_broken(&["aggregate", &aggregate.name, "key"]) {
        return;
    }
    let table = &lint.model.table;
    let sort = aggregate.sort.as_ref().zip(table.sort_key.as_ref()).map(|(template, key)| (&key.name, template));
    let keys: Vec<(&String, &Template)> =
        std::iter::once((&table.partition_key.name, &aggregate.partition)).chain(sort).collect();
    for (key, template) in &keys {
        let path = ["aggregate", &aggregate.name, "key", key];
        templates::check(lint, &path, template, entity, Use::Derived);
        if lint.sink.is_faulty(&["aggregate", &aggregate.name, "group_by"]) {
            continue;
        }
        for variable in template.variables().filter(|variable| !aggregate.group_by.contains(&variable.name)) {
            let span = templates::place(lint, &path, variable);
            let message =
                format!("the key of `{}` uses `{}`, which is not in `group_by`", aggregate.name, variable.name);
            lint.fault(&rules::NOT_GROUPED, span, message, format!("add {:?} to `group_by`", variable.name));
        }
    }
    for name in &aggregate.group_by {
        let in_key = keys.iter().any(|(_, template)| template.variables().any(|variable| variable.name == *name));
        let known = entity.attribute(name).is_some() || key_variables(entity).contains(name.as_str());
        if known && !in_key {
            let span = lint.sink.within(&["aggregate", &aggregate.name, "group_by"], name);
            let message = format!("groups by `{name}` would share one item: it is not in the key");
            lint.fault(
                &rules::GROUP_NOT_IN_KEY,
                span,
                message,
                format!("put `{{{name}}}` into the key, or drop it here"),
            );
        }
    }
    let path = ["aggregate", &aggregate.name, "key", &table.partition_key.name];
    entities::check_prefix(lint, &path, &aggregate.partition);
}
