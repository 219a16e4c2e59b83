//! A scripted working day: what happens to the source items, step by step.
//!
//! The script is data beside the model (`models/<name>.day.json`): a list of steps, each with what is said and what is
//! done. `put` replaces an item, `update` changes the named attributes of the item with that key, `delete` takes it away;
//! all of a step happen in one transaction. `{today}`, `{today+5}`, `{today-2}` are dates.

use anyhow::{Context as _, anyhow, bail};
use chrono::{Days, NaiveDate};
use serde::Deserialize;
use serde_json::value::RawValue;
use tablekeeper::adapters::files::parse_item;
use tablekeeper::engine::ports::Store;
use tablekeeper::model::key::{KeyNames, TableKey};
use tablekeeper::model::value::Item;
use tablekeeper::plan::write::{Condition, Op, TableRef, Write};

/// One thing that happens in the day.
pub struct Step {
    pub say: String,
    pub acts: Vec<Act>,
}

pub enum Act {
    Put(Item),
    /// The key and the attributes that change.
    Update(Item),
    /// The key.
    Delete(Item),
}

#[derive(Deserialize)]
struct StepText<'t> {
    say: String,
    #[serde(borrow, rename = "do")]
    acts: Vec<ActText<'t>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ActText<'t> {
    #[serde(borrow)]
    Put(&'t RawValue),
    Update(&'t RawValue),
    Delete(&'t RawValue),
}

/// Reads a script as it plays on `today`.
pub fn parse(script: &str, today: NaiveDate) -> anyhow::Result<Vec<Step>> {
    let script = with_dates(script, today)?;
    let steps: Vec<StepText<'_>> = serde_json::from_str(&script).context("the day's script is not as expected")?;
    let item = |raw: &RawValue| parse_item(raw.get()).map_err(|fault| anyhow!("{fault}"));
    let step = |step: StepText<'_>| {
        let act = |act: &ActText<'_>| {
            Ok(match act {
                ActText::Put(raw) => Act::Put(item(raw)?),
                ActText::Update(raw) => Act::Update(item(raw)?),
                ActText::Delete(raw) => Act::Delete(item(raw)?),
            })
        };
        let acts = step.acts.iter().map(act).collect::<anyhow::Result<Vec<Act>>>()?;
        Ok(Step { say: step.say, acts })
    };
    steps.into_iter().map(step).collect()
}

/// Replaces `{today}` and `{today+N}` by dates.
fn with_dates(script: &str, today: NaiveDate) -> anyhow::Result<String> {
    let mut out = String::with_capacity(script.len());
    let mut rest = script;
    while let Some(at) = rest.find("{today") {
        let end = rest[at..].find('}').context("`{today` without `}`")? + at;
        let shift = &rest[at + "{today".len()..end];
        let days: i64 = if shift.is_empty() {
            0
        } else {
            shift.parse().with_context(|| format!("`{shift}` is no shift of days"))?
        };
        let date = match days {
            0.. => today.checked_add_days(Days::new(days.unsigned_abs())),
            _ => today.checked_sub_days(Days::new(days.unsigned_abs())),
        };
        let date = date.with_context(|| format!("{today} shifted by {days} days is out of range"))?;
        out.push_str(&rest[..at]);
        out.push_str(&date.to_string());
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

impl Step {
    /// The step's writes; updates read their items first.
    pub async fn writes(&self, store: &impl Store, names: &KeyNames) -> anyhow::Result<Vec<Write>> {
        let mut writes = Vec::new();
        for act in &self.acts {
            let (Act::Put(item) | Act::Update(item) | Act::Delete(item)) = act;
            let Some(key) = TableKey::of(item, names) else { bail!("an item of `{}` has no key", self.say) };
            let op = match act {
                Act::Put(item) => Op::Put(item.clone().into()),
                Act::Delete(_) => Op::Delete,
                Act::Update(changes) => {
                    let found = store.get(TableRef::Source, std::slice::from_ref(&key)).await?.pop().flatten();
                    let mut item = found.with_context(|| format!("no item {key} to update"))?;
                    item.0.extend(changes.0.clone());
                    Op::Put(item.into())
                }
            };
            writes.push(Write { table: TableRef::Source, key, op, condition: Condition::Always });
        }
        Ok(writes)
    }
}

#[cfg(test)]
mod tests {
    use tablekeeper::model::shipped::SHIPPED;

    use super::*;

    #[test]
    fn dates_are_shifted() {
        let today = NaiveDate::from_ymd_opt(2026, 2, 27).unwrap();
        assert_eq!(
            with_dates("a {today} {today+2} {today-27} {x}", today).unwrap(),
            "a 2026-02-27 2026-03-01 2026-01-31 {x}"
        );
        assert!(with_dates("{today+x}", today).is_err());
        assert!(with_dates("{today", today).is_err());
    }

    #[test]
    fn every_shipped_day_can_be_read() {
        for model in SHIPPED {
            let steps = parse(model.day, NaiveDate::from_ymd_opt(2026, 11, 30).unwrap()).unwrap();
            assert!(steps.len() >= 8, "{}: {} steps", model.name, steps.len());
        }
    }
}
