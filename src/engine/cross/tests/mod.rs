//! Tests of the rules across items: each rule broken and kept, what is out of sight, and the join against a naive one.

mod cases;
mod laws;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, Cursor};
use std::rc::Rc;

use super::{Cross, InMemory, Sight, Tally};
use crate::derive::derive;
use crate::engine::ports::Spill;
use crate::model::derived::Finding;
use crate::model::key::TableKey;
use crate::model::load::load;
use crate::model::spec::Model;
use crate::model::value::{Item, Text, Value};

/// Users with a boss, tasks of a user that copy the user's name and grade, notes on some task of a project.
const STAFF: &str = r##"
version = 1
[table]
name = "staff"
partition_key = "PK"
sort_key = "SK"

[entity.User]
match = { Type = "User" }
key = { PK = "USER#{user}", SK = "USER#{user}" }
attribute.Name = {}
attribute.Grade = { type = "N" }
attribute.Boss = { none = ["N/A"] }
reference.boss = { to = "User", with = { user = "Boss" } }

[entity.Robot]
match = { Type = "Robot" }
key = { PK = "USER#{user}", SK = "USER#{user}" }

[entity.Task]
key = { PK = "PROJECT#{project}", SK = "TASK#{task}" }
attribute.Owner = {}
attribute.OwnerName = { none = ["N/A"], aliases = ["owner_name"] }
attribute.Grade = { type = "N" }
attribute.State = {}
reference.owner = { to = "User", key = { PK = "USER#{Owner}", SK = "USER#{Owner}" }, copies = { OwnerName = "Name", Grade = "Grade" } }

[entity.Note]
key = { PK = "NOTE#{note}", SK = "NOTE#{note}" }
attribute.Project = {}
attribute.State = {}
reference.project = { to = "Task", key = { PK = "PROJECT#{Project}" }, required = true, when = { State = "open" } }
"##;

fn staff() -> Model {
    load(STAFF, "staff").unwrap_or_else(|faults| panic!("{faults:?}")).model
}

/// An item of texts and numbers, as plain JSON.
fn item(json: &str) -> Item {
    let plain: BTreeMap<Text, serde_json::Value> = serde_json::from_str(json).unwrap();
    let value = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => Value::text(text),
        number => Value::N(number.to_string().parse().unwrap()),
    };
    Item(plain.into_iter().map(|(name, plain)| (name, value(plain))).collect())
}

fn see<S: Spill>(cross: &mut Cross<'_, S>, model: &Model, item: &Item) {
    let key = TableKey::of(item, &model.table.key_names()).unwrap();
    cross.see(&key, derive(model, &key, item).entity.as_deref(), item);
}

fn audit(model: &Model, items: &[Item], sight: Sight, spill: impl Spill, memory: usize) -> (Vec<Finding>, Vec<Tally>) {
    let mut cross = Cross::new(model, spill, memory);
    items.iter().for_each(|item| see(&mut cross, model, item));
    let mut findings = Vec::new();
    let tallies = cross.finish(sight, |finding| findings.push(finding)).unwrap();
    (findings, tallies)
}

/// `code key attribute expected actual`, one a finding, and `code entity checked/failed/undecidable`.
fn told(items: &[&str], sight: Sight) -> (Vec<String>, Vec<String>) {
    let items: Vec<Item> = items.iter().map(|json| item(json)).collect();
    let (findings, tallies) = audit(&staff(), &items, sight, InMemory, 1 << 20);
    let part = |part: Option<String>| part.unwrap_or("-".into());
    let finding =
        |f: Finding| format!("{} {} {} {} {}", f.code, f.key, part(f.attribute), part(f.expected), part(f.actual));
    let tally = |t: Tally| format!("{} {} {}/{}/{}", t.rule, t.entity, t.checked, t.failed, t.undecidable);
    (findings.into_iter().map(finding).collect(), tallies.into_iter().map(tally).collect())
}

/// Files in memory that are counted.
#[derive(Clone, Default)]
struct Counted(Rc<Cell<usize>>);

impl Spill for Counted {
    type File = Cursor<Vec<u8>>;

    fn create(&self) -> io::Result<Self::File> {
        self.0.set(self.0.get() + 1);
        Ok(Cursor::default())
    }
}
