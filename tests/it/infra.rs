//! The deployment template: it is what the program prints, its tables are those of the model, its costs are counted.
//!
//! What it is worth as a template is for the tools of `tests/infra.sh` to say.

#[path = "../benches/workload.rs"]
#[expect(dead_code, reason = "the bench needs more of it")]
mod workload;

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::dynamodb::Connection;
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::engine::batch::{Engine, OldImages};
use tablekeeper::model::load::load;
use tablekeeper::model::shipped::SHIPPED;
use tablekeeper::model::spec::KeyAttribute;
use tablekeeper::plan::state;

use crate::kept::tablekeeper;

/// A table with all that a model can say about one: four and four attributes, types, time to live, no sort key.
const WIDE: &str = r#"
version = 1
zone = "Europe/Berlin"
[table]
name = "wide"
partition_key = "id"
ttl = "gone"
state_table = "wide-state"
[table.index.One]
partition = ["a"]
[table.index.All]
partition = ["a", "b", { name = "n", type = "N" }, { name = "bytes", type = "B" }]
sort = ["c", "d", "e", { name = "m", type = "N" }]
[entity.Thing]
key = { id = "THING#{thing}" }
"#;

async fn infra(model: &str, more: &[&str]) -> String {
    let ran = tablekeeper(&[&["infra", "--model", model], more].concat()).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out
}

async fn tables(model: &str) -> Json {
    serde_json::from_str(&infra(model, &["--format", "json"]).await).unwrap()
}

#[tokio::test]
async fn the_template_in_the_repository_is_the_one_of_its_model() {
    let stored = std::fs::read_to_string("infra/template.yaml").unwrap();
    let printed = infra("quality", &[]).await;
    assert!(
        printed == stored,
        "infra/template.yaml is not what is printed; tablekeeper infra --model quality --out infra/template.yaml"
    );
    // Another model changes nothing but what a model decides.
    let other = infra("skills", &[]).await;
    let regions = ["#< heading", "#< parameters", "#< table", "#< state", "#< filters"];
    for region in regions {
        assert!(printed.contains(region) && other.contains(region), "{region}");
    }
    let outside = |text: &str| -> Vec<String> {
        let parts = text.split("#< ").map(|part| part.rsplit_once("#>").map_or(part, |(_, outside)| outside));
        parts.map(str::to_owned).collect()
    };
    assert_eq!(outside(&other).len(), regions.len() + 1);
    assert_eq!(outside(&other), outside(&printed));
}

#[tokio::test]
async fn the_tables_are_those_that_the_program_makes() {
    let embedded = Embedded::start(None).unwrap();
    let connection = Connection::local(embedded.endpoint()).await.unwrap();
    let keys = |schema: &Json, definitions: &Json, key_type: &str| -> Vec<(String, String)> {
        let of_type = schema.as_array().unwrap().iter().filter(|element| element["KeyType"] == key_type);
        let kind = |name: &Json| {
            let definition = definitions.as_array().unwrap().iter().find(|known| known["AttributeName"] == *name);
            definition.expect("each key is defined")["AttributeType"].as_str().unwrap().to_owned()
        };
        of_type
            .map(|element| (element["AttributeName"].as_str().unwrap().to_owned(), kind(&element["AttributeName"])))
            .collect()
    };
    let made = |keys: &[KeyAttribute]| -> Vec<(String, String)> {
        keys.iter().map(|key| (key.name.clone(), key.kind.name().to_owned())).collect()
    };
    for shipped in SHIPPED {
        let table = load(shipped.source, shipped.name).unwrap().model.table;
        connection.create_table(&table).await.unwrap();
        connection.ensure_state_table(&table.state_table).await.unwrap();
        let rendered = tables(shipped.name).await;
        for (resource, name) in [("Table", &table.name), ("StateTable", &table.state_table)] {
            let info = connection.describe_table(name).await.unwrap();
            let properties = &rendered["Resources"][resource]["Properties"];
            let (schema, definitions) = (&properties["KeySchema"], &properties["AttributeDefinitions"]);
            assert_eq!(properties["TableName"], *name);
            assert_eq!(keys(schema, definitions, "HASH"), made(&[info.partition_key]));
            assert_eq!(keys(schema, definitions, "RANGE"), made(info.sort_key.as_slice()));
            let indexes = properties["GlobalSecondaryIndexes"].as_array().cloned().unwrap_or_default();
            assert_eq!(indexes.len(), info.indexes.len(), "{name}");
            for index in info.indexes {
                let rendered = indexes.iter().find(|rendered| rendered["IndexName"] == index.name).expect("an index");
                assert_eq!(keys(&rendered["KeySchema"], definitions, "HASH"), made(&index.partition));
                assert_eq!(keys(&rendered["KeySchema"], definitions, "RANGE"), made(&index.sort));
            }
            assert_eq!(properties["StreamSpecification"]["StreamViewType"].as_str(), info.stream_view.as_deref());
        }
        let time_to_live = &rendered["Resources"]["StateTable"]["Properties"]["TimeToLiveSpecification"];
        assert_eq!(*time_to_live, json!({ "AttributeName": state::TTL, "Enabled": true }));
    }
    embedded.shutdown().await;
}

#[tokio::test]
async fn a_model_of_ones_own_decides_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wide.toml");
    std::fs::write(&file, WIDE).unwrap();
    let file = file.to_str().unwrap();
    let rendered = tables(file).await;
    let table = &rendered["Resources"]["Table"];
    let properties = &table["Properties"];
    let all = properties["GlobalSecondaryIndexes"].as_array().unwrap();
    let all = all.iter().find(|index| index["IndexName"] == "All").expect("the index");
    let parts: Vec<(&str, &str)> = all["KeySchema"].as_array().unwrap().iter().map(part).collect();
    let hash = ["a", "b", "n", "bytes"].map(|name| (name, "HASH"));
    let range = ["c", "d", "e", "m"].map(|name| (name, "RANGE"));
    assert_eq!(parts, [hash, range].concat());
    // `a` is in two indexes and defined once.
    let definitions = properties["AttributeDefinitions"].as_array().unwrap();
    assert_eq!(definitions.len(), 9);
    assert!(definitions.contains(&json!({ "AttributeName": "bytes", "AttributeType": "B" })));
    assert_eq!(properties["KeySchema"], json!([{ "AttributeName": "id", "KeyType": "HASH" }]));
    assert_eq!(properties["TimeToLiveSpecification"], json!({ "AttributeName": "gone", "Enabled": true }));
    assert_eq!(properties["StreamSpecification"], json!({ "StreamViewType": "NEW_AND_OLD_IMAGES" }));
    assert_eq!(properties["PointInTimeRecoverySpecification"], json!({ "PointInTimeRecoveryEnabled": true }));
    assert_eq!(properties["SSESpecification"], json!({ "SSEEnabled": true, "SSEType": "KMS" }));
    assert_eq!((&table["DeletionPolicy"], &table["UpdateReplacePolicy"]), (&json!("Retain"), &json!("Retain")));

    let template = infra(file, &[]).await;
    for line in [
        "# Printed by `tablekeeper infra --model wide.toml`. What that model decides stands between `#<` and `#>`:",
        // As it lies in the package: without folders.
        "    Default: \"wide.toml\"",
        "    Default: \"wide\"",
        "    Default: \"wide-state\"",
        "    Default: \"Europe/Berlin\"",
        "        - {\"AttributeName\": \"n\", \"AttributeType\": \"N\"}",
        "      TimeToLiveSpecification: {\"AttributeName\": \"gone\", \"Enabled\": true}",
        r#"          - Pattern: '{"dynamodb": {"NewImage": {"_keeper": {"S": [{"exists": false}]}, "id": {"S": [{"exists": true}]}}}}'"#,
    ] {
        assert!(template.lines().any(|printed| printed == line), "{line}\n{template}");
    }
    let ran = tablekeeper(&["infra", "--model", "no-such-model"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
}

#[tokio::test]
async fn a_template_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (model, stack) = (path("wide.toml"), path("stack.yaml"));
    std::fs::write(&model, WIDE).unwrap();
    std::fs::write(&stack, "of before").unwrap();
    let printed = infra(&model, &[]).await;
    let said = infra(&model, &["--out", &stack]).await;
    assert!(said.starts_with("wrote ") && said.contains("stack.yaml"), "{said}");
    assert_eq!(std::fs::read_to_string(&stack).unwrap(), printed);
    let said = infra(&model, &["--out", &path("tables.json"), "--format", "json"]).await;
    assert_eq!(serde_json::from_str::<Json>(&said).unwrap(), json!({ "template": path("tables.json") }));
    let stored: Json = serde_json::from_str(&std::fs::read_to_string(path("tables.json")).unwrap()).unwrap();
    assert_eq!(stored, tables(&model).await);

    std::fs::write(&model, "version = 1\nnonsense = 1\n").unwrap();
    let ran = tablekeeper(&["infra", "--model", &model, "--out", &stack]).await;
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert_eq!(std::fs::read_to_string(&stack).unwrap(), printed, "a model at fault takes nothing away");
    // A place that cannot be written is named, and nothing is left beside it.
    std::fs::create_dir(path("taken")).unwrap();
    for place in [path("taken"), path("nowhere/stack.yaml"), "..".to_owned()] {
        let ran = tablekeeper(&["infra", "--model", "quality", "--out", &place]).await;
        assert!(ran.code == 2 && ran.err.contains(&place), "{}", ran.err);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
}

fn part(element: &Json) -> (&str, &str) {
    (element["AttributeName"].as_str().unwrap(), element["KeyType"].as_str().unwrap())
}

/// What `infra/cost.py` reckons with: units of large and of small batches.
#[tokio::test]
async fn the_units_of_the_costs_are_counted() {
    let stored: Json = serde_json::from_str(&std::fs::read_to_string("infra/units.json").unwrap()).unwrap();
    let stored = |size: usize| {
        let rows = stored["batches"].as_array().unwrap();
        rows.iter().find(|row| row["changes"] == size).expect("a row for the size").clone()
    };
    let embedded = Embedded::start(None).unwrap();
    let model = Arc::new(workload::model());
    let (connection, store) = workload::tables(embedded.endpoint(), &model, false).await;
    let engine = Engine::new(Arc::clone(&model), store, SystemClock::new());
    let orders = workload::orders(0..700);
    engine.apply(&workload::inserts(&model, 0, &orders), OldImages::NotTrusted).await.unwrap();
    // One batch of 500 changes, then 40 of 5.
    for (size, changes) in [(500, 0..500), (5, 500..700)] {
        let before = connection.usage().snapshot();
        let count = changes.len();
        let mut transactions = 0;
        for from in changes.step_by(size) {
            let records = workload::changes(&model, 10_000 + from, &orders[from..from + size]);
            transactions += engine.apply(&records, OldImages::NotTrusted).await.unwrap().transactions;
        }
        let spent = connection.usage().snapshot().since(&before);
        let counted = [
            ("requests", spent.table_calls() as f64),
            ("transactions", transactions as f64),
            ("write_units", spent.write_half_units as f64 / 2.0),
            ("read_units", spent.read_half_units as f64 / 2.0),
        ];
        for (what, counted) in counted {
            let (counted, stored) = (counted * 1000.0 / count as f64, stored(size)[what].as_f64().unwrap());
            let share = (counted - stored).abs() / stored;
            assert!(
                share < 0.05,
                "batches of {size}: {counted} {what} for 1,000 changes, infra/units.json has {stored}"
            );
        }
    }
    embedded.shutdown().await;
}
