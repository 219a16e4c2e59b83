//! Each rule by items that break it and items that keep it.

use super::*;

const ANN: &str = r#"{"PK":"USER#ann","SK":"USER#ann","Type":"User","Name":"Ann","Grade":7}"#;
const BOB: &str = r#"{"PK":"USER#bob","SK":"USER#bob","Type":"User","Boss":"ann"}"#;
const R2: &str = r#"{"PK":"USER#r2","SK":"USER#r2","Type":"Robot"}"#;

fn task(more: &str) -> String {
    format!(r#"{{"PK":"PROJECT#p","SK":"TASK#1",{more}}}"#)
}

#[test]
fn an_item_that_is_there_is_no_finding_in_any_order() {
    let fine = task(r#""Owner":"ann","OwnerName":"Ann","Grade":7.0"#);
    let tallies = ["X501 User 1/0/0", "X501 Task 1/0/0", "X502 Task 2/0/0", "X503 User 1/0/0", "X503 Task 1/0/0"];
    for items in [[ANN, BOB, &fine], [&fine, BOB, ANN]] {
        let (findings, found) = told(&items, Sight::Whole);
        assert_eq!(findings, [""; 0]);
        assert_eq!(found, tallies);
    }
}

#[test]
fn x501_an_item_that_is_not_there() {
    let (findings, tallies) = told(&[BOB, R2, &task(r#""Owner":"cy""#)], Sight::Whole);
    let expected =
        ["X501 USER#bob / USER#bob Boss USER#ann / USER#ann -", "X501 PROJECT#p / TASK#1 Owner USER#cy / USER#cy -"];
    assert_eq!(findings, expected);
    assert_eq!(tallies, ["X501 User 1/1/0", "X501 Task 1/1/0"]);
    let (findings, _) = told(&[&task(r#""Owner":"cy""#)], Sight::Whole);
    assert_eq!(findings.len(), 1);
}

#[test]
fn x502_a_copy_that_differs() {
    let stale = task(r#""Owner":"ann","owner_name":"Anne","Grade":8"#);
    let (findings, tallies) = told(&[ANN, &stale], Sight::Whole);
    let at = "X502 PROJECT#p / TASK#1";
    assert_eq!(findings, [format!("{at} owner_name Ann Anne"), format!("{at} Grade 7 8")]);
    assert_eq!(tallies[1], "X502 Task 2/2/0");
    // Neither a copy nor a master is there; a copy of what is no more.
    let (findings, _) = told(&[ANN, BOB, &task(r#""Owner":"ann""#)], Sight::Whole);
    assert_eq!(findings, [""; 0]);
    let (findings, _) = told(&[ANN, BOB, &task(r#""Owner":"bob","OwnerName":"Bob""#)], Sight::Whole);
    assert_eq!(findings, [format!("{at} OwnerName - Bob")]);
    // "None" is what is not there, and not what is.
    let (findings, _) = told(&[ANN, BOB, &task(r#""Owner":"bob","OwnerName":"N/A""#)], Sight::Whole);
    assert_eq!(findings, [""; 0]);
    let (findings, _) = told(&[ANN, &task(r#""Owner":"ann","OwnerName":"N/A""#)], Sight::Whole);
    assert_eq!(findings, [format!("{at} OwnerName Ann N/A")]);
}

#[test]
fn x503_an_item_of_another_entity_and_of_none() {
    let stray = r#"{"PK":"USER#x","SK":"USER#x","Type":"Ghost"}"#;
    let robot = task(r#""Owner":"r2","OwnerName":"R2""#);
    let (findings, tallies) = told(&[R2, &robot], Sight::Whole);
    assert_eq!(findings, ["X503 PROJECT#p / TASK#1 Owner User Robot"]);
    assert_eq!(tallies, ["X501 Task 1/0/0", "X503 Task 1/1/0"]);
    let (findings, _) = told(&[stray, &task(r#""Owner":"x""#)], Sight::Whole);
    assert_eq!(findings, ["X503 PROJECT#p / TASK#1 Owner User no entity"]);
}

#[test]
fn what_is_out_of_sight_is_counted_and_no_finding() {
    let lost = task(r#""Owner":"cy","OwnerName":"Cy""#);
    let undecidable = ["X501 Task 0/0/1", "X502 Task 0/0/1", "X503 Task 0/0/1"];
    assert_eq!(told(&[R2, &lost], Sight::Partial), (Vec::new(), undecidable.map(String::from).to_vec()));
    assert_eq!(told(&[R2, &lost], Sight::OfSeenEntities).1, undecidable);
    // Once a user was seen, users are in sight.
    assert_eq!(told(&[ANN, &lost], Sight::OfSeenEntities).0.len(), 1);
    // What was seen is judged, however little it is.
    let (findings, tallies) = told(&[R2, &task(r#""Owner":"r2""#)], Sight::Partial);
    assert_eq!((findings.len(), tallies[1].as_str()), (1, "X503 Task 1/1/0"));
    assert_eq!(told(&[ANN, &task(r#""Owner":"ann","OwnerName":"Cy""#)], Sight::Partial).0.len(), 1);
}

#[test]
fn an_item_may_name_itself() {
    let own = r#"{"PK":"USER#a","SK":"USER#a","Type":"User","Boss":"a"}"#;
    assert_eq!(told(&[own], Sight::Whole), (Vec::new(), vec!["X501 User 1/0/0".into(), "X503 User 1/0/0".into()]));
}

#[test]
fn nothing_named_is_nothing_missing_unless_it_must_be() {
    let free = r#"{"PK":"USER#a","SK":"USER#a","Type":"User","Boss":"N/A"}"#;
    assert_eq!(told(&[free, ANN, &task(r#""State":"x""#)], Sight::Whole), (Vec::new(), Vec::new()));
    let note = |more: &str| format!(r#"{{"PK":"NOTE#1","SK":"NOTE#1","State":"open"{more}}}"#);
    let (findings, _) = told(&[&note("")], Sight::Partial);
    assert_eq!(findings, ["X501 NOTE#1 / NOTE#1 Project Task -"]);
    // `when` does not hold.
    assert_eq!(told(&[r#"{"PK":"NOTE#1","SK":"NOTE#1","State":"done"}"#], Sight::Whole).0, [""; 0]);
}

#[test]
fn a_key_without_its_sort_key_means_any_item_of_the_partition() {
    let note = r#"{"PK":"NOTE#1","SK":"NOTE#1","State":"open","Project":"p"}"#;
    let (findings, tallies) = told(&[note, &task(r#""State":"x""#)], Sight::Whole);
    assert_eq!((findings, tallies), (Vec::new(), vec!["X501 Note 1/0/0".to_owned()]));
    // Another entity's item in that partition is none of them.
    let other = r#"{"PK":"PROJECT#p","SK":"BUDGET"}"#;
    let (findings, _) = told(&[note, other], Sight::Whole);
    assert_eq!(findings, ["X501 NOTE#1 / NOTE#1 Project PROJECT#p -"]);
}

#[test]
fn an_item_whose_own_key_is_wrong_names_nobody_knows_what() {
    let broken = r#"{"PK":"USER#a","SK":"USER#b","Type":"User","Boss":"zoe"}"#;
    let (findings, tallies) = told(&[broken], Sight::Whole);
    assert_eq!((findings, tallies), (Vec::new(), vec!["X501 User 0/0/1".to_owned()]));
}

#[test]
fn derived_items_and_models_without_references_are_passed_over() {
    let ours = r#"{"PK":"USER#a","SK":"USER#a","Type":"User","Boss":"zoe","_keeper":"x/y"}"#;
    assert_eq!(told(&[ours], Sight::Whole), (Vec::new(), Vec::new()));
}

#[test]
fn the_owner_s_severity_counts() {
    let mut model = staff();
    model.severities.insert("X501".into(), crate::model::derived::Severity::Info);
    let (findings, _) = audit(&model, &[item(BOB)], Sight::Whole, InMemory, 1 << 20);
    assert_eq!(findings[0].severity, crate::model::derived::Severity::Info);
    assert_eq!(findings[0].entity.as_deref(), Some("User"));
    let beginning =
        "`boss` in `Boss` names the User `USER#ann / USER#ann`, which is not there; put that item, or have this one";
    assert!(findings[0].message.starts_with(beginning), "{}", findings[0].message);
}

#[test]
fn a_failing_disk_is_told_at_the_end() {
    struct Full;
    impl Spill for Full {
        type File = Cursor<Vec<u8>>;
        fn create(&self) -> io::Result<Self::File> {
            Err(io::Error::other("no space left on device"))
        }
    }
    let model = staff();
    let mut cross = Cross::new(&model, Full, 0);
    for json in [ANN, BOB, R2] {
        see(&mut cross, &model, &item(json));
    }
    let error = cross.finish(Sight::Whole, |_| panic!("no answer is right")).unwrap_err();
    assert!(error.to_string().contains("no space left on device"), "{error}");
}

#[test]
fn what_lenses_see_apart_is_judged_together() {
    let model = staff();
    let items: Vec<Item> = [ANN, BOB, R2, &task(r#""Owner":"cy""#)].into_iter().map(item).collect();
    let lens = super::super::Lens::new(&model);
    let looks = |items: &[Item]| -> Vec<_> {
        let look = |item: &Item| {
            let key = TableKey::of(item, &model.table.key_names()).unwrap();
            lens.look(&key, derive(&model, &key, item).entity.as_deref(), item)
        };
        items.iter().map(look).collect()
    };
    let (first, second) = items.split_at(2);
    let (first, second) = std::thread::scope(|scope| {
        let threads = [scope.spawn(|| looks(second)), scope.spawn(|| looks(first))];
        let [a, b] = threads.map(|thread| thread.join().unwrap());
        (a, b)
    });
    let mut cross = Cross::new(&model, InMemory, 1 << 20);
    first.into_iter().chain(second).for_each(|seen| cross.add(seen));
    let mut findings = Vec::new();
    let tallies = cross.finish(Sight::Whole, |finding| findings.push(finding)).unwrap();
    assert_eq!((findings, tallies), audit(&model, &items, Sight::Whole, InMemory, 1 << 20));
}
