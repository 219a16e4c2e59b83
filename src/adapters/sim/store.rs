//! The two tables behind the `Store` port, and the source table's stream of changes.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::executor::yield_now;
use super::table::SimTable;
use crate::engine::ports::{CancelReason, Page, SortRange, Store, StoreError, TransactError};
use crate::model::change::RawRecord;
use crate::model::key::TableKey;
use crate::model::spec::Table;
use crate::model::value::{Item, Value};
use crate::plan::write::{ACTIONS_MAX, Condition, Op, TRANSACTION_SIZE_MAX, TableRef, Write};

/// Items in a page of a query or scan, few so that paging is always exercised.
const PAGE_ITEMS: usize = 7;
/// The first sequence number: so low that growing numbers soon grow by a digit, which catches comparisons as text.
const FIRST_SEQUENCE: u64 = 95;

/// Something that goes wrong with the next request of its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The next transaction fails so, and writes nothing.
    Transact(TransactError),
    /// The next transaction is committed, and its answer is lost.
    LoseAnswer,
    /// A write of the next transaction, counted around, meets a conflict; nothing is written.
    Conflict(usize),
    /// The next read fails so.
    Read(StoreError),
}

/// What the stream's records carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamView {
    #[default]
    NewAndOldImages,
    NewImage,
    KeysOnly,
}

/// One thing that changed the tables.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// The application put an item, or removed it; `record` is the position of its record in the stream.
    Application { key: TableKey, item: Option<Item>, record: usize },
    /// A transaction was committed.
    Commit(Vec<Write>),
    /// Somebody edited a derived item by hand, or took it away.
    Hand { key: TableKey, before: Option<Item>, after: Option<Item> },
}

/// What has been asked of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Transactions that were committed.
    pub commits: usize,
    /// Actions in them.
    pub actions: usize,
    /// Transactions that were not.
    pub failures: usize,
    /// Items asked for by key.
    pub reads: usize,
}

/// The store. Clones are handles to the same tables.
#[derive(Debug, Clone)]
pub struct SimStore {
    world: Arc<Mutex<World>>,
}

#[derive(Debug)]
struct World {
    source: SimTable,
    state: SimTable,
    view: StreamView,
    records: Vec<RawRecord>,
    next_sequence: u64,
    transact_faults: VecDeque<Fault>,
    read_faults: VecDeque<StoreError>,
    counters: Counters,
    /// `None`: nobody asked for it.
    history: Option<Vec<Happening>>,
}

impl SimStore {
    /// Two empty tables, the one with the given key schema.
    pub fn new(table: &Table) -> SimStore {
        SimStore {
            world: Arc::new(Mutex::new(World {
                source: SimTable::source(table),
                state: SimTable::state(),
                view: StreamView::default(),
                records: Vec::new(),
                next_sequence: FIRST_SEQUENCE,
                transact_faults: VecDeque::new(),
                read_faults: VecDeque::new(),
                counters: Counters::default(),
                history: None,
            })),
        }
    }

    /// From now on all that changes the tables is remembered, but for [`SimStore::set_state`].
    pub fn remember(&self) {
        self.lock().history = Some(Vec::new());
    }

    /// What has changed the tables since the last call.
    pub fn happenings(&self) -> Vec<Happening> {
        self.lock().history.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Changes what records carry from now on.
    pub fn set_view(&self, view: StreamView) {
        self.lock().view = view;
    }

    /// The application puts an item. Fails as DynamoDB would.
    pub fn put(&self, item: Item) -> Result<(), StoreError> {
        let mut world = self.lock();
        let key = TableKey::of(&item, &world.source.names)
            .ok_or_else(|| refused("one of the required keys was not given a value"))?;
        let op = Op::Put(item.clone().into());
        let write = Write { table: TableRef::Source, key, op, condition: Condition::Always };
        world.source.check_write(&write).map_err(|reason| refused(&reason))?;
        world.application(&write.key, Some(item), None);
        Ok(())
    }

    /// The application deletes an item.
    pub fn delete(&self, key: &TableKey) {
        self.lock().application(key, None, None);
    }

    /// Time to live deletes an item.
    pub fn expire(&self, key: &TableKey) {
        self.lock().application(key, None, Some("dynamodb.amazonaws.com"));
    }

    /// Somebody puts a derived item as it is not meant to be, or takes it away.
    pub fn edit(&self, key: &TableKey, item: Option<Item>) {
        let mut world = self.lock();
        let (key, before, after) = (key.clone(), world.source.get(key).cloned(), item.clone());
        world.write_source(&key, item, None);
        if let Some(history) = &mut world.history {
            history.push(Happening::Hand { key, before, after });
        }
    }

    /// Puts or removes a row of the state table, past all conditions: for damage and for time to live.
    pub fn set_state(&self, key: &TableKey, row: Option<Item>) {
        self.lock().state.set(key, row);
    }

    /// From now on sequence numbers are low again: nothing promises that a child shard's are above its parent's.
    pub fn restart_numbers(&self) {
        self.lock().next_sequence = 1;
    }

    /// Lets something go wrong; faults of one kind happen in the order given.
    pub fn inject(&self, fault: Fault) {
        let mut world = self.lock();
        match fault {
            Fault::Read(error) => world.read_faults.push_back(error),
            fault => world.transact_faults.push_back(fault),
        }
    }

    /// Forgets the faults that have not happened.
    pub fn heal(&self) {
        let mut world = self.lock();
        world.transact_faults.clear();
        world.read_faults.clear();
    }

    /// All records of the stream from the `from`-th on, those of our own writes included.
    pub fn records(&self, from: usize) -> Vec<RawRecord> {
        self.lock().records.iter().skip(from).cloned().collect()
    }

    pub fn counters(&self) -> Counters {
        self.lock().counters
    }

    /// A copy of a table.
    pub fn table(&self, table: TableRef) -> SimTable {
        self.lock().table(table).clone()
    }

    /// One item of a table.
    pub fn item(&self, table: TableRef, key: &TableKey) -> Option<Item> {
        self.lock().table(table).get(key).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, count: usize, read: impl FnOnce(&World) -> T) -> Result<T, StoreError> {
        let mut world = self.lock();
        if let Some(error) = world.read_faults.pop_front() {
            return Err(error);
        }
        world.counters.reads += count;
        Ok(read(&world))
    }
}

impl World {
    fn table(&self, table: TableRef) -> &SimTable {
        match table {
            TableRef::Source => &self.source,
            TableRef::State => &self.state,
        }
    }

    fn application(&mut self, key: &TableKey, item: Option<Item>, principal: Option<&str>) {
        if let Some(history) = &mut self.history
            && self.source.get(key) != item.as_ref()
        {
            let record = self.records.len();
            history.push(Happening::Application { key: key.clone(), item: item.clone(), record });
        }
        self.write_source(key, item, principal);
    }

    /// Changes the source table and appends the record; a write that changes nothing has none.
    fn write_source(&mut self, key: &TableKey, item: Option<Item>, principal: Option<&str>) {
        let old = self.source.set(key, item.clone());
        if old == item {
            return;
        }
        let event = match (&old, &item) {
            (None, _) => "INSERT",
            (_, Some(_)) => "MODIFY",
            (_, None) => "REMOVE",
        };
        let (with_new, with_old) = match self.view {
            StreamView::NewAndOldImages => (true, true),
            StreamView::NewImage => (true, false),
            StreamView::KeysOnly => (false, false),
        };
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.records.push(RawRecord {
            event_name: Some(event.to_owned()),
            event_id: Some(format!("event-{}", self.records.len() + 1)),
            sequence: Some(sequence.to_string()),
            keys: Some(Ok(key.to_item(&self.source.names))),
            new_image: item.filter(|_| with_new).map(Ok),
            old_image: old.filter(|_| with_old).map(Ok),
            created_at: None,
            principal: principal.map(str::to_owned),
        });
    }

    fn transact(&mut self, writes: &[Write], fault: Option<Fault>) -> Result<(), TransactError> {
        // A transaction of nothing is nothing.
        if writes.is_empty() {
            return Ok(());
        }
        match fault {
            Some(Fault::Transact(error)) => return Err(error),
            Some(Fault::Conflict(index)) => {
                let mut reasons = vec![CancelReason::None; writes.len()];
                reasons[index % writes.len()] = CancelReason::Conflict;
                return Err(TransactError::Cancelled(reasons));
            }
            _ => {}
        }
        self.check_request(writes).map_err(|reason| refused(&reason))?;
        let results: Vec<_> = writes.iter().map(|write| self.evaluate(write)).collect();
        if results.iter().any(Result::is_err) {
            let reasons = results.into_iter().map(|result| result.err().unwrap_or(CancelReason::None));
            return Err(TransactError::Cancelled(reasons.collect()));
        }
        for (write, item) in writes.iter().zip(results.into_iter().flatten()) {
            match write.table {
                TableRef::Source => self.write_source(&write.key, item, None),
                TableRef::State => {
                    self.state.set(&write.key, item);
                }
            }
        }
        self.counters.commits += 1;
        self.counters.actions += writes.len();
        if let Some(history) = &mut self.history {
            history.push(Happening::Commit(writes.to_vec()));
        }
        match fault {
            Some(Fault::LoseAnswer) => Err(StoreError::Unavailable("the answer was lost".to_owned()).into()),
            _ => Ok(()),
        }
    }

    /// What DynamoDB checks before it looks at the tables.
    fn check_request(&self, writes: &[Write]) -> Result<(), String> {
        if writes.len() > ACTIONS_MAX {
            return Err(format!("{} actions; a transaction has at most {ACTIONS_MAX}", writes.len()));
        }
        let mut keys = BTreeSet::new();
        if !writes.iter().all(|write| keys.insert((write.table, &write.key))) {
            return Err("a transaction cannot include multiple operations on one item".to_owned());
        }
        let size: usize = writes.iter().map(Write::size).sum();
        if size > TRANSACTION_SIZE_MAX {
            return Err(format!("{size} bytes; a transaction has at most {TRANSACTION_SIZE_MAX}"));
        }
        writes.iter().try_for_each(|write| self.table(write.table).check_write(write))
    }

    fn evaluate(&self, write: &Write) -> Result<Option<Item>, CancelReason> {
        let table = self.table(write.table);
        if !table.condition_holds(write) {
            return Err(CancelReason::ConditionFailed);
        }
        table.evaluate(write).map_err(CancelReason::Refused)
    }
}

fn refused(reason: &str) -> StoreError {
    StoreError::Refused(reason.to_owned())
}

impl Store for SimStore {
    async fn get(&self, table: TableRef, keys: &[TableKey]) -> Result<Vec<Option<Item>>, StoreError> {
        yield_now().await;
        let found = self.read(keys.len(), |world| {
            let table = world.table(table);
            keys.iter()
                .map(|key| table.check_key(key).map(|()| table.get(key).cloned()))
                .collect::<Result<Vec<_>, String>>()
        })?;
        yield_now().await;
        found.map_err(StoreError::Refused)
    }

    async fn transact(&self, writes: &[Write]) -> Result<(), TransactError> {
        yield_now().await;
        let result = self.commit(writes, None);
        yield_now().await;
        result
    }

    async fn query(
        &self,
        table: TableRef,
        partition: &Value,
        range: SortRange,
        start: Option<TableKey>,
    ) -> Result<Page, StoreError> {
        yield_now().await;
        self.read(0, |world| world.table(table).query(partition, &range, start.as_ref(), PAGE_ITEMS))
    }

    async fn scan(&self, table: TableRef, segment: (u32, u32), start: Option<TableKey>) -> Result<Page, StoreError> {
        yield_now().await;
        self.read(0, |world| world.table(table).scan(segment, start.as_ref(), PAGE_ITEMS))
    }
}

impl SimStore {
    /// A transaction that this goes wrong with, or what is injected next.
    pub(super) fn commit(&self, writes: &[Write], fault: Option<Fault>) -> Result<(), TransactError> {
        let mut world = self.lock();
        let fault = fault.or_else(|| world.transact_faults.pop_front());
        let commits = world.counters.commits;
        let result = world.transact(writes, fault);
        world.counters.failures += usize::from(world.counters.commits == commits);
        result
    }
}
