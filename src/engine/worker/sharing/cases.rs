//! One situation each; those that broke other readers are named.
#![cfg(test)]

use super::*;
use crate::adapters::sim::Fault;
use crate::engine::checkpoint;
use crate::engine::ports::{StoreError, TransactError};
use crate::engine::testing::{Call, FakeShard};
use crate::plan::write::TableRef;

#[test]
fn shares_are_even_within_three_lease_periods() {
    for lanes in [12, 40] {
        let stage = Stage::new(lanes);
        stage.play(async {
            stage.start("a");
            stage.wait(1.0).await;
            assert_eq!(stage.shares(), [("a".to_owned(), lanes)].into(), "one worker takes all at once");
            stage.start("b");
            stage.wait(30.0).await;
            stage.assert_even(2, "two workers");
            for name in ["c", "d", "e"] {
                stage.start(name);
                stage.change(lanes as u8);
            }
            stage.wait(30.0).await;
            stage.assert_even(5, "five workers");
            stage.log.clear();
            for seed in 0..5 {
                stage.change(seed);
                stage.wait(10.0).await;
            }
            assert_eq!(stage.log.of("lost "), [], "shards wander");
        });
        stage.assert_exact();
    }
}

#[test]
fn a_worker_that_is_told_to_stop_hands_its_shards_over_at_once() {
    let stage = Stage::new(6);
    stage.play(async {
        stage.start("a");
        stage.start("b");
        stage.wait(30.0).await;
        stage.assert_even(2, "before");
        stage.change(1);
        stage.stop("a");
        stage.wait(3.0).await;
        assert!(stage.ended("a").unwrap().is_ok());
        assert_eq!(stage.shares(), [("b".to_owned(), 6)].into());
        assert_eq!(stage.rows(DEFAULT_CONSUMER).workers.len(), 1, "its row is gone");
    });
    stage.assert_exact();
}

#[test]
fn the_shards_of_a_killed_worker_are_taken_after_the_lease_time() {
    let stage = Stage::new(6);
    stage.play(async {
        stage.start("a");
        stage.start("b");
        stage.wait(30.0).await;
        stage.kill("a");
        stage.change(1);
        stage.wait(7.0).await;
        assert_eq!(stage.shares()["a"], 3, "taken before its time");
        stage.wait(8.0).await;
        assert_eq!(stage.shares(), [("b".to_owned(), 6)].into());
        stage.wait(5.0).await;
        assert_eq!(stage.rows(DEFAULT_CONSUMER).workers.len(), 1, "the dead worker's row is buried");
    });
    stage.assert_exact();
}

#[test]
fn a_killed_worker_that_returns_under_its_name_goes_on_at_once() {
    let stage = Stage::new(6);
    stage.play(async {
        stage.start("a");
        stage.wait(5.0).await;
        stage.kill("a");
        stage.change(1);
        stage.log.clear();
        stage.start("a");
        stage.wait(0.5).await;
        assert_eq!(stage.log.of("taken ").len(), 6);
    });
    stage.assert_exact();
}

#[test]
fn a_paused_owner_commits_after_its_lease_was_taken() {
    // KCL 108: it hangs for minutes in the midst of everything, others take its shards and read on, and then it commits.
    let stage = Stage::new(4);
    stage.play(async {
        stage.start("a");
        stage.start("b");
        stage.wait(30.0).await;
        for round in 0..8u8 {
            stage.change(round);
            // A different moment of the batch each time.
            stage.wait(0.05 * f64::from(round)).await;
            let (paused, other) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
            stage.pause(paused, true);
            stage.change(round + 100);
            stage.wait(25.0).await;
            assert_eq!(stage.shares(), [(other.to_owned(), 4)].into());
            let taken = stage.rows(DEFAULT_CONSUMER);
            stage.pause(paused, false);
            stage.wait(0.01).await;
            assert_eq!(audit(&stage.store), Vec::<String>::new());
            // What it still stores does not move the new owner's position back.
            for (before, after) in taken.shards.iter().zip(&stage.rows(DEFAULT_CONSUMER).shards) {
                assert!(before.checkpoint.last <= after.checkpoint.last, "{before:?} {after:?}");
            }
            stage.wait(30.0).await;
            stage.assert_even(2, "it is back");
        }
    });
    assert_eq!(stage.log.of("gap:"), stage.log.of("not been read before"), "nobody may believe that records were lost");
    stage.assert_exact();
}

#[test]
fn an_owner_that_slept_until_its_shards_were_gone_raises_no_false_gap() {
    // Meanwhile others have read its shards to their ends, and they and their children are trimmed.
    let stage = Stage::new(2);
    stage.play(async {
        stage.start("a");
        stage.start("b");
        stage.wait(30.0).await;
        stage.change(1);
        stage.pause("a", true);
        stage.wait(20.0).await;
        for lane in [0, 1, 0, 1] {
            stage.world.borrow_mut().split(lane);
            stage.change(lane as u8);
            stage.wait(60.0).await;
        }
        let closed = |shard: &&mut FakeShard| shard.closed;
        stage
            .stream
            .lock()
            .shards
            .iter_mut()
            .filter(closed)
            .for_each(|shard| (shard.unlisted, shard.gone) = (true, true));
        stage.wait(300.0).await;
        stage.log.clear();
        stage.pause("a", false);
        stage.wait(60.0).await;
        assert_eq!(stage.log.of("gap:"), []);
        stage.assert_even(2, "it is back");
    });
    stage.assert_exact();
}

#[test]
fn a_renewal_whose_answer_is_lost_loses_no_lease() {
    // KCL 537: the renewal has happened, and the worker is told that it has not.
    let stage = Stage::new(3);
    stage.play(async {
        stage.start("a");
        stage.wait(5.0).await;
        for _ in 0..10 {
            // Nothing but signs of life is written now.
            stage.store.inject(Fault::LoseAnswer);
            stage.wait(5.0).await;
        }
        assert_eq!(stage.log.of("lost "), []);
        assert_eq!(stage.log.of("taken ").len(), 3);
    });
    assert!(stage.ended("a").is_none());
}

#[test]
fn claims_and_checkpoints_whose_answers_are_lost_find_themselves_done() {
    let stage = Stage::new(8);
    stage.play(async {
        for round in 0..12 {
            for _ in 0..3 {
                stage.store.inject(Fault::LoseAnswer);
            }
            stage.start("a");
            stage.start("b");
            stage.change(round);
            stage.wait(30.0).await;
            stage.assert_even(2, "after lost answers");
            stage.stop("a");
            stage.wait(1.0).await;
        }
    });
    stage.assert_exact();
}

#[test]
fn a_state_table_that_is_away_for_longer_than_a_lease_costs_nothing() {
    let stage = Stage::new(4);
    stage.play(async {
        stage.start("a");
        stage.start("b");
        stage.wait(30.0).await;
        for _ in 0..60 {
            let down = StoreError::Unavailable("down".to_owned());
            stage.store.inject(Fault::Transact(TransactError::Store(down)));
        }
        stage.wait(120.0).await;
        assert!(!stage.log.of("leases failed").is_empty());
        stage.change(5);
        stage.wait(30.0).await;
        stage.assert_even(2, "afterwards");
        assert!(stage.ended("a").is_none() && stage.ended("b").is_none());
    });
    stage.assert_exact();
}

#[test]
fn clocks_that_differ_by_hours_change_nothing() {
    let stage = Stage::new(8);
    stage.play(async {
        for (name, hours) in [("a", 0), ("b", 7), ("c", -9)] {
            stage.start_as(name, stage.settings(name), TimeDelta::hours(hours));
        }
        stage.wait(30.0).await;
        stage.log.clear();
        for seed in 0..6 {
            stage.change(seed);
            stage.wait(20.0).await;
        }
        stage.assert_even(3, "skewed clocks");
        assert_eq!(stage.log.of("lost "), []);
    });
    stage.assert_exact();
}

#[test]
fn a_child_starts_when_another_worker_has_finished_its_parent() {
    let stage = Stage::new(2);
    stage.play(async {
        stage.start("a");
        stage.start("b");
        stage.wait(30.0).await;
        let owner =
            |shard: &str| stage.rows(DEFAULT_CONSUMER).shards.iter().find(|row| row.shard() == shard)?.owner.clone();
        let reader = owner("lane00").unwrap();
        stage.pause(&reader, true);
        stage.change(1);
        stage.world.borrow_mut().split(0);
        stage.change(2);
        stage.wait(5.0).await;
        assert_eq!(stage.log.of("shard s1 opened"), [], "its parent is not read to its end");
        stage.pause(&reader, false);
        stage.wait(30.0).await;
        assert!(stage.log.position("shard s1 opened") > stage.log.position("shard lane00 read to its end"));
    });
    stage.assert_exact();
}

#[test]
fn a_crash_between_the_end_of_a_shard_and_its_children_loses_no_child() {
    // Flink 37416: the end is stored, nothing says that there are children.
    for late in [0.0, 0.1, 0.4, 1.1, 3.0] {
        let stage = Stage::new(1);
        stage.play(async {
            stage.start("a");
            stage.wait(5.0).await;
            stage.world.borrow_mut().split(0);
            stage.change(1);
            while stage.log.of("read to its end").is_empty() {
                stage.wait(0.05).await;
            }
            stage.wait(late).await;
            stage.kill("a");
            stage.start("b");
            stage.wait(60.0).await;
            assert_eq!(stage.shares(), [("b".to_owned(), 1)].into(), "after {late} s");
        });
        assert_eq!(stage.log.of("gap:").len(), 1, "only the first start: {:?}", stage.log.of("gap:"));
        stage.assert_exact();
    }
}

#[test]
fn finished_rows_are_kept_while_the_shard_is_listed() {
    // Flink 36239, adapter 1.5.1: for two days, and newcomers do not read it again.
    let stage = Stage::new(2);
    stage.play(async {
        stage.start("a");
        stage.wait(5.0).await;
        stage.change(1);
        stage.world.borrow_mut().split(0);
        for _ in 0..48 {
            stage.clock.advance(Duration::from_secs(3600));
            stage.wait(15.0).await;
        }
        let finished =
            |stage: &Stage| stage.rows(DEFAULT_CONSUMER).shards.iter().filter(|row| row.checkpoint.finished).count();
        assert_eq!(finished(&stage), 1);
        stage.log.clear();
        stage.start("b");
        stage.wait(30.0).await;
        stage.stop("a");
        stage.wait(30.0).await;
        assert_eq!(stage.log.of("lane00 opened"), []);
        stage.stream.with_shard("lane00", |shard| shard.unlisted = true);
        stage.wait(120.0).await;
        assert_eq!(finished(&stage), 0, "now it may go");
    });
    stage.assert_exact();
}

#[test]
fn two_consumers_and_two_streams_with_equal_shard_ids_do_not_meet() {
    // KCL 764, redpanda 4319: one state table, equal shard ids in it, and each must keep to its own rows.
    let stage = Stage::new(3);
    stage.play(async {
        stage.start("a");
        let mut other = stage.settings("a");
        other.consumer = "other".to_owned();
        stage.start_as("a of another", other, TimeDelta::zero());
        stage.wait(30.0).await;
        stage.change(1);
        stage.wait(5.0).await;
        for consumer in [DEFAULT_CONSUMER, "other"] {
            let rows = stage.rows(consumer);
            assert_eq!((rows.workers.len(), rows.shards.len()), (1, 3));
            assert!(rows.shards.iter().all(|row| row.term == Some(1) && row.checkpoint.last.is_some()));
        }
        stage.stop("a of another");
        stage.wait(1.0).await;
        let before = stage.rows(DEFAULT_CONSUMER);
        stage.stream.lock().arn = ARN.replace("stream/1", "stream/2");
        stage.stop("a");
        stage.wait(1.0).await;
        stage.start("b");
        stage.wait(5.0).await;
        assert_ne!(stage.rows(DEFAULT_CONSUMER), before, "the old stream's rows are dropped");
        assert!(!stage.log.of("the table has a new stream").is_empty());
    });
    stage.assert_exact();
}

#[test]
fn a_worker_of_another_table_does_not_start_in_the_same_state_table() {
    // redpanda 4319: ledger rows of two tables in one state table would be taken for each other's.
    let stage = Stage::new(2);
    stage.play(async {
        stage.start("a");
        stage.wait(5.0).await;
        stage.stop("a");
        stage.wait(1.0).await;
        let own = std::mem::replace(&mut stage.stream.lock().arn, ARN.replace("table/T", "table/U"));
        stage.start("b");
        stage.wait(5.0).await;
        let table = checkpoint::table_of(&own).to_owned();
        assert_eq!(stage.ended("b"), Some(Err(WorkerError::StateOfAnotherTable(table))));
        let state = stage.store.table(TableRef::State);
        assert!(!state.items().any(|(key, _)| key.to_string().contains("table/U")), "it has left no row");
        // The table's own worker goes on as if nothing had been.
        stage.stream.lock().arn = own;
        stage.start("a");
        stage.wait(5.0).await;
        assert!(stage.ended("a").is_none());
    });
    stage.assert_exact();
}

#[test]
fn a_gap_of_one_worker_is_everybodys_and_repaired_once() {
    let stage = Stage::new(4);
    stage.repair.borrow_mut().takes = Duration::from_secs(60);
    stage.play(async {
        stage.start("a");
        stage.wait(70.0).await;
        stage.start("b");
        stage.wait(30.0).await;
        stage.log.clear();
        stage.repair.borrow().began.lock().unwrap().clear();
        let reader = "b";
        let rows = stage.rows(DEFAULT_CONSUMER);
        let shard = rows.shards.iter().find(|row| row.owner.as_deref() == Some(reader)).unwrap().shard().to_owned();
        stage.pause(reader, true);
        stage.change(1);
        stage.stream.with_shard(&shard, |shard| shard.trimmed = shard.records.len() - 1);
        stage.pause(reader, false);
        stage.wait(20.0).await;
        assert!(!stage.log.of("trimmed").is_empty());
        let began = stage.repair.borrow().began.lock().unwrap().clone();
        assert_eq!(began.len(), 1, "{began:?}");
        stage.wait(80.0).await;
        assert_eq!(stage.log.of("gap closed").len(), 1);
        let began = stage.repair.borrow().began.lock().unwrap().len();
        assert_eq!(began, 1, "nobody repairs it again");
    });
}

#[test]
fn a_repairer_that_is_killed_is_replaced() {
    let stage = Stage::new(2);
    stage.repair.borrow_mut().takes = Duration::from_secs(3600);
    stage.play(async {
        stage.start("a");
        stage.wait(5.0).await;
        stage.repair.borrow_mut().takes = Duration::from_secs(5);
        stage.start("b");
        stage.wait(10.0).await;
        stage.kill("a");
        stage.wait(30.0).await;
        assert_eq!(stage.log.of("gap closed").len(), 1);
    });
    stage.assert_exact();
}

#[test]
fn of_two_workers_of_one_name_the_earlier_ends_and_says_why() {
    let stage = Stage::new(2);
    stage.play(async {
        stage.start("a");
        stage.wait(5.0).await;
        stage.start_as("the second a", stage.settings("a"), TimeDelta::zero());
        stage.wait(5.0).await;
        let ended = stage.ended("a").unwrap();
        assert_eq!(
            ended.unwrap_err().to_string().lines().next().unwrap(),
            WorkerError::<ApplyError>::NameTaken("a".to_owned()).to_string()
        );
        assert!(stage.ended("the second a").is_none());
        assert_eq!(stage.shares(), [("a".to_owned(), 2)].into());
    });
    stage.assert_exact();
}

#[test]
fn a_worker_of_an_earlier_model_ends_and_then_the_table_is_reconciled() {
    let stage = Stage::new(2);
    stage.play(async {
        stage.start("a");
        stage.wait(5.0).await;
        stage.repair.borrow().began.lock().unwrap().clear();
        stage.log.clear();
        let newer = WorkerSettings { model_hash: "newer".to_owned(), ..stage.settings("b") };
        stage.start_as("b", newer, TimeDelta::zero());
        stage.wait(20.0).await;
        assert_eq!(stage.ended("a"), Some(Err(WorkerError::ModelReplaced)));
        assert_eq!(stage.log.of("gap closed"), [("b".to_owned(), "gap closed".to_owned())]);
        assert_eq!(stage.shares(), [("b".to_owned(), 2)].into());
    });
}

#[test]
fn pages_of_several_shards_are_one_batch() {
    let stage = Stage::new(6);
    stage.play(async {
        stage.start("a");
        stage.wait(5.0).await;
        stage.log.clear();
        stage.change(1);
        stage.wait(5.0).await;
    });
    let batches = stage.log.of("batch ");
    let reads = stage.stream.times(|call| matches!(call, Call::Read(_))).len();
    assert!(reads >= 6 && batches.len() <= 4, "{batches:?}");
    assert!([" of 4 ", " of 5 ", " of 6 "].iter().any(|merged| !stage.log.of(merged).is_empty()), "{batches:?}");
    stage.assert_exact();
}

#[test]
fn with_leases_off_five_workers_read_everything_five_times_and_change_nothing() {
    let stage = Stage::new(4);
    stage.play(async {
        for name in ["a", "b", "c", "d", "e"] {
            stage.start_as(name, WorkerSettings { leases: None, ..stage.settings(name) }, TimeDelta::zero());
        }
        for seed in 0..10 {
            stage.change(seed);
            if seed == 5 {
                stage.world.borrow_mut().split(1);
            }
            stage.wait(1.5).await;
            assert_eq!(audit(&stage.store), Vec::<String>::new());
        }
    });
    stage.assert_exact();
}
