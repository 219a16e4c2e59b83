//! The table's keys and indexes: as they are known, as they are asked for, or as their names tell.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::spec::{Index, KeyAttribute, Table};
use crate::model::value::{Item, Kind, Value};

use super::names::{self, Role};
use super::share::Share;
use super::{Asked, Known, ProposeError};

/// What the keys are, and what speaks for it.
pub struct Found {
    pub table: Table,
    pub notes: Vec<String>,
    pub index_notes: BTreeMap<String, String>,
}

/// From which share of the items on a name that says "key" is believed, in per cent.
const PRESENT_MIN: usize = 90;

pub fn find(items: &[Item], asked: &Asked, known: Option<&Known>) -> Result<Found, ProposeError> {
    let mut notes = Vec::new();
    let (partition_key, sort_key) = match known {
        Some(known) => (known.partition_key.clone(), known.sort_key.clone()),
        None => primary_key(items, asked, &mut notes)?,
    };
    let mut index_notes = BTreeMap::new();
    let keys: Vec<&str> =
        [Some(&partition_key), sort_key.as_ref()].into_iter().flatten().map(|key| key.name.as_str()).collect();
    let mut indexes = match known {
        Some(known) => known.indexes.clone(),
        None => guessed_indexes(items, &keys, &mut index_notes),
    };
    for asked in &asked.indexes {
        index_notes.insert(asked.name.clone(), "as asked for".to_owned());
        let attribute = |name: &String| KeyAttribute { name: name.clone(), kind: kind_of(items, name) };
        let (partition, sort) =
            (asked.partition.iter().map(attribute).collect(), asked.sort.iter().map(attribute).collect());
        // A guess from the same attributes is the same index without its name.
        indexes.retain(|index| {
            index.name != asked.name && index.partition.iter().all(|key| !asked.partition.contains(&key.name))
        });
        indexes.push(Index { name: asked.name.clone(), partition, sort });
    }
    notes.extend(repeated(items, &keys));
    let ttl = known.and_then(|known| known.ttl.clone());
    let state_table = format!("{}-keeper", asked.table);
    let table = Table { name: asked.table.clone(), partition_key, sort_key, indexes, ttl, state_table };
    Ok(Found { table, notes, index_notes })
}

/// A key that comes again is no key, or the file holds several versions of an item.
fn repeated(items: &[Item], keys: &[&str]) -> Option<String> {
    let of = |item: &Item| keys.iter().map(|name| item.get(name).cloned()).collect::<Vec<Option<Value>>>();
    let distinct: BTreeSet<_> = items.iter().map(of).collect();
    let again = items.len() - distinct.len();
    (again > 0)
        .then(|| format!("check: {again} of {} items have the key of another; is this all of the key?", items.len()))
}

/// The commonest type among those that a key can have.
pub fn kind_of(items: &[Item], name: &str) -> Kind {
    let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
    for value in items.iter().filter_map(|item| item.get(name)) {
        if matches!(value.kind(), Kind::S | Kind::N | Kind::B) {
            *counts.entry(value.kind()).or_default() += 1;
        }
    }
    counts.into_iter().max_by_key(|(kind, count)| (*count, *kind == Kind::S)).map_or(Kind::S, |(kind, _)| kind)
}

fn presence(items: &[Item], name: &str) -> Share {
    Share::count(items.iter().map(|item| item.get(name).is_some()))
}

type PrimaryKey = (KeyAttribute, Option<KeyAttribute>);

fn primary_key(items: &[Item], asked: &Asked, notes: &mut Vec<String>) -> Result<PrimaryKey, ProposeError> {
    let key = |name: &str| KeyAttribute { name: name.to_owned(), kind: kind_of(items, name) };
    if let Some(partition) = &asked.partition_key {
        for name in std::iter::once(partition).chain(&asked.sort_key) {
            if presence(items, name).agree == 0 {
                return Err(ProposeError::NoSuchKey { name: name.clone() });
            }
        }
        return Ok((key(partition), asked.sort_key.as_deref().map(key)));
    }
    let universe: BTreeSet<&str> = items.iter().flat_map(|item| item.0.keys()).map(|name| name.as_str()).collect();
    let by_name = |wanted: Role| {
        let named = universe
            .iter()
            .filter(|name| names::role(name).is_some_and(|(role, rest)| role == wanted && rest.is_empty()));
        let there = named.map(|name| (presence(items, name), *name));
        there.filter(|(share, _)| share.agree * 100 >= share.of * PRESENT_MIN).max_by_key(|(share, _)| share.agree)
    };
    let sort = match &asked.sort_key {
        Some(name) => Some((presence(items, name), name.as_str())),
        None => by_name(Role::Sort),
    };
    if let Some((share, partition)) = by_name(Role::Partition) {
        let names = sort.map_or(format!("`{partition}`"), |(_, sort)| format!("`{partition}` and `{sort}`"));
        notes.push(format!("{names} by their names; {share} have `{partition}`"));
        return Ok((key(partition), sort.map(|(_, name)| key(name))));
    }
    by_content(items, &universe, notes).ok_or(ProposeError::NoKey)
}

/// The one attribute that differs in every item, with the attribute that names the entity before it if there is one.
fn by_content(items: &[Item], universe: &BTreeSet<&str>, notes: &mut Vec<String>) -> Option<PrimaryKey> {
    let is_key = |value: &Value| matches!(value, Value::S(text) if !text.is_empty()) || matches!(value, Value::N(_));
    let whole: Vec<&str> =
        universe.iter().copied().filter(|name| items.iter().all(|item| item.get(name).is_some_and(is_key))).collect();
    let is_unique = |name: &&&str| {
        let distinct: BTreeSet<_> = items.iter().map(|item| item.get(name)).collect();
        distinct.len() == items.len()
    };
    let made = |name: &str| items.iter().filter(|item| item.text(name).is_some_and(|text| text.contains('#'))).count();
    let unique = whole
        .iter()
        .filter(is_unique)
        .max_by_key(|name| (made(name), names::plain(name).ends_with("id"), name.len()))?;
    let entity =
        whole.iter().filter(|name| *name != unique).filter_map(|name| Some((names::type_rank(name)?, *name))).min();
    let key = |name: &str| KeyAttribute { name: name.to_owned(), kind: kind_of(items, name) };
    let (partition, sort) = match entity {
        Some((_, entity)) => (entity, Some(*unique)),
        None => (*unique, None),
    };
    let share = Share { agree: items.len(), of: items.len() };
    notes.push(format!(
        "check: guess: {} %, for `{unique}` differs in every item; if it is another key, say --partition-key and --sort-key",
        share.percent() / 2
    ));
    Some((key(partition), sort.map(key)))
}

/// `GSI1PK` and `GSI1SK` make an index.
fn guessed_indexes(items: &[Item], keys: &[&str], notes: &mut BTreeMap<String, String>) -> Vec<Index> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    items.iter().flat_map(|item| item.0.keys()).for_each(|name| *counts.entry(name).or_default() += 1);
    let mut found: BTreeMap<String, BTreeMap<Role, &str>> = BTreeMap::new();
    for name in counts.keys().filter(|name| !keys.contains(name)) {
        if let Some((role, rest)) = names::role(name).filter(|(_, rest)| !rest.is_empty()) {
            found.entry(rest).or_default().insert(role, name);
        }
    }
    let mut indexes = Vec::new();
    for (rest, attributes) in found {
        if !names::is_index_rest(&rest) && attributes.len() < 2 {
            continue;
        }
        // A local index has the table's partition key.
        let partition = attributes.get(&Role::Partition).copied().or_else(|| keys.first().copied());
        let Some(partition) = partition else { continue };
        let sort = attributes.get(&Role::Sort).copied();
        let key = |name: &str| KeyAttribute { name: name.to_owned(), kind: kind_of(items, name) };
        let name = index_name(&rest, sort.unwrap_or(partition));
        let of = attributes.values().filter_map(|name| counts.get(name)).max().copied().unwrap_or_default();
        notes.insert(
            name.clone(),
            format!(
                "by the attributes' names, {}; check: its name at AWS is not in the items",
                Share { agree: of, of: items.len() }
            ),
        );
        indexes.push(Index { name, partition: vec![key(partition)], sort: sort.map(key).into_iter().collect() });
    }
    indexes
}

/// `GSI1` of `GSI1-SK` and of `SK1`.
fn index_name(rest: &str, attribute: &str) -> String {
    let kept = attribute.to_ascii_lowercase().find(rest).and_then(|at| attribute.get(at..at + rest.len()));
    let name = kept.unwrap_or(rest);
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.len() < 3 {
        format!("GSI{name}")
    } else {
        name.to_owned()
    }
}
