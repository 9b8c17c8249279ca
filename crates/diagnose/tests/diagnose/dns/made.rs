//! Small captures of DNS, made packet by packet.

use std::net::{Ipv4Addr, SocketAddrV4};

use diagnose::{Follower, Options};
use record::dns::{DnsFinding, DnsFindingKind, Lookup, Server};
use record::{Instant, SeqNumber};
use wire::capture::{write_pcap_header, write_pcap_record};
use wire::packet::{Ethernet, Ipv4, Tcp, ether_type, ip_protocol};
use wire::{Flags, LinkType, PacketReader};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000 * MS;
pub const A: u16 = 1;
pub const AAAA: u16 = 28;
pub const TXT: u16 = 16;
pub const NAME: &str = "www.example.com";
pub const REFUSED: u16 = 5;
pub const NO_SUCH_NAME: u16 = 3;

/// Who asks, and two who are asked.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
pub const FIRST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
pub const SECOND: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 54);

/// A question and the answer to it share these.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub id: u16,
    pub port: u16,
    pub server: Ipv4Addr,
    pub name: &'a str,
    pub kind: u16,
}

pub const ASK: Ask<'static> = Ask { id: 1, port: 40_000, server: FIRST, name: NAME, kind: A };

impl Ask<'_> {
    fn client(&self) -> SocketAddrV4 {
        SocketAddrV4::new(CLIENT, self.port)
    }

    fn server(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.server, 53)
    }

    fn message(&self, flags: u16, records: [u16; 3]) -> Vec<u8> {
        let mut message = Vec::new();
        for field in [self.id, flags, 1, records[0], records[1], records[2]] {
            message.extend_from_slice(&field.to_be_bytes());
        }
        message.extend_from_slice(&name(self.name));
        for field in [self.kind, 1] {
            message.extend_from_slice(&field.to_be_bytes());
        }
        message
    }

    /// The question, with EDNS of this size.
    pub fn question(&self, size: u16) -> Vec<u8> {
        let mut message = self.message(0x0100, [0, 0, 1]);
        message.extend_from_slice(&[0, 0, 41]);
        message.extend_from_slice(&size.to_be_bytes());
        message.extend_from_slice(&[0; 6]);
        message
    }

    /// An answer with records of this data.
    pub fn answer(&self, data: &[&[u8]]) -> Vec<u8> {
        let mut message = self.message(0x8180, [data.len() as u16, 0, 0]);
        for data in data {
            message.extend_from_slice(&[0xc0, 12]);
            for field in [self.kind, 1, 0, 60, data.len() as u16] {
                message.extend_from_slice(&field.to_be_bytes());
            }
            message.extend_from_slice(data);
        }
        message
    }

    pub fn error(&self, code: u16) -> Vec<u8> {
        self.message(0x8180 | code, [0; 3])
    }

    pub fn truncated(&self) -> Vec<u8> {
        self.message(0x8380, [0; 3])
    }
}

/// A name as it is sent.
pub fn name(text: &str) -> Vec<u8> {
    let labels = text.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    labels.chain([0]).collect()
}

/// A capture being made. Times are those since its beginning.
#[derive(Clone, Default)]
pub struct Made {
    pub packets: Vec<(u64, Vec<u8>)>,
}

impl Made {
    fn ip(&mut self, at: u64, (source, destination): (Ipv4Addr, Ipv4Addr), protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut ip = Vec::new();
        let header = Ipv4 {
            source,
            destination,
            protocol,
            id: 1,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            traffic_class: 0,
        };
        header.emit(payload.len(), &mut ip);
        ip.extend_from_slice(payload);
        let mut frame = Vec::new();
        Ethernet { destination: [2; 6], source: [4; 6], ether_type: ether_type::IPV4 }.emit(&mut frame);
        frame.extend_from_slice(&ip);
        self.packets.push((at, frame));
        ip
    }

    /// A datagram; gives the IP packet.
    pub fn datagram(&mut self, at: u64, from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
        let mut udp = Vec::new();
        for field in [from.port(), to.port(), 8 + payload.len() as u16, 0] {
            udp.extend_from_slice(&field.to_be_bytes());
        }
        udp.extend_from_slice(payload);
        self.ip(at, (*from.ip(), *to.ip()), ip_protocol::UDP, &udp)
    }

    pub fn asks(&mut self, at: u64, ask: Ask<'_>) -> Vec<u8> {
        self.datagram(at, ask.client(), ask.server(), &ask.question(1_232))
    }

    pub fn says(&mut self, at: u64, ask: Ask<'_>, message: &[u8]) -> Vec<u8> {
        self.datagram(at, ask.server(), ask.client(), message)
    }

    /// An answer with one address.
    pub fn answers(&mut self, at: u64, ask: Ask<'_>) -> Vec<u8> {
        let address: &[u8] = if ask.kind == A { &[198, 51, 100, 7] } else { &[0x20; 16] };
        self.says(at, ask, &ask.answer(&[address]))
    }

    /// ICMP port unreachable for an IP packet, by whom it went to.
    pub fn refuses(&mut self, at: u64, packet: &[u8]) {
        let end = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).unwrap());
        let message = [&[3, 3, 0, 0, 0, 0, 0, 0], &packet[..28]].concat();
        self.ip(at, (end(16), end(12)), ip_protocol::ICMP, &message);
    }

    /// A segment from the client to the first server, or back.
    pub fn segment(&mut self, at: u64, from_client: bool, seq: u32, flags: Flags, payload: &[u8]) {
        let ends = [SocketAddrV4::new(CLIENT, 50_000), SocketAddrV4::new(FIRST, 53)];
        let (from, to) = if from_client { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
        self.tcp(at, (from, to), (seq, 1), flags, payload);
    }

    /// A segment with its sequence number and what it acknowledges; a SYN offers an MSS of 1,460.
    pub fn tcp(
        &mut self,
        at: u64,
        (from, to): (SocketAddrV4, SocketAddrV4),
        (seq, ack): (u32, u32),
        flags: Flags,
        payload: &[u8],
    ) {
        let options: &[u8] = if flags.contains(Flags::SYN) { &[2, 4, 5, 180] } else { &[] };
        let tcp = Tcp {
            source_port: from.port(),
            destination_port: to.port(),
            seq: SeqNumber(seq),
            ack: SeqNumber(ack),
            flags,
            window: 65_535,
            header_bytes: 20 + options.len() as u8,
        };
        let mut segment = Vec::new();
        tcp.emit(options, &mut segment);
        segment.extend_from_slice(payload);
        self.ip(at, (*from.ip(), *to.ip()), ip_protocol::TCP, &segment);
    }

    /// The capture, of each packet so many bytes.
    pub fn file(&self, kept: usize) -> Vec<u8> {
        let mut file = Vec::new();
        write_pcap_header(&mut file, LinkType::ETHERNET).unwrap();
        for (at, frame) in &self.packets {
            let data = &frame[..frame.len().min(kept)];
            write_pcap_record(&mut file, Instant::from_nanos(S + at), frame.len() as u32, data).unwrap();
        }
        file
    }

    pub fn read(&self) -> Read {
        read(&self.file(65_535), Options::default())
    }
}

/// What was found in a capture.
#[derive(Debug, PartialEq)]
pub struct Read {
    pub lookups: Vec<Lookup>,
    pub servers: Vec<Server>,
    pub findings: Vec<DnsFinding>,
    pub totals: diagnose::dns::Totals,
}

/// All of a capture, followed.
pub fn follow(mut packets: PacketReader<'_>, options: Options) -> Follower {
    let mut follower = Follower::new(options);
    while let Some(packet) = packets.next_packet().unwrap() {
        follower.take_packet(&packet);
        if let Some(payload) = packets.payload() {
            follower.take_payload(payload);
        }
    }
    let given_up = packets.take_unfinished();
    given_up.into_iter().chain(packets.reassembly().under_way()).for_each(|f| follower.network.unfinished(f));
    follower
}

pub fn read(file: &[u8], options: Options) -> Read {
    of(&follow(PacketReader::from_bytes(file).unwrap(), options))
}

pub fn of(follower: &Follower) -> Read {
    let all = follower.dns.analysis();
    Read {
        lookups: all.lookups().collect(),
        servers: all.servers().to_vec(),
        findings: all.findings().to_vec(),
        totals: all.totals(),
    }
}

impl Read {
    pub fn kinds(&self) -> Vec<DnsFindingKind> {
        self.findings.iter().map(|f| f.kind).collect()
    }

    pub fn only(&self) -> &Lookup {
        assert_eq!(self.lookups.len(), 1, "{self:#?}");
        &self.lookups[0]
    }

    pub fn finding(&self, kind: DnsFindingKind) -> &DnsFinding {
        self.findings.iter().find(|f| f.kind == kind).unwrap_or_else(|| panic!("no {kind:?} in {self:#?}"))
    }
}
