//! A table of one's own, from a file to the proof; and what the program refuses before it begins.

use serde_json::{Value as Json, json};
use tablekeeper::adapters::dynamodb::Connection;
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::model::load::load;
use tablekeeper::model::shipped::shipped;
use tablekeeper::model::value::Kind;
use tempfile::TempDir;

use crate::kept::{Kept, Ran, items, tablekeeper};

const SAMPLE: &str = "models/quality.items.jsonl";
const TOLERANCE: &str = r#"{"PK":"METADATA#TOLERANCE","SK":"METADATA#T1","Type":"TOLERANCE","Description":"a"}"#;

/// A directory of one test, with a database in it or not.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.path().join(name), text).unwrap();
        self.path(name)
    }

    fn has(&self, name: &str) -> bool {
        self.0.path().join(name).exists()
    }

    /// A command on the database of this place.
    async fn run(&self, command: &str, arguments: &[&str]) -> Ran {
        let data = self.path("data");
        tablekeeper(&[&[command, "--model", "quality", "--data-dir", &data], arguments].concat()).await
    }
}

#[tokio::test]
async fn a_file_becomes_a_table_that_is_kept_proved_and_reported() {
    let place = Place::new();
    let loaded = place.run("load", &["--items", SAMPLE]).await;
    assert_eq!(loaded.code, 0, "{}", loaded.err);
    assert_eq!(loaded.out, "19 items in table `quality`, which was made with 3 indexes and a stream\n");
    // Nothing is derived yet, so there is nothing to repair and nothing known to fall due.
    let repair = place.run("verify", &["--repair"]).await;
    assert!(repair.code == 1 && repair.out.contains("repaired: 0 aggregates, 0 rows"), "{} {}", repair.out, repair.err);
    let sweep = place.run("sweep", &[]).await;
    assert!(sweep.code == 3 && sweep.err.contains("no worker has read this table yet"), "{}", sweep.err);
    let worker = place.run("worker", &["--until-idle", "--poll-ms", "10"]).await;
    assert_eq!(worker.code, 0, "{}", worker.err);
    // Whatever is found out by asking the database is no news for the log.
    assert!(!worker.err.contains("dynoxide::"), "{}", worker.err);
    let verify = place.run("verify", &["--format", "json"]).await;
    assert_eq!((verify.code, &verify.json()["source_items"]), (0, &json!(19)), "{}", verify.out);
    let report = place.run("report", &["--as-of", "2026-11-30", "--out", &place.path("out")]).await;
    assert!(report.code == 0 && place.has("out/quality-weekly.html"), "{}", report.err);
    // Once more over what is there: the same items, nothing is counted twice.
    let again = place.run("load", &["--items", SAMPLE, "--format", "json"]).await.json();
    assert_eq!((&again["created"], &again["loaded"]), (&json!(false), &json!(19)));
    place.run("worker", &["--until-idle", "--poll-ms", "10"]).await;
    assert_eq!(place.run("verify", &[]).await.code, 0);
}

#[tokio::test]
async fn loaded_items_are_kept_to_the_last_digit() {
    let place = Place::new();
    let number = "12345678901234567890123456789012345678";
    let plain = format!(
        r#"{{"PK":"X#1","SK":"a","n":{number},"f":0.10,"t":"ä\n","b":true,"z":null,"m":{{"l":[1,{{"k":""}}]}},"_keeper_":1}}"#
    );
    let typed = r#"{"Item":{"PK":{"S":"X#2"},"SK":{"S":"a"},"bytes":{"B":"AQI="},"set":{"NS":["1","2.5"]}}}"#;
    let derived = r#"{"PK":"X#3","SK":"a","_keeper":"aggregate/x","Total":7}"#;
    let old = r#"{"PK":"X#2","SK":"a","old":1}"#;
    let file = place.write("items.jsonl", &[old, &plain, typed, derived].join("\n"));
    let database = Embedded::start(None).unwrap();
    let at = ["load", "--model", "quality", "--endpoint", database.endpoint(), "--items", &file];
    // A table is not made behind its owner's back.
    let refused = tablekeeper(&at).await;
    assert!(refused.code == 2 && refused.err.contains("no table `quality`"), "{}", refused.err);
    let loaded = tablekeeper(&[&at[..], &["--create", "--format", "json"]].concat()).await;
    assert_eq!(loaded.code, 0, "{}", loaded.err);
    let said = loaded.json();
    assert_eq!((&said["loaded"], &said["derived_left_out"], &said["created"]), (&json!(2), &json!(1), &json!(true)));
    assert_eq!(said["superseded"], json!([{"line": 1, "by_line": 3, "key": "X#2 / a"}]));
    assert!(loaded.err.contains("line 1 is passed over: line 3 has its key `X#2 / a` again"), "{}", loaded.err);
    let connection = Connection::local(database.endpoint()).await.unwrap();
    for line in [&plain, typed] {
        let item = tablekeeper::adapters::files::parse_item(line).unwrap();
        let key = tablekeeper::model::value::Item(
            item.0.clone().into_iter().filter(|(name, _)| name == "PK" || name == "SK").collect(),
        );
        assert_eq!(connection.get_item("quality", &key).await.unwrap(), Some(item));
    }
    let info = connection.describe_table("quality").await.unwrap();
    assert_eq!((info.stream_view.as_deref(), info.indexes.len()), (Some("NEW_AND_OLD_IMAGES"), 3));
    database.shutdown().await;
}

#[tokio::test]
async fn one_bad_line_and_nothing_is_loaded() {
    let place = Place::new();
    for (line, said) in [
        (r#"{"PK":"A""#, "line 2: column"),
        (r#"{"PK":"A"}"#, "line 2: no key: `SK` is absent"),
        (r#"{"PK":true,"SK":"x"}"#, "line 2: no key: `PK` is true of type BOOL"),
        (r#"{"PK":1,"SK":"x"}"#, "line 2: `PK` is 1 of type N, the key has type S"),
        (r#"{"PK":"","SK":"x"}"#, "line 2: `PK` is empty"),
        (r#"{"PK":"A","SK":"x","GSI2PK":5}"#, "line 2: `GSI2PK` is 5 of type N, the key has type S"),
        (&format!(r#"{{"PK":"A","SK":"{}"}}"#, "x".repeat(1_025)), "line 2: `SK` has 1025 bytes"),
        (&format!(r#"{{"PK":"A","SK":"x","n":"{}"}}"#, "x".repeat(409_600)), "line 2: the item has 409607 bytes"),
    ] {
        let file = place.write("items.jsonl", &format!("{TOLERANCE}\n{line}\n"));
        let ran = place.run("load", &["--items", &file]).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{line}: {}", ran.err);
        assert!(ran.err.contains(said) && ran.err.contains("nothing was written"), "{line}: {}", ran.err);
    }
    assert!(!place.has("data"), "a database was made for nothing");
    // What only the database can say is told of the very line.
    let mut table = load(shipped("quality").unwrap().source, "quality").unwrap().model.table;
    table.indexes[1].partition[0].kind = Kind::N;
    let key = table.indexes[1].partition[0].name.clone();
    let database = Embedded::start(None).unwrap();
    Connection::local(database.endpoint()).await.unwrap().create_table(&table).await.unwrap();
    let index_key = format!(r#"{{"PK":"A","SK":"x","{key}":"text"}}"#);
    let file = place.write("items.jsonl", &format!("{TOLERANCE}\n\n{index_key}\n"));
    let at = ["load", "--model", "quality", "--endpoint", database.endpoint(), "--items", &file];
    let ran = tablekeeper(&at).await;
    assert_eq!(ran.code, 3, "{}", ran.err);
    for word in ["items.jsonl: line 3: item `A / x`", key.as_str(), "at least 1 of 2 items are written"] {
        assert!(ran.err.contains(word), "{word}: {}", ran.err);
    }
    assert_eq!(place.run("load", &["--items", &place.path("none.jsonl")]).await.code, 2);
}

#[tokio::test]
async fn a_mistyped_data_directory_makes_no_database() {
    let place = Place::new();
    for command in ["worker", "verify", "reconcile", "audit", "report", "sweep"] {
        let ran = place.run(command, &[]).await;
        assert_eq!(ran.code, 2, "{command}: {}", ran.err);
        assert!(ran.err.contains("no database in `") && ran.err.contains("tablekeeper load"), "{command}: {}", ran.err);
        assert!(!ran.err.contains("Region"), "{}", ran.err);
    }
    assert!(!place.has("data"));
    // A database with another table than the model's: what there is, not where it might be.
    place.run("load", &["--items", SAMPLE]).await;
    let other = tablekeeper(&["verify", "--model", "inspection", "--data-dir", &place.path("data")]).await;
    assert!(other.code == 2 && other.err.contains("it has `quality`;"), "{}", other.err);
    assert!(!other.err.contains("Region"), "{}", other.err);
}

#[tokio::test]
async fn a_key_that_comes_twice_in_a_file_counts_once() {
    let place = Place::new();
    let order = |status: &str, project: &str| {
        format!(
            r#"{{"PK":"WO#W1","SK":"USER#t1","Type":"WorkOrder","Status":"{status}","ProjectID":"{project}","ScheduledDate":"2026-01-02","GSI2PK":"PROJECT#{project}","GSI2SK":"WO#W1","GSI3PK":"USER#t1","GSI3SK":"WO#W1"}}"#
        )
    };
    let lines = [order("Lost", "P1"), TOLERANCE.to_owned(), order("Pending", "P1"), order("Complete", "P2")];
    let file = place.write("items.jsonl", &lines.join("\n"));
    let expected: Json = json!([
        {"line": 1, "by_line": 3, "key": "WO#W1 / USER#t1"},
        {"line": 3, "by_line": 4, "key": "WO#W1 / USER#t1"},
    ]);
    for command in ["derive", "audit"] {
        let ran = tablekeeper(&[command, "--model", "quality", "--items", &file, "--format", "json"]).await;
        // The finding of line 1 went with it.
        assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
        let said = ran.json();
        assert_eq!(said["superseded"], expected);
        assert_eq!(said["checked"], json!({"Tolerance": 1, "WorkOrder": 1}));
        assert!(ran.err.contains("line 3 is passed over: line 4 has its key"), "{}", ran.err);
        let text = tablekeeper(&[command, "--model", "quality", "--items", &file]).await.out;
        assert!(text.contains("2 lines passed over for a later one of the same key"), "{text}");
    }
    let derived = tablekeeper(&["derive", "--model", "quality", "--items", &file, "--format", "json"]).await.json();
    let project = |wanted: &str| {
        let key = json!({"PK": format!("PROJECT#{wanted}"), "SK": "STATS#WO_STATUS"});
        derived["aggregates"].as_array().unwrap().iter().find(|one| one["key"] == key).map(|one| one["values"].clone())
    };
    assert_eq!(project("P1"), None);
    assert_eq!(project("P2").unwrap()["Count_Complete"], json!(1));
}

#[tokio::test]
async fn a_total_that_fits_no_number_is_a_finding() {
    let place = Place::new();
    let reading = |n: u32, value: &str| {
        format!(
            r#"{{"PK":"WO#W{n}","SK":"MEASUREMENT#Load#2026-01-02T08:00:00Z#1","Parameter":"Load","TakenAt":"2026-01-02T08:00:00Z","Username":"t1","Value":{value}}}"#
        )
    };
    let file = place.write("items.jsonl", &[reading(1, "1E100"), reading(2, "1E-100")].join("\n"));
    let ran = tablekeeper(&["derive", "--model", "quality", "--items", &file, "--format", "json"]).await;
    assert_eq!(ran.code, 1, "{}", ran.err);
    let findings = ran.json()["findings"].as_array().unwrap().clone();
    let of_total = |finding: &&Json| finding["code"] == "A308" && finding["attribute"] == "Sum_Value";
    let total = findings.iter().find(of_total).unwrap_or_else(|| panic!("{findings:?}"));
    assert_eq!(total["key"], json!({"PK": "PARAMETER#Load", "SK": "STATS#VALUE"}));
    assert!(total["message"].as_str().unwrap().contains("`Sum_Value` of aggregate"), "{total}");
    let audit = tablekeeper(&["audit", "--model", "quality", "--items", &file, "--format", "json"]).await;
    assert_eq!((audit.code, audit.json()["findings"].as_array().unwrap()), (1, &findings));
}

#[tokio::test]
async fn a_day_or_a_directory_that_cannot_be_is_refused_before_anything_is_done() {
    let place = Place::new();
    let (data, out) = (place.path("data"), place.path("out"));
    for day in ["9999-12-31", "2200-01-01", "1969-12-31", "+12026-01-01", "2026-02-30", "tomorrow"] {
        for command in [
            &["demo", "--data-dir", &data, "--out", &out][..],
            &["sweep", "--model", "quality"],
            &["report", "--model", "quality", "--out", &out],
        ] {
            let ran = tablekeeper(&[command, &["--as-of", day]].concat()).await;
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{command:?}: {}", ran.err);
            assert!(ran.err.contains(&format!("`{day}`")), "{}", ran.err);
        }
    }
    assert!(!place.has("data") && !place.has("out"));
    // A file where the directory should be.
    let ran = tablekeeper(&["demo", "--data-dir", &data, "--out", SAMPLE]).await;
    assert!(ran.code == 2 && ran.err.contains(SAMPLE) && !place.has("data"), "{} {}", ran.out, ran.err);
    let ran = tablekeeper(&["report", "--model", "quality", "--endpoint", "http://127.0.0.1:1", "--out", SAMPLE]).await;
    assert!(ran.code == 2 && ran.err.contains(SAMPLE), "{}", ran.err);
}

#[tokio::test]
async fn a_worker_without_its_ledger_does_not_count_again() {
    let kept = Kept::of("quality", &items("quality.items.jsonl")).await;
    let before = kept.measures("PROJECT#P001", "STATS#WO_STATUS").await;
    let state = kept.model.table.state_table.clone();
    kept.connection.delete_table(&state).await.unwrap();
    let worker = kept.run("worker", &["--until-idle", "--poll-ms", "10"]).await;
    assert_eq!(worker.code, 3, "{}", worker.err);
    assert!(worker.err.contains("ledger"), "{}", worker.err);
    assert_eq!(kept.measures("PROJECT#P001", "STATS#WO_STATUS").await, before);
}

#[tokio::test]
async fn another_tables_state_table_is_refused_by_whoever_would_use_it() {
    let place = Place::new();
    assert_eq!(place.run("load", &["--items", SAMPLE]).await.code, 0);
    assert_eq!(place.run("worker", &["--until-idle", "--poll-ms", "10"]).await.code, 0);
    assert_eq!(place.run("load", &["--items", SAMPLE, "--table", "second"]).await.code, 0);
    let commands: [(&str, &[&str]); 5] =
        [("worker", &["--until-idle"]), ("sweep", &[]), ("verify", &[]), ("verify", &["--repair"]), ("reconcile", &[])];
    for (command, arguments) in commands {
        let mistaken = [&["--table", "second", "--state-table", "quality-keeper"], arguments].concat();
        let ran = place.run(command, &mistaken).await;
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{command}: {}", ran.err);
        assert!(ran.err.contains("`quality-keeper` is that of arn:") && ran.err.contains("of its own"), "{}", ran.err);
    }
}

#[tokio::test]
async fn a_table_that_was_made_anew_is_not_taken_for_the_former_one() {
    let kept = Kept::of("quality", &items("quality.items.jsonl")).await;
    let few = Place::new();
    let file = few
        .write("few.jsonl", &std::fs::read_to_string(SAMPLE).unwrap().lines().take(5).collect::<Vec<_>>().join("\n"));
    kept.connection.delete_table(&kept.model.table.name).await.unwrap();
    let loaded = kept.run("load", &["--items", &file, "--create"]).await;
    assert_eq!(loaded.code, 0, "{}", loaded.err);
    let worker = kept.run("worker", &["--until-idle", "--poll-ms", "10"]).await;
    assert!(worker.code == 3 && worker.err.contains("made anew"), "{} {}", worker.code, worker.err);
}

#[tokio::test]
async fn the_demo_writes_over_no_table_that_it_did_not_make() {
    let place = Place::new();
    place.run("load", &["--items", SAMPLE]).await;
    let demo = tablekeeper(&["demo", "--data-dir", &place.path("data"), "--out", &place.path("out")]).await;
    assert!(demo.code == 2 && demo.err.contains("that the demo did not make"), "{} {}", demo.code, demo.err);
}

#[tokio::test]
async fn the_state_table_cannot_be_the_table() {
    for arguments in [&["--state-table", "quality"][..], &["--table", "t", "--state-table", "t"]] {
        for command in ["worker", "verify", "reconcile", "load"] {
            let file = if command == "load" { &["--items", SAMPLE][..] } else { &[] };
            let at = [command, "--model", "quality", "--endpoint", "http://127.0.0.1:1"];
            let ran = tablekeeper(&[&at[..], arguments, file].concat()).await;
            assert_eq!(ran.code, 2, "{command}: {}", ran.err);
            assert!(ran.err.contains("is the table itself; give it a name of its own"), "{command}: {}", ran.err);
        }
    }
}

/// Writing to this device fails as on a full disk.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn results_that_cannot_be_written_leave_the_run_incomplete() {
    for arguments in [
        &["derive", "--model", "quality", "--items", SAMPLE][..],
        &["derive", "--model", "quality", "--items", SAMPLE, "--format", "json"],
        &["check", "quality"],
        &["explain"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = crate::program::command(arguments).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(3), "{arguments:?}: {said}");
        assert_eq!(said.matches("standard output cannot be written").count(), 1, "{arguments:?}: {said}");
        if arguments.contains(&"json") {
            let error: serde_json::Value = serde_json::from_str(&said).unwrap();
            assert_eq!(error["error"]["exit"], 3, "{said}");
        }
    }
}

#[tokio::test]
async fn a_worker_says_what_a_stream_of_less_costs() {
    use aws_sdk_dynamodb::types::{StreamSpecification, StreamViewType};
    let model = tablekeeper::model::load::load(include_str!("../../models/quality.toml"), "quality").unwrap().model;
    let views = [
        (StreamViewType::KeysOnly, Some("each record reads its item")),
        (StreamViewType::OldImage, Some("each record reads its item")),
        (StreamViewType::NewImage, Some("each reads its ledger row")),
        (StreamViewType::NewAndOldImages, None),
    ];
    for (view, cost) in views {
        let database = Embedded::start(None).unwrap();
        let connection = Connection::local(database.endpoint()).await.unwrap();
        connection.create_table(&model.table).await.unwrap();
        let stream = |enabled: bool| StreamSpecification::builder().stream_enabled(enabled);
        let update =
            |stream| connection.client().update_table().table_name(&model.table.name).stream_specification(stream);
        update(stream(false).build().unwrap()).send().await.unwrap();
        update(stream(true).stream_view_type(view.clone()).build().unwrap()).send().await.unwrap();
        connection.put_items(&model.table.name, &items("quality.items.jsonl")).await.unwrap();
        let at = ["--model", "quality", "--endpoint", database.endpoint()];
        let worker = tablekeeper(&[&["worker", "--until-idle", "--poll-ms", "10"], &at[..]].concat()).await;
        assert_eq!(worker.code, 0, "{}", worker.err);
        let warned: Vec<&str> = worker.err.lines().filter(|line| line.contains("the stream's view is")).collect();
        match cost {
            Some(cost) => assert!(warned.len() == 1 && warned[0].contains(cost), "{view}: {}", worker.err),
            None => assert!(warned.is_empty(), "{}", worker.err),
        }
        // The counts are right all the same.
        let verify = tablekeeper(&[&["verify"], &at[..]].concat()).await;
        assert_eq!(verify.code, 0, "{view}: {}", verify.out);
        database.shutdown().await;
    }
}
