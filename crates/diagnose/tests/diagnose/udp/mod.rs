//! UDP: what each conversation was, and what was found.

mod answers;
mod streams;
mod tshark;

use diagnose::udp::Totals;
use diagnose::{Follower, Options};
use record::udp::{UdpConversation, UdpFinding, UdpFindingKind, UdpStream};
use wire::PacketReader;

use crate::dns::made::{Made, follow};

/// What was found in a capture.
#[derive(Debug, PartialEq)]
pub struct Read {
    pub conversations: Vec<UdpConversation>,
    pub streams: Vec<UdpStream>,
    pub findings: Vec<UdpFinding>,
    pub totals: Totals,
}

impl Read {
    pub fn only(&self) -> &UdpConversation {
        assert_eq!(self.conversations.len(), 1, "{self:#?}");
        &self.conversations[0]
    }

    pub fn stream(&self) -> &UdpStream {
        assert_eq!(self.streams.len(), 1, "{self:#?}");
        &self.streams[0]
    }

    pub fn kinds(&self) -> Vec<UdpFindingKind> {
        self.findings.iter().map(|f| f.kind).collect()
    }
}

pub fn of(follower: &Follower) -> Read {
    let quic = follower.quic_analysis();
    let udp = follower.udp_analysis(&quic);
    Read {
        conversations: udp.conversations().cloned().collect(),
        streams: udp.streams().cloned().collect(),
        findings: udp.findings().to_vec(),
        totals: udp.totals(),
    }
}

pub fn read(made: &Made) -> Read {
    of(&follow(PacketReader::from_bytes(&made.file(65_535)).unwrap(), Options::default()))
}

#[test]
fn followers_of_parts_find_together_what_one_finds() {
    let mut made = Made::default();
    for n in 0..2_000u64 {
        let client = std::net::SocketAddrV4::new([10, 0, 0, 1].into(), 10_000 + (n % 300) as u16);
        let server = std::net::SocketAddrV4::new([192, 0, 2, 7].into(), 7_000);
        let (from, to) = if n % 7 < 4 { (client, server) } else { (server, client) };
        made.datagram(n * 1_000_000, from, to, &n.to_be_bytes());
    }
    let file = made.file(65_535);
    let whole = of(&follow(PacketReader::from_bytes(&file).unwrap(), Options::default()));
    assert_eq!((whole.conversations.len(), whole.totals.datagrams), (300, 2_000));
    let options = Options { shards: 2, ..Options::default() };
    let parts = wire::Shard::all(2, 9).map(|shard| {
        let mut packets = PacketReader::from_bytes(&file).unwrap().only(shard);
        let mut follower = Follower::new(options);
        while let Some(packet) = packets.next_packet().unwrap() {
            let wire::Packet::Udp(udp) = packet else { panic!("{packet:?}") };
            if packets.has(udp.source, udp.destination) {
                follower.take_datagram(&udp);
            }
        }
        follower
    });
    assert_eq!(of(&parts.reduce(Follower::join).unwrap()), whole);
}

#[test]
fn a_flood_of_single_datagrams_is_bounded_and_counted() {
    let mut follower = Follower::new(Options { connections: 1_000, ..Options::default() });
    for n in 0..5_000u32 {
        let client = std::net::SocketAddr::from((n.to_be_bytes(), 7_000));
        let udp = wire::packet::Udp {
            number: u64::from(n) + 1,
            at: record::Instant::from_nanos(u64::from(n) * 1_000),
            source: client,
            destination: ([192, 0, 2, 7], 9).into(),
            payload: 1,
            network: wire::Network::default(),
            in_fragments: false,
            head: wire::packet::Head::of(&[7]),
        };
        follower.take_datagram(&udp);
    }
    let read = of(&follower);
    assert_eq!((read.conversations.len(), read.totals.beyond_limit), (1_000, 4_000));
    assert_eq!((read.totals.datagrams, follower.beyond_limit()), (5_000, 4_000));
}
