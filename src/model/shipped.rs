//! The model files that come with the product.

/// Name and text of each shipped model.
pub const SHIPPED: [(&str, &str); 3] = [
    ("quality", include_str!("../../models/quality.toml")),
    ("inspection", include_str!("../../models/inspection.toml")),
    ("skills", include_str!("../../models/skills.toml")),
];

/// The text of the shipped model of that name.
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}
