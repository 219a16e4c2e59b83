//! The table itself: one entry a shard, and what is to be done next.

mod lineage;
mod replies;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Action, Event, Gap, GapCause, Notice, PageSeen, ShardSettings, Ticket};
use crate::engine::checkpoint::{Checkpoint, ShardKey};
use crate::engine::ports::{ShardIterator, ShardStart, StreamDescription};
use crate::model::change::SequenceNumber;
use crate::plan::write::ACTIONS_MAX;

/// Descriptions in a row that must leave a finished shard out before it is forgotten: listings are eventually consistent.
const UNLISTED_MAX: u32 = 3;
/// Descriptions in a row without a child after which a finished shard counts as the end (a disabled stream).
const CHILDLESS_MAX: u32 = 3;
/// Times that a listed shard may be denied before its position is given up.
const DOUBTS_MAX: u32 = 3;
const BACKOFF_FIRST: Duration = Duration::from_millis(250);
/// For so long requests that were not made may be made up for.
const REQUEST_BURST: TimeDelta = TimeDelta::milliseconds(200);

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// For its parent.
    Waiting,
    /// Needs an iterator.
    Unplaced,
    Placing,
    Placed(ShardIterator),
    Reading(ShardIterator),
    Applying(PageSeen),
    /// Said not to be there: the next description decides.
    Doubted,
    Finished,
}

#[derive(Debug)]
struct Shard {
    parent: Option<Arc<str>>,
    owned: bool,
    phase: Phase,
    turn: u64,
    last: Option<SequenceNumber>,
    read_at: DateTime<Utc>,
    /// What was written until then is applied: the last applied record's time, or when the tip was reached. Unlike `read_at` it
    /// may lie before this run. `None` until this run has applied or read something.
    reached: Option<DateTime<Utc>>,
    ready_at: DateTime<Utc>,
    /// When it was last served, as a count of all turns: the smallest goes first.
    served: u64,
    served_at: DateTime<Utc>,
    empty_pages: u32,
    failures: u32,
    doubts: u32,
    /// Descriptions in a row that did not list it.
    unlisted: u32,
    /// Descriptions that listed it and not its parent, which is not known either.
    orphaned: u32,
    /// Its parent came and went unseen, should it be found to be gone.
    parent_missed: bool,
    /// 0 while it has a child or is not finished; else 1 and one more for each description since.
    childless: u32,
    /// The stored row differs.
    dirty: bool,
    saving: bool,
    saved_at: Option<DateTime<Utc>>,
    save_failed: bool,
}

/// All that is known of one table's stream. See the module's contract.
#[derive(Debug)]
pub struct ShardTable {
    settings: ShardSettings,
    arn: Arc<str>,
    shards: BTreeMap<Arc<str>, Shard>,
    turns: u64,
    /// True from the second description on, or where earlier runs left rows: then every new shard's parent should be known.
    seasoned: bool,
    describing: bool,
    describe_at: DateTime<Utc>,
    /// When the last description was asked for.
    described_at: DateTime<Utc>,
    describe_failures: u32,
    /// Descriptions in a row that were asked for early.
    describe_hurried: u32,
    /// Before this no further request for iterators or records.
    request_at: DateTime<Utc>,
    forgotten: Vec<ShardKey>,
}

impl Shard {
    fn new(parent: Option<Arc<str>>, owned: bool, now: DateTime<Utc>) -> Shard {
        Shard {
            parent,
            owned,
            phase: Phase::Waiting,
            turn: 0,
            last: None,
            read_at: now,
            reached: None,
            ready_at: now,
            served: 0,
            served_at: now,
            empty_pages: 0,
            failures: 0,
            doubts: 0,
            unlisted: 0,
            orphaned: 0,
            parent_missed: false,
            childless: 0,
            dirty: false,
            saving: false,
            saved_at: None,
            save_failed: false,
        }
    }

    fn finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    fn start(&self) -> ShardStart {
        self.last.clone().map_or(ShardStart::TrimHorizon, ShardStart::After)
    }

    /// A request or its page is with the worker.
    fn busy(&self) -> bool {
        matches!(self.phase, Phase::Placing | Phase::Reading(_) | Phase::Applying(_))
    }

    /// Its last page had records, so there are probably more.
    fn hot(&self) -> bool {
        matches!(self.phase, Phase::Placed(_)) && self.empty_pages == 0
    }

    /// Waits for its time to be served.
    fn servable(&self) -> bool {
        self.owned && matches!(self.phase, Phase::Unplaced | Phase::Placed(_))
    }
}

impl ShardTable {
    /// A table over the stream as first described, with the checkpoints that earlier runs stored for this stream.
    pub fn open(
        settings: ShardSettings,
        description: StreamDescription,
        checkpoints: Vec<Checkpoint>,
        now: DateTime<Utc>,
    ) -> (ShardTable, Vec<Notice>) {
        let mut table = ShardTable {
            settings,
            arn: description.arn.as_str().into(),
            shards: BTreeMap::new(),
            turns: 0,
            seasoned: !checkpoints.is_empty(),
            describing: false,
            describe_at: now,
            described_at: now,
            describe_failures: 0,
            describe_hurried: 0,
            request_at: now - REQUEST_BURST,
            forgotten: Vec::new(),
        };
        let mut notices = Vec::new();
        for checkpoint in checkpoints {
            table.restore(checkpoint, now, &mut notices);
        }
        table.described(description, now, &mut notices);
        (table, notices)
    }

    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// How many unfinished shards this worker reads, and until when everything written to them is applied, as far as is known:
    /// the time that the shard furthest behind has reached. `None` where there is no such shard.
    pub fn standing(&self) -> (usize, Option<DateTime<Utc>>) {
        let open = self.shards.values().filter(|shard| shard.owned && !shard.finished());
        open.fold((0, None), |(count, oldest), shard| {
            let reached = shard.reached.unwrap_or(shard.read_at);
            (count + 1, Some(oldest.map_or(reached, |oldest: DateTime<Utc>| oldest.min(reached))))
        })
    }

    /// Takes in one event. `jitter` in [0, 1) spreads pauses after failures.
    pub fn on(&mut self, event: Event, now: DateTime<Utc>, jitter: f64) -> Vec<Notice> {
        let mut notices = Vec::new();
        match event {
            Event::Described(description) => self.described(description, now, &mut notices),
            Event::DescribeFailed(error) => self.describe_failed(error, now, jitter, &mut notices),
            Event::Placed(ticket, Ok(iterator)) => self.placed(&ticket, iterator, now, &mut notices),
            Event::Page(ticket, Ok(page)) => self.page(&ticket, page, now, &mut notices),
            Event::Placed(ticket, Err(error)) | Event::Page(ticket, Err(error)) => {
                self.failed(&ticket, error, now, jitter, &mut notices)
            }
            Event::Applied(ticket) => self.applied(&ticket, now, &mut notices),
            Event::Saved(keys, stored) => self.saved(&keys, stored, now),
            Event::Owned(key, owned) => {
                self.owned(&key, owned, now);
                self.promote_one(&key.shard, now, &mut notices);
            }
            Event::Seen(checkpoint) => {
                if self.seen(checkpoint, now) {
                    self.promote(now, &mut notices);
                }
            }
        }
        notices
    }

    /// The next thing to do, if anything is due.
    pub fn next_action(&mut self, now: DateTime<Utc>) -> Option<Action> {
        if !self.describing && self.describe_at <= now {
            self.describing = true;
            self.described_at = now;
            return Some(Action::Describe);
        }
        if !self.forgotten.is_empty() {
            return Some(Action::Forget(std::mem::take(&mut self.forgotten)));
        }
        self.next_save(now, false).or_else(|| self.next_read(now))
    }

    /// Rows to store before the worker ends, whatever their time, also those whose save was given up. Ask until `None`, and
    /// answer each at once.
    pub fn last_save(&mut self, now: DateTime<Utc>) -> Option<Action> {
        self.next_save(now, true)
    }

    /// When [`ShardTable::next_action`] has something again if no event comes before.
    pub fn wake_at(&self) -> DateTime<Utc> {
        let mut wake = if self.describing { self.described_at + TimeDelta::days(1) } else { self.describe_at };
        let (mut busy, mut read_at) = (0, None);
        for shard in self.shards.values() {
            busy += usize::from(shard.busy());
            if shard.servable() {
                read_at = Some(read_at.map_or(shard.ready_at, |at: DateTime<Utc>| at.min(shard.ready_at)));
            }
            if let Some(at) = self.save_at(shard) {
                wake = wake.min(at);
            }
        }
        match read_at {
            Some(at) if busy < self.settings.concurrent_max => wake.min(at.max(self.request_at)),
            _ => wake,
        }
    }

    /// The shards that may be read now, whoever owns them: not finished, and not waiting for a parent.
    pub fn open_shards(&self) -> BTreeSet<Arc<str>> {
        let open = self.shards.iter().filter(|(_, shard)| !shard.finished() && self.may_start(shard));
        open.map(|(id, _)| id.clone()).collect()
    }

    /// Whether the ticket's page is still waited for; else its records are another's, or come again.
    pub fn awaits(&self, ticket: &Ticket) -> bool {
        let shard = self.shards.get(&ticket.key.shard).filter(|_| ticket.key.arn == self.arn);
        shard.is_some_and(|shard| shard.turn == ticket.turn && matches!(shard.phase, Phase::Applying(_)))
    }

    /// The shard's row as it would be stored now; `None` for a shard that is not known.
    pub fn checkpoint(&self, id: &Arc<str>) -> Option<Checkpoint> {
        let shard = self.shards.get(id)?;
        Some(Checkpoint {
            key: self.key(id),
            parent: shard.parent.as_deref().map(str::to_owned),
            last: shard.last.clone(),
            finished: shard.finished(),
            read_at: shard.read_at,
        })
    }

    pub fn key(&self, id: &Arc<str>) -> ShardKey {
        ShardKey { arn: self.arn.clone(), shard: id.clone() }
    }

    /// True when every owned shard is read to its tip: finished, or `idle_pages` empty pages in a row. A shard whose end has no
    /// child yet counts once several descriptions have listed none. It is a judgement, not a proof: an empty page is never the end.
    pub fn is_idle(&self) -> bool {
        if self.shards.is_empty() {
            return self.describe_hurried > CHILDLESS_MAX;
        }
        self.shards.values().filter(|shard| shard.owned).all(|shard| match &shard.phase {
            Phase::Finished => shard.childless == 0 || shard.childless > CHILDLESS_MAX,
            Phase::Placed(_) | Phase::Reading(_) => shard.empty_pages >= self.settings.idle_pages,
            _ => false,
        })
    }

    fn next_read(&mut self, now: DateTime<Utc>) -> Option<Action> {
        // A clock that was put back must not stop the reading.
        self.request_at = self.request_at.min(later(now, self.settings.poll_max));
        if self.request_at > now {
            return None;
        }
        // Where the rate is short, shards with records and idle ones take turns: neither waits for all of the others.
        let hot_first = self.turns.is_multiple_of(2);
        let mut busy = 0;
        let due = self.shards.iter_mut().filter(|(_, shard)| {
            busy += usize::from(shard.busy());
            shard.servable() && shard.ready_at <= now
        });
        let next = due.min_by_key(|(_, shard)| (shard.hot() != hot_first, shard.served));
        let (id, shard) = next.filter(|_| busy < self.settings.concurrent_max)?;
        let spacing = Duration::from_secs(1) / self.settings.requests_per_second.max(1);
        self.request_at = later(self.request_at.max(now - REQUEST_BURST), spacing);
        self.turns += 1;
        shard.turn = self.turns;
        shard.served = self.turns;
        shard.served_at = now;
        let ticket = Ticket { key: ShardKey { arn: self.arn.clone(), shard: id.clone() }, turn: shard.turn };
        if let Phase::Placed(iterator) = &shard.phase {
            let iterator = iterator.clone();
            shard.phase = Phase::Reading(iterator.clone());
            return Some(Action::Read(ticket, iterator));
        }
        shard.phase = Phase::Placing;
        Some(Action::TakeIterator(ticket, shard.start()))
    }

    fn next_save(&mut self, now: DateTime<Utc>, all: bool) -> Option<Action> {
        let due = |table: &ShardTable, shard: &Shard| match all {
            true => shard.dirty || shard.saving,
            false => table.save_at(shard).is_some_and(|at| at <= now),
        };
        let ids: Vec<Arc<str>> = self
            .shards
            .iter()
            .filter(|(_, shard)| due(self, shard))
            .map(|(id, _)| id.clone())
            .take(ACTIONS_MAX)
            .collect();
        let mut rows = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(shard) = self.shards.get_mut(&id) {
                shard.dirty = false;
                shard.saving = true;
            }
            rows.extend(self.checkpoint(&id));
        }
        (!rows.is_empty()).then_some(Action::Save(rows))
    }

    /// When the shard's row is to be stored; `None` while there is nothing to store.
    fn save_at(&self, shard: &Shard) -> Option<DateTime<Utc>> {
        match (shard.saving, shard.dirty, shard.saved_at) {
            (true, ..) => None,
            (_, true, None) => Some(self.described_at),
            (_, true, Some(at)) if shard.finished() && !shard.save_failed => Some(at),
            (_, true, Some(at)) => Some(later(at, self.settings.save_every)),
            // An idle shard's row: renewed when it was read to the tip since, else there is nothing new to say.
            (_, false, Some(at)) if shard.owned && !shard.finished() && shard.read_at > at => {
                Some(later(at, self.settings.heartbeat))
            }
            _ => None,
        }
    }

    fn has_child(&self, id: &str) -> bool {
        self.shards.values().any(|shard| shard.parent.as_deref() == Some(id))
    }

    /// The shard that the ticket is still good for.
    fn current(&mut self, ticket: &Ticket) -> Option<&mut Shard> {
        if ticket.key.arn != self.arn {
            return None;
        }
        self.shards.get_mut(&ticket.key.shard).filter(|shard| shard.turn == ticket.turn)
    }
}

fn gap(cause: GapCause, shard: Option<ShardKey>, since: DateTime<Utc>) -> Notice {
    Notice::Gap(Gap { cause, shard, since })
}

/// `at + pause`, or `at` at the end of the calendar.
pub(crate) fn later(at: DateTime<Utc>, pause: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(pause).ok().and_then(|pause| at.checked_add_signed(pause)).unwrap_or(at)
}
