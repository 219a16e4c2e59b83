//! What an audit asks of the items besides their own findings: what they say of each other, and what would mend them.

use std::sync::{Mutex, PoisonError};

use tablekeeper::adapters::files::TempFiles;
use tablekeeper::engine::audit::{Audit, Witness};
use tablekeeper::engine::cross::{Onlooker, Sight};
use tablekeeper::model::derived::Derived;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::Item;

use crate::cli::context::Stop;
use crate::cli::patches::Suggestions;

/// What the comparison of items with each other holds in memory before it goes on in temporary files, in bytes.
const CROSS_MEMORY_MAX: usize = 64 * 1024 * 1024;

/// Sees every item of the audit.
pub struct Beside<'m> {
    model: &'m Model,
    across: Onlooker<'m, TempFiles>,
    patches: Option<Mutex<Suggestions>>,
}

impl<'m> Beside<'m> {
    pub fn new(model: &'m Model, wants_patches: bool) -> Beside<'m> {
        let across = Onlooker::new(model, TempFiles::default(), CROSS_MEMORY_MAX);
        Beside { model, across, patches: wants_patches.then(Mutex::default) }
    }

    /// True if the model says of no item that it names another.
    pub fn is_blind(&self) -> bool {
        self.across.is_blind()
    }

    /// Adds to the audit what the items say of each other, and hands over what would mend them.
    pub fn finish(self, sight: Sight, audit: &mut Audit<'_>) -> Result<Option<Suggestions>, Stop> {
        self.across.finish(sight, audit).map_err(anyhow::Error::from)?;
        Ok(self.patches.map(|patches| patches.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Witness for Beside<'_> {
    fn see(&self, key: &TableKey, item: &Item, derived: &Derived) {
        self.across.see(key, item, derived);
        if let Some(patches) = &self.patches
            && !derived.findings.is_empty()
        {
            let mut patches = patches.lock().unwrap_or_else(PoisonError::into_inner);
            patches.add(self.model, key, item, &derived.findings);
        }
    }
}
