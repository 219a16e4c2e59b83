//! One print a slot, whatever is lost, repeated or done at once.
#![cfg(test)]

use std::time::Duration;

use futures_util::future::join;

use super::*;
use crate::adapters::sim::{Fault, SimStore};
use crate::engine::testing::TestClock;
use crate::plan::testing::model;

const NOW: &str = "2026-03-09T06:30:00Z";

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn slot(day: u32) -> Slot {
    Slot { report: "weekly".to_owned(), at: at(&format!("2026-03-{day:02}T06:00:00Z")) }
}

struct World {
    store: SimStore,
    clock: TestClock,
}

impl World {
    fn new() -> World {
        World { store: SimStore::new(&model().table), clock: TestClock::at(NOW) }
    }

    fn holder(&self, name: &str) -> Holder {
        Holder { name: name.to_owned(), until: self.clock.now() + TimeDelta::minutes(10) }
    }

    fn claim(&self, name: &str, slot: &Slot, earlier: &[DateTime<Utc>]) -> Claimed {
        self.clock.run(claim(&self.store, &self.clock, slot, earlier, &self.holder(name))).unwrap()
    }

    fn mine(&self, name: &str, slot: &Slot) -> Claim {
        match self.claim(name, slot, &[]) {
            Claimed::Mine(claim) => claim,
            other => panic!("{other:?}"),
        }
    }

    fn finish(&self, claim: &Claim) -> bool {
        self.clock.run(finish(&self.store, &self.clock, claim, &["a.html".to_owned()])).unwrap()
    }

    fn owed_since(&self, now: &str) -> DateTime<Utc> {
        self.clock.run(owed_since(&self.store, &self.clock, "weekly", at(now))).unwrap()
    }

    fn settle(&self, slot: &Slot) {
        self.clock.run(settle(&self.store, &self.clock, slot)).unwrap();
    }

    fn row(&self, slot: &Slot) -> Item {
        self.store.item(TableRef::State, &slot.key()).unwrap_or_default()
    }
}

#[test]
fn nothing_is_owed_from_before_the_first_look_and_what_is_settled_stays_so() {
    let world = World::new();
    assert_eq!(world.owed_since(NOW), at(NOW));
    assert_eq!(world.owed_since("2026-03-20T00:00:00Z"), at(NOW), "only the first look begins");
    world.settle(&slot(16));
    assert_eq!(world.owed_since(NOW), slot(16).at);
    world.settle(&slot(9));
    assert_eq!(world.owed_since(NOW), slot(16).at, "never back");
    world.store.inject(Fault::LoseAnswer);
    world.settle(&slot(23));
    assert_eq!(world.owed_since(NOW), slot(23).at);
}

#[test]
fn a_slot_is_printed_once() {
    let world = World::new();
    let claim = world.mine("a", &slot(9));
    let until = world.clock.now() + TimeDelta::minutes(10);
    assert_eq!(world.claim("b", &slot(9), &[]), Claimed::Theirs { until });
    assert!(world.finish(&claim) && world.finish(&claim), "the second time finds its own word");
    assert_eq!(world.claim("b", &slot(9), &[]), Claimed::Printed);
    assert_eq!(world.claim("a", &slot(9), &[]), Claimed::Printed);
    let row = world.row(&slot(9));
    assert_eq!(row.get("Files"), Some(&Value::L(vec![Value::text("a.html")])));
    assert!(row.get(state::TTL).is_some() && row.get("Skipped").is_none());
}

#[test]
fn of_two_at_once_one_prints() {
    for conflict in [false, true] {
        let world = World::new();
        if conflict {
            world.store.inject(Fault::Conflict(0));
        }
        let (a, b) = (world.holder("a"), world.holder("b"));
        let slot = slot(9);
        let ask = |holder| claim(&world.store, &world.clock, &slot, &[], holder);
        let (first, second) = world.clock.run(join(ask(&a), ask(&b)));
        let mine = [first.unwrap(), second.unwrap()].iter().filter(|one| matches!(one, Claimed::Mine(_))).count();
        assert_eq!(mine, 1);
    }
}

#[test]
fn a_lost_answer_costs_nobody_the_slot() {
    let world = World::new();
    world.store.inject(Fault::LoseAnswer);
    let claim = world.mine("a", &slot(9));
    world.store.inject(Fault::LoseAnswer);
    assert!(world.finish(&claim));
    assert_eq!(world.claim("b", &slot(9), &[]), Claimed::Printed);
}

#[test]
fn a_dead_claim_is_taken_over_and_its_holder_comes_too_late() {
    let world = World::new();
    let dead = world.mine("a", &slot(9));
    world.clock.advance(Duration::from_secs(599));
    assert!(matches!(world.claim("b", &slot(9), &[]), Claimed::Theirs { .. }));
    world.clock.advance(Duration::from_secs(1));
    let heir = world.mine("b", &slot(9));
    assert!(!world.finish(&dead), "another has it");
    assert!(world.finish(&heir));
}

#[test]
fn a_slot_that_was_given_back_is_free_at_once() {
    let world = World::new();
    let failed = world.mine("a", &slot(9));
    assert!(world.clock.run(give_back(&world.store, &world.clock, &failed)).unwrap());
    let heir = world.mine("b", &slot(9));
    assert!(!world.finish(&failed) && !world.clock.run(give_back(&world.store, &world.clock, &failed)).unwrap());
    assert!(world.finish(&heir));
}

/// Of four earlier slots one is printed, one is being printed, one died, and of one nobody heard.
#[test]
fn missed_slots_are_counted_and_dead_claims_marked() {
    let world = World::new();
    let printed = world.mine("a", &slot(1));
    assert!(world.finish(&printed));
    world.mine("a", &slot(3));
    world.clock.advance(Duration::from_secs(600));
    world.mine("b", &slot(4));
    let earlier = [1, 2, 3, 4].map(|day| slot(day).at);
    let Claimed::Mine(claim) = world.claim("c", &slot(9), &earlier) else { panic!("it is free") };
    assert_eq!(claim.skipped, 2);
    let states: Vec<String> =
        [1, 3, 4, 9].map(|day| world.row(&slot(day)).text(STATE).unwrap_or_default().to_owned()).into();
    assert_eq!(states, [PRINTED, SKIPPED, CLAIMED, CLAIMED]);
    assert!(world.finish(&claim));
    let row = world.row(&slot(9));
    assert_eq!((row.get("Skipped"), row.text("SkippedSince")), (Some(&number(2)), Some("2026-03-02T06:00:00.000Z")));
}
