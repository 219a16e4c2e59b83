//! The shipped reports over the shipped models: right answers, one data set behind all formats, the same bytes each time.

use tablekeeper::adapters::analytics::{ReportError, collect, run};
use tablekeeper::adapters::page::{Encoding, csv, html};
use tablekeeper::model::key::TableKey;
use tablekeeper::model::load::load;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::{Item, Value};
use tablekeeper::report::builtin;
use tablekeeper::report::data::{ReportData, SectionData};
use tablekeeper::report::dataset::Cell;
use tablekeeper::report::definition::parse;
use tablekeeper::report::input::Freshness;

const AS_OF: &str = "2026-11-30";

fn model(name: &str) -> Model {
    let source = match name {
        "quality" => include_str!("../../models/quality.toml"),
        "inspection" => include_str!("../../models/inspection.toml"),
        _ => include_str!("../../models/skills.toml"),
    };
    load(source, name).unwrap().model
}

fn sample(name: &str) -> Vec<Item> {
    lines(match name {
        "quality" => include_str!("../../models/quality.items.jsonl"),
        "inspection" => include_str!("../../models/inspection.items.jsonl"),
        _ => include_str!("../../models/skills.items.jsonl"),
    })
}

/// Plain JSON items, one a line.
fn lines(text: &str) -> Vec<Item> {
    let value = |json: &serde_json::Value| match json {
        serde_json::Value::String(text) => Value::text(text.clone()),
        serde_json::Value::Number(number) => Value::N(number.to_string().parse().unwrap()),
        serde_json::Value::Bool(flag) => Value::Bool(*flag),
        other => panic!("{other} is not used in samples"),
    };
    let item = |line: &str| {
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        Item(object.iter().map(|(name, json)| (name.as_str().into(), value(json))).collect())
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(item).collect()
}

fn report(model: &Model, name: &str, items: Vec<Item>, as_of: &str) -> ReportData {
    let names = model.table.key_names();
    let keyed = items.into_iter().map(|item| (TableKey::of(&item, &names).unwrap(), item));
    let input = collect(model, keyed, as_of.parse().unwrap(), Freshness::default());
    run(&builtin(name).unwrap().unwrap(), &input).unwrap()
}

fn section<'d>(data: &'d ReportData, id: &str) -> &'d SectionData {
    data.sections.iter().find(|section| section.id == id).unwrap()
}

/// The rows of a section as the page shows them.
fn shown(data: &ReportData, id: &str) -> Vec<String> {
    let section = section(data, id);
    let line = |row: &Vec<Cell>| {
        section.shown(row).map(|(column, cell)| column.format.show(cell)).collect::<Vec<_>>().join("|")
    };
    section.table.rows.iter().map(line).collect()
}

fn headline(data: &ReportData, title: &str) -> String {
    let card = data.headlines.iter().find(|card| card.title == title).unwrap();
    card.format.show(&card.value)
}

#[test]
fn the_quality_report_has_the_right_answers() {
    let data = report(&model("quality"), "quality-weekly", sample("quality"), AS_OF);
    assert_eq!(data.left_out, []);
    assert_eq!(headline(&data, "Overdue certificates and devices"), "1");
    assert_eq!(headline(&data, "Overdue work orders"), "3");
    assert_eq!(headline(&data, "Open work orders"), "3");
    assert_eq!(headline(&data, "First-pass yield"), "n/a");
    assert_eq!(headline(&data, "Data-quality findings"), "0");
    // tech001 is 31 days off, tech002 is suspended.
    assert_eq!(shown(&data, "due"), ["overdue|certificate|tech003|manager001|2025-11-15|380 days overdue"]);
    assert_eq!(shown(&data, "devices"), ["InUse|2", "Available|1", "Calibrating|1", "Maintenance|1"]);
    assert_eq!(
        shown(&data, "work-orders"),
        ["P001|1|1|0|0|0|2", "P002|0|0|1|0|0|1", "P003|1|0|0|0|0|1", "P004|0|0|0|1|0|1"]
    );
    let overdue: Vec<String> = shown(&data, "overdue-work-orders").iter().map(|row| row[..5].to_owned()).collect();
    assert_eq!(overdue, ["WO001", "WO003", "WO004"]);
    assert_eq!(
        shown(&data, "workload"),
        [
            "tech001|Bob Smith|Active|1|0|0|1|2|1",
            "tech002|Jenny Lopez|Suspended|0|0|0|1|1|0",
            "tech003|John Lopez|Active|1|1|0|0|2|2"
        ]
    );
}

#[test]
fn a_workload_counts_every_work_order_in_one_column() {
    let cases = [("quality", "quality-weekly", "tech002"), ("inspection", "inspection-weekly", "insp002")];
    for (name, report_name, worker) in cases {
        let mut items = sample(name);
        for (wo, status) in [("WO901", Some("Paused")), ("WO902", Some("complete")), ("WO903", None)] {
            let (pk, sk) = (Value::text(format!("WO#{wo}")), Value::text(format!("USER#{worker}")));
            let item = Item::new().with("PK", pk).with("SK", sk).with("Type", Value::text("WorkOrder"));
            items.push(match status {
                Some(status) => item.with("Status", Value::text(status)),
                None => item,
            });
        }
        let data = report(&model(name), report_name, items, AS_OF);
        let rows = shown(&data, "workload");
        assert_eq!(rows[1], format!("{worker}|Jenny Lopez|Suspended|0|0|3|1|4|0"));
        for row in &rows {
            let numbers: Vec<u32> = row.split('|').skip(3).map(|cell| cell.parse().unwrap()).collect();
            assert_eq!(numbers[..4].iter().sum::<u32>(), numbers[4], "{row}");
        }
        assert_eq!(headline(&data, "Open work orders"), "6");
    }
}

#[test]
fn the_inspection_report_names_people_who_are_no_inspectors() {
    let data = report(&model("inspection"), "inspection-weekly", sample("inspection"), AS_OF);
    assert_eq!(data.left_out, []);
    assert_eq!(shown(&data, "due"), [""; 0]);
    assert_eq!(headline(&data, "Overdue work orders"), "3");
    assert_eq!(
        shown(&data, "workload"),
        [
            "insp001|Bob Smith|Active|1|0|0|1|2|1",
            "insp002|Jenny Lopez|Suspended|0|0|0|1|1|0",
            "insp003|n/a|not an inspector|1|1|0|0|2|2"
        ]
    );
}

#[test]
fn the_skills_report_has_the_right_answers() {
    let data = report(&model("skills"), "skills", sample("skills"), "2025-12-20");
    assert_eq!(headline(&data, "People"), "3");
    assert_eq!(headline(&data, "Skills recorded"), "5");
    assert_eq!(
        shown(&data, "distribution"),
        ["Backend|Go|1|0|0|1|0|2", "Frontend|React|0|1|0|0|0|1", "Programming|Python|0|0|1|1|0|2"]
    );
    assert_eq!(
        shown(&data, "coverage"),
        ["no coverage|Frontend|React|1|0|0", "one person|Backend|Go|2|1|1", "covered|Programming|Python|2|2|2"]
    );
    assert_eq!(shown(&data, "key-persons"), ["alice_smith|Alice Smith|Backend|Go|Expert|7"]);
    assert_eq!(shown(&data, "experience")[0], "john_doe, Python|Programming|Expert|10|150");
    assert_eq!(shown(&data, "stale"), [""; 0]);
}

#[test]
fn the_published_index_sample_has_its_distribution() {
    let items = lines(include_str!("../../models/skills.index-sample.jsonl"));
    let data = report(&model("skills"), "skills", items, "2025-12-20");
    assert_eq!(
        shown(&data, "distribution"),
        [
            "Backend|Go|0|0|0|1|0|1",
            "Cloud|AWS|0|0|0|1|0|1",
            "DevOps|Docker|1|0|0|0|0|1",
            "Frontend|TypeScript|0|0|1|1|0|2",
            "Programming|Python|1|1|1|2|0|5",
        ]
    );
}

fn user_skill(user: &str, skill: &str, level: &str, last_used: &str) -> String {
    let id = skill.to_lowercase();
    format!(
        r#"{{"EntityType":"UserSkill","entity_id":"USERSKILL#{user}#{id}","Username":"{user}","SkillID":"{id}","SkillName":"{skill}","Category":"Other","ProficiencyLevel":"{level}","YearsOfExperience":1,"LastUsedDate":"{last_used}"}}"#
    )
}

#[test]
fn bus_factor_counts_the_qualified_and_the_fresh_among_them() {
    let rows = [
        ("u1", "TIG", "Expert", "2026-01-01"),
        ("u2", "TIG", "Beginner", "2026-01-01"),
        ("u3", "CMM", "Advanced", "2022-01-01"),
        ("u4", "CMM", "Advanced", "2026-02-01"),
        ("u1", "NDT", "Intermediate", "2026-02-01"),
    ];
    let items = rows.map(|(user, skill, level, used)| user_skill(user, skill, level, used)).join("\n");
    let data = report(&model("skills"), "skills", lines(&items), "2026-03-01");
    assert_eq!(
        shown(&data, "coverage"),
        ["no coverage|Other|NDT|1|0|0", "one person|Other|TIG|2|1|1", "covered|Other|CMM|2|2|1"]
    );
    assert_eq!(headline(&data, "Skills with a qualified person"), "67 %");
    assert_eq!(headline(&data, "Skills with two or more"), "33 %");
    assert_eq!(shown(&data, "key-persons").len(), 1);
    assert_eq!(shown(&data, "stale"), ["u3|Other|CMM|Advanced|2022-01-01|1520 days"]);
}

fn work_order(id: &str, project: &str, status: &str, scheduled: &str, completed: &str) -> String {
    format!(
        r#"{{"PK":"WO#{id}","SK":"USER#t","Type":"WorkOrder","Status":"{status}","ProjectID":"{project}","ScheduledDate":"{scheduled}","CompletedDate":"{completed}","GSI2PK":"PROJECT#{project}","GSI2SK":"WO#{id}","GSI3PK":"USER#t","GSI3SK":"WO#{id}"}}"#
    )
}

#[test]
fn on_time_counts_late_and_still_open_and_leaves_the_rest_out() {
    let items = [
        ("WO1", "Complete", "2026-03-02", "2026-03-02"),
        ("WO2", "Complete", "2026-03-03", "2026-03-04"),
        ("WO3", "Pending", "2026-03-05", "N/A"),
        ("WO4", "Cancelled", "2026-03-06", "N/A"),
        ("WO5", "InProgress", "2026-03-31", "N/A"),
    ];
    let items = items.map(|(id, status, due, done)| work_order(id, "P", status, due, done)).join("\n");
    let data = report(&model("quality"), "quality-weekly", lines(&items), "2026-03-10");
    assert_eq!(shown(&data, "on-time"), ["P|1|2|0|33.3 %"]);
}

#[test]
fn ages_of_overdue_work_orders_have_inclusive_ends() {
    let days = ["2026-03-31", "2026-03-24", "2026-03-23", "2026-02-28", "2026-01-30", "2025-12-31", "2025-12-30"];
    let items: Vec<String> =
        days.iter().enumerate().map(|(n, day)| work_order(&format!("W{n}"), "P", "Pending", day, "N/A")).collect();
    let data = report(&model("quality"), "quality-weekly", lines(&items.join("\n")), "2026-03-31");
    assert_eq!(
        shown(&data, "overdue-age"),
        ["1-7 days|1", "8-30 days|1", "31-60 days|2", "61-90 days|1", "over 90 days|1"]
    );
}

/// `result` as JSON members, for example `"Result":"Pass"`.
fn measurement(n: usize, parameter: &str, result: &str) -> String {
    let at = "2026-11-20T10:00:00Z";
    format!(
        r#"{{"PK":"WO#W1","SK":"MEASUREMENT#{parameter}#{at}#{n}","Parameter":"{parameter}","TakenAt":"{at}","PassNumber":1{result}}}"#
    )
}

#[test]
fn yield_is_summed_and_an_empty_reading_is_no_pass() {
    let mut items = vec![measurement(0, "A", r#","Result":"Pass""#), measurement(1, "A", "")];
    items.extend((2..82).map(|n| measurement(n, "B", r#","Result":"Pass""#)));
    items.extend((82..102).map(|n| measurement(n, "B", r#","Result":"Fail","DefectType":"Burr""#)));
    let data = report(&model("quality"), "quality-weekly", lines(&items.join("\n")), AS_OF);
    assert_eq!(headline(&data, "First-pass yield"), "80.2 %");
    assert_eq!(shown(&data, "yield"), ["B|100|80|0|80.0 %", "A|1|1|1|100.0 %"]);
}

#[test]
fn defects_come_by_count_and_then_by_name() {
    let counts = [("F", 3), ("A", 10), ("E", 62), ("B", 15), ("D", 10), ("C", 20)];
    let kinds = counts.iter().flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count));
    let items: Vec<String> = kinds
        .enumerate()
        .map(|(n, kind)| measurement(n, "P", &format!(r#","Result":"Fail","DefectType":"{kind}""#)))
        .collect();
    let data = report(&model("quality"), "quality-weekly", lines(&items.join("\n")), AS_OF);
    let expected = ["E|62|51.7 %", "C|20|68.3 %", "B|15|80.8 %", "A|10|89.2 %", "D|10|97.5 %", "F|3|100.0 %"];
    assert_eq!(shown(&data, "defects"), expected);
}

#[test]
fn the_same_items_in_any_order_give_the_same_bytes() {
    let model = model("quality");
    let mut items = sample("quality");
    let one = report(&model, "quality-weekly", items.clone(), AS_OF);
    items.reverse();
    let two = report(&model, "quality-weekly", items, AS_OF);
    assert_eq!(html(&one).unwrap(), html(&two).unwrap());
    assert_eq!(csv(&one, Encoding::Utf8).unwrap(), csv(&two, Encoding::Utf8).unwrap());
}

#[test]
fn the_page_is_one_file_and_escapes_what_it_shows() {
    let mut items = sample("quality");
    items.extend(lines(&work_order(
        "<script>alert(1)</script>",
        "\u{6e2c}\u{8a66} & <b>",
        "Pending",
        "2026-11-01",
        "N/A",
    )));
    let data = report(&model("quality"), "quality-weekly", items, AS_OF);
    let page = html(&data).unwrap();
    assert!(!page.contains("<script"), "a text got through unescaped");
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert!(page.contains("\u{6e2c}\u{8a66} &amp; &lt;b&gt;"));
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    for loading in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!outside.contains(loading), "{loading}");
    }
    for section in &data.sections {
        assert!(page.contains(&format!("id=\"{}\"", section.id)), "{}", section.id);
    }
    for word in ["2026-11-30", "UTC", &data.header.input_hash[..16], "Tablekeeper"] {
        assert!(page.contains(word), "{word}");
    }
}

#[test]
fn csv_has_all_rows_of_the_page_and_nothing_that_runs() {
    let text: Vec<String> =
        (0..60).map(|n| work_order(&format!("W{n:02}"), "=1+1", "Pending", "2026-11-01", "N/A")).collect();
    let data = report(&model("quality"), "quality-weekly", lines(&text.join("\n")), AS_OF);
    let overdue = section(&data, "overdue-work-orders");
    assert_eq!((overdue.table.rows.len(), overdue.page_rows().len()), (60, 50));
    let page = html(&data).unwrap();
    assert!(page.contains("50 of 60 rows; the full list is in quality-weekly-overdue-work-orders.csv."));
    let files = csv(&data, Encoding::Utf8WithMark).unwrap();
    assert_eq!(files.len(), data.sections.len());
    let (_, bytes) = files.iter().find(|(name, _)| name == "quality-weekly-overdue-work-orders.csv").unwrap();
    let text = std::str::from_utf8(bytes).unwrap();
    assert!(text.starts_with("\u{feff}Work order,Project,"), "{text}");
    assert_eq!(text.lines().count(), 61);
    assert!(text.contains("\r\nW00,'=1+1,t,,Pending,2026-11-01,29\r\n"), "{text}");
}

#[test]
fn a_report_of_another_model_says_what_is_not_in_it() {
    let data = report(&model("skills"), "quality-weekly", sample("skills"), AS_OF);
    let left_out = data.left_out.iter().find(|one| one.title == "Overdue work orders").unwrap();
    assert_eq!(left_out.missing, ["WorkOrder.ScheduledDate"]);
    assert!(html(&data).unwrap().contains("Not in this report"));
}

#[test]
fn the_reports_that_a_shipped_model_names_fit_it() {
    for name in ["quality", "inspection", "skills"] {
        let model = model(name);
        assert!(!model.reports.names.is_empty());
        for report_name in model.reports.names.clone() {
            let data = report(&model, &report_name.name, sample(name), AS_OF);
            assert_eq!(data.left_out, [], "{name}: {report_name:?}");
        }
    }
}

#[test]
fn an_empty_table_gives_a_page() {
    for (name, report_name) in
        [("quality", "quality-weekly"), ("inspection", "inspection-weekly"), ("skills", "skills")]
    {
        let data = report(&model(name), report_name, Vec::new(), AS_OF);
        assert!(html(&data).unwrap().contains("</html>"));
        assert!(data.sections.iter().any(|section| section.table.rows.is_empty()));
    }
}

#[test]
fn no_query_brings_the_program_down() {
    let model = model("quality");
    let input = collect(&model, Vec::new(), AS_OF.parse().unwrap(), Freshness::default());
    let odd = [
        "SELECT",
        "SELECT * FROM read_csv('x')",
        "SELECT TIME '25:00' FROM Device",
        "SELECT 1; DROP TABLE Device",
        "SELECT * FROM Device WHERE",
        "WITH a AS (SELECT 1) SELECT nothing FROM a",
    ];
    for sql in odd {
        let source = format!("version = 1\ntitle = \"T\"\n[[section]]\nid = \"s\"\ntitle = \"S\"\nsql = {sql:?}\n");
        let outcome = run(&parse(&source, "odd").unwrap(), &input);
        assert!(matches!(outcome, Err(ReportError::Query { .. })), "{sql}: {outcome:?}");
    }
}

/// The query engine panics on some texts; the program answers with an error that says where, and prints no panic.
#[test]
fn a_query_that_the_engine_chokes_on_is_an_error_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let definition = folder.path().join("odd.toml");
    let text = "version = 1\ntitle = \"T\"\n[[section]]\nid = \"s\"\ntitle = \"S\"\nsql = \"SELECT INTERVAL '1 foo' AS x FROM params\"\n";
    std::fs::write(&definition, text).unwrap();
    let root = env!("CARGO_MANIFEST_DIR");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tablekeeper"))
        .args([
            "report",
            "--model",
            "quality",
            "--items",
            &format!("{root}/models/quality.items.jsonl"),
            "--as-of",
            AS_OF,
        ])
        .arg("--report")
        .arg(&definition)
        .arg("--out")
        .arg(folder.path())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.contains("section `s`: the query failed") && shown.contains("does not know this form"), "{shown}");
    assert!(!shown.contains("panicked") && !shown.contains("backtrace"), "{shown}");
}
