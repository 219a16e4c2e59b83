//! Writing values into keys and reading them back.
//!
//! A key is text made of literals and values, so two different sets of values can give one text. The contract: a key is
//! judged by rendering and comparing, never by splitting alone; splitting ([`split`]) only supplies values that are known
//! from nowhere else. [`Rendered::exact`] says whether the text reads back to the very values that were written: texts
//! of one template that are all exact are different wherever their values are.

use std::borrow::Cow;

use smol_str::SmolStrBuilder;

use crate::model::spec::Attribute;
use crate::model::template::{Case, FormatError, Segment, Template, Variable};
use crate::model::time;
use crate::model::value::{Kind, Text, Value};

/// Why a template cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderFault {
    /// A declared attribute that the item does not have (or has as a declared "none").
    #[error("the item has no `{name}`")]
    Absent { name: Text },
    /// A variable that no key of the item gives.
    #[error("no key of the item gives `{name}`")]
    Unbound { name: Text },
    /// A value that has no plain form: a map, a list, a set, binary, NULL.
    #[error("`{name}` is of type {}, which a key cannot hold", kind.name())]
    NotPlain { name: Text, kind: Kind },
    /// A value that the variable's format cannot write.
    #[error("`{name}` does not fit: {error}")]
    Format { name: Text, error: FormatError },
}

impl RenderFault {
    /// The attribute or variable at fault.
    pub fn name(&self) -> &str {
        match self {
            RenderFault::Absent { name }
            | RenderFault::Unbound { name }
            | RenderFault::NotPlain { name, .. }
            | RenderFault::Format { name, .. } => name,
        }
    }
}

/// A rendered text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    pub text: Text,
    /// No value holds the delimiter, none was changed by a case rule, and the text splits into the same values.
    pub exact: bool,
}

/// One value as a key holds it.
struct Written<'v> {
    text: Cow<'v, str>,
    /// Another value would have given the same text.
    lossy: bool,
}

/// The form of a value inside keys, groups and conditions: text as it is, numbers without exponent, `true`, `false`.
pub fn plain(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::S(text) => Some(Cow::Borrowed(text)),
        Value::N(number) => Some(Cow::Owned(number.to_plain())),
        Value::Bool(true) => Some(Cow::Borrowed("true")),
        Value::Bool(false) => Some(Cow::Borrowed("false")),
        _ => None,
    }
}

/// The text alone, where nobody asks whether it is exact.
pub fn text<'v>(
    template: &Template,
    declared: impl Fn(&str) -> Option<&'v Attribute>,
    value_of: impl Fn(&str) -> Result<&'v Value, RenderFault>,
) -> Result<Text, RenderFault> {
    let mut text = SmolStrBuilder::new();
    for segment in &template.segments {
        match segment {
            Segment::Literal(literal) => text.push_str(literal),
            Segment::Variable(variable) => {
                text.push_str(&write(variable, value_of(&variable.name)?, declared(&variable.name))?.text);
            }
        }
    }
    Ok(text.finish())
}

/// Renders with the values that `value_of` gives; `declared` finds an attribute's declaration, for `ordinal`.
pub fn render<'v>(
    template: &Template,
    delimiter: &str,
    declared: impl Fn(&str) -> Option<&'v Attribute>,
    value_of: impl Fn(&str) -> Result<&'v Value, RenderFault>,
) -> Result<Rendered, RenderFault> {
    let mut text = SmolStrBuilder::new();
    let mut values = Vec::new();
    let mut exact = true;
    for segment in &template.segments {
        match segment {
            Segment::Literal(literal) => text.push_str(literal),
            Segment::Variable(variable) => {
                let written = write(variable, value_of(&variable.name)?, declared(&variable.name))?;
                exact &= !written.lossy && (delimiter.is_empty() || !written.text.contains(delimiter));
                text.push_str(&written.text);
                values.push(written.text);
            }
        }
    }
    let text = text.finish();
    let mut written = values.iter();
    let mut agrees = true;
    let is_read = read_template(template, &text, |found| agrees &= written.next().is_some_and(|value| value == found));
    Ok(Rendered { text, exact: exact && is_read && agrees })
}

/// The text of one value under one variable's format.
pub fn write_one<'v>(
    variable: &Variable,
    value: &'v Value,
    declared: Option<&Attribute>,
) -> Result<Cow<'v, str>, RenderFault> {
    write(variable, value, declared).map(|written| written.text)
}

fn write<'v>(variable: &Variable, value: &'v Value, declared: Option<&Attribute>) -> Result<Written<'v>, RenderFault> {
    let name = || Text::from(variable.name.as_str());
    let plain = plain(value).ok_or_else(|| RenderFault::NotPlain { name: name(), kind: value.kind() })?;
    let fault = |error| RenderFault::Format { name: name(), error };
    if variable.ordinal {
        let set = declared.map(|attribute| attribute.one_of.as_slice()).unwrap_or_default();
        let position = set.iter().position(|one| *one == plain);
        let position = position.ok_or_else(|| fault(FormatError::NotDeclared { value: plain.into_owned() }))? + 1;
        let width = set.len().to_string().len();
        return Ok(Written { text: format!("{position:0>width$}").into(), lossy: false });
    }
    if let Some(format) = variable.time {
        time::check(value, format)
            .map_err(|error| fault(FormatError::Time { value: plain.clone().into_owned(), format, error }))?;
    }
    let mut lossy = false;
    let mut text = match variable.pad {
        None => plain,
        Some(pad) => {
            let number = match value {
                Value::N(number) => number.clone(),
                _ => plain.parse().map_err(|_| fault(FormatError::NotANumber { value: plain.clone().into_owned() }))?,
            };
            lossy = plain != number.to_plain();
            pad.write(&number).map_err(fault)?.into()
        }
    };
    if let Some(case) = variable.case {
        let cased = match case {
            Case::Lower => text.to_lowercase(),
            Case::Upper => text.to_uppercase(),
        };
        lossy |= cased != text;
        text = cased.into();
    }
    Ok(Written { text, lossy })
}

/// A piece of a key to be read: a known text, or a hole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part<'t> {
    Text(Cow<'t, str>),
    Hole,
}

/// The parts of a template where `known` gives the texts of the variables that are no holes; texts are joined, because
/// a long known text finds its place where a short one may not.
pub fn parts<'t>(template: &'t Template, mut known: impl FnMut(&'t Variable) -> Option<Cow<'t, str>>) -> Vec<Part<'t>> {
    let mut parts: Vec<Part<'t>> = Vec::with_capacity(template.segments.len());
    for segment in &template.segments {
        let text = match segment {
            Segment::Literal(text) => Cow::Borrowed(text.as_str()),
            Segment::Variable(variable) => match known(variable) {
                Some(text) => text,
                None => {
                    parts.push(Part::Hole);
                    continue;
                }
            },
        };
        match parts.last_mut() {
            Some(Part::Text(before)) => before.to_mut().push_str(&text),
            _ => parts.push(Part::Text(text)),
        }
    }
    parts
}

/// The texts of all variables of a template; `None` where the key has another shape.
pub fn split_template<'k>(template: &Template, key: &'k str) -> Option<Vec<&'k str>> {
    let mut texts = Vec::new();
    read_template(template, key, |text| texts.push(text)).then_some(texts)
}

/// True if the key has the template's shape.
pub fn has_shape(template: &Template, key: &str) -> bool {
    read_template(template, key, |_| ())
}

/// Hands out the texts of the variables up to where the key has another shape; true if it has this one.
fn read_template<'k>(template: &Template, key: &'k str, found: impl FnMut(&'k str)) -> bool {
    read(template.segments.iter().map(Known::of_segment), key, found)
}

/// The texts in the holes, each up to the next known text, the last one to the end; `None` where it does not fit.
pub fn split<'k>(parts: &[Part<'_>], key: &'k str) -> Option<Vec<&'k str>> {
    let mut texts = Vec::new();
    read(parts.iter().map(Known::of_part), key, |text| texts.push(text)).then_some(texts)
}

/// A [`Part`] on loan.
enum Known<'t> {
    Text(&'t str),
    Hole,
}

impl<'t> Known<'t> {
    fn of_segment(segment: &'t Segment) -> Known<'t> {
        match segment {
            Segment::Literal(text) => Known::Text(text),
            Segment::Variable(_) => Known::Hole,
        }
    }

    fn of_part(part: &'t Part<'_>) -> Known<'t> {
        match part {
            Part::Text(text) => Known::Text(text),
            Part::Hole => Known::Hole,
        }
    }
}

fn read<'k, 't>(parts: impl Iterator<Item = Known<'t>>, key: &'k str, mut found: impl FnMut(&'k str)) -> bool {
    let mut rest = key;
    let mut open = false;
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        match part {
            Known::Hole if open => found(&rest[..0]),
            Known::Hole => open = true,
            Known::Text(text) if open => {
                let is_last = parts.peek().is_none();
                let at = if is_last { rest.strip_suffix(text).map(str::len) } else { rest.find(text) };
                let Some(at) = at else { return false };
                found(&rest[..at]);
                rest = &rest[at + text.len()..];
                open = false;
            }
            Known::Text(text) => match rest.strip_prefix(text) {
                Some(after) => rest = after,
                None => return false,
            },
        }
    }
    if open {
        found(rest);
    }
    open || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn template(source: &str) -> Template {
        Template::parse(source).unwrap()
    }

    fn one(source: &str, value: Value) -> Result<Rendered, RenderFault> {
        let levels =
            Attribute { one_of: vec!["Low".into(), "High".into()], ..crate::derive::testing::attribute("x", Kind::S) };
        render(&template(source), "#", |_| Some(&levels), |_| Ok(&value))
    }

    #[test]
    fn values_are_written_by_their_format() {
        let n = |text: &str| Value::N(text.parse().unwrap());
        assert_eq!(one("PR#{x:010}", n("42")).unwrap().text, "PR#0000000042");
        assert_eq!(one("L#{x:ordinal}", Value::text("High")).unwrap().text, "L#2");
        assert_eq!(one("{x}", n("1E3")).unwrap().text, "1000");
        assert_eq!(one("{x}", Value::Bool(false)).unwrap().text, "false");
        assert!(matches!(one("L#{x:ordinal}", Value::text("high")), Err(RenderFault::Format { .. })));
        assert!(matches!(one("{x}", Value::Null(true)), Err(RenderFault::NotPlain { .. })));
    }

    #[test]
    fn what_another_value_could_have_given_is_not_exact() {
        assert!(one("U#{x:lower}", Value::text("ann")).unwrap().exact);
        assert!(!one("U#{x:lower}", Value::text("Ann")).unwrap().exact);
        assert!(!one("U#{x}", Value::text("a#b")).unwrap().exact);
        assert!(!one("U#{x:03}", Value::text("07")).unwrap().exact);
        // `-` is not the delimiter, yet `a-b` + `c` and `a` + `b-c` are one text.
        assert!(!one("{x}-{x}", Value::text("a-b")).unwrap().exact);
    }

    #[test]
    fn splitting_goes_literal_to_literal_and_the_last_takes_the_rest() {
        let read = |source: &str, key: &str| split_template(&template(source), key).map(|h| h.join("|"));
        assert_eq!(read("A#{x}#{y}", "A#1#2#3").as_deref(), Some("1|2#3"));
        assert_eq!(read("A#{x}#Z", "A#1#Z#Z").as_deref(), Some("1#Z"));
        assert_eq!(read("A#{x}#{y}", "A##B").as_deref(), Some("|B"));
        assert_eq!(read("A#{x}", "B#1"), None);
        assert_eq!(read("A#{x}#Z", "A#Z"), None);
        assert_eq!(read("FIXED", "FIXED").as_deref(), Some(""));
        assert_eq!(read("FIXED", "FIXED2"), None);
    }

    proptest! {
        /// What is rendered reads back: always the shape, and the values wherever the text is exact.
        #[test]
        fn render_and_split_are_inverse(values in prop::collection::vec("[ab#-]{0,4}", 3)) {
            let template = template("X#{0}#{1}-{2}");
            let values: Vec<Value> = values.into_iter().map(Value::text).collect();
            let rendered = render(&template, "#", |_| None, |name| Ok(&values[name.parse::<usize>().unwrap()])).unwrap();
            let read = split_template(&template, &rendered.text);
            prop_assert!(read.is_some());
            if rendered.exact {
                let written: Vec<&str> = values.iter().filter_map(Value::as_text).collect();
                prop_assert_eq!(read.unwrap(), written);
            }
        }

        #[test]
        fn any_text_is_split_or_not(source in "[A#{}x]{1,12}", key in "\\PC{0,20}") {
            if let Ok(template) = Template::parse(&source) {
                let _ = split_template(&template, &key);
            }
        }
    }
}
