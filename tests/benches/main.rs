//! What it costs: time of the pure path, requests and capacity units for a thousand changes, changes a second, memory of a worker
//! of many shards, how a batch fares as the table grows, and an audit of a large export.
//!
//! `cargo bench --no-default-features --features embedded,lambda` prints one table; with `-- NAME` only the parts of that name
//! (`pure`, `cost`, `stream`, `memory`, `growth`, `audit`). Where `TABLEKEEPER_DYNAMODB_LOCAL` holds the endpoint of AWS's DynamoDB
//! Local, costs are counted there as well. Wall times are for comparison within one run; nothing asserts them. Requests and
//! units are counted, not estimated.

mod audit;
mod cost;
mod growth;
mod memory;
mod naive;
mod pure;
mod stream;
mod workload;

use std::time::{Duration, Instant};

/// One line of the printed table.
pub struct Figure {
    what: String,
    value: String,
    target: String,
}

impl Figure {
    pub fn new(what: impl Into<String>, value: impl Into<String>) -> Figure {
        Figure { what: what.into(), value: value.into(), target: String::new() }
    }

    /// What it should be, and whether it is.
    pub fn target(mut self, target: &str, met: bool) -> Figure {
        self.target = format!("{target}: {}", if met { "met" } else { "MISSED" });
        self
    }
}

fn main() {
    // The bench runs itself as a worker whose memory is its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be built");
    if let [first, endpoint] = arguments.as_slice()
        && first == memory::CHILD
    {
        return runtime.block_on(memory::work(endpoint));
    }
    if let [first, folder] = arguments.as_slice()
        && first == audit::CHILD
    {
        return audit::work(folder);
    }
    let wanted = |part: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == part);
    let mut figures = Vec::new();
    if wanted("pure") {
        figures.extend(pure::run());
    }
    if wanted("cost") {
        figures.extend(runtime.block_on(cost::run()));
    }
    if wanted("stream") {
        figures.extend(runtime.block_on(stream::run()));
    }
    if wanted("memory") {
        figures.extend(runtime.block_on(memory::run()));
    }
    if wanted("growth") {
        figures.extend(runtime.block_on(growth::run()));
    }
    if wanted("audit") {
        figures.extend(audit::run());
    }
    print(&figures);
}

fn print(figures: &[Figure]) {
    let width = |of: fn(&Figure) -> &String| figures.iter().map(|figure| of(figure).chars().count()).max().unwrap_or(0);
    let (first, second) = (width(|figure| &figure.what), width(|figure| &figure.value));
    for Figure { what, value, target } in figures {
        println!("{}", format!("{what:first$}  {value:second$}  {target}").trim_end());
    }
}

pub fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

#[allow(clippy::disallowed_methods, reason = "a bench measures time")]
pub fn stopwatch() -> Instant {
    Instant::now()
}
