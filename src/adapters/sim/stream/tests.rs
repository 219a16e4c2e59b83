//! What the simulated stream keeps of DynamoDB's rules.
#![cfg(test)]

use std::time::Duration;

use super::*;
use crate::adapters::sim::block_on;
use crate::model::key::TableKey;
use crate::plan::testing::model;

fn world(shards: usize, manners: Manners) -> (SimStore, SimClock, SimStream) {
    let store = SimStore::new(&model().table);
    let clock = SimClock::new(DateTime::UNIX_EPOCH, 1);
    let stream = SimStream::new(&store, &clock, shards, manners, 3);
    (store, clock, stream)
}

fn put(store: &SimStore, n: usize, note: usize) {
    let key = TableKey::text(format!("JOB#{n}"), "USER#a").to_item(&model().table.key_names());
    store.put(key.with("Note", crate::model::value::Value::text(note.to_string()))).unwrap();
}

/// All records of a shard from `start` on, page by page, and the pages.
fn read(stream: &SimStream, shard: &str, start: &ShardStart) -> Result<(Vec<RawRecord>, usize, bool), StreamError> {
    let mut next = Some(block_on(stream.iterator(shard, start))?);
    let (mut records, mut pages, mut quiet) = (Vec::new(), 0, 0);
    while let Some(iterator) = next {
        let page = block_on(stream.records(&iterator))?;
        quiet = if page.records.is_empty() { quiet + 1 } else { 0 };
        records.extend(page.records);
        pages += 1;
        next = page.next;
        if quiet > 5 {
            return Ok((records, pages, false));
        }
    }
    Ok((records, pages, true))
}

#[test]
fn every_record_is_in_one_shard_in_its_items_order() {
    let rough = Manners { page_records: 3, empty_pages: 2, low_numbers: 500, ..Manners::good() };
    let (store, _, stream) = world(3, rough);
    for note in 0..200 {
        put(&store, note % 9, note);
        stream.pull();
        if note % 23 == 0 {
            stream.divide(note % 2 == 0);
        }
    }
    let listed = block_on(stream.describe()).unwrap().shards;
    assert!(listed.len() > 9, "{listed:?}");
    let mut notes: Vec<Vec<usize>> = vec![Vec::new(); 9];
    // Ids grow from parents to children.
    let mut ids: Vec<String> = listed.into_iter().map(|shard| shard.id).collect();
    ids.sort();
    for id in ids {
        let (records, _, ended) = read(&stream, &id, &ShardStart::TrimHorizon).unwrap();
        assert_eq!(ended, stream.is_closed(&id));
        for record in records {
            let note: usize = record.new_image.unwrap().unwrap().text("Note").unwrap().parse().unwrap();
            notes[note % 9].push(note);
        }
    }
    for (n, notes) in notes.into_iter().enumerate() {
        assert_eq!(notes, (n..200).step_by(9).collect::<Vec<_>>());
    }
}

#[test]
fn reading_goes_on_after_any_number_and_pages_have_limits() {
    let (store, _, stream) = world(1, Manners { page_records: 4, page_bytes: 150, ..Manners::good() });
    (0..20).for_each(|n| put(&store, n, n));
    let (all, pages, _) = read(&stream, "shard-000", &ShardStart::TrimHorizon).unwrap();
    assert!(all.len() == 20 && pages > 5);
    for at in 0..20 {
        let after = ShardStart::After(all[at].sequence.as_deref().unwrap().parse().unwrap());
        assert_eq!(read(&stream, "shard-000", &after).unwrap().0, all[at + 1..]);
        let at_it = ShardStart::At(all[at].sequence.as_deref().unwrap().parse().unwrap());
        assert_eq!(read(&stream, "shard-000", &at_it).unwrap().0, all[at..]);
    }
}

#[test]
fn what_is_past_retention_is_refused_and_never_passed_over() {
    let (store, clock, stream) = world(1, Manners::good());
    (0..6).for_each(|n| put(&store, n, n));
    let all = read(&stream, "shard-000", &ShardStart::TrimHorizon).unwrap().0;
    let after = |at: usize| ShardStart::After(all[at].sequence.as_deref().unwrap().parse().unwrap());
    clock.advance(Duration::from_secs(23 * 3600));
    put(&store, 7, 7);
    stream.pull();
    clock.advance(Duration::from_secs(2 * 3600));
    assert_eq!(read(&stream, "shard-000", &after(2)), Err(StreamError::Trimmed));
    assert_eq!(read(&stream, "shard-000", &after(5)).unwrap().0.len(), 1, "nothing is missing between");
    assert_eq!(read(&stream, "shard-000", &ShardStart::TrimHorizon).unwrap().0.len(), 1);
    stream.divide(true);
    clock.advance(Duration::from_secs(49 * 3600));
    assert_eq!(block_on(stream.describe()).unwrap().shards.len(), 2, "the parent is not listed any more");
}

#[test]
fn iterators_expire_and_end_with_their_stream() {
    let (store, clock, stream) = world(2, Manners::good());
    put(&store, 1, 1);
    let iterator = block_on(stream.iterator("shard-000", &ShardStart::TrimHorizon)).unwrap();
    clock.advance(Duration::from_secs(16 * 60));
    assert_eq!(block_on(stream.records(&iterator)), Err(StreamError::ExpiredIterator));
    assert_eq!(block_on(stream.records(&ShardIterator("nonsense".to_owned()))), Err(StreamError::ExpiredIterator));
    let before = block_on(stream.describe()).unwrap();
    stream.replace();
    let after = block_on(stream.describe()).unwrap();
    assert_ne!(before.arn, after.arn);
    assert_eq!(block_on(stream.iterator("shard-000", &ShardStart::TrimHorizon)), Err(StreamError::NoShard));
    assert!(after.shards.iter().all(|shard| shard.parent.is_none()));
}

#[test]
fn a_child_is_listed_late_and_in_any_order() {
    let (_, clock, stream) = world(4, Manners { listed_late: TimeDelta::seconds(60), ..Manners::good() });
    (0..6).for_each(|_| stream.divide(false));
    let early = block_on(stream.describe()).unwrap().shards.len();
    clock.advance(Duration::from_secs(61));
    let orders: Vec<Vec<String>> = (0..5)
        .map(|_| block_on(stream.describe()).unwrap().shards.into_iter().map(|shard| shard.id).collect())
        .collect();
    assert!(early < 10 && orders.iter().all(|order| order.len() == 10));
    assert!(orders.iter().any(|order| *order != orders[0]));
}
