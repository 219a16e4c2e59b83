//! Listing entries and expiry entries of one item.

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike, SecondsFormat, Utc};
use smol_str::format_smolstr;

use crate::model::derived::{Row, RowKind};
use crate::model::key::TableKey;
use crate::model::spec::{Expiry, Listing};
use crate::model::template::Template;
use crate::model::time::{self, TimeError};
use crate::model::value::{ITEM_SIZE_MAX, Item, SOURCE, Text, Value, joined};

use super::counts::rendered;
use super::findings::{Findings, shown};
use super::own;
use super::render::plain;
use super::rules::a309::LeftOut;
use super::rules::{a304, a305, a309};
use super::scope::{Scope, carried};

/// Hexadecimal digits of the source's digest that make an inexact listing key unique.
const UNIQUE_DIGITS: usize = 16;

/// A date that should expire and is in another year than these is a slip of the keyboard.
const YEARS: std::ops::RangeInclusive<i32> = 1970..=2200;

/// All rows of an item whose entity is certain.
pub fn rows(scope: &Scope<'_>, key: &TableKey, findings: &mut Findings<'_>) -> Vec<Row> {
    let model = scope.model;
    let name = &scope.entity.name;
    let mut rows: Vec<Row> = Vec::new();
    for listing in model.listings.iter().filter(|listing| listing.of == *name && scope.holds(&listing.when)) {
        let row = listing_row(scope, key, listing, findings);
        keep(&mut rows, row, findings);
    }
    for expiry in model.expiries.iter().filter(|expiry| expiry.of == *name && scope.holds(&expiry.when)) {
        let row = expiry_row(scope, key, expiry, findings);
        keep(&mut rows, row, findings);
    }
    rows
}

/// Adds a row, unless it cannot be written.
fn keep(rows: &mut Vec<Row>, row: Option<Row>, findings: &mut Findings<'_>) {
    let Some(row) = row else { return };
    let what = LeftOut { kind: row.kind.name(), name: &row.name };
    // One transaction writes all rows of an item, and it may name a key only once.
    if rows.iter().any(|other| other.key == row.key) {
        let reason = format!("another derived item of this item has the key `{}`", row.key);
        a309::found(what, None, None, &reason, findings);
    } else if row.item.size() > ITEM_SIZE_MAX {
        let reason = format!("the entry has {} bytes, DynamoDB stores {ITEM_SIZE_MAX}", row.item.size());
        a309::found(what, None, None, &reason, findings);
    } else {
        rows.push(row);
    }
}

fn listing_row(scope: &Scope<'_>, source: &TableKey, listing: &Listing, findings: &mut Findings<'_>) -> Option<Row> {
    let what = LeftOut { kind: "listing", name: &listing.name };
    if let Some((name, value)) = of_other_type(scope, listing) {
        let (is, declared) = (value.kind().name(), scope.entity.attribute(name).map_or("", |a| a.kind.name()));
        let reason = format!("`{name}` is of type {is}, declared is {declared}");
        a309::found(what, Some(name), Some(shown(value)), &reason, findings);
        return None;
    }
    let mut partition = rendered(scope, scope.render(&listing.partition), what, findings)?;
    let mut sort = match &listing.sort {
        Some(template) => Some(rendered(scope, scope.render(template), what, findings)?),
        None => None,
    };
    // Two items could have this very key: the source's digest tells them apart.
    if !partition.exact || sort.as_ref().is_some_and(|sort| !sort.exact) {
        let digest = source.digest();
        let last = sort.as_mut().unwrap_or(&mut partition);
        last.text = format_smolstr!("{}#{}", last.text, &digest[..UNIQUE_DIGITS]);
    }
    let key = match own::key(scope.model, partition.text, sort.map(|sort| sort.text)) {
        Ok(key) => key,
        Err(fault) => {
            a309::found(what, None, None, &fault.to_string(), findings);
            return None;
        }
    };
    let copied = |name: &String| {
        let value = match scope.entity.attribute(name) {
            Some(attribute) => carried(attribute, scope.item)?.1,
            None => scope.value(name).ok()?,
        };
        Some((name.as_str().into(), value.clone()))
    };
    let copy: BTreeMap<Text, Value> = listing.copy.iter().filter_map(copied).collect();
    let names = std::iter::once(&listing.partition).chain(&listing.sort).flat_map(Template::variables);
    let group = names.filter_map(|v| Some((v.name.as_str().into(), scope.value(&v.name).ok()?.clone()))).collect();
    let item = own::frame(scope.model, &key, RowKind::Listing.name(), &listing.name)
        .with("Copy", Value::M(copy))
        .with("Group", Value::M(group))
        .with(SOURCE, own::source(scope.model, source));
    Some(Row { kind: RowKind::Listing, name: listing.name.as_str().into(), key, item: item.into() })
}

/// The first value in the listing's key that has another type than declared. An index would not hold such an item and a sum leaves
/// it out; a text among numbers would stand in the order of what it looks like.
fn of_other_type<'s>(scope: &'s Scope<'_>, listing: &'s Listing) -> Option<(&'s str, &'s Value)> {
    let variables = std::iter::once(&listing.partition).chain(&listing.sort).flat_map(Template::variables);
    let mut declared = variables.filter_map(|variable| scope.entity.attribute(&variable.name));
    declared.find_map(|attribute| {
        let value = scope.value(&attribute.name).ok().filter(|value| value.kind() != attribute.kind)?;
        Some((attribute.name.as_str(), value))
    })
}

fn expiry_row(scope: &Scope<'_>, source: &TableKey, expiry: &Expiry, findings: &mut Findings<'_>) -> Option<Row> {
    let value = scope.value(&expiry.date).ok()?;
    let (date, due) = (plain(value), due(scope, expiry, value, findings)?);
    let due = due.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    let what = LeftOut { kind: "expiry", name: &expiry.name };
    let partition = joined(&[&scope.model.prefix, "#EXPIRY#", &expiry.name]);
    let key = match own::key(scope.model, partition, Some(format_smolstr!("{due}#{}", source.digest()))) {
        Ok(key) => key,
        Err(fault) => {
            a309::found(what, None, None, &fault.to_string(), findings);
            return None;
        }
    };
    let text = |template: &Template| scope.text(template).ok();
    let subject = expiry.subject.as_ref().and_then(text).unwrap_or_else(|| source.to_string().into());
    let mut item: Item = own::frame(scope.model, &key, RowKind::Expiry.name(), &expiry.name)
        .with("Expiry", Value::text(&expiry.name))
        .with("Entity", Value::text(&scope.entity.name))
        .with("Subject", Value::S(subject))
        .with(SOURCE, own::source(scope.model, source))
        .with("Date", Value::S(date.unwrap_or_default().into_owned().into()))
        .with("Due", Value::S(due.into()));
    if let Some(owner) = expiry.owner.as_ref().and_then(text) {
        item.insert("Owner", Value::S(owner));
    }
    Some(Row { kind: RowKind::Expiry, name: expiry.name.as_str().into(), key, item: item.into() })
}

/// When the value falls due; what cannot be read, or cannot be meant, is a finding.
fn due(scope: &Scope<'_>, expiry: &Expiry, value: &Value, findings: &mut Findings<'_>) -> Option<DateTime<Utc>> {
    let attribute = scope.entity.attribute(&expiry.date);
    let name = attribute.and_then(|a| carried(a, scope.item)).map_or(expiry.date.as_str(), |(name, _)| name);
    let judged = [a304::RULE.code, a305::RULE.code].into_iter().any(|code| findings.has(code, Some(name)));
    match time::expires_at(value, attribute.and_then(|a| a.format), &scope.model.zone) {
        Ok(due) if YEARS.contains(&due.year()) => Some(due),
        Ok(_) => {
            a305::found(name, value, "a date that should expire lies between 1970 and 2200", findings);
            None
        }
        // The attribute's own format has said so already.
        Err(_) if judged => None,
        Err(TimeError::Impossible { reason, .. }) => {
            a305::found(name, value, reason, findings);
            None
        }
        Err(TimeError::Format { expected, .. }) => {
            a304::found(name, value, None, expected, findings);
            None
        }
        // Epochs in other units are A306's, which looks at every attribute of that format.
        Err(TimeError::NotSeconds { .. } | TimeError::NotANumber { .. }) => None,
    }
}
