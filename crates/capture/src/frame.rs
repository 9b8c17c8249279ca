//! A received frame with the timestamps that it carries.

use std::borrow::Cow;

use clock::{Phc, Realtime, Timestamp};

/// An IEEE 802.1Q tag that the kernel took out of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// The tag protocol identifier: 0x8100 for 802.1Q, 0x88a8 for 802.1ad.
    pub protocol: u16,
    /// The tag control information: priority, drop eligibility and VLAN id.
    pub control: u16,
}

/// One frame as a technique received it.
///
/// Frames of one batch borrow the technique's own memory: copy what is to be kept.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The bytes that were kept, link-layer header first, without the tag in `vlan`.
    pub data: &'a [u8],
    /// Length on the wire in bytes, without the tag in `vlan`; larger than `data` where the snap
    /// length cut the frame.
    pub original_length: u32,
    /// When the kernel (or our XDP program) received it; `None` where it was not asked for or not
    /// given.
    pub software: Option<Timestamp<Realtime>>,
    /// When the NIC received it, by the NIC's own clock; `None` where it was not asked for or not
    /// given.
    pub hardware: Option<Timestamp<Phc>>,
    /// The VLAN tag that is not in `data`.
    pub vlan: Option<Vlan>,
    /// Whether this host sent it.
    pub outgoing: bool,
    /// The receive queue, where the technique knows it.
    pub queue: Option<u32>,
}

/// Bytes of the two MAC addresses in front of an Ethernet frame's type, where a VLAN tag belongs.
const ADDRESSES: usize = 12;

impl<'a> Frame<'a> {
    /// The bytes of the frame as they were on the wire: with the VLAN tag at its place. Copies only
    /// where there is one.
    pub fn bytes(&self) -> Cow<'a, [u8]> {
        let Some((vlan, (addresses, rest))) = self.vlan.zip(self.data.split_at_checked(ADDRESSES)) else {
            return Cow::Borrowed(self.data);
        };
        let mut whole = Vec::with_capacity(self.data.len() + 4);
        whole.extend_from_slice(addresses);
        whole.extend_from_slice(&vlan.protocol.to_be_bytes());
        whole.extend_from_slice(&vlan.control.to_be_bytes());
        whole.extend_from_slice(rest);
        Cow::Owned(whole)
    }

    /// Length on the wire in bytes, with the VLAN tag.
    pub const fn wire_length(&self) -> u32 {
        self.original_length + if self.vlan.is_some() { 4 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(data: &[u8], vlan: Option<Vlan>) -> Frame<'_> {
        let original_length = data.len() as u32;
        Frame { data, original_length, software: None, hardware: None, vlan, outgoing: false, queue: None }
    }

    #[test]
    fn a_tag_goes_back_between_the_addresses_and_the_type() {
        let data: Vec<u8> = (0..20).collect();
        let tagged = frame(&data, Some(Vlan { protocol: 0x8100, control: 0x2005 }));
        let bytes = tagged.bytes();
        assert_eq!(bytes[..12], data[..12]);
        assert_eq!(bytes[12..16], [0x81, 0x00, 0x20, 0x05]);
        assert_eq!(bytes[16..], data[12..]);
        assert_eq!(tagged.wire_length(), 24);
    }

    #[test]
    fn a_frame_without_a_tag_or_too_short_for_one_is_borrowed() {
        assert!(matches!(frame(&[1; 60], None).bytes(), Cow::Borrowed(_)));
        assert!(matches!(frame(&[1; 3], Some(Vlan { protocol: 0x8100, control: 1 })).bytes(), Cow::Borrowed(_)));
    }
}
