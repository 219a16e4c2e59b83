//! Key templates: `WO#{wo}`, `YEARS#{YearsOfExperience:04.1}#{Username}`.
//!
//! A template is literals and variables. What a variable's value is, and whether an item's key agrees with a template,
//! is decided in `derive`; this file knows the notation and how a value is written into a key.
//!
//! Notation inside braces: `{name}` or `{name:format,format}` with the formats
//! - `010`: a number padded with zeros to 10 integer digits; `04.1` pads to 4 integer digits and keeps 1 decimal;
//! - `ordinal`: the position (from 1) of the value in the attribute's `one_of`, padded to the length of the largest;
//! - `lower`, `upper`: the value in that case;
//! - `date`, `timestamp-utc`, `timestamp-utc.3`: a day, or a time in UTC with that many fraction digits (none unless said), as it
//!   is: a value in another form does not fit.
//!
//! `{{` and `}}` are literal braces.

use std::fmt;

use super::decimal::Decimal;
use super::spec::Format;
use super::time::{self, TimeError};

/// A parsed key template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// As written.
    pub source: String,
    /// Never two literals in a row.
    pub segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    Literal(String),
    Variable(Variable),
}

/// A variable of a template and how its value is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variable {
    pub name: String,
    pub pad: Option<Pad>,
    pub ordinal: bool,
    pub case: Option<Case>,
    /// A format of fixed width, or texts would not sort as times do.
    pub time: Option<Format>,
}

/// Fixed width for numbers: `integer` digits padded with zeros, then `fraction` decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pad {
    pub integer: usize,
    pub fraction: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Lower,
    Upper,
}

/// What may follow the colon, for messages.
const FORMATS: &str = "`010`, `04.1`, `ordinal`, `lower`, `upper`, `date`, `timestamp-utc` or `timestamp-utc.3`";

/// Why a text is not a template, with the byte offset in that text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    pub offset: usize,
    pub message: String,
}

/// Why a value cannot be written with a variable's format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("`{value}` is negative; a padded key holds none")]
    Negative { value: String },
    #[error("`{value}` has more than {digits} integer digits")]
    Overflow { value: String, digits: usize },
    #[error("`{value}` has more than {digits} decimals")]
    Fraction { value: String, digits: usize },
    #[error("`{value}` is not a number")]
    NotANumber { value: String },
    #[error("`{value}` is not one of the declared values")]
    NotDeclared { value: String },
    /// `format` is the variable's.
    #[error("{error}")]
    Time { value: String, format: Format, error: TimeError },
}

impl Template {
    /// Parses the notation above.
    pub fn parse(source: &str) -> Result<Template, TemplateError> {
        let mut segments = Vec::new();
        let mut literal = String::new();
        let mut rest = source.char_indices().peekable();
        while let Some((at, c)) = rest.next() {
            let doubled = rest.peek().is_some_and(|(_, next)| *next == c);
            match c {
                '{' | '}' if doubled => {
                    literal.push(c);
                    rest.next();
                }
                '{' => {
                    let close = source[at..].find('}').ok_or_else(|| error(at, "`{` without `}`"))?;
                    let variable = Variable::parse(&source[at + 1..at + close], at + 1)?;
                    if !literal.is_empty() {
                        segments.push(Segment::Literal(std::mem::take(&mut literal)));
                    }
                    segments.push(Segment::Variable(variable));
                    while rest.next_if(|(i, _)| *i <= at + close).is_some() {}
                }
                '}' => return Err(error(at, "`}` without `{`; write `}}` for a literal brace")),
                _ => literal.push(c),
            }
        }
        if !literal.is_empty() {
            segments.push(Segment::Literal(literal));
        }
        if segments.is_empty() {
            return Err(error(0, "a key template cannot be empty"));
        }
        Ok(Template { source: source.to_owned(), segments })
    }

    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Variable(variable) => Some(variable),
            Segment::Literal(_) => None,
        })
    }

    /// The literal that every key of this template begins with; empty if it begins with a variable.
    pub fn prefix(&self) -> &str {
        match self.segments.first() {
            Some(Segment::Literal(text)) => text,
            _ => "",
        }
    }

    /// The whole text, if there is no variable.
    pub fn constant(&self) -> Option<&str> {
        match self.segments.as_slice() {
            [Segment::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The parts of the key between delimiters that are literals as a whole, and so are the same in every key.
    pub fn literal_parts(&self, delimiter: &str) -> Vec<String> {
        let mut parts = Vec::new();
        for (number, segment) in self.segments.iter().enumerate() {
            let Segment::Literal(text) = segment else { continue };
            let pieces: Vec<&str> = if delimiter.is_empty() { vec![text] } else { text.split(delimiter).collect() };
            let last = pieces.len() - 1;
            let is_first = number == 0;
            let is_last = number + 1 == self.segments.len();
            // The pieces at the ends belong to the variables beside them.
            let whole = pieces.iter().enumerate().filter(|(at, _)| (*at > 0 || is_first) && (*at < last || is_last));
            parts.extend(whole.map(|(_, piece)| (*piece).to_owned()));
        }
        parts
    }

    /// True if no value shares its part of the key with a literal or another value: there is a delimiter or an end on both its sides.
    pub fn has_whole_values(&self, delimiter: &str) -> bool {
        let is_bound = |at: Option<usize>, bound: fn(&str, &str) -> bool| match at.map(|at| self.segments.get(at)) {
            Some(Some(Segment::Literal(text))) => !delimiter.is_empty() && bound(text, delimiter),
            Some(Some(Segment::Variable(_))) => false,
            // Before the first, or after the last.
            Some(None) | None => true,
        };
        let is_whole = |(at, segment): (usize, &Segment)| match segment {
            Segment::Literal(_) => true,
            Segment::Variable(_) => {
                is_bound(at.checked_sub(1), |text, delimiter| text.ends_with(delimiter))
                    && is_bound(Some(at + 1), |text, delimiter| text.starts_with(delimiter))
            }
        };
        self.segments.iter().enumerate().all(is_whole)
    }

    /// True if the template is one bare variable: `{Category}`. Such a key may be a number.
    pub fn bare_variable(&self) -> Option<&Variable> {
        match self.segments.as_slice() {
            [Segment::Variable(variable)] if variable.is_bare() => Some(variable),
            _ => None,
        }
    }
}

impl Variable {
    fn parse(text: &str, offset: usize) -> Result<Variable, TemplateError> {
        let (name, formats) = text.split_once(':').map_or((text, ""), |(name, formats)| (name, formats));
        let valid = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
        if !valid {
            return Err(error(
                offset,
                &format!("`{name}` is not a variable's name; use letters, digits, `_`, `-`, `.`"),
            ));
        }
        let mut variable = Variable { name: name.to_owned(), ..Variable::default() };
        for format in formats.split(',').filter(|format| !format.is_empty()) {
            match format {
                "ordinal" => variable.ordinal = true,
                "lower" => variable.case = Some(Case::Lower),
                "upper" => variable.case = Some(Case::Upper),
                _ => match (Pad::parse(format), time::key_format(format)) {
                    (Some(pad), _) => variable.pad = Some(pad),
                    (None, Some(time)) => variable.time = Some(time),
                    (None, None) => return Err(error(offset, &format!("`{format}` is not a format; use {FORMATS}"))),
                },
            }
        }
        let others = variable.pad.is_some() || variable.case.is_some();
        if variable.ordinal && (others || variable.time.is_some()) {
            return Err(error(offset, "`ordinal` goes with no other format"));
        }
        if variable.time.is_some() && others {
            return Err(error(offset, "the format of a time goes with no other format"));
        }
        Ok(variable)
    }

    /// True if the value is written as it is, whatever it is.
    pub fn is_bare(&self) -> bool {
        self.pad.is_none() && !self.ordinal && self.case.is_none() && self.time.is_none()
    }
}

impl Pad {
    fn parse(text: &str) -> Option<Pad> {
        let (integer, fraction) = text.strip_prefix('0')?.split_once('.').unwrap_or((&text[1..], "0"));
        let pad = Pad { integer: integer.parse().ok()?, fraction: fraction.parse().ok()? };
        ((1..=38).contains(&pad.integer) && pad.fraction <= 38).then_some(pad)
    }

    /// The number with fixed width, for example 7 under `04.1` as `0007.0`.
    pub fn write(self, number: &Decimal) -> Result<String, FormatError> {
        let value = number.to_plain();
        if number.is_negative() {
            return Err(FormatError::Negative { value });
        }
        let (integer, fraction) = value.split_once('.').unwrap_or((&value, ""));
        if integer.len() > self.integer {
            return Err(FormatError::Overflow { value, digits: self.integer });
        }
        if fraction.len() > self.fraction {
            return Err(FormatError::Fraction { digits: self.fraction, value });
        }
        let (width, decimals) = (self.integer, self.fraction);
        Ok(match decimals {
            0 => format!("{integer:0>width$}"),
            _ => format!("{integer:0>width$}.{fraction:0<decimals$}"),
        })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

fn error(offset: usize, message: &str) -> TemplateError {
    TemplateError { offset, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_variables_alternate() {
        let template = Template::parse("PR#{Number:010}#{Name:lower}{{x}}").unwrap();
        assert_eq!(template.prefix(), "PR#");
        assert_eq!(template.segments.len(), 5);
        assert_eq!(template.segments[4], Segment::Literal("{x}".to_owned()));
        let names: Vec<&str> = template.variables().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["Number", "Name"]);
    }

    #[test]
    fn literal_parts_are_those_between_delimiters() {
        let parts = |source: &str| Template::parse(source).unwrap().literal_parts("#").join(",");
        assert_eq!(parts("USER#{u}"), "USER");
        assert_eq!(parts("A##{b}#null"), "A,,null");
        assert_eq!(parts("X{a}Y#Z#{b}"), "Z");
        assert_eq!(parts("null"), "null");
        assert_eq!(parts("{a}"), "");
    }

    #[test]
    fn whole_values_have_delimiters_or_ends_beside_them() {
        let whole = |source: &str| Template::parse(source).unwrap().has_whole_values("#");
        for source in ["{a}", "USER#{u}", "A#{b}#{c}", "{a}#Z", "FIXED", "A#{b}#c#{d:04}"] {
            assert!(whole(source), "{source}");
        }
        for source in ["A{b}", "A#{b}-{c}", "{a}{b}", "A#{b}c#{d}", "A#b{c}"] {
            assert!(!whole(source), "{source}");
        }
        assert!(Template::parse("{a}").unwrap().has_whole_values(""));
        assert!(!Template::parse("{a}-{b}").unwrap().has_whole_values(""));
    }

    #[test]
    fn faults_carry_the_offset() {
        assert_eq!(Template::parse("A#{b").unwrap_err().offset, 2);
        assert_eq!(Template::parse("A#}").unwrap_err().offset, 2);
        assert_eq!(Template::parse("é#{b:x}").unwrap_err().offset, 4);
        for bad in [
            "",
            "{}",
            "{a b}",
            "{a:0}",
            "{a:099}",
            "{a:ordinal,lower}",
            "{a:date,lower}",
            "{a:timestamp}",
            "{a:timestamp-utc.10}",
        ] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn padding_is_fixed_width_or_refused() {
        let pad = |text: &str, number: &str| Pad::parse(text).unwrap().write(&number.parse().unwrap());
        assert_eq!(pad("010", "42").unwrap(), "0000000042");
        assert_eq!(pad("04.1", "7").unwrap(), "0007.0");
        assert_eq!(pad("04.1", "7.5").unwrap(), "0007.5");
        assert!(matches!(pad("02", "100"), Err(FormatError::Overflow { .. })));
        assert!(matches!(pad("02", "1.5"), Err(FormatError::Fraction { .. })));
        assert!(matches!(pad("02", "-1"), Err(FormatError::Negative { .. })));
    }
}
