//! The models that are shipped load without a fault or warning and say what they promise.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{faults, shown};
use crate::model::load::load;
use crate::model::load::rules::RULES;
use crate::model::spec::Model;
use crate::model::value::Kind;

pub(super) const SHIPPED: [(&str, &str); 3] = [
    ("quality", include_str!("../../../../models/quality.toml")),
    ("inspection", include_str!("../../../../models/inspection.toml")),
    ("skills", include_str!("../../../../models/skills.toml")),
];

fn model(name: &str) -> Model {
    let (_, source) = SHIPPED.iter().find(|(shipped, _)| *shipped == name).unwrap();
    load(source, "file").unwrap_or_else(|faults| panic!("{name}:\n{}", shown(&faults))).model
}

#[test]
fn shipped_models_have_no_fault_and_no_warning() {
    for (name, source) in SHIPPED {
        let found = faults(source);
        assert!(found.is_empty(), "{name}:\n{}", shown(&found));
        assert_eq!(model(name).name, name);
        assert_eq!(model(name).hash.len(), 64);
    }
}

#[test]
fn a_multi_attribute_index_keeps_its_order_and_types() {
    let model = model("skills");
    let index = model.table.index("BySkill").unwrap();
    let keys: Vec<(&str, Kind)> = index.attributes().map(|key| (key.name.as_str(), key.kind)).collect();
    let expected = [
        ("Category", Kind::S),
        ("SkillName", Kind::S),
        ("ProficiencyLevel", Kind::S),
        ("YearsOfExperience", Kind::N),
        ("Username", Kind::S),
    ];
    assert_eq!(keys, expected);
    let filled = &model.entity("UserSkill").unwrap().indexes[0];
    assert!(filled.keys.iter().map(|(name, _)| name.as_str()).eq(expected.iter().map(|(name, _)| *name)));
    assert!(model.entity("User").unwrap().indexes.is_empty());
}

#[test]
fn defaults_and_declared_sets_reach_the_model() {
    let model = model("quality");
    assert_eq!(model.table.state_table, "quality-keeper");
    assert_eq!((model.delimiter.as_str(), model.prefix.as_str(), model.tombstone_days), ("#", "KEEPER", 30));
    let aggregate = model.aggregate("wo_status_by_project").unwrap();
    assert_eq!(aggregate.buckets, ["Pending", "InProgress", "Complete", "Cancelled"]);
    assert_eq!(aggregate.sort.as_ref().unwrap().constant(), Some("STATS#WO_STATUS"));
    let names: Vec<&str> = model.entities.iter().map(|entity| entity.name.as_str()).collect();
    assert_eq!(names[..4], ["Manager", "Technician", "Certificate", "WorkOrder"], "entities in the order of the file");
    let calibration = model.expiries.iter().find(|expiry| expiry.name == "calibration").unwrap();
    assert_eq!(calibration.lead_days, [90, 60, 30, 14, 7, 1, 0]);
}

#[test]
fn the_name_of_the_file_counts_where_none_is_given() {
    let source = SHIPPED[0].1.replace("name = \"quality\"\n\n# The site", "\n# The site");
    assert_eq!(load(&source, "floor-2").unwrap().model.name, "floor-2");
}

/// The samples are plain JSON items, one a line, with text keys under the model's own names.
#[test]
fn samples_are_plain_items_with_the_table_s_keys() {
    let samples = [
        ("quality", include_str!("../../../../models/quality.items.jsonl"), 19),
        ("inspection", include_str!("../../../../models/inspection.items.jsonl"), 19),
        ("skills", include_str!("../../../../models/skills.items.jsonl"), 11),
        ("skills", include_str!("../../../../models/skills.index-sample.jsonl"), 10),
    ];
    for (name, sample, count) in samples {
        let names = model(name).table.key_names();
        assert_eq!(sample.lines().count(), count, "{name}");
        for line in sample.lines() {
            let item: BTreeMap<String, &RawValue> = serde_json::from_str(line).unwrap();
            for key in [Some(&names.partition), names.sort.as_ref()].into_iter().flatten() {
                assert!(serde_json::from_str::<String>(item[key.as_str()].get()).is_ok(), "{name}: {line}");
            }
        }
    }
}

/// The reference must not fall behind the rules.
#[test]
fn the_reference_names_every_rule_with_its_severity() {
    let reference = include_str!("../../../../models/README.md");
    for rule in RULES {
        let row = format!("| {} | {} | {} |", rule.code, rule.name, rule.severity.name());
        assert!(reference.contains(&row), "models/README.md lacks the row `{row}`");
    }
    let rows = reference.lines().filter(|line| line.starts_with("| C1")).count();
    assert_eq!(rows, RULES.len());
}
