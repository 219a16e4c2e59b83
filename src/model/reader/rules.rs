//! What a fault of a hand-written file may be: its code, and the document behind the code.

use crate::model::derived::Severity;

/// One rule of family C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultRule {
    /// For example `C130`.
    pub code: &'static str,
    /// A short name in kebab case, unique among the rules of its file.
    pub name: &'static str,
    pub severity: Severity,
    /// What it is and why it is bad, then what to write instead; Markdown.
    pub doc: &'static str,
}

/// The rules that reading itself can break, as one kind of file numbers them.
#[derive(Debug)]
pub struct Grammar {
    /// How messages call such a file: `a model file`.
    pub file: &'static str,
    /// The file is not TOML.
    pub syntax: FaultRule,
    /// A key that nobody asked for.
    pub unknown_key: FaultRule,
    /// A key without which the part means nothing.
    pub missing_key: FaultRule,
    /// A value of another TOML type.
    pub wrong_type: FaultRule,
    /// A word that is none of those that the key takes.
    pub unknown_value: FaultRule,
    /// A number outside its limits.
    pub range: FaultRule,
    /// One value twice in a list.
    pub duplicate: FaultRule,
}

/// Declares the rules of one kind of file: a constant each, for the code that reports, and `RULES` with all of them, for
/// documentation. A fault can only be reported by its constant, so none is without a document.
macro_rules! fault_rules {
    ($($constant:ident = $code:literal $name:literal $severity:ident $doc:literal;)*) => {
        $(pub(super) const $constant: $crate::model::reader::FaultRule = $crate::model::reader::FaultRule {
            code: $code,
            name: $name,
            severity: $crate::model::derived::Severity::$severity,
            doc: $doc,
        };)*

        /// All rules, by code.
        pub const RULES: &[$crate::model::reader::FaultRule] = &[$($constant),*];
    };
}
pub(crate) use fault_rules;
