//! Two traces side by side, or several of each side: by how much each leg of each kind moved, which
//! leg explains the difference, and in which peers and connections it sits.

mod labels;
mod several;
mod side;
mod stretches;
mod unlike;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use compare::{ALONE, Change, Verdict};
use record::{Label, LegName, WaitReason};
use serde::Serialize;
use serde::ser::SerializeStruct as _;
use stats::{Estimate, Quantile};

use crate::TimedKind;

pub use labels::{ByLabels, LabelShift, Labels};
pub use several::{Figure, LabelRuns, Measure, Runs, Several, several};
pub use side::{About, Reading, Side};
pub use unlike::Unlike;

/// Connections that are listed.
const CONNECTIONS: usize = 20;

/// How far one quantile of a leg moved.
#[derive(Clone, Debug)]
pub struct Moved {
    /// Which.
    pub quantile: Quantile,
    /// Its values, nanoseconds, with the shift and its interval.
    pub change: Change,
}

impl Moved {
    /// Whether there is a difference.
    pub fn is_seen(&self) -> bool {
        self.change.is_seen()
    }
}

impl Serialize for Moved {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Moved", 6)?;
        let [first, second] = self.change.values.map(|ns| ns as u64);
        fields.serialize_field("quantile", &self.quantile.to_string())?;
        fields.serialize_field("first", &first)?;
        fields.serialize_field("second", &second)?;
        fields.serialize_field("shift", &self.change.by)?;
        fields.serialize_field("smallest_seen", &self.change.smallest)?;
        fields.serialize_field("seen", &self.is_seen())?;
        fields.end()
    }
}

/// One leg of both runs.
#[derive(Clone, Debug, Serialize)]
pub struct LegShift {
    /// Which.
    pub leg: LegName,
    /// Records of each run that have it.
    pub n: [u64; 2],
    /// How far it moved, for the quantiles that both runs carry.
    pub moved: Vec<Moved>,
}

/// A leg, or several that are taken together as a run does not separate them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Together(Vec<LegName>);

/// Whether it is this leg alone.
impl PartialEq<LegName> for Together {
    fn eq(&self, leg: &LegName) -> bool {
        self.0 == [*leg]
    }
}

impl fmt::Display for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(LegName::to_string).collect::<Vec<_>>().join(" and "))
    }
}

impl Serialize for Together {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// What one leg adds to the difference of the mean total time.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// The leg, or the legs that had to be taken together.
    pub leg: Together,
    /// Means over the records that have every stamp, nanoseconds.
    pub mean_ns: [f64; 2],
    /// Second less first, with its interval; `None` where there is too little.
    pub difference_ns: Option<Estimate>,
    /// Of the difference of the total: the shares of all legs add up to 1. `None` where no
    /// difference of the total is seen.
    pub share: Option<f64>,
}

/// The network leg of sends, or the network of requests, divided at the minimum RTT that TCP
/// measured on each connection. The ACK of a send comes later than that where the peer delays it,
/// where it leaves with an answer, or where a queue stands on the path.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PathSplit {
    /// The connections' minimum RTT in each run, nanoseconds: a mean in which each send counts
    /// once.
    pub least_rtt_ns: [f64; 2],
    /// What network legs took beyond it, nanoseconds.
    pub beyond_ns: [f64; 2],
}

/// What sends waited for, where that changed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Waited {
    /// The leg in which they waited: `tcp`, or `call` for room in the send buffer.
    pub leg: LegName,
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
    /// Part of the difference because this peer's records themselves took another time,
    /// nanoseconds.
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
    /// What they took beyond the mean of the first run, over all records of the second: the
    /// contributions of all connections add up to the difference.
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
    /// The legs.
    pub legs: Vec<LegShift>,
    /// What explains the difference of the mean total time.
    pub explained: Vec<Explained>,
    /// The mean total time of both and its difference.
    pub total: Option<Explained>,
    /// Of sends: the network leg divided at the minimum RTT; `None` for others, and where no round
    /// trip was measured.
    pub path: Option<PathSplit>,
    /// Of sends: what they waited for, the largest change first.
    pub waited: Vec<Waited>,
    /// Of requests: each method and path by itself; `None` for others, and where they are not known
    /// in both runs.
    pub labels: Option<Labels>,
    /// Where it sits, the largest part first.
    pub peers: Vec<Peer>,
    /// Connections of the second run with the largest parts.
    pub connections: Vec<Contribution>,
}

impl Compared {
    /// The leg that is the total, where both runs have it.
    pub fn total_leg(&self) -> Option<&LegShift> {
        let name = self.kind.legs()[self.kind.total()].name;
        self.legs.iter().find(|leg| leg.leg == name && leg.n.iter().all(|n| *n > 0))
    }

    /// What became of the total; `None` where there is nothing to compare.
    pub fn verdict(&self) -> Option<Verdict> {
        let total = self.total_leg()?;
        Some(match (self.moved(), self.smallest()) {
            (Some(moved), _) => moved.change.verdict(),
            (None, Some(_)) => Verdict::NotSeen,
            (None, None) if total.moved.iter().any(|moved| moved.change.by.is_some()) => Verdict::NotSeen,
            (None, None) => Verdict::TooFew,
        })
    }

    /// The quantile of the total that speaks for the run: the median where it moved, else the one
    /// that did most.
    pub fn moved(&self) -> Option<&Moved> {
        compare::largest(&self.total_leg()?.moved, |moved| &moved.change, |moved| moved.quantile == Quantile::P50)
    }

    /// The first quantile of which it is known which shift these runs would have shown.
    pub fn smallest(&self) -> Option<(&Moved, f64)> {
        self.total_leg()?.moved.iter().find_map(|moved| Some((moved, moved.change.smallest?)))
    }

    /// The leg that explains most of a difference that is seen.
    pub fn most(&self) -> Option<&Explained> {
        let by = |e: &&Explained| e.share.unwrap_or(0.0);
        self.explained.iter().filter(|e| e.share.is_some()).max_by(|x, y| by(x).total_cmp(&by(y)))
    }

    /// What sends waited for in TCP, where that leg explains most and this accounts for at least
    /// half of its change.
    pub fn reason(&self) -> Option<&Waited> {
        let leg = self.most().filter(|e| e.leg == LegName::Tcp)?;
        let waited = self.waited.iter().find(|w| leg.leg == w.leg)?;
        let change = |of: [f64; 2]| of[1] - of[0];
        (change(waited.mean_ns) / change(leg.mean_ns) >= 0.5).then_some(waited)
    }

    /// What changed most in the call that writes, and what sends waited for in it: it comes before
    /// the total, so that its change is in no other figure. `None` where that is little beside the
    /// total: a copy alone takes microseconds.
    pub fn in_the_call(&self) -> Option<(&Moved, Option<&Waited>)> {
        let name = LegName::Call;
        let call = self.legs.iter().find(|l| self.kind == TimedKind::Sends && l.leg == name)?;
        let total = self.legs.iter().find(|l| l.leg == LegName::Total)?;
        let whole = total.moved.iter().flat_map(|m| m.change.values).fold(0.0, f64::max);
        let shift = |m: &Moved| m.change.by.map_or(0.0, |by| by.value.abs());
        let seen = call.moved.iter().filter(|m| m.is_seen());
        let most = seen.max_by(|x, y| shift(x).total_cmp(&shift(y))).filter(|m| shift(m) >= whole / 20.0)?;
        Some((most, self.waited.iter().find(|w| w.leg == name)))
    }

    /// The one connection that makes most of the difference, where there are several.
    pub fn one_connection(&self) -> Option<&Contribution> {
        let [one, _, ..] = self.connections.as_slice() else { return None };
        (one.share.is_some_and(|share| share >= 0.5) && one.remote.is_some()).then_some(one)
    }
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
    /// What has to be known before it is believed.
    #[serde(skip)]
    pub unlike: Vec<Unlike>,
    /// The families that both runs have; sends always.
    pub kinds: Vec<Compared>,
}

impl Comparison {
    /// What is said of one kind, where both runs have it.
    pub fn of(&self, kind: TimedKind) -> Option<&Compared> {
        self.kinds.iter().find(|c| c.kind == kind)
    }
}

/// Compares two traces.
pub fn two(a: &Side, b: &Side) -> Comparison {
    let has = |kind: TimedKind| [a, b].iter().all(|side| side.timed(kind) > 0);
    let any = TimedKind::ALL.into_iter().any(has);
    let kinds: Vec<Compared> = TimedKind::ALL
        .into_iter()
        // Sends are what a trace is of: that there are none to compare is said too, where nothing
        // else is.
        .filter(|kind| has(*kind) || *kind == TimedKind::Sends && !any)
        .map(|kind| compared(a, b, kind))
        .collect();
    let mut unlike = unlike::of(a, b);
    if any {
        unlike.push(Unlike::OneRunOfEach);
    }
    Comparison { names: [a.name.clone(), b.name.clone()], unlike, kinds }
}

fn compared(a: &Side, b: &Side, kind: TimedKind) -> Compared {
    let (x, y) = (a.of(kind), b.of(kind));
    let legs: Vec<LegShift> = kind
        .legs()
        .iter()
        .enumerate()
        .map(|(i, leg)| {
            let stretches = [x, y].map(|side| side.stretches_of(i));
            let moved = compare::quantiles([&stretches[0], &stretches[1]], &Quantile::SHOWN, ALONE);
            let moved = moved.map(|(quantile, change)| Moved { quantile, change }).collect();
            LegShift { leg: leg.name, n: [x.n(i), y.n(i)], moved }
        })
        .filter(|l| l.n != [0, 0])
        .collect();
    let (explained, total) = explain(a, b, kind);
    // Shares of what may be nothing would be noise.
    let whole = total.as_ref().and_then(|t| t.difference_ns).filter(|d| !d.covers(0.0)).map(|d| d.value);
    let path = match kind {
        TimedKind::Sends => path(a, b),
        // The connections are those of the sends.
        TimedKind::AtClient => path(a, b).and_then(|sends| path_of_requests(sends, &explained)),
        _ => None,
    };
    Compared {
        kind,
        n: [a.timed(kind), b.timed(kind)],
        legs,
        explained,
        total,
        path,
        waited: if kind == TimedKind::Sends { waited(a, b) } else { Vec::new() },
        labels: a.labels(kind).zip(b.labels(kind)).and_then(|(a, b)| labels::compare([a, b])),
        peers: peers(a, b, kind, whole),
        connections: connections(a, b, kind, whole),
    }
}

fn path(a: &Side, b: &Side) -> Option<PathSplit> {
    let ([least, beyond], [other_least, other_beyond]) = (a.sends.path()?, b.sends.path()?);
    Some(PathSplit { least_rtt_ns: [least, other_least], beyond_ns: [beyond, other_beyond] })
}

/// What the network of requests took beyond the minimum RTT of their connections.
fn path_of_requests(sends: PathSplit, explained: &[Explained]) -> Option<PathSplit> {
    let network = explained.iter().find(|e| e.leg == LegName::Network)?.mean_ns;
    let least = sends.least_rtt_ns;
    Some(PathSplit { least_rtt_ns: least, beyond_ns: [network[0] - least[0], network[1] - least[1]] })
}

fn waited(a: &Side, b: &Side) -> Vec<Waited> {
    let of = |leg: LegName, first: &side::ByReason, second: &side::ByReason| {
        let reasons = WaitReason::ALL.into_iter().filter(|reason| *reason != WaitReason::SentAtOnce);
        let each = reasons.filter_map(|reason| {
            let mean_ns = [first.mean(reason)?, second.mean(reason)?];
            (mean_ns != [0.0; 2]).then_some(Waited { leg, reason, mean_ns })
        });
        each.collect::<Vec<_>>()
    };
    let (a, b) = (&a.sends, &b.sends);
    let mut waited = of(LegName::Tcp, &a.in_tcp, &b.in_tcp);
    waited.extend(of(LegName::Call, &a.in_call, &b.in_call));
    waited.sort_by(|x, y| (y.mean_ns[1] - y.mean_ns[0]).abs().total_cmp(&(x.mean_ns[1] - x.mean_ns[0]).abs()));
    waited
}

/// The legs; those that one of the runs does not separate are taken together.
fn groups(a: &Side, b: &Side, kind: TimedKind) -> Vec<(Together, Vec<usize>)> {
    let has = |side: &Side, i: usize| side.of(kind).n(i) > 0;
    let mut groups: Vec<(Together, Vec<usize>)> = kind
        .adding()
        .filter(|(i, _)| has(a, *i) || has(b, *i))
        .map(|(i, leg)| (Together(vec![leg.name]), vec![i]))
        .collect();
    for (i, leg) in kind.adding().filter(|(i, _)| has(a, *i) != has(b, *i)) {
        let Some(within) = leg.within else { continue };
        let Some(from) = groups.iter().position(|g| g.1 == [i]) else { continue };
        let Some(into) = groups.iter().position(|g| g.1.contains(&within) && g.1 != [i]) else { continue };
        groups[into].0.0.insert(0, leg.name);
        groups[into].1.push(i);
        groups.remove(from);
    }
    groups
}

fn explain(a: &Side, b: &Side, kind: TimedKind) -> (Vec<Explained>, Option<Explained>) {
    let of = |name: Together, legs: &[usize]| {
        let sums = [a, b].map(|side| side.of(kind).sums_of(legs));
        let change = compare::mean([&sums[0], &sums[1]], ALONE)?;
        Some(Explained { leg: name, mean_ns: change.values, difference_ns: change.by, share: None })
    };
    let parts: Vec<usize> = kind.adding().map(|(i, _)| i).collect();
    let total = of(Together(vec![kind.legs()[kind.total()].name]), &parts);
    let whole = total.as_ref().and_then(|t| t.difference_ns.filter(|d| !d.covers(0.0)).map(|d| d.value));
    let parts = groups(a, b, kind).into_iter().filter_map(|(name, legs)| {
        let mut part = of(name, &legs)?;
        part.share = whole.map(|whole| (part.mean_ns[1] - part.mean_ns[0]) / whole);
        Some(part)
    });
    (parts.collect(), total)
}

fn peers(a: &Side, b: &Side, kind: TimedKind, whole: Option<f64>) -> Vec<Peer> {
    let parts = compare::divide([&a.of(kind).peers, &b.of(kind).peers]);
    let peer = |part: compare::Part<_>| Peer {
        peer: part.group,
        n: part.n,
        mean_ns: part.means,
        slower_ns: part.own,
        mix_ns: part.mix,
        share: whole.map(|whole| part.whole() / whole),
    };
    parts.into_iter().map(peer).collect()
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
