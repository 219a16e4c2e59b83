//! What the engine's tests share: a stream whose shards split, close, hide and lose records on demand, and time that moves only
//! when nothing else can.
#![cfg(test)]

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::ports::{
    Clock, RecordPage, ShardIterator, ShardListing, ShardStart, StreamDescription, StreamError, StreamSource,
};
use crate::model::change::{RawRecord, SequenceNumber};

pub const ARN: &str = "arn:aws:dynamodb:eu-central-1:000000000000:table/T/stream/1";

/// Time that [`TestClock::run`] moves to the next sleeper's deadline when the future it runs can do nothing else.
#[derive(Debug, Clone)]
pub struct TestClock(Arc<Mutex<ClockState>>);

#[derive(Debug)]
struct ClockState {
    now: DateTime<Utc>,
    sleepers: Vec<(DateTime<Utc>, Waker)>,
    jitter: u64,
}

impl TestClock {
    pub fn at(now: &str) -> TestClock {
        let state = ClockState { now: now.parse().unwrap(), sleepers: Vec::new(), jitter: 1 };
        TestClock(Arc::new(Mutex::new(state)))
    }

    pub fn advance(&self, pause: Duration) {
        self.0.lock().unwrap().now += TimeDelta::from_std(pause).unwrap();
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.0.lock().unwrap()
    }

    fn to_next_deadline(&self) {
        let mut state = self.state();
        let next = state.sleepers.iter().map(|(deadline, _)| *deadline).min();
        state.now = next.expect("the future waits for nothing that can come").max(state.now);
        let now = state.now;
        let (due, later) = std::mem::take(&mut state.sleepers).into_iter().partition(|(deadline, _)| *deadline <= now);
        state.sleepers = later;
        drop(state);
        let due: Vec<(DateTime<Utc>, Waker)> = due;
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Runs a future to its end; panics when it waits for something that can never come.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        for _ in 0..1_000_000 {
            woken.0.store(false, Ordering::SeqCst);
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            if !woken.0.load(Ordering::SeqCst) {
                self.to_next_deadline();
            }
        }
        panic!("the future does not end");
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> DateTime<Utc> {
        self.state().now
    }

    async fn sleep(&self, duration: Duration) {
        let deadline = self.now() + TimeDelta::from_std(duration).unwrap();
        std::future::poll_fn(|cx| {
            let mut state = self.state();
            if state.now >= deadline {
                return Poll::Ready(());
            }
            state.sleepers.push((deadline, cx.waker().clone()));
            Poll::Pending
        })
        .await
    }

    fn jitter(&self) -> f64 {
        let mut state = self.state();
        state.jitter = state.jitter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state.jitter >> 40) as f64 / (1u64 << 24) as f64
    }
}

/// One shard of a [`FakeStream`].
#[derive(Debug, Clone, Default)]
pub struct FakeShard {
    pub id: String,
    pub parent: Option<String>,
    /// Sequence numbers of its records.
    pub records: Vec<u64>,
    pub closed: bool,
    /// Descriptions that do not list it yet.
    pub hidden: u32,
    /// Not listed any more; still readable unless `gone`.
    pub unlisted: bool,
    pub gone: bool,
    /// So many records at its beginning are lost.
    pub trimmed: usize,
    /// Empty pages before each page with records.
    pub empty_pages: usize,
    /// The end shows on a page of its own.
    pub late_end: bool,
}

/// A request that a [`FakeStream`] was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    Describe,
    Iterator(String, ShardStart),
    Read(String),
}

/// A stream in memory. It stores state, so a test asserts what was read, not which calls were made.
#[derive(Debug, Clone)]
pub struct FakeStream {
    pub state: Arc<Mutex<FakeState>>,
    clock: TestClock,
}

#[derive(Debug)]
pub struct FakeState {
    pub arn: String,
    pub shards: Vec<FakeShard>,
    pub page_size: usize,
    pub describes: u32,
    pub calls: Vec<(DateTime<Utc>, Call)>,
    /// Errors for the next requests about this shard, or any shard.
    pub faults: VecDeque<(Option<String>, StreamError)>,
    pub describe_faults: VecDeque<StreamError>,
    /// Records with content; others have a sequence number and a time only.
    pub contents: BTreeMap<u64, RawRecord>,
}

impl FakeShard {
    pub fn new(id: &str, parent: Option<&str>, records: impl IntoIterator<Item = u64>, closed: bool) -> FakeShard {
        FakeShard {
            id: id.to_owned(),
            parent: parent.map(str::to_owned),
            records: records.into_iter().collect(),
            closed,
            ..FakeShard::default()
        }
    }
}

impl FakeStream {
    pub fn new(clock: &TestClock, shards: Vec<FakeShard>) -> FakeStream {
        let state = FakeState {
            arn: ARN.to_owned(),
            shards,
            page_size: 2,
            describes: 0,
            calls: Vec::new(),
            faults: VecDeque::new(),
            describe_faults: VecDeque::new(),
            contents: BTreeMap::new(),
        };
        FakeStream { state: Arc::new(Mutex::new(state)), clock: clock.clone() }
    }

    pub fn lock(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap()
    }

    pub fn with_shard(&self, id: &str, change: impl FnOnce(&mut FakeShard)) {
        change(self.lock().shards.iter_mut().find(|shard| shard.id == id).unwrap());
    }

    pub fn fail(&self, shard: Option<&str>, errors: &[StreamError]) {
        self.lock().faults.extend(errors.iter().map(|error| (shard.map(str::to_owned), error.clone())));
    }

    /// Calls of one kind, with their times.
    pub fn times(&self, wanted: impl Fn(&Call) -> bool) -> Vec<DateTime<Utc>> {
        self.lock().calls.iter().filter(|(_, call)| wanted(call)).map(|(at, _)| *at).collect()
    }

    pub fn describe_now(&self) -> Result<StreamDescription, StreamError> {
        let now = self.clock.now();
        let mut state = self.lock();
        state.calls.push((now, Call::Describe));
        if let Some(error) = state.describe_faults.pop_front() {
            return Err(error);
        }
        state.describes += 1;
        let count = state.describes;
        let mut shards: Vec<ShardListing> = state
            .shards
            .iter()
            .filter(|shard| shard.hidden < count && !shard.unlisted)
            .map(|shard| ShardListing { id: shard.id.clone(), parent: shard.parent.clone() })
            .collect();
        // Another order each time, and one shard twice, as repeated pages would have it.
        if !shards.is_empty() {
            let turn = count as usize % shards.len();
            shards.rotate_left(turn);
            shards.push(shards[0].clone());
        }
        Ok(StreamDescription { arn: state.arn.clone(), shards })
    }

    pub fn iterator_now(&self, shard: &str, start: &ShardStart) -> Result<ShardIterator, StreamError> {
        let now = self.clock.now();
        let mut state = self.lock();
        state.calls.push((now, Call::Iterator(shard.to_owned(), start.clone())));
        state.fault(shard)?;
        let found = state.shard(shard)?;
        let index = match start {
            ShardStart::TrimHorizon => found.trimmed,
            ShardStart::After(last) => found.records.iter().filter(|number| sequence(**number) <= *last).count(),
            ShardStart::At(first) => found.records.iter().filter(|number| sequence(**number) < *first).count(),
        };
        if index < found.trimmed {
            return Err(StreamError::Trimmed);
        }
        Ok(ShardIterator(format!("{}|{shard}|{index}|{}|{}", state.arn, found.empty_pages, now.timestamp_millis())))
    }

    pub fn records_now(&self, iterator: &ShardIterator) -> Result<RecordPage, StreamError> {
        let now = self.clock.now();
        let mut state = self.lock();
        let parts: Vec<&str> = iterator.0.split('|').collect();
        let (shard, index, empty) = (parts[1], parts[2].parse::<usize>().unwrap(), parts[3].parse::<usize>().unwrap());
        let age = now.timestamp_millis() - parts[4].parse::<i64>().unwrap();
        state.calls.push((now, Call::Read(shard.to_owned())));
        state.fault(shard)?;
        if age > 15 * 60 * 1000 {
            return Err(StreamError::ExpiredIterator);
        }
        if parts[0] != state.arn {
            return Err(StreamError::NoShard);
        }
        let (page_size, contents) = (state.page_size, &state.contents);
        let found = state.shard(shard)?;
        if index < found.trimmed {
            return Err(StreamError::Trimmed);
        }
        let next = |index: usize, empty: usize| {
            Some(ShardIterator(format!("{}|{shard}|{index}|{empty}|{}", parts[0], now.timestamp_millis())))
        };
        if empty > 0 {
            return Ok(RecordPage { records: Vec::new(), next: next(index, empty - 1) });
        }
        let until = (index + page_size).min(found.records.len());
        let numbers = &found.records[index..until];
        let content = |number: &u64| contents.get(number).cloned().unwrap_or_else(|| record(*number, now));
        let records = numbers.iter().map(content).collect();
        let at_end = until == found.records.len() && found.closed && (numbers.is_empty() || !found.late_end);
        let empty_pages = if numbers.is_empty() { 0 } else { found.empty_pages };
        Ok(RecordPage { records, next: if at_end { None } else { next(until, empty_pages) } })
    }
}

impl FakeState {
    fn shard(&self, id: &str) -> Result<&FakeShard, StreamError> {
        self.shards.iter().find(|shard| shard.id == id && !shard.gone).ok_or(StreamError::NoShard)
    }

    fn fault(&mut self, shard: &str) -> Result<(), StreamError> {
        let due = self.faults.iter().position(|(of, _)| of.as_deref().is_none_or(|of| of == shard));
        match due.and_then(|at| self.faults.remove(at)) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

impl StreamSource for FakeStream {
    async fn describe(&self) -> Result<StreamDescription, StreamError> {
        self.describe_now()
    }

    async fn iterator(&self, shard: &str, start: &ShardStart) -> Result<ShardIterator, StreamError> {
        self.iterator_now(shard, start)
    }

    async fn records(&self, iterator: &ShardIterator) -> Result<RecordPage, StreamError> {
        self.records_now(iterator)
    }
}

pub fn sequence(number: u64) -> SequenceNumber {
    number.to_string().parse().unwrap()
}

pub fn record(number: u64, now: DateTime<Utc>) -> RawRecord {
    RawRecord { sequence: Some(number.to_string()), created_at: Some(now), ..RawRecord::default() }
}
