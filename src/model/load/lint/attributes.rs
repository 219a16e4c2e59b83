//! Declared attributes: options that fit the type, names and values that stand once.

use std::collections::BTreeMap;

use super::{Lint, impossible, rules};
use crate::model::spec::{Attribute, Entity, Format};
use crate::model::value::Kind;

pub(super) fn check(lint: &mut Lint) {
    let model = lint.model;
    for entity in &model.entities {
        check_names(lint, entity);
        for attribute in &entity.attributes {
            if lint.knows_type(entity, attribute) {
                check_options(lint, entity, attribute);
                check_key_type(lint, entity, attribute);
            }
            check_values(lint, entity, attribute);
        }
    }
}

/// A name or alias stands for one attribute.
fn check_names(lint: &mut Lint, entity: &Entity) {
    let mut owners: BTreeMap<&str, &str> =
        entity.attributes.iter().map(|attribute| (attribute.name.as_str(), attribute.name.as_str())).collect();
    for attribute in &entity.attributes {
        for alias in &attribute.aliases {
            if let Some(owner) = owners.insert(alias, &attribute.name) {
                let span = lint.sink.within(&["entity", &entity.name, "attribute", &attribute.name, "aliases"], alias);
                let message = format!("`{alias}` already stands for the attribute `{owner}`");
                lint.fault(&rules::DUPLICATE, span, message, "keep it in one place");
            }
        }
    }
}

fn check_options(lint: &mut Lint, entity: &Entity, attribute: &Attribute) {
    let kind = attribute.kind;
    let fits_format = match attribute.format {
        None => true,
        Some(Format::EpochSeconds) => kind == Kind::N,
        Some(_) => kind == Kind::S,
    };
    let bounded = attribute.min.is_some() || attribute.max.is_some();
    let scalar = matches!(kind, Kind::S | Kind::N | Kind::Bool);
    let options = [
        ("format", fits_format, "epoch-seconds goes with type N, the other formats with S"),
        ("min", attribute.min.is_none() || kind == Kind::N, "limits go with type N"),
        ("max", attribute.max.is_none() || kind == Kind::N, "limits go with type N"),
        ("one_of", attribute.one_of.is_empty() || scalar, "a declared set goes with type S, N or BOOL"),
        ("none", attribute.none.is_empty() || scalar, "sentinels go with type S, N or BOOL"),
    ];
    for (option, fits, remedy) in options {
        if !fits {
            let span = lint.sink.value_span(&["entity", &entity.name, "attribute", &attribute.name, option]);
            let message = format!("`{option}` does not go with type {} of `{}`", kind.name(), attribute.name);
            lint.fault(&rules::OPTION_MISPLACED, span, message, remedy);
        }
    }
    if let (Some(min), Some(max), true) = (&attribute.min, &attribute.max, bounded)
        && min > max
    {
        let span = lint.sink.value_span(&["entity", &entity.name, "attribute", &attribute.name, "min"]);
        let message = format!("`{}`: min {min} is above max {max}", attribute.name);
        lint.fault(&rules::RANGE, span, message, "swap them");
    }
}

/// An attribute that is itself a key of the table or an index has that key's type.
fn check_key_type(lint: &mut Lint, entity: &Entity, attribute: &Attribute) {
    let table = &lint.model.table;
    let keys = [Some(&table.partition_key), table.sort_key.as_ref()];
    let own = keys.into_iter().flatten().find(|key| key.name == attribute.name);
    let index = || table.indexes.iter().flat_map(|index| index.attributes()).find(|key| key.name == attribute.name);
    let Some(key) = own.or_else(index) else { return };
    if key.kind != attribute.kind && !lint.sink.is_broken(&["table"]) {
        let path = ["entity", &entity.name, "attribute", &attribute.name];
        let span = lint.sink.key_span(&path);
        let (as_key, declared) = (key.kind.name(), attribute.kind.name());
        let message = format!("`{}` is a key attribute of type {as_key}, declared here as {declared}", attribute.name);
        lint.fault(&rules::KEY_TYPE, span, message, format!("declare `type = \"{as_key}\"`, or mend `[table]`"));
    }
}

/// `one_of` and `none` do not contradict each other or the type.
fn check_values(lint: &mut Lint, entity: &Entity, attribute: &Attribute) {
    let path = ["entity", &entity.name, "attribute", &attribute.name, "one_of"];
    for value in &attribute.one_of {
        if attribute.none.contains(value) {
            let span = lint.sink.within(&path, value);
            let message = format!("`{value}` of `{}` is in `one_of` and in `none`", attribute.name);
            lint.fault(&rules::DUPLICATE, span, message, "keep it in one of them");
        } else if let Some(why) = impossible(value, attribute)
            && lint.knows_type(entity, attribute)
        {
            let span = lint.sink.within(&path, value);
            let message = format!("`{}` is never `{value}`: {why}", attribute.name);
            lint.fault(&rules::OPTION_MISPLACED, span, message, "mend the value or the type");
        }
    }
}
