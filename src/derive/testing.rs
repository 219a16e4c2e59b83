//! Small builders of models and items for tests.

use std::collections::BTreeMap;

use crate::model::key::TableKey;
use crate::model::spec::{
    Aggregate, Attribute, Condition, Entity, EntityIndex, Expiry, Index, KeyAttribute, Listing, Model, ReportDefaults,
    Table,
};
use crate::model::template::Template;
use crate::model::value::{Item, Kind, Value};
use crate::model::zone::zone;

pub fn template(source: &str) -> Template {
    Template::parse(source).unwrap()
}

/// A model without entities; the site's zone is Berlin.
pub fn model(partition_key: &str, sort_key: &str) -> Model {
    Model {
        name: "test".into(),
        table: Table {
            name: "test".into(),
            partition_key: key(partition_key),
            sort_key: Some(key(sort_key)),
            indexes: Vec::new(),
            ttl: None,
            state_table: "test-keeper".into(),
        },
        entities: Vec::new(),
        aggregates: Vec::new(),
        listings: Vec::new(),
        expiries: Vec::new(),
        zone: zone("Europe/Berlin"),
        delimiter: "#".into(),
        prefix: "KEEPER".into(),
        tombstone_days: 30,
        severities: BTreeMap::new(),
        findings: Default::default(),
        reports: ReportDefaults::default(),
        hash: String::new().into(),
    }
}

pub fn key(name: &str) -> KeyAttribute {
    KeyAttribute { name: name.into(), kind: Kind::S }
}

pub fn index(name: &str, partition: &[&str], sort: &[&str]) -> Index {
    let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect();
    Index { name: name.into(), partition: keys(partition), sort: keys(sort) }
}

pub fn entity(name: &str, partition: &str, sort: &str) -> Entity {
    Entity {
        name: name.into(),
        severities: BTreeMap::new(),
        matches: Vec::new(),
        partition: template(partition),
        sort: Some(template(sort)),
        indexes: Vec::new(),
        attributes: Vec::new(),
        references: Vec::new(),
    }
}

pub fn entity_index(index: &str, keys: &[(&str, &str)]) -> EntityIndex {
    let keys = keys.iter().map(|(name, source)| ((*name).to_owned(), template(source))).collect();
    EntityIndex { index: index.into(), keys, when: Vec::new() }
}

/// Optional and free.
pub fn attribute(name: &str, kind: Kind) -> Attribute {
    Attribute::new(name, kind)
}

pub fn condition(attribute: &str, values: &[&str]) -> Condition {
    Condition { attribute: attribute.into(), values: strings(values) }
}

pub fn aggregate(name: &str, of: &str, group_by: &[&str], partition: &str, sort: &str) -> Aggregate {
    Aggregate {
        name: name.into(),
        of: of.into(),
        group_by: strings(group_by),
        count_by: None,
        buckets: Vec::new(),
        sum: Vec::new(),
        sum_squares: Vec::new(),
        when: Vec::new(),
        partition: template(partition),
        sort: Some(template(sort)),
    }
}

pub fn listing(name: &str, of: &str, partition: &str, sort: &str) -> Listing {
    Listing {
        name: name.into(),
        of: of.into(),
        when: Vec::new(),
        partition: template(partition),
        sort: Some(template(sort)),
        copy: Vec::new(),
    }
}

pub fn expiry(name: &str, of: &str, date: &str) -> Expiry {
    Expiry {
        name: name.into(),
        of: of.into(),
        date: date.into(),
        when: Vec::new(),
        lead_days: vec![30, 7, 1, 0],
        subject: None,
        owner: None,
    }
}

pub fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// An item of texts.
pub fn item<const N: usize>(attributes: [(&str, &str); N]) -> Item {
    Item(attributes.into_iter().map(|(name, text)| (name.into(), Value::text(text))).collect())
}

pub fn n(text: &str) -> Value {
    Value::N(text.parse().unwrap())
}

/// The item's own key in the model's table.
pub fn key_of(model: &Model, item: &Item) -> TableKey {
    TableKey::of(item, &model.table.key_names()).unwrap()
}
