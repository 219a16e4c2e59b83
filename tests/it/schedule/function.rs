//! A function as a program of its own, under cargo-lambda's emulated Runtime API; `tests/lambda-emulator.sh` starts that.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::time::Duration;

use tempfile::NamedTempFile;

/// `host:port` of the emulator.
pub const EMULATOR: &str = "TABLEKEEPER_LAMBDA_EMULATOR";
/// Longest that an invocation may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The running function; stopped when the test ends, however it ends.
pub struct Function {
    child: Child,
    emulator: String,
    name: String,
    log: NamedTempFile,
}

impl Drop for Function {
    fn drop(&mut self) {
        // It may have ended by itself; then the test has failed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Function {
    /// A process that serves the function of that name, with further variables. Several may serve one.
    pub fn start(emulator: &str, name: &str, binary: &str, endpoint: &str, variables: &[(&str, &str)]) -> Function {
        let log = NamedTempFile::new().expect("a file for the log");
        let child = command(emulator, name, binary, endpoint, variables, log.reopen().expect("the file again"));
        Function { child, emulator: emulator.to_owned(), name: name.to_owned(), log }
    }

    /// Invokes it and returns the answer's body.
    pub fn invoke(&self, event: &str) -> String {
        invoke(&self.emulator, &self.name, event)
    }

    /// All that it has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).expect("the log")
    }

    /// Whether it failed, and what it has logged, when it has ended by itself.
    pub fn end(mut self) -> (bool, String) {
        let failed = !self.child.wait().expect("it ends").success();
        (failed, self.log())
    }
}

fn command(emulator: &str, name: &str, binary: &str, endpoint: &str, variables: &[(&str, &str)], log: File) -> Child {
    Command::new(binary)
        .env("AWS_LAMBDA_RUNTIME_API", format!("http://{emulator}/.rt/{name}"))
        .env("AWS_LAMBDA_FUNCTION_NAME", name)
        .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("TABLEKEEPER_MODEL", "quality")
        .envs(variables.iter().copied())
        .stdout(log)
        .spawn()
        .expect("the function starts")
}

/// Invokes the function of that name and returns the answer's body.
pub fn invoke(emulator: &str, name: &str, event: &str) -> String {
    let mut connection = TcpStream::connect(emulator).expect("the emulator listens");
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = event.len();
    write!(
        connection,
        "POST /2015-03-31/functions/{name}/invocations HTTP/1.0\r\nHost: {emulator}\r\nContent-Length: {length}\r\n\r\n{event}"
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").map(|(_, body)| body.trim().to_owned()).expect("an HTTP answer")
}
