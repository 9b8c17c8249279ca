//! All that the network said in a capture, beside what it is about.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;

use record::Nanos;
use record::conversation::Way;
use record::network::{Echo, IcmpError, Incomplete, Neighbour, NetworkFinding, Says, Transport};
use record::udp::UdpConversation;
use wire::packet::{Icmp, ip_protocol};

use super::echoes::{Run, Unanswered};
use super::errors::Errors;
use super::neighbours::Question;
use super::{Network, Totals, findings};
use crate::connection::Connection;
use crate::dns::joined;

/// How long after a question a capture must go on for it to be without an answer: Linux asks again
/// after 1 s.
const GIVEN_UP: u64 = 1_000_000_000;
/// How long fragments are waited for. Those of one packet leave together.
const FRAGMENTS: u64 = 1_000_000_000;

/// A connection of TCP that errors, or fragments, are about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside {
    pub(crate) number: u64,
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
    /// Its first packet: when, and its number.
    pub(crate) start: u64,
    pub(crate) first_packet: u64,
    /// The server answered at all.
    pub(crate) is_answered: bool,
    /// The hops that its client's first packet had to live, at the capture.
    pub(crate) ttl: u8,
}

impl Beside {
    pub(crate) fn new(number: u64, c: &Connection) -> Self {
        Self {
            number,
            client: c.client(),
            server: c.server(),
            start: c.first_syn_at.map_or(c.first_at, NonZeroU64::get),
            first_packet: c.first_number,
            is_answered: c.halves[Way::ToClient].count.packets > 0,
            ttl: c.halves[Way::ToServer].datagrams.first_ttl(),
        }
    }
}

/// An error with what it is about.
#[derive(Clone, Debug)]
pub(super) struct ErrorCase<'a> {
    pub(super) row: IcmpError,
    pub(super) of: &'a Errors,
    pub(super) tcp: Option<Beside>,
    pub(super) udp: Option<&'a UdpConversation>,
}

/// A run of echoes.
#[derive(Clone, Debug)]
pub(super) struct EchoCase {
    pub(super) row: Echo,
    pub(super) unanswered: Unanswered,
}

/// A question who has an address.
#[derive(Clone, Debug)]
pub(super) struct NeighbourCase<'a> {
    pub(super) row: Neighbour,
    pub(super) of: &'a Question,
}

/// What rules are given.
#[derive(Clone, Debug)]
pub(super) struct View<'a> {
    pub(super) errors: Vec<ErrorCase<'a>>,
    pub(super) echoes: Vec<EchoCase>,
    pub(super) neighbours: Vec<NeighbourCase<'a>>,
    pub(super) incomplete: Vec<Incomplete>,
}

/// Errors, echoes, neighbours, incomplete packets and findings.
#[derive(Debug)]
pub struct Analysis {
    errors: Vec<IcmpError>,
    echoes: Vec<Echo>,
    neighbours: Vec<Neighbour>,
    incomplete: Vec<Incomplete>,
    findings: Vec<NetworkFinding>,
    totals: Totals,
}

impl Network {
    /// The ends of the packets of TCP that something was said of.
    pub(crate) fn tcp_ends(&self) -> HashSet<[SocketAddr; 2]> {
        let errors = self.errors.all.iter().filter(|e| e.transport == Some(Transport::Tcp));
        let ends = errors.map(|e| [e.sender, e.receiver]);
        let fragments = self.fragments.all.iter().filter(|f| f.protocol == ip_protocol::TCP);
        let ports = fragments.filter_map(|f| f.ports.map(|[a, b]| [(f.source, a), (f.destination, b)]));
        ends.chain(ports.map(|ends| ends.map(SocketAddr::from))).collect()
    }
}

impl Analysis {
    /// `tcp` are the connections of [`Network::tcp_ends`] in the order of their first packets,
    /// `latest` is the last packet of the capture.
    pub(crate) fn new<'a>(
        network: &'a Network,
        tcp: &[Beside],
        udp: impl Iterator<Item = &'a UdpConversation>,
        latest: u64,
    ) -> Self {
        let latest = latest.max(network.until);
        let udp: HashMap<[SocketAddr; 2], &UdpConversation> = udp.map(|c| ([c.client, c.server], c)).collect();
        let udp = |a, b| udp.get(&[a, b]).or_else(|| udp.get(&[b, a])).copied();
        let tcp = |a, b, packet| {
            let is_it = |t: &&Beside| [[t.client, t.server], [t.server, t.client]].contains(&[a, b]);
            tcp.iter().filter(is_it).take_while(|t| t.first_packet <= packet).last().copied()
        };
        let errors = (1..).zip(&network.errors.all).map(|(number, of)| {
            let is = |transport| of.transport == Some(transport);
            let tcp = is(Transport::Tcp).then(|| tcp(of.sender, of.receiver, of.first.packet)).flatten();
            let udp = is(Transport::Udp).then(|| udp(of.sender, of.receiver)).flatten();
            ErrorCase { row: error(number, of, (tcp, udp)), of, tcp, udp }
        });
        let answered = network.echoes.all.iter().filter(|run| run.answered > 0).map(|run| run.client);
        let heard: HashSet<IpAddr> = answered.chain(network.errors.all.iter().map(|e| e.sender.ip())).collect();
        let echoes = (1..).zip(&network.echoes.all).map(|(number, run)| echo(number, run, &heard, latest));
        let resolved = network.neighbours.all.iter().filter(|q| q.answer.is_some()).map(|q| q.client);
        let resolved: HashSet<IpAddr> = resolved.collect();
        let neighbours = (1..).zip(&network.neighbours.all);
        let neighbours =
            neighbours.map(|(number, of)| NeighbourCase { row: neighbour(number, of, &resolved, latest), of });
        let over = network.fragments.all.iter().filter(|f| latest.saturating_sub(f.at.as_nanos()) >= FRAGMENTS);
        let incomplete = (1..).zip(over).map(|(number, f)| {
            let ends = f.ports.map(|[a, b]| [SocketAddr::from((f.source, a)), SocketAddr::from((f.destination, b))]);
            let is = |protocol| ends.filter(|_| f.protocol == protocol);
            Incomplete {
                number,
                source: f.source,
                destination: f.destination,
                protocol: f.protocol.into(),
                identification: f.identification.into(),
                source_port: f.ports.map(|[port, _]| port.into()),
                destination_port: f.ports.map(|[_, port]| port.into()),
                fragments: f.fragments,
                bytes: f.bytes,
                missing: f.missing,
                start_ns: Nanos(f.at.as_nanos()),
                first_packet: f.number,
                connection: is(ip_protocol::TCP).and_then(|[a, b]| tcp(a, b, f.number)).map(|t| t.number),
                conversation: is(ip_protocol::UDP).and_then(|[a, b]| udp(a, b)).map(|c| c.number),
            }
        });
        let view = View {
            errors: errors.collect(),
            echoes: echoes.collect(),
            neighbours: neighbours.collect(),
            incomplete: incomplete.collect(),
        };
        let findings = findings::draw(&view);
        let totals = Totals { incomplete: view.incomplete.len() as u64, ..network.totals() };
        Self {
            errors: view.errors.into_iter().map(|case| case.row).collect(),
            echoes: view.echoes.into_iter().map(|case| case.row).collect(),
            neighbours: view.neighbours.into_iter().map(|case| case.row).collect(),
            incomplete: view.incomplete,
            findings,
            totals,
        }
    }

    /// The errors of ICMP, in the order of the first of each.
    pub fn errors(&self) -> &[IcmpError] {
        &self.errors
    }

    /// The echoes, in the order of their first packets.
    pub fn echoes(&self) -> &[Echo] {
        &self.echoes
    }

    /// The questions who has an address, in their order.
    pub fn neighbours(&self) -> &[Neighbour] {
        &self.neighbours
    }

    /// The packets of which fragments never came, in their order.
    pub fn incomplete(&self) -> &[Incomplete] {
        &self.incomplete
    }

    /// What was found, the costliest first.
    pub fn findings(&self) -> &[NetworkFinding] {
        &self.findings
    }

    /// Counts over everything.
    pub fn totals(&self) -> Totals {
        self.totals
    }
}

fn error(number: u64, of: &Errors, (tcp, udp): (Option<Beside>, Option<&UdpConversation>)) -> IcmpError {
    IcmpError {
        number,
        source: of.source,
        says: of.says(),
        kind: of.kind.into(),
        code: of.code.into(),
        meaning: Icmp::meaning(of.v6, of.kind, of.code).to_owned(),
        transport: of.transport,
        sender: of.sender,
        receiver: of.receiver,
        connection: tcp.map(|t| t.number),
        conversation: udp.map(|c| c.number),
        count: of.count,
        start_ns: Nanos(of.first.at),
        duration_ns: Nanos(of.last.at.saturating_sub(of.first.at)),
        mtu: of.mtu.filter(|_| of.says() == Says::TooBig).map(u64::from),
        larger: of.larger,
        obeyed: of.obeyed(),
        first_packet: of.first.packet,
    }
}

fn echo(number: u64, run: &Run, heard: &HashSet<IpAddr>, latest: u64) -> EchoCase {
    let mut unanswered = run.unanswered(latest);
    let is_open = unanswered.lost + unanswered.not_known > 0;
    let withheld = match (is_open, heard.contains(&run.client), unanswered.not_known) {
        (true, false, _) => {
            unanswered.not_known += std::mem::take(&mut unanswered.lost);
            Some("the capture holds no answer to this client, so that it may hold one direction only".to_owned())
        }
        (true, true, 1..) => {
            Some(format!("the capture ends within 2 s of {}", quantity::counted(unanswered.not_known, "request")))
        }
        _ => None,
    };
    let row = Echo {
        number,
        client: run.client,
        server: run.server,
        identifier: run.identifier.into(),
        sent: run.sent,
        answered: run.answered,
        lost: unanswered.lost,
        not_known: unanswered.not_known,
        duplicated: run.duplicated,
        start_ns: Nanos(run.first.at),
        duration_ns: Nanos(run.last.at.saturating_sub(run.first.at)),
        min_ns: run.times.min(),
        median_ns: run.times.quantile(0.5),
        max_ns: run.times.max(),
        first_packet: run.first.packet,
        withheld,
    };
    EchoCase { row, unanswered }
}

fn neighbour(number: u64, of: &Question, resolved: &HashSet<IpAddr>, latest: u64) -> Neighbour {
    let after = latest.saturating_sub(of.last.at);
    // A host that asks a third time had no answer before, and Linux does not ask a fourth time.
    let is_heard = resolved.contains(&of.client) || of.tries >= 3;
    let (answered, withheld) = match (of.answer, is_heard, after) {
        (Some(_), ..) => (Some(true), None),
        (None, false, _) => {
            (None, Some("the capture holds no answer to this host, so that it may hold one direction only".to_owned()))
        }
        (None, true, ..GIVEN_UP) => (None, Some(format!("the capture ends {} after the last question", Nanos(after)))),
        (None, true, _) => (Some(false), None),
    };
    let hardware = |hardware: [u8; 6]| hardware.map(|byte| format!("{byte:02x}")).join(":");
    Neighbour {
        number,
        protocol: of.protocol,
        client: of.client,
        address: of.address,
        tries: of.tries,
        answered,
        hardware: of.answer.and_then(|(_, of)| of).map(hardware),
        start_ns: Nanos(of.first.at),
        last_try_ns: Nanos(of.last.at.saturating_sub(of.first.at)),
        took_ns: of.answer.map(|(answer, _)| Nanos(answer.at.saturating_sub(of.first.at))),
        packets: joined(&of.packets),
        withheld,
    }
}
