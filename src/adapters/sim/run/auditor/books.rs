//! The auditor's books: what was added up, what the ledger says, and what the items come to by plain counting.

use std::collections::{BTreeMap, BTreeSet};

use bigdecimal::BigDecimal;

use super::origins;
use crate::adapters::sim::run::models::Models;
use crate::derive::{derive, without_sums};
use crate::model::decimal::Decimal;
use crate::model::key::TableKey;
use crate::model::value::{Item, MARKER, Text, Value};
use crate::plan::ledger::{Applied, LedgerRow, item_hash};
use crate::plan::write::{Op, Write};

/// All states that an item was in.
#[derive(Default)]
pub(super) struct Story {
    versions: Vec<Version>,
    /// The states that records of that number led to. Numbers of parents and children may be the same.
    numbers: BTreeMap<u128, Vec<usize>>,
}

struct Version {
    item: Option<Item>,
    /// What it derives under either model, once somebody asked.
    applied: [Option<Applied>; 2],
}

impl Version {
    fn derives(&mut self, key: &TableKey, model: usize, models: &Models) -> Option<&Applied> {
        let item = self.item.as_ref()?;
        Some(self.applied[model].get_or_insert_with(|| Applied::of(&derive(&models[model], key, item))))
    }
}

impl Story {
    /// The item's next state; its index.
    pub fn push(&mut self, item: Option<Item>) -> usize {
        self.versions.push(Version { item, applied: [None, None] });
        self.versions.len() - 1
    }

    pub fn number(&mut self, number: u128, version: usize) {
        self.numbers.entry(number).or_default().push(version);
    }

    /// The first state that a record of that number led to.
    pub fn version_of(&self, number: u128) -> Option<usize> {
        self.numbers.get(&number)?.first().copied()
    }

    /// True if a record of that number led to a state with the row, under either model; with `old_images` from one without it.
    pub fn introduces(
        &mut self,
        key: &TableKey,
        number: u128,
        row: &TableKey,
        old_images: bool,
        models: &Models,
    ) -> bool {
        let to = self.numbers.get(&number).cloned().unwrap_or_default();
        let mut has = |version: usize, model: usize| {
            let derives = self.versions[version].derives(key, model, models);
            derives.is_some_and(|applied| applied.rows.iter().any(|applied| applied.key == *row))
        };
        to.into_iter().any(|version| {
            let before = version.checked_sub(1).filter(|_| old_images);
            (0..models.len()).any(|model| has(version, model) && before.is_none_or(|before| !has(before, model)))
        })
    }

    pub fn now(&self) -> Option<&Item> {
        self.versions.last()?.item.as_ref()
    }

    /// The latest state in which the item was not there.
    pub fn last_absent(&self) -> Option<usize> {
        self.versions.iter().rposition(|version| version.item.is_none())
    }

    /// The latest state that is what the ledger row says.
    pub fn matching(&mut self, key: &TableKey, row: &LedgerRow, models: &Models) -> Option<usize> {
        if self.versions.is_empty() {
            // A derived item whose delete did not say what it had been: a tombstone that nobody needs.
            return (row.deleted && row.applied.is_empty()).then_some(0);
        }
        let model = models.iter().position(|model| model.hash == row.model)?;
        (0..self.versions.len()).rev().find(|at| says(&mut self.versions[*at], key, row, model, models))
    }

    /// How many findings changes of the item brought, under the one model or the other.
    pub fn brought(&mut self, key: &TableKey, models: &Models, brought: &mut BTreeMap<Measure, i64>) {
        for at in 0..self.versions.len() {
            let mut new = BTreeMap::new();
            for model in 0..models.len() {
                let nothing = Applied::default();
                let before = at.checked_sub(1).and_then(|at| self.versions[at].derives(key, model, models).cloned());
                let is = self.versions[at].derives(key, model, models).unwrap_or(&nothing);
                new.extend(origins::between(before.as_ref().unwrap_or(&nothing), is));
            }
            new.into_values().for_each(|measure| *brought.entry(measure).or_default() += 1);
        }
    }

    /// What is wrong with the ledger row now that everything is applied.
    pub fn settled(
        &mut self,
        key: &TableKey,
        row: Option<&LedgerRow>,
        model: usize,
        models: &Models,
    ) -> Option<String> {
        let version = self.versions.last_mut()?;
        let Some(row) = row else {
            return version.item.as_ref().map(|_| format!("`{key}` has no ledger row"));
        };
        if super::is_given_up(row) || says(version, key, row, model, models) {
            let stays = row.deleted && row.expires_at.is_none() && row.quarantined.is_none();
            return stays.then(|| format!("the tombstone of `{key}` never expires"));
        }
        let derives = version.derives(key, model, models).cloned();
        Some(format!("`{key}` has {:?} applied, deleted {}, and derives {derives:?}", row.applied, row.deleted))
    }
}

fn says(version: &mut Version, key: &TableKey, row: &LedgerRow, model: usize, models: &Models) -> bool {
    let Some(item) = version.item.clone() else { return row.deleted && row.applied.is_empty() };
    if row.deleted {
        return false;
    }
    if let Some(reason) = &row.left_out {
        let rest = without_sums(&models[model], key, &derive(&models[model], key, &item), reason);
        return row.applied == Applied::of(&rest);
    }
    version.derives(key, model, models).is_some_and(|derives| row.applied == *derives)
}

pub(super) type Measure = (TableKey, Text);
/// Marker and digest of a row's item.
type Content = (Text, Text);

/// The table's derived items, once as they were written and once as the ledger has them.
#[derive(Default)]
pub(super) struct Books {
    stored_sums: BTreeMap<Measure, BigDecimal>,
    ledger_sums: BTreeMap<Measure, BigDecimal>,
    stored_rows: BTreeMap<TableKey, Content>,
    ledger_rows: BTreeMap<TableKey, Content>,
    /// What came and went as far as ledger rows show it: less than what did, where one commit stands for several changes.
    turnover: BTreeMap<Measure, BigDecimal>,
    /// By how much a measure is off since somebody edited it by hand; nothing else may make it so.
    astray: BTreeMap<Measure, BigDecimal>,
    touched_sums: BTreeSet<Measure>,
    touched_rows: BTreeSet<TableKey>,
}

impl Books {
    /// Enters a write of the source table.
    pub fn write(&mut self, write: &Write) {
        match &write.op {
            Op::Put(item) => {
                let content = (item.text(MARKER).unwrap_or_default().into(), item_hash(item));
                self.stored_rows.insert(write.key.clone(), content);
                self.touched_rows.insert(write.key.clone());
            }
            Op::Delete => {
                self.stored_rows.remove(&write.key);
                self.touched_rows.insert(write.key.clone());
            }
            Op::Update { add, set } => {
                for (measure, number) in add {
                    let measure = (write.key.clone(), measure.clone());
                    *self.stored_sums.entry(measure.clone()).or_default() += wide(number);
                    self.touched_sums.insert(measure);
                }
                // Only a repair writes a sum as a whole, and it writes what is right.
                for (name, number) in numbers(set) {
                    let measure = (write.key.clone(), name.clone());
                    self.astray.remove(&measure);
                    self.stored_sums.insert(measure.clone(), wide(number));
                    self.touched_sums.insert(measure);
                }
            }
        }
    }

    /// Enters what somebody did to an aggregate by hand.
    pub fn edit(&mut self, key: &TableKey, before: Option<&Item>, after: Option<&Item>) {
        for (item, sign) in [(before, -1), (after, 1)] {
            for (name, number) in item.into_iter().flat_map(numbers) {
                let change = wide(number) * BigDecimal::from(sign);
                for sums in [&mut self.stored_sums, &mut self.astray] {
                    *sums.entry((key.clone(), name.clone())).or_default() += &change;
                }
            }
        }
    }

    /// What nobody has repaired.
    pub fn astray(&self) -> Vec<String> {
        let zero = BigDecimal::default();
        let off = self.astray.iter().filter(|(measure, off)| **off != zero && !origins::is_history(&measure.1));
        off.map(|((key, name), off)| format!("I1: `{name}` of `{key}` was edited by hand and is off by {off} still"))
            .collect()
    }

    /// Enters a ledger row in place of the one before.
    pub fn account(&mut self, before: Option<&LedgerRow>, row: &LedgerRow, faults: &mut Vec<String>) {
        for (row, sign) in before.map(|before| (before, -1)).into_iter().chain([(row, 1)]) {
            for count in &row.applied.counts {
                for (measure, number) in &count.measures {
                    let measure = (count.key.clone(), measure.clone());
                    *self.ledger_sums.entry(measure.clone()).or_default() += wide(number) * BigDecimal::from(sign);
                    self.touched_sums.insert(measure);
                }
            }
        }
        for (measure, number) in origins::turnover(before, row) {
            *self.turnover.entry(measure.clone()).or_default() += BigDecimal::from(number);
            self.touched_sums.insert(measure);
        }
        for gone in before.iter().flat_map(|before| &before.applied.rows) {
            self.ledger_rows.remove(&gone.key);
            self.touched_rows.insert(gone.key.clone());
        }
        for applied in &row.applied.rows {
            self.touched_rows.insert(applied.key.clone());
            let content = (applied.marker(), applied.hash.clone());
            if self.ledger_rows.insert(applied.key.clone(), content).is_some() {
                faults.push(format!("I2: two items claim the row `{}`", applied.key));
            }
        }
    }

    /// I1 and I2 where something was written since the last time.
    pub fn check(&mut self, faults: &mut Vec<String>) {
        let zero = BigDecimal::default();
        for measure in std::mem::take(&mut self.touched_sums) {
            if origins::is_history(&measure.1) {
                self.check_history(&measure, faults);
                continue;
            }
            let stored = self.stored_sums.get(&measure).unwrap_or(&zero);
            let ledger = self.ledger_sums.get(&measure).unwrap_or(&zero);
            let astray = self.astray.get(&measure).unwrap_or(&zero);
            if *stored != ledger + astray {
                let (name, key) = (&measure.1, &measure.0);
                faults
                    .push(format!("I1: `{name}` of `{key}` is {stored}, the ledger says {ledger}, astray by {astray}"));
            }
        }
        for key in std::mem::take(&mut self.touched_rows) {
            let (stored, ledger) = (self.stored_rows.get(&key), self.ledger_rows.get(&key));
            if stored != ledger {
                faults.push(format!("I2: row `{key}` is {stored:?}, the ledger says {ledger:?}"));
            }
        }
    }

    /// What came and went beyond what ledger rows show both came and went, or was there before and went.
    fn check_history(&self, measure: &Measure, faults: &mut Vec<String>) {
        let zero = BigDecimal::default();
        let beyond = |measure: &Measure| {
            let astray = self.astray.get(measure).unwrap_or(&zero);
            self.stored_sums.get(measure).unwrap_or(&zero) - self.turnover.get(measure).unwrap_or(&zero) - astray
        };
        let [introduced, resolved] = origins::both(measure).map(|measure| beyond(&measure));
        if introduced < zero || resolved < introduced {
            let (name, key) = (&measure.1, &measure.0);
            faults
                .push(format!("origin: `{name}` of `{key}`: {introduced} introduced and {resolved} resolved too many"));
        }
    }

    /// Holds the counts of what changes brought against those that did.
    pub fn check_introduced(&self, brought: &BTreeMap<Measure, i64>, faults: &mut Vec<String>) {
        let zero = BigDecimal::default();
        for (measure, stored) in &self.stored_sums {
            let count = stored - self.astray.get(measure).unwrap_or(&zero);
            let limit = brought.get(measure).copied().unwrap_or_default();
            if origins::is_checked(&measure.1) && count > limit {
                let (name, key) = (&measure.1, &measure.0);
                faults.push(format!("origin: `{name}` of `{key}` is {count}, and changes brought {limit}"));
            }
        }
    }

    /// Compares the aggregates and listings with what plain counting of the items comes to: no derive, no ledger.
    pub fn compare<'a>(
        &self,
        items: impl Iterator<Item = (&'a TableKey, &'a Item)>,
        model: usize,
        faults: &mut Vec<String>,
    ) {
        let (mut sums, mut listed) = (BTreeMap::new(), BTreeSet::new());
        for (key, item) in items {
            count(key, item, model, &mut sums, &mut listed);
        }
        let is_job_sum = |measure: &&Measure| measure.0.sort == Some(Value::text("STATS#JOBS"));
        let zero = BigDecimal::default();
        for measure in self.stored_sums.keys().chain(sums.keys()).filter(is_job_sum).collect::<BTreeSet<_>>() {
            let (stored, counted) = (self.stored_sums.get(measure), sums.get(measure));
            if stored.unwrap_or(&zero) != counted.unwrap_or(&zero) {
                faults.push(format!("I4: `{}` of `{}` is {stored:?}, counted {counted:?}", measure.1, measure.0));
            }
        }
        let stored: BTreeSet<TableKey> =
            self.stored_rows.keys().filter(|key| key.partition == Value::text("JOBS")).cloned().collect();
        if stored != listed {
            faults.push(format!("I4: listed are {stored:?}, and should be {listed:?}"));
        }
    }
}

/// What one item adds, by the simulated models' words.
fn count(
    key: &TableKey,
    item: &Item,
    model: usize,
    sums: &mut BTreeMap<Measure, BigDecimal>,
    listed: &mut BTreeSet<TableKey>,
) {
    let (partition, sort) = (key.partition.as_text(), key.sort.as_ref().and_then(Value::as_text));
    let job = partition.and_then(|text| text.strip_prefix("JOB#"));
    let user = sort.and_then(|text| text.strip_prefix("USER#"));
    let (Some(job), Some(user)) = (job, user) else { return };
    let of_status = item.text("Status").filter(|_| model == 0);
    let status = item.text("Status").unwrap_or_default();
    let bucket = if ["Open", "Busy", "Done"].contains(&status) { status } else { "Other" };
    let hours = item.number("Hours");
    let square = hours.and_then(|hours| hours.checked_square().ok());
    let project = item.text("Project");
    let by_project = project.map(|project| (format!("PROJECT#{project}"), true, true));
    let of_status = of_status.map(|status| (format!("STATUS#{status}"), false, false));
    let by_user = [(format!("STATS#{user}"), model == 1, false)];
    for (partition, summed, squared) in by_project.into_iter().chain(by_user).chain(of_status) {
        let key = TableKey::text(partition, "STATS#JOBS");
        let mut add = |measure: Text, number: BigDecimal| {
            *sums.entry((key.clone(), measure)).or_default() += number;
        };
        add("Total".into(), BigDecimal::from(1));
        add(format!("Count_{bucket}").into(), BigDecimal::from(1));
        if let Some(hours) = hours.filter(|_| summed) {
            add("Sum_Hours".into(), wide(hours));
        }
        if let Some(square) = square.as_ref().filter(|_| squared) {
            add("SumSq_Hours".into(), wide(square));
        }
    }
    let parts = match (model, project) {
        (0, _) => Some(format!("{status}#{job}#{user}")),
        (_, project) => project.map(|project| format!("{project}#{status}#{job}#{user}")),
    };
    listed.extend(parts.map(|sort| TableKey::text("JOBS", sort)));
}

/// The measures among the attributes: nothing else of an aggregate is a number.
fn numbers(item: &Item) -> impl Iterator<Item = (&Text, &Decimal)> {
    item.0.iter().filter_map(|(name, value)| Some((name, value.as_number()?)))
}

fn wide(number: &Decimal) -> BigDecimal {
    number.to_string().parse().unwrap_or_default()
}
