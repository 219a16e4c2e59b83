//! What the names in templates and conditions stand for, for one item of one entity.
//!
//! A name is the item's attribute if the entity declares it (under any of its spellings; a declared "none" counts as
//! absent), else a variable: read from the item's keys, primary key first, where it must be the same everywhere.
//! [`Scope::read`] compares one key with its template and takes the unknown variables from it on the way.

use std::borrow::Cow;

use crate::model::decimal::Decimal;
use crate::model::spec::{Attribute, Condition, Entity, Model};
use crate::model::template::{FormatError, Template, Variable};
use crate::model::value::{Bytes, Item, Kind, Text, Value};

use super::render::{self, RenderFault, Rendered, parts, plain, split};

/// One item seen as one entity.
pub struct Scope<'a> {
    pub model: &'a Model,
    pub entity: &'a Entity,
    pub item: &'a Item,
    /// What the item carries of each of the entity's attributes, in their order: each is asked for many times.
    carried: Vec<Option<Carried<'a>>>,
    /// By name. Few, so that looking through them is the fastest way.
    variables: Vec<(Text, Value)>,
}

/// What comparing a key with its template gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    Agrees,
    /// A variable that another key of the item has given has another value here.
    TwoValues {
        name: String,
        known: String,
        found: String,
        expected: Value,
    },
    /// The key differs from what its template gives; `expected` is missing where a variable is known from nowhere.
    Differs {
        expected: Option<Value>,
    },
    /// The template cannot be rendered for this item.
    Unrendered(RenderFault),
}

/// An attribute of an item: the spelling under which it is there, and its value.
pub type Carried<'i> = (&'i str, &'i Value);

/// The value of an attribute as the item carries it, and under which spelling; declared "none" values included.
pub fn carried<'i>(attribute: &'i Attribute, item: &'i Item) -> Option<Carried<'i>> {
    let spellings = std::iter::once(&attribute.name).chain(&attribute.aliases);
    spellings.into_iter().find_map(|name| item.get(name).map(|value| (name.as_str(), value)))
}

/// True for values that the attribute declares to mean "none", such as `"N/A"`.
pub fn is_none(attribute: &Attribute, value: &Value) -> bool {
    !attribute.none.is_empty() && plain(value).is_some_and(|text| attribute.none.iter().any(|none| *none == text))
}

/// The attribute's value; absent, and declared "none", are `None`.
pub fn present<'i>(attribute: &'i Attribute, item: &'i Item) -> Option<&'i Value> {
    carried(attribute, item).map(|(_, value)| value).filter(|value| !is_none(attribute, value))
}

/// Whether an item has one of the condition's values; the attribute by the entity's declaration, if there is one.
pub fn condition_holds(entity: &Entity, item: &Item, condition: &Condition) -> bool {
    let value = match entity.attribute(&condition.attribute) {
        Some(attribute) => present(attribute, item),
        None => item.get(&condition.attribute),
    };
    value.and_then(plain).is_some_and(|text| condition.values.iter().any(|value| *value == text))
}

/// A key attribute's value as text: text and numbers plain, binary if it is UTF-8.
pub fn key_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::B(bytes) => std::str::from_utf8(&bytes.0).ok().map(Cow::Borrowed),
        Value::S(_) | Value::N(_) => plain(value),
        _ => None,
    }
}

impl<'a> Scope<'a> {
    pub fn new(model: &'a Model, entity: &'a Entity, item: &'a Item) -> Scope<'a> {
        let carried = entity.attributes.iter().map(|attribute| carried(attribute, item)).collect();
        Scope { model, entity, item, carried, variables: Vec::new() }
    }

    /// The entity's attributes, and what the item carries of each; declared "none" values included.
    pub fn attributes(&self) -> impl Iterator<Item = (&'a Attribute, Option<Carried<'a>>)> {
        self.entity.attributes.iter().zip(self.carried.iter().copied())
    }

    /// The value of a declared attribute, if the item has one; `None` for other names.
    fn declared(&self, name: &str) -> Option<Option<&'a Value>> {
        let (attribute, carried) = self.attributes().find(|(attribute, _)| attribute.name == name)?;
        Some(carried.map(|(_, value)| value).filter(|value| !is_none(attribute, value)))
    }

    /// The value that a name stands for.
    pub fn value(&self, name: &str) -> Result<&Value, RenderFault> {
        match self.declared(name) {
            Some(value) => value.ok_or_else(|| RenderFault::Absent { name: name.into() }),
            None => self.variable(name).ok_or_else(|| RenderFault::Unbound { name: name.into() }),
        }
    }

    /// All of the conditions hold; a name that is no declared attribute may be a variable.
    pub fn holds(&self, conditions: &[Condition]) -> bool {
        conditions.iter().all(|condition| match self.variable(&condition.attribute) {
            Some(value) if self.entity.attribute(&condition.attribute).is_none() => {
                plain(value).is_some_and(|text| condition.values.iter().any(|value| *value == text))
            }
            _ => condition_holds(self.entity, self.item, condition),
        })
    }

    pub fn text(&self, template: &Template) -> Result<Text, RenderFault> {
        render::text(template, |name| self.entity.attribute(name), |name| self.value(name))
    }

    pub fn render(&self, template: &Template) -> Result<Rendered, RenderFault> {
        render::render(template, &self.model.delimiter, |name| self.entity.attribute(name), |name| self.value(name))
    }

    /// The value that a key attribute of type `kind` should have.
    pub fn expected(&self, template: &Template, kind: Kind) -> Result<Value, RenderFault> {
        if let Some(variable) = template.bare_variable() {
            let value = self.value(&variable.name)?;
            if value.kind() == kind {
                return Ok(value.clone());
            }
        }
        let text = self.text(template)?;
        let name = || template.variables().next().map_or(template.source.as_str(), |variable| &variable.name).into();
        match kind {
            Kind::N => match text.parse::<Decimal>() {
                Ok(number) => Ok(Value::N(number)),
                Err(_) => {
                    Err(RenderFault::Format { name: name(), error: FormatError::NotANumber { value: text.into() } })
                }
            },
            Kind::B => Ok(Value::B(Bytes(text.as_bytes().to_vec()))),
            _ => Ok(Value::S(text)),
        }
    }

    /// Compares a key of the declared type with its template; variables that are not known yet are read from it.
    pub fn read(&mut self, template: &Template, actual: &Value) -> Reading {
        if let Some(variable) = template.bare_variable()
            && self.is_unbound(&variable.name)
        {
            self.variables.push((variable.name.as_str().into(), actual.clone()));
            return Reading::Agrees;
        }
        // Most keys are right, and the later ones hold nothing new.
        let is_known = !template.variables().any(|variable| self.is_unbound(&variable.name));
        if is_known && self.expected(template, actual.kind()).is_ok_and(|expected| expected == *actual) {
            return Reading::Agrees;
        }
        let conflict = match key_text(actual) {
            Some(text) => self.bind(template, &text),
            None => None,
        };
        match self.expected(template, actual.kind()) {
            Ok(expected) if expected == *actual => Reading::Agrees,
            Ok(expected) => match conflict {
                Some((name, known, found)) => Reading::TwoValues { name, known, found, expected },
                None => Reading::Differs { expected: Some(expected) },
            },
            Err(RenderFault::Unbound { .. }) => Reading::Differs { expected: None },
            Err(fault) => Reading::Unrendered(fault),
        }
    }

    /// Takes the variables that are not known yet from a key. Returns the first variable that was known with another
    /// value: its name, the known and the found text.
    fn bind(&mut self, template: &Template, text: &str) -> Option<(String, String, String)> {
        // Most often nothing is known yet.
        let is_new = template.variables().all(|variable| self.is_unbound(&variable.name));
        let with_known = if is_new { Vec::new() } else { parts(template, |variable| self.written(variable)) };
        if let Some(texts) = split(&with_known, text).filter(|_| !is_new) {
            if texts.is_empty() {
                return None;
            }
            let holes: Vec<&Variable> = template.variables().filter(|v| self.written(v).is_none()).collect();
            return self.take(&holes, &texts);
        }
        let texts = render::split_template(template, text)?;
        let all: Vec<&Variable> = template.variables().collect();
        self.take(&all, &texts)
    }

    fn take(&mut self, variables: &[&Variable], texts: &[&str]) -> Option<(String, String, String)> {
        let mut conflict = None;
        for (variable, found) in variables.iter().zip(texts) {
            if self.entity.attribute(&variable.name).is_some() {
                continue;
            }
            match self.variable(&variable.name) {
                None => {
                    self.variables.push((variable.name.as_str().into(), unwritten(variable, found)));
                }
                Some(known) => {
                    let known = render::write_one(variable, known, None).ok();
                    if conflict.is_none() && known.as_deref() != Some(found) {
                        let known = known.unwrap_or_default().into_owned();
                        conflict = Some((variable.name.clone(), known, (*found).to_owned()));
                    }
                }
            }
        }
        conflict
    }

    /// What a variable writes into a key, as far as its value is known.
    pub fn written(&self, variable: &Variable) -> Option<Cow<'_, str>> {
        let value = self.value(&variable.name).ok()?;
        render::write_one(variable, value, self.entity.attribute(&variable.name)).ok()
    }

    /// What was read from the item's keys.
    pub fn variables(&self) -> impl Iterator<Item = (&Text, &Value)> {
        self.variables.iter().map(|(name, value)| (name, value))
    }

    fn variable(&self, name: &str) -> Option<&Value> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn is_unbound(&self, name: &str) -> bool {
        self.entity.attribute(name).is_none() && self.variable(name).is_none()
    }
}

/// The value behind a text in a key: a padded number is a number, all else is text.
fn unwritten(variable: &Variable, text: &str) -> Value {
    match variable.pad.and_then(|_| text.parse().ok()) {
        Some(number) => Value::N(number),
        None => Value::text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::{attribute, entity, item, model, n};

    fn template(source: &str) -> Template {
        Template::parse(source).unwrap()
    }

    fn read(scope: &mut Scope<'_>, source: &str, key: &str) -> Reading {
        scope.read(&template(source), &Value::text(key))
    }

    #[test]
    fn a_variable_is_read_once_and_compared_ever_after() {
        let (model, entity, item) = (model("PK", "SK"), entity("E", "{x}", "{y}"), Item::new());
        let mut scope = Scope::new(&model, &entity, &item);
        assert_eq!(read(&mut scope, "WO#{wo}", "WO#7"), Reading::Agrees);
        assert_eq!(read(&mut scope, "IN#{p}#{wo}", "IN#a#b#7"), Reading::Agrees);
        assert_eq!(scope.value("p"), Ok(&Value::text("a#b")));
        let reading = read(&mut scope, "WO#{wo}", "WO#8");
        let (name, known, found) = ("wo".to_owned(), "7".to_owned(), "8".to_owned());
        assert_eq!(reading, Reading::TwoValues { name, known, found, expected: Value::text("WO#7") });
        assert_eq!(read(&mut scope, "WO#{wo}", "ORDER#7"), Reading::Differs { expected: Some(Value::text("WO#7")) });
        assert_eq!(read(&mut scope, "Q#{q}", "ORDER#7"), Reading::Differs { expected: None });
    }

    #[test]
    fn formats_are_compared_as_written() {
        let (model, entity, item) = (model("PK", "SK"), entity("E", "{x}", "{y}"), Item::new());
        let mut scope = Scope::new(&model, &entity, &item);
        assert_eq!(read(&mut scope, "PR#{n:04}", "PR#0042"), Reading::Agrees);
        assert_eq!(read(&mut scope, "P#{n}", "P#42"), Reading::Agrees);
        assert_eq!(read(&mut scope, "U#{u:lower}", "U#Ann"), Reading::Differs { expected: Some(Value::text("U#ann")) });
        assert!(matches!(read(&mut scope, "PR#{m:04}", "PR#abc"), Reading::Unrendered(RenderFault::Format { .. })));
    }

    #[test]
    fn attributes_come_before_variables_and_none_is_absent() {
        let model = model("PK", "SK");
        let mut entity = entity("E", "{x}", "{y}");
        entity.attributes =
            vec![Attribute { aliases: vec!["Until".into()], none: vec!["N/A".into()], ..attribute("Exp", Kind::S) }];
        let stated = item([("Until", "2026-01-01")]);
        let mut scope = Scope::new(&model, &entity, &stated);
        assert_eq!(read(&mut scope, "EXP#{Exp}", "EXP#2026-01-01"), Reading::Agrees);
        assert!(matches!(read(&mut scope, "EXP#{Exp}", "EXP#2025-01-01"), Reading::Differs { expected: Some(_) }));
        let none = item([("Exp", "N/A"), ("Until", "2026-01-01")]);
        let mut scope = Scope::new(&model, &entity, &none);
        let absent = RenderFault::Absent { name: "Exp".into() };
        assert_eq!(read(&mut scope, "EXP#{Exp}", "EXP#2025-01-01"), Reading::Unrendered(absent));
    }

    #[test]
    fn numbers_and_binary_are_compared_as_such() {
        let (model, entity, item) = (model("PK", "SK"), entity("E", "{x}", "{y}"), Item::new());
        let mut scope = Scope::new(&model, &entity, &item);
        assert_eq!(scope.read(&template("{years}"), &n("7")), Reading::Agrees);
        assert_eq!(scope.read(&template("{years}"), &n("7.0")), Reading::Agrees);
        assert!(
            matches!(scope.read(&template("{years}"), &n("8")), Reading::TwoValues { expected, .. } if expected == n("7"))
        );
        let raw = Value::B(Bytes(vec![0xff]));
        assert_eq!(scope.read(&template("{raw}"), &raw), Reading::Agrees);
        assert_eq!(scope.read(&template("{raw}"), &raw), Reading::Agrees);
        assert!(matches!(scope.read(&template("X#{other}"), &raw), Reading::Differs { expected: None }));
    }
}
