//! `wirelapse report --runs`: what of a fleet became slower, from the histograms of its runs.

use compare::fleet::since::{Asked, slowdowns};
use compare::fleet::{self, Hours, Present};
use paper::document::Document;
use record::fleet::{FleetCell, FleetEnd, FleetGroup, FleetHour, FleetRemedy, FleetRun, Group, WEEK};
use record::table::Record;
use record::{Nanos, Utc};
use report::page::fleet::{Fleet, date};

use crate::commands::query;
use crate::exit::BadInput;

/// Microseconds in an hour.
const HOUR_US: u64 = 3_600_000_000;

/// Hours before the period that are read too: what a change at its beginning is one from. As many
/// after it show that one within it has ended.
const AROUND: u64 = 24;

/// An hour, as people name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The first hour of its day since 1970; `None` for the latest such hour that there is.
    day: Option<u64>,
    hour: u64,
}

impl Moment {
    /// `14:00`, `2026-11-28T14:00`, `2026-11-28 14:00Z`, or `2026-11-28`.
    ///
    /// # Errors
    /// Text that is no whole hour.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read = || {
            let day = |text: &str| Some(Utc::of_date(text)?.0 / HOUR_US);
            let hour = |text: &str| {
                let (hour, minute) = text.strip_suffix('Z').unwrap_or(text).split_once(':')?;
                let hour: u64 = hour.parse().ok().filter(|hour| *hour <= 24)?;
                matches!(minute, "00" | "00:00").then_some(hour)
            };
            match text.split_once(['T', ' ']) {
                Some((date, time)) => Some(Self { day: Some(day(date)?), hour: hour(time)? }),
                None if text.contains(':') => Some(Self { day: None, hour: hour(text)? }),
                None => Some(Self { day: Some(day(text)?), hour: 0 }),
            }
        };
        read().ok_or_else(|| "is no whole hour in UTC, as 14:00 or 2026-11-28T14:00".into())
    }

    /// In hours since 1970; without a date the last such hour up to `latest`.
    fn hours(self, latest: u64) -> u64 {
        match self.day {
            Some(day) => day + self.hour,
            None => latest - (latest + 24 - self.hour % 24) % 24,
        }
    }
}

/// Which hours are asked about.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// The newest: a change at any time in them.
    Last(Nanos),
    /// A change at this hour that lasts.
    Since(Moment),
    /// One from the first hour to the second.
    Between(Moment, Moment),
}

impl When {
    /// The hours, where the data end with `end`.
    ///
    /// # Errors
    /// [`BadInput`] for hours that are no whole ones, none, more than a week, or not there.
    pub(super) fn asked(self, end: u64) -> Result<Asked, BadInput> {
        match self {
            Self::Last(last) => {
                let (length, rest) = (last.0 / 1000 / HOUR_US, last.0 / 1000 % HOUR_US);
                match rest == 0 && (1..=WEEK).contains(&length) {
                    true => Ok(Asked::Within(end.saturating_sub(length)..end)),
                    false => Err(BadInput("--last compares hour with hour: give whole hours, 1h to 168h".into())),
                }
            }
            Self::Since(since) => {
                let since = since.hours(end - 1);
                match since < end && end - since <= WEEK {
                    true => Ok(Asked::Exactly(since..end)),
                    false => Err(BadInput(format!(
                        "--since {}: the newest hour with sends ends at {}; give one up to a week before that",
                        date(since),
                        date(end)
                    ))),
                }
            }
            Self::Between(from, to) => {
                let to = to.hours(end);
                let from = from.hours(to.saturating_sub(1));
                match from < to && to - from <= WEEK && from < end {
                    true => Ok(Asked::Exactly(from..to.min(end))),
                    false => Err(BadInput(format!(
                        "--between {} {}: give an hour and a later one, at most a week apart; the newest hour with sends ends at {}",
                        date(from),
                        date(to),
                        date(end)
                    ))),
                }
            }
        }
    }
}

/// The page of the runs below a place: the hours that are asked about against the same of the week
/// before, when in them something changed, and what would help. Where no run has histograms, the
/// last alone.
///
/// # Errors
/// [`BadInput`] for a place without runs, or without both histograms and advice, and for hours that
/// cannot be asked about.
pub fn document(runs: &str, when: When) -> anyhow::Result<Document> {
    let newest: Vec<FleetEnd> = query::weeks(runs, &["end".into()])?;
    let remedies: Vec<FleetRemedy> = query::weeks(runs, &["remedies".into()])?;
    let Some(newest) = newest.first().and_then(|end| end.hour) else {
        return Ok(report::page::fleet::advised(runs, &remedies).ok_or_else(|| {
            BadInput(format!(
                "{runs}: no run has histograms, as `wirelapse agent` keeps them, or advice that helps; \
                 a single run is shown by `wirelapse report RUN`"
            ))
        })?);
    };
    // The hour that the latest interval is in, to its end.
    let newest = newest + 1;
    let asked = when.asked(newest)?;
    let hours = asked.hours().clone();
    let period = Period { runs, start: hours.start, end: hours.end };
    let there: Vec<FleetGroup> = period.rows("groups", &[])?;
    let mut groups: Vec<Hours> = there.iter().map(Hours::new).collect();
    fleet::add(&mut groups, period.rows::<FleetHour>("hours", &[])?);
    let cells: Vec<FleetCell> = period.rows("cells", &[])?;
    let verdicts = fleet::compare(&groups, &cells, |without| {
        let mut left = fleet::blank(&groups);
        fleet::add(&mut left, period.rows::<FleetHour>("totals", without)?);
        Ok::<_, anyhow::Error>(left)
    })?;
    let around = Period { runs, start: hours.start.saturating_sub(AROUND), end: newest.min(hours.end + AROUND) };
    let slowdowns = slowdowns(&around.rows("cell-hours", &[])?, &asked);
    let longest: Vec<FleetRun> = period.rows("runs", &[])?;
    Ok(report::page::fleet::document(&Fleet {
        place: runs,
        hours,
        newest,
        verdicts: &verdicts,
        slowdowns: &slowdowns,
        groups: &groups,
        present: &Present::of(&there),
        runs: &longest,
        remedies: &remedies,
    }))
}

/// The time that is judged, in hours since 1970.
struct Period<'a> {
    runs: &'a str,
    start: u64,
    end: u64,
}

impl Period<'_> {
    fn rows<R: Record>(&self, rows: &str, without: &[Group]) -> anyhow::Result<Vec<R>> {
        let mut ask = vec![rows.to_owned(), format!("--start={}", self.start), format!("--end={}", self.end)];
        ask.extend(without.iter().map(|group| format!("--without={}={}", group.kind.name(), group.name)));
        query::weeks(self.runs, &ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_the_latest_one_of_that_name_and_what_is_none_is_refused() {
        let day = Utc::of_date("2026-11-28").unwrap().0 / HOUR_US;
        let moment = |text: &str| Moment::parse(text).unwrap();
        for (text, hour) in [
            ("14:00", day - 10),
            ("09:00", day + 9),
            ("2026-11-27T14:00", day - 10),
            ("2026-11-27 14:00Z", day - 10),
            ("2026-11-28", day),
        ] {
            assert_eq!(moment(text).hours(day + 9), hour, "{text}");
        }
        for text in ["14:30", "25:00", "14", "yesterday", "2026-02-30T14:00", "2026-11-28T", ":00", ""] {
            assert!(Moment::parse(text).is_err(), "{text}");
        }
        let end = day + 10;
        let asked = |when: When| when.asked(end).map_err(|e| e.to_string());
        assert_eq!(asked(When::Since(moment("09:00"))), Ok(Asked::Exactly(end - 1..end)));
        // A day ago: the data end with the hour of that name.
        assert_eq!(asked(When::Since(moment("10:00"))), Ok(Asked::Exactly(end - 24..end)));
        assert_eq!(asked(When::Between(moment("22:00"), moment("03:00"))), Ok(Asked::Exactly(day - 2..day + 3)));
        assert_eq!(asked(When::Last(Nanos::from_secs(7_200))), Ok(Asked::Within(end - 2..end)));
        for when in [
            When::Since(moment("2026-11-29")),
            When::Since(moment("2026-11-01")),
            When::Between(moment("2026-11-28T03:00"), moment("2026-11-28T03:00")),
            When::Last(Nanos::from_secs(90)),
        ] {
            assert!(asked(when).is_err(), "{when:?}");
        }
    }
}
