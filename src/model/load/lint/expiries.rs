//! Expiries: a date that can be read, and messages that can be written.

use super::templates::{self, Use};
use super::{Lint, rules};

pub(super) fn check(lint: &mut Lint) {
    let model = lint.model;
    for expiry in &model.expiries {
        let Some(entity) = lint.entity_of("expiry", &expiry.name, &expiry.of) else { continue };
        let span = lint.sink.value_span(&["expiry", &expiry.name, "date"]);
        if let Some(attribute) = lint.attribute_of(entity, &expiry.date, span.clone())
            && attribute.format.is_none()
        {
            // A format that could not be read has been reported where it stands.
            let written = lint.sink.has(&["entity", &entity.name, "attribute", &attribute.name, "format"]);
            if !written {
                let message = format!("`{}` has no time format, so nobody can say when it is due", attribute.name);
                lint.fault(&rules::NOT_A_DATE, span, message, "declare it with `format = \"date\"` or another format");
            }
        }
        lint.check_conditions(&["expiry", &expiry.name, "when"], &expiry.when, entity, &rules::NEVER_TRUE);
        for (key, template) in [("subject", &expiry.subject), ("owner", &expiry.owner)] {
            if let Some(template) = template {
                templates::check(lint, &["expiry", &expiry.name, key], template, entity, Use::Message);
            }
        }
    }
}
