//! The command line: parses, calls one command, exits with its code.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
