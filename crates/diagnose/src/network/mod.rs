//! What the network itself says in a capture: errors of ICMP and what their receivers made of them,
//! echoes, who has an address on a link, and packets of which fragments never came.
//!
//! Packets come one by one ([`Network::icmp`], [`Network::arp`], [`Network::unfinished`]), and what
//! senders send once a router has told them a size ([`Network::sent`]). At the end, each is put
//! beside the conversation that it is about, and findings are drawn.

mod analysis;
mod echoes;
mod errors;
mod findings;
mod fragments;
mod neighbours;
mod next_hops;

use std::net::{IpAddr, SocketAddr};

use record::conversation::Verdict;
use record::network::{Resolving, Says, Transport};
use record::{Nanos, columns, inside};
use wire::Segment;
use wire::packet::{Arp, Icmp, NeighbourOf, Udp, Unfinished};

use crate::report::Report;
use crate::tls::Moment;
pub use analysis::Analysis;
pub(crate) use analysis::Beside;
use echoes::Echoes;
use errors::AllErrors;
use fragments::Fragments;
use neighbours::Neighbours;
pub(crate) use next_hops::{NextHop, NextHops};

/// Counts over everything that the network said in a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages of ICMP and ICMPv6.
    pub icmp: u64,
    /// Errors among them.
    pub errors: u64,
    /// Echo requests and answers among them.
    pub echoes: u64,
    /// Packets of ARP, and of neighbour discovery.
    pub neighbours: u64,
    /// Packets of which fragments never came.
    pub incomplete: u64,
    /// Kinds of errors, runs of echoes, questions and packets beyond the limits.
    pub beyond_limit: u64,
}

columns! {
    Totals: "network totals", "", blank = Self::default();
    icmp = icmp, "messages of ICMP and ICMPv6";
    errors = errors, "errors among them";
    echoes = echoes, "echo requests and answers among them";
    neighbours = neighbours, "packets of ARP, and questions and answers of neighbour discovery";
    incomplete = incomplete, "packets of which fragments did not come within 1 s";
    beyond_limit = beyond_limit, "packets of kinds of errors, runs of echoes, questions and incomplete packets beyond 50,000 of each";
}
inside!(Totals);

impl Totals {
    /// What was not followed, in words.
    pub fn not_read(&self) -> Vec<String> {
        crate::unread::in_words(&[(self.beyond_limit, "packets of ICMP, ARP or fragments beyond the limit")])
    }
}

/// Follows what the network says in a capture.
#[derive(Debug)]
pub struct Network {
    errors: AllErrors,
    echoes: Echoes,
    neighbours: Neighbours,
    fragments: Fragments,
    totals: Totals,
    /// The latest packet.
    until: u64,
}

/// What ICMP said of a connection that its server never answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    /// Who said it.
    by: IpAddr,
    meaning: &'static str,
    /// It is about the port alone.
    is_port: bool,
    at: u64,
}

impl Refusal {
    /// The report of the connection, with what it says.
    pub(crate) fn told(self, report: Report) -> Report {
        let after = Nanos(self.at.saturating_sub(report.start_ns));
        let limited = format!("it never opened: {} said \"{}\" {after} after the first SYN", self.by, self.meaning);
        let step = match self.is_port {
            true => {
                format!("have something listen at TCP port {} there, or a firewall not reject it", report.server.port())
            }
            false => format!("look at the routes and firewalls of {}", self.by),
        };
        Report { verdict: Verdict { limited, finding: None, step: Some(step) }, ..report }
    }
}

impl Network {
    /// One of so many that share a capture, which has seen nothing. Errors go to the one that has
    /// the conversation that they are about, all else to one of them.
    pub fn new(shards: usize) -> Self {
        Self {
            errors: AllErrors::new(shards),
            echoes: Echoes::default(),
            neighbours: Neighbours::default(),
            fragments: Fragments::default(),
            totals: Totals::default(),
            until: 0,
        }
    }

    /// Takes the next message of ICMP, in the order of the capture.
    pub fn icmp(&mut self, icmp: &Icmp) {
        let now = Moment { at: icmp.at.as_nanos(), packet: icmp.number };
        self.until = self.until.max(now.at);
        self.totals.icmp += 1;
        if let Some(echo) = icmp.echo {
            self.totals.echoes += 1;
            self.echoes.take((icmp.source, icmp.destination), echo, now);
        }
        match icmp.neighbour {
            Some(NeighbourOf::Question { target }) => {
                self.totals.neighbours += 1;
                let is_to_all = matches!(icmp.destination, IpAddr::V6(to) if to.is_multicast());
                let is_probe = icmp.source.is_unspecified();
                if is_to_all && !is_probe {
                    self.neighbours.asks(Resolving::Discovery, (icmp.source, target), now);
                }
            }
            Some(NeighbourOf::Answer { target, hardware }) => {
                self.totals.neighbours += 1;
                self.neighbours.answers((target, icmp.destination), hardware, now);
            }
            None => {}
        }
        if icmp.is_error() {
            self.totals.errors += 1;
            self.errors.take(icmp, now);
        }
    }

    /// Takes the next packet of ARP, in the order of the capture.
    pub fn arp(&mut self, arp: &Arp) {
        let now = Moment { at: arp.at.as_nanos(), packet: arp.number };
        self.until = self.until.max(now.at);
        self.totals.neighbours += 1;
        let (sender, target) = (arp.sender.into(), arp.target.into());
        // A host that announces its address, or looks whether it is free, asks for nobody.
        let is_own = arp.sender == arp.target || arp.sender.is_unspecified();
        match arp.operation {
            Arp::QUESTION if arp.to_all && !is_own => self.neighbours.asks(Resolving::Arp, (sender, target), now),
            Arp::ANSWER => self.neighbours.answers((sender, target), Some(arp.hardware), now),
            _ => {}
        }
    }

    /// Takes a packet of which not all fragments came.
    pub fn unfinished(&mut self, unfinished: Unfinished) {
        self.totals.incomplete += 1;
        self.fragments.take(unfinished);
    }

    /// Whether [`Network::sent`] and [`Network::sent_datagram`] have anything to look for.
    pub fn watches(&self) -> bool {
        self.errors.watches()
    }

    /// A segment was sent.
    pub fn sent(&mut self, s: &Segment) {
        let header = if s.source.is_ipv6() { 40 } else { 20 };
        let bytes = header + u32::from(s.header_bytes) + s.payload;
        let now = Moment { at: s.at.as_nanos(), packet: s.number };
        self.errors.sent((s.source, s.destination), bytes, false, now);
    }

    /// A datagram was sent.
    pub fn sent_datagram(&mut self, udp: &Udp) {
        let bytes = udp.payload + if udp.source.is_ipv6() { 48 } else { 28 };
        let now = Moment { at: udp.at.as_nanos(), packet: udp.number };
        self.errors.sent((udp.source, udp.destination), bytes, udp.in_fragments, now);
    }

    /// Joins two of one capture.
    #[must_use]
    pub(crate) fn join(mut self, other: Self) -> Self {
        let Totals { icmp, errors, echoes, neighbours, incomplete, beyond_limit: _ } = other.totals;
        self.totals.icmp += icmp;
        self.totals.errors += errors;
        self.totals.echoes += echoes;
        self.totals.neighbours += neighbours;
        self.totals.incomplete += incomplete;
        self.until = self.until.max(other.until);
        self.errors = self.errors.join(other.errors);
        let is_first = self.echoes.all.is_empty() && self.neighbours.all.is_empty() && self.fragments.all.is_empty();
        if is_first {
            (self.echoes, self.neighbours, self.fragments) = (other.echoes, other.neighbours, other.fragments);
        }
        self
    }

    /// What was said of a connection of TCP that its server never answered.
    pub(crate) fn refusal(&self, client: SocketAddr, server: SocketAddr) -> Option<Refusal> {
        let on = |says| self.errors.on(Transport::Tcp, says, [client, server]);
        let errors = on(Says::Unreachable).or_else(|| on(Says::TimeExceeded))?;
        Some(Refusal {
            by: errors.source,
            meaning: Icmp::meaning(errors.v6, errors.kind, errors.code),
            is_port: errors::is_port(errors.v6, errors.kind, errors.code),
            at: errors.first.at,
        })
    }

    /// The questions who has an address that were answered, in their order.
    pub(crate) fn next_hops(&self) -> impl Iterator<Item = NextHop> + '_ {
        (1..).zip(&self.neighbours.all).filter_map(|(number, q)| {
            let (answer, _) = q.answer?;
            Some(NextHop { number, client: q.client, address: q.address, asked: q.first.at, answered: answer.at })
        })
    }

    /// The hosts of echoes.
    pub(crate) fn echoed(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.echoes.all.iter().flat_map(|run| [run.client, run.server])
    }

    /// Whether anything was said of connections of TCP.
    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.all.is_empty()
    }

    /// Counts over everything.
    pub fn totals(&self) -> Totals {
        let beyond = self.errors.beyond + self.echoes.beyond + self.neighbours.beyond + self.fragments.beyond;
        Totals { beyond_limit: beyond, ..self.totals }
    }

    /// What lies beyond the limits.
    pub fn beyond_limit(&self) -> u64 {
        self.totals().beyond_limit
    }
}
