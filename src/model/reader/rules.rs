//! How one kind of file declares and numbers the faults that it can have.

use crate::model::rule::Rule;

/// The rules that reading itself can break, as one kind of file numbers them.
#[derive(Debug)]
pub struct Grammar {
    /// How messages call such a file: `a model file`.
    pub file: &'static str,
    /// The file is not TOML.
    pub syntax: Rule,
    /// A key that nobody asked for.
    pub unknown_key: Rule,
    /// A key without which the part means nothing.
    pub missing_key: Rule,
    /// A value of another TOML type.
    pub wrong_type: Rule,
    /// A word that is none of those that the key takes.
    pub unknown_value: Rule,
    /// A number outside its limits.
    pub range: Rule,
    /// One value twice in a list.
    pub duplicate: Rule,
}

/// Declares the rules of one kind of file: a constant each, for the code that reports, and `RULES` with all of them, for
/// documentation. A fault can only be reported by its constant, so none is without a document.
macro_rules! fault_rules {
    ($($constant:ident = $code:literal $name:literal $severity:ident $doc:literal;)*) => {
        $(pub(super) const $constant: $crate::model::rule::Rule = $crate::model::rule::Rule {
            code: $code,
            name: $name,
            severity: $crate::model::derived::Severity::$severity,
            doc: $doc,
        };)*

        /// All rules, by code.
        pub const RULES: &[$crate::model::rule::Rule] = &[$($constant),*];
    };
}
pub(crate) use fault_rules;
