//! Where stored findings come from, and what is counted of them, through starts, changes, redeliveries and crashes.
#![cfg(test)]

use super::*;
use crate::adapters::sim::{StreamView, block_on};
use crate::engine::reconcile::reconcile;
use crate::engine::verify::{VerifyOptions, repair, verify};
use crate::model::value::ORIGIN;

fn totals() -> TableKey {
    TableKey::text("KEEPER#FINDINGS_TOTALS", "Job")
}

impl World {
    /// `<code> <state> <sequence number>` of the stored findings.
    fn origins(&self) -> Vec<String> {
        let table = self.store.table(TableRef::Source);
        let findings = table.items().filter(|(key, _)| key.partition == Value::text("KEEPER#FINDINGS"));
        let shown = |item: &Item| {
            let Some(Value::M(origin)) = item.get(ORIGIN) else { panic!("{item:?}") };
            let text = |name: &str| origin.get(name).and_then(Value::as_text).unwrap_or("-").trim_start_matches('0');
            format!("{} {} {}", item.text("Code").unwrap(), text("State"), text("Seq"))
        };
        findings.map(|(_, item)| shown(item)).collect()
    }

    /// Introduced and resolved findings of a code, and those that stand.
    fn history(&self, code: &str) -> [String; 3] {
        let item = self.store.item(TableRef::Source, &totals()).unwrap_or_default();
        ["Introduced_", "Resolved_", "Count_"]
            .map(|prefix| item.number(&format!("{prefix}{code}")).map_or("-".to_owned(), ToString::to_string))
    }

    fn differences(&self) -> usize {
        block_on(verify(&self.model, &self.store, &self.clock)).unwrap().differences.len()
    }
}

fn number_of(record: &RawRecord) -> String {
    record.sequence.clone().unwrap().trim_start_matches('0').to_owned()
}

#[test]
fn what_was_there_at_the_first_start_is_pre_existing_and_stays_so() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Mislaid", "1")).unwrap();
    run_audited(&world.store, reconcile(&world.engine, |_| {})).unwrap();
    assert_eq!(world.origins(), ["A303 pre-existing -"]);
    world.settle();
    world.store.put(job(1, "q", "Mislaid", "2")).unwrap();
    world.settle();
    assert_eq!(world.origins(), ["A303 pre-existing -"], "another change of the item");
    assert_eq!(world.history("A303"), ["-", "-", "1"]);
    world.store.put(job(1, "q", "Open", "2")).unwrap();
    let report = world.settle();
    assert_eq!((world.origins(), world.history("A303")), (vec![], ["-", "1", "0"].map(str::to_owned)));
    assert_eq!(report.resolved, [("A303".to_owned(), 1)].into());
}

#[test]
fn a_change_that_breaks_an_item_is_named_while_the_finding_stands() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Open", "1")).unwrap();
    world.settle();
    world.store.put(job(1, "p", "Mislaid", "1")).unwrap();
    let records = world.pending();
    let report = world.apply(&records);
    assert_eq!(report.introduced, [("A303".to_owned(), 1)].into());
    let named = vec![format!("A303 introduced {}", number_of(&records[0]))];
    assert_eq!(world.origins(), named);
    // The same fault in another value: the finding says something else, and is the same finding.
    world.store.put(job(1, "q", "Astray", "3").with("Due", Value::text("2026-02-30"))).unwrap();
    let later = world.pending();
    let later = later.iter().find(|record| record.keys.as_ref().unwrap().as_ref().unwrap().text("PK") == Some("JOB#1"));
    let second = number_of(later.unwrap());
    world.apply(std::slice::from_ref(later.unwrap()));
    assert_eq!(world.origins(), [named[0].clone(), format!("A305 introduced {second}")]);
    let before = (world.origins(), world.history("A303"), world.history("A305"));
    run_audited(&world.store, reconcile(&world.engine, |_| {})).unwrap();
    assert_eq!((world.origins(), world.history("A303"), world.history("A305")), before);
    assert_eq!((world.history("A303"), world.differences()), (["1", "-", "1"].map(str::to_owned), 0));
    world.store.delete(&job_key(1));
    world.settle();
    assert_eq!((world.history("A303"), world.differences()), (["1", "1", "0"].map(str::to_owned), 0));
}

#[test]
fn the_old_image_had_it() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Mislaid", "1")).unwrap();
    world.pending();
    world.store.put(job(1, "p", "Mislaid", "1").with("Due", Value::text("soon"))).unwrap();
    let records = world.pending();
    world.apply(&records);
    let number = number_of(&records[0]);
    assert_eq!(world.origins(), ["A303 pre-existing -".to_owned(), format!("A304 introduced {number}")]);
    world.store.set_view(StreamView::NewImage);
    world.store.put(job(2, "p", "Mislaid", "1")).unwrap();
    world.store.put(job(2, "q", "Mislaid", "1")).unwrap();
    let records = world.pending();
    let second = records.last().unwrap().clone();
    world.apply(&[second]);
    assert_eq!(world.history("A303")[0], "-", "nobody says what it was before");
}

#[test]
fn a_second_delivery_and_a_crash_count_nothing_twice() {
    let mut world = World::new();
    for number in 1..=4 {
        world.store.put(job(number, "p", "Mislaid", "1")).unwrap();
        world.store.put(job(number, "p", "Open", "1")).unwrap();
        world.store.put(job(number, "p", "Astray", "1")).unwrap();
    }
    let records = world.pending();
    // The worker ends in the midst of the batch, and another one begins anew.
    let mut half = Stepper::new(world.engine.apply(&records[..6], OldImages::Trusted));
    for _ in 0..2 {
        half.step();
    }
    drop(half);
    for batch in [&records[..6], &records[..], &records[3..], &records[..1]] {
        world.apply(batch);
    }
    assert_eq!(world.history("A303"), ["8", "4", "4"]);
    for number in 1..=4 {
        world.store.delete(&job_key(number));
    }
    world.settle();
    world.apply(&records);
    assert_eq!((world.history("A303"), world.differences()), (["8", "8", "0"].map(str::to_owned), 0));
}

#[test]
fn a_repair_keeps_the_origin() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Mislaid", "1")).unwrap();
    let records = world.pending();
    world.apply(&records);
    let (origins, history) = (world.origins(), world.history("A303"));
    let table = world.store.table(TableRef::Source);
    let key = table.items().find(|(key, _)| key.partition == Value::text("KEEPER#FINDINGS")).unwrap().0.clone();
    world.store.delete(&key);
    assert_eq!((world.origins().len(), world.differences()), (0, 1));
    let report = block_on(repair(&world.engine, &VerifyOptions::default(), |_, _| {})).unwrap();
    assert_eq!((report.rows, report.verdict.differences.len()), (1, 0));
    assert_eq!((world.origins(), world.history("A303")), (origins, history));
}

#[test]
fn what_a_changed_model_finds_is_pre_existing() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Busy", "1")).unwrap();
    world.settle();
    let mut changed = Model::clone(&world.model);
    changed.hash = "model-2".into();
    changed.entities[0].attributes[0].one_of.retain(|status| status != "Busy");
    world.model = Arc::new(changed);
    world.engine.model = world.model.clone();
    world.store.put(job(1, "q", "Busy", "1")).unwrap();
    world.settle();
    assert_eq!(
        (world.origins(), world.history("A303")),
        (vec!["A303 pre-existing -".to_owned()], ["-", "-", "1"].map(str::to_owned))
    );
}

#[test]
fn a_model_that_hashes_keys_takes_over_the_findings_of_one_that_does_not() {
    let mut world = World::new();
    world.store.put(job(1, "p", "Mislaid", "1")).unwrap();
    world.settle();
    let origins = world.origins();
    let plain = world.model.clone();
    let mut hashing = Model::clone(&plain);
    hashing.hash = "model-2".into();
    hashing.findings = crate::model::spec::Disclosure { redact_values: true, hash_keys: true };
    for model in [Arc::new(hashing), plain] {
        world.model = model.clone();
        world.engine.model = model.clone();
        run_audited(&world.store, reconcile(&world.engine, |_| {})).unwrap();
        let table = world.store.table(TableRef::Source);
        let finding = table.items().find(|(key, _)| key.partition == Value::text("KEEPER#FINDINGS")).unwrap().1;
        let hidden = !format!("{finding:?}").contains("Mislaid") && !format!("{finding:?}").contains("JOB#1");
        assert_eq!(hidden, model.findings.hash_keys, "{finding:?}");
        assert_eq!((world.origins(), world.differences()), (origins.clone(), 0));
    }
    // A stray finding names its item by the digest, and goes.
    let stray = TableKey::text("KEEPER#FINDINGS", "A301#Job#x#Status");
    let item = stray.to_item(&world.model.table.key_names());
    let item = item.with(crate::model::value::MARKER, Value::text("finding/A301"));
    world.store.put(item.with("Source", Value::S(job_key(1).digest()))).unwrap();
    let report = block_on(repair(&world.engine, &VerifyOptions::default(), |_, _| {})).unwrap();
    assert_eq!((report.rows, report.verdict.differences.len(), world.origins()), (1, 0, origins));
}
