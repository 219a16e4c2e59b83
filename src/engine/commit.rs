//! Committing: from what is wished for some source items to ledger rows and derived items that agree.
//!
//! The rounds of a commit: read the ledger rows, then (where the record cannot say) the items, plan, run the transactions.
//! Whoever was pre-empted goes into the next round and is read and planned anew; nobody's action is ever dropped from a
//! plan so that the rest may pass. That order matters: an item read BEFORE its ledger row may be older than the ledger.
//!
//! What the database refuses is isolated by halving and then given way to in stages (`work::Stage`), so that one
//! item can neither block the others nor leave a part of itself applied. What stays throttled or held by others through all attempts
//! is set aside, and the others go on without it: the commit fails at its end, and only that is left to be done.

use std::collections::{BTreeMap, VecDeque};

use chrono::{DateTime, Utc};

use super::batch::{BatchReport, Engine, GivenUp};
use super::doubt::{Doubt, READ_LIFE};
use super::patience::Patience;
use super::ports::{CancelReason, Clock, Store, StoreError, TransactError};
use super::work::{Finish, Work};
use crate::derive::rules;
use crate::model::key::TableKey;
use crate::model::value::Item;
use crate::plan::delta::Delta;
use crate::plan::ledger::{LedgerFault, LedgerRow};
use crate::plan::outcome::{self, Outcome, Refusal};
use crate::plan::pack::{Owner, TxPlan, pack};
use crate::plan::standing::Standing;
use crate::plan::state;
use crate::plan::write::{TableRef, Write};

/// How long a commit tries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// With one request.
    pub patience: Patience,
    /// Most rounds in which an item may be pre-empted by others.
    pub rounds_max: u32,
    /// The repair after a loss of records waits for commits of others that were under way before it, and looks again. Without
    /// it a worker that stood still meanwhile, and goes on in that moment, may leave an item wrong until its next change.
    pub second_look: bool,
}

impl Default for Settings {
    /// About 20 seconds of conflicts or outage before a batch is given back.
    fn default() -> Settings {
        Settings { patience: Patience { attempts_max: 10, ..Patience::SHORT }, rounds_max: 20, second_look: true }
    }
}

/// Why a commit was given up. What it had committed until then stays, whole items only.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CommitError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("other writers held the same items through {attempts} attempts; fewer writers at once, or later")]
    Contended { attempts: usize },
    #[error("other workers were first with `{key}` in {rounds} rounds; is one shard read by several workers?")]
    Preempted { key: Box<TableKey>, rounds: u32 },
    #[error(transparent)]
    Ledger(#[from] LedgerFault),
    /// Not even a row of the state table alone could be written.
    #[error("the database refuses a row of the state table, for `{key}`: {reason}")]
    Refused { key: Box<TableKey>, reason: String },
}

impl CommitError {
    /// True where the same batch may succeed later.
    pub fn can_retry(&self) -> bool {
        match self {
            CommitError::Store(error) => error.can_retry(),
            CommitError::Contended { .. } | CommitError::Preempted { .. } => true,
            CommitError::Ledger(_) | CommitError::Refused { .. } => false,
        }
    }

    /// The item that the message names.
    pub fn key(&self) -> Option<&TableKey> {
        match self {
            CommitError::Preempted { key, .. } | CommitError::Refused { key, .. } => Some(key),
            CommitError::Store(_) | CommitError::Contended { .. } | CommitError::Ledger(_) => None,
        }
    }
}

/// The items of one commit by source key.
pub(super) type Works = BTreeMap<TableKey, Work>;

/// Attempts with one request after some item was set aside: whatever is in its way may be in everybody's.
const ATTEMPTS_AFTER_MAX: u32 = 3;
/// Transactions that are held up before the rest is given up as well: where everything is contended, trying all of it would take longer
/// than a function has.
const HELD_UP_MAX: usize = 5;

/// What became of a plan.
enum Attempt {
    Committed,
    Cancelled(Outcome),
    Contended { attempts: usize, reasons: Vec<CancelReason> },
}

/// What became of a round's plans.
#[derive(Default)]
struct Round {
    /// Pre-empted; they go into the next round.
    again: Vec<TableKey>,
    held_up: HeldUp,
}

/// What was set aside.
#[derive(Default)]
struct HeldUp {
    transactions: usize,
    /// Why the last of them was.
    error: Option<CommitError>,
}

/// What became of a transaction.
enum Sent {
    Committed,
    /// Not sent: what it was planned on was read too long ago.
    Outdated,
    Cancelled(Vec<CancelReason>),
    /// Nothing but contention was in its way, to the last attempt.
    Contended {
        attempts: usize,
        reasons: Vec<CancelReason>,
    },
    Refused(String),
}

impl<S: Store, C: Clock> Engine<S, C> {
    /// Makes all wishes true. On an error the works without a finish are those that are not durable.
    pub(super) async fn commit(&self, works: &mut Works, report: &mut BatchReport) -> Result<(), CommitError> {
        let mut todo: Vec<TableKey> = works.keys().cloned().collect();
        let mut held_up = HeldUp::default();
        for round in 0..self.settings.rounds_max {
            if round > 0 && !todo.is_empty() {
                self.settings.patience.pause(&self.clock, round - 1).await;
            }
            let read_at = self.clock.now();
            let deltas = self.prepare(works, &todo, report).await?;
            let ran = self.run(works, deltas, read_at, std::mem::take(&mut held_up), report).await?;
            (todo, held_up) = (ran.again, ran.held_up);
            if todo.is_empty() {
                return held_up.error.map_or(Ok(()), Err);
            }
        }
        match todo.into_iter().next() {
            Some(key) => Err(CommitError::Preempted { key: Box::new(key), rounds: self.settings.rounds_max }),
            None => Ok(()),
        }
    }

    /// Reads the ledger rows, then the items that must be looked at, and plans what is still to be done.
    async fn prepare(
        &self,
        works: &mut Works,
        keys: &[TableKey],
        report: &mut BatchReport,
    ) -> Result<Vec<Delta>, CommitError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<TableKey> = keys.iter().map(LedgerRow::key).chain([state::doubt_key()]).collect();
        let mut rows = self.read(TableRef::State, &rows, report).await?;
        let doubt = Doubt::of(rows.pop().flatten().as_ref());
        report.ledger_reads += keys.len();
        let mut unseen = Vec::new();
        for (key, row) in keys.iter().zip(rows) {
            let row = row.as_ref().map(LedgerRow::from_item).transpose()?;
            if let Some(work) = works.get_mut(key)
                && work.meet(row, &doubt)
            {
                unseen.push(key.clone());
            }
        }
        let items = self.read(TableRef::Source, &unseen, report).await?;
        report.item_reads += unseen.len();
        for (key, item) in unseen.iter().zip(items) {
            if let Some(work) = works.get_mut(key) {
                work.see(&self.model, item.as_ref());
            }
        }
        let now = self.clock.now();
        let open = keys.iter().filter_map(|key| works.get_mut(key).and_then(|work| work.plan(&self.model, now)));
        Ok(open.collect())
    }

    /// Runs transactions until every delta is committed, given way to, pre-empted, or set aside. `read_at` is when the
    /// ledger rows were asked for, `held_up` what was set aside in earlier rounds.
    async fn run(
        &self,
        works: &mut Works,
        deltas: Vec<Delta>,
        read_at: DateTime<Utc>,
        held_up: HeldUp,
        report: &mut BatchReport,
    ) -> Result<Round, CommitError> {
        let mut standing = Standing::default();
        let mut round = Round { held_up, ..Round::default() };
        let mut queue = VecDeque::from(pack(&self.model, deltas, &standing, self.clock.now()));
        while let Some(plan) = queue.pop_front() {
            for delta in &plan.deltas {
                if let Some(work) = works.get_mut(delta.source()) {
                    work.attempted = true;
                }
            }
            let patience = self.patience(round.held_up.transactions > 0);
            let groups = match self.attempt(&plan, read_at, &patience, report).await? {
                Attempt::Committed => {
                    round.again.extend(settle(works, &plan, report));
                    continue;
                }
                Attempt::Contended { attempts, reasons } => {
                    let error = CommitError::Contended { attempts };
                    round.held_up.transactions += 1;
                    if round.held_up.transactions > HELD_UP_MAX {
                        return Err(error);
                    }
                    round.held_up.error = Some(error);
                    vec![outcome::uncontended(plan, &reasons)]
                }
                Attempt::Cancelled(outcome) => {
                    let news = self.look(&plan, &outcome, &mut standing, report).await?;
                    let (preempted, groups) = self.divide(works, plan, &outcome, news)?;
                    round.again.extend(preempted);
                    groups
                }
            };
            for deltas in groups.into_iter().rev() {
                for plan in pack(&self.model, deltas, &standing, self.clock.now()).into_iter().rev() {
                    queue.push_front(plan);
                }
            }
        }
        Ok(round)
    }

    fn patience(&self, held_up: bool) -> Patience {
        let mut patience = self.settings.patience.clone();
        if held_up {
            patience.attempts_max = patience.attempts_max.min(ATTEMPTS_AFTER_MAX);
        }
        patience
    }

    async fn attempt(
        &self,
        plan: &TxPlan,
        read_at: DateTime<Utc>,
        patience: &Patience,
        report: &mut BatchReport,
    ) -> Result<Attempt, CommitError> {
        Ok(match self.send(&plan.writes, Some(read_at), patience, report).await? {
            Sent::Committed => Attempt::Committed,
            Sent::Outdated => Attempt::Cancelled(Outcome::preempted_whole(plan)),
            Sent::Cancelled(reasons) => Attempt::Cancelled(outcome::read(plan, &reasons)),
            Sent::Contended { attempts, reasons } => Attempt::Contended { attempts, reasons },
            Sent::Refused(reason) => Attempt::Cancelled(Outcome::refused_whole(plan, &reason)),
        })
    }

    /// Writes rows of the state table that nothing depends on and that may be written twice.
    pub(super) async fn write_plain(&self, writes: &[Write], report: &mut BatchReport) -> Result<(), CommitError> {
        let reason = match self.send(writes, None, &self.settings.patience, report).await? {
            Sent::Committed | Sent::Outdated => return Ok(()),
            Sent::Contended { attempts, .. } => return Err(CommitError::Contended { attempts }),
            Sent::Cancelled(reasons) => format!("{reasons:?}"),
            Sent::Refused(reason) => reason,
        };
        match writes.first() {
            Some(write) => Err(CommitError::Refused { key: Box::new(write.key.clone()), reason }),
            None => Ok(()),
        }
    }

    /// Sends one transaction, again and again while only contention or an outage is in its way, and while what was read at
    /// `read_at` is not too old: who stood still in between must look again.
    async fn send(
        &self,
        writes: &[Write],
        read_at: Option<DateTime<Utc>>,
        patience: &Patience,
        report: &mut BatchReport,
    ) -> Result<Sent, CommitError> {
        let is_final =
            |reason: &CancelReason| matches!(reason, CancelReason::ConditionFailed | CancelReason::Refused(_));
        let mut attempts = 0;
        let request = || {
            attempts += 1;
            let is_outdated = read_at.is_some_and(|at| self.clock.now() - at > READ_LIFE);
            async move { if is_outdated { Err(None) } else { self.store.transact(writes).await.map_err(Some) } }
        };
        let can_retry = |error: &Option<TransactError>| match error {
            None => false,
            Some(TransactError::Store(error)) => error.can_retry(),
            Some(TransactError::Cancelled(reasons)) => {
                report.conflicts += reasons.iter().filter(|reason| **reason == CancelReason::Conflict).count();
                !reasons.iter().any(is_final)
            }
        };
        let sent = patience.repeat(&self.clock, request, can_retry).await;
        report.retries += attempts - 1;
        let Err(error) = sent else {
            report.transactions += 1;
            report.actions += writes.len();
            return Ok(Sent::Committed);
        };
        match error {
            None => Ok(Sent::Outdated),
            Some(TransactError::Cancelled(reasons)) if reasons.iter().any(is_final) => Ok(Sent::Cancelled(reasons)),
            Some(TransactError::Cancelled(reasons)) => Ok(Sent::Contended { attempts, reasons }),
            Some(TransactError::Store(StoreError::Refused(reason))) => Ok(Sent::Refused(reason)),
            Some(TransactError::Store(error)) => Err(error.into()),
        }
    }

    /// Looks at what stands at the keys where our own items were expected. True if that changes how the deltas are written.
    async fn look(
        &self,
        plan: &TxPlan,
        outcome: &Outcome,
        standing: &mut Standing,
        report: &mut BatchReport,
    ) -> Result<bool, CommitError> {
        let occupied = outcome.refusals.iter().filter(|refusal| refusal.occupied);
        let writes: Vec<&Write> = occupied.filter_map(|refusal| plan.writes.get(refusal.write)).collect();
        let keys: Vec<TableKey> = writes.iter().map(|write| write.key.clone()).collect();
        let items = self.read(TableRef::Source, &keys, report).await?;
        let mut news = false;
        for (write, item) in writes.into_iter().zip(items) {
            news |= standing.learn(&self.model, write, item.as_ref());
        }
        Ok(news)
    }

    /// Takes a cancelled plan apart: who was pre-empted, and the groups of deltas to be packed and sent again. Innocents go
    /// first; suspects are halved until one is alone, and that one gives way.
    fn divide(
        &self,
        works: &mut Works,
        plan: TxPlan,
        outcome: &Outcome,
        news: bool,
    ) -> Result<(Vec<TableKey>, Vec<Vec<Delta>>), CommitError> {
        let (mut preempted, mut innocent, mut suspects) = (Vec::new(), Vec::new(), Vec::new());
        let verdict = Verdict::of(&plan, outcome);
        for (index, delta) in plan.deltas.into_iter().enumerate() {
            if outcome.preempted.contains(&index) {
                preempted.push(delta.source().clone());
            } else if outcome.refused.contains(&index) && !news {
                suspects.push(delta);
            } else {
                innocent.push(delta);
            }
        }
        let mut groups = vec![innocent];
        if suspects.len() > 1 {
            let half = suspects.split_off(suspects.len() / 2);
            groups.extend([suspects, half]);
        } else if let Some(delta) = suspects.pop()
            && let Some(work) = works.get_mut(delta.source())
        {
            if !work.give_way(&verdict.reason, verdict.may_be_sum) {
                return Err(CommitError::Refused { key: Box::new(work.key.clone()), reason: verdict.reason });
            }
            groups.push(work.plan(&self.model, self.clock.now()).into_iter().collect());
        }
        groups.retain(|group| !group.is_empty());
        Ok((preempted, groups))
    }

    /// Reads items by key, again while the database cannot be reached.
    pub(super) async fn read(
        &self,
        table: TableRef,
        keys: &[TableKey],
        report: &mut BatchReport,
    ) -> Result<Vec<Option<Item>>, CommitError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut attempts = 0;
        let request = || {
            attempts += 1;
            self.store.get(table, keys)
        };
        let items = self.settings.patience.repeat(&self.clock, request, StoreError::can_retry).await;
        report.retries += attempts - 1;
        Ok(items?)
    }
}

/// What the refusals of a plan come to, should a single item be to blame.
struct Verdict {
    reason: String,
    /// Without its sums the item might be accepted.
    may_be_sum: bool,
}

impl Verdict {
    fn of(plan: &TxPlan, outcome: &Outcome) -> Verdict {
        // Sums hardly make a difference to the size.
        if let Some(reason) = outcome::too_large(plan).filter(|_| !outcome.refusals.is_empty()) {
            return Verdict { reason, may_be_sum: false };
        }
        let reasons: Vec<&str> = outcome.refusals.iter().map(|refusal| refusal.reason.as_str()).collect();
        let is_sum = |refusal: &Refusal| {
            !refusal.occupied && matches!(plan.owners.get(refusal.write), Some(Owner::Aggregate(_)) | None)
        };
        Verdict { reason: reasons.join("; "), may_be_sum: outcome.refusals.iter().any(is_sum) }
    }
}

/// Notes what has been committed; the keys that have a second step to make.
fn settle(works: &mut Works, plan: &TxPlan, report: &mut BatchReport) -> Vec<TableKey> {
    let mut again = Vec::new();
    for delta in &plan.deltas {
        let turnover = &delta.turnover;
        for (counts, marks) in
            [(&mut report.introduced, &turnover.introduced), (&mut report.resolved, &turnover.resolved)]
        {
            marks.iter().for_each(|mark| *counts.entry(mark.code.to_string()).or_default() += 1);
        }
        let Some(work) = works.get_mut(delta.source()) else { continue };
        match work.committed() {
            None => again.push(work.key.clone()),
            Some(finish) => {
                work.finish = Some(finish);
                for code in &work.codes {
                    *report.findings.entry(code.clone()).or_default() += 1;
                }
            }
        }
    }
    again
}

/// Adds the finishes of all works to the report.
pub(super) fn count(works: &Works, report: &mut BatchReport) {
    for work in works.values() {
        match work.finish {
            Some(Finish::Applied) => report.applied += 1,
            Some(Finish::AlreadyApplied) => report.already_applied += 1,
            Some(Finish::Reconciled) => report.reconciled += 1,
            Some(Finish::Quarantined) => {
                report.quarantined += 1;
                let code = work.codes.first().cloned().unwrap_or_default();
                report.given_up.push(GivenUp {
                    reason: rules::rule(&code).map_or_else(String::new, |rule| rule.name.to_owned()),
                    code,
                    key: Some(work.key.clone()),
                    sequence: None,
                    event_id: None,
                });
            }
            Some(Finish::Ours) => report.ours += 1,
            None => {}
        }
    }
}
