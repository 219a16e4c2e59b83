//! Lines over categories in their order, usually dates. No data is a gap, not a zero.

use super::bars::{tick_width, ticks};
use super::scale::Scale;
use super::svg::{Anchor, FONT, Svg, text_width};
use super::{Picture, WIDTH, shown};

const HEIGHT: f64 = 200.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 16.0;
/// Lines differ by dashes as well as by colour.
const DASHES: [&str; 4] = ["none", "6 3", "2 3", "8 3 2 3"];
/// More points than this are drawn without dots.
const DOTS_MAX: usize = 60;

pub fn draw(svg: &mut Svg, picture: &Picture) {
    let values: Vec<f64> = picture.series.iter().flat_map(|series| series.values.iter().flatten().copied()).collect();
    let scale = Scale::of(values.into_iter());
    let ticks = ticks(picture, &scale);
    let left = tick_width(&ticks) + 8.0;
    let count = picture.categories.len();
    let x = |at: usize| match count {
        1 => (left + WIDTH - RIGHT) / 2.0,
        _ => left + 8.0 + (WIDTH - RIGHT - left - 8.0) * at as f64 / (count - 1) as f64,
    };
    let y = |value: f64| TOP + HEIGHT * (1.0 - scale.share(value));
    for (tick, label) in &ticks {
        svg.rule([left, y(*tick), WIDTH, y(*tick)], false);
        svg.faint((left - 6.0, y(*tick) + FONT * 0.35), Anchor::End, label);
    }
    svg.rule([left, y(0.0), WIDTH, y(0.0)], true);
    let colours = picture.colours();
    for (at, series) in picture.series.iter().enumerate() {
        let (colour, _) = colours[at];
        let points: Vec<Option<(f64, f64)>> =
            series.values.iter().enumerate().map(|(at, value)| value.map(|value| (x(at), y(value)))).collect();
        for run in points.split(Option::is_none).filter(|run| run.len() > 1) {
            let run: Vec<(f64, f64)> = run.iter().flatten().copied().collect();
            svg.path(&run, colour, DASHES[at % DASHES.len()]);
        }
        for (category, point) in points.iter().enumerate() {
            // A point without neighbours would not be seen without its dot.
            let alone = category.checked_sub(1).is_none_or(|before| points[before].is_none())
                && points.get(category + 1).is_none_or(Option::is_none);
            if let Some(point) = point
                && (count <= DOTS_MAX || alone)
            {
                let value = shown(series.format, series.values[category]);
                svg.dot(*point, colour, &format!("{}, {}: {value}", picture.categories[category], series.name));
            }
        }
    }
    labels(svg, picture, x);
    let names = picture.series.iter().map(|series| series.name.as_str());
    svg.legend(&names.zip(colours).collect::<Vec<_>>());
}

/// Under the axis, as many as can be read: every one, or every second, third, …; slanted where they are long.
fn labels(svg: &mut Svg, picture: &Picture, x: impl Fn(usize) -> f64) {
    let count = picture.categories.len();
    let room = (WIDTH - 60.0) / count as f64;
    let widest = picture.categories.iter().map(|label| text_width(label)).fold(0.0, f64::max);
    let base = TOP + HEIGHT + 16.0;
    let flat = widest + 8.0 <= room;
    let every = if flat { 1 } else { (FONT * 1.6 / room).ceil().max(1.0) as usize };
    for (at, label) in picture.categories.iter().enumerate().step_by(every) {
        match flat {
            true => svg.label((x(at), base), Anchor::Middle, label),
            false => svg.slanted((x(at) + 4.0, base - 4.0), label, 100.0),
        }
    }
    svg.height = base + if flat { 8.0 } else { widest.min(100.0) * 0.65 + 8.0 };
}
