//! Templates by unification: what is the same in all keys is a literal, what differs a variable, and what is the same as an
//! attribute, or as a variable of another key of the item, has its name.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::derive::render;
use crate::model::template::{Case, Pad, Template};
use crate::model::value::{Item, Kind, Value};

use super::groups::parts;
use super::names;
use super::share::Share;

/// From how many of a hundred items on an attribute that agrees with a part of the key is worth a remark.
const NEAR_PERCENT: usize = 70;

/// What is known of the whole sample when one group's keys are read.
pub struct Hints<'h> {
    pub delimiter: &'h str,
    /// Values that parts of keys take among others: never literals.
    pub varying: &'h BTreeSet<String>,
    /// Whole sort keys that occur in several partitions.
    pub shared: &'h BTreeSet<String>,
    /// Attributes that are in a key by being its key attribute, or that name the entity: nothing is made of them.
    pub excluded: &'h BTreeSet<String>,
}

/// One part of a group's key.
enum Part<'a> {
    Literal(String),
    /// The values, an item each; `None` where the item has no such key.
    Values(Vec<Option<Cow<'a, str>>>),
}

/// What a template's variable is made from, for the attributes' declarations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    pub attribute: String,
    pub pad: Option<Pad>,
}

/// One key attribute's template and what speaks for it.
pub struct Unified {
    pub template: Template,
    pub uses: Vec<Use>,
    pub notes: Vec<String>,
}

/// The variables of one entity, across its keys.
pub struct Unifier<'a, 'h> {
    items: &'a [&'a Item],
    hints: &'h Hints<'h>,
    /// Attributes that items of the group have, which no variable may be called by chance.
    attributes: BTreeSet<&'a str>,
    /// Name, the literal before it where it was first seen, and values.
    variables: Vec<(String, String, Column<'a>)>,
}

impl<'a, 'h> Unifier<'a, 'h> {
    pub fn new(items: &'a [&'a Item], hints: &'h Hints<'h>) -> Unifier<'a, 'h> {
        let attributes = items.iter().flat_map(|item| item.0.keys()).map(|name| name.as_str()).collect();
        Unifier { items, hints, attributes, variables: Vec::new() }
    }

    /// The template of one key attribute; `None` if no item has it.
    pub fn unify(&mut self, key: &str, kind: Kind) -> Option<Unified> {
        let values: Vec<Option<Cow<'a, str>>> = self
            .items
            .iter()
            .map(|item| item.get(key).filter(|value| value.kind() == kind).and_then(render::plain))
            .collect();
        let present = values.iter().flatten().count();
        if present == 0 {
            return None;
        }
        let (columns, share) = columns(&values, kind, self.hints.delimiter);
        let mut notes = Vec::new();
        if !share.is_whole() {
            notes.push(format!("check: only {share} have so many parts"));
        }
        let last = columns.len() - 1;
        let mut source = String::new();
        let mut uses = Vec::new();
        let mut before = String::new();
        for (at, column) in columns.into_iter().enumerate() {
            if at > 0 {
                source.push_str(self.hints.delimiter);
            }
            let place = Place { key, at, last };
            match self.part(place, column, &before) {
                Part::Literal(text) => {
                    before = text.clone();
                    source.push_str(&text.replace('{', "{{").replace('}', "}}"));
                }
                Part::Values(values) => {
                    let (written, used, note) = self.variable(place, values, &before);
                    source.push_str(&written);
                    uses.extend(used);
                    notes.extend(note);
                    before.clear();
                }
            }
        }
        Template::parse(&source).ok().map(|template| Unified { template, uses, notes })
    }

    /// A literal or not.
    fn part(&self, place: Place<'_>, values: Vec<Option<Cow<'a, str>>>, before: &str) -> Part<'a> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        values.iter().flatten().for_each(|value| *counts.entry(value).or_default() += 1);
        let of: usize = counts.values().sum();
        let Some((value, agree)) = counts.into_iter().max_by_key(|(_, count)| *count) else {
            return Part::Values(values);
        };
        if !(Share { agree, of }).holds() {
            return Part::Values(values);
        }
        let is_first_of_several = place.at == 0 && place.last > 0;
        let is_whole = place.last == 0;
        let is_known = names::is_constant(value) || is_whole && self.hints.shared.contains(value);
        let is_own =
            || self.attribute_of(&values, before).is_some_and(|(_, format, _)| matches!(format, Format::Plain));
        let is_literal = match () {
            () if value.is_empty() => true,
            () if self.hints.varying.contains(value) => false,
            () if is_known => true,
            () if !names::is_word(value) => false,
            () if is_first_of_several => names::is_capitals(value) || !is_own(),
            () if is_own() => false,
            () if of >= 3 => true,
            () if of == 2 => is_whole || names::is_capitals(value) || place.at < place.last,
            () => place.at < place.last && names::is_capitals(value),
        };
        if is_literal { Part::Literal(value.to_owned()) } else { Part::Values(values) }
    }

    /// How a variable is written, which attribute it takes, and what is doubtful about it.
    fn variable(
        &mut self,
        place: Place<'_>,
        values: Vec<Option<Cow<'a, str>>>,
        before: &str,
    ) -> (String, Option<Use>, Option<String>) {
        if let Some((name, format, share)) = self.attribute_of(&values, before) {
            let written = match &format {
                Format::Plain => format!("{{{name}}}"),
                Format::Pad(pad) if pad.fraction == 0 => format!("{{{name}:0{}}}", pad.integer),
                Format::Pad(pad) => format!("{{{name}:0{}.{}}}", pad.integer, pad.fraction),
                Format::Case(Case::Lower) => format!("{{{name}:lower}}"),
                Format::Case(Case::Upper) => format!("{{{name}:upper}}"),
            };
            let pad = if let Format::Pad(pad) = format { Some(pad) } else { None };
            let note =
                (!share.is_whole()).then(|| format!("check: {share} agree with `{name}`, `audit` names the others"));
            return (written, Some(Use { attribute: name, pad }), note);
        }
        let same = self.variables.iter().find_map(|(name, literal, others)| {
            let share = agreement(&values, others, !before.is_empty() && literal == before)?;
            Some((name.clone(), share))
        });
        if let Some((name, share)) = same {
            let note =
                (!share.is_whole()).then(|| format!("check: {share} agree on `{name}`, `audit` names the others"));
            return (format!("{{{name}}}"), None, note);
        }
        let name = self.free_name(place, &values, before);
        let written = format!("{{{name}}}");
        let note = self.near(&name, &values);
        self.variables.push((name, before.to_owned(), values));
        (written, None, note)
    }

    /// An attribute that most of these values are equal to: the key may be made of it, and the rest be wrong.
    fn near(&self, name: &str, values: &[Option<Cow<'a, str>>]) -> Option<String> {
        let names = self.attributes.iter().filter(|name| !self.hints.excluded.contains(**name));
        let shares = names.map(|attribute| {
            let pairs = self
                .items
                .iter()
                .zip(values)
                .filter_map(|(item, value)| Some((item.get(attribute), value.as_deref()?)));
            let agrees =
                |(own, text): (Option<&Value>, &str)| own.and_then(render::plain).is_some_and(|own| own == text);
            (Share::count(pairs.map(agrees)), attribute)
        });
        let (share, attribute) = shares.max_by_key(|(share, _)| share.agree)?;
        let distinct: BTreeSet<&str> = values.iter().flatten().map(AsRef::as_ref).collect();
        (share.agree >= 3 && distinct.len() > 1 && share.agree * 100 >= share.of * NEAR_PERCENT).then(|| {
            format!("check: `{name}` is `{attribute}` in {share}; if the key is made of it, write {{{attribute}}}")
        })
    }

    /// The attribute that gives these values, in all items that have them.
    fn attribute_of(&self, values: &[Option<Cow<'a, str>>], before: &str) -> Option<(String, Format, Share)> {
        let distinct: BTreeSet<&str> = values.iter().flatten().map(AsRef::as_ref).collect();
        let names = self.attributes.iter().filter(|name| !self.hints.excluded.contains(**name));
        let found = names.filter_map(|name| {
            let (format, share) = self.format_of(name, values)?;
            let related = is_related(name, before);
            // One short value that is the same twice proves nothing.
            let proves =
                distinct.len() > 1 || related || distinct.iter().all(|value| value.len() >= 4 || is_name(value));
            let plain = matches!(format, Format::Plain);
            proves.then_some(((related, plain, is_id(name), std::cmp::Reverse(*name)), format, share))
        });
        let ((_, _, _, name), format, share) = found.max_by(|(a, ..), (b, ..)| a.cmp(b))?;
        Some((name.0.to_owned(), format, share))
    }

    fn format_of(&self, name: &str, values: &[Option<Cow<'a, str>>]) -> Option<(Format, Share)> {
        let pairs =
            || self.items.iter().zip(values).filter_map(|(item, value)| Some((item.get(name), value.as_deref()?)));
        let agree = |written: &dyn Fn(&Value) -> Option<String>| {
            let share =
                Share::count(pairs().map(|(value, text)| value.and_then(written).is_some_and(|own| own == text)));
            share.holds().then_some(share)
        };
        if let Some(share) = agree(&|value| render::plain(value).map(Cow::into_owned)) {
            return Some((Format::Plain, share));
        }
        if let Some(pad) = pairs().find_map(|(_, text)| pad_of(text)) {
            let padded = |value: &Value| value.as_number().and_then(|number| pad.write(number).ok());
            return agree(&padded).map(|share| (Format::Pad(pad), share));
        }
        let lower = |value: &Value| value.as_text().map(str::to_lowercase);
        let upper = |value: &Value| value.as_text().map(str::to_uppercase);
        let lower = agree(&lower).map(|share| (Format::Case(Case::Lower), share));
        lower.or_else(|| agree(&upper).map(|share| (Format::Case(Case::Upper), share)))
    }

    fn free_name(&self, place: Place<'_>, values: &[Option<Cow<'a, str>>], before: &str) -> String {
        let is_time = values.iter().flatten().all(|value| names::begins_with_time(value));
        let name = if is_time { Some("time".to_owned()) } else { names::variable(before) };
        let bare = || if place.last == 0 { names::variable(place.key) } else { None };
        let name = name.or_else(bare).unwrap_or_else(|| format!("part{}", place.at + 1));
        let is_attribute = |name: &str| self.attributes.contains(name) && !self.hints.excluded.contains(name);
        let is_taken = |name: &str| is_attribute(name) || self.variables.iter().any(|(other, ..)| other == name);
        if !is_taken(&name) {
            return name;
        }
        let further = std::iter::once(format!("{name}_id")).chain((2..).map(|number| format!("{name}{number}")));
        further.into_iter().find(|name| !is_taken(name)).unwrap_or(name)
    }
}

/// A part's place in a key.
#[derive(Clone, Copy)]
struct Place<'k> {
    key: &'k str,
    at: usize,
    /// The last part's number.
    last: usize,
}

enum Format {
    Plain,
    Pad(Pad),
    Case(Case),
}

type Column<'a> = Vec<Option<Cow<'a, str>>>;

/// The keys in columns, by the number of parts that most of them have; who has another one has no value in any column.
fn columns<'a>(values: &[Option<Cow<'a, str>>], kind: Kind, delimiter: &str) -> (Vec<Column<'a>>, Share) {
    let split = |value: &Cow<'a, str>| -> Vec<Cow<'a, str>> {
        match value {
            Cow::Borrowed(text) if kind == Kind::S => parts(text, delimiter).into_iter().map(Cow::Borrowed).collect(),
            other => vec![other.clone()],
        }
    };
    let rows: Vec<Option<Vec<Cow<'a, str>>>> = values.iter().map(|value| value.as_ref().map(split)).collect();
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    rows.iter().flatten().for_each(|row| *counts.entry(row.len()).or_default() += 1);
    let of = counts.values().sum();
    let (length, agree) = counts.into_iter().max_by_key(|(_, count)| *count).unwrap_or((1, 0));
    let column = |at: usize| {
        let cell = |row: &Option<Vec<Cow<'a, str>>>| row.as_ref().filter(|row| row.len() == length)?.get(at).cloned();
        rows.iter().map(cell).collect()
    };
    ((0..length).map(column).collect(), Share { agree, of })
}

/// Whether two columns are one variable: equal wherever both are there, and not by the chance of one short value.
fn agreement(a: &[Option<Cow<'_, str>>], b: &[Option<Cow<'_, str>>], same_literal: bool) -> Option<Share> {
    let pairs = || a.iter().zip(b).filter_map(|(a, b)| a.as_deref().zip(b.as_deref()));
    let share = Share::count(pairs().map(|(a, b)| a == b));
    let distinct: BTreeSet<&str> = pairs().map(|(a, _)| a).collect();
    (share.holds() && (distinct.len() > 1 || same_literal || distinct.iter().all(|value| is_name(value))))
        .then_some(share)
}

/// `tech001` or `P7` names one thing; `12345` may number several.
fn is_name(value: &str) -> bool {
    let has_letter = value.chars().any(char::is_alphabetic);
    has_letter && (value.len() >= 4 || value.chars().any(|c| c.is_ascii_digit()))
}

fn is_id(name: &str) -> bool {
    names::plain(name).ends_with("id")
}

/// `ProjectID` and `PROJECT`.
fn is_related(name: &str, literal: &str) -> bool {
    let (name, literal) = (names::plain(name), names::plain(literal));
    literal.len() > 1 && (name.starts_with(&literal) || literal.starts_with(&name))
}

/// `0000000042` is padded to 10 digits, `0007.5` to 4 and 1.
fn pad_of(text: &str) -> Option<Pad> {
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = !integer.is_empty() && integer.len() <= 38 && digits(integer) && digits(fraction);
    fits.then_some(Pad { integer: integer.len(), fraction: fraction.len() })
}
