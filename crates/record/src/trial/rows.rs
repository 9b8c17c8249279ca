//! What belongs to a trial beside its row: the levels of its factors, its series, its probes; and
//! what is concluded from all trials.

use crate::{Nanos, columns};

/// The level that one factor had in one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Factor {
    /// The trial's number.
    pub trial: u64,
    /// The factor's name.
    pub factor: String,
    /// Its level, as the plan writes it.
    pub level: String,
}

/// A point of a trial's series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// The trial's number.
    pub trial: u64,
    /// Since the transfer began.
    pub at_ns: Nanos,
    /// Goodput of the interval that ends here: from client to server, or the other way where the
    /// server alone sends.
    pub goodput_bits_per_second: f64,
    /// From server to client, where both send.
    pub goodput_down_bits_per_second: Option<f64>,
    /// Smoothed round trip at its end.
    pub srtt_ns: Nanos,
    /// Congestion window at its end.
    pub cwnd_bytes: u64,
    /// The largest window that the receiver offered in the interval.
    pub receive_window_bytes: Option<u64>,
    /// Memory of packets that the receiver has not read (`skmem` r).
    pub receive_used_bytes: Option<u64>,
    /// The most of that at present (`skmem` rb).
    pub receive_buffer_bytes: Option<u64>,
    /// Part of the warm-up.
    pub warm_up: bool,
}

/// One probe beside the streams of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ping {
    /// The trial's number.
    pub trial: u64,
    /// `tcp`, `udp` or `icmp`.
    pub probe: String,
    /// When it was meant to be sent, on the axis of the series.
    pub at_ns: Nanos,
    /// Until the answer; `None` where none came.
    pub round_trip_ns: Option<Nanos>,
}

/// One comparison of the conclusion. Ratios are less 1: 0.01 is 1 % more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// In words: what against what.
    pub what: String,
    /// Which response.
    pub response: String,
    /// Geometric mean of the ratios within blocks.
    pub ratio: f64,
    /// Lower end of its interval.
    pub ratio_low: f64,
    /// Upper end.
    pub ratio_high: f64,
    /// Blocks.
    pub blocks: u64,
    /// The p that belongs to that interval, among all comparisons of the study.
    pub p: f64,
    /// What first principles say.
    pub ratio_predicted: Option<f64>,
    /// The smallest that the run could have seen.
    pub ratio_smallest_seen: f64,
}

columns! {
    Factor: "factors", "", blank = Factor::default();
    trial = trial, "the trial";
    factor = factor, "its name, as in the plan";
    level = level, "its level, as in the plan";
}

columns! {
    Point: "series", "", blank = Point::default();
    trial = trial, "the trial";
    at_ns = at_ns, "end of the interval, since the transfer began";
    goodput_bits_per_second = goodput_bits_per_second, "received in the interval, from client to server; the other way where the server alone sends";
    goodput_down_bits_per_second = goodput_down_bits_per_second, null "only one end sends", "from server to client, where both send";
    srtt_ns = srtt_ns, "smoothed round trip at its end";
    cwnd_bytes = cwnd_bytes, "congestion window at its end";
    receive_window_bytes = receive_window_bytes, null "none of its ACKs was analysed", "the largest window that the receiver offered in the interval, by the packets";
    receive_used_bytes = receive_used_bytes, null "the kernel did not say", "memory of packets that the receiver has not read (`skmem` r)";
    receive_buffer_bytes = receive_buffer_bytes, null "the kernel did not say", "the most of that at present (`skmem` rb)";
    warm_up = warm_up, "1 where it is part of the warm-up, which does not count";
}

columns! {
    Ping: "pings", "", blank = Ping::default();
    trial = trial, "the trial";
    probe = probe, "`icmp`, `udp` or `tcp`";
    at_ns = at_ns, "when it was meant to be sent, on the axis of `series`";
    round_trip_ns = round_trip_ns, null "no answer came", "until the answer";
}

columns! {
    Comparison: "comparisons", "", blank = Comparison::default();
    what = what, "what against what, in words";
    response = response, "which response";
    ratio = ratio, "geometric mean of the ratios within the blocks, less 1: 0.01 is 1 % more";
    ratio_low = ratio_low, "lower end of its 95 % interval";
    ratio_high = ratio_high, "upper end";
    blocks = blocks, "n";
    p = p, "of the interval beside it: at most 0.05 exactly where that leaves zero out; all comparisons of the study are judged together";
    ratio_predicted = ratio_predicted, null "first principles say nothing of it", "what first principles say";
    ratio_smallest_seen = ratio_smallest_seen, "the smallest that this run sees four times in five";
}
