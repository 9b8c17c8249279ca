//! One connection, packet by packet.

use std::net::SocketAddr;

use record::conversation::{Side, Way};
use wire::Ecn;
use wire::packet::quic::{Frame, Id, InitialKeys, Kind, Packet, frames, packets};
use wire::packet::tls::{ClientHello, ServerHello, message};
use wire::packet::{Fault, Span};

use super::crypto::Crypto;
use super::flow::Flow;
use super::limit::Limit;
use super::spin::Spin;
use crate::tls::Moment;

/// Initial packets of a side whose times are kept for the ACKs of them.
const SENT: usize = 16;
/// Addresses that a client had, which are kept.
const MOVES: usize = 16;
/// The same Initial again within this time is no probe: a client waits for a round trip at least.
const PROBE: u64 = 5_000_000;
/// The numbers that a server's first Initial packet may have: they begin with 0 (RFC 9000, section
/// 12.3), or with 1 where 0 was left out.
const FIRST_NUMBER: u64 = 1;
/// Without a packet for so long, a connection is over, if its client does not say otherwise, ns.
const IDLE: u64 = 30_000_000_000;
/// What is under way when a client moves comes within this, ns.
const UNDER_WAY: u64 = 1_000_000_000;
/// Bytes of the server after the handshake, within which its first answer has begun: before it come
/// tickets and settings.
const PRELUDE: u64 = 8_192;
/// The least datagram that is taken for an answer, bytes.
const ANSWER: u32 = 100;

/// Why Initial packets could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The capture cut them short.
    Cut,
    /// The client's first is not there, from which their keys follow.
    Beginning,
}

impl Missing {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Cut => "the capture has only the beginnings of its Initial packets, which cannot be decrypted then",
            Self::Beginning => {
                "the client's first packet, from which the keys of the beginning follow, is not in the capture"
            }
        }
    }
}

/// What is needed as long as the handshake goes on.
#[derive(Debug)]
pub(super) struct Opening {
    keys: InitialKeys,
    /// The version and the connection ID that these are of.
    version: u32,
    id: Id,
    /// By side: TLS, the first and the largest number of an Initial packet, and when the latest
    /// left.
    crypto: [Crypto; 2],
    first: [Option<u64>; 2],
    largest: [Option<u64>; 2],
    sent: [Vec<(u64, u64)>; 2],
}

impl Opening {
    pub(super) fn new(version: u32, id: Id) -> Option<Box<Self>> {
        let keys = InitialKeys::new(version, &id)?;
        let (crypto, first, largest, sent) = Default::default();
        Some(Box::new(Self { keys, version, id, crypto, first, largest, sent }))
    }

    /// Whether a packet is the client's, protected with these keys.
    pub(super) fn opens(&self, packet: &Packet<'_>, room: &mut Vec<u8>) -> bool {
        self.keys.open(Side::Client, packet, None, room).is_ok()
    }
}

/// What an Initial packet said.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    /// Bytes of TLS that had not come before, and bytes at all.
    fresh: usize,
    has_crypto: bool,
    has_ack: bool,
    /// It is not a copy of an earlier packet, or overtaken by a later one.
    is_new: bool,
}

/// What was lost when a client sent its hello again, by the numbers of the packets and the server's
/// first ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// Nothing: the server had the first hello, and this is its first answer. It, or the path, took
    /// longer than the client's time-out.
    Nothing,
    /// The hello.
    Hello,
    /// An earlier answer.
    Answer,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
    pub(super) began: Moment,
    pub(super) last: Moment,
    pub(super) first_version: u32,
    pub(super) version: u32,
    pub(super) original: Id,
    pub(super) client_id: Id,
    pub(super) server_id: Option<Id>,
    pub(super) opening: Option<Box<Opening>>,
    pub(super) hello: Option<Box<ClientHello>>,
    pub(super) answer: Option<Box<ServerHello>>,
    pub(super) hello_bytes: u32,
    /// It has come whole since the server last sent the client back.
    has_hello: bool,
    pub(super) hello_datagrams: u32,
    /// The first and the latest datagram with a new piece of the hello.
    pub(super) hello_pieces: Option<(Moment, Moment)>,
    /// When the client last sent its hello, or a part of it, ns.
    hello_at: u64,
    /// The server named other versions, so long after the client's hello, and the client took one.
    pub(super) negotiation: Option<(Moment, u64)>,
    pub(super) renewed: Option<Moment>,
    pub(super) versions: Box<[u32]>,
    /// The server wanted a token back, and the client sent it.
    pub(super) retry: Option<(Moment, u64)>,
    pub(super) again: Option<Moment>,
    /// The server's first packet, and its hello.
    pub(super) heard: Option<Moment>,
    pub(super) answered: Option<Moment>,
    /// The latest packet of the server's flight, and that one before the client's latest word.
    pub(super) flight: Option<Moment>,
    pub(super) flight_end: Option<Moment>,
    pub(super) flight_bytes: u64,
    /// The client's latest packet of the handshake, and its first protected one.
    pub(super) word: Option<Moment>,
    pub(super) done: Option<Moment>,
    /// The server's first protected packet after that.
    pub(super) data: Option<Moment>,
    pub(super) early: u64,
    /// The client acts on an answer, whether that is in the capture or not.
    pub(super) has_answer: bool,
    /// Times that the client sent its hello again, the latest, and what it had waited before them,
    /// ns.
    pub(super) probes: u64,
    pub(super) last_probe: Option<Moment>,
    pub(super) probes_waited: u64,
    /// What was lost before the server's first ACK; `None` where that does not show it.
    pub(super) lost: Option<Lost>,
    pub(super) close: Option<(Side, u64, bool, Moment)>,
    pub(super) unreachable: Option<Moment>,
    pub(super) missing: Option<Missing>,
    /// Round trips from the capture to each side, the shortest by what is in clear view, ns.
    pub(super) to_server: u64,
    pub(super) to_client: u64,
    /// One to the server that is none of its hello: of a Retry, or an ACK before it.
    pub(super) apart: u64,
    /// A server sent protected packets before the client's first one.
    has_early_data: bool,
    pub(super) limit: Limit,
    pub(super) spin: Spin,
    pub(super) flows: [Flow; 2],
    pub(super) longest_pause: u64,
    /// Before the server's first answer, the longest time without a packet that the server ended:
    /// its last packet before, and its first one after.
    pub(super) server_pause: Option<(Moment, Moment)>,
    /// What the server has sent since the handshake.
    prelude: u64,
    pub(super) moves: u64,
    pub(super) moved_to: Vec<SocketAddr>,
    pub(super) first_move: Option<Moment>,
}

/// A datagram, as the connection takes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram<'a> {
    pub(super) side: Side,
    pub(super) span: Span<'a>,
    pub(super) ecn: Ecn,
    pub(super) now: Moment,
}

impl Conversation {
    pub(super) fn new(client: SocketAddr, server: SocketAddr, first: &Packet<'_>, now: Moment) -> Self {
        Self {
            client,
            server,
            began: now,
            last: now,
            first_version: first.version,
            version: first.version,
            original: first.destination,
            client_id: first.source,
            server_id: None,
            opening: None,
            hello: None,
            answer: None,
            hello_bytes: 0,
            has_hello: false,
            hello_datagrams: 0,
            hello_pieces: None,
            hello_at: now.at,
            negotiation: None,
            renewed: None,
            versions: Box::default(),
            retry: None,
            again: None,
            heard: None,
            answered: None,
            flight: None,
            flight_end: None,
            flight_bytes: 0,
            word: None,
            done: None,
            data: None,
            early: 0,
            has_answer: false,
            probes: 0,
            last_probe: None,
            probes_waited: 0,
            lost: None,
            close: None,
            unreachable: None,
            missing: None,
            to_server: u64::MAX,
            to_client: u64::MAX,
            apart: u64::MAX,
            has_early_data: false,
            limit: Limit::default(),
            spin: Spin::default(),
            flows: [Flow::default(); 2],
            longest_pause: 0,
            server_pause: None,
            prelude: 0,
            moves: 0,
            moved_to: Vec::new(),
            first_move: None,
        }
    }

    /// Takes a datagram; `room` is for what is decrypted.
    pub(super) fn take(&mut self, d: &Datagram<'_>, room: &mut Vec<u8>) {
        let way = match d.side {
            Side::Client => Way::ToServer,
            Side::Server => Way::ToClient,
        };
        if self.done.is_some() && d.side == Side::Server && self.prelude < PRELUDE {
            self.answers(d);
        }
        self.longest_pause = self.longest_pause.max(d.now.at.saturating_sub(self.last.at));
        self.last = Moment { at: self.last.at.max(d.now.at), packet: d.now.packet };
        self.flows[way as usize].take(d.span.wire, d.ecn, self.done.is_some());
        // Nearly all datagrams of a connection.
        if self.done.is_some() && d.span.data.first().is_some_and(|first| first & 0x80 == 0) {
            if d.side == Side::Server {
                self.data.get_or_insert(d.now);
            }
            self.spin.take(way, d.span.data[0] & 0x20 != 0, d.now.at);
            return;
        }
        match d.side {
            Side::Client => self.client(d, room),
            Side::Server => self.server(d, room),
        }
    }

    /// A datagram of the server before its first answer is whole.
    fn answers(&mut self, d: &Datagram<'_>) {
        let took = d.now.at.saturating_sub(self.last.at);
        let longest = self.server_pause.map_or(0, |(from, to)| to.at.saturating_sub(from.at));
        // What is smaller may be an ACK, or keep the connection alive.
        if d.span.wire >= ANSWER && took > longest {
            self.server_pause = Some((self.last, d.now));
        }
        self.prelude += u64::from(d.span.wire);
    }

    fn client(&mut self, d: &Datagram<'_>, room: &mut Vec<u8>) {
        // What follows the first hello is another one, which the server wished for.
        let is_whole = self.has_hello;
        let (mut confirms, mut acknowledges, mut fresh) = (false, false, 0);
        for packet in packets(d.span).map_while(Result::ok) {
            match packet.kind {
                Kind::Initial => {
                    self.client_id = packet.source;
                    if packet.token > 0 {
                        // Of an earlier connection, or of a Retry: the address is confirmed.
                        self.limit.confirm();
                    }
                    self.comes_back(&packet, d.now);
                    let said = self.initial(Side::Client, &packet, d.now, room);
                    fresh += said.fresh;
                    acknowledges |= said.has_ack;
                    self.probe(said, d.now);
                }
                Kind::Handshake => {
                    (confirms, acknowledges) = (true, true);
                    if self.done.is_none() {
                        self.word = Some(d.now);
                        self.flight_end = self.flight;
                    }
                }
                Kind::ZeroRtt => self.early += 1,
                Kind::OneRtt => {
                    self.has_answer = true;
                    self.spin.take(Way::ToServer, packet.spin(), d.now.at);
                    if self.heard.is_some() {
                        self.done.get_or_insert(d.now);
                    }
                }
                Kind::OtherVersion | Kind::VersionNegotiation | Kind::Retry => {}
            }
        }
        self.has_answer |= acknowledges;
        if fresh > 0 && !is_whole {
            self.hello_datagrams += 1;
            self.hello_pieces = Some((self.hello_pieces.map_or(d.now, |(first, _)| first), d.now));
            self.hello_at = d.now.at;
        }
        self.limit.client(d.span.wire, d.now, confirms, acknowledges);
        self.over();
    }

    /// The client's next Initial after the server sent it back with a Retry or other versions.
    fn comes_back(&mut self, packet: &Packet<'_>, now: Moment) {
        if self.answered.is_some() {
            return;
        }
        if self.negotiation.is_some() && self.renewed.is_none() && packet.version != self.version {
            self.renewed = Some(now);
            self.version = packet.version;
            self.opening = Opening::new(packet.version, packet.destination);
        }
        if self.retry.is_some() && self.again.is_none() && packet.token > 0 {
            self.again = Some(now);
        }
    }

    /// Counts a client's Initial that was sent because nothing had come back.
    fn probe(&mut self, said: Said, now: Moment) {
        let waited = now.at.saturating_sub(self.hello_at);
        let is_one = said.is_new && said.fresh == 0 && !said.has_ack && self.heard.is_none();
        if is_one && waited >= PROBE {
            self.probes += 1;
            self.probes_waited += waited;
            self.last_probe = Some(now);
            self.hello_at = now.at;
        }
    }

    fn server(&mut self, d: &Datagram<'_>, room: &mut Vec<u8>) {
        let (mut is_flight, mut of_flight) = (false, 0);
        let goes_on = self.answered.is_some() && self.done.is_none();
        for packet in packets(d.span).map_while(Result::ok) {
            match packet.kind {
                // The client goes by the first, as by the first Retry.
                Kind::VersionNegotiation
                    if self.heard.is_none() && self.negotiation.is_none() && packet.destination == self.client_id =>
                {
                    self.versions = packet.versions().collect();
                    self.negotiation = Some((d.now, self.sent_back(d.now)));
                }
                Kind::Retry if self.answered.is_none() && self.retry.is_none() => {
                    self.retry = Some((d.now, self.sent_back(d.now)));
                    self.limit.confirm();
                    // The client's hello begins anew under the keys of the server's ID.
                    self.opening = self.opening.take().and_then(|_| Opening::new(packet.version, packet.source));
                }
                Kind::Initial => {
                    self.heard.get_or_insert(d.now);
                    let said = self.initial(Side::Server, &packet, d.now, room);
                    self.server_id.get_or_insert(packet.source);
                    // Without its keys, it is the hello that its first one has.
                    is_flight |= said.has_crypto || self.opening.is_none();
                }
                Kind::Handshake => {
                    self.heard.get_or_insert(d.now);
                    self.server_id.get_or_insert(packet.source);
                    (is_flight, of_flight) = (true, of_flight + packet.wire());
                }
                Kind::OneRtt => {
                    self.spin.take(Way::ToClient, packet.spin(), d.now.at);
                    if self.done.is_some() {
                        self.data.get_or_insert(d.now);
                    }
                    self.has_early_data |= self.done.is_none();
                }
                _ => {}
            }
        }
        if is_flight {
            self.answered.get_or_insert(d.now);
        }
        if is_flight && self.done.is_none() {
            self.flight = Some(d.now);
            self.flight_bytes += u64::from(d.span.wire);
        }
        let trip = Some(self.to_server).filter(|trip| *trip != u64::MAX);
        self.limit.server(d.span.wire, if goes_on { of_flight } else { 0 }, d.now, trip);
        self.over();
    }

    /// A server that sends the client back has not begun to think. Returns how long it took since
    /// the client's hello.
    fn sent_back(&mut self, now: Moment) -> u64 {
        let trip = now.at.saturating_sub(self.hello_at);
        (self.to_server, self.apart) = (self.to_server.min(trip), self.apart.min(trip));
        (self.hello_datagrams, self.hello_pieces, self.has_hello) = (0, None, false);
        trip
    }

    /// What was needed to read the beginning is not any more.
    fn over(&mut self) {
        if self.done.is_some() {
            self.opening = None;
        }
    }

    fn initial(&mut self, side: Side, packet: &Packet<'_>, now: Moment, room: &mut Vec<u8>) -> Said {
        let mut said = Said::default();
        let Some(opening) = &mut self.opening else { return said };
        if side == Side::Server && packet.version != opening.version && self.answered.is_none() {
            // A server may go on in another version that both know (RFC 9368).
            if let Some(keys) = InitialKeys::new(packet.version, &opening.id) {
                (opening.keys, opening.version) = (keys, packet.version);
            }
        }
        let i = side as usize;
        let opened = match opening.keys.open(side, packet, opening.largest[i], room) {
            Ok(opened) => opened,
            Err(Fault::Truncated) => {
                self.missing = Some(Missing::Cut);
                return said;
            }
            // What is damaged, or another's, is to be skipped (RFC 9001, section 5.5).
            Err(Fault::Malformed) => return said,
        };
        if side == Side::Server {
            self.version = opening.version;
        }
        said.is_new = opening.largest[i].is_none_or(|largest| opened.number > largest);
        if said.is_new {
            opening.first[i].get_or_insert(opened.number);
            opening.largest[i] = Some(opened.number);
            let sent = &mut opening.sent[i];
            if sent.len() == SENT {
                sent.remove(0);
            }
            sent.push((opened.number, now.at));
        }
        for frame in frames(opened.payload).map_while(Result::ok) {
            match frame {
                Frame::Crypto { offset, data } => {
                    said.has_crypto = true;
                    said.fresh += opening.crypto[i].take(offset, data);
                }
                Frame::Ack { largest, least, .. } if said.is_new => {
                    said.has_ack = true;
                    if let (Side::Server, None, Some(hello)) = (side, self.lost, opening.first[0]) {
                        let is_first = opening.first[1].is_some_and(|number| number <= FIRST_NUMBER);
                        self.lost = Some(match (least <= hello, is_first) {
                            (false, _) => Lost::Hello,
                            (true, true) => Lost::Nothing,
                            (true, false) => Lost::Answer,
                        });
                    }
                    let of = opening.sent[1 - i].iter().find(|(number, _)| *number == largest);
                    let trip = of.map_or(u64::MAX, |(_, at)| now.at.saturating_sub(*at));
                    match side {
                        Side::Client => self.to_client = self.to_client.min(trip),
                        Side::Server => self.to_server = self.to_server.min(trip),
                    }
                }
                Frame::Close { code, by_application } if self.close.is_none() => {
                    self.close = Some((side, code, by_application, now));
                }
                Frame::Ack { .. } | Frame::Close { .. } | Frame::Padding(_) | Frame::Ping => {}
            }
        }
        if side == Side::Server && said.has_ack && !said.has_crypto && self.answered.is_none() {
            self.apart = self.apart.min(self.to_server);
        }
        match (side, opening.crypto[i].message()) {
            (Side::Client, Some((message::CLIENT_HELLO, span))) if !self.has_hello => {
                self.hello = ClientHello::parse(span).ok().map(Box::new);
                (self.hello_bytes, self.has_hello) = (span.wire.saturating_add(4), true);
            }
            (Side::Server, Some((message::SERVER_HELLO, span))) if self.answer.is_none() => {
                self.answer = ServerHello::parse(span).ok().map(Box::new);
            }
            _ => {}
        }
        said
    }

    /// From the client's last word of the handshake to the server's confirmation of it, which
    /// follows at once (RFC 9001, section 4.1.2): a round trip, where the server has sent nothing
    /// protected before that this could be.
    pub(super) fn confirmed(&self) -> Option<u64> {
        let (done, data) = (self.done.filter(|_| !self.has_early_data)?, self.data?);
        Some(data.at.saturating_sub(done.at))
    }

    /// The client goes on from another address.
    pub(super) fn moves(&mut self, to: SocketAddr, now: Moment) {
        self.moves += 1;
        self.first_move.get_or_insert(now);
        if self.moved_to.len() < MOVES {
            self.moved_to.push(to);
        }
    }

    /// Whether it may have gone on elsewhere from this moment on: it ends here then, and neither
    /// side has closed it or let it time out, as far as is seen.
    pub(super) fn may_go_on(&self, from: Moment) -> bool {
        let said = self.hello.as_ref().and_then(|hello| hello.idle_timeout).filter(|ms| *ms > 0);
        let idle = said.map_or(IDLE, |ms| ms.saturating_mul(1_000_000));
        let is_its_end =
            self.last.at <= from.at.saturating_add(UNDER_WAY) && from.at.saturating_sub(self.last.at) <= idle;
        self.done.is_some_and(|done| done.at <= from.at) && self.close.is_none() && is_its_end
    }

    /// Whether the first packet has a piece of the hello, as a client's first one does.
    pub(super) fn begins(&self) -> bool {
        self.hello_pieces.is_some() || self.opening.is_none()
    }

    /// Whether the client's Initial is one of this connection: the same one again, the next one, or
    /// the one after a Retry or a version negotiation.
    pub(super) fn has(&self, packet: &Packet<'_>) -> bool {
        let same = packet.source == self.client_id;
        // A client without an ID of its own: another connection has begun with another ID of the
        // server.
        let is_for = packet.destination == self.original || Some(packet.destination) == self.server_id;
        let was_sent_back = self.answered.is_none() && (self.retry.is_some() || self.negotiation.is_some());
        if self.done.is_some() || self.close.is_some() { same && is_for } else { is_for || same && was_sent_back }
    }
}
