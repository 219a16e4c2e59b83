//! What is derived from one source item: counts, rows and findings.
//!
//! These are the values that flow between the floors: `derive` makes a [`Derived`], the ledger remembers it, `plan`
//! subtracts one from another.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::decimal::Decimal;
use super::key::TableKey;
use super::value::{Item, Text};

/// Everything derived from one source item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Derived {
    /// The entity that the item was recognised as; `None` when it is none or several.
    pub entity: Option<Text>,
    /// One a (aggregate, group) that the item belongs to.
    pub counts: Vec<Contribution>,
    /// Listing entries and expiry entries.
    pub rows: Vec<Row>,
    pub findings: Vec<Finding>,
}

/// Additive measures by the attribute that holds them: `Total`, `Count_<bucket>`, `Sum_<attribute>`, `SumSq_<attribute>`.
/// A measure that is zero is left out.
pub type Measures = BTreeMap<Text, Decimal>;

/// Name of the aggregate that counts findings by entity.
pub const TOTALS: &str = "findings";

/// What one item adds to one aggregate item.
#[derive(Debug, Clone, PartialEq)]
pub struct Contribution {
    pub aggregate: Text,
    /// The aggregate item's key in the user's table; it is the group's identity.
    pub key: TableKey,
    /// The group's values by name, kept in the aggregate item's `Group` map.
    pub group: Item,
    pub measures: Measures,
}

/// The kinds of derived items; with a name they make the marker attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    Listing,
    Expiry,
    Finding,
}

impl RowKind {
    pub fn name(self) -> &'static str {
        match self {
            RowKind::Listing => "listing",
            RowKind::Expiry => "expiry",
            RowKind::Finding => "finding",
        }
    }
}

/// A derived item of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub kind: RowKind,
    /// The listing's or expiry's name, or the finding's code.
    pub name: Text,
    pub key: TableKey,
    /// The whole item as it is stored: key attributes, marker and content. It goes into the difference and the transaction as
    /// it is, so it is shared.
    pub item: Arc<Item>,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Info,
    Warning,
    Error,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// One violation of one rule by one item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable code, for example `G201`.
    pub code: String,
    pub severity: Severity,
    pub entity: Option<String>,
    /// The source item's key.
    pub key: TableKey,
    pub attribute: Option<String>,
    pub expected: Option<String>,
    pub actual: Option<String>,
    /// One sentence with the place, the value and the remedy.
    pub message: String,
}
