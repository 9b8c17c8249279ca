//! The causes that were recorded, and what is so of each.

/// One cause.
pub struct Cause {
    pub name: &'static str,
    /// For the table.
    pub words: &'static str,
    /// The host that sends most of the data: `a` or `b`.
    pub sender: char,
    /// In the captures that rules were made with, and in the others.
    pub one_way_ms: [u64; 2],
    /// Any of these findings names the cause; `limit` stands for the largest share of the time.
    pub right: &'static [&'static str],
    /// What else is so, and may be said.
    pub also: &'static [&'static str],
    /// Limits that may have the largest share.
    pub limits: &'static [&'static str],
}

macro_rules! cause {
    ($name:literal, $words:literal, $sender:literal, $ms:expr, $right:expr, $also:expr, $limits:expr) => {
        Cause {
            name: $name,
            words: $words,
            sender: $sender,
            one_way_ms: $ms,
            right: &$right,
            also: &$also,
            limits: &$limits,
        }
    };
}

// A queue of the path overflows at the end of slow start. In a short transfer, repairing that may
// take the largest share.
pub const CAUSES: &[Cause] = &[
    cause!(
        "path_rate",
        "path's rate",
        'a',
        [10, 24],
        ["limit"],
        ["bufferbloat", "loss", "capture_incomplete"],
        ["PathRate", "LossRecovery"]
    ),
    cause!(
        "path_rate_no_stamps",
        "path's rate, no timestamps",
        'a',
        [10, 18],
        ["limit"],
        ["bufferbloat", "loss"],
        ["PathRate", "LossRecovery"]
    ),
    cause!(
        "path_rate_download",
        "path's rate, download",
        'b',
        [10, 22],
        ["limit"],
        ["bufferbloat", "loss"],
        ["PathRate", "LossRecovery"]
    ),
    // The machine stood still for 100 ms while the second was recorded: no packet arrives from 474
    // to 475, then 6 µs after one another.
    cause!("bufferbloat", "bufferbloat", 'a', [5, 12], ["bufferbloat"], ["path_stalls"], ["PathRate"]),
    cause!("bufferbloat_no_stamps", "bufferbloat, no timestamps", 'a', [5, 9], ["bufferbloat"], [], ["PathRate"]),
    cause!(
        "loss_1_percent",
        "loss of 1 %",
        'a',
        [20, 32],
        ["loss"],
        ["congestion_window", "slow_start_after_idle"],
        ["LossRecovery", "CongestionWindow"]
    ),
    cause!(
        "loss_in_bursts",
        "loss in bursts",
        'a',
        [5, 13],
        ["loss"],
        ["congestion_window"],
        ["LossRecovery", "CongestionWindow", "PathRate", "SlowStart"]
    ),
    cause!("outage", "outage of 1.5 s", 'a', [10, 26], ["loss"], ["congestion_window"], ["LossRecovery"]),
    cause!(
        "reordering",
        "reordering",
        'a',
        [10, 17],
        ["reordering_taken_for_loss"],
        ["loss", "congestion_window", "bufferbloat"],
        ["LossRecovery", "CongestionWindow", "SlowStart", "PathRate"]
    ),
    cause!(
        "jitter",
        "jitter",
        'a',
        [20, 35],
        ["limit"],
        ["bufferbloat"],
        ["SlowStart", "CongestionWindow", "PathRate"]
    ),
    cause!("receive_window", "small receive window", 'a', [20, 12], ["receive_window"], [], ["ReceiveWindow"]),
    cause!(
        "no_scaling_client",
        "no window scaling, client",
        'a',
        [10, 27],
        ["window_scaling_missing"],
        [],
        ["ReceiveWindow"]
    ),
    cause!(
        "no_scaling_server",
        "no window scaling, server",
        'a',
        [10, 33],
        ["window_scaling_missing"],
        [],
        ["ReceiveWindow"]
    ),
    cause!("slow_reader", "slow reader", 'a', [2, 6], ["receiver_application", "zero_window"], [], ["ReceiveWindow"]),
    cause!(
        "closed_window",
        "closed window",
        'a',
        [5, 14],
        ["zero_window"],
        ["receiver_application", "slow_start_after_idle"],
        ["ReceiveWindow"]
    ),
    cause!(
        "send_buffer",
        "small send buffer, short transfer",
        'a',
        [15, 22],
        ["send_buffer", "congestion_window"],
        [],
        ["CongestionWindow", "SlowStart"]
    ),
    cause!(
        "held_window",
        "congestion window held",
        'a',
        [15, 25],
        ["send_buffer"],
        [],
        ["CongestionWindow", "SlowStart"]
    ),
    cause!("slow_start", "slow start", 'a', [50, 75], ["limit"], [], ["SlowStart"]),
    cause!("nagle", "Nagle and delayed ACKs", 'a', [1, 4], ["nagle_delayed_ack"], [], ["AckWaiting"]),
    cause!("delayed_ack", "delayed ACKs", 'a', [1, 3], ["delayed_ack_stall"], [], ["AckWaiting"]),
    cause!("round_trips", "dialogue", 'a', [10, 31], ["round_trips"], ["sender_application"], ["Application"]),
    cause!("sender_pauses", "sender pauses", 'a', [5, 15], ["sender_application"], [], ["Application"]),
    cause!("bursts", "bursts", 'a', [10, 16], ["sender_application"], ["congestion_window"], ["Application"]),
    cause!("server_thinks", "slow server, keep-alive", 'b', [5, 18], ["sender_application"], [], ["Application"]),
    cause!("server_thinks_tls", "slow server behind TLS", 'b', [10, 23], ["sender_application"], [], ["Application"]),
    cause!("first_byte_late", "first byte after 2 s", 'b', [10, 28], ["sender_application"], [], ["Application"]),
    cause!("client_thinks", "client thinks", 'b', [5, 11], ["sender_application"], [], ["Application"]),
    cause!("tiny_segments", "tiny segments", 'a', [5, 9], ["tiny_segments"], ["sender_application"], ["Application"]),
    cause!(
        "idle_restart",
        "slow start after a pause",
        'a',
        [20, 34],
        ["slow_start_after_idle"],
        ["sender_application"],
        ["Application"]
    ),
    cause!("mtu_black_hole", "large packets vanish", 'a', [5, 21], ["mtu_black_hole"], ["loss"], ["LossRecovery"]),
    cause!(
        "delay_step",
        "path's delay changes",
        'a',
        [2, 7],
        ["path_delay_step"],
        ["round_trips", "sender_application"],
        ["Application"]
    ),
    cause!(
        "syn_retry",
        "SYN lost",
        'a',
        [10, 29],
        ["syn_retries"],
        ["round_trips", "sender_application"],
        ["Handshake", "Application"]
    ),
    cause!(
        "reset",
        "reset by the application",
        'a',
        [5, 17],
        ["reset"],
        ["sender_application"],
        ["Application", "SlowStart"]
    ),
    cause!(
        "policer",
        "policer",
        'a',
        [10, 19],
        ["loss"],
        ["congestion_window"],
        ["LossRecovery", "PathRate", "CongestionWindow"]
    ),
    cause!(
        "ecn_queue",
        "queue that marks (ECN)",
        'a',
        [10, 15],
        ["congestion_marks"],
        ["congestion_window"],
        ["PathRate", "CongestionWindow"]
    ),
    cause!("lost_acks", "lost ACKs", 'a', [10, 14], ["limit"], ["loss", "bufferbloat"], ["PathRate"]),
    cause!(
        "duplicates",
        "duplicates on the path",
        'a',
        [10, 20],
        ["limit"],
        ["loss", "bufferbloat"],
        ["PathRate", "LossRecovery"]
    ),
    cause!(
        "two_flows",
        "two flows on one path",
        'a',
        [10, 13],
        ["limit", "loss", "bufferbloat"],
        [],
        ["PathRate", "LossRecovery"]
    ),
    cause!(
        "both_ways",
        "both directions at once",
        'a',
        [10, 16],
        ["limit", "bufferbloat"],
        ["loss"],
        ["PathRate", "LossRecovery"]
    ),
    cause!("stalls", "path that stands still", 'a', [10, 17], ["path_stalls"], [], ["PathRate", "SlowStart"]),
    cause!(
        "stalls_of_acks",
        "way of the ACKs that stands still",
        'a',
        [12, 8],
        ["path_stalls"],
        ["send_buffer"],
        ["CongestionWindow", "PathRate"]
    ),
    cause!(
        "damage",
        "segments damaged on the path",
        'a',
        [15, 21],
        ["damaged_packets"],
        ["loss", "congestion_window"],
        ["LossRecovery", "CongestionWindow", "SlowStart"]
    ),
    cause!("bbr", "BBR at the path's rate", 'a', [20, 12], ["limit"], ["bufferbloat"], ["PathRate"]),
    // Nothing in a capture separates pacing from other even flows: no limit may be named.
    cause!("paced", "paced below the path's rate", 'a', [10, 22], ["limit"], [], []),
    cause!("own_link_full", "sender's own link full", 'a', [1, 6], ["limit"], ["bufferbloat", "loss"], ["PathRate"]),
    cause!(
        "written_at_a_rate",
        "writes at a rate",
        'a',
        [10, 22],
        ["limit", "sender_application"],
        [],
        ["Application"]
    ),
    cause!(
        "bunched_acks",
        "ACKs in bunches, window held",
        'a',
        [10, 16],
        ["send_buffer"],
        [],
        ["CongestionWindow", "SlowStart"]
    ),
    cause!(
        "bunched_acks_path_rate",
        "ACKs in bunches, path's rate",
        'a',
        [10, 16],
        ["limit"],
        ["bufferbloat", "loss"],
        ["PathRate", "LossRecovery"]
    ),
];
