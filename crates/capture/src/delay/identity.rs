//! What shows that two frames, seen before and after a device, are the same one.

use std::hash::{Hash as _, Hasher as _};

use crate::generate::mark_of;

/// How frames are recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// By the id that `generate` puts into each.
    #[default]
    Id,
    /// By what a device does not change: everything but hardware addresses, VLAN tags, DSCP and
    /// ECN, TTL, and checksums.
    Content {
        /// Whether the device translates addresses (NAT): addresses and ports are excluded too.
        translated: bool,
    },
}

/// Distinguishes frames. Two frames with equal keys are taken for the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

/// What the keys of parts of frames have beside their hash.
const PART: u64 = 1 << 63;

impl Key {
    /// Of a part of a frame, by its place in its flow.
    pub(crate) const fn of_part(hash: u64) -> Self {
        Self(hash | PART)
    }

    /// Whether a retransmission of the same bytes has the same key.
    pub(crate) const fn is_part(self) -> bool {
        self.0 & PART != 0
    }
}

impl Identity {
    /// The key of a frame, Ethernet header first; `None` for a frame that this identity does not
    /// recognise: without an id, or neither IPv4 nor IPv6.
    pub fn key(self, frame: &[u8]) -> Option<Key> {
        match self {
            Self::Id => mark_of(frame).map(|mark| Key(mark.id & !PART)),
            Self::Content { translated } => content(frame, translated),
        }
    }
}

/// A hasher without a seed: the same bytes give the same key in every process.
pub(crate) type Hasher = std::hash::DefaultHasher;

/// The type of the packet that an Ethernet frame carries, and where it begins: beneath VLAN tags
/// and MPLS labels, which devices push and pop.
pub(crate) fn packet(frame: &[u8]) -> Option<(u16, usize)> {
    let half = |at: usize| frame.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    let (mut kind, mut at) = (half(12)?, 14);
    while matches!(kind, 0x8100 | 0x88a8) {
        (kind, at) = (half(at + 2)?, at + 4);
    }
    if matches!(kind, 0x8847 | 0x8848) {
        while frame.get(at + 2)? & 1 == 0 {
            at += 4;
        }
        at += 4;
        // No label says what is beneath: the packet's own version does.
        kind = match frame.get(at)? >> 4 {
            4 => 0x0800,
            6 => 0x86dd,
            _ => return None,
        };
    }
    Some((kind, at))
}

/// The hosts that a frame is from and for, as hashes of their addresses.
pub(crate) fn hosts(frame: &[u8]) -> Option<[u64; 2]> {
    let (kind, at) = packet(frame)?;
    let addresses = match kind {
        0x0800 => frame.get(at + 12..at + 20)?,
        0x86dd => frame.get(at + 8..at + 40)?,
        _ => return None,
    };
    let (from, to) = addresses.split_at(addresses.len() / 2);
    Some([from, to].map(|address| {
        let mut hasher = Hasher::new();
        address.hash(&mut hasher);
        hasher.finish()
    }))
}

fn content(frame: &[u8], translated: bool) -> Option<Key> {
    let (kind, ip) = packet(frame)?;
    let mut hasher = Hasher::new();
    match kind {
        0x0800 => ipv4(frame.get(ip..)?, translated, &mut hasher)?,
        0x86dd => ipv6(frame.get(ip..)?, translated, &mut hasher)?,
        _ => return None,
    }
    Some(Key(hasher.finish() & !PART))
}

fn ipv4(packet: &[u8], translated: bool, hasher: &mut Hasher) -> Option<()> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let length = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    // Length, identification and fragment, then the protocol: neither DSCP and ECN, nor TTL, nor
    // the checksum between them.
    packet.get(2..8)?.hash(hasher);
    packet.get(9)?.hash(hasher);
    if !translated {
        packet.get(12..20)?.hash(hasher);
    }
    packet.get(20..header)?.hash(hasher);
    // A later fragment has no transport header.
    let first = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff == 0;
    let payload = packet.get(header..length.min(packet.len()))?;
    transport(packet[9], first, payload, translated, hasher);
    Some(())
}

fn ipv6(packet: &[u8], translated: bool, hasher: &mut Hasher) -> Option<()> {
    let length = usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
    // The flow label's 20 bits and the length, then the next header: neither the traffic class nor
    // the hop limit.
    (packet[1] & 0xf, packet.get(2..7)?).hash(hasher);
    if !translated {
        packet.get(8..40)?.hash(hasher);
    }
    let payload = packet.get(40..(40 + length).min(packet.len()))?;
    transport(packet[6], true, payload, translated, hasher);
    Some(())
}

/// TCP and UDP without their checksum, and without ports where those are translated.
fn transport(protocol: u8, first: bool, payload: &[u8], translated: bool, hasher: &mut Hasher) {
    let checksum = match protocol {
        6 if first => 16,
        17 if first => 6,
        _ => {
            payload.hash(hasher);
            return;
        }
    };
    let from = if translated { 4 } else { 0 };
    payload.get(from..checksum.min(payload.len())).hash(hasher);
    payload.get(checksum + 2..).hash(hasher);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A TCP segment over IPv4: addresses and ports at 26 to 38.
    fn segment() -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
        frame.extend([0x45, 0, 0, 50, 1, 2, 0x40, 0, 64, 6, 0xaa, 0xbb, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x1f, 0x90, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0xcc, 0xdd, 0, 0]);
        frame.extend(*b"0123456789");
        frame
    }

    fn key(frame: &[u8], translated: bool) -> Key {
        Identity::Content { translated }.key(frame).unwrap()
    }

    #[test]
    fn what_a_router_changes_leaves_the_key_as_it_is() {
        let before = segment();
        let mut after = before.clone();
        after[..12].fill(9);
        after[15] = 0xb8;
        after[22] = 63;
        after[24..26].fill(0);
        after[50..52].fill(0);
        assert_eq!(key(&before, false), key(&after, false));
        // A tag that is put on, and padding behind the packet.
        after.splice(12..12, [0x81, 0x00, 0, 5]);
        after.extend([0; 6]);
        assert_eq!(key(&before, false), key(&after, false));
        // Two labels of MPLS in place of the packet's type.
        after.splice(16..18, [0x88, 0x47, 0, 1, 0x20, 63, 0, 1, 0x31, 63]);
        assert_eq!(key(&before, false), key(&after, false));
        assert_eq!(hosts(&before), hosts(&after));
    }

    #[test]
    fn translated_addresses_and_ports_are_the_same_frame_only_where_that_is_said() {
        let before = segment();
        let mut after = before.clone();
        after[26..30].copy_from_slice(&[192, 0, 2, 1]);
        after[34..36].copy_from_slice(&[0x77, 0x77]);
        assert_ne!(key(&before, false), key(&after, false));
        assert_eq!(key(&before, true), key(&after, true));
    }

    #[test]
    fn another_byte_of_payload_or_header_is_another_frame() {
        let before = segment();
        for at in [18, 23, 26, 34, 38, 47, 54, 63] {
            let mut other = before.clone();
            other[at] ^= 1;
            assert_ne!(key(&before, false), key(&other, false), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn no_frame_is_too_foreign(bytes in prop::collection::vec(any::<u8>(), 0..100), translated: bool) {
            let _ = Identity::Content { translated }.key(&bytes);
            let _ = Identity::Id.key(&bytes);
        }
    }
}
