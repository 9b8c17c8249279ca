//! The programs: what each wrote, when, and what it had waited for.

use record::Nanos;
use record::conversation::{FindingKind, Way};
use record::script::{BUFFERED, Script, Step};

use super::Known;
use crate::kept::Record;
use crate::report::Report;

/// What was read of both programs and their sockets. Arrays are by the direction that they send.
pub(super) struct Programs {
    pub(super) script: Script,
    pub(super) span: Nanos,
    pub(super) nodelay: [Known<bool>; 2],
    pub(super) initial_window: [Known<u32>; 2],
}

/// A time that was kept by the kernel, not by a program: how exact it is taken to be, ns.
const EXACT: u64 = 200_000;

/// One side while its packets are read.
#[derive(Default)]
struct Sender {
    steps: Vec<Step>,
    /// How long the way from the capture to it and back takes.
    distance: u64,
    /// The end of what it has sent.
    sent: u64,
    /// Where positions were reached, and when: `(position, time)`.
    passed: Vec<(u64, u64)>,
    /// When what opened the connection for it came by: the SYN-ACK, or the ACK of that.
    opened: Option<u64>,
    /// The last packet with new data: it ended a write.
    ended: bool,
    /// When the last step began and when its last packet came by.
    began: u64,
    last: u64,
    /// The highest position of it that the peer has acknowledged, and when that came by.
    acknowledged: u64,
    acknowledged_at: u64,
    /// The end of its last segment that was not full.
    small: u64,
    /// Small segments that left while an earlier one was not acknowledged.
    overtook: u32,
    /// What it sent before anything of it was acknowledged.
    first_flight: u64,
    /// It had more to send then.
    had_more: bool,
}

pub(super) fn read(report: &Report) -> Programs {
    let mut both: [Sender; 2] = Default::default();
    let v = &report.vantage;
    for (side, distance) in both.iter_mut().zip([v.to_client_ns, v.to_server_ns]) {
        side.distance = distance.unwrap_or_default().0;
    }
    let full = Way::ALL.map(|way| u64::from(report.of(way).segment_limit.unwrap_or(1_448)).max(1));
    let mut until = report.start_ns;
    for r in &report.records {
        let [own, peer] = ends(&mut both, r.way);
        let at = r.segment.at.as_nanos();
        if r.segment.flags.contains(wire::Flags::ACK) && (r.way == Way::ToClient || own.opened.is_some()) {
            peer.opened.get_or_insert(at);
        }
        if let Some(ack) = r.ack.map(|ack| ack.saturating_sub(1).min(peer.sent)).filter(|ack| *ack > peer.acknowledged)
        {
            (peer.acknowledged, peer.acknowledged_at) = (ack, at);
            until = if ack == peer.sent { at } else { until };
        }
        if own.take(r, full[r.way as usize], peer) {
            until = at;
        }
    }
    let [client, server] = both;
    let nodelay = [&client, &server].map(|side| nodelay(report, side));
    let initial_window = Way::ALL.map(|way| initial_window([&client, &server][way as usize], full[way as usize]));
    Programs {
        nodelay,
        initial_window,
        span: Nanos(until.saturating_sub(report.start_ns)),
        script: Script { client: client.steps, server: server.steps },
    }
}

fn ends(both: &mut [Sender; 2], way: Way) -> [&mut Sender; 2] {
    let [client, server] = both;
    match way {
        Way::ToServer => [client, server],
        Way::ToClient => [server, client],
    }
}

impl Sender {
    /// Takes a packet of it; says whether it brought new data.
    fn take(&mut self, r: &Record, full: u64, peer: &Sender) -> bool {
        let payload = u64::from(r.segment.payload);
        let Some(end) = r.seq.map(|seq| seq.saturating_sub(1) + payload).filter(|end| payload > 0 && *end > self.sent)
        else {
            return false;
        };
        let at = r.segment.at.as_nanos();
        let bytes = end - self.sent;
        let is_small = payload % full != 0;
        // What the peer has acknowledged, by the time this left.
        let left_before = at.saturating_sub(self.distance);
        let acknowledged = if self.acknowledged_at <= left_before { self.acknowledged } else { 0 };
        if is_small && self.small > acknowledged && self.acknowledged_at <= left_before {
            self.overtook += 1;
        }
        if self.acknowledged == 0 || self.acknowledged_at > left_before {
            if self.acknowledged == 0 {
                self.first_flight = end;
            }
        } else if self.first_flight > 0 && !self.ended && self.first_flight == self.sent {
            self.had_more = true;
        }
        let continues = !self.steps.is_empty() && !self.ended;
        let heard = r.ack.map_or(0, |ack| ack.saturating_sub(1)).min(peer.sent);
        let before = self.steps.last().copied().unwrap_or_default();
        let step = Step { after: heard.max(before.after), think: self.thought(at, heard, before, peer), bytes };
        let joins = step.think == Nanos::ZERO && step.after == before.after && !self.was_small();
        match self.steps.last_mut().filter(|_| continues || joins) {
            Some(last) => last.bytes += bytes,
            None => {
                self.steps.push(step);
                self.began = at;
            }
        }
        self.ended = r.segment.flags.contains(wire::Flags::PSH);
        self.small = if is_small { end } else { self.small };
        (self.sent, self.last) = (end, at);
        self.passed.push((end, at));
        true
    }

    /// Whether the last segment was not a full one.
    fn was_small(&self) -> bool {
        self.small == self.sent
    }

    /// How long the program took over a write whose first packet came by at `at`.
    fn thought(&self, at: u64, heard: u64, before: Step, peer: &Sender) -> Nanos {
        let since = |event: u64| at.saturating_sub(event);
        let base = if before.bytes > BUFFERED { self.last } else { self.began };
        let own = (!self.steps.is_empty()).then(|| since(base));
        if heard > before.after {
            let place = peer.passed.partition_point(|(position, _)| *position < heard);
            let asked = peer.passed.get(place).map(|(_, time)| since(*time).saturating_sub(self.distance));
            let think = [asked, own].into_iter().flatten().min().unwrap_or_default();
            return Nanos(exact(think));
        }
        let Some(own) = own else {
            let opened = self.opened.map_or(0, |opened| since(opened).saturating_sub(self.distance));
            return Nanos(exact(opened));
        };
        // An ACK that had just reached it let the segment go: it had been written before.
        let released = self.acknowledged_at > 0
            && since(self.acknowledged_at) >= self.distance
            && since(self.acknowledged_at) - self.distance <= (self.distance / 8).max(EXACT)
            && self.acknowledged_at.saturating_add(self.distance) > self.last;
        Nanos(if released { 0 } else { exact(own) })
    }
}

/// What is shorter than a program and its host take for the least that they do is theirs in the
/// replay, too.
fn exact(think: u64) -> u64 {
    if think <= EXACT / 4 { 0 } else { think }
}

fn nodelay(report: &Report, side: &Sender) -> Known<bool> {
    let nagle = report.findings.iter().any(|f| f.kind == FindingKind::NagleDelayedAck);
    match side.overtook {
        0 | 1 if nagle => Known::seen(false, "small segments waited for ACKs"),
        0 | 1 => Known::assumed(false, "no segment shows it; off is the default"),
        n => Known::seen(true, &format!("{n} small segments left while an earlier one was not acknowledged")),
    }
}

/// The default of Linux (RFC 6928).
const INITIAL: u32 = 10;

fn initial_window(side: &Sender, full: u64) -> Known<u32> {
    let segments = u32::try_from(side.first_flight.div_ceil(full)).unwrap_or(u32::MAX);
    match side.had_more {
        true => Known::seen(segments.max(1), "its first flight, after which it had more to send"),
        false => Known::assumed(INITIAL.max(segments), "its first flight was all that it had to send; 10 at least"),
    }
}
