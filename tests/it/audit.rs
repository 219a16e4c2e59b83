//! `audit` through the program: each source and each format, what is damaged or missing, and what a pipeline is told.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::kept::{Ran, tablekeeper};
use crate::program::Program;

const GOOD: &str = r#"{"PK":"METADATA#TOLERANCE","SK":"METADATA#T1","Type":"TOLERANCE","Description":"a"}"#;
const GLAD: &str = "../shared/corpus/glad/items.ddb.jsonl";

/// A pending work order whose project has changed; its index key has not if it is `stale`.
fn order(number: usize, stale: bool) -> Json {
    let project = if stale { "P1" } else { "P2" };
    json!({"PK": format!("WO#W{number}"), "SK": "USER#t1", "Type": "WorkOrder", "Status": "Pending", "ProjectID": "P2",
        "ScheduledDate": "2026-01-02", "GSI2PK": format!("PROJECT#{project}"), "GSI2SK": format!("WO#W{number}"),
        "GSI3PK": "USER#t1", "GSI3SK": format!("WO#W{number}")})
}

/// An item of texts as DynamoDB JSON.
fn typed(item: &Json) -> Json {
    let members = item.as_object().unwrap().iter();
    members.map(|(name, text)| (name.clone(), json!({ "S": text }))).collect::<serde_json::Map<_, _>>().into()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        self.path(name)
    }

    /// An export of data files with these lines.
    fn export(&self, kind: &str, data: &str, files: &[Vec<String>]) -> String {
        let mut manifest = String::new();
        for (number, lines) in files.iter().enumerate() {
            let bytes = gzip(&lines.iter().map(|line| format!("{line}\n")).collect::<String>());
            let (key, md5) = (format!("{data}/{number}.json.gz"), BASE64.encode(md5::compute(&bytes).0));
            let line = json!({"itemCount": lines.len(), "md5Checksum": md5, "etag": "e-1", "dataFileS3Key": key});
            manifest.push_str(&format!("{line}\n"));
            self.write(&key, bytes);
        }
        let items: usize = files.iter().map(Vec::len).sum();
        let summary = json!({"itemCount": items, "outputFormat": "DYNAMODB_JSON", "exportType": kind});
        self.write("AWSDynamoDB/01-a/manifest-files.json", manifest);
        self.write("AWSDynamoDB/01-a/manifest-summary.json", summary.to_string());
        self.path("AWSDynamoDB/01-a")
    }
}

async fn audit(items: &str, more: &[&str]) -> Ran {
    tablekeeper(&[&["audit", "--model", "quality", "--items", items], more].concat()).await
}

/// The JSON of a run that ended so.
async fn judged(items: &str, more: &[&str], code: i32) -> Json {
    let ran = audit(items, &[more, &["--format", "json"]].concat()).await;
    assert_eq!(ran.code, code, "{} {}", ran.out, ran.err);
    ran.json()
}

fn rule<'j>(judged: &'j Json, code: &str) -> &'j Json {
    judged["rules"].as_array().unwrap().iter().find(|rule| rule["code"] == code).unwrap_or_else(|| panic!("{judged}"))
}

#[tokio::test]
async fn a_full_export_is_counted_out_of_how_many_and_a_damaged_one_is_incomplete() {
    let place = Place::new();
    let line = |number: usize| json!({"Item": typed(&order(number, number.is_multiple_of(10)))}).to_string();
    let files: Vec<Vec<String>> = [0..40, 40..40, 40..100].map(|numbers| numbers.map(line).collect()).into();
    let export = place.export("FULL_EXPORT", "AWSDynamoDB/01-a/data", &files);
    let found = judged(&export, &["--partial", "--samples", "3"], 1).await;
    let g201 = rule(&found, "G201");
    let counted = json!({"code": "G201", "name": "index-key-stale", "severity": "error", "entity": "WorkOrder",
        "checked": 100, "failed": 10, "percent": 10.0, "undecidable": 0, "findings": 10, "shown": 3});
    assert_eq!(*g201, counted);
    assert_eq!(
        (&found["items"], &found["findings_total"], &found["severities"]),
        (&json!(100), &json!(10), &json!({"error": 10}))
    );
    assert_eq!(found["findings"].as_array().unwrap().len(), 3);
    // It is the whole table, if nobody says otherwise: the technician is not there.
    let alone = judged(&export, &[], 1).await;
    assert_eq!((&rule(&alone, "X501")["failed"], &rule(&found, "X501")["undecidable"]), (&json!(100), &json!(100)));
    // The folder above is as good, and the sample is the same each time.
    let again = judged(&place.path(""), &["--partial", "--samples", "3"], 1).await;
    assert_eq!(again["findings"], found["findings"]);
    assert_eq!(judged(&export, &["--partial", "--samples", "all"], 1).await["findings"].as_array().unwrap().len(), 10);

    let data = place.path("AWSDynamoDB/01-a/data/2.json.gz");
    let whole = std::fs::read(&data).unwrap();
    std::fs::write(&data, &whole[..whole.len() / 2]).unwrap();
    let cut = judged(&export, &[], 3).await;
    assert!(cut["unread"][0].as_str().unwrap().contains("the file is cut off"), "{cut}");
    assert!(cut["items"].as_u64() >= Some(40), "{cut}");
    std::fs::remove_file(&data).unwrap();
    let missing = judged(&export, &[], 3).await;
    assert!(missing["unread"][0].as_str().unwrap().contains("data/2.json.gz: the data file is not in"), "{missing}");
    assert_eq!((&missing["items"], &missing["unread_total"]), (&json!(40), &json!(1)));
}

#[tokio::test]
async fn an_incremental_export_is_judged_by_its_new_images() {
    let place = Place::new();
    let change = |number: usize, image: Option<Json>| {
        let keys = typed(&json!({"PK": format!("WO#W{number}"), "SK": "USER#t1"}));
        let mut line = json!({"Metadata": {"WriteTimestampMicros": {"N": "1680109764000000"}}, "Keys": keys});
        line["OldImage"] = typed(&order(number, true));
        if let Some(image) = image {
            line["NewImage"] = typed(&image);
        }
        line.to_string()
    };
    let lines = vec![change(1, Some(order(1, false))), change(2, Some(order(2, true))), change(3, None)];
    let export = place.export("INCREMENTAL_EXPORT", "AWSDynamoDB/data", &[lines]);
    let found = judged(&export, &[], 1).await;
    assert_eq!((&found["checked"], &found["findings_total"]), (&json!({"WorkOrder": 2}), &json!(1)));
    let text = audit(&export, &[]).await.out;
    assert!(text.contains("; 1 deleted in the export's time"), "{text}");
}

#[tokio::test]
async fn csv_and_workbench_models_are_known_by_what_they_are() {
    let place = Place::new();
    let rows = "PK,SK,Parameter,TakenAt,Value:N\n\
        WO#W1,MEASUREMENT#Load#2026-01-02T08:00:00Z#1,Load,2026-01-02T08:00:00Z,1.5\n\
        WO#W2,MEASUREMENT#Load#2026-01-02T08:00:00Z#1,Load,2026-01-02T08:00:00Z,much\n\
        WO#W3,MEASUREMENT#Load#2026-01-02T08:00:00Z#1,,2026-01-02T08:00:00Z,\n";
    let csv = place.write("rows.csv", rows);
    let found = judged(&csv, &[], 3).await;
    assert_eq!(found["checked"], json!({"Measurement": 2}));
    assert_eq!(rule(&found, "A301")["failed"], 1);
    assert!(found["unread"][0].as_str().unwrap().contains("rows.csv: line 3: attribute `Value`"), "{found}");
    // Under another name it has to be said.
    let other = place.write("rows.txt", rows);
    assert_eq!(judged(&other, &["--source-format", "csv"], 3).await["checked"], found["checked"]);

    let table = |name: &str, items: &[Json]| json!({"TableName": name, "TableData": items});
    let mut odd = typed(&order(3, false));
    odd["Status"] = json!({"S": 5});
    let items = [typed(&order(1, false)), typed(&order(2, true)), odd];
    let model =
        json!({"ModelName": "m", "ModelMetadata": {}, "DataModel": [table("other", &[]), table("quality", &items)]});
    let model = place.write("model.json", format!("{model:#}"));
    let found = judged(&model, &[], 3).await;
    assert_eq!((&found["checked"], &rule(&found, "G201")["failed"]), (&json!({"WorkOrder": 2}), &json!(1)));
    assert!(found["unread"][0].as_str().unwrap().contains("attribute `Status`"), "{found}");
    assert_eq!(judged(&model, &["--table", "other"], 0).await["items"], 0);
    let ran = audit(&model, &["--table", "none"]).await;
    assert!(ran.code == 2 && ran.err.contains("has `other`, `quality`, and none is `none`"), "{}", ran.err);
    // What it is not cannot be read as it.
    for (path, format) in [(&csv, "export"), (&csv, "workbench"), (&place.path(""), "csv")] {
        assert_eq!(audit(path, &["--source-format", format]).await.code, 2, "{path} as {format}");
    }
}

#[tokio::test]
async fn of_lines_with_one_key_the_last_is_judged() {
    let place = Place::new();
    let lines = [order(1, true), order(2, true), order(1, false), order(2, false), order(1, false)];
    let file = place.write("twice.jsonl.gz", gzip(&lines.map(|line| format!("{line}\n")).concat()));
    let found = judged(&file, &[], 0).await;
    assert_eq!((&found["items"], &found["superseded_total"]), (&json!(2), &json!(3)));
    let key = "WO#W1 / USER#t1";
    assert_eq!(found["superseded"][0], json!({"line": 1, "by_line": 3, "key": key}));
    assert_eq!(found["superseded"][2], json!({"line": 3, "by_line": 5, "key": key}));
}

#[tokio::test]
async fn every_format_says_the_same_and_none_runs_what_an_item_holds() {
    let place = Place::new();
    let mut evil = order(1, true);
    evil["GSI2PK"] = "=HYPERLINK(\"http://x\")<script>alert(1)</script>".into();
    let odd = r#"{"PK":"=1+1","SK":"+2"}"#;
    let file = place.write("evil.jsonl", format!("{GOOD}\n{evil}\n{odd}\n"));
    let as_of = async |format: &str| {
        let ran = audit(&file, &["--format", format]).await;
        assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{format}");
        ran.out
    };
    let whole: Json = serde_json::from_str(&as_of("json").await).unwrap();
    let codes: Vec<&Json> = whole["findings"].as_array().unwrap().iter().map(|finding| &finding["code"]).collect();
    assert_eq!(codes, ["G201", "K102"]);

    let lines: Vec<Json> = as_of("jsonl").await.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[..2], whole["findings"].as_array().unwrap()[..]);
    assert_eq!((lines.len(), &lines[2]["summary"]["rules"]), (3, &whole["rules"]));

    let csv = as_of("csv").await;
    assert!(csv.starts_with("severity,code,entity,PK,SK,attribute,expected,actual,message\r\n"), "{csv}");
    assert!(csv.contains("error,K102,,'=1+1,'+2,,"), "{csv}");
    assert!(csv.contains(r#","'=HYPERLINK(""http://x"")<script>alert(1)</script>","#), "{csv}");

    let page = as_of("html").await;
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script") && !page.contains("http://x\""), "{page}");
    assert!(page.contains("G201 index-key-stale: WorkOrder") && page.contains("33.33 %"), "{page}");

    let text = as_of("text").await;
    assert!(text.contains("index-key-stale") && text.contains("33.33 %") && text.contains("1 of 1"), "{text}");
    for format in ["jsonl", "csv", "html"] {
        let ran = tablekeeper(&["check", "quality", "--format", format]).await;
        assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains("only `audit` prints"), "{}", ran.err);
    }
}

#[tokio::test]
async fn what_fails_a_pipeline_is_chosen_by_its_severity() {
    let place = Place::new();
    let source = std::fs::read_to_string("models/quality.toml").unwrap();
    let model = place.write("mild.toml", format!("{source}\n[severity]\nG201 = \"warning\"\n"));
    let file = place.write("stale.jsonl", order(1, true).to_string());
    for (threshold, code) in [("error", 0), ("warning", 1), ("info", 1)] {
        let ran = tablekeeper(&["audit", "--model", &model, "--items", &file, "--fail-on", threshold]).await;
        assert_eq!(ran.code, code, "{threshold}: {} {}", ran.out, ran.err);
        assert!(ran.out.contains("G201"), "{}", ran.out);
    }
    let broken = place.write("broken.jsonl", "[1]\n");
    assert_eq!(audit(&broken, &["--fail-on", "error"]).await.code, 3, "what was not read is no matter of severity");
}

/// A published table that nobody here wrote, where it is at hand.
#[tokio::test]
async fn a_published_table_that_is_sound_has_no_findings() {
    if !Path::new(GLAD).is_file() {
        return println!("skipped: {GLAD} is not here");
    }
    let ran = tablekeeper(&["audit", "--model", "skills", "--items", GLAD, "--format", "json"]).await;
    let found = ran.json();
    assert_eq!((ran.code, &found["findings_total"], &found["unrecognised"]), (0, &json!(0), &json!(0)), "{found}");
    assert!(found["items"].as_u64() > Some(0), "{found}");
}

/// Pages of a live table are read one after the other and no faster than allowed; what was read before SIGTERM is not read again.
#[cfg(unix)]
#[tokio::test]
async fn an_audit_of_the_live_table_goes_on_where_it_was_stopped() {
    let place = Place::new();
    // Three items are a page of 1 MB.
    let notes = "n".repeat(350_000);
    let items: String = (0..9)
        .map(|number| {
            let mut order = order(number, number % 2 == 0);
            order["Notes"] = json!(notes);
            format!("{order}\n")
        })
        .collect();
    let (items, data, progress) = (place.write("items.jsonl", items), place.path("db"), place.path("progress"));
    let loaded = tablekeeper(&["load", "--model", "quality", "--data-dir", &data, "--items", &items]).await;
    assert_eq!(loaded.code, 0, "{}", loaded.err);
    let live = ["audit", "--model", "quality", "--data-dir", &data, "--segments", "1", "--format", "json"];
    let whole = tablekeeper(&live).await.json();
    assert_eq!((&whole["items"], &rule(&whole, "G201")["failed"]), (&json!(9), &json!(5)));

    // A page costs some 260 units, so that the second one has to wait for seconds.
    let slow = [&live[..], &["--max-read-units", "60", "--resume", &progress]].concat();
    let program = Program::start(&slow);
    for _ in 0..600 {
        if Path::new(&progress).exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    program.terminate();
    let stopped = program.end().await.expect(3);
    assert!(stopped.says("the same command goes on from there"), "{:?}", stopped.log);
    let resumed = tablekeeper(&[&live[..], &["--resume", &progress]].concat()).await;
    assert!(resumed.err.contains("going on after"), "{}", resumed.err);
    let resumed = resumed.json();
    assert_eq!((&resumed["items"], rule(&resumed, "G201")), (&whole["items"], rule(&whole, "G201")));
    assert!(resumed["undecided"][0].as_str().unwrap().contains("X501"), "{resumed}");
    assert!(!Path::new(&progress).exists());
    // What is there is no progress of this table.
    std::fs::write(&progress, "{}").unwrap();
    let refused = tablekeeper(&[&live[..], &["--resume", &progress]].concat()).await;
    assert!(refused.code == 2 && refused.err.contains("holds no progress of an audit"), "{}", refused.err);
}

#[tokio::test]
async fn patches_never_take_the_place_of_what_is_read() {
    let place = Place::new();
    let items = place.write("items.jsonl", format!("{}\n", order(1, true)));
    let model = place.write("m.toml", std::fs::read_to_string("models/quality.toml").unwrap());
    std::fs::create_dir(place.path("export")).unwrap();
    let inside = place.write("export/x.json.gz", "x");
    for (source, to) in [(&items, &items), (&items, &model), (&place.path("export"), &inside)] {
        let before = std::fs::read(to).unwrap();
        let ran = tablekeeper(&["audit", "--model", &model, "--items", source, "--suggest-patches", to]).await;
        assert!(ran.code == 2 && ran.err.contains("would destroy what is read"), "{} {}", ran.code, ran.err);
        assert_eq!(std::fs::read(to).unwrap(), before, "{to}");
    }
    // What was there stays until there is something to take its place.
    let old = place.write("old.jsonl", "old\n");
    let ran =
        tablekeeper(&["audit", "--model", &model, "--items", &place.path("none"), "--suggest-patches", &old]).await;
    assert_eq!((ran.code, std::fs::read_to_string(&old).unwrap().as_str()), (2, "old\n"));
    tablekeeper(&["audit", "--model", &model, "--items", &items, "--suggest-patches", &old]).await;
    assert!(std::fs::read_to_string(&old).unwrap().contains("\"safe\":true"));
}

#[tokio::test]
async fn what_a_model_hides_is_not_quoted_from_lines_that_cannot_be_used() {
    let place = Place::new();
    let hidden = format!("{}\n[findings]\nkeys = \"hash\"\n", std::fs::read_to_string("models/quality.toml").unwrap());
    let model = place.write("m.toml", hidden);
    let line = r#"{"PK":"USER#SECRET","SK":"USER#SECRET","Type":"Manager","Name":"SECRET"}"#;
    let lines = format!("{line}\n{line}\n{{\"PK\":\"SECRET\"\n{{\"PK\":[\"SECRET\"]}}\n");
    let items = place.write("items.jsonl", lines);
    for format in ["text", "json", "jsonl", "csv", "html"] {
        let ran = tablekeeper(&["audit", "--model", &model, "--items", &items, "--format", format]).await;
        assert_eq!(ran.code, 3, "{}", ran.err);
        assert!(!ran.out.contains("SECRET") && !ran.err.contains("SECRET"), "{format}: {} {}", ran.out, ran.err);
        assert!(ran.err.contains("line 3"), "{}", ran.err);
    }
}
