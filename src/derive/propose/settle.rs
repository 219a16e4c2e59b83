//! The loader judges the proposal; where it objects, the proposal gives way.

use std::collections::BTreeMap;

use crate::derive::derive;
use crate::model::derived::Severity;
use crate::model::key::TableKey;
use crate::model::load::{self, Loaded};
use crate::model::position::Fault;
use crate::model::spec::{Attribute, Model};
use crate::model::template::Template;
use crate::model::value::Item;

use super::draft::{Draft, EntityDraft};
use super::{Proposal, ProposeError, write};

/// An entity gives way in as many steps as this: its attributes' options, its indexes, itself.
const CONCESSIONS_MAX: u8 = 3;

/// Writes the draft and has it loaded, with less of it each time the loader objects.
///
/// # Errors
/// What the loader says, if it objects to what no entity can give way in.
pub fn settle(mut draft: Draft) -> Result<Proposal, ProposeError> {
    loop {
        let written = write::write(&draft);
        match load::load(&written.text, &draft.name) {
            Ok(Loaded { model, warnings }) => {
                let (items, seen, findings) = (0, 0, BTreeMap::new());
                return Ok(Proposal { text: written.text, model, warnings, items, seen, findings });
            }
            Err(faults) => {
                let errors = faults.iter().filter(|fault| fault.severity == Severity::Error);
                let mut gave_way = false;
                for fault in errors {
                    let at = written.entities.iter().position(|lines| lines.contains(&fault.position.line));
                    let entity = at.and_then(|at| draft.entities.get_mut(at));
                    gave_way |= entity.is_some_and(|entity| concede(entity, fault));
                }
                if !gave_way {
                    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
                    return Err(ProposeError::Refused(told.join(" | ")));
                }
            }
        }
    }
}

/// One step back; false if there is none left.
fn concede(entity: &mut EntityDraft, fault: &Fault) -> bool {
    if entity.withheld.is_some() || entity.concessions >= CONCESSIONS_MAX {
        return false;
    }
    let is_about_keys = ["C130", "C133", "C108", "C113"].contains(&fault.code);
    entity.concessions = if is_about_keys { CONCESSIONS_MAX } else { entity.concessions + 1 };
    match entity.concessions {
        1 => {
            let in_keys = variables(entity);
            for attribute in &mut entity.entity.attributes {
                let plain = Attribute::new(attribute.name.clone(), attribute.kind);
                let required = attribute.required && in_keys.contains(&attribute.name);
                *attribute = Attribute { required, ..plain };
            }
            entity.countable.clear();
            entity.notes.push(format!("check: without options of its attributes, because {}", fault.message));
        }
        2 => {
            entity.entity.indexes.clear();
            entity.notes.push(format!("check: without its indexes, because {}", fault.message));
        }
        _ => entity.withheld = Some(format!("{}; {}", fault.message, fault.remedy)),
    }
    true
}

fn variables(entity: &EntityDraft) -> Vec<String> {
    let keys = std::iter::once(&entity.entity.partition).chain(&entity.entity.sort);
    keys.flat_map(Template::variables).map(|variable| variable.name.clone()).collect()
}

/// What `audit` would find in these items, by rule code.
pub fn findings(model: &Model, items: &[Item]) -> BTreeMap<String, usize> {
    let names = model.table.key_names();
    let mut counts = BTreeMap::new();
    for item in items {
        let Some(key) = TableKey::of(item, &names) else { continue };
        for finding in derive(model, &key, item).findings {
            *counts.entry(finding.code.to_string()).or_default() += 1;
        }
    }
    counts
}
