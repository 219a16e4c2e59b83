//! `init`: the files that a new user begins with: a model, the stack's parameters, the stack's template.
//!
//! Nothing is overwritten, and nothing is written where one of the files is there already: what a person wrote into a model
//! exists once.

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
use super::output::{BOLD, GOOD, heading, json, line, paint};

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
    parameters: &'w str,
    template: &'w str,
    /// What to go on with, in this order.
    next: Vec<Step>,
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

pub fn run(args: &InitArgs, format: OutputFormat) -> Outcome {
    let (source, name) = source(args)?;
    let file = format!("{name}.toml");
    let model = load::load(&source, &name)
        .map_err(|faults| anyhow::anyhow!("the model to begin with is at fault: {}", faults[0]))?
        .model;
    let texts = [
        (args.out.join(&file), source),
        (args.out.join("parameters.json"), parameters()?),
        (args.out.join("stack.yaml"), infra::template(&file, &model)?),
    ];
    write(args, &texts)?;
    let [model, parameters, template] = texts.each_ref().map(|(path, _)| path.to_string_lossy());
    let next = next(&name, texts.each_ref().map(|(path, _)| path.as_path()))?;
    let written = Written { model: &model, parameters: &parameters, template: &template, next };
    match format {
        OutputFormat::Json => json(&written)?,
        OutputFormat::Text => show(&written),
    }
    Ok(Exit::Fine)
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
    let Some(own) = args.name.as_deref() else { return Ok((format!("{heading}{text}"), name.to_owned())) };
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
    Ok((format!("{heading}{}", named(text, own)), own.to_owned()))
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
    make_directory(&args.out)?;
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
    let files = [
        (written.model, "the model: say in it what your keys, items, counts and dates are"),
        (
            written.parameters,
            "the stack's parameters: fill in CodeBucket and AlarmEmail; without ScheduleCodeKey nothing runs by the clock",
        ),
        (written.template, "the stack's template, with the model's table in place"),
    ];
    let width = files.iter().map(|(path, _)| path.chars().count()).max().unwrap_or(0);
    for (path, what) in files {
        line(format_args!("{} {path:width$}  {what}", paint(GOOD, "wrote")));
    }
    heading("Next");
    for Step { when, command } in &written.next {
        line(format_args!("  {when}\n    {}", paint(BOLD, command)));
    }
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
