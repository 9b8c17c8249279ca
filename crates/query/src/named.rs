//! Named queries: the questions that are asked again and again.

/// A named query.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its name, for `--named`.
    pub name: &'static str,
    /// The question.
    pub doc: &'static str,
    /// The query.
    pub sql: &'static str,
}

/// All of them.
pub const NAMED: [Named; 10] = [
    Named {
        name: "slow-peers",
        doc: "which peers have the longest p99, from the histograms",
        sql: "\
SELECT host, peer, n, mean_ns / 1e6 AS mean_ms, p99_ns / 1e6 AS p99_ms FROM (
  SELECT host, peer, max(n) AS n, max(mean_ns) AS mean_ns, min(CASE WHEN upto >= 0.99 * n THEN upper_ns END) AS p99_ns FROM (
    SELECT host, peer, power(2.0, bucket / 8.0) * 1e9 AS upper_ns,
           sum(count) OVER (PARTITION BY host, peer ORDER BY bucket ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
           sum(count) OVER (PARTITION BY host, peer) AS n,
           sum(sum_ns) OVER (PARTITION BY host, peer) / CAST(sum(count) OVER (PARTITION BY host, peer) AS DOUBLE) AS mean_ns
    FROM (SELECT host, peer, bucket, sum(count) AS count, sum(sum_ns) AS sum_ns FROM hours
          WHERE stage = 'total' GROUP BY host, peer, bucket) AS buckets) AS running
  GROUP BY host, peer) AS peers
ORDER BY p99_ms DESC, host, peer LIMIT 20",
    },
    Named {
        name: "slow-hosts",
        doc: "which hosts have the longest p99, from the histograms",
        sql: "\
SELECT host, n, p99_ns / 1e6 AS p99_ms FROM (
  SELECT host, max(n) AS n, min(CASE WHEN upto >= 0.99 * n THEN upper_ns END) AS p99_ns FROM (
    SELECT host, power(2.0, bucket / 8.0) * 1e9 AS upper_ns,
           sum(count) OVER (PARTITION BY host ORDER BY bucket ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
           sum(count) OVER (PARTITION BY host) AS n
    FROM (SELECT host, bucket, sum(count) AS count FROM hours WHERE stage = 'total' GROUP BY host, bucket) AS buckets) AS running
  GROUP BY host) AS hosts
ORDER BY p99_ms DESC, host LIMIT 20",
    },
    Named {
        name: "slowest-sends",
        doc: "the sends that took longest, with their peers",
        sql: "SELECT host, run, time, remote_address, remote_port, comm, bytes, total_ns / 1e6 AS total_ms, waited_for FROM slowest ORDER BY total_ns DESC LIMIT 20",
    },
    Named {
        name: "busy-peers",
        doc: "which peers get most sends, and how long these take",
        sql: "\
SELECT remote_address, sum(n) AS n, sum(connections) AS connections, sum(mean_ns * n) / sum(n) / 1e6 AS mean_ms,
       max(longest_ns) / 1e6 AS longest_ms, sum(retransmitted) AS retransmitted
FROM peers GROUP BY remote_address ORDER BY n DESC, remote_address LIMIT 20",
    },
    Named {
        name: "reasons",
        doc: "what sends wait for in TCP, over all hosts",
        sql: "SELECT waited_for, sum(n) AS n, sum(waited_ns) / 1e9 AS waited_s FROM reasons GROUP BY waited_for ORDER BY waited_s DESC",
    },
    Named {
        name: "over-time",
        doc: "sends and their mean duration, minute by minute",
        sql: "\
SELECT date_trunc('minute', time) AS minute, sum(weight) AS n,
       sum(total_ns * weight) / CAST(sum(CASE WHEN total_ns IS NOT NULL THEN weight ELSE 0 END) AS DOUBLE) / 1e6 AS mean_ms, max(total_ns) / 1e6 AS longest_ms
FROM sends GROUP BY 1 ORDER BY 1",
    },
    Named {
        name: "retransmissions",
        doc: "which peers segments are retransmitted to",
        sql: "\
SELECT c.remote_address, sum(t.segments_retransmitted * t.weight) AS segments, sum(t.bytes_acked * t.weight) AS bytes_acked,
       sum(t.weight) AS connections
FROM totals t JOIN connections c ON c.host = t.host AND c.run = t.run AND c.connection_id = t.connection_id
GROUP BY c.remote_address HAVING sum(t.segments_retransmitted) > 0 ORDER BY segments DESC, c.remote_address LIMIT 20",
    },
    Named {
        name: "slow-requests",
        doc: "requests that took longest, and which component took the time",
        sql: "\
SELECT host, run, time, comm, role, whole_ns / 1e6 AS whole_ms, application_ns / 1e6 AS application_ms, tcp_ns / 1e6 AS tcp_ms,
       network_ns / 1e6 AS network_ms, peer_application_ns / 1e6 AS peer_application_ms, transfer_ns / 1e6 AS transfer_ms
FROM requests WHERE whole_ns IS NOT NULL ORDER BY whole_ns DESC LIMIT 20",
    },
    Named {
        name: "drops",
        doc: "packets and datagrams that kernels dropped, by reason",
        sql: "\
SELECT host, dropped, count(*) AS n FROM (
  SELECT host, dropped FROM packets WHERE dropped IS NOT NULL UNION ALL SELECT host, dropped FROM datagrams WHERE dropped IS NOT NULL) AS d
GROUP BY host, dropped ORDER BY n DESC, host, dropped",
    },
    Named {
        name: "coverage",
        doc: "which runs observed least of the traffic, and what they missed",
        sql: "SELECT * FROM coverage ORDER BY covered, host, run LIMIT 50",
    },
];

/// The query of this name.
pub fn find(name: &str) -> Option<&'static Named> {
    NAMED.iter().find(|named| named.name == name)
}
