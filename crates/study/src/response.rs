//! How what a trial measures is written for people.

use compare::WIDEST;
pub use compare::is_known;
use quantity::{change, change_in_points};
use record::trial::{Measure, Response};
use stats::Estimate;

/// What would help where an interval says nothing.
pub const WHAT_HELPS: &str = "more blocks, longer trials or a quieter machine would narrow it";

/// The smallest difference that could be seen, in words; `None` where only one of many times could.
pub fn visible(smallest: f64) -> Option<String> {
    (smallest < WIDEST - 1.0).then(|| change(smallest))
}

/// A change with its interval: `+0.82 % [+0.79, +0.86]`; the change is withheld where the interval
/// says nothing.
pub fn percent_of(e: &Estimate) -> String {
    if !is_known(e) {
        return format!("not known: {}", too_wide(e));
    }
    format!("{} [{}, {}]", change(e.value), change_in_points(e.low), change_in_points(e.high))
}

/// Why the figure of an interval is withheld.
pub fn too_wide(e: &Estimate) -> String {
    let times = (1.0 + e.high) / (1.0 + e.low);
    if times <= WIDEST {
        format!("it is {:.0} times as much or more", 1.0 + e.low)
    } else if times.is_finite() && times < 1e4 {
        format!("the ends of its interval are {times:.0} times apart")
    } else {
        "its interval has no bound".into()
    }
}

/// A value in its unit, for people.
pub fn quantity(response: Response, value: f64) -> String {
    match response.measure() {
        Measure::BitRate => quantity::bit_rate_to(value, 4),
        Measure::Time => quantity::time_to(value, 4),
        Measure::Bytes => quantity::bytes_to(value, 4),
        Measure::Share => format!("{value:.3}"),
        other => format!("{} {}", four(value), other.unit()),
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

/// Whether no trial that counts has none of it at all, so that an interval down to zero says
/// nothing.
fn is_never_zero(response: Response) -> bool {
    match response {
        Response::LatencyP50 | Response::LatencyP99 | Response::RoundTrip | Response::MinRoundTrip => true,
        other => matches!(other.measure(), Measure::BitRate | Measure::PerSecond),
    }
}

/// A mean with its interval and n in its unit, or why there is none.
pub fn quantity_of(response: Response, e: Option<&Estimate>) -> [String; 3] {
    match e {
        Some(e) if e.low <= 0.0 && e.high > 0.0 && is_never_zero(response) => [
            quantity(response, e.value),
            format!("not known: trials differ by as much as their mean; {WHAT_HELPS}"),
            e.n.to_string(),
        ],
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
        assert_eq!(quantity(Response::Goodput, 941.48e6), "941.5 Mbit/s");
        assert_eq!(quantity(Response::LatencyP50, 40_123_456.0), "40.12 ms");
        assert_eq!(quantity(Response::Transactions, 24.39), "24.39 1/s");
        assert_eq!(quantity(Response::Fairness, 0.98765), "0.988");
    }

    #[test]
    fn an_interval_that_says_nothing_is_withheld_and_a_large_effect_is_not() {
        let of = |value: f64, low: f64, high: f64| Estimate {
            value,
            low,
            high,
            confidence: 0.95,
            n: 3,
            method: stats::Method::StudentT,
        };
        // As it was printed once.
        let wild = percent_of(&of(-0.74, -0.999, 65.579));
        assert!(wild.starts_with("not known: its interval has no bound") && !wild.contains('%'), "{wild}");
        let wide = percent_of(&of(0.1, -0.9, 9.0));
        assert_eq!(wide, "not known: the ends of its interval are 100 times apart");
        assert_eq!(percent_of(&of(0.0, -0.5, 1.0)), "0 % [−50.0, +100.0]");
        assert_eq!(percent_of(&of(30.0, 29.0, 31.0)), "+3000.0 % [+2900.0, +3100.0]");
        assert_eq!(percent_of(&of(149.0, 148.0, 150.0)), "not known: it is 149 times as much or more");
        assert_eq!(visible(30.0), None);

        let [mean, interval, n] = quantity_of(Response::Goodput, Some(&of(1e7, 0.0, 4e7)));
        assert!(mean == "10.00 Mbit/s" && n == "3", "{mean} {n}");
        assert!(interval.starts_with("not known: trials differ") && interval.contains("more blocks"), "{interval}");
        // None at all may well be what is measured.
        assert_eq!(
            quantity_of(Response::Retransmitted, Some(&of(1.0, 0.0, 3.0)))[1],
            "0.000 segments … 3.000 segments"
        );
    }
}
