//! Days and times inside keys, and a time to live that lies far out.

use crate::derive::testing::{attribute, entity, entity_index, index, item, model, n, strings};
use crate::model::spec::{Attribute, Format, Model};
use crate::model::value::{Item, Kind, Value};

use super::{derived, verdicts};

const NONE: [&str; 0] = [];

/// Events by time, in an index by day.
fn events() -> Model {
    let mut model = model("PK", "SK");
    model.table.indexes = vec![index("GSI1", &["GSI1PK"], &[])];
    model.table.ttl = Some("ttl".into());
    let mut event = entity("Event", "EVENTS", "EV#{at:timestamp-utc.3}");
    event.attributes = vec![
        attribute("Day", Kind::S),
        Attribute { format: Some(Format::TimestampUtcFixed(3)), ..attribute("Seen", Kind::S) },
        Attribute { none: strings(&["-1"]), ..attribute("ttl", Kind::N) },
    ];
    event.indexes = vec![entity_index("GSI1", &[("GSI1PK", "DAY#{Day:date}")])];
    model.entities = vec![event];
    model
}

fn event(at: &str) -> Item {
    item([("PK", "EVENTS")]).with("SK", Value::text(format!("EV#{at}")))
}

#[test]
fn a_time_in_a_key_has_one_width_and_is_utc() {
    let model = events();
    let at = |at: &str| verdicts(&model, &event(at));
    assert_eq!(at("2026-03-01T10:00:29.017Z"), NONE);
    assert_eq!(at("2026-03-01T10:00:00+02:00"), ["A304 SK EV#2026-03-01T08:00:00.000Z"]);
    assert_eq!(at("2026-03-01T10:00:29Z"), ["A304 SK EV#2026-03-01T10:00:29.000Z"]);
    assert_eq!(at("2026-03-01"), ["A304 SK a UTC time YYYY-MM-DDThh:mm:ss.fffZ with 3 fraction digits"]);
    assert_eq!(at("2026-02-30T10:00:00.000Z"), ["A305 SK a day and time that exist"]);
    let message = &derived(&model, &event("2026-03-01T10:00:29Z")).findings[0].message;
    let expected = "`SK` is `EV#2026-03-01T10:00:29Z`, where `2026-03-01T10:00:29Z` is not a UTC time \
                    YYYY-MM-DDThh:mm:ss.fffZ with 3 fraction digits; put the item under \
                    `EV#2026-03-01T10:00:29.000Z` and delete this one in one transaction";
    assert_eq!(message, expected);
    assert!(derived(&model, &event("2026-03-01T10:00:29Z")).rows.len() == 1, "nothing but the finding");
}

#[test]
fn a_day_in_an_index_key_is_one() {
    let model = events();
    let day = |day: &str, key: &str| {
        let item = event("2026-03-01T10:00:29.017Z").with("Day", Value::text(day)).with("GSI1PK", Value::text(key));
        verdicts(&model, &item)
    };
    assert_eq!(day("2026-03-01", "DAY#2026-03-01"), NONE);
    assert_eq!(day("2026-02-30", "DAY#2026-02-30"), ["A305 GSI1PK a day and time that exist"]);
    assert_eq!(day("1.3.2026", "DAY#1.3.2026"), ["A304 GSI1PK a date YYYY-MM-DD"]);
    assert_eq!(day("2026-03-01", "DAY#2026-02-30"), ["G201 GSI1PK DAY#2026-03-01"]);
}

#[test]
fn an_attribute_may_have_a_fixed_fraction() {
    let model = events();
    let seen = |at: &str| verdicts(&model, &event("2026-03-01T10:00:29.017Z").with("Seen", Value::text(at)));
    assert_eq!(seen("2026-03-01T10:00:29.017Z"), NONE);
    assert_eq!(seen("2026-03-01T10:00:29Z"), ["A304 Seen a UTC time YYYY-MM-DDThh:mm:ss.fffZ with 3 fraction digits"]);
    let item = event("2026-03-01T10:00:29.017Z").with("Seen", Value::text("2026-03-01T10:00:00+02:00"));
    let message = &derived(&model, &item).findings[0].message;
    assert!(
        message.ends_with(
            "; write `2026-03-01T08:00:00.000Z`, the same instant, there and in every key that is made of it"
        ),
        "{message}"
    );
}

#[test]
fn a_time_to_live_lies_within_reach() {
    let model = events();
    let ttl = |value: Value| verdicts(&model, &event("2026-03-01T10:00:29.017Z").with("ttl", value));
    let far = ["A310 ttl seconds since 1970 of a day from 2000 to 2200"];
    for good in ["0", "946684800", "1767225600", "7258118399", "-1"] {
        assert_eq!(ttl(n(good)), NONE, "{good}");
    }
    for bad in ["20261231", "86400", "-5", "7258118400", "253402300799"] {
        assert_eq!(ttl(n(bad)), far, "{bad}");
    }
    assert_eq!(ttl(n("1767225600000")), ["A306 ttl 1767225600"]);
    let item = event("2026-03-01T10:00:29.017Z").with("ttl", n("20261231"));
    let message = &derived(&model, &item).findings[0].message;
    assert!(message.starts_with("`ttl` is 20261231 (1970-08-23), so"), "{message}");
}
