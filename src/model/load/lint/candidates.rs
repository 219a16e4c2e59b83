//! Which parts of a model could get in each other's way at all.
//!
//! Whether two templates can give one key is a walk over both, too dear for every pair of a large model. Two keys can only be
//! the same where the one template's literal beginning begins the other's, and two entities can only be mixed up where no
//! `match` tells them apart. So each part is looked up by what sets it apart best, and only the few that are left are compared.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::model::spec::Entity;
use crate::model::template::Template;

/// Parts, by their numbers, in the order of the literals that their templates begin with.
pub(super) struct Prefixes<'m>(BTreeMap<&'m str, Vec<usize>>);

/// Numbers of parts, in several lists.
type Lists<'c> = Vec<&'c [usize]>;

impl<'m> Prefixes<'m> {
    /// Where there is no template, for the sort key of a table without one, any key will do.
    pub fn of(templates: impl Iterator<Item = Option<&'m Template>>) -> Prefixes<'m> {
        let mut parts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, template) in templates.enumerate() {
            parts.entry(beginning(template)).or_default().push(number);
        }
        Prefixes(parts)
    }

    /// The parts whose literal begins that of the template, or begins with it: a key of both can be only among these.
    pub fn near(&self, template: Option<&Template>) -> Lists<'_> {
        let literal = beginning(template);
        let shorter = literal.char_indices().filter_map(|(end, _)| self.0.get::<str>(&literal[..end]));
        let longer = self
            .0
            .range::<str, _>((Bound::Included(literal), Bound::Unbounded))
            .take_while(|(other, _)| other.starts_with(literal))
            .map(|(_, parts)| parts);
        shorter.chain(longer).map(Vec::as_slice).collect()
    }
}

fn beginning(template: Option<&Template>) -> &str {
    template.map_or("", Template::prefix)
}

/// Entities by the values that they ask one attribute for.
#[derive(Default)]
struct Matched<'m> {
    by_value: BTreeMap<&'m str, Vec<usize>>,
    /// Entities that ask nothing of the attribute.
    others: Vec<usize>,
}

/// The pairs of entities, by their numbers and the smaller one first, that could be mixed up.
pub(super) fn pairs(entities: &[Entity]) -> Vec<(usize, usize)> {
    let partitions = Prefixes::of(entities.iter().map(|entity| Some(&entity.partition)));
    let sorts = Prefixes::of(entities.iter().map(|entity| entity.sort.as_ref()));
    let matched = matched(entities);
    let mut pairs = Vec::new();
    for (number, entity) in entities.iter().enumerate() {
        let by_match = entity.matches.iter().filter_map(|condition| {
            let asked = matched.get(condition.attribute.as_str())?;
            let same = condition.values.iter().filter_map(|value| asked.by_value.get(value.as_str()));
            Some(same.chain([&asked.others]).map(Vec::as_slice).collect())
        });
        let by_key = [partitions.near(Some(&entity.partition)), sorts.near(entity.sort.as_ref())];
        let fewest = by_key.into_iter().chain(by_match).min_by_key(|lists: &Lists<'_>| length(lists));
        let others = fewest.into_iter().flatten().flatten().copied().filter(|other| *other < number);
        pairs.extend(others.map(|other| (other, number)));
    }
    // One that shares two values of a `match` is found twice.
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

fn matched(entities: &[Entity]) -> BTreeMap<&str, Matched<'_>> {
    let mut matched: BTreeMap<&str, Matched<'_>> = BTreeMap::new();
    for (number, entity) in entities.iter().enumerate() {
        for condition in &entity.matches {
            let asked = matched.entry(&condition.attribute).or_default();
            for value in &condition.values {
                asked.by_value.entry(value).or_default().push(number);
            }
        }
    }
    for (attribute, asked) in &mut matched {
        let asks = |entity: &Entity| entity.matches.iter().any(|condition| condition.attribute == *attribute);
        asked.others = (0..entities.len()).filter(|number| !asks(&entities[*number])).collect();
    }
    matched
}

/// The pairs of keys, by their numbers and the smaller one first, that could be the same.
pub(super) fn key_pairs(keys: &[(&Template, Option<&Template>)]) -> Vec<(usize, usize)> {
    let partitions = Prefixes::of(keys.iter().map(|key| Some(key.0)));
    let sorts = Prefixes::of(keys.iter().map(|key| key.1));
    let mut pairs = Vec::new();
    for (number, (partition, sort)) in keys.iter().enumerate() {
        let (by_partition, by_sort) = (partitions.near(Some(partition)), sorts.near(*sort));
        let fewest = if length(&by_sort) < length(&by_partition) { by_sort } else { by_partition };
        pairs.extend(fewest.into_iter().flatten().filter(|other| **other < number).map(|other| (*other, number)));
    }
    pairs
}

fn length(lists: &Lists<'_>) -> usize {
    lists.iter().map(|list| list.len()).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::model::load::overlap::{can_meet, swallows};
    use crate::model::spec::Condition;

    fn entity(number: usize, (partition, sort): (&str, &str), kind: Option<&str>) -> Entity {
        let matches = kind.map(|kind| Condition { attribute: "Type".to_owned(), values: vec![kind.to_owned()] });
        Entity {
            severities: BTreeMap::new(),
            name: format!("E{number}"),
            matches: matches.into_iter().collect(),
            partition: Template::parse(partition).unwrap(),
            sort: Some(Template::parse(sort).unwrap()),
            indexes: Vec::new(),
            attributes: Vec::new(),
            references: Vec::new(),
        }
    }

    #[test]
    fn entities_that_something_sets_apart_are_hardly_compared() {
        const MANY: usize = 2_000;
        let own_partition = |n| entity(n, (&format!("E{n}#{{a}}"), "META"), None);
        let own_sort = |n| entity(n, ("T#{t}", &format!("E{n}#{{a}}")), None);
        let own_type = |n| entity(n, ("{t}", "{a}"), Some(&n.to_string()));
        let shapes: [&dyn Fn(usize) -> Entity; 4] = [&own_partition, &own_sort, &own_type, &|n| match n % 2 {
            0 => own_partition(n),
            _ => own_sort(n),
        }];
        for shape in shapes {
            let entities: Vec<Entity> = (0..MANY).map(shape).collect();
            let compared = pairs(&entities).len();
            assert!(compared <= MANY, "{compared} comparisons, for example `{}`", entities[1].partition);
        }
    }

    #[test]
    fn keys_with_a_beginning_of_their_own_are_not_compared() {
        let templates: Vec<Template> = (0..1_000).map(|n| Template::parse(&format!("A{n}#{{x}}")).unwrap()).collect();
        let all = Template::parse("S#{x}").unwrap();
        let by_partition: Vec<_> = templates.iter().map(|own| (own, Some(&all))).collect();
        let by_sort: Vec<_> = templates.iter().map(|own| (&all, Some(own))).collect();
        assert_eq!((key_pairs(&by_partition).len(), key_pairs(&by_sort).len()), (0, 0));
    }

    /// A template that can be read.
    fn template() -> impl Strategy<Value = Template> {
        proptest::collection::vec("[AB#]{0,2}|\\{[a-c]\\}", 1..4)
            .prop_filter_map("no template", |parts| Template::parse(&parts.concat()).ok())
    }

    proptest! {
        /// Nothing is passed over that a comparison of every pair would have found.
        #[test]
        fn no_pair_that_meets_is_missed(parts in proptest::collection::vec((template(), template(), proptest::option::of("[xy]")), 1..12)) {
            let entities: Vec<Entity> = parts.iter().enumerate().map(|(n, (partition, sort, kind))| {
                entity(n, (&partition.source, &sort.source), kind.as_deref())
            }).collect();
            let mixed = |a: &Template, b: &Template| can_meet(a, b, "#") || swallows(a, b, "#") || swallows(b, a, "#");
            let found: BTreeSet<(usize, usize)> = pairs(&entities).into_iter().collect();
            let keys: Vec<_> = entities.iter().map(|e| (&e.partition, e.sort.as_ref())).collect();
            let found_keys: BTreeSet<(usize, usize)> = key_pairs(&keys).into_iter().collect();
            for j in 0..entities.len() {
                for i in 0..j {
                    let (a, b) = (&entities[i], &entities[j]);
                    let meet = mixed(&a.partition, &b.partition) && mixed(sort_of(a), sort_of(b));
                    let apart = matches!((parts[i].2.as_deref(), parts[j].2.as_deref()), (Some(x), Some(y)) if x != y);
                    prop_assert!(!meet || apart || found.contains(&(i, j)), "{} {}", a.partition, b.partition);
                    prop_assert!(!meet || found_keys.contains(&(i, j)), "{} {}", a.partition, b.partition);
                }
            }
        }
    }

    fn sort_of(entity: &Entity) -> &Template {
        entity.sort.as_ref().unwrap()
    }
}
