//! What a rule is, whether items break it or files do: a code that stays, and a document behind the code.

use super::derived::Severity;

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
