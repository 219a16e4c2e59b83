//! The published skills table: other key names, a multi-attribute index, numbers.

use crate::derive::testing::{aggregate, attribute, entity, entity_index, index, item, listing, model, n, strings};
use crate::derive::{Fold, without_sums};
use crate::model::derived::RowKind;
use crate::model::spec::{Attribute, Format, Model};
use crate::model::value::{Item, Kind, Text, Value};

use super::{derived, verdicts};

const LEVELS: [&str; 4] = ["Beginner", "Intermediate", "Advanced", "Expert"];

pub fn skills() -> Model {
    let mut model = model("EntityType", "entity_id");
    let mut by_skill =
        index("BySkill", &["Category"], &["SkillName", "ProficiencyLevel", "YearsOfExperience", "Username"]);
    by_skill.sort[2].kind = Kind::N;
    model.table.indexes = vec![by_skill];
    let required = |name: &str| Attribute { required: true, ..attribute(name, Kind::S) };
    let number = |name: &str| Attribute { min: Some("0".parse().unwrap()), ..attribute(name, Kind::N) };
    let mut user = entity("User", "User", "USER#{Username}");
    user.attributes =
        vec![required("Username"), Attribute { format: Some(Format::Timestamp), ..attribute("CreatedAt", Kind::S) }];
    let mut skill = entity("Skill", "Skill", "SKILL#{SkillID}");
    skill.attributes = vec![required("SkillID"), required("SkillName"), required("Category")];
    let mut user_skill = entity("UserSkill", "UserSkill", "USERSKILL#{Username}#{SkillID}");
    user_skill.attributes = vec![
        required("Username"),
        Attribute { aliases: strings(&["skill_id"]), ..required("SkillID") },
        required("SkillName"),
        required("Category"),
        Attribute { one_of: strings(&LEVELS), ..required("ProficiencyLevel") },
        Attribute { required: true, ..number("YearsOfExperience") },
        number("Endorsements"),
        Attribute { format: Some(Format::Date), ..attribute("LastUsedDate", Kind::S) },
        attribute("Notes", Kind::S),
    ];
    let keys = ["Category", "SkillName", "ProficiencyLevel", "YearsOfExperience", "Username"];
    let templates = keys.map(|name| format!("{{{name}}}"));
    let keys: Vec<(&str, &str)> = keys.into_iter().zip(templates.iter().map(String::as_str)).collect();
    user_skill.indexes = vec![entity_index("BySkill", &keys)];
    model.entities = vec![user, skill, user_skill];
    let group = ["Category", "SkillName"];
    let mut levels = aggregate("levels", "UserSkill", &group, "SkillStats", "SKILLSTATS#{Category}#{SkillName}");
    levels.count_by = Some("ProficiencyLevel".into());
    levels.buckets = strings(&LEVELS);
    levels.sum = strings(&["YearsOfExperience"]);
    levels.sum_squares = strings(&["YearsOfExperience"]);
    model.aggregates = vec![levels, aggregate("users", "User", &[], "Totals", "USERS")];
    let sort = "{ProficiencyLevel:ordinal}#{YearsOfExperience:03.1}#{Username}#{SkillID}";
    model.listings = vec![listing("by_level", "UserSkill", "SkillRank#{Category}#{SkillName}", sort)];
    model
}

pub fn user_skill(user: &str, skill: &str, name: &str, category: &str, level: &str, years: &str) -> Item {
    let id = format!("USERSKILL#{user}#{skill}");
    item([("EntityType", "UserSkill"), ("entity_id", &id), ("Username", user), ("SkillID", skill), ("SkillName", name)])
        .with("Category", Value::text(category))
        .with("ProficiencyLevel", Value::text(level))
        .with("YearsOfExperience", n(years))
        .with("Endorsements", n("0"))
        .with("LastUsedDate", Value::text("2025-12-15"))
        .with("Notes", Value::text(""))
}

pub fn sample() -> Vec<Item> {
    let user = |name: &str| {
        let id = format!("USER#{name}");
        item([("EntityType", "User"), ("entity_id", &id), ("Username", name), ("CreatedAt", "2025-01-01T00:00:00Z")])
    };
    let skill = |id: &str, name: &str, category: &str| {
        let key = format!("SKILL#{id}");
        item([
            ("EntityType", "Skill"),
            ("entity_id", &key),
            ("SkillID", id),
            ("SkillName", name),
            ("Category", category),
        ])
    };
    vec![
        user("john_doe"),
        user("jane_doe"),
        user("alice_smith"),
        skill("python", "Python", "Programming"),
        skill("go", "Go", "Backend"),
        skill("react", "React", "Frontend"),
        user_skill("john_doe", "python", "Python", "Programming", "Expert", "10"),
        user_skill("jane_doe", "python", "Python", "Programming", "Advanced", "5"),
        user_skill("alice_smith", "go", "Go", "Backend", "Expert", "7"),
        user_skill("john_doe", "react", "React", "Frontend", "Intermediate", "3"),
        user_skill("jane_doe", "go", "Go", "Backend", "Beginner", "1"),
    ]
}

fn folded(model: &Model, items: &[Item]) -> Fold {
    let mut fold = Fold::new();
    items.iter().for_each(|item| fold.add(&derived(model, item)));
    fold
}

#[test]
fn the_published_sample_gives_the_right_distribution() {
    let model = skills();
    let fold = folded(&model, &sample());
    assert!(fold.findings().is_empty(), "{:?}", fold.findings());
    let levels: Vec<String> = fold
        .aggregates(&model)
        .iter()
        .filter(|totals| totals.name == "levels")
        .map(|totals| {
            let n = |measure: &str| totals.measures[measure].to_string();
            let counts = LEVELS.map(|level| n(&format!("Count_{level}"))).join(" ");
            let (years, squares) = (n("Sum_YearsOfExperience"), n("SumSq_YearsOfExperience"));
            format!("{}: {counts} of {}, {years} {squares}", totals.key, n("Total"))
        })
        .collect();
    assert_eq!(
        levels,
        [
            "SkillStats / SKILLSTATS#Backend#Go: 1 0 0 1 of 2, 8 50",
            "SkillStats / SKILLSTATS#Frontend#React: 0 1 0 0 of 1, 3 9",
            "SkillStats / SKILLSTATS#Programming#Python: 0 0 1 1 of 2, 15 125",
        ]
    );
    let checked: Vec<(&str, u64)> = fold.checked().iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(checked, [("Skill", 3), ("User", 3), ("UserSkill", 5)]);
}

#[test]
fn levels_sort_by_their_declared_order_and_years_as_numbers() {
    let model = skills();
    let items = [
        user_skill("a", "go", "Go", "Backend", "Expert", "9.5"),
        user_skill("b", "go", "Go", "Backend", "Expert", "10"),
        user_skill("c", "go", "Go", "Backend", "Advanced", "20"),
        user_skill("d", "go", "Go", "Backend", "Beginner", "0"),
    ];
    let fold = folded(&model, &items);
    let keys: Vec<&str> = fold.listings().map(|entry| entry.key.sort.as_ref().unwrap().as_text().unwrap()).collect();
    assert_eq!(keys, ["1#000.0#d#go", "3#020.0#c#go", "4#009.5#a#go", "4#010.0#b#go"]);
    let group = fold.listings().next().unwrap().item.get("Group").unwrap().clone();
    let Value::M(group) = group else { panic!("{group:?}") };
    assert_eq!((&group["YearsOfExperience"], &group["Username"]), (&n("0"), &Value::text("d")));
}

#[test]
fn an_index_of_attributes_is_complete_or_a_finding() {
    let model = skills();
    let whole = user_skill("a", "go", "Go", "Backend", "Expert", "0");
    assert_eq!(verdicts(&model, &whole), Vec::<String>::new(), "0 years are years");
    let mut half = whole.clone();
    half.0.remove("YearsOfExperience");
    assert_eq!(verdicts(&model, &half), ["A301 YearsOfExperience a value of type N", "G202 YearsOfExperience -"]);
    let text = whole.clone().with("YearsOfExperience", Value::text("5"));
    let years =
        ["A302 YearsOfExperience a value of type N", "A309 YearsOfExperience -", "G205 YearsOfExperience type N"];
    assert_eq!(verdicts(&model, &text), years, "it is in no listing either");
    // A skill carries two of the five attributes as its own: it is not in the index. With all five it is.
    let skill = item([
        ("EntityType", "Skill"),
        ("entity_id", "SKILL#go"),
        ("SkillID", "go"),
        ("SkillName", "Go"),
        ("Category", "B"),
    ]);
    assert_eq!(verdicts(&model, &skill), Vec::<String>::new());
    let stray = skill.with("ProficiencyLevel", Value::text("Expert"));
    assert_eq!(verdicts(&model, &stray), ["G203 ProficiencyLevel -"]);
}

#[test]
fn a_square_over_38_digits_is_left_out_alone() {
    let model = skills();
    let long = user_skill("a", "go", "Go", "Backend", "Expert", "12345678901234567890.5");
    let derived = derived(&model, &long);
    let codes: Vec<&str> = derived.findings.iter().map(|f| f.code.as_str()).collect();
    assert_eq!(codes, ["A308", "A309"], "the padding of the listing is too narrow as well");
    let measures = &derived.counts[0].measures;
    let names: Vec<&str> = measures.keys().map(Text::as_str).collect();
    assert_eq!(names, ["Count_Expert", "Sum_YearsOfExperience", "Total"]);
    assert!(derived.rows.iter().all(|row| row.kind == RowKind::Finding));
}

#[test]
fn without_sums_keeps_all_but_the_sums() {
    let model = skills();
    let item = user_skill("a", "go", "Go", "Backend", "expert", "5");
    let key = crate::derive::testing::key_of(&model, &item);
    let whole = derived(&model, &item);
    let less = without_sums(&model, &key, &whole, "38 digits are full");
    let names: Vec<&str> = less.counts[0].measures.keys().map(Text::as_str).collect();
    assert_eq!(names, ["Count_Other", "Total"]);
    let codes: Vec<&str> = less.findings.iter().map(|f| f.code.as_str()).collect();
    assert_eq!(codes, ["A303", "A308", "A309"]);
    assert_eq!(less.findings[1].entity.as_deref(), Some("UserSkill"));
    let rows = |derived: &crate::model::derived::Derived| derived.rows.len();
    assert_eq!(rows(&less), rows(&whole) + 1);
    let totals = less.counts.iter().find(|count| count.aggregate == "findings").unwrap();
    assert_eq!(totals.measures["Total"].to_string(), "3");
    assert_eq!(less.counts.len(), whole.counts.len());
}

#[test]
fn a_delimiter_in_a_name_is_a_finding_and_keeps_keys_apart() {
    let model = skills();
    let item = user_skill("bob#x", "go", "Go", "Backend", "Expert", "5");
    assert_eq!(verdicts(&model, &item), ["S401 Username a value without `#`"]);
    let key = crate::derive::testing::key_of(&model, &item);
    let fold = folded(&model, &[item]);
    let sort = fold.listings().next().unwrap().key.sort.clone().unwrap();
    assert_eq!(sort, Value::text(format!("4#005.0#bob#x#go#{}", &key.digest()[..16])));
}
