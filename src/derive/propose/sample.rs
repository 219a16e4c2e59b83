//! A sample of bounded size from any number of items.

use crate::model::value::Item;

/// Each item seen has the same chance to be in the sample, wherever it stood. Without a clock and without true chance: the
/// same items in the same order give the same sample.
#[derive(Debug)]
pub struct Sample {
    items: Vec<Item>,
    size: usize,
    seen: u64,
    state: u64,
}

impl Sample {
    /// `size` is the most items that are kept; at least one is.
    pub fn new(size: usize) -> Sample {
        Sample { items: Vec::new(), size: size.max(1), seen: 0, state: 0x5DEE_CE66_D1CE_4E5B }
    }

    pub fn add(&mut self, item: Item) {
        self.seen += 1;
        if self.items.len() < self.size {
            self.items.push(item);
            return;
        }
        let place = usize::try_from(self.next() % self.seen).unwrap_or(usize::MAX);
        if let Some(slot) = self.items.get_mut(place) {
            *slot = item;
        }
    }

    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// How many items were offered.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::value::Value;

    #[test]
    fn the_sample_is_bounded_and_from_the_whole_length() {
        let mut sample = Sample::new(100);
        for n in 0..10_000 {
            sample.add(Item::new().with("PK", Value::N(n.to_string().parse().unwrap())));
        }
        assert_eq!((sample.items().len(), sample.seen()), (100, 10_000));
        let late = |item: &&Item| item.number("PK").unwrap() >= &"5000".parse().unwrap();
        let late = sample.items().iter().filter(late).count();
        assert!((30..=70).contains(&late), "{late}");
        let mut small = Sample::new(100);
        small.add(Item::new());
        assert_eq!(small.items().len(), 1);
    }
}
