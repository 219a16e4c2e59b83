//! Findings as their reader meets them: in the table beside a worker, and in what the programs print under a model that hides values.

use serde_json::{Value as Json, json};
use tablekeeper::model::shipped::shipped;
use tablekeeper::model::value::Item;

use crate::kept::{Kept, each, item, tablekeeper};

const SECRET: &str = "zqsecretqz";

/// A tolerance; a nominal that is no number is a finding, A302.
fn tolerance(number: u32, nominal: Json, description: &str) -> Item {
    let (sort, kind) = (format!("METADATA#T{number}"), "TOLERANCE");
    let key = "METADATA#TOLERANCE";
    item(&json!({"PK": key, "SK": sort, "Type": kind, "Description": description, "Nominal": nominal}))
}

/// State of each finding, and the totals.
async fn stored(kept: &Kept) -> (Vec<Json>, Json) {
    let findings = kept.ask(kept.query("KEEPER#FINDINGS", "begins_with(#sk, :a)", &["A302#Tolerance#"])).await;
    for origin in each(&findings, "Origin") {
        let (is_introduced, seq, at) = (origin["State"] == "introduced", &origin["Seq"], &origin["At"]);
        assert_eq!((seq.is_string(), at.is_string()), (is_introduced, is_introduced), "{origin}");
    }
    let mut states: Vec<Json> = findings.iter().map(|finding| finding["Origin"]["State"].clone()).collect();
    states.sort_by_key(Json::to_string);
    (states, kept.measures("KEEPER#FINDINGS_TOTALS", "Tolerance").await)
}

#[tokio::test]
async fn origins_and_totals_are_in_the_table() {
    let kept = Kept::of("quality", &[]).await;
    // A worker that starts anew finds the item there: without a ledger nobody knows what changed it.
    kept.connection.put_item("quality", &tolerance(1, json!("wide"), "a")).await.unwrap();
    let reconcile = kept.run("reconcile", &[]).await;
    assert_eq!(reconcile.code, 0, "{}", reconcile.err);
    assert_eq!(stored(&kept).await, (vec![json!("pre-existing")], json!({"Total": 1, "Count_A302": 1})));
    kept.write(&[tolerance(2, json!(5), "a")]).await;
    kept.write(&[tolerance(2, json!("wide"), "a"), tolerance(1, json!("wide"), "b")]).await;
    let totals = json!({"Total": 2, "Count_A302": 2, "Introduced_A302": 1});
    let both = (vec![json!("introduced"), json!("pre-existing")], totals);
    assert_eq!(stored(&kept).await, both);
    kept.write(&[tolerance(2, json!("wide"), "b"), tolerance(1, json!("wide"), "c")]).await;
    assert_eq!(stored(&kept).await, both, "other changes leave them as they are");
    kept.write(&[tolerance(2, json!(5), "b"), tolerance(1, json!(5), "c")]).await;
    let totals = json!({"Total": 0, "Count_A302": 0, "Introduced_A302": 1, "Resolved_A302": 2});
    assert_eq!(stored(&kept).await, (vec![], totals));
    kept.close().await;
}

#[tokio::test]
async fn a_model_that_redacts_is_obeyed_by_the_programs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let source = format!("{}\n[findings]\nkeys = \"hash\"\n", shipped("quality").unwrap().source);
    std::fs::write(path("hidden.toml"), source).unwrap();
    let items = [
        json!({"PK": format!("WO#{SECRET}"), "SK": format!("USER#{SECRET}"), "Type": "WorkOrder", "Status": SECRET,
               "ProjectID": SECRET, "ScheduledDate": SECRET, "GSI2PK": SECRET}),
        json!({"PK": format!("{SECRET}#1"), "SK": SECRET, "Type": SECRET}),
        json!({"PK": "METADATA#TOLERANCE", "SK": format!("METADATA#{SECRET}"), "Type": "TOLERANCE", "Nominal": SECRET}),
    ];
    let lines: Vec<String> = items.iter().map(Json::to_string).collect();
    std::fs::write(path("items.jsonl"), lines.join("\n")).unwrap();
    let at = ["--model", &path("hidden.toml"), "--items", &path("items.jsonl")];
    for format in ["text", "json"] {
        let ran = tablekeeper(&[&["audit", "--format", format], &at[..]].concat()).await;
        assert!(ran.code == 1 && ran.out.contains("A303"), "{} {}", ran.out, ran.err);
        assert!(!ran.out.contains(SECRET) && !ran.err.contains(SECRET), "{} {}", ran.out, ran.err);
    }
    let (model, data) = (path("hidden.toml"), path("data"));
    let at = ["--model", &model, "--data-dir", &data];
    let load = tablekeeper(&[&["load", "--items", &path("items.jsonl")], &at[..]].concat()).await;
    assert_eq!(load.code, 0, "{}", load.err);
    let arguments = ["worker", "--until-idle", "--poll-ms", "10", "--log-keys", "--log-json"];
    let worker = tablekeeper(&[&arguments, &at[..]].concat()).await;
    assert_eq!(worker.code, 0, "{}", worker.err);
    assert!(!worker.err.contains(SECRET) && !worker.out.contains(SECRET), "{} {}", worker.out, worker.err);
    assert_eq!(tablekeeper(&[&["verify"], &at[..]].concat()).await.code, 0);
}
