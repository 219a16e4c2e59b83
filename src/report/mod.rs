//! Floor 1: what a report is: definitions, data sets and pictures. Pure.
//!
//! The problem: one set of figures goes to a page, to CSV files and to a chart, and they must never disagree. So a report
//! is data in three steps, and only the last knows a format:
//!
//! - [`definition::Definition`]: what to ask (SQL) and how to show it, read from `reports/*.toml` with all faults at once;
//! - [`input::ReportInput`]: the items and what was derived from them, as of one date;
//! - [`data::ReportData`]: the answers, typed and in a fixed order. Pages, charts and CSV are written from it alone.
//!
//! Contract: nothing here reads a clock, and the same input, date and definition give the same [`data::ReportData`], hence
//! the same bytes.

pub mod builtin;
pub mod chart;
pub mod data;
pub mod dataset;
pub mod definition;
pub mod format;
pub mod input;
pub mod rules;
#[cfg(feature = "reports")]
pub mod schedule;
pub mod sql;

pub use builtin::builtin;
