//! `audit`: which items break the conventions?

use tablekeeper::derive::{self, Fold};
use tablekeeper::model::key::TableKey;

use super::args::{AuditArgs, OutputFormat};
use super::connect;
use super::context::{Exit, Outcome, fold_items, model_for_table, show_faults};
use super::findings::{self, AuditOut, FindingOut};
use super::output::{json, line};

pub async fn run(args: &AuditArgs, format: OutputFormat) -> Outcome {
    let model = model_for_table(&args.table)?;
    let (fold, faults) = match &args.items {
        Some(path) => fold_items(&model, path)?,
        None => {
            let tables = connect::open(&args.table, model.clone()).await?;
            let names = model.table.key_names();
            let mut fold = Fold::new();
            connect::for_each_source_item(&tables, |item| {
                if let Some(key) = TableKey::of(&item, &names) {
                    fold.add(&derive::derive(&model, &key, &item));
                }
            })
            .await?;
            tables.close().await;
            (fold, Vec::new())
        }
    };
    show_faults(&faults);
    let found = fold.findings();
    match format {
        OutputFormat::Json => {
            let names = model.table.key_names();
            json(&AuditOut {
                findings: found.iter().map(|finding| FindingOut::of(finding, &names)).collect(),
                checked: fold.checked().clone(),
            })?;
        }
        OutputFormat::Text => {
            findings::print(&found);
            line(findings::summary(fold.checked(), fold.unrecognised(), found.len()));
        }
    }
    Ok(match (faults.is_empty(), found.is_empty()) {
        (false, _) => Exit::Incomplete,
        (true, false) => Exit::Findings,
        (true, true) => Exit::Fine,
    })
}
