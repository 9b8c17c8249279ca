//! A packet socket that sees the segments of a TCP handshake, which a TCP socket itself gives no
//! stamps for.

use std::net::SocketAddr;

use clock::{Instant, Realtime};
use socket2::{Domain, SockAddr, SockAddrStorage, SockFilter, Socket, Type};
use timestamping::{BatchSize, Receiver, Request};

use crate::Error;

/// Sees every TCP packet from or to one port of the peer.
pub(crate) struct Tap {
    socket: Socket,
    receiver: Receiver,
}

/// When the segments of one handshake passed, as seen between stack and driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// The (first) SYN went to the driver.
    pub syn: Option<Instant<Realtime>>,
    /// How often it went.
    pub syns: u32,
    /// The SYN-ACK, or the RST in its place, entered the stack.
    pub answer: Option<Instant<Realtime>>,
    /// The TTL or hop limit that the answer came with.
    pub ttl: Option<u8>,
}

/// `ETH_P_ALL`: the only protocol for which a packet socket also sees what is sent.
const ETH_P_ALL: u16 = 3;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

impl Tap {
    /// Opens it; takes `CAP_NET_RAW`.
    pub fn open(peer: SocketAddr) -> Result<Self, Error> {
        let failed = |call| move |source| Error::System { call, source };
        // Protocol 0 receives nothing until the filter is in place.
        let kind = Type::DGRAM.nonblocking();
        let socket = Socket::new(Domain::PACKET, kind, None).map_err(failed("socket(AF_PACKET)"))?;
        socket.attach_filter(&filter(peer.is_ipv6(), peer.port())).map_err(failed("setsockopt(SO_ATTACH_FILTER)"))?;
        Request::new().receive_software().enable(&socket)?;
        socket.bind(&any_interface()).map_err(failed("bind(AF_PACKET)"))?;
        Ok(Self { socket, receiver: Receiver::new(BatchSize { messages: 32, payload: 120, control: 256 }) })
    }

    /// Forgets what was seen so far.
    pub fn clear(&mut self) {
        while self.receiver.receive(&self.socket, |_| {}).is_ok_and(|n| n > 0) {}
    }

    /// What was seen of the handshake from this port of ours.
    pub fn handshake(&mut self, ours: u16) -> Handshake {
        let mut seen = Handshake::default();
        loop {
            let count = self.receiver.receive(&self.socket, |packet| {
                if let Ok(packet) = packet
                    && let (Some(segment), Some(at)) = (segment(packet.payload), packet.times.software)
                {
                    seen.note(segment, ours, at);
                }
            });
            if !count.is_ok_and(|n| n > 0) {
                return seen;
            }
        }
    }
}

/// The address of a packet socket that receives every protocol on every interface.
fn any_interface() -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: the view is of zeroes, which are a valid sockaddr_ll.
    let any = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    any.sll_family = libc::AF_PACKET as u16;
    any.sll_protocol = ETH_P_ALL.to_be();
    // SAFETY: the storage holds a whole sockaddr_ll, and the length is that of one.
    unsafe { SockAddr::new(storage, size_of::<libc::sockaddr_ll>() as libc::socklen_t) }
}

impl Handshake {
    pub(crate) fn note(&mut self, segment: Segment, ours: u16, at: Instant<Realtime>) {
        if segment.from == ours && segment.flags & (SYN | ACK) == SYN {
            self.syns += 1;
            self.syn = Some(self.syn.map_or(at, |first| first.min(at)));
        } else if segment.to == ours && (segment.flags & RST != 0 || segment.flags & (SYN | ACK) == SYN | ACK) {
            // Over loopback every packet is seen going and coming; coming is the later.
            self.answer = Some(self.answer.map_or(at, |last| last.max(at)));
            self.ttl = Some(segment.ttl);
        }
    }
}

/// What is needed of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    from: u16,
    to: u16,
    flags: u8,
    ttl: u8,
}

/// Reads an IPv4 or IPv6 packet; `None` for what is no TCP segment, whole in its first bytes.
pub(crate) fn segment(packet: &[u8]) -> Option<Segment> {
    let (tcp, ttl) = match packet.first()? >> 4 {
        4 if *packet.get(9)? == libc::IPPROTO_TCP as u8 => {
            (packet.get(usize::from(packet[0] & 0xf) * 4..)?, *packet.get(8)?)
        }
        6 if *packet.get(6)? == libc::IPPROTO_TCP as u8 => (packet.get(40..)?, packet[7]),
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_be_bytes([*tcp.get(at)?, *tcp.get(at + 1)?]));
    Some(Segment { from: port(0)?, to: port(2)?, flags: *tcp.get(13)?, ttl })
}

/// Classic BPF on the network header: TCP, and either port is the peer's. Extension headers of IPv6
/// are not followed.
fn filter(v6: bool, port: u16) -> Vec<SockFilter> {
    let op = |code: u32, jt, jf, k| SockFilter::new(code as u16, jt, jf, k);
    let (load_byte, load_half) = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, libc::BPF_LD | libc::BPF_H);
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let port = u32::from(port);
    let (protocol_at, ports) = if v6 {
        // A fixed header of 40 bytes: X stands for its end.
        (6, op(libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM, 0, 0, 40))
    } else {
        (9, op(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0))
    };
    vec![
        op(load_byte, 0, 0, 0),
        op(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 0, 0, 4),
        op(equal, 0, 8, if v6 { 6 } else { 4 }),
        op(load_byte, 0, 0, protocol_at),
        op(equal, 0, 6, libc::IPPROTO_TCP as u32),
        ports,
        op(load_half | libc::BPF_IND, 0, 0, 0),
        op(equal, 2, 0, port),
        op(load_half | libc::BPF_IND, 0, 0, 2),
        op(equal, 0, 1, port),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, 120),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_read_from_its_segments() {
        let mut seen = Handshake::default();
        let at = Instant::from_nanos;
        let go = |flags| Segment { from: 1, to: 2, flags, ttl: 64 };
        let back = |flags| Segment { from: 2, to: 1, flags, ttl: 57 };
        for (segment, time) in
            [(go(SYN), 10), (back(SYN | ACK), 30), (back(SYN | ACK), 31), (go(ACK), 40), (back(ACK), 50)]
        {
            seen.note(segment, 1, at(time));
        }
        assert_eq!(seen, Handshake { syn: Some(at(10)), syns: 1, answer: Some(at(31)), ttl: Some(57) });
    }

    #[test]
    fn both_families_are_read() {
        let tcp = [0x30, 0x39, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, SYN, 0, 0, 0, 0, 0, 0];
        let expected = Some(Segment { from: 12345, to: 80, flags: SYN, ttl: 7 });
        let mut v4 = vec![0x45; 20];
        (v4[8], v4[9]) = (7, 6);
        v4.extend_from_slice(&tcp);
        let mut v6 = vec![0x60; 40];
        (v6[6], v6[7]) = (6, 7);
        v6.extend_from_slice(&tcp);
        assert_eq!((segment(&v4), segment(&v6)), (expected, expected));
    }
}
