//! IEEE 802.11 data frames, and the headers that drivers put before them.

use super::address::{be16, be32};
use super::span::{Layer, NotDecoded, Span};

/// Skips a radiotap header.
pub(super) fn radiotap(span: Span<'_>) -> Result<Span<'_>, NotDecoded> {
    let header = span.header::<4>(Layer::Wireless)?;
    Ok(span.skip(usize::from(u16::from_le_bytes([header[2], header[3]]))))
}

/// Skips a Prism header, or the AVS header that has taken its place and says its length.
pub(super) fn prism(span: Span<'_>) -> Result<Span<'_>, NotDecoded> {
    let header = span.header::<8>(Layer::Wireless)?;
    let is_avs = be32(header, 0) >> 12 == 0x8_0211;
    Ok(span.skip(if is_avs { be32(header, 4) as usize } else { 144 }))
}

/// The EtherType of a data frame's payload, and that.
pub(super) fn open(span: Span<'_>) -> Result<(u16, Span<'_>), NotDecoded> {
    let control = *span.header::<2>(Layer::Wireless)?;
    let (kind, subtype) = (control[0] >> 2 & 3, control[0] >> 4);
    // Management, control, and data frames without data.
    if kind != 2 || subtype & 4 != 0 {
        return Err(NotDecoded::Wireless);
    }
    if control[1] & 0x40 != 0 {
        return Err(NotDecoded::Encrypted);
    }
    let mut length = if control[1] & 3 == 3 { 30 } else { 24 };
    if subtype & 8 != 0 {
        length += 2;
        // A field for high throughput, where the order bit is set on QoS data.
        length += if control[1] & 0x80 != 0 { 4 } else { 0 };
    }
    let rest = span.skip(length);
    let snap = rest.header::<8>(Layer::Wireless)?;
    if snap[..3] != [0xaa, 0xaa, 3] {
        return Err(NotDecoded::Wireless);
    }
    Ok((be16(snap, 6), rest.skip(8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_frames_are_opened_and_others_counted() {
        let mut qos = vec![0x88, 0x01];
        qos.extend([0; 24]);
        qos.extend([0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45]);
        let (kind, rest) = open(Span::whole(&qos)).unwrap();
        assert_eq!((kind, rest.data), (0x0800, &[0x45][..]));
        let tapped = [&[0, 0, 8, 0, 0, 0, 0, 0][..], &qos].concat();
        assert_eq!(radiotap(Span::whole(&tapped)).unwrap().data, &qos[..]);
        qos[1] |= 0x40;
        assert_eq!(open(Span::whole(&qos)).err(), Some(NotDecoded::Encrypted));
        assert_eq!(open(Span::whole(&[0x80; 40])).err(), Some(NotDecoded::Wireless));
    }
}
