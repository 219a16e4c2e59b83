//! `explain`: a rule in full, be it one about items (`G201`), model files (`C130`) or report definitions (`C208`).

use serde::Serialize;
use tablekeeper::model::derived::Severity;
use tablekeeper::model::load;
use tablekeeper::model::rule::Rule;
use tablekeeper::{derive, report};

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
    let all: Vec<&Rule> =
        derive::rules::RULES.into_iter().chain(load::rules::RULES).chain(report::rules::RULES).collect();
    let wanted: Vec<&Rule> = match &args.code {
        None => all,
        Some(code) => match all.iter().find(|rule| rule.code.eq_ignore_ascii_case(code)) {
            Some(rule) => vec![*rule],
            None => {
                let codes: Vec<&str> = all.iter().map(|rule| rule.code).collect();
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
