//! What a redrive came to, as a table or as JSON.

use chrono::{DateTime, Utc};
use serde::Serialize;
use tablekeeper::engine::batch::{BatchReport, GivenUp};
use tablekeeper::engine::reconcile::ReconcileReport;
use tablekeeper::model::discarded::DiscardedBatch;
use tablekeeper::model::time::timestamp;

use super::SHOWN_MAX;
use super::source::Letter;
use crate::cli::args::OutputFormat;
use crate::cli::context::{Exit, Outcome};
use crate::cli::output::{BOLD, GOOD, Grid, count, json, line, paint, warn};
use crate::cli::proof::reconciled;

/// What became of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    /// It would be applied.
    Applicable,
    Applied,
    /// Its first records were not in the stream any more; the rest is applied.
    PartlyLost,
    /// None of its records was in the stream any more.
    Lost,
    /// It is no batch, or another table's.
    Refused,
    /// It could not be read or applied.
    Failed,
}

impl Became {
    const ALL: [(Became, &'static str); 6] = [
        (Became::Applicable, "applicable"),
        (Became::Applied, "applied"),
        (Became::PartlyLost, "partly lost"),
        (Became::Lost, "lost"),
        (Became::Refused, "refused"),
        (Became::Failed, "failed"),
    ];

    pub fn is_loss(self) -> bool {
        matches!(self, Became::PartlyLost | Became::Lost)
    }
}

/// One letter.
#[derive(Serialize)]
pub struct BatchOut {
    pub place: String,
    #[serde(rename = "outcome")]
    pub became: Became,
    #[serde(flatten)]
    pub told: Option<Told>,
    /// Records that were applied, or would be; absent where only the stream knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// Why it was refused or failed, or what was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// It is not in the bucket or queue any more.
    pub removed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_removed: Option<String>,
}

/// What the batch says of itself.
#[derive(Serialize)]
pub struct Told {
    shard: String,
    first: String,
    last: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arrived: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<String>,
    /// The records come with it; else they are to be read from the stream.
    has_records: bool,
}

impl BatchOut {
    pub fn of(letter: &Letter, became: Became, batch: Option<&DiscardedBatch>) -> BatchOut {
        let told = |batch: &DiscardedBatch| Told {
            shard: batch.shard.clone(),
            first: batch.first.to_string(),
            last: batch.last.to_string(),
            size: batch.size,
            arrived: batch.arrived,
            condition: batch.condition.clone(),
            has_records: batch.records.is_some(),
        };
        let kept = batch.and_then(|batch| batch.records.as_ref()).map(|records| records.len() as u64);
        BatchOut {
            place: letter.place.clone(),
            became,
            told: batch.map(told),
            records: kept.filter(|_| became == Became::Applicable),
            error: None,
            removed: false,
            not_removed: None,
        }
    }
}

impl BatchOut {
    /// Records that were applied or, as far as the batch says, would be.
    fn expected(&self) -> Option<u64> {
        let said = self.told.as_ref().filter(|_| self.became == Became::Applicable).and_then(|told| told.size);
        self.records.or(said)
    }

    /// A block: ids are long, and there to be copied.
    fn print(&self) {
        let became = Became::ALL.iter().find(|(became, _)| *became == self.became).map_or("", |(_, title)| title);
        line(format_args!("  {}", paint(BOLD, &self.place)));
        let mut rows = vec![("outcome", became.to_owned())];
        if let Some(told) = &self.told {
            let from = if told.has_records { "with the batch" } else { "to be read from the stream" };
            let number = self.expected().map_or_else(|| "a number unknown".to_owned(), |number| number.to_string());
            rows.extend([
                ("records", format!("{number}, {from}")),
                ("shard", told.shard.clone()),
                ("from", told.first.clone()),
                ("to", told.last.clone()),
            ]);
            rows.extend(told.arrived.map(|arrived| ("arrived", timestamp(arrived))));
            rows.extend(told.condition.clone().map(|condition| ("given up for", condition)));
        }
        for (name, text) in rows {
            line(format_args!("    {name:<12}  {text}"));
        }
    }

    /// Of a batch that was read again: what else lay between its numbers.
    fn print_reread(&self) {
        let Some(Told { has_records: false, size: Some(size), .. }) = &self.told else { return };
        if let Some(records) = self.records.filter(|records| records > size) {
            let place = &self.place;
            line(format_args!(
                "  {place}: {records} records between its numbers, of which the batch had {size}: all of the shard is read, derived items included"
            ));
        }
    }
}

/// What was given up of a batch, and why.
#[derive(Serialize)]
struct GivenUpOut<'g> {
    code: &'g str,
    reason: &'g str,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<&'g str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_number: Option<&'g str>,
}

impl<'g> From<&'g GivenUp> for GivenUpOut<'g> {
    fn from(given_up: &'g GivenUp) -> GivenUpOut<'g> {
        GivenUpOut {
            code: &given_up.code,
            reason: &given_up.reason,
            item: given_up.key.as_ref().map(ToString::to_string),
            event_id: given_up.event_id.as_deref(),
            sequence_number: given_up.sequence.as_deref(),
        }
    }
}

impl GivenUpOut<'_> {
    fn print(&self) {
        let GivenUpOut { code, reason, item, event_id, sequence_number } = self;
        let named = match item {
            Some(item) => format!("item {item}"),
            None => {
                let ids = [("event id", event_id), ("sequence number", sequence_number)];
                let ids: Vec<String> =
                    ids.iter().filter_map(|(name, id)| Some(format!("{name} {}", id.as_ref()?))).collect();
                format!("malformed record, {}", if ids.is_empty() { "without ids".to_owned() } else { ids.join(", ") })
            }
        };
        line(format_args!("  in quarantine: {named}: {code}, {reason}"));
    }
}

/// All of it.
#[derive(Default)]
pub struct Summary {
    pub batches: Vec<BatchOut>,
    /// Letters that something was to be told of.
    pub trouble: usize,
    /// Of all batches that were applied.
    pub report: BatchReport,
    /// Why records are missing still.
    pub gap: Option<String>,
    pub reconciled: Option<ReconcileReport>,
    /// Told to stop, or stopped by what would stop every batch.
    pub stopped: bool,
}

impl Summary {
    /// Told to stop before anything was done.
    pub fn stopped() -> Summary {
        Summary { stopped: true, ..Summary::default() }
    }

    fn exit(&self) -> Exit {
        let undone =
            |out: &BatchOut| matches!(out.became, Became::Refused | Became::Failed) || out.not_removed.is_some();
        let given_up = self.report.quarantined + self.report.malformed > 0;
        let given_up = given_up || self.reconciled.as_ref().is_some_and(|report| report.quarantined > 0);
        let undone = self.batches.iter().any(undone);
        match self.stopped || undone || self.gap.is_some() {
            true => Exit::Incomplete,
            false if given_up => Exit::Findings,
            false => Exit::Fine,
        }
    }

    fn print_outcomes(&self) {
        let mut grid = Grid::new(&["Batches", "Number", "Records"]).right(&[1, 2]);
        for (became, title) in Became::ALL {
            let those = || self.batches.iter().filter(|out| out.became == became);
            let records: u64 = those().filter_map(BatchOut::expected).sum();
            match those().count() {
                0 => {}
                number => grid.row([title.to_owned(), number.to_string(), records.to_string()]),
            }
        }
        grid.print();
    }
}

#[derive(Serialize)]
struct SummaryOut<'s> {
    batches: &'s [BatchOut],
    records: usize,
    applied: usize,
    already_applied: usize,
    superseded: usize,
    reconciled: usize,
    ours: usize,
    quarantined: usize,
    malformed: usize,
    given_up: Vec<GivenUpOut<'s>>,
    stopped: bool,
    gap: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reconcile: Option<&'s ReconcileReport>,
}

/// Lists what would be applied.
pub fn plan(summary: &Summary, format: OutputFormat) -> Outcome {
    match format {
        OutputFormat::Json => json(&serde_json::json!({ "batches": summary.batches }))?,
        OutputFormat::Text if summary.batches.is_empty() => line("no batches are there"),
        OutputFormat::Text => {
            summary.batches.iter().for_each(BatchOut::print);
            line("");
            summary.print_outcomes();
        }
    }
    Ok(summary.exit())
}

/// Tells what was done, and how the command ends for it.
pub fn end(summary: &Summary, format: OutputFormat) -> Outcome {
    let report = &summary.report;
    match format {
        OutputFormat::Json => json(&SummaryOut {
            batches: &summary.batches,
            records: report.records,
            applied: report.applied,
            already_applied: report.already_applied,
            superseded: report.superseded,
            reconciled: report.reconciled,
            ours: report.ours,
            quarantined: report.quarantined,
            malformed: report.malformed,
            given_up: report.given_up.iter().map(GivenUpOut::from).collect(),
            stopped: summary.stopped,
            gap: summary.gap.as_deref(),
            reconcile: summary.reconciled.as_ref(),
        })?,
        OutputFormat::Text => print(summary),
    }
    if let Some(cause) = &summary.gap {
        warn(format_args!(
            "derived items may be wrong, records are lost: {cause}; run `tablekeeper reconcile`, unless a worker does it"
        ));
    }
    if summary.stopped {
        warn("stopped before all of it was done; run it again, what is applied already is not counted twice");
    }
    Ok(summary.exit())
}

fn print(summary: &Summary) {
    let report = &summary.report;
    if !summary.batches.is_empty() {
        summary.print_outcomes();
        line(format_args!(
            "\n{}: {} applied, {} already applied, {} superseded, {} reconciled, {} ours (of derived items), {} quarantined, {} malformed",
            count(report.records, "record"),
            report.applied,
            report.already_applied,
            report.superseded,
            report.reconciled,
            report.ours,
            report.quarantined,
            report.malformed,
        ));
        summary.batches.iter().for_each(BatchOut::print_reread);
        report.given_up.iter().take(SHOWN_MAX).for_each(|given_up| GivenUpOut::from(given_up).print());
        if report.given_up.len() > SHOWN_MAX {
            line(format_args!("  {SHOWN_MAX} of {}; --format json has them all", report.given_up.len()));
        }
    } else if !summary.stopped {
        line("no batches are there");
    }
    if let Some(report) = &summary.reconciled {
        let closed = if summary.gap.is_none() { paint(GOOD, "the gap is closed:") } else { "reconciled:".to_owned() };
        line(format_args!("{closed} {}", reconciled(report)));
    }
}
