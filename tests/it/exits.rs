//! Exit codes of the commands that read and judge, each with its causes: 0 fine, 1 findings or differences, 2 the command
//! line or the model is at fault, 3 not everything was read. And what `--format json` prints then.

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::kept::{Kept, each, item, items, tablekeeper};

const GOOD: &str = r#"{"PK":"METADATA#TOLERANCE","SK":"METADATA#T1","Type":"TOLERANCE","Description":"a"}"#;
/// The project has changed, the index key has not.
const STALE: &str = r#"{"PK":"WO#W1","SK":"USER#t1","Type":"WorkOrder","Status":"Pending","ProjectID":"P2","ScheduledDate":"2026-01-02","GSI2PK":"PROJECT#P1","GSI2SK":"WO#W1","GSI3PK":"USER#t1","GSI3SK":"WO#W1"}"#;

/// Files of one test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.path().join(name), text).unwrap();
        self.path(name)
    }
}

/// Runs the program; its exit code must be this one. What it says is given back: output, then errors.
async fn ends(code: i32, arguments: &[&str]) -> (String, String) {
    let ran = tablekeeper(arguments).await;
    assert_eq!(ran.code, code, "{arguments:?}: {} {}", ran.out, ran.err);
    (ran.out, ran.err)
}

fn members(json: &Json) -> Vec<&str> {
    json.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn check_says_0_or_2() {
    let folder = Folder::new();
    ends(0, &["check", "quality", "inspection", "skills", "models/quality.toml"]).await;
    let source = std::fs::read_to_string(format!("{}/models/quality.toml", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let bad =
        source.replacen("sort_key = \"SK\"", "sort_kye = \"SK\"", 1).replacen("zone = \"UTC\"", "zone = \"Mars\"", 1);
    let bad = folder.write("bad.toml", &bad);
    let (out, _) = ends(2, &["check", &bad, "skills", "--format", "json"]).await;
    let checked: Json = serde_json::from_str(&out).unwrap();
    assert_eq!(each(checked.as_array().unwrap(), "ok"), [json!(false), json!(true)]);
    // All faults at once, each with its place and remedy.
    let faults = checked[0]["faults"].as_array().unwrap();
    let codes = each(faults, "code");
    assert!(codes.contains(&json!("C102")) && codes.contains(&json!("C106")), "{faults:?}");
    for fault in faults {
        assert!(fault["line"].as_u64() > Some(1) && fault["column"].as_u64() >= Some(1), "{fault}");
        assert!(!fault["remedy"].as_str().unwrap().is_empty());
    }
    for arguments in [&["check", "no-such-model"][..], &["check"], &["check", "quality", "--loud"], &["chekc"]] {
        let (out, err) = ends(2, arguments).await;
        assert!(out.is_empty() && !err.is_empty(), "{out}");
    }
    for command in ["derive", "audit", "report"] {
        let (_, err) = ends(2, &[command, "--model", &bad, "--items", "models/quality.items.jsonl"]).await;
        assert!(err.contains("C102") && err.contains("bad.toml"), "{err}");
    }
}

#[tokio::test]
async fn check_reads_the_reports_beside_a_model_and_report_prints_them() {
    let folder = Folder::new();
    let source = std::fs::read_to_string(format!("{}/models/quality.toml", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let names = r#"names = ["quality-weekly", "mine.toml"]"#;
    let model = folder.write("own.toml", &source.replacen(r#"names = ["quality-weekly"]"#, names, 1));
    let (line, start) = source.lines().zip(1..).find(|(text, _)| text.starts_with("names = [")).unwrap();
    assert!(line.contains("quality-weekly"));
    let (out, _) = ends(2, &["check", &model, "--format", "json"]).await;
    let checked: Json = serde_json::from_str(&out).unwrap();
    let fault = &checked[0]["faults"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&fault["code"], &fault["file"]), (&json!("C105"), &json!(model)), "{out}");
    assert_eq!((&fault["line"], &fault["column"]), (&json!(start), &json!(28)), "{fault}");
    assert!(fault["message"].as_str().unwrap().contains("`mine.toml` is no shipped report"), "{fault}");

    let report =
        std::fs::read_to_string(format!("{}/reports/quality-weekly.toml", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mine = folder.write("mine.toml", &report.replacen("\"0 7 * * 1\"", "\"0 25 * * *\"", 1));
    let (out, _) = ends(2, &["check", &model, "--format", "json"]).await;
    let checked: Json = serde_json::from_str(&out).unwrap();
    let faults = checked[0]["faults"].as_array().unwrap();
    let fault = faults.iter().find(|fault| fault["file"] == json!(mine)).expect("a fault of the report");
    assert_eq!((&fault["code"], &checked[0]["ok"]), (&json!("C213"), &json!(false)), "{fault}");
    assert!(fault["message"].as_str().unwrap().contains("its hour is `25`; write 0 to 23"), "{fault}");
    let (out, _) = ends(2, &["check", &model]).await;
    assert!(out.contains("mine.toml:") && out.contains("C213") && !out.contains("sound"), "{out}");

    folder.write("mine.toml", &report);
    ends(0, &["check", &model]).await;
    let out = folder.write("out", "");
    std::fs::remove_file(&out).unwrap();
    ends(0, &["report", "--model", &model, "--items", "models/quality.items.jsonl", "--out", &out]).await;
    assert!(std::path::Path::new(&out).join("mine.html").is_file());
}

#[tokio::test]
async fn derive_and_audit_say_0_1_2_or_3() {
    let folder = Folder::new();
    let good = folder.write("good.jsonl", GOOD);
    let stale = folder.write("stale.jsonl", &format!("{GOOD}\n{STALE}\n"));
    let cut = folder.write("cut.jsonl", &format!("{GOOD}\n{STALE}\n{}", &STALE[..40]));
    for command in ["derive", "audit"] {
        ends(0, &[command, "--model", "quality", "--items", &good]).await;
        let (_, err) = ends(1, &[command, "--model", "quality", "--items", &stale]).await;
        assert_eq!(err, "");
        let (out, err) = ends(3, &[command, "--model", "quality", "--items", &cut, "--format", "json"]).await;
        assert!(err.contains("cut.jsonl: line 3: "), "{err}");
        // What could be read is judged all the same.
        let judged: Json = serde_json::from_str(&out).unwrap();
        assert_eq!(judged["checked"], json!({"Tolerance": 1, "WorkOrder": 1}));
        assert_eq!(judged["findings"].as_array().unwrap().len(), 1);
        ends(2, &[command, "--model", "quality", "--items", &folder.path("none.jsonl")]).await;
        ends(2, &[command, "--items", &good]).await;
    }
    let audit = async |file: &str, code| {
        let (out, _) = ends(code, &["audit", "--model", "quality", "--items", file, "--format", "json"]).await;
        serde_json::from_str::<Json>(&out).unwrap()
    };
    let fine = audit("models/quality.items.jsonl", 0).await;
    let checked = json!({"Manager": 2, "Technician": 3, "Device": 5, "WorkOrder": 5, "Tolerance": 2, "TestMethod": 2});
    assert_eq!((&fine["findings"], &fine["checked"]), (&json!([]), &checked));
    let found = audit(&stale, 1).await;
    let of_audit =
        ["checked", "findings", "findings_total", "items", "model", "rules", "severities", "source", "unrecognised"];
    assert_eq!((members(&fine), members(&found)), (of_audit.to_vec(), of_audit.to_vec()));
    let finding = &found["findings"][0];
    let of_finding = ["actual", "attribute", "code", "entity", "expected", "key", "message", "severity"];
    assert_eq!(members(finding), of_finding);
    let place = json!({"PK": "WO#W1", "SK": "USER#t1"});
    assert_eq!((&finding["code"], &finding["entity"], &finding["key"]), (&json!("G201"), &json!("WorkOrder"), &place));
    assert_eq!((&finding["attribute"], &finding["severity"]), (&json!("GSI2PK"), &json!("error")));
    assert_eq!((&finding["expected"], &finding["actual"]), (&json!("PROJECT#P2"), &json!("PROJECT#P1")));
    // The same finding in both commands.
    let (out, _) = ends(1, &["derive", "--model", "quality", "--items", &stale, "--format", "json"]).await;
    assert_eq!(serde_json::from_str::<Json>(&out).unwrap()["findings"], found["findings"]);
}

#[tokio::test]
async fn audit_tells_what_items_say_of_each_other() {
    let audit = async |model: &str, file: &str, more: &[&str], code| {
        let args = [&["audit", "--model", model, "--items", file, "--format", "json"], more].concat();
        serde_json::from_str::<Json>(&ends(code, &args).await.0).unwrap()
    };
    // `insp003` has devices and work orders and is no user.
    let sample = "models/inspection.items.jsonl";
    let found = audit("inspection", sample, &[], 1).await;
    let told: Vec<String> = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| format!("{} {} {} {} {}", f["code"], f["key"]["PK"], f["attribute"], f["expected"], f["actual"]))
        .collect();
    let expected = ["DEVICE#D102", "DEVICE#D104", "WO#WO003", "WO#WO004"]
        .map(|key| format!(r#""X501" "{key}" "SK" "USER#insp003 / USER#insp003" null"#));
    assert_eq!(told, expected);
    // What could not be judged of a rule and an entity.
    let undecidable = |found: &Json, code: &str, entity: &str| {
        let rules = found["rules"].as_array().unwrap();
        let rule = rules.iter().find(|rule| rule["code"] == code && rule["entity"] == entity);
        rule.unwrap_or_else(|| panic!("{code} {entity} in {found}"))["undecidable"].clone()
    };
    assert_eq!(undecidable(&found, "X501", "WorkOrder"), 0);
    // A sample of a table cannot say so.
    let found = audit("inspection", sample, &["--partial"], 0).await;
    assert_eq!((&found["findings"], undecidable(&found, "X501", "WorkOrder")), (&json!([]), json!(2)));
    // Nor can a file with a line that could not be read.
    let folder = Folder::new();
    let items = std::fs::read_to_string(sample).unwrap();
    let cut = folder.write("cut.jsonl", &format!("{items}{{\"PK\""));
    let found = audit("inspection", &cut, &[], 3).await;
    assert_eq!((&found["findings"], undecidable(&found, "X501", "WorkOrder")), (&json!([]), json!(2)));
    // The other samples are clean; one holds user skills alone.
    let found = audit("skills", "models/skills.items.jsonl", &[], 0).await;
    assert_eq!(undecidable(&found, "X501", "UserSkill"), 0);
    let found = audit("skills", "models/skills.index-sample.jsonl", &[], 0).await;
    assert_eq!(undecidable(&found, "X501", "UserSkill"), 20);
    // A skill that was renamed after it was copied.
    let items = std::fs::read_to_string("models/skills.items.jsonl").unwrap();
    let renamed = items.replacen(r#""SkillName": "Go""#, r#""SkillName": "Golang""#, 1);
    let found = audit("skills", &folder.write("renamed.jsonl", &renamed), &[], 1).await;
    let finding = &found["findings"][0];
    assert_eq!(found["findings"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!((&finding["code"], &finding["severity"]), (&json!("X502"), &json!("warning")));
    assert_eq!((&finding["expected"], &finding["actual"]), (&json!("Golang"), &json!("Go")));
    // What `derive` says, and what is kept in the table, is as it was.
    let out = ends(0, &["derive", "--model", "inspection", "--items", sample, "--format", "json"]).await.0;
    assert_eq!(serde_json::from_str::<Json>(&out).unwrap()["findings"], json!([]));
}

#[tokio::test]
async fn every_bad_line_is_named_and_the_rest_is_read() {
    let folder = Folder::new();
    let long = "1".repeat(39);
    // Lines that hold no item, with what is said of them.
    let bad = [
        (format!(r#"{{"PK":"A","SK":"B","Value":{long}}}"#), "`Value`"),
        (r#"{"PK":"A","SK":"B","Value":1E126}"#.to_owned(), "`Value`"),
        (format!(r#"{{"Item":{{"PK":{{"S":"A"}},"SK":{{"S":"B"}},"Value":{{"N":"-{long}"}}}}}}"#), "`Value`"),
        (r#"{"Item":{"PK":{"S":"A"},"SK":{"S":"B"},"Value":{"N":"12,5"}}}"#.to_owned(), "`Value`"),
        (r#"[{"PK":"A","SK":"B"}]"#.to_owned(), "an array"),
        (r#"{"PK":"A""#.to_owned(), "column"),
        ("PK,SK".to_owned(), "no JSON object"),
        (r#"{"PK":"A"}"#.to_owned(), "no key"),
        (r#"{"PK":"A","SK":7}"#.to_owned(), ""),
    ];
    for (line, said) in &bad[..8] {
        let file = folder.write("lines.jsonl", &format!("{GOOD}\n\n{line}\n{STALE}\n"));
        let (out, err) = ends(3, &["audit", "--model", "quality", "--items", &file, "--format", "json"]).await;
        // Blank lines count.
        assert!(err.contains("line 3: ") && err.contains(said), "{line}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        let judged: Json = serde_json::from_str(&out).unwrap();
        assert_eq!(judged["checked"], json!({"Tolerance": 1, "WorkOrder": 1}), "{line}");
    }
    // A key of another type than the table's: an item that the table cannot hold.
    let file = folder.write("typed.jsonl", &format!("{GOOD}\n{}\n", bad[8].0));
    ends(1, &["audit", "--model", "quality", "--items", &file]).await;
    // Numbers at the limits are fine.
    let most = "9".repeat(38);
    let reading = |n: u32, value: &str| {
        format!(
            r#"{{"PK":"WO#W{n}","SK":"MEASUREMENT#Load#2026-01-02T08:00:00Z#1","Parameter":"Load","TakenAt":"2026-01-02T08:00:00Z","Username":"t1","Value":{value}}}"#
        )
    };
    let file =
        folder.write("limits.jsonl", &[reading(1, &most), reading(2, "-9.9E125"), reading(3, "1E-130")].join("\n"));
    let ran = tablekeeper(&["audit", "--model", "quality", "--items", &file, "--format", "json"]).await;
    assert!(ran.code <= 1 && ran.err.is_empty(), "{}", ran.err);
    assert_eq!(ran.json()["checked"], json!({"Measurement": 3}));
}

#[tokio::test]
async fn report_says_0_2_or_3() {
    let folder = Folder::new();
    let out = folder.path("out");
    let sample = "models/quality.items.jsonl";
    let on = |items: &'static str| ["report", "--model", "quality", "--as-of", "2026-11-30", "--items", items];
    ends(0, &[&on(sample)[..], &["--out", &out]].concat()).await;
    assert!(std::fs::read_to_string(format!("{out}/quality-weekly.html")).unwrap().contains("2026-11-30"));
    let cut = folder.write("cut.jsonl", &format!("{GOOD}\n{}", &STALE[..40]));
    let (_, err) =
        ends(3, &["report", "--model", "quality", "--items", &cut, "--as-of", "2026-11-30", "--out", &out]).await;
    assert!(err.contains("line 2: "), "{err}");
    let faulty = folder.write("faulty.toml", "version = 1\ntitel = \"x\"\n");
    for wrong in
        [&["--report", "no-such-report"][..], &["--report", &faulty], &["--as-of", "30.11.2026"], &["--out", sample]]
    {
        let mut arguments = vec!["report", "--model", "quality", "--items", sample];
        arguments.extend(wrong);
        if !wrong.contains(&"--out") {
            arguments.extend(["--out", &out]);
        }
        ends(2, &arguments).await;
    }
}

#[tokio::test]
async fn verify_and_the_live_table_say_0_1_2_or_3() {
    let folder = Folder::new();
    let kept = Kept::of("quality", &items("quality.items.jsonl")).await;
    assert_eq!(kept.run("verify", &[]).await.code, 0);
    assert_eq!(kept.run("audit", &[]).await.code, 0);
    // A count that somebody else has changed: named, with both values.
    let right = json!({"PK": "PROJECT#P002", "SK": "STATS#WO_STATUS"});
    let stored = kept.connection.get_item(&kept.model.table.name, &item(&right)).await.unwrap().unwrap();
    let wrong = stored.clone().with("Count_Complete", item(&json!({"n": 3})).0.remove("n").unwrap());
    kept.connection.put_item(&kept.model.table.name, &wrong).await.unwrap();
    let ran = kept.run("verify", &["--format", "json"]).await;
    assert_eq!((ran.code, &ran.json()["ok"]), (1, &json!(false)), "{}", ran.err);
    let differences = ran.json()["differences"].as_array().unwrap().clone();
    assert_eq!(differences.len(), 1, "{differences:?}");
    assert_eq!((&differences[0]["expected"], &differences[0]["stored"]), (&json!("1"), &json!("3")));
    assert_eq!(differences[0]["key"], json!("PROJECT#P002 / STATS#WO_STATUS"));
    kept.connection.put_item(&kept.model.table.name, &stored).await.unwrap();
    // Findings are no differences.
    kept.write(&[item(&serde_json::from_str(STALE).unwrap())]).await;
    assert_eq!(kept.run("audit", &[]).await.code, 1);
    assert_eq!(kept.run("verify", &[]).await.code, 0);
    let out = folder.path("out");
    assert_eq!(kept.run("report", &["--as-of", "2026-11-30", "--out", &out]).await.code, 0);

    for command in ["verify", "audit", "report"] {
        let missing = kept.run(command, &["--table", "no-such-table"]).await;
        assert!(missing.code == 2 && missing.err.contains("no-such-table"), "{command}: {}", missing.err);
        // Nobody answers: that is neither the command line's fault nor the model's.
        let nobody = ["--model", "quality", "--endpoint", "http://127.0.0.1:1"];
        let (_, err) = ends(3, &[&[command], &nobody[..]].concat()).await;
        assert!(err.contains("quality"), "{err}");
        ends(2, &[command, "--model", "quality", "--endpoint", "127.0.0.1:1"]).await;
    }
    kept.close().await;
}
