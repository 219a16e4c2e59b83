//! Reading a cancelled transaction's reasons: which items are whose fault.
//!
//! A cancelled transaction wrote nothing. What to do depends on the write that stood in the way: a ledger row's failed
//! condition means that someone was there first (read again and plan again), a conflict means wait, and anything else means
//! that the database will never do this write, so the items that need it must be told from those that do not.

use std::collections::BTreeSet;

use crate::model::value::ITEM_SIZE_MAX;
use crate::plan::delta::Delta;
use crate::plan::pack::{Owner, TxPlan};
use crate::plan::write::Op;

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
    /// Its index; out of range where the request as a whole was refused.
    pub write: usize,
    /// Something that is not ours stands at the key of a derived item.
    pub occupied: bool,
    pub reason: String,
}

/// Reads the reasons, one for each write of `plan`, in their order.
pub fn read(plan: &TxPlan, reasons: &[CancelReason]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut refusals = Vec::new();
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
        refusals.push(refusal);
    }
    // Who was pre-empted is planned anew; whether it is refused shows then. What stands in the way of it alone may be
    // there because someone was first.
    for refusal in refusals {
        let suspects = plan.owners[refusal.write].deltas().iter();
        let suspects: Vec<usize> = suspects.copied().filter(|delta| !outcome.preempted.contains(delta)).collect();
        if !suspects.is_empty() {
            outcome.refused.extend(suspects);
            outcome.refusals.push(refusal);
        }
    }
    outcome
}

/// The first item of the plan that is larger than DynamoDB stores, in words: a database that refuses it does not say which it is,
/// and who has to mend the cause does not know of ledger rows.
pub fn too_large(plan: &TxPlan) -> Option<String> {
    let writes = plan.writes.iter().zip(&plan.owners);
    writes.into_iter().find_map(|(write, owner)| {
        let Op::Put(item) = &write.op else { return None };
        let size = Some(item.size()).filter(|size| *size > ITEM_SIZE_MAX)?;
        let what = match owner {
            Owner::Ledger(_) => "its ledger row, which lists all that is derived from it,".to_owned(),
            _ => format!("the derived item at `{}`", write.key),
        };
        Some(format!(
            "{what} would have {size} bytes, DynamoDB stores {ITEM_SIZE_MAX}; let it derive fewer or shorter keys"
        ))
    })
}

impl Outcome {
    /// Others may have been first with all of it.
    pub fn preempted_whole(plan: &TxPlan) -> Outcome {
        Outcome { preempted: (0..plan.deltas.len()).collect(), ..Outcome::default() }
    }

    /// The database refused the request as a whole: everybody is suspect, and no write in particular.
    pub fn refused_whole(plan: &TxPlan, reason: &str) -> Outcome {
        Outcome {
            refused: (0..plan.deltas.len()).collect(),
            refusals: vec![Refusal { write: usize::MAX, occupied: false, reason: reason.to_owned() }],
            ..Outcome::default()
        }
    }
}

/// The deltas of a plan that needed none of the writes that were throttled or held by other transactions. Where the reasons name
/// no write at all, nobody is known to be one of them.
pub fn uncontended(plan: TxPlan, reasons: &[CancelReason]) -> Vec<Delta> {
    let contended: Vec<&Owner> = plan
        .owners
        .iter()
        .zip(reasons)
        .filter(|(_, reason)| **reason != CancelReason::None)
        .map(|(owner, _)| owner)
        .collect();
    if contended.is_empty() {
        return Vec::new();
    }
    let held: BTreeSet<usize> = contended.iter().flat_map(|owner| owner.deltas()).copied().collect();
    plan.deltas.into_iter().enumerate().filter(|(index, _)| !held.contains(index)).map(|(_, delta)| delta).collect()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::model::key::TableKey;
    use crate::plan::delta::diff;
    use crate::plan::pack::pack;
    use crate::plan::standing::Standing;
    use crate::plan::testing::{contribution, derived, listing, model};

    /// Two items of one group, the second with a row: ledger, ledger, row, aggregate.
    fn plan() -> TxPlan {
        let stats = TableKey::text("P", "STATS");
        let delta = |n: usize, rows| -> Delta {
            let derived = derived(vec![contribution("by_project", &stats, &[("Total", "1")])], rows);
            let now = DateTime::UNIX_EPOCH;
            diff(&model(), None, &TableKey::text(format!("JOB#{n}"), "U"), Some(&derived), None, now).unwrap()
        };
        let row = listing("jobs", &TableKey::text("JOBS", "2"), "x");
        let deltas = vec![delta(1, vec![]), delta(2, vec![row])];
        pack(&model(), deltas, &Standing::default(), DateTime::UNIX_EPOCH).remove(0)
    }

    #[test]
    fn each_reason_is_laid_at_the_right_door() {
        use CancelReason::{ConditionFailed, Conflict, None, Refused, Throttled};
        let plan = plan();
        assert_eq!(plan.owners, [Owner::Ledger(0), Owner::Ledger(1), Owner::Row(1), Owner::Aggregate(vec![0, 1])]);
        let first = read(&plan, &[ConditionFailed, None, None, None]);
        assert_eq!((first.preempted, first.refused.len()), ([0].into(), 0));
        let row = read(&plan, &[None, None, ConditionFailed, None]);
        assert_eq!((&row.refused, row.refusals[0].occupied, row.refusals[0].write), (&[1].into(), true, 2));
        let sum = read(&plan, &[None, None, None, Refused("overflow".to_owned())]);
        assert_eq!((&sum.refused, sum.refusals[0].occupied), (&[0, 1].into(), false));
        let both = read(&plan, &[ConditionFailed, None, None, Refused("overflow".to_owned())]);
        assert_eq!((both.preempted, both.refused), ([0].into(), [1].into()));
        let moved = read(&plan, &[None, ConditionFailed, ConditionFailed, None]);
        assert_eq!((moved.preempted, moved.refusals.len()), ([1].into(), 0), "its row is not where it was, of course");
        let busy = read(&plan, &[None, Conflict, Throttled, Conflict]);
        assert_eq!((busy.conflicts, busy.throttled, busy.refused.len(), busy.preempted.len()), (2, 1, 0, 0));
        assert_eq!(Outcome::refused_whole(&plan, "too large").refused, [0, 1].into());
    }

    #[test]
    fn who_needs_nothing_that_is_held_can_go_on() {
        use CancelReason::{Conflict, None, Throttled};
        let left = |reasons: [CancelReason; 4]| {
            let left = uncontended(plan(), &reasons);
            left.iter().map(|delta| delta.source().to_string()).collect::<Vec<_>>()
        };
        let (first, second) = ("JOB#1 / U", "JOB#2 / U");
        assert_eq!(left([Throttled, None, None, None]), [second]);
        assert_eq!(left([None, None, Conflict, None]), [first]);
        assert_eq!(left([None, None, None, Throttled]), [""; 0], "both need the aggregate");
        assert_eq!(left([None, None, None, None]), [""; 0]);
    }
}
