//! Which remedies are worth trying.

use diagnose::Report;
use diagnose::conditions::{Conditions, obstacles};
use record::Nanos;
use record::conversation::{FindingKind, Limit, Side, Way};

use crate::remedies::{self, At, Remedy};

/// A remedy for data that go one way.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// What is changed.
    pub remedy: &'static Remedy,
    /// Of the data that go that way.
    pub way: Way,
    /// How much of the time is what it is for, 0 to 1.
    pub share: f64,
}

/// A remedy that is not tried.
#[derive(Clone, Copy, Debug)]
pub struct NotTried {
    /// Which.
    pub remedy: &'static Remedy,
    /// Why not.
    pub because: &'static str,
}

/// From this share of the time on, a limit makes its remedies worth trying.
const WORTH: f64 = 0.05;

/// What is tried, what is for the largest part of the time first, and what is not. Where nothing is
/// for this connection, what is most often hoped for is tried, to show that it does not help.
pub fn candidates(c: &Conditions, only: Option<Side>) -> (Vec<Candidate>, Vec<NotTried>) {
    let (mut tried, mut not) = (Vec::new(), Vec::new());
    for remedy in remedies::ALL {
        let way = way(c, remedy);
        let share = share(c, remedy);
        match reason_against(c, remedy, way, only).or((share < WORTH).then_some(NOTHING)) {
            Some(because) => not.push(NotTried { remedy, because }),
            None => tried.push(Candidate { remedy, way, share }),
        }
    }
    tried.sort_by(|a, b| b.share.total_cmp(&a.share));
    if tried.is_empty() {
        let hoped = |n: &NotTried| HOPED.contains(&n.remedy.name) && n.because == NOTHING;
        let way = c.main_way();
        tried = not.iter().filter(|n| hoped(n)).map(|n| Candidate { remedy: n.remedy, way, share: 0.0 }).collect();
        not.retain(|n| !hoped(n));
    }
    (tried, not)
}

/// The time of a connection that was neither its programs' nor the path's rate, or what the
/// costliest finding of TCP cost.
pub fn lost(report: &Report) -> Nanos {
    let tcp =
        Limit::ALL.into_iter().filter(|limit| !matches!(limit, Limit::Application | Limit::PathRate | Limit::Unknown));
    let limits: Nanos = tcp.map(|limit| report.limits.of(limit)).sum();
    let found = report.findings.iter().filter(|f| f.kind != FindingKind::SenderApplication).map(|f| f.cost_ns).max();
    limits.max(found.unwrap_or_default())
}

/// Below this, nobody waits for what could be saved.
const NOTICED: Nanos = Nanos::from_millis(10);

/// The time of a connection that remedies are for, where they can be tried in a twin of it and it
/// is worth that. Its packets need not have been kept.
pub fn worth_trying(report: &Report) -> Option<Nanos> {
    let tried = || remedies::ALL.into_iter().filter(|remedy| remedy.untried().is_none());
    let found = tried()
        .flat_map(|remedy| remedy.findings)
        .flat_map(|kind| report.findings.iter().filter(|f| f.kind == *kind).map(|f| f.cost_ns));
    // Every connection has a handshake: that alone is no reason.
    let limits = tried().flat_map(|remedy| remedy.limits).filter(|limit| **limit != Limit::Handshake);
    let limits = limits.map(|limit| report.limits.of(*limit));
    let most = found.chain(limits).max().unwrap_or_default();
    let is_much = most >= NOTICED && quantity::share(most.0.into(), report.duration_ns.0.into()) >= WORTH;
    (is_much && obstacles(report).is_empty()).then_some(most)
}

const NOTHING: &str = "nothing in this connection waits for what it changes";

/// What people change first.
const HOPED: [&str; 4] = ["TCP_NODELAY", "quick ACKs", "bbr", "initcwnd 32"];

/// Why it cannot be tried.
fn reason_against(c: &Conditions, remedy: &Remedy, way: Way, only: Option<Side>) -> Option<&'static str> {
    let elsewhere = |only: Side| match remedy.at.side(way) {
        None => Some("it belongs to the path, and only this host is to be changed"),
        Some(side) if side != only => Some("it belongs to the other host, and only this one is to be changed"),
        Some(_) => None,
    };
    only.and_then(elsewhere).or_else(|| remedy.untried()).or_else(|| (remedy.possible)(c, way).err())
}

/// The direction of its data: that of what it is for.
fn way(c: &Conditions, remedy: &Remedy) -> Way {
    let found = remedy.findings.iter().filter_map(|kind| c.cause(*kind)).find_map(|cause| cause.direction.as_deref());
    let of_finding = found.and_then(|name| Way::ALL.into_iter().find(|way| way.name() == name));
    // Scaling, SACK and timestamps belong to the side that left them out.
    let left_out = Way::ALL.into_iter().find(|way| remedy.at == At::Receiver && lacks(c, remedy, *way));
    left_out.or(of_finding).unwrap_or_else(|| c.main_way())
}

fn lacks(c: &Conditions, remedy: &Remedy, way: Way) -> bool {
    let receiver = &c.hosts[(!way) as usize];
    match remedy.name {
        "window scaling" => !receiver.window_scaling.value,
        "SACK" => !receiver.sack.value,
        "timestamps" => !receiver.timestamps.value,
        _ => false,
    }
}

/// How much of the time is what it is for: by what its findings cost, or its limits took.
fn share(c: &Conditions, remedy: &Remedy) -> f64 {
    let found = remedy.findings.iter().filter_map(|kind| c.cause(*kind));
    let cost = found.map(|cause| quantity::share(cause.cost_ns.0.into(), c.duration_ns.0.into()));
    let limits = remedy.limits.iter().map(|limit: &Limit| c.share(*limit));
    cost.chain(limits).fold(0.0, f64::max)
}
