//! `explain`: a rule in full.

use serde::Serialize;
use tablekeeper::derive::rules::{RULES, Rule};
use tablekeeper::model::derived::Severity;

use super::args::{ExplainArgs, OutputFormat};
use super::context::{Exit, Outcome, usage};
use super::output::{Grid, json, line, severity_cell};

#[derive(Serialize)]
struct RuleOut {
    code: &'static str,
    name: &'static str,
    severity: Severity,
    doc: &'static str,
}

pub fn run(args: &ExplainArgs, format: OutputFormat) -> Outcome {
    let wanted: Vec<&Rule> = match &args.code {
        None => RULES.to_vec(),
        Some(code) => match RULES.iter().find(|rule| rule.code.eq_ignore_ascii_case(code)) {
            Some(rule) => vec![*rule],
            None => {
                let codes: Vec<&str> = RULES.iter().map(|rule| rule.code).collect();
                return Err(usage(anyhow::anyhow!("no rule `{code}`; there are {}", codes.join(", "))));
            }
        },
    };
    match format {
        OutputFormat::Json => json(&wanted.iter().map(|rule| out(rule)).collect::<Vec<_>>())?,
        OutputFormat::Text if args.code.is_some() => {
            for rule in &wanted {
                line(format_args!("{} {} ({})\n\n{}", rule.code, rule.name, rule.severity.name(), rule.doc.trim()));
            }
        }
        OutputFormat::Text => {
            let mut grid = Grid::new(&["Code", "Severity", "Rule"]);
            for rule in &wanted {
                grid.row([rule.code.into(), severity_cell(rule.severity), comfy_table::Cell::new(rule.name)]);
            }
            grid.print();
        }
    }
    Ok(Exit::Fine)
}

fn out(rule: &Rule) -> RuleOut {
    RuleOut { code: rule.code, name: rule.name, severity: rule.severity, doc: rule.doc }
}
