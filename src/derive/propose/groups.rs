//! Which items are of one kind: by the attribute that names their entity, and by the shape of their keys.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::spec::Table;
use crate::model::value::{Item, Value};

use super::names;
use super::share::Share;

/// More first words than this, and more than a tenth of the items, are values, not literals.
const LITERALS_MAX: usize = 30;
/// So many values of the attribute that names the entity at most.
const TYPES_MAX: usize = 60;

/// Items of one kind.
pub struct Group<'a> {
    pub name: String,
    /// A longer name, if another group has the short one too.
    long_name: String,
    /// The value of the attribute that names the entity.
    pub named: Option<String>,
    pub items: Vec<&'a Item>,
    pub notes: Vec<String>,
}

/// The parts of a key. A time stays whole where its own signs are the delimiter.
pub fn parts<'k>(key: &'k str, delimiter: &str) -> Vec<&'k str> {
    let mut parts = Vec::new();
    let mut rest = key;
    while let Some((part, after)) =
        rest.split_once(delimiter).filter(|_| delimiter == "#" || !names::begins_with_time(rest))
    {
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

/// What separates the parts of the keys: `#` where it is used, else the sign that most keys have behind a word.
pub fn delimiter(items: &[Item], table: &Table) -> String {
    let keys = [Some(&table.partition_key), table.sort_key.as_ref()].into_iter().flatten();
    let texts: Vec<&str> = keys.flat_map(|key| items.iter().filter_map(|item| item.text(&key.name))).collect();
    if texts.iter().filter(|text| text.contains('#')).count() * 20 >= texts.len().max(1) {
        return "#".to_owned();
    }
    let uses = |sign: &str| {
        let has = |text: &&&str| {
            parts(text, sign).split_first().is_some_and(|(first, rest)| !rest.is_empty() && names::is_word(first))
        };
        texts.iter().filter(has).count()
    };
    let best = ["|", ":", "/", "_"].into_iter().rev().max_by_key(|sign| uses(sign));
    best.filter(|sign| uses(sign) * 5 >= texts.len().max(1)).unwrap_or("#").to_owned()
}

/// The attribute that names the entity, if the items have one.
pub fn type_attribute(items: &[Item]) -> Option<String> {
    let universe: BTreeSet<&str> = items.iter().flat_map(|item| item.0.keys()).map(|name| name.as_str()).collect();
    let candidates = universe.iter().filter_map(|name| {
        let rank = names::type_rank(name)?;
        let values: Vec<&str> = items.iter().filter_map(|item| item.text(name)).collect();
        let distinct = values.iter().collect::<BTreeSet<_>>().len();
        let fits = values.len() * 10 >= items.len() * 8
            && distinct <= TYPES_MAX
            && (items.len() < 50 || distinct * 4 <= items.len());
        fits.then_some((values.len(), std::cmp::Reverse(rank), *name))
    });
    candidates.max().map(|(_, _, name)| name.to_owned())
}

/// What two keys must have in common to be of one template: the number of parts, and the literal at the front if there is one.
type Shape = Vec<(usize, Option<String>)>;

struct Shapes<'t> {
    table: &'t Table,
    delimiter: &'t str,
    type_attribute: Option<&'t str>,
    /// For each key attribute the first words that are literals.
    literals: Vec<BTreeSet<String>>,
}

impl<'t> Shapes<'t> {
    fn new(items: &[Item], table: &'t Table, delimiter: &'t str, type_attribute: Option<&'t str>) -> Shapes<'t> {
        let mut shapes = Shapes { table, delimiter, type_attribute, literals: Vec::new() };
        shapes.literals = shapes.keys().map(|key| shapes.literals_of(items, key)).collect();
        shapes
    }

    fn keys(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        [Some(&self.table.partition_key), self.table.sort_key.as_ref()]
            .into_iter()
            .flatten()
            .map(|key| key.name.as_str())
    }

    fn literals_of(&self, items: &[Item], key: &str) -> BTreeSet<String> {
        let is_partition = self.table.partition_key.name == key;
        // Whole keys of one word, with the partitions they occur in.
        let mut whole: BTreeMap<&str, BTreeSet<&Value>> = BTreeMap::new();
        let mut literals = BTreeSet::new();
        for item in items {
            let Some(text) = item.text(key) else { continue };
            match parts(text, self.delimiter).as_slice() {
                [word] if names::is_word(word) || names::is_constant(word) => {
                    whole.entry(word).or_default().extend(item.get(&self.table.partition_key.name));
                }
                [first, _, ..] if names::is_word(first) || first.is_empty() => {
                    literals.insert((*first).to_owned());
                }
                _ => {}
            }
        }
        let is_literal = |word: &str, partitions: usize| {
            names::is_constant(word)
                || if is_partition {
                    names::is_capitals(word) || self.type_attribute == Some(key)
                } else {
                    partitions > 1
                }
        };
        let whole = whole.into_iter().filter(|(word, partitions)| is_literal(word, partitions.len()));
        literals.extend(whole.map(|(word, _)| word.to_owned()));
        if literals.len() > LITERALS_MAX && literals.len() * 10 > items.len() {
            literals.retain(|literal| names::is_constant(literal));
        }
        literals
    }

    fn of(&self, item: &Item) -> Shape {
        let shape = |(key, literals): (&str, &BTreeSet<String>)| match item.text(key) {
            Some(text) => {
                let parts = parts(text, self.delimiter);
                let first = parts.first().filter(|first| literals.contains(**first));
                (parts.len(), first.map(|first| (*first).to_owned()))
            }
            None => (1, None),
        };
        self.keys().zip(&self.literals).map(shape).collect()
    }
}

/// The kinds of items in their order of frequency, and what is to be said of items that are of none.
pub fn group<'a>(
    items: &'a [Item],
    table: &Table,
    delimiter: &str,
    type_attribute: Option<&str>,
) -> (Vec<Group<'a>>, Vec<String>) {
    let shapes = Shapes::new(items, table, delimiter, type_attribute);
    let mut by_type: BTreeMap<Option<&str>, BTreeMap<Shape, Vec<&Item>>> = BTreeMap::new();
    for item in items {
        let named = type_attribute.and_then(|name| item.text(name));
        by_type.entry(named).or_default().entry(shapes.of(item)).or_default().push(item);
    }
    let mut notes = Vec::new();
    if type_attribute.is_some() {
        untyped(&mut by_type, type_attribute, &mut notes);
    }
    let mut groups = Vec::new();
    for (named, shapes) in by_type {
        let several = shapes.len();
        for (shape, items, notes) in merged(named, shapes) {
            let name = named.map(names::pascal).filter(|name| !name.is_empty() && several == 1);
            let name = name.unwrap_or_else(|| name_of(named, &shape));
            let long_name =
                names::pascal(&shape.iter().filter_map(|(_, word)| word.as_deref()).collect::<Vec<_>>().join(" "));
            groups.push(Group { name, long_name, named: named.map(str::to_owned), items, notes });
        }
    }
    groups.sort_by(|a, b| b.items.len().cmp(&a.items.len()).then_with(|| a.name.cmp(&b.name)));
    name_apart(&mut groups);
    (groups, notes)
}

/// Items without the entity's name whose keys are those of items that have it: the name is missing.
fn untyped(
    by_type: &mut BTreeMap<Option<&str>, BTreeMap<Shape, Vec<&Item>>>,
    type_attribute: Option<&str>,
    notes: &mut Vec<String>,
) {
    let known: BTreeSet<Shape> =
        by_type.iter().filter(|(named, _)| named.is_some()).flat_map(|(_, shapes)| shapes.keys().cloned()).collect();
    let Some(without) = by_type.get_mut(&None) else { return };
    let lacking: usize = without.iter().filter(|(shape, _)| known.contains(*shape)).map(|(_, items)| items.len()).sum();
    without.retain(|shape, _| !known.contains(shape));
    if lacking > 0 {
        let name = type_attribute.unwrap_or_default();
        notes.push(format!("check: {lacking} items have keys as below but no `{name}` of text; `audit` names them"));
    }
    if without.is_empty() {
        by_type.remove(&None);
    }
}

/// A few items of an entity whose keys have more or fewer parts than the others' are suspects, not an entity of their own.
fn merged<'a>(named: Option<&str>, shapes: BTreeMap<Shape, Vec<&'a Item>>) -> Vec<(Shape, Vec<&'a Item>, Vec<String>)> {
    let all: usize = shapes.values().map(Vec::len).sum();
    let mut kinds: Vec<(Shape, Vec<&Item>, Vec<String>)> =
        shapes.into_iter().map(|(shape, items)| (shape, items, Vec::new())).collect();
    kinds.sort_by_key(|(_, items, _)| std::cmp::Reverse(items.len()));
    if named.is_none() || kinds.len() < 2 {
        return kinds;
    }
    let is_stray = |items: usize, most: usize| items < most && items <= (all / 20).max(1);
    let most = kinds[0].1.len();
    let (strays, mut kinds): (Vec<_>, Vec<_>) =
        kinds.into_iter().partition(|(_, items, _)| is_stray(items.len(), most));
    let lost: usize = strays.iter().map(|(_, items, _)| items.len()).sum();
    if let (Some((_, _, notes)), true) = (kinds.first_mut(), lost > 0) {
        let share = Share { agree: lost, of: all };
        notes.push(format!("check: the keys of {share} have other parts than these; `audit` names them"));
    }
    kinds
}

fn name_of(named: Option<&str>, shape: &Shape) -> String {
    let literal = |at: usize| shape.get(at).and_then(|(_, literal)| literal.as_deref()).unwrap_or_default();
    let (partition, sort) = (literal(0), literal(1));
    let own = if names::is_constant(sort) { partition } else { sort };
    let words = match named {
        Some(named) => format!("{named} {own}"),
        None if own.is_empty() => partition.to_owned(),
        None => own.to_owned(),
    };
    let name = names::pascal(&words);
    if name.is_empty() { "Item".to_owned() } else { name }
}

/// Every entity has a name of its own.
fn name_apart(groups: &mut [Group<'_>]) {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    groups.iter().for_each(|group| *uses.entry(group.name.clone()).or_default() += 1);
    let mut taken = BTreeSet::new();
    for group in groups {
        let is_shared = uses.get(&group.name).is_some_and(|uses| *uses > 1);
        if is_shared && group.named.is_none() && !group.long_name.is_empty() {
            group.name = std::mem::take(&mut group.long_name);
        }
        let numbered = (2..).map(|number| format!("{}{number}", group.name));
        let mut names = std::iter::once(group.name.clone()).chain(numbered);
        if let Some(name) = names.find(|name| !taken.contains(name)) {
            group.name = name;
        }
        taken.insert(group.name.clone());
    }
}
