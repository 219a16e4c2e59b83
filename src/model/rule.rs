//! What a rule is, whether items break it or files do: a code that stays, and a document behind the code.

use super::derived::Severity;

/// The codes of all rules about items. The rules themselves stand floors above; a test there keeps the two in step, so that a model
/// file cannot name a rule that is none.
pub const ITEM_CODES: [&str; 31] = [
    "A301", "A302", "A303", "A304", "A305", "A306", "A307", "A308", "A309", "A310", "G201", "G202", "G203", "G204",
    "G205", "K101", "K102", "K103", "K104", "P901", "P902", "P903", "S401", "S402", "S403", "S404", "S405", "S406",
    "X501", "X502", "X503",
];

/// One rule. Codes are stable and never used again for something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// For example `G201`; families are told apart by their first two characters.
    pub code: &'static str,
    /// Short words with hyphens, for example `index-key-stale`.
    pub name: &'static str,
    /// Unless the model's `[severity]` says otherwise, which it can for rules about items.
    pub severity: Severity,
    /// Markdown: what it is, why it is bad, what to do instead.
    pub doc: &'static str,
}
