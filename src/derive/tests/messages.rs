//! What findings say: the key as it is stored, every attribute that was compared, each reason once.

use crate::derive::testing::{
    attribute, condition, entity, entity_index, index, item, key_of, listing, model, n, strings,
};
use crate::derive::{Fold, derive};
use crate::model::derived::RowKind;
use crate::model::spec::{Attribute, EntityIndex, Model};
use crate::model::value::{Item, Kind, Value};

use super::{derived, verdicts};

/// Tickets, open ones in an index of two attributes.
fn tickets() -> Model {
    let mut model = model("PK", "SK");
    model.table.indexes = vec![index("GSI1", &["GSI1PK"], &["GSI1SK"])];
    let mut ticket = entity("Ticket", "TICKET#{ticket}", "TICKET#{ticket}");
    ticket.attributes = vec![attribute("State", Kind::S), attribute("Owner", Kind::S)];
    let keys = entity_index("GSI1", &[("GSI1PK", "OWNER#{Owner}"), ("GSI1SK", "TICKET#{ticket}")]);
    ticket.indexes = vec![EntityIndex { when: vec![condition("State", &["open", "new"])], ..keys }];
    model.entities = vec![ticket];
    model
}

fn ticket(attributes: &[(&str, &str)]) -> Item {
    let ticket = item([("PK", "TICKET#7"), ("SK", "TICKET#7"), ("Owner", "ann")]);
    attributes.iter().fold(ticket, |ticket, (name, text)| ticket.with(*name, Value::text(*text)))
}

fn messages(model: &Model, item: &Item) -> Vec<String> {
    derived(model, item).findings.into_iter().map(|finding| finding.message).collect()
}

#[test]
fn an_index_is_left_or_entered_with_all_of_its_attributes() {
    let model = tickets();
    let closed = ticket(&[("State", "closed"), ("GSI1PK", "OWNER#ann"), ("GSI1SK", "TICKET#7")]);
    let expected = "`GSI1PK` is `OWNER#ann` and `GSI1SK` is `TICKET#7`, but this item does not belong in index GSI1: \
                    `State` is `closed`, not `open` or `new`; remove the attributes `GSI1PK` and `GSI1SK`, and keep the item";
    assert_eq!(messages(&model, &closed), [expected]);
    let half = ticket(&[("GSI1SK", "TICKET#7")]);
    assert!(
        messages(&model, &half)[0]
            .ends_with("`State` is absent, not `open` or `new`; remove the attribute `GSI1SK`, and keep the item")
    );
    let expected = "the item has no key attribute of index GSI1, where it belongs because `State` is `new`; \
                    set `GSI1PK` to `OWNER#ann` and `GSI1SK` to `TICKET#7`";
    assert_eq!(messages(&model, &ticket(&[("State", "new")])), [expected]);
}

#[test]
fn a_placeholder_is_one_in_the_key_as_it_is_stored() {
    let model = tickets();
    let open = |owner: &str, key: &str| {
        ticket(&[("State", "open"), ("Owner", owner), ("GSI1PK", key), ("GSI1SK", "TICKET#7")])
    };
    // Not yet in the key, and already gone from the attribute.
    assert_eq!(verdicts(&model, &open("undefined", "OWNER#ann")), ["G201 GSI1PK OWNER#undefined"]);
    let stale = open("ann", "OWNER#undefined");
    assert_eq!(verdicts(&model, &stale), ["G201 GSI1PK OWNER#ann", "S402 GSI1PK a value"]);
    assert!(messages(&model, &stale)[1].starts_with("`GSI1PK` is `OWNER#undefined`, where `undefined` is"));
    assert_eq!(verdicts(&model, &open("null", "OWNER#null")), ["S402 GSI1PK a value"]);
    // What the model itself writes or declares is meant.
    let mut meant = tickets();
    meant.entities[0].attributes[1].one_of = strings(&["None", "ann"]);
    assert_eq!(verdicts(&meant, &open("None", "OWNER#None")), [""; 0]);
    let mut literal = model;
    literal.entities[0] = entity("Ticket", "TICKET##null#{ticket}", "{ticket}-{part}");
    let of = |sort: &str| item([("PK", "TICKET##null#7"), ("SK", sort)]);
    assert_eq!(verdicts(&literal, &of("7-1")), [""; 0]);
    assert_eq!(verdicts(&literal, &of("7-undefined")), ["S402 SK a value"]);
}

#[test]
fn one_reason_that_keeps_an_item_out_of_several_is_said_once() {
    let mut model = tickets();
    model.entities[0].indexes.clear();
    model.listings = ["by_owner", "by_own", "owners"]
        .map(|name| listing(name, "Ticket", &format!("LIST#{name}"), "{Owner:ordinal}#{ticket}"))
        .to_vec();
    model.entities[0].attributes[1].one_of = strings(&["bob"]);
    let item = ticket(&[]);
    let told = derived(&model, &item);
    let finding = told.findings.iter().find(|finding| finding.code == "A309").unwrap();
    let expected = "this item is left out of listing by_owner, listing by_own, listing owners: `Owner` does not fit: `ann` is \
                    not one of the declared values; mend the value, or the key in the model";
    assert_eq!(finding.message, expected);
}

#[test]
fn a_value_of_another_type_is_in_no_listing() {
    let mut model = tickets();
    model.entities[0].indexes.clear();
    model.entities[0].attributes.push(Attribute { none: strings(&["-"]), ..attribute("Years", Kind::N) });
    model.listings = vec![listing("by_years", "Ticket", "YEARS", "{Years:03}#{ticket}")];
    let listed = |years: Value| {
        let derived = derived(&model, &ticket(&[]).with("Years", years));
        let codes: Vec<String> = derived.findings.iter().map(|finding| finding.code.clone()).collect();
        (codes.join(" "), derived.rows.iter().filter(|row| row.kind == RowKind::Listing).count())
    };
    assert_eq!(listed(n("7")), (String::new(), 1));
    assert_eq!(listed(Value::text("7")), ("A302 A309".to_owned(), 0));
    assert_eq!(listed(Value::text("-")), (String::new(), 0));
    let reason = &derived(&model, &ticket(&[]).with("Years", Value::text("7"))).findings[1].message;
    assert!(reason.contains("listing by_years: `Years` is of type S, declared is N"), "{reason}");
}

#[test]
fn a_key_of_another_type_than_the_table_s_is_told_as_such() {
    let model = tickets();
    let number = item([("SK", "x")]).with("PK", n("1"));
    assert_eq!(verdicts(&model, &number), ["K102 PK a value of type S"]);
    let message = &messages(&model, &number)[0];
    assert!(message.starts_with("`PK` is 1 of type N, but the table's key has type S"), "{message}");
}

#[test]
fn a_key_in_another_case_is_told_whose_it_nearly_is() {
    let model = tickets();
    let message = &messages(&model, &item([("PK", "Ticket#7"), ("SK", "TICKET#7")]))[0];
    let expected = "no entity has keys like `Ticket#7 / TICKET#7`; those of Ticket are written `TICKET#{ticket}` and \
                    `TICKET#{ticket}`, where case counts: mend the key";
    assert_eq!(message, expected);
    let other = &messages(&model, &item([("PK", "CASE#7"), ("SK", "TICKET#7")]))[0];
    assert!(other.starts_with("no entity of the model has keys like"), "{other}");
}

#[test]
fn items_that_derive_nothing_for_their_key_are_counted_apart() {
    let mut model = tickets();
    model.entities[0] = entity("Ticket", "TICKET#{ticket}", "TICKET#{ticket}");
    model.entities[0].matches = vec![condition("Type", &["Ticket"])];
    let mut fold = Fold::new();
    let good = item([("PK", "TICKET#7"), ("SK", "TICKET#7"), ("Type", "Ticket")]);
    let two_values = item([("PK", "TICKET#7"), ("SK", "TICKET#8"), ("Type", "Ticket")]);
    let other_shape = item([("PK", "TICKETS"), ("SK", "7"), ("Type", "Ticket")]);
    let unknown = item([("PK", "A"), ("SK", "B")]);
    for item in [&good, &two_values, &other_shape, &unknown] {
        fold.add(&derive(&model, &key_of(&model, item), item));
    }
    assert_eq!((fold.checked()["Ticket"], fold.set_aside(), fold.unrecognised()), (3, 2, 1));
}
