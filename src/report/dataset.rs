//! The answer to one query: typed cells in a fixed order.
//!
//! A query engine returns rows that tie in any order, and one that runs on several threads in a different one each time. So
//! the order is made here: by the columns that the definition names, then by all columns from left to right.

use std::cmp::Ordering;

use chrono::NaiveDate;

/// One value. Numbers are floats only where the query made a fraction: this is for reading, never for storing.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// No data: shown as `n/a`, never as 0.
    Null,
    Bool(bool),
    Int(i64),
    Num(f64),
    Date(NaiveDate),
    Text(String),
}

/// Column names and rows; every row has one cell for each column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
}

/// One column of the wanted order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderBy {
    pub column: String,
    pub descending: bool,
}

impl Cell {
    /// The value as a number for charts; `None` for text, dates and no data.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Int(value) => Some(*value as f64),
            Cell::Num(value) => value.is_finite().then_some(*value),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Cell::Null)
    }

    /// A total order: no data last, then by kind, then by value; text by code points.
    fn order(&self, other: &Cell, descending: bool) -> Ordering {
        match (self.is_null(), other.is_null()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) => {}
        }
        let order = match (self, other) {
            (Cell::Bool(a), Cell::Bool(b)) => a.cmp(b),
            (Cell::Int(a), Cell::Int(b)) => a.cmp(b),
            (Cell::Date(a), Cell::Date(b)) => a.cmp(b),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (Cell::Num(a), Cell::Num(b)) => a.total_cmp(b),
            (Cell::Int(a), Cell::Num(b)) => (*a as f64).total_cmp(b),
            (Cell::Num(a), Cell::Int(b)) => a.total_cmp(&(*b as f64)),
            _ => self.rank().cmp(&other.rank()),
        };
        if descending { order.reverse() } else { order }
    }

    fn rank(&self) -> u8 {
        match self {
            Cell::Bool(_) => 0,
            Cell::Int(_) | Cell::Num(_) => 1,
            Cell::Date(_) => 2,
            Cell::Text(_) => 3,
            Cell::Null => 4,
        }
    }
}

impl Table {
    /// Where the column is; `None` if there is none of that name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Sorts by `order`, ties by all columns from left to right. Columns that are not there are passed over: the caller
    /// has checked the names.
    pub fn sort(&mut self, order: &[OrderBy]) {
        let named: Vec<(usize, bool)> =
            order.iter().filter_map(|by| Some((self.column(&by.column)?, by.descending))).collect();
        let rest = (0..self.columns.len()).map(|at| (at, false));
        let keys: Vec<(usize, bool)> = named.into_iter().chain(rest).collect();
        self.rows.sort_by(|a, b| {
            keys.iter()
                .map(|(at, descending)| a[*at].order(&b[*at], *descending))
                .find(|o| o.is_ne())
                .unwrap_or(Ordering::Equal)
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cell() -> impl Strategy<Value = Cell> {
        prop_oneof![
            Just(Cell::Null),
            any::<bool>().prop_map(Cell::Bool),
            (-3i64..3).prop_map(Cell::Int),
            (-3i32..3).prop_map(|n| Cell::Num(f64::from(n) / 2.0)),
            "[a-c]{0,2}".prop_map(Cell::Text),
        ]
    }

    proptest! {
        #[test]
        fn the_order_does_not_depend_on_how_rows_arrive(
            (rows, shuffled) in prop::collection::vec(prop::collection::vec(cell(), 3), 0..12)
                .prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
            descending in any::<bool>(),
        ) {
            let columns: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
            let order = [OrderBy { column: "b".to_owned(), descending }];
            let mut one = Table { columns: columns.clone(), rows };
            let mut two = Table { columns, rows: shuffled };
            one.sort(&order);
            two.sort(&order);
            // Compared as text: an Int and a Num of the same value tie, and tie in either order.
            prop_assert_eq!(ranks(&one), ranks(&two));
        }
    }

    fn ranks(table: &Table) -> Vec<Vec<String>> {
        let shown = |cell: &Cell| match cell.number() {
            Some(number) => format!("{number}"),
            None => format!("{cell:?}"),
        };
        table.rows.iter().map(|row| row.iter().map(shown).collect()).collect()
    }

    #[test]
    fn no_data_comes_last_in_both_directions() {
        let mut table = Table {
            columns: vec!["n".to_owned()],
            rows: vec![vec![Cell::Null], vec![Cell::Int(1)], vec![Cell::Int(2)]],
        };
        table.sort(&[OrderBy { column: "n".to_owned(), descending: true }]);
        assert_eq!(table.rows, [[Cell::Int(2)], [Cell::Int(1)], [Cell::Null]]);
    }
}
