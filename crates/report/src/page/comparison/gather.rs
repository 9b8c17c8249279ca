//! What a comparison needs of each run, in bounded memory.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use model::{ConnectionId, Leg, Send};
use stats::{Distribution, Precision};
use store::{Error, Run};

use crate::page::trace::{self, Trace};
use crate::{quantity, view};

/// Stretches that a run is divided into, at most; half as many at least, once it has sends enough.
const STRETCHES: usize = 64;
/// Sends of a stretch to begin with.
const SENDS: u64 = 16;

/// Sends that follow one another.
#[derive(Debug)]
pub(super) struct Stretch {
    sends: u64,
    legs: [Distribution; Leg::ALL.len()],
    /// Of the sends that have every stamp: their number, and the time of each part.
    whole: u64,
    parts: [u128; Leg::PARTS.len()],
}

impl Stretch {
    fn new() -> Self {
        let legs = Leg::ALL.map(|_| Distribution::new(Precision::Fine));
        Self { sends: 0, legs, whole: 0, parts: [0; Leg::PARTS.len()] }
    }

    fn add(&mut self, send: &Send) {
        self.sends += 1;
        for (leg, times) in Leg::ALL.into_iter().zip(&mut self.legs) {
            if let Ok(Some(time)) = send.leg(leg) {
                times.record(time.0);
            }
        }
        let parts = Leg::PARTS.map(|leg| send.leg(leg));
        let needed = [0, 1, 3].iter().all(|&i| matches!(parts[i], Ok(Some(_)))) && parts[2].is_ok();
        if needed {
            self.whole += 1;
            for (sum, part) in self.parts.iter_mut().zip(parts) {
                *sum += part.ok().flatten().map_or(0, |t| u128::from(t.0));
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.sends += other.sends;
        self.whole += other.whole;
        self.legs.iter_mut().zip(&other.legs).for_each(|(mine, theirs)| mine.merge(theirs));
        self.parts.iter_mut().zip(other.parts).for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// One of the two runs.
#[derive(Debug)]
pub struct Side {
    /// What it is called.
    pub name: String,
    pub(super) trace: Trace,
    pub(super) kernel: String,
    /// Sends and their time by peer.
    pub(super) peers: BTreeMap<Option<IpAddr>, (u64, u128)>,
    stretches: Vec<Stretch>,
}

/// Reads a run for comparison.
///
/// # Errors
/// Those of [`trace::read`].
pub fn read(name: &str, run: &Run) -> Result<Side, Error> {
    let trace = trace::read(run)?;
    let mut ends: HashMap<ConnectionId, IpAddr> = HashMap::new();
    // What is missing was said by the first reading.
    let mut said = Vec::new();
    let result = run.connections(|c| _ = ends.insert(c.id, c.remote.ip()));
    trace::incomplete(run, result, &mut said)?;
    let mut side = Side {
        name: name.to_owned(),
        kernel: run.provenance().kernel.clone(),
        peers: BTreeMap::new(),
        stretches: vec![Stretch::new()],
        trace,
    };
    let mut full = SENDS;
    let result = run.sends(|send| {
        if side.stretches.last().is_none_or(|s| s.sends >= full) {
            if side.stretches.len() == STRETCHES {
                full *= 2;
                let mut halves = std::mem::take(&mut side.stretches).into_iter();
                while let Some(mut first) = halves.next() {
                    halves.next().iter().for_each(|second| first.merge(second));
                    side.stretches.push(first);
                }
            }
            side.stretches.push(Stretch::new());
        }
        side.stretches.iter_mut().next_back().into_iter().for_each(|s| s.add(&send));
        if let Ok(Some(total)) = send.leg(Leg::Total) {
            let peer = side.peers.entry(ends.get(&send.connection).copied()).or_default();
            *peer = (peer.0 + 1, peer.1 + u128::from(total.0));
        }
    });
    trace::incomplete(run, result, &mut said)?;
    // A last stretch that hardly began would vary more than the others.
    if side.stretches.len() > 2
        && let Some(last) = side.stretches.pop_if(|last| last.sends * 2 < full)
        && let Some(before) = side.stretches.last_mut()
    {
        before.merge(&last);
    }
    Ok(side)
}

impl Side {
    pub(super) fn stretches_of(&self, leg: Leg) -> Vec<&Distribution> {
        let at = Leg::ALL.iter().position(|l| *l == leg).unwrap_or(0);
        self.stretches.iter().map(|s| &s.legs[at]).filter(|d| d.n() > 0).collect()
    }

    /// Time of these legs together and number of sends, stretch by stretch.
    pub(super) fn sums_of(&self, legs: &[Leg]) -> Vec<(f64, u64)> {
        let of = |s: &Stretch| {
            let parts = Leg::PARTS.iter().zip(s.parts).filter(|(leg, _)| legs.contains(leg));
            (parts.map(|p| p.1).sum::<u128>() as f64, s.whole)
        };
        self.stretches.iter().map(of).filter(|s| s.1 > 0).collect()
    }

    pub(super) fn n(&self, leg: Leg) -> u64 {
        self.trace.summary.total().leg(leg).times.n()
    }

    pub(super) fn has_nic(&self) -> bool {
        self.n(Leg::Nic) > 0
    }
}

/// What makes the two runs unlike each other beside what is compared.
pub(super) fn warnings(a: &Side, b: &Side) -> Vec<String> {
    let mut out = Vec::new();
    for side in [a, b] {
        out.extend(side.trace.warnings.iter().map(|w| format!("{}: {w}", side.name)));
    }
    let mut differ = |what: &str, x: String, y: String, so: &str| {
        if x != y {
            out.push(format!("They differ in {what}: {x} in {}, {y} in {}; {so}.", a.name, b.name));
        }
    };
    let (f, g) = (&a.trace.facts, &b.trace.facts);
    let unlike = "the sends that were seen may not be of the same kind";
    differ("sampling", view::sampling(f.sampling), view::sampling(g.sampling), unlike);
    differ("backend", f.backend.clone(), g.backend.clone(), "their stages are not taken at quite the same places");
    differ("kernel", a.kernel.clone(), b.kernel.clone(), "what a leg costs differs between kernels too");
    let nic = |side: &Side| if side.has_nic() { "yes" } else { "no" }.to_owned();
    differ("NIC timestamps", nic(a), nic(b), "the nic and network legs are taken together where parts are compared");
    for side in [a, b] {
        let total = side.trace.summary.total();
        let lost = side.trace.facts.lost;
        let unseen = lost.ring_buffer + lost.slots_full + lost.over_rate + lost.unstamped;
        let share = quantity::share(unseen.into(), (total.sends + unseen).into());
        if share > 0.01 {
            out.push(format!(
                "{}: {} of the sends made while it watched were not recorded (n = {}); if they were the slow ones, it looks faster \
                 than it was.",
                side.name,
                quantity::percent(share),
                quantity::count(unseen)
            ));
        }
        let unacknowledged = quantity::share(total.unacknowledged.into(), total.sends.into());
        if unacknowledged > 0.01 {
            out.push(format!(
                "{}: {} of its sends ended without an ACK and are in no figure of the total.",
                side.name,
                quantity::percent(unacknowledged)
            ));
        }
    }
    let seen = |side: &Side| {
        let c = side.trace.facts.coverage;
        quantity::share(c.bytes_armed.into(), c.bytes_written.into())
    };
    let (x, y) = (seen(a), seen(b));
    if x.is_finite() && y.is_finite() && (x - y).abs() > 0.1 {
        out.push(format!(
            "They saw different shares of the traffic: {} of the bytes in {}, {} in {}.",
            quantity::percent(x),
            a.name,
            quantity::percent(y),
            b.name
        ));
    }
    out
}
