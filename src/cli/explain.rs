//! `explain`: a rule in full, be it one about items (`G201`), model files (`C130`) or report definitions (`C208`).

mod page;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use anyhow::Context as _;

use clap::builder::{PossibleValue, TypedValueParser};
use serde::Serialize;
use tablekeeper::model::derived::Severity;
use tablekeeper::model::load;
use tablekeeper::model::rule::Rule;
use tablekeeper::{derive, report};

use super::args::{ExplainArgs, OutputFormat};
use super::context::{Exit, Outcome, usage};
use super::output::{BOLD, GOOD, Grid, heading, json, line, paint, severity_cell, width, wrapped};
use page::Family;

#[derive(Serialize)]
struct RuleOut {
    code: &'static str,
    name: &'static str,
    severity: Severity,
    doc: &'static str,
}

/// Where the page is, or the page.
#[derive(Serialize)]
struct PageOut<'p> {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'p Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<&'p str>,
}

/// What a code's letter stands for, in the order in which a newcomer meets them.
const FAMILIES: [(&str, &str); 7] = [
    ("C", "model files (C1) and report definitions (C2)"),
    ("K", "keys"),
    ("G", "indexes (GSIs)"),
    ("A", "attributes"),
    ("S", "strings that spoil keys"),
    ("X", "references between items"),
    ("P", "processing of the stream"),
];

/// Any text is taken for a code, so that a wrong one is answered by all there are; shells complete the right ones.
#[derive(Clone)]
pub struct Codes;

impl TypedValueParser for Codes {
    type Value = String;

    fn parse_ref(&self, _: &clap::Command, _: Option<&clap::Arg>, value: &OsStr) -> Result<String, clap::Error> {
        Ok(value.to_string_lossy().into_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(all().map(|rule| PossibleValue::new(rule.code).help(rule.name))))
    }
}

fn all() -> impl Iterator<Item = &'static Rule> {
    derive::rules::RULES.into_iter().chain(load::rules::RULES).chain(report::rules::RULES)
}

/// The families that have rules, those of no known meaning last.
fn families() -> Vec<Family> {
    let letters: BTreeSet<&str> = all().map(|rule| &rule.code[..1]).collect();
    let known = FAMILIES.into_iter().filter(|(letter, _)| letters.contains(letter));
    let unknown = letters.iter().filter(|letter| FAMILIES.iter().all(|(known, _)| known != *letter));
    let family = |(letter, meaning): (&str, &str)| Family {
        title: format!("{letter}  {meaning}").trim_end().to_owned(),
        rules: all().filter(|rule| rule.code.starts_with(letter)).collect(),
    };
    known.chain(unknown.map(|letter| (*letter, ""))).map(family).collect()
}

/// The whole catalogue as a page, in a file or, under `-`, on standard output.
fn write_page(path: &Path, format: OutputFormat) -> Outcome {
    let families = families();
    let is_html = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("html"));
    let text = if is_html { page::html(&families)? } else { page::markdown(&families) };
    if path == Path::new("-") {
        match format {
            OutputFormat::Json => json(&PageOut { file: None, page: Some(&text) })?,
            OutputFormat::Text => line(text.trim_end()),
        }
        return Ok(Exit::Fine);
    }
    let shown = path.display();
    std::fs::write(path, text)
        .with_context(|| format!("cannot write `{shown}`; name a file in a folder that is there"))
        .map_err(usage)?;
    match format {
        OutputFormat::Json => json(&PageOut { file: Some(path), page: None })?,
        OutputFormat::Text => line(format_args!("{} {shown}: {} rules", paint(GOOD, "wrote"), all().count())),
    }
    Ok(Exit::Fine)
}

/// The rule of that code, be it about items or files.
pub fn rule(code: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.code == code)
}

pub fn run(args: &ExplainArgs, format: OutputFormat) -> Outcome {
    if let Some(path) = &args.page {
        return write_page(path, format);
    }
    let all: Vec<&Rule> = all().collect();
    let wanted: Vec<&Rule> = match &args.code {
        None => all,
        Some(code) => match all.iter().find(|rule| rule.code.eq_ignore_ascii_case(code)) {
            Some(rule) => vec![*rule],
            None => return Err(usage(anyhow::anyhow!("no rule `{code}`; there are{}", known(&all, format)))),
        },
    };
    match format {
        OutputFormat::Json => json(&wanted.iter().map(|rule| out(rule)).collect::<Vec<_>>())?,
        OutputFormat::Text if args.code.is_some() => {
            for rule in &wanted {
                show(rule);
            }
        }
        OutputFormat::Text => {
            for Family { title, rules } in families() {
                heading(&title);
                let mut grid = Grid::new(&["Code", "Severity", "Rule"]);
                for rule in rules {
                    grid.row([rule.code.into(), severity_cell(rule.severity), comfy_table::Cell::new(rule.name)]);
                }
                grid.print();
            }
        }
    }
    Ok(Exit::Fine)
}

/// The rule's headings and paragraphs.
fn show(rule: &Rule) {
    line(format_args!("{} ({})", paint(BOLD, format_args!("{} {}", rule.code, rule.name)), rule.severity.name()));
    for part in rule.doc.trim().split("\n\n") {
        let paragraph = match part.strip_prefix("## ") {
            None => part,
            Some(section) => {
                let (title, paragraph) = section.split_once('\n').unwrap_or((section, ""));
                heading(title);
                paragraph
            }
        };
        for text in wrapped(paragraph, width() - 2) {
            line(format_args!("  {text}"));
        }
    }
}

/// The codes, a family a line; in one line for programs.
fn known(all: &[&Rule], format: OutputFormat) -> String {
    let codes: Vec<&str> = all.iter().map(|rule| rule.code).collect();
    if format == OutputFormat::Json {
        return format!(" {}", codes.join(", "));
    }
    let families = codes.chunk_by(|a, b| a.as_bytes()[..2] == b.as_bytes()[..2]);
    let lines = families.flat_map(|family| wrapped(&family.join(" "), width() - 2));
    let lines: String = lines.map(|line| format!("\n  {line}")).collect();
    format!("{lines}\n`tablekeeper explain` lists them with their names")
}

fn out(rule: &Rule) -> RuleOut {
    RuleOut { code: rule.code, name: rule.name, severity: rule.severity, doc: rule.doc }
}
