//! From round trips to responsiveness.

use std::collections::VecDeque;

use clock::Nanos;
use serde::{Deserialize, Serialize};
use stats::Estimate;

use super::{Probe, ProbeKind};

/// The trimmed means of a set of probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// `TM(tcp_f)`: the TCP handshake of foreign probes.
    #[serde(rename = "tcp_foreign_ns")]
    pub tcp_foreign: Option<Nanos>,
    /// `TM(tls_f)`: a round trip of their TLS handshake.
    #[serde(rename = "tls_foreign_ns")]
    pub tls_foreign: Option<Nanos>,
    /// `TM(http_f)`: their request.
    #[serde(rename = "http_foreign_ns")]
    pub http_foreign: Option<Nanos>,
    /// `TM(http_l)`: the request of self probes.
    #[serde(rename = "http_self_ns")]
    pub http_self: Option<Nanos>,
    /// Foreign probes answered.
    pub foreign: u64,
    /// Self probes answered.
    pub own: u64,
    /// Probes of either kind that failed.
    pub failed: u64,
}

impl Figures {
    /// Of these probes, keeping the lowest `share` of each kind of time.
    pub fn of(probes: &[Probe], share: f64) -> Self {
        let of = |kind, time: fn(&Probe) -> Option<Nanos>| {
            let mut times: Vec<Nanos> =
                probes.iter().filter(|p| p.kind == kind && p.http.is_some()).filter_map(time).collect();
            trimmed_mean(&mut times, share)
        };
        let answered = |kind| probes.iter().filter(|p| p.kind == kind && p.http.is_some()).count() as u64;
        Self {
            tcp_foreign: of(ProbeKind::Foreign, |p| p.tcp),
            tls_foreign: of(ProbeKind::Foreign, |p| p.tls),
            http_foreign: of(ProbeKind::Foreign, |p| p.http),
            http_self: of(ProbeKind::Own, |p| p.http),
            foreign: answered(ProbeKind::Foreign),
            own: answered(ProbeKind::Own),
            failed: probes.iter().filter(|p| p.http.is_none()).count() as u64,
        }
    }

    /// Round trips a minute on separate connections.
    pub fn foreign_rpm(&self) -> Option<f64> {
        let sum = self.tcp_foreign?.0 + self.tls_foreign?.0 + self.http_foreign?.0;
        (sum > 0).then(|| 60e9 / (sum as f64 / 3.0))
    }

    /// Round trips a minute on load-generating connections.
    pub fn self_rpm(&self) -> Option<f64> {
        self.http_self.filter(|time| time.0 > 0).map(|time| 60e9 / time.0 as f64)
    }

    /// Responsiveness: the mean of both.
    pub fn rpm(&self) -> Option<f64> {
        Some((self.foreign_rpm()? + self.self_rpm()?) / 2.0)
    }
}

/// The mean of the lowest `share` of the values (the draft's one-sided trimmed mean).
fn trimmed_mean(times: &mut [Nanos], share: f64) -> Option<Nanos> {
    times.sort_unstable();
    let kept = ((times.len() as f64 * share).floor() as usize).max(1);
    let kept = times.get(..kept)?;
    Some(Nanos((kept.iter().map(|t| u128::from(t.0)).sum::<u128>() / kept.len() as u128) as u64))
}

/// Stretches that the probes of a window are cut into: round trips of the same moment are alike.
const STRETCHES: u64 = 20;

/// Responsiveness of these probes, which began within `from..to`, and its interval at 95 %.
pub fn rpm(probes: &[Probe], share: f64, from: Nanos, to: Nanos) -> (Option<f64>, Option<Estimate>) {
    let value = Figures::of(probes, share).rpm();
    let width = to.saturating_sub(from).0.max(1);
    let mut stretches = vec![Vec::new(); STRETCHES as usize];
    for probe in probes {
        let at = u128::from(probe.at.saturating_sub(from).0) * u128::from(STRETCHES) / u128::from(width);
        stretches[(at as usize).min(STRETCHES as usize - 1)].push(*probe);
    }
    stretches.retain(|stretch| !stretch.is_empty());
    let interval = value.and_then(|value| {
        stats::stretched(value, stretches.len(), 0.95, 1, |drawn| {
            let all: Vec<Probe> = drawn.iter().flat_map(|i| stretches[*i].iter().copied()).collect();
            Figures::of(&all, share).rpm().unwrap_or(f64::NAN)
        })
    });
    (value, interval)
}

/// The last values of a moving average, and whether they are stable.
#[derive(Debug)]
pub(super) struct Stability {
    values: VecDeque<f64>,
    distance: usize,
    tolerance: f64,
    /// How many there have been.
    pub seen: usize,
}

impl Stability {
    pub fn new(distance: usize, tolerance: f64) -> Self {
        Self { values: VecDeque::new(), distance, tolerance, seen: 0 }
    }

    /// Adds one; whether the last ones deviate by less than the tolerance of the newest.
    pub fn add(&mut self, value: f64) -> bool {
        self.seen += 1;
        self.values.push_back(value);
        if self.values.len() > self.distance {
            self.values.pop_front();
        }
        let n = self.values.len() as f64;
        let mean = self.values.iter().sum::<f64>() / n;
        let deviation = (self.values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        self.values.len() == self.distance && value > 0.0 && deviation < self.tolerance * value
    }

    /// Whether there were enough for the window to be full.
    pub fn is_full(&self) -> bool {
        self.seen >= self.distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(at: u64, ms: [u64; 3]) -> Probe {
        let [tcp, tls, http] = ms.map(|ms| Some(Nanos::from_millis(ms)));
        Probe { kind: ProbeKind::Foreign, load: None, at: Nanos::from_millis(at), tcp, tls, http }
    }

    fn own(at: u64, ms: u64) -> Probe {
        let http = Some(Nanos::from_millis(ms));
        Probe { kind: ProbeKind::Own, load: None, at: Nanos::from_millis(at), tcp: None, tls: None, http }
    }

    #[test]
    fn responsiveness_is_the_drafts_arithmetic() {
        // 60000 / ((10 + 20 + 30) / 3) = 3000, 60000 / 100 = 600: 1800.
        let probes = [foreign(0, [10, 20, 30]), own(1, 100)];
        let figures = Figures::of(&probes, 0.95);
        assert_eq!(
            (figures.foreign_rpm(), figures.self_rpm(), figures.rpm()),
            (Some(3_000.0), Some(600.0), Some(1_800.0))
        );
        // Without one of the kinds there is none, and a failed probe is in no mean.
        assert_eq!(Figures::of(&probes[..1], 0.95).rpm(), None);
        let failed = Probe { http: None, ..foreign(2, [1_000, 1_000, 0]) };
        let with = Figures::of(&[probes[0], probes[1], failed], 0.95);
        assert_eq!((with.rpm(), with.failed, with.foreign), (Some(1_800.0), 1, 1));
    }

    #[test]
    fn the_highest_twentieth_is_trimmed_and_no_low_value() {
        let mut times: Vec<Nanos> = (1..=20).map(Nanos).collect();
        times[19] = Nanos(1_000_000);
        assert_eq!(trimmed_mean(&mut times, 0.95), Some(Nanos(10)));
        assert_eq!(trimmed_mean(&mut [Nanos(7)], 0.95), Some(Nanos(7)));
        assert_eq!(trimmed_mean(&mut [], 0.95), None);
    }

    #[test]
    fn stable_is_a_full_window_with_little_deviation() {
        let mut stability = Stability::new(4, 0.05);
        let found: Vec<bool> = [10.0, 100.0, 101.0, 99.0, 100.0, 150.0].map(|v| stability.add(v)).into();
        assert_eq!(found, [false, false, false, false, true, false]);
        let mut nothing = Stability::new(2, 0.05);
        assert!(!nothing.add(0.0) && !nothing.add(0.0) && nothing.is_full());
    }

    #[test]
    fn the_interval_covers_what_varies_from_stretch_to_stretch() {
        let level = |at: u64| if (at / 500).is_multiple_of(2) { 90 } else { 110 };
        let probes: Vec<Probe> =
            (0..200).flat_map(|i| [foreign(i * 50, [level(i * 50); 3]), own(i * 50, level(i * 50))]).collect();
        let (value, interval) = rpm(&probes, 0.95, Nanos::ZERO, Nanos::from_secs(10));
        let e = interval.unwrap();
        assert!(e.covers(value.unwrap()) && e.low < 600.0 && e.high > 620.0, "{value:?} {e:?}");
        assert_eq!(rpm(&probes[..4], 0.95, Nanos::ZERO, Nanos::from_secs(10)).1, None);
    }
}
