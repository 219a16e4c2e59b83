//! Rows as spreadsheets write them, and those that are no item.

use super::*;
use crate::adapters::files::Held;
use crate::model::value::Bytes;

fn open(text: impl Into<Vec<u8>>) -> Result<Entries, SourceError> {
    entries(&"t.csv".into(), Box::new(io::Cursor::new(text.into())))
}

fn read(text: impl Into<Vec<u8>>) -> Vec<Result<Item, String>> {
    let decode = |entry: Entry| match entry.content.and_then(Content::decode) {
        Ok(Held::Item(item)) => Ok(item),
        Ok(Held::Deletion) => Err("no row is one".to_owned()),
        Err(fault) => Err(format!("{}: {fault}", entry.place)),
    };
    open(text).unwrap().map(decode).collect()
}

#[test]
fn types_stand_in_the_header_and_an_empty_cell_is_absent() {
    let text = "\u{feff}PK,Age:N,Data:B,Live:BOOL,Tags:SS,Place:M,a:b,Note\r\n\
        U#1,12345678901234567890.50,AQI=,TRUE,\"[\"\"a\"\",\"\"b\"\"]\",\"{\"\"Zip\"\":{\"\"S\"\":\"\"1\"\"}}\",c,\"two\nlines, \"\"quoted\"\"\"\r\n\
        U#2,,,,,,,\r\n";
    let rows = read(text);
    let first = rows[0].as_ref().unwrap();
    assert_eq!(first.number("Age").unwrap().to_string(), "12345678901234567890.5");
    assert_eq!(first.get("Data"), Some(&Value::B(Bytes(vec![1, 2]))));
    assert_eq!(first.get("Live"), Some(&Value::Bool(true)));
    assert!(matches!(first.get("Tags"), Some(Value::Ss(set)) if set.len() == 2));
    assert!(matches!(first.get("Place"), Some(Value::M(map)) if map["Zip"].as_text() == Some("1")));
    assert_eq!((first.text("a:b"), first.text("Note")), (Some("c"), Some("two\nlines, \"quoted\"")));
    assert_eq!(rows[1], Ok(Item::new().with("PK", Value::text("U#2"))));
}

#[test]
fn a_row_that_is_no_item_is_a_fault_with_its_line_and_the_next_is_read() {
    let rows = read("PK,Age:N,Tags:SS\na,x,\nb,1\nc,,oops\nd,1,\n");
    let faults: Vec<&String> = rows.iter().filter_map(|row| row.as_ref().err()).collect();
    assert_eq!(rows.len(), 4);
    assert!(faults[0].starts_with("t.csv: line 2: attribute `Age`"), "{}", faults[0]);
    assert!(faults[1].starts_with("t.csv: line 3: 2 cells where the header has 3"), "{}", faults[1]);
    assert!(faults[2].starts_with("t.csv: line 4: ") && faults[2].contains("oops"), "{}", faults[2]);
    assert_eq!(rows[3].as_ref().unwrap().text("PK"), Some("d"));
    let latin1 = read(&b"PK\ncaf\xe9\nb\n"[..]);
    assert!(latin1[0].as_ref().unwrap_err().contains("not UTF-8") && latin1[1].is_ok(), "{latin1:?}");
}

#[test]
fn a_header_that_names_nothing_or_one_thing_twice_is_refused() {
    let refused = |text: &str| open(text).err().unwrap().to_string();
    assert!(refused("PK,Age,Age:N\n").contains("`Age` stands twice"));
    assert!(refused("PK,,x\n").contains("a column has no name"));
    assert!(read("").is_empty() && read("PK\n").is_empty());
}

#[test]
fn a_quote_that_is_never_closed_costs_no_memory() {
    let text = format!("PK\na\n\"{}", "x,\n".repeat(LINE_SIZE_MAX / 2));
    let rows = read(text);
    assert!(rows[0].is_ok() && rows.len() == 2, "{}", rows.len());
    assert!(rows[1].as_ref().unwrap_err().contains("line 3: the row goes on for more than"), "{:?}", rows[1]);
}

#[test]
fn a_quote_that_is_never_closed_is_a_fault_however_few_rows_it_swallows() {
    let rows = read("PK,Email\na,\"open\nb,x\nc,x\n");
    let faults: Vec<&String> = rows.iter().filter_map(|row| row.as_ref().err()).collect();
    assert!(faults.len() == 1 && faults[0].starts_with("t.csv: line 2: a quote is not closed"), "{rows:?}");
    assert!(read("PK,Email\na,\"clo\"\"sed\"\n").iter().all(Result::is_ok));
}
