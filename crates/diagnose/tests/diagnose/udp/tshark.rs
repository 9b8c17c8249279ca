//! A made capture, figure by figure as tshark 4.0.17 gives it.
//!
//! `tests/captures/udp.pcap.zst`: a call of RTP in both directions (20 ms of PCMU and PCMA in each
//! packet, up to 8 ms of jitter, 1 % lost), 100 echo requests of which each tenth has no answer, 50
//! requests of NTP from five ports, ARP for an address that nobody has and for a slow gateway, five
//! datagrams to a closed port, and a datagram whose middle fragment is missing.

use record::Nanos;
use record::network::NetworkFindingKind;
use record::udp::Shape;
use wire::PacketReader;

use super::of;
use crate::dns::made::follow;

#[test]
fn figures_are_those_of_tshark() {
    let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/captures/udp.pcap.zst")).unwrap();
    let follower = follow(PacketReader::from_bytes(&file).unwrap(), diagnose::Options::default());
    let read = of(&follower);
    // `udp.stream`, without what ICMP quotes.
    assert_eq!(read.conversations.len(), 11);
    let by_turns = read.conversations.iter().filter(|c| c.shape == Shape::RequestResponse);
    assert!(by_turns.clone().all(|c| (c.requests, c.answered) == (10, 10)) && by_turns.count() == 5);
    // `-d udp.port==5004,rtp -z rtp,streams`: packets, lost, the largest delta and the highest
    // jitter in microseconds.
    let theirs = [("0x00001111", 1_489, 11, 42_479, 3_966), ("0x00002222", 1_490, 10, 45_547, 3_744)];
    let micros = |time: Option<Nanos>| (time.unwrap().0 + 500) / 1_000;
    let ours = |s: &record::udp::UdpStream| (s.datagrams, s.lost, micros(s.gap_max_ns), micros(s.jitter_max_ns));
    for (stream, packets, lost, delta, jitter) in theirs {
        let s = read.streams.iter().find(|s| s.stream == stream).unwrap();
        assert_eq!(ours(s), (packets, lost, delta, jitter), "{s:?}");
    }
    // `icmp.resptime`: how many, the shortest and the longest.
    let quic = follower.quic_analysis();
    let udp = follower.udp_analysis(&quic);
    let network = follower.network_analysis(&udp);
    let [echo] = network.echoes() else { panic!("{:?}", network.echoes()) };
    assert_eq!((echo.answered, echo.min_ns, echo.max_ns), (90, Some(Nanos(414_585)), Some(Nanos(39_672_993))));
    assert_eq!((echo.sent, echo.lost), (100, 10));
    // Each cause is named, and nothing else.
    let kinds: Vec<NetworkFindingKind> = network.findings().iter().map(|f| f.kind).collect();
    let named = [
        NetworkFindingKind::NeighbourSilent,
        NetworkFindingKind::NeighbourLate,
        NetworkFindingKind::Unreachable,
        NetworkFindingKind::EchoLost,
        NetworkFindingKind::Fragments,
    ];
    assert_eq!(kinds, named);
    assert_eq!(network.findings()[2].count, 5);
}
