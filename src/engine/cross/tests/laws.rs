//! Whatever the table, the order and the memory: the answer of a naive join.

use std::fs::File;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

/// Files on a disk.
struct OnDisk(PathBuf);

impl Spill for OnDisk {
    type File = File;

    fn create(&self) -> io::Result<File> {
        tempfile::tempfile_in(&self.0)
    }
}

/// A table as it was made up; names are small numbers, so that they meet.
#[derive(Debug, Clone)]
enum Row {
    /// True: a robot under a user's key. The name, if it has one, the boss.
    User(u8, bool, Option<u8>, Option<u8>),
    /// Project, task, owner, copied name.
    Task(u8, u8, Option<u8>, Option<u8>),
    /// Note, project; open if true.
    Note(u8, Option<u8>, bool),
}

impl Row {
    fn item(&self) -> Item {
        let given = |name: &str, value: Option<u8>| value.map(|n| format!(r#","{name}":"{n}""#)).unwrap_or_default();
        item(&match *self {
            Row::User(user, robot, name, boss) => {
                let kind = if robot { "Robot" } else { "User" };
                let more = given("Name", name) + &given("Boss", boss);
                format!(r#"{{"PK":"USER#{user}","SK":"USER#{user}","Type":"{kind}"{more}}}"#)
            }
            Row::Task(project, task, owner, name) => {
                let more = given("Owner", owner) + &given("OwnerName", name);
                format!(r#"{{"PK":"PROJECT#{project}","SK":"TASK#{task}"{more}}}"#)
            }
            Row::Note(note, project, open) => {
                let more = given("Project", project) + if open { r#","State":"open""# } else { "" };
                format!(r#"{{"PK":"NOTE#{note}","SK":"NOTE#{note}"{more}}}"#)
            }
        })
    }
}

/// `code key`, as a look into the whole table at once gives them.
fn naive(rows: &[Row]) -> Vec<String> {
    let users: BTreeMap<u8, (bool, Option<u8>)> = rows
        .iter()
        .filter_map(|row| if let Row::User(user, robot, name, _) = row { Some((*user, (*robot, *name))) } else { None })
        .collect();
    let mut found = Vec::new();
    for row in rows {
        let (key, owner, copy) = match *row {
            Row::User(user, false, _, Some(boss)) => (format!("USER#{user} / USER#{user}"), boss, None),
            Row::Task(project, task, Some(owner), copy) => (format!("PROJECT#{project} / TASK#{task}"), owner, copy),
            Row::Note(note, project, true) => {
                let is_task = |row: &Row| matches!(row, Row::Task(of, ..) if Some(*of) == project);
                if !rows.iter().any(is_task) {
                    found.push(format!("X501 NOTE#{note} / NOTE#{note}"));
                }
                continue;
            }
            _ => continue,
        };
        match users.get(&owner) {
            None => found.push(format!("X501 {key}")),
            Some((true, _)) => found.push(format!("X503 {key}")),
            Some((false, name)) if copy.is_some() && copy != *name => found.push(format!("X502 {key}")),
            Some(_) => {}
        }
    }
    found.sort();
    found
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let few = || 0..8u8;
    let maybe = || proptest::option::of(0..8u8);
    let row = prop_oneof![
        (0..14u8, proptest::bool::weighted(0.2), maybe(), maybe()).prop_map(|(u, r, n, b)| Row::User(u, r, n, b)),
        (few(), few(), maybe(), maybe()).prop_map(|(p, t, o, n)| Row::Task(p, t, o, n)),
        (few(), maybe(), any::<bool>()).prop_map(|(n, p, o)| Row::Note(n, p, o)),
    ];
    // Each key once, in a random order.
    proptest::collection::vec(row, 0..120).prop_map(|rows| {
        let mut seen = std::collections::BTreeSet::new();
        let names = staff().table.key_names();
        rows.into_iter().filter(|row| seen.insert(TableKey::of(&row.item(), &names))).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn memory_and_order_change_nothing(rows in rows(), memory in prop_oneof![Just(0), 0..40_000usize], turn in any::<prop::sample::Index>()) {
        let model = staff();
        let items: Vec<Item> = rows.iter().map(Row::item).collect();
        let whole = audit(&model, &items, Sight::Whole, InMemory, 1 << 22);
        let mut found: Vec<String> = whole.0.iter().map(|finding| format!("{} {}", finding.code, finding.key)).collect();
        found.sort();
        prop_assert_eq!(found, naive(&rows));
        // Spilled, and in another order: the same findings in the same order, the same tallies.
        let mut turned = items;
        if !turned.is_empty() {
            let at = turn.index(turned.len());
            turned.rotate_left(at);
        }
        let files = Counted::default();
        let spilled = audit(&model, &turned, Sight::Whole, files.clone(), memory);
        prop_assert!(memory > 0 || turned.len() < 20 || files.0.get() > 10);
        prop_assert_eq!(spilled, whole);
    }

    /// Whatever texts and numbers are in a key or a copy, they come back from the disk as they were.
    #[test]
    fn values_survive_the_disk(name in any::<String>(), owner in ".{1,40}", grade in any::<i64>()) {
        let model = staff();
        let owner = owner.as_str();
        let user = item(r#"{"PK":"","SK":"","Type":"User"}"#)
            .with("PK", Value::text(format!("USER#{owner}")))
            .with("SK", Value::text(format!("USER#{owner}")))
            .with("Name", Value::text(name.as_str()))
            .with("Grade", Value::N(grade.into()));
        let task = item(r#"{"PK":"PROJECT#p","SK":"TASK#1"}"#)
            .with("Owner", Value::text(owner))
            .with("OwnerName", Value::text(name.as_str()))
            .with("Grade", Value::N(grade.into()));
        let none = matches!(name.as_str(), "N/A");
        let (findings, tallies) = audit(&model, &[user, task], Sight::Whole, InMemory, 0);
        prop_assert!(none || findings.is_empty(), "{:?}", findings);
        prop_assert_eq!(tallies.iter().map(|tally| tally.checked).sum::<u64>(), 4);
    }
}

/// A hundred thousand items and a hot key in a megabyte.
#[test]
fn a_hundred_thousand_items_fit_a_megabyte() {
    const ITEMS: usize = 100_000;
    let model = staff();
    let folder = tempfile::tempdir().unwrap();
    let mut cross = Cross::new(&model, OnDisk(folder.path().to_owned()), 1 << 20);
    // The last user is named by all the tasks and comes after them; each tenth task names somebody who is not there.
    for n in 0..ITEMS {
        let owner = if n % 10 == 0 { format!("lost{n}") } else { "hot".to_owned() };
        let task =
            item(&format!(r#"{{"PK":"PROJECT#{}","SK":"TASK#{n}","Owner":"{owner}","OwnerName":"Hot"}}"#, n % 97));
        let key = TableKey::of(&task, &model.table.key_names()).unwrap();
        cross.see(&key, Some("Task"), &task);
        assert!(cross.sorter.held() <= (1 << 20) + 2_000, "{}", cross.sorter.held());
    }
    see(&mut cross, &model, &item(r#"{"PK":"USER#hot","SK":"USER#hot","Type":"User","Name":"Hot"}"#));
    assert!((2..60).contains(&cross.sorter.open_files()), "{}", cross.sorter.open_files());
    let mut lost = 0;
    let tallies = cross.finish(Sight::Whole, |finding| lost += usize::from(finding.code == "X501")).unwrap();
    assert_eq!(lost, ITEMS / 10);
    let checked: Vec<(u64, u64)> = tallies.iter().map(|tally| (tally.checked, tally.failed)).collect();
    assert_eq!(checked, [(100_000, 10_000), (90_000, 0), (90_000, 0)]);
}
