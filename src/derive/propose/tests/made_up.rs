//! Tables made up for one thing each.

use super::*;
use crate::derive::testing::{item, n};
use crate::model::load::load;
use crate::model::spec::Format;
use crate::model::value::{Kind, Value};

/// Orders of a shop: open ones are in a sparse index, their numbers padded, their dates in the index's key.
fn orders(count: usize) -> Vec<Item> {
    let order = |at: usize| {
        let state = ["open", "paid", "shipped"][at % 3];
        let date = format!("2026-01-{:02}", at % 28 + 1);
        let order = item([
            ("PK", &format!("CUSTOMER#c{}", at % 17)),
            ("SK", &format!("ORDER#{at:08}")),
            ("Type", "Order"),
            ("State", state),
            ("Date", &date),
            ("GSI1PK", &format!("DAY#{date}")),
            ("GSI1SK", &format!("{}#{at:08}", state.to_uppercase())),
            ("Paid", if at.is_multiple_of(3) { "N/A" } else { &date }),
            (if at.is_multiple_of(4) { "ShipAddress" } else { "ShipAddressLine" }, "1 Main Street"),
        ]);
        let order = order.with("Number", n(&at.to_string())).with("expires_at", n("1790000000"));
        if state == "open" {
            order.with("GSI2PK", Value::text("OPEN")).with("GSI2SK", Value::text(date))
        } else {
            order
        }
    };
    (0..count).map(order).collect()
}

#[test]
fn keys_indexes_and_attributes_are_found() {
    let proposal = proposed(orders(90));
    let order = proposal.model.entity("Order").unwrap();
    assert_eq!(order.partition.source, "CUSTOMER#{customer}");
    assert_eq!(order.sort.as_ref().unwrap().source, "ORDER#{Number:08}");
    let sources = |at: usize| order.indexes[at].keys.iter().map(|(_, key)| key.source.as_str()).collect::<Vec<_>>();
    assert_eq!(sources(0), ["DAY#{Date}", "{State:upper}#{Number:08}"]);
    assert_eq!(sources(1), ["OPEN", "{Date}"]);
    let when = &order.indexes[1].when;
    assert_eq!((when[0].attribute.as_str(), when[0].values.as_slice()), ("State", &["open".to_owned()][..]));
    let attribute = |name: &str| order.attribute(name).unwrap();
    assert_eq!(attribute("State").one_of, ["open", "paid", "shipped"]);
    assert_eq!(
        (attribute("Paid").format, attribute("Paid").none.as_slice()),
        (Some(Format::Date), &["N/A".to_owned()][..])
    );
    assert_eq!(attribute("expires_at").format, Some(Format::EpochSeconds));
    assert_eq!(
        (attribute("ShipAddressLine").aliases.as_slice(), attribute("ShipAddressLine").required),
        (&["ShipAddress".to_owned()][..], true)
    );
    assert_eq!(attribute("Number").kind, Kind::N);
    assert!(attribute("Number").min.as_ref().is_some_and(|min| min.is_zero()), "a padded number is not negative");
    assert_eq!(found(&proposal), []);
    assert!(line(&proposal, "attribute.State").contains("90 of 90 items; guess: 98 %"));
}

/// A few that disagree are what `audit` is for: they do not refute the rule.
#[test]
fn the_majority_is_proposed_and_the_others_are_findings() {
    let mut items = orders(90);
    items[5].insert("GSI1PK", Value::text("DAY#2025-12-31"));
    items[6].0.remove("GSI2SK");
    items[7].insert("State", Value::text("Paid"));
    let proposal = proposed(items);
    assert_eq!(found(&proposal), [("G201", 1), ("G202", 1)]);
    assert!(line(&proposal, "index.GSI1").contains("check: 89 of 90 items agree with `Date`"));
    assert!(line(&proposal, "attribute.State").contains("check: seen once: `Paid`; check: some differ in case"));
}

#[test]
fn an_index_that_nothing_explains_is_left_open_and_says_so() {
    let mut items = orders(12);
    for (at, item) in items.iter_mut().enumerate() {
        item.0.retain(|name, _| !name.starts_with("GSI2"));
        if [1, 2, 3, 7].contains(&at) {
            *item = item.clone().with("GSI2PK", Value::text("FLAGGED")).with("GSI2SK", Value::text(format!("f{at}")));
        }
    }
    let proposal = proposed(items);
    assert_eq!(found(&proposal), []);
    let line = line(&proposal, "index.GSI2");
    assert!(line.contains("GSI2PK = \"{GSI2PK}\""), "{line}");
    assert!(
        line.contains("check: nothing tells which items are in it; say it by `when`, with GSI2PK = \"FLAGGED\""),
        "{line}"
    );
}

#[test]
fn each_proposed_aggregate_loads_without_its_signs() {
    let proposal = proposed(orders(90));
    let (model, aggregates) = proposal.text.split_once("# What could be counted").unwrap();
    let aggregates = aggregates.split_once('\n').unwrap().1;
    assert!(aggregates.lines().all(|line| line.starts_with('#')), "{aggregates}");
    let live: Vec<&str> = aggregates.lines().map(|line| line.trim_start_matches('#').trim_start()).collect();
    let loaded = load(&format!("{model}\n{}\n", live.join("\n")), "orders").unwrap();
    let aggregate = loaded.model.aggregate("order_by_state").unwrap();
    assert_eq!((aggregate.of.as_str(), aggregate.buckets.len()), ("Order", 3));
}

#[test]
fn without_a_name_in_the_items_the_keys_tell_the_entities() {
    let mut items: Vec<Item> =
        (0..6).map(|at| item([("pk", &format!("team/t{at}")), ("sk", "profile"), ("Name", "x")])).collect();
    items.extend((0..6).map(|at| item([("pk", &format!("team/t{}", at % 2)), ("sk", &format!("member/m{at}"))])));
    items.extend(
        (0..6).map(|at| item([("pk", &format!("team/t{}", at % 2)), ("sk", &format!("member/m{at}/badge/b{at}x"))])),
    );
    let proposal = proposed(items);
    assert_eq!((proposal.model.delimiter.as_str(), found(&proposal)), ("/", vec![]));
    let keys: Vec<(&str, &str)> = proposal
        .model
        .entities
        .iter()
        .map(|entity| (entity.partition.source.as_str(), entity.sort.as_ref().unwrap().source.as_str()))
        .collect();
    assert_eq!(
        keys,
        [
            ("team/{team}", "member/{member}"),
            ("team/{team}", "member/{member}/badge/{badge}"),
            ("team/{team}", "profile")
        ]
    );
    assert!(proposal.model.entities.iter().all(|entity| entity.matches.is_empty()));
}

#[test]
fn a_key_that_most_items_make_of_an_attribute_is_remarked() {
    let mut items: Vec<Item> = (0..5)
        .map(|at| {
            item([
                ("PK", "ROOM#music"),
                ("SK", &format!("2026-01-0{}T08:00:00Z", at + 1)),
                ("SentAt", &format!("2026-01-0{}T08:00:00Z", at + 1)),
            ])
        })
        .collect();
    items[3].insert("SentAt", Value::text("2026-01-04T07:30:00Z"));
    let proposal = proposed(items);
    assert!(
        line(&proposal, "key = ")
            .ends_with("# check: `time` is `SentAt` in 4 of 5 items; if the key is made of it, write {SentAt}")
    );
}

/// A time whose own sign is the delimiter stays whole; a date is no time without a zone.
#[test]
fn times_are_not_torn_apart() {
    let at = |at: usize| item([("PK", &format!("Sensor:s{at}")), ("SK", &format!("2026-03-0{}T10:20:30", at + 1))]);
    let proposal = proposed((0..5).map(at));
    let entity = &proposal.model.entities[0];
    assert_eq!(
        (entity.partition.source.as_str(), entity.sort.as_ref().unwrap().source.as_str()),
        ("Sensor:{sensor}", "{time}")
    );
    assert_eq!(found(&proposal), []);
}

#[test]
fn where_keys_overlap_the_smaller_entity_is_a_comment_with_the_reason() {
    let mut items: Vec<Item> = (0..5).map(|at| item([("PK", &format!("X#{at}")), ("SK", "META")])).collect();
    items.push(item([("PK", "9#9"), ("SK", "META")]));
    let proposal = proposed(items);
    assert_eq!(proposal.model.entities.len(), 1);
    assert!(proposal.text.contains("# check: left out, because a key could be of `X` and of"), "{}", proposal.text);
    assert!(proposal.text.contains("# key = { PK = \"{part1}#{part2}\""), "{}", proposal.text);
    assert_eq!(found(&proposal), [("K102", 1)]);
}

#[test]
fn items_that_lack_the_name_of_their_entity_are_told() {
    let mut items = orders(30);
    items[3].0.remove("Type");
    let proposal = proposed(items);
    assert_eq!((proposal.model.entities.len(), found(&proposal)), (1, vec![("K102", 1)]));
    assert!(proposal.text.contains("# check: 1 items have keys as below but no `Type` of text"), "{}", proposal.text);
}

#[test]
fn what_cannot_be_a_model_says_why() {
    let refused = |items: Vec<Item>, asked: &Asked| propose(&sample(items), asked, None).unwrap_err();
    assert_eq!(refused(Vec::new(), &asked()), ProposeError::NoItems);
    let same = || vec![item([("a", "x")]), item([("a", "x")])];
    assert!(refused(same(), &asked()).to_string().contains("--partition-key NAME"));
    let wrong = Asked { partition_key: Some("A".to_owned()), ..asked() };
    assert_eq!(refused(same(), &wrong), ProposeError::NoSuchKey { name: "A".to_owned() });
    let name = Asked { table: "no table".to_owned(), ..asked() };
    assert!(refused(orders(3), &name).to_string().contains("is no name of a table"));
}

#[test]
fn keys_of_other_names_and_types_can_be_said() {
    let row = |at: usize| item([("tenant", "a"), ("note", "same")]).with("seq", n(&at.to_string()));
    let said = Asked { partition_key: Some("tenant".to_owned()), sort_key: Some("seq".to_owned()), ..asked() };
    let proposal = propose(&sample((0..9).map(row)), &said, None).unwrap();
    assert_eq!(proposal.model.table.sort_key.as_ref().unwrap().kind, Kind::N);
    assert_eq!(proposal.model.entities[0].sort.as_ref().unwrap().source, "{seq}");
    assert_eq!(found(&proposal), []);
}
