//! What a step changed among the derived items, and the tables at the end.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::Cell;
use tablekeeper::engine::ports::{Clock, Store, StoreError};
use tablekeeper::engine::scan::Pages;
use tablekeeper::model::key::{KeyNames, TableKey};
use tablekeeper::model::value::{Item, MARKER, Value};
use tablekeeper::plan::write::TableRef;

use super::super::output::{BAD, DIM, GOOD, Grid, WARN, count, line, paint};

/// Most listing entries that one step shows by their keys.
const ENTRIES_SHOWN_MAX: usize = 2;

/// The derived items of the table by key.
pub type Snapshot = BTreeMap<TableKey, Item>;

pub async fn snapshot<S: Store, C: Clock>(store: &S, clock: &C, names: &KeyNames) -> Result<Snapshot, StoreError> {
    let mut snapshot = Snapshot::new();
    let mut pages = Pages::new(TableRef::Source, (0, 1));
    while let Some(items) = pages.next(store, clock).await? {
        for item in items.into_iter().filter(Item::is_ours) {
            if let Some(key) = TableKey::of(&item, names) {
                snapshot.insert(key, item);
            }
        }
    }
    Ok(snapshot)
}

/// The kind and name of a derived item.
pub fn marker(item: &Item) -> (&str, &str) {
    item.text(MARKER).and_then(|marker| marker.split_once('/')).unwrap_or(("", ""))
}

/// Prints what is different: aggregates with old and new counts, rows that came and went, findings.
pub fn print_changes(before: &Snapshot, after: &Snapshot) {
    let keys: BTreeSet<&TableKey> = before.keys().chain(after.keys()).collect();
    let mut changes = 0;
    let mut entries = Vec::new();
    for key in keys {
        let (old, new) = (before.get(key), after.get(key));
        let Some(item) = new.or(old) else { continue };
        let text = match marker(item) {
            // The totals of findings go with the findings, which are shown themselves.
            ("aggregate", "findings") => None,
            ("aggregate", _) => measure_changes(old, new).map(|text| format!("{key}  {}", paint(GOOD, text))),
            ("finding", code) => row_change(old, new).map(|_| {
                let message = item.text("Message").unwrap_or_default();
                match new {
                    Some(_) => format!("{} {message}", paint(BAD, format!("finding {code}"))),
                    None => format!("{} {message}", paint(GOOD, format!("finding {code} is gone:"))),
                }
            }),
            ("expiry", name) => row_change(old, new).map(|sign| {
                let text = |attribute| item.text(attribute).unwrap_or("-");
                format!("{} {name} of {} on {}", paint(WARN, format!("{sign} expiry")), text("Subject"), text("Date"))
            }),
            _ => {
                entries.extend(row_change(old, new).map(|sign| format!("{sign} {key}")));
                None
            }
        };
        if let Some(text) = text {
            changes += 1;
            line(format_args!("       {text}"));
        }
    }
    // One change of an item moves its entries in every listing: two of them show what kind of thing that is.
    for entry in entries.iter().take(ENTRIES_SHOWN_MAX) {
        line(format_args!("       {}", paint(DIM, entry)));
    }
    if entries.len() > ENTRIES_SHOWN_MAX {
        let more = count(entries.len() - ENTRIES_SHOWN_MAX, "more listing entry").replace("entrys", "entries");
        line(format_args!("       {}", paint(DIM, format!("and {more}"))));
    }
    if changes + entries.len() == 0 {
        line(format_args!("       {}", paint(DIM, "nothing derived changes")));
    }
}

fn row_change(old: Option<&Item>, new: Option<&Item>) -> Option<&'static str> {
    match (old, new) {
        (None, Some(_)) => Some("+"),
        (Some(_), None) => Some("-"),
        (Some(old), Some(new)) if old != new => Some("~"),
        _ => None,
    }
}

/// `Pending 1 > 0  InProgress 1 > 2`, or `None` where no number differs.
fn measure_changes(old: Option<&Item>, new: Option<&Item>) -> Option<String> {
    let none = Item::new();
    let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
    let number = |item: &Item, name: &str| item.number(name).map_or_else(|| "0".to_owned(), ToString::to_string);
    let changes: Vec<String> = new
        .0
        .iter()
        .filter(|(_, value)| matches!(value, Value::N(_)))
        .filter_map(|(name, _)| {
            let (from, to) = (number(old, name), number(new, name));
            (from != to).then(|| format!("{} {from} → {to}", name.trim_start_matches("Count_")))
        })
        .collect();
    (!changes.is_empty()).then(|| changes.join("  "))
}

/// The aggregate items as they are stored.
pub fn print_aggregates(snapshot: &Snapshot) {
    let mut grid = Grid::new(&["Aggregate item", "Total", "Measures"]).right(&[1]);
    for (key, item) in snapshot.iter().filter(|(_, item)| marker(item).0 == "aggregate") {
        let measures: Vec<String> = item
            .0
            .iter()
            .filter(|(name, _)| *name != "Total")
            .filter_map(|(name, value)| Some(format!("{} {}", name.trim_start_matches("Count_"), value.as_number()?)))
            .collect();
        let total = item.number("Total").map(ToString::to_string).unwrap_or_default();
        grid.row([Cell::new(key.to_string()), Cell::new(total), Cell::new(measures.join("  "))]);
    }
    grid.print();
}

/// The finding items as they are stored.
pub fn print_findings(snapshot: &Snapshot, names: &KeyNames) {
    let mut grid = Grid::new(&["Code", "Severity", "Item", "What and what to do"]);
    for item in snapshot.values().filter(|item| marker(item).0 == "finding") {
        let text = |name: &str| item.text(name).unwrap_or("-").to_owned();
        let source = match item.get("Source") {
            Some(Value::M(map)) => TableKey::of(&Item(map.clone()), names).map(|key| key.to_string()),
            Some(Value::S(digest)) => Some(digest.to_string()),
            _ => None,
        };
        let source = source.unwrap_or_else(|| "-".to_owned());
        grid.row([marker(item).1.to_owned(), text("Severity"), source, text("Message")]);
    }
    grid.print();
}
