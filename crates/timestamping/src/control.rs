//! Control messages (`struct cmsghdr`): a pure walk over the bytes that `recvmsg` leaves, and the
//! reading of each.

use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clock::{Instant, Phc, Realtime};

use crate::ParseError;

/// The times of one `SCM_TIMESTAMPING` message. The kernel fills the software or the hardware one,
/// or (received packets) both; a zero stands for "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Taken by the kernel.
    pub software: Option<Instant<Realtime>>,
    /// Taken by the NIC, on its clock (or the virtual clock bound with `BIND_PHC`).
    pub hardware: Option<Instant<Phc>>,
}

/// `struct scm_ts_pktinfo`: what the NIC that stamped a received packet saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo {
    /// Index of the interface that the packet really came in by.
    pub interface: u32,
    /// Length on the link layer, in bytes.
    pub length: u32,
}

/// `struct sock_extended_err` (`include/uapi/linux/errqueue.h`), as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedError {
    /// Error number; `ENOMSG` for a timestamp.
    pub errno: u32,
    /// `SO_EE_ORIGIN_*`.
    pub origin: u8,
    /// ICMP type.
    pub kind: u8,
    /// ICMP code.
    pub code: u8,
    /// Path MTU, or the stage of a timestamp (`SCM_TSTAMP_*`).
    pub info: u32,
    /// The id of a timestamp.
    pub data: u32,
    /// Who sent the ICMP error.
    pub offender: Option<IpAddr>,
}

/// One control message, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control<'a> {
    /// `SCM_TIMESTAMPING` in either layout.
    Times(Times),
    /// `SCM_TIMESTAMPING_PKTINFO`.
    PacketInfo(PacketInfo),
    /// `SCM_TIMESTAMPING_OPT_STATS`: netlink attributes for [`crate::TcpStats::parse`].
    Stats(&'a [u8]),
    /// `IP_RECVERR`, `IPV6_RECVERR` or `PACKET_TX_TIMESTAMP`: what kind of thing lay on the error
    /// queue.
    Error(ExtendedError),
    /// `IP_PKTINFO` or `IPV6_PKTINFO`: the interface's index.
    Interface(u32),
    /// `SO_RXQ_OVFL`: datagrams this socket has dropped since it was made, modulo 2³².
    Dropped(u32),
    /// `IP_TTL` or `IPV6_HOPLIMIT`.
    Ttl(u8),
    /// Anything else.
    Other {
        /// Protocol level.
        level: i32,
        /// Type within that level.
        kind: i32,
        /// Its payload.
        data: &'a [u8],
    },
}

/// The control messages in `bytes`. After an error the walk ends.
pub fn controls(bytes: &[u8]) -> Controls<'_> {
    Controls { bytes, offset: 0 }
}

/// See [`controls`].
#[derive(Clone, Debug)]
pub struct Controls<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// `sizeof(struct cmsghdr)`: a length as wide as `size_t`, a level and a type.
const HEADER: usize = size_of::<usize>() + 8;
/// `CMSG_ALIGN`.
const ALIGN: usize = size_of::<usize>();

/// `SO_TIMESTAMPING_NEW` (`include/uapi/asm-generic/socket.h`): 64-bit times on every machine.
pub(crate) const SO_TIMESTAMPING_NEW: i32 = 65;
/// `SCM_TS_OPT_ID` (`include/uapi/asm-generic/socket.h`).
pub(crate) const SCM_TS_OPT_ID: i32 = 81;
/// `PACKET_TX_TIMESTAMP` (`include/uapi/linux/if_packet.h`).
const PACKET_TX_TIMESTAMP: i32 = 16;

impl<'a> Iterator for Controls<'a> {
    type Item = Result<Control<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.offset..).filter(|rest| !rest.is_empty())?;
        let offset = self.offset;
        self.offset = self.bytes.len();
        let what = "a control message";
        let Some((header, _)) = rest.split_at_checked(HEADER) else {
            return Some(Err(ParseError::Truncated { what, offset, need: HEADER, have: rest.len() }));
        };
        let (length, names) = header.split_at(ALIGN);
        let length = usize::from_ne_bytes(length.try_into().expect("as wide as a usize"));
        if length < HEADER {
            return Some(Err(ParseError::Malformed { what, offset, why: "its length is less than its header's" }));
        }
        let Some(data) = rest.get(HEADER..length) else {
            return Some(Err(ParseError::Truncated { what, offset, need: length, have: rest.len() }));
        };
        // The padding after the last message may be missing. `length` is no more than the slice's,
        // so nothing overflows.
        self.offset = offset + length.next_multiple_of(ALIGN);
        let (level, kind) = (int(names, 0), int(names, 4));
        Some(read(level, kind, data, offset))
    }
}

fn int(bytes: &[u8], at: usize) -> i32 {
    i32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> i64 {
    i64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// `data`, where it has at least `need` bytes.
fn at_least<'a>(data: &'a [u8], need: usize, what: &'static str, offset: usize) -> Result<&'a [u8], ParseError> {
    if data.len() < need {
        return Err(ParseError::Truncated { what, offset, need: HEADER + need, have: HEADER + data.len() });
    }
    Ok(data)
}

fn read(level: i32, kind: i32, data: &[u8], offset: usize) -> Result<Control<'_>, ParseError> {
    let number = |what| at_least(data, 4, what, offset).map(|d| int(d, 0));
    Ok(match (level, kind) {
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPING | SO_TIMESTAMPING_NEW) => Control::Times(times(kind, data, offset)?),
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING_PKTINFO) => {
            let d = at_least(data, 8, "SCM_TIMESTAMPING_PKTINFO", offset)?;
            Control::PacketInfo(PacketInfo { interface: int(d, 0) as u32, length: int(d, 4) as u32 })
        }
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING_OPT_STATS) => Control::Stats(data),
        (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => Control::Dropped(number("SO_RXQ_OVFL")? as u32),
        (libc::SOL_IP, libc::IP_RECVERR)
        | (libc::SOL_IPV6, libc::IPV6_RECVERR)
        | (libc::SOL_PACKET, PACKET_TX_TIMESTAMP) => Control::Error(extended_error(data, offset)?),
        (libc::SOL_IP, libc::IP_PKTINFO) => Control::Interface(number("IP_PKTINFO")? as u32),
        (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
            Control::Interface(int(at_least(data, 20, "IPV6_PKTINFO", offset)?, 16) as u32)
        }
        (libc::SOL_IP, libc::IP_TTL) | (libc::SOL_IPV6, libc::IPV6_HOPLIMIT) => {
            let ttl = number("the TTL")?;
            Control::Ttl(u8::try_from(ttl).map_err(|_| ParseError::Malformed {
                what: "the TTL",
                offset,
                why: "it is not within 0 to 255",
            })?)
        }
        _ => Control::Other { level, kind, data },
    })
}

/// Three `timespec`s: software, one that is always zero, hardware.
fn times(kind: i32, data: &[u8], offset: usize) -> Result<Times, ParseError> {
    let what = "SCM_TIMESTAMPING";
    let wide = kind == SO_TIMESTAMPING_NEW || size_of::<libc::timespec>() == 16;
    let nanos = |index: usize| {
        let (seconds, nanos) = if wide {
            let d = at_least(data, 48, what, offset)?;
            (long(d, index * 16), long(d, index * 16 + 8))
        } else {
            let d = at_least(data, 24, what, offset)?;
            (int(d, index * 8).into(), int(d, index * 8 + 4).into())
        };
        let (Ok(seconds), Ok(nanos @ 0..1_000_000_000)) = (u64::try_from(seconds), u64::try_from(nanos)) else {
            return Err(ParseError::Malformed { what, offset, why: "a time before its clock's epoch" });
        };
        seconds.checked_mul(1_000_000_000).and_then(|s| s.checked_add(nanos)).ok_or(ParseError::Malformed {
            what,
            offset,
            why: "a time past the year 2554",
        })
    };
    let (software, hardware) = (nanos(0)?, nanos(2)?);
    Ok(Times {
        software: (software != 0).then(|| Instant::from_nanos(software)),
        hardware: (hardware != 0).then(|| Instant::from_nanos(hardware)),
    })
}

fn extended_error(data: &[u8], offset: usize) -> Result<ExtendedError, ParseError> {
    let d = at_least(data, 16, "struct sock_extended_err", offset)?;
    Ok(ExtendedError {
        errno: int(d, 0) as u32,
        origin: d[4],
        kind: d[5],
        code: d[6],
        info: int(d, 8) as u32,
        data: int(d, 12) as u32,
        offender: offender(&d[16..]),
    })
}

/// The socket address after a `sock_extended_err`; of family 0, or missing, where no host sent it.
fn offender(address: &[u8]) -> Option<IpAddr> {
    let family = u16::from_ne_bytes(address.get(..2)?.try_into().ok()?);
    match i32::from(family) {
        libc::AF_INET => {
            let octets: [u8; 4] = address.get(4..8)?.try_into().ok()?;
            Some(Ipv4Addr::from(octets).into())
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = address.get(8..24)?.try_into().ok()?;
            Some(Ipv6Addr::from(octets).to_canonical())
        }
        _ => None,
    }
}

/// Appends a control message to `buffer`, which is then one for `sendmsg`. Aligned as the kernel
/// wants it.
pub(crate) fn put(buffer: &mut Vec<u8>, level: i32, kind: i32, data: &[u8]) {
    buffer.extend_from_slice(&(HEADER + data.len()).to_ne_bytes());
    buffer.extend_from_slice(&level.to_ne_bytes());
    buffer.extend_from_slice(&kind.to_ne_bytes());
    buffer.extend_from_slice(data);
    buffer.resize(buffer.len().next_multiple_of(ALIGN), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn timespecs(list: [(i64, i64); 3]) -> Vec<u8> {
        list.iter().flat_map(|(s, n)| [s.to_ne_bytes(), n.to_ne_bytes()].concat()).collect()
    }

    fn one(level: i32, kind: i32, data: &[u8]) -> Result<Control<'static>, ParseError> {
        let mut bytes = Vec::new();
        put(&mut bytes, level, kind, data);
        let bytes: &'static [u8] = bytes.leak();
        controls(bytes).next().expect("one message")
    }

    #[test]
    fn times_are_read_and_zero_is_none() {
        let got = one(libc::SOL_SOCKET, SO_TIMESTAMPING_NEW, &timespecs([(1, 5), (0, 0), (0, 0)]));
        let software = Some(Instant::from_nanos(1_000_000_005));
        assert_eq!(got, Ok(Control::Times(Times { software, hardware: None })));
        let got = one(libc::SOL_SOCKET, SO_TIMESTAMPING_NEW, &timespecs([(0, 0), (0, 0), (0, 7)]));
        assert_eq!(got, Ok(Control::Times(Times { software: None, hardware: Some(Instant::from_nanos(7)) })));
    }

    #[test]
    fn impossible_times_are_malformed() {
        for bad in [(-1, 0), (0, 1_000_000_000), (i64::MAX, 0)] {
            let got = one(libc::SOL_SOCKET, SO_TIMESTAMPING_NEW, &timespecs([bad, (0, 0), (0, 0)]));
            assert!(matches!(got, Err(ParseError::Malformed { .. })), "{bad:?}: {got:?}");
        }
        let got = one(libc::SOL_SOCKET, SO_TIMESTAMPING_NEW, &[0; 47]);
        assert!(matches!(got, Err(ParseError::Truncated { .. })));
    }

    #[test]
    fn an_icmp_error_names_its_sender() {
        let mut data = vec![0u8; 16];
        data[0] = libc::ECONNREFUSED as u8;
        data[4..7].copy_from_slice(&[libc::SO_EE_ORIGIN_ICMP, 3, 3]);
        data.extend_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        data.extend_from_slice(&[0, 0, 192, 0, 2, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
        let Ok(Control::Error(error)) = one(libc::SOL_IP, libc::IP_RECVERR, &data) else { panic!() };
        assert_eq!(error.offender, Some("192.0.2.9".parse().unwrap()));
        assert_eq!((error.kind, error.code), (3, 3));
    }

    proptest! {
        #[test]
        fn what_was_put_is_walked_in_order(list in prop::collection::vec((1000i32..2000, prop::collection::vec(any::<u8>(), 0..40)), 0..12)) {
            let mut bytes = Vec::new();
            for (kind, data) in &list {
                put(&mut bytes, libc::SOL_SOCKET, *kind, data);
            }
            let back: Vec<_> = controls(&bytes).map(|c| match c {
                Ok(Control::Other { kind, data, .. }) => (kind, data.to_vec()),
                other => panic!("{other:?}"),
            }).collect();
            prop_assert_eq!(back, list);
        }

        #[test]
        fn any_bytes_end_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(controls(&bytes).count() <= bytes.len());
        }

        /// Lengths and names that the kernel really uses, payloads of any size: deeper than random
        /// bytes get.
        #[test]
        fn any_payload_of_a_known_message_ends_without_a_panic(
            which in 0usize..12, data in prop::collection::vec(any::<u8>(), 0..80), cut in 0usize..120,
        ) {
            let names = [
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPING), (libc::SOL_SOCKET, SO_TIMESTAMPING_NEW),
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING_PKTINFO), (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING_OPT_STATS),
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL), (libc::SOL_IP, libc::IP_RECVERR),
                (libc::SOL_IPV6, libc::IPV6_RECVERR), (libc::SOL_PACKET, PACKET_TX_TIMESTAMP),
                (libc::SOL_IP, libc::IP_PKTINFO), (libc::SOL_IPV6, libc::IPV6_PKTINFO),
                (libc::SOL_IP, libc::IP_TTL), (libc::SOL_IPV6, libc::IPV6_HOPLIMIT),
            ];
            let mut bytes = Vec::new();
            put(&mut bytes, names[which].0, names[which].1, &data);
            bytes.truncate(cut);
            let _ = controls(&bytes).collect::<Vec<_>>();
        }
    }
}
