//! References in model files: each of their faults by a case that breaks a rule, with the exact place, and one that keeps it.

use super::cases::BASE;
use super::{faults, shown};
use crate::model::load::load;

/// (code, the reference that breaks the rule, where the fault is, one that keeps it). It stands in line 27.
type Case = (&'static str, &'static str, &'static str, &'static str);

pub(super) const CASES: &[Case] = &[
    ("C120", r#"{ to = ["Customer", "Client"] }"#, "27:42", r#"{ to = ["Customer"] }"#),
    (
        "C122",
        r#"{ to = "Customer", copies = { Note = "Nam" } }"#,
        "27:59",
        r#"{ to = "Customer", copies = { Note = "Name" } }"#,
    ),
    (
        "C122",
        r#"{ to = "Customer", copies = { Noet = "Name" } }"#,
        "27:52",
        r#"{ to = "Customer", copies = { Note = "Name" } }"#,
    ),
    (
        "C123",
        r#"{ to = "Customer", with = { customer = "client" } }"#,
        "27:61",
        r#"{ to = "Customer", with = { customer = "Note" } }"#,
    ),
    (
        "C123",
        r#"{ to = "Customer", key = { PK = "CUSTOMER#{client}", SK = "PROFILE" } }"#,
        "27:64",
        r#"{ to = "Customer", key = { PK = "CUSTOMER#{Note:lower}", SK = "PROFILE" } }"#,
    ),
    (
        "C152",
        r#"{ to = "Customer", when = { State = "Opne" } }"#,
        "27:58",
        r#"{ to = "Customer", when = { State = "Open" } }"#,
    ),
    (
        "C160",
        r#"{ to = "Customer", key = { PK = "CUSTOMERS#{customer}", SK = "PROFILE" } }"#,
        "27:47",
        r#"{ to = "Customer", key = { PK = "CUSTOMER#{customer}" } }"#,
    ),
    ("C160", r#"{ to = ["Customer", "Order"] }"#, "27:42", r#"{ to = ["Customer"] }"#),
    (
        "C161",
        r#"{ to = "Customer", with = { client = "Note" } }"#,
        "27:50",
        r#"{ to = "Customer", with = { customer = "Note" } }"#,
    ),
    (
        "C161",
        r#"{ to = "Customer", with = { customer = "Note" }, key = { PK = "CUSTOMER#{Note}", SK = "PROFILE" } }"#,
        "27:41",
        r#"{ to = "Customer", key = { PK = "CUSTOMER#{Note}", SK = "PROFILE" } }"#,
    ),
    (
        "C161",
        r#"{ to = "Customer", key = { PK = "CUSTOMER#{Note}" }, copies = { Note = "Name" } }"#,
        "27:75",
        r#"{ to = "Customer", key = { PK = "CUSTOMER#{Note}" } }"#,
    ),
    (
        "C162",
        r#"{ to = "Customer", copies = { Amount = "Name" } }"#,
        "27:61",
        r#"{ to = "Customer", copies = { Due = "Name" } }"#,
    ),
];

const NOTE: &str = "attribute.Note = \"S\"\n";

fn with(reference: &str) -> String {
    assert!(BASE.contains(NOTE));
    BASE.replacen(NOTE, &format!("{NOTE}reference.customer = {reference}\n"), 1)
}

#[test]
fn each_case_breaks_its_rule_at_its_place_and_its_neighbour_does_not() {
    let mut wrong = String::new();
    for (code, bad, place, good) in CASES {
        let found = faults(&with(bad));
        let told: Vec<String> = found.iter().map(|fault| format!("{} {}", fault.code, fault.position)).collect();
        if told != [format!("{code} {place}")] {
            wrong += &format!("{code}: {bad} at {place}, found:\n{}", shown(&found));
        }
        let found = faults(&with(good));
        if !found.is_empty() {
            wrong += &format!("{code}: {good} should be fine, found:\n{}", shown(&found));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_key_that_is_left_out_is_the_other_entity_s_with_own_names() {
    let model = load(&with(r#"{ to = "Customer", with = { customer = "Note" }, copies = ["Name"] }"#), "x");
    let faults = model.unwrap_err();
    assert_eq!(faults[0].code, "C122", "{}", shown(&faults));
    let model = load(&with(r#"{ to = "Customer", with = { customer = "Note" }, copies = { Due = "Name" } }"#), "x");
    let model = model.unwrap().model;
    let reference = &model.entity("Order").unwrap().references[0];
    assert_eq!(reference.partition.source, "CUSTOMER#{Note}");
    assert_eq!(reference.sort.as_ref().unwrap().source, "PROFILE");
    assert_eq!((reference.copies[0].own.as_str(), reference.copies[0].master.as_str()), ("Due", "Name"));
    assert!(!reference.required && reference.when.is_empty());
}

#[test]
fn what_the_other_key_needs_is_said_where_it_is_wanting() {
    let source = BASE.replacen("[aggregate.orders]", "reference.order = { to = \"Order\" }\n\n[aggregate.orders]", 1);
    let found = faults(&source);
    assert_eq!((found.len(), found[0].code), (1, "C123"), "{}", shown(&found));
    assert!(found[0].remedy.contains("with = { order = "), "{}", found[0].remedy);
}

#[test]
fn faults_of_other_parts_are_told_once() {
    for (text, bad, code) in [
        ("SK = \"PROFILE\"", "SK = \"PROFILE{\"", "C111"),
        ("partition_key = \"PK\"", "partition_key = 1", "C104"),
        ("attribute.Name = { required = true }", "attribute.Name = { type = \"T\" }", "C105"),
    ] {
        let source = with(r#"{ to = "Customer", copies = { Note = "Name" } }"#);
        let found = faults(&source.replacen(text, bad, 1));
        let codes: Vec<&str> = found.iter().map(|fault| fault.code).collect();
        assert_eq!(codes, [code], "{bad}:\n{}", shown(&found));
    }
    for (bad, code) in [
        ("7", "C104"),
        ("{ key = { PK = \"x\" } }", "C103"),
        ("{ to = [] }", "C109"),
        ("{ to = \"Customer\", key = { SK = \"x\" } }", "C103"),
        ("{ to = \"Customer\", key = { PK = \"x{\" } }", "C111"),
        ("{ to = \"Customer\", wiht = { customer = \"Note\" } }", "C102"),
        ("{ to = \"Customer\", required = 1 }", "C104"),
    ] {
        let found = faults(&with(bad));
        let codes: Vec<&str> = found.iter().map(|fault| fault.code).collect();
        assert_eq!(codes, [code], "{bad}:\n{}", shown(&found));
    }
}
