//! `check`: is the model file sound?

use serde::Serialize;
use tablekeeper::adapters::definitions;
use tablekeeper::model::derived::Severity;
use tablekeeper::model::load;
use tablekeeper::model::position::{Fault, Position, line_starts};
use tablekeeper::model::spec::{Model, ReportName};
use tablekeeper::report::definition;

use super::args::{CheckArgs, OutputFormat};
use super::context::{Exit, Outcome, Source, Stop, read_model, render};
use super::output::{BAD, GOOD, count, fault, json, line, paint};
use super::report;

mod sarif;

#[derive(Serialize)]
struct CheckedModel<'a> {
    model: &'a str,
    ok: bool,
    faults: Vec<FaultOut<'a>>,
}

#[derive(Serialize)]
struct FaultOut<'a> {
    /// The model's, or that of a report that the model names.
    file: &'a str,
    code: &'a str,
    severity: Severity,
    line: usize,
    column: usize,
    message: &'a str,
    remedy: &'a str,
}

/// A model file, and the report files that it names.
struct Checked {
    /// The model first; further ones are reports that have faults.
    files: Vec<(Source, Vec<Fault>)>,
    ok: bool,
    summary: String,
}

impl Checked {
    fn faults(&self) -> impl Iterator<Item = (&Source, &Fault)> {
        self.files.iter().flat_map(|(source, faults)| faults.iter().map(move |fault| (source, fault)))
    }
}

/// What became of the files: a file that cannot be read hides nothing of the others.
fn read(args: &CheckArgs) -> (Vec<Checked>, Vec<(&str, Stop)>) {
    let (mut results, mut unreadable) = (Vec::new(), Vec::new());
    for which in &args.models {
        match read_model(which) {
            Ok(mut source) => {
                // Editors do not show it, and do not count it as a column.
                if let Some(text) = source.text.strip_prefix('\u{feff}') {
                    source.text = text.to_owned();
                }
                results.push(check(source, which));
            }
            Err(stop) => unreadable.push((which.as_str(), stop)),
        }
    }
    (results, unreadable)
}

fn judged(results: &[Checked]) -> Exit {
    if results.iter().all(|result| result.ok) { Exit::Fine } else { Exit::Usage }
}

pub fn run(args: &CheckArgs, format: OutputFormat) -> Outcome {
    let (results, mut unreadable) = read(args);
    match format {
        // Where nothing could be read there is no result.
        _ if results.is_empty() => {}
        OutputFormat::Json => {
            let checked = |result| {
                let Checked { files, ok, .. }: &Checked = result;
                let faults = result.faults().map(|(source, fault)| fault_out(source, fault)).collect();
                CheckedModel { model: &files[0].0.place, ok: *ok, faults }
            };
            json(&results.iter().map(checked).collect::<Vec<_>>())?;
        }
        OutputFormat::Text => results.iter().for_each(show),
    }
    if let Some((_, last)) = unreadable.pop() {
        unreadable.iter().for_each(|(_, Stop { exit, error })| fault(format_args!("{error:#}"), *exit));
        return Err(last);
    }
    Ok(judged(&results))
}

/// The same as SARIF, which tells of files that cannot be read as well.
pub fn sarif(args: &CheckArgs) -> Outcome {
    let (results, unreadable) = read(args);
    let exit = unreadable.last().map_or_else(|| judged(&results), |(_, stop)| stop.exit);
    let told: Vec<(&str, String)> =
        unreadable.iter().map(|(which, stop)| (*which, format!("{:#}", stop.error))).collect();
    told.iter().for_each(|(_, reason)| fault(reason, exit));
    json(&sarif::log(&results, &told, exit))?;
    Ok(exit)
}

/// `which`: how the command line names the model.
fn check(source: Source, which: &str) -> Checked {
    let loaded = match load::load(&source.text, &source.name) {
        Ok(loaded) => loaded,
        Err(faults) => return Checked { files: vec![(source, faults)], ok: false, summary: String::new() },
    };
    let (mut faults, model) = (loaded.warnings, loaded.model);
    let (mut reports, mut ok) = (Vec::new(), true);
    for named in &model.reports.names {
        match definitions::find(&named.name, Some(which)) {
            Ok(found) => {
                let found = report::source(found);
                if let Err(faults) = definition::parse(&found.text, &found.name) {
                    ok = false;
                    reports.push((found, faults));
                }
            }
            Err(reason) => {
                ok = false;
                faults.push(unknown(&source, named, &reason));
            }
        }
    }
    let summary = summary(&model);
    Checked { files: [(source, faults)].into_iter().chain(reports).collect(), ok, summary }
}

fn summary(model: &Model) -> String {
    format!(
        "{}, {}, {}, {}",
        count(model.entities.len(), "entity").replace("entitys", "entities"),
        count(model.aggregates.len(), "aggregate"),
        count(model.listings.len(), "listing"),
        count(model.expiries.len(), "expiry").replace("expirys", "expiries"),
    )
}

/// A model that names a report which is not there.
fn unknown(source: &Source, named: &ReportName, reason: &definitions::Unreadable) -> Fault {
    let places: Vec<String> = reason.places.iter().map(|place| format!("`{}`", place.display())).collect();
    Fault {
        code: load::UNKNOWN_REPORT.code,
        severity: Severity::Error,
        position: Position::of(&source.text, &line_starts(&source.text), named.span.start),
        span: named.span.clone(),
        message: format!("`{}` is no shipped report, and no file {} can be read", named.name, places.join(" or ")),
        remedy: format!("write a file beside the model, or a shipped report: {}", definitions::shipped_names()),
    }
}

fn show(result: &Checked) {
    let place = &result.files[0].0.place;
    for (source, fault) in result.faults() {
        line(format_args!("{}\n", render(source, fault)));
    }
    let counts = counts(result);
    match result.ok {
        true if counts.is_empty() => line(format_args!("{} {place}: {}", paint(GOOD, "sound"), result.summary)),
        true => line(format_args!("{} {place}: {}; {counts}", paint(GOOD, "sound"), result.summary)),
        false => line(format_args!("{} {place}: {counts}", paint(BAD, "faulty"))),
    }
    if let Some((_, first)) = result.faults().next() {
        line(format_args!("`tablekeeper explain {}` says more of a fault by its code", first.code));
    }
}

/// `2 errors, 1 warning`; empty where there are no faults.
fn counts(result: &Checked) -> String {
    let of = |severity: Severity| {
        let faults = result.faults().filter(|(_, fault)| fault.severity == severity).count();
        (faults > 0).then(|| count(faults, severity.name()))
    };
    let counts: Vec<String> = [Severity::Error, Severity::Warning, Severity::Info].into_iter().filter_map(of).collect();
    counts.join(", ")
}

fn fault_out<'a>(source: &'a Source, fault: &'a Fault) -> FaultOut<'a> {
    FaultOut {
        file: &source.place,
        code: fault.code,
        severity: fault.severity,
        line: fault.position.line,
        column: fault.position.column,
        message: &fault.message,
        remedy: &fault.remedy,
    }
}
