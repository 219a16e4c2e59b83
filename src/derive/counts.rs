//! What one item adds to the aggregates.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::model::decimal::Decimal;
use crate::model::derived::{Contribution, Measures};
use crate::model::spec::Aggregate;
use crate::model::value::{Item, Text, Value, joined};

use super::findings::{Findings, shown};
use super::own;
use super::render::{RenderFault, plain};
use super::rules::a309::LeftOut;
use super::rules::{a308, a309};
use super::scope::Scope;

/// The bucket of values outside the declared set.
const OTHER: &str = "Other";

/// One contribution for each aggregate that the item belongs to.
pub fn contributions(scope: &Scope<'_>, findings: &mut Findings<'_>) -> Vec<Contribution> {
    let of_entity = scope.model.aggregates.iter().filter(|aggregate| aggregate.of == scope.entity.name);
    of_entity
        .filter(|aggregate| scope.holds(&aggregate.when))
        .filter_map(|aggregate| contribution(scope, aggregate, findings))
        .collect()
}

fn contribution(scope: &Scope<'_>, aggregate: &Aggregate, findings: &mut Findings<'_>) -> Option<Contribution> {
    let group = group(scope, aggregate)?;
    let what = LeftOut { kind: "aggregate", name: &aggregate.name };
    let partition = rendered(scope, scope.text(&aggregate.partition), what, findings)?;
    let sort = match &aggregate.sort {
        Some(template) => Some(rendered(scope, scope.text(template), what, findings)?),
        None => None,
    };
    match own::key(scope.model, partition, sort) {
        Ok(key) => {
            let measures = measures(scope, aggregate, findings);
            Some(Contribution { aggregate: aggregate.name.as_str().into(), key, group, measures })
        }
        Err(fault) => {
            a309::found(what, None, None, &fault.to_string(), findings);
            None
        }
    }
}

/// The values that make the group; `None` where one is absent: such an item is in no group.
fn group(scope: &Scope<'_>, aggregate: &Aggregate) -> Option<Item> {
    let value = |name: &String| Some((name.as_str().into(), scope.value(name).ok()?.clone()));
    let values: Option<BTreeMap<Text, Value>> = aggregate.group_by.iter().map(value).collect();
    values.map(Item)
}

/// What was rendered for a derived key; a value that is there but cannot be written is a finding, an absent one is not.
pub fn rendered<R>(
    scope: &Scope<'_>,
    rendered: Result<R, RenderFault>,
    what: LeftOut<'_>,
    findings: &mut Findings<'_>,
) -> Option<R> {
    match rendered {
        Ok(rendered) => Some(rendered),
        Err(RenderFault::Absent { .. } | RenderFault::Unbound { .. }) => None,
        Err(fault) => {
            let actual = scope.value(fault.name()).ok().map(shown);
            a309::found(what, Some(fault.name()), actual, &fault.to_string(), findings);
            None
        }
    }
}

fn measures(scope: &Scope<'_>, aggregate: &Aggregate, findings: &mut Findings<'_>) -> Measures {
    let mut measures = Measures::new();
    measures.insert("Total".into(), Decimal::from(1));
    if let Some(name) = &aggregate.count_by {
        let value = scope.value(name).ok().and_then(plain);
        let bucket = value
            .filter(|value| aggregate.buckets.iter().any(|bucket| bucket == value))
            .unwrap_or(Cow::Borrowed(OTHER));
        measures.insert(joined(&["Count_", &bucket]), Decimal::from(1));
    }
    for name in &aggregate.sum {
        if let Ok(Value::N(number)) = scope.value(name) {
            measures.insert(joined(&["Sum_", name]), number.clone());
        }
    }
    for name in &aggregate.sum_squares {
        if let Ok(value @ Value::N(number)) = scope.value(name) {
            match number.checked_square() {
                Ok(square) => {
                    measures.insert(joined(&["SumSq_", name]), square);
                }
                Err(error) => a308::square(name, value, &aggregate.name, &error, findings),
            }
        }
    }
    measures.retain(|_, number| !number.is_zero());
    measures
}

/// The measures of the values themselves, without the counts.
pub fn is_sum(measure: &str) -> bool {
    measure.starts_with("Sum_") || measure.starts_with("SumSq_")
}
