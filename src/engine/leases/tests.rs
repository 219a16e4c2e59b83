//! Decisions alone: workers that look at the same rows, each by its own clock, and claim on condition of what they saw.
#![cfg(test)]

use chrono::TimeDelta;
use proptest::prelude::*;

use super::*;
use crate::engine::checkpoint::{Checkpoint, ShardKey};
use crate::engine::ports::Store;
use crate::model::value::{Item, Value};
use crate::plan::state;
use crate::plan::write::{Condition, Op, TableRef};

const ARN: &str = "arn:aws:dynamodb:eu-central-1:000000000000:table/T/stream/1";
const LEASE_TIME: Duration = Duration::from_secs(10);

/// One worker and its clock.
struct Member {
    leases: Leases,
    /// Its clock against the others'.
    skew: TimeDelta,
    /// When it looks next, by the common time.
    at: DateTime<Utc>,
    down: bool,
    /// What it saw, to be acted on later.
    seen: Option<Rows>,
}

/// The rows, and those who share them.
struct Group {
    now: DateTime<Utc>,
    rows: Rows,
    members: Vec<Member>,
    open: BTreeSet<Arc<str>>,
    lost: Vec<(String, Arc<str>)>,
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn shard(n: usize) -> Arc<str> {
    format!("shardId-{n:04}").into()
}

fn checkpoint(shard: &Arc<str>) -> Checkpoint {
    let key = ShardKey { arn: ARN.into(), shard: shard.clone() };
    Checkpoint { key, parent: None, last: None, finished: false, read_at: at("2026-03-01T10:00:00Z") }
}

impl Group {
    fn new(shards: usize) -> Group {
        let open = (0..shards).map(shard).collect();
        Group { now: at("2026-03-01T10:00:00Z"), rows: Rows::default(), members: Vec::new(), open, lost: Vec::new() }
    }

    fn join(&mut self, name: &str, skew: TimeDelta) {
        let settings = LeaseSettings { worker: name.to_owned(), lease_time: LEASE_TIME };
        let leases = Leases::new(settings, format!("run-{}", self.members.len()), "m".to_owned(), self.now + skew);
        self.members.push(Member { leases, skew, at: self.now, down: false, seen: None });
    }

    fn member(&mut self, name: &str) -> &mut Member {
        self.members.iter_mut().rfind(|member| member.leases.settings().worker == name).unwrap()
    }

    fn beat(&mut self, index: usize) {
        let beat = self.members[index].leases.next_beat();
        self.rows.workers.retain(|row| row.worker != beat.worker);
        self.rows.workers.push(beat);
    }

    fn look(&mut self, index: usize) -> Findings {
        self.beat(index);
        let rows = self.rows.clone();
        self.act(index, rows)
    }

    fn act(&mut self, index: usize, rows: Rows) -> Findings {
        let member = &mut self.members[index];
        let found = member.leases.look(&rows, &self.open, self.now + member.skew);
        let name = member.leases.settings().worker.clone();
        self.lost.extend(found.lost.iter().map(|shard| (name.clone(), shard.clone())));
        for claim in &found.claims {
            let seen = rows.shards.iter().find(|row| row.shard() == &*claim.shard).and_then(|row| row.term);
            self.claim(index, &claim.shard, seen);
        }
        found
    }

    /// The conditional write.
    fn claim(&mut self, index: usize, shard: &Arc<str>, seen: Option<u64>) -> bool {
        let name = self.members[index].leases.settings().worker.clone();
        let row = self.rows.shards.iter_mut().find(|row| row.shard() == &**shard);
        let term = match (row, seen) {
            (None, None) => {
                let row = LeaseRow { checkpoint: checkpoint(shard), owner: Some(name), term: Some(1) };
                self.rows.shards.push(row);
                1
            }
            (Some(row), Some(seen)) if row.term == Some(seen) => {
                (row.owner, row.term) = (Some(name), Some(seen + 1));
                seen + 1
            }
            _ => return false,
        };
        self.members[index].leases.hold(shard.clone(), term);
        true
    }

    /// Lets everybody look at its own pace.
    fn run(&mut self, periods: f64) {
        let until = self.now + TimeDelta::from_std(LEASE_TIME.mul_f64(periods)).unwrap();
        loop {
            let up = self.members.iter().enumerate().filter(|(_, member)| !member.down);
            let Some((index, at)) = up.map(|(index, member)| (index, member.at)).min_by_key(|(_, at)| *at) else {
                return;
            };
            if at > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(at);
            self.look(index);
            let pause = self.members[index].leases.pause();
            self.members[index].at = self.now + pause;
        }
    }

    /// Shards by owner, as the rows say.
    fn shares(&self) -> BTreeMap<String, usize> {
        let mut shares: BTreeMap<String, usize> = BTreeMap::new();
        for member in self.members.iter().filter(|member| !member.down) {
            shares.entry(member.leases.settings().worker.clone()).or_default();
        }
        for row in self.rows.shards.iter().filter(|row| self.open.contains(row.shard())) {
            *shares.entry(row.owner.clone().unwrap_or_default()).or_default() += 1;
        }
        shares
    }

    fn assert_even(&self, what: &str) {
        let shares = self.shares();
        let total: usize = shares.values().sum();
        let (least, most) = (shares.values().min().unwrap(), shares.values().max().unwrap());
        assert!(total == self.open.len() && most - least <= 1, "{what}: {shares:?}");
    }
}

#[test]
fn one_worker_takes_everything_at_its_first_look() {
    let mut group = Group::new(40);
    group.join("a", TimeDelta::zero());
    let found = group.look(0);
    assert_eq!((found.claims.len(), found.workers, found.leader), (40, 1, true));
    let found = group.look(0);
    assert_eq!((found.claims, found.lost), (vec![], vec![]));
}

#[test]
fn shares_are_even_within_three_lease_periods() {
    for shards in 12..=40 {
        let mut group = Group::new(shards);
        group.join("a", TimeDelta::zero());
        group.run(0.5);
        group.join("b", TimeDelta::zero());
        group.run(3.0);
        group.assert_even(&format!("two workers, {shards} shards"));
        for name in ["c", "d", "e"] {
            group.join(name, TimeDelta::zero());
            group.now += TimeDelta::milliseconds(700);
        }
        group.run(3.0);
        group.assert_even(&format!("five workers, {shards} shards"));
        // And then they stay where they are.
        let (before, lost) = (group.rows.shards.clone(), group.lost.len());
        group.run(5.0);
        assert_eq!((&group.rows.shards, group.lost.len()), (&before, lost), "{shards} shards wander");
    }
}

#[test]
fn clocks_that_differ_by_hours_change_nothing() {
    let mut group = Group::new(17);
    for (name, hours) in [("a", 0), ("b", 7), ("c", -9)] {
        group.join(name, TimeDelta::hours(hours));
    }
    group.run(3.0);
    group.assert_even("skewed clocks");
    let lost = group.lost.len();
    group.run(20.0);
    assert_eq!(group.lost.len(), lost, "somebody was taken for dead");
    group.member("c").down = true;
    group.run(1.5);
    group.assert_even("the one nine hours behind is dead");
}

#[test]
fn a_clock_that_jumps_kills_nobody() {
    let mut group = Group::new(10);
    group.join("a", TimeDelta::zero());
    group.join("b", TimeDelta::zero());
    group.run(2.0);
    let lost = group.lost.len();
    for jump in [TimeDelta::hours(5), TimeDelta::hours(-11)] {
        group.member("a").skew += jump;
        group.run(4.0);
        group.assert_even("after a jump");
        assert_eq!(group.lost.len(), lost);
    }
}

#[test]
fn a_crashed_workers_shards_are_taken_after_the_lease_time_and_not_before() {
    let mut group = Group::new(12);
    group.join("a", TimeDelta::zero());
    group.join("b", TimeDelta::zero());
    group.run(3.0);
    group.member("b").down = true;
    let crashed = group.now;
    // Its last sign of life is at most a quarter of the lease time old.
    group.run(0.7);
    assert_eq!(group.shares()["b"], 6, "taken too early");
    while group.shares()["a"] < 12 {
        assert!(group.now - crashed < TimeDelta::seconds(14), "not taken: {:?}", group.shares());
        group.run(0.05);
    }
    group.run(1.0);
    assert_eq!(group.rows.workers.iter().filter(|beat| beat.worker == "b").count(), 1);
    assert_eq!(group.look(0).dead.len(), 1, "its row is not needed any more");
}

#[test]
fn a_worker_that_is_started_again_under_its_name_goes_on_at_once() {
    let mut group = Group::new(12);
    group.join("a", TimeDelta::zero());
    group.join("b", TimeDelta::zero());
    group.run(3.0);
    let terms: BTreeMap<String, Option<u64>> =
        group.rows.shards.iter().map(|row| (row.shard().to_owned(), row.term)).collect();
    group.member("b").down = true;
    group.join("b", TimeDelta::zero());
    let found = group.look(2);
    assert_eq!(found.claims.len(), 6);
    // Under a new count, so that what the earlier life still writes is refused.
    for row in group.rows.shards.iter().filter(|row| row.owner.as_deref() == Some("b")) {
        assert!(row.term > terms[row.shard()]);
    }
    assert_eq!(group.shares()["b"], 6);
}

#[test]
fn a_paused_owner_gives_everything_up_before_it_goes_on() {
    // KCL 108: it hung while others may have taken its shards.
    let mut group = Group::new(12);
    group.join("a", TimeDelta::zero());
    group.join("b", TimeDelta::zero());
    group.run(3.0);
    let now = group.now;
    group.member("b").down = true;
    group.run(2.0);
    let paused = &mut group.member("b").leases;
    assert!(!paused.is_stale(now), "it looked a moment ago");
    assert!(!paused.is_stale(now - TimeDelta::hours(3)), "a clock that was put back");
    assert!(paused.is_stale(now + TimeDelta::seconds(20)));
    assert_eq!(paused.drop_all().len(), 6);
    let now = group.now;
    group.member("b").down = false;
    group.member("b").at = now;
    group.run(3.0);
    group.assert_even("the paused one is back");
}

#[test]
fn of_two_claims_one_succeeds() {
    let mut group = Group::new(6);
    for name in ["a", "b"] {
        group.join(name, TimeDelta::zero());
    }
    group.beat(0);
    group.beat(1);
    let rows = group.rows.clone();
    group.act(0, rows.clone());
    group.act(1, rows);
    let held: Vec<usize> = group.members.iter().map(|member| member.leases.held_count()).collect();
    assert_eq!(held.iter().sum::<usize>(), group.rows.shards.len(), "a shard is held twice: {held:?}");
    group.run(1.0);
    group.assert_even("both saw nothing");
}

#[test]
fn a_claim_whose_answer_was_lost_is_found_at_the_next_look() {
    let mut group = Group::new(4);
    group.join("a", TimeDelta::zero());
    group.look(0);
    let lost = shard(2);
    assert!(group.members[0].leases.lose(&lost), "it was granted, and the worker does not know");
    let found = group.look(0);
    assert_eq!(found.claims, [Claim { shard: lost.clone(), taken_from: None }]);
    assert_eq!(group.members[0].leases.term(&lost), Some(2));
}

#[test]
fn a_shard_that_is_read_to_its_end_counts_for_nobody() {
    let mut group = Group::new(8);
    group.join("a", TimeDelta::zero());
    group.join("b", TimeDelta::zero());
    group.run(2.0);
    let finished: Vec<Arc<str>> = group.member("a").leases.held().map(|(shard, _)| shard.clone()).collect();
    for shard in &finished {
        group.open.remove(shard);
    }
    group.run(2.0);
    group.assert_even("four shards are left");
    assert!(group.lost.iter().all(|(_, shard)| !finished.contains(shard)));
}

#[test]
fn a_newcomer_under_another_model_is_told_from_the_others() {
    let mut group = Group::new(2);
    group.join("a", TimeDelta::zero());
    assert!(!group.look(0).mixed);
    let settings = LeaseSettings { worker: "b".to_owned(), lease_time: LEASE_TIME };
    let leases = Leases::new(settings, "run".to_owned(), "other".to_owned(), group.now);
    group.members.push(Member { leases, skew: TimeDelta::zero(), at: group.now, down: false, seen: None });
    assert!(group.look(1).mixed);
    assert!(group.look(0).mixed);
}

#[test]
fn rows_of_others_are_not_seen() {
    // KCL 1791, KCL 764: what others keep in the table; and two streams, two consumers, equal shard ids.
    use crate::adapters::sim::{SimClock, SimStore, block_on};
    use crate::plan::testing::model;

    let clock = SimClock::new(at("2026-03-01T10:00:00Z"), 1);
    let store = SimStore::new(&model().table);
    let partition = state::stream_partition(ARN, "c");
    let put = |partition: &str, sort: &str, attributes: &[(&str, Value)]| {
        let key = crate::model::key::TableKey::text(partition, sort);
        let item = attributes
            .iter()
            .fold(key.to_item(&state::key_names()), |item, (name, value)| item.with(*name, value.clone()));
        store.set_state(&key, Some(item));
    };
    put(&partition, "SHARD#x", &[("Owner", Value::text("a"))]);
    put(&partition, "SHARD#y", &[("Finished", Value::text("no")), ("ReadAt", Value::Bool(true))]);
    put(&partition, "WORKER#z", &[("Beat", Value::text("1"))]);
    put(&partition, "leaseKey-1", &[("leaseOwner", Value::text("a")), ("leaseCounter", number("7"))]);
    put(&partition, "NOTE", &[]);
    let others = [(ARN.replace("stream/1", "stream/2"), "c"), (ARN.to_owned(), "d")];
    for (arn, consumer) in &others {
        let key = ShardKey { arn: arn.as_str().into(), shard: "s".into() };
        let fresh = Checkpoint { key, ..checkpoint(&shard(0)) };
        let (write, _) = claim("other", consumer, None, &fresh);
        block_on(store.transact(&[write])).unwrap();
    }
    let arn: Arc<str> = ARN.into();
    assert_eq!(block_on(load(&store, &clock, &arn, "c")).unwrap(), Rows::default());
    let (write, term) = claim("a", "c", None, &checkpoint(&shard(0)));
    block_on(store.transact(&[write])).unwrap();
    let rows = block_on(load(&store, &clock, &arn, "c")).unwrap();
    assert_eq!((rows.shards[0].owner.as_deref(), rows.shards[0].term), (Some("a"), Some(term)));
    assert_eq!(rows.shards[0].checkpoint, checkpoint(&shard(0)));
}

fn number(text: &str) -> Value {
    Value::N(text.parse().unwrap())
}

#[test]
fn every_change_of_hands_is_on_condition_of_what_was_seen() {
    let fresh = checkpoint(&shard(0));
    let row = |term| LeaseRow { checkpoint: fresh.clone(), owner: Some("b".to_owned()), term };
    let condition = |row: Option<&LeaseRow>| claim("a", "c", row, &fresh).0.condition;
    assert_eq!(condition(None), Condition::Absent);
    assert_eq!(condition(Some(&row(Some(7)))), Condition::Equals("Lease".into(), number("7")));
    // A row from before there were leases.
    assert!(matches!(condition(Some(&row(None))), Condition::Equals(name, _) if name == "ReadAt"));
    assert_eq!(release(&fresh.key, "c", 7).condition, Condition::Equals("Lease".into(), number("7")));
    // Storing a position under a lease does not touch the lease.
    let stored = fresh.write("c", Some(7));
    assert_eq!((stored.table, &stored.condition), (TableRef::State, &Condition::Equals("Lease".into(), number("7"))));
    let Op::Update { add, set } = &stored.op else { panic!("{stored:?}") };
    assert!(add.is_empty() && set.get("Lease").is_none() && set.get("Owner").is_none());
    assert_eq!(
        Item::new().with("Seq", Value::Null(true)).get("Seq"),
        set.get("Seq"),
        "an earlier position is overwritten"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Workers come, crash, hang, come back; rows are seen late. No shard is ever granted twice under one count, and when all is
    /// quiet the shares are even.
    #[test]
    fn whatever_happens_the_shares_become_even(
        shards in 1..30usize,
        steps in prop::collection::vec((0..6u8, 0..5usize, 0..20u32), 1..40),
    ) {
        let mut group = Group::new(shards);
        group.join("w0", TimeDelta::zero());
        for (step, which, tenths) in steps {
            let index = which % group.members.len();
            let now = group.now;
            match step {
                0 if group.members.len() < 6 => {
                    let name = format!("w{}", group.members.len());
                    group.join(&name, TimeDelta::hours(i64::from(tenths) - 10));
                }
                1 if group.members.iter().filter(|member| !member.down).count() > 1 => group.members[index].down = true,
                2 => {
                    group.members[index].down = false;
                    group.members[index].at = now;
                }
                3 => group.members[index].skew += TimeDelta::minutes(i64::from(tenths) - 10),
                4 => group.members[index].seen = Some(group.rows.clone()),
                _ => {
                    if let Some(rows) = group.members[index].seen.take() {
                        group.act(index, rows);
                    }
                }
            }
            group.run(f64::from(tenths) / 10.0);
            // What the rows say is what at most one believes.
            for row in &group.rows.shards {
                let holders = group.members.iter().filter(|member| member.leases.term(row.shard()) == row.term);
                prop_assert!(holders.count() <= 1, "{} is held twice", row.shard());
            }
        }
        group.run(5.0);
        group.assert_even("at the end");
    }
}
