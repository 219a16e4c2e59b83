//! A307: a number outside its declared range.

use crate::derive::findings::{Details, Findings, shown};
use crate::derive::scope::Carried;
use crate::model::derived::Severity;
use crate::model::spec::Attribute;
use crate::model::value::Value;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "A307",
    name: "number-range",
    severity: Severity::Error,
    doc: "\
## What
A number is below the declared `min` or above the declared `max`. Both bounds are allowed values.

## Why it is bad
Such a value is a slip of the keyboard or another unit, and it moves every sum and mean it is part of.

## Example
`YearsOfExperience = -3` where `min = 0`.

## Instead
Mend the value, or widen the range in the model.
",
};

pub fn check(attribute: &Attribute, (name, value): Carried<'_>, findings: &mut Findings<'_>) {
    let Value::N(number) = value else { return };
    let expected = match (&attribute.min, &attribute.max) {
        (Some(min), _) if number < min => format!("at least {min}"),
        (_, Some(max)) if number > max => format!("at most {max}"),
        _ => return,
    };
    let actual = shown(value);
    let message = format!("`{name}` is {actual}, allowed is {expected}; mend the value, or the range in the model");
    let (attribute, expected) = (Some(name.to_owned()), Some(expected));
    findings.push(&RULE, Details { attribute, expected, actual: Some(actual), message });
}
