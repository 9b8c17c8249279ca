//! Captures made from a seed, for tests and for measuring speed: connections that look like real ones, packet for packet.

use std::io::{self, Write};
use std::net::Ipv4Addr;

use model::{Instant, SeqNumber};

use crate::LinkType;
use crate::capture::{write_pcap_header, write_pcap_record};
use crate::packet::{Ethernet, Ipv4, Tcp, ether_type, ip_protocol, transport_checksum};
use crate::segment::Flags;

/// What to generate.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Packets in all.
    pub packets: u64,
    /// Connections, at most 2²⁴ and each of at least 3 packets; they run at the same time, turn by turn.
    pub connections: u32,
    /// Decides which segments are lost, and where sequence numbers begin.
    pub seed: u64,
    /// One data segment in so many is lost before the place of capture and sent again; 0 for none.
    pub loss_one_in: u32,
}

#[derive(Clone, Copy, Default)]
struct Flow {
    step: u32,
    client_seq: u32,
    server_seq: u32,
    acked: u32,
    lost: Option<u32>,
}

const SEGMENT: u32 = 1448;
const KEPT: usize = 96;

/// Writes a pcap file with nanoseconds: handshakes, data from the server in full segments of which 96 bytes are kept, an ACK for every
/// two, SACK and resent segments for what is lost. Checksums are right as far as the kept bytes go with a payload of zeros.
///
/// # Errors
/// Those of `out`.
pub fn write_traffic(out: &mut impl Write, traffic: &Traffic) -> io::Result<()> {
    write_pcap_header(out, LinkType::ETHERNET)?;
    let connections = traffic.connections.clamp(1, 1 << 24);
    let mut random = traffic.seed | 1;
    let mut flows: Vec<Flow> = (0..connections)
        .map(|_| Flow { client_seq: next(&mut random) as u32, server_seq: next(&mut random) as u32, ..Flow::default() })
        .collect();
    let mut frame = Vec::with_capacity(2_048);
    let start = 1_700_000_000_000_000_000;
    for n in 0..traffic.packets {
        // Runs of 8 packets of one connection, as bursts are.
        let index = ((n / 8) % u64::from(connections)) as usize;
        let at = Instant::from_nanos(start + n * 1_200 + (next(&mut random) & 0xff));
        packet(&mut frame, &mut flows[index], index as u32, traffic, &mut random, (n * 1_200 / 1_000_000) as u32);
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

fn packet(frame: &mut Vec<u8>, flow: &mut Flow, index: u32, traffic: &Traffic, random: &mut u64, ms: u32) {
    let client = (Ipv4Addr::from_bits(0x0a00_0000 | (index >> 8)), 20_000 + (index & 0xff) as u16);
    let server = (Ipv4Addr::new(192, 0, 2, 1), 443);
    let stamps = |value: u32| -> Vec<u8> { [&[1, 1, 8, 10][..], &value.to_be_bytes(), &ms.to_be_bytes()].concat() };
    let syn = |scale| [&[2, 4, 5, 0xb4, 4, 2, 8, 10][..], &ms.to_be_bytes(), &[0; 4], &[1, 3, 3, scale]].concat();
    let step = flow.step;
    flow.step += 1;
    let (from_client, seq, ack, flags, options, payload) = match step {
        0 => (true, flow.client_seq, 0, Flags::SYN, syn(7), 0),
        1 => (false, flow.server_seq, flow.client_seq.wrapping_add(1), Flags::SYN | Flags::ACK, syn(9), 0),
        2 => {
            flow.client_seq = flow.client_seq.wrapping_add(1);
            flow.server_seq = flow.server_seq.wrapping_add(1);
            flow.acked = flow.server_seq;
            (true, flow.client_seq, flow.server_seq, Flags::ACK, stamps(ms), 0)
        }
        _ if step % 3 == 2 => {
            let mut options = stamps(ms);
            match flow.lost {
                Some(hole) => {
                    flow.acked = hole;
                    options.extend_from_slice(&[1, 1, 5, 10]);
                    options.extend_from_slice(&hole.wrapping_add(SEGMENT).to_be_bytes());
                    options.extend_from_slice(&flow.server_seq.to_be_bytes());
                }
                None => flow.acked = flow.server_seq,
            }
            (true, flow.client_seq, flow.acked, Flags::ACK, options, 0)
        }
        _ => {
            let resend = flow.lost.filter(|_| step.is_multiple_of(3) && flow.acked == flow.lost.unwrap_or(0));
            let seq = if let Some(hole) = resend {
                flow.lost = None;
                hole
            } else {
                if flow.lost.is_none()
                    && traffic.loss_one_in > 0
                    && next(random).is_multiple_of(u64::from(traffic.loss_one_in))
                {
                    flow.lost = Some(flow.server_seq);
                    flow.server_seq = flow.server_seq.wrapping_add(SEGMENT);
                }
                let seq = flow.server_seq;
                flow.server_seq = seq.wrapping_add(SEGMENT);
                seq
            };
            (false, seq, flow.client_seq, Flags::ACK | Flags::PSH, stamps(ms), SEGMENT as usize)
        }
    };
    let ((source, source_port), (destination, destination_port)) =
        if from_client { (client, server) } else { (server, client) };
    frame.clear();
    Ethernet { destination: [2, 0, 0, 0, 0, 1], source: [2, 0, 0, 0, 0, 2], ether_type: ether_type::IPV4 }.emit(frame);
    let ip = Ipv4 {
        source,
        destination,
        protocol: ip_protocol::TCP,
        id: step as u16,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        traffic_class: 0,
    };
    ip.emit(20 + options.len() + payload, frame);
    let tcp = Tcp {
        source_port,
        destination_port,
        seq: SeqNumber(seq),
        ack: SeqNumber(ack),
        flags,
        window: 502,
        ..Tcp::default()
    };
    let start = frame.len();
    tcp.emit(&options, frame);
    frame.resize(frame.len() + payload, 0);
    let sum = transport_checksum(source.into(), destination.into(), ip_protocol::TCP, &frame[start..]);
    frame[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::verify_transport;
    use crate::{Capture, Packet, Reassembly, dissect};

    #[test]
    fn every_packet_is_read_back_with_right_lengths() {
        let mut out = Vec::new();
        write_traffic(&mut out, &Traffic { packets: 5_000, connections: 20, seed: 3, loss_one_in: 50 }).unwrap();
        let mut capture = Capture::from_bytes(&out).unwrap();
        let (mut reassembly, mut sacks, mut data, mut checked) = (Reassembly::new(), 0, 0, 0);
        while let Some(frame) = capture.next_frame().unwrap() {
            let Ok(Packet::Tcp(s)) = dissect(&frame, &mut reassembly) else { panic!("packet {}", frame.number) };
            assert!(s.payload == 0 || s.payload == SEGMENT);
            sacks += s.options.sack.as_slice().len();
            data += u32::from(s.payload > 0);
            if frame.data.len() == frame.original_length as usize {
                assert!(verify_transport(s.source.ip(), s.destination.ip(), 6, &frame.data[34..]));
                checked += 1;
            }
        }
        assert_eq!((capture.packets(), capture.problems().total()), (5_000, 0));
        assert!(sacks > 10 && data > 2_500 && checked > 1_000, "{sacks} {data} {checked}");
    }
}
