//! Totals of aggregates that no DynamoDB number can hold (A308), found with bounded memory.
//!
//! Sums are kept group by group, up to [`GROUPS_MAX`] groups. A table with more is not judged by this: the result says
//! so, it does not guess.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::derive::findings::Findings;
use crate::derive::rules::a308;
use crate::model::decimal::Sum;
use crate::model::derived::{Contribution, Finding};
use crate::model::key::TableKey;
use crate::model::spec::{Aggregate, Model};
use crate::model::value::Text;

/// Most groups whose sums are kept, over all aggregates.
pub const GROUPS_MAX: usize = 10_000;

/// Counts fit any number of items; only sums of values can leave the range.
pub fn has_sums(aggregate: &Aggregate) -> bool {
    !aggregate.sum.is_empty() || !aggregate.sum_squares.is_empty()
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Totals {
    #[serde(with = "super::saved::pairs")]
    sums: BTreeMap<(Text, TableKey), BTreeMap<Text, Sum>>,
    /// There were more groups than are kept; from then on nothing is.
    is_over: bool,
}

impl Totals {
    pub fn add(&mut self, model: &Model, counts: &[Contribution]) {
        if self.is_over {
            return;
        }
        let summed = |count: &&Contribution| model.aggregate(&count.aggregate).is_some_and(has_sums);
        for count in counts.iter().filter(summed) {
            let sums = self.sums.entry((count.aggregate.clone(), count.key.clone())).or_default();
            for (measure, number) in &count.measures {
                sums.entry(measure.clone()).or_default().add(number);
            }
        }
        self.bound();
    }

    pub fn merge(&mut self, other: Totals) {
        self.is_over |= other.is_over;
        for (group, theirs) in other.sums {
            let ours = self.sums.entry(group).or_default();
            for (measure, sum) in theirs {
                ours.entry(measure).or_default().merge(&sum);
            }
        }
        self.bound();
    }

    fn bound(&mut self) {
        if self.is_over || self.sums.len() > GROUPS_MAX {
            self.is_over = true;
            self.sums.clear();
        }
    }

    /// The aggregates whose totals nobody can judge here.
    pub fn undecided(&self, model: &Model) -> BTreeSet<String> {
        let summed = model.aggregates.iter().filter(|aggregate| self.is_over && has_sums(aggregate));
        summed.map(|aggregate| aggregate.name.clone()).collect()
    }

    /// One finding, under the aggregate's key, for each total that does not fit.
    pub fn overflows(&self, model: &Model) -> Vec<Finding> {
        let mut all = Vec::new();
        for ((name, key), sums) in &self.sums {
            let mut findings = Findings::new(model, key);
            findings.of_entity(model.aggregate(name).map(|aggregate| aggregate.of.as_str()));
            for (measure, sum) in sums {
                if let Err(error) = sum.total() {
                    a308::total(measure, name, &error, &mut findings);
                }
            }
            all.extend(findings.finish().0);
        }
        all
    }
}
