use proptest::prelude::*;

use super::*;

fn picture(kind: ChartKind, categories: &[&str], series: &[(&str, &[Option<f64>])]) -> Picture {
    Picture {
        kind,
        title: "Title <b>".to_owned(),
        categories: categories.iter().map(|label| (*label).to_owned()).collect(),
        series: series
            .iter()
            .map(|(name, values)| Series {
                name: (*name).to_owned(),
                values: values.to_vec(),
                format: Format::Number(None),
                tone: None,
            })
            .collect(),
    }
}

/// The texts that a reader sees, tooltips included.
fn count(svg: &str, what: &str) -> usize {
    svg.matches(what).count()
}

#[test]
fn a_bar_for_each_figure_and_words_for_all() {
    let text = svg(&picture(ChartKind::Bar, &["A", "B"], &[("n", &[Some(1.0), Some(2.0)])]), "s");
    assert_eq!(count(&text, "<rect"), 2);
    assert!(text.contains("role=\"img\" aria-labelledby=\"s-title s-desc\""), "{text}");
    assert!(text.contains("<title id=\"s-title\">Title &lt;b&gt;</title>"));
    assert!(text.contains("n: A 1, B 2."), "{text}");
    assert!(!text.contains("script"));
}

#[test]
fn stacks_grow_both_ways_from_zero() {
    let text = svg(
        &picture(
            ChartKind::StackedBar,
            &["A"],
            &[("up", &[Some(3.0)]), ("down", &[Some(-2.0)]), ("more", &[Some(1.0)])],
        ),
        "s",
    );
    // Three segments and three legend boxes; the sum of the stack at its end.
    assert_eq!(count(&text, "<rect"), 6);
    assert!(text.contains(">2</text>"), "{text}");
}

#[test]
fn no_data_and_zeros_are_different() {
    let none = svg(&picture(ChartKind::Bar, &["A"], &[("n", &[None])]), "s");
    assert!(none.contains("no data") && none.contains("without data"));
    let empty = svg(&picture(ChartKind::Line, &[], &[("n", &[])]), "s");
    assert!(empty.contains("no data"));
    let zero = svg(&picture(ChartKind::Bar, &["A"], &[("n", &[Some(0.0)])]), "s");
    assert!(!zero.contains("no data") && zero.contains(">0</text>"), "{zero}");
}

#[test]
fn many_or_long_labels_lie_and_the_rest_is_said() {
    let labels: Vec<String> = (0..50).map(|n| format!("A rather long label, number {n}, that goes on")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let values: Vec<Option<f64>> = (0..50).map(|n| Some(f64::from(n))).collect();
    let text = svg(&picture(ChartKind::Bar, &labels, &[("n", &values)]), "s");
    assert!(text.contains("The first 40 of 50; the full list is in the CSV."));
    // A cut label keeps its whole text as a tooltip.
    assert!(text.contains("…<title>A rather long label, number 3, that goes on</title>"), "{text}");
}

#[test]
fn a_gap_parts_a_line() {
    let text = svg(
        &picture(
            ChartKind::Line,
            &["1", "2", "3", "4", "5"],
            &[("n", &[Some(1.0), Some(2.0), None, Some(1.0), Some(3.0)])],
        ),
        "s",
    );
    assert_eq!(count(&text, "<polyline"), 2);
    assert_eq!(count(&text, "<circle"), 4);
}

#[test]
fn the_long_form_makes_series_of_a_column() {
    let text = |text: &str| Cell::Text(text.to_owned());
    let table = Table {
        columns: ["p", "s", "n"].map(str::to_owned).to_vec(),
        rows: vec![
            vec![text("P1"), text("Open"), Cell::Int(2)],
            vec![text("P2"), text("Done"), Cell::Int(1)],
            vec![text("P1"), text("Done"), Cell::Int(3)],
        ],
    };
    let mut chart = Chart {
        kind: ChartKind::StackedBar,
        title: None,
        x: "p".to_owned(),
        y: vec!["n".to_owned()],
        series: Some("s".to_owned()),
        tones: [("Done".to_owned(), Tone::Good)].into(),
    };
    let picture = Picture::of(&chart, "T", &[], &table).unwrap();
    assert_eq!(picture.categories, ["P1", "P2"]);
    assert_eq!(picture.series[0].values, [Some(2.0), None]);
    assert_eq!(picture.series[1].values, [Some(3.0), Some(1.0)]);
    assert_eq!(picture.colours(), [PALETTE[0], PALETTE[2]]);
    chart.x = "q".to_owned();
    assert_eq!(Picture::of(&chart, "T", &[], &table), Err("q".to_owned()));
}

#[test]
fn more_series_than_colours_are_added_up() {
    let mut many = picture(ChartKind::StackedBar, &["A"], &[]);
    many.series = (0..12)
        .map(|n| Series { name: format!("s{n}"), values: vec![Some(1.0)], format: Format::Integer, tone: None })
        .collect();
    many.fold_series();
    assert_eq!(many.series.len(), SERIES_MAX);
    assert_eq!(many.series[SERIES_MAX - 1].values, [Some(5.0)]);
}

proptest! {
    #[test]
    fn any_picture_is_whole_xml(
        kind in prop::sample::select(ChartKind::ALL.to_vec()),
        labels in prop::collection::vec(".{0,30}", 0..50),
        figures in prop::collection::vec(prop::option::of(prop::num::f64::ANY), 150),
        series in 0usize..4,
    ) {
        let picture = Picture {
            kind,
            title: "t".to_owned(),
            series: (0..series)
                .map(|s| Series {
                    name: format!("<{s}>"),
                    values: (0..labels.len())
                        .map(|c| figures[(s * 50 + c) % 150].filter(|value| value.is_finite()))
                        .collect(),
                    format: Format::Number(None), tone: None,
                })
                .collect(),
            categories: labels,
        };
        let text = svg(&picture, "id");
        prop_assert_eq!(count(&text, "<title"), count(&text, "</title>"));
        prop_assert_eq!(count(&text, "<text"), count(&text, "</text>"));
        prop_assert!(!text.contains("NaN") && !text.contains("inf"));
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    }
}
