//! `simulate`: stories from seeds, in which everything goes wrong and the books must balance all the same.

use serde::Serialize;
use tablekeeper::adapters::sim::run::{Failure, Script, Stories, Tally, simulate_all};

use super::args::{OutputFormat, SimulateArgs};
use super::connect::bar;
use super::context::{Exit, Outcome};
use super::output::{BAD, GOOD, Grid, count, json, line, paint};

const THREADS: usize = 2;

#[derive(Serialize)]
struct SimulateOut<'s> {
    ok: bool,
    #[serde(flatten)]
    tally: &'s Tally,
    failures: &'s [Failure],
}

pub fn run(args: &SimulateArgs, format: OutputFormat) -> Outcome {
    let seeds = args.seeds.0.clone();
    let bar = bar(seeds.end - seeds.start, "seeds");
    let script = Script { lines: args.lines, ..Script::new(args.steps) };
    let stories = simulate_all(seeds, &script, THREADS, |played| bar.set_position(played));
    bar.finish_and_clear();
    let ok = stories.failures.is_empty();
    match format {
        OutputFormat::Json => json(&SimulateOut { ok, tally: &stories.tally, failures: &stories.failures })?,
        OutputFormat::Text => print(&stories),
    }
    Ok(if ok { Exit::Fine } else { Exit::Findings })
}

fn print(stories: &Stories) {
    for failure in &stories.failures {
        line(format_args!("{failure}\n"));
    }
    let tally = &stories.tally;
    let mut grid = Grid::new(&["What happened", "Times"]).right(&[1]);
    for (what, times) in figures(tally) {
        grid.row([what.to_owned(), times.to_string()]);
    }
    grid.print();
    let seeds = count(usize::try_from(tally.seeds).unwrap_or(usize::MAX), "seed");
    line(match stories.failures.len() {
        0 => format!("\n{} {seeds}: no invariant violated at any commit", paint(GOOD, "exact")),
        n => format!("\n{} {}; {seeds} ended well", paint(BAD, "not exact"), count(n, "violation")),
    });
    // Last, because the beginning of a long output is often cut off.
    stories.failures.iter().for_each(|failure| line(failure.again()));
}

fn figures(tally: &Tally) -> [(&'static str, u64); 18] {
    [
        ("steps", tally.steps),
        ("writes of the application", tally.writes),
        ("batches applied", tally.batches),
        ("records in them", tally.records),
        ("transactions committed and audited", tally.commits),
        ("crashes", tally.crashes),
        ("pauses", tally.pauses),
        ("batches delivered again", tally.duplicates),
        ("transaction conflicts", tally.conflicts),
        ("lost answers", tally.lost_answers),
        ("other failed requests", tally.outages),
        ("splits, roll-overs, new streams", tally.shard_changes),
        ("gaps", tally.gaps),
        ("reconciliations", tally.reconciles),
        ("aggregates edited by hand", tally.edits),
        ("repairs", tally.repairs),
        ("changes of the model", tally.model_changes),
        ("items that the database refused", tally.quarantined),
    ]
}
