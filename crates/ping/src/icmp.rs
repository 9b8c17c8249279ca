//! ICMP and ICMPv6 echo (RFC 792, RFC 4443), by a ping socket where the user may have one, else by
//! a raw socket.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use nix::sys::socket::setsockopt;
use nix::{setsockopt_impl, sockopt_impl};
use socket2::{Protocol, Socket, Type};

use crate::datagram::Exchanger;
use crate::{Answerer, Error, Probe, Prober, Settings, socket};

/// Probes by echo request and reply.
pub struct IcmpProber {
    exchanger: Exchanger,
    v6: bool,
    raw: bool,
    own: u64,
    size: usize,
    limits: Vec<String>,
}

/// Type, code, checksum, identifier, sequence number.
const HEADER: usize = 8;
/// `ICMP_FILTER` and `ICMPV6_FILTER`, both number 1 of their level (`include/uapi/linux/icmp.h`,
/// `icmpv6.h`).
const FILTER: i32 = 1;
const SOL_RAW: i32 = 255;
const SOL_ICMPV6: i32 = 58;

impl IcmpProber {
    /// A prober for this host; the port is not used.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] where neither kind of socket is allowed, [`Error::System`] where
    /// there is no route, and as [`timestamping::Request::enable`].
    pub fn new(to: SocketAddr, settings: &Settings) -> Result<Self, Error> {
        let v6 = to.is_ipv6();
        let protocol = if v6 { Protocol::ICMPV6 } else { Protocol::ICMPV4 };
        let (socket, raw) = match socket::open(to.ip(), Type::DGRAM, protocol) {
            Ok(socket) => (socket, false),
            Err(_) => (Self::raw_socket(to, protocol)?, true),
        };
        let exchanger = Exchanger::new(socket, Answerer::Kernel, to, settings)?;
        let limits = exchanger.limits();
        Ok(Self { exchanger, v6, raw, own: socket::own_number(), size: settings.size, limits })
    }

    fn raw_socket(to: SocketAddr, protocol: Protocol) -> Result<Socket, Error> {
        let socket = socket::open(to.ip(), Type::RAW, protocol).map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::NotPermitted {
                what: "sending ICMP echo",
                remedy: "run as root, or allow ping sockets: sysctl net.ipv4.ping_group_range=\"0 2147483647\"",
            },
            _ => error,
        })?;
        // Only echo replies; everything else that arrives at this host is not for this socket. A
        // set bit blocks a type.
        let set = if to.is_ipv6() {
            let mut blocked = [u32::MAX; 8];
            blocked[129 / 32] = !(1 << (129 % 32));
            setsockopt(&socket, Icmpv6Filter, &blocked)
        } else {
            setsockopt(&socket, IcmpFilter, &!1)
        };
        set.map_err(|error| Error::System { call: "setsockopt(ICMP_FILTER)", source: error.into() })?;
        Ok(socket)
    }
}

impl Prober for IcmpProber {
    fn probe(&mut self, number: u64, stop: &AtomicBool) -> Result<Probe, Error> {
        let payload = socket::payload(self.size, self.own, number);
        let sequence = (number as u16).to_be_bytes();
        let id = (self.own as u16).to_be_bytes();
        let message = echo_request(self.v6, id, sequence, &payload);
        let (raw, v6) = (self.raw, self.v6);
        self.exchanger.exchange(
            number,
            &message,
            stop,
            |bytes| {
                let icmp = if raw && !v6 { after_ip_header(bytes)? } else { bytes };
                let (header, data) = icmp.split_at_checked(HEADER)?;
                let reply = if v6 { 129 } else { 0 };
                // A ping socket's identifier is its own, and the kernel delivers by it.
                let ours = header[0] == reply && header[6..8] == sequence && (!raw || header[4..6] == id);
                (ours && data == payload).then_some(data.len())
            },
            |error| {
                let quoted = error.payload;
                quoted.len() < HEADER || (quoted[6..8] == sequence && (!raw || quoted[4..6] == id))
            },
        )
    }

    fn method(&self) -> &'static str {
        if self.raw { "ICMP echo by a raw socket" } else { "ICMP echo by a ping socket" }
    }

    fn limits(&self) -> &[String] {
        &self.limits
    }
}

sockopt_impl!(
    /// The types that a raw IPv4 socket does not take: one bit for each.
    IcmpFilter,
    SetOnly,
    SOL_RAW,
    FILTER,
    u32
);

sockopt_impl!(
    /// The types that a raw IPv6 socket does not take: one bit for each.
    Icmpv6Filter,
    SetOnly,
    SOL_ICMPV6,
    FILTER,
    [u32; 8]
);

/// A raw IPv4 socket gives the IP header too.
fn after_ip_header(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(usize::from(bytes.first()? & 0xf) * 4..)
}

fn echo_request(v6: bool, id: [u8; 2], sequence: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let kind = if v6 { 128 } else { 8 };
    let mut message = vec![kind, 0, 0, 0, id[0], id[1], sequence[0], sequence[1]];
    message.extend_from_slice(payload);
    // The kernel fills ICMPv6's in: it covers addresses that are not known here.
    if !v6 {
        let sum = checksum(&message).to_be_bytes();
        message[2..4].copy_from_slice(&sum);
    }
    message
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u64 = bytes.chunks(2).map(|w| u64::from(w[0]) << 8 | u64::from(*w.get(1).unwrap_or(&0))).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_its_checksum_sums_to_zero() {
        for size in [0, 1, 56, 65_000] {
            assert_eq!(checksum(&echo_request(false, [1, 2], [3, 4], &vec![0xab; size])), 0);
        }
    }

    #[test]
    fn a_short_ip_header_is_no_answer() {
        assert_eq!(after_ip_header(&[]), None);
        assert_eq!(after_ip_header(&[0x45, 0]), None);
        assert_eq!(after_ip_header(&[0x41, 0, 0, 0, 9]), Some(&[9u8][..]));
    }
}
