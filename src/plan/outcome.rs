//! Reading a cancelled transaction's reasons: which items are whose fault.
//!
//! A cancelled transaction wrote nothing. What to do depends on the write that stood in the way: a ledger row's failed
//! condition means that someone was there first (read again and plan again), a conflict means wait, and anything else means
//! that the database will never do this write, so the items that need it must be told from those that do not.

use std::collections::BTreeSet;

use crate::plan::pack::{Owner, TxPlan};

/// Why a write of a cancelled transaction was not possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelReason {
    /// This write was fine; another one was not.
    None,
    ConditionFailed,
    Conflict,
    Throttled,
    Refused(String),
}

/// What a cancelled transaction says about its plan; deltas and writes by index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Their ledger row is not as it was read.
    pub preempted: BTreeSet<usize>,
    /// They need a write that the database refuses.
    pub refused: BTreeSet<usize>,
    /// The refused writes.
    pub refusals: Vec<Refusal>,
    /// Writes that met another transaction on the same item.
    pub conflicts: usize,
    /// Writes that were throttled.
    pub throttled: usize,
}

/// One write that will not be done, however often it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub write: usize,
    /// Something that is not ours stands at the key of a derived item.
    pub occupied: bool,
    pub reason: String,
}

/// Reads the reasons, one for each write of `plan`, in their order.
pub fn read(plan: &TxPlan, reasons: &[CancelReason]) -> Outcome {
    let mut outcome = Outcome::default();
    for (index, (owner, reason)) in plan.owners.iter().zip(reasons).enumerate() {
        let refusal = match (reason, owner) {
            (CancelReason::None, _) => continue,
            (CancelReason::Conflict, _) => {
                outcome.conflicts += 1;
                continue;
            }
            (CancelReason::Throttled, _) => {
                outcome.throttled += 1;
                continue;
            }
            (CancelReason::ConditionFailed, Owner::Ledger(delta)) => {
                outcome.preempted.insert(*delta);
                continue;
            }
            (CancelReason::ConditionFailed, _) => Refusal {
                write: index,
                occupied: true,
                reason: format!("another item stands at `{}`, where a derived item belongs", plan.writes[index].key),
            },
            (CancelReason::Refused(reason), _) => Refusal { write: index, occupied: false, reason: reason.clone() },
        };
        outcome.refused.extend(owner.deltas());
        outcome.refusals.push(refusal);
    }
    // Who was pre-empted is planned anew; whether it is refused shows then.
    outcome.refused.retain(|delta| !outcome.preempted.contains(delta));
    outcome
}
