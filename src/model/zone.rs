//! A time zone of the IANA database, for chrono's dates and times.
//!
//! The database is in the program: dates fall due at the same instant on every machine. It is [`jiff`]'s, which is one block of
//! bytes of which only the zone in use is read. A table of Rust values, tens of thousands of them with an address each, is a large part
//! of a function's cold start.

use std::fmt;

use chrono::{Datelike as _, FixedOffset, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, Timelike as _};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

/// What the database calls a zone that nobody knows: it is none.
const UNKNOWN: &str = "Etc/Unknown";

/// A zone by its name. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// The zone of that name, whatever its case; `None` where the database has none.
    pub fn named(name: &str) -> Option<Zone> {
        let zone = TimeZoneDatabase::bundled().get(name).ok()?;
        let is_known = zone.iana_name().is_some_and(|name| name != UNKNOWN);
        is_known.then_some(Zone(zone))
    }

    /// The names of all zones.
    pub fn names() -> Vec<String> {
        let names = TimeZoneDatabase::bundled().available().map(|name| name.as_str().to_owned()).collect::<Vec<_>>();
        names.into_iter().filter(|name| name != UNKNOWN).collect()
    }

    /// For example `Europe/Berlin`, in the database's own case.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    fn with(&self, offset: Offset) -> ZoneOffset {
        // Both libraries' offsets are below 26 hours, which chrono takes up to 24 of; no zone has had 16.
        let offset = FixedOffset::east_opt(offset.seconds()).unwrap_or_else(|| chrono::Offset::fix(&chrono::Utc));
        ZoneOffset { zone: self.clone(), offset }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How far a zone is from UTC at some instant.
#[derive(Clone, PartialEq, Eq)]
pub struct ZoneOffset {
    zone: Zone,
    offset: FixedOffset,
}

impl chrono::Offset for ZoneOffset {
    fn fix(&self) -> FixedOffset {
        self.offset
    }
}

impl fmt::Display for ZoneOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.offset.fmt(f)
    }
}

impl fmt::Debug for ZoneOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.offset.fmt(f)
    }
}

impl chrono::TimeZone for Zone {
    type Offset = ZoneOffset;

    fn from_offset(offset: &ZoneOffset) -> Zone {
        offset.zone.clone()
    }

    fn offset_from_local_date(&self, local: &NaiveDate) -> MappedLocalTime<ZoneOffset> {
        self.offset_from_local_datetime(&local.and_time(NaiveTime::MIN))
    }

    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> MappedLocalTime<ZoneOffset> {
        match self.0.to_ambiguous_timestamp(civil(local)).offset() {
            AmbiguousOffset::Unambiguous { offset } => MappedLocalTime::Single(self.with(offset)),
            AmbiguousOffset::Gap { .. } => MappedLocalTime::None,
            AmbiguousOffset::Fold { before, after } => MappedLocalTime::Ambiguous(self.with(before), self.with(after)),
        }
    }

    fn offset_from_utc_date(&self, utc: &NaiveDate) -> ZoneOffset {
        self.offset_from_utc_datetime(&utc.and_time(NaiveTime::MIN))
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> ZoneOffset {
        let seconds = utc.and_utc().timestamp();
        let seconds = seconds.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
        self.with(self.0.to_offset(Timestamp::from_second(seconds).unwrap_or_default()))
    }
}

/// The same time as `jiff` has it. Beyond its calendar, the years -9999 to 9999, its last day stands for all others.
fn civil(local: &NaiveDateTime) -> DateTime {
    let beyond = if local.year() < 0 { DateTime::MIN } else { DateTime::MAX };
    let small = |number: u32| i8::try_from(number).ok();
    let whole = || {
        let year = i16::try_from(local.year()).ok()?;
        let nanosecond = i32::try_from(local.nanosecond() % 1_000_000_000).ok()?;
        let [month, day] = [small(local.month())?, small(local.day())?];
        let [hour, minute, second] = [small(local.hour())?, small(local.minute())?, small(local.second())?];
        DateTime::new(year, month, day, hour, minute, second, nanosecond).ok()
    };
    whole().unwrap_or(beyond)
}

/// A zone that is there, for tests.
#[cfg(test)]
pub(crate) fn zone(name: &str) -> Zone {
    Zone::named(name).unwrap_or_else(|| panic!("there is `{name}`"))
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeZone as _, Utc};

    use super::*;

    #[test]
    fn names_are_found_whatever_their_case_and_spelled_as_the_database_does() {
        assert_eq!(zone("europe/berlin").name(), "Europe/Berlin");
        assert_eq!(zone("UTC"), Zone::UTC);
        assert_eq!(Zone::UTC.name(), "UTC");
        for name in ["", "Berlin", "Etc/Unknown", "../UTC", "Europe/Berlin ", "+02:00"] {
            assert_eq!(Zone::named(name), None, "{name}");
        }
        let names = Zone::names();
        assert!(names.len() > 500 && names.iter().all(|name| Zone::named(name).is_some()));
    }

    #[test]
    fn what_the_calendar_cannot_hold_does_not_panic() {
        for name in ["UTC", "Europe/Berlin", "Pacific/Apia", "America/St_Johns"] {
            let zone = zone(name);
            for at in [NaiveDateTime::MIN, NaiveDateTime::MAX] {
                let _ = zone.offset_from_utc_datetime(&at);
                let _ = zone.offset_from_local_datetime(&at);
            }
        }
    }

    #[test]
    fn an_instant_has_the_time_of_its_zone_far_ahead_too() {
        let shown = |text: &str, name: &str| {
            let at: DateTime<Utc> = text.parse().expect("an instant");
            at.with_timezone(&zone(name)).to_string()
        };
        assert_eq!(shown("2026-07-01T12:00:00Z", "Europe/Berlin"), "2026-07-01 14:00:00 +02:00");
        assert_eq!(shown("2126-07-01T12:00:00Z", "Europe/Berlin"), "2126-07-01 14:00:00 +02:00");
        assert_eq!(shown("2026-01-01T12:00:00Z", "Asia/Kathmandu"), "2026-01-01 17:45:00 +05:45");
    }
}
