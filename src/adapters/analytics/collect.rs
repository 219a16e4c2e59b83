//! From plain items to the input of a report: everything derived is derived here, so a report needs no database.

use std::str::FromStr;

use chrono::{DateTime, NaiveDate, Utc};

use crate::derive::identity::identify;
use crate::derive::{Fold, derive};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, Value};
use crate::report::input::{AggregateRow, ExpiryRow, Freshness, ReportInput, SourceItem};

/// The input of a report over these items. Tablekeeper's own among them are passed over; each item must be there once.
pub fn collect<'m>(
    model: &'m Model,
    items: impl IntoIterator<Item = (TableKey, Item)>,
    as_of: NaiveDate,
    freshness: Freshness,
) -> ReportInput<'m> {
    let mut fold = Fold::new();
    let mut sources = Vec::new();
    for (key, item) in items {
        if item.is_ours() {
            continue;
        }
        fold.add(&derive(model, &key, &item));
        let (entity, variables) = match identify(model, &key, &item) {
            Some(identity) => (Some(identity.entity.name.clone()), identity.variables),
            None => (None, Default::default()),
        };
        sources.push(SourceItem { key, entity, item, variables });
    }
    let aggregate = |totals: crate::derive::fold::AggregateTotals| AggregateRow {
        name: totals.name.into(),
        key: totals.key,
        group: totals.group,
        measures: totals.measures,
    };
    ReportInput {
        model,
        items: sources,
        findings: fold.findings().into_iter().cloned().collect(),
        aggregates: fold.aggregates(model).into_iter().map(aggregate).collect(),
        expiries: fold.expiries().filter_map(|entry| expiry(model, entry.name, entry.item)).collect(),
        as_of,
        freshness,
    }
}

/// The row of an expiry item as it is stored; `None` where it is not one.
fn expiry(model: &Model, name: &str, item: &Item) -> Option<ExpiryRow> {
    let Some(Value::M(source)) = item.get("Source") else { return None };
    Some(ExpiryRow {
        name: name.to_owned(),
        entity: item.text("Entity")?.to_owned(),
        key: TableKey::of(&Item(source.clone()), &model.table.key_names())?,
        subject: item.text("Subject")?.to_owned(),
        owner: item.text("Owner").map(str::to_owned),
        date: item.text("Date")?.to_owned(),
        due: DateTime::<Utc>::from_str(item.text("Due")?).ok()?,
    })
}
