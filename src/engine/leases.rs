//! Who reads which shard, when several workers share a stream.
//!
//! The problem: a shard that two workers read is work done twice, one that nobody reads is work not done; workers come, go,
//! hang and come back, and their clocks disagree. Readers that rest their correctness on leases count twice whenever a paused
//! owner wakes up. Here the ledger alone decides what is applied, so a lease only says who should take the trouble, and a
//! mistake of any length costs repeated reading and nothing else.
//!
//! The contract: each worker has one row, whose counter it moves every quarter of its lease time; each shard's row names its
//! owner and counts its changes of hands. So the cost of staying alive does not grow with the shards. [`Leases`] decides and
//! does no I/O: it is shown the rows as they are, by [`Leases::look`], and says what to claim. Of it holds:
//! - a worker is dead when its counter has not moved for its lease time by the clock of the one who looks, and for several
//!   looks; nobody's clock is compared with another's, and a clock that jumps kills nobody;
//! - every claim is a write on condition that the lease has not changed hands since it was seen: of two claims one succeeds;
//! - a shard without a living owner is claimed at once by whoever has fewer than its share, one's own of an earlier life first;
//! - shares differ by at most one: who has less takes from who has more, each as many as it lacks, chosen by all alike;
//! - an owner learns that it has lost a shard by its next look, or by its next checkpoint, which is refused;
//! - a worker that has not looked for its lease time begins anew, as if it had been killed ([`Leases::is_stale`]): what it knows of
//!   shards is too old to act on, and what looks lost to it may have been read by others;
//! - rows that do not decode, and rows of other consumers or streams, are not seen.
//!
//! A worker that ends in order frees its shards and deletes its row, so that others go on at once. One that was killed is
//! waited for, unless the next one bears the same name: then it takes up what its name owns.

mod rows;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::shards::later;
pub use rows::{Beat, LeaseRow, Rows, bury, claim, leave, load, release};

/// Looks in a lease time: a dead worker is noticed within a lease time and one look.
const LOOKS: u32 = 4;
/// Looks without a movement that it takes besides the time, so that a pause or a jump of one's own clock kills nobody.
const STILL_LOOKS_MIN: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Names the worker; unique among those that live. A worker that was killed goes on at once under its earlier name, under
    /// a new one only after the lease time.
    pub worker: String,
    /// How long a worker may be silent before its shards are taken. Too short costs reading things twice, not correctness.
    pub lease_time: Duration,
}

impl LeaseSettings {
    /// With a lease time of ten seconds.
    pub fn new(worker: impl Into<String>) -> LeaseSettings {
        LeaseSettings { worker: worker.into(), lease_time: Duration::from_secs(10) }
    }
}

/// How long another worker has been silent, by the own clock.
#[derive(Debug)]
struct Pulse {
    beat: Beat,
    since: DateTime<Utc>,
    /// Looks that found it unmoved.
    still: u32,
}

/// A shard to be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub shard: Arc<str>,
    /// The living worker that has more than its share; `None`: the shard is free, its owner is dead, or it is one's own from
    /// an earlier life.
    pub taken_from: Option<String>,
}

/// What a look comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Held until now, and another's by the rows.
    pub lost: Vec<Arc<str>>,
    pub claims: Vec<Claim>,
    /// Rows of dead workers that own nothing any more, to be deleted.
    pub dead: Vec<Beat>,
    /// Living workers, this one included.
    pub workers: usize,
    /// True for one of all workers that see each other: who does what need be done only once.
    pub leader: bool,
    /// Living workers derive under another model.
    pub mixed: bool,
}

/// One worker's view of the leases of one stream.
#[derive(Debug)]
pub struct Leases {
    settings: LeaseSettings,
    beat: Beat,
    pulses: BTreeMap<String, Pulse>,
    /// The shards that this worker holds, each with the count of its lease.
    held: BTreeMap<Arc<str>, u64>,
    /// The shards that others had at the last look.
    elsewhere: BTreeSet<Arc<str>>,
    looked_at: DateTime<Utc>,
    /// It has looked, so its row was its own then.
    begun: bool,
}

impl Leases {
    /// `run` tells this life of the worker from others of the same name.
    pub fn new(settings: LeaseSettings, run: String, model: String, now: DateTime<Utc>) -> Leases {
        let beat = Beat { worker: settings.worker.clone(), run, count: 0, lease_time: settings.lease_time, model };
        Leases {
            settings,
            beat,
            pulses: BTreeMap::new(),
            held: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
            looked_at: now,
            begun: false,
        }
    }

    pub fn settings(&self) -> &LeaseSettings {
        &self.settings
    }

    /// The pause between two looks.
    pub fn pause(&self) -> Duration {
        self.settings.lease_time / LOOKS
    }

    /// The next sign of life; written before each look.
    pub fn next_beat(&mut self) -> Beat {
        self.beat.count += 1;
        self.beat.clone()
    }

    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Ends this worker's row.
    pub fn last_beat(&self) -> Beat {
        self.beat.clone()
    }

    /// The count of the lease by which this worker holds the shard.
    pub fn term(&self, shard: &str) -> Option<u64> {
        self.held.get(shard).copied()
    }

    pub fn held(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.held.iter().map(|(shard, term)| (shard, *term))
    }

    pub fn held_count(&self) -> usize {
        self.held.len()
    }

    /// A claim was granted under this count.
    pub fn hold(&mut self, shard: Arc<str>, term: u64) {
        self.held.insert(shard, term);
    }

    /// The shard is another's: a write on condition of the lease was refused.
    pub fn lose(&mut self, shard: &str) -> bool {
        self.held.remove(shard).is_some()
    }

    /// True if, by the last look, nobody has one of these shards.
    pub fn has_unclaimed(&self, open: &BTreeSet<Arc<str>>) -> bool {
        open.iter().any(|shard| !self.held.contains_key(shard) && !self.elsewhere.contains(shard))
    }

    /// True where the last look, or the start, is longer ago than the lease: others may have everything by now and have read
    /// it to its end, so the worker has to begin anew.
    pub fn is_stale(&mut self, now: DateTime<Utc>) -> bool {
        // A clock that was put back does not lengthen the lease.
        self.looked_at = self.looked_at.min(now);
        later(self.looked_at, self.settings.lease_time) < now
    }

    /// Gives everything up, without a word to the others: they see for themselves.
    pub fn drop_all(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.held).into_keys().collect()
    }

    /// Takes in the rows as they were read at `now`; `open` are the shards that can be read now: neither finished nor waiting
    /// for a parent.
    pub fn look(&mut self, rows: &Rows, open: &BTreeSet<Arc<str>>, now: DateTime<Utc>) -> Findings {
        self.looked_at = now;
        self.begun = true;
        let living = self.living(&rows.workers, now);
        let me = self.settings.worker.as_str();
        let by_shard: BTreeMap<&str, &LeaseRow> = rows.shards.iter().map(|row| (row.shard(), row)).collect();
        let is_mine = |shard: &str, term: u64| {
            by_shard.get(shard).is_some_and(|row| row.owner.as_deref() == Some(me) && row.term == Some(term))
        };
        let mut lost = Vec::new();
        self.held.retain(|shard, term| {
            let keep = is_mine(shard, *term);
            // What is read to its end is nobody's loss.
            if !keep && open.contains(shard) {
                lost.push(shard.clone());
            }
            keep
        });
        let mut shares = Shares::new(living.keys());
        let mut claims = Vec::new();
        self.elsewhere.clear();
        for shard in open {
            let owner = by_shard.get(&**shard).and_then(|row| row.owner.as_deref());
            match owner.and_then(|owner| shares.by_worker.get_mut(owner)) {
                None => shares.free.push(shard),
                Some(has) => {
                    has.push(shard);
                    if owner != Some(me) {
                        self.elsewhere.insert(shard.clone());
                    }
                }
            }
            if owner == Some(me) && !self.held.contains_key(shard) {
                claims.push(Claim { shard: shard.clone(), taken_from: None });
            }
        }
        claims.extend(shares.claims(me));
        let owners: BTreeSet<&str> = rows.shards.iter().filter_map(|row| row.owner.as_deref()).collect();
        let dead = |beat: &&Beat| !living.contains_key(&beat.worker) && !owners.contains(&*beat.worker);
        Findings {
            lost,
            claims,
            dead: rows.workers.iter().filter(dead).cloned().collect(),
            workers: living.len(),
            leader: living.keys().next().is_some_and(|first| first == me),
            mixed: living.values().any(|model| *model != self.beat.model),
        }
    }

    /// The living workers and their models, this one included.
    fn living(&mut self, workers: &[Beat], now: DateTime<Utc>) -> BTreeMap<String, String> {
        self.pulses.retain(|name, _| workers.iter().any(|beat| beat.worker == *name));
        let mut living = BTreeMap::from([(self.settings.worker.clone(), self.beat.model.clone())]);
        for beat in workers.iter().filter(|beat| beat.worker != self.settings.worker) {
            let fresh = || Pulse { beat: beat.clone(), since: now, still: 0 };
            let pulse = self.pulses.entry(beat.worker.clone()).or_insert_with(fresh);
            match pulse.beat.is_same(beat) {
                true => pulse.still = pulse.still.saturating_add(1),
                false => *pulse = fresh(),
            }
            // A clock that was put back: the time that it had counted is not to be trusted.
            pulse.since = pulse.since.min(now);
            let patience = self.settings.lease_time.max(beat.lease_time);
            if pulse.still < STILL_LOOKS_MIN || now < later(pulse.since, patience) {
                living.insert(beat.worker.clone(), beat.model.clone());
            }
        }
        living
    }
}

/// The readable shards by who has them.
struct Shares<'a> {
    by_worker: BTreeMap<&'a str, Vec<&'a Arc<str>>>,
    free: Vec<&'a Arc<str>>,
}

impl<'a> Shares<'a> {
    fn new(living: impl Iterator<Item = &'a String>) -> Shares<'a> {
        Shares { by_worker: living.map(|worker| (worker.as_str(), Vec::new())).collect(), free: Vec::new() }
    }

    /// What `me` should claim: free shards up to its share; where none is free, its part of what others have beyond theirs.
    fn claims(self, me: &str) -> Vec<Claim> {
        let Shares { by_worker, mut free } = self;
        let workers = by_worker.len().max(1);
        let shards = free.len() + by_worker.values().map(Vec::len).sum::<usize>();
        if !free.is_empty() {
            let mine = by_worker.get(me).map_or(0, Vec::len);
            let room = shards.div_ceil(workers).saturating_sub(mine);
            // Each in an order of its own, so that several newcomers seldom want the same shard.
            free.sort_by_key(|shard| mix(me, shard));
            return free.into_iter().take(room).map(|shard| Claim { shard: shard.clone(), taken_from: None }).collect();
        }
        // All who see the same rows come to the same plan, and each carries out its own part of it. Who has most keeps most.
        let mut ranked: Vec<(&str, Vec<&Arc<str>>)> = by_worker.into_iter().collect();
        ranked.sort_by_key(|(worker, has)| (Reverse(has.len()), *worker));
        let (least, more) = (shards / workers, shards % workers);
        let (mut surplus, mut before, mut lacks) = (Vec::new(), 0, 0);
        for (rank, (worker, mut has)) in ranked.into_iter().enumerate() {
            let share = least + usize::from(rank < more);
            let lacking = share.saturating_sub(has.len());
            match worker == me {
                true => lacks = lacking,
                false if lacks == 0 => before += lacking,
                false => {}
            }
            has.sort_by_key(|shard| mix("", shard));
            surplus.extend(has.into_iter().skip(share).map(|shard| (shard, worker)));
        }
        let part = surplus.into_iter().skip(before).take(lacks);
        part.map(|(shard, owner)| Claim { shard: shard.clone(), taken_from: Some(owner.to_owned()) }).collect()
    }
}

/// An even spread of texts over numbers (FNV-1a): which shard comes first for whom.
fn mix(worker: &str, shard: &str) -> u64 {
    let bytes = worker.bytes().chain([0]).chain(shard.bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    // The last bytes reach the high bits only by another turn.
    (hash ^ (hash >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
