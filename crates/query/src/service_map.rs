//! The service map of a fleet, for `wirelapse report --runs --map`: the rows of `record`'s tables
//! of it.
//!
//! A connection has rows at each end that is in the fleet, and the two are one edge. Which host is
//! at the other end follows from its address, and which service is there from what that host's own
//! rows say of the port. What no row says stays empty.
//!
//! What several later steps read is computed once and kept: within one query it would be computed
//! again wherever it is named.

use crate::owners::{self, OWNED, SERVICE};

/// Microseconds in an hour.
const HOUR_US: u64 = 3_600_000_000;
/// The connections of the runs that reach into the period, whenever each connection began: the
/// table that the steps read, and the one whose rows these are.
pub const FOLLOWED: (&str, &str) = ("followed", "connections");
/// Edges that are given: those whose sends took most time.
const MOST_EDGES: usize = 200;
/// Addresses outside the fleet that keep their own names, and as many networks of the others.
const MOST_OUTSIDE: usize = 12;
/// Sends that a p99 needs: of fewer, 1 in 100 is none.
const FOR_P99: u64 = record::fleet::FOR_P99;

/// All sends, and the legs that add up to them.
const LEGS: [&str; 5] = ["total", "tcp", "qdisc", "nic", "network"];
/// What is added up beside them.
const SUMMED: [&str; 11] =
    ["seen", "timed", "sends", "counted", "bytes", "retransmitted", "untimed", "opened", "failed", "tried", "rows"];

/// Sums of these columns, and of the legs' times.
fn sums<'a>(columns: impl IntoIterator<Item = &'a str>) -> String {
    let counts = columns.into_iter().map(|name| format!("sum({name}) AS {name}"));
    let times = LEGS.iter().map(|leg| format!("sum({leg}_ns) AS {leg}_ns"));
    counts.chain(times).collect::<Vec<_>>().join(", ")
}

/// The newest hour that any run's `run.json` tells of: no part is opened for it.
pub fn end_of_runs() -> String {
    format!(
        "SELECT max(coalesce(CAST(\"end\" AS BIGINT) - 1, CAST(time AS BIGINT))) / {HOUR_US} AS hour FROM runs WHERE kind = 'trace'"
    )
}

/// The newest hour with a send or an attempt to connect from this one on.
pub fn end_of_rows(start: u64) -> String {
    let from = format!("time >= to_timestamp_micros({})", start.saturating_mul(HOUR_US));
    format!(
        "SELECT CAST(max(time) AS BIGINT) / {HOUR_US} AS hour
         FROM (SELECT max(time) AS time FROM hours WHERE {from} UNION ALL SELECT max(time) AS time FROM sends WHERE {from}
               UNION ALL SELECT max(time) AS time FROM connects WHERE {from}) AS newest"
    )
}

/// The runs of the period.
pub fn runs(start: u64, end: u64) -> String {
    let (start_us, end_us) = (start.saturating_mul(HOUR_US), end.saturating_mul(HOUR_US));
    format!(
        "SELECT count(DISTINCT host) AS hosts, count(*) AS runs, coalesce(max(kept_one_in), 1) AS kept_one_in,
                coalesce(sum(bytes_written), 0) AS bytes_written, coalesce(sum(bytes_armed), 0) AS bytes_armed
         FROM runs WHERE kind = 'trace' AND time < to_timestamp_micros({end_us}) AND coalesce(\"end\", to_timestamp_micros({end_us})) > to_timestamp_micros({start_us})"
    )
}

/// What is computed before [`edges`], in order, each under its name.
pub fn steps(start: u64, end: u64) -> Vec<(&'static str, String)> {
    let within = |time: &str| {
        format!(
            "{time} >= to_timestamp_micros({}) AND {time} < to_timestamp_micros({})",
            start.saturating_mul(HOUR_US),
            end.saturating_mul(HOUR_US)
        )
    };
    vec![
        owners::of(&within("time")),
        ("sent", sent(&within("time"))),
        ("tried", tried(&within("h.time"), &within("t.time"))),
        ("programs", programs(&within("h.time"))),
        ("counted", counted(&within("h.time"))),
        ("measured", MEASURED.into()),
        ("ends", "SELECT DISTINCT host, role, service, near, near_port, far, far_port FROM measured".into()),
        ("found", FOUND.into()),
        ("links", LINKS.into()),
        ("linked", linked()),
        ("outside", outside()),
        ("keyed", KEYED.into()),
        ("figures", figures()),
    ]
}

/// The edges, each with the sends of both ends, and of each end alone.
pub fn edges() -> String {
    format!(
        "WITH addresses AS (SELECT edge, count(DISTINCT far) AS addresses FROM keyed WHERE far <> '' GROUP BY edge),
              most AS (SELECT edge, row_number() OVER (ORDER BY total_ns DESC, tried DESC, edge) AS place, count(*) OVER () AS edges
                       FROM figures WHERE sends_of = 'both')
         SELECT f.from_host, f.\"from\", f.to_host, f.\"to\", CASE WHEN f.port > 0 THEN f.port END AS port, f.directed, f.sends_of,
                f.at_client, f.at_server, coalesce(a.addresses, 0) AS addresses,
                CASE WHEN f.rows > 0 THEN CASE WHEN f.tried_at_client > 0 THEN f.opened_at_client ELSE f.opened END END AS opened,
                CASE WHEN f.rows > 0 THEN CASE WHEN f.tried_at_client > 0 THEN f.failed_at_client ELSE f.failed END END AS failed,
                f.sends, f.seen, f.counted, CASE WHEN f.counted < f.sends THEN f.bytes END AS bytes,
                CASE WHEN f.counted < f.sends THEN f.retransmitted END AS retransmitted, f.untimed, CAST(round(f.total_ns) AS BIGINT) AS total_ns,
                CASE WHEN f.timed > 0 THEN f.p50_ns END AS p50_ns, CASE WHEN f.seen >= {FOR_P99} THEN f.p99_ns END AS p99_ns,
                CASE WHEN f.longest_ns > 0 THEN CASE f.longest_ns WHEN f.network_ns THEN 'network' WHEN f.tcp_ns THEN 'tcp' WHEN f.qdisc_ns THEN 'qdisc' ELSE 'nic' END END AS leg,
                CASE WHEN f.longest_ns > 0 THEN f.longest_ns / (f.tcp_ns + f.qdisc_ns + f.nic_ns + f.network_ns) END AS leg_share,
                t.place, t.edges
         FROM figures f JOIN most t ON t.edge = f.edge LEFT JOIN addresses a ON a.edge = f.edge
         WHERE t.place <= {MOST_EDGES} AND (f.sends_of = 'both' OR f.sends > 0)"
    )
}

/// The sends of the period by connection, and by the buckets that histograms have.
fn sent(period: &str) -> String {
    let times = LEGS.map(|leg| format!("sum(coalesce(CAST({leg}_ns AS DOUBLE), 0) * weight) AS {leg}_ns")).join(", ");
    let bucket = "CASE WHEN total_ns > 0 THEN CAST(ceil(8 * log2(CAST(total_ns AS DOUBLE) / 1e9)) AS BIGINT) WHEN total_ns = 0 THEN -240 END";
    format!(
        "SELECT host, run, connection_id, max(comm) AS comm, {bucket} AS bucket,
                sum(CASE WHEN total_ns IS NULL THEN 0 ELSE 1 END) AS seen, sum(CASE WHEN total_ns IS NULL THEN 0 ELSE weight END) AS timed,
                sum(weight) AS sends, sum(bytes * weight) AS bytes, sum(CASE WHEN retransmissions > 0 THEN weight ELSE 0 END) AS retransmitted,
                sum(CASE WHEN total_ns IS NULL THEN weight ELSE 0 END) AS untimed, {times}
         FROM sends WHERE {period} GROUP BY host, run, connection_id, {bucket}"
    )
}

/// The attempts of the period, each with its service as the histograms of its run name its cgroup.
fn tried(period: &str, of_attempts: &str) -> String {
    format!(
        "WITH named AS (SELECT h.host, h.run, h.cgroup, max({SERVICE}) AS service FROM {OWNED}
                        WHERE {period} AND h.cgroup IS NOT NULL GROUP BY h.host, h.run, h.cgroup)
         SELECT t.host, t.run, t.connection_id, t.comm, n.service, t.opening, t.outcome, t.weight, t.local_address, t.local_port,
                t.remote_address, t.remote_port
         FROM connects t LEFT JOIN named n ON n.host = t.host AND n.run = t.run AND n.cgroup = t.cgroup_id WHERE {of_attempts}"
    )
}

/// The service of each program that is of one alone on its host.
fn programs(period: &str) -> String {
    format!(
        "SELECT host, comm, max(service) AS service
         FROM (SELECT host, comm, service FROM tried
               UNION ALL SELECT h.host, h.program AS comm, {SERVICE} AS service FROM {OWNED} WHERE {period}) AS p
         WHERE service IS NOT NULL AND comm <> '' GROUP BY host, comm HAVING count(DISTINCT service) = 1"
    )
}

/// The sends of runs that keep none, as their histograms count them.
fn counted(period: &str) -> String {
    let times = LEGS
        .map(|leg| format!("sum(CASE WHEN h.stage = '{leg}' THEN CAST(h.sum_ns AS DOUBLE) ELSE 0 END) AS {leg}_ns"));
    format!(
        "SELECT h.host, CASE WHEN h.local_port IS NULL AND h.peer_port IS NOT NULL THEN 'client'
                             WHEN h.peer_port IS NULL AND h.local_port IS NOT NULL THEN 'server' ELSE '' END AS role,
                coalesce({SERVICE}, h.program, '') AS service, coalesce(h.local_port, 0) AS near_port,
                CASE WHEN h.overflow = 0 THEN coalesce(h.peer, '') ELSE '' END AS far, coalesce(h.peer_port, 0) AS far_port,
                CASE WHEN h.stage = 'total' THEN h.bucket END AS bucket, sum(CASE WHEN h.stage = 'total' THEN h.count ELSE 0 END) AS sends, {}
         FROM {OWNED} LEFT JOIN (SELECT DISTINCT host, run FROM sent) w ON w.host = h.host AND w.run = h.run WHERE {period} AND w.run IS NULL
         GROUP BY h.host, h.local_port, h.peer_port, h.unit, o.owner, h.pod, h.container, h.program, h.overflow, h.peer,
                  CASE WHEN h.stage = 'total' THEN h.bucket END",
        times.join(", ")
    )
}

/// Whose all of this is: the host's end, the other end's address, and which of them connected.
/// Sends whose connection has no row have no address. A service is named as the histograms name the
/// cgroup of its connection, else as all of its program's connections are named, else it is the
/// program.
const MEASURED: &str = "\
WITH senders AS (SELECT host, run, connection_id, max(comm) AS comm FROM sent GROUP BY host, run, connection_id),
     own AS (SELECT host, run, connection_id, max(service) AS service FROM tried WHERE service IS NOT NULL GROUP BY host, run, connection_id),
     who AS (SELECT s.host, s.run, s.connection_id,
                    CASE WHEN c.opening = 'connected' OR c.was_accepted = 0 THEN 'client' WHEN c.opening = 'accepted' OR c.was_accepted = 1 THEN 'server' ELSE '' END AS role,
                    coalesce(o.service, p.service, nullif(c.comm, ''), s.comm, '') AS service,
                    coalesce(c.local_address, '') AS near, coalesce(c.local_port, 0) AS near_port, coalesce(c.remote_address, '') AS far, coalesce(c.remote_port, 0) AS far_port
             FROM senders s LEFT JOIN followed c ON c.host = s.host AND c.run = s.run AND c.connection_id = s.connection_id
             LEFT JOIN own o ON o.host = s.host AND o.run = s.run AND o.connection_id = s.connection_id
             LEFT JOIN programs p ON p.host = s.host AND p.comm = coalesce(nullif(c.comm, ''), s.comm))
SELECT w.host, w.role, w.service, w.near, w.near_port, w.far, w.far_port, s.bucket, s.seen, s.timed, s.sends, 0 AS counted, s.bytes, s.retransmitted,
       s.untimed, s.total_ns, s.tcp_ns, s.qdisc_ns, s.nic_ns, s.network_ns, 0 AS opened, 0 AS failed, 0 AS tried, s.sends AS rows
FROM sent s JOIN who w ON w.host = s.host AND w.run = s.run AND w.connection_id = s.connection_id
UNION ALL
SELECT t.host, CASE t.opening WHEN 'connected' THEN 'client' ELSE 'server' END AS role, coalesce(t.service, p.service, t.comm, '') AS service,
       t.local_address AS near, t.local_port AS near_port, t.remote_address AS far, t.remote_port AS far_port, NULL AS bucket, 0 AS seen, 0 AS timed, 0 AS sends,
       0 AS counted, 0 AS bytes, 0 AS retransmitted, 0 AS untimed, 0.0 AS total_ns, 0.0 AS tcp_ns, 0.0 AS qdisc_ns, 0.0 AS nic_ns, 0.0 AS network_ns,
       CASE WHEN t.outcome = 'established' THEN t.weight ELSE 0 END AS opened, CASE WHEN t.outcome IN ('established', 'pending') THEN 0 ELSE t.weight END AS failed,
       t.weight AS tried, t.weight AS rows
FROM tried t LEFT JOIN programs p ON p.host = t.host AND p.comm = t.comm WHERE t.outcome <> 'found' AND t.opening <> 'found'
UNION ALL
SELECT host, role, service, '' AS near, near_port, far, far_port, bucket, sends AS seen, sends AS timed, sends, sends AS counted, 0 AS bytes, 0 AS retransmitted,
       0 AS untimed, total_ns, tcp_ns, qdisc_ns, nic_ns, network_ns, 0 AS opened, 0 AS failed, 0 AS tried, 0 AS rows
FROM counted";

/// Which host is at the other end: this one where it has the address itself, and else the one host
/// that has it. One that several have, as those of bridges, names none of them.
const FOUND: &str = "\
WITH places AS (SELECT DISTINCT host, near FROM ends WHERE near <> ''),
     owners AS (SELECT near, max(host) AS host, count(*) AS hosts FROM places GROUP BY near)
SELECT e.*, CASE WHEN e.far LIKE '127.%' OR e.far = '::1' OR p.host IS NOT NULL THEN e.host
                 WHEN o.hosts = 1 THEN o.host WHEN o.hosts > 1 THEN concat(e.far, ' (several hosts)') ELSE '' END AS far_host
FROM ends e LEFT JOIN places p ON p.host = e.host AND p.near = e.far LEFT JOIN owners o ON o.near = e.far";

/// Which service is there: the one that accepts at the port; the one that connected is the one with
/// that very connection, or the only one of its host that connects there.
const LINKS: &str = "\
WITH accepts AS (SELECT host, near_port, max(service) AS service FROM ends WHERE role = 'server' GROUP BY host, near_port HAVING count(DISTINCT service) = 1),
     connected AS (SELECT host, near, near_port, far, far_port, max(service) AS service FROM ends WHERE role = 'client' AND near <> ''
                   GROUP BY host, near, near_port, far, far_port HAVING count(DISTINCT service) = 1),
     connects_to AS (SELECT host, far_host, far_port, max(service) AS service FROM found WHERE role = 'client' AND far_host <> ''
                     GROUP BY host, far_host, far_port HAVING count(DISTINCT service) = 1)
SELECT f.*, coalesce(CASE f.role WHEN 'client' THEN a.service WHEN 'server' THEN coalesce(c.service, t.service) END, '') AS far_service
FROM found f LEFT JOIN accepts a ON a.host = f.far_host AND a.near_port = f.far_port
LEFT JOIN connected c ON c.host = f.far_host AND c.near = f.far AND c.near_port = f.far_port AND c.far = f.near AND c.far_port = f.near_port
LEFT JOIN connects_to t ON t.host = f.far_host AND t.far_host = f.host AND t.far_port = f.near_port";

/// What was measured between the same two, without the ports that differ from connection to
/// connection. An address counts outside the fleet alone.
fn linked() -> String {
    format!(
        "SELECT host, role, service, port, far_host, far_service, far, bucket, {}
         FROM (SELECT m.host, m.role, m.service, CASE m.role WHEN 'client' THEN m.far_port WHEN 'server' THEN m.near_port ELSE 0 END AS port,
                      l.far_host, l.far_service, CASE WHEN l.far_host = '' THEN m.far ELSE '' END AS far, m.bucket, {}, {}
               FROM measured m JOIN links l
               ON l.host = m.host AND l.role = m.role AND l.service = m.service AND l.near = m.near AND l.near_port = m.near_port
                  AND l.far = m.far AND l.far_port = m.far_port) AS m
         GROUP BY host, role, service, port, far_host, far_service, far, bucket",
        sums(SUMMED),
        SUMMED.join(", "),
        LEGS.map(|leg| format!("{leg}_ns")).join(", ")
    )
}

/// Names of what is outside the fleet: the busiest addresses have their own, the others are folded
/// into networks (/16, /48), and what is beyond the busiest of these is together.
fn outside() -> String {
    format!(
        "WITH addressed AS (SELECT far, sum(sends + tried) AS n,
                                   CASE WHEN far LIKE '%/%' THEN far
                                        WHEN far LIKE '%:%' THEN regexp_replace(far, '^([0-9a-f]+:)([0-9a-f]+:)?([0-9a-f]+:)?.*$', '\\1\\2\\3:/48')
                                        ELSE concat(split_part(far, '.', 1), '.', split_part(far, '.', 2), '.0.0/16') END AS network
                            FROM linked WHERE far <> '' GROUP BY far),
              ordered AS (SELECT *, row_number() OVER (ORDER BY n DESC, far) AS place FROM addressed),
              networks AS (SELECT network, row_number() OVER (ORDER BY sum(n) DESC, network) AS place FROM ordered WHERE place > {MOST_OUTSIDE} GROUP BY network)
         SELECT o.far, CASE WHEN o.place <= {MOST_OUTSIDE} THEN o.far WHEN n.place <= {MOST_OUTSIDE} THEN o.network ELSE '(elsewhere)' END AS name
         FROM ordered o LEFT JOIN networks n ON n.network = o.network"
    )
}

/// From whom to whom each goes, and the edge that it is of.
const KEYED: &str = "\
WITH named AS (SELECT l.*, CASE WHEN l.far_host = '' THEN coalesce(o.name, '') ELSE l.far_service END AS far_name FROM linked l LEFT JOIN outside o ON o.far = l.far),
     edged AS (SELECT *, CASE WHEN role = 'server' THEN far_host ELSE host END AS from_host, CASE WHEN role = 'server' THEN far_name ELSE service END AS \"from\",
                      CASE WHEN role = 'server' THEN host ELSE far_host END AS to_host, CASE WHEN role = 'server' THEN service ELSE far_name END AS \"to\",
                      role <> '' AS directed FROM named)
SELECT *, concat_ws(chr(1), from_host, \"from\", to_host, \"to\", CAST(port AS VARCHAR), CASE WHEN directed THEN '' ELSE '?' END) AS edge,
       CASE WHEN role = 'client' THEN opened ELSE 0 END AS opened_at_client, CASE WHEN role = 'client' THEN failed ELSE 0 END AS failed_at_client,
       CASE WHEN role = 'client' THEN tried ELSE 0 END AS tried_at_client FROM edged";

/// The figures of each edge, of all its sends and of each end's.
fn figures() -> String {
    let all = || sums(SUMMED.into_iter().chain(["opened_at_client", "failed_at_client", "tried_at_client"]));
    let edge = "edge, from_host, \"from\", to_host, \"to\", port, directed, sends_of";
    let bound = "CAST(floor(power(2.0, bucket / 8.0) * 1e9) AS BIGINT)";
    format!(
        "WITH binned AS (SELECT {edge}, bucket, max(CASE WHEN role = 'client' THEN 1 ELSE 0 END) AS at_client, max(CASE WHEN role = 'server' THEN 1 ELSE 0 END) AS at_server, {}
                         FROM (SELECT k.*, CASE WHEN d.whole = 1 THEN 'both' ELSE k.role END AS sends_of FROM keyed k CROSS JOIN (VALUES (0), (1)) AS d(whole)) AS k
                         WHERE sends_of <> '' GROUP BY {edge}, bucket),
              summed AS (SELECT *, sum(timed) OVER (PARTITION BY edge, sends_of ORDER BY bucket ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
                                sum(timed) OVER (PARTITION BY edge, sends_of) AS n FROM binned),
              added AS (SELECT {edge}, max(at_client) = 1 AS at_client, max(at_server) = 1 AS at_server, {},
                               min(CASE WHEN timed > 0 AND upto >= 0.5 * n THEN {bound} END) AS p50_ns,
                               min(CASE WHEN timed > 0 AND upto >= 0.99 * n THEN {bound} END) AS p99_ns
                        FROM summed GROUP BY {edge})
         SELECT *, greatest(tcp_ns, qdisc_ns, nic_ns, network_ns) AS longest_ns FROM added",
        all(),
        all()
    )
}
