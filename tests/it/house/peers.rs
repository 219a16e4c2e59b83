//! Faults that other readers of streams had, by the numbers of their own trackers: each is shown by a test of ours that names it, in a
//! comment of the form `// KCL 108: what happens`, so that nobody who changes that test forgets what it is for.
//!
//! `adapter` is the Kinesis adapter for DynamoDB streams as it is today, `kinesis-adapter` the one before.

use std::collections::BTreeSet;

use super::source::{Source, code_only, functions};
use super::{all_sources, source};

/// Every fault that a test must name, by whose it was.
const FAULTS: [(&str, &[&str]); 9] = [
    ("kinesis-adapter", &["20"]),
    ("KCL", &["108", "164", "185", "210", "537", "764", "1791"]),
    ("adapter", &["40", "1.5.1"]),
    ("redpanda", &["4319", "4489", "4545", "4737"]),
    ("Flink", &["36203", "36215", "36239", "36523", "37416"]),
    ("spice", &["10754"]),
    ("data-prepper", &["3534", "5208", "5413", "7150"]),
    ("powertools-java", &["1820"]),
    ("voice-of-customer", &["264", "364", "383"]),
];

type Name = (String, String);

fn expected() -> BTreeSet<Name> {
    let of = |(peer, numbers): &(&str, &[&str])| -> Vec<Name> {
        numbers.iter().map(|number| ((*peer).to_owned(), (*number).to_owned())).collect()
    };
    FAULTS.iter().flat_map(of).collect()
}

/// The names of `Flink 1, 2, KCL 3: what happens`; none if the comment is another, or does not say what happens.
fn names(comment: &str) -> Vec<Name> {
    let Some((names, what)) = comment.split_once(": ") else { return Vec::new() };
    let mut peer = None;
    let mut name = |part: &str| -> Option<Name> {
        let number = match part.split_once(' ') {
            Some((named, number)) => {
                peer = Some(FAULTS.iter().find(|(known, _)| *known == named)?.0);
                number
            }
            None => part,
        };
        let is_number = number.starts_with(|c: char| c.is_ascii_digit()) && !number.contains(' ');
        is_number.then_some((peer?.to_owned(), number.to_owned()))
    };
    let found: Option<Vec<Name>> = names.split(", ").map(&mut name).collect();
    found.filter(|_| what.trim().len() > 10).unwrap_or_default()
}

/// The faults that tests of this file name: a comment elsewhere shows nothing.
fn named(file: &Source) -> Vec<Name> {
    let lines: Vec<&str> = file.text.lines().collect();
    let is_test = |first: usize| {
        let above = lines[..first - 1].iter().rev();
        let mut attributes =
            above.map(|line| line.trim()).take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        attributes.any(|line| line == "#[test]" || line.starts_with("#[tokio::test"))
    };
    let tests: Vec<_> = functions(&code_only(&file.text)).into_iter().filter(|f| is_test(f.line)).collect();
    let in_test = |line: usize| tests.iter().any(|f| (f.line..f.line + f.length).contains(&line));
    let comments = lines.iter().enumerate().filter(|(at, _)| in_test(at + 1));
    comments.filter_map(|(_, line)| line.trim().strip_prefix("// ")).flat_map(names).collect()
}

#[test]
fn every_fault_of_a_peer_is_shown_by_a_test_that_names_it() {
    let (found, expected): (BTreeSet<Name>, _) = (all_sources().iter().flat_map(named).collect(), expected());
    let missing: Vec<&Name> = expected.difference(&found).collect();
    assert!(missing.is_empty(), "no test names {missing:?}; the form is `// KCL 108: what happens`, inside the test");
    // The other way round, a mistyped number would be a name that nobody looks for.
    let unknown: Vec<&Name> = found.difference(&expected).collect();
    assert!(unknown.is_empty(), "not in the list: {unknown:?}");
}

#[test]
fn a_fault_that_no_test_shows_is_caught() {
    let count = |text: &str| named(&source("src/x.rs", text)).len();
    let test = |comment: &str| format!("#[test]\nfn f() {{\n    // {comment}\n    g();\n}}\n");
    assert_eq!(count(&test("KCL 108: it hangs for minutes.")), 1);
    assert_eq!(count(&test("redpanda 4489, 4737, KCL 20: what happens is this.")), 3);
    assert_eq!(
        count(&test("adapter 1.5.1: deleted too early, and read again.").replace("#[test]", "#[tokio::test]")),
        1
    );
    assert_eq!(count(&test("KCL 108.")), 0, "it does not say what happens");
    assert_eq!(count(&test("KCL 108: so.")), 0, "nor this");
    assert_eq!(count(&test("Fink 36215: shuffled pages of shards.")), 0, "nobody of that name");
    assert_eq!(count(&test("KCL 108: it hangs for minutes.").replace("#[test]\n", "")), 0, "no test");
    assert_eq!(count("// KCL 108: it hangs for minutes.\nfn f() {}\n"), 0, "outside");
}
