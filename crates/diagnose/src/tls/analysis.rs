//! All that is said of TLS in a capture.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use record::conversation::Way;
use record::dns::names;
use record::tls::{Handshake, Outcome, TlsFinding};
use record::{Nanos, SeqNumber};
use wire::packet::tls::{TLS13, alert_name, version_name};

use super::findings;
use super::negotiation::{Negotiation, Pause};
use super::{Tls, Totals};
use crate::connection::{Connection, segment_limit};
use crate::drawn::{Begun, packets_of};
use crate::half::Half;
use crate::ranges::START;

/// What a connection says of the handshake on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside {
    number: u64,
    /// Round trips between the capture and each side.
    to_server: Option<u64>,
    to_client: Option<u64>,
    /// What a segment of the server carries at most.
    segment: Option<u32>,
    /// The handshake is what the connection began with.
    is_first: bool,
}

impl Beside {
    pub(crate) fn new(number: usize, c: &Connection, client: SocketAddr, seq: SeqNumber) -> Self {
        let way = if c.client() == client { Way::ToServer } else { Way::ToClient };
        // A SYN may have waited for an address to be found (ARP), which is no part of later trips.
        let trip = |h: &Half| {
            let first = Some(h.rtt.handshake).filter(|trip| *trip != u64::MAX);
            first.filter(|first| h.rtt.base().is_none_or(|base| base >= first - first / 4)).or(h.rtt.base())
        };
        let (ours, theirs) = (&c.halves[way], &c.halves[!way]);
        Self {
            number: number as u64,
            to_server: trip(ours),
            to_client: trip(theirs),
            segment: segment_limit(&c.halves, !way),
            is_first: ours.offered.seen && ours.space.place(seq) == START + 1,
        }
    }
}

/// A handshake in numbers.
#[derive(Clone, Debug)]
pub(super) struct Case<'a> {
    pub(super) negotiation: &'a Negotiation,
    pub(super) row: Handshake,
    /// The flight stopped here for its window.
    pub(super) cut: Option<Pause>,
    /// From the capture to the server, to the client, and back.
    pub(super) trip: Option<u64>,
}

/// Handshakes and findings.
#[derive(Debug)]
pub struct Analysis<'a> {
    cases: Vec<Case<'a>>,
    findings: Vec<TlsFinding>,
    totals: Totals,
}

impl<'a> Analysis<'a> {
    /// `beside` has for each handshake its connection.
    pub(crate) fn new(tls: &'a Tls, beside: &[Option<Beside>]) -> Self {
        let cases: Vec<Case<'_>> = tls.all.iter().zip(beside).map(|(n, beside)| Case::new(n, *beside)).collect();
        let findings = findings::draw(&cases);
        Self { cases, findings, totals: tls.totals() }
    }

    /// The handshakes, in the order of their first packets.
    pub fn handshakes(&self) -> impl ExactSizeIterator<Item = &Handshake> + '_ {
        self.cases.iter().map(|case| &case.row)
    }

    /// What was found, the costliest first.
    pub fn findings(&self) -> &[TlsFinding] {
        &self.findings
    }

    /// Counts over everything.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The names that clients asked for, by the addresses of the servers, the latest first. What
    /// was asked for through a proxy is no name of the proxy.
    pub fn names(&self) -> BTreeMap<IpAddr, Vec<String>> {
        names(self.handshakes().filter_map(Handshake::named))
    }
}

impl Begun for Case<'_> {
    fn number(&self) -> u64 {
        self.row.connection
    }

    fn place(&self) -> u64 {
        self.row.start_ns.0
    }

    fn client(&self) -> IpAddr {
        self.row.client.ip()
    }

    fn asked(&self) -> (SocketAddr, Option<&str>) {
        (self.row.server, self.row.name.as_deref())
    }

    fn packets(&self) -> Vec<u64> {
        let n = self.negotiation;
        let alert = n.alert.map(|(.., m)| m);
        let closed = n.closed.map(|(_, m)| m).filter(|_| n.done.is_none());
        let all = [Some(n.began), n.retry, n.again, n.answered, n.flight, n.finished, n.done, alert, closed];
        packets_of(all.into_iter().flatten())
    }
}

impl<'a> Case<'a> {
    fn new(n: &'a Negotiation, beside: Option<Beside>) -> Self {
        let trips = beside.and_then(|b| Some((b.to_server?, b.to_client?)));
        let cut = n.pause.filter(|p| trips.is_some_and(|(a, b)| is_cut(n, p, a + b, beside.and_then(|b| b.segment))));
        let mut case = Self { negotiation: n, row: Handshake::blank(), cut, trip: trips.map(|(a, b)| a + b) };
        case.row = Handshake {
            connection: beside.map_or(0, |b| b.number),
            direct: beside.is_some_and(|b| b.is_first),
            ..case.make(trips)
        };
        case
    }

    fn make(&self, trips: Option<(u64, u64)>) -> Handshake {
        let n = self.negotiation;
        let (answer, missing) = n.settled();
        let mut row = Handshake { client: n.client, server: n.server, ..Handshake::blank() };
        if let Some(hello) = &n.client_hello {
            row.name.clone_from(&hello.server_name);
            row.offered_versions = hello.versions.iter().map(|v| version_name(*v)).collect::<Vec<_>>().join(", ");
            row.offered_protocols = hello.protocols.join(" ");
            row.early_data = hello.has_early_data;
            row.encrypted_hello = hello.has_encrypted_hello;
            // With TLS 1.3, the number of the session is there for old devices on the way.
            let has_session = !hello.session.is_empty() && !hello.versions.contains(&TLS13);
            row.resumption_offered = hello.has_pre_shared_key || hello.has_ticket || has_session;
        }
        if let Some(hello) = &n.server_hello {
            row.version = Some(version_name(hello.version).into_owned());
            row.protocol.clone_from(&hello.protocol);
            row.cipher = Some(hello.cipher.into());
            row.resumed = Some(if n.is_13() { hello.has_pre_shared_key } else { n.is_resumed });
        }
        row.hello_bytes = n.hello_bytes.into();
        row.flight_bytes = n.flight_bytes.into();
        row.flight_cut = self.cut.is_some();
        row.retried = n.retry.is_some();
        row.start_ns = Nanos(n.began.at);
        row.request_ns = n.request.map(|m| Nanos(m.at));
        row.answer_ns = answer.map(|m| Nanos(m.at));
        (row.outcome, row.ended_by, row.alert) = match (n.done, n.alert, n.closed) {
            (Some(_), ..) => (Outcome::Done, None, None),
            (None, Some((by, what, _)), _) => {
                (Outcome::Failed, Some(by), what.map(|what| alert_name(what).into_owned()))
            }
            (None, None, Some((by, _))) if missing.is_none() => (Outcome::Failed, Some(by), None),
            _ => (Outcome::NotKnown, None, None),
        };
        row.withheld = self.withheld(&row).map(str::to_owned);
        if n.client_hello.is_some() {
            self.time(&mut row, trips);
        }
        row.packets = crate::dns::joined(&self.packets());
        row
    }

    fn withheld(&self, row: &Handshake) -> Option<&'static str> {
        let n = self.negotiation;
        match (n.settled().1, row.outcome) {
            (Some(missing), _) => Some(missing.reason()),
            _ if n.client_hello.is_none() => Some("the client's hello is not in the capture"),
            (None, Outcome::Done | Outcome::Failed) => None,
            _ if n.server_hello.is_none() => Some("no answer of the server is in the capture"),
            _ => Some("its end is not in the capture"),
        }
    }

    /// The parts, each from the end of the one before, and who was waited for in each.
    fn time(&self, row: &mut Handshake, trips: Option<(u64, u64)>) {
        let n = self.negotiation;
        let began = n.began.at;
        let mut from = began;
        // Clocks of captures step.
        let mut until = |to: u64| {
            let took = to.saturating_sub(from);
            from = from.max(to);
            took
        };
        let asked = n.retry.map_or(0, |m| until(m.at));
        let again = n.again.map_or(0, |m| until(m.at));
        row.retry_ns = Nanos(asked + again);
        let Some(answered) = n.answered.map(|m| until(m.at)) else { return };
        row.hello_ns = Some(Nanos(answered));
        let (Some(flight), Some(finished), Some(done)) = (n.flight, n.finished, n.done) else { return };
        let (flight, client, finish) = (until(flight.at), until(finished.at), until(done.at));
        (row.flight_ns, row.client_ns, row.finish_ns) = (Some(Nanos(flight)), Some(Nanos(client)), Some(Nanos(finish)));
        let all = asked + again + answered + flight + client + finish;
        row.took_ns = Some(Nanos(all));
        let Some((to_server, to_client)) = trips else { return };
        let paused = n.pause.filter(|_| self.cut.is_none() && !n.is_repaired).map_or(0, |p| p.took().min(flight));
        // What comes at the end of a resumption is the client's, and with TLS 1.3 all of it.
        let (of_server, of_client) = if n.is_resumed || n.is_13() { (0, finish) } else { (finish, 0) };
        let server =
            [asked, answered, of_server].map(|took| took.saturating_sub(to_server)).iter().sum::<u64>() + paused;
        let client = [again, client].map(|took| took.saturating_sub(to_client)).iter().sum::<u64>() + of_client;
        row.server_wait_ns = Some(Nanos(server));
        row.client_wait_ns = Some(Nanos(client));
        row.path_wait_ns = Some(Nanos(all - server - client));
    }
}

/// Whether a pause in the flight is that of a window which is full: it ends a round trip after the
/// flight began, whose first segments may have left some time before the last that the window let
/// go; nothing was lost, as many segments came before it as a first window lets go, and there was
/// one more to send. Nagle's algorithm holds back only what is less than a segment.
fn is_cut(n: &Negotiation, pause: &Pause, trip: u64, segment: Option<u32>) -> bool {
    let Some(segment) = segment else { return false };
    let took = pause.took();
    let since = n.answered.map_or(took, |m| pause.to.at.saturating_sub(m.at).max(took));
    let is_long = took >= 1_000_000 && took >= trip / 2;
    let takes_a_trip = is_long && since >= trip - trip / 4 && took <= 2 * trip + 10_000_000;
    // Ten since RFC 6928, or more; two to four by RFC 5681. Some may not have been full.
    let is_window = matches!(pause.before.div_ceil(segment), 2..=4 | 9..);
    let rest = n.flight_bytes.saturating_sub(pause.before);
    takes_a_trip && !n.is_repaired && is_window && pause.last.is_multiple_of(segment) && rest >= segment
}
