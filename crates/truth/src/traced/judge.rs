//! A claim beside the truth.

use record::Leg;

use super::requests::Requests;
use super::said::{Claim, OfCauses, Share, Whole};
use super::sends::{Causes, Sends, whole};
use crate::account::Cause;
use crate::plan::End;
use crate::run::{Doing, Observed};
use crate::score::{NEARLY, OFF, Outcome, UNSEEN};

/// What is true of one end of a connection.
pub(super) struct Facts<'a> {
    /// The connection.
    pub seen: &'a Observed,
    /// The end.
    pub end: End,
    /// Of its sends.
    pub sends: Option<Sends>,
    /// Of its requests.
    pub requests: Requests,
    /// From the first look to the last.
    pub all: Causes,
    /// The longest round trip of the path without a queue, ns.
    pub round_trip: u64,
}

/// Above its round trip by a quarter and so much, ns, the network leg is no distance.
const NEAR: u64 = 2_000_000;
/// The longest that is a distance, on a path with this round trip, ns.
pub(super) fn longest_distance(round_trip: u64) -> u64 {
    round_trip + round_trip / 4 + NEAR
}

/// A remedy for less than this share of a connection's time, and of that of its sends, helps
/// nobody.
const HELPS: f64 = 0.1;
/// A program that thinks for less than this share of the time reads as fast as it can.
const THINKS: f64 = 0.05;

/// Requests that take less than this together, ns, are too short for what is looked at now and
/// then.
const SHORT: u64 = 20_000_000;

/// Causes that are compared as one, as [`Cause::PathRateLosing`] is the path's.
const GROUPS: [&[Cause]; 9] = [
    &[Cause::Application],
    &[Cause::Handshake],
    &[Cause::SlowStart, Cause::CongestionWindow],
    &[Cause::SendBuffer],
    &[Cause::ReceiveWindow],
    &[Cause::Loss],
    &[Cause::Nagle],
    &[Cause::PathRate, Cause::PathRateLosing, Cause::AckPathRate],
    &[Cause::Pacing],
];

fn sum(of: &Causes, causes: &[Cause]) -> f64 {
    causes.iter().filter_map(|cause| of.get(cause)).sum::<u64>() as f64
}

/// The largest of them but for those that are named, an application that has nothing to send
/// apart.
fn most_beside(of: &Causes, named: &[Cause]) -> f64 {
    let rest = |group: &[Cause]| -> u64 {
        group.iter().filter(|cause| !named.contains(cause)).filter_map(|c| of.get(c)).sum()
    };
    GROUPS[1..].iter().map(|group| rest(group)).max().unwrap_or(0) as f64
}

/// The largest cause; an application that has nothing to send, or a handshake, only where nothing
/// else has a tenth.
pub(super) fn largest(of: &Causes) -> Cause {
    let idle = |cause: &Cause| matches!(cause, Cause::Application | Cause::Handshake | Cause::Unseen);
    let most = |idle_ones: bool| of.iter().filter(|(cause, _)| idle(cause) == idle_ones).max_by_key(|(_, time)| **time);
    let limit = most(false).filter(|(_, time)| **time * 10 >= whole(of));
    limit.or_else(|| most(true)).map_or(Cause::Application, |(cause, _)| *cause)
}

fn is_unseen(of: &Causes) -> bool {
    sum(of, &[Cause::Unseen]) > UNSEEN * whole(of) as f64
}

impl Facts<'_> {
    /// The time by which a claim is judged.
    pub(super) fn time(&self, claim: &Claim) -> Causes {
        let sends = self.sends.as_ref();
        match claim {
            Claim::Causes(of) => self.part(of.whole),
            Claim::Distance | Claim::RoundTrip | Claim::LossesOnTheWay => {
                sends.map(|s| s.under_way.clone()).unwrap_or_default()
            }
            Claim::Legs(..) => sends.map_or_else(Causes::new, |s| {
                let mut all = s.in_tcp.clone();
                s.under_way.iter().for_each(|(cause, time)| *all.entry(*cause).or_insert(0) += time);
                all
            }),
            Claim::Requests(..) => self.requests.causes.clone(),
            Claim::Quiet(_) | Claim::ReadsLate | Claim::Nothing(_) => self.all.clone(),
        }
    }

    fn part(&self, part: Whole) -> Causes {
        let sends = self.sends.as_ref();
        match part {
            Whole::Transfer => sends.map(|s| s.lasted.clone()),
            Whole::InTcp => sends.map(|s| s.in_tcp.clone()),
            Whole::SetUp => Some(self.all.clone()),
        }
        .unwrap_or_default()
    }

    /// What a claim is worth.
    pub(super) fn judge(&self, claim: &Claim) -> Outcome {
        let time = self.time(claim);
        if let Claim::Nothing(why) = claim {
            return Outcome::Withheld((*why).to_owned());
        }
        if whole(&time) == 0 || is_unseen(&time) {
            return Outcome::NotJudged;
        }
        match claim {
            Claim::Causes(of) => self.causes(of, &time),
            Claim::Legs(legs, share) => self.sends.as_ref().map_or(Outcome::NotJudged, |s| legs_of(s, legs, *share)),
            Claim::Quiet(share) => match self.sends.as_ref().map(|s| s.quiet) {
                None => Outcome::NotJudged,
                Some(quiet) if (quiet - share).abs() <= OFF => Outcome::Right,
                Some(_) => Outcome::Wrong,
            },
            Claim::Distance => self.sends.as_ref().map_or(Outcome::NotJudged, |s| self.distance(s)),
            Claim::RoundTrip => {
                let open = sum(&time, &[Cause::Application, Cause::Handshake]);
                let is_distance = self.sends.as_ref().is_some_and(|s| self.distance(s) == Outcome::Right);
                right(is_distance || open >= whole(&time) as f64 / 2.0)
            }
            // What makes a flight longer is a queue, or a repair.
            Claim::LossesOnTheWay => {
                let [losses, queue] = [[Cause::Loss, Cause::PathRateLosing], [Cause::PathRate, Cause::AckPathRate]]
                    .map(|of| sum(&time, &of));
                right(losses > 0.0 && losses >= NEARLY * queue)
            }
            Claim::ReadsLate => right(self.thinks() >= THINKS),
            Claim::Requests(_, shares) => self.of_requests(shares),
            Claim::Nothing(_) => Outcome::NotJudged,
        }
    }

    fn causes(&self, of: &OfCauses, time: &Causes) -> Outcome {
        if of.whole == Whole::InTcp && self.sends.as_ref().is_some_and(|s| whole(time) < 2 * s.doubt) {
            return Outcome::NotJudged;
        }
        let all = whole(time) as f64;
        let named = sum(time, of.causes);
        // What is repaired behind a path that is in use may be called either.
        let either = if of.causes.contains(&Cause::PathRateLosing) { sum(time, &[Cause::PathRateLosing]) } else { 0.0 };
        let program = if of.causes.contains(&Cause::Application) { 0.0 } else { sum(time, &[Cause::Application]) };
        let rest = most_beside(time, of.causes);
        if named == 0.0 || named < NEARLY * rest {
            return Outcome::Wrong;
        }
        if of.is_remedy && !self.helps(of.causes) {
            return Outcome::Wrong;
        }
        let Some((share, told)) = of.share else { return Outcome::Right };
        let is_off = share > named / all + OFF || share < (named - either) / all - OFF;
        if program > rest && 1.0 - told > share {
            return if is_off {
                Outcome::Wrong
            } else {
                Outcome::Withheld("the most of the time is left open".to_owned())
            };
        }
        if is_off { Outcome::Share } else { Outcome::Right }
    }

    /// Whether these causes take a part of the connection's time, or of that of its sends, that is
    /// worth a remedy.
    fn helps(&self, causes: &[Cause]) -> bool {
        let Some(sends) = &self.sends else { return false };
        let share = |part: &Causes, all: u64| sum(part, causes) / all.max(1) as f64;
        let of_sends = share(&sends.in_tcp, whole(&sends.in_tcp) + whole(&sends.under_way));
        share(&sends.lasted, whole(&sends.lasted)).max(of_sends) >= HELPS
    }

    fn of_requests(&self, shares: &[Share]) -> Outcome {
        let of = &self.requests;
        if of.most() < SHORT {
            return Outcome::NotJudged;
        }
        let part = |share: &Share| match share {
            Share::Own => of.own,
            Share::Peer => of.peer,
            Share::Limited => of.limited,
            Share::Way => of.way,
            Share::Queue => of.queue,
        };
        right(shares.iter().map(part).sum::<u64>() as f64 >= NEARLY * of.most() as f64)
    }

    fn distance(&self, sends: &Sends) -> Outcome {
        let mean = whole(&sends.under_way) / sends.n.max(1);
        let doubt = sends.doubt / sends.n.max(1);
        right(mean <= longest_distance(self.round_trip) + 2 * doubt)
    }

    /// The share of the time up to its last read that the program did something else.
    fn thinks(&self) -> f64 {
        let spans = &self.seen.spans[self.end as usize];
        let Some(last) = spans.iter().rev().find(|span| matches!(span.doing, Doing::Read | Doing::ReadOut)) else {
            return 0.0;
        };
        let first = spans.first().map_or(last.to, |span| span.from);
        let thinks = spans.iter().filter(|span| span.doing == Doing::Think && span.to <= last.to);
        thinks.map(|span| span.to - span.from).sum::<u64>() as f64 / (last.to - first).max(1) as f64
    }
}

fn right(is: bool) -> Outcome {
    if is { Outcome::Right } else { Outcome::Wrong }
}

fn legs_of(sends: &Sends, legs: &[Leg], share: f64) -> Outcome {
    let (tcp, rest) = (whole(&sends.in_tcp), whole(&sends.under_way));
    if sends.doubt as f64 > OFF * (tcp + rest) as f64 {
        return Outcome::NotJudged;
    }
    let in_tcp = sends.share_in_tcp();
    let named = match legs {
        [Leg::Tcp] => in_tcp,
        _ if legs.contains(&Leg::Network) => 1.0 - in_tcp,
        // The lab's hosts have no queue of their own.
        _ => 0.0,
    };
    if named < NEARLY * in_tcp.max(1.0 - in_tcp) {
        Outcome::Wrong
    } else if (named - share).abs() > OFF {
        Outcome::Share
    } else {
        Outcome::Right
    }
}
