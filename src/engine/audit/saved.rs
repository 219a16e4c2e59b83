//! An audit between two runs: all that it has counted, to be written to a file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Audit, Tallies, Tally, totals};
use crate::model::spec::Model;
use crate::model::value::Text;

/// What an [`Audit`] has counted, without its model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Saved {
    samples: usize,
    checked: BTreeMap<Text, u64>,
    set_aside: BTreeMap<Text, u64>,
    unrecognised: u64,
    tallies: Vec<(String, Option<String>, Tally)>,
    totals: totals::Totals,
}

impl Audit<'_> {
    /// All that has been counted so far, as large as the audit itself.
    pub fn save(&self) -> Saved {
        let of_rule = |(code, tallies): (&String, &BTreeMap<Option<String>, Tally>)| {
            let named = |(entity, tally): (&Option<String>, &Tally)| (code.clone(), entity.clone(), tally.clone());
            tallies.iter().map(named).collect::<Vec<_>>()
        };
        Saved {
            samples: self.samples,
            checked: self.checked.clone(),
            set_aside: self.set_aside.clone(),
            unrecognised: self.unrecognised,
            tallies: self.tallies.iter().flat_map(of_rule).collect(),
            totals: self.totals.clone(),
        }
    }
}

impl Saved {
    /// Findings that the audit keeps of each rule and entity.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// The audit as it was, under the model that it was of.
    pub fn restore(self, model: &Model) -> Audit<'_> {
        let mut tallies = Tallies::new();
        for (code, entity, tally) in self.tallies {
            tallies.entry(code).or_default().insert(entity, tally);
        }
        Audit {
            model,
            samples: self.samples,
            checked: self.checked,
            set_aside: self.set_aside,
            unrecognised: self.unrecognised,
            tallies,
            totals: self.totals,
        }
    }
}

/// Maps whose keys are no texts, as pairs.
pub mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}
