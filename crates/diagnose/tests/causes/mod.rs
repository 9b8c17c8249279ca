//! The causes that were recorded, and what is so of each.

/// One cause.
pub struct Cause {
    pub name: &'static str,
    /// For the table.
    pub words: &'static str,
    /// The host that sends most of the data: `a` or `b`.
    pub sender: char,
    pub one_way_ms: u64,
    /// Any of these findings names the cause; `limit` stands for the largest share of the time.
    pub right: &'static [&'static str],
    /// What else is so, and may be said.
    pub also: &'static [&'static str],
    /// Limits that may have the largest share.
    pub limits: &'static [&'static str],
}

macro_rules! cause {
    ($name:literal, $words:literal, $sender:literal, $ms:literal, $right:expr, $also:expr, $limits:expr) => {
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

pub const CAUSES: &[Cause] = &[
    cause!("path_rate", "path's rate", 'a', 10, ["limit"], ["bufferbloat", "loss", "capture_incomplete"], ["PathRate"]),
    cause!(
        "path_rate_no_stamps",
        "path's rate, no timestamps",
        'a',
        10,
        ["limit"],
        ["bufferbloat", "loss"],
        ["PathRate"]
    ),
    cause!("path_rate_download", "path's rate, download", 'b', 10, ["limit"], ["bufferbloat", "loss"], ["PathRate"]),
    cause!("bufferbloat", "bufferbloat", 'a', 5, ["bufferbloat"], [], ["PathRate"]),
    cause!("bufferbloat_no_stamps", "bufferbloat, no timestamps", 'a', 5, ["bufferbloat"], [], ["PathRate"]),
    cause!(
        "loss_1_percent",
        "loss of 1 %",
        'a',
        20,
        ["loss"],
        ["congestion_window", "slow_start_after_idle"],
        ["LossRecovery", "CongestionWindow"]
    ),
    cause!(
        "loss_in_bursts",
        "loss in bursts",
        'a',
        5,
        ["loss"],
        ["congestion_window"],
        ["LossRecovery", "CongestionWindow", "PathRate"]
    ),
    cause!("outage", "outage of 1.5 s", 'a', 10, ["loss"], ["congestion_window"], ["LossRecovery"]),
    cause!(
        "reordering",
        "reordering",
        'a',
        10,
        ["reordering_taken_for_loss"],
        ["loss", "congestion_window", "bufferbloat"],
        ["LossRecovery", "CongestionWindow", "SlowStart", "PathRate"]
    ),
    cause!("jitter", "jitter", 'a', 20, ["limit"], ["bufferbloat"], ["SlowStart", "CongestionWindow", "PathRate"]),
    cause!("receive_window", "small receive window", 'a', 20, ["receive_window"], [], ["ReceiveWindow"]),
    cause!(
        "no_scaling_client",
        "no window scaling, client",
        'a',
        10,
        ["window_scaling_missing"],
        [],
        ["ReceiveWindow"]
    ),
    cause!(
        "no_scaling_server",
        "no window scaling, server",
        'a',
        10,
        ["window_scaling_missing"],
        [],
        ["ReceiveWindow"]
    ),
    cause!("slow_reader", "slow reader", 'a', 2, ["receiver_application", "zero_window"], [], ["ReceiveWindow"]),
    cause!(
        "closed_window",
        "closed window",
        'a',
        5,
        ["zero_window"],
        ["receiver_application", "slow_start_after_idle"],
        ["ReceiveWindow"]
    ),
    cause!(
        "send_buffer",
        "small send buffer, short transfer",
        'a',
        15,
        ["send_buffer", "congestion_window"],
        [],
        ["CongestionWindow", "SlowStart"]
    ),
    cause!("held_window", "congestion window held", 'a', 15, ["send_buffer"], [], ["CongestionWindow", "SlowStart"]),
    cause!("slow_start", "slow start", 'a', 50, ["limit"], [], ["SlowStart"]),
    cause!("nagle", "Nagle and delayed ACKs", 'a', 1, ["nagle_delayed_ack"], [], ["AckWaiting"]),
    cause!("delayed_ack", "delayed ACKs", 'a', 1, ["delayed_ack_stall"], [], ["AckWaiting"]),
    cause!("round_trips", "dialogue", 'a', 10, ["round_trips"], ["sender_application"], ["Application"]),
    cause!("sender_pauses", "sender pauses", 'a', 5, ["sender_application"], [], ["Application"]),
    cause!("bursts", "bursts", 'a', 10, ["sender_application"], ["congestion_window"], ["Application"]),
    cause!("server_thinks", "slow server, keep-alive", 'b', 5, ["sender_application"], [], ["Application"]),
    cause!("server_thinks_tls", "slow server behind TLS", 'b', 10, ["sender_application"], [], ["Application"]),
    cause!("first_byte_late", "first byte after 2 s", 'b', 10, ["sender_application"], [], ["Application"]),
    cause!("client_thinks", "client thinks", 'b', 5, ["sender_application"], [], ["Application"]),
    cause!("tiny_segments", "tiny segments", 'a', 5, ["tiny_segments"], ["sender_application"], ["Application"]),
    cause!(
        "idle_restart",
        "slow start after a pause",
        'a',
        20,
        ["slow_start_after_idle"],
        ["sender_application"],
        ["Application"]
    ),
    cause!("mtu_black_hole", "large packets vanish", 'a', 5, ["mtu_black_hole"], ["loss"], ["LossRecovery"]),
    cause!(
        "delay_step",
        "path's delay changes",
        'a',
        2,
        ["path_delay_step"],
        ["round_trips", "sender_application"],
        ["Application"]
    ),
    cause!(
        "syn_retry",
        "SYN lost",
        'a',
        10,
        ["syn_retries"],
        ["round_trips", "sender_application"],
        ["Handshake", "Application"]
    ),
    cause!(
        "reset",
        "reset by the application",
        'a',
        5,
        ["reset"],
        ["sender_application"],
        ["Application", "SlowStart"]
    ),
    cause!(
        "policer",
        "policer",
        'a',
        10,
        ["loss"],
        ["congestion_window"],
        ["LossRecovery", "PathRate", "CongestionWindow"]
    ),
    cause!("ecn_queue", "queue that marks (ECN)", 'a', 10, ["congestion_marks"], [], ["PathRate", "CongestionWindow"]),
    cause!("lost_acks", "lost ACKs", 'a', 10, ["limit"], ["loss", "bufferbloat"], ["PathRate"]),
    cause!(
        "duplicates",
        "duplicates on the path",
        'a',
        10,
        ["limit"],
        ["loss", "bufferbloat"],
        ["PathRate", "LossRecovery"]
    ),
    cause!(
        "two_flows",
        "two flows on one path",
        'a',
        10,
        ["limit", "loss", "bufferbloat"],
        [],
        ["PathRate", "LossRecovery"]
    ),
    cause!("both_ways", "both directions at once", 'a', 10, ["limit", "bufferbloat"], ["loss"], ["PathRate"]),
    cause!("bbr", "BBR at the path's rate", 'a', 20, ["limit"], ["bufferbloat"], ["PathRate"]),
];
