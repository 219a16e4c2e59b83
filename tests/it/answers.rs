//! The right answers on the sample items of the shipped models, as literals: from a file by `derive`, and from the table
//! after the worker has run.

use std::io::Write as _;

use aws_sdk_dynamodb::types::AttributeValue;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value as Json, json};

use crate::kept::{Kept, Ran, each, items, tablekeeper};

/// An aggregate item as `derive` prints it: its name, its key, its values.
type Answer = (&'static str, [String; 2], Json);

fn work_orders(pending: u32, in_progress: u32, complete: u32, cancelled: u32) -> Json {
    json!({
        "Count_Pending": pending, "Count_InProgress": in_progress, "Count_Complete": complete,
        "Count_Cancelled": cancelled, "Total": pending + in_progress + complete + cancelled
    })
}

fn text(partition: &str, sort: &str) -> [String; 2] {
    [partition.to_owned(), sort.to_owned()]
}

/// The work orders and devices of `quality` and `inspection`, whose users are named differently.
fn orders_and_devices(user: &str, by_user: &'static str) -> Vec<Answer> {
    let project =
        |name: &str, values| ("wo_status_by_project", text(&format!("PROJECT#{name}"), "STATS#WO_STATUS"), values);
    let title = if user == "tech" { "TECHNICIAN" } else { "INSPECTOR" };
    let person = |n: u32, values| (by_user, text(&format!("{title}#{user}{n:03}"), "STATS#WO_STATUS"), values);
    let devices =
        json!({"Count_InUse": 2, "Count_Calibrating": 1, "Count_Available": 1, "Count_Maintenance": 1, "Total": 5});
    vec![
        project("P001", work_orders(1, 1, 0, 0)),
        project("P002", work_orders(0, 0, 1, 0)),
        project("P003", work_orders(1, 0, 0, 0)),
        project("P004", work_orders(0, 0, 0, 1)),
        person(1, work_orders(1, 0, 0, 1)),
        person(2, work_orders(0, 0, 1, 0)),
        person(3, work_orders(1, 1, 0, 0)),
        ("devices_by_status", text("DEVICES", "STATS#STATUS"), devices),
    ]
}

fn quality() -> Vec<Answer> {
    let statuses = json!({"Count_Active": 2, "Count_Inactive": 0, "Count_Suspended": 1, "Total": 3});
    let technicians = ("technicians_by_status", text("TECHNICIANS#manager001", "STATS#STATUS"), statuses);
    [orders_and_devices("tech", "wo_status_by_technician"), vec![technicians]].concat()
}

fn inspection() -> Vec<Answer> {
    let statuses = json!({"Count_Active": 1, "Count_Inactive": 0, "Count_Suspended": 1, "Total": 2});
    let inspectors = ("inspectors_by_status", text("INSPECTORS#admin001", "STATS#STATUS"), statuses);
    [orders_and_devices("insp", "wo_status_by_inspector"), vec![inspectors]].concat()
}

/// Beginner, Intermediate, Advanced, Expert.
fn levels(levels: [u32; 4]) -> Json {
    let [beginner, intermediate, advanced, expert] = levels;
    json!({
        "Count_Beginner": beginner, "Count_Intermediate": intermediate, "Count_Advanced": advanced,
        "Count_Expert": expert, "Total": levels.iter().sum::<u32>()
    })
}

fn with_years(mut values: Json, years: u32) -> Json {
    values["Sum_YearsOfExperience"] = json!(years);
    values
}

fn distribution(skill: &str, counts: [u32; 4]) -> Answer {
    ("proficiency_by_skill", text("SkillStats", &format!("SKILLSTATS#{skill}")), levels(counts))
}

/// People, years, their squares, endorsements.
fn experience(skill: &str, [people, years, squares, endorsements]: [u32; 4]) -> Answer {
    let values = json!({
        "Total": people, "Sum_YearsOfExperience": years, "SumSq_YearsOfExperience": squares,
        "Sum_Endorsements": endorsements
    });
    ("experience_by_skill", text("SkillStats", &format!("EXPERIENCE#{skill}")), values)
}

fn category(name: &str, counts: [u32; 4], years: u32) -> Answer {
    let key = text("SkillStats", &format!("CATEGORYSTATS#{name}"));
    ("proficiency_by_category", key, with_years(levels(counts), years))
}

fn person(name: &str, counts: [u32; 4], years: u32) -> Answer {
    ("skills_by_user", text("UserStats", &format!("USERSTATS#{name}")), with_years(levels(counts), years))
}

fn all_user_skills(counts: [u32; 4], years: u32) -> Answer {
    ("user_skills", text("Totals", "USERSKILLS"), with_years(levels(counts), years))
}

fn skills() -> Vec<Answer> {
    let of_category =
        |name: &str| ("skills_by_category", text("Totals", &format!("SKILLS#{name}")), json!({"Total": 1}));
    vec![
        distribution("Programming#Python", [0, 0, 1, 1]),
        distribution("Backend#Go", [1, 0, 0, 1]),
        distribution("Frontend#React", [0, 1, 0, 0]),
        experience("Programming#Python", [2, 15, 125, 192]),
        experience("Backend#Go", [2, 8, 50, 85]),
        experience("Frontend#React", [1, 3, 9, 25]),
        category("Programming", [0, 0, 1, 1], 15),
        category("Backend", [1, 0, 0, 1], 8),
        category("Frontend", [0, 1, 0, 0], 3),
        person("john_doe", [0, 1, 0, 1], 13),
        person("jane_doe", [1, 0, 1, 0], 6),
        person("alice_smith", [0, 0, 0, 1], 7),
        ("users", text("Totals", "USERS"), json!({"Total": 3})),
        of_category("Programming"),
        of_category("Backend"),
        of_category("Frontend"),
        all_user_skills([1, 1, 1, 2], 26),
    ]
}

fn index_sample() -> Vec<Answer> {
    vec![
        distribution("Programming#Python", [1, 1, 1, 2]),
        distribution("Frontend#TypeScript", [0, 0, 1, 1]),
        distribution("Backend#Go", [0, 0, 0, 1]),
        distribution("Cloud#AWS", [0, 0, 0, 1]),
        distribution("DevOps#Docker", [1, 0, 0, 0]),
        experience("Programming#Python", [5, 26, 184, 0]),
        experience("Frontend#TypeScript", [2, 10, 52, 0]),
        experience("Backend#Go", [1, 7, 49, 0]),
        experience("Cloud#AWS", [1, 9, 81, 0]),
        experience("DevOps#Docker", [1, 1, 1, 0]),
        category("Programming", [1, 1, 1, 2], 26),
        category("Frontend", [0, 0, 1, 1], 10),
        category("Backend", [0, 0, 0, 1], 7),
        category("Cloud", [0, 0, 0, 1], 9),
        category("DevOps", [1, 0, 0, 0], 1),
        person("jane_smith", [1, 0, 0, 0], 1),
        person("mike_wilson", [0, 1, 0, 0], 3),
        person("alice_johnson", [0, 0, 1, 0], 5),
        person("bob_smith", [0, 0, 0, 1], 7),
        person("diana_evans", [0, 0, 0, 1], 10),
        person("alex_chen", [0, 0, 1, 0], 4),
        person("betty_wang", [0, 0, 0, 1], 6),
        person("alice_smith", [0, 0, 0, 1], 7),
        person("charlie_brown", [0, 0, 0, 1], 9),
        person("tom_davis", [1, 0, 0, 0], 1),
        all_user_skills([2, 1, 2, 5], 53),
    ]
}

async fn derive(model: &str, items: &str) -> Ran {
    tablekeeper(&["derive", "--model", model, "--items", items, "--format", "json"]).await
}

/// `derive`'s answer on a shipped sample: exit code 0, exactly these aggregates, no findings, these counts of items.
async fn assert_derived(model: &str, sample: &str, names: [&str; 2], answers: Vec<Answer>, checked: Json) -> Json {
    let ran = derive(&format!("models/{model}.toml"), &format!("models/{sample}")).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let derived = ran.json();
    let sorted = |mut aggregates: Vec<Json>| {
        aggregates.sort_by_key(|aggregate| aggregate["key"].to_string());
        aggregates
    };
    let expected = answers.into_iter().map(|(name, key, values)| {
        let [partition, sort] = key;
        json!({"name": name, "key": {names[0]: partition, names[1]: sort}, "values": values})
    });
    assert_eq!(sorted(derived["aggregates"].as_array().unwrap().clone()), sorted(expected.collect()), "{sample}");
    assert_eq!((&derived["findings"], &derived["checked"]), (&json!([]), &checked));
    derived
}

/// Name and number of entries, in the order of the output.
fn listings(derived: &Json) -> Vec<(String, usize)> {
    let names = each(derived["listings"].as_array().unwrap(), "name");
    let chunks = names.chunk_by(|a, b| a == b);
    chunks.map(|chunk| (chunk[0].as_str().unwrap().to_owned(), chunk.len())).collect()
}

fn named(counts: &[(&str, usize)]) -> Vec<(String, usize)> {
    counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[tokio::test]
async fn the_quality_sample_derives_the_right_answers() {
    let checked = json!({"Manager": 2, "Technician": 3, "Device": 5, "WorkOrder": 5, "Tolerance": 2, "TestMethod": 2});
    let derived = assert_derived("quality", "quality.items.jsonl", ["PK", "SK"], quality(), checked).await;
    let members: Vec<&String> = derived.as_object().unwrap().keys().collect();
    assert_eq!(members, ["aggregates", "checked", "expiries", "findings", "listings"]);
    // The last valid day ends at midnight of the site; the suspended technician does not alert.
    let expiries = json!([
        {"name": "certificate", "subject": "tech003", "due": "2025-11-16T00:00:00Z"},
        {"name": "certificate", "subject": "tech001", "due": "2027-01-01T00:00:00Z"}
    ]);
    assert_eq!(derived["expiries"], expiries);
    let entries = [
        ("devices", 5),
        ("devices_by_model", 5),
        ("devices_by_serial", 5),
        ("devices_by_user", 5),
        ("technicians_by_certificate", 3),
        ("technicians_by_status", 3),
        ("technicians_by_type", 3),
    ];
    assert_eq!(listings(&derived), named(&entries));
    let first = json!({
        "name": "devices", "key": {"PK": "DEVICES", "SK": "ID#D100#tech001"},
        "values": {"Model": "ABC-1000", "SerialNum": "SN100-A", "Status": "InUse"}
    });
    assert_eq!(derived["listings"][0], first);
}

#[tokio::test]
async fn the_inspection_sample_derives_the_right_answers() {
    let checked = json!({
        "Admin": 2, "Inspector": 2, "Device": 5, "WorkOrder": 5, "RoomType": 2, "Substrate": 2, "Component": 1
    });
    // That insp003 is no user item shows only when items are compared with one another: no item breaks its own keys.
    let derived = assert_derived("inspection", "inspection.items.jsonl", ["PK", "SK"], inspection(), checked).await;
    let expiries = json!([{"name": "license", "subject": "insp001", "due": "2027-01-01T00:00:00Z"}]);
    assert_eq!(derived["expiries"], expiries);
    let entries = [
        ("devices", 5),
        ("devices_by_model", 5),
        ("devices_by_serial", 5),
        ("devices_by_user", 5),
        ("inspectors_by_license", 2),
        ("inspectors_by_status", 2),
        ("inspectors_by_type", 2),
    ];
    assert_eq!(listings(&derived), named(&entries));
}

const SKILL_LISTINGS: [&str; 4] =
    ["experience_in_category", "experience_in_skill", "levels_in_category", "levels_in_skill"];

#[tokio::test]
async fn both_skills_samples_derive_the_right_answers() {
    let names = ["EntityType", "entity_id"];
    let checked = json!({"User": 3, "Skill": 3, "UserSkill": 5});
    let derived = assert_derived("skills", "skills.items.jsonl", names, skills(), checked).await;
    assert_eq!(derived["expiries"], json!([]));
    assert_eq!(listings(&derived), named(&SKILL_LISTINGS.map(|name| (name, 5))));
    let checked = json!({"UserSkill": 10});
    let derived = assert_derived("skills", "skills.index-sample.jsonl", names, index_sample(), checked).await;
    assert_eq!(listings(&derived), named(&SKILL_LISTINGS.map(|name| (name, 10))));
}

/// A line of the sample as DynamoDB JSON: all of the samples' attributes are text or numbers.
fn typed(line: &str) -> Json {
    let plain: serde_json::Map<String, Json> = serde_json::from_str(line).unwrap();
    let value = |value: Json| match value {
        Json::Number(number) => json!({"N": number.to_string()}),
        text => json!({"S": text}),
    };
    plain.into_iter().map(|(name, json)| (name, value(json))).collect()
}

#[tokio::test]
async fn every_form_of_the_file_gives_the_same_output() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let zipped = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    for (model, sample) in [
        ("quality", include_str!("../../models/quality.items.jsonl")),
        ("skills", include_str!("../../models/skills.items.jsonl")),
    ] {
        let export: String = sample.lines().map(|line| format!("{}\n", json!({"Item": typed(line)}))).collect();
        let bare: String = sample.lines().map(|line| format!("{}\n", typed(line))).collect();
        let expected = derive(model, &format!("models/{model}.items.jsonl")).await;
        for path in [
            write("plain.jsonl", sample.as_bytes()),
            write("plain.jsonl.gz", &zipped(sample)),
            write("export.json", export.as_bytes()),
            write("export.json.gz", &zipped(&export)),
            write("scan.jsonl", bare.as_bytes()),
        ] {
            let ran = derive(model, &path).await;
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{path}");
            assert_eq!(ran.out, expected.out, "{path}");
        }
    }
}

/// All answers by GetItem, one each.
async fn assert_kept(kept: &Kept, answers: Vec<Answer>) {
    for (name, [partition, sort], values) in answers {
        let item = kept.get(&partition, &sort).await.unwrap_or_else(|| panic!("no {partition} / {sort}"));
        assert_eq!(item["_keeper"], json!(format!("aggregate/{name}")));
        assert!(item["UpdatedAt"].is_string() && item["Group"].is_object(), "{item}");
        assert_eq!(kept.measures(&partition, &sort).await, values, "{partition} / {sort}");
    }
}

#[tokio::test]
async fn the_table_of_the_quality_sample_holds_the_right_answers() {
    let kept = Kept::of("quality", &items("quality.items.jsonl")).await;
    let project = kept.get("PROJECT#P001", "STATS#WO_STATUS").await.unwrap();
    let counts = ["Count_Pending", "Count_InProgress", "Count_Complete", "Count_Cancelled", "Total"];
    assert_eq!(counts.map(|name| project[name].as_u64()), [Some(1), Some(1), Some(0), Some(0), Some(2)]);
    assert_eq!(project["Group"], json!({"ProjectID": "P001"}));
    assert_kept(&kept, quality()).await;
    assert!(kept.get("PROJECT#P005", "STATS#WO_STATUS").await.is_none());
    kept.close().await;
}

#[tokio::test]
async fn the_table_of_the_inspection_sample_holds_the_right_answers() {
    let kept = Kept::of("inspection", &items("inspection.items.jsonl")).await;
    assert_kept(&kept, inspection()).await;
    kept.close().await;
}

/// Everything in the index: a Query for each category that the model declares.
async fn in_index(kept: &Kept) -> Vec<Json> {
    let mut found = Vec::new();
    let entity = kept.model.entity("UserSkill").unwrap();
    let categories = &entity.attribute("Category").unwrap().one_of;
    assert_eq!(categories.len(), 10);
    for category in categories {
        let query = kept.query_index("BySkill").key_condition_expression("Category = :c");
        let category = AttributeValue::S(category.clone());
        found.extend(kept.ask(query.expression_attribute_values(":c", category)).await);
    }
    found
}

#[tokio::test]
async fn the_table_of_the_skills_sample_holds_the_right_answers() {
    let kept = Kept::of("skills", &items("skills.items.jsonl")).await;
    assert_kept(&kept, skills()).await;
    assert_eq!(each(&in_index(&kept).await, "EntityType"), ["UserSkill"; 5].map(|name| json!(name)));
    kept.close().await;
}

#[tokio::test]
async fn the_index_of_five_attributes_holds_user_skills_and_nothing_else() {
    let kept = Kept::of("skills", &items("skills.index-sample.jsonl")).await;
    assert_kept(&kept, index_sample()).await;
    assert_eq!(each(&in_index(&kept).await, "EntityType"), ["UserSkill"; 10].map(|name| json!(name)));
    // The four counts that the aggregate replaces, and the order of the fourth attribute, a number.
    let query = |level: &str| {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        kept.query_index("BySkill")
            .key_condition_expression("Category = :c AND SkillName = :s AND ProficiencyLevel = :l")
            .expression_attribute_values(":c", text("Programming"))
            .expression_attribute_values(":s", text("Python"))
            .expression_attribute_values(":l", text(level))
    };
    for (level, count) in [("Beginner", 1), ("Intermediate", 1), ("Advanced", 1), ("Expert", 2)] {
        assert_eq!(kept.ask(query(level)).await.len(), count, "{level}");
    }
    let experts = kept.ask(query("Expert")).await;
    assert_eq!(each(&experts, "Username"), [json!("bob_smith"), json!("diana_evans")]);
    assert_eq!(each(&experts, "YearsOfExperience"), [json!(7), json!(10)]);
    kept.close().await;
}
