//! Counting what many items break, in memory that does not grow with them.
//!
//! The problem: a table has a hundred million items, and its owner wants to know which conventions are broken, how often, out of
//! how many, and by which items. Keeping every finding would need a machine of the table's size.
//!
//! The contract: an [`Audit`] takes what each item derives, once, in any order, and several of them [merge](Audit::merge) into what one
//! would have counted. The result is the same whatever the order and the number of audits: also the sample of findings,
//! which is chosen by a hash of the key. Its memory is bounded by the model (rules and entities), the size of the
//! sample, and [`GROUPS_MAX`] sums.
//!
//! What is counted for a rule and an entity:
//! - `checked`: items that the rule was decided for. It is all items of the entity, if the entity declares anything that the rule is
//!   about (A303 needs a declared set, G201 an index), without the undecidable ones;
//! - `failed`: those of them with at least one finding of the rule;
//! - `undecidable`: items for which nobody can say: index keys of an item whose primary key is in doubt, or whatever is
//!   reported by [`Audit::add_across`].
//!
//! Rules about items of no entity (K102, K103) are decided for all items. An item keeps at most
//! [`FINDINGS_MAX`](crate::derive::findings::FINDINGS_MAX) findings; those beyond it are told in its last one and not counted.

mod applies;
mod capped;
pub mod live;
mod saved;
mod summary;
mod totals;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};

use crate::derive::fold::is_set_aside;
use crate::engine::cross;
use crate::model::derived::{Derived, Finding, Severity};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, Text};

pub use capped::Capped;
pub use saved::Saved;
pub use summary::{RuleCount, Share, Summary};
pub use totals::GROUPS_MAX;

/// Sees every item that an audit judges, and what it derives: whatever else is to be known of them. Several threads may call it.
pub trait Witness: Sync {
    fn see(&self, key: &TableKey, item: &Item, derived: &Derived);
}

/// Nobody who looks on.
impl Witness for () {
    fn see(&self, _: &TableKey, _: &Item, _: &Derived) {}
}

/// Findings that are kept of each rule and entity, where nobody says more.
pub const SAMPLES_DEFAULT: usize = 20;

/// Where a finding stands in the order of the sample: by a hash first, so that the sample is spread over the table.
type Rank = (u64, TableKey, Option<String>);

/// One rule and one entity.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Tally {
    severity: Severity,
    failed: u64,
    undecidable: u64,
    /// What the rule was decided for, where it is not asked of each item once.
    decided: Option<u64>,
    sample: Capped<Rank, Finding>,
}

/// By code, then by entity; `None` is for items of no entity.
type Tallies = BTreeMap<String, BTreeMap<Option<String>, Tally>>;

/// What all items added so far break.
#[derive(Debug, Clone)]
pub struct Audit<'m> {
    model: &'m Model,
    samples: usize,
    /// Items by the entity that they were recognised as.
    checked: BTreeMap<Text, u64>,
    /// Of them, those whose primary key is in doubt.
    set_aside: BTreeMap<Text, u64>,
    unrecognised: u64,
    tallies: Tallies,
    totals: totals::Totals,
}

impl<'m> Audit<'m> {
    /// Keeps at most `samples` findings of each rule and entity.
    pub fn new(model: &'m Model, samples: usize) -> Audit<'m> {
        Audit {
            model,
            samples,
            checked: BTreeMap::new(),
            set_aside: BTreeMap::new(),
            unrecognised: 0,
            tallies: Tallies::new(),
            totals: totals::Totals::default(),
        }
    }

    /// Adds what one item derives.
    pub fn add(&mut self, derived: &Derived) {
        match &derived.entity {
            Some(entity) => {
                count(&mut self.checked, entity);
                if is_set_aside(derived) {
                    count(&mut self.set_aside, entity);
                }
            }
            None => self.unrecognised += 1,
        }
        for (at, finding) in derived.findings.iter().enumerate() {
            let is_first = derived.findings[..at].iter().all(|before| before.code != finding.code);
            self.admit(finding, u64::from(is_first));
        }
        self.totals.add(self.model, &derived.counts);
    }

    /// Adds a finding that came of no single item, or after all of them: one more item failed its rule.
    pub fn add_finding(&mut self, finding: &Finding) {
        self.admit(finding, 1);
    }

    /// Adds how a rule across items did, beside its findings ([`Audit::add_finding`]): its denominator is what items name, not the items.
    pub fn add_across(&mut self, across: &cross::Tally) {
        let severity = summary::severity(self.model, across.rule, Some(&across.entity));
        let tally = self.tally(across.rule, Some(&across.entity), severity);
        tally.undecidable += across.undecidable;
        *tally.decided.get_or_insert(0) += across.checked;
    }

    /// The one place that every finding passes before it counts; `failed` items are new with it.
    fn admit(&mut self, finding: &Finding, failed: u64) {
        let tally = self.tally(&finding.code, finding.entity.as_deref(), finding.severity);
        tally.failed += failed;
        tally.severity = tally.severity.max(finding.severity);
        let mut hash = DefaultHasher::new();
        (&finding.key, &finding.attribute).hash(&mut hash);
        let rank = || (hash.finish(), finding.key.clone(), finding.attribute.clone());
        if tally.sample.has_room_for(|(last, _, _)| hash.finish() <= *last) {
            tally.sample.add(rank(), finding.clone());
        } else {
            tally.sample.pass_over(1);
        }
    }

    fn tally(&mut self, code: &str, entity: Option<&str>, severity: Severity) -> &mut Tally {
        let samples = self.samples;
        if !self.tallies.contains_key(code) {
            self.tallies.insert(code.to_owned(), BTreeMap::new());
        }
        let by_entity = self.tallies.entry(code.to_owned()).or_default();
        by_entity.entry(entity.map(str::to_owned)).or_insert_with(|| Tally {
            severity,
            failed: 0,
            undecidable: 0,
            decided: None,
            sample: Capped::new(samples),
        })
    }

    /// Adds what another audit counted, of other items under the same model.
    pub fn merge(&mut self, other: Audit<'_>) {
        for (entity, items) in other.checked {
            *self.checked.entry(entity).or_default() += items;
        }
        for (entity, items) in other.set_aside {
            *self.set_aside.entry(entity).or_default() += items;
        }
        self.unrecognised += other.unrecognised;
        for (code, by_entity) in other.tallies {
            for (entity, theirs) in by_entity {
                let ours = self.tally(&code, entity.as_deref(), theirs.severity);
                ours.severity = ours.severity.max(theirs.severity);
                ours.failed += theirs.failed;
                ours.undecidable += theirs.undecidable;
                ours.decided = ours.decided.into_iter().chain(theirs.decided).reduce(|a, b| a + b);
                ours.sample.merge(theirs.sample);
            }
        }
        self.totals.merge(other.totals);
    }

    /// The result, with what can only be judged at the end: totals that no DynamoDB number can hold (A308).
    pub fn finish(mut self) -> Summary {
        for finding in self.totals.overflows(self.model) {
            self.add_finding(&finding);
        }
        summary::of(self)
    }
}

fn count(counts: &mut BTreeMap<Text, u64>, entity: &Text) {
    match counts.get_mut(entity) {
        Some(count) => *count += 1,
        None => {
            counts.insert(entity.clone(), 1);
        }
    }
}
