//! `wirelapse report --runs`: what of a fleet became slower, from the histograms of its runs.
//!
//! Sends are compared with sends alike: an hour of one host with one peer for one service with the same hour of the week before, each week's as often as the week's that has fewer. So
//! what is in one week only, and another mix of what is in both, makes nothing slower or faster.

use std::collections::BTreeMap;

use paper::document::Document;
use record::{Nanos, Utc};
use report::page::fleet::{self, Cell, FOR_P99, Fleet, Group, Hour, KINDS, Linked, Name, Period, Present};
use serde_json::Value;

use crate::commands::query;
use crate::exit::BadInput;

/// Microseconds in an hour; hours in a week.
const HOUR: i64 = 3_600_000_000;
const WEEK: i64 = 168;
/// Groups of each kind that are compared: those with most sends.
const MOST_GROUPS: usize = 1000;
/// Combinations of host, peer and service that are looked at to find which group a slow-down is of.
const MOST_CELLS: usize = 20_000;

/// The page of the runs below a place: its latest `last` against the same of the week before.
///
/// # Errors
/// [`BadInput`] for a place without runs or histograms, and for a length that is not whole hours.
pub fn document(runs: &str, last: Nanos) -> anyhow::Result<Document> {
    let length = i64::try_from(last.0 / 1000).unwrap_or(i64::MAX);
    if length < HOUR || length % HOUR != 0 || length > WEEK * HOUR {
        return Err(BadInput("--last compares hour with hour: give whole hours, 1h to 168h".into()).into());
    }
    let rows = query::rows(runs, "SELECT CAST(max(time) AS BIGINT) AS last FROM hours")?;
    let Some(latest) = rows.first().and_then(|row| row["last"].as_i64()) else {
        return Err(BadInput(format!(
            "{runs}: no run has histograms, as `wirelapse agent` keeps them; a single run is shown by `wirelapse report RUN`"
        ))
        .into());
    };
    // The hour that the latest interval is in, to its end.
    let end = (latest / HOUR + 1) * HOUR;
    let period = Period { start_us: end - length, end_us: end };
    let until = Utc::from_nanos(u64::try_from(end).unwrap_or(0).saturating_mul(1000)).to_string();
    let until = until.split_once('.').map_or(until.as_str(), |(whole, _)| whole).replace('T', " ") + " UTC";
    let (mut groups, present) = there(&query::rows(runs, &of_each(|kind| counts(kind, period)))?)?;
    add_hours(&mut groups, &query::rows(runs, &of_each(|kind| hours(kind, period, &[], "")))?)?;
    let cells = query::rows(runs, &cells(period))?.iter().filter_map(cell).collect::<Vec<_>>();
    let owners = fleet::owners(period, &groups, &cells, |without| {
        let blank = |group: &Group| Group { legs: BTreeMap::new(), ..group.clone() };
        let mut left: Vec<Group> = groups.iter().map(blank).collect();
        let totals = of_each(|kind| hours(kind, period, without, "AND stage = 'total'"));
        add_hours(&mut left, &query::rows(runs, &totals)?)?;
        Ok::<_, anyhow::Error>(left)
    })?;
    let linked = query::rows(runs, &links(period))?;
    let linked = linked.iter().map(link).collect::<Option<Vec<_>>>().unwrap_or_default();
    Ok(fleet::document(&Fleet {
        place: runs,
        period,
        until: &until,
        groups: &groups,
        present: &present,
        cells: &cells,
        owners: &owners,
        linked: &linked,
    }))
}

/// The rows of a query for each kind, which is the column of [`named`] that has its names, with the kind: one process for all.
fn of_each(sql: impl Fn(&str) -> String) -> String {
    KINDS.map(|kind| format!("SELECT '{kind}' AS kind, r.* FROM ({}) AS r", sql(kind))).join(" UNION ALL ")
}

/// The rows of both weeks with who they are of, without those of some groups. Each hour is that of the period; `later` says whether it was in it. What found no room for
/// a series is of unknown peers, and skipped.
fn named(period: Period, without: &[Name], and: &str) -> String {
    let Period { start_us, end_us } = period;
    let week = WEEK * HOUR;
    let except: String = without
        .iter()
        .map(|group| format!(" AND NOT ({} = '{}')", group.kind, group.name.replace('\'', "''")))
        .collect();
    format!(
        "named AS (SELECT host, peer, service, stage, CASE WHEN later THEN hour ELSE hour + {WEEK} END AS hour, later, bucket, count, sum_ns
                   FROM (SELECT host, coalesce(peer, '') AS peer, coalesce(unit, pod, container, program, '') AS service, stage,
                                CAST(time AS BIGINT) / {HOUR} AS hour, time >= to_timestamp_micros({start_us}) AS later, bucket, count, sum_ns
                         FROM hours
                         WHERE overflow = 0 AND ((time >= to_timestamp_micros({start_us}) AND time < to_timestamp_micros({end_us})) OR
                               (time >= to_timestamp_micros({}) AND time < to_timestamp_micros({}))) {and}) AS r
                   WHERE TRUE{except})",
        start_us - week,
        end_us - week
    )
}

/// The hosts, peers or services with most sends, and how many there are.
fn counts(kind: &str, period: Period) -> String {
    format!(
        "WITH {}
         SELECT name, before, after, count(*) OVER () AS names, sum(CASE WHEN after = 0 THEN 1 ELSE 0 END) OVER () AS gone,
                sum(CASE WHEN before = 0 THEN 1 ELSE 0 END) OVER () AS new
         FROM (SELECT {kind} AS name, sum(CASE WHEN later THEN 0 ELSE count END) AS before, sum(CASE WHEN later THEN count ELSE 0 END) AS after
               FROM named WHERE {kind} <> '' GROUP BY {kind}) AS n
         ORDER BY before + after DESC, name LIMIT {MOST_GROUPS}",
        named(period, &[], "AND stage = 'total'")
    )
}

/// How many sends each combination of host, peer and service has in an hour, in both weeks. There are far fewer of them than rows of `named`, which has a
/// row for each bucket: what is weighted by them is read from there again, so that no query holds those rows in memory.
const SIZES: &str = "sizes AS (SELECT host, peer, service, stage, hour, CAST(sum(CASE WHEN later THEN 0 ELSE count END) AS DOUBLE) AS before,
                               CAST(sum(CASE WHEN later THEN count ELSE 0 END) AS DOUBLE) AS after,
                               sum(CASE WHEN later THEN 0 ELSE sum_ns END) AS sum_before, sum(CASE WHEN later THEN sum_ns ELSE 0 END) AS sum_after
                        FROM named GROUP BY host, peer, service, stage, hour)";

/// For each group, leg, hour and week: sends alike, their mean, and p99. Between the middles of two buckets p99 is interpolated at the rank 0.99 n + 0.62,
/// with which few sends hardly change it (docs/query.md); beyond the middle of the highest bucket, within that bucket.
fn hours(kind: &str, period: Period, without: &[Name], and: &str) -> String {
    format!(
        "WITH {}, {SIZES},
              most AS (SELECT {kind} AS name FROM named WHERE stage = 'total' AND {kind} <> ''
                       GROUP BY {kind} ORDER BY sum(count) DESC, {kind} LIMIT {MOST_GROUPS}),
              weights AS (SELECT s.host, s.peer, s.service, s.stage, s.hour, least(s.before, s.after) / s.before AS before, least(s.before, s.after) / s.after AS after
                          FROM sizes s JOIN most m ON m.name = s.{kind} WHERE s.before > 0 AND s.after > 0),
              alike AS (SELECT c.{kind} AS name, c.stage, c.hour, c.later, c.bucket, sum(c.count) AS seen,
                               sum(c.count * CASE WHEN c.later THEN w.after ELSE w.before END) AS count,
                               sum(c.sum_ns * CASE WHEN c.later THEN w.after ELSE w.before END) AS sum_ns
                        FROM weights w
                        JOIN named c ON w.host = c.host AND w.peer = c.peer AND w.service = c.service AND w.stage = c.stage AND w.hour = c.hour
                        GROUP BY c.{kind}, c.stage, c.hour, c.later, c.bucket),
              running AS (SELECT *, sum(count) OVER (PARTITION BY name, stage, hour, later ORDER BY bucket
                                                     ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - count / 2 AS middle,
                                 sum(count) OVER (PARTITION BY name, stage, hour, later) AS n,
                                 sum(seen) OVER (PARTITION BY name, stage, hour, later) AS together
                          FROM alike),
              ranked AS (SELECT *, 0.99 * n + 0.12 * n / together AS place,
                                lag(middle) OVER (PARTITION BY name, stage, hour, later ORDER BY bucket) AS below,
                                lag(bucket) OVER (PARTITION BY name, stage, hour, later ORDER BY bucket) AS under,
                                lead(bucket) OVER (PARTITION BY name, stage, hour, later ORDER BY bucket) AS over
                         FROM running)
         SELECT name, stage, hour, later, max(n) AS n, max(together) AS seen, sum(sum_ns) / max(n) AS mean_ns,
                min(CASE WHEN n < {FOR_P99} THEN NULL
                         WHEN middle >= place AND (below IS NULL OR below < place)
                         THEN 1e9 * power(2.0, (coalesce(under + (bucket - under) * (place - below) / (middle - below), bucket) - 0.5) / 8.0)
                         WHEN middle < place AND over IS NULL
                         THEN 1e9 * power(2.0, (bucket + least((place - middle) / count, 0.5) - 0.5) / 8.0) END) AS p99_ns
         FROM ranked GROUP BY name, stage, hour, later",
        named(period, without, and)
    )
}

/// Each combination of host, peer and service: sends alike, and their means in both weeks.
fn cells(period: Period) -> String {
    format!(
        "WITH {}, {SIZES}
         SELECT host, peer, service, sum(least(before, after)) AS n, sum(sum_before * least(before, after) / before) AS before_ns,
                sum(sum_after * least(before, after) / after) AS after_ns
         FROM sizes WHERE before > 0 AND after > 0 GROUP BY host, peer, service ORDER BY n DESC, host, peer, service LIMIT {MOST_CELLS}",
        named(period, &[], "AND stage = 'total'")
    )
}

fn cell(row: &Value) -> Option<Cell> {
    let text = |key: &str| row[key].as_str().map(str::to_owned);
    let (before, after) = (row["before_ns"].as_f64()?, row["after_ns"].as_f64()?);
    let ratio = (after / before).ln();
    let cell =
        Cell { host: text("host")?, peer: text("peer")?, service: text("service")?, sends: row["n"].as_f64()?, ratio };
    ratio.is_finite().then_some(cell)
}

/// The runs of the period with the longest mean, by host.
fn links(period: Period) -> String {
    let Period { start_us, end_us } = period;
    format!(
        "SELECT h.host, h.run, max(r.directory) AS directory, sum(h.count) AS n, CAST(sum(h.sum_ns) AS DOUBLE) / sum(h.count) AS mean_ns
         FROM hours h JOIN runs r ON r.host = h.host AND r.run = h.run
         WHERE h.stage = 'total' AND h.time >= to_timestamp_micros({start_us}) AND h.time < to_timestamp_micros({end_us})
         GROUP BY h.host, h.run ORDER BY mean_ns DESC, h.host, h.run LIMIT 200"
    )
}

fn link(row: &Value) -> Option<Linked> {
    Some(Linked {
        host: row["host"].as_str()?.to_owned(),
        directory: row["directory"].as_str()?.to_owned(),
        sends: row["n"].as_u64()?,
        mean_ns: row["mean_ns"].as_f64()?,
    })
}

fn without_figures(row: &Value) -> anyhow::Error {
    anyhow::anyhow!("wirelapse-query gives a row without its figures: {row}")
}

fn kind(row: &Value) -> Option<&'static str> {
    KINDS.into_iter().find(|kind| row["kind"] == *kind)
}

/// Rows of [`counts`]: the groups with most sends, and what there is of each kind.
fn there(rows: &[Value]) -> anyhow::Result<(Vec<Group>, Vec<Present>)> {
    let mut groups = Vec::new();
    let mut present: Vec<Present> = Vec::new();
    for row in rows {
        let number = |key: &str| row[key].as_u64();
        let read = || {
            let kind = kind(row)?;
            let there = Present { kind, groups: number("names")?, gone: number("gone")?, new: number("new")? };
            let (sends_before, sends) = (number("before")?, number("after")?);
            let name = row["name"].as_str()?.to_owned();
            Some((there, Group { kind, name, sends_before, sends, ..Group::default() }))
        };
        let (there, group) = read().ok_or_else(|| without_figures(row))?;
        if !present.contains(&there) {
            present.push(there);
        }
        groups.push(group);
    }
    Ok((groups, present))
}

/// Rows of [`hours`] to the groups that they are of.
fn add_hours(groups: &mut [Group], rows: &[Value]) -> anyhow::Result<()> {
    for row in rows {
        let read = || {
            let hour = row["hour"].as_i64()?;
            Some((
                kind(row)?,
                row["name"].as_str()?,
                row["stage"].as_str()?,
                Hour {
                    hour: if row["later"].as_bool()? { hour } else { hour - WEEK },
                    sends: row["n"].as_f64()?,
                    seen: row["seen"].as_u64()?,
                    mean_ns: row["mean_ns"].as_f64()?,
                    p99_ns: row["p99_ns"].as_f64(),
                },
            ))
        };
        let (kind, name, stage, hour) = read().ok_or_else(|| without_figures(row))?;
        if let Some(group) = groups.iter_mut().find(|group| group.kind == kind && group.name == name) {
            group.legs.entry(stage.to_owned()).or_default().push(hour);
        }
    }
    Ok(())
}
