//! Numbers that payloads of UDP carry: RTP (RFC 3550), the datagrams of `wirelapse udp` and
//! `generate`, of iperf3 (`iperf_udp.c`) and of irtt (`packet.go`).
//!
//! Only some of these have a mark that nothing else has. Whoever reads a datagram as numbered has
//! to see that the next one goes on with its number.

use record::udp::Numbering;

use super::address::{be16, be32};

/// A number that a payload seems to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// By whom.
    pub by: Numbering,
    /// Which stream of its sender it is of: RTP's SSRC, irtt's token; 0 where there is no such
    /// thing.
    pub stream: u64,
    /// The number.
    pub number: u64,
    /// How many bits of it there are: it begins at 0 again beyond.
    pub bits: u8,
    /// When it was sent, in ns on a clock of the sender, where it says so.
    pub sent_ns: Option<u64>,
    /// RTP's payload type and timestamp.
    pub rtp: Option<(u8, u32)>,
}

/// RTCP's packet types without their upper bit (RFC 5761, section 4): no payload types of RTP.
const RTCP: std::ops::RangeInclusive<u8> = 64..=95;

fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|eight| u64::from_be_bytes(*eight))
}

impl Numbered {
    /// Reads the beginning of a payload of so many bytes.
    #[inline]
    pub fn parse(head: &[u8], payload: u32) -> Option<Self> {
        let blank = Self { by: Numbering::Rtp, stream: 0, number: 0, bits: 64, sent_ns: None, rtp: None };
        match head {
            [b'W', b'L', b'U', b'D', ..] => {
                let (number, sent_ns) = (be64(head, 8)?, be64(head, 16));
                Some(Self { by: Numbering::Wirelapse, number, sent_ns, ..blank })
            }
            [b'W', b'L', ..] => {
                let (number, sent_ns) = (be64(head, 2)?, be64(head, 10));
                Some(Self { by: Numbering::Generate, number, sent_ns, ..blank })
            }
            [0x14, 0xa7, 0x5b, flags, ..] => irtt(*flags, head, blank),
            [first, ..] if first >> 6 == 2 => rtp(head, payload, blank),
            _ => iperf3(head, payload, blank),
        }
    }
}

fn rtp(head: &[u8], payload: u32, blank: Numbered) -> Option<Numbered> {
    let header = head.first_chunk::<12>()?;
    let kind = header[1] & 0x7f;
    let sources = u32::from(header[0] & 0xf) * 4;
    if RTCP.contains(&kind) || 12 + sources > payload {
        return None;
    }
    let (stream, number) = (be32(header, 8).into(), be16(header, 2).into());
    Some(Numbered { stream, number, bits: 16, rtp: Some((kind, be32(header, 4))), ..blank })
}

/// Seconds and microseconds, and a counter from 1 of 32 bits, or of 64 (`--udp-counters-64bit`),
/// whose upper half is 0.
fn iperf3(head: &[u8], payload: u32, blank: Numbered) -> Option<Numbered> {
    let header = head.first_chunk::<12>()?;
    let (seconds, micros) = (u64::from(be32(header, 0)), u64::from(be32(header, 4)));
    if micros >= 1_000_000 {
        return None;
    }
    let (number, bits) = match be32(header, 8) {
        0 if payload >= 16 => (be64(head, 8)?, 64),
        number => (number.into(), 32),
    };
    let sent_ns = Some(seconds * 1_000_000_000 + micros * 1_000);
    (number > 0).then_some(Numbered { by: Numbering::Iperf3, number, bits, sent_ns, ..blank })
}

/// Little-endian; a request that opens or closes a session has no number.
fn irtt(flags: u8, head: &[u8], blank: Numbered) -> Option<Numbered> {
    const OPEN: u8 = 1;
    const CLOSE: u8 = 4;
    const SIGNED: u8 = 8;
    if flags & (OPEN | CLOSE) != 0 || flags > 15 {
        return None;
    }
    let token = if flags & SIGNED == 0 { 4 } else { 20 };
    let stream = head.get(token..)?.first_chunk().map(|token| u64::from_le_bytes(*token))?;
    let number = head.get(token + 8..)?.first_chunk().map(|number| u32::from_le_bytes(*number))?;
    Some(Numbered { by: Numbering::Irtt, stream, number: number.into(), bits: 32, ..blank })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(payload: &[u8]) -> Option<(Numbering, u64, u64, Option<u64>)> {
        Numbered::parse(payload, payload.len() as u32).map(|n| (n.by, n.stream, n.number, n.sent_ns))
    }

    #[test]
    fn each_kind_has_its_number() {
        let rtp = [0x80, 0x80 | 96, 1, 2, 0, 0, 0, 9, 0xde, 0xad, 0xbe, 0xef, 7];
        assert_eq!(number(&rtp), Some((Numbering::Rtp, 0xdead_beef, 0x0102, None)));
        assert_eq!(Numbered::parse(&rtp, 13).and_then(|n| n.rtp), Some((96, 9)));
        let own = [b"WLUD\0\0\0\0".as_slice(), &5u64.to_be_bytes(), &77u64.to_be_bytes()].concat();
        assert_eq!(number(&own), Some((Numbering::Wirelapse, 0, 5, Some(77))));
        let generated = [b"WL".as_slice(), &6u64.to_be_bytes(), &78u64.to_be_bytes()].concat();
        assert_eq!(number(&generated), Some((Numbering::Generate, 0, 6, Some(78))));
        let narrow = [2u32, 5, 9, 0xffff].map(u32::to_be_bytes).concat();
        assert_eq!(number(&narrow), Some((Numbering::Iperf3, 0, 9, Some(2_000_005_000))));
        let wide = [2u32, 5, 0, 9].map(u32::to_be_bytes).concat();
        assert_eq!(number(&wide), Some((Numbering::Iperf3, 0, 9, Some(2_000_005_000))));
        let irtt = [&[0x14, 0xa7, 0x5b, 2][..], &3u64.to_le_bytes(), &4u32.to_le_bytes()].concat();
        assert_eq!(number(&irtt), Some((Numbering::Irtt, 3, 4, None)));
        let signed = [&[0x14, 0xa7, 0x5b, 10][..], &[1; 16], &3u64.to_le_bytes(), &4u32.to_le_bytes()].concat();
        assert_eq!(number(&signed), Some((Numbering::Irtt, 3, 4, None)));
    }

    #[test]
    fn what_is_none_of_them_has_no_number() {
        // RTCP, a list of sources longer than the datagram, microseconds beyond a second, an
        // opening of irtt.
        for payload in [
            &[0x80, 200, 0, 6, 0, 0, 0, 1, 0, 0, 0, 2][..],
            &[0x8f, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2],
            &[0, 0, 0, 1, 0xff, 0, 0, 1, 0, 0, 0, 2],
            &[0x14, 0xa7, 0x5b, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1],
        ] {
            assert_eq!(number(payload), None, "{payload:?}");
        }
        let own = [b"WLUD\0\0\0\0".as_slice(), &5u64.to_be_bytes(), &77u64.to_be_bytes()].concat();
        (0..16).for_each(|cut| assert_eq!(number(&own[..cut]), None));
    }
}
