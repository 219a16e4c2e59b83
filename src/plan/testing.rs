//! A small model for tests: jobs of projects, with hours that are summed.
#![cfg(test)]

use std::collections::BTreeMap;

use crate::model::decimal::Decimal;
use crate::model::derived::{Contribution, Derived, Row, RowKind};
use crate::model::key::TableKey;
use crate::model::spec::{Aggregate, Attribute, Entity, Expiry, KeyAttribute, Listing, Model, ReportDefaults, Table};
use crate::model::template::Template;
use crate::model::value::{Item, Kind, MARKER, Value};
use crate::model::zone::Zone;

/// Entity `Job` (`JOB#{job}` / `USER#{user}`; Status, Project, Hours, Due), aggregates `by_project` and `by_user`
/// (count by Status; the first sums Hours and its squares), listing `jobs_by_hours`, expiry `due`.
pub fn model() -> Model {
    let key = |name: &str| KeyAttribute { name: name.to_owned(), kind: Kind::S };
    let statuses: Vec<String> = ["Open", "Busy", "Done"].map(str::to_owned).into();
    Model {
        name: "jobs".to_owned(),
        table: Table {
            name: "jobs".to_owned(),
            partition_key: key("PK"),
            sort_key: Some(key("SK")),
            indexes: Vec::new(),
            ttl: None,
            state_table: "jobs-keeper".to_owned(),
        },
        entities: vec![Entity {
            severities: BTreeMap::new(),
            name: "Job".to_owned(),
            matches: Vec::new(),
            partition: template("JOB#{job}"),
            sort: Some(template("USER#{user}")),
            indexes: Vec::new(),
            references: Vec::new(),
            attributes: vec![
                attribute("Status", Kind::S, &statuses),
                attribute("Project", Kind::S, &[]),
                attribute("Hours", Kind::N, &[]),
                Attribute { format: Some(crate::model::spec::Format::Date), ..attribute("Due", Kind::S, &[]) },
            ],
        }],
        aggregates: vec![
            aggregate("by_project", "Project", "PROJECT#{Project}", &statuses, &["Hours"]),
            aggregate("by_user", "user", "STATS#{user}", &statuses, &[]),
        ],
        listings: vec![Listing {
            name: "jobs_by_hours".to_owned(),
            of: "Job".to_owned(),
            when: Vec::new(),
            partition: template("JOBS"),
            sort: Some(template("{Status}#{job}#{user}")),
            copy: vec!["Hours".to_owned()],
        }],
        expiries: vec![Expiry {
            name: "due".to_owned(),
            of: "Job".to_owned(),
            date: "Due".to_owned(),
            when: Vec::new(),
            lead_days: vec![7, 1, 0],
            subject: None,
            owner: None,
        }],
        zone: Zone::UTC,
        delimiter: "#".to_owned(),
        prefix: "KEEPER".to_owned(),
        tombstone_days: 30,
        severities: BTreeMap::new(),
        findings: Default::default(),
        reports: ReportDefaults::default(),
        hash: "model-1".into(),
    }
}

fn template(source: &str) -> Template {
    Template::parse(source).unwrap()
}

fn attribute(name: &str, kind: Kind, one_of: &[String]) -> Attribute {
    Attribute {
        name: name.to_owned(),
        aliases: Vec::new(),
        kind,
        required: false,
        one_of: one_of.to_vec(),
        format: None,
        none: Vec::new(),
        min: None,
        max: None,
    }
}

fn aggregate(name: &str, group: &str, partition: &str, buckets: &[String], sum: &[&str]) -> Aggregate {
    let sum: Vec<String> = sum.iter().map(|name| (*name).to_owned()).collect();
    Aggregate {
        name: name.to_owned(),
        of: "Job".to_owned(),
        group_by: vec![group.to_owned()],
        count_by: Some("Status".to_owned()),
        buckets: buckets.to_vec(),
        sum_squares: sum.clone(),
        sum,
        when: Vec::new(),
        partition: template(partition),
        sort: Some(template("STATS#JOBS")),
    }
}

pub fn number(text: &str) -> Decimal {
    text.parse().unwrap()
}

/// A contribution to aggregate `name` at `key`, with measures as texts.
pub fn contribution(name: &str, key: &TableKey, measures: &[(&str, &str)]) -> Contribution {
    Contribution {
        aggregate: name.into(),
        key: key.clone(),
        group: Item::new().with("Group", key.partition.clone()),
        measures: measures.iter().map(|(measure, n)| ((*measure).into(), number(n))).collect(),
    }
}

/// A listing row at `key` with some content.
pub fn listing(name: &str, key: &TableKey, content: &str) -> Row {
    let names = crate::model::key::KeyNames { partition: "PK".into(), sort: Some("SK".into()) };
    let item =
        key.to_item(&names).with(MARKER, Value::text(format!("listing/{name}"))).with("Content", Value::text(content));
    Row { kind: RowKind::Listing, name: name.into(), key: key.clone(), item: item.into() }
}

pub fn derived(counts: Vec<Contribution>, rows: Vec<Row>) -> Derived {
    Derived { entity: Some("Job".into()), counts, rows, findings: Vec::new() }
}
