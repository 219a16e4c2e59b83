//! The records in the order of their keys, judged.

use std::collections::{BTreeMap, BTreeSet};

use crate::derive::findings::Findings;
use crate::derive::references::{Held, place};
use crate::derive::rules::{x501, x502, x503};
use crate::model::derived::Finding;
use crate::model::key::TableKey;
use crate::model::rule::Rule;
use crate::model::spec::Reference;
use crate::model::value::Text;

use super::lens::Lens;
use super::record::{Place, Record, What, Who};
use super::{Sight, Tally};

pub(super) struct Judge<'m, F> {
    lens: Lens<'m>,
    sight: Sight,
    /// Of which an item was seen.
    entities: BTreeSet<usize>,
    each: F,
    tallies: BTreeMap<(&'static str, usize), Tally>,
    /// The last key of which an item was there.
    there: Option<There>,
}

/// What is there under one key: one item, or several under a partition key alone.
struct There {
    key: TableKey,
    who: BTreeSet<Who>,
    held: Vec<Option<Held>>,
}

enum Verdict {
    Pass,
    Fail,
    Undecidable,
}

/// Who names what, and where.
struct Naming<'r> {
    at: Place,
    by: &'r TableKey,
    other: &'r TableKey,
}

impl<'m, F: FnMut(Finding)> Judge<'m, F> {
    pub fn new(lens: Lens<'m>, sight: Sight, entities: BTreeSet<usize>, each: F) -> Judge<'m, F> {
        Judge { lens, sight, entities, each, tallies: BTreeMap::new(), there: None }
    }

    /// Takes the next record; they come sorted.
    pub fn take(&mut self, Record { key, what }: Record) {
        match what {
            What::Is(who, held) => match &mut self.there {
                Some(there) if there.key == key => drop(there.who.insert(who)),
                there => *there = Some(There { key, who: BTreeSet::from([who]), held }),
            },
            What::Lacks(at) => {
                self.count(&x501::RULE, at, Verdict::Fail, 1);
                self.find(at, &key, x501::names_nothing);
            }
            What::Unknown(at) => self.count(&x501::RULE, at, Verdict::Undecidable, 1),
            What::Named { at, by, copies } => {
                let there = self.there.take_if(|there| there.key == key);
                self.judge(&Naming { at, by: &by, other: &key }, there.as_ref(), &copies);
                self.there = there.or(self.there.take());
            }
        }
    }

    pub fn tallies(self) -> Vec<Tally> {
        self.tallies.into_values().collect()
    }

    fn judge(&mut self, naming: &Naming<'_>, there: Option<&There>, copies: &[(usize, Text, Held)]) {
        let (at, other) = (naming.at, naming.other);
        let Some((_, reference)) = self.lens.of(at) else { return };
        let is_allowed = |who: &Who| matches!(who, Who::One(number) if self.is_to(reference, *number));
        let by_partition = self.lens.is_by_partition(reference);
        // Under a partition key alone there may be anything beside what is asked for.
        let there = there.filter(|there| !by_partition || there.who.iter().any(is_allowed));
        let Some(there) = there else {
            if !self.is_in_sight(reference) {
                self.count(&x501::RULE, at, Verdict::Undecidable, 1);
                self.count(&x503::RULE, at, Verdict::Undecidable, u64::from(!by_partition));
                return self.count(&x502::RULE, at, Verdict::Undecidable, copies.len() as u64);
            }
            self.count(&x501::RULE, at, Verdict::Fail, 1);
            return self.find(at, naming.by, |reference, at, findings| x501::found(reference, at, other, findings));
        };
        self.count(&x501::RULE, at, Verdict::Pass, 1);
        if by_partition {
            return;
        }
        match there.who.first() {
            Some(Who::One(number)) if self.is_to(reference, *number) => {
                self.count(&x503::RULE, at, Verdict::Pass, 1);
                self.compare(naming, *number, &there.held, copies);
            }
            Some(Who::Several) => {
                self.count(&x503::RULE, at, Verdict::Undecidable, 1);
                self.count(&x502::RULE, at, Verdict::Undecidable, copies.len() as u64);
            }
            who => {
                let number = who.and_then(|who| if let Who::One(number) = who { Some(*number) } else { None });
                let entity = number.map(|number| self.lens.model.entities[number].name.as_str());
                self.count(&x503::RULE, at, Verdict::Fail, 1);
                let found = |reference: &_, at: Option<&str>, findings: &mut Findings<'_>| {
                    x503::found(reference, at, other, entity, findings);
                };
                self.find(at, naming.by, found);
            }
        }
    }

    /// The copies against the item of entity `number` that is their master.
    fn compare(&mut self, naming: &Naming<'_>, number: usize, held: &[Option<Held>], copies: &[(usize, Text, Held)]) {
        for (copy, spelling, own) in copies {
            let Some((_, reference)) = self.lens.of(naming.at) else { return };
            let Some(copy) = reference.copies.get(*copy) else { continue };
            let master = self.lens.master(number, &copy.master).and_then(|at| held.get(at)?.as_ref());
            let is_same = Held::is_same(own, master);
            self.count(&x502::RULE, naming.at, if is_same { Verdict::Pass } else { Verdict::Fail }, 1);
            if !is_same {
                let entity = &self.lens.model.entities[number].name;
                self.find(naming.at, naming.by, |_, _, findings| {
                    x502::found(copy, spelling, (own, master), (entity, naming.other), findings);
                });
            }
        }
    }

    fn is_to(&self, reference: &Reference, number: usize) -> bool {
        self.lens.model.entities.get(number).is_some_and(|entity| reference.to.contains(&entity.name))
    }

    fn is_in_sight(&self, reference: &Reference) -> bool {
        match self.sight {
            Sight::Whole => true,
            Sight::Partial => false,
            Sight::OfSeenEntities => self.entities.iter().any(|number| self.is_to(reference, *number)),
        }
    }

    fn count(&mut self, rule: &Rule, at: Place, verdict: Verdict, times: u64) {
        let Some((entity, _)) = self.lens.of(at).filter(|_| times > 0) else { return };
        let tally = self.tallies.entry((rule.code, at.entity)).or_insert_with(|| Tally {
            rule: rule.code,
            entity: entity.name.clone(),
            checked: 0,
            failed: 0,
            undecidable: 0,
        });
        match verdict {
            Verdict::Undecidable => tally.undecidable += times,
            verdict => {
                tally.checked += times;
                tally.failed += if matches!(verdict, Verdict::Fail) { times } else { 0 };
            }
        }
    }

    /// A finding of the item `by`, as `found` words it.
    fn find(&mut self, at: Place, by: &TableKey, found: impl FnOnce(&'m Reference, Option<&str>, &mut Findings<'_>)) {
        let Some((entity, reference)) = self.lens.of(at) else { return };
        let mut findings = Findings::new(self.lens.model, by);
        findings.of_entity(Some(&entity.name));
        found(reference, place(self.lens.model, entity, reference), &mut findings);
        findings.into_list().into_iter().for_each(&mut self.each);
    }
}
