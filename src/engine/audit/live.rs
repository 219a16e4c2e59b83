//! An audit of the live table: segments read at once, no faster than is allowed, and resumed where it was interrupted.
//!
//! The contract: an item counts at the moment at which the place behind its page does, so that what [`LiveAudit::save`] returns is true at
//! any moment, also when [`LiveAudit::run`] failed or was dropped; a run that goes on from there counts each item once. A page of each
//! segment is in memory, at most 1 MB. The result does not depend on the segments.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};

use super::{Audit, Saved, Witness};
use crate::derive;
use crate::engine::pace::Paced;
use crate::engine::patience::Patience;
use crate::engine::ports::{Clock, Store, StoreError};
use crate::engine::scan::Pages;
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::Item;
use crate::plan::write::TableRef;

#[cfg(test)]
mod tests;

/// Of what [`Progress`] is made; another number is another version's.
const VERSION: u32 = 1;
/// A table that throttles is waited for, some three minutes at each page.
const THROTTLED: Patience =
    Patience { attempts_max: 12, pause_min: Duration::from_secs(1), pause_max: Duration::from_secs(30) };

/// What a run needs to go on from where another stopped.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Progress {
    version: u32,
    /// The model's hash.
    model: String,
    /// The table's ARN.
    table: String,
    /// Items read.
    read: u64,
    places: Vec<At>,
    audit: Saved,
}

/// How far a segment has been read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum At {
    Start,
    After(TableKey),
    End,
}

/// Why a run does not go on from what another left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OtherRun {
    #[error("it is of another version of Tablekeeper")]
    Version,
    #[error("it is of the table `{0}`")]
    Table(String),
    #[error("it is of another model, or the model has changed")]
    Model,
    #[error("it keeps {0} findings of each rule and entity; give the same --samples")]
    Samples(usize),
    #[error("it names no segment of the table")]
    Empty,
}

/// An audit of one table.
pub struct LiveAudit<'m> {
    model: &'m Model,
    table: String,
    state: Mutex<State<'m>>,
}

struct State<'m> {
    audit: Audit<'m>,
    read: u64,
    places: Vec<At>,
}

impl<'m> LiveAudit<'m> {
    /// Begins at the beginning. `table` is the table's ARN, `segments` at least 1.
    pub fn new(model: &'m Model, table: &str, samples: usize, segments: u32) -> LiveAudit<'m> {
        let places = (0..segments.max(1)).map(|_| At::Start).collect();
        let state = State { audit: Audit::new(model, samples), read: 0, places };
        LiveAudit { model, table: table.to_owned(), state: Mutex::new(state) }
    }

    /// Goes on from where another run stopped, in its segments: places mean nothing in others.
    pub fn resume(
        model: &'m Model,
        table: &str,
        samples: usize,
        progress: Progress,
    ) -> Result<LiveAudit<'m>, OtherRun> {
        if progress.version != VERSION {
            return Err(OtherRun::Version);
        }
        if progress.table != table {
            return Err(OtherRun::Table(progress.table));
        }
        if progress.model != model.hash {
            return Err(OtherRun::Model);
        }
        if progress.audit.samples() != samples {
            return Err(OtherRun::Samples(progress.audit.samples()));
        }
        if progress.places.is_empty() {
            return Err(OtherRun::Empty);
        }
        let state = State { audit: progress.audit.restore(model), read: progress.read, places: progress.places };
        Ok(LiveAudit { model, table: progress.table, state: Mutex::new(state) })
    }

    /// Items read so far, Tablekeeper's own among them.
    pub fn read(&self) -> u64 {
        self.state().read
    }

    /// What a later run needs to go on from here.
    pub fn save(&self) -> Progress {
        let state = self.state();
        Progress {
            version: VERSION,
            model: self.model.hash.to_string(),
            table: self.table.clone(),
            read: state.read,
            places: state.places.clone(),
            audit: state.audit.save(),
        }
    }

    /// What was counted.
    pub fn finish(self) -> Audit<'m> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).audit
    }

    /// Reads what is left, at most `max_read_units` a second; `each_page` is called when a page has been counted.
    ///
    /// # Errors
    /// The last of several attempts'. What was counted until then stays.
    pub async fn run<S: Store, C: Clock>(
        &self,
        store: &S,
        clock: &C,
        max_read_units: Option<u32>,
        witness: &impl Witness,
        each_page: impl Fn(&LiveAudit<'m>) + Sync,
    ) -> Result<(), StoreError> {
        let store = Paced::new(store, clock, max_read_units);
        let places = self.state().places.clone();
        let of = places.len() as u32;
        let segments = (0..of).zip(places).filter_map(|(segment, place)| {
            let pages = match place {
                At::Start => Pages::new(TableRef::Source, (segment, of)),
                At::After(key) => Pages::after(TableRef::Source, (segment, of), key),
                At::End => return None,
            };
            Some(self.segment(segment, pages, &store, clock, witness, &each_page))
        });
        try_join_all(segments).await.map(drop)
    }

    async fn segment<S: Store, C: Clock>(
        &self,
        segment: u32,
        mut pages: Pages,
        store: &S,
        clock: &C,
        witness: &impl Witness,
        each_page: &(impl Fn(&LiveAudit<'m>) + Sync),
    ) -> Result<(), StoreError> {
        while let Some(items) = page(&mut pages, store, clock).await? {
            let place = pages.position().cloned().map_or(At::End, At::After);
            self.count(segment, &items, place, witness);
            each_page(self);
        }
        Ok(())
    }

    /// The items of a page and the place behind it, at once.
    fn count(&self, segment: u32, items: &[Item], place: At, witness: &impl Witness) {
        let names = self.model.table.key_names();
        let mut state = self.state();
        state.read += items.len() as u64;
        for item in items.iter().filter(|item| !item.is_ours()) {
            if let Some(key) = TableKey::of(item, &names) {
                let derived = derive::derive(self.model, &key, item);
                witness.see(&key, item, &derived);
                state.audit.add(&derived);
            }
        }
        state.places[segment as usize] = place;
    }

    fn state(&self) -> MutexGuard<'_, State<'m>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The next page, also of a table that throttles for long.
async fn page<S: Store, C: Clock>(pages: &mut Pages, store: &S, clock: &C) -> Result<Option<Vec<Item>>, StoreError> {
    for attempt in 0..THROTTLED.attempts_max {
        match pages.next(store, clock).await {
            Err(StoreError::Throttled(_)) => THROTTLED.pause(clock, attempt).await,
            other => return other,
        }
    }
    pages.next(store, clock).await
}
