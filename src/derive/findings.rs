//! Collecting the findings of one item and turning them into rows and totals.
//!
//! However broken an item is, its change has to fit one transaction: at most [`FINDINGS_MAX`] findings are kept, the
//! gravest first, one for each rule and attribute, and the last one says how many more there were.

use smol_str::format_smolstr;

use crate::model::decimal::Decimal;
pub use crate::model::derived::TOTALS;
use crate::model::derived::{Contribution, Finding, Measures, Row, RowKind, Severity};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, SOURCE, Text, Value};

use super::own;
use super::rules::Rule;

/// Most findings that are kept of one item.
pub const FINDINGS_MAX: usize = 20;

/// In front of a code, the name of its count in the totals.
pub const COUNT_PREFIX: &str = "Count_";

/// Messages of this length, in bytes, are not added to.
pub(super) const MESSAGE_SIZE_MAX: usize = 1_000;

/// Longest value in a finding, in characters.
const SHOWN_MAX: usize = 300;

/// What a finding says besides its rule: the attribute (a key attribute for faults of keys), what should be there, what is
/// there, and one sentence with place, value and remedy.
#[derive(Debug, Clone, Default)]
pub struct Details {
    pub attribute: Option<String>,
    pub expected: Option<String>,
    pub actual: Option<String>,
    pub message: String,
}

/// The findings of one item while it is judged.
pub struct Findings<'a> {
    model: &'a Model,
    key: &'a TableKey,
    item: Option<&'a Item>,
    entity: Option<&'a str>,
    list: Vec<Finding>,
}

impl<'a> Findings<'a> {
    pub fn new(model: &'a Model, key: &'a TableKey) -> Findings<'a> {
        Findings { model, key, item: None, entity: None, list: Vec::new() }
    }

    /// Findings about this item, of whose values no more than type and length is told where the model says so.
    pub fn about(self, item: &'a Item) -> Findings<'a> {
        Findings { item: Some(item), ..self }
    }

    /// Findings from here on are about an item of this entity.
    pub fn of_entity(&mut self, entity: Option<&'a str>) {
        self.entity = entity;
    }

    /// Adds a finding. What a second one of the same rule and attribute says is added to the first one's message.
    pub fn push(&mut self, rule: &Rule, details: Details) {
        let details = if self.model.findings.redact_values { self.redacted(rule, details) } else { details };
        if let Some(first) = self.find(rule, details.attribute.as_deref()) {
            if first.message.len() < MESSAGE_SIZE_MAX && !first.message.contains(&details.message) {
                first.message.push_str("; also: ");
                first.message.push_str(&details.message);
            }
            return;
        }
        self.list.push(Finding {
            code: rule.code.to_owned(),
            severity: self.severity(rule),
            entity: self.entity.map(str::to_owned),
            key: if self.model.findings.hash_keys { hashed(self.key) } else { self.key.clone() },
            attribute: details.attribute,
            expected: details.expected,
            actual: details.actual,
            message: details.message,
        });
    }

    /// As the owner says for the entity, else for the table, else as the rule itself does.
    fn severity(&self, rule: &Rule) -> Severity {
        let entity = self.entity.and_then(|name| self.model.entity(name));
        let of_entity = entity.and_then(|entity| entity.severities.get(rule.code));
        of_entity.or_else(|| self.model.severities.get(rule.code)).copied().unwrap_or(rule.severity)
    }

    /// The same without values: what rules say quotes them, so nothing of it is kept. Attributes have their names from the model.
    fn redacted(&self, rule: &Rule, details: Details) -> Details {
        let length = |text: String| format!("{} characters", text.chars().count());
        let value = details.attribute.as_deref().and_then(|name| self.item?.get(name));
        let actual = value.map(kind_and_length).or_else(|| details.actual.map(length));
        let expected = details.expected.map(length);
        let place = details.attribute.as_ref().map_or_else(|| "the item".to_owned(), |name| format!("`{name}`"));
        let found = actual.as_ref().map_or_else(String::new, |actual| format!(" ({actual})"));
        let Rule { code, name, .. } = rule;
        let message = format!(
            "{place}{found} breaks {code} {name}; read the item, `tablekeeper explain {code}` tells what to do"
        );
        Details { attribute: details.attribute, expected, actual, message }
    }

    /// The finding of this rule about this attribute, if there is one.
    pub fn find(&mut self, rule: &Rule, attribute: Option<&str>) -> Option<&mut Finding> {
        self.list.iter_mut().find(|finding| finding.code == rule.code && finding.attribute.as_deref() == attribute)
    }

    pub fn has(&self, code: &str, attribute: Option<&str>) -> bool {
        self.list.iter().any(|finding| finding.code == code && finding.attribute.as_deref() == attribute)
    }

    /// Code and attribute of each; no two findings share both.
    pub fn places(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.list.iter().map(|finding| (finding.code.as_str(), finding.attribute.as_deref()))
    }

    /// Takes over findings that were made before.
    pub fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.list.extend(findings);
    }

    /// The findings alone, as they came.
    pub fn into_list(self) -> Vec<Finding> {
        self.list
    }

    /// The findings, gravest first, and what they put into the table.
    pub fn finish(mut self) -> (Vec<Finding>, Vec<Row>, Option<Contribution>) {
        let order = |f: &Finding| (std::cmp::Reverse(f.severity), f.code.clone(), f.attribute.clone());
        self.list.sort_by_cached_key(order);
        let more = self.list.len().saturating_sub(FINDINGS_MAX);
        self.list.truncate(FINDINGS_MAX);
        if let (1.., Some(last)) = (more, self.list.last_mut()) {
            last.message.push_str(&format!("; the item has {more} more findings"));
        }
        let rows = self.list.iter().filter_map(|finding| row(self.model, self.key, finding)).collect();
        let totals = self.totals();
        (self.list, rows, totals)
    }

    fn totals(&self) -> Option<Contribution> {
        let first = self.list.first()?;
        let entity = own::name_part(first.entity.as_deref());
        let key = totals_key(self.model, entity)?;
        let mut measures = Measures::new();
        measures.insert("Total".into(), Decimal::from(self.list.len() as i64));
        for finding in &self.list {
            let code = format_smolstr!("{COUNT_PREFIX}{}", finding.code);
            let count = self.list.iter().filter(|other| other.code == finding.code).count();
            measures.insert(code, Decimal::from(count as i64));
        }
        let group = match &first.entity {
            Some(entity) => Item::new().with("Entity", Value::text(entity)),
            None => Item::new(),
        };
        Some(Contribution { aggregate: TOTALS.into(), key, group, measures })
    }
}

fn totals_key(model: &Model, entity: Text) -> Option<TableKey> {
    own::key(model, format_smolstr!("{}#FINDINGS_TOTALS", model.prefix), Some(entity)).ok()
}

/// Where the totals of findings are, for every entity and for items of none; nowhere in a table that can hold no derived items.
pub fn totals_keys(model: &Model) -> Vec<TableKey> {
    let entities = model.entities.iter().map(|entity| Some(entity.name.as_str())).chain([None]);
    entities.filter_map(|entity| totals_key(model, own::name_part(entity))).collect()
}

/// The item that makes a finding visible in the user's table.
fn row(model: &Model, source: &TableKey, finding: &Finding) -> Option<Row> {
    let sort = format_smolstr!(
        "{}#{}#{}#{}",
        finding.code,
        own::name_part(finding.entity.as_deref()),
        source.digest(),
        own::name_part(finding.attribute.as_deref())
    );
    let key = own::key(model, format_smolstr!("{}#FINDINGS", model.prefix), Some(sort)).ok()?;
    let mut item = own::frame(model, &key, RowKind::Finding.name(), &finding.code)
        .with("Code", Value::text(&finding.code))
        .with("Severity", Value::text(finding.severity.name()))
        .with(SOURCE, if model.findings.hash_keys { Value::S(source.digest()) } else { own::source(model, source) })
        .with("Message", Value::text(&finding.message));
    let optional = [
        ("Entity", &finding.entity),
        ("Attribute", &finding.attribute),
        ("Expected", &finding.expected),
        ("Actual", &finding.actual),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            item.insert(name, Value::text(value));
        }
    }
    Some(Row { kind: RowKind::Finding, name: finding.code.as_str().into(), key, item: item.into() })
}

/// What stands for a key that is not to be shown: its digest, by which logs and the state table know the item.
fn hashed(key: &TableKey) -> TableKey {
    TableKey { partition: Value::S(key.digest()), sort: None }
}

fn kind_and_length(value: &Value) -> String {
    match value {
        Value::S(text) => format!("text of {} characters", text.chars().count()),
        Value::N(number) => {
            format!("number of {} digits", number.to_plain().chars().filter(char::is_ascii_digit).count())
        }
        other => format!("{} of {} bytes", other.kind().name(), other.size()),
    }
}

/// A value in a finding: text as it is, others as messages show them; cut where it is very long.
pub fn shown(value: &Value) -> String {
    match value {
        Value::S(text) => cut(text),
        other => other.shown(),
    }
}

/// The text, cut where it is very long.
pub fn cut(text: &str) -> String {
    if text.chars().count() <= SHOWN_MAX {
        return text.to_owned();
    }
    text.chars().take(SHOWN_MAX - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::rules::{a301, s401};
    use crate::derive::testing::{entity, model};

    #[test]
    fn twenty_findings_are_kept_the_gravest_first_and_the_rest_is_told() {
        let model = model("PK", "SK");
        let key = TableKey::text("A", "B");
        let mut findings = Findings::new(&model, &key);
        let details = |n: usize| Details { attribute: Some(format!("a{n:02}")), ..Details::default() };
        for n in 0..15 {
            findings.push(&s401::RULE, details(n));
            findings.push(&a301::RULE, details(n));
            findings.push(&a301::RULE, details(n));
        }
        let (list, rows, totals) = findings.finish();
        assert_eq!((list.len(), rows.len()), (20, 20));
        assert!(list[..15].iter().all(|f| f.code == "A301" && f.severity == Severity::Error));
        assert!(list[19].message.ends_with("the item has 10 more findings"));
        let measures = totals.unwrap().measures;
        assert_eq!(measures["Total"], Decimal::from(20));
        assert_eq!(measures["Count_S401"], Decimal::from(5));
    }

    #[test]
    fn the_owner_changes_severities() {
        let mut model = model("PK", "SK");
        model.severities.insert("A301".into(), Severity::Info);
        let key = TableKey::text("A", "B");
        let mut findings = Findings::new(&model, &key);
        findings.push(&a301::RULE, Details::default());
        assert_eq!(findings.finish().0[0].severity, Severity::Info);
        // Of one entity apart.
        model.entities = vec![entity("A", "A", "A"), entity("B", "B", "B")];
        model.entities[0].severities.insert("A301".into(), Severity::Warning);
        let of = |name: &str| {
            let mut findings = Findings::new(&model, &key);
            findings.of_entity(Some(name));
            findings.push(&a301::RULE, Details::default());
            findings.finish().0[0].severity
        };
        assert_eq!((of("A"), of("B")), (Severity::Warning, Severity::Info));
    }

    #[test]
    fn one_finding_a_rule_and_attribute_says_all_of_it() {
        let model = model("PK", "SK");
        let key = TableKey::text("A", "B");
        let mut findings = Findings::new(&model, &key);
        for message in ["left out of listing x", "left out of listing y", "left out of listing x"] {
            findings.push(&a301::RULE, Details { message: message.into(), ..Details::default() });
        }
        let (list, ..) = findings.finish();
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].message, "left out of listing x; also: left out of listing y");
    }

    #[test]
    fn names_of_any_length_fit_the_key() {
        let model = model("PK", "SK");
        let key = TableKey::text("A", "B");
        let mut findings = Findings::new(&model, &key);
        findings.push(&a301::RULE, Details { attribute: Some("x".repeat(60_000)), ..Details::default() });
        assert_eq!(findings.finish().1.len(), 1);
    }
}
