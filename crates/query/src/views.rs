//! Views: what people ask for most, as plain SQL over the tables. An executor of a cluster needs
//! nothing for them.

/// A view.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Its name in SQL.
    pub name: &'static str,
    /// What a row is.
    pub doc: &'static str,
    /// What it stands for.
    pub sql: &'static str,
}

/// All views.
pub const VIEWS: [View; 5] = [
    View {
        name: "quantiles",
        doc: "durations of each leg by host, peer and interval, from the histograms: each figure is the upper end of the bucket that it is in, at most 9 % above",
        sql: QUANTILES,
    },
    View {
        name: "slowest",
        doc: "the 100 sends that took longest, with their peers and what they waited for",
        sql: "\
SELECT s.host, s.run, s.time, c.remote_address, c.remote_port, s.comm, s.bytes, s.total_ns, s.call_ns, s.tcp_ns, s.qdisc_ns,
       s.nic_ns, s.network_ns, s.waited_for, s.waited_ns, s.retransmissions, s.connection_id
FROM (SELECT * FROM sends WHERE total_ns IS NOT NULL ORDER BY total_ns DESC LIMIT 100) s
LEFT JOIN connections c ON c.host = s.host AND c.run = s.run AND c.connection_id = s.connection_id
ORDER BY s.total_ns DESC",
    },
    View {
        name: "peers",
        doc: "sends by host and peer, with the peer's port where that is of a service: how many, by their weights, how long on average and at most, and how many were retransmitted; connections with a kept send",
        sql: "\
SELECT c.host, c.remote_address, c.remote_port, sum(s.n) AS n, count(*) AS connections,
       sum(s.total_ns) / CAST(sum(s.timed) AS DOUBLE) AS mean_ns, max(s.longest_ns) AS longest_ns,
       sum(s.network_ns) / CAST(sum(s.timed) AS DOUBLE) AS mean_network_ns, sum(s.retransmitted) AS retransmitted
FROM (SELECT host, run, connection_id, sum(weight) AS n, sum(CASE WHEN total_ns IS NOT NULL THEN weight ELSE 0 END) AS timed,
             sum(total_ns * weight) AS total_ns, max(total_ns) AS longest_ns, sum(network_ns * weight) AS network_ns,
             sum(CASE WHEN retransmissions > 0 THEN weight ELSE 0 END) AS retransmitted
      FROM sends GROUP BY host, run, connection_id) s
JOIN (SELECT host, run, connection_id, remote_address,
             CASE WHEN opening = 'connected' OR (opening <> 'accepted' AND remote_port < local_port) THEN remote_port END AS remote_port
      FROM connections) c
ON c.host = s.host AND c.run = s.run AND c.connection_id = s.connection_id
GROUP BY c.host, c.remote_address, c.remote_port",
    },
    View {
        name: "reasons",
        doc: "what sends waited for in TCP: how many and how long together, by their weights, and which share of the time that sends waited; a send that waited for several reasons is counted with each",
        sql: REASONS,
    },
    View {
        name: "coverage",
        doc: "how much of the traffic each run observed, and what it missed",
        sql: "\
SELECT host, run, time, state, duration_ns, followed_ns, armed_ns, bytes_written, bytes_armed, covered, missed
FROM runs WHERE bytes_written IS NOT NULL OR state = 'unfinished'",
    },
];

/// The time of each reason is a column of `sends`; sums of all of them are made in one pass, and
/// each becomes a row. Runs of earlier versions have the longest alone, with its name.
macro_rules! reasons {
    ($($reason:literal)*) => {
        concat!(
            "SELECT host, waited_for, n, waited_ns, longest_ns,\n",
            "       waited_ns / CAST(sum(waited_ns) OVER (PARTITION BY host) AS DOUBLE) AS share\nFROM (SELECT host, waited_for",
            ", CASE waited_for", $(" WHEN '", $reason, "' THEN n_", $reason,)* " END AS n",
            ", CASE waited_for", $(" WHEN '", $reason, "' THEN ns_", $reason,)* " END AS waited_ns",
            ", CASE waited_for", $(" WHEN '", $reason, "' THEN most_", $reason,)* " END AS longest_ns\n",
            "      FROM (SELECT host",
            $(", sum(CASE WHEN ", $reason, " > 0 THEN weight ELSE 0 END) AS n_", $reason,
              ", sum(", $reason, " * weight) AS ns_", $reason, ", max(", $reason, ") AS most_", $reason,)*
            "\n            FROM (SELECT host, weight",
            $(", coalesce(waited_", $reason, "_ns, CASE WHEN waited_for = '", $reason, "' THEN waited_ns END) AS ", $reason,)*
            "\n                  FROM sends WHERE waited_for IS NOT NULL) s GROUP BY host) sums\n",
            "      CROSS JOIN (VALUES ", reasons!(@rows $($reason)*), ") AS reasons(waited_for)) each WHERE n > 0"
        )
    };
    (@rows $first:literal $($reason:literal)*) => { concat!("('", $first, "')" $(, ", ('", $reason, "')")*) };
}

const REASONS: &str = reasons! {
    "sent_at_once" "congestion_window" "receive_window" "pacing" "nagle" "cork" "autocork" "small_queue" "retransmission" "unknown"
};

const QUANTILES: &str = "\
SELECT host, run, time, peer, peer_port, local_port, unit, container, pod, program, stage, max(n) AS n, max(mean_ns) AS mean_ns,
       min(CASE WHEN upto >= 0.5 * n THEN upper_ns END) AS p50_ns,
       min(CASE WHEN upto >= 0.9 * n THEN upper_ns END) AS p90_ns,
       min(CASE WHEN upto >= 0.99 * n THEN upper_ns END) AS p99_ns,
       min(CASE WHEN upto >= 0.999 * n THEN upper_ns END) AS p999_ns,
       max(upper_ns) AS max_ns
FROM (SELECT host, run, time, peer, peer_port, local_port, unit, container, pod, program, stage, cgroup,
             CAST(floor(power(2.0, bucket / 8.0) * 1e9) AS BIGINT) AS upper_ns,
             sum(count) OVER (PARTITION BY host, run, time, peer, peer_port, local_port, cgroup, unit, container, pod, program, stage
                              ORDER BY bucket ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
             sum(count) OVER (PARTITION BY host, run, time, peer, peer_port, local_port, cgroup, unit, container, pod, program, stage) AS n,
             sum(sum_ns) OVER (PARTITION BY host, run, time, peer, peer_port, local_port, cgroup, unit, container, pod, program, stage)
             / CAST(sum(count) OVER (PARTITION BY host, run, time, peer, peer_port, local_port, cgroup, unit, container, pod, program, stage) AS DOUBLE)
             AS mean_ns
      FROM histograms) b
GROUP BY host, run, time, peer, peer_port, local_port, cgroup, unit, container, pod, program, stage";
