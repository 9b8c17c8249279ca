//! All that is said of UDP in a capture.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use record::Nanos;
use record::conversation::Way;
use record::quic::QuicConnection;
use record::udp::{KnownBy, Numbering, Sent, Shape, UdpConversation, UdpFinding, UdpStream};

use super::conversation::Conversation;
use super::numbers::Numbers;
use super::turns::Open;
use super::{Held, Totals, Udp, findings};
use crate::dns::Dns;
use crate::drawn::Begun;

/// How long after a request that was repeated a capture must go on for it to be without an
/// answer, ns.
const GIVEN_UP: u64 = 5_000_000_000;
/// So many datagrams of both sides for each request, at most, are by turns: of a protocol that has
/// answers, and of any other.
const PER_TURN: [u64; 2] = [8, 3];

/// Protocols whose requests are answered, as names of [`wire::packet::named`].
const ANSWERED: [&str; 12] = [
    "CLDAP",
    "CoAP",
    "IKE",
    "Kerberos",
    "NetBIOS names",
    "NFS",
    "NTP",
    "RADIUS",
    "RPC portmapper",
    "SIP",
    "SNMP",
    "STUN",
];
/// Protocols that encrypt what both sides send without taking turns.
const TUNNELS: [&str; 4] = ["DTLS", "IPsec NAT traversal", "OpenVPN", "WireGuard"];

/// What the capture shows around a conversation.
struct Around {
    /// Its latest packet.
    latest: u64,
    /// Hosts to which packets of UDP came.
    heard: HashSet<IpAddr>,
    /// Servers that answered.
    answering: HashSet<SocketAddr>,
    quic: HashMap<(SocketAddr, SocketAddr), u64>,
}

/// A conversation in numbers.
#[derive(Clone, Debug)]
pub(super) struct Case<'a> {
    pub(super) row: UdpConversation,
    pub(super) streams: Vec<(UdpStream, &'a Numbers)>,
    /// What there is of one with more than a single datagram.
    pub(super) of: Option<&'a Conversation>,
    /// A request that was given up.
    pub(super) given_up: Option<&'a Open>,
}

/// Conversations, numbered streams and findings.
#[derive(Debug)]
pub struct Analysis<'a> {
    cases: Vec<Case<'a>>,
    findings: Vec<UdpFinding>,
    totals: Totals,
}

impl<'a> Analysis<'a> {
    pub(crate) fn new<'q>(udp: &'a Udp, dns: &Dns, quic: impl Iterator<Item = &'q QuicConnection>) -> Self {
        let more = || udp.all.iter().filter_map(|held| if let Held::More(c) = held { Some(&**c) } else { None });
        let heard = more().filter(|c| c.flow(Way::ToClient).datagrams > 0).map(|c| c.client().ip());
        let around = Around {
            latest: udp.until.max(dns.latest()),
            heard: heard.chain(dns.answered()).collect(),
            answering: more().filter(|c| c.turns.answered > 0).map(|c| c.server()).collect(),
            quic: quic.map(|c| ((c.client, c.server), c.number)).collect(),
        };
        let cases: Vec<Case<'_>> = (1..).zip(&udp.all).map(|(number, held)| Case::new(number, held, &around)).collect();
        let findings = findings::draw(&cases);
        Self { cases, findings, totals: udp.totals() }
    }

    /// The conversations, in the order of their first packets.
    pub fn conversations(&self) -> impl ExactSizeIterator<Item = &UdpConversation> + '_ {
        self.cases.iter().map(|case| &case.row)
    }

    /// The numbered streams, conversation by conversation.
    pub fn streams(&self) -> impl Iterator<Item = &UdpStream> + '_ {
        self.cases.iter().flat_map(|case| case.streams.iter().map(|(row, _)| row))
    }

    /// What was found, the costliest first.
    pub fn findings(&self) -> &[UdpFinding] {
        &self.findings
    }

    /// Counts over everything.
    pub fn totals(&self) -> Totals {
        self.totals
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
        (self.row.server, None)
    }

    fn packets(&self) -> Vec<u64> {
        let turns = self.of.map(|c| &c.turns);
        let answers = turns.map(|turns| [turns.late, turns.slowest]).into_iter().flatten().flatten();
        let mut packets: Vec<u64> = answers.flat_map(|a| [a.asked.packet, a.answered.packet]).collect();
        packets.extend(self.given_up.into_iter().flat_map(|open| &open.packets));
        let passed = turns.and_then(|turns| turns.passed()).into_iter();
        packets.extend(passed.flat_map(|(_, from, to)| [from.packet, to.packet]));
        for (_, numbers) in &self.streams {
            packets.extend(numbers.after_loss().into_iter().flatten().chain(numbers.jittery).map(|m| m.packet));
            packets.extend(numbers.pause().into_iter().flat_map(|(pause, _)| [pause.from.packet, pause.to.packet]));
        }
        packets.sort_unstable();
        packets.dedup();
        packets
    }
}

/// Whether what is sent to an address may be for several hosts, which may answer from their own.
fn is_group(to: IpAddr) -> bool {
    match to {
        // The last address of most networks is that of all of their hosts.
        IpAddr::V4(to) => to.is_multicast() || to.octets()[3] == 255,
        IpAddr::V6(to) => to.is_multicast(),
    }
}

impl<'a> Case<'a> {
    fn new(number: u64, held: &'a Held, around: &Around) -> Self {
        let row = UdpConversation { number, ..UdpConversation::blank() };
        let mut case = Self { row, streams: Vec::new(), of: None, given_up: None };
        match held {
            Held::One(one) => case.make(&one.conversation(), around),
            Held::More(c) => {
                for way in [Way::ToServer, Way::ToClient] {
                    case.streams.extend(c.flow(way).streams().iter().map(|of| (of.row(number, way), of)));
                }
                case.of = Some(c);
                case.given_up = case.given_up(c, around);
                case.make(c, around);
            }
        }
        case
    }

    fn make(&mut self, c: &Conversation, around: &Around) {
        let row = &mut self.row;
        (row.client, row.server, row.first_packet) = (c.client(), c.server(), c.first_packet);
        row.start_ns = Nanos(c.first_at);
        row.hops = c.hops.into();
        row.duration_ns = Nanos(c.last_at.saturating_sub(c.first_at));
        let numbered = self.streams.first().map(|(stream, _)| (stream.numbering.words(), KnownBy::Payload));
        let protocol = c.protocol.filter(|(_, by)| numbered.is_none() || *by == KnownBy::Payload);
        let ends = [(row.client, row.server), (row.server, row.client)];
        row.quic = ends.iter().find_map(|ends| around.quic.get(ends)).copied();
        let protocol = row.quic.map(|_| ("QUIC", KnownBy::Payload)).or(protocol).or(numbered);
        (row.protocol, row.known_by) = (protocol.map(|(name, _)| name.to_owned()), protocol.map(|(_, by)| by));
        let [client, server] = &c.flows;
        (row.by_client, row.by_server) = (client.sent(), server.sent());
        row.shape = shape(c, protocol.map(|(name, _)| name), &self.streams);
        if row.shape != Shape::BothWays && row.quic.is_none() {
            let turns = &c.turns;
            let passed = turns.passed().map_or(0, |(count, ..)| count);
            (row.requests, row.answered, row.repeated) = (turns.requests + passed, turns.answered, turns.repeated);
            (row.answer_min_ns, row.answer_median_ns) = (turns.times.min(), turns.times.quantile(0.5));
            row.answer_max_ns = turns.times.max();
        }
        self.row.withheld = self.withheld(c, around);
        self.row.verdict = verdict(&self.row, &self.streams, self.given_up);
    }

    /// The request that nobody answered, if the capture shows that.
    fn given_up(&self, c: &'a Conversation, around: &Around) -> Option<&'a Open> {
        let open = c.turns.open.as_deref().filter(|open| open.tries > 1 && self.streams.is_empty())?;
        let is_over = around.latest.saturating_sub(open.last.at) >= GIVEN_UP;
        (is_over && is_heard(c, around) && expects_answer(c, around)).then_some(open)
    }

    fn withheld(&self, c: &Conversation, around: &Around) -> Option<String> {
        if let Some((_, of)) = self.streams.iter().find(|(stream, _)| stream.clock_hz.is_none())
            && of.row(0, Way::ToServer).payload_type.is_some()
        {
            return Some("its stamps agree with no clock of RTP, so that its jitter is not known".into());
        }
        let open = c.turns.open.as_deref().filter(|_| self.streams.is_empty() && self.given_up.is_none())?;
        if !expects_answer(c, around) {
            return None;
        }
        let after = around.latest.saturating_sub(open.last.at);
        if !is_heard(c, around) {
            return Some(
                "the capture holds no packet of UDP to this client, so that it may hold one direction only".into(),
            );
        }
        if after < GIVEN_UP {
            return Some(format!("the capture ends {} after the last request", Nanos(after)));
        }
        Some("the last request has no answer in the capture, and was not repeated".into())
    }
}

fn is_heard(c: &Conversation, around: &Around) -> bool {
    around.heard.contains(&c.client().ip())
}

/// Whether the other end answers others, or its protocol has answers.
fn expects_answer(c: &Conversation, around: &Around) -> bool {
    let has_answers = c.protocol.is_some_and(|(name, _)| ANSWERED.contains(&name));
    !is_group(c.server().ip()) && (has_answers || around.answering.contains(&c.server()))
}

fn shape(c: &Conversation, protocol: Option<&str>, streams: &[(UdpStream, &Numbers)]) -> Shape {
    let [client, server] = &c.flows;
    if client.datagrams == 0 || server.datagrams == 0 {
        return Shape::OneWay;
    }
    let is_tunnel = protocol.is_some_and(|name| TUNNELS.contains(&name) || name == "QUIC");
    // What irtt numbers is sent back with its number.
    let both = [Way::ToServer, Way::ToClient]
        .iter()
        .all(|way| streams.iter().any(|(s, _)| s.way == *way && s.numbering != Numbering::Irtt));
    let turns = &c.turns;
    let has_answers = protocol.is_some_and(|name| ANSWERED.contains(&name));
    let per_turn = PER_TURN[usize::from(!has_answers)];
    let by_turns = turns.answered > 0 && client.datagrams + server.datagrams <= per_turn * turns.requests;
    if by_turns && !both && !is_tunnel && turns.unasked == 0 { Shape::RequestResponse } else { Shape::BothWays }
}

/// What is said of a conversation in one line.
fn verdict(row: &UdpConversation, streams: &[(UdpStream, &Numbers)], given_up: Option<&Open>) -> String {
    let mut parts = Vec::new();
    match row.shape {
        Shape::RequestResponse => {
            let requests = quantity::counted(row.requests, "request");
            let times = match (row.answer_median_ns, row.answer_max_ns) {
                (Some(median), Some(max)) if row.answered > 1 => format!(": median {median}, longest {max}"),
                (_, Some(max)) => format!(" after {max}"),
                _ => String::new(),
            };
            parts.push(format!("{requests}, {} answered{times}", quantity::count(row.answered)));
        }
        Shape::OneWay if row.by_server.datagrams == 0 => parts.push(sent(&row.by_client, row.duration_ns)),
        Shape::OneWay => parts.push(sent(&row.by_server, row.duration_ns)),
        Shape::BothWays => {
            let [up, down] = [&row.by_client, &row.by_server].map(|by| sent(by, row.duration_ns));
            parts.push(format!("both ways: {up} from the client, {down} from the server"));
        }
    }
    if let Some(open) = given_up {
        parts.push(format!("nobody answered the last request, which was sent {} times", open.tries));
    }
    for (stream, _) in streams {
        let lost = match stream.lost {
            0 => "nothing lost".to_owned(),
            n => format!(
                "{} of {} lost before the capture ({})",
                quantity::count(n),
                quantity::count(stream.expected),
                quantity::percent(quantity::share(n.into(), stream.expected.into()))
            ),
        };
        let jitter = stream.jitter_ns.map(|jitter| format!(", jitter {jitter}")).unwrap_or_default();
        let counted =
            |n: u64, what: &str| if n > 0 { format!(", {} {what}", quantity::count(n)) } else { String::new() };
        let (again, late) = (counted(stream.duplicated, "came again"), counted(stream.reordered, "out of order"));
        parts.push(format!("{} {}: {lost}{again}{late}{jitter}", stream.numbering.words(), stream.way.words()));
    }
    parts.join("; ")
}

/// The datagrams of one side in words.
fn sent(by: &Sent, took: Nanos) -> String {
    let datagrams = quantity::counted(by.datagrams, "datagram");
    let size = match (by.smallest, by.largest) {
        (small, large) if small == large => format!("{} bytes", quantity::count(large)),
        (small, large) => format!("{} to {} bytes", quantity::count(small), quantity::count(large)),
    };
    // A rate needs times between datagrams.
    let rate = Some(took.0).filter(|took| by.datagrams > 2 && *took > 0);
    let rate = rate.map(|took| format!(" at {}", quantity::bit_rate(by.bytes as f64 * 8e9 / took as f64)));
    format!("{datagrams} of {size}{}", rate.unwrap_or_default())
}
