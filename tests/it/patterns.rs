//! The access patterns of the shipped tables that their own keys do not serve: each is exactly one GetItem or one Query.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value as Json, json};
use tablekeeper::model::value::Item;

use crate::kept::{Kept, copies, each, item, items};

fn technician(name: &str, manager: &str, status: &str, role: &str, expires: &str) -> Json {
    json!({
        "PK": format!("USER#{name}"), "SK": format!("USER#{name}"), "Type": "Technician", "Name": name, "Role": role,
        "Status": status, "CertificateExp": expires,
        "GSI1PK": format!("USER#{manager}"), "GSI1SK": format!("TECHNICIANS#{name}")
    })
}

/// The quality sample, and what makes orders differ from one another: a technician who sorts elsewhere by each attribute, one
/// without a date, one of another manager, and a device with dates.
async fn quality() -> Kept {
    let mut all = items("quality.items.jsonl");
    let device = json!({
        "PK": "DEVICE#D105", "SK": "USER#tech001", "Type": "Device", "Status": "Available", "Model": "ABC-1500",
        "SerialNum": "SN050-Z", "CalibrationDue": "2026-12-10", "MaintenanceDue": "2026-11-01"
    });
    let further = [
        technician("tech000", "manager001", "Inactive", "Lead", "2026-06-30"),
        technician("tech004", "manager001", "Active", "Technician", "N/A"),
        technician("tech005", "manager002", "Active", "Technician", "2026-01-31"),
        device,
    ];
    all.extend(further.iter().map(item));
    Kept::of("quality", &all).await
}

fn person(name: &str, role: &str, status: &str, expires: &str) -> Json {
    json!({"Name": name, "Role": role, "Status": status, "CertificateExp": expires})
}

#[tokio::test]
async fn a_manager_lists_technicians_by_certificate_type_and_status() {
    let kept = quality().await;
    let bob = person("Bob Smith", "Technician", "Active", "2026-12-31");
    let jenny = person("Jenny Lopez", "Technician", "Suspended", "2025-11-15");
    let john = person("John Lopez", "Technician", "Active", "2025-11-15");
    let lead = person("tech000", "Lead", "Inactive", "2026-06-30");
    let undated = person("tech004", "Technician", "Active", "N/A");
    let of = "TECHNICIANS#manager001";
    let by_certificate = [&jenny, &john, &lead, &bob].map(Json::clone);
    assert_eq!(kept.entries(of, "CERT#").await, by_certificate);
    let by_type = [&lead, &bob, &jenny, &john, &undated].map(Json::clone);
    assert_eq!(kept.entries(of, "TYPE#").await, by_type);
    let by_status = [&bob, &john, &undated, &lead, &jenny].map(Json::clone);
    assert_eq!(kept.entries(of, "STATUS#").await, by_status);
    assert_eq!(kept.entries(of, "STATUS#Active#").await, by_status[..3]);
    // Who must renew by the end of June: up to and with that day.
    let until = kept.query(of, "#sk BETWEEN :a AND :b", &["CERT#", "CERT#2026-06-30#~"]);
    assert_eq!(copies(&kept.ask(until).await), by_certificate[..3]);
    let latest = kept.query(of, "begins_with(#sk, :a)", &["CERT#"]).scan_index_forward(false).limit(1);
    assert_eq!(copies(&kept.ask(latest).await), [bob]);
    assert_eq!(each(&kept.entries("TECHNICIANS#manager002", "CERT#").await, "Name"), [json!("tech005")]);
    let statuses = json!({"Total": 5, "Count_Active": 3, "Count_Inactive": 1, "Count_Suspended": 1});
    assert_eq!(kept.measures(of, "STATS#STATUS").await, statuses);
    // Nothing of ours is in the index that lists them by user name.
    let manager = AttributeValue::S("USER#manager001".to_owned());
    let by_name = kept.query_index("GSI1").key_condition_expression("GSI1PK = :m");
    let by_name = by_name.expression_attribute_values(":m", manager);
    let names = ["tech000", "Bob Smith", "Jenny Lopez", "John Lopez", "tech004"].map(|name| json!(name));
    assert_eq!(each(&kept.ask(by_name).await, "Name"), names);
    kept.close().await;
}

fn device(model: &str, serial: &str, status: &str) -> Json {
    json!({"Model": model, "SerialNum": serial, "Status": status})
}

#[tokio::test]
async fn devices_are_listed_by_id_model_serial_and_user() {
    let kept = quality().await;
    let d100 = device("ABC-1000", "SN100-A", "InUse");
    let d101 = device("XYZ-2000", "SN200-B", "Calibrating");
    let d102 = device("ABC-2000", "SN300-C", "Available");
    let d103 = device("XYZ-2000", "SN400-D", "Maintenance");
    let d104 = device("ABC-1000", "SN500-E", "InUse");
    let d105 = device("ABC-1500", "SN050-Z", "Available");
    let mut dated = d105.clone();
    dated["CalibrationDue"] = json!("2026-12-10");
    dated["MaintenanceDue"] = json!("2026-11-01");
    assert_eq!(kept.entries("DEVICES", "ID#").await, [&d100, &d101, &d102, &d103, &d104, &dated].map(Json::clone));
    assert_eq!(kept.entries("DEVICES", "MODEL#").await, [&d100, &d104, &d105, &d102, &d101, &d103].map(Json::clone));
    assert_eq!(kept.entries("DEVICES", "MODEL#ABC-1000#").await, [&d100, &d104].map(Json::clone));
    assert_eq!(kept.entries("DEVICES", "SERIAL#").await, [&d105, &d100, &d101, &d102, &d103, &d104].map(Json::clone));
    assert_eq!(kept.entries("DEVICES", "SERIAL#SN300-C#").await, std::slice::from_ref(&d102));
    assert_eq!(kept.entries("DEVICES", "USER#").await, [&d100, &d103, &dated, &d101, &d102, &d104].map(Json::clone));
    assert_eq!(kept.entries("DEVICES", "USER#tech001#").await, [d100, d103, dated]);
    assert_eq!(kept.entries("DEVICES", "USER#tech00#").await, [Json::Null; 0], "a name is not a prefix of another");
    let statuses =
        json!({"Total": 6, "Count_Available": 2, "Count_Calibrating": 1, "Count_InUse": 2, "Count_Maintenance": 1});
    assert_eq!(kept.measures("DEVICES", "STATS#STATUS").await, statuses);
    kept.close().await;
}

#[tokio::test]
async fn work_orders_are_counted_and_dates_are_listed() {
    let kept = quality().await;
    let counts = |counts: [u32; 5]| {
        let [pending, in_progress, complete, cancelled, total] = counts;
        json!({
            "Count_Pending": pending, "Count_InProgress": in_progress, "Count_Complete": complete,
            "Count_Cancelled": cancelled, "Total": total
        })
    };
    let groups = [
        ("PROJECT#P001", [1, 1, 0, 0, 2]),
        ("PROJECT#P002", [0, 0, 1, 0, 1]),
        ("PROJECT#P003", [1, 0, 0, 0, 1]),
        ("PROJECT#P004", [0, 0, 0, 1, 1]),
        ("TECHNICIAN#tech001", [1, 0, 0, 1, 2]),
        ("TECHNICIAN#tech002", [0, 0, 1, 0, 1]),
        ("TECHNICIAN#tech003", [1, 1, 0, 0, 2]),
    ];
    for (group, expected) in groups {
        assert_eq!(kept.measures(group, "STATS#WO_STATUS").await, counts(expected), "{group}");
    }
    // What falls due: overdue as of 2026-11-30 is one Query, and so is the month after.
    let due = async |expiry: &str, from: &str, until: &str| {
        let range = kept.query(&format!("KEEPER#EXPIRY#{expiry}"), "#sk BETWEEN :a AND :b", &[from, until]);
        each(&kept.ask(range).await, "Subject")
    };
    let overdue = due("certificate", "0", "2026-11-30").await;
    assert_eq!(overdue, [json!("tech003"), json!("tech005")]);
    assert_eq!(due("certificate", "2026-11-30", "2027-01-02").await, [json!("tech001")]);
    assert_eq!(due("calibration", "2026-11-30", "2027-01-02").await, [json!("D105")]);
    assert_eq!(due("maintenance", "0", "2026-11-30").await, [json!("D105")]);
    kept.close().await;
}

#[tokio::test]
async fn an_admin_lists_inspectors_by_license_and_devices_by_user() {
    let kept = Kept::of("inspection", &items("inspection.items.jsonl")).await;
    let person = |name: &str, status: &str, expires: &str| json!({"Name": name, "Role": "Inspector", "Status": status, "LicenseExp": expires});
    let (bob, jenny) = (person("Bob Smith", "Active", "2026-12-31"), person("Jenny Lopez", "Suspended", "2025-11-15"));
    let of = "INSPECTORS#admin001";
    assert_eq!(kept.entries(of, "LICENSE#").await, [&jenny, &bob].map(Json::clone));
    assert_eq!(kept.entries(of, "TYPE#").await, [&bob, &jenny].map(Json::clone));
    assert_eq!(kept.entries(of, "STATUS#").await, [bob, jenny]);
    // Devices of a user who has no item of its own, too.
    let d102 = device("XRF-2000", "SN300-C", "Available");
    let d104 = device("XRF-1000", "SN500-E", "InUse");
    assert_eq!(kept.entries("DEVICES", "USER#insp003#").await, [d102, d104]);
    let mine = [device("XRF-1000", "SN100-A", "InUse"), device("XRF-2000", "SN400-D", "Maintenance")];
    assert_eq!(kept.entries("DEVICES", "USER#insp001#").await, mine);
    let serials = ["SN100-A", "SN500-E", "SN200-B", "SN300-C", "SN400-D"].map(|serial| json!(serial));
    assert_eq!(each(&kept.entries("DEVICES", "MODEL#").await, "SerialNum"), serials);
    assert_eq!(kept.entries("DEVICES", "ID#").await.len(), 5);
    kept.close().await;
}

/// Both samples together: seven people know Python.
async fn skills() -> Kept {
    // One item is in both.
    let mut all = items("skills.items.jsonl");
    let second = items("skills.index-sample.jsonl");
    let is_new = |item: &&Item| !all.iter().any(|other| other.get("entity_id") == item.get("entity_id"));
    let further: Vec<Item> = second.iter().filter(is_new).cloned().collect();
    assert_eq!((all.len(), second.len(), further.len()), (11, 10, 9));
    all.extend(further);
    Kept::of("skills", &all).await
}

fn expert(skill: Option<&str>, name: &str, level: &str, years: u32) -> Json {
    let mut entry = json!({"Username": name, "ProficiencyLevel": level, "YearsOfExperience": years});
    if let Some(skill) = skill {
        entry["SkillName"] = json!(skill);
    }
    entry
}

/// Without the attributes that only one of the samples has.
fn brief(entries: Vec<Json>) -> Vec<Json> {
    let strip = |mut entry: Json| {
        for name in ["Endorsements", "LastUsedDate"] {
            entry.as_object_mut().unwrap().remove(name);
        }
        entry
    };
    entries.into_iter().map(strip).collect()
}

#[tokio::test]
async fn experts_of_a_category_and_people_at_or_above_a_level_are_one_query() {
    let kept = skills().await;
    let python = |name: &str, level: &str, years: u32| expert(Some("Python"), name, level, years);
    // 18: all Experts of a category.
    let experts =
        [python("bob_smith", "Expert", 7), python("diana_evans", "Expert", 10), python("john_doe", "Expert", 10)];
    let found = kept.entries("LevelsInCategory#Programming", "4#").await;
    let john = json!({
        "Username": "john_doe", "SkillName": "Python", "ProficiencyLevel": "Expert", "YearsOfExperience": 10,
        "Endorsements": 150, "LastUsedDate": "2025-12-15"
    });
    assert_eq!(found[2], john);
    assert_eq!(brief(found), experts);
    assert_eq!(each(&kept.entries("LevelsInCategory#Frontend", "4#").await, "Username"), [json!("betty_wang")]);
    // 22: at or above a level, in a category and in a skill. Alphabetical order would put Intermediate above Expert.
    let names = |names: &[&str]| names.iter().map(|name| json!(name)).collect::<Vec<Json>>();
    for (level, expected) in [
        ("4#", &["bob_smith", "diana_evans", "john_doe"][..]),
        ("3#", &["alice_johnson", "jane_doe", "bob_smith", "diana_evans", "john_doe"]),
        ("2#", &["mike_wilson", "alice_johnson", "jane_doe", "bob_smith", "diana_evans", "john_doe"]),
    ] {
        for partition in ["LevelsInCategory#Programming", "LevelsInSkill#Programming#Python"] {
            let above = kept.ask(kept.query(partition, "#sk >= :a", &[level])).await;
            assert_eq!(each(&copies(&above), "Username"), names(expected), "{partition} from {level}");
        }
    }
    kept.close().await;
}

#[tokio::test]
async fn the_most_experienced_come_first_and_distributions_are_one_read() {
    let kept = skills().await;
    // 21: the most experienced, and as numbers: 10 years before 7.
    let top = async |partition: &str, limit: i32| {
        brief(copies(&kept.ask(kept.query(partition, "", &[]).scan_index_forward(false).limit(limit)).await))
    };
    let best = [
        expert(None, "john_doe", "Expert", 10),
        expert(None, "diana_evans", "Expert", 10),
        expert(None, "bob_smith", "Expert", 7),
    ];
    assert_eq!(top("ExperienceInSkill#Programming#Python", 3).await, best);
    let years = each(&top("ExperienceInSkill#Programming#Python", 100).await, "YearsOfExperience");
    assert_eq!(years, [10, 10, 7, 5, 5, 3, 1].map(|years| json!(years)));
    let frontend =
        [expert(Some("TypeScript"), "betty_wang", "Expert", 6), expert(Some("TypeScript"), "alex_chen", "Advanced", 4)];
    assert_eq!(top("ExperienceInCategory#Frontend", 2).await, frontend);
    // 20: the distribution.
    let levels = |levels: [u32; 5]| {
        let [beginner, intermediate, advanced, expert, total] = levels;
        json!({
            "Count_Beginner": beginner, "Count_Intermediate": intermediate, "Count_Advanced": advanced,
            "Count_Expert": expert, "Total": total
        })
    };
    let python = kept.measures("SkillStats", "SKILLSTATS#Programming#Python").await;
    assert_eq!(python, levels([1, 1, 2, 3, 7]));
    assert_eq!(kept.measures("SkillStats", "SKILLSTATS#Backend#Go").await, levels([1, 0, 0, 1, 2]));
    // Totals.
    assert_eq!(kept.measures("Totals", "USERS").await, json!({"Total": 3}));
    assert_eq!(kept.measures("Totals", "SKILLS#Backend").await, json!({"Total": 1}));
    assert_eq!(kept.measures("UserStats", "USERSTATS#john_doe").await["Total"], json!(2));
    let all = kept.measures("Totals", "USERSKILLS").await;
    assert_eq!((&all["Total"], &all["Sum_YearsOfExperience"]), (&json!(14), &json!(72)));
    let by_category = kept.ask(kept.query("Totals", "begins_with(#sk, :a)", &["SKILLS#"])).await;
    assert_eq!(each(&by_category, "Total"), [1, 1, 1].map(|total| json!(total)));
    kept.close().await;
}
