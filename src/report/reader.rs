//! A reader of TOML tables that keeps places and collects every fault instead of stopping at the first.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::model::derived::Severity;
use crate::model::position::{Fault, Position};

/// Collects faults of one file.
pub struct Faults<'a> {
    source: &'a str,
    found: Vec<Fault>,
}

/// A text and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    pub value: String,
    pub span: Range<usize>,
}

/// One table being read: keys that nobody asked for are faults at [`Reader::finish`].
pub struct Reader<'t> {
    table: &'t DeTable<'t>,
    span: Range<usize>,
    /// How messages call the table, for example `section 2`.
    name: String,
    known: BTreeSet<&'static str>,
}

impl<'a> Faults<'a> {
    pub fn new(source: &'a str) -> Faults<'a> {
        Faults { source, found: Vec::new() }
    }

    pub fn push(
        &mut self,
        code: &'static str,
        span: Range<usize>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.found.push(Fault {
            code,
            severity: Severity::Error,
            position: Position::of(self.source, span.start),
            span,
            message: message.into(),
            remedy: remedy.into(),
        });
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All faults in the order of the file.
    pub fn sorted(mut self) -> Vec<Fault> {
        self.found.sort_by(|a, b| (a.span.start, a.code).cmp(&(b.span.start, b.code)));
        self.found
    }
}

impl<'t> Reader<'t> {
    pub fn new(table: &'t DeTable<'t>, span: Range<usize>, name: impl Into<String>) -> Reader<'t> {
        Reader { table, span, name: name.into(), known: BTreeSet::new() }
    }

    /// Where the table stands.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn value(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.known.insert(key);
        self.table.get(key)
    }

    pub fn text(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<Text> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(Text { value: text.to_string(), span: value.span() }),
            other => {
                self.wrong_type(key, "a text", other.type_str(), value.span(), faults);
                None
            }
        }
    }

    pub fn required(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<Text> {
        if self.value(key).is_none() {
            let message = format!("{} has no `{key}`", self.name);
            faults.push("C204", self.span(), message, format!("add `{key} = \"...\"`"));
            return None;
        }
        let text = self.text(key, faults)?;
        if text.value.trim().is_empty() {
            let message = format!("`{key}` of {} is empty", self.name);
            faults.push("C204", text.span.clone(), message, "write something there");
        }
        Some(text)
    }

    /// A whole number from 1 up to `max`.
    pub fn count(&mut self, key: &'static str, max: usize, faults: &mut Faults<'_>) -> Option<usize> {
        let value = self.value(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let number = number.filter(|n| (1..=max).contains(n));
        if number.is_none() {
            let message = format!("`{key}` of {} is not a whole number from 1 to {max}", self.name);
            faults.push("C205", value.span(), message, format!("write `{key} = 25`, for example"));
        }
        number
    }

    /// A text or a list of texts.
    pub fn texts(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Vec<Text> {
        let Some(value) = self.value(key) else { return Vec::new() };
        match value.get_ref() {
            DeValue::String(text) => vec![Text { value: text.to_string(), span: value.span() }],
            DeValue::Array(list) => {
                let mut texts = Vec::new();
                for entry in list.iter() {
                    match entry.get_ref() {
                        DeValue::String(text) => texts.push(Text { value: text.to_string(), span: entry.span() }),
                        other => self.wrong_type(key, "a list of texts", other.type_str(), entry.span(), faults),
                    }
                }
                texts
            }
            other => {
                self.wrong_type(key, "a text or a list of texts", other.type_str(), value.span(), faults);
                Vec::new()
            }
        }
    }

    pub fn table(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<Reader<'t>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(Reader::new(table, value.span(), format!("`{key}` of {}", self.name))),
            other => {
                self.wrong_type(key, "a table", other.type_str(), value.span(), faults);
                None
            }
        }
    }

    /// A list of tables, each named `<what> <number from 1>`.
    pub fn tables(&mut self, key: &'static str, what: &str, faults: &mut Faults<'_>) -> Vec<Reader<'t>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Array(list) = value.get_ref() else {
            self.wrong_type(key, "a list of tables", value.get_ref().type_str(), value.span(), faults);
            return Vec::new();
        };
        let mut readers = Vec::new();
        for (at, entry) in list.iter().enumerate() {
            match entry.get_ref() {
                DeValue::Table(table) => {
                    readers.push(Reader::new(table, entry.span(), format!("{what} {}", at + 1)));
                }
                other => self.wrong_type(key, "a list of tables", other.type_str(), entry.span(), faults),
            }
        }
        readers
    }

    /// The table's own keys with their texts, for tables whose keys are the author's words.
    pub fn words(&self, faults: &mut Faults<'_>) -> Vec<(Text, Text)> {
        let mut words = Vec::new();
        for (key, value) in self.table.iter() {
            let word = Text { value: key.get_ref().to_string(), span: key.span() };
            match value.get_ref() {
                DeValue::String(text) => words.push((word, Text { value: text.to_string(), span: value.span() })),
                other => {
                    let message = format!("`{}` in {} is {}, not a text", word.value, self.name, other.type_str());
                    faults.push("C205", value.span(), message, "write a text in quotes");
                }
            }
        }
        words
    }

    /// Reports every key that is not known.
    pub fn finish(self, faults: &mut Faults<'_>) {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !self.known.contains(name) {
                let message = format!("{} knows no key `{name}`", self.name);
                faults.push("C203", key.span(), message, suggestion(name, self.known.iter().copied()));
            }
        }
    }

    fn wrong_type(&self, key: &str, wanted: &str, got: &str, span: Range<usize>, faults: &mut Faults<'_>) {
        let message = format!("`{key}` of {} is {got}, not {wanted}", self.name);
        faults.push("C205", span, message, format!("write {wanted}"));
    }
}

/// "did you mean" for the nearest word, else the list of all.
pub fn suggestion<'w>(wrong: &str, words: impl Iterator<Item = &'w str>) -> String {
    let words: Vec<&str> = words.collect();
    let nearest = words.iter().map(|word| (distance(wrong, word), *word)).min();
    match nearest {
        Some((distance, word)) if distance <= 2.max(wrong.chars().count() / 3) => format!("did you mean `{word}`?"),
        _ => format!("use one of {}", words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")),
    }
}

/// Edits (insert, delete, replace) between two words; long words are cut, it is only for hints.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(40).collect(), b.chars().take(40).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
