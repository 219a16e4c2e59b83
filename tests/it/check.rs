//! What `check` prints beside its verdict: text for people, SARIF for code scanners. tests/sarif.sh holds the latter against the
//! published schema.

use serde_json::{Value as Json, json};

use crate::kept::tablekeeper;

const FAULTY: &str = r#"version = 1
zone = "Mars"

[table]
name = "things"
partition_key = "PK"
sort_key = "SK"

[entity.Thing]
key = { PK = "T#{a}", SK = "S" }
attribute.Level = { one_of = ["é", "é"] }
"#;

#[tokio::test]
async fn sarif_names_each_fault_by_rule_place_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a model.toml");
    std::fs::write(&file, FAULTY).unwrap();
    let absent = folder.path().join("absent.toml");
    let arguments =
        ["check", "--format", "sarif", file.to_str().unwrap(), "models/skills.toml", absent.to_str().unwrap()];
    let ran = tablekeeper(&arguments).await;
    assert_eq!(ran.code, 2, "{}", ran.err);
    let log = ran.json();
    assert_eq!(log["version"], "2.1.0");
    let [run] = log["runs"].as_array().unwrap().as_slice() else { panic!("{log}") };
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    let driver = &run["tool"]["driver"];
    assert_eq!((&driver["name"], &driver["version"]), (&json!("Tablekeeper"), &json!(env!("CARGO_PKG_VERSION"))));
    let rules = driver["rules"].as_array().unwrap();
    let found: Vec<(&Json, [u64; 4])> =
        run["results"].as_array().unwrap().iter().map(|result| judge(result, rules)).collect();
    assert_eq!(found, [(&json!("C106"), [2, 8, 2, 14]), (&json!("C110"), [11, 36, 11, 39])]);
    let invocation = &run["invocations"][0];
    assert_eq!((&invocation["executionSuccessful"], &invocation["exitCode"]), (&json!(false), &json!(2)));
    let [unread] = invocation["toolExecutionNotifications"].as_array().unwrap().as_slice() else { panic!("{log}") };
    assert!(unread["message"]["text"].as_str().unwrap().contains("absent.toml"), "{unread}");
    assert!(uri(unread).ends_with("/absent.toml"), "{unread}");
    assert!(ran.err.starts_with("error:"), "{}", ran.err);
}

/// The rule's code, and the lines and columns; what every result has is looked at.
fn judge<'r>(result: &'r Json, rules: &[Json]) -> (&'r Json, [u64; 4]) {
    let rule = &rules[usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap()];
    assert_eq!(rule["id"], result["ruleId"]);
    assert!(rule["help"]["text"].as_str().unwrap().len() > 20, "{rule}");
    assert_eq!(result["level"], "error");
    assert!(result["message"]["text"].as_str().unwrap().contains("; "), "no remedy: {result}");
    let uri = uri(result);
    assert!(uri.starts_with("file:///") && uri.ends_with("/a%20model.toml"), "{uri}");
    let region = &result["locations"][0]["physicalLocation"]["region"];
    let number = |name: &str| region[name].as_u64().unwrap_or_else(|| panic!("{region}"));
    (&result["ruleId"], ["startLine", "startColumn", "endLine", "endColumn"].map(number))
}

fn uri(of: &Json) -> &str {
    of["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap()
}

#[tokio::test]
async fn sarif_of_a_sound_model_has_no_result_and_only_check_prints_it() {
    for arguments in [["--format", "sarif", "check", "quality"], ["check", "quality", "--format", "sarif"]] {
        let ran = tablekeeper(&arguments).await;
        let run = &ran.json()["runs"][0];
        assert_eq!((ran.code, &run["results"]), (0, &json!([])));
        assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    }
    for command in [&["audit", "--model", "quality", "--items", "models/quality.items.jsonl"][..], &["explain"]] {
        let ran = tablekeeper(&[command, &["--format", "sarif"]].concat()).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert!(
            ran.err.contains("only `check` prints SARIF") && ran.err.contains("--format text or json"),
            "{}",
            ran.err
        );
    }
}

#[tokio::test]
async fn text_shows_the_line_a_caret_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, FAULTY).unwrap();
    let ran = tablekeeper(&["check", file.to_str().unwrap()]).await;
    let lines: Vec<&str> = ran.out.lines().map(str::trim_end).collect();
    let at = lines.iter().position(|line| line.starts_with("error[C110]")).unwrap();
    let text = r#"11 | attribute.Level = { one_of = ["é", "é"] }"#;
    assert_eq!((lines[at + 3], lines[at + 4]), (text, "   |                                    ^^^"));
    assert_eq!(lines[at + 6], "   = help: keep one");
    assert!(lines[lines.len() - 2].ends_with(": 2 errors") && lines[lines.len() - 1].contains("explain C106"));
    // As Windows writes it: the same text, the same places.
    std::fs::write(&file, format!("\u{feff}{}", FAULTY.replace('\n', "\r\n"))).unwrap();
    assert_eq!(tablekeeper(&["check", file.to_str().unwrap()]).await.out, ran.out);
}
