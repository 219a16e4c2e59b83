//! What an audit found, in the order in which it is shown.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use super::applies::{applies, needs_sound_key};
use super::{Audit, Capped, GROUPS_MAX, Tally};
use crate::derive::rules::{self, RULES};
use crate::model::derived::{Finding, Severity};
use crate::model::spec::Model;
use crate::model::value::Text;

/// The result of an audit.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Items by the entity that they were recognised as.
    pub checked: BTreeMap<Text, u64>,
    /// Items that are no entity's, or several's.
    pub unrecognised: u64,
    /// Items of an entity of which nothing but findings is derived, because their primary key is in doubt.
    pub set_aside: u64,
    /// Every rule and entity that were judged, broken or not: gravest first among the broken ones, which come first.
    pub rules: Vec<RuleCount>,
    /// What nobody could judge, a sentence each.
    pub undecided: Vec<String>,
}

/// One rule and the items of one entity.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleCount {
    pub code: String,
    pub name: &'static str,
    pub severity: Severity,
    /// `None`: items of no entity.
    pub entity: Option<String>,
    /// Items that the rule was decided for.
    pub checked: u64,
    /// Of them, those that break it.
    pub failed: u64,
    /// Items for which nobody can say.
    pub undecidable: u64,
    /// Findings; an item may have several of a rule, of different attributes.
    pub findings: u64,
    /// At most so many of them as were asked for, by key and attribute.
    pub sample: Vec<Finding>,
}

/// A part of a whole, shown as a percentage of two decimals that never says 0 or 100 where it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub part: u64,
    pub whole: u64,
}

impl RuleCount {
    pub fn share(&self) -> Share {
        Share { part: self.failed, whole: self.checked }
    }
}

impl Share {
    /// In hundredths of a percent, rounded half up but never to 0 or to 100 %; `None` of nothing.
    pub fn hundredths(self) -> Option<u64> {
        if self.whole == 0 {
            return None;
        }
        let (part, whole) = (u128::from(self.part), u128::from(self.whole));
        let rounded = (part * 10_000 + whole / 2) / whole;
        let honest = match part {
            0 => 0,
            _ if part < whole => rounded.clamp(1, 9_999),
            _ => rounded,
        };
        u64::try_from(honest).ok()
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hundredths() {
            None => f.write_str("n/a"),
            Some(hundredths) => write!(f, "{}.{:02} %", hundredths / 100, hundredths % 100),
        }
    }
}

impl Summary {
    /// All items.
    pub fn items(&self) -> u64 {
        self.checked.values().sum::<u64>() + self.unrecognised
    }

    /// All findings, shown or not.
    pub fn findings(&self) -> u64 {
        self.rules.iter().map(|rule| rule.findings).sum()
    }

    /// The findings that are shown: gravest first, then by code, key and attribute.
    pub fn sample(&self) -> Vec<&Finding> {
        let mut all: Vec<&Finding> = self.rules.iter().flat_map(|rule| &rule.sample).collect();
        all.sort_by_key(|f| (Reverse(f.severity), &f.code, &f.key, &f.attribute));
        all
    }

    /// Rules of which there are findings.
    pub fn broken(&self) -> impl Iterator<Item = &RuleCount> {
        self.rules.iter().filter(|rule| rule.findings > 0)
    }

    /// Findings by severity, gravest first; without those of which there are none.
    pub fn severities(&self) -> Vec<(Severity, u64)> {
        let of =
            |severity| self.broken().filter(|rule| rule.severity == severity).map(|rule| rule.findings).sum::<u64>();
        let all = [Severity::Error, Severity::Warning, Severity::Info];
        all.map(|severity| (severity, of(severity))).into_iter().filter(|(_, findings)| *findings > 0).collect()
    }

    /// The gravest that was found.
    pub fn worst(&self) -> Option<Severity> {
        self.broken().map(|rule| rule.severity).max()
    }
}

pub(super) fn of(mut audit: Audit<'_>) -> Summary {
    let model = audit.model;
    let mut rules = Vec::new();
    let judged: Vec<(String, Option<String>)> = judged(&audit).collect();
    for (code, entity) in judged {
        let tally = audit.tallies.get_mut(&code).and_then(|by_entity| by_entity.remove(&entity));
        rules.push(row(&audit, code, entity, tally));
    }
    for (code, by_entity) in std::mem::take(&mut audit.tallies) {
        for (entity, tally) in by_entity {
            rules.push(row(&audit, code.clone(), entity, Some(tally)));
        }
    }
    rules.sort_by(|a, b| {
        let order = |rule: &RuleCount| (rule.findings == 0, Reverse(rule.severity));
        order(a).cmp(&order(b)).then_with(|| (&a.code, &a.entity).cmp(&(&b.code, &b.entity)))
    });
    let undecided = audit.totals.undecided(model).into_iter().map(|aggregate| {
        format!("whether totals of aggregate {aggregate} fit a number (A308) is undecided: there are more than {GROUPS_MAX} groups")
    });
    Summary {
        unrecognised: audit.unrecognised,
        set_aside: audit.set_aside.values().sum(),
        rules,
        undecided: undecided.collect(),
        checked: audit.checked,
    }
}

/// Every rule with every entity that there are items of and that it applies to; and those about items of no entity.
fn judged<'a>(audit: &'a Audit<'_>) -> impl Iterator<Item = (String, Option<String>)> + 'a {
    let model = audit.model;
    let of_none = ["K102", "K103"].into_iter().filter(|_| audit.unrecognised > 0 || !audit.checked.is_empty());
    let of_none = of_none.map(|code| (code.to_owned(), None));
    let entities = audit.checked.keys().filter_map(|name| model.entity(name));
    let of_entity = entities.flat_map(move |entity| {
        let rules = RULES.iter().filter(move |rule| applies(model, entity, rule.code));
        rules.map(move |rule| (rule.code.to_owned(), Some(entity.name.clone())))
    });
    of_none.chain(of_entity)
}

fn row(audit: &Audit<'_>, code: String, entity: Option<String>, tally: Option<Tally>) -> RuleCount {
    let all = match entity.as_deref() {
        Some(name) => audit.checked.get(name).copied().unwrap_or_default(),
        // Whether an item is of an entity is asked of all; what else is judged of them, of those alone.
        None if code.starts_with('S') => audit.unrecognised,
        None => audit.checked.values().sum::<u64>() + audit.unrecognised,
    };
    let aside = entity.as_deref().filter(|_| needs_sound_key(&code)).and_then(|name| audit.set_aside.get(name));
    let rule = rules::rule(&code);
    let tally = tally.unwrap_or_else(|| Tally {
        severity: severity(audit.model, &code, entity.as_deref()),
        failed: 0,
        undecidable: 0,
        decided: None,
        sample: Capped::new(0),
    });
    let undecidable = tally.undecidable + aside.copied().unwrap_or_default();
    let findings = tally.sample.all();
    let mut sample: Vec<Finding> = tally.sample.into_values().collect();
    sample.sort_by(|a, b| (&a.key, &a.attribute).cmp(&(&b.key, &b.attribute)));
    RuleCount {
        name: rule.map_or("", |rule| rule.name),
        code,
        severity: tally.severity,
        entity,
        checked: tally.decided.unwrap_or_else(|| all.saturating_sub(undecidable)),
        failed: tally.failed,
        undecidable,
        findings,
        sample,
    }
}

pub(super) fn severity(model: &Model, code: &str, entity: Option<&str>) -> Severity {
    let of_entity = entity.and_then(|name| model.entity(name)?.severities.get(code));
    let declared = of_entity.or_else(|| model.severities.get(code)).copied();
    declared.or_else(|| rules::rule(code).map(|rule| rule.severity)).unwrap_or(Severity::Error)
}
