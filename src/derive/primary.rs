//! The primary key against its templates: K101 and K104.

use crate::model::key::TableKey;
use crate::model::template::Template;
use crate::model::value::Value;

use super::findings::Findings;
use super::render::RenderFault;
use super::rules::{a304, k101, k104, s406};
use super::scope::{Reading, Scope};
use crate::model::template::FormatError;

/// One part of the primary key, compared with its template.
pub struct Part<'a> {
    /// Name of the key attribute.
    pub at: &'a str,
    pub template: &'a Template,
    pub actual: Value,
    pub reading: Reading,
}

/// Compares both parts, partition first, and takes the variables from them.
pub fn read<'a>(scope: &mut Scope<'a>, key: &TableKey) -> Vec<Part<'a>> {
    let (table, entity) = (&scope.model.table, scope.entity);
    let partition = Some((&table.partition_key, &entity.partition, &key.partition));
    let sort = match (&table.sort_key, &entity.sort, &key.sort) {
        (Some(attribute), Some(template), Some(value)) => Some((attribute, template, value)),
        _ => None,
    };
    let parts = [partition, sort].into_iter().flatten();
    let part = |(attribute, template, actual): (&'a crate::model::spec::KeyAttribute, &'a Template, &Value)| {
        let reading = scope.read(template, actual);
        Part { at: attribute.name.as_str(), template, actual: actual.clone(), reading }
    };
    parts.map(part).collect()
}

/// True if the primary key is what its templates give; what is not becomes a finding.
pub fn check(scope: &mut Scope<'_>, key: &TableKey, findings: &mut Findings<'_>) -> bool {
    let parts = read(scope, key);
    let entity = scope.entity;
    for Part { at, template, actual, reading } in &parts {
        match reading {
            Reading::Agrees => {}
            Reading::TwoValues { expected, .. } | Reading::Differs { expected: Some(expected) }
                if s406::is_broken(template, actual, expected) =>
            {
                s406::found(entity, None, at, template, (actual, expected), findings);
            }
            Reading::TwoValues { name, known, found, expected } => {
                k104::found(entity, at, (name, known, found), (actual, expected), findings);
            }
            Reading::Differs { expected } => {
                k101::differs(entity, at, template, actual, expected.as_ref(), findings);
            }
            Reading::Unrendered(RenderFault::Format { error: fault @ FormatError::Time { .. }, .. }) => {
                a304::in_key(None, at, actual, fault, findings);
            }
            Reading::Unrendered(fault) => k101::unrendered(entity, at, template, actual, fault, findings),
        }
    }
    parts.iter().all(|part| part.reading == Reading::Agrees)
}
