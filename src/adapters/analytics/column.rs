//! Between the cells of a report and polars' columns, both ways.

use chrono::{DateTime, Duration, NaiveDate};
use polars::prelude::{AnyValue, Column, DataFrame, DataType, NamedFrom, PolarsResult, Series, TimeUnit};

use crate::model::decimal::Decimal;
use crate::report::dataset::{Cell, Table};

const DAY_SECONDS: f64 = 86_400.0;

/// What a column holds, known before any value is seen, so that a frame without rows has its types too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// Whole numbers where every value is one.
    Number,
    Bool,
    Date,
}

/// A frame of named columns; every list has `height` cells.
pub fn frame(height: usize, columns: Vec<(String, Kind, Vec<Cell>)>) -> PolarsResult<DataFrame> {
    let columns =
        columns.into_iter().map(|(name, kind, cells)| column(&name, kind, cells)).collect::<Result<_, _>>()?;
    DataFrame::new(height, columns)
}

fn column(name: &str, kind: Kind, cells: Vec<Cell>) -> PolarsResult<Column> {
    let name = name.into();
    let series = match kind {
        Kind::Text => {
            let texts: Vec<Option<String>> = cells
                .into_iter()
                .map(|cell| match cell {
                    Cell::Text(text) => Some(text),
                    _ => None,
                })
                .collect();
            Series::new(name, texts)
        }
        Kind::Bool => {
            let flags: Vec<Option<bool>> = cells
                .iter()
                .map(|cell| match cell {
                    Cell::Bool(flag) => Some(*flag),
                    _ => None,
                })
                .collect();
            Series::new(name, flags)
        }
        Kind::Number if cells.iter().any(|cell| matches!(cell, Cell::Num(_))) => {
            Series::new(name, cells.iter().map(Cell::number).collect::<Vec<Option<f64>>>())
        }
        Kind::Number => {
            let numbers: Vec<Option<i64>> = cells
                .iter()
                .map(|cell| match cell {
                    Cell::Int(number) => Some(*number),
                    _ => None,
                })
                .collect();
            Series::new(name, numbers)
        }
        Kind::Date => {
            let days: Vec<Option<i32>> = cells
                .iter()
                .map(|cell| match cell {
                    Cell::Date(date) => i32::try_from((*date - NaiveDate::default()).num_days()).ok(),
                    _ => None,
                })
                .collect();
            Series::new(name, days).cast(&DataType::Date)?
        }
    };
    Ok(series.into())
}

/// A stored number: whole if it is and fits, else the nearest float.
pub fn number(value: &Decimal) -> Cell {
    let whole = value.is_integer().then(|| value.to_plain().parse::<i64>().ok()).flatten();
    whole.map_or_else(|| Cell::Num(value.to_f64()), Cell::Int)
}

/// The answer to a query as typed cells.
pub fn table(frame: &DataFrame) -> Table {
    let columns: Vec<String> = frame.columns().iter().map(|column| column.name().to_string()).collect();
    let mut rows: Vec<Vec<Cell>> = vec![Vec::with_capacity(columns.len()); frame.height()];
    for column in frame.columns() {
        let series = column.as_materialized_series();
        for (row, value) in rows.iter_mut().zip(series.iter()) {
            row.push(cell(&value));
        }
    }
    Table { columns, rows }
}

fn cell(value: &AnyValue<'_>) -> Cell {
    match value {
        AnyValue::Null => Cell::Null,
        AnyValue::Boolean(flag) => Cell::Bool(*flag),
        AnyValue::String(text) => Cell::Text((*text).to_owned()),
        AnyValue::StringOwned(text) => Cell::Text(text.to_string()),
        AnyValue::Float32(_) | AnyValue::Float64(_) => match value.extract::<f64>() {
            // Nothing over nothing is no data, and so is something over nothing.
            Some(number) if number.is_finite() => Cell::Num(number),
            _ => Cell::Null,
        },
        AnyValue::Date(days) => {
            NaiveDate::default().checked_add_signed(Duration::days(i64::from(*days))).map_or(Cell::Null, Cell::Date)
        }
        AnyValue::Datetime(ticks, unit, _) => time(*ticks, *unit),
        AnyValue::Duration(ticks, unit) => {
            let days = *ticks as f64 / ticks_per_second(*unit) / DAY_SECONDS;
            if days.fract() == 0.0 { Cell::Int(days as i64) } else { Cell::Num(days) }
        }
        other if other.is_primitive_numeric() => match other.extract::<i64>() {
            Some(number) => Cell::Int(number),
            None => other.extract::<f64>().map_or(Cell::Null, Cell::Num),
        },
        other => Cell::Text(other.to_string()),
    }
}

fn time(ticks: i64, unit: TimeUnit) -> Cell {
    let per_second = ticks_per_second(unit) as i64;
    let nanos = ticks.rem_euclid(per_second) * (1_000_000_000 / per_second);
    // The remainder is below a second, so it fits.
    let at = DateTime::from_timestamp(ticks.div_euclid(per_second), nanos as u32);
    at.map_or(Cell::Null, |at| Cell::Text(at.naive_utc().format("%Y-%m-%dT%H:%M:%S%.f").to_string()))
}

fn ticks_per_second(unit: TimeUnit) -> f64 {
    match unit {
        TimeUnit::Nanoseconds => 1e9,
        TimeUnit::Microseconds => 1e6,
        TimeUnit::Milliseconds => 1e3,
    }
}
