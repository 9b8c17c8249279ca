//! One connection captured at two places: what was lost, delayed and changed between them.

use std::collections::{BTreeMap, HashMap, VecDeque};

use record::Nanos;
use record::conversation::Way;
use wire::{Flags, Segment};

use crate::distribution::Distribution;
use crate::kept::Record;
use crate::report::Report;

/// What became of one direction's packets between the two places.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Crossing {
    /// Whose packets these are.
    pub direction: Way,
    /// Data packets seen at the place nearer to their sender, and those of them (or parts of them)
    /// that did not come to the other.
    pub sent: u64,
    /// See `sent`.
    pub lost: u64,
    /// Payload bytes of these.
    pub lost_bytes: u64,
    /// Data packets seen at the farther place alone: the nearer capture missed them, or the path
    /// made them.
    pub unsent: u64,
    /// How much longer than the quickest they took: the clocks of the two captures need not agree
    /// for that.
    pub delay_median_ns: Option<Nanos>,
    /// The 99th percentile.
    pub delay_p99_ns: Option<Nanos>,
    /// The longest.
    pub delay_max_ns: Option<Nanos>,
    /// The quickest, by the two clocks as they stand.
    #[serde(skip)]
    quickest: Option<i64>,
    /// What is different about packets at the farther place, with how many.
    pub changed: BTreeMap<&'static str, u64>,
}

/// Both directions, and what they say of the path between.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Between {
    /// The first capture is the one nearer to the client.
    pub first_near_client: bool,
    /// From one place to the other and back at the least, whatever their clocks say.
    pub round_trip_ns: Option<Nanos>,
    /// Towards the server, and back.
    pub crossings: [Crossing; 2],
}

/// Sequence numbers at which both sides began, or those of the first packets of each direction.
fn openings(r: &Report) -> [Option<&Record>; 2] {
    Way::ALL.map(|way| r.records.iter().find(|p| p.way == way && p.segment.flags.contains(Flags::SYN)))
}

/// Whether two reports with their packets are of one connection: both handshakes have the same
/// initial sequence numbers, or, where one is not there, endpoints and a stretch of the sequence
/// space agree.
pub fn is_one_connection(a: &Report, b: &Report) -> bool {
    let (x, y) = (openings(a), openings(b));
    let same = |i: usize| x[i].zip(y[i]).map(|(p, q)| p.segment.seq == q.segment.seq);
    match (same(0), same(1)) {
        (Some(false), _) | (_, Some(false)) => false,
        (Some(true), Some(true)) => true,
        _ => {
            let data = |r: &Report| {
                let all = r.records.iter().filter(|p| p.segment.payload > 0);
                all.map(|p| (p.way, p.segment.seq.0)).collect::<std::collections::HashSet<_>>()
            };
            let (p, q) = (data(a), data(b));
            a.client == b.client && a.server == b.server && p.intersection(&q).count() * 2 > p.len().min(q.len())
        }
    }
}

/// Sets the packets of one connection at two places side by side. `None` where they are of two
/// connections.
pub fn between(a: &Report, b: &Report) -> Option<Between> {
    if !is_one_connection(a, b) {
        return None;
    }
    // The client is nearer to where its own answers come sooner.
    let to_client = |r: &Report| r.vantage.to_client_ns.or(r.to_client.rtt.min_ns).map_or(u64::MAX, |n| n.0);
    let first_near_client = to_client(a) <= to_client(b);
    let (client, server) = if first_near_client { (a, b) } else { (b, a) };
    let crossings = [cross(client, server, Way::ToServer), cross(server, client, Way::ToClient)];
    let both = crossings[0].quickest.zip(crossings[1].quickest);
    let round_trip_ns = both.map(|(there, back)| Nanos(u64::try_from(there + back).unwrap_or(0)));
    Some(Between { first_near_client, round_trip_ns, crossings })
}

/// What distinguishes a packet from a retransmission of the same bytes: its timestamp value, or its
/// IPv4 identification.
fn print(s: &Segment) -> u32 {
    match s.options.timestamps {
        Some((Some(value), _)) => value,
        _ => s.network.id.map_or(0, u32::from),
    }
}

/// One packet at the farther place, and how much of it has been met.
struct Arrival<'a> {
    end: u32,
    at: i64,
    segment: &'a Segment,
}

fn cross(near: &Report, far: &Report, way: Way) -> Crossing {
    let of = |r: &Report| -> Vec<Segment> { r.records.iter().filter(|p| p.way == way).map(|p| p.segment).collect() };
    let (sent, arrived) = (of(near), of(far));
    let mut waiting: HashMap<(u32, u32), VecDeque<Arrival>> = HashMap::new();
    for s in arrived.iter().filter(|s| s.sequence_length() > 0) {
        let end = s.seq.0.wrapping_add(s.sequence_length());
        let one = Arrival { end, at: s.at.as_nanos() as i64, segment: s };
        waiting.entry((s.seq.0, print(s))).or_default().push_back(one);
    }
    let mut c = Crossing {
        direction: way,
        sent: 0,
        lost: 0,
        lost_bytes: 0,
        unsent: 0,
        delay_median_ns: None,
        delay_p99_ns: None,
        delay_max_ns: None,
        quickest: None,
        changed: BTreeMap::new(),
    };
    let mut times: Vec<i64> = Vec::new();
    let direction = near.of(way);
    let one = direction.segment_limit.unwrap_or(direction.segment_bytes).max(1);
    for s in sent.iter().filter(|s| s.sequence_length() > 0) {
        c.sent += u64::from(s.payload > 0);
        // Offload may have cut it into several on the way, or joined it with others.
        let (mut at, mut left, mut missing) = (s.seq.0, s.sequence_length(), 0);
        let mut met = false;
        while left > 0 {
            let Some(arrival) = waiting.get_mut(&(at, print(s))).and_then(VecDeque::pop_front) else {
                let step = one.min(left);
                (at, left, missing) = (at.wrapping_add(step), left - step, missing + step);
                continue;
            };
            let length = arrival.end.wrapping_sub(at);
            times.push(arrival.at - s.at.as_nanos() as i64);
            if !met {
                compare(s, arrival.segment, &mut c.changed);
            }
            met = true;
            if length > left {
                // What was joined with it comes next.
                waiting.entry((at.wrapping_add(left), print(s))).or_default().push_front(arrival);
                left = 0;
            } else {
                (at, left) = (at.wrapping_add(length), left - length);
            }
        }
        if missing > 0 && s.payload > 0 {
            c.lost += 1;
            c.lost_bytes += u64::from(missing.min(s.payload));
        }
    }
    let unmet = waiting.values().flatten().filter(|a| a.segment.payload > 0);
    c.unsent = unmet.count() as u64;
    c.quickest = times.iter().min().copied();
    if let Some(least) = c.quickest {
        let mut delays = Distribution::default();
        times.iter().for_each(|t| delays.add(Nanos((t - least).unsigned_abs())));
        (c.delay_median_ns, c.delay_p99_ns, c.delay_max_ns) =
            (delays.quantile(0.5), delays.quantile(0.99), delays.max());
    }
    c
}

/// Counts what is different about a packet at the farther place.
fn compare(sent: &Segment, arrived: &Segment, changed: &mut BTreeMap<&'static str, u64>) {
    let (o, p) = (&sent.options, &arrived.options);
    let syn = sent.flags.contains(Flags::SYN);
    for (what, is) in [
        ("source address or port", sent.source != arrived.source),
        ("destination address or port", sent.destination != arrived.destination),
        ("MSS", syn && o.mss != p.mss),
        ("window scale", syn && o.window_scale != p.window_scale),
        ("SACK permitted", syn && o.sack_permitted != p.sack_permitted),
        ("timestamps", o.timestamps.is_some() != p.timestamps.is_some()),
        ("window", sent.window != arrived.window),
        ("ECN mark", sent.network.ecn != arrived.network.ecn),
        ("differentiated services", sent.network.dscp != arrived.network.dscp),
        ("don't-fragment bit", sent.network.dont_fragment != arrived.network.dont_fragment),
    ] {
        if is {
            *changed.entry(what).or_default() += 1;
        }
    }
}

impl Between {
    /// In words, one sentence each.
    pub fn text(&self) -> Vec<String> {
        let near = if self.first_near_client { "first" } else { "second" };
        let mut text = vec![format!("both are one connection; the {near} capture is the one nearer to the client")];
        if let Some(rtt) = self.round_trip_ns {
            text.push(format!("from one place to the other and back takes {rtt} at least"));
        }
        for c in &self.crossings {
            let to = c.direction.receiver();
            if c.sent == 0 {
                continue;
            }
            text.push(if c.lost == 0 {
                format!("towards the {to}, none of {} data packets was lost between the two", c.sent)
            } else {
                format!(
                    "towards the {to}, {} of {} data packets ({} bytes) were lost between the two",
                    c.lost, c.sent, c.lost_bytes
                )
            });
            if c.unsent > 0 {
                text.push(format!(
                    "towards the {to}, {} data packets are in the farther capture alone: the nearer one missed them, or the path made copies",
                    c.unsent
                ));
            }
            if let (Some(median), Some(p99), Some(max)) = (c.delay_median_ns, c.delay_p99_ns, c.delay_max_ns) {
                text.push(format!(
                    "towards the {to}, packets took {median} longer than the quickest in the median, {p99} at the 99th percentile, {max} at most"
                ));
            }
            let changed: Vec<String> = c.changed.iter().map(|(what, n)| format!("{what} of {n} packets")).collect();
            text.push(if changed.is_empty() {
                format!("towards the {to}, nothing in the headers was changed between the two, but for what every router changes")
            } else {
                format!("towards the {to}, changed between the two: {}", changed.join(", "))
            });
        }
        text
    }
}
