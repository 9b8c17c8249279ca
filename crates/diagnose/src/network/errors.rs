//! Errors of ICMP, one for each kind of them on the packets of one sender to one receiver, and what
//! the sender sent afterwards.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use record::network::{Says, Transport};
use wire::packet::{Icmp, ip_protocol};

use crate::tls::Moment;

/// Kinds of errors that are kept.
pub(super) const MOST: usize = 50_000;
/// Packets of one kind whose numbers are kept.
const PACKETS: usize = 8;
/// Packets that were on their way when the error came may pass the capture for so long after it.
const ON_THE_WAY: u64 = 200_000_000;

/// What one error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct About {
    source: IpAddr,
    v6: bool,
    kind: u8,
    code: u8,
    transport: Option<Transport>,
    sender: SocketAddr,
    receiver: SocketAddr,
}

/// Errors of one kind.
#[derive(Clone, Debug)]
pub(super) struct Errors {
    pub(super) source: IpAddr,
    pub(super) v6: bool,
    pub(super) kind: u8,
    pub(super) code: u8,
    pub(super) transport: Option<Transport>,
    pub(super) sender: SocketAddr,
    pub(super) receiver: SocketAddr,
    pub(super) count: u64,
    pub(super) first: Moment,
    pub(super) last: Moment,
    pub(super) packets: Vec<u64>,
    /// The smallest MTU, and the largest packet that was refused, in bytes with the IP header.
    pub(super) mtu: Option<u32>,
    refused: u32,
    /// What its sender sent after it: packets that fit, and those that do not.
    pub(super) fitting: u64,
    pub(super) larger: u64,
    pub(super) last_larger: Option<Moment>,
}

impl Errors {
    pub(super) fn says(&self) -> Says {
        says(self.v6, self.kind, self.code)
    }

    /// Whether the sender heeded the MTU, as far as its packets show.
    pub(super) fn obeyed(&self) -> Option<bool> {
        self.mtu?;
        match (self.larger, self.fitting) {
            (0, 0) => None,
            (0, _) => Some(true),
            _ => Some(false),
        }
    }
}

pub(super) fn says(v6: bool, kind: u8, code: u8) -> Says {
    match (v6, kind, code) {
        (false, 3, 4) | (true, 2, _) => Says::TooBig,
        (false, 3, _) | (true, 1, _) => Says::Unreachable,
        (false, 11, 0) | (true, 3, 0) => Says::TimeExceeded,
        (false, 11, _) | (true, 3, _) => Says::NotReassembled,
        (false, 5, _) | (true, 137, _) => Says::Redirect,
        (false, 12, _) | (true, 4, _) => Says::Problem,
        _ => Says::Other,
    }
}

/// Whether it is about a port alone: the host can be reached.
pub(super) fn is_port(v6: bool, kind: u8, code: u8) -> bool {
    matches!((v6, kind, code), (false, 3, 3) | (true, 1, 4))
}

/// The errors of a capture.
#[derive(Debug)]
pub(super) struct AllErrors {
    most: usize,
    pub(super) all: Vec<Errors>,
    by_about: HashMap<About, u32>,
    /// Those that name an MTU, by the ends of the packets.
    watched: HashMap<(SocketAddr, SocketAddr), Vec<u32>>,
    pub(super) beyond: u64,
}

impl AllErrors {
    /// One of so many that share what may be kept.
    pub(super) fn new(shards: usize) -> Self {
        let (by_about, watched) = Default::default();
        Self { most: MOST.div_ceil(shards.max(1)), all: Vec::new(), by_about, watched, beyond: 0 }
    }

    /// Joins two that saw the errors on different conversations.
    pub(super) fn join(mut self, other: Self) -> Self {
        self.most = self.most.saturating_add(other.most);
        self.beyond += other.beyond;
        self.all.extend(other.all);
        self.all.sort_by_key(|errors| errors.first.packet);
        // Their numbers have changed: what comes from here on is new.
        (self.by_about, self.watched) = Default::default();
        self
    }

    /// What was said of packets between these ends, the first way round.
    pub(super) fn on(&self, transport: Transport, says: Says, ends: [SocketAddr; 2]) -> Option<&Errors> {
        let is_it = |e: &&Errors| (e.transport, e.says(), [e.sender, e.receiver]) == (Some(transport), says, ends);
        self.all.iter().find(is_it)
    }

    pub(super) fn take(&mut self, icmp: &Icmp, now: Moment) {
        let nowhere = |ip| SocketAddr::new(ip, 0);
        let (transport, sender, receiver) = match icmp.quoted {
            Some(q) if q.protocol == ip_protocol::TCP => (Some(Transport::Tcp), q.source, q.destination),
            Some(q) => (Some(Transport::Udp), q.source, q.destination),
            // Of another protocol, only the hosts are known, and of a packet that is not quoted its
            // sender, to whom the error goes.
            None => {
                let of = if icmp.v6 { IpAddr::from(Ipv6Addr::UNSPECIFIED) } else { Ipv4Addr::UNSPECIFIED.into() };
                let [sender, receiver] = icmp.hosts.unwrap_or([icmp.destination, of]);
                (None, nowhere(sender), nowhere(receiver))
            }
        };
        let Icmp { source, v6, kind, code, .. } = *icmp;
        let about = About { source, v6, kind, code, transport, sender, receiver };
        let known = self.by_about.get(&about).copied();
        let index = known.unwrap_or(self.all.len() as u32);
        if known.is_none() {
            if self.all.len() >= self.most {
                self.beyond += 1;
                return;
            }
            self.by_about.insert(about, index);
            self.all.push(Errors {
                source,
                v6,
                kind,
                code,
                transport,
                sender,
                receiver,
                count: 0,
                first: now,
                last: now,
                packets: Vec::new(),
                mtu: None,
                refused: 0,
                fitting: 0,
                larger: 0,
                last_larger: None,
            });
            if says(v6, kind, code) == Says::TooBig && transport.is_some() {
                self.watched.entry((sender, receiver)).or_default().push(index);
            }
        }
        let errors = &mut self.all[index as usize];
        errors.count += 1;
        errors.last = now;
        if errors.packets.len() < PACKETS {
            errors.packets.push(now.packet);
        }
        // 0 is what routers from before RFC 1191 say.
        let mtu = icmp.next_hop_mtu.filter(|mtu| *mtu > 0);
        errors.mtu = [errors.mtu, mtu].into_iter().flatten().min();
        let header = if v6 { 40 } else { 20 };
        errors.refused = errors.refused.max(icmp.quoted.map_or(0, |quoted| quoted.bytes + header));
    }

    /// Whether what senders send is to be followed.
    pub(super) fn watches(&self) -> bool {
        !self.watched.is_empty()
    }

    /// A packet of so many bytes with its IP header, between these ends.
    pub(super) fn sent(&mut self, ends: (SocketAddr, SocketAddr), bytes: u32, in_fragments: bool, now: Moment) {
        for index in self.watched.get(&ends).into_iter().flatten() {
            let errors = &mut self.all[*index as usize];
            let Some(mtu) = errors.mtu else { continue };
            if now.at.saturating_sub(errors.first.at) < ON_THE_WAY {
                continue;
            }
            // What is larger than the packet that was refused is divided after the capture.
            match bytes {
                _ if in_fragments => errors.fitting += 1,
                bytes if bytes <= mtu => errors.fitting += 1,
                bytes if bytes <= errors.refused => {
                    errors.larger += 1;
                    errors.last_larger = Some(now);
                }
                _ => {}
            }
        }
    }
}
