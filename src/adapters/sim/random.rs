//! One seed, all chances: SplitMix64, small and the same on every machine, so that a seed is a whole story.

/// A stream of numbers that a seed decides.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in [0, 1).
    pub fn fraction(&mut self) -> f64 {
        // 53 bits: all that a float in [0, 1) holds evenly.
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `end`; 0 where there is none.
    pub fn below(&mut self, end: usize) -> usize {
        // The modulus favours small numbers by less than one in 2^50 here.
        (self.draw() % end.max(1) as u64) as usize
    }

    /// True so many times in a thousand.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < per_mille as usize
    }

    /// One of them; there must be one.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub fn shuffle<T>(&mut self, of: &mut [T]) {
        for at in (1..of.len()).rev() {
            let other = self.below(at + 1);
            of.swap(at, other);
        }
    }

    /// Another stream of numbers, so that one user's draws do not shift another's.
    pub fn fork(&mut self) -> Random {
        Random(self.draw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_story_and_chances_are_even() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..1000).map(|_| random.below(10)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        for digit in 0..10 {
            let count = draw(7).iter().filter(|drawn| **drawn == digit).count();
            assert!((60..140).contains(&count), "{digit}: {count}");
        }
        // The published first number of seed 0.
        assert_eq!(Random::new(0).draw(), 0xE220_A839_7B1D_CDAF);
    }
}
