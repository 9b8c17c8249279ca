//! Dates for people and for files of other programs.

/// A time since 1970 as ISO 8601 in UTC, to the microsecond.
pub fn iso_utc(realtime_ns: u64) -> String {
    let (seconds, micros) = (realtime_ns / 1_000_000_000, realtime_ns % 1_000_000_000 / 1_000);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March put the leap day last; 719,468 days lie between 0000-03-01 and 1970-01-01.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(iso_utc(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(iso_utc(1_709_210_096_123_456_789), "2024-02-29T12:34:56.123456Z");
    }
}
