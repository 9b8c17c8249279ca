//! What packets of one connection show, in the order in which they were captured.

use std::collections::VecDeque;
use std::net::SocketAddr;

use record::histogram::Series;
use record::socket::SocketState;
use record::table::Record as _;
use record::{Components, Connection, Instant, Leg, Monotonic, Nanos, Request, Role, SenderState, SeqNumber};
use wire::{Flags, Segment};

use super::super::replay::Reading;
use super::datagrams::Datagrams;

/// Segments of one direction whose ACKs are waited for.
const WAITING: usize = 512;
/// Gaps of one direction that are known; of what was lost before they are forgotten.
const GAPS: usize = 256;
/// Bytes before the first one that was seen that may still come, where no SYN was.
const BEFORE: u32 = 1 << 30;
/// A segment that closes a gap so soon was overtaken on its way rather than retransmitted.
const OVERTAKEN: Nanos = Nanos::from_millis(3);
/// How long a pause between two packets may be for what held before it to have held all the time.
const PAUSE: Nanos = Nanos::from_secs(2);

/// A connection of TCP or a conversation of UDP.
pub(super) struct Flow {
    pub(super) connection: Connection,
    /// Whether the local end connected.
    pub(super) asks: bool,
    state: SenderState,
    /// What the local end sends, and what it receives.
    ways: [Half; 2],
    connecting: Option<Instant<Monotonic>>,
    /// What the peer has acknowledged, and whether its receive window was closed by then.
    acked: Option<SeqNumber>,
    closed: bool,
    turn: Option<Turn>,
    pub(super) datagrams: Datagrams,
    pub(super) last: Instant<Monotonic>,
    /// Of this interval.
    sent: u64,
    received: u64,
    again: u32,
    pub(super) touched: bool,
    /// It has ended, and what still comes of it is no other connection.
    pub(super) over: bool,
}

/// One direction.
#[derive(Default)]
struct Half {
    /// After the last byte that was seen.
    next: Option<SeqNumber>,
    /// What was not seen before it, and since when.
    gaps: Vec<(SeqNumber, SeqNumber, Instant<Monotonic>)>,
    /// What its sender said its own receive window is, and by how many bits that is to be shifted:
    /// known from the SYN alone.
    window: u16,
    scale: Option<u8>,
    /// The last bytes of segments that are not acknowledged, and when they were sent.
    waiting: VecDeque<(SeqNumber, Instant<Monotonic>)>,
    /// After its FIN, and whether that was acknowledged.
    fin: Option<SeqNumber>,
    ended: bool,
}

/// What a segment brought.
struct Came {
    /// Bytes that were not seen before.
    new: u64,
    /// Whether it was retransmitted.
    again: bool,
}

impl Half {
    /// A segment with so many bytes, at least one.
    fn takes(&mut self, seq: SeqNumber, bytes: u32, at: Instant<Monotonic>) -> Came {
        let end = seq.add(bytes);
        let next = *self.next.get_or_insert_with(|| {
            // Of what came before the capture nothing was seen.
            self.gaps.push((seq.add(BEFORE.wrapping_neg()), seq, at));
            seq
        });
        let ahead = seq.distance_from(next);
        if ahead > 0 {
            if self.gaps.len() == GAPS {
                self.gaps.remove(0);
            }
            self.gaps.push((next, seq, at));
        }
        let beyond = end.distance_from(next);
        if beyond > 0 {
            self.next = Some(end);
        }
        let mut new = u64::from(beyond.max(0).cast_unsigned().min(bytes));
        if ahead >= 0 {
            return Came { new, again: false };
        }
        // It closes gaps, or parts of them.
        let mut since = None;
        let mut left = Vec::with_capacity(self.gaps.len());
        for (from, to, seen) in self.gaps.drain(..) {
            let begin = if from.is_before(seq) { seq } else { from };
            let stop = if end.is_before(to) { end } else { to };
            if stop.distance_from(begin) <= 0 {
                left.push((from, to, seen));
                continue;
            }
            new += u64::from(stop.distance_from(begin).cast_unsigned());
            since = Some(since.map_or(seen, |since: Instant<Monotonic>| since.min(seen)));
            let parts = [(from, begin), (stop, to)].into_iter().filter(|(from, to)| from.is_before(*to));
            left.extend(parts.map(|(from, to)| (from, to, seen)));
        }
        self.gaps = left;
        let overtaken = since.is_some_and(|since| at.since(since).is_ok_and(|after| after < OVERTAKEN));
        // A keepalive repeats the last byte.
        Came { new, again: !overtaken && (new > 0 || bytes > 1) }
    }
}

/// A request and its answer.
struct Turn {
    began: Instant<Monotonic>,
    asked: Instant<Monotonic>,
    /// The first byte of the answer, and the last one so far.
    answer: Option<[Instant<Monotonic>; 2]>,
}

/// What a packet shows.
pub enum Seen {
    /// The local end sent a segment or a datagram with so many bytes.
    Sent(u64),
    /// A segment that the local end sent was acknowledged after this time.
    Acknowledged(Nanos),
    /// The peer's receive window, which was open, is closed.
    WindowClosed,
    /// A request is over.
    Answered(Box<Request>),
}

impl Flow {
    pub(super) fn new(connection: Connection, asks: bool, at: Instant<Monotonic>) -> Self {
        Self {
            connection,
            asks,
            state: SenderState::default(),
            ways: Default::default(),
            connecting: None,
            acked: None,
            closed: false,
            turn: None,
            datagrams: Datagrams::default(),
            last: at,
            sent: 0,
            received: 0,
            again: 0,
            touched: false,
            over: false,
        }
    }

    /// Whether the FINs of both ends were acknowledged.
    pub(super) fn has_ended(&self) -> bool {
        self.ways.iter().all(|way| way.ended)
    }

    /// Whether a SYN of this end has not been answered.
    pub(super) fn connecting_from(&self, end: SocketAddr) -> bool {
        self.connecting.is_some() && (end == self.connection.local) == self.asks
    }

    /// Takes a segment; gives the states that the connection comes into, and adds what it shows.
    pub(super) fn segment(
        &mut self,
        s: &Segment,
        at: Instant<Monotonic>,
        out: &mut Vec<Seen>,
    ) -> [Option<SocketState>; 2] {
        self.pass(at);
        let way = usize::from(s.source != self.connection.local);
        let mut states = [None; 2];
        if s.flags.contains(Flags::SYN) {
            self.ways[way].scale = s.options.window_scale.map(|bits| bits.min(14));
            self.ways[way].next = Some(s.end_seq());
            match (s.flags.contains(Flags::ACK), self.connecting) {
                (false, None) => {
                    self.asks = way == 0;
                    self.connecting = Some(at);
                    states[0] = Some(if way == 0 { SocketState::Connecting } else { SocketState::Accepting });
                }
                (true, Some(asked)) => {
                    // Without the option in both SYNs neither shifts.
                    if self.ways.iter().any(|way| way.scale.is_none()) {
                        self.ways.iter_mut().for_each(|way| way.scale = Some(0));
                    }
                    if let Some(took) = at.since(asked).ok().filter(|_| self.asks) {
                        self.took(took);
                    }
                    self.connecting = None;
                    states[0] = Some(SocketState::Established);
                }
                _ => {}
            }
        }
        if s.flags.contains(Flags::FIN) {
            self.ways[way].fin = Some(s.end_seq());
        }
        if self.ways[way].fin.is_some() {
            states[1] = Some(SocketState::Closing);
        }
        let other = &mut self.ways[1 - way];
        if s.flags.contains(Flags::ACK) && other.fin.is_some_and(|fin| !s.ack.is_before(fin)) {
            other.ended = true;
        }
        self.ways[way].window = s.window;
        if way == 1 && s.flags.contains(Flags::ACK) {
            self.acknowledged(s.ack, at, out);
            self.window_look(s, out);
        }
        if s.payload > 0 {
            self.data(s, way, at, out);
        }
        if way == 1 && !s.flags.contains(Flags::SYN) {
            self.state.peer_window = self.peer_window().unwrap_or(0);
        }
        states
    }

    fn data(&mut self, s: &Segment, way: usize, at: Instant<Monotonic>, out: &mut Vec<Seen>) {
        let half = &mut self.ways[way];
        let Came { new, again } = half.takes(s.seq, s.payload, at);
        if again && way == 0 {
            self.again += 1;
            // Which of them an ACK is for cannot be told.
            half.waiting.clear();
        }
        if way == 0 {
            self.state.mss = self.state.mss.max(s.payload.min(1_500));
            self.sent += new;
            if new > 0 {
                out.push(Seen::Sent(new));
            }
            if new > 0 && !again && half.waiting.len() < WAITING {
                half.waiting.push_back((s.seq.add(s.payload), at));
            }
        } else {
            self.received += new;
        }
        if new > 0 {
            let asks = (way == 0) == self.asks;
            out.extend(self.spoke(asks, at));
        }
    }

    /// What the peer acknowledges is with it, after the time that it took.
    fn acknowledged(&mut self, ack: SeqNumber, at: Instant<Monotonic>, out: &mut Vec<Seen>) {
        while let Some(&(end, sent)) = self.ways[0].waiting.front()
            && !ack.is_before(end)
        {
            self.ways[0].waiting.pop_front();
            if let Ok(took) = at.since(sent) {
                self.took(took);
                out.push(Seen::Acknowledged(took));
            }
        }
    }

    /// A window that stays closed counts once. That of a RST says nothing, nor does one that later
    /// ACKs have overtaken.
    fn window_look(&mut self, s: &Segment, out: &mut Vec<Seen>) {
        if s.flags.contains(Flags::RST) || self.acked.is_some_and(|acked| s.ack.is_before(acked)) {
            return;
        }
        self.acked = Some(s.ack);
        let was_closed = std::mem::replace(&mut self.closed, s.window == 0);
        out.extend((self.closed && !was_closed).then_some(Seen::WindowClosed));
    }

    /// A round trip.
    fn took(&mut self, time: Nanos) {
        let state = &mut self.state;
        state.srtt = if state.srtt == Nanos::ZERO { time } else { Nanos(state.srtt.0 - state.srtt.0 / 8 + time.0 / 8) };
        state.min_rtt = Some(state.min_rtt.map_or(time, |least| least.min(time)));
    }

    /// One end has sent something new. Where the end that asks does so after an answer, the request
    /// before is over, which is given.
    fn spoke(&mut self, asks: bool, at: Instant<Monotonic>) -> Option<Seen> {
        match (asks, &mut self.turn) {
            (true, Some(turn)) if turn.answer.is_none() => turn.asked = at,
            (true, _) => {
                let before = self.answered();
                self.turn = Some(Turn { began: at, asked: at, answer: None });
                return before;
            }
            (false, Some(turn)) => turn.answer = Some(turn.answer.map_or([at; 2], |[first, _]| [first, at])),
            (false, None) => {}
        }
        None
    }

    /// The request that goes on, where it has an answer: nothing more is to come.
    pub(super) fn answered(&mut self) -> Option<Seen> {
        let turn = self.turn.take()?;
        let [first, last] = turn.answer?;
        let mut request = Request { connection: self.connection.id, ..Request::blank() };
        if !self.asks {
            // How much of it is this host's own cannot be told without knowing how far away that
            // is.
            request.role = Role::Server;
            (request.moments.arrived, request.moments.left) = (Some(turn.began), Some(last));
            return Some(Seen::Answered(Box::new(request)));
        }
        (request.moments.sent, request.moments.read) = (Some(turn.began), Some(last));
        if let (Some(trip), Ok(gap)) = (self.state.min_rtt, first.since(turn.asked)) {
            request.components = Some(Components {
                application: turn.asked.since(turn.began).unwrap_or_default(),
                network: Some(trip.min(gap)),
                peer_application: Some(gap.saturating_sub(trip)),
                transfer: last.since(first).unwrap_or_default(),
                ..Components::default()
            });
        }
        Some(Seen::Answered(Box::new(request)))
    }

    /// Bytes that the peer takes, where its window can be read.
    fn peer_window(&self) -> Option<u32> {
        let way = &self.ways[1];
        Some(u32::from(way.window) << way.scale.or((way.window == 0).then_some(0))?)
    }

    /// Time has passed up to this packet: where something was on its way, and where that filled the
    /// peer's window, is counted as the kernel does.
    fn pass(&mut self, at: Instant<Monotonic>) {
        let passed = at.since(self.last).unwrap_or_default();
        self.last = self.last.max(at);
        let Some((oldest, next)) = self.ways[0].waiting.front().map(|(end, _)| *end).zip(self.ways[0].next) else {
            // Nothing is on its way; a window that is closed keeps it so.
            if self.peer_window() == Some(0) && self.state.mss > 0 && passed <= PAUSE {
                self.state.receive_window_limited += passed;
                self.state.busy += passed;
            }
            return;
        };
        if passed > PAUSE {
            return;
        }
        self.state.busy += passed;
        let on_its_way = next.distance_from(oldest).max(0).cast_unsigned().saturating_add(self.state.mss);
        if self.peer_window().is_some_and(|window| on_its_way.saturating_add(self.state.mss) > window) {
            self.state.receive_window_limited += passed;
        }
    }

    pub(super) fn flush(&mut self, reading: &mut Reading) {
        reading.sent(self.connection.id, (self.last, self.sent, self.again), self.state);
        if self.received > 0 {
            reading.received(self.connection.id, self.last, self.received);
        }
        (self.sent, self.received, self.again, self.touched) = (0, 0, 0, false);
    }
}

/// Adds what a packet shows to the series of its connection.
pub fn add(series: &mut Series, seen: &Seen) {
    match seen {
        Seen::Sent(bytes) => {
            series.sends += 1;
            series.bytes += bytes;
        }
        Seen::Acknowledged(took) => {
            for leg in [Leg::Network, Leg::Total] {
                series.legs.entry(leg).or_default().add(*took);
            }
        }
        Seen::WindowClosed => series.zero_windows += 1,
        Seen::Answered(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_once_in_whatever_order_they_come() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut half = Half::default();
        let mut takes = |seq: u32, bytes, ms| {
            let Came { new, again } = half.takes(SeqNumber(seq), bytes, at(ms));
            (new, again)
        };
        let first = u32::MAX - 50;
        let after = |by: u32| first.wrapping_add(by);
        assert_eq!(takes(first, 100, 0), (100, false));
        assert_eq!(takes(after(300), 100, 1), (100, false));
        // Overtaken on the way, and lost before the place of the capture.
        assert_eq!(takes(after(100), 100, 2), (100, false));
        assert_eq!(takes(after(150), 150, 90), (100, true));
        assert_eq!(takes(after(100), 300, 91), (0, true));
        assert_eq!(takes(after(350), 100, 92), (50, true));
        // A keepalive.
        assert_eq!(takes(after(449), 1, 93), (0, false));
    }
}
