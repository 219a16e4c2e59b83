//! The program on a machine that has no credentials for AWS, or no Region: it says so, says what to do, and does not try for ever.
//!
//! Nothing leaves the machine: the cloud's metadata service is played on loopback.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::engine::ports::Clock as _;

use crate::program::command;

const NO_CREDENTIALS: &str = "error: there are no credentials for AWS; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
                              or reach a local database by --endpoint";

/// A metadata service that answers every request with this, or never.
fn metadata(answer: Option<&'static str>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the test process; those that it was silent to are kept, or they would see an end.
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let Some(answer) = answer else {
                silent.push(stream);
                continue;
            };
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    address
}

/// A port on which nothing listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

struct Ran {
    code: i32,
    err: String,
    took: Duration,
}

/// Runs the program with an empty home and no environment but this.
fn run(arguments: &[&str], variables: &[(&str, &str)], metadata: SocketAddr) -> Ran {
    let home = tempfile::tempdir().unwrap();
    let mut command = command(arguments);
    command.env_clear().env("HOME", home.path());
    command.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", format!("http://{metadata}"));
    command.envs(variables.iter().copied());
    let clock = SystemClock::new();
    let begun = clock.now();
    let ended = command.output().unwrap();
    let took = (clock.now() - begun).to_std().unwrap_or_default();
    Ran { code: ended.status.code().unwrap(), err: String::from_utf8(ended.stderr).unwrap(), took }
}

const REGION: (&str, &str) = ("AWS_REGION", "eu-west-1");

#[test]
fn odd_settings_are_told_before_anything_is_sent() {
    let keys = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let cases: [(&str, &str, &str); 5] = [
        ("AWS_ACCESS_KEY_ID", "key\n", "the access key id is empty or holds a space"),
        ("AWS_SECRET_ACCESS_KEY", "sec\rret", "the secret access key is empty"),
        ("AWS_REGION", "eu west", "`eu west` is no Region"),
        ("AWS_REGION", "eu-west-1\n", "is no Region"),
        ("AWS_ENDPOINT_URL", "nonsense", "endpoint `nonsense` is not a URL"),
    ];
    for (name, value, expected) in cases {
        let others = keys.iter().chain([&REGION]).filter(|(other, _)| *other != name).copied();
        let variables: Vec<(&str, &str)> = others.chain([(name, value)]).collect();
        let ran = run(&["verify", "--model", "quality"], &variables, nobody());
        assert!(ran.code == 2 && ran.err.contains(expected), "{name}: {} {}", ran.code, ran.err);
    }
}

#[test]
fn without_credentials_every_command_ends_with_2_and_the_remedy() {
    let commands: [&[&str]; 5] = [
        &["verify", "--model", "quality"],
        &["worker", "--model", "quality"],
        &["sweep", "--model", "quality"],
        &["reconcile", "--model", "quality"],
        &["load", "--model", "quality", "--items", "models/quality.items.jsonl"],
    ];
    for arguments in commands {
        for more in [&[REGION][..], &[REGION, ("AWS_EC2_METADATA_DISABLED", "true")]] {
            let ran = run(arguments, more, nobody());
            assert_eq!((ran.code, ran.err.trim_end()), (2, NO_CREDENTIALS), "{arguments:?} {more:?}");
        }
    }
    // Half of a key pair is none.
    let ran = run(commands[0], &[REGION, ("AWS_ACCESS_KEY_ID", "AKIA")], nobody());
    assert_eq!((ran.code, ran.err.trim_end()), (2, NO_CREDENTIALS));
}

#[test]
fn a_metadata_service_that_is_silent_or_refuses_is_not_waited_for_long() {
    for (answer, words) in [
        (None, NO_CREDENTIALS),
        (Some("404 Not Found"), "error: "),
        (Some("500 Oops"), "error: "),
        (Some("403 No"), "error: "),
    ] {
        let ran = run(&["worker", "--model", "quality"], &[REGION], metadata(answer));
        assert!(ran.code == 2 && ran.err.starts_with(words), "{answer:?}: {} {}", ran.code, ran.err);
        assert!(ran.err.contains("set AWS_PROFILE, or AWS_ACCESS_KEY_ID"), "{answer:?}: {}", ran.err);
        assert!(ran.err.lines().count() == 1 && ran.took < Duration::from_secs(20), "{:?}: {}", ran.took, ran.err);
    }
}

#[test]
fn without_a_region_it_ends_with_2_too() {
    for more in [
        &[][..],
        &[("AWS_EC2_METADATA_DISABLED", "true")],
        &[("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "B")],
    ] {
        let ran = run(&["verify", "--model", "quality"], more, nobody());
        assert_eq!(
            (ran.code, ran.err.trim_end()),
            (2, "error: no Region is set; set AWS_REGION, name one in the profile, or give an endpoint"),
            "{more:?}"
        );
    }
}

#[test]
fn a_profile_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    std::fs::write(&config, "[profile other]\nregion = eu-west-1\n").unwrap();
    let profile = ("AWS_PROFILE", "nobody");
    let with_files = ("AWS_CONFIG_FILE", config.to_str().unwrap());
    for more in [&[profile][..], &[profile, REGION], &[profile, with_files], &[profile, REGION, with_files]] {
        let ran = run(&["verify", "--model", "quality"], more, nobody());
        assert!(ran.code == 2 && ran.err.contains("nobody") && ran.err.contains("set AWS_"), "{more:?}: {}", ran.err);
        let says = ran.err.contains("there is no profile `nobody`, or it holds none;") && !ran.err.contains("metadata");
        assert!(says || !more.contains(&REGION), "{more:?}: {}", ran.err);
    }
}

#[test]
fn a_place_on_aws_is_not_asked_without_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let loaded =
        command(&["load", "--model", "quality", "--items", "models/quality.items.jsonl", "--data-dir", folder])
            .output()
            .unwrap();
    assert!(loaded.status.success(), "{loaded:?}");
    for from in ["s3://bucket", "sqs://queue", "https://sqs.eu-west-1.amazonaws.com/111122223333/queue"] {
        for more in [&["--data-dir", folder][..], &[]] {
            let arguments = [&["redrive", "--model", "quality", "--from", from], more].concat();
            let ran = run(&arguments, &[REGION, ("AWS_EC2_METADATA_DISABLED", "true")], nobody());
            let told = ran.err.trim_end();
            assert!(
                ran.code == 2 && NO_CREDENTIALS.starts_with(told) && told.contains("set AWS_PROFILE"),
                "{from} {more:?}: {} {told}",
                ran.code
            );
            let ran = run(&arguments, &[REGION, ("AWS_PROFILE", "nobody")], nobody());
            assert!(
                ran.code == 2 && ran.err.contains("there is no profile `nobody`, or it holds none;"),
                "{from} {more:?}: {}",
                ran.err
            );
        }
    }
}

#[test]
fn an_endpoint_where_nobody_answers_is_named() {
    let endpoint = format!("http://{}", nobody());
    let ran = run(&["verify", "--model", "quality", "--endpoint", &endpoint], &[], nobody());
    let words = format!("nothing answers at {endpoint}: connection refused");
    assert!(ran.code == 3 && ran.err.contains(&words), "{} {}", ran.code, ran.err);
}
