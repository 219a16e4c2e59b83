//! `explain`: a rule in full, be it one about items (`G201`), model files (`C130`) or report definitions (`C208`).

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use serde::Serialize;
use tablekeeper::model::derived::Severity;
use tablekeeper::model::load;
use tablekeeper::model::rule::Rule;
use tablekeeper::{derive, report};

use super::args::{ExplainArgs, OutputFormat};
use super::context::{Exit, Outcome, usage};
use super::output::{BOLD, Grid, heading, json, line, paint, severity_cell, width, wrapped};

#[derive(Serialize)]
struct RuleOut {
    code: &'static str,
    name: &'static str,
    severity: Severity,
    doc: &'static str,
}

/// What a code's letter stands for, in the order in which a newcomer meets them.
const FAMILIES: [(&str, &str); 6] = [
    ("C", "model files (C1) and report definitions (C2)"),
    ("K", "keys"),
    ("G", "indexes (GSIs)"),
    ("A", "attributes"),
    ("S", "strings that spoil keys"),
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

/// The rule of that code, be it about items or files.
pub fn rule(code: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.code == code)
}

pub fn run(args: &ExplainArgs, format: OutputFormat) -> Outcome {
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
            for (letter, meaning) in FAMILIES {
                heading(&format!("{letter}  {meaning}"));
                let mut grid = Grid::new(&["Code", "Severity", "Rule"]);
                for rule in wanted.iter().filter(|rule| rule.code.starts_with(letter)) {
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
