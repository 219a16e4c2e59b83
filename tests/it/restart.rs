//! Programs that are started again, and programs that cannot start: a second run on kept data, and errors that say what to do.

use std::time::Duration;

use aws_sdk_dynamodb::types::{StreamSpecification, StreamViewType};
use tablekeeper::adapters::dynamodb::Connection;
use tablekeeper::adapters::embedded::Embedded;
use tablekeeper::model::load::load;

use crate::kept::items;
use crate::program::{Ended, Program, run};

/// Longest that a program may take to say that it cannot start.
const REFUSAL: Duration = Duration::from_secs(20);

async fn demo(model: &str, kept: &std::path::Path, day: &str) -> Ended {
    let (data, out) = (kept.join("data"), kept.join("out"));
    let [data, out] = [&data, &out].map(|path| path.to_str().unwrap());
    run(&["--format", "json", "demo", "--model", model, "--data-dir", data, "--out", out, "--as-of", day])
        .await
        .expect(0)
}

fn assert_exact(ended: &Ended) {
    let said = ended.json();
    assert_eq!(said["verify"]["differences"].as_array().unwrap().len(), 0, "{said}");
    assert!(said["verify"]["source_items"].as_u64().unwrap() > 10, "{said}");
}

/// The same day again, then the next one.
async fn again(model: &str) {
    let kept = tempfile::tempdir().unwrap();
    let sent = |ended: &Ended| ended.json()["sweep"]["sent"].as_array().map_or(0, Vec::len);
    let first = demo(model, kept.path(), "2026-11-30").await;
    assert_exact(&first);
    let second = demo(model, kept.path(), "2026-11-30").await;
    assert_exact(&second);
    assert_eq!(first.json()["verify"]["source_items"], second.json()["verify"]["source_items"]);
    // What was told stays told.
    assert_eq!(sent(&second), 0, "{}", second.out);
    assert_exact(&demo(model, kept.path(), "2026-12-01").await);
}

#[tokio::test]
async fn the_quality_demo_runs_again_on_its_data() {
    again("quality").await;
}

#[tokio::test]
async fn the_inspection_demo_runs_again_on_its_data() {
    again("inspection").await;
}

#[tokio::test]
async fn the_skills_demo_runs_again_on_its_data() {
    again("skills").await;
}

#[tokio::test]
async fn a_demo_that_was_killed_runs_again_on_its_data() {
    let kept = tempfile::tempdir().unwrap();
    let (data, out) = (kept.path().join("data"), kept.path().join("out"));
    let [data, out] = [&data, &out].map(|path| path.to_str().unwrap());
    for after in [100, 250, 400, 600, 800] {
        let begun = Program::start(&["demo", "--data-dir", data, "--out", out, "--as-of", "2026-11-30"]);
        tokio::time::sleep(Duration::from_millis(after)).await;
        begun.kill().await;
    }
    assert_exact(&demo("quality", kept.path(), "2026-11-30").await);
}

/// The exit code and the words of a worker that cannot start.
async fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let ended = run(&[&["worker", "--until-idle"], arguments].concat()).await.expect(code);
    assert!(ended.took < REFUSAL, "{arguments:?}: {:?}", ended.took);
    for word in words {
        assert!(ended.says(word), "{arguments:?}: no `{word}` in {:?}", ended.log);
    }
    let errors = ended.log.iter().filter(|line| line.starts_with("error:")).count();
    assert_eq!(errors, 1, "{:?}", ended.log);
    assert!(ended.log.iter().all(|line| !line.contains('\u{1b}')), "colours without a terminal: {:?}", ended.log);
}

#[tokio::test]
async fn a_worker_that_cannot_start_says_why() {
    let database = Embedded::start(None).unwrap();
    let endpoint = &database.endpoint().to_owned();
    let connection = Connection::local(endpoint).await.unwrap();
    let model = load(include_str!("../../models/quality.toml"), "quality").unwrap().model;
    connection.create_table(&model.table).await.unwrap();
    connection.ensure_state_table("no-stream").await.unwrap();

    let at = ["--model", "quality", "--endpoint", endpoint];
    refused(&[&at[..], &["--table", "nothing"]].concat(), 2, &["no table `nothing`", "create it"]).await;
    refused(&[&at[..], &["--table", "no-stream"]].concat(), 2, &["`no-stream`", "no stream", "enable one"]).await;
    // Another model's keys: nothing of the table could be read by it.
    let words = ["its keys are `PK` (S) and `SK` (S)", "the model declares `EntityType` (S)"];
    refused(&["--model", "skills", "--table", &model.table.name, "--endpoint", endpoint], 2, &words).await;
    database.shutdown().await;
    // Nobody listens there any more; whoever starts the worker may try again later.
    refused(&at, 3, &["`quality`", "not to be reached", "refused"]).await;
    for nonsense in ["ftp://x", "http://", "127.0.0.1:8000"] {
        refused(&["--model", "quality", "--endpoint", nonsense], 2, &["is not a URL"]).await;
    }
    refused(&["--model", "no-such-model", "--endpoint", "http://127.0.0.1:9"], 2, &["no-such-model"]).await;
}

#[tokio::test]
async fn a_worker_stops_at_once_while_it_waits_for_a_database() {
    // Takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let worker = Program::start(&["worker", "--model", "quality", "--endpoint", &endpoint]);
    // The worker is waiting when its request has come.
    let accepted = tokio::task::spawn_blocking(move || silent.accept().map(|(connection, _)| (silent, connection)));
    let _open = tokio::time::timeout(REFUSAL, accepted).await.unwrap().unwrap().unwrap();
    worker.terminate();
    let ended = worker.end().await.expect(0);
    assert!(ended.took < REFUSAL, "{:?}", ended.took);
}

/// Switches the table's stream on or off; one that is switched on again is another one.
pub async fn switch_stream(connection: &Connection, table: &str, enabled: bool) {
    let view = enabled.then_some(StreamViewType::NewAndOldImages);
    let stream = StreamSpecification::builder().stream_enabled(enabled).set_stream_view_type(view).build().unwrap();
    let request = connection.client().update_table().table_name(table).stream_specification(stream);
    request.send().await.unwrap();
}

#[tokio::test]
async fn a_running_worker_goes_over_to_a_stream_that_was_switched_off_and_on() {
    let database = Embedded::start(None).unwrap();
    let connection = Connection::local(database.endpoint()).await.unwrap();
    let table = load(include_str!("../../models/quality.toml"), "quality").unwrap().model.table;
    connection.create_table(&table).await.unwrap();
    let at = ["--model", "quality", "--endpoint", database.endpoint()];
    let worker = Program::start(&[&["worker", "--poll-ms", "10"], &at[..]].concat());
    worker.at_work().await;
    for enabled in [false, true] {
        switch_stream(&connection, &table.name, enabled).await;
    }
    connection.put_items(&table.name, &items("quality.items.jsonl")).await.unwrap();
    worker.says("the table has a new stream", 1, REFUSAL).await;
    let verify = [&["verify", "--passes", "1"], &at[..]].concat();
    let mut looks = 0;
    while run(&verify).await.code != Some(0) {
        looks += 1;
        assert!(looks < 50, "the new stream is not read");
    }
    worker.terminate();
    let stopped = worker.end().await.expect(0);
    assert!(stopped.says("the table has a new stream"), "{}", stopped.log.join("\n"));
}
