//! SARIF 2.1.0: what code scanners and editors read. Only `check` prints it: a model file's faults have lines, data has keys.
//!
//! One run, even of several files. A file that cannot be read is no result but a notification of the run, which then has not
//! succeeded.

use std::path::{Component, Path};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use tablekeeper::model::derived::Severity;
use tablekeeper::model::position::{Fault, Position, line_starts};
use tablekeeper::model::rule::Rule;

use super::{Checked, Source};
use crate::cli::context::Exit;
use crate::cli::explain;

/// What a path in a URI need not encode; the path's own parts are encoded one by one.
const IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Log<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run<'a> {
    tool: Tool,
    invocations: [Invocation; 1],
    /// How columns are counted; see [`Position`].
    column_kind: &'static str,
    results: Vec<ResultOut<'a>>,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    version: &'static str,
    semantic_version: &'static str,
    /// Where the package says it lives, if it does.
    #[serde(skip_serializing_if = "str::is_empty")]
    information_uri: &'static str,
    /// Those that the results break, by code.
    rules: Vec<RuleOut>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RuleOut {
    id: &'static str,
    name: &'static str,
    short_description: Text,
    full_description: Text,
    help: Text,
    default_configuration: Configuration,
}

#[derive(Serialize)]
struct Configuration {
    level: Level,
}

#[derive(Serialize)]
struct Text {
    text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    execution_successful: bool,
    exit_code: u8,
    tool_execution_notifications: Vec<Notification>,
}

#[derive(Serialize)]
struct Notification {
    level: Level,
    message: Text,
    locations: [Location; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultOut<'a> {
    rule_id: &'a str,
    /// Where the rule stands in the driver's list.
    rule_index: usize,
    level: Level,
    message: Text,
    locations: [Location; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    physical_location: PhysicalLocation,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: Artifact,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<Region>,
}

#[derive(Serialize)]
struct Artifact {
    uri: String,
}

/// From 1; the end column is the one behind the last character.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: usize,
    start_column: usize,
    end_line: usize,
    end_column: usize,
}

#[derive(Serialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Level {
    Error,
    Warning,
    Note,
}

impl From<Severity> for Level {
    fn from(severity: Severity) -> Level {
        match severity {
            Severity::Error => Level::Error,
            Severity::Warning => Level::Warning,
            Severity::Info => Level::Note,
        }
    }
}

/// `unreadable`: the files that could not be read, and why.
pub fn log<'a>(checked: &'a [Checked], unreadable: &[(&str, String)], exit: Exit) -> Log<'a> {
    let directory = std::env::current_dir().unwrap_or_default();
    let uri = |place: &str| uri(place, &directory);
    let faults: Vec<(&Source, &Fault)> = checked.iter().flat_map(Checked::faults).collect();
    let mut codes: Vec<&str> = faults.iter().map(|(_, fault)| fault.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let rules: Vec<&Rule> = codes.into_iter().filter_map(explain::rule).collect();
    let result = |(source, fault): &(&'a Source, &'a Fault)| {
        // Every fault names one of the catalogue's rules.
        let rule_index = rules.iter().position(|rule| rule.code == fault.code)?;
        let location = location(uri(&source.place), Some(region(&source.text, fault)));
        let message = Text { text: format!("{}; {}", fault.message, fault.remedy) };
        Some(ResultOut {
            rule_id: fault.code,
            rule_index,
            level: fault.severity.into(),
            message,
            locations: [location],
        })
    };
    let notification = |(place, reason): &(&str, String)| Notification {
        level: Level::Error,
        message: Text { text: reason.clone() },
        locations: [location(uri(place), None)],
    };
    let driver = Driver {
        name: "Tablekeeper",
        version: env!("CARGO_PKG_VERSION"),
        semantic_version: env!("CARGO_PKG_VERSION"),
        information_uri: env!("CARGO_PKG_HOMEPAGE"),
        rules: rules.iter().map(|rule| rule_out(rule)).collect(),
    };
    let invocation = Invocation {
        execution_successful: unreadable.is_empty(),
        exit_code: exit as u8,
        tool_execution_notifications: unreadable.iter().map(notification).collect(),
    };
    let results = faults.iter().filter_map(result).collect();
    Log {
        schema: "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        version: "2.1.0",
        runs: [Run { tool: Tool { driver }, invocations: [invocation], column_kind: "unicodeCodePoints", results }],
    }
}

fn rule_out(rule: &Rule) -> RuleOut {
    let text = |text: &str| Text { text: text.to_owned() };
    let first = rule.doc.split_inclusive(". ").next().unwrap_or(rule.doc);
    let help = format!("{}\n\n`tablekeeper explain {}` prints this.", rule.doc, rule.code);
    RuleOut {
        id: rule.code,
        name: rule.name,
        short_description: text(first.trim_end()),
        full_description: text(rule.doc),
        help: Text { text: help },
        default_configuration: Configuration { level: rule.severity.into() },
    }
}

fn location(uri: String, region: Option<Region>) -> Location {
    Location { physical_location: PhysicalLocation { artifact_location: Artifact { uri }, region } }
}

fn region(text: &str, fault: &Fault) -> Region {
    let end = Position::of(text, &line_starts(text), fault.span.end);
    let Position { line, column } = fault.position;
    Region { start_line: line, start_column: column, end_line: end.line, end_column: end.column }
}

/// A path as a URI: below the current directory a relative one, as code scanners want it; else absolute ones as `file:`.
fn uri(place: &str, directory: &Path) -> String {
    let path = Path::new(place);
    let path = path.strip_prefix(directory).unwrap_or(path);
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(utf8_percent_encode(&name.to_string_lossy(), IN_PATHS).to_string()),
        Component::ParentDir => Some("..".to_owned()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    let parts: Vec<String> = parts.collect();
    let root = if path.is_absolute() { "file:///" } else { "" };
    format!("{root}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uris_that_are_relative_where_they_can_be() {
        let here = Path::new("/x/y");
        for (place, expected) in [
            ("models/a.toml", "models/a.toml"),
            ("./a b/ü#1%.toml", "a%20b/%C3%BC%231%25.toml"),
            ("/x/y/m:1.toml", "m%3A1.toml"),
            ("../other/a.toml", "../other/a.toml"),
            ("/srv/a.toml", "file:///srv/a.toml"),
        ] {
            assert_eq!(uri(place, here), expected);
        }
    }

    #[test]
    fn a_region_counts_characters_and_ends_behind_the_last() {
        let text = "version = 1\n\"é𝄞\" = 1\n";
        let span = text.find("\"é").unwrap()..text.find(" = 1\n").map(|_| text.rfind(" = 1").unwrap()).unwrap();
        let position = Position::of(text, &line_starts(text), span.start);
        let fault = Fault {
            code: "C102",
            severity: Severity::Error,
            position,
            span,
            message: String::new(),
            remedy: String::new(),
        };
        let Region { start_line, start_column, end_line, end_column } = region(text, &fault);
        assert_eq!((start_line, start_column, end_line, end_column), (2, 1, 2, 5));
    }
}
