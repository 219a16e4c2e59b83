//! Denominators, samples, the order of things that must not matter, and totals that no number can hold.

use super::*;
use crate::derive::derive;
use crate::derive::testing::{
    aggregate, attribute, condition, entity, entity_index, index, item, key_of, model as bare, n,
};
use crate::model::spec::Attribute;
use crate::model::value::{Item, Kind, Value};

/// Orders with an index, a set of states and a number that is summed; notes with nothing.
pub(super) fn model() -> Model {
    let mut model = bare("PK", "SK");
    model.table.indexes = vec![index("ByState", &["IPK"], &[])];
    let mut order = entity("Order", "ORD#{order}", "HEAD");
    order.indexes = vec![entity_index("ByState", &[("IPK", "{State}#{order}")])];
    let one_of = vec!["open".to_owned(), "shut".to_owned()];
    order.attributes =
        vec![Attribute { one_of, required: true, ..attribute("State", Kind::S) }, attribute("Price", Kind::N)];
    model.entities = vec![order, entity("Note", "NOTE#{note}", "HEAD")];
    let mut prices = aggregate("prices", "Order", &["order"], "PRICES#{order}", "SUM");
    prices.sum = vec!["Price".into()];
    model.aggregates = vec![prices];
    model
}

pub(super) fn order(number: usize, state: &str, index_key: &str) -> Item {
    item([("PK", &format!("ORD#{number}")), ("SK", "HEAD"), ("State", state), ("IPK", index_key)])
}

pub(super) fn sound(number: usize) -> Item {
    order(number, "open", &format!("open#{number}"))
}

fn add(audit: &mut Audit<'_>, model: &Model, item: &Item) {
    audit.add(&derive(model, &key_of(model, item), item));
}

fn audited(model: &Model, samples: usize, items: &[Item]) -> Summary {
    let mut audit = Audit::new(model, samples);
    items.iter().for_each(|item| add(&mut audit, model, item));
    audit.finish()
}

fn rule<'s>(summary: &'s Summary, code: &str, entity: Option<&str>) -> Option<&'s RuleCount> {
    summary.rules.iter().find(|rule| rule.code == code && rule.entity.as_deref() == entity)
}

#[test]
fn a_rule_is_counted_out_of_the_items_that_it_applies_to() {
    let model = model();
    let mut items: Vec<Item> = (0..6).map(sound).collect();
    items.push(order(6, "open", "shut#6"));
    items.push(order(7, "gone", "gone#7"));
    items.extend((0..4).map(|note| item([("PK", &format!("NOTE#{note}")), ("SK", "HEAD")])));
    items.push(item([("PK", "WHO#1"), ("SK", "HEAD")]));
    let summary = audited(&model, 20, &items);
    assert_eq!((summary.items(), summary.unrecognised), (13, 1));
    let counts = |code, entity| {
        rule(&summary, code, entity).map(|rule| (rule.checked, rule.failed, rule.undecidable, rule.share().to_string()))
    };
    assert_eq!(counts("G201", Some("Order")), Some((8, 1, 0, "12.50 %".to_owned())));
    assert_eq!(counts("A303", Some("Order")), Some((8, 1, 0, "12.50 %".to_owned())));
    assert_eq!(counts("A301", Some("Order")), Some((8, 0, 0, "0.00 %".to_owned())));
    assert_eq!(counts("K101", Some("Note")), Some((4, 0, 0, "0.00 %".to_owned())));
    // Whether an item is of an entity is asked of all of them.
    assert_eq!(counts("K102", None), Some((13, 1, 0, "7.69 %".to_owned())));
    // A note has no attributes, no index and no range: nothing that these could be about.
    for code in ["A301", "A302", "A303", "A307", "A308", "G201", "K102"] {
        assert_eq!(counts(code, Some("Note")), None, "{code}");
    }
    assert_eq!(counts("A307", Some("Order")), None);
    assert_eq!((summary.worst(), summary.findings()), (Some(Severity::Error), 3));
    // Broken rules come first.
    assert!(summary.rules.iter().rev().skip_while(|rule| rule.findings == 0).all(|rule| rule.findings > 0));
}

#[test]
fn index_keys_of_an_item_whose_own_key_is_in_doubt_are_undecidable() {
    let mut model = model();
    model.entities[0].matches = vec![condition("Type", &["Order"])];
    let mut broken = sound(1).with("Type", Value::text("Order"));
    broken.insert("PK", Value::text("ODD#1"));
    let summary = audited(&model, 20, &[sound(2).with("Type", Value::text("Order")), broken]);
    let g201 = rule(&summary, "G201", Some("Order")).unwrap();
    assert_eq!((g201.checked, g201.failed, g201.undecidable), (1, 0, 1));
    let k101 = rule(&summary, "K101", Some("Order")).unwrap();
    assert_eq!((k101.checked, k101.failed, k101.undecidable), (2, 1, 0));
    assert_eq!(summary.set_aside, 1);
}

#[test]
fn neither_the_order_nor_the_number_of_audits_changes_the_result() {
    let model = model();
    let items: Vec<Item> = (0..500).map(|number| order(number, ["open", "gone"][number % 2], "stale#0")).collect();
    let shown = |summary: &Summary| format!("{summary:?}");
    let whole = audited(&model, 7, &items);
    let g201 = rule(&whole, "G201", Some("Order")).unwrap();
    assert_eq!((g201.failed, g201.findings, g201.sample.len()), (500, 500, 7));
    let keys: Vec<&TableKey> = g201.sample.iter().map(|finding| &finding.key).collect();
    assert!(keys.is_sorted(), "{keys:?}");
    let backwards: Vec<Item> = items.iter().rev().cloned().collect();
    assert_eq!(shown(&audited(&model, 7, &backwards)), shown(&whole));
    for parts in [2, 3] {
        let mut audits: Vec<Audit<'_>> = (0..parts).map(|_| Audit::new(&model, 7)).collect();
        for (at, item) in items.iter().enumerate() {
            add(&mut audits[at % parts], &model, item);
        }
        let merged = audits.into_iter().rev().reduce(|mut one, other| {
            one.merge(other);
            one
        });
        assert_eq!(shown(&merged.unwrap().finish()), shown(&whole), "{parts}");
    }
}

#[test]
fn findings_and_doubts_that_come_at_the_end_count_as_all_others() {
    let model = model();
    let mut audit = Audit::new(&model, 1);
    (0..4).for_each(|number| add(&mut audit, &model, &sound(number)));
    let finding = |number: usize| Finding {
        code: "X501".into(),
        severity: Severity::Warning,
        entity: Some("Order".into()),
        key: key_of(&model, &sound(number)),
        attribute: None,
        expected: None,
        actual: None,
        message: "no such user".into(),
    };
    audit.add_finding(&finding(1));
    audit.add_finding(&finding(2));
    audit.add_across(&cross::Tally { rule: "X501", entity: "Order".into(), checked: 7, failed: 2, undecidable: 1 });
    let summary = audit.finish();
    let x501 = rule(&summary, "X501", Some("Order")).unwrap();
    assert_eq!((x501.checked, x501.failed, x501.undecidable, x501.sample.len()), (7, 2, 1, 1));
    assert_eq!(summary.severities(), [(Severity::Warning, 2)]);
}

#[test]
fn a_total_that_fits_no_number_is_found_and_too_many_groups_are_admitted() {
    let model = model();
    // 1E-100 is a number, and so is 1; both together have 101 digits.
    let priced = |number: usize, price: &str| sound(number).with("Price", n(price));
    let one = |item: &Item| {
        let mut derived = derive(&model, &key_of(&model, item), item);
        let key = TableKey::text("PRICES#1", "SUM");
        derived.counts.iter_mut().for_each(|count| count.key = key.clone());
        derived
    };
    let (mut audit, mut other) = (Audit::new(&model, 5), Audit::new(&model, 5));
    audit.add(&one(&priced(1, "1")));
    other.add(&one(&priced(2, "1E-100")));
    audit.merge(other);
    let summary = audit.finish();
    let a308 = rule(&summary, "A308", Some("Order")).unwrap();
    assert_eq!((a308.findings, a308.sample[0].attribute.as_deref()), (1, Some("Sum_Price")));
    assert_eq!(summary.undecided, [""; 0]);

    let groups = |count: usize| {
        let items: Vec<Item> = (0..count).map(|number| priced(number, "1")).collect();
        audited(&model, 5, &items)
    };
    assert_eq!(groups(GROUPS_MAX).undecided, [""; 0]);
    let over = groups(GROUPS_MAX + 1);
    assert!(over.undecided.len() == 1 && over.undecided[0].contains("aggregate prices"), "{:?}", over.undecided);
}

#[test]
fn a_share_never_says_none_or_all_where_it_is_not() {
    let shown = |part, whole| Share { part, whole }.to_string();
    assert_eq!(shown(1, 1_000_000), "0.01 %");
    assert_eq!(shown(999_999, 1_000_000), "99.99 %");
    assert_eq!([shown(0, 5), shown(5, 5), shown(1, 3), shown(0, 0)], ["0.00 %", "100.00 %", "33.33 %", "n/a"]);
    assert_eq!(shown(u64::MAX - 1, u64::MAX), "99.99 %");
}
