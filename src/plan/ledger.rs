//! The ledger row: what has been applied for one source item.
//!
//! A row lives in the state table under `LEDGER#<digest of the source key>` / `LEDGER` and carries: `Key` (the source key,
//! JSON), `Seq` (sequence number of the last applied change, padded; absent where reconcile made the row), `Rev` (number,
//! grows by one with every commit: the condition of the next), `Applied` (JSON), `Entity`, `Model` (hash), `Deleted` (true on a
//! tombstone), `Quarantined` (reason), `ExpiresAt` (epoch seconds, tombstones only).

use serde::{Deserialize, Serialize};

use crate::model::change::SequenceNumber;
use crate::model::derived::{Measures, RowKind};
use crate::model::key::TableKey;

/// One ledger row, decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerRow {
    pub source: TableKey,
    pub sequence: Option<SequenceNumber>,
    /// Grows by one with every commit; what the next commit's condition compares.
    pub revision: u64,
    pub entity: Option<String>,
    pub applied: Applied,
    /// Hash of the model under which `applied` was derived.
    pub model: String,
    /// The source item is gone; the row stays as a tombstone until `expires_at` (epoch seconds).
    pub deleted: bool,
    pub expires_at: Option<i64>,
    /// The database refused what was derived; the reason. Such an item counts as far as `applied` says, no further.
    pub quarantined: Option<String>,
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
    pub aggregate: String,
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
    pub name: String,
    #[serde(rename = "k")]
    pub key: TableKey,
    /// Digest of the row's item: a row is written again only when it changes.
    #[serde(rename = "h")]
    pub hash: String,
}
