//! The table driven over a stream in memory, answers in any order; each named case is one that broke another reader.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use proptest::prelude::*;

use super::*;
use crate::engine::ports::{Clock, ShardListing};
use crate::engine::testing::{ARN, Call, FakeShard, FakeStream, TestClock, sequence};

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

fn reads_of(stream: &FakeStream, shard: &str) -> Vec<DateTime<Utc>> {
    stream.times(|call| *call == Call::Read(shard.to_owned()))
}

#[test]
fn a_parent_is_read_to_its_end_before_its_children() {
    let mut driver = Driver::fresh(vec![
        FakeShard::new("c", Some("b"), [7, 8], false),
        FakeShard::new("b", Some("a"), [4, 5, 6], true),
        FakeShard::new("a", None, [1, 2, 3], true),
        FakeShard::new("d", Some("b"), [9], false),
    ]);
    driver.run_to_idle();
    assert_eq!(driver.numbers()[..6], [1, 2, 3, 4, 5, 6]);
    assert_eq!(driver.numbers().len(), 9);
    assert_eq!(driver.causes(), []);
}

#[test]
fn a_child_that_is_listed_late_is_found_without_a_restart() {
    // kinesis-adapter 20, KCL 185: the shard ends, its child shows several descriptions later.
    let mut child = FakeShard::new("b", Some("a"), [2], false);
    child.hidden = 5;
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [1], true), child]);
    driver.run(120);
    assert_eq!(driver.numbers(), [1, 2]);
}

#[test]
fn a_closed_leaf_without_a_child_is_asked_for_at_a_falling_rate() {
    // KCL 164, adapter 40: a null iterator and no children, as at a disabled stream.
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [1], true)]);
    driver.run(600);
    let described = driver.stream.times(|call| *call == Call::Describe).len();
    assert!((30..45).contains(&described), "{described} descriptions in 10 minutes");
    assert!(driver.table.is_idle());
}

#[test]
fn a_stream_without_shards_yet_is_asked_again_soon() {
    let mut first = FakeShard::new("a", None, [1], false);
    first.hidden = 2;
    let mut driver = Driver::fresh(vec![first]);
    driver.run_to_idle();
    assert_eq!(driver.numbers(), [1]);
}

#[test]
fn an_open_parent_with_a_listed_child_is_read_first() {
    // KCL 210: describe is eventually consistent. The child waits until the parent's last page.
    let mut driver =
        Driver::fresh(vec![FakeShard::new("a", None, [1], false), FakeShard::new("b", Some("a"), [3], false)]);
    driver.run(10);
    assert_eq!(driver.numbers(), [1]);
    driver.stream.with_shard("a", |shard| {
        shard.records.push(2);
        shard.closed = true;
    });
    driver.run(10);
    assert_eq!(driver.numbers(), [1, 2, 3]);
}

#[test]
fn a_parent_that_is_not_listed_any_more_does_not_hold_its_child() {
    let mut driver = Driver::fresh(vec![FakeShard::new("b", Some("trimmed-long-ago"), [2], false)]);
    driver.run_to_idle();
    assert_eq!(driver.numbers(), [2]);
    assert_eq!(driver.causes(), []);
}

#[test]
fn empty_pages_are_not_the_end() {
    let mut shard = FakeShard::new("a", None, [1, 2, 3, 4, 5], true);
    shard.empty_pages = 2;
    shard.late_end = true;
    let mut driver = Driver::fresh(vec![shard, FakeShard::new("b", Some("a"), [6], false)]);
    driver.run_to_idle();
    assert_eq!(driver.numbers(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn reading_never_starts_at_the_latest_record() {
    // Flink 36523: LATEST, then a rollover. Every first iterator is TRIM_HORIZON.
    let mut driver =
        Driver::fresh(vec![FakeShard::new("a", None, [1], true), FakeShard::new("b", Some("a"), [2], false)]);
    driver.run_to_idle();
    let starts = driver.stream.times(|call| matches!(call, Call::Iterator(_, ShardStart::TrimHorizon)));
    assert_eq!(starts.len(), 2);
}

#[test]
fn equal_shard_ids_in_another_stream_are_other_shards() {
    // KCL 764: rows of another stream do not place this one's shards.
    let clock = TestClock::at(START);
    let stream = FakeStream::new(&clock, vec![FakeShard::new("a", None, [1, 2, 3], false)]);
    let other = Checkpoint {
        key: ShardKey { arn: "arn:other/stream/1".into(), shard: "a".into() },
        parent: None,
        last: Some(sequence(2)),
        finished: false,
        read_at: clock.now(),
    };
    let mut driver = Driver::open(stream, &clock, ShardSettings::default(), vec![other]);
    driver.run_to_idle();
    assert_eq!(driver.numbers(), [1, 2, 3]);
}

#[test]
fn a_restart_goes_on_after_the_last_applied_record() {
    let mut driver =
        Driver::fresh(vec![FakeShard::new("a", None, [1, 2, 3], true), FakeShard::new("b", Some("a"), [4, 5], false)]);
    driver.run_to_idle();
    driver.run(2);
    driver.stream.with_shard("b", |shard| shard.records.push(6));
    let mut driver = driver.again(Duration::from_secs(60));
    driver.run_to_idle();
    assert_eq!(driver.numbers(), [6]);
    assert_eq!(driver.causes(), []);
}

#[test]
fn a_crash_between_the_end_of_a_shard_and_its_children_loses_nothing() {
    // Flink 36417's kin: `a` is stored as finished, nothing is stored of `b`.
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [1], true)]);
    driver.run(5);
    assert!(driver.stored["a"].finished);
    driver.stream.lock().shards.push(FakeShard::new("b", Some("a"), [2], false));
    let mut driver = driver.again(Duration::from_secs(60));
    driver.run_to_idle();
    assert_eq!(driver.numbers(), [2]);
    assert_eq!(driver.causes(), []);
}

#[test]
fn a_finished_shard_is_not_read_again_while_it_is_listed() {
    // Flink 36239, adapter 1.5.1: still listed 48 hours later; its lineage must not be replayed.
    let mut driver =
        Driver::fresh(vec![FakeShard::new("a", None, [1], true), FakeShard::new("b", Some("a"), [2], false)]);
    driver.run(48 * 3600);
    assert_eq!(driver.numbers(), [1, 2]);
    assert_eq!(reads_of(&driver.stream, "a").len(), 1);
    driver.stream.with_shard("a", |shard| shard.unlisted = true);
    driver.run(30);
    assert_eq!(driver.forgotten, [""; 0], "one description without it is not enough");
    driver.run(120);
    assert_eq!(driver.forgotten, ["a"]);
    assert_eq!(driver.numbers(), [1, 2]);
}

#[test]
fn an_expired_iterator_is_taken_again_after_the_last_record() {
    // redpanda 4545: 16 minutes of back-pressure.
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [1, 2, 3], false)]);
    driver.run(1);
    driver.clock.advance(Duration::from_secs(16 * 60));
    driver.stream.with_shard("a", |shard| shard.records.push(4));
    driver.run_to_idle();
    assert_eq!(driver.numbers(), [1, 2, 3, 4]);
    let last = driver.stream.lock().calls.iter().rev().find_map(|(_, call)| match call {
        Call::Iterator(_, start) => Some(start.clone()),
        _ => None,
    });
    assert_eq!(last, Some(ShardStart::After(sequence(3))));
}

#[test]
fn a_denied_iterator_never_ends_a_shard() {
    // DynamoDB Local's `Invalid ShardId in ShardIterator`: the shard is still listed, so it is read on.
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [1, 2, 3, 4], true)]);
    driver.stream.fail(Some("a"), &[StreamError::NoShard, StreamError::ExpiredIterator, StreamError::NoShard]);
    driver.run(60);
    assert_eq!(driver.numbers(), [1, 2, 3, 4]);
    assert_eq!(driver.causes(), []);
}

#[test]
fn trimmed_records_are_a_gap_and_the_rest_is_read() {
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [1, 2, 3, 4, 5, 6, 7], false)]);
    driver.run(0);
    assert_eq!(driver.numbers(), [1, 2]);
    driver.stream.with_shard("a", |shard| shard.trimmed = 5);
    driver.run_to_idle();
    assert_eq!(driver.causes(), [GapCause::Trimmed]);
    assert_eq!(driver.numbers(), [1, 2, 6, 7]);
}

#[test]
fn a_shard_that_vanishes_unread_is_a_gap_and_its_child_starts() {
    let mut driver =
        Driver::fresh(vec![FakeShard::new("a", None, [1, 2, 3], false), FakeShard::new("b", Some("a"), [4], false)]);
    driver.run(0);
    driver.stream.with_shard("a", |shard| (shard.gone, shard.unlisted) = (true, true));
    driver.run_to_idle();
    assert_eq!(driver.causes(), [GapCause::ShardGone]);
    assert_eq!(driver.numbers(), [1, 2, 4]);
}

#[test]
fn a_resume_after_25_hours_is_loud() {
    // spice 10754, data-prepper 7150: the open shard of yesterday is gone, another one is there.
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [1], false)]);
    driver.run_to_idle();
    driver.run(2);
    driver.stream.with_shard("a", |shard| (shard.gone, shard.unlisted) = (true, true));
    driver.stream.lock().shards.push(FakeShard::new("z", Some("y"), [9], false));
    let mut driver = driver.again(Duration::from_secs(25 * 3600));
    driver.run_to_idle();
    let unseen = GapCause::ParentUnseen { parent: "y".to_owned() };
    assert_eq!(driver.causes(), [unseen, GapCause::ShardGone]);
    assert_eq!(driver.numbers(), [9]);
}

#[test]
fn a_shard_without_records_yesterday_may_have_lost_some_today() {
    // No sequence number to resume after, so the service would begin at its horizon and say nothing.
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [], false)]);
    driver.run_to_idle();
    driver.run(400);
    let read_at = driver.stored["a"].read_at;
    let driver = driver.again(Duration::from_secs(23 * 3600));
    assert_eq!(driver.causes(), []);
    let driver = Driver { stored: BTreeMap::from([("a".to_owned(), row_at(read_at))]), ..driver };
    let driver = driver.again(Duration::from_secs(2 * 3600));
    assert_eq!(driver.causes(), [GapCause::AwayTooLong { read_at }]);
}

fn row_at(read_at: DateTime<Utc>) -> Checkpoint {
    Checkpoint { key: key("a"), parent: None, last: None, finished: false, read_at }
}

#[test]
fn a_new_stream_of_the_table_is_a_gap_and_is_read_from_its_beginning() {
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [1, 2], false)]);
    driver.run_to_idle();
    let new = "arn:aws:dynamodb:eu-central-1:000000000000:table/T/stream/2";
    {
        let mut state = driver.stream.lock();
        state.arn = new.to_owned();
        state.shards = vec![FakeShard::new("a", None, [8, 9], false)];
    }
    driver.run(60);
    driver.run_to_idle();
    assert_eq!(driver.causes(), [GapCause::StreamReplaced { old: ARN.to_owned() }]);
    assert_eq!(driver.numbers(), [1, 2, 8, 9]);
    assert_eq!(driver.table.arn(), new);
}

#[test]
fn idle_shards_are_read_at_a_bounded_rate() {
    // Flink 36203: at most one GetRecords a second when nothing happens, after the first few.
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [], false)]);
    driver.run(600);
    let reads = reads_of(&driver.stream, "a").len();
    assert!((550..=606).contains(&reads), "{reads} reads in 600 s");
    let saves = driver.stream.times(|call| *call == Call::Describe).len();
    assert!(saves <= 31, "{saves} descriptions");
}

#[test]
fn throttled_shards_back_off_and_others_go_on() {
    // redpanda 4489, 4737: 684 shards of which one fails all the time.
    let shards = (0..684).map(|n| FakeShard::new(&format!("s{n:03}"), None, [n * 10 + 1, n * 10 + 2], false)).collect();
    let mut driver = Driver::fresh(shards);
    driver.stream.fail(Some("s007"), &vec![StreamError::Throttled("slow down".to_owned()); 40]);
    driver.run(60);
    assert_eq!(driver.applied.iter().filter(|(shard, _)| shard != "s007").count(), 683 * 2);
    let tries = reads_of(&driver.stream, "s007").len()
        + driver.stream.times(|call| matches!(call, Call::Iterator(shard, _) if shard == "s007")).len();
    assert!((8..20).contains(&tries), "{tries} tries in 60 s");
    let loud =
        driver.notices.iter().filter(|n| matches!(n, Notice::Trouble { shard: Some(s), .. } if *s == key("s007")));
    assert_eq!(loud.count(), tries);
}

#[test]
fn five_hundred_shards_are_served_in_turn() {
    // data-prepper 5208: a busy shard does not starve the others.
    let mut shards: Vec<FakeShard> =
        (0..499).map(|n| FakeShard::new(&format!("s{n:03}"), None, [n + 100_000], false)).collect();
    shards.push(FakeShard::new("busy", None, 0..4_000, false));
    let mut driver = Driver::fresh(shards);
    driver.run(5);
    for n in 0..499 {
        let reads = reads_of(&driver.stream, &format!("s{n:03}")).len();
        assert!(reads >= 3, "shard {n} was read {reads} times in 5 s");
    }
    assert!(reads_of(&driver.stream, "busy").len() >= 20);
}

#[test]
fn pages_that_wait_to_be_applied_are_bounded() {
    let shards = (0..50).map(|n| FakeShard::new(&format!("s{n:02}"), None, [n + 1], false)).collect();
    let mut driver = Driver::fresh(shards);
    let mut reads = 0;
    for _ in 0..500 {
        match driver.table.next_action(driver.clock.now()) {
            // Read, and nothing is ever applied.
            Some(Action::Read(ticket, _)) => {
                reads += 1;
                let page = PageSeen { records: 1, last: None, written_at: None, next: None };
                driver.tell(Event::Page(ticket, Ok(page)));
            }
            Some(action) => driver.perform(action),
            None => {}
        }
        if let Some(event) = driver.pick() {
            driver.tell(event);
        }
    }
    assert_eq!(reads, ShardSettings::default().concurrent_max);
}

#[test]
fn a_shard_that_is_taken_away_drops_late_answers() {
    // KCL 108: what an earlier owner had under way must not move the shard.
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [1, 2], false)]);
    driver.run(0);
    let read = loop {
        match driver.table.next_action(driver.clock.now()) {
            Some(Action::Read(ticket, iterator)) => break (ticket, iterator),
            Some(action) => driver.perform(action),
            None => driver.clock.advance(Duration::from_millis(100)),
        }
    };
    driver.tell(Event::Owned(key("a"), false));
    driver.tell(Event::Owned(key("a"), true));
    let late = PageSeen { records: 0, last: None, written_at: None, next: None };
    driver.tell(Event::Page(read.0, Ok(late)));
    assert!(!driver.notices.contains(&Notice::Finished(key("a"))));
    driver.tell(Event::Owned(key("a"), false));
    let before = reads_of(&driver.stream, "a").len();
    driver.run(30);
    assert_eq!(reads_of(&driver.stream, "a").len(), before, "a shard that is not owned is not read");
}

#[test]
fn the_end_of_another_workers_shard_opens_its_child_here() {
    let clock = TestClock::at(START);
    let shards = vec![FakeShard::new("a", None, [1], true), FakeShard::new("b", Some("a"), [2], false)];
    let settings = ShardSettings { own_new: false, ..ShardSettings::default() };
    let mut driver = Driver::open(FakeStream::new(&clock, shards), &clock, settings, Vec::new());
    driver.tell(Event::Owned(key("b"), true));
    driver.run(5);
    assert_eq!(driver.numbers(), [0u64; 0]);
    driver.tell(Event::Seen(Checkpoint { finished: true, ..row_at(clock.now()) }));
    driver.run(5);
    assert_eq!(driver.numbers(), [2]);
}

#[test]
fn a_checkpoint_that_is_not_stored_is_tried_again_without_haste() {
    let clock = TestClock::at(START);
    let (mut table, _) = ShardTable::open(
        ShardSettings::default(),
        crate::engine::ports::StreamDescription {
            arn: ARN.to_owned(),
            shards: vec![ShardListing { id: "a".to_owned(), parent: None }],
        },
        Vec::new(),
        clock.now(),
    );
    let mut saves = 0;
    for _ in 0..100 {
        if let Some(Action::Save(rows)) = table.next_action(clock.now()) {
            saves += 1;
            table.on(Event::Saved(rows.into_iter().map(|row| row.key).collect(), false), clock.now(), 0.0);
        }
        clock.advance(Duration::from_millis(100));
    }
    assert!((9..=11).contains(&saves), "{saves} saves in 10 s");
}

fn any_lineage() -> impl Strategy<Value = Vec<FakeShard>> {
    let shard = (any::<prop::sample::Index>(), any::<bool>(), 0..5usize, 0..4u32, 0..3usize, any::<bool>());
    prop::collection::vec(shard, 1..9).prop_map(|parts| {
        let mut shards: Vec<FakeShard> = Vec::new();
        for (n, (parent, root, records, hidden, empty_pages, late_end)) in parts.into_iter().enumerate() {
            let parent = (!root && n > 0).then(|| parent.index(n));
            let numbers = (0..records as u64).map(|record| n as u64 * 100 + record);
            let mut shard = FakeShard::new(&format!("s{n}"), None, numbers, false);
            shard.parent = parent.map(|parent| format!("s{parent}"));
            // A parent is listed before its children.
            shard.hidden = hidden + parent.map_or(0, |parent| shards[parent].hidden);
            (shard.empty_pages, shard.late_end) = (empty_pages, late_end);
            if let Some(parent) = parent {
                shards[parent].closed = true;
            }
            shards.push(shard);
        }
        shards
    })
}

fn any_fault() -> impl Strategy<Value = StreamError> {
    prop_oneof![
        Just(StreamError::ExpiredIterator),
        Just(StreamError::Throttled("t".to_owned())),
        Just(StreamError::Unavailable("u".to_owned())),
        Just(StreamError::NoShard),
    ]
}

proptest! {
    /// Whatever the lineage, the order of answers, the listing and passing faults, every record is applied once, in its shard's
    /// order, after its ancestors'.
    #[test]
    fn every_record_once_and_parents_first(
        shards in any_lineage(),
        faults in prop::collection::vec(any_fault(), 0..6),
        describe_faults in 0..3usize,
        seed in any::<u64>(),
        restart in any::<bool>(),
    ) {
        let mut driver = Driver::fresh(shards.clone());
        driver.seed = seed;
        // Three denials in a row of one shard are a gap, by design.
        let mut denials = 0;
        let faults = faults.into_iter().filter(|fault| {
            denials += u32::from(*fault == StreamError::NoShard);
            *fault != StreamError::NoShard || denials < 3
        });
        driver.stream.lock().faults.extend(faults.map(|fault| (None, fault)));
        let unavailable = StreamError::Unavailable("d".to_owned());
        driver.stream.lock().describe_faults.extend(vec![unavailable; describe_faults]);
        let mut applied = Vec::new();
        if restart {
            driver.run(3);
            while let Some(Action::Save(rows)) = driver.table.last_save(driver.clock.now()) {
                let keys = rows.iter().map(|row| row.key.clone()).collect();
                driver.stored.extend(rows.into_iter().map(|row| (row.key.shard.to_string(), row)));
                driver.tell(Event::Saved(keys, true));
            }
            applied = driver.applied.clone();
            prop_assert_eq!(driver.causes(), []);
            driver = driver.again(Duration::from_secs(30));
        }
        driver.run(200);
        prop_assert!(driver.table.is_idle());
        prop_assert_eq!(driver.causes(), []);
        applied.extend(driver.applied.clone());

        let order: Vec<&str> = applied.iter().map(|(shard, _)| shard.as_str()).collect();
        for shard in &shards {
            let numbers: Vec<u64> =
                applied.iter().filter(|(id, _)| *id == shard.id).map(|(_, number)| *number).collect();
            prop_assert_eq!(&numbers, &shard.records, "records of {}", shard.id);
            let mut parent = shard.parent.clone();
            while let Some(id) = parent {
                let first = order.iter().position(|other| *other == shard.id);
                let last = order.iter().rposition(|other| *other == id);
                if let (Some(first), Some(last)) = (first, last) {
                    prop_assert!(last < first, "{} was read before the end of its ancestor {id}", shard.id);
                }
                parent = shards.iter().find(|other| other.id == id).and_then(|other| other.parent.clone());
            }
        }
        let described = driver.stream.times(|call| *call == Call::Describe);
        let hurried = described.windows(2).filter(|pair| pair[1] - pair[0] < chrono::TimeDelta::milliseconds(999));
        prop_assert_eq!(hurried.count(), 0, "descriptions less than a second apart");
    }
}
