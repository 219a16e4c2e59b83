//! From a raw stream record to a change of a source item.
//!
//! Nothing about a record is trusted: it may come from another table's stream, lack its images, or hold an image that no
//! decoder reads. The key always comes from `Keys`, never from an image. What cannot be used is told apart by what is
//! still known of it: with key and sequence number it is poison of one item, without it is malformed.

use crate::model::change::{Change, ChangeKind, Image, RawRecord, SequenceNumber};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::Item;

use super::own;
use super::rules::{p901, p902};

/// The principal of deletes by DynamoDB's time to live.
const TTL_PRINCIPAL: &str = "dynamodb.amazonaws.com";

/// What a record is.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded<'r> {
    /// A change of a derived item, made by Tablekeeper: dropped.
    Ours,
    Change(Change<'r>),
    /// The new image cannot be decoded; what was derived from the item before no longer holds.
    Poison {
        key: TableKey,
        sequence: SequenceNumber,
        code: &'static str,
        reason: String,
    },
    /// It cannot be said which item changed, or when.
    Malformed {
        code: &'static str,
        reason: String,
    },
}

/// Begins the reason of a record whose keys are damaged; what follows may quote them.
pub const UNDECODED: &str = "the keys cannot be decoded";

/// Decodes one record by its event name.
pub fn decode<'r>(model: &Model, raw: &'r RawRecord) -> Decoded<'r> {
    match header(model, raw) {
        Ok((kind, key, sequence)) => images(model, raw, kind, key, sequence),
        Err(reason) => Decoded::Malformed { code: p901::RULE.code, reason },
    }
}

/// What every record must have.
fn header(model: &Model, raw: &RawRecord) -> Result<(ChangeKind, TableKey, SequenceNumber), String> {
    let kind = match raw.event_name.as_deref() {
        Some("INSERT") => ChangeKind::Insert,
        Some("MODIFY") => ChangeKind::Modify,
        Some("REMOVE") => ChangeKind::Remove,
        Some(other) => return Err(format!("the event name `{}` is unknown", super::findings::cut(other))),
        None => return Err("there is no event name".to_owned()),
    };
    let sequence = raw.sequence.as_deref().ok_or("there is no sequence number")?;
    let sequence = sequence.parse().map_err(|error| format!("{error}"))?;
    let keys = match &raw.keys {
        Some(Ok(keys)) => keys,
        Some(Err(error)) => return Err(format!("{UNDECODED}: {error}")),
        None => return Err("there are no keys".to_owned()),
    };
    let table = &model.table;
    let key = TableKey::of(keys, &table.key_names());
    let is_of_table = |key: &TableKey| {
        let sort_kinds = (key.sort.as_ref().map(|sort| sort.kind()), table.sort_key.as_ref().map(|sort| sort.kind));
        key.partition.kind() == table.partition_key.kind && sort_kinds.0 == sort_kinds.1
    };
    let key = key.filter(is_of_table).ok_or_else(|| {
        let sort = table.sort_key.as_ref().map(|key| format!(" and `{}` ({})", key.name, key.kind.name()));
        format!(
            "the keys are not those of table `{}`: `{}` ({}){}; is this that table's stream?",
            table.name,
            table.partition_key.name,
            table.partition_key.kind.name(),
            sort.unwrap_or_default()
        )
    })?;
    Ok((kind, key, sequence))
}

fn images<'r>(
    model: &Model,
    raw: &'r RawRecord,
    kind: ChangeKind,
    key: TableKey,
    sequence: SequenceNumber,
) -> Decoded<'r> {
    let new = if kind == ChangeKind::Remove { None } else { image(&raw.new_image) };
    // An old image only saves work; one that cannot be read is as good as none.
    let old = image(&raw.old_image).and_then(Result::ok);
    if new.is_none() && old.is_none() && own::is_own_key(model, &key) {
        return Decoded::Ours;
    }
    let new = match new.transpose() {
        Ok(new) => new,
        Err(_) if old.is_some_and(Item::is_ours) => return Decoded::Ours,
        Err(reason) => return Decoded::Poison { key, sequence, code: p902::RULE.code, reason: reason.clone() },
    };
    let names = model.table.key_names();
    if let Some(other) = new.and_then(|new| TableKey::of(new, &names)).filter(|other| *other != key) {
        let reason = format!("the new image's key is `{other}`, the record's is `{key}`");
        return Decoded::Poison { key, sequence, code: p902::RULE.code, reason };
    }
    let (new_is_ours, old_is_ours) = (new.is_some_and(Item::is_ours), old.is_some_and(Item::is_ours));
    let change = |kind, new: Option<&'r Item>, old: Option<&'r Item>| {
        let by_ttl = kind == ChangeKind::Remove && raw.principal.as_deref() == Some(TTL_PRINCIPAL);
        Decoded::Change(Change { kind, key, sequence, new, old, created_at: raw.created_at, by_ttl })
    };
    match (new, old) {
        // Somebody else wrote a source item over a derived one, or the other way round: for the source items, that is one
        // that came, or one that went.
        (Some(_), Some(_)) if old_is_ours && !new_is_ours => change(ChangeKind::Insert, new, None),
        (Some(_), Some(_)) if new_is_ours && !old_is_ours => change(ChangeKind::Remove, None, old),
        _ if new_is_ours || old_is_ours => Decoded::Ours,
        _ => change(kind, new, old),
    }
}

/// An image that is there; some decoders fill a missing one with an empty item, which no image can be.
fn image(image: &Image) -> Option<Result<&Item, &String>> {
    image.as_ref().map(Result::as_ref).filter(|image| !image.is_ok_and(|item| item.0.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::{item, model};
    use crate::model::spec::KeyAttribute;
    use crate::model::value::{Kind, MARKER, Value};
    use proptest::prelude::*;

    fn record(event: &str) -> RawRecord {
        RawRecord {
            event_name: Some(event.into()),
            sequence: Some("111".into()),
            keys: Some(Ok(item([("PK", "A"), ("SK", "B")]))),
            ..RawRecord::default()
        }
    }

    fn source() -> Item {
        item([("PK", "A"), ("SK", "B"), ("x", "1")])
    }

    fn ours() -> Item {
        item([("PK", "A"), ("SK", "B"), (MARKER, "listing/x")])
    }

    fn decoded(record: &RawRecord) -> Decoded<'_> {
        decode(&model("PK", "SK"), record)
    }

    fn change(record: &RawRecord) -> Change<'_> {
        match decoded(record) {
            Decoded::Change(change) => change,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_update_keeps_both_images_and_the_records_key() {
        let new_image = Some(Ok(item([("x", "2")])));
        let record = RawRecord { new_image, old_image: Some(Ok(source())), ..record("MODIFY") };
        let change = change(&record);
        assert_eq!((change.kind, &change.key), (ChangeKind::Modify, &TableKey::text("A", "B")));
        assert_eq!((change.new, change.old), (Some(&item([("x", "2")])), Some(&source())));
    }

    #[test]
    fn a_remove_needs_no_image_and_tells_ttl() {
        // data-prepper 3534: a REMOVE without images.
        let plain = record("REMOVE");
        let plain = change(&plain);
        assert_eq!((plain.new, plain.old, plain.by_ttl), (None, None, false));
        let principal = Some("dynamodb.amazonaws.com".to_owned());
        // A decoder's empty items, and an unreadable old image, are as good as none.
        let expired = RawRecord {
            principal: principal.clone(),
            new_image: Some(Ok(Item::new())),
            old_image: Some(Err("?".into())),
            ..record("REMOVE")
        };
        let expired = change(&expired);
        assert_eq!((expired.new, expired.old, expired.by_ttl), (None, None, true));
        assert!(!change(&RawRecord { principal, ..record("MODIFY") }).by_ttl);
    }

    #[test]
    fn records_of_our_own_items_are_dropped() {
        let image = |item: Item| Some(Ok(item));
        assert_eq!(decoded(&RawRecord { new_image: image(ours()), ..record("INSERT") }), Decoded::Ours);
        assert_eq!(decoded(&RawRecord { old_image: image(ours()), ..record("REMOVE") }), Decoded::Ours);
        let both = RawRecord { new_image: image(ours()), old_image: image(ours()), ..record("MODIFY") };
        assert_eq!(decoded(&both), Decoded::Ours);
        for partition in ["KEEPER#FINDINGS", "KEEPER#FINDINGS_TOTALS", "KEEPER#EXPIRY#certificate"] {
            let keys = Some(Ok(item([("PK", partition), ("SK", "x")])));
            assert_eq!(decoded(&RawRecord { keys, ..record("REMOVE") }), Decoded::Ours);
        }
        let keys = Some(Ok(item([("PK", "KEEPERS#FINDINGS"), ("SK", "x")])));
        assert!(matches!(decoded(&RawRecord { keys, ..record("REMOVE") }), Decoded::Change(_)));
    }

    #[test]
    fn a_source_item_at_a_key_of_ours_is_a_source_item() {
        let over = RawRecord { new_image: Some(Ok(source())), old_image: Some(Ok(ours())), ..record("MODIFY") };
        let over = change(&over);
        assert_eq!((over.kind, over.new, over.old), (ChangeKind::Insert, Some(&source()), None));
        let marked = RawRecord { new_image: Some(Ok(ours())), old_image: Some(Ok(source())), ..record("MODIFY") };
        let marked = change(&marked);
        assert_eq!((marked.kind, marked.new), (ChangeKind::Remove, None));
        let keys = Some(Ok(item([("PK", "KEEPER#FINDINGS"), ("SK", "x")])));
        let mine = item([("PK", "KEEPER#FINDINGS"), ("SK", "x"), ("y", "z")]);
        let inserted = RawRecord { keys, new_image: Some(Ok(mine.clone())), ..record("INSERT") };
        assert_eq!(change(&inserted).new, Some(&mine));
    }

    #[test]
    fn an_unreadable_new_image_is_poison_of_that_item() {
        let broken = RawRecord { new_image: Some(Err("`12,5` is not a number".into())), ..record("MODIFY") };
        assert!(
            matches!(decoded(&broken), Decoded::Poison { code: "P902", key, .. } if key == TableKey::text("A", "B"))
        );
        let other = item([("PK", "A"), ("SK", "C")]);
        let other = RawRecord { new_image: Some(Ok(other)), ..record("INSERT") };
        assert!(matches!(decoded(&other), Decoded::Poison { code: "P902", .. }));
    }

    #[test]
    fn without_key_or_sequence_number_a_record_is_malformed() {
        let cases = [
            RawRecord { event_name: None, ..record("INSERT") },
            record("UPSERT"),
            RawRecord { sequence: None, ..record("REMOVE") },
            RawRecord { sequence: Some("12x".into()), ..record("REMOVE") },
            RawRecord { keys: None, new_image: Some(Ok(source())), ..record("INSERT") },
            RawRecord { keys: Some(Err("?".into())), ..record("REMOVE") },
            RawRecord { keys: Some(Ok(item([("PK", "A")]))), ..record("REMOVE") },
            RawRecord { keys: Some(Ok(item([("PK", "A")]).with("SK", Value::Bool(true)))), ..record("REMOVE") },
        ];
        for case in cases {
            assert!(matches!(decoded(&case), Decoded::Malformed { code: "P901", .. }), "{case:?}");
        }
        let mut numbers = model("PK", "SK");
        numbers.table.sort_key = Some(KeyAttribute { name: "SK".into(), kind: Kind::N });
        assert!(matches!(decode(&numbers, &record("REMOVE")), Decoded::Malformed { .. }));
    }

    fn any_image() -> impl Strategy<Value = Image> {
        prop_oneof![
            Just(None),
            Just(Some(Err("?".to_owned()))),
            Just(Some(Ok(Item::new()))),
            Just(Some(Ok(source()))),
            Just(Some(Ok(ours()))),
        ]
    }

    proptest! {
        /// Every record is something, and a change never carries an item of ours as a source.
        #[test]
        fn every_record_is_decoded(
            event in prop::option::of("INSERT|MODIFY|REMOVE|\\PC{0,3}"),
            sequence in prop::option::of("[0-9]{0,42}"),
            keys in any_image(),
            new_image in any_image(),
            old_image in any_image(),
        ) {
            let raw = RawRecord { event_name: event, sequence, keys, new_image, old_image, ..RawRecord::default() };
            if let Decoded::Change(change) = decoded(&raw) {
                prop_assert!(!change.new.is_some_and(|new| new.is_ours()));
                prop_assert!(!change.old.is_some_and(|old| old.is_ours()));
                prop_assert!(!change.by_ttl);
            }
        }
    }
}
