//! From pages to batches: what several shards have ready is applied as one.
//!
//! Every commit writes the aggregates that its items share, so two pages applied together cost fewer writes and meet no
//! conflict. Order matters within an item only, an item's records are in one lineage, and of a lineage never two shards are
//! read at a time. A batch that fails is taken apart again, so that one shard's trouble is told as its own.

use std::time::Duration;

use super::{Applied, BACKOFF_MAX, Outcome, Run};
use crate::engine::batch::OldImages;
use crate::engine::patience::backoff;
use crate::engine::ports::{Clock, RecordPage, Store, StreamError, StreamSource};
use crate::engine::shards::{Event, PageSeen, Ticket};
use crate::engine::worker::{BatchSink, Observer, Progress, Repair, WorkerError};
use crate::model::change::{RawRecord, SequenceNumber};

const APPLY_BACKOFF: Duration = Duration::from_millis(200);
/// Pages are joined up to so many records; what is more costs more memory and saves nothing.
const MERGED_RECORDS_MAX: usize = 1_000;

/// A page that waits to be applied.
pub(super) struct Page {
    ticket: Ticket,
    records: Vec<RawRecord>,
    attempts: u32,
}

/// Pages of different shards on their way through the engine.
pub(super) struct Batch {
    pages: Vec<(Ticket, usize)>,
    /// The pages' records, one page after the other.
    records: Vec<RawRecord>,
    attempts: u32,
}

impl<'w, B, S, T, C, O, G> Run<'w, B, S, T, C, O, G>
where
    B: BatchSink,
    S: Store,
    T: StreamSource,
    C: Clock,
    O: Observer<B::Report>,
    G: Repair,
{
    pub(super) async fn page(&mut self, ticket: Ticket, page: Result<RecordPage, StreamError>) -> Outcome<(), B> {
        let page = match page {
            Ok(page) => page,
            Err(error) => return self.event(Event::Page(ticket, Err(error))).await,
        };
        self.report.reads += 1;
        self.tell(Progress::Read { records: page.records.len() });
        let seen = PageSeen {
            records: page.records.len(),
            last: page.records.iter().rev().find_map(sequence),
            written_at: page.records.iter().rev().find_map(|record| record.created_at),
            next: page.next,
        };
        self.event(Event::Page(ticket.clone(), Ok(seen))).await?;
        if !page.records.is_empty() {
            self.pages.push_back(Page { ticket, records: page.records, attempts: 0 });
        }
        Ok(())
    }

    /// The next pages in their order; a page that has failed goes alone.
    pub(super) fn next_batch(&mut self) -> Option<Batch> {
        // The page of a shard that was lost meanwhile is read again by its new owner.
        self.pages.retain(|page| self.table.awaits(&page.ticket));
        let first = self.pages.pop_front()?;
        let mut batch = Batch {
            pages: vec![(first.ticket, first.records.len())],
            records: first.records,
            attempts: first.attempts,
        };
        while batch.attempts == 0
            && let Some(page) = self.pages.front()
            && page.attempts == 0
            && batch.records.len() + page.records.len() <= MERGED_RECORDS_MAX
            && let Some(page) = self.pages.pop_front()
        {
            batch.pages.push((page.ticket, page.records.len()));
            batch.records.extend(page.records);
        }
        Some(batch)
    }

    pub(super) fn apply(&mut self, batch: Batch) {
        let worker = self.worker;
        let trust = if self.stream.gap.is_some() { OldImages::NotTrusted } else { OldImages::Trusted };
        let pause = match batch.attempts {
            0 => Duration::ZERO,
            attempt => backoff(APPLY_BACKOFF, attempt - 1, BACKOFF_MAX, worker.clock.jitter()),
        };
        self.retrying = batch.attempts > 0;
        self.applying = Some(Box::pin(async move {
            if !pause.is_zero() {
                worker.clock.sleep(pause).await;
            }
            let result = worker.sink.apply(&batch.records, trust).await;
            (batch, result)
        }));
    }

    pub(super) async fn applied(&mut self, (mut batch, result): Applied<B>, stopping: bool) -> Outcome<(), B> {
        let Some((ticket, _)) = batch.pages.first() else { return Ok(()) };
        let (shard, shards) = (ticket.key.clone(), batch.pages.len());
        match result {
            Ok(report) => {
                let records = batch.records.len();
                self.tell(Progress::Batch { shard: &shard, shards, records, report: &report });
                self.report.batches += 1;
                self.report.records += records as u64;
                for (ticket, _) in batch.pages {
                    self.event(Event::Applied(ticket)).await?;
                }
            }
            Err(error) => {
                batch.attempts += 1;
                self.tell(Progress::BatchFailed { shard: &shard, attempt: batch.attempts, error: &error });
                if batch.attempts >= self.worker.settings.apply_attempts {
                    let shard = shard.shard.to_string();
                    return Err(WorkerError::Batch { shard, attempts: batch.attempts, source: error });
                }
                self.take_apart(batch);
                if !stopping && let Some(batch) = self.next_batch() {
                    self.apply(batch);
                }
            }
        }
        Ok(())
    }

    /// Puts a failed batch's pages back to the front, in their order.
    fn take_apart(&mut self, mut batch: Batch) {
        while let Some((ticket, count)) = batch.pages.pop() {
            let records = batch.records.split_off(batch.records.len() - count);
            self.pages.push_front(Page { ticket, records, attempts: batch.attempts });
        }
    }
}

fn sequence(record: &RawRecord) -> Option<SequenceNumber> {
    record.sequence.as_deref().and_then(|text| text.parse().ok())
}
