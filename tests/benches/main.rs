//! What it costs: time of the pure path, requests and capacity units for a thousand changes, changes a second, and how a
//! batch fares as the table grows.
//!
//! `cargo bench --no-default-features --features embedded,lambda` prints one table. Wall times are for comparison within
//! one run; nothing asserts them. Requests and units are counted, not estimated.

mod cost;
mod growth;
mod naive;
mod pure;
mod workload;

use std::time::Duration;

/// One line of the printed table.
pub struct Figure {
    pub what: String,
    pub value: String,
}

impl Figure {
    pub fn new(what: impl Into<String>, value: impl Into<String>) -> Figure {
        Figure { what: what.into(), value: value.into() }
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be built");
    let mut figures = pure::run();
    figures.extend(runtime.block_on(cost::run()));
    figures.extend(runtime.block_on(growth::run()));
    let width = figures.iter().map(|figure| figure.what.chars().count()).max().unwrap_or(0);
    for figure in figures {
        println!("{:width$}  {}", figure.what, figure.value);
    }
}

pub fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
