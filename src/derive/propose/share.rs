//! How many items speak for a guess.

use std::fmt;

/// From so many items on, a few that disagree are taken for faults of theirs, not for a refutation.
const ENOUGH: usize = 20;
/// Of a hundred items, how many must agree then.
const PERCENT_MIN: usize = 97;

/// `agree` of `of` items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub agree: usize,
    pub of: usize,
}

impl Share {
    pub fn count(items: impl Iterator<Item = bool>) -> Share {
        items.fold(Share { agree: 0, of: 0 }, |share, agrees| Share {
            agree: share.agree + usize::from(agrees),
            of: share.of + 1,
        })
    }

    pub fn is_whole(self) -> bool {
        self.of > 0 && self.agree == self.of
    }

    /// All items agree, or so many that the others are suspects.
    pub fn holds(self) -> bool {
        self.is_whole() || self.of >= ENOUGH && self.agree * 100 >= self.of * PERCENT_MIN
    }

    /// How sure one may be that the next item agrees, in per cent: the rule of succession.
    pub fn percent(self) -> usize {
        (self.agree + 1) * 100 / (self.of + 2)
    }
}

/// `5 of 5 items`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} item{}", self.agree, self.of, if self.of == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_items_must_agree_all_and_many_nearly_all() {
        let holds = |agree, of| Share { agree, of }.holds();
        assert!(holds(1, 1) && holds(19, 19) && holds(97, 100));
        assert!(!holds(0, 0) && !holds(18, 19) && !holds(96, 100));
        assert_eq!(Share { agree: 1, of: 1 }.percent(), 66);
        assert_eq!(Share { agree: 5, of: 5 }.to_string(), "5 of 5 items");
    }
}
