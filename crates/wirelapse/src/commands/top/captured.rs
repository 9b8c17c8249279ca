//! `top FILE`: what the packets of a capture show of each connection, cut into the intervals that a
//! screen shows.
//!
//! A capture says less than a trace: times begin where the packets were captured and not in a
//! program, and no process is known. This host is the address that most packets are from or to; of
//! a connection between two others it is the end that connected.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use diagnose::dns::Live;
use record::histogram::Series;
use record::socket::SocketState;
use record::table::Record as _;
use record::{
    Components, Connection, ConnectionId, Instant, Leg, Monotonic, Nanos, Opening, Request, Role, SenderState,
    SeqNumber,
};
use wire::packet::Span;
use wire::packet::tls::ClientHello;
use wire::{CaptureError, Carrier, Flags, Packet, PacketReader, Payload, Protocol, Segment, is_dns};

use super::replay::{Reading, Replay};

/// Packets by which it is found which host this is.
const TELLING: u64 = 100_000;
/// Connections that are followed at a time.
const MOST: usize = 200_000;
/// Segments of one direction whose ACKs are waited for.
const WAITING: usize = 512;
/// Gaps of one direction that are known; of what was lost before they are forgotten.
const GAPS: usize = 256;
/// Questions of DNS that are open at a time.
const QUESTIONS: usize = 65_536;
/// A segment that closes a gap so soon was overtaken on its way rather than sent again.
const OVERTAKEN: Nanos = Nanos::from_millis(3);
/// UDP has no end: without a datagram for so long a conversation is over.
const UDP_ENDS: Nanos = Nanos::from_secs(30);
/// How long a pause between two packets may be for what held before it to have held all the time.
const PAUSE: Nanos = Nanos::from_secs(2);

/// Reads a capture. `open` gives a reader of it from its beginning, twice.
///
/// # Errors
/// Where it cannot be read, and where there is nothing in it to show.
pub fn read<'a>(open: impl Fn() -> Result<PacketReader<'a>, CaptureError>, interval: Nanos) -> anyhow::Result<Replay> {
    let here = here(&mut open()?)?;
    let mut packets = open()?;
    let mut tap = Tap::new(interval, here);
    while let Some(packet) = packets.next_packet()? {
        match packet {
            Packet::Tcp(segment) => tap.segment(segment),
            Packet::Udp(of) => {
                tap.datagram(of.source, of.destination, of.payload, Instant::from_nanos(of.at.as_nanos()))
            }
            Packet::Icmp(_) | Packet::Arp(_) => {}
        }
        if let Some(payload) = packets.payload() {
            tap.payload(payload);
        }
    }
    tap.end()
}

/// The address that most of the first packets are from or to.
fn here(packets: &mut PacketReader<'_>) -> Result<Option<IpAddr>, CaptureError> {
    let mut seen = HashMap::<IpAddr, u64>::new();
    while packets.packets() < TELLING
        && let Some(packet) = packets.next_packet()?
    {
        let ends = match packet {
            Packet::Tcp(segment) => [segment.source, segment.destination],
            Packet::Udp(of) => [of.source, of.destination],
            Packet::Icmp(_) | Packet::Arp(_) => continue,
        };
        ends.into_iter().for_each(|end| *seen.entry(end.ip()).or_default() += 1);
    }
    Ok(seen.into_iter().max_by_key(|(address, n)| (*n, std::cmp::Reverse(*address))).map(|(address, _)| address))
}

/// Both ends, the smaller one first, and whether they speak UDP.
type Ends = (SocketAddr, SocketAddr, bool);

fn ends(a: SocketAddr, b: SocketAddr, udp: bool) -> Ends {
    (a.min(b), a.max(b), udp)
}

/// The place where the packets were captured.
struct Tap {
    reading: Reading,
    interval: Nanos,
    here: Option<IpAddr>,
    flows: HashMap<Ends, Flow>,
    ids: u64,
    /// The interval that packets are of now, and the connections that had any in it.
    at: u64,
    touched: Vec<Ends>,
    lookups: Live,
    beyond: u64,
}

/// A connection of TCP or a conversation of UDP.
struct Flow {
    connection: Connection,
    /// Whether the local end connected.
    asks: bool,
    state: SenderState,
    /// What the local end sends, and what it receives.
    ways: [Half; 2],
    connecting: Option<Instant<Monotonic>>,
    turn: Option<Turn>,
    last: Instant<Monotonic>,
    /// Of this interval.
    sent: u64,
    received: u64,
    again: u32,
    touched: bool,
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
    ended: bool,
}

/// What a segment brought.
struct Came {
    /// Bytes that were not seen before.
    new: u64,
    /// Whether it was sent again.
    again: bool,
}

impl Half {
    /// A segment with so many bytes, at least one.
    fn takes(&mut self, seq: SeqNumber, bytes: u32, at: Instant<Monotonic>) -> Came {
        let (next, end) = (self.next.unwrap_or(seq), seq.add(bytes));
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

impl Tap {
    fn new(interval: Nanos, here: Option<IpAddr>) -> Self {
        Self {
            reading: Reading::of_capture(interval),
            interval,
            here,
            flows: HashMap::new(),
            ids: 0,
            at: 0,
            touched: Vec::new(),
            lookups: Live::new(QUESTIONS, [0; 2]),
            beyond: 0,
        }
    }

    /// Goes on to the interval of this moment; packets that stand in an earlier one by the clock
    /// are of the latest.
    fn turn(&mut self, at: Instant<Monotonic>) {
        let number = at.as_nanos() / self.interval.0.max(1);
        if number <= self.at {
            return;
        }
        self.flush();
        self.questions(at);
        if self.at > 0 && number / 30 != self.at / 30 {
            let over = |flow: &Flow| at.since(flow.last).is_ok_and(|quiet| quiet > UDP_ENDS);
            let gone: Vec<Ends> =
                self.flows.iter().filter(|(ends, flow)| ends.2 && over(flow)).map(|(ends, _)| *ends).collect();
            for ends in gone {
                self.close(&ends, at);
            }
        }
        self.at = number;
    }

    /// Writes down what the connections did in the interval that is over.
    fn flush(&mut self) {
        for ends in std::mem::take(&mut self.touched) {
            if let Some(flow) = self.flows.get_mut(&ends) {
                flow.flush(&mut self.reading);
            }
        }
    }

    fn questions(&mut self, now: Instant<Monotonic>) {
        for question in self.lookups.over(now.as_nanos()).into_iter().flatten() {
            self.reading.question(question);
        }
    }

    /// The connection between two ends, of which `from` sends; a new one where there is none.
    /// `None` where there is no room for it.
    fn flow(&mut self, (from, to): (SocketAddr, SocketAddr), at: Instant<Monotonic>, udp: bool) -> Option<&mut Flow> {
        let ends = ends(from, to, udp);
        if !self.flows.contains_key(&ends) {
            if self.flows.len() >= MOST {
                self.beyond += 1;
                return None;
            }
            self.ids += 1;
            // Of one that was there before, the end with the lower port is the server.
            let asks = if from.port() >= to.port() { from } else { to };
            let local = match self.here {
                Some(here) if from.ip() == here && to.ip() != here => from,
                Some(here) if to.ip() == here && from.ip() != here => to,
                _ => asks,
            };
            let remote = if local == from { to } else { from };
            let connection = Connection {
                id: ConnectionId(self.ids),
                local,
                remote,
                opening: Opening::Found,
                since: at,
                ..Connection::blank()
            };
            self.reading.begins(&connection, udp);
            self.flows.insert(ends, Flow::new(connection, asks == local, at));
        }
        let flow = self.flows.get_mut(&ends)?;
        if !flow.touched {
            flow.touched = true;
            self.touched.push(ends);
        }
        Some(flow)
    }

    fn segment(&mut self, segment: &Segment) {
        let at = Instant::from_nanos(segment.at.as_nanos());
        self.turn(at);
        let (from, to) = (segment.source, segment.destination);
        let key_of = ends(from, to, false);
        // The same ends again are another connection.
        let is_syn = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
        let is_other = |flow: &Flow| !flow.connecting_from(from) || flow.ways.iter().all(|way| way.ended);
        if is_syn && self.flows.get(&key_of).is_some_and(is_other) {
            self.close(&key_of, at);
        }
        let Some(flow) = self.flow((from, to), at, false) else { return };
        let mut out = Vec::new();
        let states = flow.segment(segment, at, &mut out);
        let (id, connection) = (flow.connection.id, flow.connection.clone());
        let over = segment.flags.contains(Flags::RST) || flow.ways.iter().all(|way| way.ended);
        for state in states.into_iter().flatten() {
            self.reading.state(id, state, at);
        }
        out.into_iter().for_each(|seen| self.reading.seen(&connection, seen, at));
        if over {
            self.close(&key_of, at);
        }
    }

    fn datagram(&mut self, from: SocketAddr, to: SocketAddr, bytes: u32, at: Instant<Monotonic>) {
        self.turn(at);
        // Those of DNS are shown as lookups.
        if is_dns(from, to) {
            return;
        }
        let Some(flow) = self.flow((from, to), at, true) else { return };
        flow.last = at;
        let connection = flow.connection.clone();
        if from == connection.local {
            self.reading.seen(&connection, Seen::Sent(bytes.into()), at);
        }
    }

    fn payload(&mut self, payload: &Payload) {
        let at = payload.at().as_nanos();
        match (payload.protocol(), *payload.carrier()) {
            (Protocol::Dns, Carrier::Datagram { source, destination }) => {
                self.lookups.datagram(source, destination, at, payload.span());
            }
            (Protocol::Dns, Carrier::Segment { source, destination, seq, flags }) => {
                self.lookups.segment((source, destination), (seq, flags), at, payload.span());
            }
            (Protocol::Tls, Carrier::Segment { source, destination, .. }) => {
                let flow = self.flows.get(&ends(source, destination, false));
                if let Some((flow, server)) = flow.zip(server_name(payload.span().data))
                    && source == flow.connection.local
                {
                    self.reading.hello(flow.connection.id, server, Instant::from_nanos(at));
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, ends: &Ends, at: Instant<Monotonic>) {
        let Some(mut flow) = self.flows.remove(ends) else { return };
        flow.flush(&mut self.reading);
        if let Some(seen) = flow.answered() {
            self.reading.seen(&flow.connection, seen, at);
        }
        self.reading.ends(flow.connection.id, at);
    }

    fn end(mut self) -> anyhow::Result<Replay> {
        self.flush();
        let last = Instant::from_nanos((self.at + 1).saturating_mul(self.interval.0).saturating_sub(1));
        for flow in self.flows.values_mut() {
            if let Some(seen) = flow.answered() {
                self.reading.seen(&flow.connection, seen, last);
            }
        }
        for question in self.lookups.end(last.as_nanos()).into_iter().flatten() {
            self.reading.question(question);
        }
        if self.beyond > 0 {
            self.reading.misses(format!("packets of connections beyond the first {MOST}"));
        }
        self.reading.replay(1.0)
    }
}

/// The name of the server that the record of a ClientHello asks for. Behind an encrypted hello
/// stands another name than the one that is read here.
fn server_name(bytes: &[u8]) -> Option<String> {
    let length = bytes.get(6..9)?.iter().fold(0, |length, &byte| length << 8 | u32::from(byte));
    let data = bytes.get(9..)?;
    let span = Span { data: &data[..data.len().min(length as usize)], wire: length };
    let hello = ClientHello::parse(span).ok().filter(|_| bytes[5] == 1)?;
    hello.server_name.filter(|name| !name.is_empty() && !hello.has_encrypted_hello)
}

/// What a packet shows.
pub enum Seen {
    /// The local end sent a segment or a datagram with so many bytes.
    Sent(u64),
    /// A segment that the local end sent was acknowledged after this time.
    Acknowledged(Nanos),
    /// A request is over.
    Answered(Box<Request>),
}

impl Flow {
    fn new(connection: Connection, asks: bool, at: Instant<Monotonic>) -> Self {
        Self {
            connection,
            asks,
            state: SenderState::default(),
            ways: Default::default(),
            connecting: None,
            turn: None,
            last: at,
            sent: 0,
            received: 0,
            again: 0,
            touched: false,
        }
    }

    /// Whether a SYN of this end has not been answered.
    fn connecting_from(&self, end: SocketAddr) -> bool {
        self.connecting.is_some() && (end == self.connection.local) == self.asks
    }

    /// Takes a segment; gives the states that the connection comes into, and adds what it shows.
    fn segment(&mut self, s: &Segment, at: Instant<Monotonic>, out: &mut Vec<Seen>) -> [Option<SocketState>; 2] {
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
        if self.ways[way].ended || s.flags.contains(Flags::FIN) {
            self.ways[way].ended = true;
            states[1] = Some(SocketState::Closing);
        }
        self.ways[way].window = s.window;
        if way == 1 && s.flags.contains(Flags::ACK) {
            self.acknowledged(s.ack, at, out);
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
    fn answered(&mut self) -> Option<Seen> {
        let turn = self.turn.take()?;
        let [first, last] = turn.answer?;
        let mut request = Request { connection: self.connection.id, ..Request::blank() };
        if !self.asks {
            // How much of it is this host's own cannot be told without knowing how far away that is.
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

    fn flush(&mut self, reading: &mut Reading) {
        reading.sent(self.connection.id, (self.last, self.sent, self.again), self.state);
        if self.received > 0 {
            reading.received(self.connection.id, self.last, self.received);
        }
        (self.sent, self.received, self.again, self.touched) = (0, 0, 0, false);
    }
}

/// Adds what a packet shows to the series of its connection.
pub(super) fn add(series: &mut Series, seen: &Seen) {
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
        Seen::Answered(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Component;
    use record::socket::Socket;

    const CLIENT: &str = "10.0.0.1:40000";
    const SERVER: &str = "192.0.2.1:443";

    fn segment(ms: u64, from: &str, to: &str, (seq, ack): (u32, u32), payload: u32, flags: Flags) -> Segment {
        let at = Instant::from_nanos(1_000_000_000 + ms * 1_000_000);
        let mut segment = Segment::new(1, at, from.parse().unwrap(), to.parse().unwrap());
        (segment.seq, segment.ack, segment.payload, segment.flags) = (SeqNumber(seq), SeqNumber(ack), payload, flags);
        segment.window = 1_000;
        if flags.contains(Flags::SYN) {
            segment.options.window_scale = Some(6);
        }
        segment
    }

    fn sent(ms: u64, numbers: (u32, u32), payload: u32, flags: Flags) -> Segment {
        segment(ms, CLIENT, SERVER, numbers, payload, flags)
    }

    fn came(ms: u64, numbers: (u32, u32), payload: u32, flags: Flags) -> Segment {
        segment(ms, SERVER, CLIENT, numbers, payload, flags)
    }

    /// The slices that these segments give, seen from this address.
    fn slices(here: &str, segments: &[Segment]) -> Vec<super::super::replay::Slice> {
        let mut tap = Tap::new(Nanos::from_secs(1), Some(here.parse().unwrap()));
        segments.iter().for_each(|segment| tap.segment(segment));
        let mut replay = tap.end().unwrap();
        std::iter::from_fn(|| replay.step().map(|(_, slice)| slice.clone())).collect()
    }

    fn exchange() -> Vec<Segment> {
        use Flags as F;
        vec![
            sent(0, (99, 0), 0, F::SYN),
            came(20, (499, 100), 0, F::SYN | F::ACK),
            sent(20, (100, 500), 0, F::ACK),
            sent(21, (100, 500), 300, F::ACK | F::PSH),
            // Lost, and sent again; what comes of it is no round trip.
            sent(260, (100, 500), 300, F::ACK | F::PSH),
            came(280, (500, 400), 0, F::ACK),
            came(480, (500, 400), 1_000, F::ACK),
            came(481, (1_500, 400), 500, F::ACK | F::PSH),
            sent(482, (400, 2_000), 0, F::ACK),
            // The next request begins in the next second.
            sent(1_100, (400, 2_000), 50, F::ACK | F::PSH),
            came(1_120, (2_000, 450), 0, F::ACK),
            came(1_121, (2_000, 450), 10, F::ACK | F::FIN),
            sent(1_122, (450, 2_011), 0, F::ACK | F::FIN),
        ]
    }

    fn last<'a>(all: &'a [super::super::replay::Slice]) -> &'a Socket {
        all.last().unwrap().sockets.changed.last().unwrap()
    }

    #[test]
    fn a_connection_has_its_bytes_round_trips_retransmissions_and_requests() {
        let all = slices("10.0.0.1", &exchange());
        assert_eq!(all.len(), 2);
        let socket = last(&all);
        let tcp = socket.tcp.as_ref().unwrap();
        assert_eq!((socket.local.to_string().as_str(), socket.remote.to_string().as_str()), (CLIENT, SERVER));
        assert_eq!((tcp.sent, tcp.received, tcp.retransmitted), (350, 1_510, 1));
        assert_eq!((tcp.least_rtt, all[1].sockets.gone.len()), (Some(Nanos::from_millis(20)), 1));
        let acknowledged = |slice: &super::super::replay::Slice| {
            slice.series.iter().map(|series| series.legs.get(&Leg::Total).map_or(0, |times| times.count())).sum::<u64>()
        };
        assert_eq!(all.iter().map(acknowledged).collect::<Vec<_>>(), [0, 1], "the first was sent twice");
        let requests: Vec<&Request> = all.iter().flat_map(|slice| &slice.requests).collect();
        assert_eq!(
            requests.iter().map(|one| one.whole().unwrap()).collect::<Vec<_>>(),
            [460, 21].map(Nanos::from_millis)
        );
        let of = |component| requests[0].components.unwrap().get(component).unwrap();
        assert_eq!(of(Component::Network), Nanos::from_millis(20));
        assert_eq!(of(Component::PeerApplication), Nanos::from_millis(439));
        assert_eq!(requests[0].components.unwrap().sum(), Nanos::from_millis(460));
    }

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

    #[test]
    fn a_server_sees_the_other_side_and_blames_nobody() {
        let all = slices("192.0.2.1", &exchange());
        let socket = last(&all);
        let tcp = socket.tcp.as_ref().unwrap();
        assert_eq!((socket.local.to_string().as_str(), tcp.sent, tcp.received), (SERVER, 1_510, 350));
        let requests: Vec<&Request> = all.iter().flat_map(|slice| &slice.requests).collect();
        assert!(requests.len() == 2 && requests.iter().all(|one| one.components.is_none()));
    }

    #[test]
    fn a_syn_without_an_answer_is_an_attempt_and_the_same_ends_again_are_another_connection() {
        let attempt = [sent(0, (99, 0), 0, Flags::SYN), sent(1_000, (99, 0), 0, Flags::SYN)];
        let all = slices("10.0.0.1", &attempt);
        assert!(all.iter().all(|slice| slice.sockets.gone.is_empty()));
        assert_eq!((last(&all).state, all[0].connections.len()), (SocketState::Connecting, 1));
        let twice = [exchange(), exchange()].concat();
        let all = slices("10.0.0.1", &twice);
        assert_eq!(all.iter().map(|slice| slice.connections.len()).sum::<usize>(), 2);
    }

    #[test]
    fn a_window_that_is_filled_is_counted_as_long_as_it_is() {
        use Flags as F;
        let window = |mut segment: Segment, bytes| {
            segment.window = bytes;
            segment
        };
        let segments = [
            sent(0, (99, 0), 0, F::SYN),
            came(10, (499, 100), 0, F::SYN | F::ACK),
            window(came(11, (500, 100), 0, F::ACK), 32),
            sent(20, (100, 500), 1_000, F::ACK),
            sent(20, (1_100, 500), 1_000, F::ACK),
            // 2048 bytes are the window; then none at all, for 300 ms.
            window(came(120, (500, 2_100), 0, F::ACK), 0),
            window(came(420, (500, 2_100), 0, F::ACK), 32),
            sent(421, (2_100, 500), 100, F::ACK),
            came(441, (500, 2_200), 0, F::ACK),
        ];
        let all = slices("10.0.0.1", &segments);
        let tcp = last(&all).tcp.as_ref().unwrap();
        assert_eq!(tcp.receive_window_limited, Nanos::from_millis(400));
        assert_eq!(tcp.busy, Nanos::from_millis(420));
    }
}
