//! `[severity]` and `[entity.X.severity]`: how much a rule's findings matter, of the whole table and of one entity.

use std::collections::BTreeMap;

use super::rules;
use crate::model::derived::Severity;
use crate::model::reader::{Fields, Sink, suggest};
use crate::model::rule::ITEM_CODES;

/// Rules about items of which nobody can say what entity they are.
const OF_NO_ENTITY: [&str; 5] = ["K102", "K103", "P901", "P902", "P903"];

/// The severities under the key `severity`, by rule code; of an entity's `fields` or the file's.
pub(super) fn read_severities(sink: &mut Sink, fields: &mut Fields<'_>) -> BTreeMap<String, Severity> {
    let of_entity = !fields.path.is_empty();
    let mut severities = BTreeMap::new();
    let Some(mut fields) = fields.take(sink, "severity").and_then(|field| field.fields(sink)) else {
        return severities;
    };
    for (code, field) in fields.take_all(sink) {
        if !ITEM_CODES.contains(&code.as_str()) {
            let message = format!("`{code}` is not the code of a rule about items");
            let remedy = suggest::remedy(&code, ITEM_CODES.iter().copied());
            sink.fault(&rules::UNKNOWN_VALUE, field.key.clone(), message, remedy);
        }
        if of_entity && OF_NO_ENTITY.contains(&code.as_str()) {
            let message = format!("findings of `{code}` are of no entity, so this would never apply");
            sink.fault(&rules::UNKNOWN_VALUE, field.key.clone(), message, "set it under `[severity]`");
        }
        let level = match field.one_of(sink, &["error", "warning", "info"]).as_deref() {
            Some("error") => Severity::Error,
            Some("warning") => Severity::Warning,
            Some(_) => Severity::Info,
            None => continue,
        };
        severities.insert(code, level);
    }
    severities
}
