//! `[entity.X] reference.Y`: other items that an item names.
//!
//! The other item's key is written out as `key`, or it is left to the other entity: its own templates are taken, with the names
//! that `with` gives in place of its variables, or the same names where it gives none.

use super::entity::{read_conditions, read_template, stand_in};
use super::rules;
use super::table::check_own_name;
use crate::model::reader::{Field, Fields, Path, Sink, suggest};
use crate::model::spec::{Copy, Entity, Reference, Table};
use crate::model::template::{Case, Segment, Template, Variable};
use crate::model::value::Text;

/// A reference whose key may still be wanting.
pub(super) struct Draft {
    path: Path,
    reference: Reference,
    /// Other entity's variable, own name.
    with: Vec<(String, String)>,
    has_key: bool,
}

pub(super) fn read_all(sink: &mut Sink, fields: &mut Fields<'_>, table: &Table) -> Vec<Draft> {
    let Some(mut fields) = fields.take(sink, "reference").and_then(|field| field.fields(sink)) else {
        return Vec::new();
    };
    let declared = fields.take_all(sink);
    declared.into_iter().filter_map(|(name, field)| read(sink, name, &field, table)).collect()
}

fn read(sink: &mut Sink, name: String, field: &Field<'_>, table: &Table) -> Option<Draft> {
    check_own_name(sink, &name, field.key.clone());
    let mut fields = field.fields(sink)?;
    let to = fields.require(sink, "to", "name the other item's entity, for example `to = \"User\"`");
    let to = to.map(|field| read_to(sink, &field)).unwrap_or_default();
    let key = fields.take(sink, "key");
    let has_key = key.is_some();
    let templates = key.and_then(|key| read_key(sink, &key, table));
    if to.is_empty() || has_key && templates.is_none() {
        sink.mark_broken(&field.path);
    }
    let (partition, sort) = templates.unwrap_or_else(|| (stand_in(), None));
    let with = fields.take(sink, "with").map(|field| read_pairs(sink, &field)).unwrap_or_default();
    let copies = fields.take(sink, "copies").map(|field| read_copies(sink, &field)).unwrap_or_default();
    let required = fields.take(sink, "required").and_then(|field| field.boolean(sink)).unwrap_or(false);
    let when = read_conditions(sink, &mut fields, "when");
    fields.finish(sink);
    let reference = Reference { name, to, partition, sort, copies, required, when };
    Some(Draft { path: field.path.clone(), reference, with, has_key })
}

fn read_to(sink: &mut Sink, field: &Field<'_>) -> Vec<String> {
    let to = field.texts(sink);
    if field.is_array() && to.is_empty() && !sink.is_faulty(&field.path.iter().map(Text::as_str).collect::<Vec<_>>()) {
        let message = format!("`{}` names no entity", field.name());
        sink.fault(&rules::RANGE, field.span(), message, "name the other item's entity");
    }
    to
}

/// As an entity's key, but the sort key may be left out.
fn read_key(sink: &mut Sink, field: &Field<'_>, table: &Table) -> Option<(Template, Option<Template>)> {
    let mut keys = field.fields(sink)?;
    if sink.is_broken(&["table"]) {
        return None;
    }
    let name = &table.partition_key.name;
    let partition = keys.take_named(sink, name);
    if partition.is_none() {
        keys.missing(sink, name, "add a template for the table's partition key");
    }
    let mut known = vec![name.as_str()];
    let sort = table.sort_key.as_ref().and_then(|key| {
        known.push(&key.name);
        keys.take_named(sink, &key.name)
    });
    keys.finish_among(sink, &known);
    let partition = partition.and_then(|field| read_template(sink, &field));
    let sort = sort.map(|field| read_template(sink, &field));
    match sort {
        Some(sort) => Some((partition?, Some(sort?))),
        None => Some((partition?, None)),
    }
}

/// `{ username = "technician" }`.
fn read_pairs(sink: &mut Sink, field: &Field<'_>) -> Vec<(String, String)> {
    let Some(mut fields) = field.fields(sink) else { return Vec::new() };
    fields.take_all(sink).into_iter().filter_map(|(name, field)| Some((name, field.text(sink)?))).collect()
}

/// `{ SkillName = "Name" }`, or a list of names that both items have.
fn read_copies(sink: &mut Sink, field: &Field<'_>) -> Vec<Copy> {
    if field.is_table() {
        return read_pairs(sink, field).into_iter().map(|(own, master)| Copy { own, master }).collect();
    }
    field.texts(sink).into_iter().map(|name| Copy { own: name.clone(), master: name }).collect()
}

/// The references with their keys; one whose entity is not known or not whole is broken, and keeps its stand-in.
pub(super) fn resolve(sink: &mut Sink, drafts: Vec<Draft>, entities: &[Entity]) -> Vec<Reference> {
    let resolve = |Draft { path, mut reference, with, has_key }: Draft| {
        if has_key {
            return reference;
        }
        let first = reference.to.first();
        let other = first.and_then(|to| entities.iter().find(|entity| entity.name == *to));
        match other.filter(|other| !sink.is_broken(&["entity", &other.name])) {
            None => sink.mark_broken(&path),
            Some(other) => {
                check_with(sink, &path, &with, other);
                reference.partition = renamed(&other.partition, &with);
                reference.sort = other.sort.as_ref().map(|sort| renamed(sort, &with));
            }
        }
        reference
    };
    drafts.into_iter().map(resolve).collect()
}

/// A fault for each name in `with` that the other entity's key does not have.
fn check_with(sink: &mut Sink, path: &[Text], with: &[(String, String)], other: &Entity) {
    let templates = [Some(&other.partition), other.sort.as_ref()];
    let variables: Vec<&str> =
        templates.into_iter().flatten().flat_map(Template::variables).map(|variable| variable.name.as_str()).collect();
    for (name, _) in with.iter().filter(|(name, _)| !variables.contains(&name.as_str())) {
        let place: Vec<&str> = path.iter().map(Text::as_str).chain(["with", name]).collect();
        let message = format!("`{name}` is no variable of the key of `{}`", other.name);
        let remedy = suggest::remedy(name, variables.iter().copied());
        sink.fault(&rules::REFERENCE_OPTION, sink.key_span(&place), message, remedy);
    }
}

/// The template with other names; formats stay.
fn renamed(template: &Template, with: &[(String, String)]) -> Template {
    let rename = |segment: &Segment| match segment {
        Segment::Literal(text) => Segment::Literal(text.clone()),
        Segment::Variable(variable) => {
            let name = with.iter().find(|(theirs, _)| *theirs == variable.name).map_or(&variable.name, |(_, own)| own);
            Segment::Variable(Variable { name: name.clone(), ..variable.clone() })
        }
    };
    let segments: Vec<Segment> = template.segments.iter().map(rename).collect();
    Template { source: segments.iter().map(written).collect(), segments }
}

/// A segment in the notation of templates.
fn written(segment: &Segment) -> String {
    let variable = match segment {
        Segment::Literal(text) => return text.replace('{', "{{").replace('}', "}}"),
        Segment::Variable(variable) => variable,
    };
    let pad = variable.pad.map(|pad| match pad.fraction {
        0 => format!("0{}", pad.integer),
        fraction => format!("0{}.{fraction}", pad.integer),
    });
    let case = variable.case.map(|case| match case {
        Case::Lower => "lower".to_owned(),
        Case::Upper => "upper".to_owned(),
    });
    let ordinal = variable.ordinal.then(|| "ordinal".to_owned());
    let formats: Vec<String> = [pad, case, ordinal].into_iter().flatten().collect();
    match formats.as_slice() {
        [] => format!("{{{}}}", variable.name),
        formats => format!("{{{}:{}}}", variable.name, formats.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_with_other_names_is_what_its_notation_says() {
        let template = Template::parse("A{{#{x:010}#{y}#{z:lower}{{}}#{l:ordinal}#{f:04.1,upper}").unwrap();
        let with = [("x".to_owned(), "Number".to_owned()), ("z".to_owned(), "y".to_owned())];
        let renamed = renamed(&template, &with);
        assert_eq!(renamed.source, "A{{#{Number:010}#{y}#{y:lower}{{}}#{l:ordinal}#{f:04.1,upper}");
        assert_eq!(Template::parse(&renamed.source).unwrap(), renamed);
    }
}
