//! What a line may be, and what is said of one that holds no item.

use super::*;
use crate::model::value::Bytes;

fn fault(line: &str) -> String {
    parse_item(line).expect_err(line)
}

#[test]
fn a_plain_line_keeps_every_digit_and_every_type() {
    let line = r#" {"N":12345678901234567890123456789012345678,"F":0.1,"E":1e2,"T":"ä\n","B":true,"Z":null,"M":{"a":[1,{"b":"c"}]}} "#;
    let item = parse_item(line).unwrap();
    assert_eq!(item.number("N").unwrap().to_string(), "12345678901234567890123456789012345678");
    assert_eq!(item.number("F").unwrap().to_string(), "0.1");
    assert_eq!(item.number("E").unwrap().to_string(), "100");
    assert_eq!(item.text("T"), Some("ä\n"));
    assert_eq!(item.get("B"), Some(&Value::Bool(true)));
    assert_eq!(item.get("Z"), Some(&Value::Null(true)));
    let inner = Value::M(BTreeMap::from([("b".into(), Value::text("c"))]));
    let list = Value::L(vec![Value::N(Decimal::from(1)), inner]);
    assert_eq!(item.get("M"), Some(&Value::M(BTreeMap::from([("a".into(), list)]))));
}

#[test]
fn export_lines_with_and_without_the_wrapping_are_typed() {
    let typed =
        r#"{"PK":{"S":"a"},"n":{"N":"1.50"},"b":{"B":"AQI="},"m":{"M":{"l":{"L":[{"NULL":true},{"NS":["1","2"]}]}}}}"#;
    let bare = parse_item(typed).unwrap();
    assert_eq!(bare, parse_item(&format!("{{\"Item\": {typed}}}")).unwrap());
    assert_eq!(bare.number("n").unwrap().to_string(), "1.5");
    assert_eq!(bare.get("b"), Some(&Value::B(Bytes(vec![1, 2]))));
    assert!(matches!(bare.get("m"), Some(Value::M(map)) if matches!(map["l"], Value::L(ref list) if list.len() == 2)));
}

#[test]
fn a_plain_attribute_named_item_is_no_export() {
    assert_eq!(parse_item(r#"{"Item":"x"}"#).unwrap().text("Item"), Some("x"));
    assert!(matches!(parse_item(r#"{"Item":{"Name":"x"}}"#).unwrap().get("Item"), Some(Value::M(_))));
    assert!(matches!(parse_item(r#"{"Item":{"S":"x"}}"#).unwrap().get("Item"), Some(Value::S(_))));
    let beside = parse_item(r#"{"PK":"a","Item":{"PK":{"S":"x"}}}"#).unwrap();
    assert!(matches!(beside.get("Item"), Some(Value::M(_))));
    assert_eq!(beside.text("PK"), Some("a"));
}

#[test]
fn a_malformed_value_in_an_export_is_named_with_its_path() {
    let message = fault(r#"{"Item":{"PK":{"S":"a"},"drive":{"M":{"on":true}}}}"#);
    assert!(message.contains("`drive.on`") && message.contains("`true`"), "{message}");
    let message = fault(r#"{"Item":{"PK":{"S":"a"},"n":{"N":5}}}"#);
    assert!(message.contains("`n`") && message.contains("type N"), "{message}");
    assert!(fault(r#"{"Item":{"PK":{"S":"a"},"s":{"SS":[]}}}"#).contains("no empty sets"));
    assert!(fault(r#"{"Item":{"PK":{"S":"a"},"n":{"N":"x"}}}"#).contains("`x` is not a number"));
    assert!(fault(r#"{"Items":[{"PK":{"S":"a"}}],"Count":1,"ScannedCount":1}"#).contains("jq -c '.Items[]'"));
    assert!(fault(r#"{"Metadata":{"T":{"N":"1"}},"Keys":{"PK":{"S":"a"}}}"#).contains("incremental export"));
}

#[test]
fn a_number_that_dynamodb_refuses_is_a_fault_with_its_path() {
    let digits = "1".repeat(39);
    let message = fault(&format!("{{\"PK\":\"a\",\"m\":{{\"n\":[{digits}]}}}}"));
    assert!(message.contains("`m.n[0]`") && message.contains("39 significant digits"), "{message}");
    assert!(fault(r#"{"n":1e126}"#).contains("magnitude"));
    assert!(fault(r#"{"n":1e-131}"#).contains("magnitude"));
    assert!(fault(&format!("{{\"n\":1{}}}", "0".repeat(400))).contains("refuses the number"));
}

#[test]
fn what_is_no_item_says_what_to_do() {
    assert!(fault("[1]").contains("jq -c '.[]'"));
    assert!(fault("{").contains("jq -c ."));
    assert!(fault("\"text\"").contains("one item a line"));
    assert!(fault(r#"{"a":1} x"#).contains("trailing characters"));
    assert!(fault(r#"{"a":1,"b":{"c":1,"c":2}}"#).contains("`c` stands twice"));
    assert!(fault(r#"{"a":NaN}"#).contains("column 6"));
}

#[test]
fn nesting_is_bounded_and_harmless() {
    let nested = |levels: usize| format!("{{\"a\":{}1{}}}", "[".repeat(levels), "]".repeat(levels));
    assert!(parse_item(&nested(NESTING_MAX - 1)).is_ok());
    assert!(fault(&nested(NESTING_MAX)).contains("32 levels"));
    assert!(fault(&nested(200_000)).contains("32 levels"));
    let typed =
        |levels: usize| format!("{{\"a\":{}{{\"N\":\"1\"}}{}}}", "{\"L\":[".repeat(levels), "]}".repeat(levels));
    assert!(parse_item(&typed(NESTING_MAX - 1)).is_ok());
    assert!(fault(&typed(100_000)).contains("32 levels"));
}

#[test]
fn excerpts_are_short_and_printable() {
    assert_eq!(excerpt("a\tb\u{0}"), "a\\tb\\u{0}");
    assert_eq!(excerpt(&"é".repeat(100)).chars().count(), EXCERPT_LENGTH_MAX + 3);
}

/// The short way of sound lines of an export and the long way of all others agree wherever the short one answers.
#[test]
fn both_ways_of_an_export_line_give_the_same_item() {
    let nested = |levels: usize| {
        format!("{{\"Item\":{{\"a\":{}{{\"N\":\"1\"}}{}}}}}", "{\"L\":[".repeat(levels), "]}".repeat(levels))
    };
    let long = |line: &str| {
        let members: Members<'_> = serde_json::from_str(line).unwrap();
        typed_item(&export_item(members.0[0].1).unwrap())
    };
    let all = r#"{"Item":{"PK":{"S":"a"},"n":{"N":"1.50"},"b":{"B":"AQI="},"t":{"BOOL":true},"z":{"NULL":true},"m":{"M":{"l":{"L":[{"NS":["2","1"]},{"BS":["AQ=="]}]}}}}}"#;
    for line in [
        all,
        r#"{"Item":{"PK":{"S":"\u00e4\n"}}}"#,
        r#"{"Item": {"e":{"M":{}},"l":{"L":[]}}}"#,
        &nested(NESTING_MAX - 1),
    ] {
        assert_eq!(sound_export_item(line).ok_or(()), long(line).map_err(|_| ()), "{line}");
        assert!(sound_export_item(line).is_some(), "{line}");
    }
    let faulty = [
        r#"{"Item":{"PK":{"S":"a"},"PK":{"S":"b"}}}"#,
        r#"{"Item":{"m":{"M":{"a":{"S":"x"},"a":{"S":"y"}}}}}"#,
        r#"{"Item":{"s":{"SS":[]}}}"#,
        r#"{"Item":{"n":{"N":5}}}"#,
        r#"{"Item":{"n":{"N":"1e200"}}}"#,
        r#"{"Item":{}}"#,
        r#"{"Item":{"PK":{"S":"a"}},"more":1}"#,
        &nested(NESTING_MAX),
    ];
    for line in faulty {
        assert_eq!(sound_export_item(line), None, "{line}");
    }
    assert!(fault(faulty[0]).contains("stands twice") && fault(faulty[1]).contains("stands twice"));
}
