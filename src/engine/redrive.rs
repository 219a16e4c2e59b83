//! Redrive: batches that AWS Lambda gave up, applied after all.
//!
//! The problem: an event source mapping goes on without a batch that it gave up, so what it held is missing from what is derived,
//! while later records of the same items may be applied already. The contract:
//! - [`redrive`] applies the batch's records, as they are kept with it or as the stream still has them. The ledger decides, so it
//!   may be done in any order, beside workers and functions, and as often as one likes; what the records say of their items is not believed,
//!   for other records of them may be lost or applied meanwhile: each item is read;
//! - a batch of another table or stream is refused by [`same_table`]: its keys could be those of this table's items;
//! - records that the stream does not have any more are a [`Gap`] in the result. Whoever lets go of the batch writes it to the state table
//!   first, by [`remember`], where workers and `reconcile` find it: no loss is forgotten. What is left of the batch is applied.

use std::time::Duration;

use super::batch::{ApplyError, BatchReport, Engine, OldImages};
use super::checkpoint::{OpenGap, ShardKey, StreamRow, add_gap, stream_row, table_of};
use super::patience::Patience;
use super::ports::{
    Clock, RecordPage, ShardIterator, ShardStart, Store, StoreError, StreamError, StreamSource, TransactError,
};
use super::shards::{Gap, GapCause};
use crate::model::change::{RawRecord, SequenceNumber};
use crate::model::discarded::DiscardedBatch;

/// Records applied at once.
const RECORDS_MAX: usize = 1_000;
/// A shard takes five reads a second, and the mapping has its own reader there.
const READ_PAUSE: Duration = Duration::from_millis(250);
/// Empty pages in a row after which the shard is looked for, and after which it is given up: pages may be empty before records.
const EMPTY_LOOK: u32 = 10;
const EMPTY_MAX: u32 = 400;

/// What became of a batch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Redriven {
    pub report: BatchReport,
    /// Its first records, or all, are not in the stream any more.
    pub lost: Option<Gap>,
}

/// Why a batch is not applied, or not to its end; doing it again is always right.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RedriveError {
    #[error("its records are not applied")]
    Apply(#[from] ApplyError),
    #[error(
        "its records cannot be read from the stream; if that stays so, reconcile the table and take the batch away"
    )]
    Stream(#[source] StreamError),
    #[error("shard {0} is listed, but gives no records; try again later, or reconcile the table")]
    Silent(String),
}

impl RedriveError {
    /// True where every other batch would fare alike.
    pub fn concerns_all(&self) -> bool {
        use super::commit::CommitError;
        match self {
            RedriveError::Apply(error) => {
                matches!(
                    &error.source,
                    CommitError::Store(
                        StoreError::Unavailable(_)
                            | StoreError::Throttled(_)
                            | StoreError::Denied(_)
                            | StoreError::NoTable(_)
                    )
                )
            }
            RedriveError::Stream(_) | RedriveError::Silent(_) => false,
        }
    }
}

/// A batch of another table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is a batch of `{found}`, but the table here is `{own}`; give it to whoever keeps that table")]
pub struct OtherTable {
    /// ARN of the batch's table.
    pub found: String,
    pub own: String,
}

/// Makes sure that the batch is of the table with that ARN: the name alone is that of its copies elsewhere, too.
///
/// # Errors
/// [`OtherTable`].
pub fn same_table(batch: &DiscardedBatch, table: &str) -> Result<(), OtherTable> {
    let found = table_of(&batch.stream);
    if found == table { Ok(()) } else { Err(OtherTable { found: found.to_owned(), own: table.to_owned() }) }
}

/// Applies the batch. `stream` is the batch's own, also where the table has another one since.
///
/// # Errors
/// [`RedriveError`]; what was applied until then stays so.
pub async fn redrive<S: Store, C: Clock, T: StreamSource>(
    engine: &Engine<S, C>,
    stream: &T,
    batch: &DiscardedBatch,
) -> Result<Redriven, RedriveError> {
    let mut done = Redriven::default();
    if let Some(records) = &batch.records {
        for records in records.chunks(RECORDS_MAX) {
            done.report.add(engine.apply(records, OldImages::NorNewOnes).await?);
        }
        return Ok(done);
    }
    let reader = Reader {
        stream,
        clock: &engine.clock,
        shard: &batch.shard,
        start: ShardStart::At(batch.first.clone()),
        next: None,
    };
    let lost = Rereading { engine, batch, reader, lost: None, empty: 0 }.run(&mut done.report).await?;
    let key = ShardKey { arn: batch.stream.as_str().into(), shard: batch.shard.as_str().into() };
    done.lost = lost.map(|cause| Gap { cause, shard: Some(key), since: engine.clock.now() });
    Ok(done)
}

/// Writes the gap to the state table as one that is open. `stream` is the ARN of the stream that the table writes to now; `None`: it
/// has none.
///
/// # Errors
/// The last of several attempts; then the batch must stay where it is.
pub async fn remember<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    batch: &DiscardedBatch,
    stream: Option<&str>,
    gap: &Gap,
) -> Result<(), TransactError> {
    let Engine { store, clock, model, .. } = engine;
    let known = stream_row(store, clock, &batch.stream).await?;
    let row = known.unwrap_or_else(|| StreamRow {
        arn: stream.unwrap_or(&batch.stream).to_owned(),
        model: model.hash.to_string(),
        gap: None,
        version: 0,
    });
    add_gap(store, clock, &row, false, &OpenGap::from(gap)).await.map(|_| ())
}

/// A batch on its way out of the stream.
struct Rereading<'r, S, C, T> {
    engine: &'r Engine<S, C>,
    batch: &'r DiscardedBatch,
    reader: Reader<'r, C, T>,
    lost: Option<GapCause>,
    /// Empty pages in a row.
    empty: u32,
}

impl<S: Store, C: Clock, T: StreamSource> Rereading<'_, S, C, T> {
    /// Applies what the stream has of the batch; why there was not all of it.
    async fn run(mut self, report: &mut BatchReport) -> Result<Option<GapCause>, RedriveError> {
        let mut expected = Some(&self.batch.first);
        loop {
            let page = match self.reader.page().await {
                Ok(page) => page,
                Err(StreamError::Trimmed) if self.reader.start != ShardStart::TrimHorizon => {
                    self.lost = Some(GapCause::Trimmed);
                    self.reader.begin(ShardStart::TrimHorizon);
                    continue;
                }
                Err(StreamError::NoShard) => return Ok(Some(GapCause::ShardGone)),
                Err(StreamError::NoStream) => {
                    return Ok(Some(GapCause::StreamReplaced { old: self.batch.stream.clone() }));
                }
                // Some say so of a number of a shard that they do not know.
                Err(StreamError::Refused(_)) if !self.is_listed().await? => return Ok(Some(GapCause::ShardGone)),
                Err(error) => return Err(RedriveError::Stream(error)),
            };
            let is_last = page.next.is_none();
            let (records, reached) = part(page.records, self.batch);
            // Reading began with that very record, unless it is not there any more.
            if let Some(first) = reached.as_ref().and_then(|_| expected.take())
                && !records.iter().any(|record| number(record).as_ref() == Some(first))
            {
                self.lost.get_or_insert(GapCause::Trimmed);
            }
            if !records.is_empty() {
                report.add(self.engine.apply(&records, OldImages::NorNewOnes).await?);
            }
            match reached {
                Some(reached) if reached >= self.batch.last => return Ok(self.lost),
                Some(reached) => {
                    self.empty = 0;
                    self.reader.start = ShardStart::After(reached);
                }
                None if self.is_silent(is_last).await? => {
                    self.lost.get_or_insert(GapCause::ShardGone);
                    return Ok(self.lost);
                }
                None => {}
            }
            if is_last {
                self.lost.get_or_insert(GapCause::Trimmed);
                return Ok(self.lost);
            }
            self.engine.clock.sleep(READ_PAUSE).await;
        }
    }

    /// After an empty page: true if no records are to be hoped for.
    async fn is_silent(&mut self, is_last: bool) -> Result<bool, RedriveError> {
        self.empty += 1;
        if is_last || self.empty < EMPTY_LOOK {
            return Ok(false);
        }
        if self.empty == EMPTY_LOOK {
            return Ok(!self.is_listed().await?);
        }
        match self.empty < EMPTY_MAX {
            true => Ok(false),
            // What was lost is known already, and a shard that has nothing left has nothing of this batch.
            false if self.lost.is_some() => Ok(true),
            false => Err(RedriveError::Silent(self.batch.shard.clone())),
        }
    }

    /// True if the stream has the batch's shard.
    async fn is_listed(&self) -> Result<bool, RedriveError> {
        match self.reader.stream.describe().await {
            Ok(description) => Ok(description.shards.iter().any(|shard| shard.id == self.batch.shard)),
            Err(StreamError::NoStream) => Ok(false),
            Err(error) => Err(RedriveError::Stream(error)),
        }
    }
}

/// Those of the records that are the batch's, and the highest number that was read.
fn part(records: Vec<RawRecord>, batch: &DiscardedBatch) -> (Vec<RawRecord>, Option<SequenceNumber>) {
    let (mut part, mut reached) = (Vec::new(), None);
    for record in records {
        // A record without a number is taken for what it lies between.
        let Some(number) = number(&record) else {
            part.push(record);
            continue;
        };
        if number >= batch.first && number <= batch.last {
            part.push(record);
        }
        let is_past = number > batch.last;
        reached = Some(number);
        if is_past {
            break;
        }
    }
    (part, reached)
}

fn number(record: &RawRecord) -> Option<SequenceNumber> {
    record.sequence.as_deref()?.parse().ok()
}

/// Reads one shard page by page, again where it failed for a passing reason.
struct Reader<'r, C, T> {
    stream: &'r T,
    clock: &'r C,
    shard: &'r str,
    /// Where to begin where there is no iterator.
    start: ShardStart,
    next: Option<ShardIterator>,
}

impl<C: Clock, T: StreamSource> Reader<'_, C, T> {
    fn begin(&mut self, start: ShardStart) {
        (self.start, self.next) = (start, None);
    }

    async fn page(&mut self) -> Result<RecordPage, StreamError> {
        let mut attempt = 0;
        loop {
            let error = match self.attempt().await {
                Ok(page) => return Ok(page),
                Err(error) => error,
            };
            let passes = match error {
                StreamError::Throttled(_) | StreamError::Unavailable(_) | StreamError::ExpiredIterator => true,
                // The oldest record may go between the iterator and its first page.
                StreamError::Trimmed => self.start == ShardStart::TrimHorizon,
                StreamError::NoShard | StreamError::NoStream | StreamError::Refused(_) => false,
            };
            attempt += 1;
            if !passes || attempt >= Patience::SHORT.attempts_max {
                return Err(error);
            }
            self.next = None;
            Patience::SHORT.pause(self.clock, attempt - 1).await;
        }
    }

    async fn attempt(&mut self) -> Result<RecordPage, StreamError> {
        let iterator = match self.next.take() {
            Some(iterator) => iterator,
            None => self.stream.iterator(self.shard, &self.start).await?,
        };
        let page = self.stream.records(&iterator).await?;
        self.next.clone_from(&page.next);
        Ok(page)
    }
}

#[cfg(test)]
mod tests;
