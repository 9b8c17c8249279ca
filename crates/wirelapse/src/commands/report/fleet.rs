//! `wirelapse report --runs`: what of a fleet became slower, from the histograms of its runs.

use compare::fleet::{self, Hours, Present};
use paper::document::Document;
use record::fleet::{FleetCell, FleetEnd, FleetGroup, FleetHour, FleetRun, Group, WEEK};
use record::table::Record;
use record::{Nanos, Utc};
use report::page::fleet::Fleet;

use crate::commands::query;
use crate::exit::BadInput;

/// Microseconds in an hour.
const HOUR_US: u64 = 3_600_000_000;

/// The page of the runs below a place: its latest `last` against the same of the week before.
///
/// # Errors
/// [`BadInput`] for a place without runs or histograms, and for a length that is not whole hours.
pub fn document(runs: &str, last: Nanos) -> anyhow::Result<Document> {
    let (length, rest) = (last.0 / 1000 / HOUR_US, last.0 / 1000 % HOUR_US);
    if rest != 0 || !(1..=WEEK).contains(&length) {
        return Err(BadInput("--last compares hour with hour: give whole hours, 1h to 168h".into()).into());
    }
    let newest: Vec<FleetEnd> = query::weeks(runs, &["end".into()])?;
    let Some(newest) = newest.first().and_then(|end| end.hour) else {
        return Err(BadInput(format!(
            "{runs}: no run has histograms, as `wirelapse agent` keeps them; a single run is shown by `wirelapse report RUN`"
        ))
        .into());
    };
    // The hour that the latest interval is in, to its end.
    let end = newest + 1;
    let period = Period { runs, start: end.saturating_sub(length), end };
    let there: Vec<FleetGroup> = period.rows("groups", &[])?;
    let mut groups: Vec<Hours> = there.iter().map(Hours::new).collect();
    fleet::add(&mut groups, period.rows::<FleetHour>("hours", &[])?);
    let cells: Vec<FleetCell> = period.rows("cells", &[])?;
    let verdicts = fleet::compare(&groups, &cells, |without| {
        let mut left = fleet::blank(&groups);
        fleet::add(&mut left, period.rows::<FleetHour>("totals", without)?);
        Ok::<_, anyhow::Error>(left)
    })?;
    let longest: Vec<FleetRun> = period.rows("runs", &[])?;
    Ok(report::page::fleet::document(&Fleet {
        place: runs,
        hours: length,
        until: &until(end),
        verdicts: &verdicts,
        present: &Present::of(&there),
        runs: &longest,
    }))
}

/// The end of an hour as a date: `2026-05-08 00:00:00 UTC`.
fn until(end: u64) -> String {
    let until = Utc::from_nanos(end.saturating_mul(HOUR_US).saturating_mul(1000)).to_string();
    until.split_once('.').map_or(until.as_str(), |(whole, _)| whole).replace('T', " ") + " UTC"
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
