//! `init` for who has a table: from its items, from the table itself, from a schema.

use std::fs;

use serde_json::json;
use tablekeeper::model::load::load;
use tablekeeper::model::spec::Model;

use crate::corpus;
use crate::kept::tablekeeper;

fn loaded(path: &str) -> Model {
    load(&fs::read_to_string(path).unwrap(), "model").unwrap_or_else(|faults| panic!("{path}: {faults:?}")).model
}

#[tokio::test]
async fn three_commands_lead_from_items_to_an_audit() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("new/plant.toml");
    let model = model.to_str().unwrap();
    let init = ["init", "--from-items", "models/quality.items.jsonl", "--out", model];
    let ran = tablekeeper(&init).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains("the model: 6 entities, 3 indexes from 19 items; "), "{}", ran.out);
    assert_eq!(loaded(model).name, "plant");
    assert_eq!(fs::read_dir(folder.path().join("new")).unwrap().count(), 1, "the model alone");
    // As they are printed, and as a shell takes them.
    let commands: Vec<&str> = ran.out.lines().filter_map(|line| line.trim().strip_prefix("tablekeeper ")).collect();
    assert!(
        commands[0].starts_with("check ") && commands[1].starts_with("audit ") && commands.len() == 2,
        "{commands:?}"
    );
    for command in commands {
        let script = format!("'{}' {command}", env!("CARGO_BIN_EXE_tablekeeper"));
        let ended = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(ended.status.success(), "{command}: {}", String::from_utf8_lossy(&ended.stderr));
    }
    let again = tablekeeper(&init).await;
    assert!(
        again.code == 2 && again.err.contains("plant.toml") && again.err.contains("nothing is overwritten"),
        "{}",
        again.err
    );
}

#[tokio::test]
async fn a_folder_gets_the_stack_as_well_and_json_says_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let index = "BySkill=Category,SkillName+ProficiencyLevel+YearsOfExperience+Username";
    let init = [
        "init",
        "--from-items",
        "models/skills.items.jsonl",
        "--index",
        index,
        "--name",
        "people",
        "--out",
        out,
        "--format",
        "json",
    ];
    let ran = tablekeeper(&init).await;
    let said = ran.json();
    assert_eq!(
        (ran.code, &said["entities"], &said["indexes"], &said["items"], &said["of"]),
        (0, &json!(3), &json!(1), &json!(11), &json!(11))
    );
    assert_eq!((&said["findings"], said["next"].as_array().unwrap().len()), (&json!({}), 7));
    let model = folder.path().join("people.toml");
    let (ours, proposed) = (loaded("models/skills.toml"), loaded(model.to_str().unwrap()));
    assert_eq!(format!("{:?}", ours.table.indexes), format!("{:?}", proposed.table.indexes));
    assert!(folder.path().join("stack.yaml").is_file() && folder.path().join("parameters.json").is_file());
}

/// The proposal for a table in a database has the keys and indexes of the model that the table was made by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_there_is_described_and_sampled() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("data");
    let dir = dir.to_str().unwrap();
    for (name, table) in [("quality", "quality"), ("skills", "glad-entities")] {
        let items = format!("models/{name}.items.jsonl");
        let ran = tablekeeper(&["load", "--model", name, "--items", &items, "--data-dir", dir]).await;
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        // Derived items are no sample.
        let ran = tablekeeper(&["worker", "--model", name, "--data-dir", dir, "--until-idle"]).await;
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let model = folder.path().join(format!("{name}.toml"));
        let model = model.to_str().unwrap();
        let ran = tablekeeper(&["init", "--from-table", table, "--data-dir", dir, "--out", model]).await;
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
        let (ours, proposed) = (loaded(&format!("models/{name}.toml")), loaded(model));
        assert_eq!((&proposed.table.name, &proposed.name), (&table.to_owned(), &name.to_owned()));
        assert_eq!(format!("{:?}", ours.table.indexes), format!("{:?}", proposed.table.indexes));
        for entity in &proposed.entities {
            let of = ours.entity(&entity.name).unwrap();
            let filled = |entity: &tablekeeper::model::spec::Entity| {
                entity.indexes.iter().map(|i| i.index.clone()).collect::<Vec<_>>()
            };
            assert_eq!((of.partition.prefix(), filled(of)), (entity.partition.prefix(), filled(entity)));
        }
        let ran = tablekeeper(&["audit", "--model", model, "--data-dir", dir]).await;
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    }
    let sampled = folder.path().join("five.toml");
    let few = [
        "init",
        "--from-table",
        "quality",
        "--data-dir",
        dir,
        "--sample",
        "5",
        "--out",
        sampled.to_str().unwrap(),
        "--format",
        "json",
    ];
    let said = tablekeeper(&few).await.json();
    assert_eq!((&said["items"], said["of"].as_u64().unwrap() >= 5), (&json!(5), true), "{said}");
    let missing = tablekeeper(&["init", "--from-table", "orders", "--data-dir", dir, "--out", "none.toml"]).await;
    assert!(
        missing.code == 2 && missing.err.contains("no table `orders`, it has") && missing.err.contains("`quality`"),
        "{}",
        missing.err
    );
    let nowhere = folder.path().join("nowhere");
    let nowhere = tablekeeper(&["init", "--from-table", "orders", "--data-dir", nowhere.to_str().unwrap()]).await;
    assert!(nowhere.code == 2 && nowhere.err.contains("there is no database in"), "{}", nowhere.err);
}

#[tokio::test]
async fn lines_without_an_item_are_told_and_the_rest_is_proposed_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("items.jsonl"), "{\"PK\":\"A#1\",\"SK\":\"A#1\"}\nx\n{\"PK\":\"A#2\",\"SK\":\"A#2\"}\n").unwrap();
    let ran = tablekeeper(&["init", "--from-items", &path("items.jsonl"), "--out", &path("a.toml")]).await;
    assert!(ran.code == 3 && ran.err.contains("items.jsonl: line 2: "), "{}", ran.err);
    assert_eq!(loaded(&path("a.toml")).entities[0].partition.source, "A#{a}");

    fs::write(path("none.jsonl"), "").unwrap();
    for (arguments, words) in [
        (vec!["--from-items", &path("none.jsonl")], "there is no item"),
        (vec!["--from-items", &path("items.jsonl"), "--partition-key", "Pk"], "no item has the key attribute `Pk`"),
        (vec!["--from-items", &path("items.jsonl"), "--index", "GSI1"], "NAME=PARTITION,SORT"),
        (vec!["--from-items", &path("gone.jsonl")], "gone.jsonl"),
        (vec!["--partition-key", "PK"], "--from-items"),
        (vec!["--from-items", &path("items.jsonl"), "--from-table", "x"], "cannot be used with"),
    ] {
        let ran = tablekeeper(&[&["init", "--out", &path("b.toml")][..], &arguments].concat()).await;
        assert!(ran.code == 2 && ran.err.contains(words), "{arguments:?}: {}", ran.err);
        assert!(!folder.path().join("b.toml").exists());
    }
}

#[tokio::test]
async fn a_schema_is_brought_over_with_its_indexes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let field = |name: &str, kind: &str, required: bool| json!({"name": name, "type": kind, "required": required});
    let schema = json!({"tables": [{
        "table_config": {"table_name": "Parcels", "partition_key": "pk", "sort_key": "sk", "billing": "on demand"},
        "gsi_list": [
            {"name": "ByState", "partition_key": ["depot", "state"], "sort_key": ["weight", "parcel_id"], "projection": "ALL"},
            {"name": "ByDay", "partition_key": "day_pk", "sort_key": "day_sk"},
        ],
        "entities": {"Parcel": {
            "entity_type": "PARCEL",
            "pk_template": "PARCEL#{parcel_id}",
            "sk_template": "DAY#{day}",
            "gsi_mappings": [
                {"name": "ByState", "pk_template": ["{depot}", "{state}"], "sk_template": ["{weight}", "{parcel_id}"]},
                {"name": "ByDay", "pk_template": "DAY#{day}", "sk_template": "{sent_at}"},
            ],
            "fields": [field("parcel_id", "string", true), field("day", "string", false), field("depot", "string", true),
                field("state", "string", true), field("weight", "decimal", true), field("sent_at", "integer", true),
                field("labels", "array", false), field("fragile", "boolean", false), field("size", "volume", false)],
            "access_patterns": [{"operation": "Query", "description": "Parcels of a depot", "index_name": "ByState"}],
        }},
    }]});
    fs::write(path("schema.json"), schema.to_string()).unwrap();
    let usage =
        json!({"entities": {"Parcel": {"sample_data": {"day": "2026-02-03", "sent_at": 1_790_000_000, "weight": 5}}}});
    fs::write(path("usage.json"), usage.to_string()).unwrap();
    let init =
        ["init", "--from-schema", &path("schema.json"), "--usage", &path("usage.json"), "--out", &path("parcels.toml")];
    let ran = tablekeeper(&init).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let text = fs::read_to_string(path("parcels.toml")).unwrap();
    for comment in [
        "not brought over: billing = \"on demand\"",
        "Query: Parcels of a depot ByState",
        "optional in the schema, but the key is made of it",
        "the schema's type is `volume`",
    ] {
        assert!(text.contains(comment), "{comment}: {text}");
    }
    let model = loaded(&path("parcels.toml"));
    assert_eq!((model.name.as_str(), model.table.name.as_str()), ("parcels", "Parcels"));
    let item = json!({"pk": "PARCEL#p1", "sk": "DAY#2026-02-03", "depot": "north", "state": "sent", "weight": 2.5, "parcel_id": "p1",
        "day": "2026-02-03", "sent_at": 1_790_000_000, "day_pk": "DAY#2026-02-03", "day_sk": 1_790_000_000});
    let mut stale = item.clone();
    stale["day_pk"] = json!("DAY#2026-02-02");
    for (item, code, words) in [(&item, 0, "0 findings"), (&stale, 1, "DAY#2026-02-03")] {
        fs::write(path("items.jsonl"), item.to_string()).unwrap();
        let ran = tablekeeper(&["audit", "--model", &path("parcels.toml"), "--items", &path("items.jsonl")]).await;
        assert!(ran.code == code && ran.out.contains(words), "{}{}", ran.out, ran.err);
    }
}

#[tokio::test]
async fn a_broken_schema_is_told_at_once_with_places() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("schema.json");
    let refused = async |text: String| {
        fs::write(&file, text).unwrap();
        let out = folder.path().join("m.toml");
        let ran = tablekeeper(&["init", "--from-schema", file.to_str().unwrap(), "--out", out.to_str().unwrap()]).await;
        assert!(ran.code == 2 && !out.exists(), "{}{}", ran.out, ran.err);
        ran.err
    };
    let said = refused("{\"tables\": [".to_owned()).await;
    assert!(said.contains("schema.json") && said.contains("line 1 column 12"), "{said}");
    assert!(refused("[]".to_owned()).await.contains("is a list, not an object"));
    assert!(refused("{}".to_owned()).await.contains("tables: lists no table"));
    let config = json!({"table_name": "T-1", "partition_key": "pk"});
    let entity = |name: &str, more: serde_json::Value| {
        json!({"tables": [{"table_config": config, "entities": {name: more}}]}).to_string()
    };
    let said = refused(entity(
        "User",
        json!({"pk_template": "USER#{id", "sk_template": "X", "fields": [{"name": "id"}, 7], "gsi_mappings": [{"name": "No", "pk_template": "x"}]}),
    ))
    .await;
    assert!(
        said.contains("2 faults") && said.contains("tables[0].entities.User.pk_template: `USER#{id` is no template"),
        "{said}"
    );
    assert!(said.contains("tables[0].entities.User.sk_template: the table has no `sort_key`"), "{said}");
    let said = refused(entity(
        "User",
        json!({"pk_template": "USER#{id}", "fields": [{"name": "id"}, 7], "gsi_mappings": [{"name": "No", "pk_template": "x"}]}),
    ))
    .await;
    for place in
        ["fields[0].type: is missing", "fields[1]: is a number", "gsi_mappings[0].name: `gsi_list` has no index `No`"]
    {
        assert!(said.contains(&format!("tables[0].entities.User.{place}")), "{place}: {said}");
    }
    let two = |name: &str| json!({"table_config": {"table_name": name, "partition_key": "pk"}, "entities": {"A": {"pk_template": "A#{a}", "fields": []}}});
    let said = refused(json!({"tables": [two("One"), two("Two")]}).to_string()).await;
    assert!(said.contains("`One`, `Two`; choose by --table NAME"), "{said}");
}

#[tokio::test]
async fn published_schemas_are_brought_over() {
    let Some(folder) = corpus::folder("published schemas") else { return };
    let out = tempfile::tempdir().unwrap();
    for (schema, table, entities) in [
        ("elearning", None, 7),
        ("project_management", Some("OrganizationTable"), 3),
        ("project_management", Some("ProjectTable"), 3),
        ("project_management", Some("TaskTable"), 4),
        ("user_registration", Some("Users"), 1),
        ("user_registration", Some("EmailLookup"), 1),
    ] {
        let file = |kind: &str| folder.join(format!("schemas/{schema}_{kind}.json")).to_str().unwrap().to_owned();
        let model = out.path().join(format!("{schema}-{}.toml", table.unwrap_or_default()));
        let (model, schema_file, usage) = (model.to_str().unwrap(), file("schema"), file("usage_data"));
        let mut init = vec!["init", "--from-schema", &schema_file, "--usage", &usage, "--out", model];
        init.extend(table.iter().flat_map(|table| ["--table", *table]));
        let ran = tablekeeper(&init).await;
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{schema}: {}", ran.out);
        let text = fs::read_to_string(model).unwrap();
        assert!(loaded(model).entities.len() == entities && !text.contains("left out, because"), "{schema}: {text}");
    }
}
