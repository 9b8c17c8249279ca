//! The messages of sock_diag(7): `struct inet_diag_msg` of `<linux/inet_diag.h>` with its
//! attributes. Pure; whatever a message lacks is zero or `None`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use record::socket::{Socket, SocketState, TcpState, Transport};
use record::{Instant, Monotonic, Nanos};

/// Kinds of messages of every netlink family.
pub(super) const ERROR: u16 = 2;
pub(super) const DONE: u16 = 3;
/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;

/// Lengths of `struct nlmsghdr`, `struct nlattr` and `struct inet_diag_msg`.
const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;
const FIXED: usize = 72;

/// Attributes: `INET_DIAG_…`.
const INFO: u16 = 2;
const CONGESTION: u16 = 4;
const MEMORY: u16 = 7;
const CGROUP: u16 = 21;

/// States of the kernel that are not asked for: `TCP_TIME_WAIT` has no process any more, and
/// `TCP_CLOSE` is, for TCP, a socket that was never connected.
const NOT_OF_TCP: u32 = 1 << 6 | 1 << 7;

/// States in which the peer has sent its FIN: `TCP_CLOSE_WAIT`, `TCP_LAST_ACK`, `TCP_CLOSING`, and
/// `TCP_CLOSE`, which a report of a connection that was closed has; after a RST alone there was
/// none.
const AFTER_FIN: [u8; 4] = [8, 9, 11, 7];

/// What changes as time passes: `idiag_expires` in the message, and four ages in `tcp_info`.
const EXPIRES: std::ops::Range<usize> = 52..56;
const AGES: std::ops::Range<usize> = 44..60;

/// Asks for all sockets of this family and protocol.
pub(super) fn request(family: u8, transport: Transport) -> Vec<u8> {
    let (protocol, states) = match transport {
        Transport::Tcp => (6, !NOT_OF_TCP),
        Transport::Udp => (17, u32::MAX),
    };
    let extensions = [INFO, CONGESTION, MEMORY].into_iter().fold(0, |all, one| all | 1 << (one - 1));
    let mut out = Vec::with_capacity(FIXED);
    out.extend(u32::to_ne_bytes(FIXED as u32));
    out.extend([BY_FAMILY, DUMP].map(u16::to_ne_bytes).concat());
    out.extend([0; 8]);
    out.extend([family, protocol, extensions, 0]);
    out.extend(states.to_ne_bytes());
    out.resize(FIXED, 0);
    out
}

/// The messages of a datagram, each with its kind.
pub(super) fn messages(datagram: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let length = number(rest, 0)? as usize;
        let kind = short(rest, 4)?;
        let body = rest.get(HEADER..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// What the kernel says of one socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) body: &'a [u8],
    /// That of the request, or of the group that a report came from.
    pub(super) transport: Transport,
    /// When the kernel wrote it.
    pub(super) read: Instant<Monotonic>,
}

impl<'a> Message<'a> {
    /// The socket's cookie.
    pub(super) fn cookie(&self) -> Option<u64> {
        Some(u64::from(number(self.body, 44)?) | u64::from(number(self.body, 48)?) << 32)
    }

    /// All of it but for what changes as time passes.
    pub(super) fn timeless(&self, mut each: impl FnMut(&[u8])) {
        let fixed = self.body.get(..FIXED).unwrap_or_default();
        each(fixed.get(..EXPIRES.start).unwrap_or_default());
        each(fixed.get(EXPIRES.end..).unwrap_or_default());
        for (kind, value) in self.attributes() {
            match value.get(..AGES.start).zip(value.get(AGES.end..)).filter(|_| kind == INFO) {
                Some((before, after)) => [before, after].into_iter().for_each(&mut each),
                None => each(value),
            }
        }
    }

    /// The socket; `None` where the message is cut short or of another family.
    pub(super) fn socket(&self, network: u64) -> Option<Socket> {
        let Self { body, transport, read } = *self;
        let [local, remote] = [(4, 8), (6, 24)].map(|(port, address)| end(body, port, address));
        let inode = number(body, 68)?;
        let memory = self.attribute(MEMORY).unwrap_or_default();
        let state = state(*body.get(1)?, transport);
        let mut tcp = self.attribute(INFO).filter(|_| transport == Transport::Tcp).map(tcp);
        if let Some(tcp) = &mut tcp {
            // The kernel counts a FIN as a byte that was received.
            tcp.received = tcp.received.saturating_sub(u64::from(AFTER_FIN.contains(body.get(1)?)));
            let name = self.attribute(CONGESTION).unwrap_or_default();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            tcp.congestion_control = String::from_utf8_lossy(name).into_owned();
        }
        Some(Socket {
            cookie: self.cookie()?,
            transport,
            state,
            local: local?,
            remote: remote?,
            network,
            inode,
            cgroup: self.attribute(CGROUP).and_then(|value| long(value, 0)),
            uid: number(body, 64)?,
            owner: None,
            receive_queue: number(body, 56)?,
            send_queue: number(body, 60)?,
            drops: number(memory, 32).unwrap_or(0),
            buffers: [4, 12].map(|at| number(memory, at).unwrap_or(0)),
            tcp: tcp.map(Box::new),
            read,
        })
    }

    fn attribute(&self, wanted: u16) -> Option<&'a [u8]> {
        self.attributes().find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
    }

    fn attributes(&self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.body.get(FIXED..).unwrap_or_default();
        std::iter::from_fn(move || {
            let length = usize::from(short(rest, 0)?);
            let kind = short(rest, 2)?;
            let value = rest.get(ATTRIBUTE..length)?;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            Some((kind, value))
        })
    }
}

/// An end of a socket: a port in network order, and an address of the message's family.
fn end(body: &[u8], port: usize, address: usize) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(body.get(port..port + 2)?.try_into().ok()?);
    let address: IpAddr = match body.first()? {
        2 => Ipv4Addr::from(<[u8; 4]>::try_from(body.get(address..address + 4)?).ok()?).into(),
        10 => Ipv6Addr::from(<[u8; 16]>::try_from(body.get(address..address + 16)?).ok()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

fn state(number: u8, transport: Transport) -> SocketState {
    match (number, transport) {
        (1, _) => SocketState::Established,
        (_, Transport::Udp) => SocketState::Open,
        (2, _) => SocketState::Connecting,
        (3 | 12, _) => SocketState::Accepting,
        (10, _) => SocketState::Listening,
        _ => SocketState::Closing,
    }
}

/// `struct tcp_info` of `<linux/tcp.h>`, of which an older kernel has less.
fn tcp(info: &[u8]) -> TcpState {
    let byte = |at: usize| info.get(at).copied().unwrap_or(0);
    let count = |at| number(info, at).unwrap_or(0);
    let whole = |at| long(info, at).unwrap_or(0);
    let millis = |at| Nanos::from_millis(count(at).into());
    let micros = |us: u64| Nanos(us.saturating_mul(1_000));
    TcpState {
        // Linux counts them since 4.19; before that, what was acknowledged is what is known.
        sent: if info.len() >= 216 { whole(200).saturating_sub(whole(208)) } else { whole(120) },
        acknowledged: whole(120),
        received: whole(128),
        segments: count(156),
        retransmitted: count(100),
        unacknowledged: count(24),
        timeouts: byte(2),
        probes: byte(3),
        unsent: count(144),
        rtt: [68, 72].map(|at| micros(count(at).into())),
        least_rtt: Some(count(148)).filter(|us| !matches!(us, 0 | &u32::MAX)).map(|us| micros(us.into())),
        timeout: micros(count(8).into()),
        window: [80, 76].map(count),
        receive_window: number(info, 228),
        segment: count(16),
        rates: [104, 160].map(whole),
        busy: micros(whole(168)),
        receive_window_limited: micros(whole(176)),
        send_buffer_limited: micros(whole(184)),
        options: byte(5),
        congestion_control: String::new(),
        since_sent: millis(44),
        since_received: millis(52),
        since_ack: millis(56),
    }
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// A number of 32 bits in this machine's order.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = [(ATTRIBUTE + value.len()) as u16, kind].map(u16::to_ne_bytes).concat();
        out.extend(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    /// An established connection of IPv4 with so much of `tcp_info` as this kernel has.
    fn message(ages: u32, length: usize) -> Vec<u8> {
        let mut out = vec![2, 1, 0, 0];
        out.extend([443_u16, 40_000].map(u16::to_be_bytes).concat());
        out.extend([10, 0, 0, 1].into_iter().chain([0; 12]).chain([10, 0, 0, 2]).chain([0; 12]));
        out.extend([0_u32, 7, 1, ages, 5, 6, 1_000, 99].map(u32::to_ne_bytes).concat());
        let mut info = vec![0; 232];
        info[2] = 3;
        info[5] = 0b111;
        let mut put = |at: usize, value: &[u8]| info[at..at + value.len()].copy_from_slice(value);
        for at in [44, 48, 52, 56] {
            put(at, &ages.to_ne_bytes());
        }
        put(68, &20_000_u32.to_ne_bytes());
        put(80, &10_u32.to_ne_bytes());
        put(120, &700_u64.to_ne_bytes());
        put(128, &800_u64.to_ne_bytes());
        put(148, &19_000_u32.to_ne_bytes());
        put(168, &5_000_u64.to_ne_bytes());
        put(200, &1_000_u64.to_ne_bytes());
        put(208, &100_u64.to_ne_bytes());
        put(228, &65_535_u32.to_ne_bytes());
        out.extend(attribute(INFO, &info[..length]));
        out.extend(attribute(CONGESTION, b"cubic\0"));
        out.extend(attribute(MEMORY, &(1..=9_u32).flat_map(u32::to_ne_bytes).collect::<Vec<_>>()));
        out.extend(attribute(CGROUP, &77_u64.to_ne_bytes()));
        out
    }

    fn of_tcp(body: &[u8]) -> Message<'_> {
        Message { body, transport: Transport::Tcp, read: Instant::from_nanos(5) }
    }

    fn read(body: &[u8]) -> Option<Socket> {
        of_tcp(body).socket(4)
    }

    #[test]
    fn a_connection_is_read_field_by_field() {
        let socket = read(&message(250, 232)).unwrap();
        assert_eq!((socket.cookie, socket.network, socket.inode), (7 | 1 << 32, 4, 99));
        assert_eq!(
            (socket.local.to_string(), socket.remote.to_string()),
            ("10.0.0.1:443".into(), "10.0.0.2:40000".into())
        );
        assert_eq!((socket.receive_queue, socket.send_queue, socket.drops), (5, 6, 9));
        assert_eq!((socket.buffers, socket.cgroup, socket.state), ([2, 4], Some(77), SocketState::Established));
        assert_eq!((socket.uid, socket.read), (1_000, Instant::from_nanos(5)));
        let tcp = socket.tcp.unwrap();
        assert_eq!((tcp.sent, tcp.acknowledged, tcp.received), (900, 700, 800));
        assert_eq!(
            (tcp.rtt[0], tcp.least_rtt, tcp.timeouts),
            (Nanos::from_millis(20), Some(Nanos::from_millis(19)), 3)
        );
        assert_eq!((tcp.busy, tcp.since_ack), (Nanos::from_millis(5), Nanos::from_millis(250)));
        assert_eq!((tcp.receive_window, tcp.congestion_control.as_str()), (Some(65_535), "cubic"));
    }

    #[test]
    fn an_older_kernel_says_less() {
        let tcp = read(&message(0, 192)).unwrap().tcp.unwrap();
        assert_eq!((tcp.sent, tcp.receive_window, tcp.received), (700, None, 800));
    }

    #[test]
    fn a_fin_is_no_byte_of_the_programs() {
        for (state, received) in [(1, 800), (5, 800), (8, 799), (9, 799), (11, 799), (7, 799)] {
            let mut body = message(0, 232);
            body[1] = state;
            assert_eq!(read(&body).unwrap().tcp.unwrap().received, received, "{state}");
        }
    }

    #[test]
    fn time_that_passes_is_no_change() {
        let whole = |body: &[u8]| {
            let mut all = Vec::new();
            of_tcp(body).timeless(|part| all.extend_from_slice(part));
            all
        };
        let now = message(5, 232);
        assert_eq!(whole(&now), whole(&message(9, 232)));
        let mut later = now.clone();
        later[FIXED + ATTRIBUTE + 120] += 1;
        assert_ne!(whole(&now), whole(&later));
    }

    #[test]
    fn mapped_addresses_are_ipv4() {
        let mut body = message(0, 232);
        body[0] = 10;
        body[8..24].copy_from_slice(&"::ffff:192.0.2.1".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(read(&body).unwrap().local.to_string(), "192.0.2.1:443");
    }

    #[test]
    fn a_request_is_as_long_as_it_says() {
        let request = request(2, Transport::Tcp);
        assert_eq!((number(&request, 0), request.len(), request[17]), (Some(72), 72, 6));
        assert_eq!(number(&request, 20).unwrap() & NOT_OF_TCP, 0);
    }

    proptest! {
        #[test]
        fn whatever_the_kernel_writes_is_read_to_its_end(bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 0..500_usize) {
            for (_, body) in messages(&bytes) {
                let _ = read(body);
            }
            let whole = message(1, 232);
            let _ = read(&whole[..cut.min(whole.len())]);
        }
    }
}
