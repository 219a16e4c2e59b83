use std::sync::Arc;

use super::*;
use crate::adapters::sim::{Fault, SimStore, audit, audit_settled};
use crate::engine::checkpoint::open_gap;
use crate::engine::reconcile::reconcile;
use crate::engine::testing::{ARN, Call, FakeShard, FakeStream, TestClock};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::Value;
use crate::plan::testing::model;

/// A table whose changes are all in one shard, and none of them applied.
struct World {
    model: Arc<Model>,
    clock: TestClock,
    store: SimStore,
    stream: FakeStream,
    engine: Engine<SimStore, TestClock>,
    records: Vec<RawRecord>,
}

impl World {
    /// `jobs` jobs are written one after another, then each once more.
    fn of(jobs: usize) -> World {
        let model = Arc::new(model());
        let clock = TestClock::at("2026-03-01T10:00:00Z");
        let store = SimStore::new(&model.table);
        for (round, status) in ["Open", "Done"].iter().enumerate() {
            for job in 0..jobs {
                let item = TableKey::text(format!("JOB#{job}"), "USER#0")
                    .to_item(&model.table.key_names())
                    .with("Status", Value::text(*status))
                    .with("Project", Value::text(format!("P{}", job % 3)))
                    .with("Hours", Value::N(((job + round) as i64).into()));
                store.put(item).unwrap();
            }
        }
        let records = store.records(0);
        let numbers: Vec<u64> = records.iter().map(|record| of(record).to_string().parse().unwrap()).collect();
        let stream = FakeStream::new(&clock, vec![FakeShard::new("a", None, numbers.clone(), false)]);
        stream.lock().contents = numbers.into_iter().zip(records.iter().cloned()).collect();
        let engine = Engine::new(model.clone(), store.clone(), clock.clone());
        World { model, clock, store, stream, engine, records }
    }

    /// The records from `first` to `last`, both included, as a batch; without the records themselves.
    fn batch(&self, first: usize, last: usize) -> DiscardedBatch {
        DiscardedBatch {
            stream: ARN.to_owned(),
            shard: "a".to_owned(),
            first: of(&self.records[first]),
            last: of(&self.records[last]),
            size: Some(1 + (last - first) as u64),
            arrived: None,
            condition: None,
            records: None,
        }
    }

    fn redrive(&self, batch: &DiscardedBatch) -> Result<Redriven, RedriveError> {
        self.clock.run(redrive(&self.engine, &self.stream, batch))
    }

    fn audit(&self) {
        assert_eq!(audit(&self.store), Vec::<String>::new());
    }

    fn settled(&self) {
        assert_eq!(audit_settled(&self.store, &self.model), Vec::<String>::new());
    }
}

fn of(record: &RawRecord) -> SequenceNumber {
    number(record).unwrap()
}

fn cause(redriven: &Redriven) -> Option<&GapCause> {
    redriven.lost.as_ref().map(|gap| &gap.cause)
}

#[test]
fn batches_with_their_records_are_applied_in_any_order_and_more_than_once() {
    let world = World::of(9);
    let batches: Vec<DiscardedBatch> = [(12, 17), (0, 4), (5, 11), (12, 17)]
        .into_iter()
        .map(|(from, to)| DiscardedBatch { records: Some(world.records[from..=to].to_vec()), ..world.batch(from, to) })
        .collect();
    for batch in batches.iter().chain(&batches) {
        let done = world.redrive(batch).unwrap();
        assert_eq!((done.report.records, done.lost), (batch.records.as_ref().unwrap().len(), None));
        world.audit();
    }
    world.settled();
    assert_eq!(world.stream.times(|_| true).len(), 0, "nothing is read that is there");
}

#[test]
fn the_stream_gives_what_the_batch_does_not_keep() {
    let world = World::of(9);
    for settings in [(2, 0), (5, 3), (1000, 0)] {
        world.stream.lock().page_size = settings.0;
        world.stream.with_shard("a", |shard| shard.empty_pages = settings.1);
        let done = world.redrive(&world.batch(3, 15)).unwrap();
        assert_eq!((done.report.records, done.lost), (13, None), "{settings:?}");
        world.audit();
    }
    // The rest, of which the last record is that of a shard that is closed.
    world.stream.with_shard("a", |shard| shard.closed = true);
    for (first, last) in [(0, 2), (16, 17), (17, 17)] {
        assert_eq!(world.redrive(&world.batch(first, last)).unwrap().lost, None);
    }
    world.settled();
}

#[test]
fn passing_trouble_is_waited_out_and_what_does_not_pass_is_told() {
    let world = World::of(3);
    let throttled = StreamError::Throttled("x".to_owned());
    let passing = [throttled.clone(), StreamError::ExpiredIterator, StreamError::Unavailable("x".to_owned())];
    world.stream.fail(Some("a"), &passing);
    assert_eq!(world.redrive(&world.batch(0, 5)).unwrap().report.records, 6);
    world.store.inject(Fault::LoseAnswer);
    world.redrive(&world.batch(0, 5)).unwrap();
    world.settled();
    world.stream.fail(Some("a"), &vec![throttled.clone(); 20]);
    assert_eq!(world.redrive(&world.batch(0, 5)), Err(RedriveError::Stream(throttled)));
}

#[test]
fn what_is_past_retention_is_a_gap_and_the_rest_is_applied() {
    let world = World::of(9);
    world.stream.with_shard("a", |shard| shard.trimmed = 6);
    let part = world.redrive(&world.batch(3, 15)).unwrap();
    assert_eq!((cause(&part), part.report.records), (Some(&GapCause::Trimmed), 10));
    // All of it, with and without anything behind it.
    let none = world.redrive(&world.batch(0, 5)).unwrap();
    assert_eq!((cause(&none), none.report.records), (Some(&GapCause::Trimmed), 0));
    world.stream.with_shard("a", |shard| shard.trimmed = shard.records.len());
    let open = world.redrive(&world.batch(0, 5)).unwrap();
    assert_eq!((cause(&open), open.report.records), (Some(&GapCause::Trimmed), 0));
    world.stream.with_shard("a", |shard| shard.closed = true);
    assert_eq!(cause(&world.redrive(&world.batch(0, 5)).unwrap()), Some(&GapCause::Trimmed));
    world.stream.with_shard("a", |shard| shard.gone = true);
    assert_eq!(cause(&world.redrive(&world.batch(0, 5)).unwrap()), Some(&GapCause::ShardGone));
    world.stream.fail(Some("a"), &[StreamError::NoStream]);
    let replaced = GapCause::StreamReplaced { old: ARN.to_owned() };
    assert_eq!(cause(&world.redrive(&world.batch(0, 5)).unwrap()), Some(&replaced));
    world.audit();
    world.clock.run(reconcile(&world.engine, |_| {})).unwrap();
    world.settled();
}

#[test]
fn a_stream_that_trims_in_silence_is_found_out() {
    let world = World::of(3);
    // A database may begin with what is left instead of refusing.
    let batch = DiscardedBatch { first: "1".parse().unwrap(), ..world.batch(0, 5) };
    let first = of(&world.records[0]);
    assert!(batch.first < first);
    let done = world.redrive(&batch).unwrap();
    assert_eq!((cause(&done), done.report.records), (Some(&GapCause::Trimmed), 6));
}

#[test]
fn a_shard_without_records_is_looked_for_and_never_waited_for_without_end() {
    let world = World::of(3);
    world.stream.with_shard("a", |shard| shard.records.clear());
    let batch = world.batch(0, 5);
    assert_eq!(world.redrive(&batch), Err(RedriveError::Silent("a".to_owned())));
    assert_eq!(world.stream.times(|call| matches!(call, Call::Read(_))).len() as u32, EMPTY_MAX);
    world.stream.with_shard("a", |shard| shard.unlisted = true);
    assert_eq!(cause(&world.redrive(&batch).unwrap()), Some(&GapCause::ShardGone));
}

#[test]
fn a_loss_is_remembered_beside_what_is_known_of_the_stream() {
    let world = World::of(3);
    let batch = world.batch(0, 5);
    let gap = |cause| Gap { cause, shard: None, since: world.clock.now() };
    let row = || world.clock.run(stream_row(&world.store, &world.clock, ARN)).unwrap().unwrap();
    // Nobody has read the stream: it is the one that the table has now.
    let now = ARN.replace("/stream/1", "/stream/2");
    world.clock.run(remember(&world.engine, &batch, Some(&now), &gap(GapCause::Trimmed))).unwrap();
    let first = row();
    assert_eq!((first.arn.as_str(), first.model.as_str()), (now.as_str(), world.model.hash.as_str()));
    assert!(first.gap.as_ref().unwrap().loss);
    // A second loss leaves cause and beginning, and a reconcile that began before it does not close it.
    world.clock.advance(Duration::from_secs(60));
    world.clock.run(remember(&world.engine, &batch, None, &gap(GapCause::ShardGone))).unwrap();
    let (before, after) = (first.gap.unwrap(), row().gap.unwrap());
    assert_eq!((row().arn, after.since, &after.cause), (now, before.since, &before.cause));
    assert!(after.last > before.last);
    assert_eq!(world.clock.run(open_gap(&world.store, &world.clock, ARN)).unwrap(), Some(after));
}

#[test]
fn a_batch_of_another_table_is_known_by_its_whole_name() {
    let world = World::of(1);
    let batch = world.batch(0, 1);
    let own = table_of(ARN);
    assert_eq!(same_table(&batch, own), Ok(()));
    for other in [own.replace("table/T", "table/T2"), own.replace("eu-central-1", "eu-west-1"), "T".to_owned()] {
        let refused = same_table(&batch, &other).unwrap_err().to_string();
        assert!(refused.contains(own) && refused.contains(&other), "{refused}");
    }
}

#[test]
fn what_stops_everything_is_told_from_what_stops_one_batch() {
    let world = World::of(2);
    let batch = DiscardedBatch { records: Some(world.records.clone()), ..world.batch(0, 3) };
    world.store.inject(Fault::Read(StoreError::Denied("no".to_owned())));
    let error = world.redrive(&batch).unwrap_err();
    assert!(error.concerns_all(), "{error:?}");
    assert!(!RedriveError::Silent("a".to_owned()).concerns_all());
}

/// Databases there are that call a number of a shard that they do not know invalid.
#[test]
fn a_refusal_of_an_unknown_shard_is_a_gap_and_of_a_known_one_an_error_with_its_remedy() {
    let world = World::of(2);
    let refused = StreamError::Refused("ValidationException: Invalid SequenceNumber for the shard".to_owned());
    let batch = DiscardedBatch { shard: "unknown".to_owned(), ..world.batch(0, 1) };
    world.stream.fail(Some("unknown"), std::slice::from_ref(&refused));
    assert_eq!(cause(&world.redrive(&batch).unwrap()), Some(&GapCause::ShardGone));
    world.stream.fail(Some("a"), std::slice::from_ref(&refused));
    let error = world.redrive(&world.batch(0, 1)).unwrap_err();
    assert!(error == RedriveError::Stream(refused) && error.to_string().contains("reconcile the table"), "{error}");
}
