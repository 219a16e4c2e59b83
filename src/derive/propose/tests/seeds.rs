//! The shipped samples: what is proposed has the shipped models' keys and indexes.

use std::collections::BTreeMap;

use super::*;
use crate::derive::tests::shipped::{quality, skills};
use crate::model::spec::{Entity, Model};
use crate::model::template::{Segment, Template};

/// The same literals; the same attributes; other variables equal up to their names, which must map one to one.
fn same_templates(ours: (&Entity, &Template), theirs: (&Entity, &Template), names: &mut BTreeMap<String, String>) {
    let shown = format!("{} {} / {}", ours.0.name, ours.1.source, theirs.1.source);
    assert_eq!(ours.1.segments.len(), theirs.1.segments.len(), "{shown}");
    for pair in ours.1.segments.iter().zip(&theirs.1.segments) {
        match pair {
            (Segment::Literal(a), Segment::Literal(b)) => assert_eq!(a, b, "{shown}"),
            (Segment::Variable(a), Segment::Variable(b)) => {
                let declared = [ours.0.attribute(&a.name).is_some(), theirs.0.attribute(&b.name).is_some()];
                assert_eq!(declared[0], declared[1], "{shown}");
                if declared[0] {
                    assert_eq!(a, b, "{shown}");
                }
                assert_eq!(names.entry(a.name.clone()).or_insert(b.name.clone()), &b.name, "{shown}");
            }
            _ => panic!("{shown}"),
        }
    }
}

fn same_keys(ours: &Model, theirs: &Model) {
    let (a, b) = (&ours.table, &theirs.table);
    assert_eq!((&a.partition_key, &a.sort_key), (&b.partition_key, &b.sort_key));
    let indexes = |model: &Model| -> Vec<_> {
        model.table.indexes.iter().map(|i| (i.name.clone(), i.partition.clone(), i.sort.clone())).collect()
    };
    assert_eq!(indexes(ours), indexes(theirs));
    assert_eq!(ours.delimiter, theirs.delimiter);
    for proposed in &theirs.entities {
        let ours = ours.entity(&proposed.name).unwrap_or_else(|| panic!("no {} in the shipped model", proposed.name));
        assert_eq!(ours.matches, proposed.matches);
        let mut names = BTreeMap::new();
        same_templates((ours, &ours.partition), (proposed, &proposed.partition), &mut names);
        same_templates((ours, ours.sort.as_ref().unwrap()), (proposed, proposed.sort.as_ref().unwrap()), &mut names);
        let filled = |entity: &Entity| entity.indexes.iter().map(|i| i.index.clone()).collect::<Vec<_>>();
        assert_eq!(filled(ours), filled(proposed));
        for (a, b) in ours.indexes.iter().zip(&proposed.indexes) {
            assert_eq!(a.when, b.when);
            for ((a_key, a), (b_key, b)) in a.keys.iter().zip(&b.keys) {
                assert_eq!(a_key, b_key);
                same_templates((ours, a), (proposed, b), &mut names);
            }
        }
        let distinct: std::collections::BTreeSet<&String> = names.values().collect();
        assert_eq!(distinct.len(), names.len(), "two variables became one: {names:?}");
    }
}

#[test]
fn quality_has_the_keys_of_the_shipped_model() {
    let (ours, items) = quality();
    let proposal = proposed(items);
    same_keys(&ours, &proposal.model);
    assert_eq!(proposal.model.entities.len(), 6);
    assert_eq!(found(&proposal), []);
    assert_eq!(proposal.warnings, []);
    let manager = proposal.model.entity("Manager").unwrap().attribute("CertificateExp").unwrap();
    let shipped = ours.entity("Manager").unwrap().attribute("CertificateExp").unwrap();
    assert_eq!((manager.format, &manager.none), (shipped.format, &shipped.none));
}

#[test]
fn skills_has_the_keys_of_the_shipped_model() {
    let (ours, items) = skills();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let sort = names(&["SkillName", "ProficiencyLevel", "YearsOfExperience", "Username"]);
    let index = AskedIndex { name: "BySkill".to_owned(), partition: names(&["Category"]), sort };
    let proposal = propose(&sample(items.clone()), &Asked { indexes: vec![index], ..asked() }, None).unwrap();
    same_keys(&ours, &proposal.model);
    assert_eq!((proposal.model.entities.len(), found(&proposal)), (3, vec![]));

    // The same where the database describes the table.
    let table = &ours.table;
    let known = Known {
        partition_key: table.partition_key.clone(),
        sort_key: table.sort_key.clone(),
        indexes: table.indexes.clone(),
        ttl: Some("expires".to_owned()),
    };
    let proposal = propose(&sample(items), &asked(), Some(&known)).unwrap();
    same_keys(&ours, &proposal.model);
    assert_eq!(proposal.model.table.ttl.as_deref(), Some("expires"));
}

#[test]
fn what_differs_is_told_apart() {
    let (ours, items) = quality();
    let mut proposal = proposed(items);
    let device = proposal.model.entities.iter_mut().find(|entity| entity.name == "Device").unwrap();
    device.sort = Some(Template::parse("USER#{device}").unwrap());
    let same = std::panic::catch_unwind(|| same_keys(&ours, &proposal.model));
    assert!(same.is_err(), "the comparison must see that two variables became one");
}
