//! One conversation, datagram by datagram.

use std::net::SocketAddr;

use record::conversation::Way;
use record::udp::KnownBy;
use wire::packet::{Udp, named};

use super::flow::Flow;
use super::turns::Turns;
use crate::key::Key;

/// Datagrams of which the payload may show a protocol.
const LOOKED_AT: u64 = 8;
/// Ports below this are those of services.
const SERVICES: u16 = 1_024;

/// A conversation.
#[derive(Clone, Debug)]
pub(super) struct Conversation {
    pub(super) key: Key,
    /// The client is the lower end of the key.
    pub(super) client_low: bool,
    pub(super) first_packet: u64,
    pub(super) first_at: u64,
    pub(super) last_at: u64,
    /// Hops that the first datagram had to live.
    pub(super) hops: u8,
    /// By [`Way`].
    pub(super) flows: [Flow; 2],
    pub(super) turns: Turns,
    pub(super) protocol: Option<(&'static str, KnownBy)>,
}

impl Conversation {
    /// One that begins with this datagram, whose sender is the lower end of the key, or not.
    pub(super) fn new(key: Key, low: bool, udp: &Udp) -> Self {
        // The request may have come before the capture began.
        let is_answer = udp.source.port() < SERVICES && udp.destination.port() >= SERVICES;
        let at = udp.at.as_nanos();
        let mut new = Self {
            key,
            client_low: low != is_answer,
            first_packet: udp.number,
            first_at: at,
            last_at: at,
            hops: udp.network.ttl,
            flows: <[Flow; 2]>::default(),
            turns: Turns::default(),
            protocol: None,
        };
        new.take(low, udp);
        new
    }

    pub(super) fn take(&mut self, low: bool, udp: &Udp) {
        let way = if low == self.client_low { Way::ToServer } else { Way::ToClient };
        let seen = self.flows[0].datagrams + self.flows[1].datagrams;
        if seen < LOOKED_AT && self.protocol.is_none_or(|(_, by)| by == KnownBy::Port) {
            let ports = [udp.source.port(), udp.destination.port()];
            self.protocol = named(ports, udp.head.as_slice(), udp.payload).or(self.protocol);
        }
        self.last_at = self.last_at.max(udp.at.as_nanos());
        self.flows[way as usize].take(udp);
        match way {
            Way::ToServer => self.turns.client(udp),
            Way::ToClient => self.turns.server(udp),
        }
    }

    pub(super) fn client(&self) -> SocketAddr {
        self.key.end(self.client_low)
    }

    pub(super) fn server(&self) -> SocketAddr {
        self.key.end(!self.client_low)
    }

    pub(super) fn flow(&self, way: Way) -> &Flow {
        &self.flows[way as usize]
    }
}
