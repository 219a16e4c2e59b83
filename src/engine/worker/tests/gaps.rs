//! What may be missing: gaps at the start and on the way, and their repair.

use super::*;

#[test]
fn old_images_are_trusted_only_after_a_first_backfill() {
    let mut world = World::new(one_shard(1..=4));
    world.repair.results.lock().unwrap().push_back(Ok(Repaired::Postponed));
    let report = world.run().unwrap();
    assert!(report.gap_open && report.gaps == 0);
    assert!(world.sink.applied.lock().unwrap().iter().all(|(_, trust)| *trust == OldImages::NotTrusted));

    // The next run asks again; records that come while the repair runs are not trusted, those after it are.
    world.repair.takes = Duration::from_secs(10);
    world.settings.until_idle = false;
    world.stream.with_shard("a", |shard| shard.records.push(5));
    let append = async {
        world.clock.sleep(Duration::from_secs(20)).await;
        world.stream.with_shard("a", |shard| shard.records.push(6));
        world.clock.sleep(Duration::from_secs(20)).await;
    };
    world.clock.run(world.worker().run(append)).unwrap();
    let applied = world.sink.applied.lock().unwrap();
    assert_eq!(applied[4..], [(5, OldImages::NotTrusted), (6, OldImages::Trusted)]);
    let causes: Vec<_> = world.repair.gaps.lock().unwrap().iter().map(|gap| gap.cause.clone()).collect();
    assert_eq!(causes[0], GapCause::FirstStart);
    assert!(matches!(causes[1], GapCause::StillOpen { loss: false, .. }));
}

#[test]
fn a_lost_position_halts_the_worker_at_each_start() {
    let world = World::settled(one_shard(1..=4));
    world.stream.with_shard("a", |shard| {
        shard.records.extend(5..=9);
        shard.trimmed = 7;
    });
    for _ in 0..2 {
        let error = world.run().unwrap_err();
        let WorkerError::Gap(gap) = &error else { panic!("{error:?}") };
        assert_eq!(gap.cause, GapCause::Trimmed);
        assert!(error.to_string().contains("shard a: records were trimmed"), "{error}");
        assert_eq!(world.row("a").unwrap().last.unwrap().to_string(), "4");
    }
    assert_eq!(world.numbers(), [0u64; 0]);
}

#[test]
fn a_gap_is_reconciled_beside_the_reading() {
    let mut world = World::settled(one_shard(1..=4));
    world.settings.on_gap = OnGap::Reconcile;
    world.stream.with_shard("a", |shard| {
        shard.records.extend(5..=9);
        shard.trimmed = 7;
    });
    let report = world.run().unwrap();
    assert_eq!((report.gaps, report.gap_open), (1, false));
    assert_eq!(world.numbers(), [8, 9]);
    assert!(world.log.has("gap closed"));
    assert_eq!(world.repair.gaps.lock().unwrap().len(), 1);
    assert_eq!(world.stream_row().gap, None);
}

#[test]
fn an_open_gap_survives_a_crash() {
    let mut world = World::settled(one_shard(1..=4));
    world.settings.on_gap = OnGap::Reconcile;
    world.repair.takes = Duration::from_secs(3600);
    world.stream.with_shard("a", |shard| {
        shard.records.extend(5..=9);
        shard.trimmed = 7;
    });
    // Killed while the repair runs.
    let killed = async {
        let mut run = pin!(world.worker().run(pending()));
        let mut kill = pin!(world.clock.sleep(Duration::from_secs(60)));
        std::future::poll_fn(|cx| {
            let _ = run.as_mut().poll(cx);
            kill.as_mut().poll(cx)
        })
        .await;
    };
    world.clock.run(killed);
    assert_eq!(world.numbers(), [8, 9], "reading went on");
    let gap = world.stream_row().gap.unwrap();
    assert!(gap.loss && gap.cause.contains("trimmed"));

    world.settings.on_gap = OnGap::Halt;
    assert!(matches!(world.run().unwrap_err(), WorkerError::Gap(_)), "still open");
    let seen = world.clock.run(open_gap(&world.store, &world.clock, ARN)).unwrap().unwrap();
    let close = checkpoint::close_gap(&world.store, &world.clock, ARN, &seen);
    assert!(world.clock.run(close).unwrap());
    world.run().unwrap();
}

#[test]
fn a_loss_is_repaired_as_one_whatever_else_is_found_after_it() {
    // Once more is lost than records: at the next start the checkpoints are gone as well, or the model is another one. Neither is a
    // loss for itself, but the repair closes the gap of the loss with it.
    for model_changes in [false, true] {
        let mut world = World::settled(one_shard(1..=4));
        world.settings.on_gap = OnGap::Reconcile;
        world.repair.results.lock().unwrap().push_back(Ok(Repaired::Postponed));
        world.stream.with_shard("a", |shard| {
            shard.records.extend(5..=9);
            shard.trimmed = 7;
        });
        assert!(world.run().unwrap().gap_open);
        match model_changes {
            true => world.settings.model_hash = "model-2".to_owned(),
            false => world.store.set_state(&Checkpoint::row_key(&world.row("a").unwrap().key, DEFAULT_CONSUMER), None),
        }
        assert!(!world.run().unwrap().gap_open);
        let gaps = world.repair.gaps.lock().unwrap();
        assert!(gaps.iter().all(Gap::is_loss), "{gaps:?}");
        assert_eq!(gaps.len(), 2, "one is postponed, one is done");
    }
}

#[test]
fn a_gap_found_during_a_reconcile_is_not_closed_by_it() {
    let mut world = World::settled(one_shard(1..=4));
    world.settings.on_gap = OnGap::Reconcile;
    world.settings.until_idle = false;
    world.repair.takes = Duration::from_secs(60);
    let lose = |from: u64| {
        world.stream.with_shard("a", |shard| {
            shard.records.extend(from..from + 3);
            shard.trimmed = shard.records.len() - 1;
        })
    };
    lose(5);
    let again = async {
        world.clock.sleep(Duration::from_secs(30)).await;
        lose(8);
        world.clock.sleep(Duration::from_secs(45)).await;
        let stale = world.stream_row().gap.unwrap();
        assert!(stale.last > stale.since);
        let earlier = checkpoint::OpenGap { last: stale.since, ..stale };
        assert!(!checkpoint::close_gap(&world.store, &world.clock, ARN, &earlier).await.unwrap());
        world.clock.sleep(Duration::from_secs(120)).await;
    };
    let report = world.clock.run(world.worker().run(again)).unwrap();
    assert_eq!((report.gaps, report.gap_open), (2, false));
    assert_eq!(world.repair.gaps.lock().unwrap().len(), 2);
}

#[test]
fn a_repair_that_fails_is_tried_again_later() {
    let mut world = World::new(one_shard(1..=2));
    world.settings.until_idle = false;
    world.repair.results.lock().unwrap().extend([Err("no power".to_owned()), Err("no power".to_owned())]);
    let report = world.clock.run(world.worker().run(world.clock.sleep(Duration::from_secs(200)))).unwrap();
    assert!(!report.gap_open);
    assert!(world.log.has("no power"));
    assert_eq!(world.repair.gaps.lock().unwrap().len(), 3);
}

#[test]
fn a_changed_model_calls_for_a_reconcile_and_does_not_halt() {
    let mut world = World::settled(one_shard(1..=4));
    world.settings.model_hash = "model-2".to_owned();
    let report = world.run().unwrap();
    assert_eq!((report.gaps, report.gap_open), (0, false));
    assert_eq!(world.repair.gaps.lock().unwrap()[0].cause, GapCause::ModelChanged);
    assert_eq!(world.stream_row().model, "model-2");
}

#[test]
fn lost_checkpoints_are_not_taken_for_a_stream_that_was_never_away() {
    let world = World::settled(one_shard(1..=4));
    world.store.set_state(&Checkpoint::row_key(&world.row("a").unwrap().key, DEFAULT_CONSUMER), None);
    world.run().unwrap();
    assert_eq!(world.repair.gaps.lock().unwrap()[0].cause, GapCause::FirstStart);
    assert_eq!(world.numbers(), [1, 2, 3, 4]);
}

#[test]
fn a_stream_that_was_enabled_anew_is_loud_and_its_old_rows_go() {
    let mut world = World::settled(one_shard(1..=4));
    let new = format!("{}2", ARN.strip_suffix('1').unwrap());
    world.stream.lock().arn = new.clone();
    let error = world.run().unwrap_err();
    assert!(error.to_string().contains("the table has a new stream"), "{error}");
    world.settings.on_gap = OnGap::Reconcile;
    world.run().unwrap();
    assert_eq!(world.numbers(), [1, 2, 3, 4]);
    assert_eq!(world.stream_row().arn, new);
    assert!(world.row("a").is_none(), "the old stream's checkpoint is gone");
    world.settings.on_gap = OnGap::Halt;
    world.run().unwrap();
}

#[test]
fn a_stop_ends_a_repair_and_the_next_start_takes_it_up() {
    let mut world = World::settled(one_shard(1..=4));
    world.settings.on_gap = OnGap::Reconcile;
    world.settings.until_idle = false;
    (world.sink.takes, world.repair.takes) = (Duration::from_secs(20), Duration::from_secs(10));
    world.stream.with_shard("a", |shard| {
        shard.records.extend(5..=9);
        shard.trimmed = 7;
    });
    // The batch under way is waited for, and lasts longer than the repair would.
    let report = world.clock.run(world.worker().run(world.clock.sleep(Duration::from_secs(5)))).unwrap();
    assert_eq!(world.numbers(), [8, 9]);
    assert!(report.gap_open);
    world.settings.until_idle = true;
    assert!(!world.run().unwrap().gap_open);
}
