//! The model: what a table's owner declared, checked and resolved.
//!
//! Only [`crate::model::load`] makes one from a file; everything else reads it. References by name (an aggregate's
//! entity, a template's attribute) have been checked by the loader, so they may be looked up without a fallback.

use std::collections::BTreeMap;
use std::ops::Range;

use super::decimal::Decimal;
use super::derived::Severity;
use super::key::KeyNames;
use super::template::Template;
use super::value::{Kind, Text};
use super::zone::Zone;

/// A whole model file.
#[derive(Debug, Clone)]
pub struct Model {
    /// From `name = ` or the file's stem; shown in reports.
    pub name: String,
    pub table: Table,
    pub entities: Vec<Entity>,
    pub aggregates: Vec<Aggregate>,
    pub listings: Vec<Listing>,
    pub expiries: Vec<Expiry>,
    /// The site's zone: a date without a time ends with that civil day there.
    pub zone: Zone,
    /// Separates a key's parts; a value that contains it is a finding. Default `#`.
    pub delimiter: String,
    /// Begins the partition keys of findings and expiries in the user's table. Default `KEEPER`.
    pub prefix: String,
    /// Days that a deleted item's ledger row is kept. Default 30.
    pub tombstone_days: u32,
    /// Severities changed by the owner, by rule code.
    pub severities: BTreeMap<String, Severity>,
    pub findings: Disclosure,
    pub reports: ReportDefaults,
    /// SHA-256 of the file in hexadecimal: the ledger remembers under which model a row was derived.
    pub hash: Text,
}

/// What findings show of the items that they are about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disclosure {
    /// Values are told by type and length only.
    pub redact_values: bool,
    /// The item is named by the digest of its key; goes with `redact_values`, for values quote keys.
    pub hash_keys: bool,
}

/// The table and its indexes.
#[derive(Debug, Clone)]
pub struct Table {
    pub name: String,
    pub partition_key: KeyAttribute,
    pub sort_key: Option<KeyAttribute>,
    pub indexes: Vec<Index>,
    /// The attribute of DynamoDB's time to live, if the table uses it.
    pub ttl: Option<String>,
    /// Name of the state table. Default `<name>-keeper`.
    pub state_table: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAttribute {
    pub name: String,
    /// S, N or B.
    pub kind: Kind,
}

/// A global secondary index: 1 to 4 partition and 0 to 4 sort attributes.
#[derive(Debug, Clone)]
pub struct Index {
    pub name: String,
    pub partition: Vec<KeyAttribute>,
    pub sort: Vec<KeyAttribute>,
}

/// One kind of source item.
#[derive(Debug, Clone)]
pub struct Entity {
    pub name: String,
    /// Severities changed for items of this entity, by rule code; they win over the model's.
    pub severities: BTreeMap<String, Severity>,
    /// Attribute values that an item of this entity has, besides its key: all must hold.
    pub matches: Vec<Condition>,
    pub partition: Template,
    /// Present exactly when the table has a sort key.
    pub sort: Option<Template>,
    pub indexes: Vec<EntityIndex>,
    pub attributes: Vec<Attribute>,
    pub references: Vec<Reference>,
}

/// Another item that an item of the entity names, and what it has copied from there.
#[derive(Debug, Clone)]
pub struct Reference {
    pub name: String,
    /// The entities of which the other item may be.
    pub to: Vec<String>,
    /// The other item's key, written with the names of the entity that refers.
    pub partition: Template,
    /// `None` in a table with a sort key: any item of `to` under that partition key will do.
    pub sort: Option<Template>,
    pub copies: Vec<Copy>,
    /// An item that names nothing is a finding.
    pub required: bool,
    /// Only items for which it holds refer to something.
    pub when: Vec<Condition>,
}

/// An attribute that repeats what another item, its master, says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// The attribute of the entity that refers.
    pub own: String,
    /// The attribute of the other item.
    pub master: String,
}

/// How an entity fills one index's key attributes.
#[derive(Debug, Clone)]
pub struct EntityIndex {
    /// Name of an index of the table.
    pub index: String,
    /// One template for each key attribute of the index, in the index's order.
    pub keys: Vec<(String, Template)>,
    /// Sparse: the item belongs to the index only while these hold. Empty: always.
    pub when: Vec<Condition>,
}

/// A declared attribute.
#[derive(Debug, Clone)]
pub struct Attribute {
    pub name: String,
    /// Other spellings under which items may carry it; `name` wins when both are there.
    pub aliases: Vec<String>,
    pub kind: Kind,
    pub required: bool,
    /// Declared set, in its order (`ordinal` counts from 1 in it). Empty: any value.
    pub one_of: Vec<String>,
    pub format: Option<Format>,
    /// Values that stand for "none", for example `"N/A"`.
    pub none: Vec<String>,
    pub min: Option<Decimal>,
    pub max: Option<Decimal>,
}

/// The format of an attribute that holds a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `YYYY-MM-DD`.
    Date,
    /// ISO 8601 with `Z` or an offset, any number of fraction digits.
    Timestamp,
    /// ISO 8601 in UTC, written with `Z`.
    TimestampUtc,
    /// The same to the second with exactly so many fraction digits (0 to 9), so that texts sort as times do.
    TimestampUtcFixed(u8),
    /// Seconds since 1970 as a number, as DynamoDB's time to live wants it.
    EpochSeconds,
}

/// `attribute` has one of `values` (text compared exactly; numbers and booleans by their plain form).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub attribute: String,
    pub values: Vec<String>,
}

/// Counts and sums over the items of one entity, a group an item of the table.
#[derive(Debug, Clone)]
pub struct Aggregate {
    pub name: String,
    /// Entity.
    pub of: String,
    /// Attributes or key variables whose values make the group; also what `key` may use. Empty: one group for all.
    pub group_by: Vec<String>,
    /// Attribute whose values are counted apart as `Count_<value>`.
    pub count_by: Option<String>,
    /// The declared set of `count_by`: each has its count from the first write on. Others count as `Count_Other`.
    pub buckets: Vec<String>,
    /// Number attributes summed as `Sum_<attribute>`.
    pub sum: Vec<String>,
    /// Number attributes whose squares are summed as `SumSq_<attribute>`.
    pub sum_squares: Vec<String>,
    pub when: Vec<Condition>,
    pub partition: Template,
    pub sort: Option<Template>,
}

/// A sorted derived index: one entry an item.
#[derive(Debug, Clone)]
pub struct Listing {
    pub name: String,
    pub of: String,
    pub when: Vec<Condition>,
    pub partition: Template,
    pub sort: Option<Template>,
    /// Attributes copied into the entry's `Copy` map.
    pub copy: Vec<String>,
}

/// A date of an entity that falls due.
#[derive(Debug, Clone)]
pub struct Expiry {
    pub name: String,
    pub of: String,
    /// The attribute with the date or time.
    pub date: String,
    pub when: Vec<Condition>,
    /// Thresholds in days before the due date, descending, for example 90, 60, 30, 14, 7, 1, 0.
    pub lead_days: Vec<u32>,
    /// Names the subject in messages, for example `{username}`. Default: the primary key.
    pub subject: Option<Template>,
    /// Who is told, for example `{manager}`.
    pub owner: Option<Template>,
}

/// What is printed of the table where nobody says more.
#[derive(Debug, Clone, Default)]
pub struct ReportDefaults {
    /// The report definitions that `report` prints when none is named.
    pub names: Vec<ReportName>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportName {
    /// A shipped report's, or a file.
    pub name: String,
    /// The bytes of the model file where it stands.
    pub span: Range<usize>,
}

impl Model {
    pub fn entity(&self, name: &str) -> Option<&Entity> {
        self.entities.iter().find(|entity| entity.name == name)
    }

    pub fn aggregate(&self, name: &str) -> Option<&Aggregate> {
        self.aggregates.iter().find(|aggregate| aggregate.name == name)
    }
}

impl Table {
    pub fn key_names(&self) -> KeyNames {
        KeyNames {
            partition: self.partition_key.name.as_str().into(),
            sort: self.sort_key.as_ref().map(|key| key.name.as_str().into()),
        }
    }

    pub fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name == name)
    }
}

impl Index {
    /// All key attributes, partition first.
    pub fn attributes(&self) -> impl Iterator<Item = &KeyAttribute> {
        self.partition.iter().chain(&self.sort)
    }
}

impl Attribute {
    /// An optional attribute that may have any value of its type.
    pub fn new(name: impl Into<String>, kind: Kind) -> Attribute {
        Attribute {
            name: name.into(),
            aliases: Vec::new(),
            kind,
            required: false,
            one_of: Vec::new(),
            format: None,
            none: Vec::new(),
            min: None,
            max: None,
        }
    }
}

impl Entity {
    /// The declared attribute of that name (aliases are not looked at).
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }
}
