//! Faults one by one: the request where there is one, the reason where there is none.

use super::*;
use crate::derive::testing::{attribute, condition, entity, entity_index, index, item, model, n, strings, template};
use crate::model::spec::{Attribute, Format};
use crate::model::value::Kind;

/// Orders with a stale-prone index `G1`, a sparse one `G2`, one by an optional attribute `G3`, and one that they do not have.
fn orders() -> Model {
    let mut model = model("PK", "SK");
    model.table.ttl = Some("ttl".into());
    let keys = |number: u8| index(&format!("G{number}"), &[&format!("G{number}PK")], &[&format!("G{number}SK")]);
    model.table.indexes = vec![keys(1), keys(2), keys(3), keys(4)];
    let mut order = entity("Order", "ORD#{id}", "ORD#{id}");
    order.matches = vec![condition("Type", &["Order"])];
    order.attributes = vec![
        Attribute { required: true, one_of: strings(&["Open", "Shipped"]), ..attribute("Status", Kind::S) },
        Attribute { format: Some(Format::Date), required: true, ..attribute("Date", Kind::S) },
        Attribute { aliases: strings(&["Cust"]), ..attribute("Customer", Kind::S) },
        attribute("Amount", Kind::N),
    ];
    order.indexes = vec![
        entity_index("G1", &[("G1PK", "ORDERS"), ("G1SK", "{Status}#{Date}#{id}")]),
        entity_index("G2", &[("G2PK", "OPEN"), ("G2SK", "{Date}#{id}")]),
        entity_index("G3", &[("G3PK", "CUST#{Customer}"), ("G3SK", "ORD#{id}")]),
    ];
    order.indexes[1].when = vec![condition("Status", &["Open"])];
    let mut line = entity("Line", "ORD#{id}", "LINE#{Number:04}");
    line.attributes = vec![Attribute { required: true, ..attribute("Number", Kind::N) }];
    model.entities = vec![order, line];
    model
}

fn good() -> Item {
    item([
        ("PK", "ORD#7"),
        ("SK", "ORD#7"),
        ("Type", "Order"),
        ("Status", "Shipped"),
        ("Date", "2026-01-02"),
        ("G1PK", "ORDERS"),
        ("G1SK", "Shipped#2026-01-02#7"),
    ])
}

fn open() -> Item {
    let item = good().with("Status", Value::text("Open")).with("G1SK", Value::text("Open#2026-01-02#7"));
    item.with("G2PK", Value::text("OPEN")).with("G2SK", Value::text("2026-01-02#7"))
}

/// The only patch, which must be an update that leaves no finding; its expressions with names and values in place.
fn mended(item: &Item) -> String {
    let model = orders();
    let key = key_of(&model, item);
    let findings = derive(&model, &key, item).findings;
    assert!(!findings.is_empty());
    let Suggestion { patches, left } = suggest(&model, &key, item, &findings);
    assert_eq!(left, []);
    let [patch] = patches.as_slice() else { panic!("{patches:?}") };
    let (_, after) = apply(&model, item, patch).unwrap();
    assert_eq!((found(&model, &key, &after), patch.safe), (Vec::new(), true));
    let Request::UpdateItem(request) = &patch.request else { panic!("{patch:?}") };
    let mut text = format!("{} IF {}", request.update_expression, request.condition_expression);
    let values = request.expression_attribute_values.iter().map(|(placeholder, value)| (placeholder, value.shown()));
    let names = request.expression_attribute_names.iter().map(|(placeholder, name)| (placeholder, name.to_string()));
    for (placeholder, shown) in values.chain(names).rev_by_length() {
        text = text.replace(placeholder.as_str(), &shown);
    }
    text.replace("attribute_not_exists", "no").replace("attribute_exists", "is")
}

/// Longer placeholders first: `#a1` begins `#a10`.
trait ByLength<'p>: Iterator<Item = (&'p String, String)> + Sized {
    fn rev_by_length(self) -> Vec<(&'p String, String)> {
        let mut all: Vec<_> = self.collect();
        all.sort_by_key(|(placeholder, _)| std::cmp::Reverse(placeholder.len()));
        all
    }
}
impl<'p, I: Iterator<Item = (&'p String, String)>> ByLength<'p> for I {}

/// What is left of an item that nothing mends, as `CODE attribute: reason`.
fn left(model: &Model, item: &Item) -> Vec<String> {
    let key = key_of(model, item);
    let findings = derive(model, &key, item).findings;
    let Suggestion { patches, left } = suggest(model, &key, item, &findings);
    assert_eq!(patches, []);
    let line = |left: &crate::derive::patch::Left<'_>| {
        format!("{} {}: {}", left.finding.code, left.finding.attribute.as_deref().unwrap_or("-"), left.reason)
    };
    left.iter().map(line).collect()
}

#[test]
fn a_stale_key_rests_on_all_that_it_is_made_of() {
    let stale = good().with("G1SK", Value::text("Open#2026-01-02#7"));
    assert_eq!(
        mended(&stale),
        r#"SET G1SK = "Shipped#2026-01-02#7" IF is(PK) AND Date = "2026-01-02" AND G1SK = "Open#2026-01-02#7" AND Status = "Shipped" AND Type = "Order""#
    );
}

#[test]
fn sparse_indexes_are_left_and_entered() {
    let stays = good().with("G2PK", Value::text("OPEN")).with("G2SK", Value::text("2026-01-02#7"));
    assert_eq!(
        mended(&stays),
        r#"REMOVE G2PK, G2SK IF is(PK) AND G2PK = "OPEN" AND G2SK = "2026-01-02#7" AND Status = "Shipped" AND Type = "Order""#
    );
    let mut lacks = open();
    lacks.0.remove("G2PK");
    lacks.0.remove("G2SK");
    assert_eq!(
        mended(&lacks),
        r#"SET G2PK = "OPEN", G2SK = "2026-01-02#7" IF is(PK) AND Date = "2026-01-02" AND no(G2PK) AND no(G2SK) AND Status = "Open" AND Type = "Order""#
    );
    // Half of it.
    let half = open().with("G2SK", Value::Null(true));
    assert!(mended(&half).starts_with(r#"SET G2SK = "2026-01-02#7" IF "#));
    // Without its optional source an item does not belong there: no spelling of it may have come.
    let orphan = good().with("G3SK", Value::text("ORD#7")).with("G3PK", Value::text("CUST#ann"));
    assert_eq!(
        mended(&orphan),
        r#"REMOVE G3PK, G3SK IF is(PK) AND no(Cust) AND no(Customer) AND G3PK = "CUST#ann" AND G3SK = "ORD#7" AND Type = "Order""#
    );
    let stray = good().with("G4PK", Value::text("X"));
    assert_eq!(mended(&stray), r#"REMOVE G4PK IF is(PK) AND G4PK = "X" AND Type = "Order""#);
}

#[test]
fn miswritten_values_are_mended_and_the_keys_made_of_them_too() {
    // The key was right for the wrong value, and the sparse index shut it out.
    let miscased = good().with("Status", Value::text("open ")).with("G1SK", Value::text("open #2026-01-02#7"));
    assert_eq!(
        mended(&miscased),
        "SET G1SK = \"Open#2026-01-02#7\", G2PK = \"OPEN\", G2SK = \"2026-01-02#7\", Status = \"Open\" IF is(PK) AND \
         Date = \"2026-01-02\" AND G1SK = \"open #2026-01-02#7\" AND no(G2PK) AND no(G2SK) AND Status = \"open \" AND Type = \"Order\""
    );
    let german = good().with("Date", Value::text("31.01.2026"));
    assert!(mended(&german).starts_with(r#"SET Date = "2026-01-31", G1SK = "Shipped#2026-01-31#7" IF "#));
    assert!(mended(&good().with("Amount", Value::text("12.50"))).starts_with("SET Amount = 12.5 IF "));
    let null = good().with("Cust", Value::Null(true));
    assert_eq!(mended(&null), r#"REMOVE Cust IF is(PK) AND Cust = NULL AND Type = "Order""#);
    for ttl in [n("1767225600000"), Value::text("1767225600"), Value::text("2026-01-01T00:00:00Z")] {
        assert!(mended(&good().with("ttl", ttl)).starts_with("SET ttl = 1767225600 IF "));
    }
    let mut untyped = good();
    untyped.0.remove("Type");
    assert_eq!(mended(&untyped), r#"SET Type = "Order" IF is(PK) AND no(Type)"#);
}

#[test]
fn who_patches_a_time_to_live_is_warned() {
    let (model, item) = (orders(), good().with("ttl", n("1767225600000")));
    let key = key_of(&model, &item);
    let findings = derive(&model, &key, &item).findings;
    let patch = suggest(&model, &key, &item, &findings).patches.remove(0);
    assert!(patch.safe && patch.reason.unwrap().contains("deletes the item"), "{patch:?}");
}

#[test]
fn digits_that_may_be_a_day_are_no_seconds() {
    let model = orders();
    for text in ["20261231", "31122026", "00010101", "2026", "1e3", "+5", "5."] {
        let item = good().with("ttl", Value::text(text));
        assert_eq!(left(&model, &item).len(), 1, "{text}");
    }
    assert!(mended(&good().with("ttl", Value::text("1767225600"))).contains("1767225600"));
}

#[test]
fn what_is_not_certain_is_left_with_its_reason() {
    let model = orders();
    let all = |item: Item| left(&model, &item).join("; ");
    let unknown = good().with("Status", Value::text("Lost")).with("G1SK", Value::text("Open#2026-01-02#7"));
    assert_eq!(
        all(unknown),
        "A303 Status: which value was meant is not known; \
         G201 G1SK: it depends on `Status`, which has a finding of its own"
    );
    let impossible = good().with("Date", Value::text("2026-02-30")).with("G1SK", Value::text("Shipped#2026-02-30#7"));
    assert_eq!(all(impossible), "A305 Date: which day or time was meant is not known");
    let ambiguous = good().with("Date", Value::text("03/04/2026")).with("G1SK", Value::text("Shipped#03/04/2026#7"));
    assert_eq!(all(ambiguous), "A304 Date: which day or time was meant is not known");
    assert_eq!(
        all(good().with("Amount", Value::text("007"))),
        "A302 Amount: the value in the declared type is not certain"
    );
    let near = good().with("Status", Value::text("shipped"));
    let mut two = orders();
    two.entities[0].attributes[0].one_of.push("SHIPPED".to_owned());
    assert_eq!(left(&two, &near.with("G1SK", Value::text("shipped#2026-01-02#7"))).len(), 1);
    // A key without a literal is anybody's.
    let mut bare = orders();
    bare.entities.truncate(1);
    bare.entities[0].partition = template("{id}");
    bare.entities[0].sort = Some(template("{sort}"));
    let foreign = item([("PK", "7"), ("SK", "8")]);
    assert_eq!(left(&bare, &foreign), ["K102 Type: whether the key or an attribute is wrong, the item does not tell"]);
    assert_eq!(
        all(good().with("Type", Value::text("Invoice"))),
        "K102 Type: whether the key or an attribute is wrong, the item does not tell"
    );
}

#[test]
fn variables_that_only_index_keys_give_need_two_witnesses() {
    let mut model = model("PK", "SK");
    model.table.indexes = vec![index("G1", &["G1PK"], &[]), index("G2", &["G2PK"], &[])];
    let mut thing = entity("Thing", "T#{id}", "T#{id}");
    thing.indexes = vec![entity_index("G1", &[("G1PK", "A#{p}")]), entity_index("G2", &[("G2PK", "B#{p}")])];
    model.entities = vec![thing];
    let two = item([("PK", "T#1"), ("SK", "T#1"), ("G1PK", "A#x"), ("G2PK", "B#y")]);
    assert_eq!(left(&model, &two), ["K104 G2PK: which of its keys is right, the item does not tell"]);
    let one = item([("PK", "T#1"), ("SK", "T#1"), ("G1PK", "A#x")]);
    let findings = derive(&model, &key_of(&model, &one), &one).findings;
    let patch = suggest(&model, &key_of(&model, &one), &one, &findings).patches.remove(0);
    let (_, after) = apply(&model, &one, &patch).unwrap();
    assert_eq!(after.text("G2PK"), Some("B#x"));
    // The witness has gone over to another value meanwhile.
    assert!(apply(&model, &one.with("G1PK", Value::text("A#z")), &patch).is_none());
}

#[test]
fn a_wrong_primary_key_is_moved_whole_and_never_safe() {
    let model = orders();
    let line = item([("PK", "ORD#7"), ("SK", "LINE#3"), ("note", "as it is")]).with("Number", n("3"));
    let key = key_of(&model, &line);
    let findings = derive(&model, &key, &line).findings;
    let Suggestion { patches, left } = suggest(&model, &key, &line, &findings);
    let ([patch], []) = (patches.as_slice(), left.as_slice()) else { panic!("{patches:?} {left:?}") };
    assert!(!patch.safe && patch.reason.unwrap().starts_with("the primary key changes"));
    assert_eq!((patch.mends.join(","), patch.request.operation()), ("K101".to_owned(), "transact-write-items"));
    let (new_key, after) = apply(&model, &line, patch).unwrap();
    assert_eq!(
        (new_key, found(&model, &key_of(&model, &after), &after)),
        (TableKey::text("ORD#7", "LINE#0003"), vec![])
    );
    assert_eq!(after.text("note"), Some("as it is"));
    assert!(apply(&model, &line.clone().with("note", Value::text("another")), patch).is_none());
    // An attribute that is wrong itself says nothing about the key.
    let wrong = line.with("Number", Value::text("three"));
    assert!(left_codes(&model, &wrong).contains(&"K101".to_owned()));
}

fn left_codes(model: &Model, item: &Item) -> Vec<String> {
    left(model, item).iter().map(|line| line[..4].to_owned()).collect()
}

#[test]
fn only_the_findings_asked_for_are_mended() {
    let (model, item) =
        (orders(), good().with("Amount", Value::text("1")).with("G1SK", Value::text("Open#2026-01-02#7")));
    let key = key_of(&model, &item);
    let findings = derive(&model, &key, &item).findings;
    let only: Vec<_> = findings.into_iter().filter(|finding| finding.code == "A302").collect();
    let Suggestion { patches, .. } = suggest(&model, &key, &item, &only);
    assert_eq!(patches[0].mends, ["A302"]);
    assert_eq!(suggest(&model, &key, &item, &[]).patches, []);
}

#[test]
fn requests_are_what_the_aws_cli_reads() {
    let (model, item) = (orders(), good().with("G1SK", Value::text("Open#2026-01-02#7")));
    let key = key_of(&model, &item);
    let findings = derive(&model, &key, &item).findings;
    let patch = suggest(&model, &key, &item, &findings).patches.remove(0);
    let json = serde_json::to_value(&patch.request).unwrap();
    assert_eq!(json["TableName"], "test");
    assert_eq!(json["Key"], serde_json::json!({"PK": {"S": "ORD#7"}, "SK": {"S": "ORD#7"}}));
    assert_eq!(json["UpdateExpression"], "SET #a0 = :v0");
    assert_eq!(json["ExpressionAttributeNames"]["#a0"], "G1SK");
    assert_eq!(json["ExpressionAttributeValues"][":v0"], serde_json::json!({"S": "Shipped#2026-01-02#7"}));
}
