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
/// The median of so many.
const STARTS: usize = 21;
const LARGE: usize = 1000;

/// One of the three; what answers, and the file or folder it is.
struct Subject {
    name: &'static str,
    place: String,
    answer: &'static str,
}

struct Figures {
    start: Duration,
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

    /// From the start of the process to its answer to one new work order.
    async fn start_once(&self, world: &World, n: usize) -> Duration {
        let event = event(&[inserted(n, 1_000_000 + n, "")]);
        let begun = now();
        let mut function = self.function(world).await;
        assert_eq!(function.invoke(&event).await.as_deref(), Ok(self.answer), "{}", self.name);
        let took = since(begun);
        function.kill().await;
        took
    }

    /// A batch of new work orders for a function that has just started: how long it takes, and the most memory that it had.
    async fn large(&self, world: &World, first: usize) -> (Duration, u64) {
        let records: Vec<String> = (first..first + LARGE).map(|n| inserted(n, 1_000_000 + n, "")).collect();
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
    let mut starts: [Vec<Duration>; 3] = Default::default();
    // In turns, so that whatever else goes on meets all three.
    for turn in 0..STARTS {
        for (at, subject) in subjects.iter().enumerate() {
            starts[at].push(subject.start_once(&world, turn).await);
        }
    }
    let mut figures = Vec::new();
    for (subject, mut starts) in subjects.iter().zip(starts) {
        starts.sort();
        let (large, memory) = subject.large(&world, STARTS).await;
        figures.push(Figures { start: starts[STARTS / 2], large, memory });
    }
    println!("| | first answer, ms | {LARGE} records, ms | memory with them, MB |\n|---|---:|---:|---:|");
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    for (subject, Figures { start, large, memory }) in subjects.iter().zip(&figures) {
        let (start, large, memory) = (milliseconds(*start), milliseconds(*large), megabytes(*memory));
        println!("| {} | {start:.1} | {large:.0} | {memory:.1} |", subject.name);
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
