//! A fleet's hours and the same hours of the week before, for `wirelapse report --runs`: the rows
//! of `record`'s tables of a fleet.
//!
//! Sends are compared with sends alike: an hour of one host with one peer for one service with the
//! same hour of the week before, each week's as often as the week's that has fewer. So what is in
//! one week only, and another mix of what is in both, makes nothing slower or faster.
//!
//! The rows of `--map` are asked for in the same way; their queries are in `service_map`.

use clap::ValueEnum;
use record::fleet::{
    FOR_P99, FleetCell, FleetCellHour, FleetEnd, FleetGroup, FleetHour, FleetRemedy, FleetRun, Group, GroupKind, WEEK,
};
use record::service_map::{MapEdge, MapRuns};
use record::table::Record;

use crate::owners::{self, OWNED, SERVICE};
use crate::service_map;

/// Microseconds in an hour.
const HOUR_US: u64 = 3_600_000_000;
/// Groups of each kind that are compared: those with most sends.
const MOST_GROUPS: usize = 1000;
/// Combinations of host, peer and service that are examined to find which group a slow-down is of.
const MOST_CELLS: usize = 20_000;
/// Hours of such combinations that are given, of both weeks: of a long period fewer combinations.
const MOST_CELL_HOURS: u64 = 2_000_000;
/// Remedies that are named.
const MOST_REMEDIES: usize = 50;
/// Runs that are named.
const MOST_RUNS: usize = 200;

/// Which rows are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rows {
    /// The newest hour with sends
    End,
    /// The groups with most sends
    Groups,
    /// Each hour of each leg of these
    Hours,
    /// Each hour of their totals
    Totals,
    /// Each combination of host, peer and service
    Cells,
    /// Each hour of these
    CellHours,
    /// The runs with the longest mean
    Runs,
    /// What `wirelapse advise` found that would help, whenever that was
    Remedies,
    /// The newest hour that the runs tell of
    EndOfRuns,
    /// The newest hour from the start with a send or an attempt to connect
    EndOfRows,
    /// What runs there are in the period
    MapRuns,
    /// Who connected to whom in the period
    MapEdges,
}

/// What is asked.
#[derive(Clone, Debug, clap::Args)]
pub struct Ask {
    /// The rows
    #[arg(value_enum)]
    pub rows: Rows,
    /// Where the runs are
    #[arg(long, value_name = "DIR|URL")]
    pub runs: String,
    /// The first hour of the period, in hours since 1970
    #[arg(long, value_name = "HOUR", default_value_t = 0)]
    pub start: u64,
    /// The hour in which it ends, not in it
    #[arg(long, value_name = "HOUR", default_value_t = 0)]
    pub end: u64,
    /// Without all sends of this group
    #[arg(long, value_name = "KIND=NAME", value_parser = group)]
    pub without: Vec<Group>,
}

/// `host=web-1`.
fn group(text: &str) -> Result<Group, String> {
    let read = || {
        let (kind, name) = text.split_once('=')?;
        let kind = GroupKind::ALL.into_iter().find(|of| of.name() == kind)?;
        Some(Group { kind, name: name.to_owned() })
    };
    read().ok_or_else(|| "is no host=NAME, peer=NAME or service=NAME".into())
}

impl Ask {
    /// Queries whose rows that one reads, in order, each under the name that it has there.
    pub fn steps(&self) -> Vec<(&'static str, String)> {
        match self.rows {
            Rows::MapEdges => service_map::steps(self.start, self.end),
            Rows::Groups | Rows::Hours | Rows::Totals | Rows::Cells | Rows::CellHours => {
                vec![owners::of(&self.both_weeks("time"))]
            }
            Rows::End | Rows::Runs | Rows::Remedies | Rows::EndOfRuns | Rows::EndOfRows | Rows::MapRuns => Vec::new(),
        }
    }

    /// That a time is in the period, or in the same hours of the week before.
    fn both_weeks(&self, time: &str) -> String {
        let (start_us, end_us) = self.period_us();
        let week = WEEK * HOUR_US;
        let within = |from: u64, to: u64| {
            format!("({time} >= to_timestamp_micros({from}) AND {time} < to_timestamp_micros({to}))")
        };
        let before = within(start_us.saturating_sub(week), end_us.saturating_sub(week));
        format!("{} OR {before}", within(start_us, end_us))
    }

    /// A table that the steps read, and the one of whose rows it has those of the runs that reach
    /// into the period.
    pub fn of_runs(&self) -> Option<(&'static str, &'static str)> {
        (self.rows == Rows::MapEdges).then_some(service_map::FOLLOWED)
    }

    /// The query.
    pub fn sql(&self) -> String {
        match self.rows {
            Rows::End => {
                let newest = format!("SELECT CAST(max(time) AS BIGINT) / {HOUR_US} AS hour FROM hours");
                select::<FleetEnd>(&newest)
            }
            Rows::Groups => select::<FleetGroup>(&self.groups()),
            Rows::Hours => select::<FleetHour>(&self.hours("")),
            Rows::Totals => select::<FleetHour>(&self.hours(TOTAL)),
            Rows::Cells => select::<FleetCell>(&self.cells()),
            Rows::CellHours => select::<FleetCellHour>(&self.cell_hours()),
            Rows::Runs => select::<FleetRun>(&self.longest()),
            Rows::Remedies => select::<FleetRemedy>(&remedies()),
            Rows::EndOfRuns => select::<FleetEnd>(&service_map::end_of_runs()),
            Rows::EndOfRows => select::<FleetEnd>(&service_map::end_of_rows(self.start)),
            Rows::MapRuns => select::<MapRuns>(&service_map::runs(self.start, self.end)),
            Rows::MapEdges => select::<MapEdge>(&service_map::edges()),
        }
    }

    /// The period, in microseconds since 1970.
    pub fn period_us(&self) -> (u64, u64) {
        (self.start.saturating_mul(HOUR_US), self.end.saturating_mul(HOUR_US))
    }

    /// The rows of both weeks with who they are of, without those of some groups. Each hour is that
    /// of the period; `later` says whether it was in it. What found no room for a series is of
    /// unknown peers, and skipped.
    fn named(&self, and: &str) -> String {
        let (start_us, _) = self.period_us();
        let except: String = self
            .without
            .iter()
            .map(|group| format!(" AND NOT ({} = '{}')", group.kind.name(), group.name.replace('\'', "''")))
            .collect();
        format!(
        "named AS (SELECT host, peer, service, stage, CASE WHEN later THEN hour ELSE hour + {WEEK} END AS hour, later, bucket, count, sum_ns
                   FROM (SELECT h.host, coalesce(h.peer, '') AS peer, coalesce({SERVICE}, h.program, '') AS service, h.stage,
                                CAST(h.time AS BIGINT) / {HOUR_US} AS hour, h.time >= to_timestamp_micros({start_us}) AS later, h.bucket, h.count, h.sum_ns
                         FROM {OWNED}
                         WHERE h.overflow = 0 AND ({}) {and}) AS r
                   WHERE TRUE{except})",
        self.both_weeks("h.time")
    )
    }

    /// The hosts, peers and services with most sends, and how many there are of each.
    fn groups(&self) -> String {
        format!(
        "WITH {},
              cells AS (SELECT host, peer, service, sum(CASE WHEN later THEN 0 ELSE count END) AS before, sum(CASE WHEN later THEN count ELSE 0 END) AS after
                        FROM named GROUP BY host, peer, service),
              n AS (SELECT kind, name, sum(before) AS before, sum(after) AS after FROM {} AS c WHERE name <> '' GROUP BY kind, name),
              ranked AS (SELECT *, row_number() OVER (PARTITION BY kind ORDER BY before + after DESC, name) AS place,
                                count(*) OVER (PARTITION BY kind) AS names, sum(CASE WHEN after = 0 THEN 1 ELSE 0 END) OVER (PARTITION BY kind) AS gone,
                                sum(CASE WHEN before = 0 THEN 1 ELSE 0 END) OVER (PARTITION BY kind) AS new FROM n)
         SELECT kind, name, before, after, names, gone, new FROM ranked WHERE place <= {MOST_GROUPS} ORDER BY kind, place",
        self.named(TOTAL),
        of_each_kind("cells")
    )
    }

    /// For each group, leg, hour and week: sends alike, their mean, and p99. Between the middles of
    /// two buckets p99 is interpolated at the rank 0.99 n + 0.62, with which few sends hardly
    /// change it (docs/query.md); beyond the middle of the highest bucket, within that bucket.
    fn hours(&self, and: &str) -> String {
        let groups = "PARTITION BY kind, name, stage, hour, later";
        format!(
        "WITH {}, {SIZES},
              cells AS (SELECT host, peer, service, sum(before + after) AS n FROM sizes WHERE stage = 'total' GROUP BY host, peer, service),
              members AS (SELECT * FROM {} AS c WHERE name <> ''),
              placed AS (SELECT kind, name, row_number() OVER (PARTITION BY kind ORDER BY sum(n) DESC, name) AS place FROM members GROUP BY kind, name),
              belongs AS (SELECT m.* FROM placed p JOIN members m ON m.kind = p.kind AND m.name = p.name WHERE p.place <= {MOST_GROUPS}),
              weights AS (SELECT host, peer, service, stage, hour, least(before, after) / before AS before, least(before, after) / after AS after
                          FROM sizes WHERE before > 0 AND after > 0),
              weighed AS (SELECT c.host, c.peer, c.service, c.stage, c.hour, c.later, c.bucket, c.count AS seen,
                                 c.count * CASE WHEN c.later THEN w.after ELSE w.before END AS count,
                                 c.sum_ns * CASE WHEN c.later THEN w.after ELSE w.before END AS sum_ns
                          FROM weights w
                          JOIN named c ON w.host = c.host AND w.peer = c.peer AND w.service = c.service AND w.stage = c.stage AND w.hour = c.hour),
              alike AS (SELECT b.kind, b.name, c.stage, c.hour, c.later, c.bucket, sum(c.seen) AS seen, sum(c.count) AS count, sum(c.sum_ns) AS sum_ns
                        FROM belongs b JOIN weighed c ON b.host = c.host AND b.peer = c.peer AND b.service = c.service
                        GROUP BY b.kind, b.name, c.stage, c.hour, c.later, c.bucket),
              running AS (SELECT *, sum(count) OVER ({groups} ORDER BY bucket
                                                     ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - count / 2 AS middle,
                                 sum(count) OVER ({groups}) AS n,
                                 sum(seen) OVER ({groups}) AS together
                          FROM alike),
              ranked AS (SELECT *, 0.99 * n + 0.12 * n / together AS place,
                                lag(middle) OVER ({groups} ORDER BY bucket) AS below,
                                lag(bucket) OVER ({groups} ORDER BY bucket) AS under,
                                lead(bucket) OVER ({groups} ORDER BY bucket) AS over
                         FROM running)
         SELECT kind, name, stage AS leg, hour, later, max(n) AS sends, max(together) AS seen, sum(sum_ns) / max(n) AS mean_ns,
                min(CASE WHEN n < {FOR_P99} THEN NULL
                         WHEN middle >= place AND (below IS NULL OR below < place)
                         THEN 1e9 * power(2.0, (coalesce(under + (bucket - under) * (place - below) / (middle - below), bucket) - 0.5) / 8.0)
                         WHEN middle < place AND over IS NULL
                         THEN 1e9 * power(2.0, (bucket + least((place - middle) / count, 0.5) - 0.5) / 8.0) END) AS p99_ns
         FROM ranked GROUP BY kind, name, stage, hour, later",
        self.named(and),
        of_each_kind("cells")
    )
    }

    /// Each combination of host, peer and service: sends alike, and their means in both weeks.
    fn cells(&self) -> String {
        format!(
        "WITH {}, {SIZES}
         SELECT host, peer, service, sum(least(before, after)) AS sends, sum(sum_before * least(before, after) / before) AS before_ns,
                sum(sum_after * least(before, after) / after) AS after_ns
         FROM sizes WHERE before > 0 AND after > 0 GROUP BY host, peer, service ORDER BY sends DESC, host, peer, service LIMIT {MOST_CELLS}",
        self.named(TOTAL)
    )
    }

    /// Each hour of the combinations with most sends, in both weeks.
    fn cell_hours(&self) -> String {
        let hours = 2 * self.end.saturating_sub(self.start).max(1);
        let most = (MOST_CELL_HOURS / hours).clamp(1, MOST_CELLS as u64);
        format!(
        "WITH {},
              each AS (SELECT host, peer, service, hour, later, sum(count) AS sends, CAST(sum(sum_ns) AS DOUBLE) / sum(count) AS mean_ns
                       FROM named GROUP BY host, peer, service, hour, later HAVING sum(count) > 0),
              most AS (SELECT host, peer, service FROM each GROUP BY host, peer, service ORDER BY sum(sends) DESC, host, peer, service LIMIT {most})
         SELECT e.* FROM each e JOIN most m ON m.host = e.host AND m.peer = e.peer AND m.service = e.service",
        self.named(TOTAL)
    )
    }

    /// The runs of the period with the longest mean, by host.
    fn longest(&self) -> String {
        let (start_us, end_us) = self.period_us();
        format!(
        "SELECT h.host, h.run, max(r.directory) AS directory, sum(h.count) AS sends, CAST(sum(h.sum_ns) AS DOUBLE) / sum(h.count) AS mean_ns
         FROM hours h JOIN runs r ON r.host = h.host AND r.run = h.run
         WHERE h.stage = 'total' AND h.time >= to_timestamp_micros({start_us}) AND h.time < to_timestamp_micros({end_us})
         GROUP BY h.host, h.run ORDER BY mean_ns DESC, h.host, h.run LIMIT {MOST_RUNS}"
    )
    }
}

/// What the newest advice of each host on each server says that helps, by worth: the sum of what a
/// remedy changes.
fn remedies() -> String {
    format!(
        "WITH advice AS (SELECT host, run, server, max(time) AS time FROM remedies GROUP BY host, run, server),
              newest AS (SELECT host, run, server, row_number() OVER (PARTITION BY host, server ORDER BY time DESC, run DESC) AS age FROM advice),
              helped AS (SELECT m.remedy, m.place, m.host, d.directory, m.change AS less, row_number() OVER (PARTITION BY m.remedy, m.place ORDER BY m.change, m.host, m.run) AS place_in_order
                         FROM remedies m JOIN newest n ON n.host = m.host AND n.run = m.run AND n.server = m.server AND n.age = 1
                         JOIN runs d ON d.host = m.host AND d.run = m.run
                         WHERE m.effect = 'helps' AND m.change IS NOT NULL)
         SELECT remedy, place, count(DISTINCT host) AS hosts, max(CASE WHEN place_in_order = 1 THEN host END) AS host,
                max(CASE WHEN place_in_order = 1 THEN directory END) AS directory, count(*) AS advised,
                median(less) AS change, min(less) AS most, max(less) AS least
         FROM helped GROUP BY remedy, place ORDER BY sum(less), remedy, place LIMIT {MOST_REMEDIES}"
    )
}

/// The sends themselves, in place of each leg of them.
const TOTAL: &str = "AND h.stage = 'total'";

/// How many sends each combination of host, peer and service has in an hour, in both weeks. There
/// are far fewer of them than rows of `named`, which has a row for each bucket: what is weighted by
/// them is read from there again, so that no query holds those rows in memory.
const SIZES: &str = "sizes AS (SELECT host, peer, service, stage, hour, CAST(sum(CASE WHEN later THEN 0 ELSE count END) AS DOUBLE) AS before,
                               CAST(sum(CASE WHEN later THEN count ELSE 0 END) AS DOUBLE) AS after,
                               sum(CASE WHEN later THEN 0 ELSE sum_ns END) AS sum_before, sum(CASE WHEN later THEN sum_ns ELSE 0 END) AS sum_after
                        FROM named GROUP BY host, peer, service, stage, hour)";

/// The columns of a record's table, of a query that has them.
fn select<R: Record>(rows: &str) -> String {
    let columns: Vec<String> = R::COLUMNS.iter().map(|column| format!("\"{}\"", column.name)).collect();
    format!("SELECT {} FROM ({rows}) AS rows", columns.join(", "))
}

/// The rows of this table once for each kind of group, with the kind and the name of the group
/// that they are in: one scan for all kinds.
fn of_each_kind(cells: &str) -> String {
    let name = |kind: &GroupKind| format!("WHEN '{0}' THEN c.{0}", kind.name());
    let names: Vec<String> = GroupKind::ALL.iter().map(name).collect();
    let kinds = GroupKind::ALL.map(|kind| format!("('{}')", kind.name()));
    format!(
        "(SELECT c.*, k.kind, CASE k.kind {} END AS name FROM {cells} c CROSS JOIN (VALUES {}) AS k(kind))",
        names.join(" "),
        kinds.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_excluded_whatever_its_name_holds() {
        let without = vec![group("service=it's = one").unwrap(), group("host=web-1").unwrap()];
        let ask = Ask { rows: Rows::Totals, runs: String::new(), start: 1000, end: 1024, without };
        let sql = ask.sql();
        assert!(sql.contains("NOT (service = 'it''s = one') AND NOT (host = 'web-1')"), "{sql}");
        assert!(sql.contains("time < to_timestamp_micros(3686400000000)"), "{sql}");
        assert!(group("web-1").is_err() && group("pod=x").is_err());
    }
}
