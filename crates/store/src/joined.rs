//! The histograms of a run that is over, joined: intervals of minutes become longer ones, in one
//! part, sorted by series. That takes a fraction of the room and of the files; sums over a run stay
//! what they were.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use record::{Nanos, Utc};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::histogram::{Bucket, HistogramRow};
use crate::part::Parts;
use crate::{Error, row};

/// Where the joined table is written; it is not there for anybody who reads the run.
pub(crate) const HIDDEN: &str = ".joined";
/// Counters that are held in memory at most, some 32 MB: beyond that a run stays as it is.
const MOST: usize = 1 << 20;

/// What a series counted in one interval.
#[derive(Default)]
struct Counted {
    buckets: BTreeMap<i32, u64>,
    sum: Nanos,
}

/// Joins the intervals of a run to such of at least `length`, counted from its first one. Gives how
/// many rows there are then; `None` where the table stays as it is.
///
/// # Errors
/// As those of reading and writing a table.
pub(crate) fn join(run: &Path, length: Nanos) -> Result<Option<u64>, Error> {
    let mut first = None;
    // When each joined interval begins and ends.
    let mut intervals: BTreeMap<u64, (Utc, Utc)> = BTreeMap::new();
    // By what a row says beside its interval and counts, with the stage.
    let mut series: BTreeMap<HistogramRow, BTreeMap<u64, Counted>> = BTreeMap::new();
    let mut held = 0;
    let read = row::table(run, |row: HistogramRow| {
        if held > MOST {
            return;
        }
        let first = *first.get_or_insert(row.time);
        // By its middle: intervals are not quite as long as they are to be.
        let middle = row.time.0.saturating_sub(first.0) * 1_000 + row.interval.0 / 2;
        let at = middle / length.0.max(1);
        let end = Utc(row.time.0 + row.interval.0 / 1_000);
        let (begins, ends) = intervals.entry(at).or_insert((row.time, end));
        (*begins, *ends) = ((*begins).min(row.time), (*ends).max(end));
        let HistogramRow { bucket, count, sum, .. } = row;
        let of =
            HistogramRow { time: Utc(0), interval: Nanos::ZERO, bucket: Bucket(0), count: 0, sum: Nanos::ZERO, ..row };
        let counted = series.entry(of).or_default().entry(at).or_default();
        counted.sum += sum;
        let there = counted.buckets.len();
        *counted.buckets.entry(bucket.0).or_default() += count;
        held += counted.buckets.len() - there;
    });
    match read {
        // A run in which nothing was sent.
        Err(Error::NoTable { .. }) => return Ok(None),
        read => read?,
    }
    if held > MOST {
        return Ok(None);
    }
    let hidden = run.join(HIDDEN);
    let written = write(&hidden, &intervals, &series).and_then(|rows| Ok(exchange(run, &hidden)?.then_some(rows)));
    // Whatever is left there is not part of the run.
    fs::remove_dir_all(&hidden).ok();
    written
}

fn write(
    hidden: &Path,
    intervals: &BTreeMap<u64, (Utc, Utc)>,
    series: &BTreeMap<HistogramRow, BTreeMap<u64, Counted>>,
) -> Result<u64, Error> {
    files::directory(hidden).map_err(|why| Error::Keep { path: hidden.to_owned(), why })?;
    let mut table = Parts::<HistogramRow>::create(hidden)?;
    for (of, counted) in series {
        // The sum is on the row of the lowest bucket of each interval.
        let lowest = |counted: &Counted| counted.buckets.keys().next().copied();
        let mut buckets: Vec<i32> = counted.values().flat_map(|counted| counted.buckets.keys().copied()).collect();
        buckets.sort_unstable();
        buckets.dedup();
        for bucket in buckets {
            for (at, counted) in counted {
                let (Some(count), Some((begins, ends))) = (counted.buckets.get(&bucket), intervals.get(at)) else {
                    continue;
                };
                let sum = if lowest(counted) == Some(bucket) { counted.sum } else { Nanos::ZERO };
                table.push(&HistogramRow {
                    time: *begins,
                    interval: Nanos((ends.0 - begins.0) * 1_000),
                    bucket: Bucket(bucket),
                    count: *count,
                    sum,
                    ..of.clone()
                })?;
            }
        }
    }
    table.close_part()?;
    Ok(table.finished)
}

/// Puts the joined table in the place of the other, at once: at no moment is a row there twice, or
/// not at all. Whether this file system can do that.
fn exchange(run: &Path, hidden: &Path) -> Result<bool, Error> {
    let table = format!("{}.parquet", <HistogramRow as record::table::Record>::TABLE);
    let (old, new) = (run.join(&table), hidden.join(&table));
    match renameat_with(CWD, &new, CWD, &old, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => Ok(false),
        Err(why) => Err(Error::Keep { path: old, why: why.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Named;
    use record::histogram::{Series, SeriesKey};
    use record::{IpPrefix, Leg};

    /// An hour of minutes, of so many peers with 25 sends a second each, in four stages.
    fn hour(run: &Path, peers: u32) -> u64 {
        let mut table = Parts::<HistogramRow>::create(run).unwrap_or_else(|_| panic!());
        let mut random = 1_u64;
        let mut draw = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 40) as f64 / f64::from(1 << 24)
        };
        for minute in 0..60 {
            let time = Utc(1_763_800_000_000_000 + minute * 60_000_000 + (draw() * 900.0) as u64);
            for peer in 0..peers {
                let address = std::net::Ipv4Addr::from_bits(0x0a00_0001 + peer);
                let legs = [Leg::Tcp, Leg::Qdisc, Leg::Network, Leg::Total].map(|leg| {
                    // From 1 to 30 ms with a long tail, other for each peer.
                    let middle = 1e6 * (1.0 + f64::from(peer % 30));
                    let times = (0..1500).map(|_| Nanos((middle * (1.0 + draw() + 2.0 * draw().powi(8))) as u64));
                    (leg, times.collect())
                });
                let key = SeriesKey { peer: Some(IpPrefix::new(address.into(), 32)), ..SeriesKey::default() };
                let series = Series { key, legs: legs.into(), sends: 1500, ..Series::default() };
                for row in HistogramRow::of(time, Nanos(60_000_000_000 + minute * 7_919), &series, &Named::default()) {
                    table.push(&row).unwrap_or_else(|_| panic!());
                }
            }
            // As often as an agent does.
            if minute % 5 == 4 {
                table.close_part().unwrap_or_else(|_| panic!());
            }
        }
        table.finished
    }

    /// How many, and the sum of all durations, by peer, stage and bucket, and by peer and stage.
    type Totals = (BTreeMap<(String, String, i32), u64>, BTreeMap<(String, String), u64>);

    fn totals(run: &Path) -> (Totals, u64, Vec<(Utc, Nanos)>) {
        let (mut totals, mut rows, mut intervals) = (Totals::default(), 0, Vec::new());
        row::table(run, |row: HistogramRow| {
            rows += 1;
            let peer = row.peer.unwrap();
            *totals.0.entry((peer.clone(), row.stage.clone(), row.bucket.0)).or_default() += row.count;
            *totals.1.entry((peer, row.stage)).or_default() += row.sum.0;
            intervals.push((row.time, row.interval));
        })
        .unwrap();
        intervals.sort_unstable();
        intervals.dedup();
        (totals, rows, intervals)
    }

    fn bytes(run: &Path) -> u64 {
        let parts = fs::read_dir(run.join("histograms.parquet")).unwrap();
        parts.map(|part| part.unwrap().metadata().unwrap().len()).sum()
    }

    #[test]
    fn an_hour_takes_less_room_and_says_the_same() {
        const PEERS: u32 = 10;
        let dir = tempfile::tempdir().unwrap();
        let rows = hour(dir.path(), PEERS);
        let (before, n, _) = totals(dir.path());
        let room = bytes(dir.path());
        assert_eq!(n, rows);
        let joined = join(dir.path(), Nanos::from_secs(300)).unwrap().unwrap();
        let (after, n, intervals) = totals(dir.path());
        assert_eq!((&after, n), (&before, joined));
        assert!(joined * 3 < rows, "{joined} of {rows} rows");
        assert_eq!(intervals.len(), 12, "{intervals:?}");
        let apart = intervals.windows(2).map(|two| two[1].0.0.abs_diff(two[0].0.0 + two[0].1.0 / 1_000));
        assert!(apart.max() < Some(2_000), "they follow each other: {intervals:?}");
        assert_eq!(fs::read_dir(dir.path().join("histograms.parquet")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
        let day = bytes(dir.path()) * u64::from(200 / PEERS) * 24;
        println!("{room} B, then {} B: {:.1} MB a day of 200 peers", bytes(dir.path()), day as f64 / 1e6);
        assert!(day <= 20_000_000, "{day} B a day");
    }

    #[test]
    fn a_run_without_histograms_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(join(dir.path(), Nanos::from_secs(300)).unwrap(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
