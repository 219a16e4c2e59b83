//! The reader of all files that people write by hand: model files and report definitions.
//!
//! It walks the spanned TOML tree, notes faults and goes on. Serde would stop at the first wrong value and could not say
//! what the lints need: where a part stands. So the tree is walked by hand: [`Fields`] reads a table key by key and refuses
//! what nobody asked for; [`Sink`] gathers faults and remembers the place of each part by its path, for example
//! `["aggregate", "by_status", "key", "PK"]`. A [`Grammar`] gives the faults the codes of their kind of file.

mod rules;
pub mod suggest;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Range, RangeInclusive};

use smol_str::format_smolstr;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

pub use self::rules::Grammar;
pub(crate) use self::rules::fault_rules;
use super::decimal::Decimal;
use super::position::{Fault, Position, line_starts};
use super::rule::Rule;
use super::value::Text;

/// The keys that lead to a part of the file.
pub type Path = Vec<Text>;

/// The path of an element: its number from 1, set off so that messages read `section 2.chart`.
fn element(path: &[Text], index: usize) -> Path {
    let mut path = path.to_vec();
    path.push(format_smolstr!(" {}", index + 1));
    path
}

/// The path as messages spell it.
pub fn shown(path: &[Text]) -> String {
    path.join(".").replace(". ", " ")
}

/// A path from its parts.
pub fn path(parts: &[&str]) -> Path {
    parts.iter().map(Text::new).collect()
}

#[derive(Debug, Clone)]
struct Place {
    key: Range<usize>,
    value: Range<usize>,
}

/// Gathers faults, places and the parts that could not be read.
pub struct Sink<'s> {
    source: &'s str,
    /// Where its lines begin.
    lines: Vec<usize>,
    grammar: &'static Grammar,
    faults: Vec<Fault>,
    places: HashMap<Path, Place>,
    broken: BTreeSet<Path>,
    /// The parts whose own value is at fault.
    faulty: BTreeSet<Path>,
    /// What stands in the texts of a part that could not be read; `None` where not even that is known.
    unread: BTreeMap<Path, Option<String>>,
    /// The parts that are `true`.
    switched_on: BTreeSet<Path>,
}

impl<'s> Sink<'s> {
    pub fn new(source: &'s str, grammar: &'static Grammar) -> Sink<'s> {
        let lines = line_starts(source);
        Sink {
            source,
            grammar,
            faults: Vec::new(),
            // About one a line.
            places: HashMap::with_capacity(lines.len()),
            lines,
            broken: BTreeSet::new(),
            faulty: BTreeSet::new(),
            unread: BTreeMap::new(),
            switched_on: BTreeSet::new(),
        }
    }

    /// The tree of the file; `None`, with all faults of its syntax, if it is not TOML.
    pub fn parse(&mut self) -> Option<Spanned<DeTable<'s>>> {
        let (root, syntax) = DeTable::parse_recoverable(self.source);
        for error in &syntax {
            let span = error.span().unwrap_or(0..0);
            self.fault(&self.grammar.syntax, span, error.message().to_owned(), "mend the TOML here");
        }
        syntax.is_empty().then_some(root)
    }

    pub fn fault(&mut self, rule: &Rule, span: Range<usize>, message: String, remedy: impl Into<String>) {
        self.faults.push(Fault {
            code: rule.code,
            severity: rule.severity,
            position: Position::of(self.source, &self.lines, span.start),
            span,
            message,
            remedy: remedy.into(),
        });
    }

    /// All faults in the order of their places, each once.
    pub fn into_faults(self) -> Vec<Fault> {
        let mut faults = self.faults;
        faults.sort_by(|a, b| (a.span.start, a.code, &a.message).cmp(&(b.span.start, b.code, &b.message)));
        faults.dedup();
        faults
    }

    /// Notes that the part could not be read: what stands in the model for it must not be judged.
    pub fn mark_broken(&mut self, path: &[Text]) {
        self.broken.insert(path.to_vec());
    }

    pub fn is_broken(&self, path: &[&str]) -> bool {
        !self.broken.is_empty() && self.broken.contains(&self::path(path))
    }

    /// True if the value of the part, or a value within it, has a fault of its own: what it leaves unsaid is not known.
    pub fn is_faulty(&self, path: &[&str]) -> bool {
        if self.faulty.is_empty() {
            return false;
        }
        let path = self::path(path);
        self.faulty.range(path.clone()..).next().is_some_and(|faulty| faulty.starts_with(&path))
    }

    /// Notes that of `part` the texts within `field` are all that is known; without it, nothing.
    pub fn mark_unread(&mut self, part: &[Text], field: Option<&Field<'_>>) {
        let texts = field.map(Field::texts_within);
        let known = self.unread.entry(part.to_vec()).or_insert_with(|| Some(String::new()));
        *known = known.take().zip(texts).map(|(known, more)| known + "\n" + &more);
    }

    /// True if what could not be read of the part may name `name`: its braces may be what is at fault.
    pub fn may_name(&self, part: &[&str], name: &str) -> bool {
        if self.unread.is_empty() {
            return false;
        }
        let is_end = |c: char| !(c.is_alphanumeric() || "_-.".contains(c));
        match self.unread.get(&self::path(part)) {
            None => false,
            Some(None) => true,
            Some(Some(known)) => known.split(is_end).any(|word| word == name),
        }
    }

    /// True if the part has been read as `true`.
    pub fn is_on(&self, path: &[&str]) -> bool {
        !self.switched_on.is_empty() && self.switched_on.contains(&self::path(path))
    }

    /// True if the file has the part, readable or not.
    pub fn has(&self, path: &[&str]) -> bool {
        self.place(path).is_some()
    }

    /// Where the value of the part stands; of the nearest part around it, its key, where it is not written itself.
    pub fn value_span(&self, path: &[&str]) -> Range<usize> {
        match self.place(path) {
            Some(place) => place.value.clone(),
            None => self.key_span(&path[..path.len().saturating_sub(1)]),
        }
    }

    /// Where the key that names the part stands.
    pub fn key_span(&self, path: &[&str]) -> Range<usize> {
        (0..=path.len()).rev().find_map(|length| self.place(&path[..length])).map_or(0..0, |place| place.key.clone())
    }

    /// Where `text` stands within the value of the part, with its quotes if it has some of its own; the whole value if it is
    /// not written there as it is.
    pub fn within(&self, path: &[&str], text: &str) -> Range<usize> {
        let span = self.value_span(path);
        let raw = self.source.get(span.clone()).unwrap_or_default();
        let found = [format!("\"{text}\""), format!("'{text}'"), text.to_owned()]
            .into_iter()
            .find_map(|form| raw.find(&form).map(|at| span.start + at..span.start + at + form.len()));
        found.unwrap_or(span)
    }

    fn note(&mut self, path: Path, key: Range<usize>, value: Range<usize>) {
        self.places.insert(path, Place { key, value });
    }

    fn place(&self, path: &[&str]) -> Option<&Place> {
        self.places.get(&self::path(path))
    }
}

/// A table of the file, read key by key.
pub struct Fields<'t> {
    pub path: Path,
    entries: BTreeMap<&'t str, (&'t Spanned<DeString<'t>>, &'t Spanned<DeValue<'t>>)>,
    asked: Vec<&'static str>,
}

/// A value of the file.
#[derive(Clone)]
pub struct Field<'t> {
    pub path: Path,
    pub key: Range<usize>,
    value: &'t Spanned<DeValue<'t>>,
}

impl<'t> Fields<'t> {
    pub fn root(table: &'t DeTable<'t>) -> Fields<'t> {
        Fields::of(Vec::new(), table)
    }

    fn of(path: Path, table: &'t DeTable<'t>) -> Fields<'t> {
        let entries = table.iter().map(|(key, value)| (key.get_ref().as_ref(), (key, value))).collect();
        Fields { path, entries, asked: Vec::new() }
    }

    /// The value of a key that the format knows.
    pub fn take(&mut self, sink: &mut Sink, name: &'static str) -> Option<Field<'t>> {
        self.asked.push(name);
        self.take_named(sink, name)
    }

    /// The value of a key that the model itself names, for example a table's key attribute.
    pub fn take_named(&mut self, sink: &mut Sink, name: &str) -> Option<Field<'t>> {
        let (key, value) = self.entries.remove(name)?;
        let mut path = self.path.clone();
        path.push(name.into());
        sink.note(path.clone(), key.span(), value.span());
        Some(Field { path, key: key.span(), value })
    }

    /// The value of a key, which is still to be taken.
    pub fn peek(&self, name: &str) -> Option<Field<'t>> {
        let (key, value) = self.entries.get(name)?;
        let mut path = self.path.clone();
        path.push(name.into());
        Some(Field { path, key: key.span(), value })
    }

    /// The text under a key that the format knows.
    pub fn take_text(&mut self, sink: &mut Sink, name: &'static str) -> Option<String> {
        self.take(sink, name).and_then(|field| field.text(sink))
    }

    /// The texts, one or a list of them, under a key that the format knows; empty where there is none.
    pub fn take_texts(&mut self, sink: &mut Sink, name: &'static str) -> Vec<String> {
        self.take(sink, name).map(|field| field.texts(sink)).unwrap_or_default()
    }

    /// As [`Fields::take`], with a fault if the key is not there.
    pub fn require(&mut self, sink: &mut Sink, name: &'static str, remedy: &str) -> Option<Field<'t>> {
        let field = self.take(sink, name);
        if field.is_none() {
            self.missing(sink, name, remedy);
        }
        field
    }

    pub fn missing(&self, sink: &mut Sink, name: &str, remedy: &str) {
        let parts: Vec<&str> = self.path.iter().map(Text::as_str).collect();
        let place = sink.key_span(&parts);
        let whole = if parts.is_empty() { "the file".to_owned() } else { format!("`{}`", shown(&self.path)) };
        sink.fault(&sink.grammar.missing_key, place, format!("{whole} has no `{name}`"), remedy);
    }

    /// All keys that are left, in the order of the file.
    pub fn take_all(&mut self, sink: &mut Sink) -> Vec<(String, Field<'t>)> {
        let mut names: Vec<(usize, &str)> =
            self.entries.iter().map(|(name, (key, _))| (key.span().start, *name)).collect();
        names.sort_unstable();
        names
            .into_iter()
            .filter_map(|(_, name)| self.take_named(sink, name).map(|field| (name.to_owned(), field)))
            .collect()
    }

    /// Refuses the keys that nobody asked for.
    pub fn finish(self, sink: &mut Sink) {
        let known = self.asked.clone();
        self.finish_among(sink, &known);
    }

    /// As [`Fields::finish`], suggesting one of `known`.
    pub fn finish_among(self, sink: &mut Sink, known: &[&str]) {
        if self.entries.is_empty() {
            return;
        }
        let whole =
            if self.path.is_empty() { sink.grammar.file.to_owned() } else { format!("`{}`", shown(&self.path)) };
        for (name, (key, _)) in &self.entries {
            let message = format!("{whole} knows no key `{name}`");
            let remedy = suggest::remedy(name, known.iter().copied());
            sink.fault(&sink.grammar.unknown_key, key.span(), message, remedy);
        }
    }
}

impl<'t> Field<'t> {
    pub fn span(&self) -> Range<usize> {
        self.value.span()
    }

    pub fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    /// True for a table with such a key.
    pub fn has(&self, key: &str) -> bool {
        self.value.get_ref().as_table().is_some_and(|table| table.contains_key(key))
    }

    pub fn is_array(&self) -> bool {
        self.value.get_ref().is_array()
    }

    /// All texts in the value, whatever it is.
    fn texts_within(&self) -> String {
        fn gather(value: &DeValue<'_>, texts: &mut Vec<String>) {
            match value {
                DeValue::String(text) => texts.push(text.to_string()),
                DeValue::Array(array) => array.iter().for_each(|value| gather(value.get_ref(), texts)),
                DeValue::Table(table) => table.values().for_each(|value| gather(value.get_ref(), texts)),
                _ => {}
            }
        }
        let mut texts = Vec::new();
        gather(self.value.get_ref(), &mut texts);
        texts.join("\n")
    }

    /// The part as messages call it.
    pub fn name(&self) -> String {
        shown(&self.path)
    }

    fn wrong_type(&self, sink: &mut Sink, wanted: &str) {
        let found = self.value.get_ref().type_str();
        sink.faulty.insert(self.path.clone());
        let message = format!("`{}` is of TOML type {found}, not {wanted}", self.name());
        sink.fault(&sink.grammar.wrong_type, self.span(), message, format!("write {wanted}"));
    }

    /// The text, if it is one; nothing is said if not.
    pub fn peek_text(&self) -> Option<&str> {
        self.value.get_ref().as_str()
    }

    pub fn text(&self, sink: &mut Sink) -> Option<String> {
        let text = self.value.get_ref().as_str();
        if text.is_none() {
            self.wrong_type(sink, "a text in quotes");
        }
        text.map(str::to_owned)
    }

    /// A text that must be one of `allowed`.
    pub fn one_of(&self, sink: &mut Sink, allowed: &[&str]) -> Option<String> {
        let text = self.text(sink)?;
        if allowed.contains(&text.as_str()) {
            return Some(text);
        }
        sink.faulty.insert(self.path.clone());
        let message = format!("`{}` cannot be `{text}`", self.name());
        let remedy = suggest::remedy(&text, allowed.iter().copied());
        sink.fault(&sink.grammar.unknown_value, self.span(), message, remedy);
        None
    }

    pub fn boolean(&self, sink: &mut Sink) -> Option<bool> {
        let flag = self.value.get_ref().as_bool();
        match flag {
            None => self.wrong_type(sink, "`true` or `false`"),
            Some(true) => drop(sink.switched_on.insert(self.path.clone())),
            Some(false) => {}
        }
        flag
    }

    /// A whole number from `range`.
    pub fn whole(&self, sink: &mut Sink, range: RangeInclusive<u32>) -> Option<u32> {
        let DeValue::Integer(integer) = self.value.get_ref() else {
            self.wrong_type(sink, "a whole number");
            return None;
        };
        let number =
            u32::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|number| range.contains(number));
        if number.is_none() {
            sink.faulty.insert(self.path.clone());
            let message = format!("`{}` is `{integer}`", self.name());
            sink.fault(
                &sink.grammar.range,
                self.span(),
                message,
                format!("use a whole number from {} to {}", range.start(), range.end()),
            );
        }
        number
    }

    /// An exact number within DynamoDB's limits.
    pub fn number(&self, sink: &mut Sink) -> Option<Decimal> {
        let Some(text) = self.number_text() else {
            self.wrong_type(sink, "a number");
            return None;
        };
        match text.parse() {
            Ok(number) => Some(number),
            Err(error) => {
                sink.faulty.insert(self.path.clone());
                let message = format!("`{}` cannot be a number of DynamoDB: {error}", self.name());
                sink.fault(&sink.grammar.range, self.span(), message, "use at most 38 digits");
                None
            }
        }
    }

    /// The digits of an integer or float, in decimal notation.
    fn number_text(&self) -> Option<String> {
        match self.value.get_ref() {
            DeValue::Integer(integer) => match i128::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(number) => Some(number.to_string()),
                Err(_) => Some(integer.as_str().to_owned()),
            },
            DeValue::Float(float) => Some(float.as_str().to_owned()),
            _ => None,
        }
    }

    /// Text, number or boolean in its plain form.
    pub fn scalar(&self, sink: &mut Sink) -> Option<String> {
        match self.value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Boolean(flag) => Some(flag.to_string()),
            DeValue::Integer(_) | DeValue::Float(_) => self.number(sink).map(|number| number.to_plain()),
            _ => {
                self.wrong_type(sink, "a text, a number, `true` or `false`");
                None
            }
        }
    }

    /// The elements of an array, each with its place under the array's path and its number.
    pub fn elements(&self, sink: &mut Sink) -> Option<Vec<Field<'t>>> {
        let Some(array) = self.value.get_ref().as_array() else {
            self.wrong_type(sink, "a list in brackets");
            return None;
        };
        let mut elements = Vec::new();
        for (i, value) in array.iter().enumerate() {
            let path = element(&self.path, i);
            sink.note(path.clone(), value.span(), value.span());
            elements.push(Field { path, key: value.span(), value });
        }
        Some(elements)
    }

    /// The elements of an array, or what is no array as the only one.
    pub fn one_or_more(&self, sink: &mut Sink) -> Vec<Field<'t>> {
        if self.is_array() { self.elements(sink).unwrap_or_default() } else { vec![self.clone()] }
    }

    /// A list of texts, or one alone, each of them once.
    pub fn texts(&self, sink: &mut Sink) -> Vec<String> {
        self.placed_texts(sink).into_iter().map(|(text, _)| text).collect()
    }

    /// As [`Field::texts`], each with the bytes where it stands.
    pub fn placed_texts(&self, sink: &mut Sink) -> Vec<(String, Range<usize>)> {
        self.distinct(sink, Field::text)
    }

    /// A list of plain values, or one alone, each of them once.
    pub fn scalars(&self, sink: &mut Sink) -> Vec<String> {
        self.distinct(sink, Field::scalar).into_iter().map(|(value, _)| value).collect()
    }

    fn distinct(
        &self,
        sink: &mut Sink,
        read: impl Fn(&Field<'t>, &mut Sink) -> Option<String>,
    ) -> Vec<(String, Range<usize>)> {
        let mut values: Vec<(String, Range<usize>)> = Vec::new();
        for element in self.one_or_more(sink) {
            let Some(value) = read(&element, sink) else { continue };
            if values.iter().any(|(known, _)| *known == value) {
                let message = format!("`{value}` stands twice in `{}`", self.name());
                sink.fault(&sink.grammar.duplicate, element.span(), message, "keep one");
            } else {
                values.push((value, element.span()));
            }
        }
        values
    }

    pub fn fields(&self, sink: &mut Sink) -> Option<Fields<'t>> {
        let table = self.value.get_ref().as_table();
        if table.is_none() {
            self.wrong_type(sink, "a table of keys");
        }
        table.map(|table| Fields::of(self.path.clone(), table))
    }

    /// Byte `offset` of the text, as a place in the file; the whole value where escapes move the bytes.
    pub fn place_in_text(&self, sink: &Sink, text: &str, offset: usize) -> Range<usize> {
        let span = self.span();
        let inner = span.start + 1..span.end.saturating_sub(1);
        let plain = sink.source.get(inner.clone()) == Some(text);
        if plain { (inner.start + offset).min(inner.end)..inner.end } else { span }
    }
}
