//! Listings: one entry an item, sorted the way a reader expects.

use super::templates::{self, Use};
use super::{Lint, entities, rules};
use crate::model::spec::{Entity, Format, Listing};
use crate::model::template::{Segment, Template, Variable};
use crate::model::value::Kind;

pub(super) fn check(lint: &mut Lint) {
    let model = lint.model;
    for listing in &model.listings {
        let Some(entity) = lint.entity_of("listing", &listing.name, &listing.of) else { continue };
        lint.check_conditions(&["listing", &listing.name, "when"], &listing.when, entity, &rules::NEVER_TRUE);
        for name in &listing.copy {
            let span = lint.sink.within(&["listing", &listing.name, "copy"], name);
            lint.demand_name(entity, name, span);
        }
        if !lint.sink.is_broken(&["listing", &listing.name, "key"]) {
            check_key(lint, listing, entity);
        }
    }
}

fn check_key<'m>(lint: &mut Lint<'m, '_, '_>, listing: &'m Listing, entity: &'m Entity) {
    let table = &lint.model.table;
    let partition_path = ["listing", &listing.name, "key", table.partition_key.name.as_str()];
    templates::check(lint, &partition_path, &listing.partition, entity, Use::Derived);
    entities::check_prefix(lint, &partition_path, &listing.partition);
    if let (Some(key), Some(sort)) = (&table.sort_key, &listing.sort) {
        let path = ["listing", &listing.name, "key", key.name.as_str()];
        templates::check(lint, &path, sort, entity, Use::Derived);
        check_order(lint, &path, sort, entity);
    }
    if lint.is_whole(entity) && !lint.sink.is_faulty(&["entity", &entity.name, "match"]) {
        check_unique(lint, listing, entity);
    }
}

/// Text order must be the order that the values have.
fn check_order(lint: &mut Lint, path: &[&str], sort: &Template, entity: &Entity) {
    for (i, segment) in sort.segments.iter().enumerate() {
        let Segment::Variable(variable) = segment else { continue };
        let Some(attribute) = entity.attribute(&variable.name) else { continue };
        if !lint.knows_type(entity, attribute)
            || !lint.knows(entity, attribute, "one_of")
            || variable.ordinal
            || variable.pad.is_some()
            || variable.time.is_some()
        {
            continue;
        }
        let span = templates::place(lint, path, variable);
        let name = &variable.name;
        // A variable that already stands in the key in its right order decides nothing where it stands again.
        let sorted_before = sort.segments[..i].iter().any(|earlier| {
            matches!(earlier, Segment::Variable(other) if other.name == *name && (other.ordinal || other.pad.is_some()))
        });
        if sorted_before {
            continue;
        }
        let in_order = attribute.one_of.is_sorted();
        match attribute.kind {
            Kind::N if i + 1 == sort.segments.len() => {
                let message = format!("`{name}` is a number without padding: 10 sorts before 9");
                lint.fault(&rules::UNPADDED_LAST, span, message, format!("pad it, for example `{{{name}:06}}`"));
            }
            Kind::N => {
                let message = format!("`{name}` is a number without padding before more of the key: 10 sorts before 9");
                lint.fault(&rules::UNPADDED, span, message, format!("pad it, for example `{{{name}:06}}`"));
            }
            _ if !in_order => {
                let message = format!("`{name}` sorts by its letters, not in the order of its `one_of`");
                lint.fault(&rules::TEXT_ORDER, span, message, format!("write `{{{name}:ordinal}}`"));
            }
            _ if attribute.format == Some(Format::Timestamp) => {
                let message = format!("`{name}` sorts by its letters, but its times may have different offsets");
                lint.fault(
                    &rules::TEXT_ORDER,
                    span,
                    message,
                    "declare `format = \"timestamp-utc.3\"`, or sort by another",
                );
            }
            _ if attribute.format == Some(Format::TimestampUtc) => {
                let message = format!(
                    "`{name}` sorts by its letters, but its fractions may have several widths: `29Z` sorts behind `29.017Z`"
                );
                let remedy = "declare `format = \"timestamp-utc.3\"`, or another number of digits";
                lint.fault(&rules::TEXT_ORDER, span, message, remedy);
            }
            _ => {}
        }
    }
}

/// Each variable of the primary key is in the listing's key too, or two items would share an entry.
fn check_unique(lint: &mut Lint, listing: &Listing, entity: &Entity) {
    let identity = [Some(&entity.partition), entity.sort.as_ref()];
    let given: Vec<&Variable> =
        [Some(&listing.partition), listing.sort.as_ref()].into_iter().flatten().flat_map(Template::variables).collect();
    let mut missing: Vec<&str> = Vec::new();
    for variable in identity.into_iter().flatten().flat_map(Template::variables) {
        let fixed = entity.matches.iter().any(|c| c.attribute == variable.name && c.values.len() == 1);
        // Upper and lower case fold values together, unless the primary key does the same.
        let kept = given.iter().any(|g| g.name == variable.name && (g.case.is_none() || g.case == variable.case));
        if !fixed && !kept && !missing.contains(&variable.name.as_str()) {
            missing.push(&variable.name);
        }
    }
    if !missing.is_empty() {
        let span = lint.sink.value_span(&["listing", &listing.name, "key"]);
        let names: Vec<String> = missing.iter().map(|name| format!("`{{{name}}}`")).collect();
        let message =
            format!("two items of `{}` could share an entry: the key lacks {}", entity.name, names.join(", "));
        lint.fault(
            &rules::NOT_UNIQUE,
            span,
            message,
            "add it as it stands in the primary key, best at the end of the sort key",
        );
    }
}
