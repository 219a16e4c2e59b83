//! What nobody sees in keys (S403 to S405), and the case of their letters (S406).

use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization as _;

use crate::derive::testing::{aggregate, attribute, entity, entity_index, index, item, listing, model, strings};
use crate::model::derived::Severity;
use crate::model::spec::{Attribute, Model};
use crate::model::value::{Item, Kind, Value};

use super::{derived, verdicts};

const NONE: [&str; 0] = [];

/// Users by name, in an index by team; counted and listed by city.
fn users() -> Model {
    let mut model = model("PK", "SK");
    model.table.indexes = vec![index("GSI1", &["GSI1PK"], &[])];
    let mut user = entity("User", "USER#{Username}", "{part}");
    user.attributes = vec![
        Attribute { required: true, ..attribute("Username", Kind::S) },
        Attribute { aliases: strings(&["Place"]), ..attribute("City", Kind::S) },
        Attribute { one_of: strings(&[" first", "jose\u{301}"]), ..attribute("Team", Kind::S) },
        attribute("Notes", Kind::S),
        attribute("Id", Kind::S),
    ];
    user.indexes = vec![entity_index("GSI1", &[("GSI1PK", "TEAM#{Team}")])];
    model.entities = vec![user];
    model.aggregates = vec![aggregate("cities", "User", &["City"], "CITIES", "{City}")];
    model.listings = vec![listing("ids", "User", "IDS", "{Id}#{Username}#{part}")];
    model
}

fn user(name: &str) -> Item {
    item([("SK", "a"), ("Username", name)]).with("PK", Value::text(format!("USER#{name}")))
}

#[test]
fn a_name_has_one_form() {
    let model = users();
    assert_eq!(verdicts(&model, &user("jose\u{301}")), ["S403 Username jos\u{e9}"]);
    for clean in ["jos\u{e9}", "Łódź", "日本語", "नमस्ते", "👩\u{200d}🔧", "می\u{200c}خواهم", "Ann Lee", "it's", "~"]
    {
        assert_eq!(verdicts(&model, &user(clean)), NONE, "{clean}");
    }
    let finding = &derived(&model, &user("jose\u{301}")).findings[0];
    assert_eq!(finding.severity, Severity::Warning);
    let expected = "`Username` is `jose\u{301}` (`jose\\u{301}`): a value in a key that is not in Unicode normal form NFC; \
                    write `jos\\u{e9}`, there and in every key that is made of it (a primary key: put the item anew and delete this one)";
    assert_eq!(finding.message, expected);
    // Hangul that is written by its parts, and a singleton.
    assert_eq!(verdicts(&model, &user("\u{1112}\u{1161}\u{11ab}")), ["S403 Username \u{d55c}"]);
    assert_eq!(verdicts(&model, &user("\u{212b}")), ["S403 Username \u{c5}"]);
}

#[test]
fn blanks_and_control_characters_are_told_apart() {
    let model = users();
    assert_eq!(verdicts(&model, &user(" ann")), ["S404 Username ann"]);
    assert_eq!(verdicts(&model, &user("ann\u{a0}")), ["S404 Username ann"]);
    assert_eq!(verdicts(&model, &user("  ")), ["S404 Username a value"]);
    assert_eq!(verdicts(&model, &user("ann\t")), ["S405 Username ann"]);
    assert_eq!(verdicts(&model, &user("\u{feff}ann\n")), ["S405 Username ann"]);
    assert_eq!(verdicts(&model, &user("\n")), ["S405 Username a value"]);
    assert_eq!(verdicts(&model, &user(" an\u{7f}n")), ["S405 Username ann", "S404 Username an\u{7f}n"]);
    let finding = &derived(&model, &user("ann\t")).findings[0];
    assert_eq!((finding.severity, finding.actual.as_deref()), (Severity::Error, Some("ann\\t")));
    let expected = "`Username` is `ann\\t`: a value in a key with the character U+0009, which nobody sees; write `ann`, there and in \
                    every key that is made of it (a primary key: put the item anew and delete this one)";
    assert_eq!(finding.message, expected);
}

#[test]
fn only_what_goes_into_keys_is_looked_at() {
    let model = users();
    let with = |name: &str, text: &str| verdicts(&model, &user("ann").with(name, Value::text(text)));
    for free in ["None", " two\nlines\t", "undefined", "e\u{301}", "<b>"] {
        assert_eq!(with("Notes", free), NONE);
        assert_eq!(with("Undeclared", free), NONE);
    }
    // Into the key of an aggregate or of a listing, under whatever spelling it is there.
    assert_eq!(with("City", "Rome "), ["S404 City Rome"]);
    assert_eq!(with("Place", "Rome "), ["S404 Place Rome"]);
    assert_eq!(with("Id", "e\u{301}"), ["S403 Id \u{e9}"]);
    // What is declared is meant.
    for team in [" first", "jose\u{301}"] {
        let item = user("ann").with("Team", Value::text(team)).with("GSI1PK", Value::text(format!("TEAM#{team}")));
        assert_eq!(verdicts(&model, &item), NONE);
    }
}

#[test]
fn a_variable_is_mended_in_the_key_that_holds_it() {
    let model = users();
    let of = |sort: &str| verdicts(&model, &user("ann").with("SK", Value::text(sort)));
    assert_eq!(of("jose\u{301}"), ["S403 SK jos\u{e9}"]);
    assert_eq!(of("x\t"), ["S405 SK x"]);
    let mut other = users();
    other.entities = vec![entity("Board", "A {name}", "{x}#{y}"), entity("Raw", "B", "R# {z}")];
    let board = |partition: &str, sort: &str| verdicts(&other, &item([("PK", partition), ("SK", sort)]));
    // A literal's own blanks are the model's.
    assert_eq!(board("A jos\u{e9}", "1#2"), NONE);
    assert_eq!(board("B", "R# \u{e9}"), NONE);
    assert_eq!(board("A  b", "1# 2"), ["S404 PK A b", "S404 SK 1#2"]);
    // Whose entity is not known has only its key.
    assert_eq!(board("C", "e\u{301}"), ["K102 - -", "S403 SK \u{e9}"]);
}

#[test]
fn a_case_rule_is_broken_by_case_alone() {
    let mut model = model("PK", "SK");
    model.table.indexes = vec![index("GSI1", &["GSI1PK"], &[])];
    let mut user = entity("User", "USER#{Name:lower}", "{place:upper}");
    user.attributes = vec![Attribute { required: true, ..attribute("Name", Kind::S) }];
    user.indexes = vec![entity_index("GSI1", &[("GSI1PK", "{place:upper}#{Name:lower}")])];
    model.entities = vec![user];
    let user = |pk: &str, sk: &str, gsi: &str| {
        verdicts(&model, &item([("PK", pk), ("SK", sk), ("GSI1PK", gsi), ("Name", "Zoë")]))
    };
    assert_eq!(user("USER#zoë", "ROME", "ROME#zoë"), NONE);
    assert_eq!(user("USER#Zoë", "ROME", "ROME#zoë"), ["S406 PK USER#zoë"]);
    assert_eq!(user("USER#zoë", "Rome", "ROME#zoë"), ["S406 SK ROME"]);
    assert_eq!(user("USER#zoë", "ROME", "Rome#ZOË"), ["S406 GSI1PK ROME#zoë"]);
    // More than case: the old verdicts.
    assert_eq!(user("USER#zoe", "ROME", "ROME#zoë"), ["K101 PK USER#zoë"]);
    assert_eq!(user("USER#zoë", "ROME", "PARIS#zoë"), ["G201 GSI1PK ROME#zoë"]);
}

#[test]
fn a_key_without_a_case_rule_keeps_its_verdict() {
    let mut model = model("PK", "SK");
    let mut kind = entity("Kind", "METADATA#{Type}", "A");
    kind.attributes = vec![Attribute { required: true, ..attribute("Type", Kind::S) }];
    model.entities = vec![kind];
    let item = item([("PK", "METADATA#TOLERANCE"), ("SK", "A"), ("Type", "Tolerance")]);
    assert_eq!(verdicts(&model, &item), ["K101 PK METADATA#Tolerance"]);
    let message = &derived(&model, &item).findings[0].message;
    assert!(message.contains("only the case differs"), "{message}");
}

/// Texts with much that nobody sees.
fn text() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        4 => "[a-z ~#]",
        1 => prop::sample::select(vec![" ", "\t", "\n", "\u{a0}", "\u{301}", "e\u{301}", "\u{e9}", "\u{200b}", "\u{feff}", "\u{7f}", "\u{85}", "\u{212b}"])
            .prop_map(str::to_owned),
        1 => "\\PC",
    ];
    prop::collection::vec(letter, 1..6).prop_map(|letters| letters.concat())
}

proptest! {
    /// The short way over the bytes never hides a finding, none is made up, and what a finding expects has it no more.
    #[test]
    fn every_text_is_judged_as_by_its_definition(text in text()) {
        let model = users();
        let found = |text: &str, code: &str| derived(&model, &user(text)).findings.into_iter().find(|f| f.code == code);
        let blank = |c: Option<char>| c.is_some_and(|c| c.is_whitespace() && !c.is_control());
        let expected = [
            ("S403", text.nfc().ne(text.chars())),
            ("S404", blank(text.chars().next()) || blank(text.chars().next_back())),
            ("S405", text.chars().any(|c| c.is_control() || "\u{200b}\u{feff}".contains(c))),
        ];
        for (code, is_expected) in expected {
            let finding = found(&text, code);
            // Of the characters that nobody sees, any text may hold further ones.
            prop_assert!(!is_expected || finding.is_some(), "{code} {text:?}");
            prop_assert!(code == "S405" || is_expected || finding.is_none(), "{code} {text:?} {finding:?}");
            let mended = finding.and_then(|finding| finding.expected).filter(|mended| mended != "a value");
            if let Some(mended) = mended {
                prop_assert!(found(&mended, code).is_none(), "{code} {text:?} {mended:?}");
            }
        }
    }

    #[test]
    fn printable_ascii_is_never_a_finding_of_these(text in "[!-~]([ -~]{0,20}[!-~])?") {
        let model = users();
        let codes: Vec<String> = derived(&model, &user(&text)).findings.into_iter().map(|f| f.code).collect();
        prop_assert!(codes.iter().all(|code| ["S401", "S402"].contains(&code.as_str())), "{text:?} {codes:?}");
    }
}
