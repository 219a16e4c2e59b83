//! Who stands where a derived item belongs.
//!
//! Every write of a derived item has the condition that nothing or a derived item of that name is there, so that no item
//! of the application is ever overwritten. Where the condition fails, three things may be the matter: the application put an
//! item there, the model's owner renamed the aggregate or listing, or another worker was there first. Entries and findings
//! belong to one source item each, and the condition names it too: where a listing's key has changed, the entry of an item
//! that has not been looked at since may stand where another one's belongs.

use std::collections::BTreeMap;

use crate::model::key::TableKey;
use crate::model::spec::Model;
use crate::model::value::{Item, MARKER, SOURCE, Text, Value};
use crate::plan::write::{Condition, Op, Write};

/// What was found to stand at keys of derived items, where it is not what the ledger led to expect there.
///
/// Read after the database refused a write on account of the marker; [`pack`](crate::plan::pack::pack) then writes accordingly. It is true of the
/// ledger rows as they were read, so whoever reads those again begins with an empty one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing(BTreeMap<TableKey, Found>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    /// A derived item of ours with this marker, be it of a thing that the model no longer declares: it is taken over. An
    /// aggregate's item stays the same one under whatever name: ledger rows count on its key.
    Ours { marker: Text, source: Option<Value> },
    /// An item of the application, of another thing that the model declares, or an entry of another source item: it is left
    /// alone. Nothing can be taken away there, for nothing of ours is left.
    Taken,
}

impl Standing {
    /// Remembers the item read at the key of a write that was refused. True if the write may fare better now.
    pub fn learn(&mut self, model: &Model, refused: &Write, item: Option<&Item>) -> bool {
        // It went away meanwhile.
        let Some(item) = item else {
            self.0.remove(&refused.key);
            return true;
        };
        let (marker, source) = (item.text(MARKER), item.get(SOURCE));
        // A finding's key holds the digest of its source item, which its attribute may tell or hide.
        let is_anothers = !marker.is_some_and(is_finding)
            && source.is_some_and(|source| own_source(refused).is_some_and(|own| own != source));
        let found = match marker {
            Some(marker)
                if !is_anothers
                    && (own_marker(refused) == Some(marker)
                        || !is_declared(model, marker)
                        || are_aggregates(refused, marker)) =>
            {
                Found::Ours { marker: marker.into(), source: source.cloned() }
            }
            _ => Found::Taken,
        };
        self.0.insert(refused.key.clone(), found.clone()) != Some(found)
    }

    /// True if what stands at the key is not ours.
    pub fn is_taken(&self, key: &TableKey) -> bool {
        self.0.get(key) == Some(&Found::Taken)
    }

    /// The marker of the derived item that was found at the key.
    pub fn marker(&self, key: &TableKey) -> Option<&str> {
        match self.0.get(key) {
            Some(Found::Ours { marker, .. }) => Some(marker),
            _ => None,
        }
    }

    /// The condition on which an entry or finding of the source item may be written or taken away.
    pub fn row_condition(&self, key: &TableKey, expected: Text, source: Value) -> Condition {
        let (marker, source) = match self.0.get(key) {
            Some(Found::Ours { marker, source }) => (marker.clone(), source.clone()),
            _ => (expected, Some(source)),
        };
        let source = source.filter(|_| !is_finding(&marker));
        let source = source.map(|source| (SOURCE.into(), source));
        Condition::AbsentOrAll(std::iter::once((MARKER.into(), Value::S(marker))).chain(source).collect())
    }

    /// The condition on which an aggregate's item at the key may be written.
    pub fn condition(&self, key: &TableKey, expected: Text) -> Condition {
        let marker = self.marker(key).map_or(expected, Text::from);
        Condition::AbsentOrEquals(MARKER.into(), Value::S(marker))
    }
}

fn is_finding(marker: &str) -> bool {
    marker.starts_with("finding/")
}

/// The marker of the thing that a write is for.
fn own_marker(write: &Write) -> Option<&str> {
    match (&write.op, &write.condition) {
        (Op::Put(item), _) => item.text(MARKER),
        (Op::Update { set, .. }, _) => set.text(MARKER),
        (_, Condition::AbsentOrEquals(_, marker)) => marker.as_text(),
        (_, Condition::AbsentOrAll(all)) => all.iter().find(|(name, _)| name == MARKER)?.1.as_text(),
        _ => None,
    }
}

/// The source item whose entry or finding it is; `None` for aggregates.
fn own_source(write: &Write) -> Option<&Value> {
    match (&write.op, &write.condition) {
        (Op::Put(item), _) => item.get(SOURCE),
        (_, Condition::AbsentOrAll(all)) => Some(&all.iter().find(|(name, _)| name == SOURCE)?.1),
        _ => None,
    }
}

fn are_aggregates(write: &Write, marker: &str) -> bool {
    matches!(write.op, Op::Update { .. }) && marker.starts_with("aggregate/")
}

fn is_declared(model: &Model, marker: &str) -> bool {
    match marker.split_once('/') {
        Some(("aggregate", name)) => name == "findings" || model.aggregate(name).is_some(),
        Some(("listing", name)) => model.listings.iter().any(|listing| listing.name == name),
        Some(("expiry", name)) => model.expiries.iter().any(|expiry| expiry.name == name),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::plan::delta::{Delta, diff};
    use crate::plan::pack::pack;
    use crate::plan::testing::{contribution, derived, listing, model};

    #[test]
    fn taken_places_are_left_alone_and_outdated_ones_taken_over() {
        let model = model();
        let now = DateTime::UNIX_EPOCH;
        let count = contribution("by_project", &TableKey::text("P", "STATS"), &[("Total", "1")]);
        let wanted = derived(vec![count], vec![listing("jobs", &TableKey::text("JOBS", "1"), "x")]);
        let put = diff(&model, None, &TableKey::text("JOB#1", "U"), Some(&wanted), None, now).unwrap();
        let gone = diff(&model, Some(&put.after), put.source(), None, None, now).unwrap();
        let mut standing = Standing::default();
        let marked = |marker: &str| Item::new().with(MARKER, Value::text(marker));
        let plan =
            |delta: &Delta, standing: &Standing| pack(&model, vec![delta.clone()], standing, now).remove(0).writes;
        let [_, row, aggregate] = <[Write; 3]>::try_from(plan(&gone, &standing)).unwrap();
        assert!(standing.learn(&model, &row, Some(&Item::new())));
        assert!(!standing.learn(&model, &row, Some(&Item::new())), "the same again is no news");
        assert!(standing.learn(&model, &aggregate, Some(&marked("aggregate/former"))));
        let writes = plan(&gone, &standing);
        assert_eq!(writes.len(), 2, "ledger and aggregate; the row that is not ours is not deleted");
        let former = Condition::AbsentOrEquals(MARKER.into(), Value::text("aggregate/former"));
        assert_eq!(writes[1].condition, former);

        assert!(standing.learn(&model, &aggregate, Some(&marked("aggregate/by_user"))), "renamed to another's name");
        let renamed = Condition::AbsentOrEquals(MARKER.into(), Value::text("aggregate/by_user"));
        let written = |delta: &Delta, standing: &Standing| {
            let write = plan(delta, standing).into_iter().find(|write| write.key == aggregate.key).unwrap();
            let Op::Update { set, .. } = write.op else { panic!("{write:?}") };
            assert_eq!(write.condition, renamed);
            set.text(MARKER).unwrap().to_owned()
        };
        assert_eq!(written(&gone, &standing), "aggregate/by_user", "who only takes away leaves the name");
        assert_eq!(written(&put, &standing), "aggregate/by_project", "who belongs there writes it");

        assert!(standing.learn(&model, &aggregate, Some(&marked("listing/jobs_by_hours"))), "another declared one's");
        assert_eq!(plan(&gone, &standing).len(), 1, "nothing of ours is left to subtract from");
        assert_eq!(plan(&put, &standing).len(), 3, "to be refused by the database");

        assert!(
            standing.learn(&model, &aggregate, Some(&marked("aggregate/by_project"))),
            "it is as expected after all"
        );
        assert!(standing.learn(&model, &row, None), "and what was there is gone");
        assert_eq!(plan(&gone, &standing), plan(&gone, &Standing::default()));
    }
}
