//! Models of AWS's NoSQL Workbench: `DataModel[]` holds tables, and each table's `TableData` its items in DynamoDB JSON.
//!
//! Such files are drawn by hand and read whole, up to [`MODEL_SIZE_MAX`]. An item's number in `TableData`, counted from 1, stands for its
//! line.

use std::io::Read as _;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::decode;
use super::lines::{Input, read_failed, unpack};
use super::source::{Content, Entries, Entry, Place, SourceError};

#[cfg(test)]
mod tests;

/// Largest model that is read, in bytes.
pub const MODEL_SIZE_MAX: u64 = 64 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Model<'m> {
    #[serde(borrow)]
    data_model: Vec<Table<'m>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Table<'m> {
    table_name: String,
    #[serde(borrow, default)]
    table_data: Vec<&'m RawValue>,
}

/// True if a file that begins so is one: an object whose first member is a model's, and which is no plain item on a line.
pub fn begins_so(head: &str) -> bool {
    let first = head.trim_start_matches('\u{feff}').trim_start();
    let Some(members) = first.strip_prefix('{').map(str::trim_start) else { return false };
    let is_named = ["\"ModelName\"", "\"ModelMetadata\"", "\"DataModel\""].iter().any(|name| members.starts_with(name));
    let line = first.lines().next().unwrap_or_default();
    let is_item = line.trim_end().ends_with('}') && !line.contains("\"DataModel\"");
    is_named && !is_item
}

/// The items of the table of that name, or of the only one.
pub fn entries(file: &Arc<str>, input: Input, table: &str) -> Result<Entries, SourceError> {
    let unfit = |message: String| SourceError::Unfit(format!("{file}: {message}"));
    let unpacked = unpack(file, input)?;
    let mut text = String::new();
    let read = unpacked.input.take(MODEL_SIZE_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| unfit(read_failed(unpacked.gzip, &error)))?;
    if text.len() as u64 > MODEL_SIZE_MAX {
        return Err(unfit(format!("the model has more than {MODEL_SIZE_MAX} bytes; export its tables as JSON lines")));
    }
    let model: Model<'_> = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| unfit(format!("no model of NoSQL Workbench: {error}; export it from there again")))?;
    let chosen = match model.data_model.as_slice() {
        [only] => Some(only),
        several => several.iter().find(|one| one.table_name == table),
    };
    let Some(chosen) = chosen else {
        let names: Vec<String> = model.data_model.iter().map(|one| format!("`{}`", one.table_name)).collect();
        let there = if names.is_empty() { "no table".to_owned() } else { names.join(", ") };
        return Err(unfit(format!("the model has {there}, and none is `{table}`; name one with --table")));
    };
    let entry = |(at, item): (usize, &&RawValue)| Entry {
        place: Place { file: Arc::clone(file), line: at + 1 },
        content: decode::parse_typed_item(item.get()).map(Content::Item),
    };
    let all: Vec<Entry> = chosen.table_data.iter().enumerate().map(entry).collect();
    Ok(Box::new(all.into_iter()))
}
