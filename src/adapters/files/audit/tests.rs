//! Sources through an audit: any number of threads, keys that come again, keys on disk.

use super::*;
use crate::derive::testing::{entity, model as bare};
use crate::engine::audit::Summary;

fn model() -> Model {
    let mut model = bare("PK", "SK");
    model.entities = vec![entity("User", "USER#{user}", "HEAD")];
    model
}

fn run(text: &str, threads: usize, keys_in_memory: usize) -> (Summary, Reading) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let source = Source::of(file.path(), None).unwrap();
    let (model, options) = (model(), Options { threads, keys_in_memory, samples: 3, ..Options::default() });
    let (audit, reading, ()) = audit(&model, &source, &options, || ()).unwrap();
    (audit.finish(), reading)
}

fn user(number: usize, sort: &str) -> String {
    format!("{{\"PK\":\"USER#{number}\",\"SK\":\"{sort}\"}}\n")
}

#[test]
fn any_number_of_threads_finds_the_same() {
    let mut text: String = (0..2_000).map(|number| user(number, ["HEAD", "FOOT"][number % 2])).collect();
    text.push_str("[1]\n{\"PK\":\"USER#x\"}\n{\"PK\":\"K\",\"SK\":\"x\",\"_keeper\":\"listing/x\"}\n");
    let (one, read) = run(&text, 1, 1 << 20);
    assert_eq!((one.items(), one.findings(), read.derived), (2_000, 1_000, 1));
    let faults: Vec<String> = read.faults.iter().map(|(place, fault)| format!("{} {fault}", place.line)).collect();
    assert!(faults.len() == 2 && faults[0].starts_with("2001 `[1]`"), "{faults:?}");
    assert!(faults[1].starts_with("2002 no key: `SK` is absent"), "{faults:?}");
    for threads in [2, 5] {
        assert_eq!(format!("{:?}", run(&text, threads, 64).0), format!("{one:?}"), "{threads}");
    }
}

#[test]
fn of_lines_with_one_key_the_last_is_judged_wherever_keys_are_kept() {
    // Every key twice, and a line that holds none.
    let mut text: String =
        (0..300).map(|number| user(number % 150, if number < 150 { "HEAD" } else { "FOOT" })).collect();
    text.push_str("[1]\n");
    let twice = text.replace("FOOT", "HEAD");
    for keys_in_memory in [1 << 20, 10] {
        let (summary, read) = run(&twice, 2, keys_in_memory);
        assert_eq!((summary.items(), summary.findings(), read.superseded_lines), (150, 0, 150));
        assert_eq!(read.superseded.len(), TOLD_MAX);
        let first = Superseded { line: 1, by_line: 151, key: "USER#0 / HEAD".to_owned() };
        assert_eq!((&read.superseded[0], read.faults.all()), (&first, 1));
        // Different keys are not.
        let (summary, read) = run(&text, 2, keys_in_memory);
        assert_eq!((summary.items(), summary.findings(), read.superseded_lines), (300, 150, 0));
    }
}
