//! What a report is made from: the items, what was derived from them, and the date as of which it speaks.
//!
//! Deriving is not this floor's business; the caller brings its results as the plain rows below.

use std::collections::BTreeMap;

use chrono::{DateTime, Duration, NaiveDate, Utc};
use sha2::{Digest, Sha256};

use crate::model::derived::{Finding, Measures};
use crate::model::key::{TableKey, hex};
use crate::model::spec::Model;
use crate::model::time::days_until_from_day;
use crate::model::value::Item;
use crate::model::zone::Zone;

/// Everything that a report may ask about.
#[derive(Debug, Clone)]
pub struct ReportInput<'m> {
    pub model: &'m Model,
    /// The source items, without Tablekeeper's own; any order.
    pub items: Vec<SourceItem>,
    pub findings: Vec<Finding>,
    pub aggregates: Vec<AggregateRow>,
    pub expiries: Vec<ExpiryRow>,
    /// The civil day in the model's zone as of which the report speaks.
    pub as_of: NaiveDate,
    pub freshness: Freshness,
}

/// One source item and what it was recognised as.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceItem {
    pub key: TableKey,
    /// `None`: no entity, several, or a broken primary key; such an item is in `findings` and in no frame.
    pub entity: Option<String>,
    pub item: Item,
    /// The key variables by name, as texts.
    pub variables: BTreeMap<String, String>,
}

/// One aggregate item.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateRow {
    pub name: String,
    pub key: TableKey,
    pub group: Item,
    pub measures: Measures,
}

/// One thing that falls due.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpiryRow {
    /// The expiry's name in the model.
    pub name: String,
    pub entity: String,
    /// The source item's key.
    pub key: TableKey,
    pub subject: String,
    pub owner: Option<String>,
    /// As the item has it.
    pub date: String,
    /// The exclusive instant at which it expires.
    pub due: DateTime<Utc>,
}

/// How fresh the data is; what is not known is left out on the page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Freshness {
    /// Where the items were read: a table's or a file's name.
    pub source: Option<String>,
    /// The last sequence number that was applied.
    pub last_sequence: Option<String>,
    /// When the last applied change was made.
    pub changed_at: Option<DateTime<Utc>>,
}

/// Where something that falls due stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExpiryState {
    Overdue,
    DueToday,
    /// Within the largest lead time.
    Upcoming,
    Scheduled,
}

impl ExpiryState {
    pub fn name(self) -> &'static str {
        match self {
            ExpiryState::Overdue => "overdue",
            ExpiryState::DueToday => "due_today",
            ExpiryState::Upcoming => "upcoming",
            ExpiryState::Scheduled => "scheduled",
        }
    }
}

impl ExpiryRow {
    /// Civil days from `as_of` to the last valid day; negative: days overdue.
    pub fn days_left(&self, as_of: NaiveDate, zone: &Zone) -> i64 {
        days_until_from_day(self.due, as_of, zone)
    }

    /// The last civil day in `zone` on which it is valid; `None` beyond the calendar's ends.
    pub fn last_day(&self, as_of: NaiveDate, zone: &Zone) -> Option<NaiveDate> {
        as_of.checked_add_signed(Duration::try_days(self.days_left(as_of, zone))?)
    }
}

impl ReportInput<'_> {
    /// The state by the lead times that the model declares for this expiry.
    pub fn state(&self, row: &ExpiryRow) -> ExpiryState {
        let declared = self.model.expiries.iter().find(|expiry| expiry.name == row.name);
        let lead = declared.and_then(|expiry| expiry.lead_days.iter().max()).copied().unwrap_or(0);
        match row.days_left(self.as_of, &self.model.zone) {
            days if days < 0 => ExpiryState::Overdue,
            0 => ExpiryState::DueToday,
            days if days <= i64::from(lead) => ExpiryState::Upcoming,
            _ => ExpiryState::Scheduled,
        }
    }

    /// SHA-256 in hexadecimal over the model, the date and all items, whatever their order.
    pub fn hash(&self) -> String {
        let mut digests: Vec<[u8; 32]> = self.items.iter().map(item_digest).collect();
        digests.sort_unstable();
        let mut hash = Sha256::new();
        hash.update(self.model.hash.as_bytes());
        hash.update(self.as_of.to_string().as_bytes());
        for digest in digests {
            hash.update(digest);
        }
        hex(&hash.finalize())
    }
}

fn item_digest(source: &SourceItem) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(source.key.digest().as_bytes());
    for (name, value) in &source.item.0 {
        // The JSON form is one text for one value; a value of this type always has one.
        let text = serde_json::to_string(value).unwrap_or_default();
        for part in [name.as_bytes(), text.as_bytes()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::zone::zone;

    fn expiry(due: &str) -> ExpiryRow {
        ExpiryRow {
            name: "certificate".to_owned(),
            entity: "Technician".to_owned(),
            key: TableKey::text("a", "b"),
            subject: "tech001".to_owned(),
            owner: None,
            date: "2026-12-31".to_owned(),
            due: due.parse().unwrap(),
        }
    }

    #[test]
    fn days_are_civil_days_of_the_site() {
        let as_of = NaiveDate::from_ymd_opt(2026, 11, 30).unwrap();
        assert_eq!(expiry("2027-01-01T00:00:00Z").days_left(as_of, &Zone::UTC), 31);
        // Midnight in Berlin is 23:00 UTC of the day before in winter.
        assert_eq!(expiry("2026-11-30T23:00:00Z").days_left(as_of, &zone("Europe/Berlin")), 0);
        assert_eq!(expiry("2025-11-15T23:00:00Z").days_left(as_of, &zone("Europe/Berlin")), -380);
        // A time of day falls due on its own day.
        assert_eq!(expiry("2026-11-30T10:00:00Z").days_left(as_of, &Zone::UTC), 0);
    }
}
