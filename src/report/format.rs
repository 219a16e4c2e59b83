//! How a cell is shown, and which tone a status has.
//!
//! A status is always a word; its tone only colours the badge, so the page says the same in black and white.

use super::dataset::Cell;

/// What a cell without data shows.
pub const NO_DATA: &str = "n/a";

/// The format of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    #[default]
    Text,
    Integer,
    /// With that many decimals; none given: up to 4, without trailing zeros.
    Number(Option<usize>),
    /// A ratio: 0.802 is 80.2 %.
    Percent(usize),
    Date,
    /// A number of days: `1 day`, `12 days`, `-3 days`.
    Days,
    /// A number of days until something is due: `380 days overdue`, `today`, `in 10 days`.
    Due,
    /// A word shown as a badge.
    Status,
}

/// The colour of a badge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    Good,
    Warning,
    Bad,
    #[default]
    Neutral,
}

impl Tone {
    pub const ALL: [Tone; 4] = [Tone::Good, Tone::Warning, Tone::Bad, Tone::Neutral];

    pub fn name(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Warning => "warning",
            Tone::Bad => "bad",
            Tone::Neutral => "neutral",
        }
    }

    pub fn parse(name: &str) -> Option<Tone> {
        Tone::ALL.into_iter().find(|tone| tone.name() == name)
    }

    /// The tone of Tablekeeper's own words; other words are neutral unless the definition says more.
    pub fn of(word: &str) -> Tone {
        match word {
            "ok" | "resolved" | "Pass" => Tone::Good,
            "upcoming" | "due_today" | "warning" | "never_calibrated" => Tone::Warning,
            "overdue" | "error" | "no_coverage" | "Fail" => Tone::Bad,
            _ => Tone::Neutral,
        }
    }
}

impl Format {
    /// `text`, `integer`, `number`, `number(2)`, `percent`, `percent(0)`, `date`, `days`, `due`, `status`.
    pub fn parse(text: &str) -> Option<Format> {
        let (name, decimals) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            Some((name, digits)) => (name, Some(digits.parse::<usize>().ok().filter(|n| *n <= 10)?)),
            None => (text, None),
        };
        match (name, decimals) {
            ("text", None) => Some(Format::Text),
            ("integer", None) => Some(Format::Integer),
            ("number", decimals) => Some(Format::Number(decimals)),
            ("percent", decimals) => Some(Format::Percent(decimals.unwrap_or(1))),
            ("date", None) => Some(Format::Date),
            ("days", None) => Some(Format::Days),
            ("due", None) => Some(Format::Due),
            ("status", None) => Some(Format::Status),
            _ => None,
        }
    }

    /// True where figures are compared by eye and so belong on the right.
    pub fn is_numeric(self) -> bool {
        matches!(self, Format::Integer | Format::Number(_) | Format::Percent(_) | Format::Days | Format::Due)
    }

    /// The cell as a reader sees it; a cell whose kind does not fit the format is shown as it is.
    pub fn show(self, cell: &Cell) -> String {
        match (self, cell) {
            (_, Cell::Null) => NO_DATA.to_owned(),
            (_, Cell::Num(value)) if !value.is_finite() => NO_DATA.to_owned(),
            (Format::Days, Cell::Int(days)) => self::days(*days),
            (Format::Due, Cell::Int(0)) => "today".to_owned(),
            (Format::Due, Cell::Int(left)) if *left < 0 => format!("{} overdue", self::days(left.saturating_neg())),
            (Format::Due, Cell::Int(left)) => format!("in {}", self::days(*left)),
            (Format::Percent(decimals), Cell::Int(_) | Cell::Num(_)) => {
                format!("{} %", decimal(cell.number().unwrap_or(0.0) * 100.0, decimals))
            }
            (Format::Integer, Cell::Num(value)) => decimal(*value, 0),
            (Format::Number(Some(decimals)), Cell::Int(_) | Cell::Num(_)) => {
                decimal(cell.number().unwrap_or(0.0), decimals)
            }
            (_, Cell::Num(value)) => short(*value),
            (_, Cell::Int(value)) => integer(*value),
            (_, Cell::Date(date)) => date.format("%Y-%m-%d").to_string(),
            (_, Cell::Bool(flag)) => if *flag { "yes" } else { "no" }.to_owned(),
            (Format::Status, Cell::Text(text)) => text.replace('_', " "),
            (_, Cell::Text(text)) => text.clone(),
        }
    }
}

/// Up to 4 decimals, no trailing zeros; very large and very small numbers by exponent.
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        return NO_DATA.to_owned();
    }
    if magnitude != 0.0 && !(1e-4..1e15).contains(&magnitude) {
        return format!("{value:e}");
    }
    let text = decimal(value, 4);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Figures of one axis, all in one notation: the same decimals, thousands parted in all or none, exponents for all or none.
pub fn alike(values: &[f64]) -> Vec<String> {
    let largest = values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    // Ticks are sums of steps and so a little beside the round figure.
    let is_round = |value: f64, decimals: i32| {
        let scaled = value * 10f64.powi(decimals);
        (scaled - scaled.round()).abs() <= largest.max(1e-3) * 10f64.powi(decimals) * 1e-6
    };
    let decimals = (0..=4).find(|decimals| values.iter().all(|value| is_round(*value, *decimals)));
    let is_readable = largest == 0.0 || (1e-3..1e15).contains(&largest);
    match decimals.and_then(|decimals| usize::try_from(decimals).ok()) {
        Some(decimals) if is_readable => {
            let shown = values.iter().map(|value| decimal(*value, decimals));
            if largest < 1e4 { shown.collect() } else { shown.map(|text| parted(&text)).collect() }
        }
        // Three decimals take off what sums of steps have too much.
        _ => values.iter().map(|value| exponential(format!("{value:.3e}").parse().unwrap_or(*value))).collect(),
    }
}

fn exponential(value: f64) -> String {
    format!("{value:e}")
}

/// Thousands of four digits parted, too.
fn parted(text: &str) -> String {
    let digits = text.trim_start_matches('-').split('.').next().unwrap_or_default();
    match digits.len() == 4 && digits.is_ascii() {
        true => text.replacen(digits, &format!("{}\u{202f}{}", &digits[..1], &digits[1..]), 1),
        false => text.to_owned(),
    }
}

/// Fixed decimals with a narrow space between thousands; never `-0`.
fn decimal(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) if digits.bytes().any(|b| b.is_ascii_digit() && b != b'0') => ("-", digits),
        Some(digits) => ("", digits),
        None => ("", text.as_str()),
    };
    match digits.split_once('.') {
        Some((whole, fraction)) => format!("{sign}{}.{fraction}", grouped(whole)),
        None => format!("{sign}{}", grouped(digits)),
    }
}

fn days(count: i64) -> String {
    if count == 1 { "1 day".to_owned() } else { format!("{} days", integer(count)) }
}

fn integer(value: i64) -> String {
    let digits = grouped(&value.unsigned_abs().to_string());
    if value < 0 { format!("-{digits}") } else { digits }
}

/// Groups of three from 5 digits on, parted by a narrow no-break space: no reader takes it for a decimal mark.
fn grouped(digits: &str) -> String {
    if digits.len() < 5 {
        return digits.to_owned();
    }
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 * 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_one_notation() {
        assert_eq!(Format::parse("number(2)"), Some(Format::Number(Some(2))));
        assert_eq!(Format::parse("percent"), Some(Format::Percent(1)));
        for bad in ["", "text(1)", "number(", "number(x)", "number(99)", "Date", "days()"] {
            assert_eq!(Format::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn no_data_is_never_a_figure() {
        for format in [Format::Integer, Format::Percent(1), Format::Days, Format::Text, Format::Number(Some(2))] {
            assert_eq!(format.show(&Cell::Null), NO_DATA);
            assert_eq!(format.show(&Cell::Num(f64::NAN)), NO_DATA);
        }
    }

    #[test]
    fn figures_of_one_axis_are_written_alike() {
        let shown = |values: &[f64]| alike(values).join(" ");
        assert_eq!(shown(&[0.0, 0.5, 1.0, 1.5]), "0.0 0.5 1.0 1.5");
        assert_eq!(shown(&[0.0, 0.1 + 0.2, 0.6]), "0.0 0.3 0.6");
        assert_eq!(shown(&[-2.0, 0.0, 2.0]), "-2 0 2");
        assert_eq!(shown(&[0.0, 5000.0, 10000.0]), "0 5\u{202f}000 10\u{202f}000");
        assert_eq!(shown(&[0.0, 500.0, 1000.0]), "0 500 1000");
        assert_eq!(shown(&[0.0, 2e-5, 2e-5 + 2e-5 + 2e-5]), "0e0 2e-5 6e-5");
        assert_eq!(shown(&[0.0, 1e15, 2e15]), "0e0 1e15 2e15");
        assert_eq!(shown(&[0.0, 0.002, 0.004]), "0.000 0.002 0.004");
        assert_eq!(shown(&[0.0]), "0");
    }

    #[test]
    fn figures_read_as_written() {
        let shown = |format: Format, value: f64| format.show(&Cell::Num(value));
        assert_eq!(shown(Format::Percent(1), 81.0 / 101.0), "80.2 %");
        assert_eq!(shown(Format::Number(Some(2)), -0.001), "0.00");
        assert_eq!(shown(Format::Number(None), 2.5), "2.5");
        assert_eq!(shown(Format::Number(None), 1e-7), "1e-7");
        assert_eq!(shown(Format::Integer, 100.0), "100");
        assert_eq!(
            Format::Integer.show(&Cell::Int(i64::MIN)),
            "-9\u{202f}223\u{202f}372\u{202f}036\u{202f}854\u{202f}775\u{202f}808"
        );
        assert_eq!(Format::Integer.show(&Cell::Int(1234)), "1234");
        assert_eq!(Format::Days.show(&Cell::Int(-1)), "-1 days");
        let due = [-380, -1, 0, 1, i64::MIN].map(|left| Format::Due.show(&Cell::Int(left)));
        assert_eq!(due[..4], ["380 days overdue", "1 day overdue", "today", "in 1 day"]);
        assert_eq!(Format::Status.show(&Cell::Text("due_today".to_owned())), "due today");
    }
}
