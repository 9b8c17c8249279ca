//! Captures made from a seed, for tests and for measuring speed: connections that look like real
//! ones, packet for packet.

mod scene;

use std::io::{self, Write};
use std::net::Ipv4Addr;

use record::{Instant, SeqNumber};

use crate::LinkType;
use crate::capture::{write_pcap_header, write_pcap_record};
use crate::packet::{Ethernet, Ipv4, Tcp, ether_type, ip_protocol, transport_checksum};
use crate::segment::Flags;
pub use scene::{Scene, write_scene};

/// What the connections of a capture do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The server sends full segments, the client acknowledges every other one.
    Download,
    /// Both sides send full segments that acknowledge each other.
    BothWays,
    /// A question of up to 639 bytes, an answer of the same size, an ACK.
    Messages,
    /// A question, a few full segments, and both sides close; then comes another connection in its
    /// place.
    Short,
    /// Each connection has one of the four, by turns.
    Mixed,
}

impl Pattern {
    /// All, with the words that a command line has for them.
    pub const ALL: [(&str, Self); 5] = [
        ("download", Self::Download),
        ("both-ways", Self::BothWays),
        ("messages", Self::Messages),
        ("short", Self::Short),
        ("mixed", Self::Mixed),
    ];
}

/// What to generate.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// What the connections do.
    pub pattern: Pattern,
    /// Packets in all.
    pub packets: u64,
    /// Connections at the same time, turn by turn; at most 2²⁴, and each of at least 3 packets.
    pub connections: u32,
    /// Decides which segments are lost, and where sequence numbers begin.
    pub seed: u64,
    /// One data segment in so many is lost before the place of capture and retransmitted; 0 for
    /// none.
    pub loss_one_in: u32,
}

/// One side of a connection.
#[derive(Clone, Copy, Default)]
struct End {
    /// Sequence number of what it sends next.
    seq: u32,
    /// Its packets so far: the IPv4 identification.
    sent: u16,
    /// The latest timestamp value that it has received.
    echo: u32,
    /// What was lost of its data: first sequence number, length, and whether the peer's ACK has
    /// reported it.
    hole: Option<(u32, u32, bool)>,
}

#[derive(Clone, Copy)]
struct Flow {
    /// Which of all connections it is; endpoints follow from it.
    number: u32,
    pattern: Pattern,
    /// Most have timestamps and SACK, one in four goes without each.
    stamped: bool,
    sack: bool,
    step: u32,
    /// The client's and the server's.
    ends: [End; 2],
}

/// A packet's part in the connection.
struct Turn {
    from_client: bool,
    payload: u32,
    flags: Flags,
}

/// Of each frame this much is kept, which is more than the longest headers.
const KEPT: usize = 96;
const MSS: u32 = 1460;
/// Data segments of the shortest of the short connections, and how many more others have.
const SHORT: (u32, u32) = (2, 8);

impl Flow {
    fn new(number: u32, pattern: Pattern, random: &mut u64) -> Self {
        let pattern = match pattern {
            Pattern::Mixed => Pattern::ALL[(number % 4) as usize].1,
            pattern => pattern,
        };
        let end = |random: &mut u64| End { seq: next(random) as u32, ..End::default() };
        let ends = [end(random), end(random)];
        // Of the single pattern, connection 0 has both.
        let (stamped, sack) = (number / 4 % 4 != 3, number / 16 % 4 != 3);
        Self { number, pattern, stamped, sack, step: 0, ends }
    }

    /// Full segments between question and closing.
    fn length(&self) -> u32 {
        SHORT.0 + self.number % SHORT.1
    }

    fn segment(&self) -> u32 {
        if self.stamped { MSS - 12 } else { MSS }
    }

    fn is_over(&self) -> bool {
        // Handshake, question, an ACK for every segment, and three packets to close.
        self.pattern == Pattern::Short && self.step >= 4 + 2 * self.length() + 3
    }

    fn turn(&self, random: &mut u64) -> Turn {
        let turn = |from_client, payload| {
            let push = if payload > 0 { Flags::PSH } else { Flags::empty() };
            Turn { from_client, payload, flags: Flags::ACK | push }
        };
        let message = |random: &mut u64| 40 + (next(random) % 600) as u32;
        match (self.step, self.pattern) {
            (0, _) => Turn { from_client: true, payload: 0, flags: Flags::SYN },
            (1, _) => Turn { from_client: false, payload: 0, flags: Flags::SYN | Flags::ACK },
            (2, _) => turn(true, 0),
            (step, Pattern::Download | Pattern::Mixed) if step % 3 == 2 => turn(true, 0),
            (_, Pattern::Download | Pattern::Mixed) => turn(false, self.segment()),
            (step, Pattern::BothWays) => turn(step % 2 == 0, self.segment()),
            (step, Pattern::Messages) if step % 3 == 2 => turn(true, 0),
            (step, Pattern::Messages) => turn(step % 3 == 0, message(random)),
            (3, Pattern::Short) => turn(true, message(random)),
            (step, Pattern::Short) => match step - 4 {
                at if at < 2 * self.length() => turn(at % 2 == 1, if at % 2 == 1 { 0 } else { self.segment() }),
                at if at == 2 * self.length() => Turn { flags: Flags::FIN | Flags::ACK, ..turn(false, 0) },
                at if at == 2 * self.length() + 1 => Turn { flags: Flags::FIN | Flags::ACK, ..turn(true, 0) },
                _ => turn(false, 0),
            },
        }
    }
}

/// Writes a pcap file with nanoseconds: handshakes, then what the pattern says, with SACK,
/// duplicate ACKs and retransmitted segments for what is lost. 96 bytes of each frame are kept;
/// checksums are those of a payload of zeros.
///
/// # Errors
/// Those of `out`.
pub fn write_traffic(out: &mut impl Write, traffic: &Traffic) -> io::Result<()> {
    write_pcap_header(out, LinkType::ETHERNET)?;
    let connections = traffic.connections.clamp(1, 1 << 24);
    let mut random = traffic.seed | 1;
    let mut flows: Vec<Flow> = (0..connections).map(|n| Flow::new(n, traffic.pattern, &mut random)).collect();
    let mut opened = connections;
    let mut frame = Vec::with_capacity(2_048);
    let start = 1_700_000_000_000_000_000;
    for n in 0..traffic.packets {
        // Runs of 8 packets of one connection, as bursts are.
        let index = ((n / 8) % u64::from(connections)) as usize;
        let at = Instant::from_nanos(start + n * 1_200 + (next(&mut random) & 0xff));
        if flows[index].is_over() {
            flows[index] = Flow { pattern: Pattern::Short, ..Flow::new(opened, Pattern::Short, &mut random) };
            opened += 1;
        }
        packet(&mut frame, &mut flows[index], traffic.loss_one_in, &mut random, (n * 1_200 / 1_000_000) as u32);
        write_pcap_record(out, at, frame.len() as u32, &frame[..frame.len().min(KEPT)])?;
    }
    Ok(())
}

/// xorshift64: the same captures on every machine.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
}

fn packet(frame: &mut Vec<u8>, flow: &mut Flow, loss_one_in: u32, random: &mut u64, ms: u32) {
    let Turn { from_client, mut payload, flags } = flow.turn(random);
    flow.step += 1;
    let (stamped, sack) = (flow.stamped, flow.sack);
    let [a, b] = &mut flow.ends;
    let (sender, peer) = if from_client { (a, b) } else { (b, a) };
    let mut seq = sender.seq;
    if payload > 0 {
        if let Some((hole, length, true)) = sender.hole {
            (seq, payload, sender.hole) = (hole, length, None);
        } else {
            let lost = loss_one_in > 0 && next(random).is_multiple_of(u64::from(loss_one_in));
            if lost && sender.hole.is_none() {
                sender.hole = Some((seq, payload, false));
                seq = seq.wrapping_add(payload);
            }
            sender.seq = seq.wrapping_add(payload);
        }
    }
    if flags.intersects(Flags::SYN | Flags::FIN) {
        sender.seq = sender.seq.wrapping_add(1);
    }
    let mut ack = if flags.contains(Flags::ACK) { peer.seq } else { 0 };
    let mut block = None;
    if let Some((hole, length, told)) = &mut peer.hole {
        (ack, *told) = (*hole, true);
        block = sack.then(|| (hole.wrapping_add(*length), peer.seq));
    }
    let id = sender.sent;
    sender.sent = sender.sent.wrapping_add(1);
    let stamps = stamped.then_some((ms, sender.echo));
    peer.echo = ms;
    let header =
        Header { number: flow.number, from_client, seq, ack, flags, id, sack, stamps, blocks: block.as_slice() };
    header.write(payload, frame);
}

/// What the headers of a packet say, beside what follows from the connection's number.
struct Header<'a> {
    /// The connection's number.
    number: u32,
    from_client: bool,
    seq: u32,
    ack: u32,
    flags: Flags,
    id: u16,
    /// SACK is permitted, as a SYN says.
    sack: bool,
    /// Timestamps: value and echo.
    stamps: Option<(u32, u32)>,
    blocks: &'a [(u32, u32)],
}

impl Header<'_> {
    fn options(&self) -> Vec<u8> {
        let mut options = Vec::with_capacity(40);
        let stamps = |(value, echo): (u32, u32)| [&[8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat();
        if self.flags.contains(Flags::SYN) {
            options.extend_from_slice(&[2, 4, (MSS >> 8) as u8, MSS as u8]);
            options.extend_from_slice(if self.sack { &[4, 2] } else { &[1, 1] });
            match self.stamps {
                Some(both) => options.extend(stamps(both)),
                None => options.extend_from_slice(&[1, 1]),
            }
            options.extend_from_slice(&[1, 3, 3, if self.from_client { 7 } else { 9 }]);
            options.resize(options.len().next_multiple_of(4), 0);
        } else if let Some(both) = self.stamps {
            options.extend_from_slice(&[1, 1]);
            options.extend(stamps(both));
        }
        if !self.blocks.is_empty() {
            options.extend_from_slice(&[1, 1, 5, 2 + 8 * self.blocks.len() as u8]);
            for (left, right) in self.blocks {
                options.extend_from_slice(&left.to_be_bytes());
                options.extend_from_slice(&right.to_be_bytes());
            }
        }
        options
    }

    /// Writes the whole frame over `frame`.
    fn write(&self, payload: u32, frame: &mut Vec<u8>) {
        let (number, options) = (self.number, self.options());
        let client = (Ipv4Addr::from_bits(0x0a00_0000 | (number >> 8)), 20_000 + (number & 0xff) as u16);
        let server = (Ipv4Addr::new(192, 0, 2, 1), 443);
        let ((source, source_port), (destination, destination_port)) =
            if self.from_client { (client, server) } else { (server, client) };
        frame.clear();
        Ethernet { destination: [2, 0, 0, 0, 0, 1], source: [2, 0, 0, 0, 0, 2], ether_type: ether_type::IPV4 }
            .emit(frame);
        let ip = Ipv4 {
            source,
            destination,
            protocol: ip_protocol::TCP,
            id: self.id,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            traffic_class: 0,
        };
        ip.emit(20 + options.len() + payload as usize, frame);
        let tcp = Tcp {
            source_port,
            destination_port,
            seq: SeqNumber(self.seq),
            ack: SeqNumber(self.ack),
            flags: self.flags,
            window: 502,
            ..Tcp::default()
        };
        let start = frame.len();
        tcp.emit(&options, frame);
        frame.resize(frame.len() + payload as usize, 0);
        let sum = transport_checksum(source.into(), destination.into(), ip_protocol::TCP, &frame[start..]);
        frame[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::verify_transport;
    use crate::{Capture, Packet, Reassembly, dissect};

    #[test]
    fn every_packet_of_every_pattern_is_read_back_with_right_lengths() {
        for (name, pattern) in Pattern::ALL {
            let mut out = Vec::new();
            write_traffic(&mut out, &Traffic { pattern, packets: 5_000, connections: 64, seed: 3, loss_one_in: 50 })
                .unwrap();
            let mut capture = Capture::from_bytes(&out).unwrap();
            let (mut reassembly, mut sacks, mut data, mut checked) = (Reassembly::new(), 0, 0, 0);
            let mut syns = 0;
            while let Some(frame) = capture.next_frame().unwrap() {
                let Ok(Packet::Tcp(s)) = dissect(&frame, &mut reassembly) else { panic!("packet {}", frame.number) };
                assert!(s.payload <= MSS && !s.options.malformed, "{s:?}");
                sacks += s.options.sack.as_slice().len();
                data += u32::from(s.payload > 0);
                syns += u32::from(s.flags == Flags::SYN);
                if frame.data.len() == frame.original_length as usize {
                    assert!(verify_transport(s.source.ip(), s.destination.ip(), 6, &frame.data[34..]));
                    checked += 1;
                }
            }
            assert_eq!((capture.packets(), capture.problems().total()), (5_000, 0));
            assert!(
                sacks > 10 && data > 1_500 && (checked > 1_000 || pattern == Pattern::BothWays),
                "{name}: {sacks} {data} {checked}"
            );
            assert_eq!(syns > 64, matches!(pattern, Pattern::Short | Pattern::Mixed), "{name}: {syns}");
        }
    }
}
