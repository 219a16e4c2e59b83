//! Origins step by step: who brought a finding, and what is counted.

use std::sync::Arc;

use super::*;
use crate::model::derived::Row;
use crate::model::key::KeyNames;
use crate::plan::delta::diff;
use crate::plan::testing::{contribution, derived, model};

fn source() -> TableKey {
    TableKey::text("JOB#1", "USER#a")
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn row_key(code: &str) -> TableKey {
    TableKey::text("KEEPER#FINDINGS", format!("{code}#Job#digest#-"))
}

/// What an item with these findings derives.
fn found(codes: &[&str], message: &str) -> Derived {
    let names = KeyNames { partition: "PK".into(), sort: Some("SK".into()) };
    let row = |code: &&str| {
        let marker = Value::text(format!("finding/{code}"));
        let item = row_key(code).to_item(&names).with(MARKER, marker).with("Message", Value::text(message));
        Row { kind: RowKind::Finding, name: (*code).into(), key: row_key(code), item: Arc::new(item) }
    };
    let counts: Vec<(String, &str)> = codes.iter().map(|code| (format!("Count_{code}"), "1")).collect();
    let counts: Vec<(&str, &str)> = counts.iter().map(|(name, one)| (name.as_str(), *one)).collect();
    let totals = contribution(TOTALS, &TableKey::text("KEEPER#FINDINGS_TOTALS", "Job"), &counts);
    derived(if codes.is_empty() { vec![] } else { vec![totals] }, codes.iter().map(row).collect())
}

/// A record of that number; `None`: it does not say.
fn step(number: &str, was: Option<&[&str]>, is: Option<&[&str]>) -> Step {
    let keys = |codes: &[&str]| of_derived(&found(codes, "m"));
    Step { sequence: number.parse().unwrap(), at: Some(now()), was: was.map(keys), is: is.map(keys), inserts: false }
}

fn traced(before: Option<&LedgerRow>, item: Option<&Derived>, steps: &[Step], own: bool) -> Delta {
    let sequence = steps.last().map(|step| step.sequence.clone());
    let mut delta = diff(&model(), before, &source(), item, sequence.as_ref(), now()).unwrap();
    delta.trace(before, item, steps, own);
    delta
}

/// Code and number of what is introduced, in order.
fn introduced(delta: &Delta) -> Vec<(String, String)> {
    let name = |key: &TableKey| key.sort.as_ref().unwrap().as_text().unwrap()[..4].to_owned();
    delta.after.introduced.iter().map(|known| (name(&known.key), known.sequence.to_string())).collect()
}

fn is(code: &str, number: &str) -> (String, String) {
    (code.to_owned(), number.to_owned())
}

fn history(delta: &Delta) -> Vec<(String, String)> {
    let measures = delta.adds.iter().flat_map(|add| &add.measures);
    let history = measures.filter(|(measure, _)| is_history(measure));
    history.map(|(measure, number)| (measure.to_string(), number.to_string())).collect()
}

fn state(delta: &Delta, code: &str) -> String {
    let put = delta.puts.iter().find(|put| put.key == row_key(code)).expect(code);
    let Some(Value::M(origin)) = put.item.get(ORIGIN) else { panic!("{put:?}") };
    let text = |name: &str| origin.get(name).and_then(Value::as_text).unwrap_or("-").trim_start_matches('0').to_owned();
    format!("{} {} {}", text("State"), text("Seq"), text("At"))
}

#[test]
fn the_old_image_tells_where_there_is_no_ledger_row() {
    let item = found(&["A301", "G201"], "m");
    let delta = traced(None, Some(&item), &[step("7", Some(&["A301"]), Some(&["A301", "G201"]))], true);
    assert_eq!(introduced(&delta), [is("G201", "7")]);
    assert_eq!(state(&delta, "G201"), "introduced 7 2027-01-15T08:00:00.000Z");
    assert_eq!(state(&delta, "A301"), "pre-existing - -");
    assert_eq!(history(&delta), [is("Introduced_G201", "1")]);
    let silent = traced(None, Some(&item), &[step("7", None, Some(&["A301", "G201"]))], true);
    assert_eq!(introduced(&silent), [], "nobody knows");
    let scanned = traced(None, Some(&item), &[], false);
    assert_eq!((introduced(&scanned), history(&scanned)), (vec![], vec![]));
}

#[test]
fn the_ledger_row_tells_where_there_is_no_old_image() {
    let first = traced(None, Some(&found(&["A301"], "m")), &[], false).after;
    let item = found(&["A301", "G201"], "m");
    let unsaid = [step("7", None, Some(&["A301", "G201"]))];
    assert_eq!(introduced(&traced(Some(&first), Some(&item), &unsaid, true)), [is("G201", "7")]);
    let other = LedgerRow { model: "other".into(), ..first.clone() };
    assert_eq!(introduced(&traced(Some(&other), Some(&item), &unsaid, true)), [], "the model may have brought it");
    let given_up = LedgerRow { quarantined: Some("r".to_owned()), ..first };
    assert_eq!(introduced(&traced(Some(&given_up), Some(&item), &unsaid, true)), [], "it was hidden");
}

#[test]
fn it_stays_through_other_changes_and_is_counted_when_it_goes() {
    let brought = traced(None, Some(&found(&["G201"], "m")), &[step("7", Some(&[]), Some(&["G201"]))], true);
    let item = found(&["A301", "G201"], "m");
    let more = traced(Some(&brought.after), Some(&item), &[step("8", Some(&["G201"]), Some(&["A301", "G201"]))], true);
    assert_eq!(introduced(&more), [is("A301", "8"), is("G201", "7")]);
    assert_eq!(more.puts.len(), 1, "what stays is not written again");
    let said = traced(Some(&more.after), Some(&found(&["A301", "G201"], "otherwise")), &[], false);
    assert_eq!(state(&said, "G201"), "introduced 7 2027-01-15T08:00:00.000Z", "another message, the same finding");
    assert_eq!(history(&said), []);
    let mended = traced(Some(&said.after), Some(&found(&["A301"], "otherwise")), &[], false);
    assert_eq!((introduced(&mended), history(&mended)), (vec![is("A301", "8")], vec![is("Resolved_G201", "1")]));
    let gone = traced(Some(&mended.after), None, &[step("9", Some(&["A301"]), Some(&[]))], true);
    assert_eq!((introduced(&gone), history(&gone)), (vec![], vec![is("Resolved_A301", "1")]));
    assert_eq!(gone.turnover.resolved.len(), 1);
}

#[test]
fn a_batch_may_tell_of_several_changes() {
    let steps = [
        step("7", Some(&[]), Some(&["G201"])),
        step("8", Some(&["G201"]), Some(&[])),
        step("9", Some(&[]), Some(&["A301", "G201"])),
        step("10", Some(&["A301", "G201"]), Some(&["A301", "G201"])),
    ];
    let item = found(&["A301", "G201"], "m");
    let delta = traced(None, Some(&item), &steps, true);
    assert_eq!(introduced(&delta), [is("A301", "9"), is("G201", "9")]);
    assert_eq!(history(&delta), [is("Introduced_A301", "1"), is("Introduced_G201", "2"), is("Resolved_G201", "1")]);
    let passing = traced(None, Some(&found(&[], "m")), &steps[..2], true);
    assert_eq!(history(&passing), [is("Introduced_G201", "1"), is("Resolved_G201", "1")], "though it never stood");
    assert!(passing.adds[0].group.is_some(), "it may be the first of all");
    let before = traced(None, Some(&found(&["G201"], "m")), &steps[..1], true).after;
    let again = traced(Some(&before), Some(&item), &steps[1..], true);
    assert_eq!(introduced(&again), [is("A301", "9"), is("G201", "9")], "however the records are cut into batches");
    let came_again = [is("Introduced_A301", "1"), is("Introduced_G201", "1"), is("Resolved_G201", "1")];
    assert_eq!(history(&again), came_again);
    assert!(state(&again, "G201").starts_with("introduced 9"), "the row is written for that alone");
}

#[test]
fn what_was_read_ahead_of_the_stream_stays_pre_existing() {
    let item = found(&["G201"], "m");
    let ahead = traced(None, Some(&item), &[], false).after;
    let late = traced(Some(&ahead), Some(&item), &[step("7", Some(&[]), Some(&["G201"]))], false);
    assert_eq!((introduced(&late), history(&late), late.puts.len()), (vec![], vec![], 0));
    let read_beyond = traced(None, Some(&item), &[step("7", Some(&["G201"]), Some(&[]))], false);
    assert_eq!(introduced(&read_beyond), [], "a later change brought it");
    let before = traced(None, None, &[step("6", Some(&[]), Some(&[]))], true).after;
    let unseen = traced(Some(&before), Some(&item), &[step("7", Some(&[]), Some(&[]))], false);
    assert_eq!((introduced(&unseen), history(&unseen)), (vec![], vec![]));
}

#[test]
fn a_refusal_is_its_records_doing() {
    let refused = found(&["P903"], "m");
    let first = Step { inserts: true, ..step("7", Some(&[]), Some(&["G201"])) };
    let delta = traced(None, Some(&refused), std::slice::from_ref(&first), true);
    assert_eq!(introduced(&delta), [is("P903", "7")]);
    let again = traced(Some(&delta.after), Some(&refused), &[step("8", Some(&["G201"]), Some(&[]))], true);
    assert_eq!((introduced(&again), history(&again)), (vec![is("P903", "7")], vec![]), "it stands since");
    let seen = traced(None, Some(&refused), &[step("7", Some(&[]), Some(&["G201"]))], true);
    assert_eq!(introduced(&seen), [], "whether it was refused before is not known");
}

#[test]
fn nothing_is_written_where_nothing_is_found() {
    let item = found(&[], "m");
    let delta = traced(None, Some(&item), &[step("7", Some(&[]), Some(&[]))], true);
    assert!(delta.is_empty() && delta.after.introduced.is_empty() && delta.after.to_item().get("Introduced").is_none());
}
