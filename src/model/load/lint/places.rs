//! Where derived items live: not among the application's items, not on each other, and not too many of one item.

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
    for (i, place) in places.iter().enumerate() {
        check_source_partition(lint, place);
        for other in &places[..i] {
            check_pair(lint, other, place);
        }
    }
}

fn check_source_partition(lint: &mut Lint, place: &Place<'_>) {
    if lint.sink.is_on(&[place.kind, place.name, "allow_in_source_partition"]) {
        return;
    }
    let model = lint.model;
    let hit = model
        .entities
        .iter()
        .filter(|entity| lint.is_whole(entity))
        .find(|entity| can_meet(place.partition, &entity.partition, &model.delimiter));
    if let Some(entity) = hit {
        let span = lint.sink.value_span(&[place.kind, place.name, "key", &model.table.partition_key.name]);
        let message =
            format!("`{}` would live in a partition of `{}` (`{}`)", place.name, entity.name, entity.partition);
        let remedy = "use a partition of its own, or write `allow_in_source_partition = true`";
        lint.fault(&rules::SOURCE_PARTITION, span, message, remedy);
    }
}

fn check_pair(lint: &mut Lint, first: &Place<'_>, second: &Place<'_>) {
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
    for entity in &model.entities {
        let aggregates = model.aggregates.iter().filter(|a| a.of == entity.name).map(|a| ("aggregate", &a.name));
        let listings = model.listings.iter().filter(|l| l.of == entity.name).map(|l| ("listing", &l.name));
        let expiries = model.expiries.iter().filter(|e| e.of == entity.name).map(|e| ("expiry", &e.name));
        let too_many = aggregates.clone().nth(AGGREGATES_MAX).map(|first| (first, AGGREGATES_MAX, "aggregates"));
        let too_many = too_many.or_else(|| {
            aggregates.chain(listings).chain(expiries).nth(DERIVED_MAX).map(|f| (f, DERIVED_MAX, "derived things"))
        });
        if let Some(((kind, name), most, what)) = too_many {
            let span = lint.sink.key_span(&[kind, name]);
            let message = format!("`{}` has more than {most} {what}", entity.name);
            lint.fault(&rules::TOO_MANY, span, message, "drop some: one item's change must fit one transaction");
        }
    }
}
