//! The first few of many, whatever the order in which they come.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counts everything and keeps the entries with the smallest keys, at most so many.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, V: Serialize",
    deserialize = "K: Deserialize<'de> + Ord, V: Deserialize<'de>"
))]
pub struct Capped<K, V> {
    most: usize,
    #[serde(with = "super::saved::pairs")]
    kept: BTreeMap<K, V>,
    all: u64,
}

impl<K: Ord, V> Capped<K, V> {
    pub fn new(most: usize) -> Capped<K, V> {
        Capped { most, kept: BTreeMap::new(), all: 0 }
    }

    /// Counts the entry, and keeps it if it is among the first. Of two with one key the earlier stays.
    pub fn add(&mut self, key: K, value: V) {
        self.all += 1;
        self.keep(key, value);
    }

    /// Counts entries that are not kept.
    pub fn pass_over(&mut self, entries: u64) {
        self.all += entries;
    }

    /// True if an entry might be kept, so that it is worth making: there is room, or `is_before` says that it stands before
    /// the last one that is kept, or beside it.
    pub fn has_room_for(&self, is_before: impl FnOnce(&K) -> bool) -> bool {
        self.kept.len() < self.most || self.kept.last_key_value().is_some_and(|(last, _)| is_before(last))
    }

    fn keep(&mut self, key: K, value: V) {
        self.kept.entry(key).or_insert(value);
        if self.kept.len() > self.most {
            self.kept.pop_last();
        }
    }

    /// Adds what another one counted and kept.
    pub fn merge(&mut self, other: Capped<K, V>) {
        self.all += other.all;
        for (key, value) in other.kept {
            self.keep(key, value);
        }
    }

    /// How many there were.
    pub fn all(&self) -> u64 {
        self.all
    }

    pub fn is_empty(&self) -> bool {
        self.all == 0
    }

    /// Those that are kept, in the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> {
        self.kept.iter()
    }

    pub fn into_values(self) -> impl Iterator<Item = V> {
        self.kept.into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_are_kept_whatever_the_order_and_all_are_counted() {
        let of = |numbers: &[u32]| {
            let mut capped = Capped::new(3);
            numbers.iter().for_each(|n| capped.add(*n, n * 10));
            capped
        };
        let kept = |capped: &Capped<u32, u32>| capped.iter().map(|(_, value)| *value).collect::<Vec<_>>();
        for numbers in [[5, 1, 4, 2, 3], [1, 2, 3, 4, 5], [5, 4, 3, 2, 1]] {
            assert_eq!((kept(&of(&numbers)), of(&numbers).all()), (vec![10, 20, 30], 5));
        }
        let mut merged = of(&[9, 2]);
        merged.merge(of(&[7, 1, 8, 6]));
        assert_eq!((kept(&merged), merged.all()), (vec![10, 20, 60], 6));
        assert!(merged.has_room_for(|last| 5 < *last) && !merged.has_room_for(|last| 7 < *last));
    }

    #[test]
    fn a_sample_of_nothing_still_counts() {
        let mut none = Capped::new(0);
        none.add(1, ());
        none.pass_over(2);
        assert!(none.all() == 3 && none.iter().next().is_none() && !none.has_room_for(|_| true));
    }
}
