//! What holds whatever the lineage, the faults and the order of answers.
#![cfg(test)]

use proptest::prelude::*;

use super::*;

fn any_lineage() -> impl Strategy<Value = Vec<FakeShard>> {
    let shard = (any::<prop::sample::Index>(), any::<bool>(), 0..5usize, 0..4u32, 0..3usize, any::<bool>());
    prop::collection::vec(shard, 1..9).prop_map(|parts| {
        let mut shards: Vec<FakeShard> = Vec::new();
        for (n, (parent, root, records, hidden, empty_pages, late_end)) in parts.into_iter().enumerate() {
            let parent = (!root && n > 0).then(|| parent.index(n));
            let numbers = (0..records as u64).map(|record| n as u64 * 100 + record);
            let mut shard = FakeShard::new(&format!("s{n}"), None, numbers, false);
            shard.parent = parent.map(|parent| format!("s{parent}"));
            // A parent is listed before its children.
            shard.hidden = hidden + parent.map_or(0, |parent| shards[parent].hidden);
            (shard.empty_pages, shard.late_end) = (empty_pages, late_end);
            if let Some(parent) = parent {
                shards[parent].closed = true;
            }
            shards.push(shard);
        }
        shards
    })
}

fn any_fault() -> impl Strategy<Value = StreamError> {
    prop_oneof![
        Just(StreamError::ExpiredIterator),
        Just(StreamError::Throttled("t".to_owned())),
        Just(StreamError::Unavailable("u".to_owned())),
        Just(StreamError::NoShard),
    ]
}

proptest! {
    /// Whatever the lineage, the order of answers, the listing and passing faults, every record is applied once, in its shard's
    /// order, after its ancestors'.
    #[test]
    fn every_record_once_and_parents_first(
        shards in any_lineage(),
        faults in prop::collection::vec(any_fault(), 0..6),
        describe_faults in 0..3usize,
        seed in any::<u64>(),
        restart in any::<bool>(),
    ) {
        let mut driver = Driver::fresh(shards.clone());
        driver.seed = seed;
        // Three denials in a row of one shard are a gap, by design.
        let mut denials = 0;
        let faults = faults.into_iter().filter(|fault| {
            denials += u32::from(*fault == StreamError::NoShard);
            *fault != StreamError::NoShard || denials < 3
        });
        driver.stream.lock().faults.extend(faults.map(|fault| (None, fault)));
        let unavailable = StreamError::Unavailable("d".to_owned());
        driver.stream.lock().describe_faults.extend(vec![unavailable; describe_faults]);
        let mut applied = Vec::new();
        if restart {
            driver.run(3);
            while let Some(Action::Save(rows)) = driver.table.last_save(driver.clock.now()) {
                let keys = rows.iter().map(|row| row.key.clone()).collect();
                driver.stored.extend(rows.into_iter().map(|row| (row.key.shard.to_string(), row)));
                driver.tell(Event::Saved(keys, true));
            }
            applied = driver.applied.clone();
            prop_assert_eq!(driver.causes(), []);
            driver = driver.again(Duration::from_secs(30));
        }
        driver.run(200);
        prop_assert!(driver.table.is_idle());
        prop_assert_eq!(driver.causes(), []);
        applied.extend(driver.applied.clone());

        let order: Vec<&str> = applied.iter().map(|(shard, _)| shard.as_str()).collect();
        for shard in &shards {
            let numbers: Vec<u64> =
                applied.iter().filter(|(id, _)| *id == shard.id).map(|(_, number)| *number).collect();
            prop_assert_eq!(&numbers, &shard.records, "records of {}", shard.id);
            let mut parent = shard.parent.clone();
            while let Some(id) = parent {
                let first = order.iter().position(|other| *other == shard.id);
                let last = order.iter().rposition(|other| *other == id);
                if let (Some(first), Some(last)) = (first, last) {
                    prop_assert!(last < first, "{} was read before the end of its ancestor {id}", shard.id);
                }
                parent = shards.iter().find(|other| other.id == id).and_then(|other| other.parent.clone());
            }
        }
        let described = driver.stream.times(|call| *call == Call::Describe);
        let hurried = described.windows(2).filter(|pair| pair[1] - pair[0] < chrono::TimeDelta::milliseconds(999));
        prop_assert_eq!(hurried.count(), 0, "descriptions less than a second apart");
    }
}
