//! `top FILE`: what the packets of a capture show of each connection, cut into the intervals that a
//! screen shows.
//!
//! A capture says less than a trace: times begin where the packets were captured and not in a
//! program, and no process is known. This host is the address that most packets are from or to; of
//! a connection between two others it is the end that connected.

mod datagrams;
mod flow;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use diagnose::dns::Live;
use record::table::Record as _;
use record::{Connection, ConnectionId, Instant, Monotonic, Nanos, Opening};
use wire::packet::tls::ClientHello;
use wire::packet::{Span, Udp as Datagram};
use wire::{CaptureError, Carrier, Flags, Packet, PacketReader, Payload, Protocol, Segment, is_dns};

use super::replay::{Reading, Replay};
use flow::Flow;
pub use flow::{Seen, add};

/// Packets by which it is found which host this is.
const TELLING: u64 = 100_000;
/// Connections that are followed at a time.
const MOST: usize = 200_000;
/// Questions of DNS that are open at a time.
const QUESTIONS: usize = 65_536;
/// UDP has no end: without a datagram for so long a conversation is over. And nothing more comes of
/// a connection that ended so long ago.
const QUIET: Nanos = Nanos::from_secs(30);

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
                tap.datagram(&of);
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
            let quiet = |flow: &Flow| at.since(flow.last).is_ok_and(|quiet| quiet > QUIET);
            let may_go = |(ends, flow): &(&Ends, &Flow)| (ends.2 || flow.over) && quiet(flow);
            let gone: Vec<Ends> = self.flows.iter().filter(may_go).map(|(ends, _)| *ends).collect();
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
        match self.flows.get(&key_of) {
            Some(flow) if is_syn && (flow.over || !flow.connecting_from(from)) => self.close(&key_of, at),
            Some(flow) if flow.over => return,
            _ => {}
        }
        let Some(flow) = self.flow((from, to), at, false) else { return };
        let mut out = Vec::new();
        let states = flow.segment(segment, at, &mut out);
        let (id, connection) = (flow.connection.id, flow.connection.clone());
        let over = segment.flags.contains(Flags::RST) || flow.has_ended();
        for state in states.into_iter().flatten() {
            self.reading.state(id, state, at);
        }
        out.into_iter().for_each(|seen| self.reading.seen(&connection, seen, at));
        if over {
            self.finish(&key_of, at);
        }
    }

    fn datagram(&mut self, of: &Datagram) {
        let (from, to, at) = (of.source, of.destination, Instant::from_nanos(of.at.as_nanos()));
        self.turn(at);
        // Those of DNS are shown as lookups.
        if is_dns(from, to) {
            return;
        }
        let Some(flow) = self.flow((from, to), at, true) else { return };
        flow.last = at;
        let connection = flow.connection.clone();
        let local = from == connection.local;
        let exchange = flow.datagrams.take(&connection, [local, flow.asks], (of.head.as_slice(), of.payload), at);
        self.reading.exchanges(exchange, at);
        if local {
            self.reading.seen(&connection, Seen::Sent(of.payload.into()), at);
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

    /// A connection has ended.
    fn finish(&mut self, ends: &Ends, at: Instant<Monotonic>) {
        let Some(flow) = self.flows.get_mut(ends).filter(|flow| !flow.over) else { return };
        (flow.over, flow.last) = (true, at);
        flow.flush(&mut self.reading);
        if let Some(seen) = flow.answered() {
            self.reading.seen(&flow.connection, seen, at);
        }
        self.reading.ends(flow.connection.id, at);
    }

    /// The same ends may be another connection from now on.
    fn close(&mut self, ends: &Ends, at: Instant<Monotonic>) {
        self.finish(ends, at);
        self.flows.remove(ends);
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

#[cfg(test)]
mod tests {
    use super::*;
    use record::socket::{Socket, SocketState};
    use record::{Component, Leg, Request, SeqNumber};

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
            // Lost, and retransmitted; what comes of it is no round trip.
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
            // Retransmitted, as the ACK was late: no other connection, and no new bytes.
            came(1_141, (2_000, 450), 10, F::ACK | F::FIN),
            came(1_142, (2_011, 451), 0, F::ACK),
            sent(1_143, (451, 2_011), 0, F::ACK),
        ]
    }

    fn last(all: &[super::super::replay::Slice]) -> &Socket {
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
            window(came(320, (500, 2_100), 0, F::ACK), 0),
            window(came(420, (500, 2_100), 0, F::ACK), 32),
            sent(421, (2_100, 500), 100, F::ACK),
            came(441, (500, 2_200), 0, F::ACK),
            // Overtaken by the one before; and closed once more.
            window(came(441, (500, 2_100), 0, F::ACK), 0),
            window(came(441, (500, 2_200), 0, F::ACK), 0),
            window(came(441, (500, 2_200), 0, F::RST | F::ACK), 0),
        ];
        let all = slices("10.0.0.1", &segments);
        let tcp = last(&all).tcp.as_ref().unwrap();
        assert_eq!(tcp.receive_window_limited, Nanos::from_millis(400));
        assert_eq!(tcp.busy, Nanos::from_millis(420));
        let zero_windows = all.iter().flat_map(|slice| &slice.series).map(|series| series.zero_windows);
        assert_eq!(zero_windows.sum::<u64>(), 2);
    }
}
