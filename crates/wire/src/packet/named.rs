//! Which protocol of UDP a datagram is of: by what its payload begins with, else by its port.

use record::udp::KnownBy;

use super::address::{be16, be32};

/// Ports that IANA gives to protocols of UDP, of those that networks have most. Ports of names and
/// of QUIC are not among them: what they carry is read elsewhere.
const PORTS: &[(u16, &str)] = &[
    (67, "DHCP"),
    (68, "DHCP"),
    (69, "TFTP"),
    (88, "Kerberos"),
    (111, "RPC portmapper"),
    (123, "NTP"),
    (137, "NetBIOS names"),
    (138, "NetBIOS datagrams"),
    (161, "SNMP"),
    (162, "SNMP trap"),
    (319, "PTP"),
    (320, "PTP"),
    (389, "CLDAP"),
    (500, "IKE"),
    (514, "syslog"),
    (520, "RIP"),
    (546, "DHCPv6"),
    (547, "DHCPv6"),
    (623, "IPMI"),
    (1194, "OpenVPN"),
    (1701, "L2TP"),
    (1812, "RADIUS"),
    (1813, "RADIUS accounting"),
    (1900, "SSDP"),
    (2049, "NFS"),
    (2055, "NetFlow"),
    (3478, "STUN"),
    (3702, "WS-Discovery"),
    (3784, "BFD"),
    (4500, "IPsec NAT traversal"),
    (4739, "IPFIX"),
    (5060, "SIP"),
    (5683, "CoAP"),
    (6343, "sFlow"),
    (8125, "StatsD"),
    (51820, "WireGuard"),
];

/// The protocol of a datagram between two ports, whose payload of so many bytes begins like this;
/// and how it is known.
pub fn named(ports: [u16; 2], head: &[u8], payload: u32) -> Option<(&'static str, KnownBy)> {
    if let Some(name) = by_payload(ports, head, payload) {
        return Some((name, KnownBy::Payload));
    }
    let by_port = |port: u16| PORTS.binary_search_by_key(&port, |(port, _)| *port).ok().map(|i| PORTS[i].1);
    let [low, high] = [ports[0].min(ports[1]), ports[0].max(ports[1])];
    by_port(low).or_else(|| by_port(high)).map(|name| (name, KnownBy::Port))
}

fn by_payload(ports: [u16; 2], head: &[u8], payload: u32) -> Option<&'static str> {
    match head {
        [b'W', b'L', b'U', b'D' | b'O', ..] if payload >= 24 => return Some("wirelapse udp"),
        [0x14, 0xa7, 0x5b, 0..=15, ..] => return Some("irtt"),
        _ => {}
    }
    if is_stun(head, payload) {
        return Some("STUN");
    }
    if is_syslog(head) {
        return Some("syslog");
    }
    if ports.contains(&123) && is_ntp(head, payload) {
        return Some("NTP");
    }
    let header = head.first_chunk::<13>()?;
    match header {
        // Handshake, alert, change of cipher and data of DTLS 1.0 and 1.2 (RFC 6347, section 4.1).
        [20..=23, 0xfe, 0xff | 0xfd, ..] if u32::from(be16(header, 11)) + 13 <= payload => Some("DTLS"),
        // The sizes of an initiation and a response are fixed (WireGuard's paper, section 5.4).
        [1, 0, 0, 0, ..] if payload == 148 => Some("WireGuard"),
        [2, 0, 0, 0, ..] if payload == 92 => Some("WireGuard"),
        // Sender and receiver reports (RFC 3550, section 6.4).
        [0x80..=0xbf, 200 | 201, ..] if u32::from(be16(header, 2)) * 4 + 4 <= payload => Some("RTCP"),
        [b'S', b'I', b'P', b'/', b'2', b'.', b'0', b' ', ..] => Some("SIP"),
        _ => None,
    }
}

/// The magic cookie (RFC 8489, section 5).
fn is_stun(head: &[u8], payload: u32) -> bool {
    head.first_chunk::<20>().is_some_and(|header| {
        header[0] & 0xc0 == 0 && be32(header, 4) == 0x2112_a442 && u32::from(be16(header, 2)) + 20 == payload
    })
}

/// A priority of 0 to 191 in angle brackets (RFC 5424, section 6.2.1), and text.
fn is_syslog(head: &[u8]) -> bool {
    let Some(rest) = head.strip_prefix(b"<") else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = rest[..digits].iter().fold(0u32, |value, digit| value * 10 + u32::from(digit - b'0'));
    let follows = rest.get(digits..digits + 4).unwrap_or_default();
    (1..=3).contains(&digits)
        && value <= 191
        && follows.first() == Some(&b'>')
        && follows[1..].iter().all(|byte| (0x20..0x7f).contains(byte))
}

/// Version 1 to 4, a mode between 1 and 5, and the whole header (RFC 5905, section 7.3).
fn is_ntp(head: &[u8], payload: u32) -> bool {
    head.first().is_some_and(|first| (1..=4).contains(&(first >> 3 & 7)) && (1..=5).contains(&(first & 7)))
        && payload >= 48
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_in_order() {
        assert!(PORTS.is_sorted_by_key(|(port, _)| *port));
    }

    #[test]
    fn what_a_payload_says_goes_before_its_port() {
        let name = |ports, payload: &[u8]| named(ports, payload, payload.len() as u32);
        let mut stun = vec![0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42];
        stun.extend_from_slice(&[7; 12]);
        assert_eq!(name([40_000, 19_302], &stun), Some(("STUN", KnownBy::Payload)));
        assert_eq!(name([40_000, 3_478], &stun[..19]), Some(("STUN", KnownBy::Port)));
        assert_eq!(name([40_000, 5_514], b"<165>1 2003"), Some(("syslog", KnownBy::Payload)));
        assert_eq!(name([40_000, 5_514], b"<192>1 2003"), None);
        assert_eq!(name([40_000, 5_514], b"<165"), None);
        assert_eq!(name([40_000, 514], b""), Some(("syslog", KnownBy::Port)));
        let mut ntp = vec![0x23];
        ntp.resize(48, 0);
        assert_eq!(name([123, 40_000], &ntp), Some(("NTP", KnownBy::Payload)));
        assert_eq!(name([123, 40_000], &[0xff; 48]), Some(("NTP", KnownBy::Port)));
        assert_eq!(name([123, 40_000], &ntp[..47]), Some(("NTP", KnownBy::Port)));
        assert_eq!(name([9, 40_000], &ntp), None);
        let report = [&[0x80, 200, 0, 6][..], &[0; 24]].concat();
        assert_eq!(name([9_001, 40_001], &report), Some(("RTCP", KnownBy::Payload)));
        let hello = [&[22, 0xfe, 0xfd][..], &[0; 8], &[0, 4, 1, 1, 1, 1]].concat();
        assert_eq!(name([9_001, 4_433], &hello), Some(("DTLS", KnownBy::Payload)));
        let initiation = [&[1, 0, 0, 0][..], &[9; 144]].concat();
        assert_eq!(name([9_001, 4_433], &initiation), Some(("WireGuard", KnownBy::Payload)));
    }
}
