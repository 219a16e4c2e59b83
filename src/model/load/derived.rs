//! `[aggregate.X]`, `[listing.X]` and `[expiry.X]`.

use super::entity::{read_conditions, read_key, read_template, stand_in};
use super::rules;
use super::table::check_own_name;
use crate::model::reader::{Field, Fields, Sink};
use crate::model::spec::{Aggregate, Entity, Expiry, Listing, Table};
use crate::model::template::Template;

const LEAD_DAYS_DEFAULT: [u32; 7] = [90, 60, 30, 14, 7, 1, 0];
/// Ten years: nobody plans further ahead, and a slip of the finger shows.
const LEAD_DAYS_MAX: u32 = 3650;
/// Each threshold is a state of its own in a notification's key; more than this is a mistake.
const LEAD_DAYS_COUNT_MAX: usize = 32;

const OF_REMEDY: &str = "name the entity, for example `of = \"WorkOrder\"`";

/// The parts of one kind, each with its name checked and its table open. What cannot be opened is marked broken.
fn parts<'t>(sink: &mut Sink, root: &mut Fields<'t>, kind: &'static str) -> Vec<(String, Field<'t>, Fields<'t>)> {
    let Some(mut fields) = root.take(sink, kind).and_then(|field| field.fields(sink)) else { return Vec::new() };
    let mut open = Vec::new();
    for (name, field) in fields.take_all(sink) {
        check_own_name(sink, &name, field.key.clone());
        if let Some(fields) = field.fields(sink) {
            open.push((name, field, fields));
        }
    }
    open
}

/// The entity's name; empty, and the part broken, if there is none.
fn read_of(sink: &mut Sink, part: &Field<'_>, fields: &mut Fields<'_>) -> String {
    let of = fields.require(sink, "of", OF_REMEDY).and_then(|field| field.text(sink));
    if of.is_none() {
        sink.mark_broken(&part.path);
    }
    of.unwrap_or_default()
}

/// The key's templates, or stand-ins under a broken `key`.
fn read_key_or_stand_in(
    sink: &mut Sink,
    part: &Field<'_>,
    fields: &mut Fields<'_>,
    table: &Table,
) -> (Template, Option<Template>) {
    read_key(sink, fields, table).unwrap_or_else(|| {
        let mut key = part.path.clone();
        key.push("key".into());
        sink.mark_broken(&key);
        (stand_in(), None)
    })
}

/// The owner's leave for a place in a partition of the application; the lint asks the sink for it by its path.
fn read_leave(sink: &mut Sink, fields: &mut Fields<'_>) {
    let leave = fields.take(sink, "allow_in_source_partition");
    leave.and_then(|field| field.boolean(sink));
}

pub(super) fn read_aggregates(
    sink: &mut Sink,
    root: &mut Fields<'_>,
    table: &Table,
    entities: &[Entity],
) -> Vec<Aggregate> {
    let mut read = Vec::new();
    for (name, part, mut fields) in parts(sink, root, "aggregate") {
        let of = read_of(sink, &part, &mut fields);
        let group_by = fields.take_texts(sink, "group_by");
        let count_by = fields.take_text(sink, "count_by");
        let declared = entities
            .iter()
            .find(|entity| entity.name == of)
            .and_then(|entity| entity.attribute(count_by.as_deref()?))
            .map(|attribute| attribute.one_of.clone());
        let buckets = match fields.take(sink, "buckets") {
            Some(field) => field.scalars(sink),
            None => declared.unwrap_or_default(),
        };
        let sum = fields.take_texts(sink, "sum");
        let sum_squares = fields.take_texts(sink, "sum_squares");
        let when = read_conditions(sink, &mut fields, "when");
        let (partition, sort) = read_key_or_stand_in(sink, &part, &mut fields, table);
        read_leave(sink, &mut fields);
        fields.finish(sink);
        read.push(Aggregate { name, of, group_by, count_by, buckets, sum, sum_squares, when, partition, sort });
    }
    read
}

pub(super) fn read_listings(sink: &mut Sink, root: &mut Fields<'_>, table: &Table) -> Vec<Listing> {
    let mut read = Vec::new();
    for (name, part, mut fields) in parts(sink, root, "listing") {
        let of = read_of(sink, &part, &mut fields);
        let when = read_conditions(sink, &mut fields, "when");
        let (partition, sort) = read_key_or_stand_in(sink, &part, &mut fields, table);
        let copy = fields.take_texts(sink, "copy");
        read_leave(sink, &mut fields);
        fields.finish(sink);
        read.push(Listing { name, of, when, partition, sort, copy });
    }
    read
}

pub(super) fn read_expiries(sink: &mut Sink, root: &mut Fields<'_>) -> Vec<Expiry> {
    let mut read = Vec::new();
    for (name, part, mut fields) in parts(sink, root, "expiry") {
        let of = read_of(sink, &part, &mut fields);
        let date = fields
            .require(sink, "date", "name the attribute with the date, for example `date = \"CertificateExp\"`")
            .and_then(|field| field.text(sink));
        if date.is_none() {
            sink.mark_broken(&part.path);
        }
        let when = read_conditions(sink, &mut fields, "when");
        let lead_days = read_lead_days(sink, &mut fields);
        let subject = fields.take(sink, "subject").and_then(|field| read_template(sink, &field));
        let owner = fields.take(sink, "owner").and_then(|field| read_template(sink, &field));
        fields.finish(sink);
        read.push(Expiry { name, of, date: date.unwrap_or_default(), when, lead_days, subject, owner });
    }
    read
}

fn read_lead_days(sink: &mut Sink, fields: &mut Fields<'_>) -> Vec<u32> {
    let Some(field) = fields.take(sink, "lead_days") else { return LEAD_DAYS_DEFAULT.to_vec() };
    let elements = field.elements(sink).unwrap_or_default();
    if field.is_array() && !(1..=LEAD_DAYS_COUNT_MAX).contains(&elements.len()) {
        let message = format!("`{}` has {} thresholds", field.name(), elements.len());
        let remedy = format!("give 1 to {LEAD_DAYS_COUNT_MAX} numbers of days");
        sink.fault(&rules::RANGE, field.span(), message, remedy);
    }
    let mut days: Vec<u32> = Vec::new();
    for element in &elements {
        let Some(number) = element.whole(sink, 0..=LEAD_DAYS_MAX) else { continue };
        if let Some(last) = days.last()
            && *last <= number
        {
            let message = format!("`{}`: {number} comes after {last}", field.name());
            sink.fault(&rules::LEAD_DAYS, element.span(), message, "write the numbers from large to small, each once");
        }
        days.push(number);
    }
    days
}
