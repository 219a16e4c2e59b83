//! The command line as a process: started, listened to, killed or told to stop, and never left behind.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::engine::ports::Clock as _;

/// Longest that any program of these tests may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at it.
const PAUSE: Duration = Duration::from_millis(3);

/// A program that ended.
pub struct Ended {
    /// `None`: by a signal.
    pub code: Option<i32>,
    pub out: String,
    /// Lines on standard error.
    pub log: Vec<String>,
    pub took: Duration,
}

/// A running program. Dropping it kills it.
pub struct Program {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    readers: Option<(JoinHandle<()>, JoinHandle<String>)>,
    begun: DateTime<Utc>,
}

/// The program with these arguments, out of reach of the machine's own settings for AWS.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = alone(env!("CARGO_BIN_EXE_tablekeeper"));
    command.args(arguments);
    command
}

/// Any program, likewise.
pub fn alone(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("AWS_") || name == "RUST_LOG") {
            command.env_remove(name);
        }
    }
    let empty = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-settings");
    std::fs::write(&empty, "").expect("the directory for tests' files");
    command.env("AWS_CONFIG_FILE", &empty).env("AWS_SHARED_CREDENTIALS_FILE", &empty);
    command
}

/// Runs it to its end.
pub async fn run(arguments: &[&str]) -> Ended {
    Program::start(arguments).end().await
}

impl Program {
    pub fn start(arguments: &[&str]) -> Program {
        Program::spawn(command(arguments))
    }

    /// Starts a command whose output is piped.
    pub fn spawn(mut command: Command) -> Program {
        let mut child = command.spawn().expect("the program starts");
        let (stderr, mut stdout) = (child.stderr.take().expect("piped"), child.stdout.take().expect("piped"));
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&log);
        let of_log = std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| lines.lock().unwrap().push(line));
        });
        let of_out = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stdout.read_to_string(&mut text);
            text
        });
        Program { child, log, readers: Some((of_log, of_out)), begun: SystemClock::new().now() }
    }

    /// Waits until it has said `text` on standard error so many times, or for `patience` at most; how long it has run then.
    pub async fn says(&self, text: &str, times: usize, patience: Duration) -> Duration {
        let said = || self.log.lock().unwrap().iter().filter(|line| line.contains(text)).count();
        let until = self.age() + patience;
        while said() < times && self.age() < until {
            tokio::time::sleep(PAUSE).await;
        }
        self.age()
    }

    /// The first line on standard error so far that contains `text`.
    pub fn line(&self, text: &str) -> Option<String> {
        self.log.lock().unwrap().iter().find(|line| line.contains(text)).cloned()
    }

    /// Waits until a worker begins to read; how long that took since it was started.
    pub async fn at_work(&self) -> Duration {
        self.says("reading the stream", 1, PATIENCE).await
    }

    /// True if it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn age(&self) -> Duration {
        (SystemClock::new().now() - self.begun).to_std().unwrap_or_default()
    }

    /// Kills it at once, as `kill -9` does.
    pub async fn kill(mut self) -> Ended {
        self.child.kill().expect("killed");
        let patience = self.age() + PATIENCE;
        self.end_within(patience).await
    }

    /// Asks it to stop, as `kill` does.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    pub fn signal(&self, name: &str) {
        let script = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &script]).status().expect("a shell").success());
    }

    /// Waits for its end.
    pub async fn end(self) -> Ended {
        self.end_within(PATIENCE).await
    }

    /// The same for a program that has much to do.
    pub async fn end_within(mut self, patience: Duration) -> Ended {
        let status = self.exit(patience).await;
        let took = self.age();
        let (of_log, out) = self.readers.take().expect("once");
        of_log.join().expect("read");
        let (log, out) = (std::mem::take(&mut *self.log.lock().unwrap()), out.join().expect("read"));
        Ended { code: status.code(), out, log, took }
    }

    async fn exit(&mut self, patience: Duration) -> ExitStatus {
        while self.age() < patience {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("the program does not end within {patience:?}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The sum of a number in the lines of a JSON log.
    pub fn sum(&self, field: &str) -> u64 {
        let number = |line: &String| serde_json::from_str::<serde_json::Value>(line).ok()?["fields"][field].as_u64();
        self.log.iter().filter_map(number).sum()
    }

    pub fn says(&self, text: &str) -> bool {
        self.log.iter().any(|line| line.contains(text))
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.log.join("\n")))
    }

    /// Fails with all that it said unless it ended so.
    pub fn expect(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.log.join("\n"));
        self
    }
}
