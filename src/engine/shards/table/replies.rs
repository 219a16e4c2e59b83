//! Replies: what iterators, pages, saves and changes of ownership do to a shard.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::{BACKOFF_FIRST, Phase, Shard, ShardTable, gap, later};
use crate::engine::checkpoint::{Checkpoint, ShardKey};
use crate::engine::patience::backoff;
use crate::engine::ports::{ShardIterator, StreamError};
use crate::engine::shards::{GapCause, Notice, PageSeen, Ticket};

/// What may be past retention by another's clock, of which ours is so much ahead or behind.
const CLOCK_ERROR: TimeDelta = TimeDelta::minutes(30);

impl ShardTable {
    pub(super) fn placed(
        &mut self,
        ticket: &Ticket,
        iterator: ShardIterator,
        now: DateTime<Utc>,
        notices: &mut Vec<Notice>,
    ) {
        let retention = self.settings.retention;
        let Some(shard) = self.current(ticket).filter(|shard| shard.phase == Phase::Placing) else { return };
        shard.phase = Phase::Placed(iterator);
        shard.ready_at = now;
        // At TRIM_HORIZON the service begins with what is left and says nothing. A worker that stood still for a day, as a
        // machine that was suspended does, must notice by itself.
        let read_at = shard.read_at;
        if shard.last.is_none() && later(read_at, retention) <= now + CLOCK_ERROR {
            shard.read_at = now;
            notices.push(gap(GapCause::AwayTooLong { read_at }, Some(ticket.key.clone()), now));
        }
    }

    pub(super) fn page(&mut self, ticket: &Ticket, page: PageSeen, now: DateTime<Utc>, notices: &mut Vec<Notice>) {
        let (poll_min, poll_max, idle_pages) =
            (self.settings.poll_min, self.settings.poll_max, self.settings.idle_pages);
        let Some(shard) = self.current(ticket).filter(|shard| matches!(shard.phase, Phase::Reading(_))) else { return };
        shard.failures = 0;
        shard.doubts = 0;
        if page.records > 0 {
            shard.empty_pages = 0;
            shard.phase = Phase::Applying(page);
            return;
        }
        let Some(next) = page.next else {
            self.finish(ticket, now, notices);
            return;
        };
        let pause = poll_min.saturating_mul(1u32 << shard.empty_pages.min(16)).min(poll_max);
        shard.empty_pages = shard.empty_pages.saturating_add(1);
        if shard.empty_pages >= idle_pages {
            shard.read_at = now;
            shard.reached = Some(now);
        }
        shard.phase = Phase::Placed(next);
        shard.ready_at = later(now, pause.max(poll_min));
    }

    pub(super) fn applied(&mut self, ticket: &Ticket, now: DateTime<Utc>, notices: &mut Vec<Notice>) {
        let poll_min = self.settings.poll_min;
        let Some(shard) = self.current(ticket) else { return };
        let Phase::Applying(page) = &shard.phase else { return };
        let page = page.clone();
        shard.last = page.last.or(shard.last.take());
        shard.read_at = page.written_at.map_or(shard.read_at, |at| at.max(shard.read_at));
        shard.reached = page.written_at.max(shard.reached);
        shard.dirty = true;
        match page.next {
            Some(next) => {
                shard.phase = Phase::Placed(next);
                shard.ready_at = later(shard.served_at, poll_min);
            }
            None => self.finish(ticket, now, notices),
        }
    }

    pub(super) fn finish(&mut self, ticket: &Ticket, now: DateTime<Utc>, notices: &mut Vec<Notice>) {
        let has_child = self.has_child(&ticket.key.shard);
        let Some(shard) = self.current(ticket) else { return };
        shard.phase = Phase::Finished;
        shard.dirty = true;
        notices.push(Notice::Finished(ticket.key.clone()));
        if !has_child {
            shard.childless = 1;
            self.hurry_description(now);
        }
        self.promote(now, notices);
    }

    pub(super) fn failed(
        &mut self,
        ticket: &Ticket,
        error: StreamError,
        now: DateTime<Utc>,
        jitter: f64,
        notices: &mut Vec<Notice>,
    ) {
        let backoff_max = self.settings.backoff_max;
        let Some(shard) = self.current(ticket).filter(|s| matches!(s.phase, Phase::Placing | Phase::Reading(_))) else {
            return;
        };
        let pause = backoff(BACKOFF_FIRST.min(backoff_max), shard.failures, backoff_max, jitter);
        let first = shard.failures == 0;
        shard.failures = shard.failures.saturating_add(1);
        shard.ready_at = later(now, pause);
        let failures = shard.failures;
        let phase = std::mem::replace(&mut shard.phase, Phase::Unplaced);
        match &error {
            // Normal after a long pause, so the first time it is repeated at once and not worth a word.
            StreamError::ExpiredIterator if first => {
                shard.ready_at = now;
                return;
            }
            StreamError::ExpiredIterator => {}
            StreamError::Trimmed => {
                shard.last = None;
                shard.read_at = now;
                notices.push(gap(GapCause::Trimmed, Some(ticket.key.clone()), now));
            }
            StreamError::NoShard | StreamError::NoStream => {
                shard.doubts += 1;
                shard.phase = Phase::Doubted;
                self.hurry_description(now);
            }
            StreamError::Throttled(_) | StreamError::Unavailable(_) | StreamError::Refused(_) => {
                if let Phase::Reading(iterator) = phase {
                    shard.phase = Phase::Placed(iterator);
                }
            }
        }
        notices.push(Notice::Trouble { shard: Some(ticket.key.clone()), error, failures });
    }

    pub(super) fn saved(&mut self, keys: &[ShardKey], stored: bool, now: DateTime<Utc>) {
        for key in keys.iter().filter(|key| key.arn == self.arn) {
            if let Some(shard) = self.shards.get_mut(&key.shard) {
                shard.saving = false;
                shard.saved_at = Some(now);
                shard.save_failed = !stored;
                shard.dirty |= !stored;
            }
        }
    }

    pub(super) fn owned(&mut self, key: &ShardKey, owned: bool, now: DateTime<Utc>) {
        if key.arn != self.arn {
            return;
        }
        self.turns += 1;
        let turn = self.turns;
        if let Some(shard) = self.shards.get_mut(&key.shard).filter(|shard| shard.owned != owned) {
            shard.owned = owned;
            // Whatever is under way belongs to the earlier owner; its answers come too late.
            shard.turn = turn;
            shard.ready_at = now;
            shard.reached = None;
            if !shard.finished() {
                shard.phase = Phase::Waiting;
                shard.dirty = false;
            }
        }
    }

    /// True where the row tells of a shard's end that was not known here.
    pub(super) fn seen(&mut self, row: Checkpoint, now: DateTime<Utc>) -> bool {
        if row.key.arn != self.arn {
            return false;
        }
        match self.shards.get_mut(&row.key.shard) {
            Some(shard) if shard.owned || shard.finished() => false,
            Some(shard) => {
                shard.last = row.last;
                shard.read_at = row.read_at;
                shard.saved_at.get_or_insert(row.read_at.min(now));
                if row.finished {
                    shard.phase = Phase::Finished;
                }
                row.finished
            }
            // Another worker has heard of it first, or it is not listed any more: its children must not seem orphans.
            None => {
                let mut shard = Shard::new(row.parent.as_deref().map(Arc::from), false, now);
                shard.last = row.last;
                shard.read_at = row.read_at;
                shard.saved_at = Some(row.read_at.min(now));
                if row.finished {
                    shard.phase = Phase::Finished;
                }
                self.shards.insert(row.key.shard, shard);
                row.finished
            }
        }
    }
}
