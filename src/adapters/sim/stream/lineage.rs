//! The shards themselves: which there are, and which record is in which.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Manners, SimStream, Token};
use crate::adapters::sim::random::Random;
use crate::engine::ports::ShardIterator;
use crate::model::change::RawRecord;
use crate::model::value::{Item, Value};

/// Hash values; a shard has a range of them.
const HASHES: u32 = 1 << 16;
/// Shards that are open at once, at most.
const OPEN_MAX: usize = 6;
/// The first number of a shard that begins low: soon it grows by a digit, which catches comparisons as text.
const LOW_FIRST: u128 = 95;

/// Where a record went.
#[derive(Debug, Clone, PartialEq)]
pub struct Routed {
    pub shard: String,
    pub number: u128,
    /// Key attributes of its item.
    pub keys: Item,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub number: u128,
    pub at: DateTime<Utc>,
    pub bytes: usize,
    pub record: RawRecord,
}

#[derive(Debug)]
pub(super) struct Shard {
    pub id: String,
    /// Of the stream's ARN.
    pub generation: u32,
    parent: Option<usize>,
    /// Its range of hashes; the end is not in it.
    range: (u32, u32),
    pub closed_at: Option<DateTime<Utc>>,
    listed_at: DateTime<Utc>,
    unlisted_at: Option<DateTime<Utc>>,
    pub records: Vec<Entry>,
    pub trimmed: usize,
    next: u128,
}

#[derive(Debug)]
pub(super) struct Lineage {
    pub manners: Manners,
    pub random: Random,
    pub generation: u32,
    pub arn: String,
    pub shards: Vec<Shard>,
    /// Records of the store that are in shards.
    pub pulled: usize,
    pub routed: Vec<Routed>,
    /// The last description left a shard out.
    pub forgot: bool,
}

impl Shard {
    pub fn is_listed(&self, now: DateTime<Utc>) -> bool {
        self.listed_at <= now && self.unlisted_at.is_none_or(|at| now < at)
    }
}

impl Lineage {
    pub fn new(manners: Manners, random: Random, shards: usize, now: DateTime<Utc>) -> Lineage {
        let mut lineage = Lineage {
            manners,
            random,
            generation: 0,
            arn: String::new(),
            shards: Vec::new(),
            pulled: 0,
            routed: Vec::new(),
            forgot: false,
        };
        lineage.begin(shards.clamp(1, OPEN_MAX) as u32, now);
        lineage
    }

    /// A new ARN with fresh shards.
    fn begin(&mut self, shards: u32, now: DateTime<Utc>) {
        self.generation += 1;
        self.arn = format!("arn:aws:dynamodb:sim-1:000000000000:table/simulated/stream/{}", self.generation);
        for n in 0..shards {
            let first = self.first_number();
            let range = (HASHES * n / shards, HASHES * (n + 1) / shards);
            self.open(None, range, now, first);
        }
    }

    fn first_number(&mut self) -> u128 {
        *self.random.pick(&[1, LOW_FIRST, 99_999_999_999_999_999_995, 820_400_000_000_000_001_192_334])
    }

    fn open(&mut self, parent: Option<usize>, range: (u32, u32), listed_at: DateTime<Utc>, next: u128) {
        let id = format!("shard-{:03}", self.shards.len());
        self.shards.push(Shard {
            id,
            generation: self.generation,
            parent,
            range,
            closed_at: None,
            listed_at,
            unlisted_at: None,
            records: Vec::new(),
            trimmed: 0,
            next,
        });
    }

    pub fn find(&self, id: &str) -> Option<&Shard> {
        self.shards.iter().find(|shard| shard.id == id)
    }

    pub fn parent_id(&self, shard: &Shard) -> Option<String> {
        shard.parent.map(|parent| self.shards[parent].id.clone())
    }

    fn open_shards(&self) -> Vec<usize> {
        (0..self.shards.len()).filter(|at| self.shards[*at].closed_at.is_none()).collect()
    }

    pub fn divide(&mut self, in_two: bool, now: DateTime<Utc>) {
        let open = self.open_shards();
        let at = *self.random.pick(&open);
        let (low, high) = self.shards[at].range;
        let middle = low + (high - low) / 2;
        let two = in_two && open.len() < OPEN_MAX && middle > low;
        let ranges = if two { vec![(low, middle), (middle, high)] } else { vec![(low, high)] };
        self.shards[at].closed_at = Some(now);
        for range in ranges {
            let late = self.random.below(self.manners.listed_late.num_seconds().max(0) as usize + 1);
            let begins_low = self.random.chance(self.manners.low_numbers);
            let next = if begins_low { self.first_number() } else { self.shards[at].next + 1 };
            let listed_at = (now + TimeDelta::seconds(late as i64)).max(self.shards[at].listed_at);
            self.open(Some(at), range, listed_at, next);
        }
    }

    pub fn list_all(&mut self, now: DateTime<Utc>) {
        self.shards.iter_mut().for_each(|shard| shard.listed_at = shard.listed_at.min(now));
    }

    pub fn replace(&mut self, now: DateTime<Utc>) {
        for at in self.open_shards() {
            self.shards[at].closed_at = Some(now);
        }
        let shards = 1 + self.random.below(3) as u32;
        self.begin(shards, now);
    }

    /// Appends records to the open shards of their items.
    pub fn route(&mut self, records: Vec<RawRecord>, now: DateTime<Utc>) {
        self.pulled += records.len();
        for mut record in records {
            let Some(Ok(keys)) = record.keys.clone() else { continue };
            let hash = hash(&keys);
            let of = |shard: &&mut Shard| shard.closed_at.is_none() && (shard.range.0..shard.range.1).contains(&hash);
            let Some(shard) = self.shards.iter_mut().find(of) else { continue };
            let number = shard.next;
            shard.next += 1;
            record.sequence = Some(number.to_string());
            record.created_at = Some(now);
            let images = [&record.new_image, &record.old_image].into_iter().flatten().flatten();
            let bytes = keys.size() + images.map(Item::size).sum::<usize>();
            self.routed.push(Routed { shard: shard.id.clone(), number, keys });
            shard.records.push(Entry { number, at: now, bytes, record });
        }
    }

    /// Lets go what is past retention.
    pub fn trim(&mut self, now: DateTime<Utc>) {
        for (at, shard) in self.shards.iter_mut().enumerate() {
            let kept_from = shard.records.partition_point(|entry| entry.at + SimStream::RETENTION < now);
            shard.trimmed = shard.trimmed.max(kept_from);
            // Some shards stay listed for a day more than their records.
            let days = 1 + (at % 2) as i32;
            shard.unlisted_at = shard.closed_at.map(|closed| closed + SimStream::RETENTION * days);
        }
    }

    pub fn token(&mut self, shard: &str, at: usize, now: DateTime<Utc>) -> ShardIterator {
        let empty = self.random.below(self.manners.empty_pages + 1);
        Token { arn: self.arn.clone(), shard: shard.to_owned(), at, empty, issued: now }.shown()
    }
}

/// By the partition key alone, as DynamoDB does it.
fn hash(keys: &Item) -> u32 {
    // The first of the key attributes by name is the partition key in the simulation's tables.
    let text = keys.0.values().next().map(Value::shown).unwrap_or_default();
    let hash = text.bytes().fold(2_166_136_261u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    (hash >> 8) % HASHES
}
