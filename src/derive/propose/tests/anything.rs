//! Whatever the items are: no panic, and what is proposed loads.

use proptest::prelude::*;

use super::*;
use crate::model::value::{Bytes, Value};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Za-z0-9#:/|_{}\"'\\\\ .-]{0,12}",
        "(USER|WO|a)#[a-c]{1,2}(#[x-z0-9]{0,3})?",
        "\\PC{0,6}",
        Just("2026-01-31".to_owned()),
        Just("2026-01-31T10:00:00Z".to_owned()),
        Just("N/A".to_owned()),
        Just("\t\n\u{7f}".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => text().prop_map(Value::text),
        1 => (-5_i64..2_000_000_000).prop_map(|number| Value::N(number.to_string().parse().unwrap())),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => Just(Value::Null(true)),
        1 => Just(Value::B(Bytes(vec![1]))),
        1 => Just(Value::L(Vec::new())),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec!["PK", "SK", "Type", "GSI1PK", "GSI1SK", "GSI2PK", "Status", "UserID", "ttl", "a b.c\"d"])
            .prop_map(str::to_owned),
        1 => "\\PC{0,4}",
        1 => Just("\u{1}".to_owned()),
        1 => Just("GSI1".to_owned()),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    (text(), text(), prop::collection::btree_map(name(), value(), 0..7)).prop_map(|(partition, sort, attributes)| {
        let item = Item(attributes.into_iter().map(|(name, value)| (name.into(), value)).collect());
        item.with("PK", Value::text(partition)).with("SK", Value::text(sort))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_items_give_a_model_that_loads_or_an_error(items in prop::collection::vec(item(), 1..40), keyless in any::<bool>()) {
        let items = items.into_iter().map(|mut item| {
            if keyless {
                item.0.remove("PK");
            }
            item
        });
        match propose(&sample(items), &asked(), None) {
            Ok(proposal) => {
                let loaded = crate::model::load::load(&proposal.text, "orders");
                prop_assert!(loaded.is_ok(), "{:?}\n{}", loaded.err(), proposal.text);
                prop_assert!(!proposal.model.entities.is_empty());
            }
            Err(ProposeError::NoKey) => {}
            Err(error) => prop_assert!(keyless, "{error}"),
        }
    }
}
