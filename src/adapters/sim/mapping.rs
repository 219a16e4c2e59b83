//! What AWS Lambda's event source mapping decides about a batch of a stream, without I/O.
//!
//! The problem: whether a function loses or repeats records depends on what the mapping makes of its answers, so everybody who plays the
//! mapping must play it by the same rules: the deliverer of the stories (`run`), and the tests that drive the function as a program.
//!
//! The contract, after AWS's documentation: an answer without failures, an empty one and none at all are success; the lowest number that
//! is named becomes the checkpoint, and everything from it on comes again; a failure without a number, or with one that was
//! not delivered, fails the whole batch, as an error does. A batch that fails as a whole is halved, where the mapping does so, which takes no
//! retry from it; else it comes again, so many times, and is then given up.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use serde::Deserialize;

use crate::model::change::{RawRecord, SequenceNumber};
use crate::model::value::Item;

/// How a mapping is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// `BisectBatchOnFunctionError`.
    pub bisects: bool,
    /// `MaximumRetryAttempts`; `None`: for as long as the records live.
    pub retries_max: Option<u32>,
}

/// Records that are delivered together. Places count the records of a shard, or of a lane, from its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub places: Range<usize>,
    /// How often it was delivered before and failed.
    pub retries: u32,
}

/// What an invocation came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    Done,
    /// The record at this place is the first that failed.
    FailedFrom(usize),
    /// An error, no answer in time, or an answer that names nothing.
    Failed,
}

/// What becomes of a batch after an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// The checkpoint: everything before this place is done with.
    pub done_to: usize,
    /// What comes next, in this order, before any later record.
    pub again: Vec<Batch>,
    /// Goes to the on-failure destination.
    pub given_up: Option<Batch>,
}

impl Batch {
    pub fn new(places: Range<usize>) -> Batch {
        Batch { places, retries: 0 }
    }

    /// What becomes of it.
    pub fn after(self, said: Said, rules: Rules) -> Next {
        let Range { start, end } = self.places;
        let nothing = Next { done_to: start, again: Vec::new(), given_up: None };
        let from = match said {
            Said::Done => return Next { done_to: end, ..nothing },
            Said::FailedFrom(place) => place.clamp(start, end),
            Said::Failed => start,
        };
        if from == start && rules.bisects && end - start > 1 {
            let middle = start + (end - start) / 2;
            let half = |places| Batch { places, retries: self.retries };
            return Next { again: vec![half(start..middle), half(middle..end)], ..nothing };
        }
        let rest = Batch { places: from..end, retries: self.retries };
        match rules.retries_max {
            Some(most) if rest.retries >= most => Next { done_to: end, given_up: Some(rest), ..nothing },
            _ => Next { done_to: from, again: vec![Batch { retries: rest.retries + 1, ..rest }], ..nothing },
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Answer {
    batch_item_failures: Option<Vec<Named>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Named {
    item_identifier: Option<String>,
}

/// Reads an answer to records of these sequence numbers, the first of which is at place `first`.
pub fn said(answer: &str, first: usize, numbers: &[&str]) -> Said {
    if answer.trim().is_empty() {
        return Said::Done;
    }
    let Ok(answer) = serde_json::from_str::<Option<Answer>>(answer) else { return Said::Failed };
    let failures = answer.unwrap_or_default().batch_item_failures.unwrap_or_default();
    let mut lowest: Option<(SequenceNumber, usize)> = None;
    for failure in &failures {
        let Some(text) = &failure.item_identifier else { return Said::Failed };
        let Some(position) = numbers.iter().position(|number| number == text) else { return Said::Failed };
        let Ok(number) = text.parse() else { return Said::Failed };
        if lowest.as_ref().is_none_or(|(lowest, _)| number < *lowest) {
            lowest = Some((number, position));
        }
    }
    lowest.map_or(Said::Done, |(_, position)| Said::FailedFrom(first + position))
}

/// The mapping's filter, `dynamodb.NewImage._keeper` does not exist: derived items are not delivered, their deletes are.
pub fn passes_filter(record: &RawRecord) -> bool {
    !matches!(&record.new_image, Some(Ok(image)) if Item::is_ours(image))
}

/// Which of so many concurrent batches of a shard (`ParallelizationFactor`) a record belongs to: the records of an item keep their order.
pub fn lane(keys: &Item, lanes: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    for (name, value) in &keys.0 {
        (name.as_str(), format!("{value:?}")).hash(&mut hasher);
    }
    (hasher.finish() % lanes.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::value::Value;

    const PATIENT: Rules = Rules { bisects: false, retries_max: None };
    const NUMBERS: [&str; 3] = ["99", "820400000000000001192334", "1683700000000000001135967"];

    fn batch(places: Range<usize>, retries: u32) -> Batch {
        Batch { places, retries }
    }

    #[test]
    fn answers_are_read_as_aws_reads_them() {
        let read = |answer: &str| said(answer, 10, &NUMBERS);
        for done in
            ["", "null", "{}", r#"{"batchItemFailures":[]}"#, r#"{"batchItemFailures":null}"#, r#"{"state":{}}"#]
        {
            assert_eq!(read(done), Said::Done, "{done}");
        }
        let named = |identifiers: &str| read(&format!("{{\"batchItemFailures\":[{identifiers}]}}"));
        for failed in
            [r#"{"itemIdentifier":""}"#, r#"{"itemIdentifier":null}"#, r#"{"id":"99"}"#, r#"{"itemIdentifier":"5"}"#]
        {
            assert_eq!(named(failed), Said::Failed, "{failed}");
        }
        assert_eq!((read("error"), read("[7]")), (Said::Failed, Said::Failed));
        // The lowest as a number, whatever the order; as text it would be another.
        let both = r#"{"itemIdentifier":"1683700000000000001135967"},{"itemIdentifier":"820400000000000001192334"}"#;
        assert_eq!(named(both), Said::FailedFrom(11));
        assert_eq!(named(r#"{"itemIdentifier":"99"}"#), Said::FailedFrom(10));
    }

    #[test]
    fn what_is_done_never_comes_again_and_nothing_is_left_out() {
        assert_eq!(batch(5..9, 3).after(Said::Done, PATIENT), Next { done_to: 9, again: vec![], given_up: None });
        let partly = batch(5..9, 0).after(Said::FailedFrom(7), PATIENT);
        assert_eq!(partly, Next { done_to: 7, again: vec![batch(7..9, 1)], given_up: None });
        let whole = batch(5..9, 4).after(Said::Failed, PATIENT);
        assert_eq!(whole, Next { done_to: 5, again: vec![batch(5..9, 5)], given_up: None });
    }

    #[test]
    fn batches_are_halved_down_to_one_record_which_is_given_up_at_last() {
        let rules = Rules { bisects: true, retries_max: Some(2) };
        let halved = batch(5..8, 1).after(Said::Failed, rules);
        assert_eq!(halved, Next { done_to: 5, again: vec![batch(5..6, 1), batch(6..8, 1)], given_up: None });
        // Cut at the number that is named, which is the record that failed.
        let cut = batch(5..8, 1).after(Said::FailedFrom(6), rules);
        assert_eq!(cut, Next { done_to: 6, again: vec![batch(6..8, 2)], given_up: None });
        let single = batch(5..6, 1).after(Said::Failed, rules);
        assert_eq!(single.again, [batch(5..6, 2)]);
        let last = batch(5..6, 2).after(Said::Failed, rules);
        assert_eq!(last, Next { done_to: 6, again: vec![], given_up: Some(batch(5..6, 2)) });
        let never = Rules { bisects: false, retries_max: Some(0) };
        assert_eq!(batch(5..8, 0).after(Said::FailedFrom(7), never).given_up, Some(batch(7..8, 0)));
    }

    #[test]
    fn an_item_keeps_to_its_lane_and_lanes_share_the_items() {
        let keys = |n: usize| Item::new().with("PK", Value::text(format!("WO#{n}"))).with("SK", Value::text("X"));
        let lanes: Vec<usize> = (0..100).map(|n| lane(&keys(n), 10)).collect();
        assert_eq!(lanes, (0..100).map(|n| lane(&keys(n), 10)).collect::<Vec<_>>());
        assert!((0..10).all(|n| lanes.contains(&n)));
        assert_eq!(lane(&keys(1), 1), 0);
    }
}
