//! What a trial can measure, and how such figures are written for people.

use stats::Estimate;

/// What a trial can measure: name and unit. Those in `ns` are whole nanoseconds.
pub const RESPONSES: [(&str, &str); 18] = [
    ("goodput", "bit/s"),
    ("goodput_down", "bit/s"),
    ("transactions", "1/s"),
    ("latency_p50", "ns"),
    ("latency_p99", "ns"),
    ("round_trip", "ns"),
    ("min_round_trip", "ns"),
    ("queueing", "ns"),
    ("retransmitted", "segments"),
    ("fairness", "share"),
    ("rival_share", "share"),
    ("receive_window", "bytes"),
    ("receive_space", "bytes"),
    ("receive_buffer", "bytes"),
    ("receive_used", "bytes"),
    ("send_buffer", "bytes"),
    ("rtt_deviation", "ns"),
    ("cpu_per_gigabyte", "s"),
];

/// A share in percent with its sign, as fine as it needs: `+0.82 %`.
pub fn percent(share: f64) -> String {
    let p = share * 100.0;
    if p == 0.0 {
        return "0 %".to_owned();
    }
    let digits = if p.abs() >= 10.0 {
        1
    } else if p.abs() >= 0.095 {
        2
    } else {
        3
    };
    format!("{p:+.digits$} %")
}

/// A ratio with its interval: `+0.82 % [+0.79, +0.86]`.
pub fn percent_of(e: &Estimate) -> String {
    let inner = |v: f64| percent(v).trim_end_matches(" %").to_owned();
    format!("{} [{}, {}]", percent(e.value), inner(e.low), inner(e.high))
}

/// The unit of a response.
pub fn unit(response: &str) -> &'static str {
    RESPONSES.iter().find(|r| r.0 == response).map_or("", |r| r.1)
}

/// A value in its unit, for people.
pub fn quantity(response: &str, value: f64) -> String {
    match unit(response) {
        "bit/s" => quantity::bit_rate_to(value, 4),
        "ns" => quantity::time_to(value, 4),
        "bytes" => quantity::bytes_to(value, 4),
        "share" => format!("{value:.3}"),
        unit => format!("{} {unit}", four(value)),
    }
}

/// Four figures.
fn four(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 1_000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// A mean with its interval and n in its unit, or why there is none.
pub fn quantity_of(response: &str, e: Option<&Estimate>) -> [String; 3] {
    match e {
        Some(e) => [
            quantity(response, e.value),
            format!("{} … {}", quantity(response, e.low), quantity(response, e.high)),
            e.n.to_string(),
        ],
        None => ["-".into(), "too few trials".into(), "<2".into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_for_people() {
        assert_eq!(percent(0.008_23), "+0.82 %");
        assert_eq!(percent(-0.974), "-97.4 %");
        assert_eq!(percent(0.000_02), "+0.002 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(quantity("goodput", 941.48e6), "941.5 Mbit/s");
        assert_eq!(quantity("latency_p50", 40_123_456.0), "40.12 ms");
        assert_eq!(quantity("transactions", 24.39), "24.39 1/s");
        assert_eq!(quantity("fairness", 0.98765), "0.988");
    }
}
