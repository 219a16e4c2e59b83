//! The application: it writes items as it likes, and knows nothing of us.

use std::collections::BTreeMap;

use crate::adapters::sim::random::Random;
use crate::adapters::sim::store::SimStore;
use crate::model::key::{KeyNames, TableKey};
use crate::model::value::{Item, Value};
use crate::plan::write::TableRef;

/// Few items, so that the same ones change again and again.
const JOBS: usize = 6;
const USERS: [&str; 3] = ["ann", "bob", "cy"];
const PROJECTS: [&str; 3] = ["north", "south", "west"];
/// Deep enough to be stored, and too deep once it is copied into a map: such a listing entry is refused.
const DEEP: usize = 32;

pub(super) struct Application {
    store: SimStore,
    names: KeyNames,
    random: Random,
    /// It writes small numbers only and never stands where a derived item belongs.
    pub modest: bool,
}

impl Application {
    pub fn new(store: SimStore, names: KeyNames, random: Random) -> Application {
        Application { store, names, random, modest: false }
    }

    /// One thing that an application does; what it was.
    pub fn act(&mut self) -> String {
        let key = self.job();
        match self.random.below(40) {
            0..18 => self.put(&key),
            18..25 => self.change(&key),
            25..28 => self.touch(&key),
            28..33 => self.delete(&key),
            33..36 => self.reassign(&key),
            36..38 => self.many(),
            38 if !self.modest => self.occupy(),
            _ => self.stray(),
        }
    }

    fn job(&mut self) -> TableKey {
        let job = self.random.below(JOBS);
        // Mostly a job stays with its user.
        let user = if self.random.chance(800) { USERS[job % USERS.len()] } else { *self.random.pick(&USERS) };
        TableKey::text(format!("JOB#{job}"), format!("USER#{user}"))
    }

    fn content(&mut self, key: &TableKey) -> Item {
        let mut item = key.to_item(&self.names);
        for name in ["Status", "Project", "Hours", "Due", "Notes"] {
            self.set(&mut item, name);
        }
        item
    }

    /// Gives the attribute another value, sometimes none, sometimes a bad one.
    fn set(&mut self, item: &mut Item, name: &str) {
        let (random, modest) = (&mut self.random, self.modest);
        let value = match name {
            "Status" => Value::text(*random.pick(&["Open", "Open", "Busy", "Busy", "Done", "Done", "Mislaid"])),
            "Project" => Value::text(*random.pick(&PROJECTS)),
            "Hours" => hours(random, modest),
            "Due" if random.chance(500) => {
                Value::text(*random.pick(&["2026-03-05", "2026-04-01", "2026-12-31", "2026-02-30"]))
            }
            "Notes" if random.chance(60) => deep(DEEP),
            "Notes" if random.chance(200) => deep(1),
            _ => {
                item.0.remove(name);
                return;
            }
        };
        item.insert(name, value);
    }

    fn store(&self, item: Item) -> &'static str {
        match self.store.put(item) {
            Ok(()) => "",
            Err(_) => " (refused)",
        }
    }

    fn put(&mut self, key: &TableKey) -> String {
        let item = self.content(key);
        let shown = shown(&item);
        format!("the application puts {key}: {shown}{}", self.store(item))
    }

    fn change(&mut self, key: &TableKey) -> String {
        let Some(mut item) = self.store.item(TableRef::Source, key) else { return self.put(key) };
        let name = *self.random.pick(&["Status", "Project", "Hours", "Due", "Notes"]);
        self.set(&mut item, name);
        let shown = shown(&item);
        format!("the application changes {name} of {key}: {shown}{}", self.store(item))
    }

    /// Changes what nothing is derived from, or nothing at all.
    fn touch(&mut self, key: &TableKey) -> String {
        let Some(item) = self.store.item(TableRef::Source, key) else { return self.put(key) };
        let note = self.random.below(4);
        let noted = if note == 0 { item } else { item.with("Note", Value::text(note.to_string())) };
        format!("the application touches {key}{}", self.store(noted))
    }

    fn delete(&mut self, key: &TableKey) -> String {
        if self.random.chance(250) {
            self.store.expire(key);
            return format!("{key} expires");
        }
        self.store.delete(key);
        format!("the application deletes {key}")
    }

    /// The user is in the key: the item goes and comes at another one.
    fn reassign(&mut self, key: &TableKey) -> String {
        let Some(item) = self.store.item(TableRef::Source, key) else { return self.put(key) };
        let user = *self.random.pick(&USERS);
        let sort = Value::text(format!("USER#{user}"));
        let to = TableKey { partition: key.partition.clone(), sort: Some(sort.clone()) };
        self.store.delete(key);
        let done = self.store(item.with("SK", sort));
        format!("the application reassigns {key} to {to}{done}")
    }

    /// A transaction of the application.
    fn many(&mut self) -> String {
        let keys: Vec<TableKey> = (0..3).map(|_| self.job()).collect();
        for key in &keys {
            let item = self.content(key);
            self.store(item);
        }
        format!("the application puts {} items at once", keys.len())
    }

    /// An item of the application stands where a derived one belongs, or goes away from there.
    fn occupy(&mut self) -> String {
        let key = match self.random.below(2) {
            0 => TableKey::text(format!("PROJECT#{}", self.random.pick(&PROJECTS)), "STATS#JOBS"),
            _ => TableKey::text(format!("STATS#{}", self.random.pick(&USERS)), "STATS#JOBS"),
        };
        match self.store.item(TableRef::Source, &key) {
            Some(item) if item.is_ours() => format!("the application finds {key} taken"),
            Some(_) => {
                self.store.delete(&key);
                format!("the application gives {key} back")
            }
            None => {
                let item = key.to_item(&self.names).with("Owner", Value::text("the application"));
                format!("the application occupies {key}{}", self.store(item))
            }
        }
    }

    /// An item of no entity.
    fn stray(&mut self) -> String {
        let key = TableKey::text("STRAY", self.random.below(3).to_string());
        if self.random.chance(400) {
            self.store.delete(&key);
            return format!("the application deletes {key}");
        }
        let item = key.to_item(&self.names).with("Note", Value::text(self.random.below(9).to_string()));
        format!("the application puts {key}{}", self.store(item))
    }
}

/// Small numbers, fractions, and some that do not fit into one sum with others.
fn hours(random: &mut Random, modest: bool) -> Value {
    let text = match random.below(30) {
        0..4 if modest => "0.5".to_owned(),
        0 => "90000000000000000000000000000000000000".to_owned(),
        1 => "-70000000000000000000000000000000000000".to_owned(),
        2 => "12345678901234567890.5".to_owned(),
        3 => "0.000000000000000000000000000001".to_owned(),
        4..8 => format!("{}.25", random.below(5)),
        _ => format!("{}", random.below(9) as i64 - 2),
    };
    text.parse().map_or(Value::Null(true), Value::N)
}

fn deep(levels: usize) -> Value {
    (0..levels).fold(Value::text("deep"), |inner, _| Value::M(BTreeMap::from([("in".into(), inner)])))
}

fn shown(item: &Item) -> String {
    let values = ["Status", "Project", "Hours", "Due"].map(|name| item.get(name).map_or("-".to_owned(), Value::shown));
    values.join(" ")
}
