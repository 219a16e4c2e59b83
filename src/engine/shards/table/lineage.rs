//! Lineage: what descriptions say of shards and their parents, and which shard may start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{DOUBTS_MAX, Phase, Shard, ShardTable, UNLISTED_MAX, gap, later};
use crate::engine::checkpoint::{Checkpoint, ShardKey};
use crate::engine::patience::backoff;
use crate::engine::ports::{StreamDescription, StreamError};
use crate::engine::shards::{GapCause, Notice};

/// A description of many shards takes a request for each hundred, and the service answers ten requests a second, for all
/// readers together.
const LISTED_A_PAGE: usize = 100;
const PAGE_PAUSE: Duration = Duration::from_millis(200);

impl ShardTable {
    pub(super) fn restore(&mut self, row: Checkpoint, now: DateTime<Utc>, notices: &mut Vec<Notice>) {
        if row.key.arn != self.arn {
            return;
        }
        let mut shard = Shard::new(row.parent.as_deref().map(Arc::from), self.settings.own_new, now);
        shard.read_at = row.read_at;
        shard.saved_at = Some(row.read_at.min(now));
        shard.last = row.last;
        if row.finished {
            shard.phase = Phase::Finished;
        }
        // After a sequence number the service says whether records are lost. From TRIM_HORIZON it would begin later and say nothing.
        let silent = shard.last.is_none() && !row.finished;
        if silent && later(row.read_at, self.settings.retention) <= now {
            let cause = GapCause::AwayTooLong { read_at: row.read_at };
            notices.push(gap(cause, Some(row.key.clone()), now));
            shard.read_at = now;
        }
        self.shards.insert(row.key.shard, shard);
    }

    pub(super) fn described(&mut self, description: StreamDescription, now: DateTime<Utc>, notices: &mut Vec<Notice>) {
        self.describing = false;
        self.describe_failures = 0;
        if *description.arn != *self.arn {
            self.replace_stream(&description.arn, now, notices);
        }
        let listed: BTreeMap<&str, Option<&str>> =
            description.shards.iter().map(|shard| (shard.id.as_str(), shard.parent.as_deref())).collect();
        for (id, parent) in &listed {
            self.listed(id, parent.filter(|parent| parent != id), now, notices);
        }
        for (id, shard) in self.shards.iter_mut().filter(|(id, _)| !listed.contains_key(&***id)) {
            shard.unlisted += 1;
            // One list that leaves it out proves nothing: an open shard that is given up would never be read again.
            if shard.phase == Phase::Doubted && shard.unlisted >= UNLISTED_MAX {
                // Not listed and not to be read: whatever it still held is lost.
                let key = ShardKey { arn: self.arn.clone(), shard: id.clone() };
                notices.push(gap(GapCause::ShardGone, Some(key), now));
                shard.phase = Phase::Finished;
                shard.dirty = true;
            }
        }
        self.count_orphaned(&listed, now, notices);
        self.forget_unlisted();
        self.count_childless();
        self.seasoned = true;
        self.schedule_description(now);
        self.promote(now, notices);
    }

    pub(super) fn listed(&mut self, id: &str, parent: Option<&str>, now: DateTime<Utc>, notices: &mut Vec<Notice>) {
        if let Some(shard) = self.shards.get_mut(id) {
            shard.unlisted = 0;
            shard.parent = shard.parent.take().or_else(|| parent.map(Arc::from));
            if shard.phase == Phase::Doubted {
                shard.phase = Phase::Unplaced;
                if shard.doubts >= DOUBTS_MAX {
                    shard.doubts = 0;
                    shard.last = None;
                    let key = ShardKey { arn: self.arn.clone(), shard: id.into() };
                    notices.push(gap(GapCause::ShardGone, Some(key), now));
                }
            }
            return;
        }
        let mut shard = Shard::new(parent.map(Arc::from), self.settings.own_new, now);
        if let Some(name) = parent {
            match self.shards.get(name) {
                Some(known) => shard.read_at = known.read_at,
                None => shard.parent_missed = self.seasoned,
            }
        }
        self.shards.insert(id.into(), shard);
    }

    /// Counts the descriptions in a row that list a shard and not its parent. A list may leave the parent out that is there, and
    /// whoever read the child first would then apply the older records last.
    fn count_orphaned(&mut self, listed: &BTreeMap<&str, Option<&str>>, now: DateTime<Utc>, notices: &mut Vec<Notice>) {
        let known: BTreeSet<Arc<str>> = self.shards.keys().cloned().collect();
        for (id, shard) in self.shards.iter_mut().filter(|(_, shard)| shard.phase == Phase::Waiting) {
            let Some(parent) = shard.parent.clone().filter(|parent| !known.contains(parent)) else { continue };
            if !listed.contains_key(&**id) {
                continue;
            }
            shard.orphaned += 1;
            if shard.orphaned == UNLISTED_MAX && std::mem::take(&mut shard.parent_missed) {
                let key = ShardKey { arn: self.arn.clone(), shard: id.clone() };
                notices.push(gap(GapCause::ParentUnseen { parent: parent.to_string() }, Some(key), now));
            }
        }
    }

    pub(super) fn replace_stream(&mut self, arn: &str, now: DateTime<Utc>, notices: &mut Vec<Notice>) {
        let old = self.arn.clone();
        notices.push(gap(GapCause::StreamReplaced { old: old.to_string() }, None, now));
        let shards = std::mem::take(&mut self.shards);
        self.forgotten.extend(shards.into_keys().map(|shard| ShardKey { arn: old.clone(), shard }));
        self.arn = arn.into();
        self.seasoned = false;
    }

    pub(super) fn describe_failed(
        &mut self,
        error: StreamError,
        now: DateTime<Utc>,
        jitter: f64,
        notices: &mut Vec<Notice>,
    ) {
        self.describing = false;
        let pause = backoff(self.settings.describe_min, self.describe_failures, self.settings.describe_max, jitter);
        self.describe_failures += 1;
        self.describe_at = later(now, pause.max(self.settings.describe_min));
        notices.push(Notice::Trouble { shard: None, error, failures: self.describe_failures });
    }

    /// Lets waiting shards go whose parents are done.
    pub(super) fn promote(&mut self, now: DateTime<Utc>, notices: &mut Vec<Notice>) {
        let ready: Vec<Arc<str>> =
            self.shards.iter().filter(|(_, shard)| self.is_ready(shard)).map(|(id, _)| id.clone()).collect();
        for id in ready {
            self.open_shard(&id, now, notices);
        }
    }

    /// Lets this one go if its parent is done.
    pub(super) fn promote_one(&mut self, id: &Arc<str>, now: DateTime<Utc>, notices: &mut Vec<Notice>) {
        if self.shards.get(id).is_some_and(|shard| self.is_ready(shard)) {
            self.open_shard(id, now, notices);
        }
    }

    /// Its parent is read to its end, or gone.
    pub(super) fn may_start(&self, shard: &Shard) -> bool {
        let Some(parent) = &shard.parent else { return true };
        match self.shards.get(parent) {
            Some(parent) => parent.finished(),
            // A shard with a row was begun before.
            None => shard.saved_at.is_some() || shard.orphaned >= UNLISTED_MAX,
        }
    }

    fn is_ready(&self, shard: &Shard) -> bool {
        shard.owned && shard.phase == Phase::Waiting && self.may_start(shard)
    }

    fn open_shard(&mut self, id: &Arc<str>, now: DateTime<Utc>, notices: &mut Vec<Notice>) {
        // What the parent was read up to is what this shard's records are later than.
        let parent = self.shards.get(id).and_then(|shard| shard.parent.clone());
        let parent_read_at = parent.and_then(|parent| self.shards.get(&parent)).map(|parent| parent.read_at);
        let key = self.key(id);
        if let Some(shard) = self.shards.get_mut(id) {
            shard.phase = Phase::Unplaced;
            shard.ready_at = now;
            if shard.saved_at.is_none() {
                shard.read_at = parent_read_at.unwrap_or(shard.read_at);
                shard.dirty = true;
            }
            notices.push(Notice::Opened(key, shard.start()));
        }
    }

    pub(super) fn forget_unlisted(&mut self) {
        let done: Vec<Arc<str>> = self
            .shards
            .iter()
            .filter(|(_, shard)| shard.finished() && shard.unlisted >= UNLISTED_MAX && !shard.saving)
            .map(|(id, _)| id.clone())
            .collect();
        for id in done {
            self.shards.remove(&id);
            self.forgotten.push(ShardKey { arn: self.arn.clone(), shard: id });
        }
    }

    pub(super) fn count_childless(&mut self) {
        let parents: BTreeSet<Arc<str>> = self.shards.values().filter_map(|shard| shard.parent.clone()).collect();
        for (id, shard) in &mut self.shards {
            let childless = shard.finished() && !parents.contains(id);
            shard.childless = if childless { shard.childless.saturating_add(1) } else { 0 };
        }
    }

    /// Sooner while a child, a verdict or the first shard is awaited, at a rate that falls.
    pub(super) fn schedule_description(&mut self, now: DateTime<Utc>) {
        let awaited = self.shards.is_empty()
            || self.shards.values().any(|shard| {
                let waits_for_unknown = shard.phase == Phase::Waiting && (1..UNLISTED_MAX).contains(&shard.orphaned);
                shard.childless > 0 || shard.phase == Phase::Doubted || waits_for_unknown
            });
        self.describe_hurried = if awaited { self.describe_hurried.saturating_add(1) } else { 0 };
        let (min, max) = (self.settings.describe_min, self.settings.describe_max);
        let pause = if awaited { backoff(min, self.describe_hurried, max, 1.0) } else { max };
        let pages = u32::try_from(self.shards.len() / LISTED_A_PAGE).unwrap_or(u32::MAX);
        let pause = pause.max(PAGE_PAUSE.saturating_mul(pages));
        self.describe_at = later(now, pause);
    }

    pub(super) fn hurry_description(&mut self, now: DateTime<Utc>) {
        self.describe_hurried = 0;
        let soonest = now.max(later(self.described_at, self.settings.describe_min));
        self.describe_at = self.describe_at.min(soonest);
    }
}
