//! What lies between an actor and the simulated database: lines on which requests fail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
use super::mistakes::Mistake;
use super::tally::Tally;
use crate::adapters::sim::clock::SimClock;
use crate::adapters::sim::executor::yield_now;
use crate::adapters::sim::random::Random;
use crate::adapters::sim::store::{Fault, SimStore};
use crate::adapters::sim::stream::SimStream;
use crate::engine::doubt::SIGNATURE_LIFE;
use crate::engine::ports::{
    Clock, Page, RecordPage, ShardIterator, ShardStart, SortRange, Store, StoreError, StreamDescription, StreamError,
    StreamSource, TransactError,
};
use crate::model::key::TableKey;
use crate::model::value::{Item, Value};
use crate::plan::write::{TableRef, Write};

/// How often requests fail, in a thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    pub conflict: u32,
    pub lost_answer: u32,
    pub throttled: u32,
    pub unavailable: u32,
    pub stream: u32,
    /// Iterators that are refused as trimmed though nothing is: seen of DynamoDB Local.
    pub false_trim: u32,
}

impl Rates {
    pub fn drawn(random: &mut Random) -> Rates {
        let mut rate = |most: usize| random.below(most + 1) as u32;
        Rates {
            conflict: rate(80),
            lost_answer: rate(80),
            throttled: rate(40),
            unavailable: rate(40),
            stream: rate(60),
            false_trim: if rate(9) == 0 { 15 } else { 0 },
        }
    }
}

/// Decides which requests fail, and counts. Clones share it.
#[derive(Debug, Clone)]
pub struct Weather(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: Random,
    rates: Rates,
    fair: bool,
    /// So many requests fail one after another: the database is not to be reached.
    down: usize,
    tally: Tally,
}

impl Weather {
    pub fn new(random: Random, rates: Rates) -> Weather {
        Weather(Arc::new(Mutex::new(State { random, rates, fair: false, down: 0, tally: Tally::default() })))
    }

    /// The next so many requests to the tables fail, whoever's they are.
    pub fn break_down(&self, requests: usize) {
        self.lock().down = requests;
    }

    /// From now on nothing fails.
    pub fn clear_up(&self) {
        self.lock().fair = true;
    }

    /// Counts something in the story's figures.
    pub fn count(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.lock().tally);
    }

    pub fn tally(&self) -> Tally {
        self.lock().tally.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What goes wrong with a transaction of so many writes.
    fn write(&self, writes: usize) -> Option<Fault> {
        let mut state = self.lock();
        if state.fair {
            return None;
        }
        let rates = state.rates;
        if state.down == 0 && state.random.chance(rates.conflict) {
            state.tally.conflicts += 1;
            return Some(Fault::Conflict(state.random.below(writes)));
        }
        if state.down == 0 && state.random.chance(rates.lost_answer) {
            state.tally.lost_answers += 1;
            return Some(Fault::LoseAnswer);
        }
        state.failure().map(|error| Fault::Transact(error.into()))
    }

    fn read(&self) -> Option<StoreError> {
        self.lock().failure()
    }

    fn stream(&self, placing: bool) -> Option<StreamError> {
        let mut state = self.lock();
        let rates = state.rates;
        if state.fair {
            return None;
        }
        if placing && state.random.chance(rates.false_trim) {
            state.tally.outages += 1;
            return Some(StreamError::Trimmed);
        }
        if !state.random.chance(rates.stream) {
            return None;
        }
        state.tally.outages += 1;
        Some(match state.random.below(4) {
            0 => StreamError::ExpiredIterator,
            1 => StreamError::Throttled("rate exceeded".to_owned()),
            2 => StreamError::NoShard,
            _ => StreamError::Unavailable("internal server error".to_owned()),
        })
    }
}

impl State {
    fn failure(&mut self) -> Option<StoreError> {
        if self.fair {
            return None;
        }
        let error = if self.down > 0 {
            self.down -= 1;
            StoreError::Unavailable("connection refused".to_owned())
        } else if self.random.chance(self.rates.throttled) {
            StoreError::Throttled("rate exceeded".to_owned())
        } else if self.random.chance(self.rates.unavailable) {
            StoreError::Unavailable("internal server error".to_owned())
        } else {
            return None;
        };
        self.tally.outages += 1;
        Some(error)
    }
}

/// An actor's line to the tables.
#[derive(Debug, Clone)]
pub struct StoreLine {
    store: SimStore,
    weather: Weather,
    /// The database's.
    pub clock: SimClock,
    #[cfg(test)]
    pub mistake: Option<Mistake>,
    #[cfg(test)]
    pub scanned: Arc<Mutex<std::collections::BTreeMap<TableKey, Item>>>,
}

impl StoreLine {
    pub fn new(store: SimStore, weather: Weather, clock: SimClock) -> StoreLine {
        StoreLine {
            store,
            weather,
            clock,
            #[cfg(test)]
            mistake: None,
            #[cfg(test)]
            scanned: Arc::default(),
        }
    }

    /// The tables themselves, past the line: for people with a console of their own.
    pub fn tables(&self) -> &SimStore {
        &self.store
    }

    /// One transaction: it takes effect between two turns of the actor, which may come to an end or stand still at each.
    pub async fn send(&self, writes: &[Write]) -> Result<(), TransactError> {
        let signed_at = self.clock.now();
        yield_now().await;
        if self.clock.now() - signed_at > SIGNATURE_LIFE {
            return Err(StoreError::Unavailable("the signature has expired".to_owned()).into());
        }
        let fault = self.weather.write(writes.len());
        let result = self.store.commit(writes, fault);
        yield_now().await;
        result
    }
}

impl Store for StoreLine {
    async fn get(&self, table: TableRef, keys: &[TableKey]) -> Result<Vec<Option<Item>>, StoreError> {
        if let Some(error) = self.weather.read() {
            return Err(error);
        }
        let found = self.store.get(table, keys).await;
        #[cfg(test)]
        let found = found.map(|found| self.instead(table, keys, found));
        found
    }

    async fn transact(&self, writes: &[Write]) -> Result<(), TransactError> {
        #[cfg(test)]
        if let Some(mistake) = self.mistake {
            return mistake.transact(self, writes).await;
        }
        self.send(writes).await
    }

    async fn query(
        &self,
        table: TableRef,
        partition: &Value,
        range: SortRange,
        start: Option<TableKey>,
    ) -> Result<Page, StoreError> {
        match self.weather.read() {
            Some(error) => Err(error),
            None => self.store.query(table, partition, range, start).await,
        }
    }

    async fn scan(&self, table: TableRef, segment: (u32, u32), start: Option<TableKey>) -> Result<Page, StoreError> {
        if let Some(error) = self.weather.read() {
            return Err(error);
        }
        let page = self.store.scan(table, segment, start).await;
        #[cfg(test)]
        self.note(table, &page);
        page
    }
}

/// An actor's line to the stream.
#[derive(Debug, Clone)]
pub struct StreamLine {
    stream: SimStream,
    weather: Weather,
    #[cfg(test)]
    pub mistake: Option<Mistake>,
}

impl StreamLine {
    pub fn new(stream: SimStream, weather: Weather) -> StreamLine {
        StreamLine {
            stream,
            weather,
            #[cfg(test)]
            mistake: None,
        }
    }
}

impl StreamSource for StreamLine {
    async fn describe(&self) -> Result<StreamDescription, StreamError> {
        if let Some(error) = self.weather.stream(false).filter(|error| *error != StreamError::NoShard) {
            return Err(error);
        }
        let described = self.stream.describe().await;
        #[cfg(test)]
        let described = described.map(|stream| self.mistake.map_or(stream.clone(), |mistake| mistake.listing(stream)));
        described
    }

    async fn iterator(&self, shard: &str, start: &ShardStart) -> Result<ShardIterator, StreamError> {
        if let Some(error) = self.weather.stream(true) {
            return Err(error);
        }
        #[cfg(test)]
        if let Some(mistake) = self.mistake {
            return mistake.iterator(&self.stream, shard, start).await;
        }
        self.stream.iterator(shard, start).await
    }

    async fn records(&self, iterator: &ShardIterator) -> Result<RecordPage, StreamError> {
        if let Some(error) = self.weather.stream(false) {
            return Err(error);
        }
        let page = self.stream.records(iterator).await;
        #[cfg(test)]
        let page = page.map(|page| self.mistake.map_or(page.clone(), |mistake| mistake.page(page)));
        page
    }
}
