//! MPLS labels (RFC 3032).

use super::span::{Layer, NotDecoded, Span};

/// Labels on one packet at most; more are a mistake.
const MOST: usize = 16;

/// What the labels stand before.
pub(super) enum Below {
    /// IP, by its version.
    Ip,
    /// An Ethernet frame behind a control word (RFC 4448).
    Ethernet,
}

/// Passes the labels.
pub(super) fn open(mut span: Span<'_>) -> Result<(Below, Span<'_>), NotDecoded> {
    for _ in 0..MOST {
        let label = *span.header::<4>(Layer::Mpls)?;
        span = span.skip(4);
        if label[2] & 1 == 0 {
            continue;
        }
        // Nothing says what comes; the first four bits show IP, or the zeros of a control word.
        return match span.header::<1>(Layer::Mpls)?[0] >> 4 {
            4 | 6 => Ok((Below::Ip, span)),
            0 => Ok((Below::Ethernet, span.skip(4))),
            _ => Err(NotDecoded::Malformed(Layer::Mpls)),
        };
    }
    Err(NotDecoded::Depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_end_at_the_bottom_of_the_stack() {
        let two = [0, 1, 0x00, 64, 0, 2, 0x01, 64, 0x45];
        assert!(matches!(open(Span::whole(&two)), Ok((Below::Ip, rest)) if rest.data == [0x45]));
        let wire = [0, 2, 0x01, 64, 0, 0, 0, 0, 0xaa];
        assert!(matches!(open(Span::whole(&wire)), Ok((Below::Ethernet, rest)) if rest.data == [0xaa]));
        assert_eq!(open(Span::whole(&[0; 80])).err(), Some(NotDecoded::Depth));
    }
}
