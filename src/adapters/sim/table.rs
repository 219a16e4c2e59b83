//! One table in memory, with DynamoDB's rules for keys, sizes, conditions and numbers.

use std::collections::BTreeMap;

use crate::engine::ports::{Page, SortRange};
use crate::model::decimal::Decimal;
use crate::model::key::{KeyNames, PARTITION_KEY_SIZE_MAX, SORT_KEY_SIZE_MAX, TableKey};
use crate::model::spec::Table;
use crate::model::value::{ITEM_SIZE_MAX, Item, Kind, Text, Value};
use crate::plan::state;
use crate::plan::write::{Condition, Op, Write};

/// A table's key schema and items.
#[derive(Debug, Clone)]
pub struct SimTable {
    pub names: KeyNames,
    kinds: (Kind, Option<Kind>),
    items: BTreeMap<TableKey, Item>,
}

impl SimTable {
    pub fn source(table: &Table) -> SimTable {
        let kinds = (table.partition_key.kind, table.sort_key.as_ref().map(|key| key.kind));
        SimTable { names: table.key_names(), kinds, items: BTreeMap::new() }
    }

    pub fn state() -> SimTable {
        SimTable { names: state::key_names(), kinds: (Kind::S, Some(Kind::S)), items: BTreeMap::new() }
    }

    pub fn get(&self, key: &TableKey) -> Option<&Item> {
        self.items.get(key)
    }

    pub fn items(&self) -> impl Iterator<Item = (&TableKey, &Item)> {
        self.items.iter()
    }

    /// Puts the item, or removes it; the item that was there.
    pub fn set(&mut self, key: &TableKey, item: Option<Item>) -> Option<Item> {
        match item {
            Some(item) => self.items.insert(key.clone(), item),
            None => self.items.remove(key),
        }
    }

    /// Why DynamoDB would not accept this key at all.
    pub fn check_key(&self, key: &TableKey) -> Result<(), String> {
        let part = |value: &Value, kind: Kind, size_max: usize, what: &str| {
            if value.kind() != kind {
                return Err(format!("type mismatch for the {what} key: expected {}", kind.name()));
            }
            match value.size() {
                0 => Err(format!("the {what} key cannot be an empty value")),
                size if size > size_max && kind != Kind::N => {
                    Err(format!("size of the {what} key has exceeded the maximum of {size_max} bytes"))
                }
                _ => Ok(()),
            }
        };
        part(&key.partition, self.kinds.0, PARTITION_KEY_SIZE_MAX, "partition")?;
        match (&key.sort, self.kinds.1) {
            (Some(sort), Some(kind)) => part(sort, kind, SORT_KEY_SIZE_MAX, "sort"),
            (None, None) => Ok(()),
            _ => Err("the provided key element does not match the schema".to_owned()),
        }
    }

    /// Why DynamoDB would refuse the whole request on account of this write, whatever is stored.
    pub fn check_write(&self, write: &Write) -> Result<(), String> {
        self.check_key(&write.key)?;
        match &write.op {
            Op::Put(item) => {
                if TableKey::of(item, &self.names).as_ref() != Some(&write.key) {
                    return Err("one of the required keys was not given a value".to_owned());
                }
                check_item(item)
            }
            Op::Update { add, set } => {
                let touched = add.keys().chain(set.0.keys());
                let is_key = |name: &Text| *name == self.names.partition || Some(name) == self.names.sort.as_ref();
                if touched.clone().any(is_key) {
                    return Err("cannot update an attribute that is part of the key".to_owned());
                }
                if add.keys().any(|name| set.get(name).is_some()) {
                    return Err("two document paths overlap with each other".to_owned());
                }
                if add.is_empty() && set.0.is_empty() {
                    return Err("an update expression cannot be empty".to_owned());
                }
                set.0.values().try_for_each(check_sets)
            }
            Op::Delete => Ok(()),
        }
    }

    /// True if the write's condition holds of what is stored.
    pub fn condition_holds(&self, write: &Write) -> bool {
        let stored = self.items.get(&write.key);
        let equals = |name: &str, value: &Value| stored.and_then(|item| item.get(name)) == Some(value);
        match &write.condition {
            Condition::Always => true,
            Condition::Absent => stored.is_none(),
            Condition::Equals(name, value) => equals(name, value),
            Condition::AbsentOrEquals(name, value) => stored.is_none() || equals(name, value),
            Condition::AbsentOrAll(all) => stored.is_none() || all.iter().all(|(name, value)| equals(name, value)),
            Condition::All(all) => {
                all.iter().all(|(name, value)| stored.and_then(|item| item.get(name)) == value.as_ref())
            }
        }
    }

    /// The item as it will be after the write (`None`: gone), or why this write alone is refused.
    pub fn evaluate(&self, write: &Write) -> Result<Option<Item>, String> {
        let stored = self.items.get(&write.key);
        match &write.op {
            Op::Put(item) => Ok(Some(Item::clone(item))),
            Op::Delete => Ok(None),
            Op::Update { add, set } => {
                let mut item = stored.cloned().unwrap_or_else(|| write.key.to_item(&self.names));
                for (name, number) in add {
                    let sum = match item.get(name) {
                        None => Decimal::zero().checked_add(number),
                        Some(Value::N(old)) => old.checked_add(number),
                        Some(_) => {
                            return Err("an operand in the update expression has an incorrect data type".to_owned());
                        }
                    };
                    let sum = sum.map_err(|e| format!("number overflow: {e}"))?;
                    item.insert(name.clone(), Value::N(sum));
                }
                item.0.extend(set.0.clone());
                match item.size() {
                    size if size > ITEM_SIZE_MAX => {
                        Err("item size to update has exceeded the maximum allowed size".to_owned())
                    }
                    _ => Ok(Some(item)),
                }
            }
        }
    }

    /// One page of at most `limit` items of a partition.
    pub fn query(&self, partition: &Value, range: &SortRange, start: Option<&TableKey>, limit: usize) -> Page {
        let within = |key: &TableKey| match (range, &key.sort) {
            (SortRange::All, _) => true,
            (SortRange::BeginsWith(prefix), Some(Value::S(text))) => text.starts_with(prefix),
            (SortRange::Between(low, high), Some(sort)) => low <= sort && sort <= high,
            _ => false,
        };
        self.page(start, limit, |key| key.partition == *partition && within(key))
    }

    /// One page of at most `limit` items of a segment.
    pub fn scan(&self, (segment, segments): (u32, u32), start: Option<&TableKey>, limit: usize) -> Page {
        let segments = segments.max(1);
        self.page(start, limit, |key| {
            let partition = TableKey { partition: key.partition.clone(), sort: None };
            let hash =
                partition.digest().bytes().fold(0u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
            hash % segments == segment
        })
    }

    /// Like DynamoDB, the page ends with a `next` whenever it is full, though nothing may follow.
    fn page(&self, start: Option<&TableKey>, limit: usize, wanted: impl Fn(&TableKey) -> bool) -> Page {
        let following = self.items.iter().filter(|(key, _)| start.is_none_or(|start| *key > start) && wanted(key));
        let taken: Vec<_> = following.take(limit.max(1)).collect();
        let next = taken.last().filter(|_| taken.len() == limit.max(1)).map(|(key, _)| (*key).clone());
        Page { items: taken.into_iter().map(|(_, item)| item.clone()).collect(), next }
    }
}

/// Levels of maps and lists within an attribute.
const LEVELS_MAX: usize = 32;

fn check_item(item: &Item) -> Result<(), String> {
    if item.size() > ITEM_SIZE_MAX {
        return Err("item size has exceeded the maximum allowed size".to_owned());
    }
    if item.0.values().map(levels).max().unwrap_or(0) > LEVELS_MAX {
        return Err("nesting levels have exceeded supported limits".to_owned());
    }
    item.0.values().try_for_each(check_sets)
}

fn levels(value: &Value) -> usize {
    match value {
        Value::M(map) => 1 + map.values().map(levels).max().unwrap_or(0),
        Value::L(list) => 1 + list.iter().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

/// DynamoDB has no empty sets.
fn check_sets(value: &Value) -> Result<(), String> {
    let empty = match value {
        Value::Ss(set) => set.is_empty(),
        Value::Ns(set) => set.is_empty(),
        Value::Bs(set) => set.is_empty(),
        Value::M(map) => return map.values().try_for_each(check_sets),
        Value::L(list) => return list.iter().try_for_each(check_sets),
        _ => false,
    };
    if empty { Err("a set may not be empty".to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::write::TableRef;

    fn write(op: Op, condition: Condition) -> Write {
        Write { table: TableRef::State, key: TableKey::text("a", "b"), op, condition }
    }

    fn number(text: &str) -> Value {
        Value::N(text.parse().unwrap())
    }

    #[test]
    fn keys_are_typed_filled_and_short() {
        let table = SimTable::state();
        assert!(table.check_key(&TableKey::text("p".repeat(2048), "s".repeat(1024))).is_ok());
        let bad = [
            TableKey::text("p".repeat(2049), "s"),
            TableKey::text("p", "s".repeat(1025)),
            TableKey::text("", "s"),
            TableKey { partition: number("1"), sort: Some(Value::text("s")) },
            TableKey { partition: Value::text("p"), sort: None },
        ];
        for key in bad {
            assert!(table.check_key(&key).is_err(), "{key}");
        }
    }

    #[test]
    fn add_creates_keeps_and_refuses_39_digits() {
        let mut table = SimTable::state();
        let add = |n: &str| {
            write(Op::Update { add: [("N".into(), n.parse().unwrap())].into(), set: Item::new() }, Condition::Always)
        };
        let zero = table.evaluate(&add("0")).unwrap().unwrap();
        assert_eq!(zero.get("N"), Some(&number("0")), "adding 0 creates the attribute");
        table.set(&TableKey::text("a", "b"), Some(zero.with("N", number(&"9".repeat(38)))));
        assert!(table.evaluate(&add("0.1")).unwrap_err().contains("overflow"));
        assert!(table.evaluate(&add("-1")).is_ok());
        table.set(&TableKey::text("a", "b"), Some(Item::new().with("N", Value::text("x"))));
        assert!(table.evaluate(&add("1")).unwrap_err().contains("data type"));
    }

    #[test]
    fn conditions_look_at_what_is_stored() {
        let mut table = SimTable::state();
        let absent_or = Condition::AbsentOrEquals("M".into(), Value::text("x"));
        let equals = Condition::Equals("M".into(), Value::text("x"));
        let holds =
            |table: &SimTable, condition: &Condition| table.condition_holds(&write(Op::Delete, condition.clone()));
        assert!(holds(&table, &Condition::Absent) && holds(&table, &absent_or) && !holds(&table, &equals));
        table.set(&TableKey::text("a", "b"), Some(Item::new().with("M", Value::text("x"))));
        assert!(!holds(&table, &Condition::Absent) && holds(&table, &absent_or) && holds(&table, &equals));
        table.set(&TableKey::text("a", "b"), Some(Item::new()));
        assert!(!holds(&table, &absent_or) && !holds(&table, &equals));
        let pairs = ["x", "y"].map(|text| (text.to_uppercase().into(), Value::text(text)));
        let all = Condition::AbsentOrAll(pairs.to_vec());
        assert!(!holds(&table, &all));
        table.set(&TableKey::text("a", "b"), Some(Item(pairs.into())));
        assert!(holds(&table, &all));
        table.set(&TableKey::text("a", "b"), None);
        assert!(holds(&table, &all));
        let with = |value: Option<Value>| Condition::All(vec![("M".into(), value)]);
        assert!(holds(&table, &with(None)) && !holds(&table, &with(Some(Value::text("x")))));
        table.set(&TableKey::text("a", "b"), Some(Item::new().with("M", Value::text("x"))));
        assert!(!holds(&table, &with(None)) && holds(&table, &with(Some(Value::text("x")))));
    }

    #[test]
    fn pages_join_to_the_whole() {
        let mut table = SimTable::state();
        for n in 0..10 {
            let key = TableKey::text(format!("P{}", n % 2), format!("K{n}"));
            table.set(&key, Some(key.to_item(&table.names)));
        }
        let (mut all, mut start, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = table.query(&Value::text("P1"), &SortRange::BeginsWith("K".to_owned()), start.as_ref(), 5);
            all.extend(page.items);
            pages += 1;
            start = page.next;
            if start.is_none() {
                break;
            }
        }
        assert_eq!((all.len(), pages), (5, 2), "a full page says that more may follow, and here nothing does");
        let between = SortRange::Between(Value::text("K3"), Value::text("K7"));
        assert_eq!(table.query(&Value::text("P1"), &between, None, 100).items.len(), 3);
        let scanned: usize = (0..3).map(|segment| table.scan((segment, 3), None, 100).items.len()).sum();
        assert_eq!(scanned, 10);
    }
}
