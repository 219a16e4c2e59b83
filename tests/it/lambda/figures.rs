//! What a start of the function costs, beside the least function in Rust and one in Python that does the same job.
//!
//! `tests/lambda-figures.sh` builds all three as they are deployed and sets the variables. Times are of this machine; they are printed
//! and looked at by people, no test fails for them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::engine::ports::Clock as _;

use super::DONE;
use super::events::inserted;
use super::function::{Function, start};
use super::wire::event;
use crate::kill::World;
use crate::program::{Program, alone};

const STREAM: &str = "TABLEKEEPER_FIGURES_STREAM";
const HELLO: &str = "TABLEKEEPER_FIGURES_HELLO";
const PYTHON: &str = "TABLEKEEPER_FIGURES_PYTHON";
/// The fastest of so many counts: whatever else goes on can only add to it.
const STARTS: usize = 21;
const LARGE: usize = 1000;
/// Sequence number of the first record.
const FIRST: usize = 1_000_000;

/// One of the three; what answers, and the file or folder it is.
struct Subject {
    name: &'static str,
    place: String,
    answer: &'static str,
}

struct Figures {
    start: Duration,
    next: Duration,
    large: Duration,
    /// Bytes.
    memory: u64,
}

impl Subject {
    async fn function(&self, world: &World) -> Function {
        let endpoint = world.database.endpoint();
        let table = world.model.table.name.as_str();
        Function::with(|runtime_api| match self.name {
            "Python" => python(&self.place, runtime_api, endpoint, table),
            _ => start(&self.place, runtime_api, endpoint),
        })
        .await
    }

    /// From the start of the process to its answer to one new work order, and from there to its answer to another one.
    async fn start_once(&self, world: &World, n: usize) -> (Duration, Duration) {
        let [one, other] = [2 * n, 2 * n + 1].map(|n| event(&[inserted(n, FIRST + n, "")]));
        let begun = now();
        let mut function = self.function(world).await;
        assert_eq!(function.invoke(&one).await.as_deref(), Ok(self.answer), "{}", self.name);
        let (start, begun) = (since(begun), now());
        assert_eq!(function.invoke(&other).await.as_deref(), Ok(self.answer), "{}", self.name);
        let next = since(begun);
        function.kill().await;
        (start, next)
    }

    /// A batch of new work orders for a function that has just started: how long it takes, and the most memory that it had.
    async fn large(&self, world: &World, first: usize) -> (Duration, u64) {
        let records: Vec<String> = (first..first + LARGE).map(|n| inserted(n, FIRST + n, "")).collect();
        let mut function = self.function(world).await;
        let begun = now();
        assert_eq!(function.invoke(&event(&records)).await.as_deref(), Ok(self.answer), "{}", self.name);
        let took = since(begun);
        let memory = memory_max(function.id());
        function.kill().await;
        (took, memory)
    }
}

fn python(place: &str, runtime_api: &str, endpoint: &str, table: &str) -> Program {
    let mut command = alone(place);
    command
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/figures/runtime.py"))
        .env("AWS_LAMBDA_RUNTIME_API", runtime_api)
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("TABLE", table);
    Program::spawn(command)
}

fn fastest(times: Vec<Duration>) -> Duration {
    times.into_iter().min().expect("some")
}

fn now() -> DateTime<Utc> {
    SystemClock::new().now()
}

fn since(begun: DateTime<Utc>) -> Duration {
    (now() - begun).to_std().unwrap_or_default()
}

/// Most resident memory of a process so far, in bytes.
fn memory_max(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

fn subjects() -> Option<[Subject; 3]> {
    let variable = |name: &str| std::env::var(name).ok();
    let (Some(stream), Some(hello), Some(python)) = (variable(STREAM), variable(HELLO), variable(PYTHON)) else {
        eprintln!("skipped: figures: {STREAM}, {HELLO} and {PYTHON} are not set; tests/lambda-figures.sh sets them");
        return None;
    };
    Some([
        Subject { name: "hello", place: hello, answer: "\"hello\"" },
        Subject { name: "stream", place: stream, answer: DONE },
        Subject { name: "Python", place: python, answer: r#"{"batchItemFailures": []}"# },
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_of_a_start() {
    let Some(subjects) = subjects() else { return };
    let world = World::open().await;
    let mut answers: [Vec<(Duration, Duration)>; 3] = Default::default();
    // In turns, so that whatever else goes on meets all three.
    for turn in 0..STARTS {
        for (at, subject) in subjects.iter().enumerate() {
            answers[at].push(subject.start_once(&world, turn).await);
        }
    }
    let mut figures = Vec::new();
    for (subject, answers) in subjects.iter().zip(answers) {
        let (starts, nexts): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
        let (large, memory) = subject.large(&world, 2 * STARTS).await;
        figures.push(Figures { start: fastest(starts), next: fastest(nexts), large, memory });
    }
    println!("| | first answer, ms | next one, ms | {LARGE} records, ms | memory with them, MB |");
    println!("|---|---:|---:|---:|---:|");
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    for (subject, Figures { start, next, large, memory }) in subjects.iter().zip(&figures) {
        let [start, next, large] = [start, next, large].map(|time| milliseconds(*time));
        println!("| {} | {start:.1} | {next:.1} | {large:.0} | {:.1} |", subject.name, *memory as f64 / 1e6);
    }
    let [hello, stream, python] = &figures[..] else { panic!("three of them") };
    let times = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
    println!(
        "first answer: {:.2} x hello (aim: at most 3), {:.3} of Python's (aim: at most 0.2); memory: {:.2} of Python's",
        times(stream.start, hello.start),
        times(stream.start, python.start),
        stream.memory as f64 / python.memory as f64
    );
    world.database.shutdown().await;
}
