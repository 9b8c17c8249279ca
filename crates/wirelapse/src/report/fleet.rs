//! `wirelapse report --runs`: what of a fleet became slower, from the histograms of its runs.

use record::{Nanos, Utc};
use report::document::Document;
use report::page::fleet::{self, Group, Hour, Linked, Period};
use serde_json::Value;

use crate::exit::BadInput;
use crate::query;

/// Microseconds in an hour, and in a week.
const HOUR: i64 = 3_600_000_000;
const WEEK: i64 = 168 * HOUR;
/// Groups of each kind that are compared: those with most sends.
const MOST_GROUPS: usize = 200;

/// The groups that are compared: a heading, and how a row of `hours` names its group.
const KINDS: [(&str, &str); 3] =
    [("host", "host"), ("peer", "peer"), ("service", "coalesce(unit, pod, container, program)")];

/// The page of the runs below a place: its latest `last` against the same of the week before.
///
/// # Errors
/// [`BadInput`] for a place without runs or histograms, and for a length that is not whole hours.
pub fn document(runs: &str, last: Nanos) -> anyhow::Result<Document> {
    let length = i64::try_from(last.0 / 1000).unwrap_or(i64::MAX);
    if length < HOUR || length % HOUR != 0 || length > WEEK {
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
    let mut groups = Vec::new();
    for (kind, of) in KINDS {
        groups.extend(group(&query::rows(runs, &hours(of, period))?, kind)?);
    }
    let linked = query::rows(runs, &links(period))?;
    let linked = linked.iter().map(link).collect::<Option<Vec<_>>>().unwrap_or_default();
    Ok(fleet::document(runs, period, &until, &groups, &linked))
}

/// When, in SQL: in the period, or in that of the week before.
fn within(period: Period) -> String {
    let Period { start_us, end_us } = period;
    format!(
        "(time >= to_timestamp_micros({start_us}) AND time < to_timestamp_micros({end_us})) OR \
         (time >= to_timestamp_micros({}) AND time < to_timestamp_micros({}))",
        start_us - WEEK,
        end_us - WEEK
    )
}

/// For each group, leg and hour: sends, mean, and p99, in the bucket interpolated.
fn hours(of: &str, period: Period) -> String {
    let within = within(period);
    format!(
        "WITH named AS (SELECT {of} AS name, stage, CAST(time AS BIGINT) / {HOUR} AS hour, bucket, count, sum_ns
                        FROM hours WHERE {within}),
              most AS (SELECT name FROM named WHERE stage = 'total' AND name IS NOT NULL
                       GROUP BY name ORDER BY sum(count) DESC, name LIMIT {MOST_GROUPS}),
              buckets AS (SELECT n.name, n.stage, n.hour, n.bucket, sum(n.count) AS count, sum(n.sum_ns) AS sum_ns
                          FROM named n JOIN most m ON m.name = n.name GROUP BY n.name, n.stage, n.hour, n.bucket),
              running AS (SELECT name, stage, hour, bucket, count, sum_ns,
                                 sum(count) OVER (PARTITION BY name, stage, hour ORDER BY bucket
                                                  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
                                 sum(count) OVER (PARTITION BY name, stage, hour) AS n
                          FROM buckets)
         SELECT name, stage, hour, max(n) AS n, CAST(sum(sum_ns) AS DOUBLE) / max(n) AS mean_ns,
                min(CASE WHEN upto >= 0.99 * n
                         THEN 1e9 * power(2.0, (bucket - 1 + (0.99 * n - (upto - count)) / count) / 8.0) END) AS p99_ns
         FROM running GROUP BY name, stage, hour ORDER BY name, stage, hour"
    )
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

/// Rows of [`hours`] by group.
fn group(rows: &[Value], kind: &'static str) -> anyhow::Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for row in rows {
        let read = || {
            Some((
                row["name"].as_str()?,
                row["stage"].as_str()?,
                Hour {
                    hour: row["hour"].as_i64()?,
                    sends: row["n"].as_u64()?,
                    mean_ns: row["mean_ns"].as_f64()?,
                    p99_ns: row["p99_ns"].as_f64(),
                },
            ))
        };
        let (name, stage, hour) =
            read().ok_or_else(|| anyhow::anyhow!("wirelapse-query gives a row without its figures: {row}"))?;
        if groups.last().is_none_or(|last| last.name != name) {
            groups.push(Group { kind, name: name.to_owned(), ..Group::default() });
        }
        if let Some(last) = groups.last_mut() {
            last.legs.entry(stage.to_owned()).or_default().push(hour);
        }
    }
    Ok(groups)
}
