//! Which rules an entity's items can break at all: a rule's denominator are the items of the entities that it applies to.

use super::totals;
use crate::model::spec::{Attribute, Entity, Format, Model};

/// True if the entity, or its table, declares anything that the rule is about. A rule that this does not know applies to all.
pub fn applies(model: &Model, entity: &Entity, code: &str) -> bool {
    let any = |wanted: fn(&Attribute) -> bool| entity.attributes.iter().any(wanted);
    match code {
        "K102" | "K103" => false,
        // Those across items tell their own denominators.
        _ if code.starts_with(['P', 'C', 'X']) => false,
        "A310" => model.table.ttl.is_some() || any(|attribute| attribute.format == Some(Format::EpochSeconds)),
        "A301" => any(|attribute| attribute.required),
        "A302" => any(|_| true),
        "A303" => any(|attribute| !attribute.one_of.is_empty()),
        "A304" => any(|attribute| attribute.format.is_some()),
        "A305" => any(|attribute| attribute.format.is_some_and(|format| format != Format::EpochSeconds)),
        "A306" => model.table.ttl.is_some() || any(|attribute| attribute.format == Some(Format::EpochSeconds)),
        "A307" => any(|attribute| attribute.min.is_some() || attribute.max.is_some()),
        "A308" => model.aggregates.iter().any(|aggregate| aggregate.of == entity.name && totals::has_sums(aggregate)),
        "A309" => is_derived_from(model, entity) || !entity.indexes.is_empty(),
        "G201" | "G202" | "G204" => !entity.indexes.is_empty(),
        "G203" | "G205" => !model.table.indexes.is_empty(),
        _ => true,
    }
}

/// True for rules that are judged only once the primary key agrees with its templates.
pub fn needs_sound_key(code: &str) -> bool {
    code.starts_with('G') || matches!(code, "A308" | "A309")
}

fn is_derived_from(model: &Model, entity: &Entity) -> bool {
    let name = &entity.name;
    model.aggregates.iter().any(|aggregate| aggregate.of == *name)
        || model.listings.iter().any(|listing| listing.of == *name)
        || model.expiries.iter().any(|expiry| expiry.of == *name)
}
