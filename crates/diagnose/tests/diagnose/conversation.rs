//! Conversations made for tests: segments with their times, written down by hand or by a small
//! simulated sender.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::SocketAddr;

use diagnose::{Follower, Keep, Options, Report};
use record::{Instant, SeqNumber};
use wire::{Flags, Integrity, Network, Segment, TcpOptions};

pub const MS: u64 = 1_000_000;
pub const US: u64 = 1_000;

/// One side of a script.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    pub address: SocketAddr,
    pub isn: u32,
    /// Next byte to send, and next to expect, both relative.
    pub next: u64,
    pub expects: u64,
    pub window: u16,
    pub scale: Option<u8>,
    pub mss: u16,
    pub sack: bool,
    pub stamps: bool,
    pub id: u16,
    pub ttl: u8,
}

/// A conversation under construction. Times are what the capture saw.
#[derive(Clone, Debug)]
pub struct Script {
    pub client: Side,
    pub server: Side,
    pub segments: Vec<Segment>,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Client,
    Server,
}

impl Script {
    pub fn new() -> Self {
        let side = |address: &str, isn| Side {
            address: address.parse().unwrap(),
            isn,
            next: 0,
            expects: 0,
            window: 65_535,
            scale: Some(7),
            mss: 1460,
            sack: true,
            stamps: true,
            id: 100,
            ttl: 64,
        };
        Self { client: side("10.0.0.1:40000", 4_294_960_000), server: side("10.0.0.2:80", 7_000), segments: Vec::new() }
    }

    pub fn sides(&mut self, by: By) -> (&mut Side, &mut Side) {
        match by {
            By::Client => (&mut self.client, &mut self.server),
            By::Server => (&mut self.server, &mut self.client),
        }
    }

    /// A segment of `by` with sequence position `seq` (0 is the SYN) and everything else as it
    /// stands.
    pub fn raw(&mut self, at: u64, by: By, flags: Flags, seq: u64, payload: u32) -> &mut Segment {
        let number = self.segments.len() as u64 + 1;
        let (me, you) = self.sides(by);
        me.id = me.id.wrapping_add(1);
        let syn = flags.contains(Flags::SYN);
        let mut options = TcpOptions::default();
        if syn {
            options.mss = Some(me.mss);
            options.window_scale = me.scale;
            options.sack_permitted = me.sack;
        }
        if me.stamps && (syn || you.stamps) {
            // 1 ms a tick; no echo, as in a dump that was cut short.
            options.timestamps = Some((Some((at / MS) as u32 + 1), None));
        }
        let segment = Segment {
            number,
            at: Instant::from_nanos(1_000_000_000 + at),
            source: me.address,
            destination: you.address,
            seq: SeqNumber(me.isn).add(seq as u32),
            ack: if flags.contains(Flags::ACK) { SeqNumber(you.isn).add(me.expects as u32) } else { SeqNumber(0) },
            flags,
            window: me.window,
            header_bytes: if syn {
                40
            } else if options.timestamps.is_some() {
                32
            } else {
                20
            },
            payload,
            options,
            network: Network { ttl: me.ttl, id: Some(me.id), dont_fragment: true, ..Network::default() },
            integrity: Integrity::NotChecked,
        };
        self.segments.push(segment);
        self.segments.last_mut().unwrap()
    }

    /// New data (or SYN, FIN), in order.
    pub fn send(&mut self, at: u64, by: By, flags: Flags, payload: u32) -> u64 {
        let seq = self.sides(by).0.next;
        let length = self.raw(at, by, flags, seq, payload).sequence_length();
        let (me, _) = self.sides(by);
        me.next += u64::from(length);
        self.segments.len() as u64
    }

    pub fn data(&mut self, at: u64, by: By, payload: u32) -> u64 {
        self.send(at, by, Flags::ACK | Flags::PSH, payload)
    }

    /// A pure ACK of everything the other side has sent so far.
    pub fn ack(&mut self, at: u64, by: By) -> u64 {
        let (me, you) = self.sides(by);
        me.expects = you.next;
        self.raw_ack(at, by)
    }

    /// A pure ACK of what was acknowledged already.
    pub fn raw_ack(&mut self, at: u64, by: By) -> u64 {
        let seq = self.sides(by).0.next;
        self.raw(at, by, Flags::ACK, seq, 0);
        self.segments.len() as u64
    }

    /// The handshake seen at the client, over a path of `rtt`; returns when it is done.
    pub fn open(&mut self, at: u64, rtt: u64) -> u64 {
        self.send(at, By::Client, Flags::SYN, 0);
        self.server.expects = self.client.next;
        self.send(at + rtt, By::Server, Flags::SYN | Flags::ACK, 0);
        self.ack(at + rtt + 20 * US, By::Client);
        at + rtt + 20 * US
    }

    pub fn follow(&self) -> Follower {
        let mut follower = Follower::new(Options { keep: Keep::First(16, 100_000), ..Options::default() });
        self.segments.iter().for_each(|s| follower.take(s));
        follower
    }

    /// The report on the first connection, with the properties checked that hold of every one.
    pub fn report(&self) -> Report {
        let follower = self.follow();
        let report = follower.report(1).unwrap();
        check(&report);
        report
    }
}

/// What holds of every report.
pub fn check(report: &Report) {
    assert_eq!(report.contradiction(), None);
    for f in &report.findings {
        assert!(f.cost_ns <= report.duration_ns && !f.text.is_empty() && !f.worth.is_empty(), "{f:?}");
    }
}

pub fn has<'a>(report: &'a Report, kind: &str) -> Option<&'a diagnose::Finding> {
    report.findings.iter().find(|f| f.kind.name() == kind)
}

/// A bulk transfer from the server to the client, seen at the server: a sender with a window, a
/// path with a rate, a delay and a queue, a receiver that acknowledges every second segment.
/// Deterministic; `lost` names the segments (by place in the stream, from 0) that vanish after the
/// capture the first time they are sent.
#[derive(Clone, Debug)]
pub struct Bulk {
    pub rtt: u64,
    /// Time that the bottleneck needs for one segment.
    pub segment_time: u64,
    pub segments: u64,
    /// Largest window of the sender itself, in segments.
    pub window_limit: u64,
    pub initial_window: u64,
    pub lost: Vec<u64>,
    /// The receiver's window in bytes, before scaling.
    pub receive_window: u64,
    pub restart_after: Option<(u64, u64)>,
    pub extra_delay_from: Option<(u64, u64)>,
    /// ACKs come in bunches this far apart, as a radio link that collects frames delivers them; 0:
    /// each by itself.
    pub ack_slot: u64,
}

impl Default for Bulk {
    fn default() -> Self {
        Self {
            rtt: 20 * MS,
            segment_time: 12 * US,
            segments: 2_000,
            window_limit: 1_000,
            initial_window: 10,
            lost: Vec::new(),
            receive_window: 4_000_000,
            restart_after: None,
            extra_delay_from: None,
            ack_slot: 0,
        }
    }
}

pub const SIZE: u64 = 1448;

impl Bulk {
    /// Runs on `script`, whose handshake is added here.
    pub fn run(&self, script: &mut Script) -> u64 {
        let scale = if script.client.scale.is_some() && script.server.scale.is_some() {
            script.client.scale.unwrap_or(0)
        } else {
            0
        };
        script.client.window = (self.receive_window >> scale).min(65_535) as u16;
        // Handshake near the server: the SYN-ACK's answer takes the RTT.
        script.send(0, By::Client, Flags::SYN, 0);
        script.server.expects = script.client.next;
        script.send(30 * US, By::Server, Flags::SYN | Flags::ACK, 0);
        script.ack(30 * US + self.rtt, By::Client);
        script.data(50 * US + self.rtt, By::Client, 100);
        let start = 60 * US + self.rtt;
        script.ack(start, By::Server);
        let offered = u64::from(script.client.window) << scale;

        let mut path = Path { lost: self.lost.iter().copied().collect(), ..Path::default() };
        let (mut next, mut una, mut window) = (0u64, 0u64, self.initial_window);
        let mut threshold = u64::MAX;
        let (mut recovery_until, mut dupes, mut retransmitted) = (None::<u64>, 0u64, BTreeSet::new());
        let mut sacked: BTreeSet<u64> = BTreeSet::new();
        let mut now = start;
        let mut paused = false;
        let mut last_progress = now;
        loop {
            let limit = self.segments;
            let pause = self.restart_after.filter(|(n, _)| !paused && next >= *n && una >= *n);
            if let Some((_, length)) = pause {
                paused = true;
                now += length;
                window = self.initial_window;
            }
            let cap = self.restart_after.filter(|_| !paused).map_or(limit, |(n, _)| n);
            while next < cap && next - una < window.min(self.window_limit) && (next + 1 - una) * SIZE <= offered {
                path.transmit(self, script, now, next, false);
                next += 1;
                now += US;
            }
            if una >= limit {
                break;
            }
            let Some(Reverse((at, id, upto))) = path.acks.pop() else {
                // Nothing will come: the timer.
                now = now.max(last_progress + 200 * MS + self.rtt);
                last_progress = now;
                threshold = (next - una).max(4) / 2;
                window = 1;
                recovery_until = Some(next);
                path.transmit(self, script, now, una, true);
                continue;
            };
            // A later ACK has overtaken a delayed one.
            if upto <= una && !path.sacks.contains_key(&id) {
                continue;
            }
            now = now.max(if self.ack_slot > 0 { at.next_multiple_of(self.ack_slot) } else { at });
            last_progress = now;
            script.client.expects = 1 + upto.max(una) * SIZE;
            let isn = script.server.isn;
            let blocks = path.sacks.remove(&id).unwrap_or_default();
            let client_next = script.client.next;
            let ack = script.raw(now, By::Client, Flags::ACK, client_next, 0);
            for (a, b) in &blocks {
                let place = |n: u64| SeqNumber(isn).add((1 + n * SIZE) as u32);
                ack.options.sack.push(place(*a), place(*b));
                sacked.extend(*a..*b);
            }
            now += US;
            if upto > una {
                let n = upto - una;
                una = upto;
                dupes = 0;
                if recovery_until.is_some_and(|r| una >= r) {
                    recovery_until = None;
                    window = threshold.max(2);
                    retransmitted.clear();
                }
                if window < threshold {
                    window += n;
                } else if una % window.max(1) < n {
                    window += 1;
                }
            } else {
                dupes += 1;
            }
            if dupes >= 3 && recovery_until.is_none() {
                recovery_until = Some(next);
                threshold = (window / 2).max(2);
                window = threshold;
            }
            if recovery_until.is_some()
                && let Some(&top) = sacked.last()
            {
                let hole = (una..top).find(|n| !sacked.contains(n) && !retransmitted.contains(n));
                if let Some(n) = hole {
                    retransmitted.insert(n);
                    path.transmit(self, script, now, n, true);
                    now += US;
                }
            }
        }
        now
    }
}

/// The way there, the receiver, and the way back.
#[derive(Debug, Default)]
struct Path {
    link_free: u64,
    received: BTreeSet<u64>,
    cum: u64,
    unanswered: u64,
    lost: BTreeSet<u64>,
    serial: u64,
    /// ACKs by when they reach the sender: time, serial number, segments acknowledged.
    acks: BinaryHeap<Reverse<(u64, u64, u64)>>,
    /// SACK blocks by serial number, in segments.
    sacks: BTreeMap<u64, Vec<(u64, u64)>>,
}

impl Path {
    fn transmit(&mut self, bulk: &Bulk, script: &mut Script, now: u64, n: u64, again: bool) {
        script.raw(now, By::Server, Flags::ACK, 1 + n * SIZE, SIZE as u32);
        if !again {
            script.server.next = 1 + (n + 1) * SIZE;
            if self.lost.remove(&n) {
                return;
            }
        }
        self.link_free = self.link_free.max(now) + bulk.segment_time;
        let extra = bulk.extra_delay_from.map_or(0, |(from, by)| if n >= from { by } else { 0 });
        let back = self.link_free + bulk.rtt + extra;
        self.received.insert(n);
        let before = self.cum;
        while self.received.contains(&self.cum) {
            self.cum += 1;
        }
        let in_order = self.cum > before;
        self.unanswered += u64::from(in_order);
        self.serial += 1;
        // A delayed ACK for the odd one in order, at once for everything else (RFC 5681, section
        // 4.2).
        if in_order && self.cum == before + 1 && self.unanswered < 2 {
            self.acks.push(Reverse((back + 40 * MS, self.serial, self.cum)));
            return;
        }
        self.unanswered = 0;
        if let Some(&top) = self.received.range(self.cum..).next_back() {
            let mut low = top;
            while self.received.contains(&(low - 1)) {
                low -= 1;
            }
            self.sacks.insert(self.serial, vec![(low, top + 1)]);
        }
        self.acks.push(Reverse((back, self.serial, self.cum)));
    }
}
