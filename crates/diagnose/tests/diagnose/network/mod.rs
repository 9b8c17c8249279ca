//! What the network itself says: errors of ICMP, echoes, who has an address, fragments.

use std::net::{Ipv4Addr, SocketAddrV4};

use diagnose::network::Totals;
use diagnose::{Follower, Options};
use record::Nanos;
use record::network::{
    Echo, IcmpError, Incomplete, Neighbour, NetworkFinding, NetworkFindingKind as Kind, Resolving, Says, Transport,
};
use wire::packet::{Ethernet, Ipv4, ether_type, ip_protocol};
use wire::{Flags, PacketReader};

use crate::dns::made::{CLIENT, MS, Made, S, follow};

const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

/// What was found in a capture.
#[derive(Debug, PartialEq)]
struct Read {
    errors: Vec<IcmpError>,
    echoes: Vec<Echo>,
    neighbours: Vec<Neighbour>,
    incomplete: Vec<Incomplete>,
    findings: Vec<NetworkFinding>,
    totals: Totals,
    /// The verdicts of the connections.
    verdicts: Vec<String>,
}

impl Read {
    fn kinds(&self) -> Vec<Kind> {
        self.findings.iter().map(|f| f.kind).collect()
    }
}

fn of(follower: &Follower) -> Read {
    let quic = follower.quic_analysis();
    let udp = follower.udp_analysis(&quic);
    let network = follower.network_analysis(&udp);
    Read {
        errors: network.errors().to_vec(),
        echoes: network.echoes().to_vec(),
        neighbours: network.neighbours().to_vec(),
        incomplete: network.incomplete().to_vec(),
        findings: network.findings().to_vec(),
        totals: network.totals(),
        verdicts: follower.reports().map(|report| report.verdict.to_string()).collect(),
    }
}

fn read(made: &Made) -> Read {
    of(&follow(PacketReader::from_bytes(&made.file(65_535)).unwrap(), Options::default()))
}

fn client(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(CLIENT, port)
}

fn server(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(SERVER, port)
}

/// An IP packet in Ethernet. `fragment` is its offset, and whether more follow.
fn ip(
    made: &mut Made,
    at: u64,
    ends: (Ipv4Addr, Ipv4Addr),
    protocol: u8,
    id: u16,
    fragment: (u16, bool),
    payload: &[u8],
) {
    let header = Ipv4 {
        source: ends.0,
        destination: ends.1,
        protocol,
        id,
        dont_fragment: false,
        more_fragments: fragment.1,
        fragment_offset: fragment.0,
        ttl: 64,
        traffic_class: 0,
    };
    let mut frame = Vec::new();
    Ethernet { destination: [2; 6], source: [4; 6], ether_type: ether_type::IPV4 }.emit(&mut frame);
    header.emit(payload.len(), &mut frame);
    frame.extend_from_slice(payload);
    made.packets.push((at, frame));
}

/// An error of ICMP that quotes the beginning of this packet.
fn error(made: &mut Made, at: u64, by: Ipv4Addr, (kind, code, mtu): (u8, u8, u16), packet: &[u8]) {
    let mut message = vec![kind, code, 0, 0, 0, 0];
    message.extend_from_slice(&mtu.to_be_bytes());
    message.extend_from_slice(&packet[..packet.len().min(28)]);
    ip(made, at, (by, CLIENT), ip_protocol::ICMP, 7, (0, false), &message);
}

/// The IP packet of the latest frame.
fn latest(made: &Made) -> Vec<u8> {
    made.packets.last().unwrap().1[14..].to_vec()
}

fn echo(made: &mut Made, at: u64, sequence: u16, is_request: bool) {
    let mut message = vec![if is_request { 8 } else { 0 }, 0, 0, 0, 0x12, 0x34];
    message.extend_from_slice(&sequence.to_be_bytes());
    message.resize(64, 0x55);
    let ends = if is_request { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    ip(made, at, ends, ip_protocol::ICMP, 9, (0, false), &message);
}

pub fn arp(made: &mut Made, at: u64, operation: u16, sender: Ipv4Addr, target: Ipv4Addr) {
    let mut packet = vec![0, 1, 8, 0, 6, 4];
    packet.extend_from_slice(&operation.to_be_bytes());
    packet.extend_from_slice(&[2, 0, 0, 0, 0, sender.octets()[3]]);
    packet.extend_from_slice(&sender.octets());
    packet.extend_from_slice(&[0; 6]);
    packet.extend_from_slice(&target.octets());
    let mut frame = Vec::new();
    let destination = if operation == 1 { [0xff; 6] } else { [2; 6] };
    Ethernet { destination, source: [4; 6], ether_type: ether_type::ARP }.emit(&mut frame);
    frame.extend_from_slice(&packet);
    made.packets.push((at, frame));
}

#[test]
fn a_connection_whose_syn_was_refused_by_icmp_says_so_first() {
    let mut made = Made::default();
    made.tcp(0, (client(50_000), server(8_080)), (100, 0), Flags::SYN, b"");
    let syn = latest(&made);
    error(&mut made, 12 * MS, SERVER, (3, 3, 0), &syn);
    let read = read(&made);
    assert_eq!(read.kinds(), [Kind::Unreachable]);
    let e = &read.errors[0];
    assert_eq!(
        (e.says, e.meaning.as_str(), e.transport),
        (Says::Unreachable, "port unreachable", Some(Transport::Tcp))
    );
    assert_eq!((e.connection, e.conversation, e.count), (Some(1), None, 1));
    let finding = &read.findings[0];
    assert_eq!((finding.cost_ns, finding.packets.as_str()), (Nanos(12 * MS), "1 2"));
    assert!(
        finding.text.contains("never opened: its host said \"port unreachable\" 12.0 ms after"),
        "{}",
        finding.text
    );
    assert!(
        read.verdicts[0].starts_with("it never opened: 198.51.100.9 said \"port unreachable\""),
        "{:?}",
        read.verdicts
    );
    // A connection that was answered keeps its own verdict.
    let mut opened = Made::default();
    opened.tcp(0, (client(50_000), server(8_080)), (100, 0), Flags::SYN, b"");
    opened.tcp(MS, (server(8_080), client(50_000)), (900, 101), Flags::SYN | Flags::ACK, b"");
    error(&mut opened, 12 * MS, ROUTER, (3, 13, 0), &syn);
    let opened = self::read(&opened);
    assert!(opened.findings[0].text.contains("in the middle of it"), "{opened:#?}");
    assert!(!opened.verdicts[0].contains("never opened: "), "{:?}", opened.verdicts);
}

#[test]
fn datagrams_that_are_refused_are_joined_to_their_conversation() {
    let mut made = Made::default();
    let packet = made.datagram(0, client(40_000), server(7_000), b"hello");
    error(&mut made, 3 * MS, SERVER, (3, 3, 0), &packet);
    // Of DNS there is a finding of its own.
    let question = made.asks(S, crate::dns::made::ASK);
    made.refuses(S + MS, &question);
    let read = read(&made);
    assert_eq!((read.errors.len(), read.errors[0].conversation, read.errors[1].conversation), (2, Some(1), None));
    assert_eq!(read.kinds(), [Kind::Unreachable]);
    assert!(read.findings[0].text.starts_with("198.51.100.9:7000 cannot be reached by UDP"), "{:?}", read.findings);
    // The other way round: who was answered had gone.
    let mut late = Made::default();
    late.datagram(0, client(40_000), server(7_000), b"hello");
    let answer = late.datagram(S, server(7_000), client(40_000), b"here I am");
    late.refuses(S + MS, &answer);
    let late = self::read(&late);
    assert!(late.findings[0].text.contains("no longer took what 198.51.100.9:7000 answered"), "{:?}", late.findings);
}

#[test]
fn whether_a_sender_heeds_the_mtu_shows_in_what_it_sends_later() {
    let sends = |later: &[usize]| {
        let mut made = Made::default();
        let packet = made.datagram(0, client(40_000), server(7_000), &[7; 1_400]);
        error(&mut made, MS, ROUTER, (3, 4, 1_280), &packet);
        // On its way already.
        made.datagram(2 * MS, client(40_000), server(7_000), &[7; 1_400]);
        for (n, size) in (1..).zip(later) {
            made.datagram(n * S, client(40_000), server(7_000), &vec![7; *size]);
        }
        read(&made)
    };
    let told = |read: &Read| (read.errors[0].mtu, read.errors[0].obeyed, read.errors[0].larger, read.kinds());
    assert_eq!(told(&sends(&[1_252, 1_252])), (Some(1_280), Some(true), 0, vec![Kind::TooBig]));
    // One byte more than fits.
    let deaf = sends(&[1_252, 1_253, 1_400]);
    assert_eq!(told(&deaf), (Some(1_280), Some(false), 2, vec![Kind::TooBig]));
    assert!(deaf.findings[0].text.contains("sent 2 more packets that are larger"), "{:?}", deaf.findings);
    assert_eq!(deaf.findings[0].cost_ns, Nanos(3 * S - MS));
    assert_eq!(told(&sends(&[])), (Some(1_280), None, 0, vec![Kind::TooBig]));
    // Larger than what was refused: it is divided after the capture.
    assert_eq!(told(&sends(&[1_401])), (Some(1_280), None, 0, vec![Kind::TooBig]));
}

#[test]
fn echoes_are_counted_timed_and_lost_only_where_the_capture_goes_on() {
    let mut made = Made::default();
    for n in 0..10u16 {
        echo(&mut made, u64::from(n) * S, n, true);
        if n != 4 && n != 9 {
            echo(&mut made, u64::from(n) * S + (5 + u64::from(n)) * MS, n, false);
        }
    }
    let read = read(&made);
    let e = &read.echoes[0];
    assert_eq!((e.identifier, e.sent, e.answered, e.lost, e.not_known), (0x1234, 10, 8, 1, 1));
    assert_eq!((e.min_ns, e.max_ns), (Some(Nanos(5 * MS)), Some(Nanos(13 * MS))));
    assert_eq!(read.kinds(), [Kind::EchoLost]);
    // The ninth packet: four requests with their answers came before it.
    assert_eq!(read.findings[0].packets, "9");
    assert!(e.withheld.as_deref().is_some_and(|why| why.contains("within 2 s of 1 request")), "{e:?}");
    // One direction alone shows no loss.
    let mut deaf = Made::default();
    (0..5).for_each(|n| echo(&mut deaf, u64::from(n) * S, n, true));
    let deaf = self::read(&deaf);
    assert_eq!((deaf.echoes[0].lost, deaf.echoes[0].not_known, deaf.kinds().len()), (0, 5, 0));
}

#[test]
fn an_address_that_nobody_has_and_one_that_is_resolved_late() {
    let gateway = Ipv4Addr::new(192, 0, 2, 1);
    let mut made = Made::default();
    (0..3).for_each(|n| arp(&mut made, n * S, 1, CLIENT, Ipv4Addr::new(192, 0, 2, 77)));
    arp(&mut made, 4 * S, 1, CLIENT, gateway);
    arp(&mut made, 5 * S, 1, CLIENT, gateway);
    arp(&mut made, 5 * S + 2 * MS, 2, gateway, CLIENT);
    // Nobody waits for what is announced, or for a look whether an address is free.
    arp(&mut made, 6 * S, 1, gateway, gateway);
    arp(&mut made, 6 * S, 1, Ipv4Addr::UNSPECIFIED, gateway);
    let read = read(&made);
    assert_eq!((read.neighbours.len(), read.totals.neighbours), (2, 8));
    let [silent, late] = [&read.neighbours[0], &read.neighbours[1]];
    assert_eq!((silent.protocol, silent.answered, silent.tries), (Resolving::Arp, Some(false), 3));
    assert_eq!((late.answered, late.took_ns, late.tries), (Some(true), Some(Nanos(S + 2 * MS)), 2));
    assert_eq!(late.hardware.as_deref(), Some("02:00:00:00:00:01"));
    assert_eq!(read.kinds(), [Kind::NeighbourSilent, Kind::NeighbourLate]);
    assert_eq!((read.findings[0].packets.as_str(), read.findings[1].packets.as_str()), ("1 2 3", "4 5 6"));
    assert_eq!((read.findings[0].cost_ns, read.findings[1].cost_ns), (Nanos(2 * S), Nanos(S + 2 * MS)));
    // A single question at the end is not known to be without an answer.
    let mut short = Made::default();
    arp(&mut short, 0, 1, CLIENT, gateway);
    let short = self::read(&short);
    assert_eq!((short.neighbours[0].answered, short.kinds().len()), (None, 0));
}

#[test]
fn a_packet_whose_last_fragment_is_lost_is_named_with_its_conversation() {
    let mut udp = Vec::new();
    for field in [40_000u16, 7_000, 8 + 3_000, 0] {
        udp.extend_from_slice(&field.to_be_bytes());
    }
    udp.resize(3_008, 7);
    let mut made = Made::default();
    let whole = |made: &mut Made, at: u64, id: u16, lost: Option<usize>| {
        for (n, piece) in udp.chunks(1_480).enumerate().filter(|(n, _)| Some(*n) != lost) {
            ip(made, at, (CLIENT, SERVER), ip_protocol::UDP, id, ((n * 1_480) as u16, n < 2), piece);
        }
    };
    whole(&mut made, 0, 1, None);
    whole(&mut made, S, 2, Some(2));
    whole(&mut made, 2 * S, 3, Some(0));
    whole(&mut made, 9 * S, 4, None);
    let read = read(&made);
    let rows: Vec<_> =
        read.incomplete.iter().map(|p| (p.source_port, p.fragments, p.missing, p.conversation)).collect();
    assert_eq!(rows, [(Some(40_000), 2, None, Some(1)), (None, 2, Some(1_480), None)]);
    assert_eq!((read.kinds(), read.findings[0].count), (vec![Kind::Fragments], 2));
    assert!(read.findings[0].text.contains("(UDP conversation 1)"), "{:?}", read.findings);
    // At the very end, the others may still come.
    let mut short = Made::default();
    whole(&mut short, 0, 1, Some(2));
    assert_eq!(self::read(&short).incomplete, []);
}

#[test]
fn packets_that_run_in_circles_are_told_from_a_traceroute() {
    let looped = |ttl: u8| {
        let mut made = Made::default();
        for n in 0..4 {
            made.datagram(n * S, client(40_000), server(33_434), b"hello");
            let place = made.packets.len() - 1;
            made.packets[place].1[14 + 8] = ttl;
            let packet = latest(&made);
            error(&mut made, n * S + MS, ROUTER, (11, 0, 0), &packet);
        }
        read(&made)
    };
    assert_eq!(looped(64).kinds(), [Kind::TimeExceeded]);
    assert_eq!(looped(3).kinds(), []);
    assert_eq!((looped(3).errors[0].count, looped(3).errors[0].conversation), (4, Some(1)));
}

#[test]
fn parts_find_together_what_one_finds() {
    let mut made = Made::default();
    for n in 0..60u16 {
        let packet = made.datagram(u64::from(n) * MS, client(40_000 + n), server(7_000), &[7; 1_300]);
        error(&mut made, u64::from(n) * MS, ROUTER, (3, 4, 1_280), &packet);
        echo(&mut made, u64::from(n) * MS, n, true);
    }
    (0..60u16).for_each(|n| drop(made.datagram(S, client(40_000 + n), server(7_000), &[7; 1_300])));
    echo(&mut made, 9 * S, 0, false);
    let file = made.file(65_535);
    let whole = of(&follow(PacketReader::from_bytes(&file).unwrap(), Options::default()));
    assert!(whole.errors.iter().all(|e| e.obeyed == Some(false)) && whole.errors.len() == 60, "{whole:#?}");
    let parts = wire::Shard::all(3, 5).map(|shard| {
        let mut packets = PacketReader::from_bytes(&file).unwrap().only(shard);
        let mut follower = Follower::new(Options { shards: 3, ..Options::default() });
        while let Some(packet) = packets.next_packet().unwrap() {
            match packet {
                wire::Packet::Udp(udp) => {
                    let own = packets.has(udp.source, udp.destination);
                    if own {
                        follower.take_datagram(&udp);
                    }
                }
                wire::Packet::Icmp(icmp) => {
                    let own = icmp.quoted.map_or(packets.has_the_rest(), |q| packets.has(q.source, q.destination));
                    if own {
                        follower.network.icmp(&icmp);
                    }
                }
                _ => {}
            }
        }
        follower
    });
    assert_eq!(of(&parts.reduce(Follower::join).unwrap()), whole);
}

#[test]
fn an_error_about_another_protocol_is_about_the_host_that_it_quotes() {
    let quoting = |quoted: bool| {
        let mut made = Made::default();
        ip(&mut made, 0, (CLIENT, SERVER), ip_protocol::ICMP, 7, (0, false), &[8, 0, 0, 0, 0, 1, 0, 1]);
        let echo = latest(&made);
        error(&mut made, 12 * MS, ROUTER, (3, 0, 0), if quoted { &echo } else { &[] });
        read(&made)
    };
    let known = quoting(true);
    let e = &known.errors[0];
    assert_eq!((e.transport, e.sender.ip(), e.receiver.ip()), (None, CLIENT.into(), SERVER.into()));
    assert_eq!(known.kinds(), [Kind::Unreachable]);
    let said =
        "198.51.100.9 cannot be reached by packets of another protocol: 203.0.113.1 said \"network unreachable\"";
    assert_eq!(known.findings[0].text, said);
    // Without the quotation it is not known who cannot be reached.
    let unknown = quoting(false);
    let e = &unknown.errors[0];
    assert_eq!((e.sender.ip(), e.receiver.ip().is_unspecified(), unknown.kinds()), (CLIENT.into(), true, vec![]));
}
