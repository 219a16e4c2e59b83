//! The ledger row: what has been applied for one source item.
//!
//! A row lives in the state table under `LEDGER#<digest of the source key>` / `LEDGER` and carries: `Key` (the source key,
//! JSON), `Seq` (sequence number of the last applied change, padded; absent where reconcile made the row), `Rev` (number,
//! grows by one with every commit: the condition of the next), `Applied` (JSON), `Introduced` (JSON), `Entity`, `Model` (hash), `Deleted` (true on a
//! tombstone), `Quarantined` (reason), `LeftOut` (reason), `ExpiresAt` (epoch seconds, tombstones only).

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::change::SequenceNumber;
use crate::model::decimal::Decimal;
use crate::model::derived::{Derived, Measures, Row, RowKind};
use crate::model::key::{TableKey, short_hex};
use crate::model::value::{Item, MARKER, ORIGIN, Text, Value, joined};
use crate::plan::origin::Introduced;
use crate::plan::state;

/// The attribute that holds the revision; the condition of the next commit compares it.
pub const REVISION: &str = "Rev";
/// Most of what is applied for an item fits: the text is not moved while it grows.
const JSON_SIZE_EXPECTED: usize = 512;

/// One ledger row, decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerRow {
    pub source: TableKey,
    pub sequence: Option<SequenceNumber>,
    /// Grows by one with every commit; what the next commit's condition compares.
    pub revision: u64,
    pub entity: Option<Text>,
    pub applied: Applied,
    /// Of the findings among it, those that a change brought; by key. The others were there before.
    pub introduced: Vec<Introduced>,
    /// Hash of the model under which `applied` was derived.
    pub model: Text,
    /// The source item is gone; the row stays as a tombstone until `expires_at` (epoch seconds).
    pub deleted: bool,
    pub expires_at: Option<i64>,
    /// The database refused what was derived; the reason. Such an item counts as far as `applied` says, no further.
    pub quarantined: Option<String>,
    /// The item's sums and squares are left out of its aggregates because one would not fit a number; the reason.
    pub left_out: Option<String>,
}

/// The derived data that is in the table for a source item: enough to subtract it again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    #[serde(default, rename = "c", skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<AppliedCount>,
    #[serde(default, rename = "r", skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<AppliedRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppliedCount {
    #[serde(rename = "a")]
    pub aggregate: Text,
    #[serde(rename = "k")]
    pub key: TableKey,
    #[serde(rename = "m")]
    pub measures: Measures,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppliedRow {
    #[serde(rename = "t")]
    pub kind: RowKind,
    #[serde(rename = "n")]
    pub name: Text,
    #[serde(rename = "k")]
    pub key: TableKey,
    /// Digest of the row's item: a row is written again only when it changes.
    #[serde(rename = "h")]
    pub hash: Text,
}

/// A ledger row that cannot be read. Nothing may be applied for its item: what is in the table for it is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "ledger row `{row}`, attribute `{attribute}`: {reason}; restore the row from a backup of the state table, or run the \
     version that wrote it"
)]
pub struct LedgerFault {
    /// Partition key of the row.
    pub row: String,
    pub attribute: &'static str,
    pub reason: String,
}

impl LedgerRow {
    /// Where the row of a source item lives in the state table.
    pub fn key(source: &TableKey) -> TableKey {
        state::ledger_key(source)
    }

    /// True for the items of the state table that are ledger rows, for scans.
    pub fn is_ledger(item: &Item) -> bool {
        item.text(state::PARTITION).is_some_and(|key| key.starts_with(state::LEDGER_PREFIX))
    }

    /// The item as it is stored.
    pub fn to_item(&self) -> Item {
        self.to_item_at(&LedgerRow::key(&self.source))
    }

    /// The same where the row's key is known already.
    pub(super) fn to_item_at(&self, key: &TableKey) -> Item {
        let mut item = key
            .to_item(&state::key_names())
            .with("Key", json_text(&self.source))
            .with(REVISION, revision(self.revision))
            .with("Applied", json_text(&self.applied))
            .with("Model", Value::S(self.model.clone()));
        if let Some(sequence) = &self.sequence {
            item.insert("Seq", Value::text(sequence.padded()));
        }
        if !self.introduced.is_empty() {
            item.insert("Introduced", json_text(&self.introduced));
        }
        if let Some(entity) = &self.entity {
            item.insert("Entity", Value::S(entity.clone()));
        }
        if self.deleted {
            item.insert("Deleted", Value::Bool(true));
        }
        if let Some(at) = self.expires_at {
            item.insert(state::TTL, Value::N(at.into()));
        }
        if let Some(reason) = &self.quarantined {
            item.insert("Quarantined", Value::text(reason));
        }
        if let Some(reason) = &self.left_out {
            item.insert("LeftOut", Value::text(reason));
        }
        item
    }

    /// Reads a stored row. Fails on whatever this version did not write, rather than guess what has been applied.
    pub fn from_item(item: &Item) -> Result<LedgerRow, LedgerFault> {
        let fault = |attribute: &'static str, reason: String| LedgerFault {
            row: item.text(state::PARTITION).unwrap_or("without a key").to_owned(),
            attribute,
            reason,
        };
        let text = |attribute: &'static str| {
            item.text(attribute).ok_or_else(|| fault(attribute, "is absent or not a text".to_owned()))
        };
        let number = |attribute: &'static str| match item.get(attribute) {
            None => Ok(None),
            Some(Value::N(number)) => Ok(Some(number.to_plain())),
            Some(other) => Err(fault(attribute, format!("{} is not a number", other.shown()))),
        };
        let source: TableKey = serde_json::from_str(text("Key")?).map_err(|e| fault("Key", e.to_string()))?;
        if item.text(state::PARTITION) != LedgerRow::key(&source).partition.as_text() {
            return Err(fault("Key", format!("names `{source}`, whose row this is not")));
        }
        let revision = number(REVISION)?.ok_or_else(|| fault(REVISION, "is absent".to_owned()))?;
        let sequence = match item.get("Seq") {
            None => None,
            Some(_) => Some(text("Seq")?.parse().map_err(|e| fault("Seq", format!("{e}")))?),
        };
        let introduced = match item.get("Introduced") {
            None => Vec::new(),
            Some(_) => serde_json::from_str(text("Introduced")?).map_err(|e| fault("Introduced", e.to_string()))?,
        };
        Ok(LedgerRow {
            sequence,
            introduced,
            revision: revision.parse().map_err(|e| fault(REVISION, format!("{revision}: {e}")))?,
            entity: item.text("Entity").map(Text::from),
            applied: serde_json::from_str(text("Applied")?).map_err(|e| fault("Applied", e.to_string()))?,
            model: text("Model")?.into(),
            deleted: item.get("Deleted") == Some(&Value::Bool(true)),
            expires_at: number(state::TTL)?
                .map(|text| text.parse().map_err(|e| fault(state::TTL, format!("{text}: {e}"))))
                .transpose()?,
            quarantined: item.text("Quarantined").map(str::to_owned),
            left_out: item.text("LeftOut").map(str::to_owned),
            source,
        })
    }
}

impl Applied {
    /// What will have been applied once `derived` is in the table; in an order of its own, so that equal data are equal.
    pub fn of(derived: &Derived) -> Applied {
        let mut counts: Vec<AppliedCount> = derived
            .counts
            .iter()
            .map(|count| AppliedCount {
                aggregate: count.aggregate.clone(),
                key: count.key.clone(),
                measures: without_zeros(&count.measures),
            })
            .collect();
        counts.sort_by(|a, b| (&a.key, &a.aggregate).cmp(&(&b.key, &b.aggregate)));
        let mut rows: Vec<AppliedRow> = derived.rows.iter().map(AppliedRow::of).collect();
        rows.sort_by(|a, b| (&a.key, a.kind, &a.name).cmp(&(&b.key, b.kind, &b.name)));
        Applied { counts, rows }
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.rows.is_empty()
    }
}

/// As `derive` makes them they are that already.
fn without_zeros(measures: &Measures) -> Measures {
    let mut measures = measures.clone();
    if measures.values().any(Decimal::is_zero) {
        measures.retain(|_, number| !number.is_zero());
    }
    measures
}

impl AppliedRow {
    fn of(row: &Row) -> AppliedRow {
        AppliedRow { kind: row.kind, name: row.name.clone(), key: row.key.clone(), hash: item_hash(&row.item) }
    }

    /// The marker attribute's value of the stored row.
    pub fn marker(&self) -> Text {
        row_marker(self.kind, &self.name)
    }
}

/// The marker attribute's value of a listing, expiry or finding row.
pub fn row_marker(kind: RowKind, name: &str) -> Text {
    joined(&[kind.name(), "/", name])
}

/// The marker attribute's value of an aggregate item.
pub fn aggregate_marker(aggregate: &str) -> Text {
    joined(&["aggregate/", aggregate])
}

/// 32 hexadecimal digits of a SHA-256 over an item's canonical JSON (attribute names sorted, numbers normalised). A finding's
/// `Origin` is left out: it is no part of what is derived.
pub fn item_hash(item: &Item) -> Text {
    let is_finding = item.text(MARKER).is_some_and(|marker| marker.starts_with("finding/"));
    if is_finding && item.get(ORIGIN).is_some() {
        let mut bare = item.clone();
        bare.0.remove(ORIGIN);
        return item_hash(&bare);
    }
    short_hex(&Sha256::digest(json(item)).into())
}

/// A revision as DynamoDB's number.
pub fn revision(revision: u64) -> Value {
    // Revisions count commits of one item from 1: they stay far below 2^63.
    Value::N(i64::try_from(revision).unwrap_or(i64::MAX).into())
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    let mut json = Vec::with_capacity(JSON_SIZE_EXPECTED);
    serde_json::to_writer(&mut json, value).expect("maps with text keys and no floats always have a JSON form");
    json
}

fn json_text<T: Serialize>(value: &T) -> Value {
    Value::text(std::str::from_utf8(&json(value)).expect("JSON is UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::value::Bytes;

    fn row() -> LedgerRow {
        LedgerRow {
            source: TableKey {
                partition: Value::N("12.5".parse().unwrap()),
                sort: Some(Value::B(Bytes(vec![0, 255]))),
            },
            sequence: Some("1683700000000000001135967".parse().unwrap()),
            revision: 7,
            entity: Some("WorkOrder".into()),
            applied: Applied {
                counts: vec![AppliedCount {
                    aggregate: "wo_status".into(),
                    key: TableKey::text("PROJECT#\u{e9}\"", "STATS"),
                    measures: [("Sum_Hours".into(), "-99999999999999999999999999999999999999".parse().unwrap())].into(),
                }],
                rows: vec![AppliedRow {
                    kind: RowKind::Finding,
                    name: "G201".into(),
                    key: TableKey { partition: Value::text("KEEPER#FINDINGS#G201"), sort: None },
                    hash: "00ff".into(),
                }],
            },
            introduced: vec![Introduced {
                key: TableKey { partition: Value::text("KEEPER#FINDINGS#G201"), sort: None },
                sequence: "17".parse().unwrap(),
                at: Some("2026-03-01T10:00:00.000Z".into()),
            }],
            model: "abc".into(),
            deleted: false,
            expires_at: None,
            quarantined: None,
            left_out: None,
        }
    }

    #[test]
    fn a_row_reads_back_as_it_was_written() {
        let live = row();
        assert_eq!(LedgerRow::from_item(&live.to_item()), Ok(live.clone()));
        let tombstone = LedgerRow {
            sequence: None,
            entity: None,
            applied: Applied::default(),
            introduced: Vec::new(),
            deleted: true,
            expires_at: Some(1_800_000_000),
            quarantined: Some("too large".to_owned()),
            ..live.clone()
        };
        assert_eq!(LedgerRow::from_item(&tombstone.to_item()), Ok(tombstone));
        let beside = LedgerRow { left_out: Some("43 digits".to_owned()), ..live };
        assert_eq!(LedgerRow::from_item(&beside.to_item()), Ok(beside));
    }

    #[test]
    fn a_damaged_row_is_a_fault_and_never_a_guess() {
        for attribute in ["Key", REVISION, "Applied", "Model"] {
            let mut item = row().to_item();
            item.0.remove(attribute);
            assert_eq!(LedgerRow::from_item(&item).unwrap_err().attribute, attribute);
        }
        let wrong = [
            ("Seq", Value::text("12x")),
            ("Introduced", Value::text("12x")),
            ("ExpiresAt", Value::text("soon")),
            (REVISION, Value::N("1.5".parse().unwrap())),
        ];
        for (attribute, value) in wrong {
            assert_eq!(LedgerRow::from_item(&row().to_item().with(attribute, value)).unwrap_err().attribute, attribute);
        }
        let moved = row().to_item().with(state::PARTITION, Value::text("LEDGER#00"));
        assert_eq!(LedgerRow::from_item(&moved).unwrap_err().attribute, "Key");
    }

    #[test]
    fn hashes_see_content_and_not_notation() {
        let item = |number: &str| Item::new().with("A", Value::N(number.parse().unwrap()));
        assert_eq!(item_hash(&item("1.50")), item_hash(&item("1.5")));
        assert_ne!(item_hash(&item("1.5")), item_hash(&item("1.51")));
        assert_ne!(item_hash(&item("1.5")), item_hash(&Item::new().with("A", Value::text("1.5"))));
        let from = |marker: &str| item("1").with(MARKER, Value::text(marker)).with(ORIGIN, Value::text("x"));
        let bare = |marker: &str| item("1").with(MARKER, Value::text(marker));
        assert_eq!(item_hash(&from("finding/A301")), item_hash(&bare("finding/A301")));
        assert_ne!(item_hash(&from("listing/x")), item_hash(&bare("listing/x")), "of other rows it is content");
    }
}
