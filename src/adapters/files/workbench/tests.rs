//! Models with one table and with several, and what is mistaken for one.

use super::*;
use crate::adapters::files::Held;

const MODEL: &str = r#"{
  "ModelName": "Shop", "ModelMetadata": {"Author": "", "Version": "3.0"},
  "DataModel": [
    {"TableName": "Shop", "KeyAttributes": {"PartitionKey": {"AttributeName": "PK", "AttributeType": "S"}},
     "TableData": [{"PK": {"S": "a"}, "Price": {"N": "1.50"}}, {"PK": {"S": "b"}, "Price": {"N": 2}}]},
    {"TableName": "Bare", "KeyAttributes": {}}
  ]
}"#;

fn read(text: &str, table: &str) -> Result<Vec<Result<Held, String>>, String> {
    let entries = entries(&"m.json".into(), Box::new(std::io::Cursor::new(text.to_owned())), table);
    let decode =
        |entry: Entry| entry.content.and_then(Content::decode).map_err(|why| format!("{}: {why}", entry.place));
    entries.map(|entries| entries.map(decode).collect()).map_err(|error| error.to_string())
}

#[test]
fn the_table_of_the_name_is_read_and_a_malformed_item_is_a_fault() {
    let items = read(MODEL, "Shop").unwrap();
    assert!(matches!(&items[0], Ok(Held::Item(item)) if item.number("Price").unwrap().to_string() == "1.5"));
    assert!(items[1].as_ref().unwrap_err().starts_with("m.json: line 2: attribute `Price`"), "{items:?}");
    assert_eq!(read(MODEL, "Bare"), Ok(Vec::new()));
    let none = read(MODEL, "other").unwrap_err();
    assert!(none.contains("has `Shop`, `Bare`, and none is `other`"), "{none}");
    let one = r#"{"DataModel":[{"TableName":"X","TableData":[{"PK":{"S":"a"}}]}]}"#;
    assert_eq!(read(one, "other").unwrap().len(), 1);
    assert!(read("{\"DataModel\": 1}", "x").unwrap_err().contains("no model of NoSQL Workbench"));
}

#[test]
fn a_model_is_told_from_items() {
    for model in [MODEL, "\u{feff}{\n\"DataModel\":[", "{\"ModelName\":\"x\",\"DataModel\":[]}"] {
        assert!(begins_so(model), "{model}");
    }
    for items in ["", "[", "{\"PK\":\"a\"}\n", "{\"ModelName\":\"x\",\"PK\":\"a\"}\n{\"PK\":\"b\"}\n", "{\"Item\":{}}"]
    {
        assert!(!begins_so(items), "{items}");
    }
}
