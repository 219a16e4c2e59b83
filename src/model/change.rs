//! Stream records, before and after decoding.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::key::TableKey;
use super::value::Item;

/// A stream sequence number: 1 to 40 decimal digits, compared as an integer, never as text.
///
/// Stored as text padded to 40 digits: DynamoDB's own numbers hold 38 digits only, sequence numbers have up to 40.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SequenceNumber(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sequence number `{0}` is not 1 to 40 decimal digits")]
pub struct SequenceNumberError(String);

impl SequenceNumber {
    /// 40 digits, zeros in front: sorts as text the way it sorts as a number.
    pub fn padded(&self) -> String {
        const ZEROS: &str = "0000000000000000000000000000000000000000";
        let mut padded = String::with_capacity(ZEROS.len());
        padded.push_str(&ZEROS[self.0.len().min(ZEROS.len())..]);
        padded.push_str(&self.0);
        padded
    }
}

impl FromStr for SequenceNumber {
    type Err = SequenceNumberError;

    fn from_str(text: &str) -> Result<SequenceNumber, SequenceNumberError> {
        if text.is_empty() || text.len() > 40 || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(SequenceNumberError(text.chars().take(60).collect()));
        }
        let digits = text.trim_start_matches('0');
        Ok(SequenceNumber(if digits.is_empty() { "0".to_owned() } else { digits.to_owned() }))
    }
}

impl TryFrom<String> for SequenceNumber {
    type Error = SequenceNumberError;
    fn try_from(text: String) -> Result<SequenceNumber, SequenceNumberError> {
        text.parse()
    }
}

impl From<SequenceNumber> for String {
    fn from(number: SequenceNumber) -> String {
        number.padded()
    }
}

impl Ord for SequenceNumber {
    fn cmp(&self, other: &SequenceNumber) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for SequenceNumber {
    fn partial_cmp(&self, other: &SequenceNumber) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An image as an adapter could read it, or why it could not.
pub type Image = Option<Result<Item, String>>;

/// A record as it came off the wire: nothing is trusted yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RawRecord {
    /// `INSERT`, `MODIFY` or `REMOVE`.
    pub event_name: Option<String>,
    pub event_id: Option<String>,
    pub sequence: Option<String>,
    pub keys: Image,
    pub new_image: Image,
    pub old_image: Image,
    pub created_at: Option<DateTime<Utc>>,
    /// `principalId` of the user identity: `dynamodb.amazonaws.com` for a delete by TTL.
    pub principal: Option<String>,
}

/// What happened to the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    Insert,
    Modify,
    Remove,
}

/// A decoded change of one source item; the images are the record's.
#[derive(Debug, Clone, PartialEq)]
pub struct Change<'r> {
    pub kind: ChangeKind,
    pub key: TableKey,
    pub sequence: SequenceNumber,
    /// The item after the change; `None` when it was removed, or when the stream carries no new images.
    pub new: Option<&'r Item>,
    /// The item before the change, if the stream carries old images.
    pub old: Option<&'r Item>,
    pub created_at: Option<DateTime<Utc>>,
    pub by_ttl: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_compare_as_integers() {
        let n = |text: &str| text.parse::<SequenceNumber>().unwrap();
        // One published lineage: in this order, though as text the order would be another.
        let lineage = ["20500000000000000910398", "820400000000000001192334", "1683700000000000001135967"];
        assert!(lineage.windows(2).all(|pair| n(pair[0]) < n(pair[1])));
        assert!(n("111") < n("0000000000000000000001110"));
        assert_eq!(n("0111"), n("111"));
        assert_eq!(n("111").padded().len(), 40);
        let text: String = n("7").into();
        assert_eq!(n(&text), n("7"));
    }

    #[test]
    fn what_is_not_digits_is_refused() {
        for text in ["", "12a", "-1", " 1", &"9".repeat(41)] {
            assert!(text.parse::<SequenceNumber>().is_err(), "{text:?}");
        }
        assert!("9".repeat(40).parse::<SequenceNumber>().is_ok());
    }
}
