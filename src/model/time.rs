//! Dates and times as items hold them, and the instants at which they expire.
//!
//! An item's date has no time and no zone; an alert needs an instant. A date is valid through the end of that civil day
//! in the site's zone, so its instant is the exclusive start of the next civil day there, whatever the clocks do that
//! night. Only ISO 8601 is read: anything else is a [`TimeError`], never a guess.

use chrono::{
    DateTime, Duration, FixedOffset, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, SecondsFormat, TimeZone, Utc,
};

use super::spec::Format;
use super::value::Value;
use super::zone::Zone;

/// From here on an "epoch second" is milliseconds, of 1990 or later. As seconds it would be the year 21970; 9999-12-31, which is
/// written for "never", is below.
const EPOCH_MILLISECONDS_FROM: i128 = 631_152_000_000;
/// From here on it is microseconds.
const EPOCH_MICROSECONDS_FROM: i128 = 100_000_000_000_000;

/// Why a value is not a time in the wanted format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// It does not look like the format at all.
    #[error("{shown} is not {expected}")]
    Format { shown: String, expected: &'static str },
    /// It looks like the format, yet there is no such day or time.
    #[error("{shown} is impossible: {reason}")]
    Impossible { shown: String, reason: &'static str },
    /// A finer unit where seconds since 1970 are wanted.
    #[error("{shown} is in {unit}; in seconds it is {seconds}")]
    NotSeconds { shown: String, unit: &'static str, seconds: i64 },
    /// Text where a number of seconds is wanted; `seconds` where the text tells them.
    #[error("{shown} is text; seconds since 1970 are a number")]
    NotANumber { shown: String, seconds: Option<i64> },
}

/// What a date looks like.
pub const DATE_FORM: &str = "a date YYYY-MM-DD";
/// What a timestamp looks like.
pub const TIMESTAMP_FORM: &str = "an ISO 8601 time with `Z` or an offset, YYYY-MM-DDThh:mm:ssZ";
/// What a timestamp in UTC looks like.
pub const TIMESTAMP_UTC_FORM: &str = "an ISO 8601 time in UTC written with `Z`, YYYY-MM-DDThh:mm:ssZ";
/// The same with 0 to 9 fraction digits.
const TIMESTAMP_UTC_FIXED_FORMS: [&str; 10] = [
    "a UTC time YYYY-MM-DDThh:mm:ssZ without fraction",
    "a UTC time YYYY-MM-DDThh:mm:ss.fZ with 1 fraction digit",
    "a UTC time YYYY-MM-DDThh:mm:ss.ffZ with 2 fraction digits",
    "a UTC time YYYY-MM-DDThh:mm:ss.fffZ with 3 fraction digits",
    "a UTC time YYYY-MM-DDThh:mm:ss.ffffZ with 4 fraction digits",
    "a UTC time YYYY-MM-DDThh:mm:ss.fffffZ with 5 fraction digits",
    "a UTC time YYYY-MM-DDThh:mm:ss.ffffffZ with 6 fraction digits",
    "a UTC time YYYY-MM-DDThh:mm:ss.fffffffZ with 7 fraction digits",
    "a UTC time YYYY-MM-DDThh:mm:ss.ffffffffZ with 8 fraction digits",
    "a UTC time YYYY-MM-DDThh:mm:ss.fffffffffZ with 9 fraction digits",
];
/// What an epoch looks like.
pub const EPOCH_FORM: &str = "whole seconds since 1970 as a number";

/// Strictly `YYYY-MM-DD`, and a day that exists.
pub fn parse_date(text: &str) -> Result<NaiveDate, TimeError> {
    let bytes = text.as_bytes();
    let fields = if bytes.len() == 10 && bytes[4] == b'-' && bytes[7] == b'-' {
        digits(text, 0, 4).zip(digits(text, 5, 7)).zip(digits(text, 8, 10))
    } else {
        None
    };
    let Some(((year, month), day)) = fields else {
        return Err(format_error(text, DATE_FORM));
    };
    NaiveDate::from_ymd_opt(year as i32, month, day)
        .ok_or_else(|| TimeError::Impossible { shown: shown(text), reason: "there is no such day" })
}

/// ISO 8601 `YYYY-MM-DDThh:mm[:ss[.f…]]` followed by `Z`, `±hh`, `±hhmm` or `±hh:mm`; any number of fraction digits, those
/// beyond nanoseconds are dropped.
pub fn parse_timestamp(text: &str) -> Result<DateTime<Utc>, TimeError> {
    let malformed = || format_error(text, TIMESTAMP_FORM);
    if !text.is_ascii() || text.len() < 17 || text.as_bytes()[10] != b'T' {
        return Err(malformed());
    }
    let date = parse_date(&text[..10]).map_err(|error| match error {
        TimeError::Impossible { reason, .. } => TimeError::Impossible { shown: shown(text), reason },
        _ => malformed(),
    })?;
    let at = text[11..].find(['Z', '+', '-']).map(|at| at + 11).ok_or_else(malformed)?;
    let (time, zone) = (&text[11..at], &text[at..]);
    let impossible = |reason| TimeError::Impossible { shown: shown(text), reason };
    let (hour, minute, second, nanos) = clock_fields(time).ok_or_else(malformed)?;
    let time = NaiveTime::from_hms_nano_opt(hour, minute, second, nanos)
        .ok_or_else(|| impossible("there is no such time of day"))?;
    let offset = offset_seconds(zone).ok_or_else(malformed)?;
    let offset = FixedOffset::east_opt(offset).ok_or_else(|| impossible("an offset is less than 24 hours"))?;
    let local = NaiveDateTime::new(date, time);
    // No offset moves a four-digit year out of chrono's range, so there is exactly one such instant.
    offset.from_local_datetime(&local).single().map(|at| at.to_utc()).ok_or_else(malformed)
}

/// Whether a value has the declared format.
pub fn check(value: &Value, format: Format) -> Result<(), TimeError> {
    match (format, value) {
        (Format::Date, Value::S(text)) => parse_date(text).map(|_| ()),
        (Format::Timestamp, Value::S(text)) => parse_timestamp(text).map(|_| ()),
        (Format::TimestampUtc, Value::S(text)) => match parse_timestamp(text) {
            Ok(_) if text.ends_with('Z') => Ok(()),
            Err(error @ TimeError::Impossible { .. }) => Err(error),
            _ => Err(format_error(text, TIMESTAMP_UTC_FORM)),
        },
        (Format::TimestampUtcFixed(digits), Value::S(text)) => match parse_timestamp(text) {
            Ok(_) if text.len() == fixed_width(digits) && text.ends_with('Z') => Ok(()),
            Err(error @ TimeError::Impossible { .. }) => Err(error),
            _ => Err(format_error(text, fixed_form(digits))),
        },
        (Format::EpochSeconds, value) => epoch_seconds(value).map(|_| ()),
        (Format::Date, other) => Err(TimeError::Format { shown: other.shown(), expected: DATE_FORM }),
        (Format::Timestamp, other) => Err(TimeError::Format { shown: other.shown(), expected: TIMESTAMP_FORM }),
        (Format::TimestampUtc, other) => Err(TimeError::Format { shown: other.shown(), expected: TIMESTAMP_UTC_FORM }),
        (Format::TimestampUtcFixed(digits), other) => {
            Err(TimeError::Format { shown: other.shown(), expected: fixed_form(digits) })
        }
    }
}

/// The format of a time in UTC with so many fraction digits: `timestamp-utc.3`.
pub fn fixed_format(text: &str) -> Option<Format> {
    let digits = text.strip_prefix("timestamp-utc.")?;
    let digit = digits.parse().ok().filter(|digits| *digits <= 9)?;
    (digits.len() == 1).then_some(Format::TimestampUtcFixed(digit))
}

/// The formats that a key's variable may have: those whose texts have one width, and so sort as days and times do.
pub fn key_format(text: &str) -> Option<Format> {
    match text {
        "date" => Some(Format::Date),
        "timestamp-utc" => Some(Format::TimestampUtcFixed(0)),
        _ => fixed_format(text),
    }
}

/// The same instant in a format of UTC, where the text is a time with `Z` or an offset; digits beyond the format's are dropped.
pub fn rewritten(text: &str, format: Format) -> Option<String> {
    let at = parse_timestamp(text).ok()?;
    let seconds = at.format("%Y-%m-%dT%H:%M:%S");
    match format {
        Format::TimestampUtc => Some(at.to_rfc3339_opts(SecondsFormat::AutoSi, true)),
        Format::TimestampUtcFixed(0) => Some(format!("{seconds}Z")),
        Format::TimestampUtcFixed(digits) => {
            let nanos = format!("{:09}", at.timestamp_subsec_nanos());
            Some(format!("{seconds}.{}Z", nanos.get(..usize::from(digits))?))
        }
        Format::Date | Format::Timestamp | Format::EpochSeconds => None,
    }
}

/// The day in UTC of so many seconds since 1970, `1970-08-23`.
pub fn day_of_epoch(seconds: i64) -> Option<String> {
    DateTime::from_timestamp(seconds, 0).map(|at| at.date_naive().to_string())
}

fn fixed_form(digits: u8) -> &'static str {
    TIMESTAMP_UTC_FIXED_FORMS.get(usize::from(digits)).copied().unwrap_or(TIMESTAMP_UTC_FORM)
}

/// Bytes of `2026-03-01T10:00:00Z` with so many fraction digits.
fn fixed_width(digits: u8) -> usize {
    match digits {
        0 => 20,
        digits => 21 + usize::from(digits),
    }
}

/// Seconds since 1970. Milliseconds, microseconds and text are errors that name the seconds which were meant.
pub fn epoch_seconds(value: &Value) -> Result<i64, TimeError> {
    match value {
        Value::N(number) if number.is_integer() => {
            let plain = number.to_plain();
            let malformed = || TimeError::Format { shown: value.shown(), expected: EPOCH_FORM };
            let number: i128 = plain.parse().map_err(|_| malformed())?;
            let (unit, divisor) = match number {
                n if n >= EPOCH_MICROSECONDS_FROM => ("microseconds", 1_000_000),
                n if n >= EPOCH_MILLISECONDS_FROM => ("milliseconds", 1_000),
                _ => return i64::try_from(number).map_err(|_| malformed()),
            };
            let seconds = i64::try_from(number / divisor).map_err(|_| malformed())?;
            Err(TimeError::NotSeconds { shown: value.shown(), unit, seconds })
        }
        Value::S(text) => {
            let number = text.parse().ok().map(Value::N);
            let seconds = match number.as_ref().map(epoch_seconds) {
                Some(Ok(seconds) | Err(TimeError::NotSeconds { seconds, .. })) => Some(seconds),
                Some(Err(_)) => None,
                None => parse_timestamp(text).ok().map(|at| at.timestamp()),
            };
            Err(TimeError::NotANumber { shown: value.shown(), seconds })
        }
        other => Err(TimeError::Format { shown: other.shown(), expected: EPOCH_FORM }),
    }
}

/// The exclusive instant at which a value expires: a date at the end of that civil day in `zone`, a timestamp and an epoch
/// exactly then. Text is read as a date or a timestamp, whichever it is; a number only under [`Format::EpochSeconds`].
pub fn expires_at(value: &Value, format: Option<Format>, zone: &Zone) -> Result<DateTime<Utc>, TimeError> {
    if format == Some(Format::EpochSeconds) {
        let seconds = epoch_seconds(value)?;
        return DateTime::from_timestamp(seconds, 0)
            .ok_or_else(|| TimeError::Impossible { shown: value.shown(), reason: "it is beyond all calendars" });
    }
    match value {
        Value::S(text) if text.contains('T') => parse_timestamp(text),
        Value::S(text) => Ok(day_end(parse_date(text)?, zone)),
        other => Err(TimeError::Format { shown: other.shown(), expected: DATE_FORM }),
    }
}

/// The exclusive end of a civil day in `zone`: the first instant of the next one.
pub fn day_end(day: NaiveDate, zone: &Zone) -> DateTime<Utc> {
    let next = day.succ_opt().unwrap_or(day);
    let midnight = next.and_time(NaiveTime::MIN);
    match zone.from_local_datetime(&midnight) {
        LocalResult::Single(at) => at.to_utc(),
        // The clocks go back over midnight: the day begins the first time.
        LocalResult::Ambiguous(first, _) => first.to_utc(),
        LocalResult::None => first_instant_of(next, midnight, zone),
    }
}

/// Where the clocks skip midnight (or a whole day), the day begins at the transition: found by halving.
fn first_instant_of(day: NaiveDate, midnight: NaiveDateTime, zone: &Zone) -> DateTime<Utc> {
    // Offsets and gaps are below 26 hours, so the transition is within two days of midnight read as UTC.
    let (mut before, mut after) = (midnight.and_utc() - Duration::days(2), midnight.and_utc() + Duration::days(2));
    while after - before > Duration::seconds(1) {
        let middle = before + (after - before) / 2;
        // Whole seconds, so that the result is one.
        let middle = DateTime::from_timestamp(middle.timestamp(), 0).unwrap_or(middle);
        let middle = if middle <= before { before + Duration::seconds(1) } else { middle };
        if middle.with_timezone(zone).date_naive() >= day { after = middle } else { before = middle }
    }
    after
}

/// Civil days of `zone` from `as_of` to the last day on which something with the exclusive end `due` is valid: 0 on that
/// day itself, negative after it. A date 2026-12-31 is 31 days off on 2026-11-30.
pub fn days_until(due: DateTime<Utc>, as_of: DateTime<Utc>, zone: &Zone) -> i64 {
    days_until_from_day(due, as_of.with_timezone(zone).date_naive(), zone)
}

/// The same, as of a civil day of `zone`.
pub fn days_until_from_day(due: DateTime<Utc>, as_of: NaiveDate, zone: &Zone) -> i64 {
    let last = due.checked_sub_signed(Duration::nanoseconds(1)).unwrap_or(due);
    (last.with_timezone(zone).date_naive() - as_of).num_days()
}

/// `hh:mm`, `hh:mm:ss` or `hh:mm:ss.f…` as numbers.
fn clock_fields(text: &str) -> Option<(u32, u32, u32, u32)> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text, None),
    };
    let bytes = whole.as_bytes();
    let seconds_given = bytes.len() == 8 && bytes[5] == b':';
    let shaped = bytes.get(2) == Some(&b':') && (seconds_given || (bytes.len() == 5 && fraction.is_none()));
    if !shaped {
        return None;
    }
    let second = if seconds_given { digits(whole, 6, 8)? } else { 0 };
    let nanos = match fraction {
        None => 0,
        Some(fraction) if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) => return None,
        Some(fraction) => format!("{:0<9}", &fraction[..fraction.len().min(9)]).parse().ok()?,
    };
    Some((digits(whole, 0, 2)?, digits(whole, 3, 5)?, second, nanos))
}

/// `Z`, `±hh`, `±hhmm` or `±hh:mm` in seconds east of UTC.
fn offset_seconds(text: &str) -> Option<i32> {
    if text == "Z" {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let rest = &text[1..];
    let (hours, minutes) = match rest.len() {
        2 => (digits(rest, 0, 2)?, 0),
        4 => (digits(rest, 0, 2)?, digits(rest, 2, 4)?),
        5 if rest.as_bytes()[2] == b':' => (digits(rest, 0, 2)?, digits(rest, 3, 5)?),
        _ => return None,
    };
    (minutes < 60).then_some(sign * (hours * 3600 + minutes * 60) as i32)
}

/// A field of ASCII digits as a number.
fn digits(text: &str, from: usize, to: usize) -> Option<u32> {
    let field = text.get(from..to)?;
    if field.bytes().all(|b| b.is_ascii_digit()) { field.parse().ok() } else { None }
}

fn format_error(text: &str, expected: &'static str) -> TimeError {
    TimeError::Format { shown: shown(text), expected }
}

fn shown(text: &str) -> String {
    Value::text(text).shown()
}

/// An instant as rows hold it: RFC 3339 in UTC with milliseconds, which sorts as text.
pub fn timestamp(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// The instant that a row holds; `None` for any other text.
pub fn instant(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| at.to_utc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::zone::zone;
    use proptest::prelude::*;

    fn at(text: &str) -> DateTime<Utc> {
        parse_timestamp(text).unwrap()
    }

    fn due(text: &str, zone: &Zone) -> String {
        expires_at(&Value::text(text), None, zone).unwrap().to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
    }

    #[test]
    fn a_date_ends_with_its_civil_day() {
        assert_eq!(due("2026-03-29", &zone("Europe/Berlin")), "2026-03-29T22:00:00Z");
        assert_eq!(due("2026-10-25", &zone("Europe/Berlin")), "2026-10-25T23:00:00Z");
        assert_eq!(due("2026-12-31", &Zone::UTC), "2027-01-01T00:00:00Z");
        assert_eq!(due("2025-11-15", &zone("America/New_York")), "2025-11-16T05:00:00Z");
    }

    #[test]
    fn a_midnight_that_the_clocks_skip_or_repeat_is_found() {
        // Skipped: 2018-11-04 begins at 01:00.
        assert_eq!(due("2018-11-03", &zone("America/Sao_Paulo")), "2018-11-04T03:00:00Z");
        // A whole civil day skipped: after 2011-12-29 comes 2011-12-31.
        assert_eq!(due("2011-12-29", &zone("Pacific/Apia")), "2011-12-30T10:00:00Z");
        // Repeated: 00:00 to 01:00 comes twice, the day begins the first time.
        assert_eq!(due("2026-10-31", &zone("America/Havana")), "2026-11-01T04:00:00Z");
        assert_eq!(due("2026-10-24", &zone("Atlantic/Azores")), "2026-10-25T00:00:00Z");
    }

    #[test]
    fn timestamps_are_exact_whatever_their_offset_and_fraction() {
        assert_eq!(due("2026-03-01T10:00:00+02:00", &Zone::UTC), "2026-03-01T08:00:00Z");
        assert_eq!(due("2026-03-01T10:00:00.017-0530", &Zone::UTC), "2026-03-01T15:30:00.017Z");
        assert_eq!(at("2026-03-01T10:00Z"), at("2026-03-01T12:00:00.000000000000+02"));
        assert_eq!(at("2026-03-01T10:00:00.1Z").timestamp_subsec_millis(), 100);
    }

    #[test]
    fn impossible_is_told_apart_from_malformed() {
        for text in ["2026-02-30", "2026-13-01", "2026-00-10", "2025-02-29", "2026-02-30T10:00:00Z"] {
            let error = expires_at(&Value::text(text), None, &Zone::UTC).unwrap_err();
            assert!(matches!(error, TimeError::Impossible { .. }), "{text}: {error}");
        }
        let impossible = parse_timestamp("2026-02-03T25:00:00Z").unwrap_err();
        assert!(matches!(impossible, TimeError::Impossible { .. }));
        for text in [
            "",
            "31.12.2026",
            "2026-1-1",
            "2026-12-31 10:00",
            "20261231",
            "2026-12-31T10:00:00",
            "+2026-1-01",
            "2026-12-31T10Z",
        ] {
            let error = expires_at(&Value::text(text), None, &Zone::UTC).unwrap_err();
            assert!(matches!(error, TimeError::Format { .. }), "{text}: {error}");
        }
        assert!(matches!(parse_timestamp("2026-12-31T10:00:00+"), Err(TimeError::Format { .. })));
        assert!(matches!(parse_timestamp("2026-12-31T10:00:00.Z"), Err(TimeError::Format { .. })));
    }

    #[test]
    fn utc_is_written_with_z() {
        let check_text = |text: &str, format| check(&Value::text(text), format);
        assert!(check_text("2026-03-01T10:00:00Z", Format::TimestampUtc).is_ok());
        assert!(check_text("2026-03-01T10:00:00+00:00", Format::TimestampUtc).is_err());
        assert!(check_text("2026-03-01T10:00:00+00:00", Format::Timestamp).is_ok());
        assert!(check_text("2026-03-01T10:00:00Z", Format::Date).is_err());
    }

    #[test]
    fn a_fixed_fraction_is_part_of_the_format() {
        let fits = |text: &str, digits| check(&Value::text(text), Format::TimestampUtcFixed(digits)).is_ok();
        assert!(fits("2026-03-01T10:00:29Z", 0) && fits("2026-03-01T10:00:29.017Z", 3));
        for text in
            ["2026-03-01T10:00:29Z", "2026-03-01T10:00:29.01Z", "2026-03-01T10:00:29.017+00", "2026-03-01T10:00Z"]
        {
            assert!(!fits(text, 3), "{text}");
        }
        assert!(!fits("2026-03-01T10:00:29.017Z", 0));
        let impossible = check(&Value::text("2026-02-30T10:00:00Z"), Format::TimestampUtcFixed(3));
        assert!(matches!(impossible, Err(TimeError::Impossible { .. })));
        let utc = |text: &str, digits| rewritten(text, Format::TimestampUtcFixed(digits));
        assert_eq!(utc("2026-03-01T10:00:00+02:00", 3).as_deref(), Some("2026-03-01T08:00:00.000Z"));
        assert_eq!(utc("2026-03-01T10:00:00.017Z", 0).as_deref(), Some("2026-03-01T10:00:00Z"));
        assert_eq!(utc("2026-03-01", 0), None);
        assert_eq!(
            (key_format("timestamp-utc.10"), key_format("timestamp-utc.+1"), key_format("timestamp")),
            (None, None, None)
        );
    }

    #[test]
    fn epochs_in_other_units_name_the_seconds() {
        let n = |text: &str| Value::N(text.parse().unwrap());
        assert_eq!(epoch_seconds(&n("1767225600")), Ok(1_767_225_600));
        assert!(matches!(
            epoch_seconds(&n("1767225600000")),
            Err(TimeError::NotSeconds { unit: "milliseconds", seconds: 1_767_225_600, .. })
        ));
        assert!(matches!(
            epoch_seconds(&n("1767225600000000")),
            Err(TimeError::NotSeconds { unit: "microseconds", seconds: 1_767_225_600, .. })
        ));
        assert!(matches!(
            epoch_seconds(&Value::text("1767225600")),
            Err(TimeError::NotANumber { seconds: Some(1_767_225_600), .. })
        ));
        assert!(matches!(
            epoch_seconds(&Value::text("2026-01-01T00:00:00Z")),
            Err(TimeError::NotANumber { seconds: Some(1_767_225_600), .. })
        ));
        assert_eq!(epoch_seconds(&n("253402300799")), Ok(253_402_300_799), "the end of 9999");
        assert!(matches!(epoch_seconds(&n("1.5")), Err(TimeError::Format { .. })));
        assert!(matches!(epoch_seconds(&n("-1e100")), Err(TimeError::Format { .. })));
    }

    #[test]
    fn days_are_civil_days_of_the_zone() {
        let due = expires_at(&Value::text("2026-12-31"), None, &zone("Europe/Berlin")).unwrap();
        assert_eq!(days_until(due, at("2026-11-30T08:00:00Z"), &zone("Europe/Berlin")), 31);
        assert_eq!(days_until(due, at("2026-12-31T22:59:59Z"), &zone("Europe/Berlin")), 0);
        assert_eq!(days_until(due, at("2026-12-31T23:00:00Z"), &zone("Europe/Berlin")), -1);
        // 23:30 UTC on the 29th is already the 30th in Berlin.
        assert_eq!(days_until(due, at("2026-11-29T23:30:00Z"), &zone("Europe/Berlin")), 31);
    }

    proptest! {
        #[test]
        fn a_day_ends_after_it_begins_and_before_the_next_ends(days in 0i64..80_000, name in proptest::sample::select(Zone::names())) {
            let zone = &zone(&name);
            let day = NaiveDate::from_ymd_opt(1970, 1, 2).unwrap() + Duration::days(days);
            let end = day_end(day, zone);
            let last = (end - Duration::seconds(1)).with_timezone(zone).date_naive();
            prop_assert!(last <= day, "{zone} {day} {end}");
            prop_assert!(end.with_timezone(zone).date_naive() > day, "{zone} {day} {end}");
            prop_assert!(end <= day_end(day.succ_opt().unwrap(), zone));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            let _ = expires_at(&Value::text(text.clone()), None, &Zone::UTC);
            let _ = epoch_seconds(&Value::text(text));
        }

        #[test]
        fn any_text_like_a_time_is_read_or_refused(text in "[0-9TZ:.+-]{0,36}") {
            let _ = parse_date(&text);
            let _ = parse_timestamp(&text);
        }
    }
}
