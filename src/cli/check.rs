//! `check`: is the model file sound?

use serde::Serialize;
use tablekeeper::model::derived::Severity;
use tablekeeper::model::load;
use tablekeeper::model::position::Fault;

use super::args::{CheckArgs, OutputFormat};
use super::context::{Exit, Outcome, Stop, read_model, render};
use super::output::{GOOD, count, fault, json, line, paint};

#[derive(Serialize)]
struct CheckedModel<'a> {
    model: &'a str,
    ok: bool,
    faults: Vec<FaultOut<'a>>,
}

#[derive(Serialize)]
struct FaultOut<'a> {
    code: &'a str,
    severity: Severity,
    line: usize,
    column: usize,
    message: &'a str,
    remedy: &'a str,
}

pub fn run(args: &CheckArgs, format: OutputFormat) -> Outcome {
    // A file that cannot be read hides nothing of the others.
    let (mut sources, mut unreadable) = (Vec::new(), Vec::new());
    for which in &args.models {
        match read_model(which) {
            Ok(source) => sources.push(source),
            Err(stop) => unreadable.push(stop),
        }
    }
    let results: Vec<(bool, Vec<Fault>, String)> = sources
        .iter()
        .map(|source| match load::load(&source.text, &source.name) {
            Ok(loaded) => {
                let model = &loaded.model;
                let summary = format!(
                    "{}, {}, {}, {}",
                    count(model.entities.len(), "entity").replace("entitys", "entities"),
                    count(model.aggregates.len(), "aggregate"),
                    count(model.listings.len(), "listing"),
                    count(model.expiries.len(), "expiry").replace("expirys", "expiries"),
                );
                (true, loaded.warnings, summary)
            }
            Err(faults) => (false, faults, String::new()),
        })
        .collect();
    match format {
        // Where nothing could be read there is no result.
        _ if sources.is_empty() => {}
        OutputFormat::Json => {
            let out: Vec<CheckedModel<'_>> = sources
                .iter()
                .zip(&results)
                .map(|(source, (ok, faults, _))| CheckedModel {
                    model: &source.place,
                    ok: *ok,
                    faults: faults.iter().map(fault_out).collect(),
                })
                .collect();
            json(&out)?;
        }
        OutputFormat::Text => {
            for (source, (ok, faults, summary)) in sources.iter().zip(&results) {
                for fault in faults {
                    line(render(source, fault));
                }
                match ok {
                    true => line(format_args!("{} {}: {summary}", paint(GOOD, "sound"), source.place)),
                    false => line(format_args!("{}: {}", source.place, count(faults.len(), "fault"))),
                }
            }
        }
    }
    if let Some(last) = unreadable.pop() {
        unreadable.iter().for_each(|Stop { exit, error }| fault(format_args!("{error:#}"), *exit));
        return Err(last);
    }
    Ok(if results.iter().all(|(ok, ..)| *ok) { Exit::Fine } else { Exit::Usage })
}

fn fault_out(fault: &Fault) -> FaultOut<'_> {
    FaultOut {
        code: fault.code,
        severity: fault.severity,
        line: fault.position.line,
        column: fault.position.column,
        message: &fault.message,
        remedy: &fault.remedy,
    }
}
