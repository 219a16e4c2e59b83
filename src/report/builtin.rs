//! The definitions that come with the product.

use super::definition::{Definition, parse};
use crate::model::position::Fault;

/// Names and texts of the built-in definitions, in the order in which they are listed.
pub const BUILTIN: [(&str, &str); 3] = [
    ("quality-weekly", include_str!("../../reports/quality-weekly.toml")),
    ("inspection-weekly", include_str!("../../reports/inspection-weekly.toml")),
    ("skills", include_str!("../../reports/skills.toml")),
];

/// The built-in definition of that name; `None` if there is none.
///
/// # Errors
/// Inside: the definition's faults. A test keeps the shipped ones free of them.
pub fn builtin(name: &str) -> Option<Result<Definition, Vec<Fault>>> {
    BUILTIN.iter().find(|(known, _)| *known == name).map(|(name, source)| parse(source, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_definitions_have_no_faults() {
        for (name, _) in BUILTIN {
            let definition = builtin(name).unwrap();
            assert!(definition.is_ok(), "{name}: {definition:?}");
        }
        assert!(builtin("no-such").is_none());
    }
}
