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
    /// The close waited for an ACK, as a small write does.
    pub(super) held_close: [bool; 2],
}

/// A time that was kept by the kernel, not by a program: how exact it is taken to be, ns.
const EXACT: u64 = 200_000;
/// How long it takes at most until a program that waits for room runs again, on a busy host, ns.
const WOKEN: u64 = 4_000_000;

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
    /// When each ACK came by that moved that on, or the edge of a window that it had filled.
    acks: Vec<u64>,
    /// How far the peer's windows reached, one after the other.
    edges: Vec<u64>,
    /// Its last segment filled the receive window: it may have had more to write.
    filled: bool,
    /// The ACK that did so carried nothing else.
    by_pure_ack: bool,
    /// Its FIN left when such an ACK of a small segment had come.
    held_close: bool,
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
    let full = Way::ALL.map(|way| super::full_segment(report.of(way)));
    let stalls = Way::ALL
        .map(|way| report.findings.iter().any(|f| f.kind == FindingKind::NagleDelayedAck && f.direction == Some(way)));
    let mut until = report.start_ns;
    for r in &report.records {
        let [own, peer] = ends(&mut both, r.way);
        let at = r.segment.at.as_nanos();
        if r.segment.flags.contains(wire::Flags::ACK) && (r.way == Way::ToClient || own.opened.is_some()) {
            peer.opened.get_or_insert(at);
        }
        let acknowledged = r.ack.map(|ack| ack.saturating_sub(1).min(peer.sent));
        let opens = acknowledged.is_some_and(|ack| peer.opened_to(ack.saturating_add(r.window)));
        if let Some(ack) = acknowledged.filter(|ack| *ack > peer.acknowledged) {
            (peer.acknowledged, peer.acknowledged_at) = (ack, at);
            peer.acks.push(at);
            let other = wire::Flags::FIN | wire::Flags::SYN;
            peer.by_pure_ack = r.segment.payload == 0 && !r.segment.flags.intersects(other);
            until = if ack == peer.sent { at } else { until };
        } else if opens && peer.filled {
            peer.acks.push(at);
        }
        if own.take(r, full[r.way as usize], peer) || (stalls[r.way as usize] && own.closes(r)) {
            until = at;
        }
    }
    let [client, server] = both;
    let nodelay = [&client, &server].map(|side| nodelay(report, side));
    let initial_window = Way::ALL.map(|way| initial_window([&client, &server][way as usize], full[way as usize]));
    let held_close = [client.held_close, server.held_close];
    Programs {
        nodelay,
        initial_window,
        held_close,
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
        let fills = self.edges.binary_search(&end).is_ok();
        let is_small = payload % full != 0 && !fills;
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
        self.filled = fills;
        self.small = if is_small { end } else { self.small };
        (self.sent, self.last) = (end, at);
        self.passed.push((end, at));
        true
    }

    /// Its peer's window reaches so far; says whether that is further than before.
    fn opened_to(&mut self, edge: u64) -> bool {
        let further = self.edges.last().is_none_or(|last| edge > *last);
        if further {
            self.edges.push(edge);
        }
        further
    }

    /// Takes its FIN; says whether that had to wait for the ACK of a small segment, as one more
    /// small write would have.
    fn closes(&mut self, r: &Record) -> bool {
        let at = r.segment.at.as_nanos();
        let is_first = r.segment.flags.contains(wire::Flags::FIN) && r.segment.payload == 0 && !self.held_close;
        let stood_out = self.sent > 0 && self.was_small() && self.acknowledged == self.sent && self.by_pure_ack;
        let after = self.steps.last().map_or(0, |step| step.after);
        // What it has heard since may be what it closes for.
        let heard = r.ack.map_or(0, |ack| ack.saturating_sub(1));
        if !is_first || !stood_out || heard > after || !self.was_released(at) {
            return false;
        }
        self.steps.push(Step { after, think: Nanos::ZERO, bytes: 1 });
        self.held_close = true;
        true
    }

    /// Whether an ACK that had just reached it let this go: then it had been written before, or its
    /// program was waiting for room in the send buffer.
    fn was_released(&self, at: u64) -> bool {
        // Away from the sender, later ones have passed that it had not got yet. Round trips vary:
        // some are shorter than what the distance is taken for, and beside the sender the distance
        // is only how fast its host answers.
        let slack = (self.distance / 8).max(EXACT);
        let way = self.distance.saturating_sub(slack);
        let had_come = self.acks.partition_point(|ack| ack.saturating_add(way) <= at);
        let Some(came) = had_come.checked_sub(1).map(|i| self.acks[i].saturating_add(way)) else {
            return false;
        };
        // A write ends in a part-filled segment, as a rule: after a full one, the program was in
        // the middle of one, and had to be woken for the rest.
        let woken = if self.was_small() { 0 } else { WOKEN };
        // It was sent before that came to the sender, and passed here half a round trip later.
        let after = came.saturating_add(self.distance / 8) > self.last;
        at - came <= slack + slack.max(woken) && after
    }

    /// Whether this goes on where a full segment has just ended.
    fn goes_on(&self, at: u64) -> bool {
        !self.was_small() && at.saturating_sub(self.last) <= WOKEN
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
        Nanos(if self.was_released(at) || self.goes_on(at) { 0 } else { exact(own) })
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
