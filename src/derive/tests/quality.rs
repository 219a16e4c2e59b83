//! The published quality-control table: right answers of aggregates, expiries and keys.

use crate::derive::testing::{
    aggregate, attribute, condition, entity, entity_index, expiry, index, item, listing, model, strings, template,
};
use crate::derive::{Fold, derive};
use crate::model::key::TableKey;
use crate::model::spec::{Attribute, Format, Model};
use crate::model::time::{days_until, parse_timestamp};
use crate::model::value::{Item, Kind, Text, Value};

use super::{derived, verdicts};

fn set(name: &str, values: &[&str]) -> Attribute {
    Attribute { required: true, one_of: strings(values), ..attribute(name, Kind::S) }
}

fn date(name: &str) -> Attribute {
    Attribute { format: Some(Format::Date), none: strings(&["N/A"]), ..attribute(name, Kind::S) }
}

pub fn quality() -> Model {
    let mut model = model("PK", "SK");
    model.table.indexes =
        ["1", "2", "3"].map(|n| index(&format!("GSI{n}"), &[&format!("GSI{n}PK")], &[&format!("GSI{n}SK")])).to_vec();
    for name in ["Manager", "Technician"] {
        let mut user = entity(name, "USER#{username}", "USER#{username}");
        user.matches = vec![condition("Type", &[name])];
        user.attributes = vec![set("Status", &["Active", "Suspended"]), attribute("Name", Kind::S)];
        user.attributes.push(Attribute { aliases: strings(&["CertificateExpiry"]), ..date("CertificateExp") });
        if name == "Technician" {
            let keys = [("GSI1PK", "USER#{manager}"), ("GSI1SK", "TECHNICIANS#{username}")];
            user.indexes = vec![entity_index("GSI1", &keys)];
        }
        model.entities.push(user);
    }
    let mut device = entity("Device", "DEVICE#{device}", "USER#{username}");
    device.matches = vec![condition("Type", &["Device"])];
    device.attributes = vec![set("Status", &["InUse", "Calibrating", "Available", "Maintenance"])];
    let mut order = entity("WorkOrder", "WO#{wo}", "USER#{technician}");
    order.matches = vec![condition("Type", &["WorkOrder"])];
    order.attributes = vec![
        set("Status", &["Pending", "InProgress", "Complete", "Cancelled"]),
        Attribute { required: true, ..attribute("ProjectID", Kind::S) },
        date("ScheduledDate"),
    ];
    order.indexes = vec![
        entity_index("GSI2", &[("GSI2PK", "PROJECT#{ProjectID}"), ("GSI2SK", "WO#{wo}")]),
        entity_index("GSI3", &[("GSI3PK", "USER#{technician}"), ("GSI3SK", "WO#{wo}")]),
    ];
    let mut metadata = entity("Metadata", "METADATA#{Type}", "METADATA#{value}");
    metadata.attributes = vec![set("Type", &["TOLERANCE", "TEST_METHOD"])];
    model.entities.extend([device, order, metadata]);
    derived_things(&mut model);
    model
}

fn derived_things(model: &mut Model) {
    let statuses = model.entity("WorkOrder").unwrap().attribute("Status").unwrap().one_of.clone();
    for (name, by, partition) in
        [("by_project", "ProjectID", "PROJECT#{ProjectID}"), ("by_technician", "technician", "TECHNICIAN#{technician}")]
    {
        let mut counts = aggregate(name, "WorkOrder", &[by], partition, "STATS#WO_STATUS");
        counts.count_by = Some("Status".into());
        counts.buckets = statuses.clone();
        model.aggregates.push(counts);
    }
    let mut devices = aggregate("devices", "Device", &[], "DEVICES", "STATS#STATUS");
    devices.count_by = Some("Status".into());
    devices.buckets = strings(&["InUse", "Calibrating", "Available", "Maintenance"]);
    model.aggregates.push(devices);
    let mut certificates =
        listing("by_certificate", "Technician", "TECHNICIANS#{manager}", "CERT#{CertificateExp}#{username}");
    certificates.copy = strings(&["Name", "Status"]);
    model.listings.push(certificates);
    let mut certificate = expiry("certificate", "Technician", "CertificateExp");
    certificate.when = vec![condition("Status", &["Active"])];
    certificate.subject = Some(template("{username}"));
    certificate.owner = Some(template("{manager}"));
    model.expiries.push(certificate);
}

pub fn technician(id: &str, status: &str, until: &str) -> Item {
    let user = format!("USER#{id}");
    let listed = format!("TECHNICIANS#{id}");
    item([("PK", &user), ("SK", &user), ("Type", "Technician"), ("Status", status), ("CertificateExp", until)])
        .with("Name", Value::text(id.to_uppercase()))
        .with("GSI1PK", Value::text("USER#manager001"))
        .with("GSI1SK", Value::text(listed))
}

pub fn work_order(id: &str, technician: &str, status: &str, project: &str, date: &str) -> Item {
    let (wo, user, project_key) = (format!("WO#{id}"), format!("USER#{technician}"), format!("PROJECT#{project}"));
    item([("PK", &wo), ("SK", &user), ("Type", "WorkOrder"), ("Status", status), ("ProjectID", project)])
        .with("ScheduledDate", Value::text(date))
        .with("GSI2PK", Value::text(project_key))
        .with("GSI2SK", Value::text(&wo))
        .with("GSI3PK", Value::text(user))
        .with("GSI3SK", Value::text(wo))
}

fn device(id: &str, user: &str, status: &str) -> Item {
    let (device, user) = (format!("DEVICE#{id}"), format!("USER#{user}"));
    item([("PK", &device), ("SK", &user), ("Type", "Device"), ("Status", status)])
}

pub fn sample() -> Vec<Item> {
    let manager = |id: &str| {
        let user = format!("USER#{id}");
        item([("PK", &user), ("SK", &user), ("Type", "Manager"), ("Status", "Active"), ("CertificateExp", "N/A")])
    };
    let metadata = |kind: &str, value: &str| {
        let (pk, sk) = (format!("METADATA#{kind}"), format!("METADATA#{value}"));
        item([("PK", &pk), ("SK", &sk), ("Type", kind)])
    };
    vec![
        manager("manager001"),
        manager("manager002"),
        technician("tech001", "Active", "2026-12-31"),
        technician("tech002", "Suspended", "2025-11-15"),
        technician("tech003", "Active", "2025-11-15"),
        device("D100", "tech001", "InUse"),
        device("D101", "tech002", "Calibrating"),
        device("D102", "tech003", "Available"),
        device("D103", "tech001", "Maintenance"),
        device("D104", "tech003", "InUse"),
        work_order("WO001", "tech001", "Pending", "P001", "2025-03-10"),
        work_order("WO002", "tech002", "Complete", "P002", "2025-02-28"),
        work_order("WO003", "tech003", "Pending", "P003", "2025-04-01"),
        work_order("WO004", "tech003", "InProgress", "P001", "2025-04-15"),
        work_order("WO005", "tech001", "Cancelled", "P004", "2025-03-20"),
        metadata("TOLERANCE", "TOL_025"),
        metadata("TOLERANCE", "TOL_001"),
        metadata("TEST_METHOD", "PullTest"),
        metadata("TEST_METHOD", "DropTest"),
    ]
}

fn folded(model: &Model, items: &[Item]) -> Fold {
    let mut fold = Fold::new();
    items.iter().for_each(|item| fold.add(&derived(model, item)));
    fold
}

/// `partition: measures that are not 0` of each group.
fn counts(model: &Model, fold: &Fold, aggregate: &str) -> Vec<String> {
    let of_name = fold.aggregates(model).into_iter().filter(|totals| totals.name == aggregate);
    of_name
        .map(|totals| {
            let shown = totals.measures.iter().filter(|(_, number)| !number.is_zero());
            let shown: Vec<String> = shown.map(|(name, number)| format!("{name} {number}")).collect();
            format!("{}: {}", totals.key.partition.as_text().unwrap(), shown.join(", "))
        })
        .collect()
}

#[test]
fn the_published_sample_gives_the_right_counts_and_no_finding() {
    let model = quality();
    let fold = folded(&model, &sample());
    assert_eq!(fold.findings(), Vec::<&crate::model::derived::Finding>::new());
    assert_eq!(
        counts(&model, &fold, "by_project"),
        [
            "PROJECT#P001: Count_InProgress 1, Count_Pending 1, Total 2",
            "PROJECT#P002: Count_Complete 1, Total 1",
            "PROJECT#P003: Count_Pending 1, Total 1",
            "PROJECT#P004: Count_Cancelled 1, Total 1",
        ]
    );
    assert_eq!(
        counts(&model, &fold, "by_technician"),
        [
            "TECHNICIAN#tech001: Count_Cancelled 1, Count_Pending 1, Total 2",
            "TECHNICIAN#tech002: Count_Complete 1, Total 1",
            "TECHNICIAN#tech003: Count_InProgress 1, Count_Pending 1, Total 2",
        ]
    );
    assert_eq!(
        counts(&model, &fold, "devices"),
        ["DEVICES: Count_Available 1, Count_Calibrating 1, Count_InUse 2, Count_Maintenance 1, Total 5"]
    );
    let p001 = &fold.aggregates(&model)[0];
    let names: Vec<&str> = p001.measures.keys().map(Text::as_str).collect();
    assert_eq!(names, ["Count_Cancelled", "Count_Complete", "Count_InProgress", "Count_Pending", "Total"]);
    assert_eq!(p001.group, item([("ProjectID", "P001")]));
    let checked: Vec<(&str, u64)> = fold.checked().iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(checked, [("Device", 5), ("Manager", 2), ("Metadata", 4), ("Technician", 3), ("WorkOrder", 5)]);
    assert_eq!(fold.unrecognised(), 0);
}

#[test]
fn certificates_expire_with_their_day_and_only_for_the_active() {
    let model = quality();
    let fold = folded(&model, &sample());
    let entries: Vec<_> = fold.expiries().collect();
    let text = |at: usize, name: &str| entries[at].item.text(name).unwrap().to_owned();
    assert_eq!(entries.len(), 2, "tech002 is suspended, managers have no date");
    assert_eq!((text(0, "Subject"), text(0, "Due")), ("tech003".into(), "2025-11-15T23:00:00Z".into()));
    assert_eq!((text(1, "Subject"), text(1, "Date")), ("tech001".into(), "2026-12-31".into()));
    assert_eq!((text(1, "Owner"), text(1, "Entity")), ("manager001".into(), "Technician".into()));
    let due = parse_timestamp(&text(1, "Due")).unwrap();
    assert_eq!(days_until(due, parse_timestamp("2026-11-30T07:00:00Z").unwrap(), &model.zone), 31);
    assert!(text(1, "SK").starts_with("2026-12-31T23:00:00Z#") && text(1, "PK") == "KEEPER#EXPIRY#certificate");
    let source = entries[1].item.get("Source");
    assert_eq!(source, Some(&Value::M(item([("PK", "USER#tech001"), ("SK", "USER#tech001")]).0)));
}

#[test]
fn a_listing_sorts_by_its_key_and_stays_out_of_the_indexes() {
    let model = quality();
    let fold = folded(&model, &sample());
    let keys: Vec<String> = fold.listings().map(|entry| entry.key.to_string()).collect();
    assert_eq!(
        keys,
        [
            "TECHNICIANS#manager001 / CERT#2025-11-15#tech002",
            "TECHNICIANS#manager001 / CERT#2025-11-15#tech003",
            "TECHNICIANS#manager001 / CERT#2026-12-31#tech001",
        ]
    );
    let entry = fold.listings().next().unwrap().item;
    assert_eq!(entry.get("Copy"), Some(&Value::M(item([("Name", "TECH002"), ("Status", "Suspended")]).0)));
    let names: Vec<&str> = entry.0.keys().map(Text::as_str).collect();
    assert_eq!(names, ["Copy", "Group", "PK", "SK", "Source", "_keeper"]);
    assert_eq!(entry.text("_keeper"), Some("listing/by_certificate"));
}

#[test]
fn an_unknown_status_counts_as_other_and_is_a_finding() {
    let model = quality();
    let order = work_order("WO9", "tech001", "complete", "P009", "2025-03-10");
    assert_eq!(verdicts(&model, &order), ["A303 Status Complete"]);
    let fold = folded(&model, &[order]);
    assert_eq!(counts(&model, &fold, "by_project"), ["PROJECT#P009: Count_Other 1, Total 1"]);
    assert_eq!(counts(&model, &fold, "findings"), ["KEEPER#FINDINGS_TOTALS: Count_A303 1, Total 1"]);
}

#[test]
fn a_finding_is_a_row_of_its_own() {
    let model = quality();
    let order = work_order("WO9", "tech001", "Complete", "P009", "31.12.2026");
    let derived = derived(&model, &order);
    let [row] = derived.rows.as_slice() else { panic!("{:?}", derived.rows) };
    let source = TableKey::text("WO#WO9", "USER#tech001");
    let sort = format!("A304#WorkOrder#{}#ScheduledDate", source.digest());
    assert_eq!(row.key, TableKey::text("KEEPER#FINDINGS", sort));
    assert_eq!(row.item.text("_keeper"), Some("finding/A304"));
    assert_eq!(row.item.text("Actual"), Some("31.12.2026"));
    assert_eq!(row.item.text("Severity"), Some("error"));
}

#[test]
fn a_misspelt_type_is_told_from_an_unknown_key() {
    let model = quality();
    let mut order = work_order("WO1", "tech001", "Pending", "P1", "2025-03-10");
    order.insert("Type", Value::text("Workorder"));
    assert_eq!(verdicts(&model, &order), ["K102 Type WorkOrder"]);
    let derived = derive(&model, &TableKey::text("WO#WO1", "USER#tech001"), &order);
    assert_eq!(derived.entity, None);
    assert_eq!(derived.counts.len(), 1, "only the totals of findings");
    assert!(derived.findings[0].message.contains("but `Type` is `Workorder` here; set `Type` to `WorkOrder`"));
    let order = item([("PK", "WO#WO1"), ("SK", "TECH#1"), ("Type", "Order")]);
    let message = &super::derived(&model, &order).findings[0].message;
    assert!(message.contains("the sort key should be `USER#{technician}` (WorkOrder)"), "{message}");
}

#[test]
fn a_key_that_the_attributes_contradict_derives_findings_only() {
    let model = quality();
    let mut order = work_order("WO1", "tech001", "Pending", "P1", "2025-03-10");
    order.insert("PK", Value::text("ORDER#WO1"));
    let derived = derived(&model, &order);
    assert_eq!(derived.entity.as_deref(), Some("WorkOrder"));
    assert_eq!((derived.findings.len(), derived.findings[0].code.as_str()), (1, "K101"));
    assert_eq!(derived.findings[0].expected.as_deref(), Some("WO#{wo}"));
    assert!(derived.counts.iter().all(|count| count.aggregate == "findings"));
    let mut user = technician("tech001", "Active", "N/A");
    user.insert("SK", Value::text("USER#tech002"));
    assert_eq!(verdicts(&model, &user), ["K104 SK USER#tech001"]);
}

#[test]
fn a_date_without_meaning_for_alerts_has_no_row() {
    let model = quality();
    for (until, findings) in [
        ("N/A", vec![]),
        ("31.12.2026", vec!["A304 CertificateExp a date YYYY-MM-DD"]),
        ("2026-02-30", vec!["A305 CertificateExp a day and time that exist"]),
        ("2926-12-31", vec!["A305 CertificateExp a day and time that exist"]),
    ] {
        let user = technician("tech001", "Active", until);
        assert_eq!(verdicts(&model, &user), findings, "{until}");
        let fold = folded(&model, &[user]);
        assert_eq!(fold.expiries().count(), 0, "{until}");
    }
    // An alias is as good as the name.
    let mut user = technician("tech001", "Active", "N/A");
    user.0.remove("CertificateExp");
    user.insert("CertificateExpiry", Value::text("2026-12-31"));
    assert_eq!(folded(&model, &[user]).expiries().count(), 1);
}
