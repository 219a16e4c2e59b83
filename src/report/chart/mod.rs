//! Charts as SVG: static, without script, the same bytes for the same data.
//!
//! The problem: a chart on a page for people must be readable in print, on a phone, by a screen reader and by the colour
//! blind. So every mark has its figure as text or tooltip, series differ in more than hue where they touch (a white edge),
//! and the picture carries a title and a description in words.
//!
//! Contract: [`svg()`] never fails. No data is said in words; what does not fit is said, not dropped.

mod bars;
mod line;
mod scale;
mod svg;

use super::dataset::{Cell, Table};
use super::definition::{Chart, ChartKind, Column};
use super::format::{Format, Tone, alike, short};
use svg::{Colour, PALETTE, Svg};

/// Width of every picture, in user units that are CSS pixels at full size.
const WIDTH: f64 = 420.0;
/// Most categories that are drawn; the rest is said to be missing.
const CATEGORIES_MAX: usize = 40;
/// Most series with a colour of their own; further ones are drawn together as "Other".
const SERIES_MAX: usize = 8;

/// What is drawn: categories and one list of figures a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    pub kind: ChartKind,
    pub title: String,
    pub categories: Vec<String>,
    pub series: Vec<Series>,
}

/// One series; `values` has one entry for each category, `None` for no data.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub name: String,
    pub values: Vec<Option<f64>>,
    pub format: Format,
    /// What its colour says, if anything.
    pub tone: Option<Tone>,
}

impl Picture {
    /// Takes the columns that `chart` names out of a section's rows.
    ///
    /// # Errors
    /// The name of a column that the table does not have.
    pub fn of(chart: &Chart, title: &str, columns: &[Column], table: &Table) -> Result<Picture, String> {
        let at = |name: &String| table.column(name).ok_or_else(|| name.clone());
        let column = |name: &str| columns.iter().find(|column| column.name == name);
        let format = |name: &str| column(name).map_or(Format::Number(None), |column| column.format);
        let x = at(&chart.x)?;
        let x_format = column(&chart.x).map_or(Format::Text, |column| column.format);
        let title = chart.title.clone().unwrap_or_else(|| title.to_owned());
        let mut picture = Picture { kind: chart.kind, title, categories: Vec::new(), series: Vec::new() };
        match &chart.series {
            None => {
                picture.categories = table.rows.iter().map(|row| x_format.show(&row[x])).collect();
                for name in &chart.y {
                    let y = at(name)?;
                    picture.series.push(Series {
                        name: column(name).map_or_else(|| name.clone(), |column| column.title.clone()),
                        values: table.rows.iter().map(|row| row[y].number()).collect(),
                        format: format(name),
                        tone: chart.tones.get(name).copied(),
                    });
                }
            }
            Some(series) => {
                let name = chart.y.first().cloned().unwrap_or_default();
                picture.fill_long(chart, table, (x, x_format), at(series)?, (at(&name)?, format(&name)));
            }
        }
        picture.fold_series();
        Ok(picture)
    }

    /// Long form: one row a (category, series); both in the order of their first row.
    fn fill_long(&mut self, chart: &Chart, table: &Table, x: (usize, Format), series: usize, y: (usize, Format)) {
        let mut cells: Vec<(usize, usize, f64)> = Vec::new();
        for row in &table.rows {
            let category = x.1.show(&row[x.0]);
            let name = Format::Status.show(&row[series]);
            let c = position(&mut self.categories, |known| *known == category, || category.clone());
            let s = position(
                &mut self.series,
                |known| known.name == name,
                || Series {
                    name: name.clone(),
                    values: Vec::new(),
                    format: y.1,
                    tone: chart.tones.get(&Format::Text.show(&row[series])).copied(),
                },
            );
            if let Some(value) = row[y.0].number() {
                cells.push((s, c, value));
            }
        }
        for one in &mut self.series {
            one.values = vec![None; self.categories.len()];
        }
        for (s, c, value) in cells {
            let slot = &mut self.series[s].values[c];
            *slot = Some(slot.unwrap_or(0.0) + value);
        }
    }

    /// More series than colours: the last ones are added up as "Other". Lines cannot be added up; they keep the first ones.
    fn fold_series(&mut self) {
        if self.series.len() <= SERIES_MAX {
            return;
        }
        let rest = self.series.split_off(SERIES_MAX - 1);
        let values = (0..self.categories.len())
            .map(|c| rest.iter().filter_map(|one| one.values[c]).reduce(|a, b| a + b))
            .collect();
        let name = format!("Other ({} series)", rest.len());
        self.series.push(Series { name, values, format: rest[0].format, tone: Some(Tone::Neutral) });
    }

    /// Each series' colour and the colour of text on it: by tone where there is one, else the next that is free.
    fn colours(&self) -> Vec<Colour> {
        let of_tone = |tone: Tone| match tone {
            Tone::Good => 2,
            Tone::Warning => 1,
            Tone::Bad => 5,
            Tone::Neutral => 7,
        };
        let mut taken: Vec<usize> = self.series.iter().filter_map(|series| series.tone).map(of_tone).collect();
        let mut next = || {
            let free = (0..PALETTE.len()).find(|at| !taken.contains(at)).unwrap_or(taken.len() % PALETTE.len());
            taken.push(free);
            free
        };
        self.series.iter().map(|series| PALETTE[series.tone.map_or_else(&mut next, of_tone)]).collect()
    }

    fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.values.iter().all(Option::is_none))
    }

    /// The picture in words, for those who do not see it.
    fn description(&self) -> String {
        let kind = match self.kind {
            ChartKind::Line => "Line chart",
            ChartKind::StackedBar => "Stacked bar chart",
            ChartKind::Bar | ChartKind::HorizontalBar => "Bar chart",
        };
        if self.is_empty() {
            return format!("{kind} without data.");
        }
        let mut text = format!("{kind} of {} categories.", self.categories.len());
        for series in self.series.iter().take(SERIES_MAX) {
            let figures: Vec<String> = self
                .categories
                .iter()
                .zip(&series.values)
                .filter(|(_, value)| value.is_some_and(|value| value != 0.0))
                .take(12)
                .map(|(category, value)| format!("{category} {}", shown(series.format, *value)))
                .collect();
            if !figures.is_empty() {
                text.push_str(&format!(" {}: {}.", series.name, figures.join(", ")));
            }
        }
        text
    }
}

/// The index of the entry that fits, after adding it where there was none.
fn position<T>(list: &mut Vec<T>, fits: impl Fn(&T) -> bool, make: impl Fn() -> T) -> usize {
    list.iter().position(fits).unwrap_or_else(|| {
        list.push(make());
        list.len() - 1
    })
}

fn shown(format: Format, value: Option<f64>) -> String {
    match (format, value) {
        (_, None) => format.show(&Cell::Null),
        (Format::Text | Format::Number(None), Some(value)) => short(value),
        (Format::Days | Format::Due, Some(value)) => format.show(&Cell::Int(value as i64)),
        (_, Some(value)) => format.show(&Cell::Num(value)),
    }
}

/// Draws the picture; `id` makes its inner names unique on the page.
pub fn svg(picture: &Picture, id: &str) -> String {
    let mut svg = Svg::new(id, &picture.title, &picture.description());
    if picture.is_empty() {
        svg.empty();
        return svg.finish();
    }
    let cut = Cut::of(picture);
    match cut.picture.kind {
        ChartKind::Line => line::draw(&mut svg, &cut.picture),
        _ => bars::draw(&mut svg, &cut.picture),
    }
    if let Some(note) = cut.note {
        svg.note(&note);
    }
    svg.finish()
}

/// A picture of at most [`CATEGORIES_MAX`] categories, and what was left out.
struct Cut {
    picture: Picture,
    note: Option<String>,
}

impl Cut {
    fn of(picture: &Picture) -> Cut {
        let mut cut = picture.clone();
        let all = cut.categories.len();
        // A line may be long; bars need room for a label each.
        if all <= CATEGORIES_MAX || cut.kind == ChartKind::Line {
            return Cut { picture: cut, note: None };
        }
        cut.categories.truncate(CATEGORIES_MAX);
        cut.series.iter_mut().for_each(|series| series.values.truncate(CATEGORIES_MAX));
        let note = format!("The first {CATEGORIES_MAX} of {all}; the full list is in the CSV.");
        Cut { picture: cut, note: Some(note) }
    }
}

#[cfg(test)]
mod tests;
