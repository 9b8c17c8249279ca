//! The frames that are generated: UDP with an id and a send time in each.

use std::net::{IpAddr, SocketAddr};

/// In front of id and time, so that a receiver knows our frames.
const MAGIC: [u8; 2] = *b"WL";
/// Magic, id and time.
pub(crate) const MARK: usize = 18;

/// What a generated frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Counts the frames of a run, from 0 on.
    pub id: u64,
    /// When it was sent: `CLOCK_MONOTONIC` of the sender, nanoseconds.
    pub sent_ns: u64,
}

/// What the frames of a run look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Length from the Ethernet header on, without the frame check sequence, bytes.
    pub bytes: u16,
    /// Hardware addresses: from, to.
    pub hardware: [[u8; 6]; 2],
    /// VLAN id, 1 to 4094, where frames carry a tag.
    pub vlan: Option<u16>,
    /// From which address and port. The ports of flows count up from here.
    pub source: SocketAddr,
    /// To which address and port, of the same family.
    pub destination: SocketAddr,
    /// Flows that take turns, distinguished by their source port.
    pub flows: u16,
}

/// Why a shape cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Too short or too long.
    #[error("frames of {bytes} bytes cannot be: with these headers, id and time they are {least} to 9000 bytes")]
    Length {
        /// What was asked for.
        bytes: u16,
        /// The least.
        least: usize,
    },
    /// Addresses of two families.
    #[error("source and destination are of different families: {0} and {1}")]
    Families(IpAddr, IpAddr),
    /// A VLAN id that cannot be.
    #[error("a VLAN id is 1 to 4094, not {0}")]
    Vlan(u16),
    /// No flow, or more than there are ports.
    #[error("{0} flows cannot be: ports from {1} on leave room for {2}")]
    Flows(u16, u16, u32),
}

/// The bytes of a frame, and where they change from one to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    udp: usize,
    mark: usize,
    flows: u16,
    port: u16,
    /// The checksum of all that does not change, for IPv6, where UDP has to have one (RFC 8200
    /// section 8.1).
    fixed_sum: Option<u32>,
}

/// The longest frame: that of the usual jumbo MTU.
const LONGEST: u16 = 9000;

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))).sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

impl Template {
    /// The first frame of a run.
    pub fn new(shape: &Shape) -> Result<Self, ShapeError> {
        let (ip_header, v6) = match (shape.source.ip(), shape.destination.ip()) {
            (IpAddr::V4(_), IpAddr::V4(_)) => (20, false),
            (IpAddr::V6(_), IpAddr::V6(_)) => (40, true),
            (from, to) => return Err(ShapeError::Families(from, to)),
        };
        let link = if shape.vlan.is_some() { 18 } else { 14 };
        let udp = link + ip_header;
        let mark = udp + 8;
        let least = (mark + MARK).max(60);
        if usize::from(shape.bytes) < least || shape.bytes > LONGEST {
            return Err(ShapeError::Length { bytes: shape.bytes, least });
        }
        if let Some(vlan) = shape.vlan.filter(|v| !(1..=4094).contains(v)) {
            return Err(ShapeError::Vlan(vlan));
        }
        let ports = 65_536 - u32::from(shape.source.port());
        if shape.flows == 0 || u32::from(shape.flows) > ports {
            return Err(ShapeError::Flows(shape.flows, shape.source.port(), ports));
        }
        let mut bytes = Vec::with_capacity(shape.bytes.into());
        bytes.extend_from_slice(&shape.hardware[1]);
        bytes.extend_from_slice(&shape.hardware[0]);
        if let Some(vlan) = shape.vlan {
            bytes.extend_from_slice(&[0x81, 0x00]);
            bytes.extend_from_slice(&vlan.to_be_bytes());
        }
        bytes.extend_from_slice(if v6 { &[0x86, 0xdd] } else { &[0x08, 0x00] });
        network_header(&mut bytes, shape, shape.bytes - link as u16);
        let length = shape.bytes - udp as u16;
        bytes.extend_from_slice(&shape.source.port().to_be_bytes());
        bytes.extend_from_slice(&shape.destination.port().to_be_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(&MAGIC);
        bytes.resize(shape.bytes.into(), 0);
        let fixed_sum = v6.then(|| {
            let addresses = &bytes[link + 8..link + 40];
            // The source port counts anew in each frame.
            sum(addresses) + u32::from(length) + 17 + sum(&bytes[udp + 2..])
        });
        Ok(Self { bytes, udp, mark, flows: shape.flows, port: shape.source.port(), fixed_sum })
    }

    /// The template's bytes: a frame with id and time 0.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where changing bytes are, for a program that writes them itself.
    pub const fn layout(&self) -> Layout {
        Layout {
            udp: self.udp as u32,
            mark: self.mark as u32,
            flows: self.flows,
            port: self.port,
            fixed_sum: self.fixed_sum,
        }
    }

    /// Makes `frame`, a copy of the template, the one with this mark.
    pub fn write(&self, frame: &mut [u8], mark: Mark) {
        let port = self.port + (mark.id % u64::from(self.flows)) as u16;
        frame[self.udp..self.udp + 2].copy_from_slice(&port.to_be_bytes());
        let at = self.mark + MAGIC.len();
        frame[at..at + 8].copy_from_slice(&mark.id.to_be_bytes());
        frame[at + 8..at + 16].copy_from_slice(&mark.sent_ns.to_be_bytes());
        if let Some(fixed) = self.fixed_sum {
            let whole = fixed + u32::from(port) + sum(&frame[at..at + 16]);
            // A checksum of zero is sent as all ones (RFC 768).
            let checksum = match !folded(whole) {
                0 => 0xffff,
                checksum => checksum,
            };
            frame[self.udp + 6..self.udp + 8].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

/// Where a frame's changing bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub udp: u32,
    pub mark: u32,
    pub flows: u16,
    pub port: u16,
    pub fixed_sum: Option<u32>,
}

fn network_header(bytes: &mut Vec<u8>, shape: &Shape, length: u16) {
    const HOPS: u8 = 64;
    const UDP: u8 = 17;
    let start = bytes.len();
    match (shape.source.ip(), shape.destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.extend_from_slice(&[0x45, 0]);
            bytes.extend_from_slice(&length.to_be_bytes());
            // No id and "do not fragment" (RFC 6864).
            bytes.extend_from_slice(&[0, 0, 0x40, 0, HOPS, UDP, 0, 0]);
            bytes.extend_from_slice(&from.octets());
            bytes.extend_from_slice(&to.octets());
            let checksum = !folded(sum(&bytes[start..]));
            bytes[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
        }
        (from, to) => {
            bytes.extend_from_slice(&[0x60, 0, 0, 0]);
            bytes.extend_from_slice(&(length - 40).to_be_bytes());
            bytes.extend_from_slice(&[UDP, HOPS]);
            for address in [from, to] {
                if let IpAddr::V6(address) = address {
                    bytes.extend_from_slice(&address.octets());
                }
            }
        }
    }
}

/// The mark of a received frame, Ethernet header first; `None` where it is not one of ours.
pub fn mark_of(frame: &[u8]) -> Option<Mark> {
    let half = |at: usize| frame.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    let (kind, ip) = match half(12)? {
        0x8100 | 0x88a8 => (half(16)?, 18),
        kind => (kind, 14),
    };
    let udp = match kind {
        0x0800 if *frame.get(ip + 9)? == 17 => ip + usize::from(frame.get(ip)? & 0xf) * 4,
        0x86dd if *frame.get(ip + 6)? == 17 => ip + 40,
        _ => return None,
    };
    let mark = frame.get(udp + 8..udp + 8 + MARK)?;
    let long = |at: usize| mark[at..at + 8].try_into().ok().map(u64::from_be_bytes);
    if mark[..2] != MAGIC {
        return None;
    }
    Some(Mark { id: long(2)?, sent_ns: long(10)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::{LinkType, Packet, Reassembly};

    fn shape(v6: bool, bytes: u16, vlan: Option<u16>, flows: u16) -> Shape {
        let (source, destination) = match v6 {
            true => ("[fd77::1]:9000", "[fd77::2]:9"),
            false => ("10.77.0.1:9000", "10.77.0.2:9"),
        };
        Shape {
            bytes,
            hardware: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
            vlan,
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            flows,
        }
    }

    proptest! {
        #[test]
        fn a_frame_is_what_the_parser_of_packets_reads(
            v6: bool, bytes in 84u16..=9000, vlan in prop::option::of(1u16..4095), flows in 1u16..50, id: u64, sent_ns: u64,
        ) {
            let template = Template::new(&shape(v6, bytes, vlan, flows)).unwrap();
            let mut frame = template.bytes().to_vec();
            template.write(&mut frame, Mark { id, sent_ns });
            prop_assert_eq!(frame.len(), usize::from(bytes));
            prop_assert_eq!(mark_of(&frame), Some(Mark { id, sent_ns }));
            let at = clock::Instant::from_nanos(1);
            let seen = wire::Frame::new(1, at, LinkType::ETHERNET, &frame);
            let Ok(Packet::Udp(udp)) = wire::dissect(&seen, &mut Reassembly::new()) else {
                return Err(TestCaseError::fail("no UDP"));
            };
            prop_assert_eq!(udp.source.port(), 9000 + (id % u64::from(flows)) as u16);
            if v6 {
                let udp = if vlan.is_some() { 18 } else { 14 } + 40;
                let header = udp - 40;
                let whole = sum(&frame[header + 8..header + 40]) + u32::from(bytes - udp as u16) + 17 + sum(&frame[udp..]);
                prop_assert_eq!(folded(whole), 0xffff);
            }
        }

        #[test]
        fn foreign_bytes_are_no_mark_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = mark_of(&bytes);
        }
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        assert_eq!(Template::new(&shape(false, 59, None, 1)), Err(ShapeError::Length { bytes: 59, least: 60 }));
        assert_eq!(Template::new(&shape(true, 79, None, 1)), Err(ShapeError::Length { bytes: 79, least: 80 }));
        assert_eq!(Template::new(&shape(true, 83, Some(5), 1)), Err(ShapeError::Length { bytes: 83, least: 84 }));
        assert_eq!(Template::new(&shape(false, 9001, None, 1)), Err(ShapeError::Length { bytes: 9001, least: 60 }));
        assert_eq!(Template::new(&shape(false, 100, Some(4095), 1)), Err(ShapeError::Vlan(4095)));
        assert!(matches!(Template::new(&shape(false, 100, None, 0)), Err(ShapeError::Flows(0, ..))));
    }
}
