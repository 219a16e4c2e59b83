//! Faults of real tables: the smallest item that shows each, and the verdict.

use crate::derive::testing::{
    aggregate, attribute, condition, entity, entity_index, index, item, key_of, listing, model, n, strings,
};
use crate::derive::{derive_poison, rules};
use crate::model::derived::{RowKind, Severity};
use crate::model::key::TableKey;
use crate::model::spec::{Attribute, Entity, EntityIndex, Format, Model};
use crate::model::value::{Bytes, Item, Kind, Value};

use super::{derived, verdicts};

const NONE: [&str; 0] = [];

/// A model of one entity and indexes `GSI1` and `GSI2`.
fn one(entity: Entity) -> Model {
    let mut model = model("PK", "SK");
    model.table.indexes = vec![index("GSI1", &["GSI1PK"], &["GSI1SK"]), index("GSI2", &["GSI2PK"], &[])];
    model.entities = vec![entity];
    model
}

fn order() -> Entity {
    let mut order = entity("Order", "ORD#{order}", "ORD#{order}");
    let date = Attribute { format: Some(Format::Date), ..attribute("Date", Kind::S) };
    order.attributes = vec![attribute("Status", Kind::S), date];
    order
}

fn order_item(attributes: &[(&str, &str)]) -> Item {
    let mut order = item([("PK", "ORD#7"), ("SK", "ORD#7")]);
    attributes.iter().for_each(|(name, text)| order.insert(*name, Value::text(*text)));
    order
}

fn indexed(keys: &[(&str, &str)]) -> Model {
    let mut order = order();
    order.indexes = vec![entity_index("GSI1", keys)];
    one(order)
}

#[test]
fn an_index_key_is_stale_after_a_partial_update() {
    let model = indexed(&[("GSI1PK", "ORDERS"), ("GSI1SK", "{Status}#{Date}")]);
    let stale = |sort: &str| {
        order_item(&[("Status", "SHIPPED"), ("Date", "2026-01-02"), ("GSI1PK", "ORDERS"), ("GSI1SK", sort)])
    };
    assert_eq!(verdicts(&model, &stale("OPEN#2026-01-02")), ["G201 GSI1SK SHIPPED#2026-01-02"]);
    assert_eq!(verdicts(&model, &stale("SHIPPED#2026-01-02")), NONE);
    assert_eq!(verdicts(&model, &stale("nonsense")), ["G201 GSI1SK SHIPPED#2026-01-02"]);
}

#[test]
fn an_index_key_is_stale_against_the_primary_key() {
    let model = indexed(&[("GSI1PK", "ORDERS"), ("GSI1SK", "ORD#{order}")]);
    let item = order_item(&[("GSI1PK", "ORDERS"), ("GSI1SK", "ORD#8")]);
    assert_eq!(verdicts(&model, &item), ["G201 GSI1SK ORD#7"]);
}

#[test]
fn two_index_keys_that_contradict_each_other_have_two_values() {
    let mut order = order();
    order.indexes = vec![
        entity_index("GSI1", &[("GSI1PK", "USER#{manager}"), ("GSI1SK", "ORD#{order}")]),
        entity_index("GSI2", &[("GSI2PK", "OWNER#{manager}")]),
    ];
    let model = one(order);
    let keys = [("GSI1PK", "USER#ann"), ("GSI1SK", "ORD#7")];
    assert_eq!(verdicts(&model, &order_item(&[keys[0], keys[1], ("GSI2PK", "OWNER#bob")])), ["K104 GSI2PK OWNER#ann"]);
    // What one index lacks, the other may tell.
    assert_eq!(verdicts(&model, &order_item(&[("GSI2PK", "OWNER#bob")])), ["G204 GSI1PK USER#bob"]);
    assert_eq!(verdicts(&model, &order_item(&keys)), ["G204 GSI2PK OWNER#ann"]);
    assert_eq!(verdicts(&model, &order_item(&[])), ["G204 GSI1PK USER#{manager}", "G204 GSI2PK OWNER#{manager}"]);
}

#[test]
fn a_sparse_index_follows_its_condition_both_ways() {
    let mut ticket = order();
    ticket.attributes.push(attribute("State", Kind::S));
    let when = vec![condition("State", &["open"])];
    ticket.indexes = vec![EntityIndex { when, ..entity_index("GSI2", &[("GSI2PK", "OPENTICKETS")]) }];
    let model = one(ticket);
    assert_eq!(verdicts(&model, &order_item(&[("State", "closed"), ("GSI2PK", "OPENTICKETS")])), ["G203 GSI2PK -"]);
    assert_eq!(verdicts(&model, &order_item(&[("State", "open")])), ["G204 GSI2PK OPENTICKETS"]);
    assert_eq!(verdicts(&model, &order_item(&[("State", "open"), ("GSI2PK", "OPENTICKETS")])), NONE);
    assert_eq!(verdicts(&model, &order_item(&[("State", "closed")])), NONE);
}

#[test]
fn an_incomplete_index_key_keeps_the_item_out() {
    let model = indexed(&[("GSI1PK", "SITE#{site}"), ("GSI1SK", "ORD#{order}")]);
    assert_eq!(verdicts(&model, &order_item(&[("GSI1PK", "SITE#1")])), ["G202 GSI1SK ORD#7"]);
    let of_another_shape = order_item(&[("GSI1PK", "PLACE#1"), ("GSI1SK", "ORD#7")]);
    assert_eq!(verdicts(&model, &of_another_shape), ["G201 GSI1PK SITE#{site}"]);
}

#[test]
fn an_index_over_an_optional_attribute_is_sparse_by_nature() {
    let model = indexed(&[("GSI1PK", "DUE"), ("GSI1SK", "DUE#{Date}")]);
    assert_eq!(verdicts(&model, &order_item(&[])), NONE);
    assert_eq!(verdicts(&model, &order_item(&[("Date", "2026-01-02")])), ["G204 GSI1PK DUE"]);
    let left_behind = order_item(&[("GSI1PK", "DUE"), ("GSI1SK", "DUE#2026-01-02")]);
    assert_eq!(verdicts(&model, &left_behind), ["G203 GSI1SK -"]);
}

#[test]
fn index_keys_that_serve_nothing_should_be_absent() {
    let model = one(order());
    assert_eq!(verdicts(&model, &order_item(&[("GSI2PK", "X")])), ["G203 GSI2PK -"]);
    // An inverted index is made of the primary key: every item is in it.
    let mut inverted = one(order());
    inverted.table.indexes = vec![index("Inverted", &["SK"], &["PK"])];
    assert_eq!(verdicts(&inverted, &order_item(&[])), NONE);
}

#[test]
fn a_delimiter_inside_a_value_renders_equal_and_is_a_finding() {
    let model = super::skills::skills();
    let item = super::skills::user_skill("bob#x", "go", "Go", "Backend", "Expert", "1");
    let derived = derived(&model, &item);
    assert_eq!((derived.findings.len(), derived.findings[0].code.as_str()), (1, "S401"));
    assert_eq!(derived.findings[0].severity, Severity::Warning);
    assert_eq!(derived.findings[0].actual.as_deref(), Some("bob#x"));
}

#[test]
fn a_case_rule_is_for_the_key_and_not_for_the_attribute() {
    let mut model = model("EntityType", "entity_id");
    let mut user = entity("User", "User", "USER#{Username:lower}");
    user.attributes = vec![attribute("Username", Kind::S)];
    model.entities = vec![user];
    let user = |id: &str| item([("EntityType", "User"), ("entity_id", id), ("Username", "Ann")]);
    assert_eq!(verdicts(&model, &user("USER#Ann")), ["S406 entity_id USER#ann"]);
    assert_eq!(verdicts(&model, &user("USER#ann")), NONE);
}

#[test]
fn prefixes_with_their_delimiter_do_not_overlap() {
    let mut model = model("PK", "SK");
    model.entities = vec![entity("User", "USER#{u}", "A"), entity("UserSkill", "USERSKILL#{u}", "A")];
    let entity_of = |pk: &str| derived(&model, &item([("PK", pk), ("SK", "A")])).entity;
    assert_eq!(entity_of("USER#ann").as_deref(), Some("User"));
    assert_eq!(entity_of("USERSKILL#ann").as_deref(), Some("UserSkill"));
}

#[test]
fn several_entities_are_told_apart_by_rendering_or_not_at_all() {
    let mut model = model("PK", "SK");
    let mut first = entity("Order", "X#{Id}", "A");
    first.attributes = vec![attribute("Id", Kind::S)];
    model.entities = vec![first, entity("Draft", "X#{draft}", "A")];
    let both = derived(&model, &item([("PK", "X#1"), ("SK", "A"), ("Id", "1")]));
    assert_eq!((both.entity, both.findings[0].code.as_str()), (None, "K103"));
    let draft = derived(&model, &item([("PK", "X#1"), ("SK", "A"), ("Id", "2")]));
    assert_eq!((draft.entity.as_deref(), draft.findings.len()), (Some("Draft"), 0));
}

#[test]
fn placeholders_in_keys_are_told() {
    let mut model = model("PK", "SK");
    let mut task = entity("Task", "TASK", "TASK#{Status}#{Who}#{id}");
    task.attributes = vec![
        Attribute { one_of: strings(&["todo", "None"]), ..attribute("Status", Kind::S) },
        attribute("Who", Kind::S),
    ];
    model.entities = vec![task, entity("User", "USER#{u}", "USER"), entity("Pair", "A#{x}#{y}", "PAIR")];
    let task = |sk: &str, status: &str, who: &str| item([("PK", "TASK"), ("SK", sk), ("Status", status), ("Who", who)]);
    assert_eq!(verdicts(&model, &task("TASK#todo#None#t9", "todo", "None")), ["S402 SK a value"]);
    assert_eq!(verdicts(&model, &task("TASK#None#bob#t9", "None", "bob")), NONE, "a declared value");
    assert_eq!(verdicts(&model, &item([("PK", "USER#undefined"), ("SK", "USER")])), ["S402 PK a value"]);
    assert_eq!(verdicts(&model, &item([("PK", "USER#<id>"), ("SK", "USER")])), ["S402 PK a value"]);
    assert_eq!(verdicts(&model, &item([("PK", "USER#{u}"), ("SK", "USER")])), ["S402 PK a value"]);
    assert_eq!(verdicts(&model, &item([("PK", "A##B"), ("SK", "PAIR")])), ["S402 PK a value"]);
    let unknown = item([("PK", "B##NaN"), ("SK", "PAIR")]);
    assert_eq!(verdicts(&model, &unknown), ["K102 - -", "S402 PK a value"]);
}

#[test]
fn padded_numbers_are_compared_as_written() {
    let mut model = model("PK", "SK");
    let mut pr = entity("PullRequest", "REPO#{repo}", "PR#{Number:010}");
    pr.attributes = vec![attribute("Number", Kind::N)];
    model.entities = vec![pr];
    let pr = |sk: &str, number: &str| item([("PK", "REPO#r"), ("SK", sk)]).with("Number", n(number));
    assert_eq!(verdicts(&model, &pr("PR#42", "42")), ["K101 SK PR#0000000042"]);
    assert_eq!(verdicts(&model, &pr("PR#0000000042", "42")), NONE);
    let overflow = derived(&model, &pr("PR#12345678901", "12345678901"));
    assert_eq!(overflow.findings[0].code, "K101");
    assert!(overflow.findings[0].message.contains("more than 10 integer digits"));
}

#[test]
fn a_key_whose_attribute_is_absent_cannot_be_checked() {
    let model = super::skills::skills();
    let mut item = super::skills::user_skill("ann", "go", "Go", "Backend", "Expert", "1");
    item.0.remove("SkillID");
    let templates = "K101 entity_id USERSKILL#{Username}#{SkillID}";
    assert_eq!(verdicts(&model, &item), ["A301 SkillID a value of type S", templates]);
    // The other spelling of the attribute is as good.
    item.insert("skill_id", Value::text("go"));
    assert_eq!(verdicts(&model, &item), NONE);
}

#[test]
fn times_are_held_against_their_format() {
    let mut event = order();
    event.attributes = vec![
        Attribute { format: Some(Format::TimestampUtc), ..attribute("At", Kind::S) },
        Attribute { format: Some(Format::Date), ..attribute("Day", Kind::S) },
    ];
    let model = one(event);
    let at = |text: &str| verdicts(&model, &order_item(&[("At", text)]));
    assert_eq!(at("2026-03-01T10:00:00Z"), NONE);
    assert!(at("2026-03-01T10:00:00+02:00")[0].starts_with("A304 At an ISO 8601 time in UTC"));
    assert_eq!(at("2026-02-30T10:00:00Z"), ["A305 At a day and time that exist"]);
    assert_eq!(verdicts(&model, &order_item(&[("Day", "2026-02-30")])), ["A305 Day a day and time that exist"]);
    assert_eq!(verdicts(&model, &order_item(&[("Day", "")])), ["A304 Day a date YYYY-MM-DD"]);
}

#[test]
fn a_time_to_live_is_a_number_of_seconds() {
    let mut model = one(order());
    model.table.ttl = Some("ttl".into());
    let ttl = |value: Value| verdicts(&model, &order_item(&[]).with("ttl", value));
    assert_eq!(ttl(n("1767225600000")), ["A306 ttl 1767225600"]);
    assert_eq!(ttl(Value::text("1767225600")), ["A306 ttl 1767225600"]);
    assert_eq!(ttl(n("1767225600")), NONE);
    for fraction in ["5.5", "1767225600.5", "1767225600000.5", "-0.5"] {
        assert!(ttl(n(fraction))[0].starts_with("A306 ttl whole seconds"), "{fraction}");
    }
    let mut declared = order();
    declared.attributes = vec![Attribute { format: Some(Format::EpochSeconds), ..attribute("ttl", Kind::N) }];
    model.entities = vec![declared];
    let text = order_item(&[("ttl", "1767225600")]);
    assert_eq!(verdicts(&model, &text), ["A306 ttl 1767225600"], "and not A302 as well");
    assert!(verdicts(&model, &order_item(&[]).with("ttl", n("1.5")))[0].starts_with("A304 ttl"));
}

#[test]
fn a_key_that_cannot_be_indexed_is_frozen() {
    let model = indexed(&[("GSI1PK", "SITE#{site}"), ("GSI1SK", "ORD#{order}")]);
    let keyed = |pk: Value, sk: Value| verdicts(&model, &order_item(&[]).with("GSI1PK", pk).with("GSI1SK", sk));
    let sort = || Value::text("ORD#7");
    assert_eq!(keyed(n("5"), sort()), ["G205 GSI1PK type S"]);
    assert_eq!(keyed(Value::Null(true), sort()), ["G205 GSI1PK type S"]);
    assert_eq!(keyed(Value::text("SITE#1"), Value::text("")), ["G205 GSI1SK a value that is not empty"]);
    let long = Value::text(format!("SITE#{}", "é".repeat(1022)));
    assert_eq!(keyed(long, sort()), ["G205 GSI1PK at most 2048 bytes"]);
    let just = Value::text(format!("SITE#{}", "é".repeat(1021)));
    assert_eq!(keyed(just, sort()), NONE);
    // A sort key has half of that, counted in bytes.
    let sort_of = |letters: usize| Value::text("é".repeat(letters));
    let mut bare = indexed(&[("GSI1PK", "SITE#{site}"), ("GSI1SK", "{Status}")]);
    bare.entities[0].attributes[0].required = true;
    let by_status = |status: Value| {
        let item = order_item(&[("GSI1PK", "SITE#1")]).with("Status", status.clone()).with("GSI1SK", status);
        verdicts(&bare, &item)
    };
    assert_eq!(by_status(sort_of(513)), ["G205 GSI1SK at most 1024 bytes"]);
    assert_eq!(by_status(sort_of(512)), NONE);
}

#[test]
fn any_one_of_eight_index_attributes_can_be_the_one_that_lacks() {
    let names = ["P1", "P2", "P3", "P4", "S1", "S2", "S3", "S4"];
    let mut model = model("PK", "SK");
    model.table.indexes = vec![index("Wide", &names[..4], &names[4..])];
    let mut order = order();
    let keys: Vec<(&str, String)> = names.iter().map(|name| (*name, format!("{name}#{{order}}"))).collect();
    let keys: Vec<(&str, &str)> = keys.iter().map(|(name, template)| (*name, template.as_str())).collect();
    order.indexes = vec![entity_index("Wide", &keys)];
    model.entities = vec![order];
    let whole = names.iter().fold(order_item(&[]), |item, name| item.with(*name, Value::text(format!("{name}#7"))));
    assert_eq!(verdicts(&model, &whole), NONE);
    for name in names {
        let mut lacking = whole.clone();
        lacking.0.remove(name);
        assert_eq!(verdicts(&model, &lacking), [format!("G202 {name} {name}#7")]);
    }
}

#[test]
fn zero_and_false_are_present_and_valid() {
    let mut sample = order();
    sample.attributes = vec![
        Attribute { required: true, min: Some("0".parse().unwrap()), ..attribute("Count", Kind::N) },
        Attribute { required: true, one_of: strings(&["true", "false"]), ..attribute("Done", Kind::Bool) },
        Attribute { required: true, ..attribute("Notes", Kind::S) },
    ];
    let model = one(sample);
    let good = order_item(&[("Notes", "")]).with("Count", n("0")).with("Done", Value::Bool(false));
    assert_eq!(verdicts(&model, &good), NONE);
    assert_eq!(verdicts(&model, &good.with("Count", n("-0.1"))), ["A307 Count at least 0"]);
}

#[test]
fn a_literal_and_an_attribute_agree_in_case() {
    let model = super::quality::quality();
    let metadata = item([("PK", "METADATA#TOLERANCE"), ("SK", "METADATA#X"), ("Type", "Tolerance")]);
    assert_eq!(verdicts(&model, &metadata), ["A303 Type TOLERANCE", "K101 PK METADATA#Tolerance"]);
}

#[test]
fn what_does_not_fit_a_derived_key_is_left_out_and_told() {
    let mut model = one(order());
    model.entities[0].attributes.push(attribute("Blob", Kind::B));
    model.listings = vec![
        listing("by_status", "Order", "{Status}", "{order}"),
        listing("by_blob", "Order", "BLOBS", "{Blob}#{order}"),
        listing("by_day", "Order", "DAYS", "{Date}#{order}"),
    ];
    let mut copy = listing("copies", "Order", "COPIES", "{order}");
    copy.copy = strings(&["Status"]);
    model.listings.push(copy);
    let derived_codes = |item: &Item| {
        let derived = derived(&model, item);
        let codes: Vec<String> = derived.findings.iter().map(|f| f.code.clone()).collect();
        let rows = derived.rows.iter().filter(|row| row.kind == RowKind::Listing).map(|row| row.name.to_string());
        (codes, rows.collect::<Vec<_>>())
    };
    let names = |names: &[&str]| strings(names);
    assert_eq!(derived_codes(&order_item(&[("Status", "a")])), (vec![], names(&["by_status", "copies"])));
    assert_eq!(derived_codes(&order_item(&[("Status", "")])), (names(&["A309"]), names(&["copies"])));
    let long = "x".repeat(2049);
    assert_eq!(derived_codes(&order_item(&[("Status", &long)])), (names(&["A309"]), names(&["copies"])));
    let huge = "x".repeat(400 * 1024);
    let item = order_item(&[("Status", &huge)]);
    assert_eq!(derived_codes(&item), (names(&["A309"]), names(&[])));
    let message = &derived(&model, &item).findings[0].message;
    assert!(message.contains("listing by_status") && message.contains("also: ") && message.contains("listing copies"));
    let blob = order_item(&[]).with("Blob", Value::B(Bytes(vec![1])));
    assert_eq!(derived_codes(&blob), (names(&["A309"]), names(&["copies"])));
}

#[test]
fn an_aggregate_counts_only_whom_its_condition_and_group_name() {
    let mut model = one(order());
    let mut open = aggregate("open", "Order", &["Date"], "DAYS", "{Date}");
    open.when = vec![condition("Status", &["open", "new"])];
    model.aggregates = vec![open];
    let counted = |attributes: &[(&str, &str)]| derived(&model, &order_item(attributes)).counts.len();
    assert_eq!(counted(&[("Status", "open"), ("Date", "2026-01-02")]), 1);
    assert_eq!(counted(&[("Status", "done"), ("Date", "2026-01-02")]), 0);
    assert_eq!(counted(&[("Status", "open")]), 0, "no group");
    assert_eq!(counted(&[("Date", "2026-01-02")]), 0, "no status");
}

#[test]
fn a_table_whose_keys_are_numbers_gets_findings_but_no_rows() {
    let mut model = one(entity("Reading", "SENSOR#{sensor}", "{at}"));
    model.table.sort_key.as_mut().unwrap().kind = Kind::N;
    model.aggregates = vec![aggregate("all", "Reading", &[], "ALL", "ALL")];
    let good = item([("PK", "SENSOR#1")]).with("SK", n("17"));
    assert_eq!(verdicts(&model, &good), ["A309 - -"]);
    let derived = derived(&model, &good);
    assert!(derived.rows.is_empty() && derived.counts.is_empty());
}

#[test]
fn poison_is_a_finding_with_its_row_and_totals() {
    let model = one(order());
    let key = key_of(&model, &order_item(&[]));
    for code in ["P901", "P902", "P903"] {
        let derived = derive_poison(&model, &key, code, "because");
        assert_eq!((derived.rows.len(), derived.counts.len(), derived.entity), (1, 1, None));
        assert_eq!((derived.findings[0].code.as_str(), &derived.findings[0].key), (code, &key));
        assert!(derived.findings[0].message.contains("because"));
        assert!(rules::rule(code).is_some());
    }
}

#[test]
fn items_of_ours_derive_nothing() {
    let model = one(order());
    let ours = order_item(&[("_keeper", "listing/x")]);
    assert_eq!(derived(&model, &ours), Default::default());
}

#[test]
fn an_image_may_lack_its_key() {
    let model = one(order());
    let key = TableKey::text("ORD#7", "ORD#7");
    let derived = crate::derive::derive(&model, &key, &item([("Status", "x")]));
    assert_eq!((derived.entity.as_deref(), derived.findings.len()), (Some("Order"), 0));
}

#[test]
fn a_longer_key_of_the_same_beginning_is_the_entity_whose_values_hold_no_delimiter() {
    let mut model = model("PK", "SK");
    model.entities =
        vec![entity("Task", "BOARD", "TASK#{task}"), entity("Comment", "BOARD", "TASK#{task}#COMMENT#{comment}")];
    let entity_of = |sk: &str| derived(&model, &item([("PK", "BOARD"), ("SK", sk)])).entity;
    assert_eq!(entity_of("TASK#1#COMMENT#2").as_deref(), Some("Comment"));
    assert_eq!(entity_of("TASK#1").as_deref(), Some("Task"));
}
