//! `audit`: which items break the conventions?

use tablekeeper::derive::{self, Fold};
use tablekeeper::model::derived::Finding;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::Item;

use super::args::{AuditArgs, OutputFormat};
use super::connect;
use super::context::{Exit, Outcome, model_for_table};
use super::findings::{self, AuditOut, FindingOut};
use super::input::{self, FromFile};
use super::output::{json, line, warn};
use super::patches::{Destination, Suggestions};

/// What the items gave.
#[derive(Default)]
struct Audited {
    fold: Fold,
    patches: Suggestions,
}

impl Audited {
    fn add(&mut self, model: &Model, key: &TableKey, item: &Item, wants_patches: bool) {
        let derived = derive::derive(model, key, item);
        if wants_patches {
            self.patches.add(model, key, item, &derived.findings);
        }
        self.fold.add(&derived);
    }
}

pub async fn run(args: &AuditArgs, format: OutputFormat) -> Outcome {
    let model = model_for_table(&args.table)?;
    let patches_to = args.suggest_patches.as_deref().map(Destination::open).transpose()?;
    let wants_patches = patches_to.is_some();
    let found = match &args.items {
        Some(path) => input::read(&model, path, |audited: &mut Audited, _, key, item| {
            audited.add(&model, &key, &item, wants_patches);
        })?,
        None => {
            let tables = connect::open(&args.table, model.clone()).await?;
            let names = model.table.key_names();
            let mut found = FromFile::<Audited>::default();
            connect::for_each_source_item(&tables, |item| {
                if let Some(key) = TableKey::of(&item, &names) {
                    found.read.add(&model, &key, &item, wants_patches);
                }
            })
            .await?;
            tables.close().await;
            found
        }
    };
    let (found, patches) = found.split(|audited| (audited.fold, audited.patches));
    input::show(&found, Exit::Incomplete);
    let fold = &found.read;
    let overflows = fold.overflows(&model);
    let findings: Vec<&Finding> = overflows.iter().chain(fold.findings()).collect();
    let is_taken = matches!(patches_to, Some(Destination::Stdout));
    let said = patches_to.map(|to| patches.finish(to)).transpose()?;
    match format {
        // Standard output is the patches'.
        _ if is_taken => {}
        OutputFormat::Json => {
            let names = model.table.key_names();
            json(&AuditOut {
                findings: findings.iter().map(|finding| FindingOut::of(finding, &names)).collect(),
                checked: fold.checked(),
                unread: &found.faults,
                superseded: &found.superseded,
            })?;
        }
        OutputFormat::Text => {
            findings::print(&findings);
            line(findings::summary(&found, findings.len()));
        }
    }
    if let (Some(said), OutputFormat::Text) = (said, format) {
        warn(said);
    }
    Ok(match (found.faults.is_empty(), findings.is_empty()) {
        (false, _) => Exit::Incomplete,
        (true, false) => Exit::Findings,
        (true, true) => Exit::Fine,
    })
}
