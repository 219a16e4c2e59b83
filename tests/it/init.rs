//! `init`: what it writes is sound and fits together, and nothing that is there is touched.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use tablekeeper::model::load::load;
use tablekeeper::model::shipped::SHIPPED;

use crate::kept::tablekeeper;

/// Files of a folder with what is in them.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap()))
        .collect()
}

#[tokio::test]
async fn every_beginning_is_sound_and_its_files_fit_together() {
    let mut beginnings = vec![(vec![], "my-table", None), (vec!["--name", "orders"], "orders", None)];
    for shipped in SHIPPED {
        beginnings.push((vec!["--from-model", shipped.name], shipped.name, Some(shipped)));
        beginnings.push((vec!["--from-model", shipped.name, "--name", "plant-7"], "plant-7", Some(shipped)));
    }
    for (arguments, name, from) in beginnings {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a new folder");
        let init = [&["init", "--out", out.to_str().unwrap()][..], &arguments].concat();
        let ran = tablekeeper(&init).await;
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{init:?}");
        let files = files(&out);
        let file = format!("{name}.toml");
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        let mut expected = [file.as_str(), "parameters.json", "stack.yaml"];
        expected.sort_unstable();
        assert_eq!(names, expected);

        let model = out.join(&file);
        let checked = tablekeeper(&["check", model.to_str().unwrap()]).await;
        assert!(checked.code == 0 && checked.out.starts_with("sound"), "{}{}", checked.out, checked.err);
        let loaded = load(&files[&file], name).unwrap();
        assert_eq!(loaded.warnings.len(), from.map_or(0, |from| load(from.source, name).unwrap().warnings.len()));
        let loaded = loaded.model;
        assert_eq!(loaded.name, name);
        if let Some(from) = from {
            let of = load(from.source, from.name).unwrap().model;
            assert_eq!(format!("{:?}", loaded.entities), format!("{:?}", of.entities));
            assert!(files[&file].starts_with(&format!("# Begun as a copy of Tablekeeper's model `{}`", from.name)));
        }

        // The template is what `infra` prints for the file, and the parameters are the template's.
        let printed = tablekeeper(&["infra", "--model", model.to_str().unwrap()]).await;
        assert_eq!(files["stack.yaml"].trim_end(), printed.out.trim_end());
        let parameters: Json = serde_json::from_str(&files["parameters.json"]).unwrap();
        let mut given = BTreeMap::new();
        for parameter in parameters.as_array().unwrap() {
            assert_eq!(parameter.as_object().unwrap().len(), 2, "the form that AWS's tool takes: {parameter}");
            given.insert(parameter["ParameterKey"].as_str().unwrap(), parameter["ParameterValue"].as_str().unwrap());
        }
        for name in given.keys() {
            assert!(files["stack.yaml"].contains(&format!("\n  {name}:\n    Type: ")), "no parameter {name}");
        }
        // What the model says is in the template alone: it would be of before when the model changes.
        let names: Vec<&str> = given.keys().copied().collect();
        assert_eq!(names, ["AlarmEmail", "CodeBucket", "CodeKey", "ExistingStreamArn", "ScheduleCodeKey"]);
        let table = &loaded.table;
        for said in [&file, &table.name, &table.state_table, loaded.zone.name()] {
            assert!(files["stack.yaml"].contains(&format!("\n    Default: \"{said}\"\n")), "{said}");
        }
    }
}

#[tokio::test]
async fn the_example_derives_of_each_kind_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(tablekeeper(&["init", "--out", &path("")]).await.code, 0);
    let item = json!({"PK": "DEVICE#d1", "SK": "DEVICE#d1", "GSI1PK": "SITE#north", "GSI1SK": "DEVICE#d1", "Site": "north",
        "Status": "Active", "CalibrationDue": "2026-12-31"});
    fs::write(path("items.jsonl"), item.to_string()).unwrap();
    let arguments = ["derive", "--model", &path("my-table.toml"), "--items", &path("items.jsonl"), "--format", "json"];
    let ran = tablekeeper(&arguments).await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for key in ["SITE_STATS#north", "SITE_DEVICES#north", "DUE#2026-12-31#d1", "calibration"] {
        assert!(ran.out.contains(key), "{key}: {}", ran.out);
    }
}

#[tokio::test]
async fn what_is_there_is_named_and_stays() {
    for there in ["my-table.toml", "parameters.json", "stack.yaml"] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(there), "mine").unwrap();
        let ran = tablekeeper(&["init", "--out", folder.path().to_str().unwrap()]).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert!(ran.err.contains(there) && ran.err.contains("--out DIR"), "{}", ran.err);
        assert_eq!(files(folder.path()), BTreeMap::from([(there.to_owned(), "mine".to_owned())]), "nothing beside it");
    }
    // A link that leads nowhere is something, too.
    #[cfg(unix)]
    {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(folder.path().join("nowhere"), folder.path().join("stack.yaml")).unwrap();
        let ran = tablekeeper(&["init", "--out", folder.path().to_str().unwrap()]).await;
        assert!(ran.code == 2 && !folder.path().join("nowhere").exists(), "{}", ran.err);
    }
    let ran = tablekeeper(&["init", "--out", "Cargo.toml/x"]).await;
    assert!(ran.code == 2 && ran.err.contains("Cargo.toml/x"), "{}", ran.err);
}

#[tokio::test]
async fn the_next_commands_are_printed_and_work() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("it's here");
    let ran = tablekeeper(&["init", "--name", "orders", "--out", out.to_str().unwrap(), "--format", "json"]).await;
    let written = ran.json();
    assert_eq!(written["model"], json!(out.join("orders.toml").to_str().unwrap()));
    let steps = written["next"].as_array().unwrap();
    let next: Vec<&str> = steps.iter().map(|step| step["command"].as_str().unwrap()).collect();
    assert!(next[5].starts_with("aws cloudformation deploy --stack-name orders --template-file "), "{next:?}");
    assert!(next[5].contains("--parameter-overrides 'file:///"), "{next:?}");
    assert!(steps[5]["when"].as_str().unwrap().contains("AWS CLI version 2"), "{steps:?}");
    // As a shell takes them.
    let before = files(&out);
    for command in &next[..2] {
        let script = command.replacen("tablekeeper", concat!("'", env!("CARGO_BIN_EXE_tablekeeper"), "'"), 1);
        let ended = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(ended.status.success(), "{command}: {}", String::from_utf8_lossy(&ended.stderr));
    }
    assert_eq!(files(&out), before, "the template is what it was");

    let text = tablekeeper(&["init", "--name", "stock", "--out", out.to_str().unwrap()]).await;
    assert_eq!(text.code, 2, "parameters.json is there");
    let other = folder.path().join("other");
    let text = tablekeeper(&["init", "--name", "stock", "--out", other.to_str().unwrap()]).await.out;
    for word in [
        "wrote",
        "Next",
        "tablekeeper check ",
        "tablekeeper infra --model ",
        "cargo lambda build ",
        "zip --junk-paths ",
        "aws s3 cp ",
        "aws cloudformation deploy --stack-name stock ",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

/// What is built, packed, copied and deployed is the same in `infra/README.md`.
#[tokio::test]
async fn the_way_to_a_stack_is_that_of_the_documentation() {
    let words = |text: &str| text.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let readme = words(&fs::read_to_string("infra/README.md").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let ran = tablekeeper(&["init", "--name", "my-model", "--out", out, "--format", "json"]).await;
    for step in &ran.json()["next"].as_array().unwrap()[2..5] {
        let command = step["command"].as_str().unwrap().replace(&format!("{out}/"), "");
        assert!(readme.contains(&words(&command)), "{command}");
    }
    let parameters: Vec<Json> = serde_json::from_str(&files(folder.path())["parameters.json"]).unwrap();
    for (function, name) in [("lambda-stream", "CodeKey"), ("lambda-schedule", "ScheduleCodeKey")] {
        let given = parameters.iter().find(|given| given["ParameterKey"] == name).unwrap();
        let key = given["ParameterValue"].as_str().unwrap();
        assert!(key.ends_with(&format!("/{function}/bootstrap.zip")), "{key}");
        assert!(readme.contains(&format!(" {name}={key} ")), "{name}={key}");
    }
}

#[tokio::test]
async fn names_and_models_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let long = "n".repeat(65);
    for name in ["ab", "7up", "a.b.c", "a/b/c", "", &long] {
        let ran = tablekeeper(&["init", "--out", out.to_str().unwrap(), "--name", name]).await;
        assert!(ran.code == 2 && ran.err.contains(&format!("--name `{name}`")), "{}", ran.err);
    }
    let ran = tablekeeper(&["init", "--out", out.to_str().unwrap(), "--from-model", "quallity"]).await;
    assert!(ran.code == 2 && ran.err.contains("quality, inspection, skills"), "{}", ran.err);
    assert!(!out.exists());
    let longest = format!("n{}", "_".repeat(63));
    let ran = tablekeeper(&["init", "--out", out.to_str().unwrap(), "--name", &longest]).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains(&format!("--stack-name n{} ", "-".repeat(63))), "{}", ran.out);
}
