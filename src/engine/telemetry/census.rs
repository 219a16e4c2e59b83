//! What stands in the tables, counted for metrics.
//!
//! Findings, quarantine and outbox belong to no single worker, and outlive each: so they are read, not counted along. The cost is
//! bounded: one read by key of the totals of findings (an item an entity), and at most [`COUNT_MAX`] rows each of quarantine
//! and outbox. One attempt: the next scrape asks again anyway.

use std::collections::BTreeMap;

use crate::derive::findings::{COUNT_PREFIX, totals_keys};
use crate::engine::ports::{SortRange, Store, StoreError};
use crate::model::spec::Model;
use crate::model::value::Value;
use crate::plan::state;
use crate::plan::write::TableRef;

/// Most rows that are counted.
pub const COUNT_MAX: u64 = 10_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// Findings that stand, by code; codes that were found once and do not stand any more are there with 0.
    pub findings: BTreeMap<String, u64>,
    pub quarantine: u64,
    pub outbox: u64,
}

/// Counts.
///
/// # Errors
/// As [`Store::get`] and [`Store::query`].
pub async fn census<S: Store>(store: &S, model: &Model) -> Result<Census, StoreError> {
    Ok(Census {
        findings: findings(store, model).await?,
        quarantine: count(store, state::QUARANTINE).await?,
        outbox: count(store, state::OUTBOX).await?,
    })
}

async fn findings<S: Store>(store: &S, model: &Model) -> Result<BTreeMap<String, u64>, StoreError> {
    let mut findings = BTreeMap::new();
    let totals = store.get(TableRef::Source, &totals_keys(model)).await?;
    for (name, value) in totals.iter().flatten().flat_map(|item| item.0.iter()) {
        if let (Some(code), Value::N(number)) = (name.strip_prefix(COUNT_PREFIX), value) {
            *findings.entry(code.to_owned()).or_default() += number.to_plain().parse().unwrap_or(0);
        }
    }
    Ok(findings)
}

async fn count<S: Store>(store: &S, partition: &str) -> Result<u64, StoreError> {
    let partition = Value::text(partition);
    let (mut count, mut start) = (0, None);
    loop {
        let page = store.query(TableRef::State, &partition, SortRange::All, start).await?;
        count += page.items.len() as u64;
        match page.next {
            Some(next) if count < COUNT_MAX => start = Some(next),
            _ => return Ok(count.min(COUNT_MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::sim::block_on;
    use crate::engine::outbox::enqueue;
    use crate::engine::ports::Notification;
    use crate::engine::tests::{World, job, job_key};
    use crate::model::change::RawRecord;

    fn counted(world: &World) -> Census {
        block_on(census(&world.store, &world.model)).unwrap()
    }

    #[test]
    fn what_stands_is_counted_and_what_went_is_zero() {
        let mut world = World::new();
        assert_eq!(counted(&world), Census::default());
        for number in 1..=3 {
            world.store.put(job(number, "p", "Unheard", "1")).unwrap();
        }
        world.settle();
        let malformed = RawRecord { event_id: Some("e1".to_owned()), ..RawRecord::default() };
        world.apply(&[malformed.clone(), malformed]);
        let note = Notification {
            id: "n1".to_owned(),
            expiry: "due".to_owned(),
            subject: "s".to_owned(),
            owner: None,
            state: "overdue".to_owned(),
            threshold_days: 0,
            date: "2026-01-01".to_owned(),
            due: "2026-01-02T00:00:00Z".parse().unwrap(),
            message: "m".to_owned(),
        };
        block_on(world.store.transact(&[enqueue(&note, note.due)])).unwrap();
        let census = counted(&world);
        assert_eq!(census.findings, BTreeMap::from([("A303".to_owned(), 3)]));
        assert_eq!((census.quarantine, census.outbox), (1, 1));
        for number in 1..=3 {
            world.store.delete(&job_key(number));
        }
        world.settle();
        assert_eq!(counted(&world).findings, BTreeMap::from([("A303".to_owned(), 0)]));
    }
}
