//! What most commands need first: the model, the items, the exit code.

use std::path::Path;
use std::process::ExitCode;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use anyhow::Context as _;
use tablekeeper::model::derived::Severity;
use tablekeeper::model::load;
use tablekeeper::model::position::Fault;
use tablekeeper::model::shipped::{SHIPPED, shipped};
use tablekeeper::model::spec::Model;

use super::args::{ModelArgs, TableArgs};
use super::output::{self, count, warn};

/// How a command ended; the numbers are part of the command line's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Fine = 0,
    /// There are findings or differences.
    Findings = 1,
    /// The command line or the model is at fault.
    Usage = 2,
    /// Not everything was read or done.
    Incomplete = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// A command that cannot go on: the message, and how to exit.
#[derive(Debug)]
pub struct Stop {
    pub exit: Exit,
    pub error: anyhow::Error,
}

/// Usage faults: a file that is not there, a model that does not load.
pub fn usage(error: impl Into<anyhow::Error>) -> Stop {
    Stop { exit: Exit::Usage, error: error.into() }
}

/// Whatever else goes wrong leaves the run incomplete.
impl<E: Into<anyhow::Error>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop { exit: Exit::Incomplete, error: error.into() }
    }
}

pub type Outcome = Result<Exit, Stop>;

/// A model file's text and name: from disk, or a shipped one.
pub struct Source {
    pub text: String,
    /// Path or name, for messages.
    pub place: String,
    /// The model's name where the file does not give one.
    pub name: String,
}

pub fn read_model(which: &str) -> Result<Source, Stop> {
    if let Some(model) = shipped(which) {
        return Ok(Source {
            text: model.source.to_owned(),
            place: format!("models/{which}.toml"),
            name: which.to_owned(),
        });
    }
    let names: Vec<&str> = SHIPPED.iter().map(|model| model.name).collect();
    let text = std::fs::read_to_string(which)
        .with_context(|| {
            format!("cannot read the model `{which}`; give a file, or a shipped model: {}", names.join(", "))
        })
        .map_err(usage)?;
    let name = Path::new(which).file_stem().map_or_else(|| "model".to_owned(), |s| s.to_string_lossy().into_owned());
    Ok(Source { text, place: which.to_owned(), name })
}

/// Loads a model; faults are shown on standard error and end the command.
pub fn load_model(args: &ModelArgs) -> Result<Model, Stop> {
    let source = read_model(&args.model)?;
    match load::load(&source.text, &source.name) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                match output::wants_json() {
                    true => warn(format_args!("{}:{warning}", source.place)),
                    false => warn(render(&source, warning)),
                }
            }
            Ok(loaded.model)
        }
        Err(faults) => Err(refuse("model", &source, &faults)),
    }
}

/// What stops a command whose model or report definition has faults: they are shown, or for those who asked for JSON told in
/// the error itself.
pub fn refuse(what: &str, source: &Source, faults: &[Fault]) -> Stop {
    let place = &source.place;
    let has = format!("the {what} `{place}` has {}", count(faults.len(), "fault"));
    if output::wants_json() {
        let told: Vec<String> = faults.iter().map(|fault| format!("{place}:{fault}")).collect();
        return usage(anyhow::anyhow!("{has}: {}", told.join(" | ")));
    }
    for fault in faults {
        warn(render(source, fault));
    }
    usage(anyhow::anyhow!("{has}; mend it, then try again"))
}

/// The model with the command line's table names in place of its own.
pub fn model_for_table(args: &TableArgs) -> Result<Model, Stop> {
    let mut model = load_model(&args.model)?;
    if let Some(table) = &args.table {
        model.table.name = table.clone();
        model.table.state_table = format!("{table}-keeper");
    }
    if let Some(state_table) = &args.state_table {
        model.table.state_table = state_table.clone();
    }
    if model.table.state_table == model.table.name {
        let name = &model.table.name;
        return Err(usage(anyhow::anyhow!("the state table `{name}` is the table itself; give it a name of its own")));
    }
    Ok(model)
}

/// Makes the directory for results: before a long run, not after it.
pub fn make_directory(path: &Path) -> Result<(), Stop> {
    std::fs::create_dir_all(path)
        .with_context(|| format!("cannot make the directory `{}`", path.display()))
        .map_err(usage)
}

/// A fault as compilers show them: the line, a caret, the remedy.
pub fn render(source: &Source, fault: &Fault) -> String {
    let level = match fault.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Info => Level::INFO,
    };
    let end = fault.span.end.min(source.text.len());
    let span = fault.span.start.min(end)..end;
    // Only the lines concerned: the renderer reads all that it is given, for each fault.
    let text = &source.text;
    let is_end = |byte: &u8| *byte == b'\n';
    let from = text.as_bytes()[..span.start].iter().rposition(is_end).map_or(0, |at| at + 1);
    let to = text.as_bytes()[span.end..].iter().position(is_end).map_or(text.len(), |at| span.end + at);
    let lines = text[from..to].strip_suffix('\r').unwrap_or(&text[from..to]);
    let span = (span.start - from).min(lines.len())..(span.end - from).min(lines.len());
    let snippet = Snippet::source(lines)
        .line_start(fault.position.line)
        .path(source.place.as_str())
        .annotation(AnnotationKind::Primary.span(span));
    let group: Group<'_> = level
        .primary_title(fault.message.as_str())
        .id(fault.code)
        .element(snippet)
        .element(Level::HELP.message(fault.remedy.as_str()));
    Renderer::styled().render(&[group])
}
