//! `init`: the files that a new user begins with: a model, the stack's parameters, the stack's template.
//!
//! Who has a table already has a model proposed for it (`propose`), and may ask for that file alone.
//!
//! Nothing is overwritten, and nothing is written where one of the files is there already: what a person wrote into a model
//! exists once.

mod propose;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use tablekeeper::model::load;
use tablekeeper::model::shipped::shipped;

use super::args::{InitArgs, OutputFormat};
use super::context::{Exit, Outcome, Stop, make_directory, usage};
use super::infra;
use super::output::{BOLD, GOOD, count, heading, json, line, paint};
use propose::Proposed;

/// The example, which is of no table in particular.
const EXAMPLE: &str = include_str!("init/model.toml");
const EXAMPLE_NAME: &str = "my-table";
/// A table's name has 3 characters at least, a model's 64 at most.
const NAME_LENGTHS: std::ops::RangeInclusive<usize> = 3..=64;

/// Where the packages lie in their bucket; `aws s3 cp` keeps the folders that cargo-lambda makes.
const PACKAGES: &str = concat!("tablekeeper/", env!("CARGO_PKG_VERSION"));

#[derive(Serialize)]
struct Written<'w> {
    model: &'w str,
    /// Not with the model alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'w str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<&'w str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    proposed: Option<About>,
    /// What to go on with, in this order.
    next: Vec<Step>,
}

/// What was proposed, in figures.
#[derive(Serialize)]
struct About {
    entities: usize,
    indexes: usize,
    /// Items looked at, and of how many.
    items: usize,
    of: u64,
    /// Doubtful places: comments that begin with `check:`.
    doubtful: usize,
    /// What `audit` finds in these items under the proposal, by rule.
    findings: BTreeMap<String, usize>,
}

#[derive(Serialize)]
struct Step {
    when: &'static str,
    command: String,
}

/// One parameter of the stack, in the one form that `deploy`, `create-stack` and `update-stack` all read.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Parameter {
    parameter_key: &'static str,
    parameter_value: String,
}

pub async fn run(args: &InitArgs, format: OutputFormat) -> Outcome {
    checked_name(args)?;
    let (source, name, proposed) = match propose::run(args).await? {
        Some(proposed) => (proposed.proposal.text.clone(), proposed.proposal.model.name.clone(), Some(proposed)),
        None => {
            let (source, name) = source(args)?;
            (source, name, None)
        }
    };
    let file = format!("{name}.toml");
    let model = load::load(&source, &name)
        .map_err(|faults| anyhow::anyhow!("the model to begin with is at fault: {}", faults[0]))?
        .model;
    let alone = is_model_file(&args.out);
    let texts = match alone {
        true => vec![(args.out.clone(), source)],
        false => vec![
            (args.out.join(&file), source),
            (args.out.join("parameters.json"), parameters()?),
            (args.out.join("stack.yaml"), infra::template(&file, &model)?),
        ],
    };
    write(args, &texts)?;
    let paths: Vec<&Path> = texts.iter().map(|(path, _)| path.as_path()).collect();
    let shown: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    let mut steps = Vec::new();
    if proposed.is_some() {
        steps.push(audit_step(args, paths[0])?);
    }
    match paths.as_slice() {
        [model, parameters, template] => steps.extend(next(&name, [*model, *parameters, *template])?),
        _ => steps.insert(0, check_step(paths[0])?),
    }
    let complete = proposed.as_ref().is_none_or(|proposed| proposed.complete);
    let written = Written {
        model: &shown[0],
        parameters: shown.get(1).map(AsRef::as_ref),
        template: shown.get(2).map(AsRef::as_ref),
        proposed: proposed.as_ref().map(about),
        next: steps,
    };
    match format {
        OutputFormat::Json => json(&written)?,
        OutputFormat::Text => show(&written),
    }
    Ok(if complete { Exit::Fine } else { Exit::Incomplete })
}

/// True if `--out` names the model's file, not a folder.
fn is_model_file(out: &Path) -> bool {
    out.extension().is_some_and(|ending| ending == "toml") && !out.is_dir()
}

fn about(Proposed { proposal, .. }: &Proposed) -> About {
    About {
        entities: proposal.model.entities.len(),
        indexes: proposal.model.table.indexes.len(),
        items: proposal.items,
        of: proposal.seen,
        doubtful: proposal.text.lines().filter(|line| line.contains("check: ")).count(),
        findings: proposal.findings.clone(),
    }
}

/// The model's text and its name.
fn source(args: &InitArgs) -> Result<(String, String), Stop> {
    let (text, name, heading) = match args.from.from_model.as_deref() {
        None => (EXAMPLE, EXAMPLE_NAME, String::new()),
        Some(name) => {
            let model = shipped(name).with_context(|| format!("no model `{name}` is shipped")).map_err(usage)?;
            let heading = format!(
                "# Begun as a copy of Tablekeeper's model `{name}`. Say in it what your own table has; `tablekeeper check` names\n\
                 # whatever does not fit, with the remedy.\n\n"
            );
            (model.source, model.name, heading)
        }
    };
    let file = args.out.file_stem().filter(|_| is_model_file(&args.out)).and_then(|stem| stem.to_str());
    match args.name.as_deref().or(file) {
        None => Ok((format!("{heading}{text}"), name.to_owned())),
        Some(own) => Ok((format!("{heading}{}", named(text, own)), own.to_owned())),
    }
}

/// A name that is given is one that a model and its table can have.
fn checked_name(args: &InitArgs) -> Result<(), Stop> {
    let Some(own) = args.name.as_deref() else { return Ok(()) };
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !NAME_LENGTHS.contains(&own.len())
        || !own.chars().all(letters)
        || !own.starts_with(|c: char| c.is_ascii_alphabetic())
    {
        let (least, most) = NAME_LENGTHS.into_inner();
        return Err(usage(anyhow::anyhow!(
            "--name `{own}` cannot name a model and its table; take {least} to {most} of letters, digits, `_`, `-`, a letter first"
        )));
    }
    Ok(())
}

/// The model with this name, and its table likewise.
fn named(text: &str, name: &str) -> String {
    let mut section = "";
    let rename = |line| {
        let line: &str = line;
        if line.starts_with('[') {
            section = line;
        }
        match line.starts_with("name = ") && ["", "[table]"].contains(&section) {
            true => format!("name = \"{name}\"\n"),
            false => format!("{line}\n"),
        }
    };
    text.lines().map(rename).collect()
}

/// What a stack is told beyond what the template has from the model: that is said once, in the template. What the user has to say is
/// empty: the stack refuses a package without a bucket in words.
fn parameters() -> anyhow::Result<String> {
    let package = |function| format!("{PACKAGES}/{function}/bootstrap.zip");
    let parameters = [
        ("CodeBucket", String::new()),
        ("CodeKey", package("lambda-stream")),
        ("ScheduleCodeKey", package("lambda-schedule")),
        ("AlarmEmail", String::new()),
        ("ExistingStreamArn", String::new()),
    ]
    .map(|(parameter_key, parameter_value)| Parameter { parameter_key, parameter_value });
    Ok(serde_json::to_string_pretty(&parameters)? + "\n")
}

fn write(args: &InitArgs, texts: &[(PathBuf, String)]) -> Result<(), Stop> {
    let there: Vec<String> = texts
        .iter()
        .filter(|(path, _)| path.symlink_metadata().is_ok())
        .map(|(path, _)| format!("`{}`", path.display()))
        .collect();
    if !there.is_empty() {
        return Err(occupied(&there.join(", ")));
    }
    match is_model_file(&args.out) {
        true => args.out.parent().filter(|folder| !folder.as_os_str().is_empty()).map_or(Ok(()), make_directory)?,
        false => make_directory(&args.out)?,
    }
    for (path, text) in texts {
        let shown = path.display();
        let mut file = create(path)?;
        file.write_all(text.as_bytes()).with_context(|| format!("cannot write `{shown}`; it is incomplete"))?;
    }
    Ok(())
}

/// A new file; one that came into being just now is not touched either.
fn create(path: &Path) -> Result<File, Stop> {
    OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => occupied(&format!("`{}`", path.display())),
        _ => usage(anyhow::Error::new(error).context(format!("cannot make the file `{}`", path.display()))),
    })
}

fn occupied(files: &str) -> Stop {
    usage(anyhow::anyhow!(
        "there is {files} already, and nothing is overwritten; move it away, or write elsewhere by --out DIR"
    ))
}

fn absolute(file: &Path) -> anyhow::Result<String> {
    let place = std::path::absolute(file).with_context(|| format!("cannot say where `{}` is", file.display()))?;
    Ok(shell_word(&place.to_string_lossy()))
}

fn check_step(model: &Path) -> anyhow::Result<Step> {
    let command = format!("tablekeeper check {}", absolute(model)?);
    Ok(Step { when: "When the model says what you have:", command })
}

/// A proposal is judged by the items.
fn audit_step(args: &InitArgs, model: &Path) -> anyhow::Result<Step> {
    let mut command = format!("tablekeeper audit --model {}", absolute(model)?);
    if let Some(items) = args.from.from_items.as_deref().filter(|items| items.as_os_str() != "-") {
        command.push_str(&format!(" --items {}", absolute(items)?));
    }
    if let Some(dir) = &args.sampled.data_dir {
        command.push_str(&format!(" --data-dir {}", absolute(dir)?));
    }
    if let Some(endpoint) = &args.sampled.endpoint {
        command.push_str(&format!(" --endpoint {}", shell_word(endpoint)));
    }
    Ok(Step { when: "Which items break it, and is it they or the model?", command })
}

/// All steps from the files to a stack. Files are named from the root on, for packages are built in another folder than this one.
fn next(name: &str, files: [&Path; 3]) -> anyhow::Result<Vec<Step>> {
    // Names of stacks have no underscores.
    let stack = name.replace('_', "-");
    let mut places = Vec::new();
    for file in files {
        let place = std::path::absolute(file).with_context(|| format!("cannot say where `{}` is", file.display()))?;
        places.push(place.to_string_lossy().into_owned());
    }
    let parameters = shell_word(&format!("file://{}", places[1]));
    let (model, template) = (shell_word(&places[0]), shell_word(&places[2]));
    let step = |when, command| Step { when, command };
    Ok(vec![
        step("When the model says what you have:", format!("tablekeeper check {model}")),
        // The template has the table of the model as it was then.
        step(
            "Whenever the model's table, keys, indexes or zone changed:",
            format!("tablekeeper infra --model {model} --out {template}"),
        ),
        step(
            "In the folder of Tablekeeper's sources, build the packages (cargo-lambda, see infra/README.md):",
            "cargo lambda build --profile lambda --arm64 --output-format zip --no-default-features --features lambda --bin lambda-stream && \
             cargo lambda build --release --arm64 --output-format zip --no-default-features --features schedule --bin lambda-schedule"
                .to_owned(),
        ),
        step(
            "There, put the model into both, and with it the files of reports of your own; without it they cannot start:",
            format!(
                "for function in stream schedule; do zip --junk-paths target/lambda/lambda-$function/bootstrap.zip {model}; done"
            ),
        ),
        step(
            "There, copy them into your bucket, in place of MY-PACKAGES:",
            format!(
                "aws s3 cp target/lambda s3://MY-PACKAGES/{PACKAGES} --recursive --exclude '*' --include '*/bootstrap.zip'"
            ),
        ),
        step(
            "When CodeBucket and AlarmEmail are filled in, with AWS CLI version 2, which reads them from a file:",
            format!(
                "aws cloudformation deploy --stack-name {stack} --template-file {template} --capabilities CAPABILITY_IAM \
                 --parameter-overrides {parameters}"
            ),
        ),
    ])
}

/// A word that a shell takes as it is.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:+=@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn show(written: &Written<'_>) {
    let said = match &written.proposed {
        None => "the model: say in it what your keys, items, counts and dates are".to_owned(),
        Some(about) => proposal(about),
    };
    let parameters =
        "the stack's parameters: fill in CodeBucket and AlarmEmail; without ScheduleCodeKey nothing runs by the clock";
    let mut files = vec![(written.model, said.as_str())];
    files.extend(written.parameters.map(|path| (path, parameters)));
    files.extend(written.template.map(|path| (path, "the stack's template, with the model's table in place")));
    let width = files.iter().map(|(path, _)| path.chars().count()).max().unwrap_or(0);
    for (path, what) in files {
        line(format_args!("{} {path:width$}  {what}", paint(GOOD, "wrote")));
    }
    if let Some(about) = &written.proposed
        && !about.findings.is_empty()
    {
        let found: Vec<String> = about.findings.iter().map(|(code, number)| format!("{code} {number}")).collect();
        line(format_args!("findings in the items looked at: {} (`tablekeeper explain CODE`)", found.join(", ")));
    }
    heading("Next");
    for Step { when, command } in &written.next {
        line(format_args!("  {when}\n    {}", paint(BOLD, command)));
    }
}

fn proposal(about: &About) -> String {
    let indexes = match about.indexes {
        1 => "1 index".to_owned(),
        number => format!("{number} indexes"),
    };
    let entities = if about.entities == 1 { "1 entity".to_owned() } else { format!("{} entities", about.entities) };
    let from = match about.items {
        0 => String::new(),
        items if items as u64 == about.of => format!(" from {}", count(items, "item")),
        items => format!(" from {items} of {} items", about.of),
    };
    format!("the model: {entities}, {indexes}{from}; {} to check, see `check:`", count(about.doubtful, "place"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_model_and_its_table_are_renamed() {
        let text = "version = 1\nname = \"a\"\n[table]\nname = \"b\"\n[report]\nname = \"c\"\nnames = []\n";
        let expected = "version = 1\nname = \"x\"\n[table]\nname = \"x\"\n[report]\nname = \"c\"\nnames = []\n";
        assert_eq!(named(text, "x"), expected);
    }

    #[test]
    fn words_are_quoted_for_a_shell_where_they_have_to_be() {
        assert_eq!(shell_word("file://a/b-c.json"), "file://a/b-c.json");
        assert_eq!(shell_word("my dir/it's"), r"'my dir/it'\''s'");
    }
}
