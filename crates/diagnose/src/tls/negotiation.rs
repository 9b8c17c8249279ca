//! One handshake, message by message.

use std::net::SocketAddr;

use record::SeqNumber;
use record::conversation::Side;
use wire::Flags;
use wire::packet::tls::{ClientHello, Header, ServerHello, TLS13, content, message};
use wire::packet::{Fault, Span};

use super::stream::{Event, Missing, Room, Stream};

/// Packets of a connection that are examined: a handshake takes a dozen, and what follows it up to
/// the answer may be an upload.
const PACKETS: u32 = 1_024;
/// What a server sends before its answer, such as tickets and settings, is less than this.
const PRELUDE: u32 = 1_400;
/// What comes within this time of it belongs to it, ns.
const AT_ONCE: u64 = 2_000_000;
/// A `Finished` of TLS 1.3 as a record: its header of four bytes, a hash of 32 or 48, and what
/// encryption adds.
const FINISHED: [u16; 2] = [4 + 32 + 17, 4 + 48 + 17];
/// An alert of TLS 1.3 as a record.
const ENCRYPTED_ALERT: u16 = 2 + 17;

/// A packet and its time on the capture's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) at: u64,
    pub(crate) packet: u64,
}

/// The longest time without a segment within the server's flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) from: Moment,
    pub(super) to: Moment,
    /// Bytes of the flight before it, and of the last segment of these.
    pub(super) before: u32,
    pub(super) last: u32,
}

impl Pause {
    pub(super) fn took(&self) -> u64 {
        self.to.at.saturating_sub(self.from.at)
    }
}

/// A handshake.
#[derive(Debug)]
pub(super) struct Negotiation {
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
    /// Where the first hello begins in its direction.
    pub(super) seq: SeqNumber,
    /// The first packet of it.
    pub(super) began: Moment,
    pub(super) client_hello: Option<Box<ClientHello>>,
    pub(super) hello_bytes: u32,
    /// The server asked for another hello, and that came.
    pub(super) retry: Option<Moment>,
    pub(super) retry_group: Option<u16>,
    pub(super) again: Option<Moment>,
    pub(super) server_hello: Option<Box<ServerHello>>,
    /// The server's flight, which begins with its hello, up to its last byte.
    pub(super) answered: Option<Moment>,
    pub(super) flight: Option<Moment>,
    pub(super) flight_bytes: u32,
    pub(super) pause: Option<Pause>,
    /// Something of the flight was lost on the way.
    pub(super) is_repaired: bool,
    /// Up to TLS 1.2, the server changed to encryption before the client did.
    pub(super) is_resumed: bool,
    /// Up to TLS 1.2, the server has changed to encryption.
    encrypts: bool,
    /// With TLS 1.3, the client sent more than its `Finished`: the certificate that the server had
    /// asked for.
    pub(super) sends_certificate: bool,
    /// The client's answer to it.
    pub(super) finished: Option<Moment>,
    /// After the handshake, the server has sent something, and the client an alert.
    has_data: bool,
    says_goodbye: bool,
    /// The handshake was over.
    pub(super) done: Option<Moment>,
    /// The first data of the application: from the client, and the server's answer.
    pub(super) request: Option<Moment>,
    pub(super) answer: Option<Moment>,
    /// Who ended it with an alert, and which; encrypted ones do not show.
    pub(super) alert: Option<(Side, Option<u8>, Moment)>,
    /// Who closed the connection.
    pub(super) closed: Option<(Side, Moment)>,
    pub(super) missing: Option<Missing>,
    /// There while it is followed.
    open: Option<Box<Open>>,
}

/// What is needed while it is followed.
#[derive(Debug, Default)]
struct Open {
    client: Stream,
    server: Stream,
    packets: u32,
    /// Where the flight begins in the server's direction.
    flight_from: Option<SeqNumber>,
    /// The server's last segment, and its bytes.
    last: Option<(Moment, u32)>,
    /// The server's first data after the request, until it is known whether it is the answer.
    prelude: Option<Prelude>,
}

/// What a server sends before its answer, or the beginning of that.
#[derive(Clone, Copy, Debug)]
struct Prelude {
    first: Moment,
    /// The length of its first record: tickets that come together are alike.
    length: u16,
    last: u64,
    bytes: u32,
}

impl Negotiation {
    pub(super) fn new(client: SocketAddr, server: SocketAddr, seq: SeqNumber, began: Moment) -> Self {
        Self {
            client,
            server,
            seq,
            began,
            client_hello: None,
            hello_bytes: 0,
            retry: None,
            retry_group: None,
            again: None,
            server_hello: None,
            answered: None,
            flight: None,
            flight_bytes: 0,
            pause: None,
            is_repaired: false,
            is_resumed: false,
            encrypts: false,
            sends_certificate: false,
            finished: None,
            has_data: false,
            says_goodbye: false,
            done: None,
            request: None,
            answer: None,
            alert: None,
            closed: None,
            missing: None,
            open: Some(Box::default()),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether a SYN is that of its own connection, retransmitted: the hello follows it, or it is
    /// the server's before that has said anything.
    pub(super) fn has_syn(&self, of: Side, seq: SeqNumber, flags: Flags) -> bool {
        let is_silent = self.answered.is_none() && self.retry.is_none();
        seq.add(1) == self.seq || of == Side::Server && flags.contains(Flags::ACK) && is_silent
    }

    /// Whether it is of TLS 1.3, as far as the server has chosen.
    pub(super) fn is_13(&self) -> bool {
        self.server_hello.as_ref().is_some_and(|hello| hello.version >= TLS13)
    }

    /// Takes a segment of its connection.
    pub(super) fn take(
        &mut self,
        of: Side,
        (seq, flags): (SeqNumber, Flags),
        payload: Span<'_>,
        now: Moment,
        room: &mut Room,
    ) {
        let Some(mut open) = self.open.take() else { return };
        open.packets += 1;
        if payload.wire > 0 {
            let begin = seq.add(u32::from(flags.contains(Flags::SYN)));
            match of {
                Side::Client => open.client.take(begin, payload, room, |event| self.of_client(event, now)),
                Side::Server => {
                    let had_answer = self.answered.is_some();
                    let Open { server, prelude, .. } = &mut *open;
                    server.take(begin, payload, room, |event| self.of_server(event, now, prelude));
                    self.is_repaired |= server.is_repaired && self.finished.is_none();
                    self.follow_flight(&mut open, had_answer, (begin, payload.wire), now);
                }
            }
        }
        if flags.intersects(Flags::FIN | Flags::RST) {
            self.closed.get_or_insert((of, now));
        }
        let is_over = self.answer.is_some()
            || self.alert.is_some()
            || open.packets >= PACKETS
            || self
                .closed
                .is_some_and(|(by, _)| self.request.is_none() || by == Side::Server || flags.contains(Flags::RST));
        self.open = Some(open);
        if is_over {
            self.close(room);
        }
    }

    /// Nothing more comes, or is examined.
    pub(super) fn close(&mut self, room: &mut Room) {
        let Some(mut open) = self.open.take() else { return };
        open.client.close(room);
        open.server.close(room);
        self.settle(&open);
    }

    /// What is known so far counts.
    fn settle(&mut self, open: &Open) {
        self.missing = self.missing.or(open.client.missing).or(open.server.missing);
        if let Some(prelude) = open.prelude {
            self.answer.get_or_insert(prelude.first);
        }
    }

    /// As it would be if nothing more came.
    pub(super) fn settled(&self) -> (Option<Moment>, Option<Missing>) {
        let Some(open) = &self.open else { return (self.answer, self.missing) };
        let answer = self.answer.or(open.prelude.map(|prelude| prelude.first));
        (answer, self.missing.or(open.client.missing).or(open.server.missing))
    }

    /// The server's segments from its hello to the client's answer.
    fn follow_flight(&mut self, open: &mut Open, had_answer: bool, (seq, bytes): (SeqNumber, u32), now: Moment) {
        if self.answered.is_none() || self.finished.is_some() {
            return;
        }
        let from = *open.flight_from.get_or_insert(seq);
        if had_answer && let Some((before, last)) = open.last {
            let pause = Pause { from: before, to: now, before: seq.distance_from(from).max(0).unsigned_abs(), last };
            if self.pause.is_none_or(|longest| longest.took() < pause.took()) {
                self.pause = Some(pause);
            }
        }
        open.last = Some((now, bytes));
    }

    fn of_client(&mut self, event: Event<'_>, now: Moment) -> bool {
        match event {
            Event::Message(message::CLIENT_HELLO, span) => self.client_hello(span, now),
            Event::Message(message::CLIENT_KEY_EXCHANGE, _) => _ = self.finished.get_or_insert(now),
            Event::Message(..) => {}
            Event::Alert(what) => self.alerts(Side::Client, Some(what), now),
            Event::Begins(Header { content: content::APPLICATION_DATA, length }) => self.data_of_client(length, now),
            Event::Begins(_) => {}
            Event::Ends(Header { content: content::CHANGE_CIPHER_SPEC, .. }) => {
                // With TLS 1.3, or before the server has chosen, it means nothing.
                let counts = self.server_hello.is_some() && !self.is_13();
                if counts {
                    self.finished.get_or_insert(now);
                }
                return counts;
            }
            Event::Ends(Header { content: content::HANDSHAKE, .. }) => {
                // Its `Finished`, after the server's: the last of a handshake of two flights.
                if self.is_resumed && self.finished.is_some() {
                    self.done.get_or_insert(now);
                }
            }
            Event::Ends(_) => {}
        }
        false
    }

    fn client_hello(&mut self, span: Span<'_>, now: Moment) {
        if self.client_hello.is_some() {
            if self.retry.is_some() {
                self.again.get_or_insert(now);
            }
            return;
        }
        self.hello_bytes = span.wire.saturating_add(4);
        match ClientHello::parse(span) {
            Ok(hello) => self.client_hello = Some(Box::new(hello)),
            Err(fault) => self.missing = Some(of(fault)),
        }
    }

    /// A record of the application, or with TLS 1.3 of anything.
    fn data_of_client(&mut self, length: u16, now: Moment) {
        match self.done {
            Some(_) => {
                self.says_goodbye |= self.is_13() && length == ENCRYPTED_ALERT;
                _ = self.request.get_or_insert(now);
            }
            // Early data.
            None if self.answered.is_none() => {
                if self.client_hello.as_ref().is_some_and(|hello| hello.has_early_data) {
                    self.request.get_or_insert(now);
                }
            }
            None if self.is_13() => {
                if self.finished.is_none() && length == ENCRYPTED_ALERT {
                    return self.alerts(Side::Client, None, now);
                }
                self.finished.get_or_insert(now);
                // What comes before it is a certificate, or the end of early data.
                let has_early_data = self.client_hello.as_ref().is_some_and(|hello| hello.has_early_data);
                match FINISHED.contains(&length) {
                    true => self.done = Some(now),
                    false => self.sends_certificate = !has_early_data,
                }
            }
            // Up to TLS 1.2, a client need not wait for the server's last word (RFC 7918).
            None => _ = self.request.get_or_insert(now),
        }
    }

    fn of_server(&mut self, event: Event<'_>, now: Moment, prelude: &mut Option<Prelude>) -> bool {
        match event {
            Event::Message(message::SERVER_HELLO, span) => self.server_hello(span, now),
            Event::Message(..) => {}
            Event::Alert(what) => self.alerts(Side::Server, Some(what), now),
            Event::Begins(Header { content: content::APPLICATION_DATA, length }) => {
                self.data_of_server(length, now, prelude);
            }
            Event::Begins(_) => {}
            Event::Ends(header) => return self.ended_of_server(header, now),
        }
        false
    }

    fn server_hello(&mut self, span: Span<'_>, now: Moment) {
        let hello = match ServerHello::parse(span) {
            Ok(hello) => hello,
            Err(fault) => return self.missing = Some(of(fault)),
        };
        if hello.is_retry {
            self.retry.get_or_insert(now);
            self.retry_group = hello.group;
        } else if self.server_hello.is_none() {
            self.server_hello = Some(Box::new(hello));
            self.answered = Some(now);
        }
    }

    fn ended_of_server(&mut self, header: Header, now: Moment) -> bool {
        if self.answered.is_none() {
            return false;
        }
        let changes = header.content == content::CHANGE_CIPHER_SPEC && !self.is_13();
        if self.finished.is_none() {
            self.flight = Some(now);
            self.flight_bytes = self.flight_bytes.saturating_add(5 + u32::from(header.length));
            self.is_resumed |= changes;
        } else if header.content == content::HANDSHAKE && self.encrypts && !self.is_resumed {
            // Its `Finished`, after the client's.
            self.done.get_or_insert(now);
        }
        self.encrypts |= changes;
        changes
    }

    fn data_of_server(&mut self, length: u16, now: Moment, prelude: &mut Option<Prelude>) {
        let says_goodbye = self.is_13() && length == ENCRYPTED_ALERT;
        if says_goodbye && self.done.is_some() && self.refuses_certificate(prelude) {
            self.done = None;
            return self.alerts(Side::Server, None, now);
        }
        self.has_data |= self.done.is_some();
        if self.done.is_none() || self.request.is_none() || self.answer.is_some() || says_goodbye {
            return;
        }
        let bytes = 5 + u32::from(length);
        match prelude {
            // Tickets of TLS 1.3 and settings of HTTP/2 look like data.
            None if bytes < PRELUDE && (self.is_13() || self.has_settings()) => {
                *prelude = Some(Prelude { first: now, length, last: now.at, bytes });
            }
            None => self.answer = Some(now),
            Some(p) if now.at.saturating_sub(p.last) >= AT_ONCE && length != p.length => self.answer = Some(now),
            Some(p) => {
                (p.last, p.bytes) = (now.at, p.bytes + bytes);
                if p.bytes >= PRELUDE {
                    self.answer = Some(p.first);
                }
            }
        }
    }

    /// Whether an alert of the server is its answer to the client's certificate, which comes after
    /// the client's `Finished` (RFC 8446, section 4.4.2.4): the first that it sends, not even
    /// tickets, to a client that has not said that it closes the connection.
    fn refuses_certificate(&self, prelude: &Option<Prelude>) -> bool {
        let is_closing = self.says_goodbye || self.closed.is_some();
        self.sends_certificate && prelude.is_none() && !self.has_data && !is_closing
    }

    fn has_settings(&self) -> bool {
        self.server_hello.as_ref().is_some_and(|hello| hello.protocol.as_deref() == Some("h2"))
    }

    fn alerts(&mut self, by: Side, what: Option<u8>, now: Moment) {
        // One that the connection is closed is no failure once it is set up.
        if self.done.is_none() {
            self.alert.get_or_insert((by, what, now));
        }
    }
}

fn of(fault: Fault) -> Missing {
    match fault {
        Fault::Truncated => Missing::Cut,
        Fault::Malformed => Missing::NotTls,
    }
}
