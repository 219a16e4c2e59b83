//! Laws of patches, for items broken in all ways: none brings a finding, each mends what it says, none passes over a change.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::derive::findings::FINDINGS_MAX;
use crate::derive::tests::laws::any_case;
use crate::derive::tests::shipped;

/// A slip of one attribute, as programs and people make them.
fn slip(item: &mut Item, name: &str, kind: u8, other: &Item) {
    let Some(value) = item.get(name).cloned() else {
        item.insert(name, other.get(name).cloned().unwrap_or_else(|| Value::text("X#1")));
        return;
    };
    let slipped = match (&value, kind) {
        (_, 0) => return drop(item.0.remove(name)),
        (Value::S(text), 1) => Value::text(text.to_uppercase()),
        (Value::S(text), 2) => Value::text(format!("{text} ")),
        (Value::S(text), 3) => Value::text(text.replace('-', "/")),
        (Value::N(number), 1..=3) => Value::text(number.to_plain()),
        (Value::Bool(flag), 1..=3) => Value::text(flag.to_string()),
        (_, 4) => Value::Null(true),
        _ => other.get(name).cloned().unwrap_or_else(|| Value::text("")),
    };
    item.insert(name, slipped);
}

/// A sample item of a shipped model with one to three slips.
fn slipped() -> impl Strategy<Value = (Model, TableKey, Item)> {
    let models = vec![shipped::quality(), shipped::inspection(), shipped::skills()];
    let slips = prop::collection::vec((any::<prop::sample::Index>(), 0u8..6), 1..4);
    (select(models), any::<[prop::sample::Index; 2]>(), slips).prop_map(|((mut model, items), [one, other], slips)| {
        model.table.ttl = Some("ttl".into());
        let (mut item, other) = (one.get(&items).clone(), other.get(&items));
        let key = key_of(&model, &item);
        item.insert("ttl", Value::N("1767225600000".parse().unwrap()));
        let mut names: Vec<String> = item.0.keys().map(|name| name.to_string()).collect();
        names.extend(model.table.indexes.iter().flat_map(|index| index.attributes().map(|key| key.name.clone())));
        names.retain(|name| key.to_item(&model.table.key_names()).get(name).is_none());
        for (at, kind) in slips {
            slip(&mut item, at.get::<String>(&names[..]), kind, other);
        }
        (model, key, item)
    })
}

fn check(model: &Model, key: &TableKey, item: &Item) -> Result<usize, TestCaseError> {
    // As in the table: with its key.
    let mut item = item.clone();
    item.0.extend(key.to_item(&model.table.key_names()).0);
    let findings = derive(model, key, &item).findings;
    let before: BTreeSet<_> = findings.iter().map(crate::derive::patch::place).collect();
    let Suggestion { patches, left } = suggest(model, key, &item, &findings);
    let mut mended = BTreeSet::new();
    for patch in &patches {
        let (new_key, after) = apply(model, &item, patch).expect("the item is as it was seen");
        let remaining: BTreeSet<_> = found(model, &new_key, &after).into_iter().collect();
        let new: Vec<_> = remaining.difference(&before).collect();
        prop_assert!(new.is_empty() || before.len() == FINDINGS_MAX, "{new:?} by {patch:?} of {item:?}");
        prop_assert_eq!(patch.safe, new_key == *key);
        prop_assert!(!patch.mends.is_empty());
        let gone: BTreeSet<_> = before.difference(&remaining).cloned().collect();
        if before.len() < FINDINGS_MAX {
            let codes: BTreeSet<_> = gone.iter().map(|(code, _)| code.clone()).collect();
            prop_assert_eq!(&codes, &patch.mends.iter().cloned().collect());
        }
        mended.extend(gone);
        // Whatever it sets or removes: where that has changed meanwhile, it is refused.
        let names = item.0.keys().chain(after.0.keys()).filter(|name| item.get(name) != after.get(name));
        for name in names.filter(|name| key.to_item(&model.table.key_names()).get(name).is_none()) {
            prop_assert!(apply(model, &item.clone().with(name.clone(), Value::text("meanwhile")), patch).is_none());
        }
        prop_assert!(apply(model, &Item::new(), patch).is_none(), "a deleted item would come back");
    }
    for left in &left {
        prop_assert!(!mended.contains(&crate::derive::patch::place(left.finding)) && !left.reason.is_empty());
    }
    prop_assert!(before.len() == FINDINGS_MAX || left.len() + mended.len() == before.len());
    Ok(patches.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_patch_never_brings_a_finding((model, key, item) in any_case()) {
        check(&model, &key, &item)?;
    }

    /// Each of these has at least a time to live in milliseconds, which is mended unless it slips itself.
    #[test]
    fn slips_are_mended_and_nothing_comes_of_it((model, key, item) in slipped()) {
        let patches = check(&model, &key, &item)?;
        let is_slip_of_ttl = item.get("ttl") != Some(&Value::N("1767225600000".parse().unwrap()));
        // Of an item that is no entity's nothing else is judged.
        let is_known = derive(&model, &key, &item).entity.is_some();
        prop_assert!(patches > 0 || is_slip_of_ttl || !is_known, "{item:?}");
    }
}
