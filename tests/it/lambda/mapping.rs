//! An event source mapping of our own: it reads a table's stream to its end while others write, and hands batches to functions that
//! may be killed at any moment. What becomes of a batch is said by the rules that the simulator's stories are played by.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{join, join_all};
use tablekeeper::adapters::dynamodb::{Connection, DynamoStream};
use tablekeeper::adapters::sim::mapping::{Batch, Rules, Said, lane, passes_filter, said};
use tablekeeper::engine::ports::{ShardStart, StreamSource};
use tablekeeper::model::change::RawRecord;

use super::function::{Failed, Function};
use super::wire;
use crate::random::Random;

/// Between two looks at a stream that has nothing new, or at a lane.
const POLL: Duration = Duration::from_millis(10);
/// A killed function had at most so long for its batch: about what one takes on a busy machine.
const KILLED_WITHIN: usize = 120;

/// How the mapping is set, and what befalls its functions.
pub struct Setting<'a> {
    pub binary: &'a str,
    pub endpoint: &'a str,
    /// `ParallelizationFactor`: as many functions, each with its own batches.
    pub lanes: usize,
    pub batch_max: usize,
    pub rules: Rules,
    /// Events of tumbling windows.
    pub windows: bool,
    /// One batch in so many has its function killed.
    pub one_killed_in: Option<usize>,
    pub seed: u64,
}

/// A record, and the same as an event has it.
struct Record {
    number: String,
    wire: String,
}

#[derive(Default)]
struct Lane {
    records: Vec<Record>,
    /// The lane's checkpoint.
    done_to: usize,
}

/// What it all came to.
#[derive(Debug, Default)]
pub struct Tally {
    pub records: usize,
    pub invocations: usize,
    pub kills: usize,
    pub halved: usize,
    pub partly_done: usize,
    /// Items that functions had applied already when they met their records: killed between a commit and the answer.
    pub met_again: u64,
    pub applied: u64,
    /// The destination: records as events have them.
    pub given_up: Vec<Vec<String>>,
}

pub struct Mapping<'a> {
    setting: Setting<'a>,
    lanes: Vec<Mutex<Lane>>,
    tally: Mutex<Tally>,
    ended: AtomicBool,
}

impl<'a> Mapping<'a> {
    pub fn new(setting: Setting<'a>) -> Mapping<'a> {
        let lanes = (0..setting.lanes).map(|_| Mutex::default()).collect();
        Mapping { setting, lanes, tally: Mutex::default(), ended: AtomicBool::new(false) }
    }

    /// Delivers until `written` is set and nothing is left.
    pub async fn run(self, connection: &Connection, table: &str, written: &AtomicBool) -> Tally {
        let lanes = (0..self.setting.lanes).map(|at| self.serve(at));
        join(self.read(connection, table, written), join_all(lanes)).await;
        self.tally.into_inner().unwrap()
    }

    fn lane(&self, at: usize) -> MutexGuard<'_, Lane> {
        self.lanes[at].lock().unwrap()
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap()
    }

    /// Deals the records of the stream's only shard out to the lanes.
    async fn read(&self, connection: &Connection, table: &str, written: &AtomicBool) {
        let stream = DynamoStream::of_table(connection, table).await.unwrap();
        let shards = stream.describe().await.unwrap().shards;
        assert_eq!(shards.len(), 1, "{shards:?}");
        let mut iterator = stream.iterator(&shards[0].id, &ShardStart::TrimHorizon).await.unwrap();
        loop {
            let at_rest = written.load(Ordering::SeqCst) && (0..self.lanes.len()).all(|at| self.lane(at).is_done());
            let page = stream.records(&iterator).await.unwrap();
            iterator = page.next.expect("the shard stays open");
            if page.records.is_empty() {
                if at_rest {
                    // Nobody was at work when this was asked: nothing can come any more.
                    return self.ended.store(true, Ordering::SeqCst);
                }
                tokio::time::sleep(POLL).await;
            }
            for record in page.records.iter().filter(|record| passes_filter(record)) {
                self.deal(record);
            }
        }
    }

    fn deal(&self, record: &RawRecord) {
        let Some(Ok(keys)) = &record.keys else { panic!("a record without keys: {record:?}") };
        let number = record.sequence.clone().expect("a number");
        self.tally().records += 1;
        self.lane(lane(keys, self.lanes.len())).records.push(Record { number, wire: wire::wire(record) });
    }

    /// One lane's batches, one after the other.
    async fn serve(&self, at: usize) {
        let mut random = Random::new(self.setting.seed * 100 + at as u64);
        let mut function = self.function().await;
        let mut again: VecDeque<Batch> = VecDeque::new();
        loop {
            let next = again.pop_front().or_else(|| self.lane(at).cut(self.setting.batch_max));
            let Some(batch) = next else {
                if self.ended.load(Ordering::SeqCst) {
                    break;
                }
                tokio::time::sleep(POLL).await;
                continue;
            };
            let (numbers, wires) = self.lane(at).copied(&batch);
            let reply = self.invoke(&mut function, &wires, &mut random).await;
            let said = match reply {
                Some(answer) => {
                    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
                    said(&answer, batch.places.start, &numbers)
                }
                None => Said::Failed,
            };
            let next = batch.after(said, self.setting.rules);
            let mut tally = self.tally();
            tally.halved += usize::from(next.again.len() > 1);
            tally.partly_done += usize::from(matches!(said, Said::FailedFrom(_)));
            if let Some(batch) = next.given_up {
                tally.given_up.push(self.lane(at).copied(&batch).1);
            }
            next.again.into_iter().rev().for_each(|batch| again.push_front(batch));
            // What is given up is done with as well, though halves after it are not.
            self.lane(at).done_to = again.front().map_or(next.done_to, |batch| batch.places.start);
        }
        self.end(function).await;
    }

    async fn function(&self) -> Function {
        Function::start(self.setting.binary, self.setting.endpoint).await
    }

    async fn end(&self, function: Function) {
        let log = function.kill().await;
        let mut tally = self.tally();
        tally.met_again += log.sum("already_applied");
        tally.applied += log.sum("applied");
    }

    /// `None`: an error, or nobody to answer.
    async fn invoke(&self, function: &mut Function, records: &[String], random: &mut Random) -> Option<String> {
        self.tally().invocations += 1;
        let state = r#"{"seen":"some"}"#;
        let event = if self.setting.windows { wire::windowed(records, state) } else { wire::event(records) };
        let killed = self.setting.one_killed_in.is_some_and(|many| random.one_in(many));
        let within = match killed {
            true => Duration::from_millis(random.below(KILLED_WITHIN) as u64),
            false => Duration::MAX,
        };
        let answer = tokio::time::timeout(within, function.invoke(&event)).await;
        if killed {
            // Also where it was faster: then it dies between two batches.
            let killed = std::mem::replace(function, self.function().await);
            self.end(killed).await;
            self.tally().kills += 1;
        }
        match answer {
            Ok(Ok(answer)) => {
                assert_eq!(answer.contains(state), self.setting.windows, "{answer}");
                Some(answer)
            }
            Ok(Err(Failed::Error(_))) | Err(_) => None,
            Ok(Err(Failed::Gone)) => panic!("a function ended by itself"),
        }
    }
}

impl Lane {
    fn is_done(&self) -> bool {
        self.done_to == self.records.len()
    }

    /// The next batch of what is new.
    fn cut(&self, most: usize) -> Option<Batch> {
        let end = self.records.len().min(self.done_to + most);
        (end > self.done_to).then(|| Batch::new(self.done_to..end))
    }

    /// Numbers of a batch's records, and these as events have them.
    fn copied(&self, batch: &Batch) -> (Vec<String>, Vec<String>) {
        self.records[batch.places.clone()].iter().map(|record| (record.number.clone(), record.wire.clone())).unzip()
    }
}
