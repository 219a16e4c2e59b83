//! Call rates, fairness, bounds and ownership.
#![cfg(test)]

use super::*;
use crate::engine::testing::record;

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
    driver.run(10);
    for n in 0..499 {
        let reads = reads_of(&driver.stream, &format!("s{n:03}")).len();
        assert!(reads >= 3, "shard {n} was read {reads} times in 10 s");
    }
    assert!(reads_of(&driver.stream, "busy").len() >= 20);
}

#[test]
fn two_thousand_shards_are_read_in_turn_at_a_bounded_rate() {
    // Some have more than others, one never ends, and most are idle: none waits for long, and all together cost so much.
    let shards = (0..2_000).map(|n| FakeShard::new(&format!("s{n:04}"), None, [n + 1], false));
    let busy = FakeShard::new("busy", None, 10_000..20_000, false);
    let mut driver = Driver::fresh(shards.chain([busy]).collect());
    let rate = u64::from(ShardSettings::default().requests_per_second);
    // An iterator and a page each, and for those which had something another page.
    driver.run(3 * 2_001 / rate + 1);
    let first: std::collections::BTreeSet<&String> = driver.applied.iter().map(|(shard, _)| shard).collect();
    assert_eq!(first.len(), 2_001, "not all were read in time");
    let late = (20_001..20_011).map(|n| format!("s{:04}", n % 2_000));
    for (n, shard) in late.clone().enumerate() {
        driver.stream.with_shard(&shard, |shard| shard.records.push(30_000 + n as u64));
    }
    let (before, busy_before) = (driver.applied.len(), reads_of(&driver.stream, "busy").len());
    driver.run(2_001 / rate + 2);
    let found = driver.applied[before..].iter().filter(|(_, number)| *number >= 30_000).count();
    assert_eq!(found, 10, "an idle shard starves");
    let busy = reads_of(&driver.stream, "busy").len() - busy_before;
    assert!(busy >= 15, "the busy shard waits for the idle ones: {busy} reads");

    let calls = driver.stream.times(|call| !matches!(call, Call::Describe));
    for second in calls.iter().step_by(100) {
        let within = calls.iter().filter(|at| **at >= *second && **at < *second + Duration::from_secs(1)).count();
        assert!(within as u64 <= rate + rate / 5 + 1, "{within} calls in a second");
    }
    let pages = driver.stream.times(|call| matches!(call, Call::Describe)).len() * 21;
    assert!(pages <= 10 * 19, "{pages} requests for descriptions");
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

#[test]
fn how_far_behind_is_what_was_applied_or_the_tip() {
    let (hour, now) = (Duration::from_secs(3600), TestClock::at(START).now());
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [1, 2], false)]);
    driver.stream.lock().contents.extend([(1, record(1, now - 20 * hour)), (2, record(2, now - 19 * hour))]);
    assert_eq!(driver.table.standing(), (1, Some(now)), "nothing is known yet");
    driver.run_until(now + hour, |driver| driver.applied.len() == 2 && driver.answers.is_empty());
    assert_eq!(driver.table.standing(), (1, Some(now - 19 * hour)), "records of old are no sign of being up to date");
    driver.run_to_idle();
    let (owned, reached) = driver.table.standing();
    assert!(owned == 1 && reached.is_some_and(|reached| reached > now), "{reached:?}");
    driver.tell(Event::Owned(key("a"), false));
    assert_eq!(driver.table.standing(), (0, None));
}
