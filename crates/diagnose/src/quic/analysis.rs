//! All that is said of QUIC in a capture.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use record::Nanos;
use record::conversation::{Side, Way};
use record::dns::names;
use record::quic::{Outcome, QuicConnection, QuicFinding};
use wire::packet::quic::{error_name, version_name};

use super::conversation::{Conversation, Lost};
use super::{Path, Quic, Totals, findings};
use crate::dns::Dns;
use crate::drawn::{Begun, packets_of};
use crate::tls::Moment;

/// A client that sent its hello again and heard nothing for this long, had no answer: ns.
const GIVEN_UP: u64 = 1_000_000_000;
/// A TCP connection that begins this long after QUIC did is no fall-back from it, ns.
const FALL_BACK: u64 = 15_000_000_000;

/// A TCP connection, for those that may have fallen back to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside {
    /// Its number.
    pub(crate) number: u64,
    /// Its client.
    pub(crate) client: IpAddr,
    /// Its server.
    pub(crate) server: IpAddr,
    /// Its first packet.
    pub(crate) start: u64,
    /// The capture holds packets to its client.
    pub(crate) is_answered: bool,
}

/// A connection, for those who look for what it was made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached<'a> {
    pub(crate) row: &'a QuicConnection,
    /// The last packet of the server, and of the client.
    pub(crate) end: u64,
}

/// What the capture shows around a connection.
struct Around<'b> {
    /// Its latest packet.
    latest: u64,
    /// Clients that had an answer of any kind, so that the capture holds both directions.
    answered: HashSet<IpAddr>,
    beside: &'b [Beside],
    /// By the first packet of a connection, where it may have gone on.
    moved: HashMap<u64, Path>,
}

/// A connection in numbers.
#[derive(Clone, Debug)]
pub(super) struct Case<'a> {
    pub(super) of: &'a Conversation,
    pub(super) row: QuicConnection,
    /// What the client fell back to.
    pub(super) fell_back: Option<Beside>,
}

/// Connections and findings.
#[derive(Debug)]
pub struct Analysis<'a> {
    cases: Vec<Case<'a>>,
    findings: Vec<QuicFinding>,
    totals: Totals,
}

impl<'a> Analysis<'a> {
    /// `beside` are the TCP connections of the clients of [`Quic::silent`], in the order of their
    /// beginnings.
    pub(crate) fn new(quic: &'a Quic, dns: &Dns, beside: &[Beside]) -> Self {
        let by_quic = quic.all.iter().filter(|c| c.heard.is_some()).map(|c| c.client.ip());
        let by_tcp = beside.iter().filter(|b| b.is_answered).map(|b| b.client);
        let all = Around {
            latest: dns.latest().max(quic.until),
            answered: by_quic.chain(by_tcp).chain(dns.answered()).collect(),
            beside,
            moved: quic.may_have_moved(),
        };
        let cases: Vec<Case<'_>> = (1..).zip(quic.certain()).map(|(number, c)| Case::new(number, c, &all)).collect();
        let findings = findings::draw(&cases);
        Self { cases, findings, totals: quic.totals() }
    }

    /// The connections, in the order of their first packets.
    pub fn connections(&self) -> impl ExactSizeIterator<Item = &QuicConnection> + '_ {
        self.cases.iter().map(|case| &case.row)
    }

    /// What was found, the costliest first.
    pub fn findings(&self) -> &[QuicFinding] {
        &self.findings
    }

    /// Counts over everything.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The names that clients asked for, by the addresses of the servers, the latest first.
    pub fn names(&self) -> BTreeMap<IpAddr, Vec<String>> {
        names(self.connections().filter_map(QuicConnection::named))
    }

    pub(crate) fn reached(&self) -> impl Iterator<Item = Reached<'_>> {
        self.cases.iter().map(|case| Reached { row: &case.row, end: case.of.last.at })
    }
}

impl Quic {
    /// The client of each connection that had no answer.
    pub(crate) fn silent(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.all.iter().filter(|c| c.heard.is_none()).map(|c| c.client.ip())
    }
}

impl Begun for Case<'_> {
    fn number(&self) -> u64 {
        self.row.number
    }

    fn place(&self) -> u64 {
        self.row.number
    }

    fn client(&self) -> IpAddr {
        self.row.client.ip()
    }

    fn asked(&self) -> (SocketAddr, Option<&str>) {
        (self.row.server, self.row.name.as_deref())
    }

    fn packets(&self) -> Vec<u64> {
        let c = self.of;
        let sent_back = [c.negotiation, c.retry].map(|back| back.map(|(m, _)| m));
        let all = [Some(c.began), c.renewed, c.again, c.answered, c.flight_end, c.word.or(c.done), c.last_probe];
        let ends = [c.close.map(|(.., m)| m), c.unreachable];
        packets_of(all.into_iter().chain(sent_back).chain(ends).flatten())
    }
}

impl<'a> Case<'a> {
    fn new(number: u64, of: &'a Conversation, around: &Around<'_>) -> Self {
        let is_next = |b: &&Beside| {
            (b.client, b.server) == (of.client.ip(), of.server.ip())
                && b.start >= of.began.at
                && b.start - of.began.at <= FALL_BACK
        };
        let fell_back = around.beside.iter().find(is_next).copied().filter(|_| of.heard.is_none());
        let mut case = Self { of, row: QuicConnection::blank(), fell_back };
        case.row = QuicConnection { number, ..case.make(around) };
        case
    }

    fn make(&self, around: &Around<'_>) -> QuicConnection {
        let c = self.of;
        let mut row = QuicConnection { client: c.client, server: c.server, ..QuicConnection::blank() };
        row.version = version_name(c.version).into_owned();
        row.first_version = version_name(c.first_version).into_owned();
        if let Some(hello) = &c.hello {
            row.name.clone_from(&hello.server_name);
            row.offered_protocols = hello.protocols.join(" ");
            row.idle_timeout_ns = hello.idle_timeout.map(|ms| Nanos(ms.saturating_mul(1_000_000)));
        }
        row.cipher = c.answer.as_ref().map(|answer| answer.cipher.into());
        row.server_versions = c.versions.iter().map(|v| version_name(*v)).collect::<Vec<_>>().join(", ");
        row.retried = c.retry.is_some();
        (row.original_id, row.client_id) = (c.original.to_string(), c.client_id.to_string());
        row.server_id = c.server_id.map(|id| id.to_string());
        (row.hello_bytes, row.hello_datagrams) = (c.hello_bytes.into(), c.hello_datagrams.into());
        (row.flight_bytes, row.limited_ns) = (c.flight_bytes, Nanos(c.limit.held));
        (row.probes, row.probes_ns, row.early_packets) = (c.probes, Nanos(c.probes_waited), c.early);
        let refused = c.answer.as_ref().is_some_and(|answer| !answer.is_retry && !answer.has_pre_shared_key);
        row.early_accepted = (c.early > 0 && refused).then_some(false);
        if let Some((by, code, by_application, _)) = c.close {
            row.closed_by = Some(by);
            row.error = Some(if by_application {
                format!("the application's error {code:#x}")
            } else {
                error_name(code).into_owned()
            });
        }
        row.start_ns = Nanos(c.began.at);
        row.duration_ns = Nanos(c.last.at.saturating_sub(c.began.at));
        row.request_ns = c.done.map(|m| Nanos(m.at));
        row.answer_ns = c.data.map(|m| Nanos(m.at));
        (row.moves, row.moved_to) = (c.moves, crate::dns::joined(&c.moved_to));
        row.longest_pause_ns = Nanos(c.longest_pause);
        self.flows(&mut row);
        self.spin(&mut row);
        self.time(&mut row);
        (row.outcome, row.withheld) = self.outcome(around);
        row.packets = crate::dns::joined(&self.packets());
        row
    }

    fn flows(&self, row: &mut QuicConnection) {
        let [client, server] = &self.of.flows;
        (row.client_datagrams, row.client_bytes) = (client.datagrams, client.bytes);
        (row.server_datagrams, row.server_bytes) = (server.datagrams, server.bytes);
        (row.client_ect, row.client_ce) = (client.ect, client.ce);
        (row.server_ect, row.server_ce) = (server.ect, server.ce);
        (row.client_first_size, row.server_first_size) = (client.first_size.into(), server.first_size.into());
        (row.client_size, row.client_size_datagrams) = (client.size.into(), client.of_size);
        (row.server_size, row.server_size_datagrams) = (server.size.into(), server.of_size);
    }

    fn spin(&self, row: &mut QuicConnection) {
        let spin = &self.of.spin;
        row.spin = spin.seen();
        let known = |trip: u64| Some(trip).filter(|trip| *trip != u64::MAX).map(Nanos);
        let mut shortest = [self.of.to_server, self.of.to_client];
        if let Some(trips) = spin.trips() {
            row.spin_samples = trips.count();
            (row.spin_min_ns, row.spin_median_ns) = (trips.min(), trips.quantile(0.5));
            shortest =
                [Way::ToServer, Way::ToClient].map(|way| spin.shortest[way as usize].min(shortest[way as usize]));
        }
        [row.to_server_ns, row.to_client_ns] = shortest.map(known);
    }

    /// The parts, each from the end of the one before, and whether the server was waited for.
    fn time(&self, row: &mut QuicConnection) {
        let c = self.of;
        let mut from = c.began.at;
        // Clocks of captures step.
        let mut until = |to: Moment| {
            let took = to.at.saturating_sub(from);
            from = from.max(to.at);
            took
        };
        row.negotiation_ns = Nanos(c.renewed.map_or(0, &mut until));
        row.retry_ns = Nanos(c.again.map_or(0, &mut until));
        if c.missing == Some(super::Missing::Beginning) {
            return;
        }
        let Some(hello) = c.answered.map(&mut until) else { return };
        row.hello_ns = Some(Nanos(hello));
        let spun = c.spin.trips().map_or(u64::MAX, |_| c.spin.shortest[Way::ToServer as usize]);
        let trip = Some(c.apart.min(spun)).filter(|trip| *trip != u64::MAX).or_else(|| c.confirmed());
        let repairs = if c.lost == Some(Lost::Nothing) { 0 } else { c.probes_waited };
        // Of packets that cannot be read, it is not known which are the client's hello again.
        row.server_wait_ns =
            trip.filter(|_| c.missing.is_none()).map(|trip| Nanos(hello.saturating_sub(trip).saturating_sub(repairs)));
        if row.to_server_ns.is_none_or(|shortest| trip.is_some_and(|trip| trip < shortest.0)) {
            row.to_server_ns = trip.map(Nanos);
        }
        let (Some(done), Some(flight)) = (c.done, c.flight_end.or(c.flight)) else { return };
        let (flight, client) = (until(flight), until(c.word.unwrap_or(done)));
        (row.flight_ns, row.client_ns) = (Some(Nanos(flight)), Some(Nanos(client)));
        // A part is no longer than its whole: what was sent after the client's last word was not
        // waited for.
        row.limited_ns = row.limited_ns.min(Nanos(flight));
        row.took_ns = Some(row.negotiation_ns + row.retry_ns + Nanos(hello + flight + client));
    }

    fn outcome(&self, around: &Around<'_>) -> (Outcome, Option<String>) {
        let c = self.of;
        let moved = around.moved.get(&c.began.packet).map(|path| {
            format!(
                "datagrams from {} to this server begin {} after it did, and no handshake with them: it may have gone on \
                 there with a new connection ID, by which only the two sides know it",
                path.from,
                Nanos(path.first.at.saturating_sub(c.began.at))
            )
        });
        let missing = c.missing.map(|missing| missing.reason().to_owned()).or(moved);
        if c.done.is_some() {
            return (Outcome::Done, missing);
        }
        let is_silent = c.heard.is_none() && c.retry.is_none() && c.negotiation.is_none() && !c.has_answer;
        // A client that was never answered may close what it began when it gives up.
        let is_given_up = is_silent && c.close.is_some_and(|(by, ..)| by == Side::Client);
        if c.close.is_some() && !is_given_up {
            return (Outcome::Failed, missing);
        }
        let after = around.latest.saturating_sub(c.last.at);
        let is_heard = around.answered.contains(&c.client.ip());
        if is_silent && c.unreachable.is_some() {
            return (Outcome::Unreachable, missing);
        }
        // A client that goes on with TCP, and sends no hello after that, has given up.
        let gave_up = is_given_up
            || after >= GIVEN_UP
            || self.fell_back.is_some_and(|tcp| tcp.is_answered && tcp.start >= c.last.at);
        // One that sends its hello again shows that it had no answer, also where the capture holds
        // no other packet to it.
        let shows_silence = c.probes_waited >= GIVEN_UP;
        if is_silent && (shows_silence || is_heard && c.probes > 0 && gave_up) {
            return (Outcome::Unanswered, missing);
        }
        let why = match (missing, is_silent, c.probes) {
            (Some(missing), ..) => missing,
            (None, true, 0) => {
                "the server's answer is not in the capture, and the client did not ask again: the capture may hold one \
                 direction only"
                    .into()
            }
            (None, false, _) if c.heard.is_none() && c.has_answer => {
                "the client acts on an answer that is not in the capture, which may hold one direction only".into()
            }
            (None, true, _) if !is_heard => {
                "the capture holds no packet to this client, so that it may hold one direction only".into()
            }
            (None, true, _) => format!("the capture ends {} after the client's last packet", Nanos(after)),
            (None, false, _) => "the end of its handshake is not in the capture".into(),
        };
        (Outcome::NotKnown, Some(why))
    }
}
