//! The models that simulations run under: one at the beginning, and one that takes its place in some of them.

use std::sync::{Arc, OnceLock};

use crate::model::load;
use crate::model::spec::Model;

/// The model at the beginning and the one after a change.
pub type Models = [Arc<Model>; 2];

/// Both, read once in a process.
pub fn models() -> Models {
    static MODELS: OnceLock<Models> = OnceLock::new();
    let sources = [include_str!("models/before.toml"), include_str!("models/after.toml")];
    MODELS.get_or_init(|| sources.map(|source| Arc::new(read(source)))).clone()
}

fn read(source: &str) -> Model {
    load::load(source, "simulated").expect("a test loads both models").model
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_models_are_sound_and_differ() {
        let [before, after] = models();
        assert_ne!(before.hash, after.hash);
        assert_ne!(before.aggregates[1].name, after.aggregates[1].name);
        assert_ne!(before.listings[0].name, after.listings[0].name);
    }
}
