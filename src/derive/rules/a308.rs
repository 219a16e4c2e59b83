//! A308: a square or a sum that no DynamoDB number can hold.

use crate::derive::findings::{Details, Findings, shown};
use crate::model::decimal::DecimalError;
use crate::model::derived::Severity;
use crate::model::value::Value;

use super::Rule;

pub const RULE: Rule = Rule {
    code: "A308",
    name: "sum-does-not-fit",
    severity: Severity::Error,
    doc: "\
## What
The square of a value, or a sum that it would be part of, has more than 38 significant digits or leaves the range of
DynamoDB's numbers.

## Why it is bad
DynamoDB refuses the whole write. The measure is left out for this item, so the sum lacks it; the counts are right.

## Example
`Value = 12345678901234567890.5` in an aggregate with `sum_squares`: the square has 42 digits.

## Instead
Store values with the digits that were measured, or leave `sum_squares` out.
",
};

/// The square of the attribute's value does not fit; the measure of this aggregate is left out.
pub fn square(name: &str, value: &Value, aggregate: &str, error: &DecimalError, findings: &mut Findings<'_>) {
    let actual = shown(value);
    let message = format!(
        "the square of `{name}` = {actual} cannot be added to aggregate {aggregate}: {error}; \
         store fewer digits, or leave out `sum_squares`"
    );
    let expected = Some("a value whose square fits 38 digits".to_owned());
    findings.push(&RULE, Details { attribute: Some(name.to_owned()), expected, actual: Some(actual), message });
}

/// The total of a measure over all items at hand cannot be stored.
pub fn total(measure: &str, aggregate: &str, error: &DecimalError, findings: &mut Findings<'_>) {
    let message = format!(
        "`{measure}` of aggregate {aggregate} cannot be stored and is not shown: {error}; a table's sum would lack the items that \
         no longer fit; store fewer digits, or sum over smaller groups"
    );
    let expected = Some("a total that fits 38 digits".to_owned());
    findings.push(&RULE, Details { attribute: Some(measure.to_owned()), expected, message, ..Details::default() });
}

/// The sums of the aggregates that the item belongs to cannot take it.
pub fn sums(reason: &str, findings: &mut Findings<'_>) {
    let message = format!(
        "a sum does not fit 38 digits, so this item's values are not in the sums of its aggregates: {reason}; \
         store fewer digits, then reconcile"
    );
    findings.push(&RULE, Details { message, ..Details::default() });
}
