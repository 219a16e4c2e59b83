//! Which entity is in which index, by which templates, and while what holds.

use std::collections::{BTreeMap, BTreeSet};

use crate::derive::render;
use crate::model::spec::{Condition, EntityIndex, Index, KeyAttribute};
use crate::model::template::{Segment, Template, Variable};
use crate::model::value::{Item, Kind};

use super::draft::{Draft, EntityDraft};
use super::groups::Group;
use super::keys::{Unified, Unifier, Use};
use super::names;
use super::share::Share;

/// More values than this are no condition that somebody would have written.
const CONDITION_VALUES_MAX: usize = 12;

/// What attributes are called that decide such things, most telling first.
const TELLING: [&str; 6] = ["status", "state", "type", "kind", "role", "active"];

/// Adds the indexes that items of the group are in.
pub fn fill(
    entity: &mut EntityDraft,
    group: &Group<'_>,
    draft: &Draft,
    unifier: &mut Unifier<'_, '_>,
    uses: &mut Vec<Use>,
) {
    for index in &draft.table.indexes {
        let inside: Vec<bool> = group.items.iter().map(|item| is_inside(item, index, draft)).collect();
        let share = Share::count(inside.iter().copied());
        if share.agree == 0 {
            continue;
        }
        let mut remarks = vec![share.to_string()];
        let mut keys = Vec::new();
        let mut used = Vec::new();
        for key in index.attributes() {
            let Unified { template, uses, notes } = template(key, group, draft, unifier);
            keys.push((key.name.clone(), template));
            used.extend(uses);
            remarks.extend(notes);
        }
        let mut when = Vec::new();
        if !share.is_whole() {
            match reason(group, &inside, index) {
                Some(condition) => {
                    remarks.push(format!(
                        "guess: {} %: `{}` decides",
                        Share { agree: share.agree, of: share.agree }.percent(),
                        condition.attribute
                    ));
                    when.push(condition);
                }
                None if share.holds() || by_nature(&used, group, &inside) => {}
                None => {
                    let templates: Vec<String> =
                        keys.iter().map(|(name, template)| format!("{name} = \"{template}\"")).collect();
                    remarks.push(format!(
                        "check: nothing tells which items are in it; say it by `when`, with {}",
                        templates.join(", ")
                    ));
                    used.clear();
                    for (name, template) in &mut keys {
                        *template = bare(name);
                        used.push(Use { attribute: name.clone(), pad: None });
                    }
                }
            }
        }
        entity.index_notes.insert(index.name.clone(), remarks.join("; "));
        entity.entity.indexes.push(EntityIndex { index: index.name.clone(), keys, when });
        uses.extend(used);
    }
}

/// An attribute that is there for keys only tells at once; others must be there together.
fn is_inside(item: &Item, index: &Index, draft: &Draft) -> bool {
    let table = &draft.table;
    let is_primary =
        |name: &str| table.partition_key.name == name || table.sort_key.as_ref().is_some_and(|sort| sort.name == name);
    let mut made =
        index.attributes().filter(|key| names::is_made_for_keys(&key.name) && !is_primary(&key.name)).peekable();
    match made.peek() {
        Some(_) => made.any(|key| item.get(&key.name).is_some()),
        None => index.attributes().all(|key| item.get(&key.name).is_some()),
    }
}

fn template(key: &KeyAttribute, group: &Group<'_>, draft: &Draft, unifier: &mut Unifier<'_, '_>) -> Unified {
    let table = &draft.table;
    let is_primary =
        table.partition_key.name == key.name || table.sort_key.as_ref().is_some_and(|sort| sort.name == key.name);
    // A whole value of the item's own, such as `Category`, though it may hold the delimiter once in a while.
    let is_own = !is_primary && !names::is_made_for_keys(&key.name) && {
        let texts = group.items.iter().filter_map(|item| item.text(&key.name));
        let composed = Share::count(texts.map(|text| text.contains(draft.delimiter.as_str())));
        key.kind != Kind::S || composed.agree * 2 <= composed.of
    };
    let own = || Unified {
        template: bare(&key.name),
        uses: vec![Use { attribute: key.name.clone(), pad: None }],
        notes: Vec::new(),
    };
    if is_own {
        return own();
    }
    unifier.unify(&key.name, key.kind).unwrap_or_else(own)
}

/// The attribute itself as a key.
fn bare(name: &str) -> Template {
    let variable = Variable { name: name.to_owned(), ..Variable::default() };
    Template { source: format!("{{{name}}}"), segments: vec![Segment::Variable(variable)] }
}

/// The one attribute whose values are of one kind inside the index and of another outside.
fn reason(group: &Group<'_>, inside: &[bool], index: &Index) -> Option<Condition> {
    let universe: BTreeSet<&str> =
        group.items.iter().flat_map(|item| item.0.keys()).map(|name| name.as_str()).collect();
    let candidates = universe
        .into_iter()
        .filter(|name| index.attributes().all(|key| key.name != *name) && !names::is_made_for_keys(name));
    let explaining = candidates.filter_map(|name| {
        let mut values: BTreeMap<bool, BTreeSet<String>> = BTreeMap::new();
        for (item, inside) in group.items.iter().zip(inside) {
            let text = item.get(name).and_then(render::plain)?;
            values.entry(*inside).or_default().insert(text.into_owned());
        }
        let (within, without) = (values.remove(&true)?, values.remove(&false)?);
        let is_short =
            within.iter().all(|text| !text.is_empty() && text.len() <= 60 && !text.chars().any(char::is_control));
        let fits = within.is_disjoint(&without) && is_short && within.len() <= CONDITION_VALUES_MAX;
        // A value an item proves nothing; a number or a time is no reason that somebody would have written.
        let comes_again = within.len() + without.len() < group.items.len() || within.len() == 1;
        let is_word = within.iter().all(|text| names::is_word(text));
        let rank = TELLING.iter().position(|word| names::plain(name).ends_with(word)).unwrap_or(TELLING.len());
        (fits && comes_again && is_word).then(|| (rank, within.len() + without.len(), name, within))
    });
    let (_, _, name, values) = explaining.min()?;
    Some(Condition { attribute: name.to_owned(), values: values.into_iter().collect() })
}

/// True if the items outside lack an attribute that the key is made of: they are outside by nature.
fn by_nature(uses: &[Use], group: &Group<'_>, inside: &[bool]) -> bool {
    let lacks = |item: &&Item| uses.iter().any(|used| item.get(&used.attribute).is_none());
    group.items.iter().zip(inside).all(|(item, inside)| *inside || lacks(item))
}
