//! `audit`: which items break the conventions?

use tablekeeper::derive::{self, Fold};
use tablekeeper::model::derived::Finding;
use tablekeeper::model::key::TableKey;

use super::args::{AuditArgs, OutputFormat};
use super::connect;
use super::context::{Exit, Outcome, model_for_table};
use super::findings::{self, AuditOut, FindingOut};
use super::input::{self, FromFile};
use super::output::{json, line};

pub async fn run(args: &AuditArgs, format: OutputFormat) -> Outcome {
    let model = model_for_table(&args.table)?;
    let found = match &args.items {
        Some(path) => input::fold(&model, path)?,
        None => {
            let tables = connect::open(&args.table, model.clone()).await?;
            let names = model.table.key_names();
            let mut found = FromFile::<Fold>::default();
            connect::for_each_source_item(&tables, |item| {
                if let Some(key) = TableKey::of(&item, &names) {
                    found.read.add(&derive::derive(&model, &key, &item));
                }
            })
            .await?;
            tables.close().await;
            found
        }
    };
    input::show(&found, Exit::Incomplete);
    let fold = &found.read;
    let overflows = fold.overflows(&model);
    let findings: Vec<&Finding> = overflows.iter().chain(fold.findings()).collect();
    match format {
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
    Ok(match (found.faults.is_empty(), findings.is_empty()) {
        (false, _) => Exit::Incomplete,
        (true, false) => Exit::Findings,
        (true, true) => Exit::Fine,
    })
}
