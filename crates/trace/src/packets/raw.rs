//! From the bytes of a record of `records.h` to what it says.

use std::net::SocketAddr;

use record::{
    Comm, ConnectionId, Datagram, DatagramStamps, Direction, Dropped, Instant, Lost, Monotonic, Owner, Packet,
    SeqNumber, TcpFlags,
};

use super::reasons::Reasons;
use crate::decode::{DecodeError, address, kind, raw};
use crate::layout::{
    MARK_DROPPED, MARK_RECEIVED, MARK_RETRANSMISSION, NO_NUMBER, RECORD_ACK, RECORD_ARRIVAL, RECORD_DATAGRAM,
    RECORD_GONE, RECORD_PACKET, RECORD_READ, RawNote, RawPacket, RawPacketLost,
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
        /// How many datagrams of its socket had been read when UDP took it.
        reads: u32,
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
                reads: it.first_seq,
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

/// What the kernel part has lost.
pub(super) fn lost(raw: &RawPacketLost) -> Lost {
    Lost {
        packet_ring_buffer: raw.packet_ring_buffer,
        packet_no_room: raw.no_room,
        packet_unseen: raw.unseen,
        packet_acks: raw.acks,
        packet_unfinished: raw.unfinished,
        datagram_ring_buffer: raw.datagram_ring_buffer,
        datagram_reads: raw.reads,
        ..Lost::default()
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

    /// A record in which no two fields are equal.
    fn distinct(kind: u32) -> RawPacket {
        let mut it = RawPacket { kind, ..RawPacket::zeroed() };
        (it.number, it.cookie, it.first, it.second, it.third) = (1, 2, 3, 4, 5);
        (it.dropped_at, it.drop_reason, it.first_seq, it.bytes) = (6, 70_007, 8, 9);
        (it.frame_bytes, it.segments, it.flags, it.pid) = (10, 11, 0x12, 13);
        it.comm[..4].copy_from_slice(b"curl");
        it.marks = MARK_DROPPED as u8;
        (it.local, it.remote) = ([14; 16], [15; 16]);
        (it.local_port, it.remote_port) = (16, 17);
        it
    }

    #[test]
    fn each_figure_of_a_packet_is_read_from_its_own_field() {
        let read = |marks: u32| {
            let it = RawPacket { marks: marks as u8, ..distinct(RECORD_PACKET) };
            match part(it.as_bytes(), &mut Reasons::default()).unwrap() {
                Part::Packet { number, packet } => (number, packet),
                other => panic!("{other:?}"),
            }
        };
        let (number, p) = read(MARK_DROPPED | MARK_RECEIVED);
        assert_eq!((number, p.connection, p.first_seq, p.bytes), (Some(1), ConnectionId(2), SeqNumber(8), 9));
        assert_eq!((p.frame_bytes, p.segments, p.flags, p.direction), (10, 11, TcpFlags(0x12), Direction::Received));
        assert_eq!((p.local, p.remote), (address([14; 16], 16), address([15; 16], 17)));
        assert_eq!((p.sched.map(Instant::as_nanos), p.driver.map(Instant::as_nanos)), (Some(4), Some(5)));
        assert_eq!((p.ack, p.gap, p.retransmission), (None, None, false));
        let dropped = p.dropped.unwrap();
        assert_eq!((dropped.at.as_nanos(), dropped.reason.to_string()), (6, "70007".into()));
        let (_, p) = read(MARK_RETRANSMISSION);
        assert_eq!((p.retransmission, p.direction, p.dropped), (true, Direction::Sent, None));
        let unnumbered = RawPacket { number: NO_NUMBER, ..distinct(RECORD_PACKET) };
        let unnumbered = part(unnumbered.as_bytes(), &mut Reasons::default());
        assert!(matches!(unnumbered, Ok(Part::Packet { number: None, .. })), "{unnumbered:?}");
    }

    #[test]
    fn each_figure_of_a_datagram_is_read_from_its_own_field() {
        let nanos = |at: Option<Instant<Monotonic>>| at.map(Instant::as_nanos);
        let check = |d: &Datagram| {
            assert_eq!((d.socket, d.owner.pid, d.owner.comm.to_string()), (ConnectionId(2), 13, "curl".into()));
            assert_eq!((d.local, d.remote), (address([14; 16], 16), address([15; 16], 17)));
            assert_eq!((d.bytes, d.segments), (9, 11));
            assert_eq!(d.dropped.as_ref().map(|d| (d.at.as_nanos(), d.reason.to_string())), Some((6, "70007".into())));
        };
        match part(distinct(RECORD_DATAGRAM).as_bytes(), &mut Reasons::default()).unwrap() {
            Part::Sent(datagram) => {
                check(&datagram);
                let DatagramStamps::Sent { send, sched, driver } = datagram.stamps else { panic!("received") };
                assert_eq!([send, sched, driver].map(nanos), [Some(3), Some(4), Some(5)]);
            }
            other => panic!("{other:?}"),
        }
        match part(distinct(RECORD_ARRIVAL).as_bytes(), &mut Reasons::default()).unwrap() {
            Part::Arrival { number, queued, reads, datagram } => {
                check(&datagram);
                assert_eq!((number, queued, reads), (Some(1), Some(10), 8));
                let DatagramStamps::Received { driver_rx, udp_rx, ready, read } = datagram.stamps else {
                    panic!("sent")
                };
                assert_eq!([driver_rx, udp_rx, ready, read].map(nanos), [Some(3), Some(4), Some(5), None]);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_figure_of_a_note_is_read_from_its_own_field() {
        let of = |kind| {
            let mut it = RawNote { kind, number: 1, cookie: 2, at: 3, pid: 4, ..RawNote::zeroed() };
            it.comm[..4].copy_from_slice(b"curl");
            part(it.as_bytes(), &mut Reasons::default()).unwrap()
        };
        let (at, socket) = (Instant::from_nanos(3), ConnectionId(2));
        assert_eq!(of(RECORD_ACK), Part::Ack { connection: socket, before: SeqNumber(1), at });
        let owner = Owner { pid: 4, comm: Comm::from("curl") };
        assert_eq!(of(RECORD_READ), Part::Read { socket, number: 1, at, owner });
        assert_eq!(of(RECORD_GONE), Part::Gone(socket));
    }

    #[test]
    fn each_counter_is_read_from_its_own_field() {
        let mut raw = RawPacketLost::zeroed();
        (raw.packet_ring_buffer, raw.no_room, raw.acks, raw.datagram_ring_buffer) = (1, 2, 3, 4);
        (raw.reads, raw.unfinished, raw.unseen) = (5, 6, 7);
        let l = lost(&raw);
        assert_eq!([l.packet_ring_buffer, l.packet_no_room, l.packet_acks, l.datagram_ring_buffer], [1, 2, 3, 4]);
        assert_eq!([l.datagram_reads, l.packet_unfinished, l.packet_unseen], [5, 6, 7]);
    }

    #[test]
    fn truncated_and_unsupported_are_distinguished() {
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
