//! The command line: one file a command.

mod args;
mod audit;
mod check;
mod connect;
mod context;
mod demo;
mod derive;
mod explain;
mod findings;
mod infra;
mod init;
mod input;
mod load;
mod output;
mod patches;
mod proof;
mod redrive;
mod report;
mod simulate;
mod sweep;
mod worker;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use args::{Cli, Command, Format};
use context::{Exit, Outcome, usage};
use output::{BAD, paint, warn};

/// Parses the command line and runs its command.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // `--help` and `--version` arrive here as well, with exit code 0.
        Err(error) => {
            if error.use_stderr() && asks_for_json() {
                output::json_error(&plain(&error.render().to_string()), Exit::Usage);
            } else {
                let _ = error.print();
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8));
        }
    };
    if matches!(cli.format, Format::Json | Format::Jsonl) {
        output::print_json();
    }
    match dispatch(cli) {
        Ok(Exit::Fine | Exit::Findings) if output::is_lost() => Exit::Incomplete.into(),
        Ok(exit) => exit.into(),
        Err(stop) if output::wants_json() => {
            output::json_error(&format!("{:#}", stop.error), stop.exit);
            stop.exit.into()
        }
        Err(stop) => {
            warn(format_args!("{} {:#}", paint(BAD, "error:"), stop.error));
            stop.exit.into()
        }
    }
}

/// What the parser has to say, in one line as other errors are: without its prefix, and without the usage that follows.
fn plain(said: &str) -> String {
    let said = said.split("\n\nUsage:").next().unwrap_or(said);
    let said = said.split("\n\nFor more information").next().unwrap_or(said);
    let said = said.strip_prefix("error: ").unwrap_or(said);
    let parts = said.lines().map(str::trim).filter(|part| !part.is_empty());
    parts.fold(String::new(), |said, part| match said.is_empty() || said.ends_with(':') {
        true if said.is_empty() => part.to_owned(),
        true => format!("{said} {part}"),
        false => format!("{said}; {part}"),
    })
}

/// True if the arguments, which could not be parsed, ask for JSON.
fn asks_for_json() -> bool {
    let arguments: Vec<_> = std::env::args_os().collect();
    let is_json = |value: &str| matches!(value, "json" | "jsonl");
    let value = |pair: &[std::ffi::OsString]| pair[0] == "--format" && pair[1].to_str().is_some_and(is_json);
    let joined = |argument: &std::ffi::OsString| argument.to_str()?.strip_prefix("--format=").map(is_json);
    arguments.windows(2).any(value) || arguments.iter().filter_map(joined).any(|json| json)
}

fn dispatch(cli: Cli) -> Outcome {
    if let (Format::Sarif, Command::Check(args)) = (cli.format, &cli.command) {
        return check::sarif(args);
    }
    let format = cli.format.common().map_err(usage);
    match cli.command {
        Command::Check(args) => check::run(&args, format?),
        Command::Derive(args) => derive::run(&args, format?),
        Command::Explain(args) => explain::run(&args, format?),
        Command::Init(args) => block_on(init::run(&args, format?)),
        Command::Infra(args) => infra::run(&args, format?),
        Command::Simulate(args) => simulate::run(&args, format?),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "tablekeeper", &mut script);
            output::line(String::from_utf8_lossy(&script).trim_end());
            Ok(Exit::Fine)
        }
        Command::Demo(args) => block_on(demo::run(&args, format?)),
        Command::Load(args) => block_on(load::run(&args, format?)),
        Command::Worker(args) => block_on(worker::run(&args, format?)),
        Command::Audit(args) => block_on(audit::run(&args, cli.format)),
        Command::Report(args) => block_on(report::run(&args, format?)),
        Command::Sweep(args) => block_on(sweep::run(&args, format?)),
        Command::Verify(args) => block_on(proof::verify(&args, format?)),
        Command::Reconcile(args) => block_on(proof::reconcile(&args, format?)),
        Command::Redrive(args) => block_on(redrive::run(&args, format?)),
    }
}

fn block_on(command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(command)
}
