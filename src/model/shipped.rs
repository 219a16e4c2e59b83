//! The model files that come with the program, and their sample items.

/// A shipped model: its file and the items beside it (JSON lines of plain items).
#[derive(Debug, Clone, Copy)]
pub struct Shipped {
    pub name: &'static str,
    pub source: &'static str,
    pub items: &'static str,
    /// A scripted working day on those items, for the demo.
    pub day: &'static str,
}

/// All of them, the demo's default first.
pub const SHIPPED: [Shipped; 3] = [
    Shipped {
        name: "quality",
        source: include_str!("../../models/quality.toml"),
        items: include_str!("../../models/quality.items.jsonl"),
        day: include_str!("../../models/quality.day.json"),
    },
    Shipped {
        name: "inspection",
        source: include_str!("../../models/inspection.toml"),
        items: include_str!("../../models/inspection.items.jsonl"),
        day: include_str!("../../models/inspection.day.json"),
    },
    Shipped {
        name: "skills",
        source: include_str!("../../models/skills.toml"),
        items: include_str!("../../models/skills.items.jsonl"),
        day: include_str!("../../models/skills.day.json"),
    },
];

/// The shipped model of that name.
pub fn shipped(name: &str) -> Option<Shipped> {
    SHIPPED.into_iter().find(|model| model.name == name)
}
