//! Every rule about items by a case that breaks it and one beside it that keeps it.
//!
//! A rule without a case fails the test below: write its line in [`CASES`]. Rules that `derive()` alone cannot break (records that
//! cannot be decoded; whatever needs a second item) have their cases beside the code that finds them, and a line in [`ELSEWHERE`].

use crate::derive::derive;
use crate::derive::rules::RULES;
use crate::derive::testing::{key_of, n};
use crate::model::derived::Finding;
use crate::model::load::load;
use crate::model::spec::Model;
use crate::model::value::{Item, Value};

const MODEL: &str = r##"
version = 1

[table]
name = "shop"
partition_key = "PK"
sort_key = "SK"
ttl = "ttl"

[table.index.GSI1]
partition = ["GSI1PK"]
sort = ["GSI1SK"]

[table.index.GSI2]
partition = ["GSI2PK"]

[entity.Order]
match = { Type = "Order" }
key = { PK = "ORDER#{Number:06}", SK = "AT#{at:timestamp-utc.3}" }
index.GSI1 = { GSI1PK = "OWNER#{Owner:lower}", GSI1SK = "{State}#{Number:06}" }
index.GSI2 = { GSI2PK = "OPEN", when = { State = "Open" } }
attribute.Number = { type = "N", required = true, min = 0, max = 999999 }
attribute.Owner = { required = true }
attribute.State = { required = true, one_of = ["Open", "Closed"] }
attribute.Due = { format = "date", none = ["N/A"] }
attribute.Amount = { type = "N", min = 0, max = 9999999999999999999999 }
attribute.Rank = { type = "N", min = 0 }
attribute.Note = "S"

[entity.User]
key = { PK = "USER#{user}", SK = "USER#{user}" }

[entity.Task]
key = { PK = "BOARD", SK = "TASK#{task}" }

[entity.Comment]
key = { PK = "BOARD", SK = "TASK#{task}#COMMENT#{comment}" }

[aggregate.amounts]
of = "Order"
sum_squares = ["Amount"]
key = { PK = "STATS", SK = "AMOUNTS" }

[listing.by_rank]
of = "Order"
key = { PK = "RANKS", SK = "{Rank:04}#{Number:06}#{at}" }
"##;

/// What an attribute of the item is instead.
#[derive(Debug, Clone, Copy)]
enum To {
    S(&'static str),
    N(&'static str),
    Null,
    Gone,
}
use To::{Gone, N, Null, S};

type Changes = &'static [(&'static str, To)];

/// An order without a fault.
const ORDER: Changes = &[
    ("PK", S("ORDER#000007")),
    ("SK", S("AT#2026-03-01T10:00:00.000Z")),
    ("Type", S("Order")),
    ("GSI1PK", S("OWNER#ann")),
    ("GSI1SK", S("Open#000007")),
    ("GSI2PK", S("OPEN")),
    ("Number", N("7")),
    ("Owner", S("Ann")),
    ("State", S("Open")),
    ("Amount", N("2.50")),
];

const USER: Changes = &[("PK", S("USER#ann")), ("SK", S("USER#ann"))];

const TASK: Changes = &[("PK", S("BOARD")), ("SK", S("TASK#1"))];

/// The rule, the item, what breaks the rule in it, the attribute of the finding, what comes near and keeps every rule.
type Case = (&'static str, Changes, Changes, Option<&'static str>, Changes);

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("A301", ORDER, &[("Number", Gone)], Some("Number"), &[("Due", Gone)]),
    ("A302", ORDER, &[("Amount", S("2.50"))], Some("Amount"), &[("Amount", N("0"))]),
    ("A302", ORDER, &[("Due", Null)], Some("Due"), &[("Due", S("N/A"))]),
    ("A303", ORDER, &[("State", S("open")), ("GSI1SK", S("open#000007")), ("GSI2PK", Gone)], Some("State"), &[("State", S("Closed")), ("GSI1SK", S("Closed#000007")), ("GSI2PK", Gone)]),
    ("A304", ORDER, &[("Due", S("31.12.2026"))], Some("Due"), &[("Due", S("2026-12-31"))]),
    ("A304", ORDER, &[("SK", S("AT#2026-03-01T10:00:00+02:00"))], Some("SK"), &[("SK", S("AT#2026-03-01T08:00:00.000Z"))]),
    ("A305", ORDER, &[("Due", S("2026-02-29"))], Some("Due"), &[("Due", S("2028-02-29"))]),
    ("A305", ORDER, &[("SK", S("AT#2026-02-30T10:00:00.000Z"))], Some("SK"), &[("SK", S("AT#2026-02-28T10:00:00.000Z"))]),
    ("A306", ORDER, &[("ttl", N("1767225600000"))], Some("ttl"), &[("ttl", N("1767225600"))]),
    ("A306", ORDER, &[("ttl", S("1767225600"))], Some("ttl"), &[("ttl", N("0"))]),
    ("A307", ORDER, &[("Amount", N("-0.01"))], Some("Amount"), &[("Amount", N("0"))]),
    ("A308", ORDER, &[("Amount", N("12345678901234567890.5"))], Some("Amount"), &[("Amount", N("1234567890123456789"))]),
    ("A309", ORDER, &[("Rank", N("12345"))], Some("Rank"), &[("Rank", N("1234"))]),
    ("A310", ORDER, &[("ttl", N("20261231"))], Some("ttl"), &[("ttl", N("1798675200"))]),
    ("G201", ORDER, &[("GSI1SK", S("Closed#000007"))], Some("GSI1SK"), &[("State", S("Closed")), ("GSI1SK", S("Closed#000007")), ("GSI2PK", Gone)]),
    ("G202", ORDER, &[("GSI1SK", Gone)], Some("GSI1SK"), &[("Note", Gone)]),
    ("G203", ORDER, &[("State", S("Closed")), ("GSI1SK", S("Closed#000007"))], Some("GSI2PK"), &[("State", S("Closed")), ("GSI1SK", S("Closed#000007")), ("GSI2PK", Gone)]),
    ("G203", USER, &[("GSI1PK", S("OWNER#ann"))], Some("GSI1PK"), &[("Owner", S("ann"))]),
    ("G204", ORDER, &[("GSI2PK", Gone)], Some("GSI2PK"), &[("GSI2PK", S("OPEN"))]),
    ("G205", ORDER, &[("GSI2PK", Null)], Some("GSI2PK"), &[("GSI2PK", S("OPEN"))]),
    ("G205", ORDER, &[("GSI1SK", S(""))], Some("GSI1SK"), &[("Note", S(""))]),
    ("K101", ORDER, &[("PK", S("ORDER#7"))], Some("PK"), &[("Number", N("7.0"))]),
    ("K101", ORDER, &[("Number", N("1234567"))], Some("PK"), &[("Number", N("7E0"))]),
    ("K102", ORDER, &[("Type", S("order"))], Some("Type"), &[("Note", S("order"))]),
    ("K102", USER, &[("PK", S("ann"))], None, &[("PK", S("USER#bob")), ("SK", S("USER#bob"))]),
    ("K103", TASK, &[("SK", S("TASK#1#COMMENT#2#3"))], None, &[("SK", S("TASK#1#COMMENT#2"))]),
    ("K104", USER, &[("SK", S("USER#bob"))], Some("SK"), &[("Owner", S("bob"))]),
    ("S401", ORDER, &[("Owner", S("Ann#x")), ("GSI1PK", S("OWNER#ann#x"))], Some("Owner"), &[("Note", S("Ann#x"))]),
    ("S402", ORDER, &[("Owner", S("undefined")), ("GSI1PK", S("OWNER#undefined"))], Some("GSI1PK"), &[("Note", S("undefined"))]),
    ("S402", USER, &[("PK", S("USER#None")), ("SK", S("USER#None"))], Some("PK"), &[("PK", S("USER#none")), ("SK", S("USER#none"))]),
    ("S402", USER, &[("PK", S("USER#${user}")), ("SK", S("USER#${user}"))], Some("PK"), &[("PK", S("USER#$user")), ("SK", S("USER#$user"))]),
    ("S402", TASK, &[("SK", S("TASK##COMMENT#2"))], Some("SK"), &[("SK", S("TASK#0#COMMENT#2"))]),
    ("S403", USER, &[("PK", S("USER#jose\u{301}")), ("SK", S("USER#jose\u{301}"))], Some("PK"), &[("PK", S("USER#jos\u{e9}")), ("SK", S("USER#jos\u{e9}"))]),
    ("S404", ORDER, &[("Owner", S("Ann ")), ("GSI1PK", S("OWNER#ann "))], Some("Owner"), &[("Owner", S("Ann Lee")), ("GSI1PK", S("OWNER#ann lee")), ("Note", S(" x "))]),
    ("S405", TASK, &[("SK", S("TASK#x\t"))], Some("SK"), &[("SK", S("TASK#x\u{200d}"))]),
    ("S406", ORDER, &[("GSI1PK", S("OWNER#Ann"))], Some("GSI1PK"), &[("Owner", S("ANN"))]),
];

/// Rules whose cases stand in other files: those name the code in quotes, broken and kept.
const ELSEWHERE: &[(&str, &str)] = &[
    ("P901", "src/derive/tests/faults.rs"),
    ("P902", "src/derive/tests/faults.rs"),
    ("P903", "src/derive/tests/faults.rs"),
    ("X501", "src/engine/cross/tests/cases.rs"),
    ("X502", "src/engine/cross/tests/cases.rs"),
    ("X503", "src/engine/cross/tests/cases.rs"),
];

/// Words by which a message says what is to be done.
const REMEDIES: [&str; 11] =
    ["write ", "set ", "remove ", "mend ", "put ", "declare ", "leave ", "store ", "tell ", "keep ", "delete "];

pub fn model() -> Model {
    load(MODEL, "shop").unwrap().model
}

fn item(parts: [Changes; 2]) -> Item {
    let mut item = Item::new();
    for (name, to) in parts.into_iter().flatten() {
        match to {
            S(text) => item.insert(*name, Value::text(*text)),
            N(number) => item.insert(*name, n(number)),
            Null => item.insert(*name, Value::Null(true)),
            Gone => drop(item.0.remove(*name)),
        }
    }
    item
}

/// Items without a fault.
pub fn good() -> Vec<Item> {
    [ORDER, USER, TASK].map(|of| item([of, &[]])).to_vec()
}

fn findings(model: &Model, item: &Item) -> Vec<Finding> {
    derive(model, &key_of(model, item), item).findings
}

fn found(case: &Case, model: &Model) -> Option<Finding> {
    let (code, of, breaks, attribute, _) = case;
    let fits = |finding: &Finding| finding.code == *code && finding.attribute.as_deref() == *attribute;
    findings(model, &item([of, breaks])).into_iter().find(fits)
}

#[test]
fn each_case_breaks_its_rule_and_its_neighbour_breaks_none() {
    let (model, mut wrong) = (model(), String::new());
    for case in CASES {
        let (code, of, breaks, attribute, keeps) = case;
        if found(case, &model).is_none() {
            let all = findings(&model, &item([of, breaks]));
            wrong += &format!("{code} at {attribute:?} of {breaks:?}, found {all:#?}\n");
        }
        let all = findings(&model, &item([of, keeps]));
        if !all.is_empty() {
            wrong += &format!("{code}: {keeps:?} should be fine, found {all:#?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_rule_has_a_case() {
    for rule in RULES {
        let here = CASES.iter().any(|(code, ..)| *code == rule.code);
        let elsewhere = ELSEWHERE.iter().find(|(code, _)| *code == rule.code);
        assert!(here != elsewhere.is_some(), "{} `{}` has no case, or one in two places", rule.code, rule.name);
        if let Some((code, file)) = elsewhere {
            let text = std::fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
            assert!(text.contains(&format!("\"{code}")), "{file} has no case of {code}");
        }
    }
    let codes = CASES.iter().map(|(code, ..)| code).chain(ELSEWHERE.iter().map(|(code, _)| code));
    codes.for_each(|code| assert!(RULES.iter().any(|rule| rule.code == *code), "{code} is no rule"));
}

/// A person must be able to act: what is where, what it is, what it should be, what to do.
#[test]
fn every_message_says_where_what_and_what_to_do() {
    let model = model();
    for case in CASES {
        let Some(finding) = found(case, &model) else { continue };
        let (code, message) = (&finding.code, &finding.message);
        if let Some(attribute) = &finding.attribute {
            assert!(message.contains(&format!("`{attribute}`")), "{code} does not name the attribute: {message}");
        }
        if let Some(actual) = &finding.actual {
            assert!(message.contains(actual.as_str()), "{code} does not show `{actual}`: {message}");
        }
        let remedy = message.rsplit_once("; ").map_or("", |(_, remedy)| remedy);
        assert!(REMEDIES.iter().any(|word| remedy.contains(word)), "{code} has no remedy: {message}");
        // What is nobody's item has no entity.
        assert_eq!(finding.entity.is_none(), ["K102", "K103"].contains(&code.as_str()), "{code}");
        let expected_is_absence = ["A309", "G203", "K102", "K103"].contains(&code.as_str());
        assert!(finding.expected.is_some() || expected_is_absence, "{code} expects nothing: {message}");
    }
}
