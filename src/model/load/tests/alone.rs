//! One fault neither hides another nor makes one up.

use super::cases::BASE;
use super::{faults, shown};

/// Texts of the base with what takes their places, and the codes that are told then, in the order of the file.
type Case = (&'static [(&'static str, &'static str)], &'static [&'static str]);

const UNKNOWN_OWNER: (&str, &str) = ("owner = \"{customer}\"", "owner = \"{client}\"");
const OWNER_BY_INDEX: (&str, &str) = ("owner = \"{customer}\"", "owner = \"{customer}{{}}\"");

#[rustfmt::skip]
const CASES: &[Case] = &[
    // An unknown variable shows beside whatever else the entity has.
    (&[UNKNOWN_OWNER], &["C123"]),
    (&[UNKNOWN_OWNER, ("index.GSI1 = ", "index.GSI2 = ")], &["C121", "C123"]),
    (&[UNKNOWN_OWNER, ("\"CUSTOMER#{customer}\", GSI1N", "\"CUSTOMER#{customer\", GSI1N")], &["C111", "C123"]),
    (&[UNKNOWN_OWNER, ("PK = \"ORDER#{order}\"", "PK = \"ORDER#{order\"")], &["C111", "C123"]),
    (&[UNKNOWN_OWNER, ("sort_key = \"SK\"", "sort_key = 7")], &["C104", "C123"]),
    (&[UNKNOWN_OWNER, ("State = { required", "State = { requird")], &["C102", "C123"]),
    // A variable that only the faulty part names is known by it.
    (&[OWNER_BY_INDEX, ("index.GSI1 = ", "index.GSI2 = ")], &["C121"]),
    (&[OWNER_BY_INDEX, ("\"CUSTOMER#{customer}\", GSI1N", "\"CUSTOMER#{customer}{\", GSI1N")], &["C111"]),
    (&[("PK = \"ORDER#{order}\"", "PK = \"ORDER#{order}{\"")], &["C111"]),
    // A template that is not there might have named anything.
    (&[("PK = \"ORDER#{order}\", SK = \"ORDER#{order}\"", "PK = \"ORDER#x\""), UNKNOWN_OWNER], &["C103"]),
    (&[("GSI1PK = \"CUSTOMER#{customer}\", ", "")], &["C103"]),
    (&[("key = { PK = \"ORDER#{order}\", SK = \"ORDER#{order}\" }\n", "")], &["C103"]),
    // What a value of the wrong type would have said is not known.
    (&[("group_by = [\"customer\"]", "group_by = 7")], &["C104"]),
    (&[("group_by = [\"customer\"]", "group_by = [7]")], &["C104"]),
    (&[("count_by = \"State\"", "count_by = 7\nbuckets = [\"Open\"]")], &["C104"]),
    (&[("required = true, one_of = [\"Open\", \"Closed\", \"Away\"]", "required = true, one_of = { a = 1 }")], &["C104"]),
    (&[("\"Closed\", \"Away\"]", "\"Closed\", [\"Away\"]]")], &["C104"]),
    (&[("AMOUNT#{Amount:04}#", "AMOUNT#{State:ordinal}#"), ("one_of = [\"Open\", \"Closed\", \"Away\"]", "one_of = { a = 1 }")], &["C104"]),
    (&[("min = 0", "min = \"0\"")], &["C104"]),
    (&[("match = { Type = \"Order\" }\nkey = { PK = \"ORDER#{order}\", SK = \"ORDER#{order}\" }", "match = \"Order\"\nkey = { PK = \"CUSTOMER#{order}\", SK = \"PROFILE\" }")], &["C104"]),
    (&[("key = { PK = \"STATS#{customer}\"", "allow_in_source_partition = \"yes\"\nkey = { PK = \"CUSTOMER#{customer}\"")], &["C104"]),
    (&[("prefix = \"KEEPER\"", "prefix = 7"), ("PK = \"CUSTOMER#{customer}\", SK", "PK = \"KEEPER#{customer}\", SK")], &["C104"]),
    (&[("name = \"shop\"\nzone", "name = \"shop\"\nversion_ = 1\nzone"), UNKNOWN_OWNER], &["C102", "C123"]),
    (&[("attribute.Name = { required = true }", "attribute = 7\n[aggregate.names]\nof = \"Customer\"\ngroup_by = [\"Name\"]\nkey = { PK = \"N#{Name}\", SK = \"x\" }")], &["C104"]),
];

#[test]
fn a_fault_neither_hides_nor_makes_up_another() {
    for (changes, expected) in CASES {
        let source = changes.iter().fold(BASE.to_owned(), |source, (old, new)| {
            assert_eq!(source.matches(old).count(), 1, "`{old}` stands once in the base");
            source.replace(old, new)
        });
        let found = faults(&source);
        let codes: Vec<&str> = found.iter().map(|fault| fault.code).collect();
        assert_eq!(&codes, expected, "{changes:?}\n{}", shown(&found));
    }
}
