//! From the bytes of a record of `records.h` to what it says.

use std::net::SocketAddr;

use record::{
    Comm, ConnectionId, Datagram, DatagramStamps, Direction, Dropped, Instant, Monotonic, Owner, Packet, SeqNumber,
    TcpFlags,
};

use super::reasons::Reasons;
use crate::decode::{DecodeError, address, kind, raw};
use crate::layout::{
    MARK_DROPPED, MARK_RECEIVED, MARK_RETRANSMISSION, NO_NUMBER, RECORD_ACK, RECORD_ARRIVAL, RECORD_DATAGRAM,
    RECORD_GONE, RECORD_PACKET, RECORD_READ, RawNote, RawPacket,
};

/// What one record says: a part of what becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A packet of TCP has gone to the driver, or was dropped.
    Packet {
        /// Which of its socket's, counted from 0.
        number: Option<u32>,
        packet: Packet,
    },
    /// A datagram has gone to the driver, or was dropped on the way.
    Sent(Datagram),
    /// Everything before this number has reached the peer.
    Ack { connection: ConnectionId, before: SeqNumber, at: Instant<Monotonic> },
    /// A datagram came to its socket, or was dropped on the way there.
    Arrival {
        /// Which of its socket's, counted from 0.
        number: Option<u32>,
        /// Bytes of memory that the socket's queue held before it.
        queued: Option<u32>,
        datagram: Datagram,
    },
    /// A datagram was read: which of its socket's, counted from 0.
    Read { socket: ConnectionId, number: u32, at: Instant<Monotonic>, owner: Owner },
    /// The socket is closed.
    Gone(ConnectionId),
}

/// Reads one record.
pub(super) fn part(bytes: &[u8], reasons: &mut Reasons) -> Result<Part, DecodeError> {
    let number = |number: u32| (number != NO_NUMBER).then_some(number);
    Ok(match kind(bytes)? {
        RECORD_PACKET => {
            let it: RawPacket = raw(bytes)?;
            Part::Packet { number: number(it.number), packet: packet(&it, reasons) }
        }
        RECORD_DATAGRAM => {
            let it: RawPacket = raw(bytes)?;
            let stamps =
                DatagramStamps::Sent { send: stamp(it.first), sched: stamp(it.second), driver: stamp(it.third) };
            Part::Sent(datagram(&it, stamps, reasons))
        }
        RECORD_ARRIVAL => {
            let it: RawPacket = raw(bytes)?;
            let stamps = DatagramStamps::Received {
                driver_rx: stamp(it.first),
                udp_rx: stamp(it.second),
                ready: stamp(it.third),
                read: None,
            };
            Part::Arrival {
                number: number(it.number),
                queued: number(it.frame_bytes),
                datagram: datagram(&it, stamps, reasons),
            }
        }
        RECORD_ACK => {
            let it: RawNote = raw(bytes)?;
            let connection = ConnectionId(it.cookie);
            Part::Ack { connection, before: SeqNumber(it.number), at: Instant::from_nanos(it.at) }
        }
        RECORD_READ => {
            let it: RawNote = raw(bytes)?;
            Part::Read {
                socket: ConnectionId(it.cookie),
                number: it.number,
                at: Instant::from_nanos(it.at),
                owner: Owner { pid: it.pid, comm: Comm(it.comm) },
            }
        }
        RECORD_GONE => Part::Gone(ConnectionId(raw::<RawNote>(bytes)?.cookie)),
        other => return Err(DecodeError::Unsupported(other)),
    })
}

fn stamp(at: u64) -> Option<Instant<Monotonic>> {
    (at != 0).then(|| Instant::from_nanos(at))
}

fn ends(it: &RawPacket) -> (SocketAddr, SocketAddr) {
    (address(it.local, it.local_port), address(it.remote, it.remote_port))
}

fn dropped(it: &RawPacket, reasons: &mut Reasons) -> Option<Dropped> {
    (u32::from(it.marks) & MARK_DROPPED != 0)
        .then(|| Dropped { at: Instant::from_nanos(it.dropped_at), reason: reasons.name(it.drop_reason) })
}

fn packet(it: &RawPacket, reasons: &mut Reasons) -> Packet {
    let (local, remote) = ends(it);
    Packet {
        connection: ConnectionId(it.cookie),
        local,
        remote,
        direction: if u32::from(it.marks) & MARK_RECEIVED == 0 { Direction::Sent } else { Direction::Received },
        first_seq: SeqNumber(it.first_seq),
        bytes: it.bytes,
        frame_bytes: it.frame_bytes,
        segments: it.segments,
        flags: TcpFlags(it.flags),
        retransmission: u32::from(it.marks) & MARK_RETRANSMISSION != 0,
        sched: stamp(it.second),
        driver: stamp(it.third),
        ack: None,
        gap: None,
        dropped: dropped(it, reasons),
    }
}

fn datagram(it: &RawPacket, stamps: DatagramStamps, reasons: &mut Reasons) -> Datagram {
    let (local, remote) = ends(it);
    Datagram {
        socket: ConnectionId(it.cookie),
        owner: Owner { pid: it.pid, comm: Comm(it.comm) },
        local,
        remote,
        bytes: it.bytes,
        segments: it.segments,
        stamps,
        dropped: dropped(it, reasons),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Plain as _;
    use proptest::prelude::*;

    fn a_packet() -> RawPacket {
        RawPacket { kind: RECORD_PACKET, ..RawPacket::zeroed() }
    }

    #[test]
    fn a_packet_keeps_its_figures() {
        let mut it = a_packet();
        (it.cookie, it.number, it.second, it.third) = (7, 3, 100, 150);
        (it.first_seq, it.bytes, it.frame_bytes, it.segments, it.flags) = (9, 2896, 2962, 2, 0x18);
        it.marks = (MARK_RETRANSMISSION | MARK_DROPPED) as u8;
        (it.dropped_at, it.drop_reason) = (160, 70_000);
        it.local[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 1]);
        it.local_port = 80;
        let Ok(Part::Packet { number, packet }) = part(it.as_bytes(), &mut Reasons::default()) else {
            panic!("not a packet")
        };
        assert_eq!((number, packet.local.to_string()), (Some(3), "192.0.2.1:80".into()));
        assert_eq!((packet.segments, packet.retransmission, packet.qdisc()), (2, true, Ok(Some(record::Nanos(50)))));
        let dropped = packet.dropped.unwrap();
        assert_eq!((dropped.at.as_nanos(), dropped.reason.to_string()), (160, "70000".into()));
    }

    #[test]
    fn truncated_and_unsupported_are_told_apart() {
        let mut reasons = Reasons::default();
        let it = a_packet();
        let bytes = it.as_bytes();
        assert_eq!(part(&bytes[..127], &mut reasons), Err(DecodeError::Truncated { have: 127, need: 128 }));
        assert_eq!(part(&bytes[..2], &mut reasons), Err(DecodeError::Truncated { have: 2, need: 4 }));
        assert_eq!(part(&[22, 0, 0, 0], &mut reasons), Err(DecodeError::Unsupported(22)));
    }

    proptest! {
        #[test]
        fn no_input_panics(kind in 14u32..24, mut bytes in prop::collection::vec(any::<u8>(), 0..160)) {
            if let Some(start) = bytes.first_chunk_mut() {
                *start = kind.to_ne_bytes();
            }
            let _ = part(&bytes, &mut Reasons::default());
        }
    }
}
