//! The table driven over a stream in memory, answers in any order; each named case is one that broke another reader.
#![cfg(test)]

mod laws;
mod lineage;
mod rates;

use std::collections::BTreeMap;

use super::*;
use crate::engine::ports::{Clock, ShardListing};
use crate::engine::testing::{ARN, Call, FakeShard, FakeStream, TestClock, sequence};
use chrono::{DateTime, Utc};

const START: &str = "2026-03-01T10:00:00Z";

/// Performs actions at once but answers them in an order of its own choice.
struct Driver {
    clock: TestClock,
    stream: FakeStream,
    table: ShardTable,
    answers: Vec<Event>,
    seed: u64,
    /// What was applied, in order.
    applied: Vec<(String, u64)>,
    notices: Vec<Notice>,
    stored: BTreeMap<String, Checkpoint>,
    forgotten: Vec<String>,
}

impl Driver {
    fn open(stream: FakeStream, clock: &TestClock, settings: ShardSettings, rows: Vec<Checkpoint>) -> Driver {
        let description = stream.describe_now().unwrap();
        let (table, notices) = ShardTable::open(settings, description, rows, clock.now());
        Driver {
            clock: clock.clone(),
            stream,
            table,
            answers: Vec::new(),
            seed: 7,
            applied: Vec::new(),
            notices,
            stored: BTreeMap::new(),
            forgotten: Vec::new(),
        }
    }

    fn fresh(shards: Vec<FakeShard>) -> Driver {
        let clock = TestClock::at(START);
        Driver::open(FakeStream::new(&clock, shards), &clock, ShardSettings::default(), Vec::new())
    }

    fn again(self, pause: Duration) -> Driver {
        self.clock.advance(pause);
        self.stream.lock().describe_faults.clear();
        let rows = self.stored.into_values().collect();
        Driver::open(self.stream, &self.clock, ShardSettings::default(), rows)
    }

    /// Runs for so long, with time moving to the table's own wake-ups.
    fn run(&mut self, seconds: u64) {
        let until = self.clock.now() + Duration::from_secs(seconds);
        self.run_until(until, |_| false);
    }

    fn run_to_idle(&mut self) {
        let until = self.clock.now() + Duration::from_secs(3600);
        self.run_until(until, |driver| driver.table.is_idle());
        assert!(self.table.is_idle(), "not idle within an hour");
    }

    fn run_until(&mut self, until: DateTime<Utc>, done: impl Fn(&Driver) -> bool) {
        for _ in 0..200_000 {
            while let Some(action) = self.table.next_action(self.clock.now()) {
                self.perform(action);
            }
            if let Some(event) = self.pick() {
                self.tell(event);
                continue;
            }
            let wake = self.table.wake_at();
            if done(self) || wake > until {
                return;
            }
            assert!(wake > self.clock.now(), "woken with nothing to do: a busy loop");
            self.clock.advance((wake - self.clock.now()).to_std().unwrap());
        }
        panic!("too many steps");
    }

    fn tell(&mut self, event: Event) {
        self.notices.extend(self.table.on(event, self.clock.now(), 0.5));
    }

    fn pick(&mut self) -> Option<Event> {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let count = self.answers.len();
        (count > 0).then(|| self.answers.swap_remove((self.seed >> 33) as usize % count))
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Describe => self.answers.push(match self.stream.describe_now() {
                Ok(description) => Event::Described(description),
                Err(error) => Event::DescribeFailed(error),
            }),
            Action::TakeIterator(ticket, start) => {
                let iterator = self.stream.iterator_now(&ticket.key.shard, &start);
                self.answers.push(Event::Placed(ticket, iterator));
            }
            Action::Read(ticket, iterator) => match self.stream.records_now(&iterator) {
                Err(error) => self.answers.push(Event::Page(ticket, Err(error))),
                Ok(page) => {
                    let numbers: Vec<u64> =
                        page.records.iter().map(|record| record.sequence.as_ref().unwrap().parse().unwrap()).collect();
                    let seen = PageSeen {
                        records: numbers.len(),
                        last: numbers.last().map(|number| sequence(*number)),
                        written_at: page.records.last().and_then(|record| record.created_at),
                        next: page.next,
                    };
                    self.tell(Event::Page(ticket.clone(), Ok(seen)));
                    if !numbers.is_empty() {
                        let shard = ticket.key.shard.to_string();
                        self.applied.extend(numbers.into_iter().map(|number| (shard.clone(), number)));
                        self.answers.push(Event::Applied(ticket));
                    }
                }
            },
            Action::Save(rows) => {
                let keys = rows.iter().map(|row| row.key.clone()).collect();
                self.stored.extend(rows.into_iter().map(|row| (row.key.shard.to_string(), row)));
                self.answers.push(Event::Saved(keys, true));
            }
            Action::Forget(keys) => {
                for key in keys {
                    self.stored.remove(&*key.shard);
                    self.forgotten.push(key.shard.to_string());
                }
            }
        }
    }

    fn numbers(&self) -> Vec<u64> {
        self.applied.iter().map(|(_, number)| *number).collect()
    }

    fn causes(&self) -> Vec<GapCause> {
        let gaps = self.notices.iter().filter_map(|notice| match notice {
            Notice::Gap(gap) => Some(gap.cause.clone()),
            _ => None,
        });
        gaps.collect()
    }
}

fn key(shard: &str) -> ShardKey {
    ShardKey { arn: ARN.into(), shard: shard.into() }
}

fn row_at(read_at: DateTime<Utc>) -> Checkpoint {
    Checkpoint { key: key("a"), parent: None, last: None, finished: false, read_at }
}

fn reads_of(stream: &FakeStream, shard: &str) -> Vec<DateTime<Utc>> {
    stream.times(|call| *call == Call::Read(shard.to_owned()))
}
