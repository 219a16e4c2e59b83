//! Dates and times in another notation than declared, where only one day or instant can be meant.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use chrono::NaiveDate;

use crate::model::spec::Format;
use crate::model::time::{self, parse_date, parse_timestamp};

/// Years that digits are taken for.
const YEARS: RangeInclusive<u32> = 1900..=2200;

/// The text in the declared format; `None` where more than one time, or none, can be meant.
pub fn rewritten(text: &str, format: Format) -> Option<String> {
    let text = text.trim();
    match format {
        Format::Date => date(text),
        Format::Timestamp => with_separators(text).filter(|text| parse_timestamp(text).is_ok()),
        Format::TimestampUtc => utc(&with_separators(text)?),
        Format::TimestampUtcFixed(_) => {
            let text = with_separators(text)?;
            // Dropped digits would make it another instant.
            time::rewritten(&text, format).filter(|written| parse_timestamp(written) == parse_timestamp(&text))
        }
        Format::EpochSeconds => None,
    }
}

/// Year first or last, by `-`, `/`, `.` or nothing at all: `31.12.2026` has one reading, `03/04/2026` has two.
fn date(text: &str) -> Option<String> {
    let is_number = |field: &&str| field.bytes().all(|byte| byte.is_ascii_digit());
    let separator = ['-', '/', '.'].into_iter().find(|separator| text.contains(*separator));
    let readings: Vec<[&str; 3]> = match separator {
        Some(separator) => {
            let fields: Vec<&str> = text.split(separator).collect();
            let [a, b, c] = fields[..] else { return None };
            match [a.len(), b.len(), c.len()] {
                [4, 1..=2, 1..=2] => vec![[a, b, c]],
                [1..=2, 1..=2, 4] => vec![[c, a, b], [c, b, a]],
                _ => return None,
            }
        }
        None if text.len() == 8 && text.is_ascii() => {
            let (a, b, c, d) = (&text[..2], &text[2..4], &text[4..6], &text[6..]);
            vec![[&text[..4], c, d], [&text[4..], a, b], [&text[4..], b, a]]
        }
        None => return None,
    };
    let day = |fields: &[&str; 3]| {
        let [year, month, day] = fields.map(|field| Some(field).filter(is_number)?.parse::<u32>().ok());
        let year = year.filter(|year| YEARS.contains(year))?;
        NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month?, day?)
    };
    let days: BTreeSet<NaiveDate> = readings.iter().filter_map(day).collect();
    let written = days.first().filter(|_| days.len() == 1)?.format("%Y-%m-%d").to_string();
    parse_date(&written).ok().map(|_| written)
}

/// With `T` for a blank between day and time, no blank before the offset, and capitals.
fn with_separators(text: &str) -> Option<String> {
    let upper = text.to_ascii_uppercase();
    let (day, time) = upper.split_at_checked(10)?;
    let time = time.strip_prefix(['T', ' '])?;
    Some(format!("{day}T{}", time.replacen(' ', "", 1)))
}

/// The same instant with `Z`, with the digits of its fraction.
fn utc(text: &str) -> Option<String> {
    let at = parse_timestamp(text).ok()?;
    if text.ends_with('Z') {
        return Some(text.to_owned());
    }
    let fraction: String = match text.split_once('.') {
        Some((_, rest)) => ".".chars().chain(rest.chars().take_while(char::is_ascii_digit)).collect(),
        None => String::new(),
    };
    // Offsets are whole minutes, so they leave the fraction as it is.
    let written = format!("{}{fraction}Z", at.format("%Y-%m-%dT%H:%M:%S"));
    parse_timestamp(&written).ok().map(|_| written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_one_reading_is_rewritten() {
        for (text, expected) in [
            ("31.12.2026", Some("2026-12-31")),
            ("12/31/2026", Some("2026-12-31")),
            ("03/04/2026", None),
            ("04/04/2026", Some("2026-04-04")),
            ("2026/3/4", Some("2026-03-04")),
            (" 2026-03-04\t", Some("2026-03-04")),
            ("20261231", Some("2026-12-31")),
            ("31122026", Some("2026-12-31")),
            ("01022026", None),
            ("30.02.2026", None),
            ("2026-12-31T00:00:00Z", None),
            ("1.1.26", None),
            ("+1/+1/2026", None),
            ("tomorrow", None),
            ("é2026", None),
        ] {
            assert_eq!(rewritten(text, Format::Date).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn instants_stay_the_same() {
        for (text, expected) in [
            ("2026-03-01T10:00:00+02:00", Some("2026-03-01T08:00:00Z")),
            ("2026-03-01T00:30:00.1234567891+02", Some("2026-02-28T22:30:00.1234567891Z")),
            ("2026-03-01 10:00:00z", Some("2026-03-01T10:00:00Z")),
            ("2026-03-01 10:00:00 -0100", Some("2026-03-01T11:00:00Z")),
            ("2026-03-01T10:00:00", None),
            ("2026-03-01", None),
            ("0000-01-01T00:00:00+02:00", None),
        ] {
            assert_eq!(rewritten(text, Format::TimestampUtc).as_deref(), expected, "{text}");
        }
        let fixed = |text: &str| rewritten(text, Format::TimestampUtcFixed(3));
        assert_eq!(fixed("2026-03-01T10:00:00.5+02:00").as_deref(), Some("2026-03-01T08:00:00.500Z"));
        assert_eq!(fixed("2026-03-01T10:00:00.12345Z"), None);
        let with_offset = rewritten("2026-03-01 10:00:00+02:00", Format::Timestamp);
        assert_eq!(with_offset.as_deref(), Some("2026-03-01T10:00:00+02:00"));
    }
}
