//! What the program says of itself and of what went wrong: help, errors as text and as JSON, logs without strangers' lines.

use serde_json::{Value as Json, json};

use crate::kept::tablekeeper;

const SAMPLE: &str = "models/quality.items.jsonl";

/// Everything on standard error, which must be one object.
fn error(err: &str) -> Json {
    let parsed: Json = serde_json::from_str(err).unwrap_or_else(|error| panic!("{error}: {err}"));
    parsed["error"].clone()
}

#[tokio::test]
async fn an_error_is_json_for_those_who_asked_for_it() {
    let none = "no-such-file.jsonl";
    let cases: [(&[&str], u8, &str); 6] = [
        (&["audit", "--model", "quality", "--items", none], 2, none),
        (&["verify", "--model", "quality", "--endpoint", "127.0.0.1:1"], 2, "is not a URL"),
        (&["verify", "--model", "quality", "--endpoint", "http://127.0.0.1:1"], 3, "not to be reached"),
        (&["check", "no-such-model"], 2, "no-such-model"),
        // What the parser of arguments refuses, too.
        (&["sweep", "--model", "quality", "--as-of", "9999-12-31"], 2, "9999-12-31"),
        (&["audti"], 2, "audti"),
    ];
    for (arguments, code, word) in cases {
        for format in [&["--format", "json"][..], &["--format=json"]] {
            let ran = tablekeeper(&[arguments, format].concat()).await;
            assert_eq!((ran.code, ran.out.as_str()), (i32::from(code), ""), "{arguments:?}: {}", ran.err);
            let error = error(&ran.err);
            assert_eq!(error["exit"], json!(code));
            assert!(error["message"].as_str().unwrap().contains(word), "{error}");
        }
        let text = tablekeeper(arguments).await;
        assert!(text.err.starts_with("error:") && text.code == i32::from(code), "{}", text.err);
    }
    // All faults of a model are in the one object, with their places.
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.toml");
    std::fs::write(&bad, "version = 2\ntabel = 1\n").unwrap();
    for (command, option) in [("derive", "--model"), ("report", "--report")] {
        let mut arguments = vec![command, "--items", SAMPLE, "--format", "json", option, bad.to_str().unwrap()];
        arguments.extend((option == "--report").then_some(["--model", "quality"]).into_iter().flatten());
        let ran = tablekeeper(&arguments).await;
        assert_eq!(ran.code, 2, "{}", ran.err);
        let message = error(&ran.err)["message"].as_str().unwrap().to_owned();
        assert!(message.contains("bad.toml:2:1: error["), "{message}");
    }
    // Help is no error.
    let help = tablekeeper(&["audit", "--format", "json", "--help"]).await;
    assert!(help.code == 0 && help.out.contains("Usage:"), "{}", help.err);
}

#[tokio::test]
async fn lines_that_hold_no_item_are_in_the_result_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("items.jsonl");
    std::fs::write(&file, "{\"PK\":1}\n[1]\n").unwrap();
    let file = file.to_str().unwrap();
    for command in ["derive", "audit"] {
        let at = [command, "--model", "quality", "--items", file];
        let ran = tablekeeper(&[&at[..], &["--format", "json"]].concat()).await;
        let said = ran.json();
        // An object each on standard error, as all errors are.
        let errors: Vec<Json> = ran.err.lines().map(error).collect();
        assert!(errors.len() == 2 && errors.iter().all(|error| error["exit"] == 3), "{}", ran.err);
        assert_eq!([&errors[0]["message"], &errors[1]["message"]], [&said["unread"][0], &said["unread"][1]]);
        let unread = said["unread"].as_array().unwrap();
        assert_eq!(unread.len(), 2);
        // What is there is not called absent.
        assert!(
            unread[0].as_str().unwrap().ends_with("line 1: no key: `SK` is absent; give it a value of type S, N or B")
        );
        let text = tablekeeper(&at).await;
        assert_eq!(text.code, 3);
        assert!(text.out.contains("; 2 lines without an item"), "{}", text.out);
    }
}

/// Whatever is said beside the result can be read by whoever asked for JSON: the end of a load, a line that is passed over, the
/// many lines that are not shown one by one.
#[tokio::test]
async fn nothing_on_standard_error_is_text_for_those_who_asked_for_json() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let item = "{\"PK\":\"USER#t1\",\"SK\":\"METADATA\"}\n";
    let twice = write("twice.jsonl", item.repeat(2));
    let broken = write("broken.jsonl", "[1]\n".repeat(12));
    let data = folder.path().join("data");
    let read = |items: &str| ["--model", "quality", "--format", "json", "--items", items].map(str::to_owned);
    let said = async |command: &str, items: &str, more: &[&str]| {
        let arguments = read(items);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let ran = tablekeeper(&[&[command], &arguments[..]].concat()).await;
        let lines = ran.err.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{}", ran.err)));
        (ran.code, lines.collect::<Vec<Json>>())
    };
    let (_, warned) = said("audit", &twice, &[]).await;
    let message = warned[0]["warning"]["message"].as_str().unwrap();
    assert!(warned.len() == 1 && message.contains("line 1 is passed over"), "{message}");
    let (code, errors) = said("audit", &broken, &[]).await;
    assert_eq!((code, errors.len()), (3, 11));
    assert_eq!(errors[10]["error"], json!({"message": "... and 2 more", "exit": 3}));
    let (code, errors) = said("load", &broken, &["--data-dir", data.to_str().unwrap()]).await;
    assert_eq!((code, errors.len()), (2, 12));
    assert_eq!(errors[0]["error"]["exit"], 2, "nothing was written");
    assert!(errors[11]["error"]["message"].as_str().unwrap().contains("nothing was written"), "{}", errors[11]);
}

#[tokio::test]
async fn every_command_shows_examples() {
    let help = tablekeeper(&["--help"]).await.out;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> = commands
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() >= 13 && names.contains(&"load"), "{names:?}");
    for name in names {
        let help = tablekeeper(&[name, "--help"]).await.out;
        // These two are described beside what they do.
        assert!(help.contains("Example") || ["verify", "reconcile"].contains(&name), "{name}: {help}");
    }
}

#[tokio::test]
async fn a_report_that_nobody_named_is_answered_with_those_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let model = std::fs::read_to_string("models/quality.toml").unwrap();
    let path = folder.path().join("bare.toml");
    std::fs::write(&path, model.replace("names = [\"quality-weekly\"]", "names = []")).unwrap();
    let ran = tablekeeper(&["report", "--model", path.to_str().unwrap(), "--items", SAMPLE]).await;
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("quality-weekly, inspection-weekly, skills"), "{}", ran.err);
}

#[tokio::test]
async fn rules_of_every_family_are_explained() {
    for (code, word) in [("K101", "key-breaks-template"), ("C130", "overlap"), ("c208", "C208"), ("A309", "listing")] {
        let ran = tablekeeper(&["explain", code]).await;
        assert!(ran.code == 0 && ran.out.contains(word), "{code}: {} {}", ran.out, ran.err);
    }
}

#[tokio::test]
async fn the_whole_catalogue_is_one_page() {
    let all = tablekeeper(&["explain", "--format", "json"]).await;
    let all: Vec<Json> = serde_json::from_str(&all.out).unwrap();
    let markdown = tablekeeper(&["explain", "--page", "-"]).await;
    assert_eq!((markdown.code, markdown.err.as_str()), (0, ""));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.html");
    let wrote = tablekeeper(&["explain", "--page", path.to_str().unwrap()]).await;
    assert!(wrote.out.contains(&format!("{} rules", all.len())), "{}", wrote.out);
    let html = std::fs::read_to_string(&path).unwrap();
    for rule in &all {
        let (code, name) = (rule["code"].as_str().unwrap(), rule["name"].as_str().unwrap());
        assert_eq!(markdown.out.matches(&format!("### {code} {name} (")).count(), 1, "{code}");
        assert_eq!(html.matches(&format!("<h3 id=\"{code}\">{code} {name} (")).count(), 1, "{code}");
    }
    // What looks like markup in a rule's words is text.
    assert!(html.contains("<code>&lt;user&gt;</code>") && !html.contains("<user>") && !html.contains("<script"));
    let nowhere = tablekeeper(&["explain", "--page", folder.path().join("no/rules.md").to_str().unwrap()]).await;
    assert!(nowhere.code == 2 && nowhere.err.contains("a folder that is there"), "{}", nowhere.err);
    let both = tablekeeper(&["explain", "G201", "--page", "-"]).await;
    assert_eq!(both.code, 2);
}

#[tokio::test]
async fn a_rule_and_the_list_of_codes_fit_a_terminal() {
    let ran = tablekeeper(&["explain", "P903"]).await;
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[..3], ["P903 refused-by-database (error)", "", "What"]);
    assert!(lines[3].starts_with("  DynamoDB refused") && !ran.out.contains('#'), "{}", ran.out);
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{}", ran.out);
    let all = tablekeeper(&["explain", "--format", "json"]).await;
    let all: Json = serde_json::from_str(&all.out).unwrap();
    let codes: Vec<&str> = all.as_array().unwrap().iter().map(|rule| rule["code"].as_str().unwrap()).collect();

    let unknown = tablekeeper(&["explain", "X999"]).await;
    let lines: Vec<&str> = unknown.err.lines().collect();
    assert_eq!((unknown.code, lines[0]), (2, "error: no rule `X999`; there are"), "{}", unknown.err);
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{}", unknown.err);
    let told: Vec<&str> = lines[1..lines.len() - 1].iter().flat_map(|line| line.split_whitespace()).collect();
    assert_eq!(told, codes);
    let unknown = tablekeeper(&["explain", "X999", "--format", "json"]).await;
    assert_eq!(error(&unknown.err)["message"], json!(format!("no rule `X999`; there are {}", codes.join(", "))));
}

#[tokio::test]
async fn what_the_parser_refuses_is_one_line_for_those_who_asked_for_json() {
    let cases: [(&[&str], &str); 4] = [
        (&["audit"], "the following required arguments were not provided: --model <FILE|NAME>"),
        (&["audti"], "unrecognized subcommand 'audti'; tip: a similar subcommand exists: 'audit'"),
        (&["check", "--modle", "x"], "unexpected argument '--modle' found"),
        (&["sweep", "--model"], "a value is required for '--model <FILE|NAME>' but none was supplied"),
    ];
    for (arguments, message) in cases {
        let ran = tablekeeper(&[&["--format", "json"], arguments].concat()).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}");
        let said = error(&ran.err);
        let said = said["message"].as_str().unwrap();
        assert!(said.starts_with(message) && !said.contains("Usage:") && !said.contains('\n'), "{said}");
    }
}

#[tokio::test]
async fn no_region_is_one_line_without_the_sdk_s_own_search() {
    for arguments in [&["worker", "--model", "quality"][..], &["worker", "--model", "quality", "--log-json"]] {
        let ran = tablekeeper(arguments).await;
        assert_eq!(ran.code, 2, "{}", ran.err);
        let lines: Vec<&str> = ran.err.lines().collect();
        assert_eq!(lines, ["error: no Region is set; set AWS_REGION, name one in the profile, or give an endpoint"]);
    }
}

#[tokio::test]
async fn a_second_demo_says_what_it_does_and_begins_its_file_anew() {
    let kept = tempfile::tempdir().unwrap();
    let path = |name: &str| kept.path().join(name).to_str().unwrap().to_owned();
    let (data, out) = (path("data"), path("out"));
    let demo = ["demo", "--data-dir", &data, "--out", &out, "--as-of", "2026-11-30"];
    let first = tablekeeper(&demo).await;
    assert!(first.code == 0 && !first.out.contains("Again:"), "{}", first.err);
    let notifications = || std::fs::read_to_string(kept.path().join("out/notifications.jsonl")).unwrap();
    let told = notifications();
    assert!(told.lines().count() >= 2, "{told}");
    let second = tablekeeper(&demo).await;
    assert_eq!(second.code, 0, "{}", second.err);
    assert!(second.out.starts_with("Again:") && second.out.contains("holds this demo already"), "{}", second.out);
    assert!(second.out.contains("For a fresh start give another --data-dir"), "{}", second.out);
    // What was told stays told, and is not in the file of this run.
    assert_eq!(notifications(), "");
    // In memory every run is a first one.
    let fresh = tablekeeper(&["demo", "--out", &out, "--as-of", "2026-11-30"]).await;
    assert!(fresh.code == 0 && !fresh.out.contains("Again:"), "{}", fresh.err);
    assert_eq!(notifications().lines().count(), told.lines().count());
}
