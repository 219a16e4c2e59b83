//! The writer: escaped text, fixed decimals, a height that grows with what is drawn.

use std::fmt::Write as _;

use super::super::dataset::Cell;
use super::WIDTH;

/// A fill, and the colour of text on it.
pub type Colour = (&'static str, &'static str);

/// Okabe and Ito's palette, which people with any of the usual colour blindnesses tell apart; with the colour of text on it.
pub const PALETTE: [Colour; 8] = [
    ("#0072b2", "#ffffff"),
    ("#e69f00", "#000000"),
    ("#009e73", "#ffffff"),
    ("#cc79a7", "#000000"),
    ("#56b4e9", "#000000"),
    ("#d55e00", "#ffffff"),
    ("#f0e442", "#000000"),
    ("#6b7280", "#ffffff"),
];
/// Font size of all labels, user units.
pub const FONT: f64 = 12.0;
const INK: &str = "#1f2937";
const FAINT: &str = "#6b7280";
const GRID: &str = "#e5e7eb";

/// Where a text hangs on its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture being written.
pub struct Svg {
    id: String,
    title: String,
    description: String,
    body: String,
    /// Lowest point so far.
    pub height: f64,
}

impl Svg {
    pub fn new(id: &str, title: &str, description: &str) -> Svg {
        Svg { id: escape(id), title: escape(title), description: escape(description), body: String::new(), height: 0.0 }
    }

    /// A filled box with a tooltip.
    pub fn rect(&mut self, [x, y, width, height]: [f64; 4], fill: &str, tooltip: &str) {
        let (x, y, width, height) = (fixed(x), fixed(y), fixed(width), fixed(height));
        let tooltip = escape(tooltip);
        self.push(format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\" stroke=\"#ffffff\" \
             stroke-width=\"1\"><title>{tooltip}</title></rect>"
        ));
    }

    pub fn rule(&mut self, [x1, y1, x2, y2]: [f64; 4], axis: bool) {
        let stroke = if axis { FAINT } else { GRID };
        let (x1, y1, x2, y2) = (fixed(x1), fixed(y1), fixed(x2), fixed(y2));
        self.push(format!("<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"{stroke}\"/>"));
    }

    pub fn path(&mut self, points: &[(f64, f64)], stroke: &str, dash: &str) {
        let list: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", fixed(*x), fixed(*y))).collect();
        let list = list.join(" ");
        self.push(format!(
            "<polyline points=\"{list}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>"
        ));
    }

    pub fn dot(&mut self, (x, y): (f64, f64), fill: &str, tooltip: &str) {
        let (x, y, tooltip) = (fixed(x), fixed(y), escape(tooltip));
        self.push(format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{fill}\"><title>{tooltip}</title></circle>"));
    }

    pub fn label(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        self.text(at, anchor, INK, text, None);
    }

    pub fn faint(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        self.text(at, anchor, FAINT, text, None);
    }

    /// A text in a colour of its own, for figures on top of a bar.
    pub fn figure(&mut self, at: (f64, f64), fill: &str, text: &str) {
        self.text(at, Anchor::Middle, fill, text, None);
    }

    /// A label cut to `width`; its tooltip has it whole.
    pub fn fitted(&mut self, at: (f64, f64), anchor: Anchor, text: &str, width: f64) {
        let cut = fit(text, width);
        let whole = (cut != text).then_some(text);
        self.text(at, anchor, INK, &cut, whole);
    }

    /// A label that reads upwards from its end at `at`.
    pub fn slanted(&mut self, (x, y): (f64, f64), text: &str, width: f64) {
        let (x, y) = (fixed(x), fixed(y));
        let (cut, whole) = (escape(&fit(text, width)), escape(text));
        self.push(format!(
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\" transform=\"rotate(-40 {x} {y})\" fill=\"{INK}\">{cut}<title>{whole}</title></text>"
        ));
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, fill: &str, text: &str, tooltip: Option<&str>) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let tooltip = tooltip.map(|whole| format!("<title>{}</title>", escape(whole))).unwrap_or_default();
        let (x, y, text) = (fixed(x), fixed(y), escape(text));
        self.push(format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"{fill}\">{text}{tooltip}</text>"));
    }

    /// Names of the series under the picture, wrapped to its width; nothing for a single one.
    pub fn legend(&mut self, series: &[(&str, Colour)]) {
        if series.len() < 2 {
            return;
        }
        let (mut x, mut y) = (0.0, self.height + 18.0);
        for (name, (colour, _)) in series {
            let text = fit(name, WIDTH - 24.0);
            let width = 16.0 + text_width(&text) + 14.0;
            if x > 0.0 && x + width > WIDTH {
                x = 0.0;
                y += 18.0;
            }
            self.rect([x, y - 10.0, 11.0, 11.0], colour, name);
            self.label((x + 16.0, y), Anchor::Start, &text);
            x += width;
        }
        self.height = y + 8.0;
    }

    pub fn note(&mut self, text: &str) {
        let y = self.height + 16.0;
        self.faint((0.0, y), Anchor::Start, text);
        self.height = y + 6.0;
    }

    /// What stands where there is nothing to draw.
    pub fn empty(&mut self) {
        self.height = 90.0;
        self.faint(
            (WIDTH / 2.0, 50.0),
            Anchor::Middle,
            &format!("no data ({})", super::Format::Text.show(&Cell::Null)),
        );
    }

    fn push(&mut self, element: String) {
        self.body.push_str(&element);
        self.body.push('\n');
    }

    pub fn finish(self) -> String {
        let Svg { id, title, description, body, height } = self;
        let (width, height) = (fixed(WIDTH), fixed(height));
        let mut text = String::with_capacity(body.len() + 600);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-labelledby=\"{id}-title {id}-desc\" font-size=\"{FONT}\">\n\
             <title id=\"{id}-title\">{title}</title>\n<desc id=\"{id}-desc\">{description}</desc>\n{body}</svg>"
        );
        text
    }
}

/// One decimal at most, never `-0`, never an exponent.
fn fixed(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Escapes for text and attributes, and drops characters that XML cannot hold.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// About how wide a text is, user units; rather too wide than too narrow.
pub fn text_width(text: &str) -> f64 {
    text.chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | 't' | 'f' | 'r' | 'I' | '.' | ',' | ':' | '|' | ' ' | '\u{202f}' => 0.42,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.98,
            c if c.is_uppercase() => 0.74,
            '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{fffd}' | '\u{1f000}'.. => 1.05,
            _ => 0.63,
        })
        .sum::<f64>()
        * FONT
}

/// The text, or as much of it as fits with an ellipsis.
pub fn fit(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        cut.push(c);
        if text_width(&cut) + FONT > width {
            cut.pop();
            break;
        }
    }
    format!("{}…", cut.trim_end())
}
