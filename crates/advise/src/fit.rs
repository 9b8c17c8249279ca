//! How well a twin agrees with its original, and the twin that agrees best.

use diagnose::Report;
use diagnose::conditions::{Basis, Conditions};
use lab::Side;
use record::Nanos;
use record::conversation::{Limit, Way};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::trial::run;
use crate::twin::Twin;

/// A twin's duration is off by no more than this share.
pub const MOST_APART: f64 = 0.2;
/// No limit's share of its time is off by more than this.
pub const MOST_POINTS: f64 = 0.2;
/// Its retransmissions are no more than so many times as many or as few.
pub const MOST_AGAIN: f64 = 3.0;
/// So many retransmissions may be chance.
const CHANCE: f64 = 10.0;
/// Below this, a difference of durations is that of two schedulers, and of timers that run out at
/// ticks: two of a kernel with 250 a second.
const EXACT: Nanos = Nanos::from_millis(8);
/// Runs by which a twin is judged.
const RUNS: usize = 3;
/// What agrees better by less than this is not worth another assumption.
const CLOSER: f64 = 0.05;
/// So many of the values that are only assumed are changed together, at most.
const CHANGED: usize = 2;
/// How often what was not hit is aimed at again.
const AIMS: usize = 4;

/// How well a twin agrees with its original.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// How long the original took, to its last data or the ACK of that.
    pub original_ns: Nanos,
    /// How long the twin did, the median of its runs.
    pub twin_ns: Nanos,
    /// The original's base round trip.
    pub original_round_trip_ns: Nanos,
    /// The twin's.
    pub twin_round_trip_ns: Nanos,
    /// The twin's time by limit, the mean share of its runs.
    pub shares: Vec<(String, f64)>,
    /// How far the share of a limit is off at most, 0 to 1, and of which.
    pub points: f64,
    /// Of which limit.
    pub most_off: String,
    /// Retransmissions of the original, and of the twin, the mean of its runs.
    pub retransmitted: (u64, u64),
    /// Runs.
    pub runs: usize,
    /// What was taken for what is not known, other than was assumed at first.
    pub taken: Option<String>,
}

impl Fit {
    /// By which share its duration is off.
    pub fn apart(&self) -> f64 {
        self.twin_ns.0 as f64 / self.original_ns.0.max(1) as f64 - 1.0
    }

    /// Whether it is within the bounds.
    pub fn agrees(&self) -> bool {
        let close = self.original_ns.0.abs_diff(self.twin_ns.0) <= EXACT.0;
        (close || self.apart().abs() <= MOST_APART) && self.points <= MOST_POINTS && self.again() <= MOST_AGAIN.ln()
    }

    fn distance(&self) -> f64 {
        (1.0 + self.apart()).max(1e-9).ln().abs() + self.points + self.again() / 4.0
    }

    /// How far the numbers of retransmissions are apart: the logarithm of their ratio. A few more
    /// or less are chance.
    fn again(&self) -> f64 {
        let [original, twin] = [self.retransmitted.0, self.retransmitted.1].map(|n| n as f64 + CHANCE);
        (twin / original).ln().abs()
    }
}

/// A twin with how well it agrees.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The twin.
    pub twin: Twin,
    /// How well it agrees.
    pub fit: Fit,
}

/// The bound of one run: several times what the original took until its last data, and more than it
/// lasted in all, which is longer where it got no further.
pub(crate) fn at_most(c: &Conditions) -> Nanos {
    let lasted = Nanos(c.duration_ns.0.saturating_add(c.duration_ns.0 / 2));
    Nanos(c.span_ns.0.saturating_mul(5)).max(lasted).max(Nanos::from_secs(5))
}

/// The twin that agrees best: as the conditions say, or with other values of what they assume or
/// know in part, where that does not agree. Each is told before it is tried.
///
/// # Errors
/// [`Error`], where the lab cannot be made, or the first twin not run.
pub fn fit(c: &Conditions, seed: u64, tell: &mut dyn FnMut(&str)) -> Result<Fitted, Error> {
    let aimed = aim(c, Twin::of(c), seed, tell)?;
    tell("the twin as it was seen");
    let mut best = judged(c, aimed, seed, RUNS, None)?;
    if best.fit.agrees() {
        return Ok(best);
    }
    for _ in 0..CHANGED {
        let (base, taken) = (best.twin.clone(), best.fit.taken.clone());
        for (name, change) in other(c) {
            let all: Vec<String> = taken.iter().cloned().chain([name]).collect();
            let all = all.join(", ");
            tell(&all);
            let mut twin = base.clone();
            change(&mut twin);
            // One that does not come to its end is not the original's.
            let Ok(other) = judged(c, twin, seed, 1, Some(all)) else { continue };
            if other.fit.distance() < best.fit.distance() - CLOSER {
                best = other;
            }
        }
        if best.fit.agrees() || best.fit.taken == taken {
            break;
        }
    }
    match best.fit.taken.clone() {
        Some(name) => judged(c, best.twin, seed, RUNS, Some(name)),
        None => Ok(best),
    }
}

type Change = Box<dyn Fn(&mut Twin)>;

/// Other values of what the conditions only assume, or know in part.
fn other(c: &Conditions) -> Vec<(String, Change)> {
    let mut all: Vec<(String, Change)> = Vec::new();
    let way = c.main_way();
    if c.congestion_control.basis == Basis::Assumed {
        for name in ["bbr", "reno"] {
            let change = move |twin: &mut Twin| {
                twin.ends.iter_mut().for_each(|end| end.options.congestion_control = Some(name.into()));
            };
            all.push((format!("congestion control {name}"), Box::new(change)));
        }
    }
    if c.lanes[way as usize].rate.as_ref().is_some_and(|rate| rate.basis == Basis::AtLeast) {
        // A sender that paces, or a window, may have kept the arrivals apart.
        let change = move |twin: &mut Twin| {
            let lane = twin.lane(way);
            (lane.rate, lane.queue) = (None, None);
        };
        all.push((format!("a path that carries more to the {} than was seen", way.receiver()), Box::new(change)));
    }
    if c.lanes[way as usize].rate.is_some() && c.lanes[way as usize].loss.value > 0.0 {
        let change = move |twin: &mut Twin| twin.lane(way).loss = lab::Loss::None;
        all.push((format!("losses to the {} by its queue alone", way.receiver()), Box::new(change)));
    }
    let sender = &c.hosts[way as usize];
    if sender.nodelay.basis == Basis::Assumed {
        let other = !sender.nodelay.value;
        let change = move |twin: &mut Twin| twin.sender(way).options.nodelay = Some(other);
        let word = if other { "" } else { "no " };
        all.push((format!("{word}TCP_NODELAY at the {}", way.sender()), Box::new(change)));
    }
    if sender.send_limit.is_some() || sender.drains_to.as_ref().is_some_and(|level| level.basis == Basis::Assumed) {
        let change = move |twin: &mut Twin| twin.sender(way).options.send_buffer_bytes = None;
        all.push((format!("no small send buffer at the {}", way.sender()), Box::new(change)));
    }
    let receiver = (!way) as usize;
    if c.hosts[receiver].delayed_ack.is_some() {
        let change = move |twin: &mut Twin| twin.receiver(way).options.quickack = Some(false);
        all.push((format!("ACKs of the {} delayed from the start", way.receiver()), Box::new(change)));
    }
    if let Some(of) = &c.lanes[way as usize].reordering {
        let fixed = move |twin: &mut Twin| {
            // RACK with a window that does not grow (Linux, ip-sysctl.rst, tcp_recovery).
            twin.sender(way).sysctls.insert("net.ipv4.tcp_recovery".into(), "3".into());
        };
        all.push((format!("a fixed reordering window at the {}", way.sender()), Box::new(fixed)));
        for (of, word) in [(of.value.by.0 / 3, "a third as far"), (of.value.by.0 * 3, "three times as far")] {
            let change = move |twin: &mut Twin| {
                twin.lane(way).reorder.iter_mut().for_each(|r| r.by = Nanos(of.min(lab::LONGEST.0)));
            };
            all.push((format!("segments overtaken {word}"), Box::new(change)));
        }
    }
    let queue = &c.lanes[way as usize].queue;
    if queue.basis != Basis::Seen && c.lanes[way as usize].rate.is_some() {
        for (factor, word) in [(4, "a queue four times as long"), (1, "a queue of a quarter")] {
            let depth = Nanos(queue.value.0 * factor.max(1) / if factor == 1 { 4 } else { 1 });
            let change = move |twin: &mut Twin| twin.lane(way).queue = Some(lab::Depth::Time(depth));
            all.push((word.into(), Box::new(change)));
        }
    }
    all
}

/// Runs a twin and corrects what it can be aimed at: the round trip that its hosts add, and buffers
/// of which the kernel makes a window of its own.
fn aim(c: &Conditions, mut twin: Twin, seed: u64, tell: &mut dyn FnMut(&str)) -> Result<Twin, Error> {
    for aim in 0..AIMS {
        tell("a first run, to set delays and buffers by");
        let Some(seen) = run(&twin, seed, Some(side(c)), at_most(c))?.report else { return Ok(twin) };
        let got = Conditions::of(&seen);
        let (wanted, has) = (c.round_trip.value.0, got.round_trip.value.0);
        for lane in [&mut twin.path.a_to_b, &mut twin.path.b_to_a] {
            let delay = (lane.delay.0 + wanted / 2).saturating_sub(has / 2);
            lane.delay = Nanos(delay.min(lab::LONGEST.0));
        }
        let mut again = has.abs_diff(wanted) > wanted / 20;
        for way in Way::ALL {
            let (host, figures) = (&c.hosts[way as usize], seen.of(way));
            let options = &mut twin.ends[way as usize].options;
            if let (Some(wanted), Some(buffer)) = (&host.receive_window, &mut options.receive_buffer_bytes) {
                // The largest window is not the usual one: how long it takes shows that.
                again |= match aim {
                    0 => {
                        scale(buffer, wanted.value, figures.max_window);
                        true
                    }
                    _ => scale(buffer, got.span_ns.0, c.span_ns.0),
                };
            }
            if let Some(buffer) = &mut options.send_buffer_bytes {
                let drains = host.drains_to.as_ref().zip(got.hosts[way as usize].drains_to.as_ref());
                let levels = match (drains, &host.send_limit) {
                    (Some((wanted, gave)), _) => Some((wanted.value, gave.value)),
                    (None, Some(wanted)) => Some((wanted.value, figures.max_in_flight.into())),
                    (None, None) => None,
                };
                again |= levels.is_some_and(|(wanted, gave)| scale(buffer, wanted, gave));
            }
        }
        if !again {
            break;
        }
    }
    Ok(twin)
}

/// Scales a buffer so that what it gave becomes what is wanted, where that is off; whether it was.
fn scale(buffer: &mut u32, wanted: u64, gave: u64) -> bool {
    let is_off = gave.abs_diff(wanted) > wanted / 20;
    if is_off {
        let scaled = u128::from(*buffer) * u128::from(wanted) / u128::from(gave.max(1));
        *buffer = u32::try_from(scaled.max(2_048)).unwrap_or(u32::MAX / 2);
    }
    is_off
}

/// The host of the twin at which it is captured.
pub(crate) fn side(c: &Conditions) -> Side {
    if c.near == "server" { Side::B } else { Side::A }
}

fn judged(c: &Conditions, twin: Twin, seed: u64, runs: usize, taken: Option<String>) -> Result<Fitted, Error> {
    let mut seen = Vec::new();
    for i in 0..runs {
        let trial = run(&twin, seed.wrapping_add(i as u64), Some(side(c)), at_most(c))?;
        seen.extend(trial.report);
    }
    let fit = agreement(c, &seen, taken);
    fit.map(|fit| Fitted { twin, fit }).ok_or_else(|| Error::Capture("no packet was seen".into()))
}

/// How well these runs agree with the original. `None` without one.
fn agreement(c: &Conditions, runs: &[Report], taken: Option<String>) -> Option<Fit> {
    let all: Vec<Conditions> = runs.iter().map(Conditions::of).collect();
    let middle = |of: fn(&Conditions) -> Nanos| {
        let values: Vec<f64> = all.iter().map(|c| of(c).0 as f64).collect();
        stats::median(&values).map(|ns| Nanos(ns as u64))
    };
    let shares: Vec<(Limit, f64)> = Limit::ALL
        .into_iter()
        .map(|limit| (limit, all.iter().map(|c| c.share(limit)).sum::<f64>() / all.len().max(1) as f64))
        .collect();
    let off = shares.iter().map(|(limit, share)| (*limit, (share - c.share(*limit)).abs()));
    let (limit, points) = off.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let again = |c: &Conditions| c.lanes.iter().map(|lane| lane.retransmitted).sum::<u64>();
    Some(Fit {
        retransmitted: (again(c), all.iter().map(again).sum::<u64>() / all.len().max(1) as u64),
        original_ns: c.span_ns,
        twin_ns: middle(|c| c.span_ns)?,
        original_round_trip_ns: c.round_trip.value,
        twin_round_trip_ns: middle(|c| c.round_trip.value)?,
        shares: shares.into_iter().map(|(limit, share)| (limit.name().to_owned(), share)).collect(),
        points,
        most_off: limit.name().into(),
        runs: runs.len(),
        taken,
    })
}
