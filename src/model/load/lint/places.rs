//! Where derived items live: not among the application's items, not on each other, and not too many of one item.

use std::collections::{BTreeMap, BTreeSet};

use super::candidates::{Prefixes, key_pairs};
use super::{Lint, rules};
use crate::model::load::overlap::can_meet;
use crate::model::spec::Model;
use crate::model::template::Template;

/// Most aggregates of one entity.
const AGGREGATES_MAX: usize = 12;
/// Most aggregates, listings and expiries of one entity together, so that one item's change fits one transaction.
const DERIVED_MAX: usize = 24;

/// A derived thing with a key of its own.
struct Place<'m> {
    kind: &'static str,
    name: &'m str,
    partition: &'m Template,
    sort: Option<&'m Template>,
}

pub(super) fn check(lint: &mut Lint) {
    let model = lint.model;
    check_numbers(lint, model);
    let aggregates = model.aggregates.iter().map(|a| ("aggregate", &a.name, &a.partition, a.sort.as_ref()));
    let listings = model.listings.iter().map(|l| ("listing", &l.name, &l.partition, l.sort.as_ref()));
    let places: Vec<Place> = aggregates
        .chain(listings)
        .map(|(kind, name, partition, sort)| Place { kind, name, partition, sort })
        .filter(|place| !lint.sink.is_broken(&[place.kind, place.name, "key"]))
        .collect();
    let entities = Prefixes::of(model.entities.iter().map(|entity| Some(&entity.partition)));
    for place in &places {
        check_source_partition(lint, place, &entities);
    }
    let keys: Vec<_> = places.iter().map(|place| (place.partition, place.sort)).collect();
    for (first, second) in key_pairs(&keys) {
        check_pair(lint, &places[first], &places[second]);
    }
}

fn check_source_partition(lint: &mut Lint, place: &Place<'_>, entities: &Prefixes<'_>) {
    let leave = [place.kind, place.name, "allow_in_source_partition"];
    if lint.sink.is_on(&leave) || lint.sink.is_faulty(&leave) || lint.sink.is_faulty(&["delimiter"]) {
        return;
    }
    let model = lint.model;
    let mut near: Vec<usize> = entities.near(Some(place.partition)).into_iter().flatten().copied().collect();
    near.sort_unstable();
    // Entities often share a partition, and one answer does for all of them.
    let mut tried = BTreeSet::new();
    let hit = near.into_iter().map(|number| &model.entities[number]).find(|entity| {
        lint.is_whole(entity)
            && tried.insert(&entity.partition.source)
            && can_meet(place.partition, &entity.partition, &model.delimiter)
    });
    if let Some(entity) = hit {
        let span = lint.sink.value_span(&[place.kind, place.name, "key", &model.table.partition_key.name]);
        let message =
            format!("`{}` would live in a partition of `{}` (`{}`)", place.name, entity.name, entity.partition);
        let remedy = "use a partition of its own, or write `allow_in_source_partition = true`";
        lint.fault(&rules::SOURCE_PARTITION, span, message, remedy);
    }
}

fn check_pair(lint: &mut Lint, first: &Place<'_>, second: &Place<'_>) {
    if lint.sink.is_faulty(&["delimiter"]) {
        return;
    }
    let delimiter = lint.model.delimiter.as_str();
    let sorts = match (first.sort, second.sort) {
        (Some(a), Some(b)) => can_meet(a, b, delimiter),
        _ => true,
    };
    if can_meet(first.partition, second.partition, delimiter) && sorts {
        let span = lint.sink.value_span(&[second.kind, second.name, "key"]);
        let message =
            format!("{} `{}` and {} `{}` can write to one key", first.kind, first.name, second.kind, second.name);
        lint.fault(&rules::DERIVED_OVERLAP, span, message, "make a literal of one of the keys differ");
    }
}

fn check_numbers(lint: &mut Lint, model: &Model) {
    let aggregates = model.aggregates.iter().map(|a| (&a.of, "aggregate", &a.name));
    let listings = model.listings.iter().map(|l| (&l.of, "listing", &l.name));
    let expiries = model.expiries.iter().map(|e| (&e.of, "expiry", &e.name));
    let mut derived: BTreeMap<&String, Vec<(&str, &String)>> = BTreeMap::new();
    for (of, kind, name) in aggregates.chain(listings).chain(expiries) {
        derived.entry(of).or_default().push((kind, name));
    }
    for (entity, derived) in derived.into_iter().filter(|(of, _)| model.entity(of).is_some()) {
        // Aggregates come first.
        let aggregate = derived.get(AGGREGATES_MAX).filter(|(kind, _)| *kind == "aggregate");
        let too_many = aggregate.map(|first| (first, AGGREGATES_MAX, "aggregates"));
        let too_many = too_many.or_else(|| Some((derived.get(DERIVED_MAX)?, DERIVED_MAX, "derived things")));
        if let Some(((kind, name), most, what)) = too_many {
            let span = lint.sink.key_span(&[kind, name]);
            let message = format!("`{entity}` has more than {most} {what}");
            lint.fault(&rules::TOO_MANY, span, message, "drop some: one item's change must fit one transaction");
        }
    }
}
