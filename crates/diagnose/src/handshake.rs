//! A connection of which only the first few packets have come: these themselves, since they take a
//! tenth of what following it does.
//!
//! Floods and scans are made of connections that never get further. What follows from their packets
//! is found when it is asked for.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use record::conversation::Way;
use record::{Instant, SeqNumber};
use wire::{Ecn, Flags, Integrity, Network, SackBlocks, Segment, TcpOptions};

use crate::connection::Connection;
use crate::kept::Recorder;
use crate::key::Key;

/// Packets kept before the connection is followed.
const MOST: usize = 3;

/// The first packets, beginning with the client's SYN.
#[derive(Debug)]
pub(crate) enum Handshake {
    /// A SYN as nearly all are: all that there is of a connection of a flood.
    One(Box<PlainSyn>),
    #[expect(clippy::box_collection, reason = "8 bytes rather than 24 in every connection")]
    Several(Box<Vec<Segment>>),
}

/// A SYN over IPv4 in a third of the room: no data, no SACK blocks, whole timestamps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainSyn {
    number: u64,
    at: u64,
    source: u32,
    destination: u32,
    ports: [u16; 2],
    seq: u32,
    stamps: [u32; 2],
    flags: Flags,
    window: u16,
    id: u16,
    mss: u16,
    header_bytes: u8,
    ttl: u8,
    dscp: u8,
    tunnels: u8,
    window_scale: u8,
    unknown: u8,
    ecn: Ecn,
    integrity: Integrity,
    /// Identification, don't fragment, MSS, window scale, SACK permitted, timestamps, options cut
    /// off, options malformed: from the lowest bit on.
    has: u8,
}

impl PlainSyn {
    /// `None` where something of it has no place here.
    fn new(s: &Segment) -> Option<Self> {
        let (SocketAddr::V4(source), SocketAddr::V4(destination)) = (s.source, s.destination) else { return None };
        let (o, n) = (&s.options, &s.network);
        let (value, echo) = o.timestamps.unwrap_or_default();
        let has = [
            n.id.is_some(),
            n.dont_fragment,
            o.mss.is_some(),
            o.window_scale.is_some(),
            o.sack_permitted,
            o.timestamps.is_some(),
            o.cut,
            o.malformed,
        ];
        let syn = Self {
            number: s.number,
            at: s.at.as_nanos(),
            source: (*source.ip()).into(),
            destination: (*destination.ip()).into(),
            ports: [source.port(), destination.port()],
            seq: s.seq.0,
            stamps: [value.unwrap_or_default(), echo.unwrap_or_default()],
            flags: s.flags,
            window: s.window,
            id: n.id.unwrap_or_default(),
            mss: o.mss.unwrap_or_default(),
            header_bytes: s.header_bytes,
            ttl: n.ttl,
            dscp: n.dscp,
            tunnels: n.tunnels,
            window_scale: o.window_scale.unwrap_or_default(),
            unknown: o.unknown,
            ecn: n.ecn,
            integrity: s.integrity,
            has: has.iter().rev().fold(0, |bits, is| bits << 1 | u8::from(*is)),
        };
        (syn.whole() == *s).then_some(syn)
    }

    fn ends(&self) -> [SocketAddr; 2] {
        let end = |ip: u32, port| SocketAddr::new(IpAddr::V4(Ipv4Addr::from(ip)), port);
        [end(self.source, self.ports[0]), end(self.destination, self.ports[1])]
    }

    fn whole(&self) -> Segment {
        let [source, destination] = self.ends();
        let has = |bit: u8| self.has >> bit & 1 == 1;
        Segment {
            seq: SeqNumber(self.seq),
            flags: self.flags,
            window: self.window,
            header_bytes: self.header_bytes,
            integrity: self.integrity,
            network: Network {
                ttl: self.ttl,
                id: has(0).then_some(self.id),
                dont_fragment: has(1),
                dscp: self.dscp,
                ecn: self.ecn,
                tunnels: self.tunnels,
            },
            options: TcpOptions {
                mss: has(2).then_some(self.mss),
                window_scale: has(3).then_some(self.window_scale),
                sack_permitted: has(4),
                sack: SackBlocks::default(),
                timestamps: has(5).then_some((Some(self.stamps[0]), Some(self.stamps[1]))),
                cut: has(6),
                malformed: has(7),
                unknown: self.unknown,
                ..TcpOptions::default()
            },
            ..Segment::new(self.number, Instant::from_nanos(self.at), source, destination)
        }
    }
}

impl Handshake {
    /// Begins with `first`, where that is a SYN without data.
    pub(crate) fn new(first: &Segment) -> Option<Self> {
        let opens = first.flags.contains(Flags::SYN) && !first.flags.contains(Flags::ACK);
        let kept = || match PlainSyn::new(first) {
            Some(syn) => Self::One(Box::new(syn)),
            None => Self::Several(Box::new(vec![*first])),
        };
        (opens && first.payload == 0).then(kept)
    }

    /// Takes one more, where it has no data and cannot open another connection on the same
    /// endpoints.
    pub(crate) fn admits(&mut self, s: &Segment) -> bool {
        if self.len() >= MOST || s.payload > 0 || s.flags.contains(Flags::FIN) {
            return false;
        }
        let first = self.first();
        let opens = s.flags.contains(Flags::SYN) && {
            let again = s.source == first.source && s.seq == first.seq && s.flags == first.flags;
            let answer = s.destination == first.source
                && s.flags.contains(Flags::ACK)
                && s.ack == first.seq.add(1)
                && self.answer().is_none_or(|seq| seq == s.seq);
            !again && !answer
        };
        if opens {
            return false;
        }
        match self {
            Self::One(_) => {
                let mut several = Vec::with_capacity(2);
                several.extend([first, *s]);
                *self = Self::Several(Box::new(several));
            }
            Self::Several(packets) => {
                packets.reserve_exact(1);
                packets.push(*s);
            }
        }
        true
    }

    /// The connection that these packets make.
    pub(crate) fn followed(&self, recorder: Option<Box<Recorder>>) -> Box<Connection> {
        let first = self.first();
        let (key, low) = Key::new(&first.source, &first.destination);
        let mut c = Box::new(Connection::new(key, low, &first, recorder));
        let mut take =
            |s: &Segment| c.take_first(if s.source == first.source { Way::ToServer } else { Way::ToClient }, s);
        match self {
            Self::One(_) => take(&first),
            Self::Several(packets) => packets.iter().for_each(take),
        }
        c
    }

    #[cold]
    pub(crate) fn key(&self) -> Key {
        let [source, destination] = match self {
            Self::One(syn) => syn.ends(),
            Self::Several(packets) => [packets[0].source, packets[0].destination],
        };
        Key::new(&source, &destination).0
    }

    fn first(&self) -> Segment {
        match self {
            Self::One(syn) => syn.whole(),
            Self::Several(packets) => packets[0],
        }
    }

    /// The sequence number of the first SYN that answered.
    fn answer(&self) -> Option<SeqNumber> {
        let Self::Several(packets) = self else { return None };
        let is_one = |s: &&Segment| s.source != packets[0].source && s.flags.contains(Flags::SYN);
        packets.iter().find(is_one).map(|s| s.seq)
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Several(packets) => packets.len(),
        }
    }

    /// The number of its first packet.
    pub(crate) fn first_number(&self) -> u64 {
        match self {
            Self::One(syn) => syn.number,
            Self::Several(packets) => packets[0].number,
        }
    }

    /// One packet alone is neither a copy nor late.
    pub(crate) fn counts_for_nothing(&self) -> bool {
        self.len() == 1 && self.first().integrity != Integrity::Wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syn_is_kept_whole_in_little_room_or_as_it_is() {
        let ends = [SocketAddr::from(([10, 1, 2, 3], 40_000)), SocketAddr::from(([192, 0, 2, 1], 443))];
        let mut s = Segment::new(9, Instant::from_nanos(1_700_000_000_000_000_001), ends[0], ends[1]);
        (s.seq, s.flags, s.window, s.header_bytes) = (SeqNumber(0xdead_beef), Flags::SYN | Flags::ECE, 64_240, 40);
        s.network = Network { ttl: 63, id: Some(7), dont_fragment: true, dscp: 10, ecn: Ecn::Ect0, tunnels: 1 };
        s.options = TcpOptions {
            mss: Some(1_460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some((Some(1), Some(0))),
            ..TcpOptions::default()
        };
        assert_eq!(PlainSyn::new(&s).map(|syn| syn.whole()), Some(s));
        let mut plain = s;
        (plain.network.id, plain.network.dont_fragment, plain.options) = (None, false, TcpOptions::default());
        assert_eq!(PlainSyn::new(&plain).map(|syn| syn.whole()), Some(plain));
        // What has no place in it.
        for change in [
            |s: &mut Segment| s.options.fast_open = Some(8),
            |s: &mut Segment| s.options.mptcp = Some(0),
            |s: &mut Segment| s.options.accecn = true,
            |s: &mut Segment| s.options.timestamps = Some((Some(1), None)),
            |s: &mut Segment| s.ack = SeqNumber(1),
            |s: &mut Segment| s.source = SocketAddr::from(([0u16; 8], 1)),
        ] {
            let mut other = s;
            change(&mut other);
            assert!(PlainSyn::new(&other).is_none(), "{other:?}");
            assert!(matches!(Handshake::new(&other), Some(Handshake::Several(packets)) if packets[0] == other));
        }
    }
}
