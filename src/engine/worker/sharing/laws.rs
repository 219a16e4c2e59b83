//! Whatever happens to the workers, the tables are exact.
#![cfg(test)]

use proptest::prelude::*;

use super::*;
use crate::adapters::sim::Fault;

#[derive(Debug, Clone)]
enum Step {
    Change(u8),
    Split(usize),
    Start(usize),
    Kill(usize),
    Stop(usize),
    Pause(usize),
    Resume(usize),
    LoseAnswer,
    Conflict,
    Wait(u32),
}

fn any_step() -> impl Strategy<Value = Step> {
    let who = 0..4usize;
    prop_oneof![
        6 => any::<u8>().prop_map(Step::Change),
        1 => (0..3usize).prop_map(Step::Split),
        3 => who.clone().prop_map(Step::Start),
        2 => who.clone().prop_map(Step::Kill),
        1 => who.clone().prop_map(Step::Stop),
        2 => who.clone().prop_map(Step::Pause),
        2 => who.prop_map(Step::Resume),
        1 => Just(Step::LoseAnswer),
        1 => Just(Step::Conflict),
        6 => (1..200u32).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// At every moment the aggregates are what the ledger says; at the end everything is applied and the shards are shared.
    #[test]
    fn workers_that_come_hang_and_go_leave_exact_tables(steps in prop::collection::vec(any_step(), 1..40)) {
        let stage = Stage::new(3);
        let names = ["a", "b", "c", "d"];
        let mut broken = Vec::new();
        stage.play(async {
            for step in steps {
                match step {
                    Step::Change(seed) => stage.change(seed),
                    Step::Split(lane) => stage.world.borrow_mut().split(lane),
                    // Each with a clock of its own, hours from the others'.
                    Step::Start(who) if !stage.slots.borrow().contains_key(names[who]) => {
                        stage.start_as(names[who], stage.settings(names[who]), TimeDelta::hours(who as i64 * 5 - 7));
                    }
                    Step::Start(_) => {}
                    Step::Kill(who) => stage.kill(names[who]),
                    Step::Stop(who) => stage.stop(names[who]),
                    Step::Pause(who) => stage.pause(names[who], true),
                    Step::Resume(who) => stage.pause(names[who], false),
                    Step::LoseAnswer => stage.store.inject(Fault::LoseAnswer),
                    Step::Conflict => stage.store.inject(Fault::Conflict(1)),
                    Step::Wait(tenths) => stage.wait(f64::from(tenths) / 10.0).await,
                }
                broken.extend(audit(&stage.store));
            }
            stage.store.heal();
            for name in names {
                stage.kill(name);
            }
            stage.start("x");
            stage.start("y");
            stage.wait(60.0).await;
        });
        prop_assert_eq!(broken, Vec::<String>::new());
        stage.assert_even(2, "at the end");
        let lost = stage.log.of("gap:");
        prop_assert!(lost.iter().all(|(_, line)| line.contains("not been read before")), "{lost:?}");
        stage.assert_exact();
    }
}

#[test]
fn a_worker_that_slept_past_its_lease_and_is_told_to_stop_ends_in_good_order() {
    let stage = Stage::new(2);
    stage.play(async {
        stage.start("a");
        stage.start("b");
        stage.wait(30.0).await;
        stage.pause("a", true);
        stage.change(1);
        stage.wait(25.0).await;
        stage.stop("a");
        stage.pause("a", false);
        stage.wait(1.0).await;
        assert!(stage.ended("a").is_some_and(|ended| ended.is_ok()));
        stage.wait(30.0).await;
    });
    stage.assert_exact();
}

#[test]
fn a_gap_is_repaired_once_however_precise_the_clock_is() {
    // What is stored has milliseconds.
    let stage = Stage::new(1);
    stage.clock.advance(Duration::from_nanos(1_234_567));
    stage.play(async {
        stage.start("a");
        stage.wait(60.0).await;
    });
    let began = stage.repair.borrow().began.lock().unwrap().clone();
    assert_eq!(began.len(), 1, "{began:?}");
}

#[test]
fn a_worker_of_an_earlier_model_that_slept_past_its_lease_ends_and_takes_nothing_back() {
    let stage = Stage::new(2);
    stage.play(async {
        stage.start("a");
        stage.wait(30.0).await;
        stage.pause("a", true);
        let settings = WorkerSettings { model_hash: "newer".to_owned(), ..stage.settings("b") };
        stage.start_as("b", settings, TimeDelta::zero());
        stage.wait(30.0).await;
        stage.pause("a", false);
        stage.wait(30.0).await;
        assert!(matches!(stage.ended("a"), Some(Err(WorkerError::ModelReplaced))));
        assert!(stage.ended("b").is_none(), "the newer one goes on");
    });
}
