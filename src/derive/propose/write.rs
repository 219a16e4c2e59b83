//! The draft as a model file.

use std::fmt::Write as _;
use std::ops::Range;

use crate::model::spec::{Attribute, Condition, Format, Index, KeyAttribute};
use crate::model::template::Template;
use crate::model::value::Kind;

use super::draft::{Draft, EntityDraft};

/// The text, and on which of its lines (from 1) each entity stands.
pub struct Written {
    pub text: String,
    pub entities: Vec<Range<usize>>,
}

pub fn write(draft: &Draft) -> Written {
    let mut text = String::new();
    comments(&mut text, &draft.heading);
    let _ = write!(text, "\nversion = 1\nname = {}\n", quoted(&draft.name));
    text.push_str("# check: the site's time zone; a date is valid to the end of that day there\nzone = \"UTC\"\n");
    if draft.delimiter != "#" {
        let _ = writeln!(text, "delimiter = {}", quoted(&draft.delimiter));
    }
    text.push('\n');
    comments(&mut text, &draft.table_notes);
    table(&mut text, draft);
    let mut entities = Vec::new();
    for entity in &draft.entities {
        let start = text.lines().count() + 1;
        let block = block(draft, entity);
        match &entity.withheld {
            None => text.push_str(&block),
            Some(reason) => {
                text.push('\n');
                comments(&mut text, &[format!("check: left out, because {reason}")]);
                comments(&mut text, &block.trim_start().lines().map(str::to_owned).collect::<Vec<_>>());
            }
        }
        entities.push(start..text.lines().count() + 1);
    }
    aggregates(&mut text, draft);
    Written { text, entities }
}

/// Lines of comment, each of one line, whatever they hold.
fn comments(text: &mut String, lines: &[String]) {
    for line in lines {
        let clean: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let _ = writeln!(text, "{}", format!("# {clean}").trim_end());
    }
}

/// `  # note`, or nothing.
fn behind(note: &str) -> String {
    let clean: String = note.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.is_empty() { clean } else { format!("  # {clean}") }
}

fn table(text: &mut String, draft: &Draft) {
    let table = &draft.table;
    let _ = writeln!(text, "[table]\nname = {}", quoted(&table.name));
    let _ = writeln!(text, "partition_key = {}", key_attribute(&table.partition_key));
    if let Some(sort) = &table.sort_key {
        let _ = writeln!(text, "sort_key = {}", key_attribute(sort));
    }
    if let Some(ttl) = &table.ttl {
        let _ = writeln!(text, "ttl = {}", quoted(ttl));
    }
    for Index { name, partition, sort } in &table.indexes {
        let list = |keys: &[KeyAttribute]| keys.iter().map(key_attribute).collect::<Vec<_>>().join(", ");
        let note = draft.index_notes.get(name).map(String::as_str).unwrap_or_default();
        let _ = write!(text, "\n[table.index.{}]{}\npartition = [{}]\n", key(name), behind(note), list(partition));
        if !sort.is_empty() {
            let _ = writeln!(text, "sort = [{}]", list(sort));
        }
    }
}

fn key_attribute(attribute: &KeyAttribute) -> String {
    match attribute.kind {
        Kind::S => quoted(&attribute.name),
        kind => format!("{{ name = {}, type = \"{}\" }}", quoted(&attribute.name), kind.name()),
    }
}

fn block(draft: &Draft, draft_of: &EntityDraft) -> String {
    let EntityDraft { entity, .. } = draft_of;
    let table = &draft.table;
    let mut text = String::from("\n");
    comments(&mut text, &draft_of.notes);
    let _ = writeln!(text, "[entity.{}]", key(&entity.name));
    if !entity.matches.is_empty() {
        let _ = writeln!(text, "match = {{ {} }}", conditions(&entity.matches));
    }
    let mut keys = vec![(table.partition_key.name.as_str(), &entity.partition)];
    keys.extend(table.sort_key.as_ref().zip(entity.sort.as_ref()).map(|(key, template)| (key.name.as_str(), template)));
    let _ = writeln!(text, "key = {{ {} }}{}", templates(keys), behind(&draft_of.key_note));
    for index in &entity.indexes {
        let mut parts = templates(index.keys.iter().map(|(name, template)| (name.as_str(), template)));
        if !index.when.is_empty() {
            let _ = write!(parts, ", when = {{ {} }}", conditions(&index.when));
        }
        let note = draft_of.index_notes.get(&index.index).map(String::as_str).unwrap_or_default();
        let _ = writeln!(text, "index.{} = {{ {parts} }}{}", key(&index.index), behind(note));
    }
    for declared in &entity.attributes {
        let note = draft_of.attribute_notes.get(&declared.name).map(String::as_str).unwrap_or_default();
        let _ = writeln!(text, "attribute.{} = {}{}", key(&declared.name), attribute(declared), behind(note));
    }
    text
}

fn templates<'t>(keys: impl IntoIterator<Item = (&'t str, &'t Template)>) -> String {
    let parts = keys.into_iter().map(|(name, template)| format!("{} = {}", key(name), quoted(&template.source)));
    parts.collect::<Vec<_>>().join(", ")
}

fn conditions(conditions: &[Condition]) -> String {
    let one = |condition: &Condition| {
        let values = match condition.values.as_slice() {
            [one] => quoted(one),
            several => list(several),
        };
        format!("{} = {values}", key(&condition.attribute))
    };
    conditions.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn attribute(attribute: &Attribute) -> String {
    let mut options = Vec::new();
    if attribute.kind != Kind::S {
        options.push(format!("type = \"{}\"", attribute.kind.name()));
    }
    if attribute.required {
        options.push("required = true".to_owned());
    }
    if let Some(format) = attribute.format {
        let name = match format {
            Format::Date => "date".to_owned(),
            Format::Timestamp => "timestamp".to_owned(),
            Format::TimestampUtc => "timestamp-utc".to_owned(),
            Format::TimestampUtcFixed(digits) => format!("timestamp-utc.{digits}"),
            Format::EpochSeconds => "epoch-seconds".to_owned(),
        };
        options.push(format!("format = \"{name}\""));
    }
    for (option, values) in [("one_of", &attribute.one_of), ("none", &attribute.none), ("aliases", &attribute.aliases)]
    {
        if !values.is_empty() {
            options.push(format!("{option} = {}", list(values)));
        }
    }
    if let Some(min) = &attribute.min {
        options.push(format!("min = {min}"));
    }
    if options.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", options.join(", ")) }
}

fn list(values: &[String]) -> String {
    format!("[{}]", values.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(", "))
}

/// For each attribute with a declared set an aggregate as a comment: what could be counted.
fn aggregates(text: &mut String, draft: &Draft) {
    let table = &draft.table;
    let is_text = |key: &KeyAttribute| key.kind == Kind::S;
    let kept = draft.entities.iter().filter(|entity| entity.withheld.is_none());
    let examples: Vec<(&str, &str)> = kept
        .flat_map(|entity| entity.countable.iter().map(|name| (entity.entity.name.as_str(), name.as_str())))
        .collect();
    if examples.is_empty() || !is_text(&table.partition_key) || !table.sort_key.as_ref().is_none_or(is_text) {
        return;
    }
    let intro = "What could be counted; take away the `#` of what you want. Each is one item of the table, kept exact by the worker.";
    let _ = writeln!(text);
    comments(text, &[intro.to_owned()]);
    let open = draft.entities.iter().any(|entity| entity.entity.partition.prefix().is_empty());
    for (entity, name) in examples {
        let slug = super::names::plain(name);
        let mut keys = vec![format!(
            "{} = {}",
            key(&table.partition_key.name),
            quoted(&format!("{}_STATS", entity.to_uppercase()))
        )];
        keys.extend(table.sort_key.as_ref().map(|sort| {
            format!("{} = {}", key(&sort.name), quoted(&format!("STATS{}{}", draft.delimiter, slug.to_uppercase())))
        }));
        let mut lines = vec![
            String::new(),
            format!("[aggregate.{}_by_{slug}]", entity.to_lowercase()),
            format!("of = {}", quoted(entity)),
            format!("count_by = {}", quoted(name)),
            format!("key = {{ {} }}", keys.join(", ")),
        ];
        if open {
            lines.push("allow_in_source_partition = true  # keys of some entities begin with a variable".to_owned());
        }
        comments(text, &lines);
    }
}

/// A key of TOML: bare where it can be.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { quoted(name) }
}

/// A text of TOML, on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
