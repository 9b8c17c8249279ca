//! Two traces side by side: by how much each leg of each kind moved, which leg explains the difference, and in which peers and
//! connections it sits.

mod gather;
mod labels;
pub mod several;
mod show;
mod verdict;

use std::net::{IpAddr, SocketAddr};

use record::{Component, Label, Leg, WaitReason};
use serde::Serialize;
use serde::ser::SerializeStruct as _;
use stats::{Estimate, Quantile, Shifted};

pub use gather::{Side, read};
pub use labels::{LabelShift, Labels};
pub use show::{document, text};
use summary::TimedKind;

/// The confidence of every interval.
const CONFIDENCE: f64 = 0.95;
/// Of the generator of the resampling: the same runs give the same intervals.
const SEED: u64 = 1;
/// What a comparison of two runs cannot know.
const ONE_OF_EACH: &str = "There is one run of each: what runs of one setting differ by is in no interval. Trace each several times, and compare \
     them: `wirelapse compare A1 A2 A3 -- B1 B2 B3`.";
/// Connections that are listed.
const CONNECTIONS: usize = 20;

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
    /// Its word.
    pub leg: &'static str,
    /// Records of each run that have it.
    pub n: [u64; 2],
    /// How far it moved, for the quantiles that both runs carry.
    pub moved: Vec<Moved>,
}

/// What one leg adds to the difference of the mean total time.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// The leg, or the legs that had to be taken together.
    pub leg: String,
    /// Means over the records that have every stamp, nanoseconds.
    pub mean_ns: [f64; 2],
    /// Second less first, with its interval; `None` where there is too little.
    pub difference_ns: Option<Estimate>,
    /// Of the difference of the total: the shares of all legs add up to 1. `None` where no difference of the total is seen.
    pub share: Option<f64>,
}

/// The network leg of sends, or the network of requests, divided at the minimum RTT that TCP measured on each connection. The ACK of a send comes later than
/// that where the peer delays it, where it leaves with an answer, or where a queue stands on the path.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PathSplit {
    /// The connections' minimum RTT in each run, nanoseconds: a mean in which each send counts once.
    pub least_rtt_ns: [f64; 2],
    /// What network legs took beyond it, nanoseconds.
    pub beyond_ns: [f64; 2],
}

/// What sends waited for, where that changed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Waited {
    /// The leg in which they waited: `tcp`, or `call` for room in the send buffer.
    pub leg: &'static str,
    /// What they waited for.
    pub reason: WaitReason,
    /// The mean time that a send of each run waited for it, nanoseconds.
    pub mean_ns: [f64; 2],
}

/// What one peer adds to the difference of the mean total time.
#[derive(Clone, Debug, Serialize)]
pub struct Peer {
    /// Its address; `None` for records of an unknown connection.
    pub peer: Option<IpAddr>,
    /// Records in each run.
    pub n: [u64; 2],
    /// Mean total time in each run, nanoseconds.
    pub mean_ns: [Option<f64>; 2],
    /// Part of the difference because this peer's records themselves took another time, nanoseconds.
    pub slower_ns: f64,
    /// Part of it because this peer had another share of the records.
    pub mix_ns: f64,
    /// Both as a share of the difference; `None` where no difference of the total is seen.
    pub share: Option<f64>,
}

/// What one connection of the second run adds to the difference of the mean total time.
#[derive(Clone, Debug, Serialize)]
pub struct Contribution {
    /// The local end; `None` where it is not known.
    pub local: Option<SocketAddr>,
    /// The peer's, likewise.
    pub remote: Option<SocketAddr>,
    /// The program, where it is known.
    pub comm: Option<String>,
    /// Records on it.
    pub n: u64,
    /// Their mean total time, nanoseconds.
    pub mean_ns: f64,
    /// What they took beyond the mean of the first run, over all records of the second: the contributions of all connections add
    /// up to the difference.
    pub part_ns: f64,
    /// The same as a share of the difference; `None` where no difference of the total is seen.
    pub share: Option<f64>,
}

/// One kind of both runs.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Which.
    #[serde(serialize_with = "key")]
    pub kind: TimedKind,
    /// Records of each run that have a total.
    pub n: [u64; 2],
    /// One sentence each, the most important first.
    pub verdict: Vec<String>,
    /// The legs.
    pub legs: Vec<LegShift>,
    /// What explains the difference of the mean total time.
    pub explained: Vec<Explained>,
    /// The mean total time of both and its difference.
    pub total: Option<Explained>,
    /// Of sends: the network leg divided at the minimum RTT; `None` for others, and where no round trip was measured.
    pub path: Option<PathSplit>,
    /// Of sends: what they waited for, the largest change first.
    pub waited: Vec<Waited>,
    /// Of requests: each method and path by itself; `None` for others, and where they are not known in both runs.
    pub labels: Option<Labels>,
    /// Where it sits, the largest part first.
    pub peers: Vec<Peer>,
    /// Connections of the second run with the largest parts.
    pub connections: Vec<Contribution>,
}

fn key<S: serde::Serializer>(kind: &TimedKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind.key())
}

fn label<S: serde::Serializer>(label: &Label, to: S) -> Result<S::Ok, S::Error> {
    let mut fields = to.serialize_struct("Label", 2)?;
    fields.serialize_field("method", label.method.name())?;
    fields.serialize_field("path", &label.path)?;
    fields.end()
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
    /// The families that both runs have; sends always.
    pub kinds: Vec<Compared>,
}

impl Comparison {
    /// What is said of one kind, where both runs have it.
    pub fn of(&self, kind: TimedKind) -> Option<&Compared> {
        self.kinds.iter().find(|c| c.kind == kind)
    }
}

/// Compares two traces that were read.
pub fn compare(a: &Side, b: &Side) -> Comparison {
    let has = |kind: TimedKind| [a, b].iter().all(|side| side.timed(kind) > 0);
    let any = TimedKind::ALL.into_iter().any(has);
    let kinds: Vec<Compared> = TimedKind::ALL
        .into_iter()
        // Sends are what a trace is of: that there are none to compare is said too, where nothing else is.
        .filter(|kind| has(*kind) || *kind == TimedKind::Sends && !any)
        .map(|kind| compared(a, b, kind))
        .collect();
    let names = [a.name.clone(), b.name.clone()];
    let mut warnings = gather::warnings(a, b);
    if any {
        warnings.push(ONE_OF_EACH.into());
    }
    Comparison { verdict: verdict::overall(&kinds, [&names[0], &names[1]]), names, warnings, kinds }
}

fn compared(a: &Side, b: &Side, kind: TimedKind) -> Compared {
    let (x, y) = (a.of(kind), b.of(kind));
    let legs: Vec<LegShift> = kind
        .legs()
        .iter()
        .enumerate()
        .map(|(i, leg)| {
            let found = stats::shifts(&x.stretches_of(i), &y.stretches_of(i), &Quantile::SHOWN, CONFIDENCE, SEED);
            let moved = Quantile::SHOWN.iter().zip(found).filter_map(|(q, figures)| {
                let figures = figures?;
                Some(Moved { quantile: q.to_string(), figures, seen: figures.seen() })
            });
            LegShift { leg: leg.name, n: [x.n(i), y.n(i)], moved: moved.collect() }
        })
        .filter(|l| l.n != [0, 0])
        .collect();
    let (explained, total) = explain(a, b, kind);
    // Shares of what may be nothing would be noise.
    let whole = total.as_ref().and_then(|t| t.difference_ns).filter(|d| !d.covers(0.0)).map(|d| d.value);
    let n = [a.timed(kind), b.timed(kind)];
    let peers = peers(a, b, kind, whole);
    let connections = connections(a, b, kind, whole);
    let of_sends = kind == TimedKind::Sends;
    let path = match kind {
        TimedKind::Sends => path(a, b),
        // The connections are those of the sends.
        TimedKind::AtClient => path(a, b).and_then(|sends| path_of_requests(sends, &explained)),
        _ => None,
    };
    let waited = if of_sends { waited(a, b) } else { Vec::new() };
    let labels = labels::compare(a, b, kind);
    let verdict = Vec::new();
    let mut compared = Compared { kind, n, verdict, legs, explained, total, path, waited, labels, peers, connections };
    compared.verdict = verdict::of(&compared, [&a.name, &b.name]);
    compared
}

fn path(a: &Side, b: &Side) -> Option<PathSplit> {
    let ([least, beyond], [other_least, other_beyond]) = (a.sends.path()?, b.sends.path()?);
    Some(PathSplit { least_rtt_ns: [least, other_least], beyond_ns: [beyond, other_beyond] })
}

/// What the network of requests took beyond the minimum RTT of their connections.
fn path_of_requests(sends: PathSplit, explained: &[Explained]) -> Option<PathSplit> {
    let network = explained.iter().find(|e| e.leg == Component::Network.name())?.mean_ns;
    let least = sends.least_rtt_ns;
    Some(PathSplit { least_rtt_ns: least, beyond_ns: [network[0] - least[0], network[1] - least[1]] })
}

fn waited(a: &Side, b: &Side) -> Vec<Waited> {
    let of = |leg: &'static str, first: &gather::ByReason, second: &gather::ByReason| {
        let reasons = WaitReason::ALL.into_iter().filter(|reason| *reason != WaitReason::SentAtOnce);
        let each = reasons.filter_map(|reason| {
            let mean_ns = [first.mean(reason)?, second.mean(reason)?];
            (mean_ns != [0.0; 2]).then_some(Waited { leg, reason, mean_ns })
        });
        each.collect::<Vec<_>>()
    };
    let (a, b) = (&a.sends, &b.sends);
    let mut waited = of(Leg::Tcp.name(), &a.in_tcp, &b.in_tcp);
    waited.extend(of(Leg::Call.name(), &a.in_call, &b.in_call));
    waited.sort_by(|x, y| (y.mean_ns[1] - y.mean_ns[0]).abs().total_cmp(&(x.mean_ns[1] - x.mean_ns[0]).abs()));
    waited
}

/// The legs; those that one of the runs does not separate are taken together.
fn groups(a: &Side, b: &Side, kind: TimedKind) -> Vec<(String, Vec<usize>)> {
    let has = |side: &Side, i: usize| side.of(kind).n(i) > 0;
    let mut groups: Vec<(String, Vec<usize>)> = kind
        .adding()
        .filter(|(i, _)| has(a, *i) || has(b, *i))
        .map(|(i, leg)| (leg.name.to_owned(), vec![i]))
        .collect();
    for (i, leg) in kind.adding().filter(|(i, _)| has(a, *i) != has(b, *i)) {
        let Some(within) = leg.within else { continue };
        let Some(from) = groups.iter().position(|g| g.1 == [i]) else { continue };
        let Some(into) = groups.iter().position(|g| g.1.contains(&within) && g.1 != [i]) else { continue };
        groups[into].0 = format!("{} and {}", leg.name, groups[into].0);
        groups[into].1.push(i);
        groups.remove(from);
    }
    groups
}

fn explain(a: &Side, b: &Side, kind: TimedKind) -> (Vec<Explained>, Option<Explained>) {
    let of = |name: String, legs: &[usize]| {
        let (x, y) = (a.of(kind), b.of(kind));
        let mean_ns = [x.mean_of(legs)?, y.mean_of(legs)?];
        let difference_ns = stats::mean_shift(&x.sums_of(legs), &y.sums_of(legs), CONFIDENCE, SEED);
        Some(Explained { leg: name, mean_ns, difference_ns, share: None })
    };
    let parts: Vec<usize> = kind.adding().map(|(i, _)| i).collect();
    let total = of(kind.legs()[kind.total()].name.into(), &parts);
    let whole = total.as_ref().and_then(|t| t.difference_ns.filter(|d| !d.covers(0.0)).map(|d| d.value));
    let parts = groups(a, b, kind).into_iter().filter_map(|(name, legs)| {
        let mut part = of(name, &legs)?;
        part.share = whole.map(|whole| (part.mean_ns[1] - part.mean_ns[0]) / whole);
        Some(part)
    });
    (parts.collect(), total)
}

/// The difference of two means over groups, divided into what the groups' own means changed and what their shares did
/// (Kitagawa, "Components of a Difference Between Two Rates", 1955). The parts add up to the difference.
fn peers(a: &Side, b: &Side, kind: TimedKind, whole: Option<f64>) -> Vec<Peer> {
    let (a, b) = (&a.of(kind).peers, &b.of(kind).peers);
    let n = |side: &std::collections::BTreeMap<_, gather::Times>| side.values().map(|p| p.0).sum::<u64>().max(1) as f64;
    let mean = |side| sum(side) / n(side);
    let middle = f64::midpoint(mean(a), mean(b));
    let mut names: Vec<Option<IpAddr>> = a.keys().chain(b.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let mut peers: Vec<Peer> = names
        .into_iter()
        .map(|peer| {
            let of = [a, b].map(|side| side.get(&peer).copied().unwrap_or((0, 0)));
            let means = of.map(|(n, sum)| (n > 0).then(|| sum as f64 / n as f64));
            let shares = [of[0].0 as f64 / n(a), of[1].0 as f64 / n(b)];
            // A peer that one run lacks changes the mix alone.
            let at = [means[0].or(means[1]).unwrap_or(middle), means[1].or(means[0]).unwrap_or(middle)];
            let slower_ns = f64::midpoint(shares[0], shares[1]) * (at[1] - at[0]);
            let mix_ns = (f64::midpoint(at[0], at[1]) - middle) * (shares[1] - shares[0]);
            let share = whole.map(|whole| (slower_ns + mix_ns) / whole);
            Peer { peer, n: of.map(|o| o.0), mean_ns: means, slower_ns, mix_ns, share }
        })
        .collect();
    peers.sort_by(|x, y| (y.slower_ns + y.mix_ns).abs().total_cmp(&(x.slower_ns + x.mix_ns).abs()));
    peers
}

fn sum(side: &std::collections::BTreeMap<Option<IpAddr>, gather::Times>) -> f64 {
    side.values().map(|p| p.1 as f64).sum()
}

/// What each connection of the second run took beyond the mean of the first.
fn connections(a: &Side, b: &Side, kind: TimedKind, whole: Option<f64>) -> Vec<Contribution> {
    let count = |side: &Side| side.of(kind).flows.values().map(|t| t.0).sum::<u64>().max(1) as f64;
    let mean = a.of(kind).flows.values().map(|t| t.1 as f64).sum::<f64>() / count(a);
    let all = count(b);
    let mut found: Vec<Contribution> = b
        .of(kind)
        .flows
        .iter()
        .map(|(flow, &(n, time))| {
            let known = flow.and_then(|(id, _)| b.ends.get(&id));
            let remote = flow.and_then(|(_, peer)| peer).or(known.map(|k| k.1));
            let part_ns = (time as f64 - n as f64 * mean) / all;
            Contribution {
                local: known.map(|k| k.0),
                remote,
                comm: known.map(|k| k.2.clone()).filter(|comm| !comm.is_empty()),
                n,
                mean_ns: time as f64 / n as f64,
                part_ns,
                share: whole.map(|whole| part_ns / whole),
            }
        })
        .collect();
    found.sort_by(|x, y| {
        y.part_ns.abs().total_cmp(&x.part_ns.abs()).then_with(|| (x.local, x.remote).cmp(&(y.local, y.remote)))
    });
    found.truncate(CONNECTIONS);
    found
}
