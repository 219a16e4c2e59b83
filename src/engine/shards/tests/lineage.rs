//! Ends, children, restarts and gaps.
#![cfg(test)]

use super::*;

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
    // Flink 37416: `a` is stored as finished, nothing is stored of `b`.
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
fn two_hundred_and_fifty_shards_in_shuffled_pages_are_read_parents_first() {
    // Flink 36215: three pages in any order, children before their parents, some shards twice.
    for seed in 0..8u64 {
        let mut driver = Driver::fresh(Vec::new());
        driver.seed = seed;
        // Five generations of fifty: each shard's only record is its number, and it grows from parents to children.
        let mut shards: Vec<FakeShard> = (0..250u64)
            .map(|n| {
                let parent = n.checked_sub(50).map(|parent| format!("s{parent:03}"));
                FakeShard::new(&format!("s{n:03}"), parent.as_deref(), [n], n < 200)
            })
            .collect();
        for at in (1..shards.len()).rev() {
            driver.seed = driver.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            shards.swap(at, (driver.seed >> 33) as usize % (at + 1));
        }
        driver.stream.lock().shards = shards;
        driver.run(120);
        let place = |number: u64| driver.applied.iter().position(|(_, applied)| *applied == number);
        assert_eq!(driver.applied.len(), 250, "each once");
        assert!((50..250).all(|n| place(n - 50) < place(n)), "a child before its parent");
        assert_eq!(driver.causes(), []);
    }
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
    assert_eq!(driver.causes(), [GapCause::ShardGone, unseen]);
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
fn one_list_that_leaves_a_shard_out_ends_nothing() {
    // The stream denies an open shard once, and the next list leaves it out.
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [1, 2, 3], false)]);
    driver.run_to_idle();
    driver.stream.fail(Some("a"), &[StreamError::NoShard]);
    let hidden = driver.stream.lock().describes + 1;
    driver.stream.with_shard("a", |shard| shard.hidden = hidden);
    driver.run(60);
    driver.stream.with_shard("a", |shard| shard.records.push(4));
    driver.run(60);
    assert_eq!(driver.numbers(), [1, 2, 3, 4]);
    assert_eq!(driver.causes(), []);
}

#[test]
fn a_child_waits_for_a_parent_that_a_list_leaves_out() {
    let mut child = FakeShard::new("b", Some("a"), [1], false);
    let parent = FakeShard { hidden: 2, ..FakeShard::new("a", None, [95, 96], true) };
    let mut driver = Driver::fresh(vec![child.clone(), parent.clone()]);
    driver.run_to_idle();
    assert_eq!(driver.numbers(), [95, 96, 1]);
    assert_eq!(driver.causes(), []);

    // Likewise when both are new to a stream that is known.
    let mut driver = Driver::fresh(vec![FakeShard::new("z", None, [7], false)]);
    driver.run_to_idle();
    child.hidden = driver.stream.lock().describes;
    let parent = FakeShard { hidden: child.hidden + 2, ..parent };
    driver.stream.lock().shards.extend([child, parent]);
    driver.run(120);
    driver.run_to_idle();
    assert_eq!(driver.numbers(), [7, 95, 96, 1]);
    assert_eq!(driver.causes(), []);
}

#[test]
fn a_worker_that_stood_still_for_a_day_does_not_begin_at_the_horizon_in_silence() {
    // A machine that was suspended: no restart, no number in the child, and the child's first records are gone.
    let mut driver = Driver::fresh(vec![FakeShard::new("a", None, [1], true)]);
    driver.run_to_idle();
    driver.clock.advance(Duration::from_secs(25 * 3600));
    let child = FakeShard { trimmed: 2, ..FakeShard::new("b", Some("a"), [2, 3, 4], false) };
    driver.stream.lock().shards.push(child);
    driver.run(60);
    driver.run_to_idle();
    assert_eq!(driver.numbers(), [1, 4]);
    assert!(matches!(driver.causes()[..], [GapCause::AwayTooLong { .. }]), "{:?}", driver.causes());
}
