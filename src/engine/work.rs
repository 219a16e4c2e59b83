//! One source item on its way through a commit: what is wished, what was found, how far it had to give way.
//!
//! Pure: it decides, and `commit` does the reading and writing.

use chrono::{DateTime, Utc};

use super::doubt::Doubt;
use crate::derive::{derive, derive_poison, without_sums};
use crate::model::change::SequenceNumber;
use crate::model::derived::{Derived, Measures};
use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, Text};
use crate::plan::delta::{Delta, diff, diff_beside_sums, hold, is_sum};
use crate::plan::ledger::{Applied, LedgerRow};
use crate::plan::origin::{Marks, Step, of_applied};

/// The finding of an item whose change the database refused.
const REFUSED_CODE: &str = "P903";

/// What is to become true of an item.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Wish {
    /// What a record says it derives; `None`: it was deleted.
    Record { sequence: SequenceNumber, derived: Option<Derived> },
    /// A record whose image cannot be decoded: all that is derived is a finding.
    Poison { sequence: SequenceNumber, derived: Derived, code: &'static str, reason: String },
    /// What the item derives when it is read; `sequence` is that of the record that could not say.
    Read { sequence: Option<SequenceNumber> },
    /// What the item derived when it was scanned, before its ledger row was read. Only where that agrees with the ledger
    /// may it be believed.
    Scanned { derived: Option<Derived> },
}

/// One of the records that led to what is wished.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Led {
    pub sequence: SequenceNumber,
    /// When the change was written.
    pub at: Option<DateTime<Utc>>,
    pub was: Was,
    /// Findings of the item after the change; `None`: the record does not say.
    pub is: Option<Marks>,
}

impl Led {
    fn step(&self) -> Step {
        let was = match &self.was {
            Was::Unknown => None,
            Was::Absent => Some(Marks::new()),
            Was::Deriving { applied, .. } => Some(of_applied(applied)),
        };
        let inserts = self.was == Was::Absent;
        Step { sequence: self.sequence.clone(), at: self.at, was, is: self.is.clone(), inserts }
    }
}

/// What an item was before a change, as its record says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Was {
    /// The record carries no old image.
    Unknown,
    Absent,
    Deriving {
        entity: Option<Text>,
        applied: Applied,
    },
}

impl Was {
    /// True unless the ledger row is known to say something else.
    fn agrees(&self, row: &LedgerRow) -> bool {
        match self {
            Was::Unknown => true,
            Was::Absent => row.deleted && row.applied.is_empty(),
            Was::Deriving { applied, .. } => !row.deleted && row.applied == *applied,
        }
    }
}

/// How far an item's data had to give way to what the database accepts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Everything that is derived.
    Full,
    /// Without sums and squares: the aggregate's would need more than 38 digits.
    WithoutSums(String),
    /// Likewise, and the sums that were applied before stay, because the aggregate's would need more than 38 digits without
    /// them; quarantined.
    BesideSums(String),
    /// Nothing but a finding that says why; quarantined.
    Poison(String),
    /// Left as it was applied before; quarantined.
    Hold(String),
}

/// How it ended for one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    Applied,
    AlreadyApplied,
    Reconciled,
    Quarantined,
    /// It turned out to be a derived item.
    Ours,
}

/// One item of a commit.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub key: TableKey,
    pub wish: Wish,
    /// The records that led there, in their order, the wished one included. None where they are not believed.
    pub steps: Vec<Led>,
    /// Position, in what the caller gave, of the first entry that this stands for.
    pub first: usize,
    /// When the change was written whose state is to be applied, as its record says.
    created: Option<DateTime<Utc>>,
    /// A transaction with it has been sent; its answer may have been lost.
    pub attempted: bool,
    pub finish: Option<Finish>,
    /// Marks of the findings that are applied with it.
    pub codes: Vec<String>,
    before: Option<LedgerRow>,
    derived: Option<Derived>,
    /// The number that the ledger row gets; `None` keeps its own.
    sequence: Option<SequenceNumber>,
    /// The item itself is what is derived from, not the record.
    is_read: bool,
    stage: Stage,
    /// A sum changes by more than one addition can say: first take the old one away, then add the new one.
    two_steps: bool,
}

impl Work {
    pub fn new(key: TableKey, wish: Wish, first: usize) -> Work {
        Work {
            key,
            wish,
            steps: Vec::new(),
            first,
            created: None,
            attempted: false,
            finish: None,
            codes: Vec::new(),
            before: None,
            derived: None,
            sequence: None,
            is_read: false,
            stage: Stage::Full,
            two_steps: false,
        }
    }

    /// The same, of a change that was written then, at the end of these records.
    pub fn led_by(self, steps: Vec<Led>, created: Option<DateTime<Utc>>) -> Work {
        Work { steps, created, ..self }
    }

    /// Takes in the ledger row as it is now and decides: true if the item itself must be read next.
    pub fn meet(&mut self, row: Option<LedgerRow>, doubt: &Doubt) -> bool {
        let sequence = match &self.wish {
            Wish::Record { sequence, .. } | Wish::Poison { sequence, .. } => Some(sequence.clone()),
            Wish::Read { sequence } => sequence.clone(),
            Wish::Scanned { .. } => None,
        };
        let known = row.as_ref().and_then(|row| row.sequence.as_ref());
        let is_past = sequence.as_ref().is_some_and(|sequence| known.is_some_and(|known| known >= sequence));
        if !is_past && doubt.covers(self.created) {
            // Later records of the item may be lost, so neither what this one says nor what it was before decides.
            if let Wish::Record { sequence, .. } | Wish::Poison { sequence, .. } = &self.wish {
                self.wish = Wish::Read { sequence: Some(sequence.clone()) };
            }
        }
        let says = |derived: Option<&Derived>| match (&row, derived) {
            (None, derived) => derived.is_none(),
            (Some(row), None) => row.deleted && row.applied.is_empty(),
            (Some(row), Some(derived)) => {
                !row.deleted && row.entity == derived.entity && row.applied == Applied::of(derived)
            }
        };
        if is_past && matches!(&self.wish, Wish::Poison { derived, .. } if !says(Some(derived))) {
            // The number may be that of a child shard and lie below the parent's, so it does not say that the verdict is applied, or
            // that something later is. Unlike the image the item can be read.
            self.wish = Wish::Read { sequence: sequence.clone() };
        }
        self.sequence = sequence.filter(|_| !is_past);
        let (done, read) = match &self.wish {
            Wish::Record { derived, .. } if is_past => {
                // An item that was given up is tried again: a number that is past says nothing about which state was refused.
                let agrees = says(derived.as_ref());
                (agrees, !agrees)
            }
            Wish::Poison { .. } if is_past => (true, false),
            Wish::Record { derived, .. } => {
                self.derived = derived.clone();
                // The first record that is new to the ledger must begin where the ledger ends. If it does not, something
                // lies between them (a lost record, a reconciliation, numbers that do not compare): the item decides.
                let new = self.steps.iter().find(|step| known.is_none_or(|known| step.sequence > *known));
                (false, new.zip(row.as_ref()).is_some_and(|(step, row)| !step.was.agrees(row)))
            }
            Wish::Poison { derived, .. } => {
                self.derived = Some(derived.clone());
                (false, false)
            }
            Wish::Read { .. } => (false, true),
            Wish::Scanned { derived } => {
                let agrees = says(derived.as_ref()) && row.as_ref().is_none_or(|row| row.quarantined.is_none());
                (agrees, !agrees)
            }
        };
        self.before = row;
        self.is_read = read;
        self.stage = Stage::Full;
        if done {
            self.finish = Some(self.finish_unwritten());
        }
        read
    }

    /// Takes in the item as it was read after the ledger row; `None`: it is gone.
    pub fn see(&mut self, model: &Model, item: Option<&Item>) {
        // Records that carry keys only do not say that they are ours; the item does.
        let is_ours = item.is_some_and(Item::is_ours);
        if is_ours && self.before.is_none() {
            self.finish = Some(Finish::Ours);
        }
        self.derived = item.filter(|_| !is_ours).map(|item| derive(model, &self.key, item));
    }

    /// What is to be committed; `None` if nothing is left to do, and then the work is finished.
    pub fn plan(&mut self, model: &Model, now: DateTime<Utc>) -> Option<Delta> {
        if self.finish.is_some() {
            return None;
        }
        let nothing_at_all = self.before.is_none() && self.derived.is_none() && self.sequence.is_none();
        let delta = self.delta(model, now);
        if nothing_at_all || delta.settled {
            self.finish = Some(self.finish_unwritten());
            return None;
        }
        Some(delta)
    }

    fn delta(&mut self, model: &Model, now: DateTime<Utc>) -> Delta {
        let before = self.before.as_ref();
        let sequence = self.sequence.as_ref();
        let (derived, quarantine) = match (&self.stage, &self.wish) {
            (Stage::Full, Wish::Poison { code, reason, .. }) => (self.derived.clone(), Some((*code, reason.clone()))),
            (Stage::Full, _) => (self.derived.clone(), None),
            (Stage::WithoutSums(reason), _) => (self.without_sums(model, reason), None),
            (Stage::BesideSums(reason), _) => (self.without_sums(model, reason), Some((REFUSED_CODE, reason.clone()))),
            (Stage::Poison(reason) | Stage::Hold(reason), _) => {
                let poison = derive_poison(model, &self.key, REFUSED_CODE, reason);
                (Some(poison), Some((REFUSED_CODE, reason.clone())))
            }
        };
        let difference = match (&self.stage, before) {
            (Stage::Hold(_), _) => Ok(hold(model, before, &self.key, self.derived.is_none(), sequence, now)),
            (Stage::BesideSums(_), Some(row)) => {
                diff_beside_sums(model, row, &self.key, derived.as_ref(), sequence, now)
            }
            _ => diff(model, before, &self.key, derived.as_ref(), sequence, now),
        };
        let delta = match difference {
            Ok(mut delta) => {
                if !matches!(self.stage, Stage::Hold(_)) {
                    delta.trace(before, derived.as_ref(), &self.new_steps(), !self.is_read);
                }
                delta
            }
            Err(wide) => {
                let reason = wide.to_string();
                // Once the old sum is away, the new one alone can be added: it was derived, so it is a number.
                self.two_steps = self.stage == Stage::Full;
                self.stage = if self.two_steps { Stage::WithoutSums(reason) } else { Stage::Hold(reason) };
                return self.delta(model, now);
            }
        };
        let findings = derived.iter().flat_map(|derived| &derived.findings);
        self.codes = findings.map(|finding| finding.code.clone()).collect();
        match (quarantine, &self.stage) {
            (Some((code, reason)), _) => delta.quarantine(before, code, &reason, now),
            (None, Stage::WithoutSums(reason)) => delta.without_sums(before, reason),
            (None, _) => delta,
        }
    }

    /// The records that are new to the ledger row.
    fn new_steps(&self) -> Vec<Step> {
        let known = self.before.as_ref().and_then(|row| row.sequence.as_ref());
        let is_new = |step: &&Led| self.sequence.is_some() && known.is_none_or(|known| step.sequence > *known);
        self.steps.iter().filter(is_new).map(Led::step).collect()
    }

    fn without_sums(&self, model: &Model, reason: &str) -> Option<Derived> {
        self.derived.as_ref().map(|derived| without_sums(model, &self.key, derived, reason))
    }

    /// The database refuses the item as planned: the next stage. False if there is none.
    pub fn give_way(&mut self, reason: &str, may_be_sum: bool) -> bool {
        let reason = reason.to_owned();
        let poisoned_already = matches!(self.wish, Wish::Poison { .. });
        self.two_steps = false;
        let has_sums = self.derived.as_ref().is_some_and(has_sums);
        let had_sums = self.before.as_ref().is_some_and(had_sums);
        self.stage = match &self.stage {
            Stage::Hold(_) => return false,
            Stage::Full if may_be_sum && has_sums => Stage::WithoutSums(reason),
            Stage::Full | Stage::WithoutSums(_) if may_be_sum && had_sums => Stage::BesideSums(reason),
            Stage::Poison(_) => Stage::Hold(reason),
            _ if self.derived.is_some() && !poisoned_already => Stage::Poison(reason),
            _ => Stage::Hold(reason),
        };
        true
    }

    /// How it ended, now that a transaction with it was committed; `None` if the second step is to come.
    pub fn committed(&mut self) -> Option<Finish> {
        if std::mem::take(&mut self.two_steps) {
            // The first step has moved the ledger on, so the second is planned like a reconciliation.
            self.wish = Wish::Read { sequence: None };
            return None;
        }
        Some(self.finish_written())
    }

    fn finish_written(&self) -> Finish {
        match (&self.wish, &self.sequence) {
            (Wish::Poison { .. }, _) => Finish::Quarantined,
            _ if self.is_given_up() => Finish::Quarantined,
            (_, Some(_)) => Finish::Applied,
            (_, None) => Finish::Reconciled,
        }
    }

    fn is_given_up(&self) -> bool {
        !matches!(self.stage, Stage::Full | Stage::WithoutSums(_))
    }

    /// Nothing was left to write. If a transaction had been sent before, that one has done it and only its answer was lost.
    fn finish_unwritten(&self) -> Finish {
        let by_lost_answer = self.attempted && self.stage == Stage::Full;
        match &self.wish {
            // It was tried once more, and the database still refuses it.
            _ if self.is_given_up() => Finish::Quarantined,
            Wish::Poison { .. } if by_lost_answer => Finish::Quarantined,
            Wish::Record { .. } if by_lost_answer => Finish::Applied,
            _ => Finish::AlreadyApplied,
        }
    }
}

fn has_sums(derived: &Derived) -> bool {
    derived.counts.iter().any(|count| any_sum(&count.measures))
}

fn had_sums(row: &LedgerRow) -> bool {
    row.applied.counts.iter().any(|count| any_sum(&count.measures))
}

fn any_sum(measures: &Measures) -> bool {
    measures.keys().any(|measure| is_sum(measure))
}
