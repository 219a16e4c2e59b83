//! Proposals: for the shipped samples, for tables made up here, and for anything at all.

mod anything;
mod made_up;
mod seeds;

use super::{Asked, AskedIndex, Known, Proposal, ProposeError, Sample, propose};
use crate::model::value::Item;

fn sample(items: impl IntoIterator<Item = Item>) -> Sample {
    let mut sample = Sample::new(10_000);
    items.into_iter().for_each(|item| sample.add(item));
    sample
}

fn asked() -> Asked {
    Asked { name: "orders".to_owned(), table: "orders".to_owned(), source: "a test".to_owned(), ..Asked::default() }
}

fn proposed(items: impl IntoIterator<Item = Item>) -> Proposal {
    propose(&sample(items), &asked(), None).unwrap()
}

fn found(proposal: &Proposal) -> Vec<(&str, usize)> {
    proposal.findings.iter().map(|(code, count)| (code.as_str(), *count)).collect()
}

/// The one line of the proposal that begins so.
fn line<'p>(proposal: &'p Proposal, start: &str) -> &'p str {
    let lines: Vec<&str> = proposal.text.lines().filter(|line| line.starts_with(start)).collect();
    assert_eq!(lines.len(), 1, "{start}: {}", proposal.text);
    lines[0]
}
