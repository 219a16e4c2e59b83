//! Every rule by a case that breaks it, with the exact place, and one beside it that keeps it.

use super::{faults, references, shown};
use crate::model::load::rules::RULES;

/// A small model without a fault. A case replaces one text of it.
pub(super) const BASE: &str = r##"version = 1
name = "shop"
zone = "Europe/Berlin"
delimiter = "#"
prefix = "KEEPER"
tombstone_days = 14

[table]
name = "shop"
partition_key = "PK"
sort_key = "SK"
ttl = "ttl"

[table.index.GSI1]
partition = ["GSI1PK"]
sort = [{ name = "GSI1N", type = "N" }]

[entity.Order]
match = { Type = "Order" }
key = { PK = "ORDER#{order}", SK = "ORDER#{order}" }
index.GSI1 = { GSI1PK = "CUSTOMER#{customer}", GSI1N = "{Amount}", when = { State = "Open" } }
attribute.State = { required = true, one_of = ["Open", "Closed", "Away"] }
attribute.Amount = { type = "N", required = true, min = 0, max = 9999 }
attribute.Due = { format = "date", none = ["N/A"], aliases = ["DueDate"] }
attribute.Tags = { type = "SS" }
attribute.Note = "S"

[entity.Customer]
key = { PK = "CUSTOMER#{customer}", SK = "PROFILE" }
attribute.Name = { required = true }

[aggregate.orders]
of = "Order"
group_by = ["customer"]
count_by = "State"
sum = ["Amount"]
key = { PK = "STATS#{customer}", SK = "ORDERS" }

[listing.by_amount]
of = "Order"
when = { State = ["Open", "Away"] }
key = { PK = "ORDERS", SK = "AMOUNT#{Amount:04}#{order}" }
copy = ["State"]

[expiry.due]
of = "Order"
date = "Due"
lead_days = [7, 1, 0]
subject = "{order}"
owner = "{customer}"

[severity]
A303 = "warning"

[reports]
names = ["shop"]
"##;

/// (code, text of the base, what breaks the rule, where the fault is, what keeps the rule)
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("C101", "[severity]", "[severity", "52:10", "[severity] # by code"),
    ("C101", "ttl = \"ttl\"", "ttl = \"ttl\"\nttl = \"x\"", "13:1", "ttl = \"x\""),
    ("C102", "group_by", "gruop_by", "34:1", "group_by"),
    ("C102", "SK = \"PROFILE\"", "SK = \"PROFILE\", XK = \"a\"", "29:53", "SK = \"PROFILE\""),
    ("C102", "names = ", "nmaes = ", "56:1", "names = "),
    ("C103", "of = \"Order\"\ngroup_by", "group_by", "32:12", "of = \"Order\"\ngroup_by"),
    ("C103", ", SK = \"PROFILE\"", "", "29:1", ", SK = \"PROFILE\""),
    ("C103", "version = 1\n", "", "1:1", "version = 1\n"),
    ("C104", "name = \"shop\"\nzone", "name = 7\nzone", "2:8", "name = \"seven\"\nzone"),
    ("C104", "required = true }\n\n[agg", "required = \"yes\" }\n\n[agg", "30:31", "required = false }\n\n[agg"),
    ("C105", "{ type = \"SS\" }", "{ type = \"Set\" }", "25:27", "{ type = \"NS\" }"),
    ("C105", "format = \"date\"", "format = \"day\"", "24:28", "format = \"timestamp\""),
    ("C105", "A303 = ", "C303 = ", "53:1", "K103 = "),
    ("C105", "A303 = ", "A399 = ", "53:1", "S403 = "),
    ("C105", "attribute.Name = {", "severity.A399 = \"info\"\nattribute.Name = {", "30:10", "severity.A301 = \"info\"\nattribute.Name = {"),
    ("C105", "attribute.Name = {", "severity.K102 = \"info\"\nattribute.Name = {", "30:10", "severity.K101 = \"info\"\nattribute.Name = {"),
    ("C105", "attribute.Name = {", "severity.A301 = \"low\"\nattribute.Name = {", "30:17", "severity.A301 = \"error\"\nattribute.Name = {"),
    ("C105", "format = \"date\"", "format = \"timestamp-utc.10\"", "24:28", "format = \"timestamp-utc.9\""),
    ("C106", "Europe/Berlin", "Europe/Berln", "3:8", "UTC"),
    ("C107", "version = 1", "version = 2", "1:11", "version = 0x1"),
    ("C108", "[aggregate.orders]", "[aggregate.\"all orders\"]", "32:12", "[aggregate.all-orders]"),
    ("C108", "name = \"shop\"\npart", "name = \"s\"\npart", "9:8", "name = \"shop.v2\"\npart"),
    ("C108", "attribute.Note", "attribute.\"\"", "26:11", "attribute.\"The note\""),
    ("C109", "tombstone_days = 14", "tombstone_days = -1", "6:18", "tombstone_days = 0"),
    ("C109", "[\"GSI1PK\"]", "[]", "15:13", "[\"GSI1PK\", \"GSI1PK2\"]"),
    ("C109", "max = 9999", "max = 123456789012345678901234567890123456789", "23:66", "max = 999.5"),
    ("C109", "min = 0, max = 9999", "min = 3, max = 2", "23:57", "min = 2, max = 2"),
    ("C109", "State = [\"Open\", \"Away\"]", "State = []", "41:18", "State = [\"Open\"]"),
    ("C110", "\"Closed\", \"Away\"]", "\"Open\", \"Away\"]", "22:56", "\"Closed\", \"Open \", \"Away\"]"),
    ("C110", "[\"DueDate\"]", "[\"Note\"]", "24:63", "[\"Notes\"]"),
    ("C110", "none = [\"N/A\"]", "one_of = [\"N/A\"], none = [\"N/A\"]", "24:46", "one_of = [\"x\"], none = [\"N/A\"]"),
    ("C110", "sort_key = \"SK\"", "sort_key = \"PK\"", "11:12", "sort_key = \"SK\""),
    ("C110", "sum = [\"Amount\"]", "sum = [\"Amount\", \"Amount\"]", "36:18", "sum = [\"Amount\"]\nsum_squares = [\"Amount\"]"),
    ("C110", "[\"shop\"]", "[\"a/shop.toml\", \"b/shop.toml\"]", "56:25", "[\"shop\", \"b/other.toml\"]"),
    ("C111", "\"STATS#{customer}\"", "\"STATS#{customer\"", "37:21", "\"STATS#{customer}{{}}\""),
    ("C111", "\"AMOUNT#{Amount:04}#{order}\"", "\"AMOUNT#{Amount:4}#{order}\"", "42:38", "\"AMOUNT#{Amount:05}#{order}\""),
    ("C111", "\"AMOUNT#{Amount:04}#{order}\"", "\"AMOUNT#{order:timestamp}\"", "42:38", "\"AMOUNT#{order:timestamp-utc.3}\""),
    ("C112", "delimiter = \"#\"", "delimiter = \"\"", "4:13", "delimiter = \"#\" # one"),
    ("C112", "prefix = \"KEEPER\"", "prefix = \"K#\"", "5:10", "prefix = \"K\""),
    ("C113", "[aggregate.orders]", "[aggregate.findings]", "32:12", "[aggregate.finding]"),
    ("C113", "count_by = \"State\"", "count_by = \"State\"\nbuckets = [\"Open\", \"Other\"]", "36:20", "count_by = \"State\"\nbuckets = [\"Open\"]"),
    ("C113", "key = { PK = \"CUSTOMER#", "key = { PK = \"KEEPER#", "29:14", "key = { PK = \"KEEPERS#"),
    ("C113", "ttl = \"ttl\"", "ttl = \"_keeper\"", "12:7", "ttl = \"keeper\""),
    ("C120", "of = \"Order\"\ndate", "of = \"Ordre\"\ndate", "46:6", "of = \"Order\"\ndate"),
    ("C121", "index.GSI1 = ", "index.GSI2 = ", "21:7", "index.GSI1 = "),
    ("C122", "copy = [\"State\"]", "copy = [\"Stat\"]", "43:9", "copy = [\"Note\", \"customer\"]"),
    ("C122", "group_by = [\"customer\"]", "group_by = [\"client\"]", "34:13", "group_by = [\"customer\"]"),
    ("C122", "when = { State = [", "when = { Stat = [", "41:10", "when = { customer = \"c1\", State = ["),
    ("C123", "owner = \"{customer}\"", "owner = \"{client}\"", "50:9", "owner = \"{Note}\""),
    ("C124", "SK = \"ORDERS\" }", "SK = \"ORDERS#{State}\" }", "37:47", "SK = \"ORDERS#\" }"),
    ("C125", "group_by = [\"customer\"]", "group_by = [\"customer\", \"State\"]", "34:25", "group_by = [\"customer\"]"),
    ("C126", "{ type = \"SS\" }", "{ type = \"N\", format = \"date\" }", "25:41", "{ type = \"N\", format = \"epoch-seconds\" }"),
    ("C126", "{ type = \"SS\" }", "{ type = \"S\", min = 3 }", "25:38", "{ type = \"N\", min = 3 }"),
    ("C126", "{ type = \"SS\" }", "{ type = \"N\", one_of = [1, \"x\"] }", "25:45", "{ type = \"N\", one_of = [1, 2.5] }"),
    ("C126", "count_by = \"State\"", "buckets = [\"Open\"]", "35:1", "count_by = \"State\""),
    ("C126", "[reports]", "[findings]\nkeys = \"hash\"\nvalues = \"show\"\n[reports]", "57:10", "[findings]\nkeys = \"hash\"\nvalues = \"redact\"\n[reports]"),
    ("C105", "[reports]", "[findings]\nvalues = \"hide\"\n[reports]", "56:10", "[findings]\nvalues = \"show\"\n[reports]"),
    ("C127", "sum = [\"Amount\"]", "sum = [\"Note\"]", "36:8", "sum = [\"Amount\"]"),
    ("C127", "SK = \"AMOUNT#{Amount:04}#", "SK = \"AMOUNT#{Note:ordinal}#", "42:37", "SK = \"AMOUNT#{State:ordinal}#"),
    ("C127", "SK = \"AMOUNT#{Amount:04}#", "SK = \"AMOUNT#{Tags}#", "42:37", "SK = \"AMOUNT#{Note}#"),
    ("C127", "SK = \"AMOUNT#{Amount:04}#", "SK = \"AMOUNT#{Note:04}#", "42:37", "SK = \"AMOUNT#{Note}#"),
    ("C127", "SK = \"AMOUNT#{Amount:04}#", "SK = \"AMOUNT#{Amount:date}#", "42:37", "SK = \"AMOUNT#{Note:date}#"),
    ("C130", "{ PK = \"CUSTOMER#{customer}\", SK = \"PROFILE\" }", "{ PK = \"ORDER#{c}\", SK = \"{x}#{c}\" }", "29:7", "{ PK = \"ORDER#{c}\", SK = \"{x}#{c}#\" }\nmatch = { Type = \"Customer\" }"),
    ("C130", "{ PK = \"CUSTOMER#{customer}\", SK = \"PROFILE\" }", "{ PK = \"ORD{c}\", SK = \"{d}\" }", "29:7", "{ PK = \"ORD#{c}\", SK = \"{d}\" }"),
    ("C131", "SK = \"PROFILE\"", "SK = \"PROFILE#{Zip}\" }\nattribute.Zip = { required = false", "29:51", "SK = \"PROFILE#{Zip}\" }\nattribute.Zip = { required = true"),
    ("C132", "SK = \"PROFILE\"", "SK = \"{a}{b}\"", "29:46", "SK = \"{a}#{b}\""),
    ("C133", "match = { Type = \"Order\" }", "match = { State = \"Opne\" }", "19:19", "match = { State = \"Open\" }"),
    ("C134", "GSI1N = \"{Amount}\"", "GSI1N = \"A#{Amount}\"", "21:56", "GSI1N = \"{Amount}\""),
    ("C134", "attribute.Note = \"S\"", "attribute.GSI1PK = \"N\"", "26:11", "attribute.GSI1PK = \"S\""),
    ("C134", "[entity.Order]", "[table.index.GSI2]\npartition = [\"GSI1N\"]\n\n[entity.Order]", "19:14", "[table.index.GSI2]\npartition = [{ name = \"GSI1N\", type = \"N\" }]\n\n[entity.Order]"),
    ("C135", "min = 0, max = 9999", "min = -1, max = 9999", "42:37", "min = 0.5, max = 9999"),
    ("C135", "min = 0, max = 9999", "min = 0, max = 10000", "42:37", "min = 0, max = 9999.9"),
    ("C136", "min = 0, max = 9999", "max = 9999", "42:37", "min = 1"),
    ("C140", "{Amount:04}#{order}", "{Amount}#{order}", "42:37", "{Amount:04}#{order}"),
    ("C141", "{Amount:04}#{order}", "{order}#{Amount}", "42:45", "{order}#{Amount:06}"),
    ("C142", "AMOUNT#{Amount:04}#{order}", "STATE#{State}#{order}", "42:36", "STATE#{State:ordinal}#{State}#{order}"),
    ("C143", "AMOUNT#{Amount:04}#{order}", "AMOUNT#{Amount:04}", "42:7", "AMOUNT#{order}#{Amount:04}"),
    ("C143", "AMOUNT#{Amount:04}#{order}", "AMOUNT#{order:lower}", "42:7", "AMOUNT#{order}"),
    ("C144", "PK = \"STATS#{customer}\"", "PK = \"CUSTOMER#{customer}\"", "37:14", "PK = \"CUSTOMERS#{customer}\""),
    ("C144", "PK = \"STATS#{customer}\", SK = \"ORDERS\" }", "PK = \"CUSTOMER#{customer}\", SK = \"ORDERS\" }", "37:14", "PK = \"CUSTOMER#{customer}\", SK = \"ORDERS\" }\nallow_in_source_partition = true"),
    ("C145", "PK = \"ORDERS\", SK = \"AMOUNT#{Amount:04}#{order}\"", "PK = \"STATS#{order}\", SK = \"{State:lower}\"", "42:7", "PK = \"STATS#{order}\", SK = \"{State:lower}#\""),
    ("C146", "partition_key = \"PK\"", "partition_key = { name = \"PK\", type = \"N\" }", "10:17", "partition_key = { name = \"PK\", type = \"S\" }"),
    ("C148", "count_by = \"State\"", "count_by = \"Note\"", "35:12", "count_by = \"Note\"\nbuckets = [\"x\"]"),
    ("C149", "sort = [{ name = \"GSI1N\", type = \"N\" }]", "sort = [{ name = \"GSI1N\", type = \"N\" }, \"Total\"]", "16:41", "sort = [{ name = \"GSI1N\", type = \"N\" }, \"UpdatedAt\"]"),
    ("C149", "[entity.Order]", "[table.index.ByDue]\npartition = [\"Due\"]\n\n[entity.Order]", "19:14", "[table.index.ByDue]\npartition = [\"DueDay\"]\n\n[entity.Order]"),
    ("C149", "sort_key = \"SK\"", "sort_key = \"Total\"", "11:12", "sort_key = \"SK\""),
    ("C150", "[7, 1, 0]", "[7, 14, 0]", "48:17", "[14, 7, 0]"),
    ("C150", "[7, 1, 0]", "[7, 7, 0]", "48:17", "[7, 0]"),
    ("C151", "date = \"Due\"", "date = \"Note\"", "47:8", "date = \"Due\""),
    ("C152", "State = [\"Open\", \"Away\"]", "State = [\"Open\", \"Gone\"]", "41:27", "State = [\"Open\", \"Closed\"]"),
    ("C152", "when = { State = \"Open\" }", "when = { Due = \"N/A\" }", "21:83", "when = { Due = \"2026-01-01\" }"),
];

#[test]
fn the_base_has_no_fault() {
    let found = faults(BASE);
    assert!(found.is_empty(), "{}", shown(&found));
}

#[test]
fn each_case_breaks_its_rule_at_its_place_and_its_neighbour_does_not() {
    let mut wrong = String::new();
    for (code, text, bad, place, good) in CASES {
        assert!(BASE.contains(text), "{code}: the base has no {text:?}");
        let found = faults(&BASE.replacen(text, bad, 1));
        let hit = found.iter().any(|fault| fault.code == *code && fault.position.to_string() == *place);
        if !hit {
            wrong += &format!("{code}: {bad:?} at {place}, found:\n{}", shown(&found));
        }
        let found = faults(&BASE.replacen(text, good, 1));
        if found.iter().any(|fault| fault.code == *code) {
            wrong += &format!("{code}: {good:?} should be fine, found:\n{}", shown(&found));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Rules whose cases are too long for the table, with the tests that hold them.
const OTHER_CASES: [(&str, fn()); 2] = [
    ("C147", one_entity_has_so_many_derived_things_and_no_more),
    ("C153", a_table_with_number_keys_can_be_audited_only),
];

#[test]
fn every_rule_has_a_case_and_a_unique_code_and_name() {
    for (i, rule) in RULES.iter().enumerate() {
        let elsewhere = OTHER_CASES.iter().any(|(code, _)| *code == rule.code);
        let mut cases = CASES.iter().map(|(code, ..)| code).chain(references::CASES.iter().map(|(code, ..)| code));
        let has_case = elsewhere || cases.any(|code| *code == rule.code);
        assert!(has_case, "{} `{}` has no case", rule.code, rule.name);
        assert!(RULES[..i].iter().all(|other| other.code < rule.code && other.name != rule.name), "{}", rule.code);
        assert!(rule.doc.len() > 60, "{} is not documented", rule.code);
    }
}

#[test]
fn one_entity_has_so_many_derived_things_and_no_more() {
    let aggregates = |n: usize| -> String {
        (0..n).map(|i| format!("[aggregate.a{i}]\nof = \"Customer\"\nkey = {{ PK = \"A\", SK = \"{i}\" }}\n")).collect()
    };
    let listings = |n: usize| -> String {
        (0..n)
            .map(|i| format!("[listing.l{i}]\nof = \"Customer\"\nkey = {{ PK = \"L\", SK = \"{i}#{{customer}}\" }}\n"))
            .collect()
    };
    let codes = |extra: String| faults(&format!("{BASE}{extra}")).iter().map(|fault| fault.code).collect::<Vec<_>>();
    assert!(codes(aggregates(12) + &listings(12)).is_empty());
    assert_eq!(codes(aggregates(13)), ["C147"]);
    assert_eq!(codes(aggregates(12) + &listings(13)), ["C147"]);
}

#[test]
fn a_table_has_so_many_indexes_and_no_more() {
    // Beside the one that the model has.
    let with = |more: usize| {
        let more: String =
            (2..2 + more).map(|n| format!("[table.index.GSI{n}]\npartition = [\"GSI{n}PK\"]\n\n")).collect();
        faults(&BASE.replacen("[entity.Order]", &format!("{more}[entity.Order]"), 1))
    };
    assert!(with(19).is_empty(), "{}", shown(&with(19)));
    for more in [20, 24] {
        let found = with(more);
        // Each index takes three lines from line 18 on; the name begins in column 14.
        let places: Vec<String> = found.iter().map(|fault| format!("{} {}", fault.code, fault.position)).collect();
        assert_eq!(places, ["C109 75:14"], "{}", shown(&found));
        assert!(found[0].message.contains(&format!("{} indexes, `GSI21`", more + 1)), "{}", found[0].message);
        assert!(found[0].remedy.contains("gives a table 20"), "{}", found[0].remedy);
    }
}

#[test]
fn the_state_tables_name_is_made_of_a_name_that_leaves_room() {
    let named = |size: usize| {
        BASE.replacen("[table]\nname = \"shop\"", &format!("[table]\nname = \"{}\"", "x".repeat(size)), 1)
    };
    assert!(faults(&named(255 - "-keeper".len())).is_empty());
    let long = named(255 - "-keeper".len() + 1);
    let found = faults(&long);
    assert_eq!(found.len(), 1, "{}", shown(&found));
    assert!(found[0].remedy.contains("shorter `state_table`"), "{}", found[0].remedy);
    assert!(faults(&long.replacen("[table]\n", "[table]\nstate_table = \"kept\"\n", 1)).is_empty());
}

#[test]
fn a_table_with_number_keys_can_be_audited_only() {
    let table = |keys: &str| {
        let key = if keys.contains("sort_key") {
            "key = { id = \"{id}\", at = \"{at}\" }"
        } else {
            "key = { id = \"{id}\" }"
        };
        format!("version = 1\n[table]\nname = \"events\"\n{keys}\n[entity.Event]\n{key}\n")
    };
    let number = table("partition_key = \"id\"\nsort_key = { name = \"at\", type = \"N\" }");
    let found = faults(&number);
    let places: Vec<String> = found.iter().map(|fault| format!("{} {}", fault.code, fault.position)).collect();
    assert_eq!(places, ["C153 5:12"], "{}", shown(&found));
    let text = table("partition_key = \"id\"");
    assert!(faults(&text).is_empty(), "{}", shown(&faults(&text)));
    let counted = number + "[aggregate.events]\nof = \"Event\"\nkey = { id = \"EVENTS\", at = \"1\" }\n";
    assert!(faults(&counted).iter().any(|fault| fault.code == "C146"), "{}", shown(&faults(&counted)));
}

#[test]
fn a_template_longer_than_any_key_is_refused() {
    let with =
        |length: usize| faults(&BASE.replacen("SK = \"PROFILE\"", &format!("SK = \"{}\"", "P".repeat(length)), 1));
    assert!(with(2048).is_empty());
    let found = with(2049);
    assert_eq!((found.len(), found[0].code, found[0].position.to_string().as_str()), (1, "C111", "29:42"));
}

#[test]
fn ten_faults_come_at_once_in_the_order_of_their_places() {
    let source = [
        ("zone = \"Europe/Berlin\"", "zone = \"Mars\""),
        ("tombstone_days", "tombstones"),
        ("name = \"shop\"\npart", "name = \"s\"\npart"),
        ("match = { Type = \"Order\" }", "match = 5"),
        ("min = 0, max = 9999", "min = 9, max = 8"),
        ("format = \"date\"", "format = \"dat\""),
        ("SK = \"PROFILE\"", "SK = \"{a}{b}\""),
        ("sum = [\"Amount\"]", "sum = [\"Amuont\"]"),
        ("copy = [\"State\"]", "copy = [\"Stat\"]"),
        ("[7, 1, 0]", "[7, 7, 0]"),
    ]
    .iter()
    .fold(BASE.to_owned(), |source, (text, bad)| source.replacen(text, bad, 1));
    let found = faults(&source);
    let codes: Vec<&str> = found.iter().map(|fault| fault.code).collect();
    let expected = ["C106", "C102", "C108", "C104", "C109", "C105", "C132", "C122", "C122", "C150"];
    assert_eq!(codes, expected, "{}", shown(&found));
}

#[test]
fn a_part_that_cannot_be_read_is_reported_once() {
    for (text, bad, code) in [
        (
            "key = { PK = \"ORDER#{order}\", SK = \"ORDER#{order}\" }",
            "key = { PK = \"ORDER#{order\", SK = \"ORDER#{order}\" }",
            "C111",
        ),
        ("partition_key = \"PK\"", "partition_key = 1", "C104"),
        ("{ type = \"N\", required", "{ type = \"Number\", required", "C105"),
        ("of = \"Order\"\ngroup_by", "group_by", "C103"),
        (
            "[table.index.GSI1]\npartition = [\"GSI1PK\"]\nsort = [{ name = \"GSI1N\", type = \"N\" }]",
            "[table.index]\nGSI1 = 1",
            "C104",
        ),
    ] {
        assert!(BASE.contains(text), "{text}");
        let found = faults(&BASE.replacen(text, bad, 1));
        let codes: Vec<&str> = found.iter().map(|fault| fault.code).collect();
        assert_eq!(codes, [code], "{bad}:\n{}", shown(&found));
    }
}

#[test]
fn misspellings_are_answered_with_the_word_that_was_meant() {
    for (text, bad, meant) in [
        ("count_by", "countby", "did you mean `count_by`?"),
        ("of = \"Order\"\ndate", "of = \"Oder\"\ndate", "did you mean `Order`?"),
        ("Europe/Berlin", "Europa/Berlin", "did you mean `Europe/Berlin`?"),
        ("State = \"Open\"", "State = \"open\"", "did you mean `Open`?"),
        ("\"{customer}\"", "\"{costumer}\"", "did you mean `customer`?"),
    ] {
        let found = faults(&BASE.replacen(text, bad, 1));
        assert!(found.iter().any(|fault| fault.remedy == meant), "{bad}:\n{}", shown(&found));
    }
}
