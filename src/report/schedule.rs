//! When a report is printed by itself: five fields of cron, read in the time zone of the model.
//!
//! The problem: "Mondays at seven" is a time of the site's clock, which twice a year leaves an hour out or has it twice; who
//! reckons in UTC prints at the wrong hour half of the year, or a report of the wrong day. The contract, that of Vixie's cron:
//! - a time of day that the clock leaves out comes right after the gap, one that it has twice comes once;
//! - what runs every hour or minute runs as often as hours or minutes pass;
//! - where both day of month and weekday are given, either will do; 1 is Monday; `L` is the last day of the month.
//!
//! A **slot** is one instant at which a report is due.

use crate::model::zone::Zone;
use chrono::{DateTime, TimeDelta, Utc};
use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};

/// Most slots before the last one that are told one by one.
const EARLIER_MAX: usize = 1000;
/// How far back the last slot is looked for, in days, one after another: what comes each minute must not be counted from years
/// ago, what comes each leap day must be found at all.
const LOOK_BACK_DAYS: [i64; 4] = [2, 62, 800, 3700];

/// The fields, and what each takes.
const FIELDS: [(&str, &str); 5] = [
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of month", "1 to 31, `L` for the last"),
    ("month", "1 to 12 or JAN to DEC"),
    ("weekday", "1 (Monday) to 7, 0 for Sunday, too, or MON to SUN"),
];
const NICKNAMES: &str = "`@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly`";

/// A schedule that has slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(Cron);

/// What has come due since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The last slot.
    pub slot: DateTime<Utc>,
    /// Those before it, ascending; of very many the first thousand.
    pub earlier: Vec<DateTime<Utc>>,
}

impl Schedule {
    /// Reads an expression; it must have a slot at all.
    ///
    /// # Errors
    /// What is wrong with it, in a few words.
    pub fn parse(text: &str) -> Result<Schedule, String> {
        let fields = text.split_whitespace().count();
        if !text.trim_start().starts_with('@') && fields != 5 {
            return Err(format!("it has {fields} fields, not 5"));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let schedule = Schedule(parser.parse(text).map_err(|error| reason(&parser, text, error))?);
        match schedule.next(DateTime::UNIX_EPOCH, &Zone::UTC) {
            Some(_) => Ok(schedule),
            None => Err("there is no such day".to_owned()),
        }
    }

    /// The first slot after an instant; `None` beyond the calendar's end.
    pub fn next(&self, after: DateTime<Utc>, zone: &Zone) -> Option<DateTime<Utc>> {
        let next = self.0.find_next_occurrence(&after.with_timezone(zone), false).ok()?;
        Some(next.to_utc())
    }

    /// The slots after `after` until `until`, that one included; `None`: there are none.
    pub fn due(&self, after: DateTime<Utc>, until: DateTime<Utc>, zone: &Zone) -> Option<Due> {
        let slots = |from| {
            let next = move |slot: &DateTime<Utc>| self.next(*slot, zone);
            std::iter::successors(self.next(from, zone), next).take_while(|slot| *slot <= until)
        };
        let begins = LOOK_BACK_DAYS.iter().filter_map(|days| until.checked_sub_signed(TimeDelta::try_days(*days)?));
        let slot = begins.chain([after]).find_map(|begin| slots(begin.max(after)).last())?;
        Some(Due { slot, earlier: slots(after).take_while(|earlier| *earlier < slot).take(EARLIER_MAX).collect() })
    }
}

/// What is wrong with an expression. The library does not say where, so each field is read alone.
fn reason(parser: &CronParser, text: &str, error: CronError) -> String {
    let text = text.trim();
    if text.starts_with('@') {
        return format!("there is no `{text}`, only {NICKNAMES}");
    }
    let alone = |at: usize, field: &str| {
        let mut fields = ["*"; FIELDS.len()];
        fields[at] = field;
        parser.parse(&fields.join(" "))
    };
    let mut fields = text.split_whitespace().zip(FIELDS).enumerate();
    if let Some((_, (field, (name, range)))) = fields.find(|(at, (field, _))| alone(*at, field).is_err()) {
        return format!("its {name} is `{field}`; write {range}, `*`, or lists, ranges and steps of these");
    }
    // The library's words, without its own names.
    match error {
        CronError::EmptyPattern => "it is empty".to_owned(),
        CronError::InvalidPattern(said) | CronError::IllegalCharacters(said) | CronError::ComponentError(said) => said,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::zone::zone;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    /// Expression, zone, after, and the slots that follow, by the clock of the zone.
    const AROUND_CLOCK_CHANGES: [(&str, &str, &str, &[&str]); 11] = [
        (
            "30 2 * * *",
            "America/New_York",
            "2025-03-08T12:00:00Z",
            &["2025-03-09T03:00:00-04:00", "2025-03-10T02:30:00-04:00"],
        ),
        ("0 2 * * *", "America/New_York", "2025-03-09T06:30:00Z", &["2025-03-09T03:00:00-04:00"]),
        (
            "30 1 * * *",
            "America/New_York",
            "2025-11-01T12:00:00Z",
            &["2025-11-02T01:30:00-04:00", "2025-11-03T01:30:00-05:00"],
        ),
        (
            "0 * * * *",
            "America/New_York",
            "2025-11-02T04:30:00Z",
            &["2025-11-02T01:00:00-04:00", "2025-11-02T01:00:00-05:00", "2025-11-02T02:00:00-05:00"],
        ),
        (
            "0 7 * * *",
            "Europe/Berlin",
            "2026-03-28T04:00:00Z",
            &["2026-03-28T07:00:00+01:00", "2026-03-29T07:00:00+02:00"],
        ),
        (
            "0 7 31 * *",
            "Europe/Berlin",
            "2026-01-31T12:00:00Z",
            &["2026-03-31T07:00:00+02:00", "2026-05-31T07:00:00+02:00"],
        ),
        (
            "0 7 L * *",
            "Europe/Berlin",
            "2026-01-31T12:00:00Z",
            &["2026-02-28T07:00:00+01:00", "2026-03-31T07:00:00+02:00", "2026-04-30T07:00:00+02:00"],
        ),
        (
            "0 7 1 * 1",
            "Europe/Berlin",
            "2026-01-01T12:00:00Z",
            &["2026-01-05T07:00:00+01:00", "2026-01-12T07:00:00+01:00"],
        ),
        ("0 7 * * 1", "Europe/Berlin", "2026-01-01T12:00:00Z", &["2026-01-05T07:00:00+01:00"]),
        ("0 5 * * 1", "Asia/Shanghai", "2026-08-02T00:00:00Z", &["2026-08-03T05:00:00+08:00"]),
        // Midnight is what this clock leaves out.
        ("0 0 * * *", "America/Santiago", "2025-09-06T12:00:00Z", &["2025-09-07T01:00:00-03:00"]),
    ];

    #[test]
    fn slots_are_right_around_clock_changes() {
        for (text, name, after, expected) in AROUND_CLOCK_CHANGES {
            let (schedule, zone) = (Schedule::parse(text).unwrap(), &zone(name));
            let mut from = at(after);
            for slot in expected {
                from = schedule.next(from, zone).unwrap();
                assert_eq!(from.with_timezone(zone).to_rfc3339(), *slot, "{text} in {zone} after {after}");
            }
            let due = schedule.due(at(after), from, zone).unwrap();
            assert_eq!((due.slot, due.earlier.len()), (from, expected.len() - 1), "{text} in {zone}");
        }
    }

    #[test]
    fn the_last_slot_is_due_and_those_before_it_are_told() {
        let schedule = Schedule::parse("0 7 * * 1").unwrap();
        let due = |after: &str, until: &str| schedule.due(at(after), at(until), &Zone::UTC);
        assert_eq!(
            due("2026-01-05T07:00:00Z", "2026-01-12T06:59:59Z"),
            None,
            "the first bound is not in, no other has come"
        );
        let two = due("2026-01-05T06:59:59Z", "2026-01-12T07:00:00Z").unwrap();
        assert_eq!((two.slot, two.earlier), (at("2026-01-12T07:00:00Z"), vec![at("2026-01-05T07:00:00Z")]));
        assert_eq!(due("2026-01-12T00:00:00Z", "2026-01-05T00:00:00Z"), None, "a look from before the last one");
    }

    #[test]
    fn the_last_slot_is_found_after_any_time() {
        let due = |text: &str, after: &str| {
            let schedule = Schedule::parse(text).unwrap();
            schedule.due(at(after), at("2026-06-01T12:00:30Z"), &zone("Europe/Berlin")).unwrap()
        };
        let minutes = due("* * * * *", "2016-01-01T00:00:00Z");
        assert_eq!((minutes.slot, minutes.earlier.len()), (at("2026-06-01T12:00:00Z"), EARLIER_MAX));
        let leap = due("0 7 29 2 *", "2009-01-01T00:00:00Z");
        assert_eq!((leap.slot, leap.earlier.len()), (at("2024-02-29T06:00:00Z"), 3));
        assert_eq!(due("@weekly", "2026-05-20T00:00:00Z").slot, at("2026-05-30T22:00:00Z"), "Sunday's midnight");
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_a_reason() {
        for (text, said) in [
            ("", "0 fields"),
            ("0 7 * *", "4 fields"),
            ("0 0 7 * * 1", "6 fields"),
            ("0 7 30 2 *", "no such day"),
            ("60 7 * * *", "its minute is `60`; write 0 to 59"),
            ("0 25 * * *", "its hour is `25`; write 0 to 23"),
            ("0 7 0 * *", "its day of month is `0`; write 1 to 31"),
            ("0 7 * 13 *", "its month is `13`; write 1 to 12 or JAN"),
            ("0 7 * * MOO", "its weekday is `MOO`; write 1 (Monday) to 7"),
            ("0 7 * * 8", "its weekday is `8`"),
            ("0 7 5- * 8", "its day of month is `5-`"),
            ("@never", "there is no `@never`, only `@hourly`"),
        ] {
            let reason = Schedule::parse(text).unwrap_err();
            assert!(reason.contains(said), "`{text}`: {reason}");
        }
        for text in
            ["0 7 * * MON-FRI", "*/15 6-18 * * *", "0 7 L * *", "0 7 LW * *", "0 7 15W * *", "0 7 1,15 JAN-JUN *"]
        {
            assert!(Schedule::parse(text).is_ok(), "{text}");
        }
    }

    /// What reports/README.md says of names and numbers.
    #[test]
    fn several_ways_of_writing_are_one_schedule() {
        let next = |text: &str| Schedule::parse(text).unwrap().next(at("2026-06-01T12:00:00Z"), &Zone::UTC).unwrap();
        for (one, other, slot) in [
            ("0 7 * * 0", "0 7 * * 7", "2026-06-07T07:00:00Z"),
            ("0 7 * * 0", "0 7 * * sun", "2026-06-07T07:00:00Z"),
            ("0 7 * * 5#2", "0 7 * * FRI#2", "2026-06-12T07:00:00Z"),
            ("0 7 * * 5#L", "0 7 * * 5L", "2026-06-26T07:00:00Z"),
            ("0 0 * * 7", "@weekly", "2026-06-07T00:00:00Z"),
            ("0 0 1 JAN *", "@yearly", "2027-01-01T00:00:00Z"),
            ("0 0 1 * *", "@monthly", "2026-07-01T00:00:00Z"),
            ("0 0 * * *", "@daily", "2026-06-02T00:00:00Z"),
            ("0 * * * *", "@hourly", "2026-06-01T13:00:00Z"),
        ] {
            assert_eq!((next(one), next(other)), (at(slot), at(slot)), "{one} and {other}");
        }
    }
}
