//! Condition, update and key expressions with generated placeholders.
//!
//! Attribute names come from users' tables: they may be reserved words, contain dots, or begin with digits. Every name and value
//! therefore goes through a placeholder; nothing is ever written into an expression's text.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use super::convert::{Attributes, encode_value};
use crate::engine::ports::SortRange;
use crate::model::decimal::Decimal;
use crate::model::derived::Measures;
use crate::model::key::KeyNames;
use crate::model::value::{Item, Text, Value};
use crate::plan::write::Condition;

/// The placeholders of the expressions of one write or query.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    names: HashMap<String, String>,
    values: Attributes,
}

impl Placeholders {
    /// Names and values as requests take them: absent where empty, because an empty map is refused.
    pub(super) fn into_parts(self) -> (Option<HashMap<String, String>>, Option<Attributes>) {
        let names = (!self.names.is_empty()).then_some(self.names);
        let values = (!self.values.is_empty()).then_some(self.values);
        (names, values)
    }

    fn name(&mut self, name: &str) -> String {
        let placeholder = format!("#{}", self.names.len());
        self.names.insert(placeholder.clone(), name.to_owned());
        placeholder
    }

    fn value(&mut self, value: AttributeValue) -> String {
        let placeholder = format!(":{}", self.values.len());
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    /// `None` for [`Condition::Always`]. `partition` is the partition key's name: an item exists exactly if it has one.
    pub(super) fn condition(&mut self, condition: &Condition, partition: &str) -> Option<String> {
        Some(match condition {
            Condition::Always => return None,
            Condition::Absent => format!("attribute_not_exists({})", self.name(partition)),
            Condition::Equals(name, value) => format!("{} = {}", self.name(name), self.value(encode_value(value))),
            Condition::AbsentOrEquals(name, value) => {
                let absent = self.name(partition);
                format!("attribute_not_exists({absent}) OR {} = {}", self.name(name), self.value(encode_value(value)))
            }
            Condition::AbsentOrAll(all) => {
                let absent = self.name(partition);
                let equal = |(name, value): &(Text, Value)| {
                    format!("{} = {}", self.name(name), self.value(encode_value(value)))
                };
                let all: Vec<String> = all.iter().map(equal).collect();
                format!("attribute_not_exists({absent}) OR ({})", all.join(" AND "))
            }
            Condition::All(all) => {
                let holds = |(name, value): &(Text, Option<Value>)| match value {
                    Some(value) => format!("{} = {}", self.name(name), self.value(encode_value(value))),
                    None => format!("attribute_not_exists({})", self.name(name)),
                };
                all.iter().map(holds).collect::<Vec<_>>().join(" AND ")
            }
        })
    }

    /// `ADD …, … SET …, …`; `None` if there is nothing to change.
    pub(super) fn update(&mut self, add: &Measures, set: &Item) -> Option<String> {
        let number = |number: &Decimal| AttributeValue::N(number.to_string());
        let adds: Vec<String> =
            add.iter().map(|(name, by)| format!("{} {}", self.name(name), self.value(number(by)))).collect();
        let sets: Vec<String> =
            set.0.iter().map(|(name, to)| format!("{} = {}", self.name(name), self.value(encode_value(to)))).collect();
        let clauses = [("ADD", adds), ("SET", sets)];
        let present = clauses.into_iter().filter(|(_, parts)| !parts.is_empty());
        let text: Vec<String> = present.map(|(verb, parts)| format!("{verb} {}", parts.join(", "))).collect();
        (!text.is_empty()).then(|| text.join(" "))
    }

    /// The key condition of a query. Errors: a range of sort keys on a table without one.
    pub(super) fn key_condition(
        &mut self,
        partition: &Value,
        range: &SortRange,
        names: &KeyNames,
    ) -> Result<String, String> {
        let partition = format!("{} = {}", self.name(&names.partition), self.value(encode_value(partition)));
        if *range == SortRange::All {
            return Ok(partition);
        }
        let Some(sort) = &names.sort else {
            return Err("the table has no sort key to query a range of".to_owned());
        };
        let sort = self.name(sort);
        Ok(match range {
            SortRange::All => partition,
            SortRange::BeginsWith(prefix) => {
                format!("{partition} AND begins_with({sort}, {})", self.value(AttributeValue::S(prefix.clone())))
            }
            SortRange::Between(from, to) => {
                let (from, to) = (self.value(encode_value(from)), self.value(encode_value(to)));
                format!("{partition} AND {sort} BETWEEN {from} AND {to}")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_never_reach_the_text() {
        let mut places = Placeholders::default();
        let add = Measures::from([("Count_In Progress".into(), Decimal::from(1)), ("Total".into(), Decimal::zero())]);
        let set = Item::new().with("Group", Value::text("x"));
        assert_eq!(places.update(&add, &set).unwrap(), "ADD #0 :0, #1 :1 SET #2 = :2");
        let condition = Condition::AbsentOrEquals("_keeper".into(), Value::text("aggregate/a"));
        assert_eq!(places.condition(&condition, "PK").unwrap(), "attribute_not_exists(#3) OR #4 = :3");
        let all = Condition::AbsentOrAll(vec![
            ("_keeper".into(), Value::text("listing/a")),
            ("Source".into(), Value::text("x")),
        ]);
        assert_eq!(places.condition(&all, "PK").unwrap(), "attribute_not_exists(#5) OR (#6 = :4 AND #7 = :5)");
        let (names, values) = places.into_parts();
        assert_eq!(names.unwrap()["#0"], "Count_In Progress");
        assert_eq!(values.unwrap()[":3"], AttributeValue::S("aggregate/a".to_owned()));
    }

    #[test]
    fn what_is_empty_is_absent() {
        let mut places = Placeholders::default();
        assert_eq!(places.condition(&Condition::Always, "PK"), None);
        assert_eq!(places.update(&Measures::new(), &Item::new()), None);
        assert_eq!(places.into_parts(), (None, None));
    }

    #[test]
    fn a_range_needs_a_sort_key() {
        let names = KeyNames { partition: "id".into(), sort: None };
        let id = Value::text("a");
        assert_eq!(Placeholders::default().key_condition(&id, &SortRange::All, &names).unwrap(), "#0 = :0");
        let range = SortRange::BeginsWith("x".to_owned());
        assert!(Placeholders::default().key_condition(&id, &range, &names).is_err());
    }
}
