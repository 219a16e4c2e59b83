//! Bars: upright or lying, single, side by side or stacked. One layout; only the last step knows the direction.

use super::super::definition::ChartKind;
use super::scale::Scale;
use super::svg::{Anchor, Colour, FONT, Svg, text_width};
use super::{Picture, Series, WIDTH, shown};

const UPRIGHT_HEIGHT: f64 = 200.0;
const BAR_WIDTH_MAX: f64 = 64.0;
const BAR_HEIGHT: f64 = 20.0;
const GAP: f64 = 8.0;
/// Most of the width that labels beside lying bars may take.
const LABEL_WIDTH_MAX: f64 = 150.0;
const TOP: f64 = 18.0;

/// One rectangle before it has a direction: where along the categories, and from which value to which.
struct Mark {
    category: usize,
    series: usize,
    /// Share of the category's room: start and length.
    lane: (f64, f64),
    from: f64,
    to: f64,
}

pub fn draw(svg: &mut Svg, picture: &Picture) {
    let marks = marks(picture);
    let scale = Scale::of(marks.iter().flat_map(|mark| [mark.from, mark.to]).collect::<Vec<_>>().into_iter());
    if picture.kind == ChartKind::HorizontalBar || !fits_upright(picture) {
        lying(svg, picture, &marks, &scale);
    } else {
        upright(svg, picture, &marks, &scale);
    }
    // A series without any bar has nothing to explain.
    let is_seen = |series: &&(&Series, Colour)| series.0.values.iter().flatten().any(|value| *value != 0.0);
    let series: Vec<(&Series, Colour)> = picture.series.iter().zip(picture.colours()).collect();
    let seen: Vec<(&str, Colour)> =
        series.iter().filter(is_seen).map(|(series, colour)| (series.name.as_str(), *colour)).collect();
    svg.legend(&seen);
}

/// Many or long labels are readable only beside lying bars.
fn fits_upright(picture: &Picture) -> bool {
    let room = (WIDTH - 50.0) / picture.categories.len().max(1) as f64;
    let lanes = if picture.kind == ChartKind::StackedBar { 1 } else { picture.series.len() };
    room >= 16.0 * lanes as f64 && picture.categories.iter().all(|label| text_width(label) <= room - 4.0)
}

fn marks(picture: &Picture) -> Vec<Mark> {
    let mut marks = Vec::new();
    // A lying chart of several series is stacked as well only where that was asked for.
    let stacked = picture.kind == ChartKind::StackedBar;
    let lanes = picture.series.len() as f64;
    for category in 0..picture.categories.len() {
        let (mut above, mut below) = (0.0, 0.0);
        for (series, one) in picture.series.iter().enumerate() {
            let Some(value) = one.values[category] else { continue };
            let (from, lane) = match stacked {
                true if value < 0.0 => (below, (0.0, 1.0)),
                true => (above, (0.0, 1.0)),
                false => (0.0, (series as f64 / lanes, 1.0 / lanes)),
            };
            if value < 0.0 {
                below += value
            } else {
                above += value
            }
            marks.push(Mark { category, series, lane, from, to: from + value });
        }
    }
    marks
}

fn upright(svg: &mut Svg, picture: &Picture, marks: &[Mark], scale: &Scale) {
    let ticks = ticks(picture, scale);
    let left = tick_width(&ticks) + 8.0;
    let room = (WIDTH - left) / picture.categories.len() as f64;
    let y = |value: f64| TOP + UPRIGHT_HEIGHT * (1.0 - scale.share(value));
    for (tick, label) in &ticks {
        svg.rule([left, y(*tick), WIDTH, y(*tick)], false);
        svg.faint((left - 6.0, y(*tick) + FONT * 0.35), Anchor::End, label);
    }
    let lanes = if picture.kind == ChartKind::StackedBar { 1 } else { picture.series.len() };
    let bar = (room - GAP).min(BAR_WIDTH_MAX.max(28.0 * lanes as f64)).max(4.0);
    let start = |category: usize| left + room * category as f64 + (room - bar) / 2.0;
    let colours = picture.colours();
    for mark in marks {
        let (top, bottom) = (y(mark.from.max(mark.to)), y(mark.from.min(mark.to)));
        let x = start(mark.category) + bar * mark.lane.0;
        let rect = [x, top, bar * mark.lane.1, bottom - top];
        bar_with_figure(svg, picture, mark, rect, &colours);
    }
    svg.rule([left, y(0.0), WIDTH, y(0.0)], true);
    for (category, label) in picture.categories.iter().enumerate() {
        let middle = left + room * (category as f64 + 0.5);
        svg.fitted((middle, TOP + UPRIGHT_HEIGHT + 16.0), Anchor::Middle, label, room);
    }
    for (category, lane, value, text) in ends(picture) {
        let middle = start(category) + bar * lane;
        let at = if value < 0.0 { y(value) + FONT } else { y(value) - 4.0 };
        svg.label((middle, at), Anchor::Middle, &text);
    }
    svg.height = TOP + UPRIGHT_HEIGHT + 24.0;
}

fn lying(svg: &mut Svg, picture: &Picture, marks: &[Mark], scale: &Scale) {
    let widest = picture.categories.iter().map(|label| text_width(label)).fold(0.0, f64::max);
    let left = widest.min(LABEL_WIDTH_MAX) + 8.0;
    let right = ends(picture).iter().map(|(.., text)| text_width(text)).fold(20.0, f64::max) + 6.0;
    // Figures of negative bars stand on the left of them.
    let inset = if scale.low < 0.0 { right } else { 0.0 };
    let x = |value: f64| left + inset + (WIDTH - left - inset - right) * scale.share(value);
    let lanes = if picture.kind == ChartKind::StackedBar { 1 } else { picture.series.len() };
    let bar = if lanes == 1 { BAR_HEIGHT } else { 15.0 * lanes as f64 };
    let y = |category: usize| 4.0 + (bar + GAP) * category as f64;
    let bottom = y(picture.categories.len());
    let between = x(scale.low + scale.step) - x(scale.low);
    let ticks = ticks(picture, scale);
    let every = ((tick_width(&ticks) + 6.0) / between.max(1.0)).ceil().max(1.0) as usize;
    for (at, (tick, label)) in ticks.iter().enumerate() {
        svg.rule([x(*tick), 0.0, x(*tick), bottom], false);
        if at.is_multiple_of(every) {
            svg.faint((x(*tick), bottom + 14.0), Anchor::Middle, label);
        }
    }
    let colours = picture.colours();
    for mark in marks {
        let (from, to) = (x(mark.from.min(mark.to)), x(mark.from.max(mark.to)));
        let rect = [from, y(mark.category) + bar * mark.lane.0, to - from, bar * mark.lane.1];
        bar_with_figure(svg, picture, mark, rect, &colours);
    }
    svg.rule([x(0.0), 0.0, x(0.0), bottom], true);
    for (category, label) in picture.categories.iter().enumerate() {
        let middle = y(category) + bar / 2.0 + FONT * 0.35;
        svg.fitted((left - 8.0, middle), Anchor::End, label, LABEL_WIDTH_MAX);
    }
    for (category, lane, value, text) in ends(picture) {
        let middle = y(category) + bar * lane + FONT * 0.35;
        let (at, anchor) = if value < 0.0 { (x(value) - 4.0, Anchor::End) } else { (x(value) + 4.0, Anchor::Start) };
        svg.label((at, middle), anchor, &text);
    }
    svg.height = bottom + 20.0;
}

/// A bar, and its figure on it where several are stacked and there is room.
fn bar_with_figure(svg: &mut Svg, picture: &Picture, mark: &Mark, rect: [f64; 4], colours: &[Colour]) {
    let [.., width, height] = rect;
    let series = &picture.series[mark.series];
    let value = shown(series.format, series.values[mark.category]);
    let (fill, ink) = colours[mark.series];
    let tooltip = match picture.series.len() {
        1 => format!("{}: {value}", picture.categories[mark.category]),
        _ => format!("{}, {}: {value}", picture.categories[mark.category], series.name),
    };
    if mark.from != mark.to {
        svg.rect(rect, fill, &tooltip);
    }
    let stacked = picture.kind == ChartKind::StackedBar && picture.series.len() > 1;
    if stacked && height >= FONT + 2.0 && width >= text_width(&value) + 4.0 {
        svg.figure((rect[0] + width / 2.0, rect[1] + height / 2.0 + FONT * 0.35), ink, &value);
    }
}

/// The figures at the ends of bars: each bar's value, or a stack's sum. (category, middle of the lane, end value, text)
fn ends(picture: &Picture) -> Vec<(usize, f64, f64, String)> {
    let mut ends = Vec::new();
    let lanes = picture.series.len() as f64;
    for category in 0..picture.categories.len() {
        if picture.kind == ChartKind::StackedBar {
            let values: Vec<f64> = picture.series.iter().filter_map(|series| series.values[category]).collect();
            let above: f64 = values.iter().filter(|value| **value > 0.0).sum();
            let text = match values.len() {
                0 => shown(picture.series[0].format, None),
                _ => shown(picture.series[0].format, Some(values.iter().sum())),
            };
            ends.push((category, 0.5, above, text));
            continue;
        }
        for (at, series) in picture.series.iter().enumerate() {
            let value = series.values[category];
            let text = shown(series.format, value);
            ends.push((category, (at as f64 + 0.5) / lanes, value.unwrap_or(0.0), text));
        }
    }
    ends
}

/// The ticks with their labels, which are all written alike.
pub fn ticks(picture: &Picture, scale: &Scale) -> Vec<(f64, String)> {
    let ticks: Vec<f64> = scale.ticks().collect();
    let labels = match picture.series[0].format {
        super::Format::Percent(_) => {
            let shares: Vec<f64> = ticks.iter().map(|tick| tick * 100.0).collect();
            super::alike(&shares).into_iter().map(|label| format!("{label} %")).collect()
        }
        _ => super::alike(&ticks),
    };
    ticks.into_iter().zip(labels).collect()
}

/// Room for the widest tick.
pub fn tick_width(ticks: &[(f64, String)]) -> f64 {
    ticks.iter().map(|(_, label)| text_width(label)).fold(0.0, f64::max)
}
