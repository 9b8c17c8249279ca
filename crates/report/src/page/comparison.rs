//! Two traces side by side: by how much each leg moved, which leg explains the difference, and in which peers it sits.

mod gather;
mod show;

use std::net::IpAddr;

use model::{Leg, Nanos};
use serde::Serialize;
use stats::{Estimate, Quantile, Shifted};

pub use gather::{Side, read};
pub use show::{document, text};

use crate::quantity;

/// The confidence of every interval.
const CONFIDENCE: f64 = 0.95;

/// How far one quantile of a leg moved.
#[derive(Clone, Debug, Serialize)]
pub struct Moved {
    /// `p50`, `p99`, ….
    pub quantile: String,
    /// Its values, nanoseconds, with the shift and its interval.
    #[serde(flatten)]
    pub figures: Shifted,
    /// Whether there is a difference.
    pub seen: bool,
}

/// One leg of both runs.
#[derive(Clone, Debug, Serialize)]
pub struct LegShift {
    /// Which.
    pub leg: Leg,
    /// Sends of each run that have it.
    pub n: [u64; 2],
    /// How far it moved, for the quantiles that both runs carry.
    pub moved: Vec<Moved>,
}

/// What one leg adds to the difference of the mean total time.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// The leg, or the legs that had to be taken together.
    pub leg: String,
    /// Means over the sends that have every stamp, nanoseconds.
    pub mean_ns: [f64; 2],
    /// Second less first, with its interval; `None` where there is too little.
    pub difference_ns: Option<Estimate>,
    /// Of the difference of the total: the shares of all legs add up to 1. `None` where no difference of the total is seen.
    pub share: Option<f64>,
}

/// What one peer adds to the difference of the mean total time.
#[derive(Clone, Debug, Serialize)]
pub struct Peer {
    /// Its address; `None` for sends whose connection is not known.
    pub peer: Option<IpAddr>,
    /// Sends in each run.
    pub n: [u64; 2],
    /// Mean total time in each run, nanoseconds.
    pub mean_ns: [Option<f64>; 2],
    /// Part of the difference because this peer's sends themselves took another time, nanoseconds.
    pub slower_ns: f64,
    /// Part of it because this peer had another share of the sends.
    pub mix_ns: f64,
    /// Both as a share of the difference; `None` where no difference of the total is seen.
    pub share: Option<f64>,
}

/// Two traces side by side.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What the runs are called.
    pub names: [String; 2],
    /// One sentence each, the most important first.
    pub verdict: Vec<String>,
    /// What has to be known before the verdict is believed.
    pub warnings: Vec<String>,
    /// The legs.
    pub legs: Vec<LegShift>,
    /// What explains the difference of the mean total time.
    pub explained: Vec<Explained>,
    /// The mean total time of both and its difference.
    pub total: Option<Explained>,
    /// Where it sits, the largest part first.
    pub peers: Vec<Peer>,
}

/// Compares two traces that were read.
pub fn compare(a: &Side, b: &Side) -> Comparison {
    let seed = 1;
    let legs: Vec<LegShift> = Leg::ALL
        .into_iter()
        .map(|leg| {
            let found = stats::shifts(&a.stretches_of(leg), &b.stretches_of(leg), &Quantile::SHOWN, CONFIDENCE, seed);
            let moved = Quantile::SHOWN.iter().zip(found).filter_map(|(q, figures)| {
                let figures = figures?;
                Some(Moved { quantile: q.to_string(), figures, seen: figures.seen() })
            });
            LegShift { leg, n: [a.n(leg), b.n(leg)], moved: moved.collect() }
        })
        .filter(|l| l.n != [0, 0])
        .collect();
    let (explained, total) = explain(a, b, seed);
    // Shares of what may be nothing would be noise.
    let whole = total.as_ref().and_then(|t| t.difference_ns).filter(|d| !d.covers(0.0)).map(|d| d.value);
    let peers = peers(a, b, whole);
    let mut comparison = Comparison {
        names: [a.name.clone(), b.name.clone()],
        verdict: Vec::new(),
        warnings: gather::warnings(a, b),
        legs,
        explained,
        total,
        peers,
    };
    comparison.verdict = verdict(&comparison, a, b);
    comparison
}

fn explain(a: &Side, b: &Side, seed: u64) -> (Vec<Explained>, Option<Explained>) {
    // Where one run's NIC gave stamps and the other's did not, their network legs begin at different stages.
    let together = a.has_nic() != b.has_nic();
    let groups: Vec<(String, Vec<Leg>)> = if together {
        vec![
            ("tcp".into(), vec![Leg::Tcp]),
            ("qdisc".into(), vec![Leg::Qdisc]),
            ("nic and network".into(), vec![Leg::Nic, Leg::Network]),
        ]
    } else {
        let legs = Leg::PARTS.into_iter().filter(|l| *l != Leg::Nic || a.has_nic());
        legs.map(|l| (l.name().to_owned(), vec![l])).collect()
    };
    let of = |name: String, legs: &[Leg]| {
        let (x, y) = (a.sums_of(legs), b.sums_of(legs));
        let mean = |s: &[(f64, u64)]| {
            let n: u64 = s.iter().map(|s| s.1).sum();
            (n > 0).then(|| s.iter().map(|s| s.0).sum::<f64>() / n as f64)
        };
        let mean_ns = [mean(&x)?, mean(&y)?];
        let difference_ns = stats::mean_shift(&x, &y, CONFIDENCE, seed);
        Some(Explained { leg: name, mean_ns, difference_ns, share: None })
    };
    let total = of("total".into(), &Leg::PARTS);
    let whole = total.as_ref().and_then(|t| t.difference_ns.filter(|d| !d.covers(0.0)).map(|d| d.value));
    let parts = groups.into_iter().filter_map(|(name, legs)| {
        let mut part = of(name, &legs)?;
        part.share = whole.map(|whole| (part.mean_ns[1] - part.mean_ns[0]) / whole);
        Some(part)
    });
    (parts.collect(), total)
}

/// The difference of two means over groups, divided into what the groups' own means changed and what their shares did
/// (Kitagawa, "Components of a Difference Between Two Rates", 1955). The parts add up to the difference.
fn peers(a: &Side, b: &Side, whole: Option<f64>) -> Vec<Peer> {
    let n = |side: &Side| side.peers.values().map(|p| p.0).sum::<u64>().max(1) as f64;
    let mean = |side: &Side| side.peers.values().map(|p| p.1 as f64).sum::<f64>() / n(side);
    let middle = f64::midpoint(mean(a), mean(b));
    let mut names: Vec<Option<IpAddr>> = a.peers.keys().chain(b.peers.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let mut peers: Vec<Peer> = names
        .into_iter()
        .map(|peer| {
            let of = |side: &Side| side.peers.get(&peer).copied().unwrap_or((0, 0));
            let counts = [of(a).0, of(b).0];
            let mean_of = |(n, sum): (u64, u128)| (n > 0).then(|| sum as f64 / n as f64);
            let means = [mean_of(of(a)), mean_of(of(b))];
            let shares = [counts[0] as f64 / n(a), counts[1] as f64 / n(b)];
            // A peer that one run lacks changes the mix alone.
            let at = [means[0].or(means[1]).unwrap_or(middle), means[1].or(means[0]).unwrap_or(middle)];
            let slower_ns = f64::midpoint(shares[0], shares[1]) * (at[1] - at[0]);
            let mix_ns = (f64::midpoint(at[0], at[1]) - middle) * (shares[1] - shares[0]);
            let share = whole.map(|whole| (slower_ns + mix_ns) / whole);
            Peer { peer, n: counts, mean_ns: means, slower_ns, mix_ns, share }
        })
        .collect();
    peers.sort_by(|x, y| (y.slower_ns + y.mix_ns).abs().total_cmp(&(x.slower_ns + x.mix_ns).abs()));
    peers
}

/// A time with its sign.
fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "−" } else { "+" };
    format!("{sign}{}", Nanos(ns.abs().round() as u64))
}

fn between(e: &Estimate) -> String {
    format!("95 % interval {} to {}", signed(e.low), signed(e.high))
}

fn percent(share: f64) -> String {
    let p = share * 100.0;
    let digits = usize::from(p.abs() < 9.95);
    format!("{}{:.digits$} %", if p < 0.0 { "−" } else { "" }, p.abs())
}

fn verdict(c: &Comparison, a: &Side, b: &Side) -> Vec<String> {
    let [first, second] = &c.names;
    let Some(total) = c.legs.iter().find(|l| l.leg == Leg::Total).filter(|l| l.n.iter().all(|n| *n > 0)) else {
        return vec![format!(
            "There is nothing to compare: {} of {first} and {} of {second} were acknowledged.",
            quantity::counted(a.n(Leg::Total), "send"),
            quantity::counted(b.n(Leg::Total), "send")
        )];
    };
    let mut said = Vec::new();
    let n = format!("n = {} and {} sends", quantity::count(total.n[0]), quantity::count(total.n[1]));
    let seen: Vec<&Moved> = total.moved.iter().filter(|m| m.seen).collect();
    let relative = |m: &&&Moved| {
        let f = m.figures;
        (f.second as f64 / f.first.max(1) as f64).ln().abs()
    };
    // The median speaks for the run; where it did not move, the quantile that did most does.
    let main = seen
        .iter()
        .find(|m| m.quantile == "p50")
        .or_else(|| seen.iter().max_by(|x, y| relative(x).total_cmp(&relative(y))));
    if let Some(m) = main
        && let Some(shift) = m.figures.shift
    {
        let how = if shift.value > 0.0 { "slower" } else { "faster" };
        said.push(format!(
            "{second} is {how} than {first}: from send to ACK, {} went from {} to {}, {} ({}); {n}.",
            m.quantile,
            Nanos(m.figures.first),
            Nanos(m.figures.second),
            signed(shift.value),
            between(&shift)
        ));
        said.extend(explanation(c));
        said.extend(place(c));
    } else if let Some((m, smallest)) = total.moved.iter().find_map(|m| Some((m, m.figures.smallest_seen?))) {
        let others: Vec<String> = total
            .moved
            .iter()
            .filter(|o| o.quantile != m.quantile)
            .filter_map(|o| Some(format!("{} {}", o.quantile, Nanos(o.figures.smallest_seen? as u64))))
            .collect();
        let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
        said.push(format!(
            "No difference between {first} and {second} is seen from send to ACK; the smallest shift of {} that these runs could \
             have shown is {}{others}; {n}.",
            m.quantile,
            Nanos(smallest as u64)
        ));
    } else {
        said.push(format!("There is too little to tell a difference from chance: {n}."));
    }
    for quantile in ["p50", "p90", "p99"] {
        if let Some(m) = total.moved.iter().find(|m| m.quantile == quantile) {
            said.push(format!(
                "{} % of sends under {} in {first}, under {} in {second}.",
                &quantile[1..],
                Nanos(m.figures.first),
                Nanos(m.figures.second)
            ));
        }
    }
    said
}

fn explanation(c: &Comparison) -> Option<String> {
    let total = c.total.as_ref()?.difference_ns?;
    let Some(most) = c.explained.iter().filter(|e| e.share.is_some()).max_by(|x, y| {
        let of = |e: &Explained| e.share.unwrap_or(0.0);
        of(x).total_cmp(&of(y))
    }) else {
        return Some(format!(
            "The means do not tell which leg it is: their difference is {} ({}).",
            signed(total.value),
            between(&total)
        ));
    };
    let rest: Vec<String> = c
        .explained
        .iter()
        .filter(|e| e.leg != most.leg)
        .filter_map(|e| Some(format!("{} {}", e.leg, percent(e.share?))))
        .collect();
    Some(format!(
        "The {} leg explains {} of the difference of the means, {} of {} ({}); the rest: {}.",
        most.leg,
        percent(most.share?),
        signed(most.mean_ns[1] - most.mean_ns[0]),
        signed(total.value),
        between(&total),
        rest.join(", ")
    ))
}

fn place(c: &Comparison) -> Option<String> {
    let most = c.peers.first()?;
    let name = most.peer.map_or_else(|| "connections that are not known".to_owned(), |p| p.to_string());
    if c.peers.len() == 1 {
        return Some(format!("All of it sits in one peer, {name}."));
    }
    let how = if most.slower_ns.abs() >= most.mix_ns.abs() {
        "whose own sends changed"
    } else {
        "which has another share of the sends"
    };
    Some(format!(
        "{} of it sits in {name}, {how}; of {}.",
        percent(most.share?),
        quantity::counted(c.peers.len() as u64, "peer")
    ))
}
