//! What the engine relies on of its two tables.

use std::collections::{BTreeMap, BTreeSet};

use tablekeeper::engine::ports::{CancelReason, Page, SortRange, Store, StoreError, TransactError};
use tablekeeper::model::decimal::Decimal;
use tablekeeper::model::key::{KeyNames, TableKey};
use tablekeeper::model::value::{Bytes, ITEM_SIZE_MAX, Item, MARKER, Value};
use tablekeeper::plan::state;
use tablekeeper::plan::write::{Condition, Op, TableRef, Write};

use super::{Database, on_every_database};

on_every_database!(
    reads_answer_in_the_order_asked,
    reads_of_more_than_one_answer_holds_are_whole,
    conditions_hold_or_nothing_is_written,
    a_transaction_spans_both_tables,
    what_stands_at_a_derived_key_decides,
    every_write_has_its_reason,
    every_type_comes_back,
    additions_are_exact,
    an_addition_that_does_not_fit_is_refused_or_exact,
    updates_leave_the_rest,
    transactions_have_limits,
    queries_page_and_range,
    scans_meet_every_item_once,
);

fn state_key(partition: &str, sort: &str) -> TableKey {
    TableKey::text(partition, sort)
}

fn state_put(key: &TableKey, content: Item, condition: Condition) -> Write {
    let names = KeyNames { partition: "PK".into(), sort: Some("SK".into()) };
    put(TableRef::State, &names, key, content, condition)
}

fn put(table: TableRef, names: &KeyNames, key: &TableKey, content: Item, condition: Condition) -> Write {
    let mut item = key.to_item(names);
    item.0.extend(content.0);
    Write { table, key: key.clone(), op: Op::Put(item.into()), condition }
}

fn write(table: TableRef, key: &TableKey, op: Op, condition: Condition) -> Write {
    Write { table, key: key.clone(), op, condition }
}

fn add(key: &TableKey, name: &str, by: &str) -> Write {
    let add = BTreeMap::from([(name.into(), by.parse().unwrap())]);
    write(TableRef::Source, key, Op::Update { add, set: Item::new() }, Condition::Always)
}

fn number(text: &str) -> Value {
    Value::N(text.parse().unwrap())
}

async fn one(store: &impl Store, table: TableRef, key: &TableKey) -> Option<Item> {
    store.get(table, std::slice::from_ref(key)).await.unwrap().remove(0)
}

fn reasons(result: Result<(), TransactError>) -> Vec<CancelReason> {
    match result {
        Err(TransactError::Cancelled(reasons)) => reasons,
        other => panic!("expected a cancelled transaction, not {other:?}"),
    }
}

fn is_refused(result: &Result<(), TransactError>) -> bool {
    match result {
        Err(TransactError::Store(StoreError::Refused(_))) => true,
        Err(TransactError::Cancelled(reasons)) => {
            reasons.iter().any(|reason| matches!(reason, CancelReason::Refused(_)))
        }
        _ => false,
    }
}

async fn reads_answer_in_the_order_asked(database: &impl Database) {
    let store = database.store();
    let keys: Vec<TableKey> = (0..230).map(|n| state_key("READ", &format!("{n:04}"))).collect();
    for chunk in keys.chunks(100) {
        let writes: Vec<Write> = chunk
            .iter()
            .map(|key| state_put(key, Item::new().with("At", key.sort.clone().unwrap()), Condition::Absent))
            .collect();
        store.transact(&writes).await.unwrap();
    }
    // Backwards, with absent ones between, and one asked twice.
    let mut asked: Vec<TableKey> =
        keys.iter().rev().flat_map(|key| [key.clone(), state_key("ABSENT", &key.to_string())]).collect();
    asked.push(keys[7].clone());
    let answers = store.get(TableRef::State, &asked).await.unwrap();
    assert_eq!(answers.len(), asked.len());
    for (key, answer) in asked.iter().zip(&answers) {
        let expected = (key.partition == Value::text("READ")).then(|| key.sort.clone().unwrap());
        assert_eq!(answer.as_ref().and_then(|item| item.get("At")), expected.as_ref(), "{key}");
    }
    assert!(store.get(TableRef::State, &[]).await.unwrap().is_empty());
    store.transact(&[]).await.unwrap();
}

async fn reads_of_more_than_one_answer_holds_are_whole(database: &impl Database) {
    // 20 MB: an answer holds 16 MB, and what is left over must be asked for again.
    let store = database.store();
    let keys: Vec<TableKey> = (0..50).map(|n| state_key("LARGE", &format!("{n:02}"))).collect();
    let fill = Item::new().with("Fill", Value::text("x".repeat(ITEM_SIZE_MAX - 200)));
    for chunk in keys.chunks(10) {
        let writes: Vec<Write> = chunk.iter().map(|key| state_put(key, fill.clone(), Condition::Absent)).collect();
        store.transact(&writes).await.unwrap();
    }
    let answers = store.get(TableRef::State, &keys).await.unwrap();
    let sorts: Vec<_> = answers.iter().map(|item| item.as_ref()?.get("SK").cloned()).collect();
    assert_eq!(sorts, keys.iter().map(|key| key.sort.clone()).collect::<Vec<_>>());
}

async fn a_transaction_spans_both_tables(database: &impl Database) {
    let (store, names) = (database.store(), &database.names());
    // Equal keys in the two tables are two items.
    let key = TableKey::text("BOTH", "a");
    let pair =
        |state: Condition| [add(&key, "Total", "1"), state_put(&key, Item::new().with("Rev", number("1")), state)];
    store.transact(&pair(Condition::Absent)).await.unwrap();
    let none_and_failed = [CancelReason::None, CancelReason::ConditionFailed];
    assert_eq!(reasons(store.transact(&pair(Condition::Absent)).await), none_and_failed);
    let total = async || one(store, TableRef::Source, &key).await.unwrap().number("Total").cloned();
    assert_eq!(total().await, Some(Decimal::from(1)), "the other table's condition failed");
    // And the other way round.
    let writes = [
        put(TableRef::Source, names, &key, Item::new(), Condition::Absent),
        state_put(&key, Item::new().with("Rev", number("2")), Condition::Always),
    ];
    assert_eq!(reasons(store.transact(&writes).await), [CancelReason::ConditionFailed, CancelReason::None]);
    assert_eq!(one(store, TableRef::State, &key).await.unwrap().number("Rev"), Some(&Decimal::from(1)));
    store.transact(&pair(Condition::Equals("Rev".into(), number("1")))).await.unwrap();
    assert_eq!(total().await, Some(Decimal::from(2)));
}

async fn what_stands_at_a_derived_key_decides(database: &impl Database) {
    // The conditions under which derived items are written: nothing there, or one of ours of that name and source.
    let (store, names) = (database.store(), &database.names());
    let key = TableKey::text("DERIVED", "a");
    let source = |n: &str| Value::M([("Partition".into(), Value::text(n))].into());
    let entry = |name: &str, n: &str| Item::new().with(MARKER, Value::text(name)).with("Source", source(n));
    let ours = |name: &str, n: &str| {
        let marker = (MARKER.into(), Value::text(name));
        Condition::AbsentOrAll(vec![marker, ("Source".into(), source(n))])
    };
    let write_as = |name: &str, n: &str| put(TableRef::Source, names, &key, entry(name, n), ours(name, n));
    let add_as = |name: &str| {
        let op = Op::Update { add: BTreeMap::from([("Total".into(), Decimal::from(1))]), set: entry(name, "1") };
        write(TableRef::Source, &key, op, Condition::AbsentOrEquals(MARKER.into(), Value::text(name)))
    };
    let delete_as = |name: &str, n: &str| write(TableRef::Source, &key, Op::Delete, ours(name, n));
    let the_applications = put(TableRef::Source, names, &key, Item::new(), Condition::Always);
    let steps = [
        (write_as("listing/x", "1"), true),
        (write_as("listing/x", "1"), true),
        (write_as("listing/x", "2"), false),
        (write_as("listing/y", "1"), false),
        (add_as("aggregate/x"), false),
        (delete_as("listing/x", "2"), false),
        (delete_as("listing/x", "1"), true),
        (delete_as("listing/x", "1"), true),
        (add_as("aggregate/x"), true),
        (add_as("aggregate/x"), true),
        (write_as("listing/x", "1"), false),
        (the_applications, true),
        (write_as("listing/x", "1"), false),
        (add_as("aggregate/x"), false),
        (delete_as("listing/x", "1"), false),
    ];
    for (at, (step, succeeds)) in steps.into_iter().enumerate() {
        let result = store.transact(std::slice::from_ref(&step)).await;
        assert_eq!(result.is_ok(), succeeds, "step {at}: {result:?}");
        if !succeeds {
            assert_eq!(reasons(result), [CancelReason::ConditionFailed], "step {at}");
        }
    }
    assert_eq!(one(store, TableRef::Source, &key).await, Some(key.to_item(names)), "the application's own stays");
}

async fn conditions_hold_or_nothing_is_written(database: &impl Database) {
    let store = database.store();
    let key = state_key("CONDITION", "a");
    let revision = |n: &str| Item::new().with("Rev", number(n));
    let equals = |n: &str| Condition::Equals("Rev".into(), number(n));
    let absent_or = |n: &str| Condition::AbsentOrEquals("Rev".into(), number(n));
    let of = |n: &str| Value::M([("PK".into(), Value::text("x")), ("SK".into(), number(n))].into());
    let owned = |n: &str| state_put(&key, revision("5").with("Source", of(n)), Condition::Always);
    let absent_or_all =
        |n: &str, owner: &str| Condition::AbsentOrAll(vec![("Rev".into(), number(n)), ("Source".into(), of(owner))]);
    let put = |n: &str, condition: Condition| state_put(&key, revision(n), condition);
    // Each write with whether it must succeed.
    let steps = [
        (put("1", equals("1")), false),
        (put("1", absent_or("9")), true),
        (put("2", Condition::Absent), false),
        (put("2", equals("1.0")), true),
        (put("3", equals("1")), false),
        (put("3", absent_or("1")), false),
        (put("3", absent_or("2")), true),
        (write(TableRef::State, &key, Op::Delete, equals("2")), false),
        (write(TableRef::State, &key, Op::Delete, equals("3")), true),
        (write(TableRef::State, &key, Op::Delete, Condition::Always), true),
        (write(TableRef::State, &key, Op::Delete, absent_or("1")), true),
        (write(TableRef::State, &key, Op::Delete, absent_or_all("1", "1")), true),
        (owned("1"), true),
        (put("4", absent_or_all("5", "2")), false),
        (put("4", absent_or_all("4", "1")), false),
        (write(TableRef::State, &key, Op::Delete, absent_or_all("5", "1.0")), true),
        (put("4", Condition::Absent), true),
    ];
    for (at, (step, succeeds)) in steps.into_iter().enumerate() {
        let before = one(store, TableRef::State, &key).await;
        let result = store.transact(std::slice::from_ref(&step)).await;
        if succeeds {
            assert_eq!(result, Ok(()), "step {at}");
        } else {
            assert_eq!(reasons(result), [CancelReason::ConditionFailed], "step {at}");
            assert_eq!(one(store, TableRef::State, &key).await, before, "step {at}");
        }
    }
    assert_eq!(one(store, TableRef::State, &key).await.unwrap().number("Rev"), Some(&Decimal::from(4)));
}

async fn every_write_has_its_reason(database: &impl Database) {
    let store = database.store();
    let text = TableKey::text("REASON", "text");
    let set = Item::new().with("Total", Value::text("not a number"));
    store
        .transact(&[write(TableRef::Source, &text, Op::Update { add: BTreeMap::new(), set }, Condition::Always)])
        .await
        .unwrap();
    let fresh = state_key("REASON", "fresh");
    let fails =
        |name: &str| state_put(&state_key("REASON", name), Item::new(), Condition::Equals("Rev".into(), number("1")));
    let mut writes = vec![
        state_put(&fresh, Item::new(), Condition::Absent),
        fails("b"),
        add(&TableKey::text("REASON", "c"), "Total", "1"),
        fails("d"),
    ];
    let said = reasons(store.transact(&writes).await);
    let failed = CancelReason::ConditionFailed;
    assert_eq!(said, [CancelReason::None, failed.clone(), CancelReason::None, failed]);
    // What the database refuses is told in its place, or of the transaction as a whole; never as a failed condition.
    writes = vec![state_put(&fresh, Item::new(), Condition::Absent), add(&text, "Total", "1")];
    match store.transact(&writes).await {
        Err(TransactError::Cancelled(said)) => {
            assert!(matches!(said[..], [CancelReason::None, CancelReason::Refused(_)]), "{said:?}");
        }
        whole => assert!(is_refused(&whole), "{whole:?}"),
    }
    assert_eq!(one(store, TableRef::State, &fresh).await, None);
    assert_eq!(one(store, TableRef::Source, &TableKey::text("REASON", "c")).await, None);
}

async fn every_type_comes_back(database: &impl Database) {
    let (store, names) = (database.store(), &database.names());
    let content = every_type();
    let key = TableKey::text("TYPES", "é\u{1F600}");
    store.transact(&[put(TableRef::Source, names, &key, content.clone(), Condition::Absent)]).await.unwrap();
    let mut expected = key.to_item(names);
    expected.0.extend(content.0);
    assert_eq!(one(store, TableRef::Source, &key).await, Some(expected));
}

/// Attributes of every type at its extremes.
pub fn every_type() -> Item {
    Item::new()
        .with("size", Value::text(""))
        .with("Größe", number("-0.00000000000000000000000000000000000001"))
        .with("max", number("99999999999999999999999999999999999999E88"))
        .with("min", number("1E-130"))
        .with("bytes", Value::B(Bytes(vec![0, 255])))
        .with("no bytes", Value::B(Bytes(Vec::new())))
        .with("yes", Value::Bool(true))
        .with("null", Value::Null(true))
        .with("map", Value::M(BTreeMap::from([("a.b".into(), Value::L(vec![number("1"), Value::text("x")]))])))
        .with("empty", Value::L(Vec::new()))
        .with("texts", Value::Ss(BTreeSet::from(["b".to_owned(), "a".to_owned()])))
        .with("numbers", Value::Ns(BTreeSet::from(["1".parse().unwrap(), "-2.5".parse().unwrap()])))
        .with("blobs", Value::Bs(BTreeSet::from([Bytes(vec![1]), Bytes(vec![2])])))
}

async fn additions_are_exact(database: &impl Database) {
    let store = database.store();
    let key = TableKey::text("ADD", "exact");
    let most = "99999999999999999999999999999999999999";
    for (by, total) in [
        ("0", "0"),
        (most, most),
        ("-1", "99999999999999999999999999999999999998"),
        ("-99999999999999999999999999999999999998", "0"),
        ("0.1", "0.1"),
        ("0.2", "0.3"),
        ("-0.3", "0"),
        ("12345678901234567890.123456789012345678", "12345678901234567890.123456789012345678"),
    ] {
        store.transact(&[add(&key, "Sum_Größe", by)]).await.unwrap();
        let item = one(store, TableRef::Source, &key).await.unwrap();
        assert_eq!(item.number("Sum_Größe").unwrap(), &total.parse().unwrap(), "after adding {by}");
    }
}

/// 38 digits plus a 39th: a database may refuse, but must not round, or a total would differ from its parts for ever.
async fn an_addition_that_does_not_fit_is_refused_or_exact(database: &impl Database) {
    let store = database.store();
    let key = TableKey::text("ADD", "overflow");
    let most: Decimal = "99999999999999999999999999999999999999".parse().unwrap();
    store.transact(&[add(&key, "Total", &most.to_string())]).await.unwrap();
    let result = store.transact(&[add(&key, "Total", "0.5")]).await;
    let item = one(store, TableRef::Source, &key).await.unwrap();
    assert!(is_refused(&result), "{result:?}, and the total is {:?}", item.number("Total"));
    assert_eq!(item.number("Total"), Some(&most));
}

async fn updates_leave_the_rest(database: &impl Database) {
    let (store, names) = (database.store(), &database.names());
    let key = TableKey::text("UPDATE", "a");
    let before = Item::new().with("Other", Value::text("stays")).with("Total", number("2"));
    store.transact(&[put(TableRef::Source, names, &key, before, Condition::Absent)]).await.unwrap();
    // Reserved words, dots, digits in front, blanks: all of them are attribute names that tables have.
    let add = ["Total", "Count_In Progress", "count", "2nd.row"];
    let add = add.into_iter().map(|name| (name.into(), Decimal::from(1))).collect();
    let set = Item::new().with("Status", Value::text("x")).with("Group", Value::M(BTreeMap::new()));
    store.transact(&[write(TableRef::Source, &key, Op::Update { add, set }, Condition::Always)]).await.unwrap();
    let item = one(store, TableRef::Source, &key).await.unwrap();
    assert_eq!(item.text("Other"), Some("stays"));
    assert_eq!(item.number("Total"), Some(&Decimal::from(3)));
    assert_eq!(item.number("2nd.row"), Some(&Decimal::from(1)));
    assert_eq!(item.text("Status"), Some("x"));
    assert_eq!(item.0.len(), 9);
}

async fn transactions_have_limits(database: &impl Database) {
    let (store, names) = (database.store(), &database.names());
    let many = |count: usize, name: &str| -> Vec<Write> {
        (0..count).map(|n| state_put(&state_key(name, &n.to_string()), Item::new(), Condition::Absent)).collect()
    };
    store.transact(&many(100, "HUNDRED")).await.unwrap();
    assert!(is_refused(&store.transact(&many(101, "MORE")).await));
    assert_eq!(one(store, TableRef::State, &state_key("MORE", "0")).await, None);

    let twice = state_key("TWICE", "a");
    let writes = [
        state_put(&twice, Item::new(), Condition::Always),
        write(TableRef::State, &twice, Op::Delete, Condition::Always),
    ];
    assert!(is_refused(&store.transact(&writes).await));

    let sized = |key: &TableKey, size: usize| {
        let around = key.to_item(names).size() + "Fill".len();
        let content = Item::new().with("Fill", Value::text("x".repeat(size - around)));
        put(TableRef::Source, names, key, content, Condition::Always)
    };
    let large = TableKey::text("LARGE", "a");
    store.transact(&[sized(&large, ITEM_SIZE_MAX)]).await.unwrap();
    let result = store.transact(&[sized(&TableKey::text("LARGE", "b"), ITEM_SIZE_MAX + 1)]).await;
    assert!(is_refused(&result), "{result:?}");

    let heavy: Vec<Write> = (0..11).map(|n| sized(&TableKey::text("HEAVY", n.to_string()), ITEM_SIZE_MAX)).collect();
    store.transact(&heavy[..10]).await.unwrap();
    let result = store.transact(&heavy).await;
    assert!(is_refused(&result), "{result:?}");

    for key in [TableKey::text("", "a"), TableKey::text("a", ""), TableKey::text("a", "x".repeat(1025))] {
        let result = store.transact(&[sized(&key, 2000)]).await;
        assert!(is_refused(&result), "{result:?}");
    }
}

async fn all_pages(store: &impl Store, partition: &str, range: SortRange) -> (Vec<Item>, usize) {
    let (mut items, mut pages, mut start) = (Vec::new(), 0, None);
    loop {
        let page = store.query(TableRef::State, &Value::text(partition), range.clone(), start).await.unwrap();
        items.extend(page.items);
        pages += 1;
        start = page.next;
        if start.is_none() {
            return (items, pages);
        }
    }
}

async fn queries_page_and_range(database: &impl Database) {
    let store = database.store();
    // 1.5 MB in one partition; a page holds 1 MB.
    let keys: Vec<TableKey> = (0..150).map(|n| state_key("QUERY", &format!("{}#{n:03}", n / 100))).collect();
    for chunk in keys.chunks(100) {
        let fill = Item::new().with("Fill", Value::text("x".repeat(10_000)));
        let writes: Vec<Write> = chunk.iter().map(|key| state_put(key, fill.clone(), Condition::Absent)).collect();
        store.transact(&writes).await.unwrap();
    }
    let sorts =
        |items: &[Item]| -> Vec<String> { items.iter().map(|item| item.text("SK").unwrap().to_owned()).collect() };
    let (items, pages) = all_pages(store, "QUERY", SortRange::All).await;
    let expected: Vec<String> =
        keys.iter().map(|key| key.sort.as_ref().unwrap().as_text().unwrap().to_owned()).collect();
    assert_eq!(sorts(&items), expected);
    assert!(pages > 1, "{pages} pages");

    let begins = |prefix: &str| SortRange::BeginsWith(prefix.to_owned());
    assert_eq!(all_pages(store, "QUERY", begins("1#")).await.0.len(), 50);
    assert_eq!(all_pages(store, "QUERY", begins("")).await.0.len(), 150);
    assert_eq!(all_pages(store, "QUERY", begins("2")).await.0.len(), 0);
    let between = |from: &str, to: &str| SortRange::Between(Value::text(from), Value::text(to));
    let (items, _) = all_pages(store, "QUERY", between("0#098", "1#101")).await;
    assert_eq!(sorts(&items), ["0#098", "0#099", "1#100", "1#101"]);
    assert_eq!(all_pages(store, "QUERY", between("1#101", "0#098")).await.0.len(), 0);
    let nothing = store.query(TableRef::State, &Value::text("NO SUCH"), SortRange::All, None).await.unwrap();
    assert_eq!(nothing, Page::default());
}

async fn scans_meet_every_item_once(database: &impl Database) {
    let (store, names) = (database.store(), &database.names());
    // 4 MB in items of all sizes, in either table.
    let keys: Vec<TableKey> = (0..60).map(|n| TableKey::text(format!("SCAN#{}", n % 17), n.to_string())).collect();
    for (n, chunk) in keys.chunks(20).enumerate() {
        let fill = |at: usize| Item::new().with("Fill", Value::text("x".repeat((n * 20 + at) * 2_300)));
        for (table, names) in [(TableRef::Source, names), (TableRef::State, &state::key_names())] {
            let item = |(at, key): (usize, &TableKey)| put(table, names, key, fill(at), Condition::Absent);
            let writes: Vec<Write> = chunk.iter().enumerate().map(item).collect();
            store.transact(&writes).await.unwrap();
        }
    }
    let expected: BTreeSet<&TableKey> = keys.iter().collect();
    for (table, names) in [(TableRef::Source, names), (TableRef::State, &state::key_names())] {
        for segments in [1, 3] {
            let (seen, pages) = scanned(store, table, names, segments).await;
            assert_eq!(seen.iter().collect::<BTreeSet<_>>(), expected);
            assert!(pages > segments, "4 MB in {pages} pages");
        }
    }
}

/// The keys of all items by so many segments, and the pages it took.
async fn scanned(store: &impl Store, table: TableRef, names: &KeyNames, segments: u32) -> (BTreeSet<TableKey>, u32) {
    let (mut seen, mut pages) = (BTreeSet::new(), 0);
    for segment in 0..segments {
        let mut start = None;
        loop {
            let page = store.scan(table, (segment, segments), start).await.unwrap();
            pages += 1;
            for item in page.items {
                let key = TableKey::of(&item, names).unwrap();
                assert!(seen.insert(key.clone()), "{key} came twice");
            }
            start = page.next;
            if start.is_none() {
                break;
            }
        }
    }
    (seen, pages)
}
