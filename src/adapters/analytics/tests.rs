//! Queries over a small model built by hand; the shipped reports over the shipped models are tested from outside.

use std::collections::BTreeMap;

use chrono::NaiveDate;

use super::*;
use crate::model::derived::{Finding, Severity};
use crate::model::key::TableKey;
use crate::model::spec::{Attribute, Entity, Expiry, Format, KeyAttribute, Model, ReportDefaults, Table as TableSpec};
use crate::model::template::Template;
use crate::model::value::{Item, Kind, Value};
use crate::model::zone::zone;
use crate::report::definition::parse;
use crate::report::input::{AggregateRow, ExpiryRow, Freshness, SourceItem};

fn attribute(name: &str, kind: Kind, format: Option<Format>) -> Attribute {
    Attribute {
        name: name.to_owned(),
        aliases: Vec::new(),
        kind,
        required: false,
        one_of: Vec::new(),
        format,
        none: Vec::new(),
        min: None,
        max: None,
    }
}

fn device() -> Entity {
    let mut status = attribute("Status", Kind::S, None);
    status.one_of = ["InUse", "Idle"].map(str::to_owned).to_vec();
    let mut due = attribute("Due", Kind::S, Some(Format::Date));
    due.aliases = vec!["DueDate".to_owned()];
    due.none = vec!["N/A".to_owned()];
    Entity {
        name: "Device".to_owned(),
        severities: Default::default(),
        matches: Vec::new(),
        partition: Template::parse("DEVICE#{device}").unwrap(),
        sort: Some(Template::parse("USER#{user}").unwrap()),
        indexes: Vec::new(),
        references: Vec::new(),
        attributes: vec![
            status,
            due,
            attribute("Runs", Kind::N, None),
            attribute("Weight", Kind::N, None),
            attribute("Seen", Kind::S, Some(Format::Timestamp)),
            attribute("Ok", Kind::Bool, None),
        ],
    }
}

fn model() -> Model {
    let key = |name: &str| KeyAttribute { name: name.to_owned(), kind: Kind::S };
    Model {
        name: "small".to_owned(),
        table: TableSpec {
            name: "t".to_owned(),
            partition_key: key("PK"),
            sort_key: Some(key("SK")),
            indexes: Vec::new(),
            ttl: None,
            state_table: "t-keeper".to_owned(),
        },
        entities: vec![device()],
        aggregates: Vec::new(),
        listings: Vec::new(),
        expiries: vec![Expiry {
            name: "calibration".to_owned(),
            of: "Device".to_owned(),
            date: "Due".to_owned(),
            when: Vec::new(),
            lead_days: vec![30, 0],
            subject: None,
            owner: None,
        }],
        zone: zone("Europe/Berlin"),
        delimiter: "#".to_owned(),
        prefix: "KEEPER".to_owned(),
        tombstone_days: 30,
        severities: BTreeMap::new(),
        findings: Default::default(),
        reports: ReportDefaults::default(),
        hash: "00".into(),
    }
}

fn number(text: &str) -> Value {
    Value::N(text.parse().unwrap())
}

fn item(device: &str, item: Item) -> SourceItem {
    SourceItem {
        key: TableKey::text(format!("DEVICE#{device}"), "USER#u"),
        entity: Some("Device".to_owned()),
        item,
        variables: [("device", device), ("user", "u")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
    }
}

fn input(model: &Model) -> ReportInput<'_> {
    let items = vec![
        item(
            "D1",
            Item::new()
                .with("Status", Value::text("InUse"))
                .with("Due", Value::text("2026-12-31"))
                .with("Runs", number("3"))
                .with("Weight", number("1.5"))
                // 23:30 UTC is the next day in Berlin.
                .with("Seen", Value::text("2026-03-01T23:30:00Z"))
                .with("Ok", Value::Bool(true)),
        ),
        item("D2", Item::new().with("Status", Value::text("Odd")).with("DueDate", Value::text("2026-11-01"))),
        item("D3", Item::new().with("Due", Value::text("N/A")).with("Runs", number("4")).with("Weight", number("2"))),
        item("D4", Item::new().with("Due", Value::text("2026-02-30")).with("Runs", Value::text("many"))),
    ];
    let expiry = |device: &str, due: &str| ExpiryRow {
        name: "calibration".to_owned(),
        entity: "Device".to_owned(),
        key: TableKey::text(format!("DEVICE#{device}"), "USER#u"),
        subject: device.to_owned(),
        owner: None,
        date: due.to_owned(),
        due: due.parse().unwrap(),
    };
    ReportInput {
        model,
        items,
        findings: vec![Finding {
            code: "A303".to_owned(),
            severity: Severity::Error,
            entity: Some("Device".to_owned()),
            key: TableKey::text("DEVICE#D2", "USER#u"),
            attribute: Some("Status".to_owned()),
            expected: None,
            actual: Some("Odd".to_owned()),
            message: "`Odd` is not a status".to_owned(),
        }],
        aggregates: vec![AggregateRow {
            name: "by_status".to_owned(),
            key: TableKey::text("STATS", "InUse"),
            group: Item::new().with("Status", Value::text("InUse")),
            measures: [("Total".into(), 1.into())].into(),
        }],
        expiries: vec![
            expiry("D1", "2026-12-31T23:00:00Z"),
            expiry("D2", "2026-11-01T23:00:00Z"),
            expiry("D5", "2026-11-30T23:00:00Z"),
            expiry("D6", "2026-12-01T08:00:00Z"),
        ],
        as_of: NaiveDate::from_ymd_opt(2026, 11, 30).unwrap(),
        freshness: Freshness::default(),
    }
}

fn section(sql: &str, more: &str) -> Definition {
    let source =
        format!("version = 1\ntitle = \"T\"\n[[section]]\nid = \"s\"\ntitle = \"S\"\nsql = '''{sql}'''\n{more}");
    parse(&source, "test").unwrap()
}

fn answer(sql: &str) -> Table {
    let model = model();
    run(&section(sql, ""), &input(&model)).unwrap().sections.remove(0).table
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn date(text: &str) -> Cell {
    Cell::Date(text.parse().unwrap())
}

#[test]
fn entities_are_frames_with_typed_columns() {
    let table = answer("SELECT device, Status, Due, Runs, Weight, Seen_day, Ok, _key FROM Device");
    let first = &table.rows[0];
    assert_eq!(
        first[..],
        [
            text("D1"),
            text("InUse"),
            date("2026-12-31"),
            Cell::Int(3),
            Cell::Num(1.5),
            date("2026-03-02"),
            Cell::Bool(true),
            text("DEVICE#D1 / USER#u"),
        ]
    );
    // An alias counts, a sentinel and an impossible day do not, and neither does text where a number is declared.
    let column = |at: usize| table.rows.iter().map(|row| row[at].clone()).collect::<Vec<_>>();
    assert_eq!(column(2)[1..], [date("2026-11-01"), Cell::Null, Cell::Null]);
    assert_eq!(column(3)[1..], [Cell::Null, Cell::Int(4), Cell::Null]);
}

#[test]
fn a_frame_without_items_has_its_columns() {
    let model = model();
    let mut input = input(&model);
    input.items.clear();
    let definition = section("SELECT device, Due, Runs FROM Device WHERE Due < :as_of", "");
    let data = run(&definition, &input).unwrap();
    assert_eq!(data.sections[0].table.columns, ["device", "Due", "Runs"]);
    assert!(data.sections[0].table.rows.is_empty());
}

#[test]
fn expiries_have_states_by_civil_days() {
    let table = answer("SELECT subject, state, days_left, date FROM expiries");
    let expected = [
        [text("D1"), text("scheduled"), Cell::Int(31), date("2026-12-31")],
        [text("D2"), text("overdue"), Cell::Int(-29), date("2026-11-01")],
        [text("D5"), text("due_today"), Cell::Int(0), date("2026-11-30")],
        [text("D6"), text("upcoming"), Cell::Int(1), date("2026-12-01")],
    ];
    assert_eq!(table.rows, expected);
}

#[test]
fn the_other_frames_answer_too() {
    let sql =
        "SELECT f.code, a.value, a.group_value, p.zone FROM findings f CROSS JOIN aggregates a CROSS JOIN params p";
    assert_eq!(answer(sql).rows, [[text("A303"), Cell::Int(1), text("InUse"), text("Europe/Berlin")]]);
    assert_eq!(
        answer("SELECT value, position FROM sets").rows,
        [[text("Idle"), Cell::Int(2)], [text("InUse"), Cell::Int(1)]]
    );
    assert_eq!(answer("SELECT zone, as_of FROM params").rows, [[text("Europe/Berlin"), date("2026-11-30")]]);
    assert_eq!(answer("SELECT code, actual FROM findings").rows, [[text("A303"), text("Odd")]]);
}

#[test]
fn durations_are_days_and_nothing_over_nothing_is_no_data() {
    let table =
        answer("SELECT :as_of - Due AS late, SUM(0) OVER () / SUM(0) OVER () AS ratio FROM Device WHERE Due < :as_of");
    assert_eq!(table.rows, [[Cell::Int(29), Cell::Null]]);
}

#[test]
fn the_order_is_the_definitions() {
    let model = model();
    let definition = section("SELECT device, Runs FROM Device", "order = [\"Runs desc\"]\nlimit = 2");
    let data = run(&definition, &input(&model)).unwrap();
    let devices: Vec<&Cell> = data.sections[0].table.rows.iter().map(|row| &row[0]).collect();
    assert_eq!(devices, [&text("D3"), &text("D1"), &text("D2"), &text("D4")]);
    assert_eq!(data.sections[0].page_rows().len(), 2);
}

#[test]
fn errors_name_report_section_query_and_columns() {
    let model = model();
    let fail = |sql: &str, more: &str| run(&section(sql, more), &input(&model)).unwrap_err().to_string();
    let unknown = fail("SELECT Statu FROM Device", "");
    for part in ["report `test`", "section `s`", "SELECT Statu FROM Device", "Device (Status, Due,"] {
        assert!(unknown.contains(part), "{part}: {unknown}");
    }
    assert!(fail("SELECT 1 FROM Devices_", "").contains("aggregates"));
    assert!(fail("SELECT device FROM", "").contains("section `s`"));
    // These make the engine panic.
    let interval = fail("SELECT INTERVAL '1 foo' FROM Device", "");
    assert!(interval.contains("does not know this form (") && interval.contains("'foo'"), "{interval}");
    assert!(fail("SELECT device FROM (SELECT * FROM Device ORDER BY 0) d", "").contains("does not know this form ("));
    let missing = fail("SELECT device FROM Device", "columns = [{ name = \"serial\" }]");
    assert!(missing.contains("`serial` is not a column of the query, which gives device"), "{missing}");
    let chart = fail("SELECT device FROM Device", "chart = { kind = \"bar\", x = \"device\", y = [\"n\"] }");
    assert!(chart.contains("`n` is not a column"), "{chart}");
}

#[test]
fn what_the_model_lacks_is_left_out_and_said() {
    let model = model();
    let data = run(
        &section("SELECT 1 FROM Nowhere", "needs = [\"Nowhere\", \"Device.Colour\", \"Device.Due\"]"),
        &input(&model),
    );
    let data = data.unwrap();
    assert!(data.sections.is_empty());
    assert_eq!(data.left_out[0].missing, ["Nowhere", "Device.Colour"]);
}

#[test]
fn a_headline_is_one_row() {
    let model = model();
    let definition = |sql: &str| {
        let mut definition = section("SELECT device FROM Device", "");
        definition.headlines = vec![Headline {
            title: "H".to_owned(),
            sql: sql.to_owned(),
            format: crate::report::format::Format::Integer,
            needs: Vec::new(),
        }];
        definition
    };
    let sql = "SELECT COUNT(*) AS value, CASE WHEN COUNT(*) > 0 THEN 'overdue' ELSE 'ok' END AS status FROM expiries";
    let data = run(&definition(sql), &input(&model)).unwrap();
    assert_eq!((&data.headlines[0].value, data.headlines[0].status.as_deref()), (&Cell::Int(4), Some("overdue")));
    let error = run(&definition("SELECT device AS value FROM Device"), &input(&model)).unwrap_err();
    assert!(matches!(error, ReportError::NotOneRow { rows: 4, .. }), "{error}");
}

#[test]
fn the_hash_is_of_the_items_whatever_their_order() {
    let model = model();
    let mut turned = input(&model);
    turned.items.reverse();
    assert_eq!(turned.hash(), input(&model).hash());
    turned.items[0].item.insert("Status", Value::text("Idle"));
    assert_ne!(turned.hash(), input(&model).hash());
}
