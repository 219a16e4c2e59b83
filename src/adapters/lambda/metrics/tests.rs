use serde_json::Value;

use super::*;
use crate::adapters::lambda::{NothingDurable, Reporting};
use crate::engine::batch::GivenUp;
use crate::engine::telemetry::METRICS;
use crate::engine::telemetry::readings::Consumption;
use crate::model::event::StreamEvent;
use crate::model::key::TableKey;

const EVENT: &str = r#"{"Records":[{"dynamodb":{"SequenceNumber":"111","ApproximateCreationDateTime":1772359200}},
    {"dynamodb":{"SequenceNumber":"222","ApproximateCreationDateTime":1772359230}}]}"#;

fn now() -> DateTime<Utc> {
    "2026-03-01T10:00:42.5Z".parse().unwrap()
}

fn report() -> BatchReport {
    BatchReport {
        records: 2,
        applied: 1,
        quarantined: 1,
        transactions: 1,
        actions: 9,
        findings: BTreeMap::from([("P902".to_owned(), 1)]),
        given_up: vec![GivenUp {
            code: "P902".to_owned(),
            key: Some(TableKey::text("USER#secret", "x")),
            sequence: None,
            event_id: None,
            reason: String::new(),
        }],
        ..BatchReport::default()
    }
}

fn spent() -> Consumption {
    Consumption { read_units: 2.5, write_units: 12.0, requests: vec![("get", 1), ("transact", 1), ("scan", 0)] }
}

/// The line of an invocation that applied `durable` of the event's two records.
fn line(durable: usize) -> String {
    let event = StreamEvent::parse(EVENT).unwrap();
    let result = match durable {
        2 => Ok(event.done()),
        durable => event.answer(durable, Reporting::ItemFailures, "throttled").map_err(InvocationError::from),
    };
    let batch = Batch::new(&event.records, durable, report());
    let readings = [invocation(&result, Some(&batch), now()), spent().readings()].concat();
    document("orders", now(), &readings).unwrap()
}

fn value(line: &str, name: &str) -> Option<f64> {
    serde_json::from_str::<Value>(line).unwrap()[name].as_f64()
}

/// What the specification of the format demands of a document; answers with the names of its metrics.
fn valid(line: &str) -> Vec<String> {
    const UNITS: [&str; 2] = ["Seconds", "Count"];
    assert!(!line.contains('\n') && line.len() < 256 * 1024, "one event of a log");
    let root: Value = serde_json::from_str(line).unwrap();
    assert!(root["_aws"]["Timestamp"].is_u64(), "{line}");
    assert_eq!(root["_aws"].as_object().unwrap().len(), 2, "no other members: {line}");
    let mut names = Vec::new();
    let directives = root["_aws"]["CloudWatchMetrics"].as_array().unwrap();
    assert!(!directives.is_empty(), "{line}");
    for directive in directives {
        assert_eq!(directive.as_object().unwrap().len(), 3, "no other members: {line}");
        assert!((1..=1024).contains(&directive["Namespace"].as_str().unwrap().len()));
        for dimensions in directive["Dimensions"].as_array().unwrap() {
            assert!((1..=30).contains(&dimensions.as_array().unwrap().len()));
            for dimension in dimensions.as_array().unwrap() {
                // A target member that is a text, not empty.
                let target = root[dimension.as_str().unwrap()].as_str().unwrap();
                assert!((1..=1024).contains(&target.len()), "{target}");
            }
        }
        let metrics = directive["Metrics"].as_array().unwrap();
        assert!((1..=100).contains(&metrics.len()), "{} metrics", metrics.len());
        for metric in metrics {
            let name = metric["Name"].as_str().unwrap();
            assert!((1..=255).contains(&name.len()) && name.is_ascii(), "{name}");
            assert!(UNITS.contains(&metric["Unit"].as_str().unwrap()), "{metric}");
            assert!(root[name].is_number(), "a target member for {name}: {line}");
            names.push(name.to_owned());
        }
    }
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
    names
}

#[test]
fn a_line_has_this_shape() {
    let metric = |name: &str, unit: &str| format!(r#"{{"Name":"tablekeeper_{name}","Unit":"{unit}"}}"#);
    let metrics = [
        metric("transactions_total", "Count"),
        metric("transaction_actions_total", "Count"),
        metric("findings_written_total.P902", "Count"),
        metric("records_total.applied", "Count"),
        metric("records_total.quarantined", "Count"),
        metric("lag_seconds", "Seconds"),
        metric("batches_total.applied", "Count"),
        metric("batch_records", "Count"),
        metric("consumed_units_total.read", "Count"),
        metric("consumed_units_total.write", "Count"),
        metric("requests_total.get", "Count"),
        metric("requests_total.transact", "Count"),
    ];
    let expected = [
        r#"{"_aws":{"Timestamp":1772359242500,"CloudWatchMetrics":[{"Namespace":"Tablekeeper","Dimensions":[["table"]],"Metrics":["#,
        &metrics.join(","),
        r#"]}]},"level":"INFO","timestamp":"2026-03-01T10:00:42.500Z","table":"orders","#,
        r#""tablekeeper_batch_records":2,"tablekeeper_batches_total.applied":1,"tablekeeper_consumed_units_total.read":2.5,"#,
        r#""tablekeeper_consumed_units_total.write":12,"tablekeeper_findings_written_total.P902":1,"tablekeeper_lag_seconds":12.5,"#,
        r#""tablekeeper_records_total.applied":1,"tablekeeper_records_total.quarantined":1,"tablekeeper_requests_total.get":1,"#,
        r#""tablekeeper_requests_total.transact":1,"tablekeeper_transaction_actions_total":9,"tablekeeper_transactions_total":1}"#,
    ];
    assert_eq!(line(2), expected.concat());
}

#[test]
fn every_line_is_as_the_specification_demands() {
    for durable in 0..=2 {
        valid(&line(durable));
    }
    // All metrics that there are, and more codes than one element takes.
    let plain = METRICS.iter().filter(|metric| metric.labels.is_empty()).map(|metric| Reading::plain(metric, 1.5));
    let codes: Vec<String> = (0..230).map(|code| format!("A{code}")).collect();
    let codes = codes.iter().map(|code| Reading::labelled(&crate::engine::telemetry::FINDINGS, code, 7.0));
    let all: Vec<Reading<'_>> = plain.chain(codes).collect();
    let line = document("t", now(), &[&all[..], &all[..10]].concat()).unwrap();
    assert_eq!(valid(&line).len(), all.len());
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["_aws"]["CloudWatchMetrics"].as_array().unwrap().len(), 3);
}

#[test]
fn a_batch_that_is_durable_in_part_has_failed_and_counts_what_never_comes_again() {
    let line = line(1);
    assert_eq!(value(&line, "tablekeeper_batches_total.failed"), Some(1.0));
    assert_eq!(value(&line, "tablekeeper_batches_total.applied"), None);
    assert_eq!(value(&line, "tablekeeper_records_total.quarantined"), Some(1.0));
    // The age of the first record, not of the one that failed.
    assert_eq!(value(&line, "tablekeeper_lag_seconds"), Some(42.5));
}

#[test]
fn a_batch_that_comes_again_as_a_whole_counts_its_work_alone() {
    let line = line(0);
    let names = valid(&line);
    assert!(names.contains(&"tablekeeper_batches_total.failed".to_owned()), "{line}");
    assert!(names.contains(&"tablekeeper_transactions_total".to_owned()), "{line}");
    for absent in ["tablekeeper_records_total", "tablekeeper_lag_seconds", "tablekeeper_batch_records"] {
        assert!(!names.iter().any(|name| name.starts_with(absent)), "{line}");
    }
}

#[test]
fn nothing_that_happened_is_no_line_and_no_answer_is_a_failure() {
    let done = StreamEvent::parse(r#"{"Records":[],"state":{},"isFinalInvokeForWindow":true}"#).unwrap().done();
    assert_eq!(document("t", now(), &invocation(&Ok(done), None, now())), None);
    let nothing = Err(InvocationError::NothingDurable(NothingDurable("x".to_owned())));
    let line = document("t", now(), &invocation(&nothing, None, now())).unwrap();
    assert_eq!(valid(&line), ["tablekeeper_batches_total.failed"]);
}

#[test]
fn no_item_is_in_a_line_and_what_is_no_number_is_left_out() {
    for durable in 0..=2 {
        assert!(!line(durable).contains("secret"), "{}", line(durable));
    }
    let readings = [f64::NAN, f64::INFINITY].map(|value| Reading::plain(&LAG, value));
    assert_eq!(document("t", now(), &readings), None);
}

#[test]
fn a_gauge_of_zero_is_told_and_a_counter_that_did_not_grow_is_not() {
    let line = document("t", now(), &[Reading::plain(&LAG, 0.0), Reading::labelled(&BATCHES, "failed", 0.0)]).unwrap();
    assert_eq!(valid(&line), ["tablekeeper_lag_seconds"]);
}
