//! One query after the other over the same frames, with errors that help.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use polars::prelude::{DataFrame, IntoLazy, PolarsResult};
use polars::sql::SQLContext;

use super::ReportError;
use super::column;
use super::frames;
use crate::report::dataset::Table;
use crate::report::input::ReportInput;
use crate::report::sql;

/// The frames of one report, ready for its queries.
pub struct Engine<'r> {
    /// The report's name, for errors.
    pub report: &'r str,
    as_of: chrono::NaiveDate,
    context: SQLContext,
    /// Frame names and their columns, for errors.
    schema: Vec<(String, Vec<String>)>,
}

impl<'r> Engine<'r> {
    pub fn new(report: &'r str, input: &ReportInput<'_>) -> Result<Engine<'r>, ReportError> {
        let context = SQLContext::new();
        let mut schema = Vec::new();
        for (name, frame) in frames::build(input)? {
            let columns = frame.columns().iter().map(|column| column.name().to_string()).collect();
            context.register(&name, frame.lazy());
            schema.push((name, columns));
        }
        Ok(Engine { report, as_of: input.as_of, context, schema })
    }

    /// Runs one query; its rows are in no order yet.
    pub fn query(&mut self, place: &str, query: &str) -> Result<Table, ReportError> {
        let bound = sql::bind(query, self.as_of);
        let context = &mut self.context;
        let reason = match guarded(|| -> PolarsResult<DataFrame> { context.execute(&bound)?.collect() }) {
            Ok(Ok(frame)) => return Ok(column::table(&frame)),
            Ok(Err(error)) => error.to_string(),
            Err(said) => format!("the query engine does not know this form ({said}); write it another way"),
        };
        Err(ReportError::Query {
            report: self.report.to_owned(),
            place: place.to_owned(),
            reason: reason.lines().next().unwrap_or_default().to_owned(),
            sql: query.trim().to_owned(),
            columns: self.columns_of(query),
        })
    }

    /// The columns of the frames that the query names; the names of all frames where it names none of them.
    fn columns_of(&self, query: &str) -> String {
        let words: Vec<&str> = query.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
        let named: Vec<String> = self
            .schema
            .iter()
            .filter(|(name, _)| words.contains(&name.as_str()))
            .map(|(name, columns)| format!("{name} ({})", columns.join(", ")))
            .collect();
        if named.is_empty() {
            let names: Vec<&str> = self.schema.iter().map(|(name, _)| name.as_str()).collect();
            return format!("the frames {}", names.join(", "));
        }
        named.join("; ")
    }
}

thread_local! {
    /// Set while this thread is in the query engine.
    static IN_QUERY: Cell<bool> = const { Cell::new(false) };
}

/// Runs `query` and turns a panic into its message. The engine panics on some texts that it does not know; a definition is input, so
/// that is an error like others, and nothing is printed of it. Panics of all other threads are reported as before.
fn guarded<T>(query: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IN_QUERY.get() {
                report(info);
            }
        }));
    });
    IN_QUERY.set(true);
    let answer = catch_unwind(AssertUnwindSafe(query));
    IN_QUERY.set(false);
    answer.map_err(|payload| said(payload.as_ref()))
}

/// A panic's message, which may be of several lines.
fn said(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("it says no more").lines().next().unwrap_or_default().to_owned()
}
