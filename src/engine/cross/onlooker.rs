//! The rules across items beside an audit of several threads.

use std::sync::{Mutex, PoisonError};

use super::{Cross, Lens, Sight, SpillError};
use crate::engine::audit::{Audit, Witness};
use crate::engine::ports::Spill;
use crate::model::derived::Derived;
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::Item;

/// Sees what an audit sees; the threads look side by side and hand over what they saw one after the other.
pub struct Onlooker<'m, S: Spill> {
    lens: Lens<'m>,
    cross: Mutex<Cross<'m, S>>,
}

impl<'m, S: Spill> Onlooker<'m, S> {
    /// As [`Cross::new`].
    pub fn new(model: &'m Model, spill: S, memory_max: usize) -> Onlooker<'m, S> {
        Onlooker { lens: Lens::new(model), cross: Mutex::new(Cross::new(model, spill, memory_max)) }
    }

    /// True if the model says of no item that it names another.
    pub fn is_blind(&self) -> bool {
        self.lens.is_blind()
    }

    /// Adds to the audit what the items say of each other.
    ///
    /// # Errors
    /// As [`Cross::finish`].
    pub fn finish(self, sight: Sight, audit: &mut Audit<'_>) -> Result<(), SpillError> {
        let cross = self.cross.into_inner().unwrap_or_else(PoisonError::into_inner);
        let tallies = cross.finish(sight, |finding| audit.add_finding(&finding))?;
        tallies.iter().for_each(|tally| audit.add_across(tally));
        Ok(())
    }
}

impl<S: Spill + Send> Witness for Onlooker<'_, S>
where
    S::File: Send,
{
    fn see(&self, key: &TableKey, item: &Item, derived: &Derived) {
        if self.lens.is_blind() {
            return;
        }
        let seen = self.lens.look(key, derived.entity.as_deref(), item);
        self.cross.lock().unwrap_or_else(PoisonError::into_inner).add(seen);
    }
}
