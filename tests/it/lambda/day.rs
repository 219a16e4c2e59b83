//! A day's writes through functions that crash at any moment, several batches at once.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{join, join_all};
use tablekeeper::adapters::sim::mapping::Rules;

use super::function::{Built, Function, built};
use super::mapping::{Mapping, Setting, Tally};
use super::wire;
use crate::kill::{World, load};
use crate::random::Random;

/// Another one for another day.
const SEED: &str = "TABLEKEEPER_LAMBDA_SEED";
/// Applications that write at once.
const WRITERS: usize = 2;

fn seed() -> u64 {
    std::env::var(SEED).ok().and_then(|text| text.parse().ok()).unwrap_or(2026)
}

fn setting<'a>(built: &'a Built, world: &'a World) -> Setting<'a> {
    Setting {
        binary: &built.binary,
        endpoint: world.database.endpoint(),
        lanes: 10,
        batch_max: 25,
        rules: Rules { bisects: true, retries_max: Some(2) },
        windows: false,
        one_killed_in: None,
        seed: seed(),
    }
}

/// So many transactions of applications, delivered while they are written.
async fn day(world: &World, setting: Setting<'_>, transactions: usize) -> Tally {
    let (names, written, seed) = (world.model.table.key_names(), AtomicBool::new(false), setting.seed);
    let writers = (0..WRITERS).map(|writer| {
        let (mut random, names) = (Random::new(seed * WRITERS as u64 + writer as u64), &names);
        async move {
            for _ in 0..transactions / WRITERS {
                load::write(&world.store, load::acts(names, &mut random)).await;
            }
        }
    });
    let writing = async {
        join_all(writers).await;
        written.store(true, Ordering::SeqCst);
    };
    let delivering = Mapping::new(setting).run(&world.connection, &world.model.table.name, &written);
    let (_, tally) = join(writing, delivering).await;
    println!("seed {seed} ({SEED}): {}", told(&tally));
    tally
}

fn told(tally: &Tally) -> String {
    let Tally { records, invocations, kills, halved, applied, met_again, given_up, partly_done } = tally;
    let lost: usize = given_up.iter().map(Vec::len).sum();
    format!(
        "{records} records in {invocations} invocations, {kills} functions killed, {halved} batches halved, {partly_done} done in part, \
         {lost} records given up, {applied} items applied, {met_again} met again"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_writes_through_functions_that_crash_is_counted_exactly() {
    let Some(built) = built("a day of writes") else { return };
    let world = World::open().await;
    let setting = Setting { one_killed_in: Some(4), ..setting(&built, &world) };
    let tally = day(&world, setting, 600).await;
    assert!(tally.records > 900 && tally.kills > 20 && tally.halved > 5 && tally.met_again > 0, "{}", told(&tally));

    // What was given up lies at the destination; somebody hands it back, twice.
    let mut function = Function::start(&built.binary, world.database.endpoint()).await;
    for records in tally.given_up.iter().chain(&tally.given_up) {
        assert_eq!(function.invoke(&wire::event(records)).await.as_deref(), Ok(r#"{"batchItemFailures":[]}"#));
    }
    function.kill().await;
    assert_eq!(world.differences().await, [], "seed {}", seed());
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_windows_are_counted_exactly_too() {
    let Some(built) = built("events of windows") else { return };
    let world = World::open().await;
    let rules = Rules { bisects: false, retries_max: None };
    let setting = Setting { lanes: 2, windows: true, rules, one_killed_in: Some(8), ..setting(&built, &world) };
    let tally = day(&world, setting, 100).await;
    assert!(tally.records > 100 && tally.given_up.is_empty(), "{}", told(&tally));
    assert_eq!(world.differences().await, [], "seed {}", seed());
    world.close().await;
}
