//! `audit`: which items break the conventions?

use std::cmp::Reverse;

use tablekeeper::adapters::files::TempFiles;
use tablekeeper::derive::{self, Fold};
use tablekeeper::engine::cross::{Cross, Sight, Tally};
use tablekeeper::model::derived::Finding;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::Item;

use super::args::{AuditArgs, OutputFormat};
use super::connect;
use super::context::{Exit, Outcome, Stop, model_for_table};
use super::findings::{self, AuditOut, FindingOut};
use super::input::{self, FromFile};
use super::output::{json, line};

/// What the comparison of items with each other holds in memory before it goes on in temporary files, in bytes.
const CROSS_MEMORY_MAX: usize = 64 * 1024 * 1024;

/// What the items derive, and what they say of each other.
#[derive(Default)]
struct Audit<'m> {
    fold: Fold,
    cross: Option<Cross<'m, TempFiles>>,
}

impl<'m> Audit<'m> {
    fn see(&mut self, model: &'m Model, key: &TableKey, item: &Item) {
        let derived = derive::derive(model, key, item);
        let cross = self.cross.get_or_insert_with(|| Cross::new(model, TempFiles::default(), CROSS_MEMORY_MAX));
        cross.see(key, derived.entity.as_deref(), item);
        self.fold.add(&derived);
    }
}

pub async fn run(args: &AuditArgs, format: OutputFormat) -> Outcome {
    let model = model_for_table(&args.table)?;
    let audited = match &args.items {
        Some(path) => input::read(&model, path, |audit: &mut Audit, _, key, item| audit.see(&model, &key, &item))?,
        None => {
            let tables = connect::open(&args.table, model.clone()).await?;
            let names = model.table.key_names();
            let mut audited = FromFile::<Audit>::default();
            connect::for_each_source_item(&tables, |item| {
                if let Some(key) = TableKey::of(&item, &names) {
                    audited.read.see(&model, &key, &item);
                }
            })
            .await?;
            tables.close().await;
            audited
        }
    };
    let sight = match (args.partial || !audited.faults.is_empty(), &args.items) {
        (true, _) => Sight::Partial,
        (false, Some(_)) => Sight::OfSeenEntities,
        (false, None) => Sight::Whole,
    };
    let FromFile { read: Audit { fold, cross }, faults, superseded, derived } = audited;
    let found = FromFile { read: fold, faults, superseded, derived };
    let (across, undecidable) = across(cross, sight)?;
    input::show(&found, Exit::Incomplete);
    let fold = &found.read;
    let overflows = fold.overflows(&model);
    let mut of_items: Vec<&Finding> = fold.findings().into_iter().chain(&across).collect();
    of_items.sort_by_key(|f| (Reverse(f.severity), &f.code, &f.key, &f.attribute));
    let findings: Vec<&Finding> = overflows.iter().chain(of_items).collect();
    match format {
        OutputFormat::Json => {
            let names = model.table.key_names();
            json(&AuditOut {
                findings: findings.iter().map(|finding| FindingOut::of(finding, &names)).collect(),
                checked: fold.checked(),
                unread: &found.faults,
                superseded: &found.superseded,
                undecidable,
            })?;
        }
        OutputFormat::Text => {
            findings::print(&findings);
            line(findings::summary(&found, findings.len()));
            findings::print_undecidable(&undecidable);
        }
    }
    Ok(match (found.faults.is_empty(), findings.is_empty()) {
        (false, _) => Exit::Incomplete,
        (true, false) => Exit::Findings,
        (true, true) => Exit::Fine,
    })
}

/// The findings across items, and what could not be judged.
fn across(cross: Option<Cross<'_, TempFiles>>, sight: Sight) -> Result<(Vec<Finding>, Vec<Tally>), Stop> {
    let Some(cross) = cross else { return Ok((Vec::new(), Vec::new())) };
    let mut found = Vec::new();
    let tallies = cross.finish(sight, |finding| found.push(finding)).map_err(anyhow::Error::from)?;
    Ok((found, tallies.into_iter().filter(|tally| tally.undecidable > 0).collect()))
}
