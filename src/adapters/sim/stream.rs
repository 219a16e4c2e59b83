//! The stream of the simulated table: many shards, as DynamoDB has them on its bad days.
//!
//! The problem: the databases that run on a laptop have one shard a stream, so they prove nothing about lineage. The contract:
//! - an item's records are in one lineage, in order; its shard is found by a hash of the partition key;
//! - shards split and roll over; a child is listed late, its parent may look open, and its numbers may begin below its parent's end
//!   (nothing promises otherwise);
//! - lists of shards come in pages of any order that repeat shards and may leave out new ones; empty pages come before records;
//!   the end of a shard is a page without a next iterator, and may be a page of its own;
//! - iterators live 15 minutes; records live [`SimStream::RETENTION`], closed shards that long after their last record, listed or not;
//! - an iterator for what is trimmed is refused, one at TRIM_HORIZON begins with what is left, and says nothing.
//!
//! What goes wrong with single requests (throttling, outages) is their sender's: see `run`.

mod lineage;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};

pub use self::lineage::Routed;
use self::lineage::{Lineage, Shard};
use super::clock::SimClock;
use super::executor::yield_now;
use super::random::Random;
use super::store::SimStore;
use crate::engine::ports::{
    Clock, RecordPage, ShardIterator, ShardListing, ShardStart, StreamDescription, StreamError, StreamSource,
};
use crate::model::change::{RawRecord, SequenceNumber};

/// How long an iterator is accepted.
const ITERATOR_LIFE: TimeDelta = TimeDelta::minutes(15);
/// Shards in one page of a description.
const LISTED_MAX: usize = 3;

/// How a stream behaves where DynamoDB leaves it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manners {
    /// Most records in a page.
    pub page_records: usize,
    /// Most bytes in a page, though one record at least.
    pub page_bytes: usize,
    /// Most empty pages before a page with records.
    pub empty_pages: usize,
    /// Children are listed up to this late.
    pub listed_late: TimeDelta,
    /// In a thousand children, how many have numbers that begin below their parent's end.
    pub low_numbers: u32,
    /// Descriptions may leave out a shard, though not twice in a row.
    pub forgetful: bool,
}

impl Manners {
    /// As DynamoDB is on a good day.
    pub fn good() -> Manners {
        Manners {
            page_records: 1000,
            page_bytes: 1024 * 1024,
            empty_pages: 0,
            listed_late: TimeDelta::zero(),
            low_numbers: 0,
            forgetful: false,
        }
    }

    /// As it may be, by chance.
    pub fn drawn(random: &mut Random) -> Manners {
        Manners {
            page_records: 1 + random.below(12),
            page_bytes: 600 + random.below(20_000),
            empty_pages: random.below(3),
            listed_late: TimeDelta::seconds(random.below(40) as i64),
            low_numbers: *random.pick(&[0, 300, 1000]),
            forgetful: random.chance(500),
        }
    }
}

/// The stream of a [`SimStore`]. Clones are handles to the same shards.
#[derive(Debug, Clone)]
pub struct SimStream {
    lineage: Arc<Mutex<Lineage>>,
    store: SimStore,
    clock: SimClock,
}

impl SimStream {
    /// How long records are kept.
    pub const RETENTION: TimeDelta = TimeDelta::hours(24);

    /// The store's stream from its first record on, in so many shards; `seed` decides what is left open.
    pub fn new(store: &SimStore, clock: &SimClock, shards: usize, manners: Manners, seed: u64) -> SimStream {
        let lineage = Lineage::new(manners, Random::new(seed), shards, clock.now());
        let stream = SimStream { lineage: Arc::new(Mutex::new(lineage)), store: store.clone(), clock: clock.clone() };
        stream.pull();
        stream
    }

    /// Takes the store's new records in, as written now, and lets go what is past retention. To be called before the time moves on.
    pub fn pull(&self) {
        drop(self.synced());
    }

    /// A random open shard splits in two, or (`in_two` false) goes on in one child.
    pub fn divide(&self, in_two: bool) {
        let now = self.clock.now();
        self.synced().divide(in_two, now);
    }

    /// The stream is disabled and enabled again: a new ARN, and nothing of the old shards.
    pub fn replace(&self) {
        let now = self.clock.now();
        self.synced().replace(now);
    }

    /// From now on every shard is listed as soon as it is there.
    pub fn clear_up(&self) {
        let mut lineage = self.synced();
        lineage.manners.forgetful = false;
        lineage.list_all(self.clock.now());
    }

    /// Records that went into shards since the last call, in order.
    pub fn routed(&self) -> Vec<Routed> {
        std::mem::take(&mut self.synced().routed)
    }

    /// The shards by id with their parents, as they are and not as they are listed: for whoever plays DynamoDB's own part.
    pub fn shards(&self) -> Vec<ShardListing> {
        let lineage = self.synced();
        let current = lineage.shards.iter().filter(|shard| shard.generation == lineage.generation);
        current.map(|shard| ShardListing { id: shard.id.clone(), parent: lineage.parent_id(shard) }).collect()
    }

    /// A shard's records from position `from` on, counted from its first one ever; `None`: closed and no more.
    /// What is trimmed is passed over: the position of the first one comes with them.
    pub fn slice(&self, shard: &str, from: usize, count: usize) -> Option<(usize, Vec<RawRecord>)> {
        let lineage = self.synced();
        let shard = lineage.find(shard)?;
        let from = from.max(shard.trimmed);
        let records: Vec<RawRecord> =
            shard.records.iter().skip(from).take(count).map(|entry| entry.record.clone()).collect();
        if records.is_empty() && shard.closed_at.is_some() { None } else { Some((from, records)) }
    }

    /// True if the shard will get no more records.
    pub fn is_closed(&self, shard: &str) -> bool {
        self.synced().find(shard).is_none_or(|shard| shard.closed_at.is_some())
    }

    /// So many of the shard's first records are past retention.
    pub fn trimmed(&self, shard: &str) -> usize {
        self.synced().find(shard).map_or(0, |shard| shard.trimmed)
    }

    fn synced(&self) -> MutexGuard<'_, Lineage> {
        let now = self.clock.now();
        let mut lineage = self.lineage.lock().unwrap_or_else(PoisonError::into_inner);
        let records = self.store.records(lineage.pulled);
        lineage.route(records, now);
        lineage.trim(now);
        lineage
    }

    fn describe_now(&self) -> StreamDescription {
        let now = self.clock.now();
        let mut lineage = self.synced();
        let mut listed: Vec<ShardListing> = lineage
            .shards
            .iter()
            .filter(|shard| shard.generation == lineage.generation && shard.is_listed(now))
            .map(|shard| ShardListing { id: shard.id.clone(), parent: lineage.parent_id(shard) })
            .collect();
        let forgets = lineage.manners.forgetful && !lineage.forgot && lineage.random.chance(200);
        if forgets && listed.len() > 1 {
            let at = lineage.random.below(listed.len());
            listed.remove(at);
        }
        lineage.forgot = forgets;
        let arn = lineage.arn.clone();
        let pages = pages(listed, &mut lineage.random);
        // The port's part: all pages, each shard once.
        let mut seen = BTreeSet::new();
        let shards = pages.into_iter().flatten().filter(|shard| seen.insert(shard.id.clone())).collect();
        StreamDescription { arn, shards }
    }

    fn iterator_now(&self, shard: &str, start: &ShardStart) -> Result<ShardIterator, StreamError> {
        let now = self.clock.now();
        let mut lineage = self.synced();
        let generation = lineage.generation;
        let found = lineage.find(shard).filter(|shard| shard.generation == generation).ok_or(StreamError::NoShard)?;
        let number = |of: &SequenceNumber| of.to_string().parse::<u128>().map_err(|_| refused("sequence number"));
        let at = match start {
            ShardStart::TrimHorizon => found.trimmed,
            ShardStart::After(last) => {
                let last = number(last)?;
                found.records.partition_point(|entry| entry.number <= last)
            }
            ShardStart::At(first) => {
                let first = number(first)?;
                found.records.partition_point(|entry| entry.number < first)
            }
        };
        if at < found.trimmed {
            return Err(StreamError::Trimmed);
        }
        let id = found.id.clone();
        Ok(lineage.token(&id, at, now))
    }

    fn records_now(&self, iterator: &ShardIterator) -> Result<RecordPage, StreamError> {
        let now = self.clock.now();
        let mut lineage = self.synced();
        let token = Token::parse(&iterator.0).ok_or(StreamError::ExpiredIterator)?;
        if now - token.issued > ITERATOR_LIFE || token.arn != lineage.arn {
            return Err(StreamError::ExpiredIterator);
        }
        let shard = lineage.find(&token.shard).ok_or(StreamError::NoShard)?;
        if token.at < shard.trimmed {
            return Err(StreamError::Trimmed);
        }
        if token.empty > 0 {
            let empty = Token { empty: token.empty - 1, issued: now, ..token };
            return Ok(RecordPage { records: Vec::new(), next: Some(empty.shown()) });
        }
        let records = page(shard, token.at, lineage.manners);
        let (until, count) = (token.at + records.len(), shard.records.len());
        let at_end = shard.closed_at.is_some() && until == count;
        let shows_end = at_end && (records.is_empty() || lineage.random.chance(500));
        let next = (!shows_end).then(|| lineage.token(&token.shard, until, now));
        Ok(RecordPage { records, next })
    }
}

/// A page's worth of records.
fn page(shard: &Shard, from: usize, manners: Manners) -> Vec<RawRecord> {
    let (mut records, mut bytes) = (Vec::new(), 0);
    for entry in shard.records.iter().skip(from).take(manners.page_records) {
        bytes += entry.bytes;
        if bytes > manners.page_bytes && !records.is_empty() {
            break;
        }
        records.push(entry.record.clone());
    }
    records
}

/// The pages of a description: in any order, some shards twice.
fn pages(mut listed: Vec<ShardListing>, random: &mut Random) -> Vec<Vec<ShardListing>> {
    if !listed.is_empty() && random.chance(300) {
        let again = random.pick(&listed).clone();
        listed.push(again);
    }
    random.shuffle(&mut listed);
    listed.chunks(LISTED_MAX).map(<[_]>::to_vec).collect()
}

fn refused(what: &str) -> StreamError {
    StreamError::Refused(format!("the {what} is not valid"))
}

/// What an iterator says.
#[derive(Debug, Clone, PartialEq)]
struct Token {
    arn: String,
    shard: String,
    at: usize,
    empty: usize,
    issued: DateTime<Utc>,
}

impl Token {
    fn shown(&self) -> ShardIterator {
        let Token { arn, shard, at, empty, issued } = self;
        ShardIterator(format!("{arn}|{shard}|{at}|{empty}|{}", issued.timestamp_millis()))
    }

    fn parse(text: &str) -> Option<Token> {
        let parts: Vec<&str> = text.split('|').collect();
        let [arn, shard, at, empty, issued] = parts[..] else { return None };
        Some(Token {
            arn: arn.to_owned(),
            shard: shard.to_owned(),
            at: at.parse().ok()?,
            empty: empty.parse().ok()?,
            issued: DateTime::from_timestamp_millis(issued.parse().ok()?)?,
        })
    }
}

impl StreamSource for SimStream {
    async fn describe(&self) -> Result<StreamDescription, StreamError> {
        yield_now().await;
        Ok(self.describe_now())
    }

    async fn iterator(&self, shard: &str, start: &ShardStart) -> Result<ShardIterator, StreamError> {
        yield_now().await;
        self.iterator_now(shard, start)
    }

    async fn records(&self, iterator: &ShardIterator) -> Result<RecordPage, StreamError> {
        yield_now().await;
        self.records_now(iterator)
    }
}

#[cfg(test)]
mod tests;
