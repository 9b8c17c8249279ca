//! Moments of the time of day.

use std::fmt;

use crate::table::{Cell, Kind, Value, number};

/// A moment in UTC, microseconds since 1970; leap seconds are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Utc(pub u64);

/// Year, month, day, and seconds of the day.
struct Civil(u64, u64, u64, u64);

impl Utc {
    /// From nanoseconds of Unix time.
    pub const fn from_nanos(realtime_ns: u64) -> Self {
        Self(realtime_ns / 1_000)
    }

    /// The date: `2026-11-22`.
    pub fn date(self) -> String {
        let Civil(year, month, day, _) = self.civil();
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// As a name of a file, to the millisecond, in the order of time: `20261122T130509.123Z`.
    pub fn name(self) -> String {
        let Civil(year, month, day, of_day) = self.civil();
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let millis = self.0 / 1_000 % 1_000;
        format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{millis:03}Z")
    }

    /// The beginning of a day as [`Utc::date`] writes it; `None` where it is no date from 1970 on.
    pub fn of_date(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '-').map(|part| part.parse::<u64>().ok());
        let [year, month, day] = [parts.next()??, parts.next()??, parts.next()??];
        if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) {
            return None;
        }
        // As in `civil`.
        let from_march = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let (era, of_era) = (from_march.0 / 400, from_march.0 % 400);
        let day_of_year = (153 * from_march.1 + 2) / 5 + day.checked_sub(1)?;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year;
        let found = Self(days.checked_sub(719_468)?.checked_mul(86_400_000_000)?);
        // The 30th of February is another day.
        (found.date() == text).then_some(found)
    }

    fn civil(self) -> Civil {
        let seconds = self.0 / 1_000_000;
        // Years that begin in March put the leap day last; 719,468 days lie between 0000-03-01 and
        // 1970-01-01.
        let days = seconds / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Civil(era * 400 + year_of_era + u64::from(month <= 2), month, day, seconds % 86_400)
    }
}

/// ISO 8601, to the microsecond.
impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil(year, month, day, of_day) = self.civil();
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let micros = self.0 % 1_000_000;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

impl Cell for Utc {
    const KIND: Kind = Kind::Time;
    fn value(&self) -> Value<'_> {
        Value::Number(self.0)
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        number(value).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(Utc(0).to_string(), "1970-01-01T00:00:00.000000Z");
        let leap = Utc::from_nanos(1_709_210_096_123_456_789);
        assert_eq!(leap.to_string(), "2024-02-29T12:34:56.123456Z");
        assert_eq!((leap.date().as_str(), leap.name().as_str()), ("2024-02-29", "20240229T123456.123Z"));
        for date in ["1970-01-01", "2000-02-29", "2024-03-01", "2026-11-28"] {
            assert_eq!(Utc::of_date(date).map(Utc::date).as_deref(), Some(date));
        }
        assert_eq!(Utc::of_date("2024-02-29"), Some(Utc(1_709_164_800_000_000)));
        for no_date in ["2026-02-30", "2026-13-01", "1969-12-31", "2026-1-1", "2026-11", "99999999999999999-1-1", ""] {
            assert_eq!(Utc::of_date(no_date), None, "{no_date}");
        }
        // The largest of all is no date that anyone needs, and does no harm.
        let _ = Utc(u64::MAX).to_string();
    }
}
