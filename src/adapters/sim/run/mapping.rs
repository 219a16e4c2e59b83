//! What AWS does for a function on a stream: it reads the shards, hands batches over and remembers how far it came.
//!
//! Parents before children; several shards at once; what becomes of a batch that failed is said in [`crate::adapters::sim::mapping`];
//! and now and then a batch comes that had been done with. The mapping itself never crashes, the functions do. What is
//! past retention it passes over in silence, as AWS does, so where only functions run, the clock never jumps that far.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::actors::Applier;
use super::lines::Weather;
use crate::adapters::sim::clock::SimClock;
use crate::adapters::sim::mapping::{Batch, Rules, Said, passes_filter};
use crate::adapters::sim::random::Random;
use crate::adapters::sim::stream::SimStream;
use crate::engine::batch::OldImages;
use crate::engine::ports::Clock;
use crate::model::change::RawRecord;

/// Pause of an idle mapping.
const POLL: Duration = Duration::from_millis(250);

/// The mapping of one function. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Mapping(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: Random,
    feeds: BTreeMap<String, Feed>,
    /// Shards, and how far they are done with since somebody asked.
    vouched: Vec<(String, usize)>,
    /// Our own items' records are dropped before the function sees them.
    filters: bool,
    batch_max: usize,
    duplicates: u32,
}

#[derive(Debug, Clone, Default)]
struct Feed {
    /// Position of the first record that is not done with.
    at: usize,
    done: bool,
    busy: bool,
    /// What failed and comes again before anything else.
    again: VecDeque<Batch>,
}

/// A batch on its way; if it is dropped, nobody answered.
struct Delivery {
    mapping: Mapping,
    shard: String,
    records: Vec<RawRecord>,
    /// Position in the shard of each record.
    places: Vec<usize>,
    batch: Batch,
    /// It had been done with.
    repeated: bool,
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(feed) = self.mapping.lock().feeds.get_mut(&self.shard) {
            feed.busy = false;
        }
    }
}

impl Mapping {
    pub fn new(mut random: Random) -> Mapping {
        let (filters, batch_max) = (random.chance(500), 1 + random.below(14));
        let duplicates = *random.pick(&[0, 100, 400]);
        let (feeds, vouched) = (BTreeMap::new(), Vec::new());
        Mapping(Arc::new(Mutex::new(State { random, feeds, vouched, filters, batch_max, duplicates })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far which shards are done with, since the last call.
    pub fn vouched(&self) -> Vec<(String, usize)> {
        std::mem::take(&mut self.lock().vouched)
    }

    /// No batch comes twice any more.
    pub fn clear_up(&self) {
        self.lock().duplicates = 0;
    }

    /// Everything that is in the stream has been handed over and done with.
    pub fn is_done(&self, stream: &SimStream) -> bool {
        let state = self.lock();
        stream.shards().iter().all(|shard| {
            let feed = state.feeds.get(&shard.id).cloned().unwrap_or_default();
            feed.done
                || !stream.is_closed(&shard.id) && stream.slice(&shard.id, feed.at, 1).is_some_and(|s| s.1.is_empty())
        })
    }

    /// The next batch of any shard that may be read.
    fn take(&self, stream: &SimStream) -> Option<Delivery> {
        let mut state = self.lock();
        let mut shards = stream.shards();
        state.random.shuffle(&mut shards);
        for shard in &shards {
            let parent_done = shard.parent.as_ref().is_none_or(|parent| {
                let is_there = shards.iter().any(|other| other.id == *parent);
                !is_there || state.feeds.get(parent).is_some_and(|feed| feed.done)
            });
            let feed = state.feeds.entry(shard.id.clone()).or_default().clone();
            if !parent_done || feed.done || feed.busy {
                continue;
            }
            let (duplicates, most) = (state.duplicates, state.batch_max);
            let repeated = feed.at > 0 && state.random.chance(duplicates);
            let batch = match feed.again.front() {
                _ if repeated => {
                    let from = state.random.below(feed.at);
                    Batch::new(from..feed.at.min(from + most))
                }
                Some(batch) => batch.clone(),
                None => Batch::new(feed.at..feed.at + most),
            };
            let slice = stream.slice(&shard.id, batch.places.start, batch.places.len());
            let filters = state.filters;
            let Some(kept) = state.feeds.get_mut(&shard.id) else { continue };
            match slice {
                None => kept.done = true,
                Some((_, records)) if records.is_empty() => {}
                Some((from, records)) => {
                    kept.busy = true;
                    if !repeated && from > batch.places.start {
                        // Trimmed meanwhile: what comes again begins with what is left.
                        kept.again.clear();
                    }
                    let batch = Batch { places: from..from + records.len(), ..batch };
                    let numbered = batch.places.clone().zip(records);
                    let (places, records) = numbered.filter(|(_, record)| !filters || passes_filter(record)).unzip();
                    let (mapping, shard) = (self.clone(), shard.id.clone());
                    return Some(Delivery { mapping, shard, records, places, batch, repeated });
                }
            }
        }
        None
    }

    /// The function's answer: `None`, or the position in the batch of the first record that failed.
    fn answered(&self, delivery: &Delivery, failed: Option<usize>) {
        let mut state = self.lock();
        let rules = Rules { bisects: state.random.chance(500), retries_max: None };
        let Some(feed) = state.feeds.get_mut(&delivery.shard) else { return };
        if delivery.repeated {
            return;
        }
        let said = match failed {
            None => Said::Done,
            Some(position) => delivery.places.get(position).map_or(Said::Failed, |place| Said::FailedFrom(*place)),
        };
        let next = delivery.batch.clone().after(said, rules);
        feed.at = next.done_to;
        feed.again.pop_front();
        next.again.into_iter().rev().for_each(|batch| feed.again.push_front(batch));
        let vouched = (delivery.shard.clone(), feed.at);
        state.vouched.push(vouched);
    }
}

/// One function, called again and again.
pub(super) async fn function(mapping: Mapping, stream: SimStream, applier: Applier, clock: SimClock, weather: Weather) {
    loop {
        let Some(delivery) = mapping.take(&stream) else {
            clock.sleep(POLL).await;
            continue;
        };
        let failed = match delivery.records.is_empty() {
            true => None,
            false => applier.batch(&delivery.records, OldImages::Trusted).await.err().map(|error| error.position),
        };
        weather.count(|tally| tally.duplicates += u64::from(delivery.repeated));
        mapping.answered(&delivery, failed);
        drop(delivery);
        if failed.is_some() {
            clock.sleep(POLL).await;
        }
    }
}
